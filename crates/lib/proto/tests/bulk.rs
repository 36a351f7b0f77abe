//! A socket for bulk data beside a link (`PROTOCOL.md` §13), in virtual time.
#![allow(missing_docs)]

mod world;

use gigae_proto::{Arrival, ProtocolConfig, Reason};
use gigae_sim::Faults;
use gigae_wire::{Epoch, Flags, Header, Kind, PathId};
use std::time::Duration;
use world::{LONGEST_BULK, World, micros, quiet};

fn frame(n: u32) -> Vec<u8> {
    let mut body = vec![0; LONGEST_BULK.into()];
    body[..4].copy_from_slice(&n.to_be_bytes());
    body
}

fn numbers(w: &World, node: usize) -> Vec<u32> {
    let number = |body: &[u8]| u32::from_be_bytes(*body.first_chunk().unwrap());
    w.received(node).into_iter().map(number).collect()
}

/// Sends the bulk frames of `range` from node 0 to node 1, as the window allows, and waits for
/// them.
fn stream(w: &mut World, range: std::ops::Range<u32>) {
    let peer = w.peer(0, 1);
    let end = w.now() + Duration::from_secs(5);
    let last = range.end as usize;
    for n in range {
        while w.nodes[0].send_bulk(peer, &frame(n)).is_err() {
            w.run(micros(50));
            assert!(w.now() < end, "the window stays full");
        }
    }
    while w.received(1).len() < last {
        w.run(micros(50));
        assert!(w.now() < end, "{} of {last} arrived", w.received(1).len());
    }
    assert_eq!(numbers(w, 1), (0..last as u32).collect::<Vec<_>>());
}

/// A session that is up, and a first bulk frame, which asks for the socket.
fn begun(has: [bool; 2], seed: u64, faults: Faults) -> World {
    let mut w = World::with_bulk(has, seed, faults, &ProtocolConfig::default());
    w.send(0, 1, &frame(0));
    w.run(micros(500));
    stream(&mut w, 1..2);
    w.run(micros(500));
    w
}

#[test]
fn bulk_frames_go_by_the_socket_once_it_is_known_to_work() {
    let mut w = begun([true, true], 1, quiet());
    assert_eq!(w.nodes[0].sent_on, [2, 0], "until then the link carries everything");
    stream(&mut w, 2..200);
    assert_eq!(w.nodes[0].sent_on, [2, 198]);
    assert_eq!(w.nodes[0].proto.counters().retransmissions, 0);
    assert_eq!(w.nodes[0].proto.counters().probes, 2, "whether it works, and how datagrams come");
}

/// Frames are put together there from datagrams without numbers.
#[test]
fn by_the_socket_the_checksum_always_covers_the_payload() {
    let config = ProtocolConfig { payload_checksum: false, ..ProtocolConfig::default() };
    let mut w = World::with_bulk([true, true], 1, quiet(), &config);
    w.send(0, 1, &frame(0));
    w.run(micros(500));
    stream(&mut w, 1..2);
    w.run(micros(500));
    let (peer, before) = (w.peer(0, 1), w.nodes[0].sent.len());
    w.nodes[0].proto.send_operations(peer, LONGEST_BULK, frame(2)).unwrap();
    w.nodes[0].proto.send_bulk(peer, LONGEST_BULK, frame(3)).unwrap();
    w.run(micros(500));
    let sent = w.nodes[0].sent[before..].iter().filter(|header| header.kind == Kind::Op);
    let sent: Vec<_> = sent.copied().collect();
    let flags: Vec<_> = sent.iter().map(|header| header.flags).collect();
    assert_eq!((flags, w.nodes[0].sent_on[1]), (vec![Flags::HEADER_ONLY, Flags::NONE], 1));
    // A sender that keeps to no rule.
    let before = w.nodes[1].proto.counters().malformed;
    w.nodes[0].send_raw(&w.net, w.nodes[1].links[1].1, &sent[0], &frame(4));
    w.run(micros(500));
    assert_eq!(w.nodes[1].proto.counters().malformed, before + 1);
    assert_eq!(numbers(&w, 1), [0, 1, 2, 3]);
}

