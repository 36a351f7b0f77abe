//! Several links as one (`PROTOCOL.md` §11): order, shares, cuts and returns, in virtual time.
#![allow(missing_docs)]

mod trunk;
mod world;

use gigae_proto::{Instant, PeerId, ProtocolConfig, Reason};
use gigae_sim::Faults;
use gigae_wire::{Kind, PathId};
use std::time::Duration;
use trunk::{GIGABIT, Stream, config, cut, kinds, link, millis, share, trunk};
use world::{World, micros, quiet};

/// What an application may see of a cut link.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

#[test]
fn equal_links_carry_what_they_carry_together() {
    for count in [2, 3, 4, 8] {
        let share = share(&vec![GIGABIT; count]);
        assert!(share >= 0.97, "{count} links: {share:.3} of the sum");
    }
}

#[test]
fn unequal_links_are_weighed_by_what_they_deliver() {
    for rates in [
        &[GIGABIT, GIGABIT / 10][..],
        &[GIGABIT / 10, GIGABIT],
        &[GIGABIT, GIGABIT * 5 / 2],
        &[GIGABIT, GIGABIT / 2, GIGABIT / 4, GIGABIT],
    ] {
        let share = share(rates);
        assert!(share >= 0.97, "{rates:?}: {share:.3} of the sum");
    }
}

#[test]
fn a_link_that_becomes_slower_gets_less_and_one_that_becomes_faster_more() {
    let mut w = trunk(2, 1);
    kinds(&mut w, &[link(GIGABIT), link(GIGABIT)]);
    let mut stream = Stream::new(&w);
    stream.flow(&mut w, millis(50));
    kinds(&mut w, &[link(GIGABIT), link(GIGABIT / 5)]);
    stream.flow(&mut w, millis(100));
    w.nodes[0].sent_on = vec![0, 0];
    stream.flow(&mut w, millis(100));
    let [fast, slow] = w.nodes[0].sent_on[..] else { unreachable!() };
    assert!((4.0..6.0).contains(&(fast as f64 / slow as f64)), "{fast} and {slow}");
    kinds(&mut w, &[link(GIGABIT), link(GIGABIT)]);
    stream.flow(&mut w, millis(100));
    w.nodes[0].sent_on = vec![0, 0];
    stream.flow(&mut w, millis(100));
    let [one, other] = w.nodes[0].sent_on[..] else { unreachable!() };
    assert!((0.9..1.1).contains(&(one as f64 / other as f64)), "{one} and {other}");
    stream.end(&mut w);
}

#[test]
fn what_one_link_delays_is_not_lost() {
    for delay in [micros(50), micros(500), millis(2)] {
        let mut w = trunk(2, 1);
        kinds(&mut w, &[link(GIGABIT), Faults { delay, ..link(GIGABIT) }]);
        let mut stream = Stream::new(&w);
        stream.flow(&mut w, millis(100));
        stream.end(&mut w);
        assert_eq!(w.nodes[0].proto.counters().retransmissions, 0, "{delay:?}");
    }
}

#[test]
fn a_stream_over_two_links_is_rarely_acknowledged() {
    let mut w = trunk(2, 1);
    kinds(&mut w, &[link(GIGABIT), link(GIGABIT)]);
    let mut stream = Stream::new(&w);
    stream.flow(&mut w, millis(100));
    let sent = stream.sent as usize;
    stream.end(&mut w);
    let acks = w.nodes[1].count(Kind::Ack);
    assert!(acks <= sent / 8 + 200, "{acks} for {sent} frames: one in sixteen, and reports");
}

#[test]
fn faults_of_all_kinds_on_links_of_all_kinds_lose_and_disorder_nothing() {
    let bad = Faults {
        loss: 0.05,
        duplication: 0.05,
        corruption: 0.02,
        disorder: 0.05,
        disorder_by: micros(300),
        ..link(GIGABIT)
    };
    let slow = Faults { delay: millis(1), buffer: 100_000, ..link(GIGABIT / 10) };
    for seed in 0..12 {
        for faults in [[bad, link(GIGABIT)], [link(GIGABIT), bad], [bad, bad], [bad, slow]] {
            let mut w = trunk(2, seed);
            kinds(&mut w, &faults);
            let mut stream = Stream::new(&w);
            stream.flow(&mut w, millis(30));
            stream.end(&mut w);
        }
    }
}

