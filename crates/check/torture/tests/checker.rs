//! The checkers get false events: they notice each class of what must never happen.
#![allow(missing_docs)]

use gigae_torture::{
    Access, AccessEnding, Class, Ending, Messages, NodePair, NoticedRange, Notices, Post,
    ReceiveReport, Regions, Swap, TaggedMessages, Violation, Want, body, tag, tagged_body,
};

/// The nodes of every test: the first does something to the second.
const PAIR: NodePair = NodePair { from: 0, to: 1 };

/// A pair of nodes that are open, and what the first has sent to the second: bodies of these sizes.
fn sent(lens: &[usize]) -> (Messages, Vec<Vec<u8>>) {
    let mut messages = Messages::new(2);
    (0..2).for_each(|n| messages.opened(n));
    let bodies = send(&mut messages, lens);
    (messages, bodies)
}

fn send(messages: &mut Messages, lens: &[usize]) -> Vec<Vec<u8>> {
    let bodies = lens.iter().map(|&len| {
        let id = messages.next(0, 1);
        let mut body = vec![0; len];
        body::write(id, &mut body);
        messages.sent(id, len, 10);
        body
    });
    bodies.collect()
}

/// What is said once these have been delivered, in this order, and everything is over.
fn outcome(messages: &mut Messages, bodies: &[&Vec<u8>]) -> Result<(), Violation> {
    for (at, body) in bodies.iter().enumerate() {
        messages.received(0, 1, body, 20 + at as u64)?;
    }
    messages.drained(0);
    messages.settle()
}

fn class(result: Result<(), Violation>) -> Option<Class> {
    result.err().map(|violation| violation.class)
}

/// Sizes with and without room for a name.
const LENS: [usize; 6] = [20, 3, 0, 1468, 11, 16];

#[test]
fn the_truth_is_believed() {
    let (mut messages, bodies) = sent(&LENS);
    assert_eq!(outcome(&mut messages, &bodies.iter().collect::<Vec<_>>()), Ok(()));
    assert_eq!(messages.delivered, 6);
}

#[test]
fn a_lost_message_is_noticed_wherever_it_is() {
    for lost in 0..LENS.len() {
        let (mut messages, bodies) = sent(&LENS);
        let rest: Vec<_> = bodies.iter().enumerate().filter(|b| b.0 != lost).map(|b| b.1).collect();
        assert_eq!(class(outcome(&mut messages, &rest)), Some(Class::Lost), "{lost}");
    }
}

#[test]
fn a_doubled_message_is_noticed_wherever_it_is() {
    for doubled in 0..LENS.len() {
        let (mut messages, bodies) = sent(&LENS);
        let mut all: Vec<_> = bodies.iter().collect();
        all.insert(doubled, &bodies[doubled]);
        assert_eq!(class(outcome(&mut messages, &all)), Some(Class::Doubled), "{doubled}");
    }
}

#[test]
fn two_messages_that_change_places_are_noticed() {
    for first in 0..LENS.len() - 1 {
        let (mut messages, bodies) = sent(&LENS);
        let mut all: Vec<_> = bodies.iter().collect();
        all.swap(first, first + 1);
        let class = class(outcome(&mut messages, &all));
        // Whether the first of all came late or the rest too early cannot be known.
        assert!(matches!(class, Some(Class::Order | Class::Lost)), "{first}: {class:?}");
        assert!(first == 0 || class == Some(Class::Order), "{first}");
    }
}

#[test]
fn a_bit_that_is_wrong_anywhere_is_noticed() {
    for (which, len) in LENS.into_iter().enumerate().filter(|&(_, len)| len > 0) {
        for bit in [0, len * 4, len * 8 - 1] {
            let (mut messages, mut bodies) = sent(&LENS);
            bodies[which][bit / 8] ^= 1 << (bit % 8);
            let class = class(outcome(&mut messages, &bodies.iter().collect::<Vec<_>>()));
            assert_eq!(class, Some(Class::Torn), "{which} {bit}");
        }
    }
}

#[test]
fn a_message_that_is_cut_or_of_another_pair_is_torn() {
    let (mut messages, mut bodies) = sent(&LENS);
    bodies[3].pop();
    assert_eq!(class(outcome(&mut messages, &[&bodies[0], &bodies[3]])), Some(Class::Torn));
    let (mut messages, bodies) = sent(&LENS);
    let mut other = Messages::new(2);
    (0..2).for_each(|n| other.opened(n));
    let id = other.next(1, 0);
    other.sent(id, 20, 10);
    let mut body = vec![0; 20];
    body::write(id, &mut body);
    assert_eq!(class(outcome(&mut messages, &[&bodies[0], &body])), Some(Class::Torn));
}

