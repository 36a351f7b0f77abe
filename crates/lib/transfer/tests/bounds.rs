//! What a peer that keeps to no rule can make an endpoint keep.
#![allow(missing_docs)]

mod victim;

use gigae_proto::{Instant, PeerId, Reason};
use gigae_transfer::{OpError, RegionKey, Rights, Selector, Transfer, TransferConfig};
use gigae_wire::Epoch;
use gigae_wire::op::{Action, Change, Number, Op, Status};
use victim::{ATTACKER, EPOCH, Victim, eager, offer, write};

#[test]
fn empty_parts_at_the_end_of_a_write_bring_no_notices() {
    let mut victim = Victim::new(TransferConfig { most_notices: 4, ..TransferConfig::default() });
    let key = victim.transfer.register(vec![0; 100], Rights::WRITE).unwrap();
    for id in 0..1000 {
        victim.hand(ATTACKER, EPOCH, write(id, key, 10, 10, Some(id.into())), &[]);
    }
    assert_eq!(victim.notices(), 0, "writes that never began");
    for id in 0..1000 {
        victim.hand(ATTACKER, EPOCH, write(id, key, 10, 0, Some(id.into())), &[1; 10]);
        victim.hand(ATTACKER, EPOCH, write(id, key, 10, 10, Some(id.into())), &[]);
    }
    assert_eq!(victim.notices(), 4);
}

#[test]
fn a_write_that_began_without_notice_ends_without_one() {
    let mut victim = Victim::new(TransferConfig { most_notices: 4, ..TransferConfig::default() });
    let key = victim.transfer.register(vec![0; 100], Rights::WRITE).unwrap();
    for id in 0..1000 {
        victim.hand(ATTACKER, EPOCH, write(id, key, 10, 0, None), &[1; 5]);
        victim.hand(ATTACKER, EPOCH, write(id, key, 10, 5, Some(1)), &[1; 5]);
    }
    assert_eq!(victim.notices(), 0);
}

#[test]
fn parts_of_a_write_that_do_not_continue_it_write_nothing() {
    let mut victim = Victim::new(TransferConfig::default());
    let key = victim.transfer.register(vec![0; 100], Rights::WRITE).unwrap();
    let other = victim.transfer.register(vec![0; 100], Rights::WRITE).unwrap();
    victim.hand(ATTACKER, EPOCH, write(1, key, 10, 0, None), &[1; 4]);
    for (id, key, total, at) in
        [(2, key, 10, 4), (1, other, 10, 4), (1, key, 11, 4), (1, key, 10, 5), (1, key, 10, 3)]
    {
        victim.hand(ATTACKER, EPOCH, write(id, key, total, at, None), &[9; 1]);
    }
    assert_eq!(victim.transfer.counters().invalid, 5);
    victim.hand(ATTACKER, EPOCH, write(1, key, 10, 4, None), &[2; 6]);
    assert_eq!(victim.statuses(), [Status::Ok]);
    assert_eq!(victim.transfer.region(key).unwrap()[..11], [1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0]);
    assert_eq!(victim.transfer.region(other), Some(&vec![0; 100]));
}

#[test]
fn a_notice_that_a_begun_write_was_promised_is_free_again_when_its_session_ends() {
    let mut victim = Victim::new(TransferConfig { most_notices: 1, ..TransferConfig::default() });
    let key = victim.transfer.register(vec![0; 100], Rights::WRITE).unwrap();
    for epoch in 7..17 {
        victim.hand(ATTACKER, Epoch(epoch), write(1, key, 10, 0, Some(1)), &[1; 4]);
    }
    victim.hand(ATTACKER, Epoch(17), write(1, key, 10, 0, Some(1)), &[1; 10]);
    assert_eq!(victim.notices(), 1);
}

fn read(id: u32, key: u64) -> Op {
    Op::Read { id, key, offset: 0, len: 1 }
}

