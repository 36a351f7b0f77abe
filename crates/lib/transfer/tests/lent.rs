//! Long messages that the receiver reads in the sender's memory.
#![allow(missing_docs)]

mod world;

use gigae_proto::{PeerId, Reason};
use gigae_transfer::{Label, OpError, Rights, TransferConfig};
use gigae_wire::Epoch;
use gigae_wire::op::{Op, Status};
use world::{World, anything, body, from};

fn lending() -> World {
    World {
        lends: true,
        ..World::with(2, &TransferConfig { fetches: true, ..TransferConfig::default() })
    }
}

/// A message that its receiver has read, which the sender has not confirmed.
fn taken() -> World {
    let mut world = lending();
    world.ends[0].lend(PeerId(1), true);
    world.ends[1].receive(from(0, 5), vec![0; 20_000]).unwrap();
    let message = world.readable(20_000, 3);
    world.ends[0].send(PeerId(1), 5, message).unwrap();
    while world.ends[1].counters().fetched == 0 {
        assert!(world.step());
    }
    world
}

/// What the sender then puts into a frame, which does not get to the receiver.
fn confirmation(world: &mut World) -> Op {
    while world.ends[0].counters().lent == 0 {
        assert!(world.step());
    }
    assert_eq!(world.ends[0].poll_ready(), Some(PeerId(1)));
    let mut out = vec![0; 1468];
    let len = world.ends[0].fill(PeerId(1), Epoch(7), &mut out);
    let (first, _) = Op::take(&mut out[..len].into()).unwrap().unwrap();
    assert!(matches!(first, Op::Done { status: Status::Ok, .. }), "{first:?}");
    first
}

#[test]
fn a_long_message_is_read_where_it_lies_and_a_short_one_is_sent() {
    for (len, lent) in [(12_288, 0), (12_289, 1), (70_000, 1), (10_000_000, 1)] {
        let mut world = lending();
        // The first frames tell both ends that they can read each other's memory.
        world.ends[0].lend(PeerId(1), true);
        world.ends[1].receive(from(0, 5), vec![0; len]).unwrap();
        let message = world.readable(len, 3);
        world.ends[0].send(PeerId(1), Label::from(5).with_data(9), message).unwrap();
        world.run();
        let received = world.only(1);
        assert_eq!((received.result, received.len, received.total), (Ok(()), len, len));
        assert_eq!((received.tag, received.data), (5, Some(9)));
        assert!(received.memory.unwrap() == body(len, 3), "{len} bytes");
        let sent = world.only(0);
        assert_eq!((sent.result, sent.len, sent.total), (Ok(()), len, len));
        let [a, b] = [0, 1].map(|end| world.ends[end].counters());
        assert_eq!((a.lent, b.fetched, a.invalid, b.invalid), (lent, lent, 0, 0), "{len} bytes");
        assert!(!world.ends[0].is_owed() && !world.ends[1].is_owed());
    }
}

#[test]
fn a_message_that_waits_for_its_receive_is_read_then_and_as_much_as_there_is_room_for() {
    for room in [0, 1, 20_000, 50_000, 60_000] {
        let mut world = lending();
        world.ends[0].lend(PeerId(1), true);
        let message = world.readable(50_000, 1);
        world.ends[0].send(PeerId(1), 7, message).unwrap();
        world.run();
        assert!(world.completions(1).is_empty() && world.completions(0).is_empty());
        world.ends[1].receive(anything(), vec![9; room]).unwrap();
        world.run();
        let (received, len) = (world.only(1), room.min(50_000));
        let result = if room < 50_000 { Err(OpError::Truncated) } else { Ok(()) };
        assert_eq!((received.result, received.len, received.total), (result, len, 50_000));
        let memory = received.memory.unwrap();
        assert!(memory[..len] == body(50_000, 1)[..len] && memory[len..].iter().all(|&b| b == 9));
        assert_eq!(
            (world.only(0).len, world.ends[1].counters().fetched),
            (len, u64::from(room > 0))
        );
    }
}

#[test]
fn what_cannot_be_read_is_sent() {
    // Whole, and from the second piece on.
    for readable in [0, 5 << 20] {
        let mut world = lending();
        world.ends[0].lend(PeerId(1), true);
        let message = body(9 << 20, 2);
        world.readable.push((message.as_ptr().addr() as u64, message[..readable].to_vec()));
        world.ends[1].receive(from(0, 1), vec![0; message.len()]).unwrap();
        world.ends[0].send(PeerId(1), 1, message).unwrap();
        world.run();
        let received = world.only(1);
        assert_eq!((received.result, received.len), (Ok(()), 9 << 20));
        assert!(received.memory.unwrap() == body(9 << 20, 2));
        assert_eq!(world.only(0).result, Ok(()));
        assert_eq!((world.ends[0].counters().lent, world.ends[1].counters().fetched), (0, 0));
    }
}

#[test]
fn a_peer_that_never_fetches_pulls_what_is_offered_with_an_address() {
    let mut world = World::new(2);
    world.ends[0].lend(PeerId(1), true);
    world.ends[1].receive(from(0, 5), vec![0; 30_000]).unwrap();
    world.ends[0].send(PeerId(1), 5, body(30_000, 3)).unwrap();
    world.run();
    assert!(world.only(1).memory.unwrap() == body(30_000, 3));
    let counted = [0, 1].map(|end| world.ends[end].counters());
    assert_eq!((counted[0].lent, counted[0].offered, counted[1].fetched), (0, 1, 0));
}

