//! Messages that are transmitted as they are admitted, and frames that are delivered as they come.
//! That these do to a session what the longer ways do is checked by `crates/check/model`.
#![allow(missing_docs)]

mod world;

use gigae_proto::{Arrival, DataFrame, ProtocolConfig};
use gigae_sim::Faults;
use gigae_wire::{Header, Kind, PathId};
use std::time::Duration;
use world::World;

/// Two nodes with a session; everything is acknowledged.
fn established(config: &ProtocolConfig) -> World {
    let mut w = World::pair(Faults::default(), config);
    establish(&mut w);
    w
}

fn establish(w: &mut World) {
    w.send(0, 1, b"first");
    w.send(1, 0, b"first");
    w.run(Duration::from_secs(1));
    assert_eq!((w.received(0).len(), w.received(1).len()), (1, 1));
}

/// Sends a message at once; its header. `None` if it would have to wait.
fn send(w: &mut World, body: &[u8]) -> Option<Header> {
    let peer = w.peer(0, 1);
    let len = u16::try_from(body.len()).unwrap();
    let proto = &mut w.nodes[0].proto;
    if !proto.may_send_at_once(peer, len) {
        return None;
    }
    let DataFrame { to, path, in_parts, first, header, buffer } =
        proto.send_at_once(peer, len, body.to_vec());
    assert_eq!((to, path, in_parts, &buffer[..]), (peer, PathId::FIRST, false, body));
    assert!(!first);
    Some(header)
}

/// Lets the second node take in a frame of the first, as the next of its session. Whether it was
/// taken so, and whether its operations were delivered at once.
fn arrive(w: &mut World, header: &Header) -> (bool, bool) {
    let (_, mac) = w.nodes[0].links[0];
    let arrival = Arrival { path: PathId::FIRST, from: &mac.into(), header, payload: &[] };
    match w.nodes[1].proto.handle_next(&arrival, vec![7]) {
        Ok(delivery) => (true, delivery.is_some()),
        Err(_) => (false, false),
    }
}

#[test]
fn a_message_goes_at_once_and_is_acknowledged_like_any_other() {
    let mut w = established(&ProtocolConfig::default());
    let header = send(&mut w, b"second").expect("nothing waits");
    assert_eq!(header.kind, Kind::Data);
    assert!(w.nodes[0].proto.poll_transmit().is_none(), "it has gone");
    assert_eq!(arrive(&mut w, &header), (true, false));
    assert!(w.nodes[0].proto.has_unacknowledged());
    w.run(Duration::from_secs(1));
    assert!(!w.nodes[0].proto.has_unacknowledged());
    assert_eq!(w.nodes[0].proto.counters().retransmissions, 0);
}

#[test]
fn a_message_that_goes_at_once_is_repeated_if_it_is_lost() {
    let mut w = established(&ProtocolConfig::default());
    send(&mut w, b"lost").expect("nothing waits");
    w.run(Duration::from_secs(1));
    assert_eq!(w.received(1), [b"first", &b"lost"[..]]);
    assert_eq!(w.nodes[0].proto.counters().retransmissions, 1);
}

#[test]
fn no_message_overtakes_one_that_waits() {
    let mut w = established(&ProtocolConfig::default());
    w.send(0, 1, b"second");
    assert!(send(&mut w, b"third").is_none());
    w.run(Duration::from_secs(1));
    assert!(send(&mut w, b"third").is_some());
}

#[test]
fn a_message_waits_for_credit_and_for_the_session() {
    let mut w = World::pair(Faults::default(), &ProtocolConfig::default());
    assert!(send(&mut w, b"no session").is_none());
    let mut w = established(&ProtocolConfig::default());
    let sent = (0..2000).take_while(|_| send(&mut w, b"stream").is_some()).count();
    assert!((1..2000).contains(&sent), "{sent} without an acknowledgement");
}

