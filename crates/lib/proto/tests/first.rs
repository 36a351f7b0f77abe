//! What goes first, before others in switches, and that nothing is out of order by that
//! (`PROTOCOL.md` §14).
#![allow(missing_docs)]

mod world;

use gigae_proto::ProtocolConfig;
use gigae_sim::Faults;
use gigae_wire::{Flags, Kind};
use oorandom::Rand32;
use std::time::Duration;
use world::{World, micros, quiet};

const LONGEST: usize = 1464;

fn config() -> ProtocolConfig {
    ProtocolConfig { longest_first: Some(LONGEST as u16), ..ProtocolConfig::default() }
}

/// A session that is up, with nothing in flight.
fn warm(config: &ProtocolConfig) -> World {
    warm_with(2, config)
}

/// So many nodes, all of which have a session with the first one.
fn warm_with(nodes: usize, config: &ProtocolConfig) -> World {
    let mut w = World::new(nodes, 1, quiet(), config);
    for node in 1..nodes {
        w.send(0, node, b"warm-up");
        w.send(node, 0, b"warm-up");
    }
    w.run(Duration::from_millis(10));
    for node in &mut w.nodes {
        node.received.clear();
        node.sent.clear();
        node.sent_first.clear();
    }
    w
}

/// A frame of a long message.
fn send_long(w: &mut World, from: usize, to: usize, body: &[u8]) -> bool {
    let peer = w.peer(from, to);
    w.nodes[from].proto.send_operations(peer, body.len() as u16, body.to_vec()).is_ok()
}

/// A frame of a short message.
fn send_short(w: &mut World, from: usize, to: usize, body: &[u8]) -> bool {
    let peer = w.peer(from, to);
    w.nodes[from].proto.send_short_operations(peer, body.len() as u16, body.to_vec()).is_ok()
}

/// Whether each frame of a kind went first.
fn first(w: &World, node: usize, kind: Kind) -> Vec<bool> {
    let node = &w.nodes[node];
    let of_kind = node.sent.iter().zip(&node.sent_first).filter(|(header, _)| header.kind == kind);
    of_kind.map(|(_, &first)| first).collect()
}

#[test]
fn a_short_message_goes_first_and_so_does_its_acknowledgement() {
    let mut w = warm(&config());
    w.send(0, 1, &[7; LONGEST]);
    w.run(Duration::from_millis(10));
    assert!(send_short(&mut w, 0, 1, &[7; LONGEST]));
    w.run(Duration::from_millis(10));
    assert_eq!((first(&w, 0, Kind::Data), first(&w, 0, Kind::Op)), (vec![true], vec![true]));
    assert_eq!(first(&w, 1, Kind::Ack), [true, true]);
}

#[test]
fn nothing_goes_first_unless_that_was_asked_for() {
    let mut w = warm(&ProtocolConfig::default());
    w.send(0, 1, b"short");
    assert!(send_short(&mut w, 0, 1, b"short"));
    w.run(Duration::from_millis(10));
    assert_eq!(w.received(1).len(), 2);
    assert!(w.nodes.iter().all(|node| node.sent_first.iter().all(|first| !first)));
}

#[test]
fn what_is_longer_with_a_tag_than_a_frame_may_be_does_not_go_first() {
    let mut w = warm(&config());
    w.send(0, 1, &[7; LONGEST + 1]);
    w.run(Duration::from_millis(10));
    assert_eq!(first(&w, 0, Kind::Data), [false]);
}

#[test]
fn a_handshake_does_not_go_first() {
    let mut w = World::pair(quiet(), &config());
    w.send(0, 1, b"first");
    w.run(Duration::from_millis(10));
    for (node, kind) in [(0, Kind::Hello), (1, Kind::HelloAck), (0, Kind::Confirm)] {
        assert_eq!(first(&w, node, kind), [false]);
    }
}

/// What a program sends in short messages is as long in all.
#[test]
fn of_many_short_messages_at_once_only_the_last_ones_go_first() {
    let mut w = warm(&config());
    for n in 0..30 {
        w.send(0, 1, &[n; 1000]);
    }
    w.run(Duration::from_millis(10));
    assert!(first(&w, 0, Kind::Data).iter().all(|&first| !first), "others are before them");
    w.send(0, 1, b"alone again");
    w.run(Duration::from_millis(10));
    assert_eq!(first(&w, 0, Kind::Data).last(), Some(&true));
}

/// The short message would wait for the long one at the receiver.
#[test]
fn a_short_message_behind_a_long_one_goes_first_when_that_has_arrived() {
    let mut w = warm(&config());
    assert!(send_long(&mut w, 0, 1, &[7; LONGEST]));
    assert!(send_short(&mut w, 0, 1, b"behind it"));
    w.run(Duration::from_millis(10));
    assert!(send_short(&mut w, 0, 1, b"later"));
    assert!(send_long(&mut w, 0, 1, &[7; LONGEST]));
    w.run(Duration::from_millis(10));
    assert_eq!(first(&w, 0, Kind::Op), [false, false, true, false]);
}

type Send = fn(&mut World, usize, usize, &[u8]) -> bool;

