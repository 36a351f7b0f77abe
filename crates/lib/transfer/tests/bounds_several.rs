//! What a peer that keeps to no rule can make of receives of several messages.
#![allow(missing_docs)]

mod victim;

use gigae_proto::{PeerId, Reason};
use gigae_transfer::{Label, OpId, Selector, TransferConfig};
use gigae_wire::op::Op;
use victim::{ATTACKER, EPOCH, Victim, eager};

#[test]
fn messages_behind_one_that_is_awaited_are_reported_in_order_however_many_there_are() {
    let mut victim = Victim::new(TransferConfig::default());
    victim.transfer.receive_several(any(), vec![0; 100], 1).unwrap();
    let [first, middle] = [0, 5_000].map(|tag| Op::Offer { id: 1, label: tag.into(), total: 1 });
    let mut pulls = Vec::new();
    for n in 0..10_000 {
        let op = match n {
            0 => first,
            5_000 => middle,
            _ => eager(n),
        };
        victim.hand(ATTACKER, EPOCH, op, &[]);
        for answer in victim.answers(ATTACKER, EPOCH) {
            if let Op::Pull { id, .. } = answer {
                pulls.push(id);
            }
        }
    }
    let tags = |victim: &mut Victim| -> Vec<u64> {
        std::iter::from_fn(|| victim.transfer.poll_completion()).map(|done| done.tag).collect()
    };
    // No long lists in the error text.
    assert!(tags(&mut victim).is_empty());
    victim.hand(ATTACKER, EPOCH, Op::Reply { id: pulls[0], at: 0 }, &[1]);
    assert!(tags(&mut victim).into_iter().eq(0..5_000), "those before the second one, in order");
    // Another sender does not wait.
    victim.hand(PeerId(1), EPOCH, eager(7), &[]);
    assert_eq!(tags(&mut victim), [7]);
    victim.hand(ATTACKER, EPOCH, Op::Reply { id: pulls[1], at: 0 }, &[1]);
    assert!(tags(&mut victim).into_iter().eq(5_000..10_000), "the others, in order");
}

#[test]
fn empty_messages_for_a_receive_of_several_wait_when_their_completions_do() {
    let mut victim = Victim::new(TransferConfig::default());
    let id = victim.transfer.receive_several(any(), vec![0; 100], 1).unwrap();
    for n in 0..40_000 {
        victim.hand(ATTACKER, EPOCH, eager(n), &[]);
        if n % 100 == 0 {
            victim.answers(ATTACKER, EPOCH);
        }
    }
    assert_eq!(victim.transfer.unexpected(), (256 << 10) / 64);
    // The program takes them, and the receive goes on with those that waited.
    let mut tags = Vec::new();
    while let Some(done) = victim.transfer.poll_completion() {
        assert_eq!((done.id, done.len), (id, 0));
        tags.push(done.tag);
    }
    assert_eq!(tags, (0..16_384 + 4096).collect::<Vec<_>>());
    victim.hand(ATTACKER, EPOCH, eager(7), &[1; 100]);
    assert_eq!(victim.transfer.poll_completion().unwrap().memory, Some(vec![1; 100]));
}

#[test]
fn what_comes_while_messages_wait_for_a_receive_of_several_waits_behind_them() {
    let mut victim = Victim::new(TransferConfig::default());
    victim.transfer.receive_several(any(), vec![0; 100], 1).unwrap();
    let mut tags = Vec::new();
    for n in 0..16_384 + 10 {
        victim.hand(ATTACKER, EPOCH, eager(n), &[]);
        if n % 100 == 0 {
            victim.answers(ATTACKER, EPOCH);
        }
    }
    // There is room for a few completions again, and another message comes.
    for _ in 0..5 {
        tags.push(victim.transfer.poll_completion().unwrap().tag);
    }
    victim.hand(ATTACKER, EPOCH, eager(16_394), &[]);
    while let Some(done) = victim.transfer.poll_completion() {
        tags.push(done.tag);
    }
    assert_eq!(tags, (0..16_395).collect::<Vec<_>>());
}

#[test]
fn while_peers_are_held_back_they_cause_no_completions() {
    let mut victim = Victim::new(TransferConfig::default());
    victim.transfer.receive_several(any(), vec![0; 100], 1).unwrap();
    victim.hand(ATTACKER, EPOCH, eager(0), &[]);
    victim.transfer.hold_back(true);
    for n in 1..10 {
        victim.hand(ATTACKER, EPOCH, eager(n), &[]);
    }
    // What has ended is reported, and the rest waits.
    assert_eq!(victim.transfer.poll_completion().unwrap().tag, 0);
    assert!(victim.transfer.poll_completion().is_none());
    assert_eq!(victim.transfer.unexpected(), 9);
    victim.transfer.hold_back(false);
    let tags: Vec<_> =
        std::iter::from_fn(|| victim.transfer.poll_completion()).map(|done| done.tag).collect();
    assert_eq!(tags, (1..10).collect::<Vec<_>>());
}