#[test]
fn keys_are_the_generators_numbers_whole_and_none_is_given_twice() {
    let mut numbers = [5, u64::MAX, u64::MAX, 1 << 63, 0x77, 9].into_iter();
    let keys = move || numbers.next().unwrap();
    let mut transfer = Transfer::new(TransferConfig::default(), keys);
    let mut register = || transfer.register(vec![0; 8], Rights::ALL).unwrap().0;
    assert_eq!([register(), register(), register()], [5, u64::MAX, 1 << 63]);
    transfer.register_as(RegionKey(0x77), vec![0; 8], Rights::ALL).unwrap();
    assert_eq!(
        transfer.register(vec![0; 8], Rights::ALL).unwrap().0,
        9,
        "the program has the other"
    );
}

#[test]
fn a_peer_that_guesses_keys_soon_does_not_learn_whether_one_is_right() {
    const MILLISECOND: u64 = 1_000_000;
    let mut victim = Victim::new(TransferConfig::default());
    let key = victim.transfer.register(vec![0; 8], Rights::ALL).unwrap().0;
    let mut guess = 0x1000;
    let mut wrong = |victim: &mut Victim, epoch: u32, count: u32| {
        for id in 0..count {
            guess += 1;
            victim.hand(ATTACKER, Epoch(epoch), read(id, guess), &[]);
        }
    };
    for _ in 0..16 {
        wrong(&mut victim, 7, 64);
        assert_eq!(victim.statuses(), [Status::Key; 64]);
    }
    assert_eq!(victim.transfer.counters().wrong_keys, 1024);
    // Reads, writes and atomic changes; and another session pays nothing.
    for epoch in [7, 8] {
        let right = RegionKey(key);
        let change = Change::new(Action::Sum, Number::U64, 1, true).unwrap();
        let change = Op::Atomic { id: 3, key, offset: 0, change };
        victim.hand(ATTACKER, Epoch(epoch), read(1, key), &[]);
        victim.hand(ATTACKER, Epoch(epoch), write(2, right, 8, 0, None), &[1; 8]);
        victim.hand(ATTACKER, Epoch(epoch), change, &[1; 8]);
        wrong(&mut victim, epoch, 1);
        let answers = victim.answers(ATTACKER, Epoch(epoch));
        let busy = |op: &Op| matches!(op, Op::Done { status: Status::Busy, .. });
        assert!(answers.len() == 4 && answers.iter().all(busy), "{answers:?}");
    }
    assert_eq!(victim.transfer.region(RegionKey(key)), Some(&vec![0; 8]));
    assert_eq!(victim.transfer.counters().wrong_keys, 1024, "the others were not looked up");
    // No other peer is hindered.
    let other = PeerId(1);
    victim.hand(other, EPOCH, read(1, key), &[]);
    assert!(matches!(victim.answers(other, EPOCH)[..], [Op::Reply { id: 1, .. }]));
    // Time pays for one guess in 10 ms, and at last for all.
    victim.transfer.advance(Instant(10 * MILLISECOND));
    wrong(&mut victim, 8, 2);
    let answers = victim.answers(ATTACKER, Epoch(8));
    let statuses = [Status::Key, Status::Busy];
    assert!(
        answers
            .iter()
            .zip(statuses)
            .all(|(op, s)| matches!(op, Op::Done { status, .. } if *status == s))
    );
    victim.transfer.advance(Instant(20_000 * MILLISECOND));
    victim.hand(ATTACKER, Epoch(8), read(1, key), &[]);
    assert!(matches!(victim.answers(ATTACKER, Epoch(8))[..], [Op::Reply { id: 1, .. }]));
}

fn first(tag: u64, total: u32) -> Op {
    Op::First { label: tag.into(), total }
}

fn receive(victim: &mut Victim, tag: u64) -> Option<Vec<u8>> {
    let selector = Selector { tag, ..Selector::default() };
    victim.transfer.peek(&selector)?;
    victim.transfer.receive(selector, vec![0; 2000]).unwrap();
    let done = victim.transfer.poll_completion().unwrap();
    Some(done.memory.unwrap()[..done.len].to_vec())
}

