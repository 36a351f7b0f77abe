//! Notices of writes: a program that leaves them makes their writers wait.
#![allow(missing_docs)]

mod victim;
mod world;

use gigae_proto::PeerId;
use gigae_transfer::{OpError, Rights, TransferConfig, TransferNotice};
use gigae_wire::Epoch;
use gigae_wire::op::Status;
use victim::{ATTACKER, EPOCH, Victim, write};
use world::World;

#[test]
fn a_notice_comes_when_all_is_there_and_too_many_are_refused() {
    let mut w = World::with(2, &TransferConfig { most_notices: 32, ..TransferConfig::default() });
    let key = w.ends[1].register(vec![0; 10_000], Rights::WRITE).unwrap();
    for n in 0..36 {
        w.ends[0].write(PeerId(1), key, 100 * n, vec![n as u8 + 1; 5_000], Some(n)).unwrap();
    }
    w.run();
    let results = |w: &mut World| -> Vec<_> {
        w.completions(0).into_iter().map(|done| done.result).collect()
    };
    let refused = Err(OpError::Refused(Status::Busy));
    assert_eq!(results(&mut w), [Ok(()), Ok(()), refused, refused, refused, refused]);
    // The others wait for their answers until the program takes their notices.
    for n in 0..32 {
        let notice = TransferNotice { peer: PeerId(0), key, offset: 100 * n, len: 5_000, value: n };
        assert_eq!(w.ends[1].poll_notice(), Some(notice));
        w.run();
        assert_eq!(results(&mut w).len(), usize::from(n >= 2));
    }
    assert_eq!(w.ends[1].poll_notice(), None);
    assert!(w.ends[1].region(key).unwrap().iter().all(|&byte| byte < 33), "nothing of the others");
}

#[test]
fn a_program_that_takes_no_notices_for_long_makes_writers_wait_and_refuses_nothing() {
    const COUNT: u64 = 20_000;
    let mut w = World::new(3);
    let key = w.ends[2].register(vec![0; 8], Rights::WRITE).unwrap();
    for n in 0..COUNT {
        for end in [0, 1] {
            w.ends[end].write(PeerId(2), key, 0, vec![1; 8], Some(n)).unwrap();
        }
    }
    w.run();
    let waiting = w.ends[2].pending_events();
    assert!((4096..=4096 + 2 * 1024).contains(&waiting), "{waiting}");
    let mut came = [0, 0];
    while came != [COUNT, COUNT] {
        while let Some(notice) = w.ends[2].poll_notice() {
            let next = &mut came[notice.peer.0 as usize];
            assert_eq!(notice.value, *next);
            *next += 1;
        }
        w.run();
    }
    for end in [0, 1] {
        let done = w.completions(end);
        assert_eq!(done.len() as u64, COUNT);
        assert!(done.iter().all(|done| done.result.is_ok()));
    }
}

#[test]
fn a_notice_of_a_former_session_answers_nothing_in_the_next() {
    let mut victim = Victim::new(TransferConfig { most_notices: 16, ..TransferConfig::default() });
    let key = victim.transfer.register(vec![0; 8], Rights::WRITE).unwrap();
    for id in 0..3 {
        victim.hand(ATTACKER, EPOCH, write(id, key, 8, 0, Some(1)), &[1; 8]);
    }
    assert_eq!(victim.statuses(), [Status::Ok], "the first");
    let next = Epoch(EPOCH.0 + 1);
    victim.hand(ATTACKER, next, write(7, key, 8, 0, Some(1)), &[1; 8]);
    assert!(victim.answers(ATTACKER, next).is_empty());
    assert_eq!(victim.notices(), 4);
    let answers = victim.answers(ATTACKER, next);
    assert!(matches!(answers[..], [gigae_wire::op::Op::Done { id: 7, status: Status::Ok }]));
}

#[test]
fn notices_that_are_left_while_peers_are_held_back_are_no_reason_to_look() {
    let mut victim = Victim::new(TransferConfig::default());
    let key = victim.transfer.register(vec![0; 8], Rights::WRITE).unwrap();
    victim.hand(ATTACKER, EPOCH, write(1, key, 8, 0, Some(1)), &[1; 8]);
    assert!(victim.transfer.has_completions());
    victim.transfer.hold_back(true);
    assert!(!victim.transfer.has_completions());
    victim.transfer.hold_back(false);
    assert!(victim.transfer.has_completions());
    assert_eq!(victim.notices(), 1);
}
