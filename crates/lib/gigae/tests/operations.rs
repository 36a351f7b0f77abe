//! Tagged messages and remote memory on a simulated network, with seeded faults, in virtual time.
#![allow(missing_docs)]

use gigae::{Address, Completion, Endpoint, OpError, OpId, Options, Peer, Reason, Rights, Wanted};
use gigae_sim::{Faults, Network};
use std::time::Duration;

fn quiet() -> Faults {
    Faults { delay: Duration::from_micros(5), ..Faults::default() }
}

fn wild() -> Faults {
    Faults {
        loss: 0.03,
        duplication: 0.02,
        corruption: 0.02,
        disorder: 0.05,
        disorder_by: Duration::from_micros(40),
        delay: Duration::from_micros(5),
        ..Faults::default()
    }
}

/// Ends on one network, and how each knows the others.
fn ends(net: &Network, count: u32) -> (Vec<Endpoint>, Vec<Vec<Peer>>) {
    let options = Options::new("sim");
    let ends: Vec<_> =
        (1..=count).map(|n| options.clone().open_simulated(net, n).unwrap()).collect();
    let peers = ends
        .iter()
        .map(|end| ends.iter().map(|o| end.peer(Address::from(o.link().mac)).unwrap()).collect())
        .collect();
    (ends, peers)
}

/// Lets time pass in steps while all ends make progress, until `done` or for a second; the
/// completions by end.
fn run(
    net: &Network,
    ends: &[Endpoint],
    mut done: impl FnMut(&[Vec<Completion>]) -> bool,
) -> Vec<Vec<Completion>> {
    let mut all: Vec<Vec<Completion>> = ends.iter().map(|_| Vec::new()).collect();
    for _ in 0..100_000 {
        for (end, all) in ends.iter().zip(&mut all) {
            end.flush().unwrap();
            while let Some(completion) = end.try_completion().unwrap() {
                all.push(completion);
            }
        }
        if done(&all) {
            return all;
        }
        net.advance_to(net.now() + 10_000);
    }
    panic!("not done after a second: {:?}", all.iter().map(Vec::len).collect::<Vec<_>>());
}

fn body(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed * 7 + (i >> 8)) as u8).collect()
}

#[test]
fn messages_of_all_sizes_arrive_whole_and_in_order_through_faults() {
    for (seed, go_back_n, links) in [(1, false, 1), (2, false, 1), (3, true, 1), (4, false, 3)] {
        let net = Network::new(seed, wild());
        let mut options = Options::trunk((0..links).map(|i| format!("sim{i}")));
        if go_back_n {
            options = options.go_back_n();
        }
        let ends: Vec<_> =
            (1..=2).map(|n| options.clone().open_simulated(&net, n).unwrap()).collect();
        let to = ends[0].peer(Address::from(ends[1].link().mac)).unwrap();
        let sizes = [0, 9, 1468, 1500, 20_000, 40_000, 300_000];
        let size = |n: u64| sizes[n as usize % sizes.len()];
        let post = |n: u64| ends[1].start_recv(Wanted::tag(n), vec![0; 300_000]).unwrap();
        for n in 0..42 {
            ends[0].start_send(to, n, body(size(n), n as usize)).unwrap();
            // Every other receive is posted late.
            if n % 2 == 0 {
                post(n);
            }
        }
        let mut all = run(&net, &ends, |all| all[1].len() == 21);
        for n in 0..21 {
            post(2 * n + 1);
        }
        all.extend(run(&net, &ends, |all| all[1].len() == 21));
        for Completion { tag, len, result, memory, .. } in all.into_iter().flatten() {
            let expected = body(size(tag), tag as usize);
            assert_eq!((result, len), (Ok(()), expected.len()));
            let memory = memory.unwrap().into_vec().unwrap();
            assert!(memory[..len] == expected, "{tag}");
        }
        ends[0].drain(Duration::from_secs(1)).unwrap();
        while ends[0].take_completion().is_some() {}
        assert_eq!(ends[0].outstanding() + ends[1].outstanding(), 0);
        assert!(ends[0].counters().protocol.retransmissions > 0);
    }
}

