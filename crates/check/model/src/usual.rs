//! The protocol's short ways for usual frames beside its long ones: both must leave the same state,
//! count the same, and put out the same.

use crate::history::Message;
use crate::network::digest;
use gigae_proto::{Arrival, DataFrame, PeerId, Protocol};
use gigae_wire::{Header, Kind};

/// Takes in a data frame both ways, with copies of the protocol: as it is, and as one with
/// operations.
///
/// # Panics
/// If the short way takes it and does not do as the long one, or refuses it and has an effect.
pub(crate) fn compare_taking(
    proto: &Protocol<Message, Message>,
    arrival: &Arrival<'_>,
    message: Message,
) {
    for kind in [arrival.header.kind, Kind::Op] {
        let arrival = Arrival { header: &Header { kind, ..*arrival.header }, ..*arrival };
        let (mut short, mut long) = (proto.clone(), proto.clone());
        let Ok(operations) = short.handle_next(&arrival, message) else {
            assert_same(&short, proto);
            continue;
        };
        let mut buffer = Some(message);
        assert_eq!((long.handle(arrival, &mut buffer), buffer), (Ok(()), None), "{arrival:?}");
        if let Some(operations) = operations {
            let others = long.poll_operations().expect("they were delivered");
            assert_eq!(digest(&operations), digest(&others), "{arrival:?}");
        }
        assert_same(&short, &long);
    }
}

/// Sends a message both ways, with copies of the protocol: as it is, and after a question whether
/// the peer is there.
///
/// # Panics
/// If the short way takes it and does not do as the long one.
pub(crate) fn compare_sending(proto: &Protocol<Message, Message>, peer: PeerId, message: Message) {
    for asks in [false, true] {
        let mut short = proto.clone();
        if asks {
            short.ask(peer);
        }
        if !short.may_send_at_once(peer, 1) {
            continue;
        }
        let mut long = short.clone();
        let DataFrame { to, path, in_parts, first, header, .. } =
            short.send_at_once(peer, 1, message);
        let sent = (to, path, in_parts, first, header);
        long.send(peer, 1, message).expect("there is room");
        let DataFrame { to, path, in_parts, first, header, .. } =
            long.poll_data().expect("it may go");
        assert_eq!(sent, (to, path, in_parts, first, header));
        assert!(long.poll_data().is_none(), "nothing else waits");
        assert_same(&short, &long);
    }
}

fn assert_same(short: &Protocol<Message, Message>, long: &Protocol<Message, Message>) {
    assert_eq!(digest(short), digest(long));
    assert_eq!(short.counters(), long.counters());
}
