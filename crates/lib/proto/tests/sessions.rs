//! How sessions come up, end and differ (`PROTOCOL.md` §4 and §8).
#![allow(missing_docs)]

mod world;

use gigae_proto::{ForeignFrame, Instant, PeerKey, Protocol, ProtocolConfig, Reason, Unsent};
use gigae_sim::Faults;
use gigae_wire::{Epoch, Kind, MacAddr, PathId};
use std::time::Duration;
use world::{World, micros, quiet};

#[test]
fn the_first_message_brings_the_session_up_by_itself() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.send(0, 1, b"hello");
    w.run(micros(100));
    assert_eq!(w.received(1), [b"hello"]);
    assert_eq!(w.nodes[0].count(Kind::Hello), 1);
    assert_eq!(w.nodes[1].count(Kind::HelloAck), 1);
    assert!(!w.nodes[0].proto.has_unacknowledged());
}

/// The answer and the time to repeat the question (1 ms) come at the same moment, which is seen
/// first.
#[test]
fn an_answer_about_the_length_takes_back_the_question_that_is_about_to_be_repeated() {
    let config = ProtocolConfig {
        max_payload: 1400,
        max_operations: 1400,
        sure_payload: 500,
        ..ProtocolConfig::default()
    };
    let after = |delay| Faults { delay, ..Faults::default() };
    let mut w = World::pair(after(micros(400)), &config);
    // The peer's own question, behind its answers, would put the mistake right.
    w.nodes[1].drop_sent = vec![3, 4];
    w.send(0, 1, &[7; 1400]);
    // The answer to the Hello comes after 800 us, that to the question 1 ms later.
    w.run(micros(700));
    w.net.set_faults(after(micros(500)));
    w.run(micros(1099));
    assert_eq!((w.nodes[0].count(Kind::Probe), w.nodes[1].count(Kind::Echo)), (2, 2));
    assert_eq!(w.nodes[0].count(Kind::Data), 0, "not before the length is known");
    w.run(Duration::from_millis(10));
    assert_eq!(w.received(1), [[7; 1400]]);
    assert_eq!(w.nodes[0].count(Kind::Probe), 2, "nothing was asked again");
}

/// It has only asked about the length itself, when nothing waited to be sent to it.
#[test]
fn a_peer_that_vanishes_as_its_session_begins_is_lost_in_the_stated_time() {
    let config = ProtocolConfig {
        sure_payload: 500,
        peer_timeout: Duration::from_millis(100),
        ..ProtocolConfig::default()
    };
    let mut w = World::pair(quiet(), &config);
    w.send(1, 0, b"hello");
    w.run(micros(12));
    assert_eq!(w.nodes[1].count(Kind::Probe), 2);
    let port = w.nodes[1].links[0].0;
    w.net.cut(port, true, true);
    w.run(Duration::from_millis(10));
    assert_eq!(w.nodes[0].count(Kind::Probe), 2, "nothing waits for the answer");
    w.send(0, 1, b"lost");
    w.run(Duration::from_millis(102));
    assert_eq!(w.nodes[0].failed.len(), 1);
}

#[test]
fn two_nodes_that_speak_first_at_once_share_one_session() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.send(0, 1, b"a");
    w.send(1, 0, b"b");
    w.run(micros(200));
    assert_eq!((w.received(1), w.received(0)), (vec![&b"a"[..]], vec![&b"b"[..]]));
    assert_eq!(w.nodes[0].proto.counters().sessions, 1);
    assert_eq!(w.nodes[1].proto.counters().sessions, 1);
}

#[test]
fn one_lost_hello_is_repeated() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.nodes[0].drop_sent = vec![0];
    w.send(0, 1, b"hello");
    w.run(Duration::from_millis(5));
    assert_eq!(w.received(1), [b"hello"]);
    assert_eq!(w.nodes[0].count(Kind::Hello), 2);
}

#[test]
fn one_lost_answer_to_a_hello_is_repeated() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.nodes[1].drop_sent = vec![0];
    w.send(0, 1, b"hello");
    w.run(Duration::from_millis(5));
    assert_eq!(w.received(1), [b"hello"]);
    assert_eq!(w.nodes[1].count(Kind::HelloAck), 2);
}