#[test]
fn a_message_of_a_former_life_of_the_sender_is_noticed() {
    let (mut messages, old) = sent(&LENS);
    messages.gone(0, 15);
    messages.opened(0);
    let new = send(&mut messages, &LENS);
    assert_eq!(class(outcome(&mut messages, &[&old[0], &new[0], &old[3]])), Some(Class::Epoch));
}

#[test]
fn a_message_that_a_former_life_of_the_receiver_took_is_noticed() {
    let (mut messages, bodies) = sent(&LENS);
    assert!(messages.received(0, 1, &bodies[0], 20).is_ok());
    messages.gone(1, 30);
    messages.opened(1);
    assert_eq!(class(messages.received(0, 1, &bodies[0], 40)), Some(Class::Epoch));
}

#[test]
fn what_was_sent_after_the_receiver_came_back_is_owed_to_it() {
    let (mut messages, bodies) = sent(&LENS);
    messages.gone(1, 15);
    messages.opened(1);
    let id = messages.next(0, 1);
    messages.sent(id, 20, 20);
    messages.drained(0);
    assert_eq!(class(messages.settle()), Some(Class::Lost));
    drop(bodies);
}

/// An empty message fits every place of an empty one.
#[test]
fn a_short_message_that_fits_several_places_is_where_nothing_is_lost() {
    let (mut messages, bodies) = sent(&[0, 20, 0]);
    assert_eq!(messages.failed(0, 1, &bodies[1..]), Ok(()));
    let next = send(&mut messages, &[20]);
    assert_eq!(outcome(&mut messages, &[&bodies[0], &next[0]]), Ok(()));
    // It came, so the one before it is lost, whatever its place.
    let (mut messages, bodies) = sent(&[0, 3, 20, 0]);
    assert_eq!(messages.failed(0, 1, &bodies[2..]), Ok(()));
    let next = send(&mut messages, &[20]);
    assert_eq!(class(outcome(&mut messages, &[&bodies[0], &next[0]])), Some(Class::Lost));
}

#[test]
fn a_failure_is_right_only_for_what_was_not_acknowledged_and_in_order() {
    let (mut messages, bodies) = sent(&LENS);
    assert_eq!(messages.failed(0, 1, &bodies[4..]), Ok(()));
    assert_eq!(outcome(&mut messages, &bodies[..4].iter().collect::<Vec<_>>()), Ok(()));
    let (mut messages, bodies) = sent(&LENS);
    assert_eq!(class(messages.failed(0, 1, &bodies[..2])), Some(Class::Torn), "not the last two");
    let (mut messages, bodies) = sent(&LENS);
    messages.drained(0);
    assert_eq!(class(messages.failed(0, 1, &bodies[4..])), Some(Class::Doubled));
}

const ANY: Want = Want { class: None, from: None };

/// A tagged message, as its receiver sees it.
struct TaggedMessage {
    tag: u64,
    body: Vec<u8>,
}

impl TaggedMessage {
    /// Of class 1.
    fn new(id: body::Id, len: usize) -> Self {
        Self { tag: tag(1, id), body: tagged_body(id, len) }
    }
}

/// Two tagged messages of a node to another.
fn two_tagged() -> (TaggedMessages, [TaggedMessage; 2]) {
    let mut tagged = TaggedMessages::new(2);
    (0..2).for_each(|n| tagged.opened(n));
    let all = [100, 200].map(|len| {
        let id = tagged.next(0, 1);
        tagged.started(id, 1, len, 10);
        tagged.ended(id, true).unwrap();
        TaggedMessage::new(id, len)
    });
    (tagged, all)
}

fn receive(
    tagged: &mut TaggedMessages,
    index: u32,
    message: &TaggedMessage,
) -> Result<(), Violation> {
    let TaggedMessage { tag, body } = message;
    let post = Post { index, want: ANY, room: 300 };
    let (len, ending) = (body.len(), Ending::Whole);
    tagged.received(PAIR, post, ReceiveReport { tag: *tag, len, total: len, ending }, body)
}

#[test]
fn an_injected_message_that_is_missing_and_was_not_said_to_be_lost_is_noticed() {
    let mut tagged = TaggedMessages::new(2);
    (0..2).for_each(|n| tagged.opened(n));
    let ids = [(); 2].map(|()| {
        let id = tagged.next(0, 1);
        tagged.injected(id, 1, 10, 10);
        id
    });
    let first = TaggedMessage::new(ids[0], 10);
    assert_eq!(receive(&mut tagged, 0, &first), Ok(()));
    assert_eq!(class(tagged.settle()), Some(Class::Lost));
    tagged.lost_injected(0, 1);
    assert_eq!(tagged.settle(), Ok(()));
}

