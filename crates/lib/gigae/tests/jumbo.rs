//! Frames of more than one buffer, MTUs that differ, and networks that carry less than both ends
//! can take: on a simulated network, in virtual time.
#![allow(missing_docs)]

use gigae::{Address, Completion, Endpoint, OpError, Options, Peer, Reason, Rights, Wanted};
use gigae_sim::{Faults, Network};
use std::time::Duration;

/// Longest message in one buffer of 3,840 bytes, and longest payload at MTU 9000.
const ONE_BUFFER: usize = 3840 - 14 - 32;
const LONGEST: usize = 9000 - 32;

fn quiet() -> Faults {
    Faults { delay: Duration::from_micros(5), ..Faults::default() }
}

fn wild() -> Faults {
    Faults {
        loss: 0.05,
        duplication: 0.03,
        corruption: 0.03,
        disorder: 0.05,
        disorder_by: Duration::from_micros(40),
        ..quiet()
    }
}

fn hole(black_hole: usize) -> Faults {
    Faults { black_hole, ..quiet() }
}

/// Two ends with these MTUs and options, that know each other.
fn pair(net: &Network, mtus: [usize; 2], options: &Options) -> ([Endpoint; 2], [Peer; 2]) {
    let open = |n: usize| {
        net.set_mtu(mtus[n]);
        options.clone().open_simulated(net, n as u32 + 1).unwrap()
    };
    let ends = [open(0), open(1)];
    let knows = |a: usize, b: usize| ends[a].peer(Address::from(ends[b].link().mac)).unwrap();
    let peers = [knows(0, 1), knows(1, 0)];
    (ends, peers)
}

/// Lets time pass until `done`, or for a second.
fn run(net: &Network, ends: &[Endpoint; 2], mut done: impl FnMut() -> bool) {
    for _ in 0..200_000 {
        if done() {
            return;
        }
        ends.iter().for_each(|end| end.flush().unwrap());
        net.advance_to(net.now() + 5_000);
    }
    panic!("not done after a second: {:?}", ends[0].counters());
}

/// The next completions of an end, as many as that.
fn complete(net: &Network, ends: &[Endpoint; 2], of: usize, count: usize) -> Vec<Completion> {
    let mut all = Vec::new();
    run(net, ends, || {
        all.extend(std::iter::from_fn(|| ends[of].try_completion().unwrap()));
        all.len() >= count
    });
    all
}

fn body(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed * 7 + (i >> 8)) as u8).collect()
}

/// A tagged message and a write of this many bytes each arrive whole; how many data frames the
/// second took.
fn carry(net: &Network, ends: &[Endpoint; 2], to: Peer, len: usize) -> u64 {
    ends[1].start_recv(Wanted::ANY, vec![0; len]).unwrap();
    ends[0].start_send(to, 7, body(len, 1)).unwrap();
    let [received] = &mut complete(net, ends, 1, 1)[..] else { panic!("one receive") };
    assert_eq!((received.len, received.result), (len, Ok(())));
    assert!(received.memory.take().unwrap().into_vec().unwrap() == body(len, 1));
    complete(net, ends, 0, 1);
    let before = ends[1].counters().protocol.frames_delivered;
    let key = ends[1].register(vec![0; len], Rights::ALL).unwrap();
    ends[0].start_write(to, key, 0, body(len, 2), None).unwrap();
    assert_eq!(complete(net, ends, 0, 1)[0].result, Ok(()));
    let mut there = vec![0; len];
    assert!(ends[1].read_region(key, 0, &mut there) && there == body(len, 2));
    ends[1].counters().protocol.frames_delivered - before
}

#[test]
fn operations_fill_frames_of_several_buffers() {
    let net = Network::new(1, quiet());
    let (ends, [to, _]) = pair(&net, [9000, 9000], &Options::new("sim"));
    assert_eq!(ends[0].max_message(), ONE_BUFFER);
    let frames = carry(&net, &ends, to, 1_000_000);
    let least = 1_000_000_u64.div_ceil(LONGEST as u64);
    assert!((least..least + 4).contains(&frames), "{frames} frames, {least} at least");
    assert_eq!(ends[0].counters().protocol.black_holes, 0);
}

/// The question is repeated before it is answered, so its second answer finds long frames queued.
#[test]
fn a_late_answer_about_the_length_fails_no_operation() {
    let net = Network::new(1, Faults { delay: Duration::from_micros(800), ..quiet() });
    let (ends, [to, _]) = pair(&net, [9000, 9000], &Options::new("sim"));
    for n in 0..20 {
        ends[1].start_recv(Wanted::tag(n), vec![0; 20_000]).unwrap();
        ends[0].start_send(to, n, body(20_000, n as usize)).unwrap();
    }
    assert!(complete(&net, &ends, 1, 20).iter().all(|done| done.result == Ok(())));
    assert!(complete(&net, &ends, 0, 20).iter().all(|done| done.result == Ok(())));
}