#[test]
fn several_links_do_not_matter_where_only_the_first_would_be_used() {
    let config = ProtocolConfig::default();
    let mut two = World::with_links(&[2, 2], 1, Faults::default(), &config);
    establish(&mut two);
    assert!(send(&mut two, b"second").is_none(), "it may go by either");
    let peer = two.peer(0, 1);
    two.nodes[0].proto.keep_to_first(peer);
    assert!(send(&mut two, b"second").is_some());
    let mut one_end = World::with_links(&[2, 1], 1, Faults::default(), &config);
    establish(&mut one_end);
    assert!(send(&mut one_end, b"second").is_some());
    for has in [[true, true], [true, false]] {
        let mut socket = World::with_bulk(has, 1, Faults::default(), &config);
        establish(&mut socket);
        assert!(send(&mut socket, b"second").is_some(), "{has:?}");
    }
}

#[test]
fn a_message_that_goes_at_once_takes_the_place_of_a_question() {
    let mut w = established(&ProtocolConfig::default());
    let peer = w.peer(0, 1);
    w.nodes[0].proto.ask(peer);
    send(&mut w, b"lost").expect("nothing waits");
    w.run(Duration::from_secs(1));
    let counters = w.nodes[0].proto.counters();
    assert_eq!((counters.retransmissions, counters.probes), (1, 0));
}

#[test]
fn only_the_next_frame_of_a_session_is_delivered_as_it_comes() {
    let mut w = established(&ProtocolConfig::default());
    let headers = [(); 2].map(|()| send(&mut w, b"stream").unwrap());
    assert_eq!(arrive(&mut w, &headers[1]), (false, false), "one is missing");
    let stranger = Header { src_port: 9, ..headers[0] };
    assert_eq!(arrive(&mut w, &stranger), (false, false), "of another session");
    let future = Header { ack: headers[0].ack + 1, ..headers[0] };
    assert_eq!(arrive(&mut w, &future), (false, false), "acknowledges what was never sent");
    assert_eq!(arrive(&mut w, &headers[0]), (true, false));
    assert_eq!(arrive(&mut w, &headers[0]), (false, false), "a duplicate");
    assert_eq!(arrive(&mut w, &headers[1]), (true, false));
}

#[test]
fn operations_are_delivered_at_once_unless_others_wait() {
    let mut w = established(&ProtocolConfig::default());
    let headers = [(); 3].map(|()| Header { kind: Kind::Op, ..send(&mut w, b"op").unwrap() });
    assert_eq!(arrive(&mut w, &headers[0]), (true, true));
    // One that came otherwise.
    let (_, mac) = w.nodes[0].links[0];
    let arrival =
        Arrival { path: PathId::FIRST, from: &mac.into(), header: &headers[1], payload: &[] };
    w.nodes[1].proto.handle(arrival, &mut Some(vec![7])).unwrap();
    assert_eq!(arrive(&mut w, &headers[2]), (true, false));
    let taken = std::iter::from_fn(|| w.nodes[1].proto.poll_operations()).count();
    assert_eq!(taken, 2, "in order");
}

#[test]
fn operations_wait_until_the_program_has_taken_the_end_of_a_session() {
    let mut w = World::new(3, 1, Faults::default(), &ProtocolConfig::default());
    establish(&mut w);
    w.send(2, 1, b"of another session");
    w.run(Duration::from_secs(1));
    w.restart(2);
    w.send(2, 1, b"of its successor");
    w.run(Duration::from_secs(1));
    w.send(0, 1, b"the last frame is of this session");
    w.run(Duration::from_secs(1));
    let headers = [(); 2].map(|()| Header { kind: Kind::Op, ..send(&mut w, b"op").unwrap() });
    assert!(w.nodes[1].proto.has_ended());
    assert_eq!(arrive(&mut w, &headers[0]), (true, false));
    assert!(w.nodes[1].proto.poll_operations().is_some());
    while w.nodes[1].proto.poll_ended().is_some() {}
    assert_eq!(arrive(&mut w, &headers[1]), (true, true));
}