#[test]
fn a_peer_that_never_answers_is_lost_in_the_stated_time_and_every_message_comes_back() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    let port = w.nodes[1].links[0].0;
    w.net.cut(port, true, true);
    for i in 0..10 {
        w.send(0, 1, &[i]);
    }
    w.run(Duration::from_millis(9_999));
    assert!(w.nodes[0].failed.is_empty());
    w.run(Duration::from_millis(2));
    let failed: Vec<_> = w.nodes[0].failed.iter().map(|f| (f.reason, f.buffer[0])).collect();
    assert_eq!(failed, (0..10).map(|i| (Reason::Timeout, i)).collect::<Vec<_>>());
    assert_eq!(w.nodes[0].proto.next_deadline(), Instant::NEVER, "nothing goes on behind");
}

#[test]
fn a_peer_that_vanishes_in_the_middle_is_lost_in_the_stated_time() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.send(0, 1, b"first");
    w.run(micros(200));
    let port = w.nodes[1].links[0].0;
    w.net.cut(port, true, true);
    w.send(0, 1, b"second");
    w.run(Duration::from_millis(10_001));
    assert_eq!(w.nodes[0].failed.len(), 1);
    assert_eq!(w.nodes[0].failed[0].reason, Reason::Timeout);
    w.net.cut(port, false, false);
    w.send(0, 1, b"third");
    w.run(Duration::from_millis(5));
    assert_eq!(w.received(1), [&b"first"[..], b"third"], "the next message begins again");
}

#[test]
fn nothing_is_admitted_while_failures_wait_to_be_taken() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    let port = w.nodes[1].links[0].0;
    w.net.cut(port, true, true);
    w.send(0, 1, b"lost");
    for nanos in [1, 10_000_000_001, 20_000_000_001] {
        assert!(w.nodes[0].proto.poll_ended().is_none());
        w.nodes[0].proto.advance(Instant(nanos));
    }
    assert!(matches!(w.try_send(0, 1, b"next"), Err(Unsent::Failed(_))));
    assert!(w.nodes[0].proto.poll_failure().is_some());
    w.send(0, 1, b"next");
}

/// The peer's frames arrive, and ours never do. An end that looks rarely gives it more time, once.
#[test]
fn frames_without_progress_keep_no_session_of_an_end_that_looks_rarely() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.send(0, 1, b"the session is up after it");
    w.run(Duration::from_millis(1));
    w.nodes[0].drops = Some(Kind::Data);
    w.send(0, 1, b"lost");
    let mut looks = 0;
    while w.nodes[0].failed.is_empty() {
        looks += 1;
        assert!(looks < 80, "28 s");
        w.send(1, 0, b"still here");
        // 10 s are over 150 ms before the next look.
        w.net.advance_to(w.net.now() + 350_000_000);
        w.run(Duration::ZERO);
    }
    assert!(looks > 50, "the time began again once");
    assert_eq!(w.nodes[0].failed[0].reason, Reason::Timeout);
}

#[test]
fn a_restarted_peer_is_detected_at_once_and_gets_only_new_messages() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.send(0, 1, b"old");
    w.run(micros(200));
    w.restart(1);
    w.send(0, 1, b"lost");
    w.run(micros(100));
    let failed: Vec<_> = w.nodes[0].failed.drain(..).map(|f| (f.reason, f.buffer)).collect();
    assert_eq!(failed, [(Reason::Reset, b"lost".to_vec())]);
    w.send(0, 1, b"new");
    w.run(micros(200));
    assert_eq!(w.received(1), [&b"old"[..], b"new"]);
    assert_eq!(w.nodes[1].proto.counters().epoch, 2, "the old frame and the question about it");
}

#[test]
fn a_lone_peer_that_restarts_again_and_again_is_heard() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    for life in 0..6 {
        w.restart(0);
        (0..2).for_each(|n| w.send(0, 1, &[life, n]));
        w.run(micros(30));
    }
    w.run(Duration::from_secs(1));
    assert!(w.received(1).ends_with(&[&[5, 0], &[5, 1]]), "{:?}", w.received(1));
}

#[test]
fn a_restarted_peer_that_speaks_first_replaces_its_predecessor() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.send(1, 0, b"old");
    w.run(micros(200));
    w.restart(1);
    w.send(1, 0, b"new");
    w.run(micros(200));
    assert_eq!(w.received(0), [&b"old"[..], b"new"]);
    assert_eq!(w.nodes[0].proto.counters().sessions, 2);
    w.send(0, 1, b"back");
    w.run(micros(200));
    assert_eq!(w.received(1), [b"back"]);
}