#[test]
fn tagged_messages_that_are_lost_doubled_torn_or_crossed_are_noticed() {
    let (mut tagged, all) = two_tagged();
    assert_eq!(receive(&mut tagged, 0, &all[0]), Ok(()));
    assert_eq!(class(tagged.settle()), Some(Class::Lost));
    assert_eq!(class(receive(&mut tagged, 1, &all[0])), Some(Class::Doubled));
    assert_eq!(receive(&mut tagged, 1, &all[1]), Ok(()));
    assert_eq!(tagged.settle(), Ok(()));
    let (mut tagged, all) = two_tagged();
    assert_eq!(receive(&mut tagged, 1, &all[0]), Ok(()));
    assert_eq!(class(receive(&mut tagged, 0, &all[1])), Some(Class::Order));
    let (mut tagged, mut all) = two_tagged();
    all[0].body[99] ^= 1;
    assert_eq!(class(receive(&mut tagged, 0, &all[0])), Some(Class::Torn));
}

#[test]
fn a_tagged_message_is_lost_to_one_end_only_if_not_complete_at_the_other() {
    let (mut tagged, all) = two_tagged();
    let post = Post { index: 0, want: ANY, room: 300 };
    let lost = ReceiveReport { tag: all[0].tag, len: 0, total: 100, ending: Ending::Lost };
    assert_eq!(class(tagged.received(PAIR, post, lost, &[])), Some(Class::Lost));
}

const AREA: usize = 64;

fn regions() -> (Regions, Vec<u8>) {
    let mut regions = Regions::new(2, AREA);
    (0..2).for_each(|n| regions.opened(n));
    (regions, vec![0; Regions::len(2, AREA)])
}

#[test]
fn a_byte_of_registered_memory_is_what_was_written_last_or_may_be() {
    let (mut regions, mut memory) = regions();
    let start = regions.start(0);
    let first = regions.write(PAIR, 0, 0, &[1; 8], 10);
    memory[start + 3] = 1;
    assert_eq!(regions.audit(1, &memory), Ok(()), "it is going on");
    memory[start + 8] = 1;
    assert_eq!(class(regions.audit(1, &memory)), Some(Class::Torn), "beyond it");
    memory[start + 8] = 0;
    regions.written(first, AccessEnding::Done).unwrap();
    assert_eq!(class(regions.audit(1, &memory)), Some(Class::Torn), "not all of it");
    memory[start..start + 8].fill(1);
    let second = regions.write(PAIR, 0, 4, &[2; 8], 20);
    regions.written(second, AccessEnding::Lost).unwrap();
    memory[start + 11] = 2;
    assert_eq!(regions.audit(1, &memory), Ok(()), "how much was done is not known");
    let third = regions.write(PAIR, 0, 0, &[3; 16], 30);
    regions.written(third, AccessEnding::Done).unwrap();
    memory[start..start + 16].fill(3);
    assert_eq!(regions.settle(1, &memory), Ok(()));
    memory[start + 11] = 2;
    assert_eq!(class(regions.settle(1, &memory)), Some(Class::Torn), "late, of a former session");
}

#[test]
fn a_read_that_does_not_see_the_write_before_it_is_noticed() {
    let (mut regions, _) = regions();
    let write = regions.write(PAIR, 0, 0, &[1; 8], 10);
    let read = regions.read(PAIR, 0, 0, 8, 10);
    regions.written(write, AccessEnding::Done).unwrap();
    assert_eq!(class(regions.was_read(read, &[0; 8], AccessEnding::Done)), Some(Class::Torn));
    let read = regions.read(PAIR, 0, 0, 8, 20);
    assert_eq!(regions.was_read(read, &[1; 8], AccessEnding::Done), Ok(()));
}

#[test]
fn memory_of_a_former_life_is_not_written_any_more() {
    let (mut regions, _) = regions();
    regions.gone(1, 15);
    regions.opened(1);
    let late = regions.write(PAIR, 0, 0, &[1; 8], 20);
    assert_eq!(class(regions.written(late, AccessEnding::Done)), Some(Class::Epoch));
    let refused = regions.write(PAIR, 1, 0, &[1; 8], 20);
    assert_eq!(class(regions.written(refused, AccessEnding::NoKey)), Some(Class::Broken));
}