/// Operations go by all links of a trunk, and by those that are left when one is cut.
#[test]
fn operations_over_several_links_are_done_though_one_is_cut_on_the_way() {
    const MEBIBYTE: usize = 1 << 20;
    for (links, cut) in [(2, 0), (2, 1), (4, 0), (4, 3)] {
        let net = Network::new(7, Faults { rate: 125_000_000, ..quiet() });
        let options = Options::trunk((0..links).map(|i| format!("sim{i}")));
        let ends = [1, 2].map(|n| options.clone().open_simulated(&net, n).unwrap());
        let to = ends[0].peer(Address::from(ends[1].link().mac)).unwrap();
        let key = ends[1].register(vec![0; 2 * MEBIBYTE], Rights::ALL).unwrap();
        let start = |n: u64| {
            let at = n * MEBIBYTE as u64;
            ends[0].start_write(to, key, at, body(MEBIBYTE, n as usize), Some(n)).unwrap();
            // One that is asked for, and one that is not.
            for (tag, len) in [(2 * n, 300_000), (2 * n + 1, 20_000)] {
                ends[1].start_recv(Wanted::tag(tag), vec![0; len]).unwrap();
                ends[0].start_send(to, tag, body(len, tag as usize)).unwrap();
            }
        };
        start(0);
        let mut all = run(&net, &ends, |all| all[0].len() == 3 && all[1].len() == 2);
        for path in ends[0].paths() {
            assert!(path.link.tx_frames > 700 / links as u64, "{links} links: {path:?}");
        }
        start(1);
        let mut steps = 0;
        let cut_off = ends[0].paths()[cut].info.mac;
        all.extend(run(&net, &ends, |all| {
            steps += 1;
            if steps == 100 {
                assert!(all[0].iter().all(|done| done.memory.is_none()), "it is under way");
                net.cut(net.port_of(cut_off).expect("it is there"), true, true);
            }
            all[0].len() == 3 && all[1].len() == 2
        }));
        assert!(ends[0].paths()[cut].counters.deaths > 0, "{links} links, {cut} is cut");
        for Completion { tag, len, result, memory, .. } in all.into_iter().flatten() {
            assert_eq!(result, Ok(()));
            let memory = memory.unwrap().into_vec().unwrap();
            let seed = if len == MEBIBYTE { 0 } else { tag as usize };
            assert!(len == MEBIBYTE || memory == body(len, seed), "{links} links: {tag}");
        }
        let mut there = vec![0; MEBIBYTE];
        for n in 0..2 {
            assert!(ends[1].read_region(key, n * MEBIBYTE, &mut there));
            assert!(there == body(MEBIBYTE, n), "{links} links, {cut} is cut");
            let notice = ends[1].try_notice().unwrap().unwrap();
            assert_eq!((notice.len as usize, notice.value), (MEBIBYTE, n as u64));
        }
    }
}

#[test]
fn bytes_are_right_whatever_the_network_does() {
    for seed in 1..5 {
        let net = Network::new(seed, wild());
        let (ends, peers) = ends(&net, 3);
        let key = ends[2].register(vec![0; 500_000], Rights::ALL).unwrap();
        for (n, (end, peers)) in ends.iter().zip(&peers).take(2).enumerate() {
            let half = 250_000 * n as u64;
            end.start_write(peers[2], key, half, body(250_000, n), Some(half)).unwrap();
            for _ in 0..20 {
                end.start_fetch_add(peers[2], key, 0, 0).unwrap();
            }
            end.start_read(peers[2], key, half, vec![0; 250_000]).unwrap();
        }
        let all = run(&net, &ends, |all| all[0].len() == 22 && all[1].len() == 22);
        for (n, all) in all.iter().take(2).enumerate() {
            assert!(all.iter().all(|c| c.result.is_ok()));
            let mut there = vec![0; 250_000];
            assert!(ends[2].read_region(key, 250_000 * n, &mut there));
            assert_eq!(there, body(250_000, n));
            let notice = ends[2].try_notice().unwrap().unwrap();
            assert_eq!((notice.len, notice.value), (250_000, notice.offset));
        }
        assert_eq!(ends[2].region_writes(key), Some(42));
        let (memory, writes) = ends[2].deregister(key).unwrap();
        assert_eq!((memory.into_vec().unwrap().len(), writes), (500_000, 42));
        assert!(ends[2].deregister(key).is_none());
    }
}

