//! Receives of several messages into one memory, and giving up what has begun.
#![allow(missing_docs)]

mod world;

use gigae_proto::{PeerId, Reason};
use gigae_transfer::{OpError, Rights, Transfer, TransferConfig, predictable_keys};
use world::{World, anything, body, from};

#[test]
fn messages_follow_each_other_in_one_memory_and_the_last_brings_it_back() {
    for len in [8, 1000, 5000, 40_000] {
        for early in [0, 1, 3] {
            let mut w = World::new(2);
            let send = |w: &mut World, n| {
                w.ends[0].send(PeerId(1), 5, body(len, n)).unwrap();
            };
            (0..early).for_each(|n| send(&mut w, n));
            w.run();
            // Room for two messages in the first, and for a little less than one more.
            let rooms = [3 * len - 1, 2 * len].map(|room| vec![0; room]);
            let ids = rooms.map(|room| w.ends[1].receive_several(from(0, 5), room, len).unwrap());
            (early..4).for_each(|n| send(&mut w, n));
            w.run();
            let mut all = w.completions(1);
            all.sort_by_key(|c| (c.id != ids[0], c.at));
            let reported: Vec<_> =
                all.iter().map(|c| (c.id, c.at, c.len, c.memory.is_some())).collect();
            let expected = [(0, 0), (0, 1), (1, 0), (1, 1)];
            assert_eq!(reported, expected.map(|(id, n)| (ids[id], n * len, len, n == 1)));
            for (n, c) in all.into_iter().enumerate() {
                assert_eq!(c.result, Ok(()));
                if let Some(memory) = c.memory {
                    assert_eq!(memory[..2 * len], [body(len, n - 1), body(len, n)].concat());
                }
            }
            assert_eq!(w.ends[1].outstanding(), 0);
            assert_eq!(w.ends[1].counters().invalid, 0);
        }
    }
}

#[test]
fn messages_of_one_sender_are_reported_in_order_though_a_later_one_is_there_first() {
    let mut w = World::new(3);
    let ids = [70_000, 80_000]
        .map(|room| w.ends[2].receive_several(anything(), vec![0; room], 1).unwrap());
    // The first is offered and pulled, the second comes at once: into the other memory.
    w.ends[0].send(PeerId(2), 1, body(70_000, 0)).unwrap();
    w.ends[0].send(PeerId(2), 1, body(10, 1)).unwrap();
    w.step();
    assert_eq!(w.completions(2).len(), 0);
    w.ends[1].send(PeerId(2), 1, body(20, 2)).unwrap();
    w.step();
    assert_eq!(w.only(2).peer, Some(PeerId(1)), "no receive waits for another sender");
    w.run();
    let reported: Vec<_> =
        w.completions(2).iter().map(|c| (c.id, c.len, c.memory.is_some())).collect();
    assert_eq!(reported, [(ids[0], 70_000, true), (ids[1], 10, false)]);
    // So they are if the sender is lost, and what has arrived is reported when all is given up.
    w.ends[2].receive_several(anything(), vec![0; 90_000], 1).unwrap();
    w.ends[0].send(PeerId(2), 1, body(75_000, 0)).unwrap();
    w.ends[0].send(PeerId(2), 1, body(30, 1)).unwrap();
    w.step();
    w.ends[2].cancel_incoming();
    let reported: Vec<_> = w.completions(2).iter().map(|c| (c.len, c.result)).collect();
    assert_eq!(
        reported,
        [(30, Ok(())), (0, Err(OpError::Cancelled)), (0, Err(OpError::Cancelled))]
    );
}

#[test]
fn a_receive_of_several_messages_keeps_its_place_while_a_message_arrives() {
    let mut w = World::new(3);
    let first = w.ends[2].receive_several(anything(), vec![0; 100_000], 1000).unwrap();
    let next = w.ends[2].receive(anything(), vec![0; 10]).unwrap();
    // One sender's comes in parts, the other's in between.
    w.ends[0].send(PeerId(2), 1, body(30_000, 0)).unwrap();
    w.step();
    w.ends[1].send(PeerId(2), 1, body(50_000, 1)).unwrap();
    w.ends[1].send(PeerId(2), 1, body(10_000, 2)).unwrap();
    w.run();
    let mut all = w.completions(2);
    all.sort_by_key(|c| c.at);
    assert!(all.iter().all(|c| c.id == first && c.memory.is_none()));
    let places: Vec<_> = all.iter().map(|c| (c.at, c.len)).collect();
    assert_eq!(places, [(0, 30_000), (30_000, 50_000), (80_000, 10_000)]);
    // One that is too long for the rest is cut there, and not given to the next receive.
    w.ends[0].send(PeerId(2), 1, body(10_001, 3)).unwrap();
    w.ends[0].send(PeerId(2), 1, body(10, 4)).unwrap();
    w.run();
    let [last, after] = <[_; 2]>::try_from(w.completions(2)).unwrap();
    assert_eq!((last.id, last.at, last.len, last.total), (first, 90_000, 10_000, 10_001));
    assert_eq!(last.result, Err(OpError::Truncated));
    let memory = last.memory.unwrap();
    let parts = [body(30_000, 0), body(50_000, 1), body(10_000, 2), body(10_001, 3)];
    assert_eq!(memory, parts.concat()[..100_000]);
    assert_eq!((after.id, after.memory.unwrap()), (next, body(10, 4)));
}

