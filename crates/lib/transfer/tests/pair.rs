//! Two and three ends joined by ordered frames without loss: what the protocol below provides.
#![allow(missing_docs)]

mod world;

use gigae_proto::{PeerId, Reason};
use gigae_transfer::{Accesses, Label, OpError, OpId, RegionKey, Rights, Selector, TransferConfig};
use gigae_wire::Epoch;
use gigae_wire::op::{Action, Change, MAX_OP_HEADER, Number, Op, Status};
use std::collections::VecDeque;
use world::{FRAME, World, anything, body, from};

/// Sizes around every limit there is: empty, one frame, parts, offered.
const SIZES: [usize; 13] =
    [0, 1, 8, 1000, 1452, 1453, 1468, 1469, 5000, 32_768, 32_769, 100_000, 3_000_000];

#[test]
fn a_message_of_any_size_arrives_whether_it_is_expected_or_not() {
    for expected in [true, false] {
        for len in SIZES {
            let mut w = World::new(2);
            if expected {
                w.ends[1].receive(from(0, 5), vec![0; len]).unwrap();
            }
            let sent = w.ends[0].send(PeerId(1), 5, body(len, 1)).unwrap();
            w.run();
            if !expected {
                assert_eq!(w.ends[1].peek(&anything()), Some((PeerId(0), 5.into(), len)));
                w.ends[1].receive(anything(), vec![0; len]).unwrap();
                w.run();
            }
            let got = w.only(1);
            assert_eq!((got.peer, got.tag, got.len, got.total), (Some(PeerId(0)), 5, len, len));
            assert!(got.result.is_ok() && got.memory.unwrap() == body(len, 1), "{len}");
            let done = w.only(0);
            assert_eq!((done.id, done.len, done.result), (sent, len, Ok(())));
            assert_eq!(w.ends[0].outstanding() + w.ends[1].outstanding(), 0);
            assert_eq!(w.ends[0].counters().invalid + w.ends[1].counters().invalid, 0);
        }
    }
}

#[test]
fn a_receive_posted_while_a_message_arrives_gets_all_of_it() {
    let mut w = World::new(2);
    w.ends[0].send(PeerId(1), 1, body(20_000, 3)).unwrap();
    for _ in 0..3 {
        w.step();
    }
    assert_eq!(w.ends[1].unexpected(), 1);
    w.ends[1].receive(from(0, 1), vec![0; 20_000]).unwrap();
    w.run();
    assert_eq!(w.only(1).memory.unwrap(), body(20_000, 3));
}

#[test]
fn a_message_longer_than_the_memory_is_cut_and_said_to_be() {
    for len in [100, 5000, 100_000] {
        for room in [0, 50, 99] {
            let mut w = World::new(2);
            w.ends[1].receive(anything(), vec![0; room]).unwrap();
            w.ends[0].send(PeerId(1), 1, body(len, 2)).unwrap();
            w.run();
            let got = w.only(1);
            assert_eq!(got.result, Err(OpError::Truncated));
            assert_eq!((got.len, got.total), (room, len));
            assert_eq!(got.memory.unwrap(), body(len, 2)[..room]);
            assert!(w.only(0).result.is_ok());
        }
    }
}

