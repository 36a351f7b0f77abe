//! Accesses to a peer's memory that the caller carries out itself.
#![allow(missing_docs)]

mod world;

use gigae_proto::{PeerId, Reason};
use gigae_transfer::{Rights, TransferConfig};
use gigae_wire::Epoch;
use world::{World, anything, body, from};

const PEER: PeerId = PeerId(1);

fn world() -> World {
    World::with(2, &TransferConfig::default())
}

/// Whatever was started before: messages, offers, and operations on remote memory.
#[test]
fn an_access_may_go_without_frames_only_once_everything_before_is_done() {
    let mut world = world();
    assert!(world.ends[0].is_caught_up(PEER), "nothing was started");
    let key = world.ends[1].register(body(100, 1), Rights::ALL).unwrap();
    for operation in 0..4 {
        let end = &mut world.ends[0];
        match operation {
            0 => end.send(PEER, 5, body(10, 1)).unwrap(),
            1 => end.send(PEER, 5, body(100_000, 1)).unwrap(),
            2 => end.write(PEER, key, 0, body(10, 1), None).unwrap(),
            _ => end.read(PEER, key, 0, vec![0; 10]).unwrap(),
        };
        assert!(!world.ends[0].is_caught_up(PEER), "{operation} waits");
        world.step();
        // Its frame is acknowledged. Of a message, nothing more is waited for, also if it is only
        // offered; an operation on remote memory is not answered.
        assert_eq!(world.ends[0].is_caught_up(PEER), operation < 2, "{operation} goes on");
        world.run();
        assert!(world.ends[0].is_caught_up(PEER), "{operation} is done");
    }
    assert!(world.ends[0].is_caught_up(PeerId(7)), "another peer");
    world.ends[1].receive(anything(), vec![0; 10]).unwrap();
    world.ends[1].receive(from(0, 5), vec![0; 100_000]).unwrap();
    world.run();
    assert_eq!(world.completions(1).len(), 2);
}

#[test]
fn an_access_that_was_carried_out_ends_with_its_memory_and_is_counted() {
    let mut world = world();
    let id = world.ends[0].carried_out(PEER, body(1000, 3)).unwrap();
    let done = world.only(0);
    assert_eq!((done.id, done.peer, done.result), (id, Some(PEER), Ok(())));
    assert_eq!((done.len, done.total), (1000, 1000));
    assert!(done.memory.unwrap() == body(1000, 3));
    let end = &mut world.ends[0];
    assert_eq!((end.outstanding(), end.started(), end.counters().direct), (0, 1, 1));
    assert!(end.is_caught_up(PEER) && !end.is_owed());
    // It is not among those that are lost with the peer.
    end.ended(PEER, Epoch(7), Reason::Timeout);
    assert_eq!(world.completions(0).len(), 0);
}