#[test]
fn a_read_brings_what_a_write_before_it_put_there() {
    let net = Network::new(9, wild());
    let (ends, peers) = ends(&net, 2);
    let key = ends[1].register(vec![0; 100_000], Rights::ALL).unwrap();
    ends[0].start_write(peers[0][1], key, 0, body(100_000, 3), None).unwrap();
    ends[0].start_read(peers[0][1], key, 0, vec![0; 100_000]).unwrap();
    let mut all = run(&net, &ends, |all| all[0].len() == 2);
    let read = all[0].pop().unwrap();
    assert_eq!(read.memory.unwrap().into_vec().unwrap(), body(100_000, 3));
}

#[test]
fn messages_and_operations_go_side_by_side() {
    let net = Network::new(4, wild());
    let (ends, peers) = ends(&net, 2);
    for n in 0..200_u32 {
        ends[0].queue(peers[0][1], &n.to_be_bytes()).unwrap();
        ends[0].start_send(peers[0][1], u64::from(n), body(50, n as usize)).unwrap();
        ends[1].start_recv(Wanted::tag(n.into()).from(peers[1][0]), vec![0; 50]).unwrap();
    }
    let mut next = 0_u32;
    let all = run(&net, &ends, |all| {
        while let Some(message) = ends[1].try_recv().unwrap() {
            assert_eq!(message[..], next.to_be_bytes());
            next += 1;
        }
        all[0].len() == 200 && all[1].len() == 200 && next == 200
    });
    for completion in all.into_iter().nth(1).unwrap() {
        let tag = completion.tag as usize;
        assert_eq!(completion.memory.unwrap().into_vec().unwrap(), body(50, tag));
    }
}

#[test]
fn a_lost_peer_ends_every_operation_and_a_new_session_begins_clean() {
    let net = Network::new(1, quiet());
    let options = Options::new("sim").peer_timeout(Duration::from_millis(50));
    let ends: Vec<_> = (1..=2).map(|n| options.clone().open_simulated(&net, n).unwrap()).collect();
    let to = ends[0].peer(Address::from(ends[1].link().mac)).unwrap();
    ends[1].start_recv(Wanted::ANY, vec![0; 1_000_000]).unwrap();
    ends[0].start_send(to, 1, body(1_000_000, 0)).unwrap();
    run(&net, &ends, |_| ends[1].counters().protocol.frames_delivered > 50);
    net.set_faults(Faults { loss: 1.0, ..quiet() });
    ends[0].start_fetch_add(to, gigae::RegionKey(7), 0, 1).unwrap();
    let all = run(&net, &ends, |all| all[0].len() == 2);
    assert!(all[0].iter().all(|c| c.result == Err(OpError::Lost(Reason::Timeout))));
    net.set_faults(quiet());
    ends[0].start_send(to, 2, body(100, 2)).unwrap();
    ends[1].start_recv(Wanted::tag(2), vec![0; 100]).unwrap();
    let all = run(&net, &ends, |all| all[0].len() == 1 && all[1].len() == 2);
    assert_eq!(all[1][0].result, Err(OpError::Lost(Reason::Reset)));
    assert_eq!((all[1][1].len, all[1][1].result), (100, Ok(())));
}

