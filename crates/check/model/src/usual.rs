//! The protocol's short way for usual frames beside its long one: both must leave the same state.

use crate::history::Message;
use crate::network::digest;
use gigae_proto::{Arrival, DataFrame, PeerId, Protocol};
use gigae_wire::Discard;

/// Takes in a frame by the short way, if that takes it.
///
/// # Panics
/// If the long way would have done something else.
pub(crate) fn handle(
    proto: &mut Protocol<Message, Message>,
    arrival: Arrival<'_>,
    buffer: &mut Option<Message>,
) -> Result<(), Discard> {
    let Some(message) = *buffer else { return proto.handle(arrival, buffer) };
    let mut by_long_way = proto.clone();
    match proto.handle_next(&arrival, message) {
        Ok(delivery) => {
            assert!(delivery.is_none(), "only operations are delivered at once");
            let taken = by_long_way.handle(arrival, buffer);
            assert_eq!((taken, &*buffer), (Ok(()), &None), "{arrival:?}");
            assert_eq!(digest(proto), digest(&by_long_way), "{arrival:?}");
            Ok(())
        }
        Err(_) => {
            assert_eq!(digest(proto), digest(&by_long_way), "it was not taken: {arrival:?}");
            proto.handle(arrival, buffer)
        }
    }
}

/// Sends a message both ways, with copies of the protocol.
///
/// # Panics
/// If the short way takes it and does not do as the long one.
pub(crate) fn compare_sending(proto: &Protocol<Message, Message>, peer: PeerId, message: Message) {
    let (mut short, mut long) = (proto.clone(), proto.clone());
    let sent = match short.send_at_once(peer, 1, message) {
        Ok(DataFrame { to, path, in_parts, header, .. }) => (to, path, in_parts, header),
        Err(_) => return assert_eq!(digest(&short), digest(proto), "it was not taken"),
    };
    long.send(peer, 1, message).expect("there is room");
    let DataFrame { to, path, in_parts, header, .. } = long.poll_data().expect("it may go");
    assert_eq!(sent, (to, path, in_parts, header));
    assert!(long.poll_data().is_none(), "nothing else waits");
    assert_eq!(digest(&short), digest(&long));
}
