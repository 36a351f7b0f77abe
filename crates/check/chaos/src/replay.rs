//! Feeds the events of both ends, in the order of time, to the checker of `gigae-torture`.

mod remote;
mod steps;

use crate::event::{Event, Named, TaggedReceive};
use gigae_torture::body::{self, Id};
use gigae_torture::{
    Class, Ending, Messages, NodePair, Post, ReceiveReport, TaggedMessages, Violation, Want,
    tagged_body,
};
use remote::RemoteReplay;
pub use remote::{AREA, word};
use std::collections::BTreeMap;
use steps::{CheckerEvent, Life, steps_of};

/// What came of the messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Accepted for sending.
    pub sent: u64,
    /// Arrived, each compared.
    pub delivered: u64,
    /// Tagged messages that were received, each compared.
    pub tagged: u64,
    /// Handed back, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Operations on remote memory: done, lost with their peer, refused since their memory was
    /// gone.
    pub remote: [u64; 3],
    /// Notices of writes that were taken.
    pub notices: u64,
}

/// Checks both ends' events, each in its own order. Of an end that is there to the last, the events
/// go on until everything was read, and do not include its close.
pub fn check(logs: [&[Event]; 2]) -> Result<Tally, Violation> {
    let (mut messages, mut tagged, mut remote) =
        (Messages::new(2), TaggedMessages::new(2), RemoteReplay::new());
    let mut tally = Tally::default();
    let mut steps: Vec<(u64, u16, CheckerEvent)> = Vec::new();
    for (node, log) in (0..).zip(logs) {
        let timed = steps_of(node, log).into_iter();
        steps.extend(timed.map(|(at, step)| (at, node, step)));
    }
    // Stable: what one end said in the same nanosecond stays as it was said.
    steps.sort_by_key(|&(at, ..)| at);
    for (at, node, step) in steps {
        match step {
            CheckerEvent::Opened => {
                messages.opened(node);
                tagged.opened(node);
                remote.opened(node);
            }
            CheckerEvent::Gone => {
                messages.gone(node, at);
                tagged.gone(node, at);
                remote.gone(node, at);
            }
            CheckerEvent::Sent(id, len) => {
                tally.sent += 1;
                messages.sent(id, len.into(), at);
            }
            CheckerEvent::Received(Named(id, len)) => {
                messages.received(id.from, node, &bytes(id, len), at)?
            }
            CheckerEvent::Torn(len) => {
                messages.received(1 - node, node, &vec![0; len.max(16)], at)?
            }
            CheckerEvent::Failed(reason, failed) => {
                *tally.failed.entry(reason).or_default() += failed.len() as u64;
                let bodies: Vec<_> =
                    failed.into_iter().map(|Named(id, len)| bytes(id, len)).collect();
                messages.failed(node, 1 - node, &bodies)?;
            }
            CheckerEvent::Drained => messages.drained(node),
            CheckerEvent::Started(id, len) => tagged.started(id, 0, len, at),
            CheckerEvent::Ended(id, success) => tagged.ended(id, success)?,
            CheckerEvent::Tagged(taken) => {
                let id =
                    Id { life: (taken.tag >> 48) as u16, number: taken.tag as u32, ..other(node) };
                let post = Post { index: taken.index, want: ANY, room: ROOM };
                let ending = match taken {
                    TaggedReceive { lost: true, .. } => Ending::Lost,
                    TaggedReceive { len, total, .. } if len < total => Ending::Truncated,
                    _ => Ending::Whole,
                };
                // They were compared where they arrived.
                let bytes = tagged_body(id, taken.total);
                let TaggedReceive { tag, len, total, .. } = taken;
                let pair = NodePair { from: 1 - node, to: node };
                tagged.received(pair, post, ReceiveReport { tag, len, total, ending }, &bytes)?;
            }
            CheckerEvent::Began(life, number, of, operation) => {
                remote.began(Life { node, life }, number, of, operation, at);
            }
            CheckerEvent::Done(number, ending, value, bytes) => {
                remote.ended(node, number, ending, value, &bytes)?;
            }
            CheckerEvent::Broken(what) => {
                let pair = NodePair { from: node, to: 1 - node };
                return Err(Violation::new(Class::Broken, pair, what));
            }
            CheckerEvent::Noticed(word, place) => remote.noticed(node, word, place)?,
            CheckerEvent::Memory(bytes) => remote.memory(node, bytes),
        }
    }
    messages.settle()?;
    tagged.settle()?;
    remote.settle()?;
    (tally.remote, tally.notices) = (remote.ended, remote.noticed);
    (tally.delivered, tally.tagged) = (messages.delivered, tagged.delivered);
    Ok(tally)
}