#[test]
fn messages_of_one_sender_never_overtake_each_other_and_nothing_unexpected_is_dropped() {
    for seed in 0..40 {
        let mut random = oorandom::Rand32::new(seed);
        let mut w = World::new(3);
        w.window = 1 + random.rand_range(0..20) as usize;
        let count = 120;
        for n in 0..count {
            for end in [0, 1] {
                let len = SIZES[random.rand_range(0..12) as usize];
                let mut message = body(len.max(8), n);
                message[..8].copy_from_slice(&(n as u64).to_le_bytes());
                w.ends[end].send(PeerId(2), (n % 3) as u64, message).unwrap();
            }
            if random.rand_range(0..4) == 0 {
                w.step();
            }
        }
        // What came first of a tag is what the first receive of that tag gets.
        let mut next = [[0_u64, 1, 2]; 2];
        let mut got = 0;
        while got < 2 * count {
            for _ in 0..random.rand_range(0..5) {
                let (source, tag) = (random.rand_range(0..2), random.rand_range(0..3));
                w.ends[2].receive(from(source, tag.into()), vec![0; 100_000]).unwrap();
            }
            w.step();
            for c in w.completions(2) {
                let source = c.peer.unwrap().0 as usize;
                let n = u64::from_le_bytes(c.memory.as_ref().unwrap()[..8].try_into().unwrap());
                assert!(c.result.is_ok());
                let mut expected = body(c.total, n as usize);
                expected[..8].copy_from_slice(&n.to_le_bytes());
                assert_eq!(c.memory.unwrap()[..c.len], expected);
                // Those that are pulled may end in another order than they were matched in.
                assert_eq!(n % 3, c.tag);
                next[source][c.tag as usize] += 3;
                got += 1;
            }
        }
        w.run();
        for end in [0, 1] {
            assert_eq!(w.completions(end).len(), count);
            assert_eq!(next[end], [0, 1, 2].map(|tag| tag + count as u64));
        }
        assert_eq!(w.ends.iter().map(|e| e.counters().invalid).sum::<u64>(), 0);
    }
}

#[test]
fn the_order_of_matching_is_the_order_of_sending_also_between_small_and_large() {
    let mut w = World::new(2);
    let lens = [100_000, 10, 50_000, 2000];
    for (n, len) in lens.into_iter().enumerate() {
        w.ends[0].send(PeerId(1), 9, body(len, n)).unwrap();
    }
    let ids: Vec<OpId> =
        lens.map(|_| w.ends[1].receive(anything(), vec![0; 100_000]).unwrap()).to_vec();
    w.run();
    let mut all = w.completions(1);
    all.sort_by_key(|c| ids.iter().position(|id| *id == c.id));
    assert_eq!(all.iter().map(|c| c.total).collect::<Vec<_>>(), lens);
}

#[test]
fn what_nobody_waits_for_is_bounded_and_the_rest_waits_at_the_sender() {
    let mut w = World::new(2);
    for n in 0..2000 {
        w.ends[0].send(PeerId(1), n, body(1000, n as usize)).unwrap();
    }
    w.run();
    let counters = *w.ends[0].counters();
    assert_eq!(counters.unasked, (512 << 10) / 1064);
    assert_eq!(counters.unasked + counters.offered, 2000);
    for n in (0..2000).rev() {
        w.ends[1].receive(from(0, n), vec![0; 1000]).unwrap();
        w.run();
        assert_eq!(w.only(1).memory.unwrap(), body(1000, n as usize));
    }
    assert_eq!(w.completions(0).len(), 2000);
    // What was taken is allowed again.
    w.ends[0].send(PeerId(1), 1, body(1000, 0)).unwrap();
    w.run();
    assert_eq!(w.ends[0].counters().unasked, counters.unasked + 1);
}

#[test]
fn small_messages_share_frames() {
    let mut w = World::new(2);
    for _ in 0..50 {
        w.ends[0].send(PeerId(1), 1, body(8, 0)).unwrap();
    }
    let peer = w.ends[0].poll_ready().unwrap();
    let mut frame = vec![0; FRAME];
    assert_eq!(w.ends[0].fill(peer, Epoch(7), &mut frame), 50 * 24);
}

#[test]
fn a_receive_is_cancelled_until_it_is_matched() {
    let mut w = World::new(2);
    let (first, second) = (
        w.ends[1].receive(anything(), vec![0; 4]).unwrap(),
        w.ends[1].receive(anything(), vec![0; 4]).unwrap(),
    );
    assert!(w.ends[1].cancel(first));
    assert!(!w.ends[1].cancel(first), "it is over");
    let cancelled = w.only(1);
    assert_eq!((cancelled.id, cancelled.result), (first, Err(OpError::Cancelled)));
    assert_eq!(cancelled.memory.unwrap().len(), 4);
    w.ends[0].send(PeerId(1), 0, body(4, 0)).unwrap();
    w.run();
    assert_eq!(w.only(1).id, second);
}