/// What a message of 1,000 bytes takes of an allowance.
const COST: usize = 1064;

#[test]
fn what_a_peer_leaves_unexpected_is_bounded_over_all_its_sessions() {
    let mut victim = Victim::new(TransferConfig::default());
    for session in 1..600 {
        for n in 0..300 {
            victim.hand(ATTACKER, Epoch(session), eager(n), &[session as u8; 1000]);
        }
        victim.hand(ATTACKER, Epoch(session), first(1, 30_000), &[1; 1400]);
        let kept = victim.transfer.unexpected();
        let most = (512 << 10) + (8 << 10);
        assert!(kept <= most / COST + 1, "{kept} messages after {session} sessions");
    }
    victim.transfer.ended(ATTACKER, Epoch(599), Reason::Timeout);
    assert!(victim.transfer.unexpected() <= (512 << 10) / COST);
    assert!(victim.transfer.counters().dropped > 3_000);
    // Of former sessions the oldest were dropped: seven messages of each, the first share, are left
    // of some 70.
    let oldest = receive(&mut victim, 0).unwrap()[0];
    assert!((520 - 512..=535 - 512).contains(&i32::from(oldest)), "{oldest}");
}

#[test]
fn what_former_sessions_left_counts_against_what_a_peer_is_granted_until_receives_take_it() {
    let mut victim = Victim::new(TransferConfig::default());
    let fill = |victim: &mut Victim, session: u32| {
        let before = victim.transfer.unexpected();
        for n in 0..300 {
            victim.hand(ATTACKER, Epoch(session), eager(n), &[1; 1000]);
        }
        victim.transfer.unexpected() - before
    };
    assert_eq!(fill(&mut victim, 1), (256 << 10) / COST);
    assert_eq!(
        fill(&mut victim, 2),
        (8 << 10) / COST,
        "only the share that each session begins with"
    );
    for tag in 0..300 {
        while receive(&mut victim, tag).is_some() {}
    }
    assert_eq!(victim.transfer.unexpected(), 0);
    assert_eq!(fill(&mut victim, 3), (256 << 10) / COST);
    assert_eq!(victim.transfer.counters().dropped, 0);
}

#[test]
fn a_peer_with_a_message_of_a_former_session_gets_no_more_than_others_without_an_offer() {
    let mut victim = Victim::new(TransferConfig::default());
    victim.hand(ATTACKER, Epoch(1), eager(1), &[1; 1000]);
    victim.transfer.ended(ATTACKER, Epoch(1), Reason::Timeout);
    for n in 0..20 {
        victim.hand(ATTACKER, Epoch(2), eager(n), &[1; 1000]);
    }
    assert_eq!(until(&victim.answers(ATTACKER, Epoch(2))), Some((256 << 10) - COST as u32));
}

/// Up to where a peer may send unasked, as the last Limit among these says.
fn until(answers: &[Op]) -> Option<u32> {
    let limit = |op: &Op| if let Op::Limit { until, .. } = *op { Some(until) } else { None };
    answers.iter().rev().find_map(limit)
}

#[test]
fn a_peer_that_offers_short_messages_is_granted_more_until_half_of_the_pool_is_used() {
    let mut victim =
        Victim::new(TransferConfig { most_granted: 2 << 20, ..TransferConfig::default() });
    let short = |id: u32| Op::Offer { id, label: 5.into(), total: 30_000 };
    let granted = |victim: &mut Victim, peer: u32, op: Op| {
        victim.hand(PeerId(peer), EPOCH, op, &[]);
        until(&victim.answers(PeerId(peer), EPOCH))
    };
    for peer in 0..2 {
        for (id, bytes) in [(0, 256 << 10), (1, 512 << 10)] {
            assert_eq!(granted(&mut victim, peer, short(id)), Some(bytes));
        }
        assert_eq!(granted(&mut victim, peer, short(3)), None, "the most");
    }
    // The rest of the pool is for those that have nothing yet.
    assert_eq!(granted(&mut victim, 2, short(0)), Some(256 << 10));
    assert_eq!(granted(&mut victim, 2, short(1)), None);
    // A long message is offered whatever is granted.
    assert_eq!(granted(&mut victim, 3, offer(0)), None);
}

