//! Messages that are put into a frame at once, beside the operations.
#![allow(missing_docs)]

mod world;

use gigae_proto::{PeerId, Reason};
use gigae_transfer::{OpError, OpId, TransferCompletion};
use world::{FRAME, World, anything, body, from};

/// What one end injects for another: the frame, if it may.
fn inject(world: &mut World, to: usize, tag: u64, message: &[u8]) -> bool {
    let mut frame = vec![0; FRAME];
    let (peer, epoch) = (PeerId(to as u32), world.epoch[0][to]);
    let len = world.ends[0].inject(peer, epoch, tag.into(), message, &mut frame);
    if let Some(len) = len {
        frame.truncate(len);
        gigae_wire::op::check(frame[..].into()).unwrap();
        world.wires[0][to].push_back(frame);
    }
    len.is_some()
}

#[test]
fn an_injected_message_arrives_in_order_or_not_at_all_and_completes_nothing() {
    let mut world = World::new(2);
    for n in 0..4 {
        world.ends[1].receive(from(0, n), vec![0; 100]).unwrap();
    }
    assert!(inject(&mut world, 1, 0, &body(8, 0)));
    let first = world.ends[0].send(PeerId(1), 1, body(8, 1)).unwrap();
    assert!(!inject(&mut world, 1, 2, &body(8, 2)), "an earlier one waits");
    assert!(world.step());
    assert!(inject(&mut world, 1, 2, &body(0, 2)));
    assert!(inject(&mut world, 1, 3, &body(100, 3)));
    assert!(!inject(&mut world, 1, 4, &body(FRAME, 4)), "too long for a frame");
    world.run();
    for (n, len) in [8, 8, 0, 100].into_iter().enumerate() {
        let TransferCompletion { tag, total, memory, result, .. } =
            world.ends[1].poll_completion().unwrap();
        assert_eq!((tag, total, result), (n as u64, len, Ok(())));
        assert!(memory.unwrap()[..len] == body(len, n));
    }
    assert_eq!(world.ends[0].poll_completion().map(|c| c.id), Some(first));
    assert!(world.ends[0].poll_completion().is_none());
    assert!(!world.ends[0].is_owed());
}

#[test]
fn injected_messages_use_the_allowance_of_what_nobody_waits_for() {
    let mut world = World::new(2);
    let mut sent = 0;
    // The first share, and all once the receiver has said so.
    for allowance in [8 << 10, 256 << 10] {
        while inject(&mut world, 1, sent, &body(1000, 0)) {
            sent += 1;
        }
        assert_eq!(sent, allowance / 1064);
        world.run();
    }
    assert_eq!(world.ends[1].unexpected() as u64, sent);
    assert!(!inject(&mut world, 1, 0, &body(1000, 0)));
    for _ in 0..sent {
        world.ends[1].receive(anything(), vec![0; 1000]).unwrap();
    }
    world.run();
    assert!(inject(&mut world, 1, 0, &body(1000, 0)), "the receiver has said that it took them");
}

#[test]
fn injected_messages_that_are_lost_with_their_peer_are_reported_one_by_one() {
    let mut world = World::new(2);
    assert!(inject(&mut world, 1, 0, &body(8, 0)));
    world.run();
    for n in 1..3 {
        assert!(inject(&mut world, 1, n, &body(8, 0)));
    }
    assert!(world.ends[0].is_owed());
    let epoch = world.epoch[0][1];
    world.ends[0].ended(PeerId(1), epoch, Reason::Timeout);
    for _ in 0..2 {
        let TransferCompletion { id, peer, memory, result, .. } =
            world.ends[0].poll_completion().unwrap();
        assert_eq!((id, peer, memory), (OpId::INJECTED, Some(PeerId(1)), None));
        assert_eq!(result, Err(OpError::Lost(Reason::Timeout)));
    }
    assert!(world.ends[0].poll_completion().is_none());
    assert!(!world.ends[0].is_owed());
    assert!(!world.ends[0].cancel(OpId::INJECTED));
}