#[test]
fn an_addition_that_is_done_twice_or_not_at_all_is_noticed() {
    for (there, expected) in [(12, None), (17, Some(Class::Doubled)), (7, Some(Class::Lost))] {
        let (mut regions, mut memory) = regions();
        for (before, operand) in [(0, 7), (7, 5)] {
            let access = regions.add(PAIR, 0, 10);
            regions.added(access, 0, operand, before, AccessEnding::Done).unwrap();
        }
        memory[0] = there;
        assert_eq!(class(regions.settle(1, &memory)), expected);
    }
    let (mut regions, memory) = regions();
    for _ in 0..2 {
        let access = regions.add(PAIR, 0, 10);
        regions.added(access, 0, 7, 0, AccessEnding::Done).unwrap();
    }
    assert_eq!(class(regions.settle(1, &memory)), Some(Class::Doubled), "both found the same");
}

#[test]
fn a_number_is_swapped_once() {
    let (mut regions, memory) = regions();
    for expected in [None, Some(Class::Doubled)] {
        let (access, token) = regions.swap(PAIR, 0, 3, 10);
        let swap = Swap { word: 3, expected: 0, token };
        let ended = regions.swapped(access, swap, 0, AccessEnding::Done);
        assert_eq!(class(ended), expected);
    }
    assert_eq!(class(regions.settle(1, &memory)), Some(Class::Lost), "the word is still zero");
}

#[test]
fn a_tagged_message_that_was_cancelled_is_not_received_and_not_completed() {
    let mut tagged = TaggedMessages::new(2);
    (0..2).for_each(|n| tagged.opened(n));
    let id = tagged.next(0, 1);
    tagged.started(id, 1, 100, 10);
    assert_eq!(tagged.cancelled(id), Ok(()));
    assert_eq!(tagged.settle(), Ok(()));
    assert_eq!(class(tagged.ended(id, true)), Some(Class::Doubled));
    let message = TaggedMessage::new(id, 100);
    assert_eq!(class(receive(&mut tagged, 0, &message)), Some(Class::Torn));
}

/// Writes with notice of a node into another's memory, at these places.
fn with_notice(places: &[NoticedRange]) -> (Notices, Vec<Access>) {
    let mut notices = Notices::new(2);
    (0..2).for_each(|n| notices.opened(n));
    let accesses = places.iter().zip(1..).map(|(&NoticedRange { offset, len }, number)| {
        let access = Access { pair: PAIR, life: 0, at: 10, number };
        notices.started(access, offset, len as usize);
        access
    });
    let accesses = accesses.collect();
    (notices, accesses)
}

#[test]
fn a_notice_that_is_lost_doubled_wrong_or_out_of_order_is_noticed() {
    let places = [NoticedRange { offset: 0, len: 8 }, NoticedRange { offset: 8, len: 16 }];
    let outcome = |words: &[(u64, NoticedRange)], done: bool| {
        let (mut notices, accesses) = with_notice(&places);
        for access in accesses.into_iter().filter(|_| done) {
            notices.ended(access, AccessEnding::Done)?;
        }
        words.iter().try_for_each(|&(word, place)| notices.taken(PAIR, word, place))?;
        notices.settle()
    };
    let (first, second) = ((1, places[0]), (2, places[1]));
    assert_eq!(outcome(&[first, second], true), Ok(()));
    assert_eq!(outcome(&[], false), Ok(()), "it is going on");
    assert_eq!(class(outcome(&[first], true)), Some(Class::Lost));
    assert_eq!(class(outcome(&[first, first], true)), Some(Class::Doubled));
    assert_eq!(class(outcome(&[second, first], true)), Some(Class::Order));
    assert_eq!(class(outcome(&[(1, NoticedRange { offset: 0, len: 9 })], true)), Some(Class::Torn));
    assert_eq!(class(outcome(&[(3, places[0])], true)), Some(Class::Torn));
}

#[test]
fn a_notice_of_a_write_that_was_refused_or_meant_a_former_life_is_noticed() {
    let place = NoticedRange { offset: 0, len: 8 };
    for notice_first in [false, true] {
        let (mut notices, accesses) = with_notice(&[place]);
        let mut outcome = Ok(());
        if notice_first {
            outcome = notices.taken(PAIR, 1, place);
        }
        let refused = notices.ended(accesses[0], AccessEnding::Busy);
        if !notice_first {
            outcome = notices.taken(PAIR, 1, place);
        }
        assert_eq!(class(outcome.and(refused)), Some(Class::Doubled));
    }
    let (mut notices, accesses) = with_notice(&[place]);
    notices.ended(accesses[0], AccessEnding::Done).unwrap();
    notices.gone(1, 20);
    notices.opened(1);
    assert_eq!(notices.settle(), Ok(()), "no owner is left");
    assert_eq!(class(notices.taken(PAIR, 1, place)), Some(Class::Epoch));
}