#[test]
fn a_message_is_cancelled_until_something_of_it_has_gone_out() {
    let mut w = World::new(2);
    let ids: Vec<_> = (0..3).map(|n| w.ends[0].send(PeerId(1), n, body(10, 0)).unwrap()).collect();
    assert!(w.ends[0].cancel(ids[1]));
    assert_eq!(w.only(0).result, Err(OpError::Cancelled));
    w.run();
    assert!(!w.ends[0].cancel(ids[0]));
    assert_eq!(w.ends[1].peek(&from(0, 1)), None);
    assert_eq!(w.ends[1].unexpected(), 2);
}

/// One end adds to a number of 64 bits in another's memory.
fn add(w: &mut World, (end, to): (usize, u32), key: RegionKey, offset: u64, operand: u64) {
    let change = Change::new(Action::Sum, Number::U64, 1, true).unwrap();
    let operand = operand.to_le_bytes().to_vec();
    w.ends[end].atomic(PeerId(to), key, offset, change, operand).unwrap();
}

/// An end with registered memory of 10,000 bytes, whose key the other knows.
fn with_memory(rights: Rights) -> (World, RegionKey) {
    let mut w = World::new(2);
    let key = w.ends[1].register(body(10_000, 9), rights).unwrap();
    (w, key)
}

#[test]
fn memory_is_written_and_read_where_it_was_asked_for() {
    for (offset, len) in [(0, 0), (0, 10_000), (1, 1), (9_999, 1), (10_000, 0), (123, 4_567)] {
        let (mut w, key) = with_memory(Rights::READ.with(Rights::WRITE));
        w.ends[0].write(PeerId(1), key, offset, body(len, 5), None).unwrap();
        w.ends[0].read(PeerId(1), key, 0, vec![0; 10_000]).unwrap();
        w.run();
        let mut expected = body(10_000, 9);
        expected[offset as usize..][..len].copy_from_slice(&body(len, 5));
        assert_eq!(w.ends[1].region(key), Some(&expected));
        assert_eq!(w.ends[1].writes(key), Some(1));
        let all = w.completions(0);
        assert!(all.iter().all(|c| c.result.is_ok()));
        // In the order in which they were started: what is read is what was written.
        assert_eq!(all[1].memory.as_ref(), Some(&expected));
    }
}

#[test]
fn what_is_not_allowed_is_refused_by_name_and_harms_nothing() {
    let (mut w, key) = with_memory(Rights::ALL);
    let none = w.ends[1].register(body(100, 9), Rights::NONE).unwrap();
    let over = w.ends[1].register(body(100, 9), Rights::ALL).unwrap();
    w.ends[1].deregister(over).unwrap();
    let guessed = RegionKey(key.0 ^ 1 << 40);
    for (key, offset, len, status) in [
        (over, 0, 10, Status::Key),
        (guessed, 0, 10, Status::Key),
        (none, 0, 10, Status::Rights),
        (key, 9_999, 2, Status::Bounds),
        (key, 0, 10_001, Status::Bounds),
        (key, u64::MAX, 5_000, Status::Bounds),
    ] {
        w.ends[0].write(PeerId(1), key, offset, body(len, 1), Some(1)).unwrap();
        w.ends[0].read(PeerId(1), key, offset, vec![0; len]).unwrap();
        add(&mut w, (0, 1), key, offset.max(9_993), 1);
        w.run();
        let all = w.completions(0);
        assert_eq!(all.len(), 3);
        for c in &all[..2] {
            assert_eq!((c.result, c.len), (Err(OpError::Refused(status)), 0));
        }
        assert!(matches!(all[2].result, Err(OpError::Refused(_))));
    }
    assert_eq!(w.ends[1].region(key), Some(&body(10_000, 9)));
    assert_eq!((w.ends[1].poll_notice(), w.ends[1].writes(key)), (None, Some(0)));
    assert_eq!(w.ends[1].counters().refused, 18);
    assert_eq!(w.ends[0].outstanding(), 0);
}

