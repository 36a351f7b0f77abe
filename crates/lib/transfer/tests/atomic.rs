//! Atomic changes of a peer's memory.
#![allow(missing_docs)]

mod world;

use gigae_proto::PeerId;
use gigae_transfer::{OpError, Rights};
use gigae_wire::op::{Action, Change, MAX_OP_HEADER, MOST_FETCHED, Number, Op, Status};
use world::World;

#[test]
fn every_change_reaches_the_memory_and_what_was_there_comes_back() {
    for action in Action::ALL {
        for number in Number::ALL {
            for (count, fetch) in [(1, true), (1, false), (MOST_FETCHED / number.size(), true)] {
                let Some(change) = Change::new(action, number, count, fetch) else { continue };
                let mut w = World::new(2);
                // At an odd place, with others around it that no operation may touch.
                let before: Vec<u8> = (0..100).map(|n| n | 0x10).collect();
                let key = w.ends[1].register(before.clone(), Rights::ATOMIC).unwrap();
                let len = change.len();
                let operands = vec![0x23; change.operands_len().max(len)];
                w.ends[0].atomic(PeerId(1), key, 7, change, operands.clone()).unwrap();
                w.run();
                let done = w.only(0);
                assert_eq!((done.result, done.len), (Ok(()), len), "{change:?}");
                let memory = done.memory.unwrap();
                let found = if fetch { &before[7..7 + len] } else { &operands[..len] };
                assert_eq!(memory[..len], *found, "{change:?}");
                let after = w.ends[1].region(key).unwrap();
                let unchanged = (&before[..7], &before[7 + len..]);
                assert_eq!((&after[..7], &after[7 + len..]), unchanged, "{change:?}");
                match action {
                    Action::Read => assert_eq!(after[7..7 + len], before[7..7 + len]),
                    Action::Write => assert_eq!(after[7..7 + len], operands[..len]),
                    _ => {}
                }
                assert_eq!(w.ends[1].writes(key), Some(u64::from(action != Action::Read)));
                assert_eq!((w.ends[0].outstanding(), w.ends[1].counters().invalid), (0, 0));
            }
        }
    }
}

#[test]
fn changes_that_are_not_allowed_are_refused_and_change_nothing() {
    let mut w = World::new(2);
    let key = w.ends[1].register(vec![5; 32], Rights::ATOMIC).unwrap();
    let read_only = w.ends[1].register(vec![5; 32], Rights::READ).unwrap();
    let change = Change::new(Action::Write, Number::U64, 2, true).unwrap();
    for (key, offset, status) in [
        (key, 17, Status::Bounds),
        (key, 32, Status::Bounds),
        (key, u64::MAX - 3, Status::Bounds),
        (read_only, 0, Status::Rights),
    ] {
        w.ends[0].atomic(PeerId(1), key, offset, change, vec![9; 16]).unwrap();
        w.run();
        let done = w.only(0);
        assert_eq!((done.result, done.value), (Err(OpError::Refused(status)), 0));
        assert_eq!(done.memory.unwrap(), [9; 16]);
    }
    assert_eq!(w.ends[1].region(key).unwrap(), &[5; 32]);
}

#[test]
fn operands_and_answers_of_another_length_are_invalid() {
    let mut w = World::new(2);
    let key = w.ends[1].register(vec![5; 32], Rights::ATOMIC).unwrap();
    let change = Change::new(Action::Write, Number::U32, 2, true).unwrap();
    let mut invalid = 0;
    let mut handle = |w: &mut World, op: Op, data: &[u8], to: usize| {
        let mut frame = vec![0; MAX_OP_HEADER];
        let len = op.write(data.len() as u16, &mut frame);
        frame.truncate(len);
        frame.extend_from_slice(data);
        let (peer, epoch) = (PeerId(1 - to as u32), w.epoch[to][1 - to]);
        w.ends[to].handle(peer, epoch, frame[..].into());
        invalid += 1;
        assert_eq!(w.ends[to].counters().invalid, invalid);
    };
    for len in [0, 7, 9, 65, 200] {
        let op = Op::Atomic { id: 1, key: key.0, offset: 0, change };
        handle(&mut w, op, &vec![9; len], 1);
    }
    assert_eq!(w.ends[1].region(key).unwrap(), &[5; 32]);
    let mut w = World::new(2);
    w.ends[0].atomic(PeerId(1), key, 0, change, vec![9; 8]).unwrap();
    let peer = w.ends[0].poll_ready().unwrap();
    w.ends[0].fill(peer, w.epoch[0][1], &mut [0; 200]);
    let id = 1 << 20;
    let answer = |w: &mut World, status, len: usize| {
        let mut frame = vec![0; MAX_OP_HEADER];
        let header = Op::Done { id, status }.write(len as u16, &mut frame);
        frame.truncate(header);
        frame.resize(header + len, 7);
        w.ends[0].handle(PeerId(1), w.epoch[0][1], frame[..].into());
        w.ends[0].counters().invalid
    };
    for (n, (status, len)) in [(Status::Ok, 0), (Status::Ok, 7), (Status::Ok, 9), (Status::Key, 8)]
        .into_iter()
        .enumerate()
    {
        assert_eq!(answer(&mut w, status, len), n as u64 + 1, "{status:?} {len}");
    }
    assert_eq!(answer(&mut w, Status::Ok, 8), 4, "this one fits");
    assert_eq!(w.only(0).memory.unwrap(), [7; 8]);
}

#[test]
fn a_change_that_is_given_up_writes_nothing_here_and_its_answer_is_no_surprise() {
    for begun in [false, true] {
        let mut w = World::new(2);
        let key = w.ends[1].register(vec![5; 32], Rights::ATOMIC).unwrap();
        let change = |fetch| Change::new(Action::Sum, Number::U64, 1, fetch).unwrap();
        let given_up = w.ends[0].atomic(PeerId(1), key, 0, change(true), vec![1; 8]).unwrap();
        let kept = w.ends[0].atomic(PeerId(1), key, 8, change(false), vec![1; 8]).unwrap();
        if begun {
            w.step();
        }
        w.ends[0].cancel_incoming();
        let ended = w.only(0);
        assert_eq!((ended.id, ended.result), (given_up, Err(OpError::Cancelled)));
        w.run();
        assert_eq!(w.only(0).id, kept);
        assert_eq!(w.ends[1].region(key).unwrap()[0], if begun { 6 } else { 5 });
        assert_eq!(w.ends[1].region(key).unwrap()[8], 6);
        assert_eq!((w.ends[0].outstanding(), w.ends[0].counters().invalid), (0, 0));
    }
}