#[test]
fn an_offered_message_whose_session_has_ended_is_not_found_and_nothing_waits_for_the_next() {
    let net = Network::new(1, quiet());
    let options = Options::new("sim").peer_timeout(Duration::from_millis(50));
    let ends: Vec<_> = (1..=2).map(|n| options.clone().open_simulated(&net, n).unwrap()).collect();
    let to = ends[0].peer(Address::from(ends[1].link().mac)).unwrap();
    let found = || ends[1].start_recv_found(Wanted::tag(1), |len| vec![0; len]).unwrap();
    assert!(found().is_none());
    ends[0].start_send(to, 1, body(100_000, 0)).unwrap();
    run(&net, &ends, |_| ends[1].peek(Wanted::ANY).is_some());
    // A program has looked. Before it receives, the sender is lost and begins again.
    net.set_faults(Faults { loss: 1.0, ..quiet() });
    ends[0].start_fetch_add(to, gigae::RegionKey(7), 0, 1).unwrap();
    run(&net, &ends, |all| all[0].len() == 2);
    net.set_faults(quiet());
    ends[0].start_send(to, 2, vec![]).unwrap();
    run(&net, &ends, |_| ends[1].peek(Wanted::tag(2)).is_some());
    assert!(found().is_none());
    assert_eq!(ends[1].outstanding(), 0);
    ends[0].start_send(to, 1, body(80_000, 1)).unwrap();
    run(&net, &ends, |_| ends[1].peek(Wanted::tag(1)).is_some());
    let (id, peer, label, len) = found().unwrap();
    let from = ends[1].peer(Address::from(ends[0].link().mac)).unwrap();
    assert_eq!((peer, label.tag, len), (from, 1, 80_000));
    let mut all = run(&net, &ends, |all| all[1].len() == 1);
    let got = all[1].pop().unwrap();
    assert_eq!((got.id, got.result), (id, Ok(())));
    assert_eq!(got.memory.unwrap().into_vec().unwrap(), body(80_000, 1));
}

#[test]
fn what_was_acknowledged_and_never_answered_ends_with_the_peer() {
    let net = Network::new(1, quiet());
    let options = Options::new("sim").peer_timeout(Duration::from_millis(50));
    let open = |n| options.clone().linger(Duration::ZERO).open_simulated(&net, n).unwrap();
    let (a, b, c) = (open(1), open(2), open(3));
    let to = |from: &Endpoint, to: &Endpoint| from.peer(Address::from(to.link().mac)).unwrap();
    // Offered to one that receives nothing; and half of one is pulled by a third.
    a.start_send(to(&a, &b), 1, body(100_000, 1)).unwrap();
    c.start_recv(Wanted::ANY, vec![0; 1_000_000]).unwrap();
    b.start_send(to(&b, &c), 2, body(1_000_000, 2)).unwrap();
    let ends = [a, b, c];
    run(&net, &ends, |_| ends[2].counters().protocol.frames_delivered > 100);
    let [a, b, c] = ends;
    assert_eq!((a.outstanding(), c.outstanding()), (1, 1));
    net.set_faults(Faults { loss: 1.0, ..quiet() });
    drop(b);
    let ended = run(&net, &[a, c], |all| all[0].len() == 1 && all[1].len() == 1);
    for completion in ended.iter().flatten() {
        assert_eq!(completion.result, Err(OpError::Lost(Reason::Timeout)));
    }
}

#[test]
fn a_peer_that_lets_an_operation_wait_for_long_is_not_lost() {
    let net = Network::new(1, wild());
    let options = Options::new("sim").peer_timeout(Duration::from_millis(50));
    let ends: Vec<_> = (1..=2).map(|n| options.clone().open_simulated(&net, n).unwrap()).collect();
    let to = ends[0].peer(Address::from(ends[1].link().mac)).unwrap();
    ends[0].start_send(to, 1, body(100_000, 1)).unwrap();
    let until = net.now() + 900_000_000;
    run(&net, &ends, |all| {
        assert!(all[0].is_empty(), "{:?}", all[0]);
        net.now() > until
    });
    ends[1].start_recv(Wanted::ANY, vec![0; 100_000]).unwrap();
    let all = run(&net, &ends, |all| all[0].len() == 1 && all[1].len() == 1);
    assert!(all.iter().flatten().all(|c| c.result.is_ok()));
}

#[test]
fn closing_waits_for_what_was_started() {
    let net = Network::new(3, wild());
    let (mut ends, peers) = ends(&net, 2);
    ends[1].start_recv(Wanted::ANY, vec![0; 20_000]).unwrap();
    ends[0].start_send(peers[0][1], 1, body(20_000, 1)).unwrap();
    run(&net, &ends, |_| ends[0].counters().protocol.sessions == 1);
    let first = ends.remove(0);
    let other = std::thread::scope(|_| {
        // One thread, one time: the closing end sleeps, and time passes.
        for _ in 0..200 {
            first.flush().unwrap();
            net.advance_to(net.now() + 10_000);
            ends[0].flush().unwrap();
        }
        drop(first);
        ends[0].completion_timeout(Duration::from_millis(100)).unwrap().unwrap()
    });
    assert_eq!((other.len, other.result), (20_000, Ok(())));
}