#[test]
fn a_memory_is_found_under_a_key_of_the_programs_choice_and_no_other() {
    let mut w = World::new(2);
    let key = RegionKey(0xc0de);
    w.ends[1].register_as(key, body(100, 9), Rights::ALL).unwrap();
    let again = w.ends[1].register_as(key, body(200, 9), Rights::ALL);
    assert_eq!(again.unwrap_err().0.len(), 200, "the key is in use");
    let own = w.ends[1].register(body(100, 9), Rights::ALL).unwrap();
    assert!(w.ends[1].register_as(own, body(200, 9), Rights::ALL).is_err(), "so is this one");
    w.ends[0].write(PeerId(1), key, 10, vec![7; 20], None).unwrap();
    w.ends[0].read(PeerId(1), RegionKey(0xc0df), 0, vec![0; 1]).unwrap();
    w.run();
    let results: Vec<_> = w.completions(0).into_iter().map(|c| c.result).collect();
    assert_eq!(results, [Ok(()), Err(OpError::Refused(Status::Key))]);
    assert_eq!(w.ends[1].region(key).unwrap()[10..30], [7; 20]);
    assert_eq!((w.ends[1].writes(key), w.ends[1].writes(own)), (Some(1), Some(0)));
    assert_eq!(w.ends[1].deregister(key).unwrap().len(), 100);
    w.ends[0].read(PeerId(1), key, 0, vec![0; 1]).unwrap();
    w.run();
    assert_eq!(w.only(0).result, Err(OpError::Refused(Status::Key)));
    w.ends[1].register_as(key, body(200, 9), Rights::ALL).unwrap();
}

#[test]
fn what_others_do_with_memories_is_counted_once_it_is_done() {
    let (mut w, key) = with_memory(Rights::ALL);
    for len in [0, 1, 9_000] {
        w.ends[0].write(PeerId(1), key, 0, body(len, 1), None).unwrap();
        w.ends[0].read(PeerId(1), key, 0, vec![0; len]).unwrap();
    }
    w.ends[0].read(PeerId(1), key, 0, vec![0; 8]).unwrap();
    add(&mut w, (0, 1), key, 0, 1);
    // Refused.
    w.ends[0].write(PeerId(1), key, 9_999, body(2, 1), None).unwrap();
    w.ends[0].read(PeerId(1), key, 9_999, vec![0; 2]).unwrap();
    w.run();
    assert_eq!(w.ends[1].accesses(), Accesses { writes: 4, reads: 4 });
    assert_eq!(w.ends[0].accesses(), Accesses::default());
}

#[test]
fn rights_are_each_for_themselves() {
    for (rights, expected) in [
        (Rights::READ, [false, true, false]),
        (Rights::WRITE, [true, false, false]),
        (Rights::ATOMIC, [false, false, true]),
    ] {
        let (mut w, key) = with_memory(rights);
        w.ends[0].write(PeerId(1), key, 0, vec![1], None).unwrap();
        w.ends[0].read(PeerId(1), key, 0, vec![0]).unwrap();
        add(&mut w, (0, 1), key, 8, 1);
        w.run();
        let mut all = w.completions(0);
        all.sort_by_key(|c| c.total == 0);
        let ok: Vec<_> = all.iter().map(|c| c.result.is_ok()).collect();
        assert_eq!(ok.iter().filter(|ok| **ok).count(), 1);
        assert_eq!(ok[2], expected[2]);
    }
}

