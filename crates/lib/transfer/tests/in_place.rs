//! Long data that stay in the program's memory until they are sent, and are received where they
//! belong.

mod world;

use gigae_proto::{PeerId, Reason};
use gigae_transfer::{OpError, RegionKey, Rights};
use world::*;

/// As a link for bulk data has it.
fn bulk(ends: usize) -> World {
    World { frame: 64_372 + 12, in_place: true, ..World::new(ends) }
}

const LENGTHS: [usize; 9] = [1, 4000, 24_575, 24_576, 32_768, 65_536, 65_537, 300_000, 1 << 20];

#[test]
fn messages_of_any_length_arrive_and_long_ones_where_they_belong() {
    for len in LENGTHS {
        for expected in [false, true] {
            let mut w = bulk(2);
            let receive = |w: &mut World| {
                w.ends[1].receive(from(0, 5), vec![0; len + 100]).unwrap();
            };
            if expected {
                receive(&mut w);
            }
            w.ends[0].send(PeerId(1), 5, body(len, 1)).unwrap();
            w.run();
            if !expected {
                receive(&mut w);
                w.run();
            }
            let got = w.only(1);
            assert_eq!((got.len, got.total, &got.result), (len, len, &Ok(())));
            let memory = got.memory.unwrap();
            assert!(memory[..len] == body(len, 1), "{len} bytes, expected: {expected}");
            assert!(memory[len..].iter().all(|&byte| byte == 0), "nothing behind the message");
            assert_eq!(w.only(0).result, Ok(()));
            let counters = w.ends[1].counters();
            assert_eq!((counters.misplaced, counters.invalid), (0, 0));
            // What was asked for, unless less than 8 KiB is left.
            let asked_for = w.ends[0].counters().offered > 0 && len >= 8192;
            let frames = if asked_for { (len - 8192) as u64 / 64_372 + 1 } else { 0 };
            assert_eq!(counters.placed, frames, "{len} bytes");
        }
    }
}

#[test]
fn an_operation_is_queued_while_a_long_one_waits_behind_it_or_is_not_acknowledged() {
    let mut w = bulk(2);
    let (peer, epoch) = (PeerId(1), w.epoch[0][1]);
    let end = &mut w.ends[0];
    assert!(!end.is_queued(peer, 1000));
    end.send(peer, 5, body(1200, 1)).unwrap();
    end.send(peer, 5, body(100, 1)).unwrap();
    assert!(!end.is_queued(peer, 1000), "what waits behind is short");
    end.send(peer, 5, body(1200, 1)).unwrap();
    assert!(end.is_queued(peer, 1000), "a long one waits behind the short one");
    end.send(peer, 5, body(1200, 1)).unwrap();
    end.send(peer, 5, body(100, 1)).unwrap();
    // A frame for each, as long as it is. All of them go unasked.
    let mut fill = |room: usize| {
        assert!(end.fill(peer, epoch, &mut vec![0; room]) > 0);
        end.framed(peer);
        end.is_queued(peer, 1000)
    };
    assert!(fill(1216), "one is on its way");
    assert!(fill(116), "one waits behind the next");
    assert!(fill(1216), "one is on its way, though none waits behind");
    fill(1216);
    assert!(fill(116), "long ones went before the short one");
    end.acknowledged(peer);
    end.acknowledged(peer);
    assert!(end.is_queued(peer, 1000));
    end.acknowledged(peer);
    end.acknowledged(peer);
    assert!(!end.is_queued(peer, 1000));
}

#[test]
fn data_cut_to_the_receives_memory_leave_what_is_behind_it_alone() {
    let mut w = bulk(2);
    w.ends[1].receive(from(0, 5), vec![0; 100_000]).unwrap();
    w.ends[0].send(PeerId(1), 5, body(300_000, 1)).unwrap();
    w.run();
    let got = w.only(1);
    assert_eq!((got.len, got.total, got.result), (100_000, 300_000, Err(OpError::Truncated)));
    assert!(got.memory.unwrap() == body(300_000, 1)[..100_000]);
    assert_eq!(w.ends[1].counters().placed, 2);
}

#[test]
fn messages_of_several_senders_take_turns_and_all_arrive() {
    let mut w = bulk(4);
    for n in 0..12 {
        let (sender, len) = (n % 3, 70_000 + 13_000 * n);
        w.ends[3].receive(from(sender as u32, n as u64), vec![0; len]).unwrap();
        w.ends[sender].send(PeerId(3), n as u64, body(len, n)).unwrap();
    }
    w.run();
    for got in w.completions(3) {
        let n = got.tag as usize;
        assert_eq!(got.result, Ok(()));
        assert!(got.memory.unwrap() == body(70_000 + 13_000 * n, n), "message {n}");
    }
    let counters = *w.ends[3].counters();
    assert_eq!(counters.invalid, 0);
    assert!(counters.misplaced > 0 && counters.placed > 0, "{counters:?}");
}

#[test]
fn writes_and_reads_of_memory_arrive_and_only_what_was_asked_for_is_placed() {
    let mut w = bulk(2);
    let key = w.ends[1].register(vec![0; 500_000], Rights::ALL).unwrap();
    w.ends[0].write(PeerId(1), key, 1000, body(300_000, 2), None).unwrap();
    w.run();
    assert_eq!(w.only(0).result, Ok(()));
    assert!(w.ends[1].region(key).unwrap()[1000..301_000] == body(300_000, 2));
    assert_eq!(w.ends[1].counters().placed, 0, "a write is not asked for");
    w.ends[0].read(PeerId(1), key, 1000, vec![0; 300_000]).unwrap();
    w.run();
    let got = w.only(0);
    assert_eq!(got.result, Ok(()));
    assert!(got.memory.unwrap() == body(300_000, 2));
    assert_eq!(w.ends[0].counters().placed, 5);
}

#[test]
fn data_of_an_operation_that_is_over_are_not_found_any_more() {
    let mut w = bulk(3);
    let write = |w: &mut World, seed| {
        w.ends[0].write(PeerId(1), RegionKey(1), 0, body(32_768, seed), None).unwrap();
    };
    write(&mut w, 1);
    let peer = w.ends[0].poll_ready().unwrap();
    let (mut frame, epoch) = (vec![0; w.frame], w.epoch[0][1]);
    let (len, left) = w.ends[0].fill_in_place(peer, epoch, &mut frame);
    w.ends[0].framed(peer);
    let left = left.expect("long data stay in place");
    assert!(len > left.len() && left.len() == 32_768);
    let found = |w: &World, peer| w.ends[0].data(peer, left).map(|data| data.bytes.to_vec());
    assert_eq!(found(&w, PeerId(1)), Some(body(32_768, 1)));
    assert_eq!(found(&w, PeerId(2)), None, "another peer's frame");
    w.ends[0].ended(peer, epoch, Reason::Reset);
    assert_eq!(w.only(0).result, Err(OpError::Lost(Reason::Reset)));
    write(&mut w, 2);
    assert_eq!(found(&w, PeerId(1)), None, "another operation in its place");
}