#[test]
fn what_receives_took_is_said_in_the_next_message_to_the_peer() {
    let mut victim = Victim::new(TransferConfig::default());
    let any = Selector { ignore: u64::MAX, ..Selector::default() };
    let taken = |victim: &mut Victim, count: usize| {
        for _ in 0..count {
            victim.transfer.receive(any, vec![0; 1000]).unwrap();
            victim.hand(ATTACKER, EPOCH, eager(1), &[1; 1000]);
        }
        victim.answers(ATTACKER, EPOCH)
    };
    // The allowance grows once.
    assert_eq!(until(&taken(&mut victim, 8)), Some(256 << 10));
    assert_eq!(taken(&mut victim, 16), [], "too little for a frame of its own");
    assert_eq!(taken(&mut victim, 16), []);
    victim.transfer.send(ATTACKER, 3, vec![0; 500]).unwrap();
    let answers = victim.answers(ATTACKER, EPOCH);
    assert!(matches!(answers[..], [Op::Limit { .. }, Op::Eager { .. }]), "{answers:?}");
    assert_eq!(until(&answers), Some((256 << 10) + 40 * COST as u32));
    victim.transfer.send(ATTACKER, 3, vec![0; 500]).unwrap();
    let answers = victim.answers(ATTACKER, EPOCH);
    assert!(matches!(answers[..], [Op::Eager { .. }]), "nothing new to say: {answers:?}");
    let many = taken(&mut victim, 130);
    assert_eq!(until(&many), Some((256 << 10) + 164 * COST as u32), "half of it was taken");
}

/// In the same frame, whether the message fits into that or not, unless it would fit only without
/// the Limit.
#[test]
fn what_receives_took_is_said_in_front_of_a_message_of_any_length() {
    const ROOM: usize = 1468;
    // Of an Eager.
    const HEADER: usize = 4 + 4 + 8;
    let any = Selector { ignore: u64::MAX, ..Selector::default() };
    // The ops of each frame.
    let frames = |len: usize| {
        let mut victim = Victim::new(TransferConfig::default());
        victim.answers(ATTACKER, EPOCH);
        victim.hand(ATTACKER, EPOCH, Op::Limit { until: 256 << 10, entries: 64 }, &[]);
        for n in 0..40 {
            victim.transfer.receive(any, vec![0; 1000]).unwrap();
            victim.hand(ATTACKER, EPOCH, eager(1), &[1; 1000]);
            if n == 7 {
                victim.answers(ATTACKER, EPOCH);
            }
        }
        assert_eq!(victim.answers(ATTACKER, EPOCH), [], "too little for a frame of its own");
        victim.transfer.send(ATTACKER, 3, vec![0; len]).unwrap();
        let (mut frames, mut out) = (Vec::new(), vec![0; ROOM]);
        loop {
            let filled = victim.transfer.fill(ATTACKER, EPOCH, &mut out);
            if filled == 0 {
                return frames;
            }
            victim.transfer.framed(ATTACKER);
            let mut payload = out[..filled].into();
            frames.push(String::new());
            while let Some((op, _)) = Op::take(&mut payload).unwrap() {
                *frames.last_mut().unwrap() += match op {
                    Op::Limit { .. } => "L",
                    Op::Eager { .. } => "E",
                    Op::First { .. } => "F",
                    Op::More => "m",
                    other => panic!("{other:?}"),
                };
            }
        }
    };
    assert_eq!(frames(100), ["LE"]);
    assert_eq!(frames(ROOM - HEADER - 16), ["LE"]);
    for len in [ROOM - HEADER - 15, ROOM - HEADER] {
        assert_eq!(frames(len), ["E"], "it leaves no room");
    }
    assert_eq!(frames(ROOM - HEADER + 1), ["LF", "m"]);
    assert_eq!(frames(5000), ["LF", "m", "m", "m"]);
}