#[test]
fn a_frame_of_a_former_epoch_that_was_long_on_the_way_is_refused() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.send(1, 0, b"first");
    w.run(micros(200));
    // The message stays on the wire for a second; in that time its sender restarts and sends again.
    w.net.set_faults(gigae_sim::Faults { delay: Duration::from_secs(1), ..quiet() });
    w.send(1, 0, b"late");
    w.settle();
    w.net.set_faults(quiet());
    w.restart(1);
    w.send(1, 0, b"new");
    w.run(micros(300));
    w.run(Duration::from_secs(2));
    assert_eq!(w.received(0), [&b"first"[..], b"new"]);
    assert!(w.nodes[0].proto.counters().epoch >= 1);
    assert_eq!(w.nodes[0].proto.counters().sessions, 2, "the old frame revived nothing");
}

#[test]
fn a_late_hello_of_a_former_incarnation_does_not_disturb_the_session() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.net.set_faults(gigae_sim::Faults { delay: Duration::from_secs(1), ..quiet() });
    w.send(1, 0, b"never sent");
    w.settle();
    w.net.set_faults(quiet());
    w.restart(1);
    w.send(1, 0, b"one");
    w.run(micros(300));
    w.run(Duration::from_secs(2));
    w.send(0, 1, b"two");
    w.send(1, 0, b"three");
    w.run(micros(300));
    assert_eq!(w.received(0), [&b"one"[..], b"three"]);
    assert_eq!(w.received(1), [b"two"]);
    assert_eq!(w.nodes[0].proto.counters().sessions, 1);
}

#[test]
fn a_peer_that_closes_says_so() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.send(0, 1, b"first");
    w.run(micros(200));
    w.nodes[1].proto.close();
    w.send(0, 1, b"second");
    w.run(micros(100));
    assert_eq!(w.nodes[0].failed[0].reason, Reason::Reset);
}

/// Node 1 has received a message, and its acknowledgement was lost.
fn with_a_lost_acknowledgement() -> World {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.send(0, 1, b"first");
    w.run(micros(200));
    w.nodes[1].drop_sent = vec![w.nodes[1].sent.len()];
    w.send(0, 1, b"last");
    w.run(micros(100));
    assert_eq!(w.received(1), [&b"first"[..], b"last"]);
    assert!(w.nodes[0].proto.has_unacknowledged());
    w
}

#[test]
fn the_graceful_close_of_an_end_acknowledges_what_has_arrived() {
    let mut w = with_a_lost_acknowledgement();
    w.nodes[1].proto.close();
    assert!(w.nodes[1].proto.is_closing());
    w.run(micros(50));
    assert!(w.nodes[0].failed.is_empty() && !w.nodes[0].proto.has_unacknowledged());
    assert!(!w.nodes[1].proto.is_closing(), "the answer came");
}

#[test]
fn a_lost_close_is_repeated() {
    for lost in 1..6 {
        let mut w = with_a_lost_acknowledgement();
        let next = w.nodes[1].sent.len();
        w.nodes[1].drop_sent = (next..next + lost).collect();
        w.nodes[1].proto.close();
        w.run(Duration::from_millis(100));
        assert!(w.nodes[0].failed.is_empty(), "{lost} lost");
        assert!(!w.nodes[0].proto.has_unacknowledged() && !w.nodes[1].proto.is_closing());
    }
}

#[test]
fn a_lost_answer_to_a_close_is_repeated() {
    let mut w = with_a_lost_acknowledgement();
    w.nodes[0].drop_sent = vec![w.nodes[0].sent.len()];
    w.nodes[1].proto.close();
    w.run(micros(100));
    assert!(w.nodes[1].proto.is_closing());
    w.run(Duration::from_millis(2));
    assert!(!w.nodes[1].proto.is_closing());
    assert_eq!(w.nodes[0].count(Kind::Reset), 2);
}

#[test]
fn two_ends_that_close_at_once_are_done_at_once() {
    let mut w = with_a_lost_acknowledgement();
    w.nodes.iter_mut().for_each(|node| node.proto.close());
    w.run(micros(50));
    assert!(w.nodes.iter().all(|node| !node.proto.is_closing()));
}