#[test]
fn atomic_changes_of_several_ends_lose_nothing() {
    let mut w = World::new(3);
    let key = w.ends[2].register(vec![0; 16], Rights::ATOMIC).unwrap();
    for _ in 0..500 {
        for end in [0, 1] {
            add(&mut w, (end, 2), key, 8, 3);
        }
        w.step();
    }
    w.run();
    let mut before: Vec<_> =
        [0, 1].into_iter().flat_map(|end| w.completions(end)).map(|c| c.value).collect();
    before.sort_unstable();
    assert_eq!(before, (0..1000).map(|n| n * 3).collect::<Vec<_>>());
    let swap = Change::new(Action::Swap, Number::U64, 1, true).unwrap();
    for (expected, new) in [(1_u64, 7_u64), (3000, 8)] {
        let operands = [new, expected].map(u64::to_le_bytes).concat();
        w.ends[0].atomic(PeerId(2), key, 8, swap, operands).unwrap();
    }
    w.run();
    assert_eq!(w.completions(0).iter().map(|c| c.value).collect::<Vec<_>>(), [3000, 3000]);
    assert_eq!(w.ends[2].region(key).unwrap()[8..], 8_u64.to_le_bytes());
}

#[test]
fn a_memory_taken_back_in_the_middle_ends_what_was_going_on() {
    for write in [true, false] {
        let (mut w, key) = with_memory(Rights::ALL);
        w.window = 1;
        match write {
            true => w.ends[0].write(PeerId(1), key, 0, body(10_000, 1), None).unwrap(),
            false => w.ends[0].read(PeerId(1), key, 0, vec![0; 10_000]).unwrap(),
        };
        for _ in 0..4 {
            w.step();
        }
        let memory = w.ends[1].deregister(key).unwrap();
        w.run();
        let done = w.only(0);
        assert_eq!(done.result, Err(OpError::Refused(Status::Key)));
        assert_eq!(memory.len(), 10_000);
        assert_eq!(w.ends[0].outstanding(), 0);
    }
}

#[test]
fn when_a_peer_is_lost_everything_with_it_ends_and_a_new_session_begins_clean() {
    let mut w = World::new(2);
    w.window = 1;
    let key = w.ends[1].register(vec![0; 100_000], Rights::ALL).unwrap();
    w.ends[0].send(PeerId(1), 1, body(10, 0)).unwrap();
    w.run();
    w.completions(0);
    // In parts, offered, pulled, written, read: each in the middle or not begun.
    w.ends[1].receive(from(0, 3), vec![0; 100_000]).unwrap();
    w.ends[0].send(PeerId(1), 2, body(100_000, 0)).unwrap();
    w.ends[0].send(PeerId(1), 3, body(100_000, 0)).unwrap();
    for _ in 0..6 {
        w.step();
    }
    w.ends[0].send(PeerId(1), 4, body(20_000, 0)).unwrap();
    w.ends[0].read(PeerId(1), key, 0, vec![0; 100_000]).unwrap();
    w.ends[0].write(PeerId(1), key, 0, vec![1; 100_000], None).unwrap();
    for _ in 0..6 {
        w.step();
    }
    w.ends[0].ended(PeerId(1), Epoch(6), Reason::Timeout);
    assert!(!w.ends[0].has_completions(), "another session");
    w.ends[0].ended(PeerId(1), Epoch(7), Reason::Timeout);
    let lost = w.completions(0);
    assert_eq!(lost.len(), 5);
    assert!(lost.iter().all(|c| c.result == Err(OpError::Lost(Reason::Timeout))));
    assert!(lost.iter().all(|c| c.memory.is_some()));
    // The other end learns it by the new session's first frame.
    w.wires = vec![vec![VecDeque::new(); 2]; 2];
    w.epoch = vec![vec![Epoch(8); 2]; 2];
    w.ends[0].send(PeerId(1), 5, body(30_000, 5)).unwrap();
    w.run();
    let lost = w.only(1);
    assert_eq!((lost.tag, lost.result), (3, Err(OpError::Lost(Reason::Reset))));
    assert_eq!(w.ends[1].unexpected(), 2, "what had arrived whole, and the new one");
    for tag in [5, 1] {
        w.ends[1].receive(from(0, tag), vec![0; 30_000]).unwrap();
        w.run();
        assert!(w.only(1).result.is_ok());
    }
    assert!(w.only(0).result.is_ok());
}