/// A frame that only brings bytes that the peer has asked for.
fn send_loose(w: &mut World, from: usize, to: usize, body: &[u8]) -> bool {
    let peer = w.peer(from, to);
    let len = body.len() as u16;
    w.nodes[from].proto.send_loose_operations(peer, len, false, body.to_vec()).is_ok()
}

#[test]
fn a_short_message_is_carried_out_before_bytes_that_were_asked_for_have_come() {
    let mut w = warm(&config());
    w.nodes[0].behind = 100_000;
    for n in 0..5 {
        assert!(send_loose(&mut w, 0, 1, &[n; LONGEST]));
    }
    w.run(micros(1));
    assert!(send_short(&mut w, 0, 1, b"early"));
    w.run(micros(20));
    assert_eq!(w.received(1), [b"early"]);
    w.run(Duration::from_millis(10));
    assert_eq!(w.received(1).len(), 6);
    assert_eq!(w.nodes[0].sent.iter().filter(|h| h.flags.has(Flags::EARLY)).count(), 1);
    assert_eq!(w.nodes[0].proto.counters().retransmissions, 0, "nothing counts as lost");
    assert!(!w.nodes[0].proto.has_unacknowledged());
}

/// The second is not carried out before the first.
#[test]
fn of_two_short_messages_that_overtake_others_the_first_may_be_lost() {
    for is_lost in [false, true] {
        let mut w = warm(&config());
        w.nodes[0].behind = 100_000;
        assert!(send_loose(&mut w, 0, 1, &[7; LONGEST]));
        w.run(micros(1));
        w.nodes[0].drops_first = is_lost;
        assert!(send_short(&mut w, 0, 1, b"one"));
        w.run(micros(1));
        w.nodes[0].drops_first = false;
        assert!(send_short(&mut w, 0, 1, b"two"));
        w.run(micros(20));
        let early: &[&[u8]] = if is_lost { &[] } else { &[b"one", b"two"] };
        assert_eq!(w.received(1), early);
        w.run(Duration::from_millis(20));
        let order: Vec<usize> = w.received(1).iter().map(|body| body.len()).collect();
        assert_eq!(order, if is_lost { [LONGEST, 3, 3] } else { [3, 3, LONGEST] });
        assert_eq!(w.received(1).iter().filter(|body| body[..] == b"two"[..]).count(), 1);
        let flags: Vec<u8> = w.nodes[0].sent.iter().map(|header| header.flags.back()).collect();
        assert_eq!(flags[..3], [0, 0, 1]);
    }
}

#[test]
fn nothing_overtakes_a_write_or_a_message() {
    for (send, expected) in [(send_long as Send, [1, 2, 3]), (send_short, [2, 3, 1])] {
        let mut w = warm(&config());
        w.nodes[0].behind = 100_000;
        assert!(send_loose(&mut w, 0, 1, &[1; LONGEST]) && send(&mut w, 0, 1, &[2; LONGEST]));
        w.run(micros(1));
        assert!(send_short(&mut w, 0, 1, &[3]));
        w.run(Duration::from_millis(10));
        let order: Vec<u8> = w.received(1).iter().map(|body| body[0]).collect();
        assert_eq!(order, expected);
    }
}

/// A receiver without a reorder window would drop the frame.
#[test]
fn nothing_overtakes_others_to_a_peer_that_goes_back() {
    let mut w = warm(&config().go_back_n());
    w.nodes[0].behind = 100_000;
    assert!(send_loose(&mut w, 0, 1, &[7; LONGEST]) && send_short(&mut w, 0, 1, b"behind"));
    w.run(Duration::from_millis(10));
    assert_eq!(first(&w, 0, Kind::Op), [false, false]);
    assert_eq!(w.nodes[0].proto.counters().retransmissions, 0);
}

/// Whatever is lost, each frame arrives once, and only short messages overtake, and only frames
/// that may be overtaken.
#[test]
fn order_holds_where_frames_are_lost_and_overtaken() {
    let mut overtaken = 0;
    for (seed, shared_credit) in (1..=40).flat_map(|seed| [(seed, false), (seed, true)]) {
        let faults = Faults { loss: 0.02, duplication: 0.01, ..quiet() };
        let config = ProtocolConfig { shared_credit, ..config() };
        let mut w = World::new(2, seed, faults, &config);
        let mut random = Rand32::new(seed);
        w.nodes[0].behind = 60_000;
        let mut sent = Vec::new();
        for n in 0..1_500_u32 {
            let kind = random.rand_range(0..6);
            let mut body = n.to_be_bytes().to_vec();
            let send: Send = match kind {
                0 | 1 => send_short,
                2 => send_long,
                _ => send_loose,
            };
            body.resize(if kind < 2 { 100 } else { LONGEST }, 0);
            if send(&mut w, 0, 1, &body) {
                sent.push((n, kind));
            }
            if random.rand_range(0..3) == 0 {
                w.run(micros(u64::from(random.rand_range(1..100))));
            }
        }
        w.run(Duration::from_secs(2));
        assert!(!w.nodes[0].proto.has_unacknowledged(), "seed {seed}");
        let number = |body: &&[u8]| u32::from_be_bytes(*body.first_chunk().unwrap());
        let came: Vec<u32> = w.received(1).iter().map(number).collect();
        let mut sorted = came.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().eq(sent.iter().map(|(n, _)| n)), "each once, seed {seed}");
        let kind_of = |n: u32| sent[sent.binary_search_by_key(&n, |&(n, _)| n).unwrap()].1;
        for (at, &n) in came.iter().enumerate() {
            for &later in came[at..].iter().filter(|&&later| later < n) {
                overtaken += 1;
                assert!(kind_of(n) < 2 && kind_of(later) > 2, "{n} before {later}, seed {seed}");
            }
        }
    }
    assert!(overtaken > 1_000, "{overtaken}");
}