#[test]
fn a_closing_end_waits_not_long_for_a_peer_that_is_gone() {
    let mut w = with_a_lost_acknowledgement();
    let port = w.nodes[0].links[0].0;
    w.net.cut(port, true, true);
    w.nodes[1].proto.close();
    w.run(Duration::from_millis(128));
    assert!(!w.nodes[1].proto.is_closing());
    assert_eq!(w.nodes[1].count(Kind::Reset), 7);
    assert_eq!(w.nodes[1].proto.next_deadline(), Instant::NEVER, "nothing goes on behind");
}

#[test]
fn a_closing_end_takes_no_part_in_new_sessions() {
    let mut w = with_a_lost_acknowledgement();
    w.nodes[1].proto.close();
    w.run(micros(50));
    w.send(0, 1, b"nobody reads this");
    w.run(Duration::from_millis(5));
    assert_eq!(w.nodes[1].count(Kind::HelloAck), 1, "that of the first session");
    assert!(w.nodes[0].proto.has_unacknowledged());
}

/// A frame of version 4 that answers the first node's last frame.
fn foreign(w: &World, kind: Kind) -> Option<ForeignFrame> {
    let dst_epoch = w.nodes[0].sent.last().map_or(Epoch::UNKNOWN, |header| header.src_epoch);
    let (kind, channel, src_epoch) = (kind as u8, world::CHANNEL, Epoch(7));
    Some(ForeignFrame { version: 4, kind, channel, src_epoch, dst_epoch })
}

#[test]
fn a_peer_of_another_version_is_named_without_waiting_for_the_timeout() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.net.cut(w.nodes[1].links[0].0, true, true);
    w.send(0, 1, b"hello");
    w.settle();
    let from = w.nodes[1].links[0].1.into();
    let answer = foreign(&w, Kind::Reset);
    w.nodes[0].proto.handle_foreign_version(PathId::FIRST, from, answer);
    w.run(Duration::from_millis(126));
    assert!(w.nodes[0].failed.is_empty());
    // Waits from 8 ms on are longer by up to half.
    w.run(Duration::from_millis(62));
    assert_eq!(w.nodes[0].failed[0].reason, Reason::Version(4));
    assert_eq!(w.nodes[0].count(Kind::Hello), 7);
    assert_eq!(w.nodes[0].count(Kind::Reset), 0, "an answer is not answered");
    let question = foreign(&w, Kind::Hello);
    w.nodes[0].proto.handle_foreign_version(PathId::FIRST, from, question);
    w.settle();
    assert_eq!(w.nodes[0].count(Kind::Reset), 1, "a question is");
}

#[test]
fn frames_of_another_version_in_a_peers_name_do_not_end_a_proposal_that_is_answered() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    // The first proposals are lost.
    w.nodes[0].drop_sent = vec![0, 1, 2];
    w.send(0, 1, b"hello");
    let from = w.nodes[1].links[0].1.into();
    for _ in 0..20 {
        let answer = foreign(&w, Kind::Reset);
        w.nodes[0].proto.handle_foreign_version(PathId::FIRST, from, answer);
        w.run(Duration::from_millis(1));
    }
    assert_eq!(w.received(1), [b"hello"]);
    assert!(w.nodes[0].failed.is_empty());
}

#[test]
fn a_message_longer_than_the_peer_receives_fails_and_later_ones_are_refused() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    let small = ProtocolConfig { max_payload: 100, ..ProtocolConfig::default() };
    w.nodes[1].proto = gigae_proto::Protocol::new(small, 77);
    w.send(0, 1, &[7; 200]);
    w.run(micros(200));
    assert_eq!(w.nodes[0].failed[0].reason, Reason::TooLong(100));
    assert!(matches!(w.try_send(0, 1, &[7; 101]), Err(Unsent::TooLong(_, 100))));
    w.send(0, 1, &[7; 100]);
    w.run(micros(200));
    assert_eq!(w.received(1), [&[7; 100]]);
}