#[test]
fn nothing_is_asked_of_a_socket_that_nobody_wants() {
    let mut w = World::with_bulk([true, true], 1, quiet(), &ProtocolConfig::default());
    for n in 0..100 {
        w.send(0, 1, &frame(n));
        w.run(micros(100));
    }
    w.run(Duration::from_secs(1));
    for node in &w.nodes {
        assert_eq!((node.sent_on[1], node.proto.counters().probes), (0, 0));
    }
}

#[test]
fn other_frames_stay_on_the_link_and_the_order_holds_across_both() {
    let mut w = begun([true, true], 1, quiet());
    let peer = w.peer(0, 1);
    for n in 2..100 {
        if n % 3 == 0 {
            let body = frame(n);
            w.nodes[0].proto.send_operations(peer, LONGEST_BULK, body).unwrap();
        } else {
            w.nodes[0].send_bulk(peer, &frame(n)).unwrap();
        }
    }
    w.run(Duration::from_millis(20));
    assert_eq!(numbers(&w, 1), (0..100).collect::<Vec<_>>());
    assert_eq!(w.nodes[0].sent_on, [2 + 33, 65]);
}

#[test]
fn the_answer_to_a_lone_bulk_frame_acknowledges_it_and_one_that_waits_behind_others_does_not() {
    let mut w = begun([true, true], 1, quiet());
    let acks =
        |w: &World| w.nodes[0].proto.counters().acks_sent + w.nodes[1].proto.counters().acks_sent;
    let mut exchange = |n: u32, frames: u32| {
        let before = acks(&w);
        for from in [0, 1] {
            let (to, count) = (1 - from, w.received(1 - from).len() + frames as usize);
            let peer = w.peer(from, to);
            (0..frames).for_each(|_| w.nodes[from].send_bulk(peer, &frame(n)).unwrap());
            while w.received(to).len() < count {
                w.run(micros(1));
            }
        }
        acks(&w) - before
    };
    // The first ones of the other end ask whether its way works.
    (0..100).for_each(|n| _ = exchange(n, 1));
    let lone: u64 = (0..20).map(|n| exchange(n, 1)).sum();
    assert_eq!(lone, 0);
    let several: u64 = (0..20).map(|n| exchange(n, 4)).sum();
    assert!(several >= 40, "{several}");
}

#[test]
fn an_end_without_a_socket_gets_everything_by_the_link() {
    for has in [[true, false], [false, true], [false, false]] {
        let mut w = begun(has, 1, quiet());
        stream(&mut w, 2..100);
        assert_eq!(w.nodes[0].sent_on[0], 100, "{has:?}");
        assert_eq!(w.nodes[0].proto.counters().probes, 0, "{has:?}");
    }
}

#[test]
fn a_socket_that_nothing_passes_is_asked_for_a_while_and_left() {
    let dead = Faults { loss: 1.0, ..quiet() };
    let mut w = World::with_bulk([true, true], 1, quiet(), &ProtocolConfig::default());
    let socket = w.nodes[1].links[1].0;
    w.net.set_port_faults(socket, dead);
    w.send(0, 1, &frame(0));
    w.run(micros(500));
    stream(&mut w, 1..50);
    w.run(Duration::from_secs(2));
    let probes = w.nodes[0].proto.counters().probes;
    assert!((5..=9).contains(&probes), "{probes} questions");
    assert_eq!(w.nodes[0].sent_on, [50, 0]);
    // The next bulk frame asks again: the firewall may have gone.
    w.net.set_port_faults(socket, quiet());
    stream(&mut w, 50..51);
    w.run(Duration::from_millis(5));
    stream(&mut w, 51..100);
    assert_eq!(w.nodes[0].sent_on, [51, 49]);
}

/// Fifty frames have gone to a node to which datagrams come one by one.
fn fifty_one_by_one() -> World {
    let mut w = World::with_bulk([true, true], 1, quiet(), &ProtocolConfig::default());
    w.nodes[1].uncoalesced = Some(true);
    w.send(0, 1, &frame(0));
    w.run(micros(500));
    stream(&mut w, 1..2);
    w.run(micros(500));
    stream(&mut w, 2..50);
    w
}