#[test]
fn messages_that_waited_for_a_receive_of_several_go_to_those_behind_it_when_it_is_over() {
    for cancelled in [false, true] {
        let mut victim = Victim::new(TransferConfig::default());
        // Room for one message, for three, and a receive of one.
        let [first, second] = [100, 200]
            .map(|room| victim.transfer.receive_several(any(), vec![0; room], 60).unwrap());
        let last = victim.transfer.receive(any(), vec![0; 60]).unwrap();
        victim.transfer.hold_back(true);
        for n in 0..5 {
            victim.hand(ATTACKER, EPOCH, eager(n), &[1; 60]);
        }
        assert!(!cancelled || victim.transfer.cancel(first));
        victim.transfer.hold_back(false);
        let mut taken = Vec::new();
        while let Some(done) = victim.transfer.poll_completion() {
            if done.result.is_ok() {
                taken.push((done.tag, done.id));
            }
        }
        let receives = if cancelled {
            vec![second, second, second, last]
        } else {
            vec![first, second, second, second, last]
        };
        assert_eq!(taken, (0..).zip(receives).collect::<Vec<_>>());
        assert_eq!(victim.transfer.unexpected(), usize::from(cancelled));
    }
}

fn any() -> Selector {
    Selector { ignore: u64::MAX, ..Selector::default() }
}

/// Tags and receives of all that has ended.
fn ended(victim: &mut Victim) -> Vec<(u64, OpId)> {
    std::iter::from_fn(|| victim.transfer.poll_completion())
        .map(|done| (done.tag, done.id))
        .collect()
}

#[test]
fn a_peer_that_never_sends_what_it_offered_holds_back_only_itself() {
    let mut victim = Victim::new(TransferConfig::default());
    let several = victim.transfer.receive_several(any(), vec![0; 1 << 20], 1).unwrap();
    let hostile = |victim: &mut Victim, peer: u32| {
        victim.hand(PeerId(peer), EPOCH, Op::Offer { id: 1, label: 0.into(), total: 1 }, &[]);
        let mut kept = 0;
        for n in 1..40_000 {
            victim.hand(PeerId(peer), EPOCH, eager(n), &[]);
            if n % 100 == 0 {
                victim.answers(PeerId(peer), EPOCH);
            }
            kept = victim.transfer.unexpected();
        }
        kept
    };
    assert!(hostile(&mut victim, 0) > 0, "the rest is kept");
    assert!(victim.transfer.usage().completions >= 16_384);
    assert!(ended(&mut victim).is_empty());
    // Others are served, and each has its own part behind a message that is awaited.
    for n in 0..50_000 {
        victim.hand(PeerId(1), EPOCH, eager(n), &[1]);
        victim.answers(PeerId(1), EPOCH);
        assert_eq!(ended(&mut victim), [(n, several)]);
    }
    victim.hand(PeerId(2), EPOCH, Op::Offer { id: 1, label: 0.into(), total: 1 }, &[]);
    let answers = victim.answers(PeerId(2), EPOCH);
    let pulls: Vec<_> = answers
        .iter()
        .filter_map(|op| if let Op::Pull { id, .. } = op { Some(*id) } else { None })
        .collect();
    let [id] = pulls[..] else { panic!("{answers:?}") };
    for n in 1..40 {
        victim.hand(PeerId(2), EPOCH, eager(n), &[]);
    }
    victim.hand(PeerId(2), EPOCH, Op::Reply { id, at: 0 }, &[1]);
    assert_eq!(ended(&mut victim), (0..40).map(|n| (n, several)).collect::<Vec<_>>());
    // What such a peer kept is bounded over all of them, and free when its session ends.
    for peer in 3..10 {
        hostile(&mut victim, peer);
    }
    assert!(victim.transfer.usage().completions <= 16_384 + 10 * 16);
    for peer in (3..10).chain([0]) {
        victim.transfer.ended(PeerId(peer), EPOCH, Reason::Timeout);
    }
    while victim.transfer.poll_completion().is_some() {}
    assert_eq!((victim.transfer.usage().completions, victim.transfer.unexpected()), (0, 0));
}