/// What every receive wants.
const ANY: Want = Want { class: None, from: None };

/// Bytes that a receive has room for: less than the longest message.
pub const ROOM: usize = 40_000;

/// What the other end sends to this one.
fn other(node: u16) -> Id {
    Id { from: 1 - node, life: 0, to: node, number: 0 }
}

fn bytes(id: Id, len: u16) -> Vec<u8> {
    let mut bytes = vec![0; len.into()];
    body::write(id, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Operation, written};
    use gigae_torture::{ATOMICS, AccessEnding, Regions};

    fn at(at: u64, what: EventKind) -> Event {
        Event { at, what }
    }

    fn opened() -> EventKind {
        EventKind::Opened("packet".into())
    }

    fn id(number: u32) -> Id {
        Id { from: 0, life: 0, to: 1, number }
    }

    fn sender(last: u32) -> Vec<Event> {
        vec![
            at(1, opened()),
            at(10, EventKind::Intent(0, vec![16, 20, 30])),
            at(11, EventKind::Accepted(last)),
            at(50, EventKind::Drained),
        ]
    }

    #[test]
    fn what_was_accepted_and_arrived_is_counted() {
        let receiver = [
            at(2, opened()),
            at(20, EventKind::Received(Named(id(0), 16))),
            at(21, EventKind::Received(Named(id(1), 20))),
        ];
        let tally = check([&sender(2), &receiver]).unwrap();
        assert_eq!((tally.sent, tally.delivered), (2, 2));
    }

    #[test]
    fn what_was_accepted_and_did_not_arrive_is_lost() {
        let receiver = [at(2, opened()), at(20, EventKind::Received(Named(id(0), 16)))];
        assert_eq!(check([&sender(2), &receiver]).unwrap_err().class, Class::Lost);
    }

    #[test]
    fn what_was_refused_and_arrived_was_never_sent() {
        let receiver = [at(2, opened()), at(20, EventKind::Received(Named(id(0), 16)))];
        assert_eq!(check([&sender(0), &receiver]).unwrap_err().class, Class::Torn);
    }

    #[test]
    fn what_a_killed_process_was_about_to_send_may_arrive() {
        let killed =
            [at(1, opened()), at(10, EventKind::Intent(0, vec![16, 20])), at(12, EventKind::Gone)];
        for count in 0..=2 {
            let arrived = [
                at(20, EventKind::Received(Named(id(0), 16))),
                at(21, EventKind::Received(Named(id(1), 20))),
            ];
            let receiver = [&[at(2, opened())], &arrived[..count]].concat();
            assert_eq!(check([&killed, &receiver]).unwrap().delivered, count as u64);
        }
    }

    #[test]
    fn bytes_that_nobody_sent_are_found() {
        let receiver = [at(2, opened()), at(20, EventKind::Torn(40))];
        assert_eq!(check([&sender(1), &receiver]).unwrap_err().class, Class::Torn);
    }

    /// What node 0 does to node 1's memory, which is this in the end.
    fn done_to(memory: &[u8], deeds: Vec<EventKind>) -> Result<Tally, Violation> {
        let deeds = (10..).zip(deeds).map(|(time, what)| at(time, what));
        let writer: Vec<_> = [at(1, opened())].into_iter().chain(deeds).collect();
        let owner = [at(2, opened()), at(90, EventKind::Memory(memory.to_vec()))];
        check([&writer, &owner])
    }

    fn add(number: u32, before: u64) -> [EventKind; 2] {
        let done = EventKind::Done(number, AccessEnding::Done, before, Vec::new());
        [EventKind::Began(number, 0, Operation::Add(3, 5)), done]
    }

    #[test]
    fn an_addition_that_was_done_counts_once() {
        let mut memory = vec![0; Regions::len(2, AREA)];
        let twice = || [add(0, 0), add(1, 5)].concat();
        for (sum, class) in [(5, Some(Class::Lost)), (10, None), (15, Some(Class::Doubled))] {
            memory[24] = sum;
            let outcome = done_to(&memory, twice());
            assert_eq!(outcome.err().map(|violation| violation.class), class, "{sum}");
        }
        let doubled = [add(0, 0), add(1, 0)].concat();
        assert_eq!(done_to(&memory, doubled).unwrap_err().class, Class::Doubled);
    }

    #[test]
    fn a_write_that_was_done_is_there_and_is_read_so() {
        let mut memory = vec![0; Regions::len(2, AREA)];
        let bytes = written(0, 0, 0, 100);
        let read = |bytes| {
            vec![
                EventKind::Began(0, 0, Operation::Write(7, 100, false)),
                EventKind::Done(0, AccessEnding::Done, 0, Vec::new()),
                EventKind::Began(1, 0, Operation::Read(7, 100)),
                EventKind::Done(1, AccessEnding::Done, 0, bytes),
            ]
        };
        assert_eq!(done_to(&memory, read(bytes.clone())).unwrap_err().class, Class::Torn);
        memory[ATOMICS + 7..][..100].copy_from_slice(&bytes);
        assert_eq!(done_to(&memory, read(bytes)).unwrap().remote, [2, 0, 0]);
        assert_eq!(done_to(&memory, read(vec![0; 100])).unwrap_err().class, Class::Torn);
    }

    #[test]
    fn an_operation_without_an_end_hangs_and_one_with_a_strange_one_is_broken() {
        let memory = vec![0; Regions::len(2, AREA)];
        let began = || EventKind::Began(0, 0, Operation::Add(3, 5));
        assert_eq!(done_to(&memory, vec![began()]).unwrap_err().class, Class::Hung);
        let broken = vec![began(), EventKind::Broken(0, "refused: bounds".into())];
        assert_eq!(done_to(&memory, broken).unwrap_err().class, Class::Broken);
        let lost = vec![began(), EventKind::Done(0, AccessEnding::Lost, 0, Vec::new())];
        assert_eq!(done_to(&memory, lost).unwrap().remote, [0, 1, 0]);
        // It is not known whether one whose process was killed was done.
        assert!(done_to(&memory, vec![began(), EventKind::Gone]).is_ok());
    }

    #[test]
    fn a_notice_that_nobody_sent_is_found_and_one_that_is_owed_too() {
        let bytes = written(0, 0, 0, 50);
        let mut memory = vec![0; Regions::len(2, AREA)];
        memory[ATOMICS..][..50].copy_from_slice(&bytes);
        let writer = [
            at(1, opened()),
            at(10, EventKind::Began(0, 0, Operation::Write(0, 50, true))),
            at(20, EventKind::Done(0, AccessEnding::Done, 0, Vec::new())),
        ];
        let taken = |word| {
            let notice = at(30, EventKind::Noticed(word, ATOMICS as u64, 50));
            [at(2, opened()), notice, at(90, EventKind::Memory(memory.clone()))]
        };
        assert_eq!(check([&writer, &taken(word(0, 0))]).unwrap().notices, 1);
        assert_eq!(check([&writer, &taken(9)]).unwrap_err().class, Class::Torn);
        let none = [at(2, opened()), at(90, EventKind::Memory(memory.clone()))];
        assert_eq!(check([&writer, &none]).unwrap_err().class, Class::Lost);
    }
}