/// Where the receiver's kernel does not join datagrams, they may come in any order, so each has a
/// number.
#[test]
fn an_end_whose_datagrams_come_one_by_one_says_so_once() {
    let mut w = fifty_one_by_one();
    let uncoalesced = |w: &World, node: usize| w.nodes[node].uncoalesced_paths.clone();
    assert_eq!(w.nodes[0].sent_on, [2, 48]);
    assert_eq!((uncoalesced(&w, 0), uncoalesced(&w, 1)), (vec![false, true], vec![false]));
    // A short question, whether the peer is still there, says nothing of long frames.
    w.nodes[1].uncoalesced = Some(false);
    let (peer, link) = (w.peer(0, 1), w.nodes[1].links[0].0);
    w.nodes[1].reads = false;
    while w.nodes[0].send_bulk(peer, &frame(0)).is_ok() {}
    w.run(Duration::from_millis(100));
    w.net.set_port_faults(link, Faults { loss: 1.0, ..quiet() });
    w.run(Duration::from_millis(500));
    w.net.set_port_faults(link, quiet());
    w.nodes[1].reads = true;
    w.nodes[1].release_all();
    w.run(Duration::from_secs(1));
    w.nodes[1].received.truncate(50);
    assert_eq!(uncoalesced(&w, 0), vec![false, true]);
    w.nodes[1].uncoalesced = Some(true);
    // The path dies, and comes back where they are joined.
    let socket = w.nodes[1].links[1].0;
    w.net.set_port_faults(socket, Faults { loss: 1.0, ..quiet() });
    stream(&mut w, 50..100);
    w.nodes[1].uncoalesced = Some(false);
    w.net.set_port_faults(socket, quiet());
    w.run(Duration::from_millis(200));
    stream(&mut w, 100..150);
    assert_eq!((uncoalesced(&w, 0), uncoalesced(&w, 1)), (vec![false, true, false], vec![false]));
}

#[test]
fn nobody_takes_datagrams_for_single_ones_once_the_path_has_died() {
    let mut w = fifty_one_by_one();
    assert_eq!(w.nodes[0].uncoalesced_paths, [false, true]);
    let socket = w.nodes[1].links[1].0;
    w.net.set_port_faults(socket, Faults { loss: 1.0, ..quiet() });
    stream(&mut w, 50..100);
    // The question that it comes back with was of one datagram.
    w.nodes[1].uncoalesced = None;
    w.net.set_port_faults(socket, quiet());
    w.run(Duration::from_millis(200));
    assert_eq!(w.nodes[0].uncoalesced_paths, [false, true, false]);
}

/// At 1 Gbit/s the whole window would wait in the switch for 3 ms, and everything else behind it.
#[test]
fn a_stream_by_the_socket_fills_the_wire_and_keeps_the_queue_short() {
    let wire = Faults { rate: 125_000_000, buffer: 1 << 20, ..quiet() };
    let mut w = begun([true, true], 1, wire);
    let (peer, mut sent, mut most) = (w.peer(0, 1), 2, 0);
    let begin = w.now();
    let (middle, end) = (begin + Duration::from_millis(50), begin + Duration::from_millis(250));
    let mut before = 0;
    while w.now() < end {
        while w.nodes[0].send_bulk(peer, &frame(sent)).is_ok() {
            sent += 1;
        }
        w.run(micros(50));
        let on_the_way = w.nodes[0].sent_on[1] + 2 - w.received(1).len();
        if w.now() < middle {
            before = w.received(1).len();
        } else {
            most = most.max(on_the_way);
        }
    }
    assert!((60..=130).contains(&most), "{most} frames on the way");
    let (got, possible) = ((w.received(1).len() - before) as f64, 0.2 * 125e6 / 1514.0);
    assert!(got / possible > 0.95, "{got} of {possible} frames in virtual time");
}