#[test]
fn a_cancelled_receive_of_several_messages_ends_with_the_last_that_arrives() {
    let mut w = World::new(2);
    let id = w.ends[1].receive_several(anything(), vec![0; 50_000], 1).unwrap();
    w.ends[0].send(PeerId(1), 1, body(5_000, 0)).unwrap();
    w.ends[0].send(PeerId(1), 1, body(10, 1)).unwrap();
    w.step();
    assert!(w.ends[1].cancel(id));
    assert!(!w.ends[1].cancel(id));
    w.run();
    let [first, last] = <[_; 2]>::try_from(w.completions(1)).unwrap();
    assert_eq!((first.id, first.len, first.result), (id, 5_000, Ok(())));
    assert_eq!((last.id, last.result), (id, Err(OpError::Cancelled)));
    assert_eq!(last.memory.unwrap()[..5_000], body(5_000, 0));
    assert_eq!(w.ends[1].unexpected(), 1, "no receive has the second message");
    // Nothing arrives: at once.
    let id = w.ends[1].receive_several(from(0, 7), vec![0; 10], 1).unwrap();
    assert!(w.ends[1].cancel(id));
    assert_eq!(w.only(1).result, Err(OpError::Cancelled));
}

#[test]
fn a_peer_that_is_lost_ends_its_message_and_not_the_receive_of_several() {
    let mut w = World::new(3);
    let id = w.ends[2].receive_several(anything(), vec![0; 50_000], 20_000).unwrap();
    w.ends[0].send(PeerId(2), 1, body(30_000, 0)).unwrap();
    w.step();
    w.ends[2].ended(PeerId(0), w.epoch[2][0], Reason::Timeout);
    let lost = w.only(2);
    assert_eq!((lost.id, lost.result), (id, Err(OpError::Lost(Reason::Timeout))));
    assert!(lost.memory.is_none());
    w.ends[1].send(PeerId(2), 1, body(20_000, 1)).unwrap();
    w.run();
    let last = w.completions(2).pop().unwrap();
    assert_eq!((last.id, last.at, last.result), (id, 30_000, Ok(())));
    assert_eq!(last.memory.unwrap()[30_000..], body(20_000, 1));
}

#[test]
fn a_message_that_does_not_go_on_holds_back_none_of_other_senders() {
    let mut w = World::new(3);
    let id = w.ends[2].receive_several(anything(), vec![0; 50_000], 1).unwrap();
    w.ends[0].send(PeerId(2), 1, body(30_000, 0)).unwrap();
    w.step();
    // Its first part was matched. No other comes.
    w.ends[0] = Transfer::new(TransferConfig::default(), predictable_keys(1));
    w.wires[0][2].clear();
    w.ends[1].send(PeerId(2), 1, body(10_000, 1)).unwrap();
    w.run();
    let reported = w.only(2);
    assert_eq!((reported.id, reported.peer, reported.at), (id, Some(PeerId(1)), 30_000));
    assert!(reported.memory.is_none(), "the other's message may still come");
}

#[test]
fn what_is_given_up_is_written_to_no_more_and_the_session_goes_on() {
    let mut w = World::new(2);
    w.window = 2;
    let key = w.ends[0].register(body(100_000, 9), Rights::READ).unwrap();
    let ids = [1, 2, 3].map(|tag| w.ends[1].receive(from(0, tag), vec![0; 100_000]).unwrap());
    let several = w.ends[1].receive_several(from(0, 4), vec![0; 200_000], 1).unwrap();
    let read = w.ends[1].read(PeerId(0), key, 0, vec![0; 100_000]).unwrap();
    for (tag, len) in [(2, 100_000), (4, 100_000), (1, 30_000)] {
        w.ends[0].send(PeerId(1), tag, body(len, 1)).unwrap();
    }
    for _ in 0..20 {
        w.step();
    }
    assert_eq!((w.completions(1).len(), w.ends[1].unexpected()), (0, 0), "all are in flight");
    w.ends[1].cancel_incoming();
    let ended = w.completions(1);
    assert!(ended.iter().all(|c| c.result == Err(OpError::Cancelled) && c.memory.is_some()));
    for id in ids.into_iter().chain([several, read]) {
        assert_eq!(ended.iter().filter(|c| c.id == id).count(), 1, "{id:?}");
    }
    w.run();
    assert_eq!(w.completions(1).len(), 0, "they were reported");
    assert_eq!(w.completions(0).len(), 3);
    assert_eq!((w.ends[1].counters().invalid, w.ends[1].outstanding()), (0, 0));
    // What is asked for from now on has its turn.
    w.ends[1].receive(from(0, 2), vec![0; 10]).unwrap();
    w.ends[0].send(PeerId(1), 2, body(10, 5)).unwrap();
    w.run();
    assert_eq!(w.only(1).memory.unwrap(), body(10, 5));
}