#[test]
fn offers_of_a_peer_are_bounded_and_end_with_its_session() {
    let mut victim = Victim::new(TransferConfig::default());
    for session in 1..4 {
        for id in 0..20_000 {
            victim.hand(ATTACKER, Epoch(session), offer(id), &[]);
        }
        assert_eq!(victim.transfer.unexpected(), 16_384);
    }
    let label = 5.into();
    victim.hand(PeerId(1), EPOCH, Op::Offer { id: 1, label, total: (1 << 30) + 1 }, &[]);
    assert_eq!(victim.transfer.unexpected(), 16_384, "longer than any message is");
    victim.transfer.ended(ATTACKER, Epoch(3), Reason::Timeout);
    assert_eq!(victim.transfer.unexpected(), 0);
}

#[test]
fn operations_that_a_peer_leaves_unanswered_are_bounded_and_not_carried_out_beyond() {
    let mut victim = Victim::new(TransferConfig::default());
    let RegionKey(key) = victim.transfer.register(vec![0; 8], Rights::ALL).unwrap();
    for id in 0..3000 {
        let change = Change::new(Action::Sum, Number::U64, 1, true).unwrap();
        let one = 1_u64.to_le_bytes();
        victim.hand(ATTACKER, EPOCH, Op::Atomic { id, key, offset: 0, change }, &one);
        victim.hand(ATTACKER, EPOCH, read(id, key), &[]);
        victim.hand(ATTACKER, EPOCH, write(id, RegionKey(key), 0, 0, None), &[]);
    }
    let answers = victim.answers(ATTACKER, EPOCH);
    let owed = answers.iter().filter(|op| !matches!(op, Op::Limit { .. })).count();
    assert_eq!(owed, 1024);
    let changed = victim.transfer.region(RegionKey(key)).unwrap()[..].try_into().unwrap();
    assert_eq!(u64::from_le_bytes(changed), 342);
}

#[test]
fn messages_of_a_session_that_ends_stay_in_its_bytes_however_little_is_left_of_the_pool() {
    let config = TransferConfig { most_granted: 2 << 20, ..TransferConfig::default() };
    let mut victim = Victim::new(config);
    // Six peers have the first three quarters of the pool, fourteen their parts of the rest.
    for peer in (0..20).map(PeerId) {
        for n in 0..230 {
            victim.hand(peer, Epoch(1), eager(n), &[1; 1000]);
        }
    }
    let (kept, granted) = (victim.transfer.unexpected(), victim.transfer.usage().granted);
    assert!(granted > (1536 + 248) << 10, "{granted} bytes");
    victim.transfer.ended(PeerId(0), Epoch(1), Reason::Timeout);
    assert_eq!((victim.transfer.unexpected(), victim.transfer.counters().dropped), (kept, 0));
}

/// Offers that no receive takes, in many sessions.
#[test]
fn peers_that_use_up_what_they_are_granted_leave_some_for_others() {
    let mut victim = Victim::new(TransferConfig::default());
    let granted = |victim: &mut Victim, peer, offers| {
        let mut entries = 64;
        for n in 0..offers {
            victim.hand(peer, Epoch(1), offer(n), &[]);
            for answer in victim.answers(peer, Epoch(1)) {
                if let Op::Limit { entries: now, .. } = answer {
                    entries = now;
                }
            }
        }
        entries
    };
    let all: Vec<_> = (0..60).map(|n| granted(&mut victim, PeerId(n), 9000)).collect();
    assert_eq!((all[0], all[1]), (16_384, 16_384), "the first ones have all that a peer may");
    assert!(all[59] >= 1024, "{all:?}");
    // A program that sends few messages gets what it wants, too.
    assert_eq!(granted(&mut victim, PeerId(60), 40), 256);
    assert!(victim.transfer.usage().granted < 64 << 20);
}