#[test]
fn a_socket_that_dies_is_left_within_the_time_of_a_cut_link_and_comes_back() {
    let mut w = begun([true, true], 1, quiet());
    stream(&mut w, 2..100);
    let socket = w.nodes[1].links[1].0;
    w.net.set_port_faults(socket, Faults { loss: 1.0, ..quiet() });
    let before = w.now();
    stream(&mut w, 100..150);
    let pause = w.now().since(before);
    assert!(pause < Duration::from_millis(50), "{pause:?}");
    assert_eq!(w.nodes[0].proto.paths()[1].deaths, 1);
    w.net.set_port_faults(socket, quiet());
    w.run(Duration::from_secs(2));
    let before = w.nodes[0].sent_on[1];
    stream(&mut w, 150..151);
    w.run(Duration::from_millis(5));
    stream(&mut w, 151..200);
    assert!(w.nodes[0].sent_on[1] >= before + 49, "it carries bulk frames again");
    assert!(w.nodes[0].failed.is_empty());
}

/// A node has no CPU for so long: what is sent to it lies in its ports.
fn busy(w: &mut World, node: usize, time: Duration) {
    let away = w.nodes.remove(node);
    w.run(time);
    w.nodes.insert(node, away);
}

#[test]
fn a_peer_that_is_busy_for_some_milliseconds_costs_the_socket_nothing() {
    for time in [500, 1_000, 2_000, 3_000, 5_000] {
        let mut w = begun([true, true], 1, quiet());
        stream(&mut w, 2..100);
        let peer = w.peer(0, 1);
        for n in 100..150 {
            w.nodes[0].send_bulk(peer, &frame(n)).unwrap();
            busy(&mut w, 1, micros(time));
            w.run(micros(500));
        }
        assert_eq!(numbers(&w, 1), (0..150).collect::<Vec<_>>());
        assert_eq!(w.nodes[0].proto.paths()[1].deaths, 0, "{time} us");
        assert_eq!(w.nodes[0].sent_on[0], 2, "{time} us: the link has carried bulk frames");
        let repeated = w.nodes[0].proto.counters().retransmissions;
        assert!(repeated == 0 || time > 1_500, "{time} us: {repeated} repetitions");
    }
}

/// Frames go by the link after 10 ms. Nothing is in flight by the socket then whose arrival would
/// show that it works, but the answer to a question does.
#[test]
fn a_peer_that_is_busy_for_longer_does_not_make_the_socket_dead() {
    for time in [8, 12, 15, 25, 40, 100] {
        let mut w = begun([true, true], 1, quiet());
        stream(&mut w, 2..100);
        let peer = w.peer(0, 1);
        for n in 100..120 {
            w.nodes[0].send_bulk(peer, &frame(n)).unwrap();
            busy(&mut w, 1, Duration::from_millis(time));
            w.run(Duration::from_millis(30));
        }
        assert_eq!(numbers(&w, 1), (0..120).collect::<Vec<_>>());
        assert_eq!(w.nodes[0].proto.paths()[1].deaths, 0, "{time} ms");
    }
}

/// The link is the way of everything else, so it is never taken for dead.
#[test]
fn a_link_that_fails_for_a_while_keeps_the_session_although_the_socket_works() {
    let mut w = begun([true, true], 1, quiet());
    let link = w.nodes[1].links[0].0;
    w.net.set_port_faults(link, Faults { loss: 1.0, ..quiet() });
    w.send(0, 1, &frame(2));
    w.run(Duration::from_millis(700));
    assert_eq!(w.received(1).len(), 2);
    w.net.set_port_faults(link, quiet());
    w.run(Duration::from_millis(700));
    assert_eq!(numbers(&w, 1), [0, 1, 2]);
    assert_eq!(w.nodes[0].proto.paths()[0].deaths, 0);
}

#[test]
fn nothing_is_lost_or_doubled_whatever_the_networks_do() {
    for seed in 0..40 {
        let faults = Faults {
            loss: 0.02,
            duplication: 0.02,
            corruption: 0.01,
            disorder: 0.05,
            disorder_by: micros(30),
            ..quiet()
        };
        let mut w = World::with_bulk([true, true], seed, faults, &ProtocolConfig::default());
        w.send(0, 1, &frame(0));
        w.run(Duration::from_millis(5));
        stream(&mut w, 1..400);
        assert!(w.nodes[0].failed.is_empty(), "seed {seed}");
    }
}