#[test]
fn nothing_is_lost_or_torn_in_long_frames_whatever_the_network_does() {
    for seed in 1..6 {
        for go_back_n in [false, true] {
            let net = Network::new(seed, wild());
            let options = Options::new("sim");
            let options = if go_back_n { options.go_back_n() } else { options };
            let (ends, [to, back]) = pair(&net, [9000, 9000], &options);
            carry(&net, &ends, to, 300_000);
            // Both ways at once, with messages of one buffer between.
            for n in 0..20 {
                ends[0].start_send(to, n, body(20_000, n as usize)).unwrap();
                ends[1].start_send(back, n, body(20_000, n as usize)).unwrap();
                ends.iter().for_each(|end| {
                    end.start_recv(Wanted::tag(n), vec![0; 20_000]).unwrap();
                });
                ends[0].queue(to, &body(ONE_BUFFER, n as usize)).unwrap();
            }
            let mut got = 0;
            run(&net, &ends, || {
                while let Some(message) = ends[1].try_recv().unwrap() {
                    assert!(message[..] == body(ONE_BUFFER, got));
                    got += 1;
                }
                got == 20
            });
            for of in 0..2 {
                for done in complete(&net, &ends, of, 40) {
                    let expected = body(20_000, done.tag as usize);
                    assert_eq!(done.result, Ok(()));
                    assert!(done.memory.unwrap().into_vec().unwrap() == expected);
                }
            }
            assert!(ends[0].counters().protocol.retransmissions > 0);
        }
    }
}

#[test]
fn mtus_that_differ_meet_at_the_smaller_one() {
    for mtus in [[1500, 9000], [9000, 1500], [9000, 3000], [3400, 9000], [576, 9000]] {
        let net = Network::new(1, quiet());
        let (ends, [to, _]) = pair(&net, mtus, &Options::new("sim"));
        let least = mtus[0].min(mtus[1]) - 32;
        let frames = carry(&net, &ends, to, 100_000);
        let expected = 100_000_u64.div_ceil(least as u64);
        assert!(
            frames >= expected && frames <= expected * 11 / 10 + 4,
            "{mtus:?}: {frames} frames"
        );
        let longest = least.min(ONE_BUFFER);
        ends[0].send(to, &body(longest, 3)).unwrap();
        run(&net, &ends, || ends[1].try_recv().unwrap().is_some_and(|m| m[..] == body(longest, 3)));
        assert_eq!(ends[0].counters().protocol.black_holes, 0);
    }
}

#[test]
fn what_a_switch_swallows_is_found_out_before_it_is_used() {
    // The longest frame that passes, and what of it a message and a frame of operations can use.
    for (passes, longest, operations) in [(1514, 1468, 1468), (4014, ONE_BUFFER, ONE_BUFFER)] {
        let net = Network::new(1, hole(passes));
        let (ends, [to, _]) = pair(&net, [9000, 9000], &Options::new("sim"));
        let frames = carry(&net, &ends, to, 300_000);
        let least = 300_000_u64.div_ceil(operations as u64);
        assert!(frames >= least && frames <= least * 11 / 10, "{passes}: {frames} frames");
        ends[0].send(to, &body(longest, 1)).unwrap();
        run(&net, &ends, || ends[1].try_recv().unwrap().is_some_and(|m| m.len() == longest));
        for end in &ends {
            let counted = end.counters().protocol;
            assert_eq!((counted.black_holes, counted.timeouts), (1, 0), "{passes}: {counted:?}");
        }
        assert!(net.tally().too_long > 0);
    }
}

#[test]
fn a_message_that_the_network_swallows_fails_with_the_length_that_it_carries() {
    let net = Network::new(1, hole(1514));
    let (ends, [to, _]) = pair(&net, [9000, 9000], &Options::new("sim"));
    ends[0].send(to, &body(ONE_BUFFER, 1)).unwrap();
    let mut failure = None;
    run(&net, &ends, || {
        assert!(ends[1].try_recv().unwrap().is_none());
        failure = failure.take().or_else(|| ends[0].take_failure());
        failure.is_some()
    });
    assert_eq!(failure.unwrap().reason(), Reason::TooLong(1468));
    // What fits goes, in a new session that finds out again.
    ends[0].send(to, &body(1468, 2)).unwrap();
    run(&net, &ends, || ends[1].try_recv().unwrap().is_some_and(|m| m[..] == body(1468, 2)));
}