#[test]
fn what_a_stalled_peer_sends_goes_to_receives_in_the_order_in_which_it_came() {
    let mut victim = Victim::new(TransferConfig::default());
    let tag = |tag| Selector { tag, ..Selector::default() };
    // Room for one message with this tag, and for all others.
    let first = victim.transfer.receive_several(tag(1), vec![0; 60], 60).unwrap();
    victim.hand(ATTACKER, EPOCH, eager(5), &[1; 60]);
    victim.transfer.hold_back(true);
    for tag in [1, 1, 2, 5] {
        victim.hand(ATTACKER, EPOCH, eager(tag), &[1; 60]);
    }
    // Receives that are posted now take what came before, but nothing out of turn.
    let five = victim.transfer.receive(tag(5), vec![0; 60]).unwrap();
    let one = victim.transfer.receive(tag(1), vec![0; 60]).unwrap();
    let rest = victim.transfer.receive_several(any(), vec![0; 600], 1).unwrap();
    assert!(victim.transfer.peek(&tag(1)).is_none());
    assert_eq!(ended(&mut victim), [(5, five)]);
    victim.hand(ATTACKER, EPOCH, eager(1), &[1; 60]);
    victim.hand(PeerId(1), EPOCH, eager(7), &[]);
    assert_eq!(ended(&mut victim), []);
    victim.transfer.hold_back(false);
    let expected = [(1, first), (1, one), (2, rest), (5, rest), (1, rest), (7, rest)];
    assert_eq!(ended(&mut victim), expected);
    victim.hand(ATTACKER, EPOCH, eager(9), &[]);
    assert_eq!(ended(&mut victim), [(9, rest)]);
}

#[test]
fn kept_messages_of_a_stalled_peer_are_there_for_others_when_receives_are_given_up() {
    let mut victim = Victim::new(TransferConfig::default());
    victim.transfer.receive_several(any(), vec![0; 600], 1).unwrap();
    victim.transfer.hold_back(true);
    for tag in 0..3 {
        victim.hand(ATTACKER, EPOCH, eager(tag), &[1; 60]);
    }
    victim.transfer.cancel_incoming();
    while victim.transfer.poll_completion().is_some() {}
    for n in 0..3 {
        let id = victim.transfer.receive(any(), vec![0; 60]).unwrap();
        assert_eq!(ended(&mut victim), [(n, id)]);
    }
}

#[test]
fn a_peer_that_sends_much_takes_no_turn_of_another() {
    let mut victim = Victim::new(TransferConfig::default());
    victim.transfer.receive_several(any(), vec![0; 100], 1).unwrap();
    let mut sent = 0;
    let mut flood = |victim: &mut Victim, count: u64| {
        for _ in 0..count {
            victim.hand(PeerId(0), EPOCH, eager(sent), &[]);
            sent += 1;
        }
        victim.answers(PeerId(0), EPOCH);
    };
    for _ in 0..500 {
        flood(&mut victim, 100);
    }
    victim.hand(PeerId(1), EPOCH, eager(1_000_000), &[]);
    // The program reads as fast as that peer sends.
    let mut read = 0;
    loop {
        let tag = victim.transfer.poll_completion().unwrap().tag;
        if tag == 1_000_000 {
            break;
        }
        read += 1;
        assert!(read < 25_000, "the other peer's message waits for ever");
        flood(&mut victim, 1);
    }
}

#[test]
fn tagged_messages_go_on_while_untagged_ones_wait() {
    let mut victim = Victim::new(TransferConfig::default());
    let several = Selector { untagged: true, ..any() };
    let several = victim.transfer.receive_several(several, vec![0; 100], 1).unwrap();
    let untagged = |tag: u64| Op::Eager { label: Label { untagged: true, ..tag.into() } };
    victim.transfer.hold_back(true);
    victim.hand(ATTACKER, EPOCH, untagged(1), &[1; 10]);
    victim.hand(ATTACKER, EPOCH, eager(2), &[1; 10]);
    victim.hand(ATTACKER, EPOCH, untagged(3), &[1; 10]);
    let second = victim.transfer.receive(any(), vec![0; 10]).unwrap();
    assert_eq!(ended(&mut victim), [(2, second)]);
    let fourth = victim.transfer.receive(any(), vec![0; 10]).unwrap();
    victim.hand(ATTACKER, EPOCH, eager(4), &[1; 10]);
    assert_eq!(ended(&mut victim), [(4, fourth)]);
    assert!(!victim.transfer.has_completions());
    victim.transfer.hold_back(false);
    assert!(victim.transfer.has_completions(), "a program must not sleep now");
    assert_eq!(ended(&mut victim), [(1, several), (3, several)]);
}