/// The peer names the address of a third, which never sees what it would have to repeat.
#[test]
fn nothing_but_questions_goes_to_an_address_that_does_not_repeat_them() {
    let mut w = World::with_bulk([true, true], 1, quiet(), &ProtocolConfig::default());
    w.send(0, 1, &frame(0));
    w.run(micros(500));
    // Node 1 does not get the question, but answers in the name of its socket.
    w.net.set_port_faults(w.nodes[1].links[1].0, Faults { loss: 1.0, ..quiet() });
    let peer = w.peer(0, 1);
    w.nodes[0].send_bulk(peer, &frame(1)).unwrap();
    w.run(micros(100));
    let mut answer = *w.nodes[1].sent.iter().rfind(|header| header.kind == Kind::Ack).unwrap();
    answer.flags = Flags::ANSWER;
    for token in [0_u64, 1, u64::MAX] {
        let mut payload = token.to_be_bytes().to_vec();
        payload.resize(133, 0);
        w.nodes[1].send_raw(&w.net, w.nodes[0].links[1].1, &answer, &payload);
        w.run(micros(100));
    }
    stream(&mut w, 2..50);
    assert_eq!(w.nodes[0].sent_on, [50, 0]);
}

/// Neither a data frame nor a Hello, Confirm or Reset, and no Reset goes to where it seems to be
/// from.
#[test]
fn what_comes_by_a_socket_and_is_of_no_session_gets_no_answer() {
    let mut w = begun([true, true], 1, quiet());
    let known = *w.nodes[1].sent.iter().rfind(|header| header.kind == Kind::Ack).unwrap();
    let before = w.nodes[0].sent.len();
    for kind in [Kind::Op, Kind::Hello, Kind::HelloAck, Kind::Confirm, Kind::Reset] {
        for epochs in [(Epoch(7), Epoch(9)), (known.src_epoch, Epoch(9))] {
            let (src_epoch, dst_epoch) = epochs;
            let header = Header { kind, src_epoch, dst_epoch, ..known };
            w.nodes[1].send_raw(&w.net, w.nodes[0].links[1].1, &header, &[0; 71]);
            w.run(micros(200));
        }
    }
    // Nor does a Reset with the right epochs end the session.
    let reset = Header { kind: Kind::Reset, flags: Flags::ANSWER, ..known };
    w.nodes[1].send_raw(&w.net, w.nodes[0].links[1].1, &reset, &[]);
    w.run(micros(200));
    assert_eq!(w.nodes[0].sent.len(), before);
    stream(&mut w, 2..50);
}

#[test]
fn a_session_comes_up_and_ends_by_the_link_alone() {
    let mut w = begun([true, true], 1, quiet());
    stream(&mut w, 2..50);
    w.restart(1);
    let socket = w.nodes[1].links[1].0;
    w.net.set_port_faults(socket, Faults { loss: 1.0, ..quiet() });
    let hellos = w.nodes[0].count(Kind::Hello);
    w.nodes[1].received.clear();
    w.send(0, 1, &frame(0));
    w.run(Duration::from_millis(50));
    w.nodes[0].failed.clear();
    w.send(0, 1, &frame(0));
    w.run(Duration::from_millis(50));
    assert_eq!(numbers(&w, 1), [0]);
    assert_eq!(w.nodes[0].count(Kind::Hello), hellos + 1, "the first one is answered");
}

/// The peer would discard it: a session comes up by the link alone.
#[test]
fn no_confirm_goes_by_the_socket_as_a_question() {
    let mut w = World::with_bulk([true, true], 1, quiet(), &ProtocolConfig::default());
    w.send(0, 1, &frame(0));
    w.run(micros(500));
    let (peer, confirms) = (w.peer(0, 1), w.nodes[0].count(Kind::Confirm));
    assert_eq!(w.nodes[0].proto.bulk(peer), None, "from now on it asks");
    // The question whether the session is known comes before the one about the socket goes out.
    let known = *w.nodes[1].sent.iter().rfind(|header| header.kind == Kind::Ack).unwrap();
    let reset = Header { kind: Kind::Reset, flags: Flags::NONE, ..known };
    let from = w.nodes[1].links[0].1.into();
    let arrival = Arrival { path: PathId::FIRST, from: &from, header: &reset, payload: &[] };
    w.nodes[0].proto.handle(arrival, &mut None).unwrap();
    w.run(micros(500));
    assert_eq!(w.nodes[0].count(Kind::Confirm), confirms + 1);
    assert_eq!(w.nodes[1].proto.counters().malformed, 0);
    assert!(w.nodes[0].proto.bulk(peer).is_some(), "the question was answered");
}