/// The sender asks again what the network carries, since a frame of the link is longer than every
/// network's. The peer is only away.
#[test]
fn a_peer_that_is_away_for_a_while_costs_no_length() {
    let net = Network::new(1, quiet());
    let (ends, [to, _]) = pair(&net, [9000, 9000], &Options::new("sim").bulk(true));
    let begin = |seed| {
        ends[1].start_recv(Wanted::ANY, vec![0; 3500]).unwrap();
        ends[0].start_send(to, 7, body(3500, seed)).unwrap();
    };
    let finish = |seed| {
        let received = complete(&net, &ends, 1, 1).remove(0);
        assert!(received.memory.unwrap().into_vec().unwrap() == body(3500, seed));
        complete(&net, &ends, 0, 1);
    };
    begin(1);
    finish(1);
    begin(2);
    let end = net.now() + 300_000_000;
    while net.now() < end {
        ends[0].flush().unwrap();
        net.advance_to(net.now() + 5_000);
    }
    finish(2);
    let before = ends[1].counters().protocol.frames_delivered;
    begin(3);
    finish(3);
    let [sender, receiver] = [0, 1].map(|end| ends[end].counters().protocol);
    assert_eq!((sender.black_holes, receiver.frames_delivered - before), (0, 1), "{sender:?}");
    assert!(sender.timeouts >= 3, "{sender:?}");
}

#[test]
fn loss_is_not_taken_for_a_black_hole() {
    let mut found = 0;
    for seed in 0..100 {
        let net = Network::new(seed, Faults { loss: 0.1, ..quiet() });
        let (ends, [to, _]) = pair(&net, [9000, 9000], &Options::new("sim"));
        ends[0].start_recv(Wanted::ANY, vec![0; 10]).unwrap();
        ends[0].send(to, &body(ONE_BUFFER, 1)).unwrap();
        run(&net, &ends, || ends[1].try_recv().unwrap().is_some());
        found += ends[0].counters().protocol.black_holes;
    }
    assert_eq!(found, 0);
}

#[test]
fn a_peer_that_dies_while_it_is_asked_is_lost_in_the_stated_time() {
    let options = Options::new("sim").peer_timeout(Duration::from_millis(50));
    // The session comes up with the first answer; from then on nothing passes.
    for operation in [false, true] {
        let net = Network::new(1, quiet());
        let (ends, [to, _]) = pair(&net, [9000, 9000], &options);
        if operation {
            ends[0].start_send(to, 1, body(100, 0)).unwrap();
        } else {
            ends[0].send(to, b"lost").unwrap();
        }
        run(&net, &ends, || ends[0].counters().protocol.sessions == 1);
        net.set_faults(Faults { loss: 1.0, ..quiet() });
        let began = net.now();
        if operation {
            let lost = complete(&net, &ends, 0, 1);
            assert_eq!(lost[0].result, Err(OpError::Lost(Reason::Timeout)));
        } else {
            let mut failure = None;
            run(&net, &ends, || {
                failure = failure.take().or_else(|| ends[0].take_failure());
                failure.is_some()
            });
            assert_eq!(failure.unwrap().reason(), Reason::Timeout);
        }
        let took = Duration::from_nanos(net.now() - began);
        assert!(took < Duration::from_millis(160), "{took:?}");
    }
}

#[test]
fn an_idle_session_asks_no_one_for_ever() {
    let net = Network::new(1, quiet());
    let (ends, [to, _]) = pair(&net, [9000, 9000], &Options::new("sim"));
    ends[0].send(to, b"up").unwrap();
    run(&net, &ends, || ends[1].try_recv().unwrap().is_some());
    // The other end has asked, too, and is answered whether or not it sends.
    let end = net.now() + 1_000_000;
    run(&net, &ends, || net.now() >= end);
    let before = net.tally().sent;
    let end = net.now() + 500_000_000;
    run(&net, &ends, || net.now() >= end);
    assert_eq!(net.tally().sent, before);
}

/// A path that loses one of its first frames may be too slow for the rest of so short a stream.
#[test]
fn several_links_of_different_mtus_carry_what_the_smallest_does() {
    let uses_both = |seed| {
        let net = Network::new(seed, Faults { loss: 0.01, ..quiet() });
        let (ends, [to, _]) = pair(&net, [9000, 9000], &Options::trunk(["sim0", "sim1"]));
        carry(&net, &ends, to, 500_000);
        ends[0].paths().iter().all(|path| path.link.tx_frames > 20)
    };
    let both = (1..=16).filter(|&seed| uses_both(seed)).count();
    assert!(both >= 12, "{both} of 16");
}