#[test]
fn a_link_that_is_cut_costs_a_short_pause_and_is_used_again_when_it_is_back() {
    for path in [0, 1] {
        for seed in 0..4 {
            let mut w = trunk(2, seed);
            kinds(&mut w, &[link(GIGABIT), link(GIGABIT)]);
            let mut stream = Stream::new(&w);
            stream.flow(&mut w, millis(50));
            cut(&w, path, true);
            stream.flow(&mut w, millis(200));
            let counters = w.nodes[0].proto.paths()[path];
            assert_eq!((counters.deaths, counters.returns), (1, 0));
            w.nodes[0].sent_on = vec![0, 0];
            stream.flow(&mut w, millis(50));
            assert_eq!(w.nodes[0].sent_on[path], 0, "nothing goes by a dead path");
            cut(&w, path, false);
            stream.flow(&mut w, millis(200));
            assert_eq!(w.nodes[0].proto.paths()[path].returns, 1);
            w.nodes[0].sent_on = vec![0, 0];
            stream.flow(&mut w, millis(50));
            let [one, other] = w.nodes[0].sent_on[..] else { unreachable!() };
            assert!((0.9..1.1).contains(&(one as f64 / other as f64)), "{one} and {other}");
            let pause = stream.end(&mut w);
            assert!(pause <= LONGEST_PAUSE, "{pause:?}");
        }
    }
}

#[test]
fn a_link_that_works_one_way_only_costs_a_short_pause() {
    for path in [0, 1] {
        for (after, (from, to)) in (50..60).zip([(true, false), (false, true)].into_iter().cycle())
        {
            let mut w = trunk(2, 1);
            kinds(&mut w, &[link(GIGABIT), link(GIGABIT)]);
            let mut stream = Stream::new(&w);
            stream.flow(&mut w, millis(after));
            w.net.cut(w.nodes[0].links[path].0, from, to);
            stream.flow(&mut w, millis(300));
            let pause = stream.end(&mut w);
            assert!(pause <= LONGEST_PAUSE, "path {path}, {from} {to}: {pause:?}");
        }
    }
}

/// What rule 11.5 says that a cut holds messages up, beside a round trip and repeating them.
const BOUND: Duration = Duration::from_millis(20);

/// A window of 512 frames by one of the links.
const REPEATING: Duration = Duration::from_millis(6);

#[test]
fn a_cut_holds_messages_up_no_longer_than_is_stated_however_late_the_links_are() {
    for delay in [micros(20), millis(1), millis(2), millis(4)] {
        for path in [0, 1] {
            let mut w = trunk(2, 1);
            kinds(&mut w, &[Faults { delay, ..link(GIGABIT) }; 2]);
            let mut stream = Stream::new(&w);
            stream.flow(&mut w, millis(200));
            stream.pause = Duration::ZERO;
            cut(&w, path, true);
            stream.flow(&mut w, millis(200));
            assert_eq!(w.nodes[0].proto.paths()[path].deaths, 1);
            let pause = stream.end(&mut w);
            // With what the stream's own frames wait for each other.
            let round_trip = 2 * delay + millis(2);
            assert!(pause <= BOUND + round_trip + REPEATING, "{delay:?}, path {path}: {pause:?}");
        }
    }
}

#[test]
fn a_peer_that_is_silent_while_a_link_is_cut_gets_messages_soon_after_its_frames_arrive_again() {
    for silence in (5..=80).step_by(5).map(millis) {
        let mut w = trunk(2, 1);
        // Answers have taken long so far, so timeouts are.
        kinds(&mut w, &[Faults { delay: millis(4), ..link(GIGABIT) }; 2]);
        let mut stream = Stream::new(&w);
        stream.flow(&mut w, millis(100));
        kinds(&mut w, &[link(GIGABIT); 2]);
        cut(&w, 0, true);
        let (far, now) = (w.nodes.pop().expect("two nodes"), w.now());
        w.run_until(now + silence);
        w.nodes.push(far);
        (stream.pause, stream.last) = (Duration::ZERO, w.net.now());
        stream.flow(&mut w, millis(200));
        let bound = (BOUND / 2).max(BOUND.saturating_sub(silence)) + millis(2) + REPEATING;
        assert!(stream.pause <= bound, "{silence:?}: {:?}", stream.pause);
        assert!(w.nodes[0].proto.paths()[0].deaths > 0);
    }
}