#[test]
fn all_peers_together_keep_no_more_than_their_first_shares_and_the_pool() {
    const PEERS: u32 = 300;
    let config = TransferConfig { most_granted: 1 << 20, ..TransferConfig::default() };
    let mut victim = Victim::new(config.clone());
    let (mut bytes, mut offers) = (0, 0);
    // The first peer does not take the first shares of the others.
    for session in 1..4 {
        for peer in (0..PEERS).map(PeerId) {
            let before = victim.transfer.unexpected();
            for n in 0..100 {
                victim.hand(peer, Epoch(session), eager(n), &[1; 1000]);
            }
            let messages = victim.transfer.unexpected() - before;
            for id in 0..2000 {
                victim.hand(peer, Epoch(session), offer(id), &[]);
            }
            let offered = victim.transfer.unexpected() - before - messages;
            if session == 1 {
                assert!(messages >= (8 << 10) / COST && offered >= 64, "{messages}, {offered}");
                (bytes, offers) = (bytes + messages * COST, offers + offered);
            }
        }
        for peer in (0..PEERS).map(PeerId) {
            victim.transfer.ended(peer, Epoch(session), Reason::Timeout);
        }
        let most = PEERS as usize * (8 << 10) + config.most_granted;
        let kept = victim.transfer.unexpected() * COST;
        assert!(kept <= most, "{kept} bytes of former sessions");
    }
    let first = PEERS as usize * ((8 << 10) + 64 * 128);
    assert!(bytes + offers * 128 <= first + config.most_granted, "{bytes}, {offers}");
    // What was granted is free again once it is taken and the sessions are over.
    for tag in 0..100 {
        while receive(&mut victim, tag).is_some() {}
    }
    assert_eq!(victim.transfer.unexpected(), 0);
    for id in 0..2000 {
        victim.hand(ATTACKER, Epoch(9), offer(id), &[]);
    }
    assert_eq!(victim.transfer.unexpected(), 2000, "4,096 entries were granted again");
}

#[test]
fn a_peer_always_has_room_for_some_notices() {
    let mut victim =
        Victim::new(TransferConfig { most_notices: 2048, ..TransferConfig::default() });
    let key = victim.transfer.register(vec![0; 8], Rights::WRITE).unwrap();
    let notices = |victim: &mut Victim, peer: PeerId, epoch: u32| {
        for id in 0..600 {
            victim.hand(peer, Epoch(epoch), write(id, key, 0, 0, Some(1)), &[]);
            victim.answers(peer, Epoch(epoch));
        }
    };
    // In each session those of its writes without answer.
    for session in 0..40 {
        notices(&mut victim, ATTACKER, session);
    }
    notices(&mut victim, PeerId(1), 7);
    notices(&mut victim, PeerId(1), 8);
    assert_eq!(victim.notices(), 2050);
}

/// The numbers of operations that the victim has sent.
fn numbers(victim: &mut Victim) -> Vec<u32> {
    let number = |op: &Op| match *op {
        Op::Pull { id, .. }
        | Op::Read { id, .. }
        | Op::Write { id, .. }
        | Op::Atomic { id, .. } => id,
        ref other => panic!("{other:?}"),
    };
    victim.answers(ATTACKER, EPOCH).iter().map(number).collect()
}