#[test]
fn a_peer_that_is_lost_with_its_operations_is_left_alone() {
    let net = Network::new(1, quiet());
    let options = Options::new("sim").peer_timeout(Duration::from_millis(20));
    let end = options.linger(Duration::ZERO).open_simulated(&net, 1).unwrap();
    let (_, nobody) = net.add_port();
    let ends = [end];
    let to = ends[0].peer(Address::from(nobody)).unwrap();
    ends[0].start_send(to, 7, body(100, 1)).unwrap();
    let completed = run(&net, &ends, |all| all[0].len() == 1);
    assert_eq!(completed[0][0].result, Err(OpError::Lost(Reason::Timeout)));
    let sent = net.tally().sent;
    assert!(sent > 0);
    let until = net.now() + 200_000_000;
    run(&net, &ends, |_| net.now() > until);
    assert_eq!(net.tally().sent, sent, "nothing is wanted of it any more");
}

#[test]
fn operations_with_oneself_are_done_without_a_frame() {
    let net = Network::new(1, quiet());
    let (ends, peers) = ends(&net, 1);
    let (end, own) = (&ends, peers[0][0]);
    let sizes = [0, 8, 20_000, 40_000, 300_000];
    for (n, len) in sizes.into_iter().enumerate() {
        // One receive is there before its message, the next comes after.
        if n % 2 == 0 {
            end[0].start_recv(Wanted::tag(n as u64).from(own), vec![0; len]).unwrap();
        }
        end[0].start_send(own, n as u64, body(len, n)).unwrap();
        if n % 2 == 1 {
            end[0].flush().unwrap();
            end[0].start_recv(Wanted::tag(n as u64), vec![0; len]).unwrap();
        }
    }
    let key = end[0].register(vec![0; 100_000], Rights::ALL).unwrap();
    end[0].start_write(own, key, 0, body(100_000, 9), Some(5)).unwrap();
    end[0].start_fetch_add(own, key, 0, 1).unwrap();
    let read = end[0].start_read(own, key, 8, vec![0; 1000]).unwrap();
    let mut all = run(&net, end, |all| all[0].len() == 2 * sizes.len() + 3);
    for Completion { id, result, memory, .. } in all.remove(0) {
        assert_eq!(result, Ok(()));
        if id == read {
            assert_eq!(memory.unwrap().into_vec().unwrap(), body(100_000, 9)[8..1008]);
        }
    }
    let notice = end[0].try_notice().unwrap().unwrap();
    assert_eq!((notice.peer, notice.len, notice.value), (own, 100_000, 5));
    // Longer than the peer timeout: no end asks the wire whether this end is there.
    end[0].start_recv(Wanted::tag(99).from(own), vec![0; 8]).unwrap();
    for _ in 0..20_000 {
        net.advance_to(net.now() + 1_000_000);
        assert!(end[0].try_completion().unwrap().is_none());
    }
    end[0].start_send(own, 99, vec![1; 8]).unwrap();
    run(&net, end, |all| all[0].len() == 2);
    assert_eq!(end[0].counters().link.tx_frames, 0);
}