/// One message at a time, there and back; the longest time that one took.
fn round_trips(w: &mut World, count: usize) -> Duration {
    let mut longest = Duration::ZERO;
    for n in 0..count {
        let began = w.net.now();
        for (from, to) in [(0, 1), (1, 0)] {
            w.send(from, to, &n.to_be_bytes());
            let before = w.nodes[to].received.len();
            while w.nodes[to].received.len() == before {
                w.run(micros(5));
                assert!(w.net.now() - began < 1_000_000_000, "round trip {n}");
            }
        }
        longest = longest.max(Duration::from_nanos(w.net.now() - began));
    }
    longest
}

#[test]
fn a_question_and_its_answer_survive_the_cut_of_either_link() {
    for path in [0, 1] {
        let mut w = trunk(2, 1);
        round_trips(&mut w, 20);
        cut(&w, path, true);
        let longest = round_trips(&mut w, 20);
        assert!(longest <= LONGEST_PAUSE, "path {path}: {longest:?}");
        cut(&w, path, false);
        w.run(millis(200));
        cut(&w, 1 - path, true);
        let longest = round_trips(&mut w, 20);
        assert!(longest <= LONGEST_PAUSE, "path {path} is back: {longest:?}");
    }
}

#[test]
fn a_few_answers_lost_while_a_link_is_cut_cost_no_peer() {
    for (path, lost) in (0..2).flat_map(|path| (0..5).map(move |lost| (path, lost))) {
        let mut w = trunk(2, 1);
        // The faster one is cut, so that frames would rather go there.
        let slow = Faults { delay: micros(100), ..link(GIGABIT / 10) };
        let mut faults = [slow; 2];
        faults[path] = link(GIGABIT);
        kinds(&mut w, &faults);
        round_trips(&mut w, 200);
        w.send(0, 1, b"alone");
        cut(&w, path, true);
        let sent = w.nodes[1].sent.len();
        w.nodes[1].drop_sent = (sent..sent + lost).collect();
        w.run(Duration::from_secs(2));
        assert!(!w.nodes[0].proto.has_unacknowledged(), "path {path} cut, {lost} answers lost");
    }
}

#[test]
fn a_stopped_sender_asks_by_every_link_whether_a_go_was_lost() {
    for path in [0, 1] {
        let config = ProtocolConfig { receive_window: 4, ..config(2) };
        let mut w = World::with_links(&[2, 2], 1, quiet(), &config);
        round_trips(&mut w, 20);
        w.nodes[1].reads = false;
        (0..8).for_each(|_| w.send(0, 1, b"waits"));
        w.run(millis(50));
        assert!(w.nodes[0].proto.has_unacknowledged(), "it is stopped");
        cut(&w, path, true);
        w.nodes[1].reads = true;
        w.run(Duration::from_secs(2));
        assert!(!w.nodes[0].proto.has_unacknowledged(), "path {path} cut");
    }
}

#[test]
fn the_question_for_the_length_of_frames_goes_by_every_link() {
    for (path, out, moment) in (0..4 * 50).map(|n| (n & 1, n & 2 > 0, 12 + n as u64 / 4)) {
        let config = ProtocolConfig { sure_payload: 500, ..config(2) };
        let mut w = World::with_links(&[2, 2], 1, quiet(), &config);
        // Behind the Hello: it is lost at first, and the peer has nothing to ask for.
        w.nodes[0].drop_sent = vec![1, 2];
        w.send(0, 1, b"waits until the length is known");
        w.run(micros(moment));
        let probes = w.nodes[0].count(Kind::Probe);
        assert_eq!((probes, w.nodes[0].count(Kind::Data)), (2, 0));
        // It works one way only from now on.
        w.net.cut(w.nodes[0].links[path].0, out, !out);
        w.run(millis(500));
        let how = if out { "out" } else { "in" };
        assert_eq!(w.received(1).len(), 1, "no message {how} by {path} after {moment} us");
    }
}

#[test]
fn a_question_about_a_path_is_answered_at_once_whatever_else_is_to_be_said() {
    let mut w =
        World::with_links(&[2, 2], 1, quiet(), &ProtocolConfig { sure_payload: 500, ..config(2) });
    w.nodes[0].drop_sent = vec![1, 2];
    w.send(0, 1, b"hello");
    // The peer's question about the first path comes with two about the length of frames.
    w.run(micros(100));
    for node in &w.nodes {
        assert_eq!(node.proto.peer_snapshot(PeerId(0)).paths, 2);
    }
}