/// Their numbers would stay queued, and start what has them later.
#[test]
fn answers_to_operations_that_were_not_sent_are_invalid_and_end_nothing() {
    let mut victim = Victim::new(TransferConfig::default());
    let (key, change) = (RegionKey(5), Change::new(Action::Sum, Number::U64, 1, true).unwrap());
    for _ in 0..65 {
        victim.transfer.read(ATTACKER, key, 0, vec![0; 4]).unwrap();
    }
    victim.transfer.write(ATTACKER, key, 0, vec![], None).unwrap();
    victim.transfer.atomic(ATTACKER, key, 0, change, vec![0; 8]).unwrap();
    let sent = numbers(&mut victim);
    assert_eq!(sent.len(), 64, "as many as wait for their answer");
    // A peer can guess the others.
    let [read, write, atomic] = [1, 2, 3].map(|n| sent[63] + n);
    let early: [(Op, &[u8]); 6] = [
        (Op::Reply { id: read, at: 0 }, &[1; 4]),
        (Op::Done { id: read, status: Status::Key }, &[]),
        (Op::Done { id: write, status: Status::Ok }, &[]),
        (Op::Done { id: write, status: Status::Key }, &[]),
        (Op::Done { id: atomic, status: Status::Ok }, &[1; 8]),
        (Op::Done { id: atomic, status: Status::Key }, &[]),
    ];
    for (n, (op, data)) in early.into_iter().enumerate() {
        victim.hand(ATTACKER, EPOCH, op, data);
        assert_eq!(victim.transfer.counters().invalid, n as u64 + 1, "{op:?}");
        assert!(victim.transfer.poll_completion().is_none(), "{op:?}");
    }
    let ended = |victim: &mut Victim| {
        let ended = std::iter::from_fn(|| victim.transfer.poll_completion());
        ended.filter(|done| done.result.is_ok()).count()
    };
    for id in sent {
        victim.hand(ATTACKER, EPOCH, Op::Reply { id, at: 0 }, &[1; 4]);
    }
    assert_eq!(ended(&mut victim), 64);
    assert_eq!(numbers(&mut victim), [read, write, atomic]);
    victim.hand(ATTACKER, EPOCH, Op::Reply { id: read, at: 0 }, &[1; 4]);
    victim.hand(ATTACKER, EPOCH, Op::Done { id: write, status: Status::Ok }, &[]);
    victim.hand(ATTACKER, EPOCH, Op::Done { id: atomic, status: Status::Ok }, &[1; 8]);
    assert_eq!(ended(&mut victim), 3);
    assert_eq!((victim.transfer.outstanding(), victim.transfer.counters().invalid), (0, 6));
}

#[test]
fn an_empty_reply_is_invalid_unless_no_byte_was_asked_for() {
    let mut victim = Victim::new(TransferConfig::default());
    let any = Selector { ignore: u64::MAX, ..Selector::default() };
    for room in [10, 0] {
        victim.transfer.receive(any, vec![0; room]).unwrap();
        victim.hand(ATTACKER, EPOCH, offer(room as u32), &[]);
    }
    for len in [4, 0] {
        victim.transfer.read(ATTACKER, RegionKey(5), 0, vec![0; len]).unwrap();
    }
    let sent = numbers(&mut victim);
    let [pull, empty_pull, read, empty_read] = sent[..] else { panic!("{sent:?}") };
    let reply = |victim: &mut Victim, id: u32, at: u32, data: &[u8]| {
        victim.hand(ATTACKER, EPOCH, Op::Reply { id, at }, data);
        let result = victim.transfer.poll_completion().map(|done| (done.len, done.result));
        (result, victim.transfer.counters().invalid)
    };
    for n in 0..100 {
        assert_eq!(reply(&mut victim, pull, 0, &[]), (None, 2 * n + 1));
        assert_eq!(reply(&mut victim, read, 0, &[]), (None, 2 * n + 2));
    }
    assert_eq!(reply(&mut victim, read, 0, &[1; 2]), (None, 200));
    assert_eq!(reply(&mut victim, read, 2, &[]), (None, 201));
    assert_eq!(reply(&mut victim, read, 2, &[1; 2]), (Some((4, Ok(()))), 201));
    assert_eq!(reply(&mut victim, empty_read, 0, &[]), (Some((0, Ok(()))), 201));
    let truncated = |len: usize| Some((len, Err(OpError::Truncated)));
    assert_eq!(reply(&mut victim, pull, 0, &[1; 10]), (truncated(10), 201));
    assert_eq!(reply(&mut victim, empty_pull, 0, &[]), (truncated(0), 201));
}