#[test]
fn injected_messages_keep_their_place_among_others_through_faults() {
    const COUNT: u64 = 300;
    let net = Network::new(9, wild());
    let (ends, peers) = ends(&net, 2);
    let to = peers[0][1];
    assert!(!ends[0].inject(to, 1, &[1]), "no session is up");
    assert!(!ends[0].inject(peers[0][0], 1, &[1]), "oneself");
    let (mut sent, mut injected) = (0, 0);
    let mut got = 0;
    for _ in 0..COUNT {
        ends[1].start_recv(Wanted::tag(7), vec![0; 1000]).unwrap();
    }
    for _ in 0..1_000_000 {
        while sent < COUNT {
            let bytes = body(1 + sent as usize % 900, sent as usize);
            if sent % 3 > 0 && ends[0].inject(to, 7, &bytes) {
                injected += 1;
            } else if sent % 3 == 0 || injected > 0 {
                ends[0].start_send(to, 7, bytes).unwrap();
            } else {
                break;
            }
            sent += 1;
            if sent % 8 == 0 {
                break;
            }
        }
        while let Some(completion) = ends[0].try_completion().unwrap() {
            assert_eq!(completion.result, Ok(()));
        }
        while let Some(completion) = ends[1].try_completion().unwrap() {
            let len = 1 + got % 900;
            assert_eq!((completion.len, completion.result), (len, Ok(())), "message {got}");
            assert!(completion.memory.unwrap().into_vec().unwrap()[..len] == body(len, got));
            got += 1;
        }
        if got as u64 == COUNT && ends[0].outstanding() == 0 {
            break;
        }
        net.advance_to(net.now() + 10_000);
    }
    assert_eq!(got as u64, COUNT);
    assert!(injected > 20, "only {injected} were injected");
}

#[test]
fn injected_messages_that_go_out_together_share_a_frame() {
    let net = Network::new(4, quiet());
    let (ends, peers) = ends(&net, 2);
    let to = peers[0][1];
    ends[0].start_send(to, 1, vec![1]).unwrap();
    run(&net, &ends, |all| all[0].len() == 1);
    let before = ends[0].counters().link.tx_frames;
    for n in 0..50 {
        assert!(ends[0].inject(to, 100 + n, &body(20, n as usize)));
    }
    assert_eq!(ends[0].counters().link.tx_frames, before, "nothing rings");
    ends[0].ring().unwrap();
    let frames = ends[0].counters().link.tx_frames - before;
    assert_eq!(frames, 2, "50 of 36 bytes and less, in frames of 1,468");
    for n in 0..50 {
        ends[1].start_recv(Wanted::tag(100 + n), vec![0; 20]).unwrap();
    }
    let mut all = run(&net, &ends, |all| all[1].len() == 50);
    for (n, completion) in all.remove(1).into_iter().enumerate() {
        assert_eq!(completion.result, Ok(()));
        assert!(completion.memory.unwrap().into_vec() == Some(body(20, n)), "message {n}");
    }
}

#[test]
fn an_injected_message_to_a_peer_that_vanishes_is_said_to_be_lost() {
    let net = Network::new(3, quiet());
    let options = Options::new("sim").peer_timeout(Duration::from_millis(20));
    let open = |n| options.clone().linger(Duration::ZERO).open_simulated(&net, n).unwrap();
    let ends = [open(1), open(2)];
    let to = ends[0].peer(Address::from(ends[1].link().mac)).unwrap();
    ends[0].start_send(to, 1, vec![1]).unwrap();
    run(&net, &ends, |all| all[0].len() == 1);
    assert!(ends[0].inject(to, 2, &[2]));
    let [first, second] = ends;
    // It goes without a word.
    std::mem::forget(second);
    let ends = [first];
    let all = run(&net, &ends, |all| !all[0].is_empty());
    let Completion { id, peer, result, .. } = &all[0][0];
    assert_eq!((*id, *peer), (OpId::INJECTED, Some(to)));
    assert_eq!(*result, Err(OpError::Lost(Reason::Timeout)));
    assert_eq!(all[0].len(), 1);
}

#[test]
fn an_operation_is_outstanding_until_its_completion_is_taken() {
    let net = Network::new(1, quiet());
    let (ends, peers) = ends(&net, 2);
    ends[1].start_recv(Wanted::tag(1), vec![0; 8]).unwrap();
    ends[0].start_send(peers[0][1], 1, vec![1; 8]).unwrap();
    for _ in 0..1000 {
        ends.iter().for_each(|end| end.flush().unwrap());
        net.advance_to(net.now() + 10_000);
    }
    for end in &ends {
        // It has ended, and the program has not learnt of it.
        assert_eq!(end.outstanding(), 1);
        assert!(end.take_completion().is_some());
        assert_eq!(end.outstanding(), 0);
    }
}