#[test]
fn when_all_links_are_cut_messages_wait_and_flow_again_by_whichever_is_back() {
    for back in [0, 1] {
        let mut w = trunk(2, 1);
        kinds(&mut w, &[link(GIGABIT), link(GIGABIT)]);
        let mut stream = Stream::new(&w);
        stream.flow(&mut w, millis(50));
        cut(&w, 0, true);
        cut(&w, 1, true);
        stream.flow(&mut w, Duration::from_secs(2));
        cut(&w, back, false);
        let before = stream.got;
        stream.flow(&mut w, millis(500));
        assert!(stream.got > before + 10_000, "it flows again by link {back}");
        stream.end(&mut w);
    }
}

#[test]
fn when_all_links_stay_cut_the_peer_is_lost() {
    let config = ProtocolConfig { peer_timeout: millis(500), ..config(2) };
    let mut w = World::with_links(&[2, 2], 1, quiet(), &config);
    w.send(0, 1, b"arrives");
    w.run(millis(10));
    cut(&w, 0, true);
    cut(&w, 1, true);
    w.send(0, 1, b"does not");
    w.run(millis(1000));
    let failed: Vec<_> = w.nodes[0].failed.iter().map(|f| (&f.buffer[..], f.reason)).collect();
    assert_eq!(failed, [(&b"does not"[..], Reason::Timeout)]);
}

#[test]
fn a_peer_that_is_silent_for_a_while_costs_no_path() {
    let mut w = trunk(2, 1);
    round_trips(&mut w, 20);
    w.send(0, 1, b"one");
    w.send(0, 1, b"two");
    // As if it had no CPU: what was sent to it lies in its ports.
    let (far, now) = (w.nodes.pop().expect("two nodes"), w.now());
    w.run_until(now + millis(40));
    w.nodes.push(far);
    w.run(millis(100));
    assert_eq!(w.nodes[1].received.len(), 22);
    assert!(w.nodes[0].proto.counters().timeouts > 0);
    assert!(w.nodes[0].proto.paths().iter().all(|path| path.deaths == 0));
}

/// A node has no CPU for so long: what is sent to it lies in its ports.
fn busy(w: &mut World, node: usize, time: Duration) {
    let away = w.nodes.remove(node);
    w.run(time);
    w.nodes.insert(node, away);
}

/// Lets time pass until the first node has repeated `count` frames in all.
fn until_repeated(w: &mut World, count: u64) {
    let limit = w.now() + millis(100);
    while w.nodes[0].proto.counters().retransmissions < count {
        w.run(micros(5));
        assert!(w.now() < limit, "nothing is repeated");
    }
}