#[test]
fn a_peer_that_is_first_to_use_the_session_may_receive_less_than_what_waits_for_it() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    let small = ProtocolConfig { max_payload: 100, ..ProtocolConfig::default() };
    w.nodes[1].proto = gigae_proto::Protocol::new(small, 77);
    // Only the other's proposal arrives, and its first message finds the long one waiting.
    w.nodes[0].drop_sent = vec![0];
    w.send(0, 1, &[7; 200]);
    w.send(1, 0, b"first");
    w.run(micros(200));
    assert_eq!(w.nodes[0].failed[0].reason, Reason::TooLong(100));
    assert_eq!(w.nodes[1].failed[0].reason, Reason::Reset, "it learns that at once");
    w.send(0, 1, &[7; 100]);
    w.send(1, 0, b"again");
    w.run(micros(200));
    assert_eq!((w.received(0), w.received(1)), (vec![&b"again"[..]], vec![&[7; 100][..]]));
}

#[test]
fn a_peer_that_acknowledged_all_and_is_gone_is_noticed_when_it_is_asked() {
    for restarts in [true, false] {
        let mut w = World::pair(quiet(), &ProtocolConfig::default());
        w.send(0, 1, b"acknowledged");
        w.run(Duration::from_millis(10));
        let peer = w.peer(0, 1);
        w.nodes[0].proto.ask(peer);
        w.run(Duration::from_secs(60));
        assert!(w.nodes[0].proto.poll_ended().is_none(), "it answers");
        let asked = w.nodes[0].count(Kind::Ack);
        w.run(Duration::from_secs(60));
        assert_eq!(w.nodes[0].count(Kind::Ack), asked, "an answer ends the questions");
        match restarts {
            true => w.restart(1),
            false => w.net.cut(w.nodes[1].links[0].0, true, true),
        }
        w.nodes[0].proto.ask(peer);
        w.run(Duration::from_millis(100));
        let reason = w.nodes[0].proto.poll_ended().map(|ended| ended.reason);
        assert_eq!(reason, restarts.then_some(Reason::Reset));
        w.run(Duration::from_secs(11));
        let reason = w.nodes[0].proto.poll_ended().map(|ended| ended.reason);
        assert_eq!(reason, (!restarts).then_some(Reason::Timeout));
    }
}

#[test]
fn more_peers_than_the_table_holds_are_refused_and_counted() {
    let config = ProtocolConfig { max_peers: 2, ..ProtocolConfig::default() };
    let mut w = World::new(4, 1, quiet(), &config);
    for from in 1..4 {
        w.send(from, 0, &[from as u8]);
    }
    w.run(micros(300));
    assert_eq!(w.received(0).len(), 2);
    assert!(w.nodes[0].proto.counters().refused >= 1);
}

/// Else each call would look at all of them, while the link takes one frame at a time.
#[test]
fn sessions_that_wait_for_the_link_are_looked_at_again_only_after_a_while() {
    let mut proto = Protocol::<u8, u8>::new(ProtocolConfig::default(), 7);
    for n in 0..1_000u16 {
        let [a, b] = n.to_be_bytes();
        let node = MacAddr([2, 0, 0, 1, a, b]).into();
        let peer = proto.peer(PeerKey { node, port: 0, channel: 0 }).unwrap();
        proto.send(peer, 1, 0).unwrap();
    }
    proto.advance(Instant(1_000));
    assert_eq!(proto.next_deadline(), Instant(1_001_000));
    proto.advance(Instant(2_000));
    assert_eq!(proto.next_deadline(), Instant(1_001_000));
    // What is transmitted is repeated in time.
    assert_eq!(proto.poll_transmit().unwrap().header.kind, Kind::Hello);
    proto.advance(Instant(2_000));
    assert_eq!(proto.next_deadline(), Instant(1_001_000));
    while proto.poll_transmit().is_some() {}
    proto.advance(Instant(1_001_000));
    assert_eq!(proto.next_deadline(), Instant(1_002_000));
}

#[test]
fn a_sender_whose_peer_is_silent_for_long_sends_one_frame_at_a_time() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.send(0, 1, b"up");
    w.run(micros(100));
    w.net.cut(w.nodes[1].links[0].0, true, true);
    (0..20).for_each(|_| w.send(0, 1, b"nobody reads this"));
    w.run(Duration::from_millis(400));
    let before = w.nodes[0].count(Kind::Data);
    w.run(Duration::from_millis(600));
    // A timeout is 100 to 200 ms now.
    let sent = w.nodes[0].count(Kind::Data) - before;
    assert!((3..=6).contains(&sent), "{sent}");
    w.net.cut(w.nodes[1].links[0].0, false, false);
    w.run(Duration::from_millis(201));
    assert_eq!(w.received(1).len(), 21);
}