#[test]
fn messages_of_a_receive_of_several_are_read_in_their_order() {
    let mut world = lending();
    world.ends[0].lend(PeerId(1), true);
    world.ends[1].receive_several(from(0, 4), vec![0; 100_000], 1_000).unwrap();
    for (seed, len) in [(1, 30_000), (2, 100), (3, 20_000)] {
        let message = world.readable(len, seed);
        world.ends[0].send(PeerId(1), 4, message).unwrap();
    }
    world.run();
    let parts = world.completions(1);
    let places: Vec<_> = parts.iter().map(|part| (part.at, part.len)).collect();
    assert_eq!(places, [(0, 30_000), (30_000, 100), (30_100, 20_000)]);
    assert_eq!(world.ends[1].counters().fetched, 2);
}

/// The bytes may be others by then: the sender's program has its memory back.
#[test]
fn a_receive_whose_sender_is_lost_before_it_confirms_has_failed() {
    let mut world = taken();
    // One with data is none.
    let confirms = confirmation(&mut world);
    let mut bytes = vec![0; confirms.header_len() + 1];
    confirms.write(1, &mut bytes);
    world.ends[1].handle(PeerId(0), Epoch(7), bytes[..].into());
    assert!(world.completions(1).is_empty(), "not before the sender confirms");
    assert_eq!(world.ends[1].counters().invalid, 1);
    world.ends[1].ended(PeerId(0), Epoch(7), Reason::Timeout);
    let received = world.only(1);
    assert_eq!(received.result, Err(OpError::Lost(Reason::Timeout)));
    assert!(!world.ends[1].has_fetches(PeerId(0)));
}

/// What a peer has taken needs no entry of those that limit its own operations.
#[test]
fn a_peer_that_takes_many_messages_may_write_and_read_at_the_same_time() {
    let mut world = lending();
    world.ends[0].lend(PeerId(1), true);
    let key = world.ends[0].register(vec![0; 50], Rights::ALL).unwrap();
    for seed in 0..64 {
        let message = world.readable(20_000, seed);
        world.ends[0].send(PeerId(1), 5, message).unwrap();
    }
    world.run();
    for _ in 0..64 {
        world.ends[1].receive(from(0, 5), vec![0; 20_000]).unwrap();
    }
    world.ends[1].write(PeerId(0), key, 0, vec![7; 50], None).unwrap();
    world.run();
    let done = world.completions(1);
    assert!(done.len() == 65 && done.iter().all(|done| done.result.is_ok()));
    assert_eq!((world.completions(0).len(), world.ends[0].counters().invalid), (64, 0));
    assert!(!world.ends[0].is_owed() && !world.ends[1].is_owed());
}

/// The frame is in the receiver's memory then, where a program that ends does not take it back.
#[test]
fn a_send_ends_with_the_frame_that_confirms_it() {
    let mut world = taken();
    assert!(world.completions(0).is_empty(), "nothing confirms it");
    confirmation(&mut world);
    assert_eq!(world.only(0).result, Ok(()));
}

/// Memory of a peer's state is used again for others.
#[test]
fn what_one_peer_can_read_is_not_offered_with_an_address_to_another() {
    let mut world = World::new(40);
    for peer in 1..=20 {
        world.ends[0].lend(PeerId(peer), true);
        world.ends[0].send(PeerId(peer), 1, vec![1; 10]).unwrap();
        world.ends[peer as usize].receive(anything(), vec![0; 10]).unwrap();
    }
    world.run();
    for peer in 21..=39 {
        world.ends[0].send(PeerId(peer), 1, body(100_000, 1)).unwrap();
        let (mut out, ready) = (vec![0; 1468], world.ends[0].poll_ready());
        assert_eq!(ready, Some(PeerId(peer)));
        let len = world.ends[0].fill(PeerId(peer), Epoch(7), &mut out);
        let (first, _) = Op::take(&mut out[..len].into()).unwrap().unwrap();
        assert!(matches!(first, Op::Offer { .. }), "{peer}: {first:?}");
    }
}

#[test]
fn a_peer_that_takes_what_was_not_offered_or_confirms_what_was_not_taken_changes_nothing() {
    let mut world = lending();
    let frame = |op: Op| {
        let mut bytes = vec![0; op.header_len()];
        op.write(0, &mut bytes);
        bytes
    };
    // To a peer that does not read this process's memory.
    let id = world.ends[0].send(PeerId(1), 5, body(200_000, 1)).unwrap();
    let mut out = vec![0; 1468];
    assert_eq!(world.ends[0].poll_ready(), Some(PeerId(1)));
    let len = world.ends[0].fill(PeerId(1), Epoch(7), &mut out);
    world.ends[0].framed(PeerId(1));
    let (offer, _) = Op::take(&mut out[..len].into()).unwrap().unwrap();
    let Op::Offer { id: number, total: 200_000, .. } = offer else { panic!("{offer:?}") };
    for (op, invalid) in [
        (Op::Taken { id: 0, offer: number + 1, len: 10 }, 1),
        (Op::Taken { id: 0, offer: number, len: 200_001 }, 2),
        (Op::Done { id: number, status: Status::Ok }, 3),
    ] {
        world.ends[0].handle(PeerId(1), Epoch(7), frame(op)[..].into());
        assert_eq!(world.ends[0].counters().invalid, invalid, "{op:?}");
    }
    assert!(world.completions(0).is_empty(), "{id:?} waits");
    // A receive for which nothing was taken.
    world.ends[0].receive(from(1, 8), vec![0; 100]).unwrap();
    for id in 0..8 {
        let done = frame(Op::Done { id, status: Status::Ok });
        world.ends[0].handle(PeerId(1), Epoch(7), done[..].into());
    }
    assert!(world.completions(0).is_empty());
}