#[test]
fn a_message_that_is_gone_before_it_is_received_leaves_no_receive_behind() {
    // In parts, and offered.
    for len in [20_000, 100_000] {
        let mut w = World::new(2);
        w.ends[0].send(PeerId(1), 1, body(len, 0)).unwrap();
        for _ in 0..3 {
            w.step();
        }
        assert_eq!(w.ends[1].peek(&anything()), Some((PeerId(0), 1.into(), len)));
        for (end, peer) in [(0, PeerId(1)), (1, PeerId(0))] {
            w.ends[end].ended(peer, Epoch(7), Reason::Reset);
        }
        let found = w.ends[1].receive_found(anything(), |_| unreachable!("there is none"));
        assert_eq!((found.unwrap(), w.ends[1].outstanding()), (None, 0));
        w.completions(0);
        w.wires = vec![vec![VecDeque::new(); 2]; 2];
        w.epoch = vec![vec![Epoch(8); 2]; 2];
        w.ends[0].send(PeerId(1), 1, body(30_000, 5)).unwrap();
        w.run();
        assert_eq!(w.ends[1].unexpected(), 1, "no receive has taken it");
        let found = w.ends[1].receive_found(anything(), |len| vec![0; len]).unwrap();
        w.run();
        let got = w.only(1);
        assert_eq!(found, Some((got.id, PeerId(0), 1.into(), 30_000)));
        assert_eq!((got.result, got.memory.unwrap()), (Ok(()), body(30_000, 5)));
    }
}

#[test]
fn untagged_messages_and_tagged_ones_are_matched_apart_and_bear_a_word() {
    for len in SIZES {
        for expected in [true, false] {
            let mut w = World::new(2);
            let untagged = Selector { untagged: true, ..anything() };
            let receive = |w: &mut World| {
                let wanted = [untagged, from(0, 0), untagged];
                wanted.map(|wanted| w.ends[1].receive(wanted, vec![0; len]).unwrap())
            };
            let ids = if expected { Some(receive(&mut w)) } else { None };
            w.ends[0].send(PeerId(1), Label::from(0).with_data(1 << 63), body(len, 1)).unwrap();
            w.ends[0].send(PeerId(1), Label::UNTAGGED, body(len, 2)).unwrap();
            w.ends[0].send(PeerId(1), Label::UNTAGGED.with_data(7), body(len, 3)).unwrap();
            w.run();
            if !expected {
                let first = Label::from(0).with_data(1 << 63);
                assert_eq!(w.ends[1].peek(&anything()), Some((PeerId(0), first, len)));
                assert_eq!(w.ends[1].peek(&untagged), Some((PeerId(0), Label::UNTAGGED, len)));
            }
            let ids = ids.unwrap_or_else(|| receive(&mut w));
            w.run();
            let ended = w.completions(1);
            for (id, data, seed) in
                [(ids[0], None, 2), (ids[1], Some(1 << 63), 1), (ids[2], Some(7), 3)]
            {
                let ended = ended.iter().find(|ended| ended.id == id).unwrap();
                assert_eq!((ended.data, &ended.result), (data, &Ok(())));
                assert_eq!(ended.memory, Some(body(len, seed)), "{len} bytes, {expected}");
            }
            assert_eq!(w.completions(0).len(), 3);
        }
    }
}

fn label(r: &mut impl FnMut() -> u32) -> Label {
    let (tag, untagged) = (u64::from(r() % 3), r().is_multiple_of(4));
    Label { tag, untagged, data: r().is_multiple_of(4).then(|| u64::from(r())) }
}