/// The network carries frames of the length that it is asked about, and never those that wait.
#[test]
fn answers_about_the_length_keep_no_session_whose_data_never_arrive() {
    let timeout = Duration::from_millis(100);
    let config =
        ProtocolConfig { sure_payload: 1000, peer_timeout: timeout, ..ProtocolConfig::default() };
    let mut w = World::with_bulk([true, true], 1, quiet(), &config);
    let peer = w.peer(0, 1);
    w.send(0, 1, &frame(0));
    w.run(micros(500));
    let asked = w.nodes[0].count(Kind::Probe);
    w.nodes[0].drops = Some(Kind::Op);
    assert!(w.nodes[0].proto.send_operations(peer, 1400, vec![7; 1400]).is_ok());
    w.run(timeout / 2);
    assert!(w.nodes[0].count(Kind::Probe) > asked, "it asks again");
    assert!(w.nodes[0].proto.poll_ended().is_none());
    w.run(timeout);
    let ended = w.nodes[0].proto.poll_ended().expect("the data were not acknowledged in time");
    assert_eq!(ended.reason, Reason::Timeout);
}

/// A length is asked for once. What is too long for it goes in parts; a later silence finds nothing
/// to ask for, and the peer's own question is answered.
#[test]
fn what_goes_in_parts_leads_to_no_question_about_the_length() {
    let config = ProtocolConfig {
        max_payload: 1100,
        max_operations: 1400,
        sure_payload: 1100,
        ..ProtocolConfig::default()
    };
    let mut w = World::with_bulk([true, true], 1, quiet(), &config);
    let peer = w.peer(0, 1);
    w.send(0, 1, &[1; 100]);
    w.run(Duration::from_millis(1));
    assert_eq!(w.nodes[0].proto.established(peer).unwrap().1, 1400);
    // From now on the network carries less.
    for node in [0, 1] {
        let link = w.nodes[node].links[0].0;
        w.net.set_port_faults(link, Faults { black_hole: 1300, ..quiet() });
    }
    for n in [2, 3] {
        assert!(w.nodes[0].proto.send_operations(peer, 1400, vec![n; 1400]).is_ok());
    }
    w.run(Duration::from_millis(50));
    assert_eq!(w.nodes[0].proto.established(peer).unwrap().1, 1100);
    // The parts of the first frame arrive (here it goes whole), and nothing afterwards.
    for node in [0, 1] {
        let link = w.nodes[node].links[0].0;
        w.net.set_port_faults(link, quiet());
    }
    let before = w.nodes[0].sent.len();
    w.nodes[0].drop_sent = (before + 1..before + 1000).collect();
    while w.received(1).len() < 2 {
        w.run(micros(100));
    }
    w.run(micros(100));
    // The peer asks, and before it is answered the timer fires, again and again.
    let acked = *w.nodes[1].sent.last().unwrap();
    let question = Header { kind: Kind::Probe, flags: Flags::NONE, ..acked };
    let from = w.nodes[1].links[0].1.into();
    let timeouts = w.nodes[0].proto.counters().timeouts;
    let mut kinds = Vec::new();
    while w.nodes[0].proto.counters().timeouts < timeouts + 5 {
        let proto = &mut w.nodes[0].proto;
        let payload = &[0, 0, 0, 4];
        let arrival = Arrival { path: PathId::FIRST, from: &from, header: &question, payload };
        proto.handle(arrival, &mut None).unwrap();
        let at = proto.next_deadline();
        proto.advance(at);
        while let Some(frame) = proto.poll_transmit() {
            kinds.push(frame.header.kind);
        }
        proto.advance(at);
    }
    assert!(kinds.contains(&Kind::Echo) && !kinds.contains(&Kind::Probe), "{kinds:?}");
}
