//! One end's events in the words of the checkers.

use crate::event::{Event, EventKind, Named, Operation, TaggedReceive};
use gigae_torture::body::Id;
use gigae_torture::{AccessEnding, NoticedRange};

/// An event for the checker.
pub(super) enum CheckerEvent {
    Opened,
    Gone,
    Sent(Id, u16),
    Received(Named),
    Torn(usize),
    Failed(String, Vec<Named>),
    Drained,
    Started(Id, usize),
    Ended(Id, bool),
    Tagged(TaggedReceive),
    /// By this life, by this number, on the memory of that life of the other.
    Began(u16, u32, u16, Operation),
    Done(u32, AccessEnding, u64, Vec<u8>),
    Broken(String),
    Noticed(u64, NoticedRange),
    Memory(Vec<u8>),
}

/// A node, and how often it was open before.
pub(super) struct Life {
    pub(super) node: u16,
    pub(super) life: u16,
}

/// One end's events as the checker needs them: a message is sent, at the time at which it was about
/// to be, if it was accepted then, or if that is not known because the process was killed.
pub(super) fn steps_of(node: u16, log: &[Event]) -> Vec<(u64, CheckerEvent)> {
    let mut steps = Vec::new();
    let mut life: Option<u16> = None;
    for (n, Event { at, what }) in log.iter().enumerate() {
        let id = |number| Id { from: node, life: life.unwrap_or(0), to: 1 - node, number };
        let step = match what {
            EventKind::Opened(_) => {
                life = Some(life.map_or(0, |life| life + 1));
                CheckerEvent::Opened
            }
            EventKind::Intent(first, lens) => {
                let accepted = log[n + 1..].iter().find_map(|event| match event.what {
                    EventKind::Accepted(upto) => Some(upto),
                    EventKind::Gone => Some(u32::MAX),
                    _ => None,
                });
                let numbers = *first..accepted.unwrap_or(u32::MAX);
                let sent =
                    numbers.zip(lens).map(|(number, &len)| CheckerEvent::Sent(id(number), len));
                steps.extend(sent.map(|step| (*at, step)));
                continue;
            }
            EventKind::Received(message) => CheckerEvent::Received(*message),
            EventKind::Torn(len) => CheckerEvent::Torn(*len),
            EventKind::Failed(reason, messages) => {
                CheckerEvent::Failed(reason.clone(), messages.clone())
            }
            EventKind::Started(number, len) => CheckerEvent::Started(id(*number), *len),
            EventKind::Ended(number, success) => CheckerEvent::Ended(id(*number), *success),
            EventKind::Tagged(taken) => CheckerEvent::Tagged(*taken),
            EventKind::Began(number, of, operation) => {
                CheckerEvent::Began(life.unwrap_or(0), *number, *of, *operation)
            }
            EventKind::Done(number, ending, value, bytes) => {
                CheckerEvent::Done(*number, *ending, *value, bytes.clone())
            }
            EventKind::Broken(number, text) => {
                CheckerEvent::Broken(format!("operation {number}: {text}"))
            }
            EventKind::Noticed(word, offset, len) => {
                CheckerEvent::Noticed(*word, NoticedRange { offset: *offset, len: *len })
            }
            EventKind::Memory(bytes) => CheckerEvent::Memory(bytes.clone()),
            EventKind::Drained => CheckerEvent::Drained,
            EventKind::Gone => CheckerEvent::Gone,
            EventKind::Accepted(_) | EventKind::Error(..) | EventKind::Recovered => continue,
            EventKind::Jumped(_) | EventKind::Counted(..) | EventKind::Paths(..) => continue,
        };
        steps.push((*at, step));
    }
    steps
}