#[test]
fn hostile_operations_are_counted_and_write_nowhere() {
    let mut random = oorandom::Rand32::new(5);
    let mut w = World::new(2);
    let key = w.ends[1].register(body(1000, 9), Rights::READ).unwrap();
    w.ends[1].receive(from(3, 7), vec![7; 100]).unwrap();
    w.ends[1].send(PeerId(0), 1, body(100_000, 0)).unwrap();
    w.ends[1].read(PeerId(0), key, 0, vec![0; 100]).unwrap();
    w.run();
    for _ in 0..200_000 {
        let mut r = || random.rand_u32();
        let small = |r: u32| r % 5 * (1 << (r % 20));
        let id = small(r()) | (r() % 3) << 20;
        let key = if r() % 2 == 0 { key.0 } else { u64::from(r()) };
        let op = match r() % 11 {
            0 => Op::Eager { label: label(&mut r) },
            1 => Op::First {
                label: label(&mut r),
                total: if r() % 9 == 0 { r() } else { small(r()) },
            },
            2 => Op::More,
            3 => Op::Offer { id, label: label(&mut r), total: r() },
            4 => Op::Pull { id, offer: small(r()), len: small(r()) },
            5 => Op::Read { id, key, offset: small(r()).into(), len: small(r()) },
            6 => Op::Reply { id, at: small(r()) },
            7 => Op::Write {
                id,
                key,
                offset: small(r()).into(),
                total: small(r()),
                at: small(r()),
                notice: (r() % 2 == 0).then_some(1),
            },
            8 => {
                let change = Change::new(Action::Sum, Number::U64, 1, true).unwrap();
                Op::Atomic { id, key, offset: small(r()).into(), change }
            }
            9 => Op::Done { id, status: Status::Ok },
            _ => Op::Limit { until: r(), entries: r() },
        };
        let len = (r() % 200) as u16;
        let mut frame = [0; MAX_OP_HEADER + 200];
        let header = op.write(len, &mut frame);
        w.ends[1].handle(PeerId(0), Epoch(7), frame[..header + usize::from(len)].into());
    }
    assert_eq!(w.ends[1].region(key), Some(&body(1000, 9)));
    assert!(w.ends[1].counters().invalid > 10_000);
    assert!(w.ends[1].unexpected() < 20_000, "what came unasked and was offered is bounded");
}

#[test]
fn with_many_peers_only_those_with_something_going_on_keep_their_state() {
    // More than keep it in any case, so that the others go through rest and back.
    let mut world = World::new(40);
    for round in 0..3 {
        for to in 1..40 {
            world.ends[to].receive(from(0, round), vec![0; 20]).unwrap();
            world.ends[0].receive(from(to as u32, round), vec![0; 20]).unwrap();
            world.ends[0].send(PeerId(to as u32), round, body(20, to)).unwrap();
            world.ends[to].send(PeerId(0), round, body(20, to)).unwrap();
        }
        world.run();
        for to in 1..40 {
            let ended: Vec<_> = std::iter::from_fn(|| world.ends[to].poll_completion()).collect();
            assert!(ended.len() == 2 && ended.iter().all(|c| c.result == Ok(())));
        }
        assert_eq!(std::iter::from_fn(|| world.ends[0].poll_completion()).count(), 2 * 39);
        assert!(!world.ends[0].is_owed());
    }
}

#[test]
fn without_anything_beyond_the_first_shares_everything_arrives_as_receives_take_it() {
    let mut w = World::with(2, &TransferConfig { most_granted: 0, ..TransferConfig::default() });
    let key = w.ends[1].register(vec![0; 8], Rights::ALL).unwrap();
    for n in 0..500 {
        w.ends[0].send(PeerId(1), 0, body(SIZES[n % SIZES.len()].min(40_000), n)).unwrap();
        add(&mut w, (0, 1), key, 0, 1);
    }
    w.run();
    assert!(w.ends[1].unexpected() <= 64 + (8 << 10) / 64, "{}", w.ends[1].unexpected());
    for n in 0..500 {
        w.ends[1].receive(from(0, 0), vec![0; 40_000]).unwrap();
        w.run();
        let got = w.only(1);
        assert_eq!(got.memory.unwrap()[..got.len], body(SIZES[n % SIZES.len()].min(40_000), n));
    }
    assert_eq!(w.ends[1].region(key).unwrap()[..], 500_u64.to_le_bytes());
    assert_eq!(w.ends[0].outstanding() + w.ends[1].outstanding(), 0);
    assert_eq!(w.ends[1].counters().invalid, 0);
}