#[test]
fn a_path_that_was_silent_is_asked_also_when_the_answer_came_by_one_that_had_just_died() {
    let mut w = trunk(2, 1);
    round_trips(&mut w, 20);
    // The first is lost and repeated by the other path: the last wait of its own begins.
    // The second is lost on the other one and repeated by this one, which makes that one silent.
    // The questions that go out with the repetitions are lost, too.
    for nth in 1..=2 {
        let next = w.nodes[0].sent.len();
        w.nodes[0].drop_sent = vec![next, next + 2];
        w.send(0, 1, b"lost");
        until_repeated(&mut w, nth);
        w.run(micros(if nth == 1 { 200 } else { 0 }));
    }
    // The answer is there when that last wait is over.
    busy(&mut w, 0, millis(20));
    w.run(Duration::from_secs(1));
    let proto = &w.nodes[0].proto;
    assert!(!proto.has_unacknowledged());
    assert_eq!(proto.paths().iter().map(|path| path.deaths).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(proto.next_deadline(), Instant::NEVER, "nothing is in flight");
}

#[test]
fn when_all_has_arrived_there_is_silence_whatever_was_lost_before() {
    let mut deaths = 0;
    for seed in 0..500 {
        let links = 2 + seed as usize % 2;
        let mut w = trunk(links, seed);
        round_trips(&mut w, 3);
        kinds(&mut w, &vec![Faults { loss: 0.3, ..link(GIGABIT) }; links]);
        for n in 0..20 {
            w.send(0, 1, b"lost, perhaps");
            let node = (seed + n / 3) as usize % 2;
            busy(&mut w, node, micros((seed * 31 + n * 977) % 12_000));
            w.run(micros((seed * 17 + n * 331) % 3_000));
        }
        kinds(&mut w, &vec![link(GIGABIT); links]);
        w.run(Duration::from_secs(3));
        for (i, node) in w.nodes.iter().enumerate() {
            assert!(!node.proto.has_unacknowledged());
            let next = node.proto.next_deadline();
            assert_eq!(next, Instant::NEVER, "seed {seed}, node {i}");
            deaths += node.proto.paths().iter().map(|path| path.deaths).sum::<u64>();
        }
    }
    assert!(deaths > 100, "the losses hit paths in {deaths} cases only");
}

#[test]
fn a_link_that_is_reported_down_costs_no_timeout() {
    let mut w = trunk(2, 1);
    kinds(&mut w, &[link(GIGABIT), link(GIGABIT)]);
    let mut stream = Stream::new(&w);
    stream.flow(&mut w, millis(50));
    cut(&w, 0, true);
    w.nodes[0].proto.link_down(PathId::FIRST);
    stream.flow(&mut w, millis(50));
    assert_eq!(w.nodes[0].proto.counters().timeouts, 0);
    w.nodes[0].proto.link_down(PathId::new(1));
    stream.flow(&mut w, millis(50));
    assert_eq!(w.nodes[0].proto.paths()[1].deaths, 0, "the last one is never given up");
    let pause = stream.end(&mut w);
    assert!(pause <= millis(10), "{pause:?}");
}

#[test]
fn a_link_that_leads_nowhere_is_never_used() {
    let mut w = trunk(2, 1);
    cut(&w, 1, true);
    let mut stream = Stream::new(&w);
    stream.flow(&mut w, millis(20));
    assert_eq!(w.nodes[0].sent_on[1], 0);
    let pause = stream.end(&mut w);
    assert!(pause <= millis(5), "{pause:?}");
    assert_eq!(w.nodes[0].proto.paths()[1].deaths, 0);
}

#[test]
fn the_end_with_fewer_links_says_how_many_are_used() {
    for links in [[1, 2], [2, 1], [2, 4], [4, 2]] {
        let mut w = World::with_links(&links, 1, quiet(), &config(2));
        let mut stream = Stream::new(&w);
        stream.flow(&mut w, millis(20));
        let least = links[0].min(links[1]);
        for (path, &sent) in w.nodes[0].sent_on.iter().enumerate() {
            assert_eq!(sent > 0, path < least, "{links:?}, path {path}: {sent} frames");
        }
        stream.end(&mut w);
        w.send(1, 0, b"back");
        w.run(millis(10));
        assert_eq!(w.received(0), [b"back"]);
    }
}

#[test]
fn a_receiver_that_keeps_nothing_out_of_order_gets_all_by_one_link() {
    let mut w = World::with_links(&[2, 2], 1, quiet(), &config(2).go_back_n());
    let mut stream = Stream::new(&w);
    stream.flow(&mut w, millis(20));
    assert_eq!(w.nodes[0].sent_on[1], 0);
    stream.end(&mut w);
}

/// By a further link any node could speak in its name, until a session has named that link.
#[test]
fn a_peer_that_restarts_is_reached_again_as_soon_as_its_first_link_works() {
    for cut_first in [false, true] {
        let mut w = trunk(2, 1);
        round_trips(&mut w, 20);
        w.restart(1);
        cut(&w, 0, cut_first);
        w.send(0, 1, b"to the former one");
        w.run(millis(300));
        assert_eq!(w.nodes[0].failed.drain(..).count(), 1);
        w.nodes[1].received.clear();
        w.send(0, 1, b"to the new one");
        w.run(millis(300));
        assert_eq!(w.received(1).is_empty(), cut_first);
        cut(&w, 0, false);
        w.run(millis(300));
        assert_eq!(w.received(1), [b"to the new one"], "{cut_first}");
        round_trips(&mut w, 5);
    }
}

#[test]
fn an_endpoint_of_one_link_that_gets_the_address_of_a_former_second_link_is_itself() {
    let mut w = World::with_links(&[2, 2, 1], 1, quiet(), &config(2));
    round_trips(&mut w, 5);
    // The third node has now the card that was the second one's second.
    w.net.cut(w.nodes[2].links[0].0, true, true);
    let card = w.nodes[1].links[1];
    w.nodes[1].links.truncate(1);
    w.nodes[2].links = vec![card];
    w.send(2, 0, b"it is me");
    w.run(millis(300));
    assert_eq!(w.received(0).last(), Some(&&b"it is me"[..]));
    let (from, _) = w.nodes[0].received.last().cloned().unwrap();
    assert_eq!(w.nodes[0].proto.key(from).node, card.1.into());
}