/// Frames that do not go first wait for long, and are sent at random.
#[test]
fn frames_that_go_first_overtake_none_of_their_session() {
    for (seed, shared_credit) in (1..=20).flat_map(|seed| [(seed, false), (seed, true)]) {
        // Nothing is late.
        let min_rto = Duration::from_millis(50);
        let config = ProtocolConfig { shared_credit, min_rto, ..config() };
        let mut w = World::new(3, seed, quiet(), &config);
        let mut random = Rand32::new(seed);
        w.nodes.iter_mut().for_each(|node| node.behind = 150_000);
        let mut sent = vec![Vec::new(); 3];
        for n in 0..2_000_u32 {
            let from = random.rand_range(1..3) as usize;
            let (from, to) = if random.rand_range(0..3) == 0 { (0, from) } else { (from, 0) };
            let mut body = n.to_be_bytes().to_vec();
            let done = match random.rand_range(0..3) {
                0 => {
                    body.resize(LONGEST, 0);
                    send_long(&mut w, from, to, &body)
                }
                _ => send_short(&mut w, from, to, &body),
            };
            if done {
                sent[from].push((to, body));
            }
            if random.rand_range(0..4) == 0 {
                w.run(micros(u64::from(random.rand_range(1..400))));
            }
        }
        w.run(Duration::from_secs(1));
        for (from, sent) in sent.iter().enumerate() {
            for to in 0..3 {
                let peer = (from != to).then(|| w.peer(to, from));
                let came = w.nodes[to].received.iter().filter(|(of, _)| Some(*of) == peer);
                let expected = sent.iter().filter(|(of, _)| *of == to);
                assert!(came.map(|(_, body)| body).eq(expected.map(|(_, body)| body)), "{seed}");
            }
        }
        for node in &w.nodes {
            assert_eq!(node.proto.counters().retransmissions, 0, "seed {seed}");
            assert!(node.sent_first.iter().any(|&first| first));
        }
    }
}

/// A sender that stops says what it wants by an Ack. If that overtook its data, which do not say
/// it, the receiver would forget it.
#[test]
fn an_ack_that_says_something_new_of_credit_overtakes_no_data() {
    // Credit is shared from the second peer on.
    let mut w = warm_with(3, &ProtocolConfig { shared_credit: true, ..config() });
    w.nodes[0].behind = 50_000;
    let peer = w.peer(0, 1);
    while w.nodes[0].proto.may_fill(peer, 0, 20) {
        assert!(send_long(&mut w, 0, 1, &[7; LONGEST]));
        w.settle();
    }
    assert!(!w.nodes[0].proto.may_fill(peer, 20, 20), "more waits now");
    w.settle();
    let acks = |w: &World| {
        let node = &w.nodes[0];
        let acks = node.sent.iter().zip(&node.sent_first).filter(|(h, _)| h.kind == Kind::Ack);
        acks.map(|(h, &first)| (h.flags.demand() > 0, first)).collect::<Vec<_>>()
    };
    assert_eq!(acks(&w), [(true, false)], "while data that say nothing of it are on their way");
    w.run(Duration::from_millis(10));
    w.send(1, 0, b"to be acknowledged");
    w.run(Duration::from_millis(10));
    assert!(acks(&w).last().unwrap().1, "it overtakes none now");
}

/// As by a network, or an older peer, that does not know such frames.
#[test]
fn where_frames_that_go_first_are_lost_all_messages_arrive_late() {
    for shared_credit in [false, true] {
        let mut w = warm(&ProtocolConfig { shared_credit, ..config() });
        w.nodes.iter_mut().for_each(|node| node.drops_first = true);
        for n in 0..50_u8 {
            w.send(0, 1, &[n; 100]);
            assert!(send_short(&mut w, 1, 0, &[n; 100]));
            w.run(Duration::from_millis(20));
            let received = |node: usize| w.nodes[node].received.len();
            assert_eq!((received(0), received(1)), (n as usize + 1, n as usize + 1));
            assert!(!w.nodes[0].proto.has_unacknowledged(), "message {n}");
        }
        let asked = |h: &gigae_wire::Header| h.flags.has(Flags::ASK);
        assert!(w.nodes.iter().all(|n| n.failed.is_empty() && !n.sent.iter().any(asked)));
    }
}
