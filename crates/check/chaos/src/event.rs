//! What a workload's process reports on its pipe: one line of JSON for each event, with the time.
//!
//! The process reports a message before it sends it, and again once it was accepted. So the reader
//! knows every message that may arrive, even if the process is killed between the two.

use gigae_torture::AccessEnding;
use gigae_torture::body::{self, Id, mix};
use serde::{Deserialize, Serialize};

/// An event at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// `CLOCK_MONOTONIC` in nanoseconds, which all processes share.
    pub at: u64,
    /// What happened.
    pub what: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// An endpoint was opened, in this mode.
    Opened(String),
    /// Messages with these lengths will be sent next, numbered from the first on.
    Intent(u32, Vec<u16>),
    /// All messages before this number were accepted.
    Accepted(u32),
    /// A message arrived: this one; each of its bytes was compared.
    Received(Named),
    /// Something arrived that is none of ours.
    Torn(usize),
    /// Messages failed for this reason, these in their order.
    Failed(String, Vec<Named>),
    /// A tagged message is about to be started: its number and length.
    Started(u32, usize),
    /// A tagged message was completed: its number, and whether with success.
    Ended(u32, bool),
    /// A receive was completed, with bytes that are right as far as they go.
    Tagged(TaggedReceive),
    /// Something is about to be done, by this number, to the memory of the other's life.
    Began(u32, u16, Operation),
    /// It has ended: its number, how, what was there before an atomic change, what was read.
    Done(u32, #[serde(with = "EndingForm")] AccessEnding, u64, Vec<u8>),
    /// It has ended in a way that no fault explains.
    Broken(u32, String),
    /// A notice of the other's write was taken: its word, first byte, length.
    Noticed(u64, u64, u32),
    /// All bytes of the own memory.
    Memory(Vec<u8>),
    /// How often links were given up and came back, of several.
    Paths(u64, u64),
    /// Everything that was accepted is acknowledged or failed.
    Drained,
    /// A call returned an error: its kind and its text.
    Error(String, String),
    /// Calls do what they should again.
    Recovered,
    /// The endpoint was closed.
    Gone,
    /// The wall clock was seen to jump by more than a second, so often by now.
    Jumped(u64),
    /// Frames sent, received, repeated and dropped of the endpoint that is closed now.
    Counted(u64, u64, u64, u64),
}

/// A message: its identity and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named(#[serde(with = "IdForm")] pub Id, pub u16);

/// How an [`Id`] is written.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Id")]
struct IdForm {
    from: u16,
    life: u16,
    to: u16,
    number: u32,
}

/// How an [`AccessEnding`] is written.
#[derive(Serialize, Deserialize)]
#[serde(remote = "AccessEnding")]
enum EndingForm {
    Done,
    Lost,
    NoKey,
    Busy,
}

/// What an end does to the other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// It writes to an offset in its own area this many bytes. The last value says whether the
    /// write has a notice.
    Write(usize, usize, bool),
    /// It reads them.
    Read(usize, usize),
    /// It adds to a word.
    Add(u16, u64),
    /// It replaces a word that is the first number by the second.
    Swap(u16, u64, u64),
}

/// What a node's life writes as this number.
pub fn written(node: u16, life: u16, number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let who = u64::from(node) << 48 | u64::from(life) << 32;
    body::stream(mix(who | u64::from(number)), &mut bytes);
    bytes
}

/// A receive that was completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaggedReceive {
    /// Which receive of its endpoint.
    pub index: u32,
    /// The message's tag.
    pub tag: u64,
    /// Bytes that came.
    pub len: usize,
    /// Bytes that were sent.
    pub total: usize,
    /// The sender was lost on the way.
    pub lost: bool,
}

/// Nanoseconds since the machine was started: `CLOCK_MONOTONIC`.
pub fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_read_as_it_was_written() {
        let id = Id { from: 1, life: 2, to: 0, number: 7 };
        for what in [
            EventKind::Opened("xdp native".into()),
            EventKind::Intent(5, vec![16, 1468]),
            EventKind::Accepted(7),
            EventKind::Received(Named(id, 1468)),
            EventKind::Torn(3),
            EventKind::Failed(
                "Timeout".into(),
                vec![Named(id, 16), Named(Id { number: 8, ..id }, 99)],
            ),
            EventKind::Started(3, 40_000),
            EventKind::Ended(3, true),
            EventKind::Tagged(TaggedReceive {
                index: 1,
                tag: 1 << 48,
                len: 5,
                total: 9,
                lost: false,
            }),
            EventKind::Began(1, 2, Operation::Write(3, 4, true)),
            EventKind::Began(1, 2, Operation::Read(3, 4)),
            EventKind::Began(1, 2, Operation::Add(3, u64::MAX)),
            EventKind::Began(1, 2, Operation::Swap(3, 4, 5)),
            EventKind::Done(9, AccessEnding::Done, 7, vec![0, 0x1f, 0xff]),
            EventKind::Done(9, AccessEnding::Lost, 0, Vec::new()),
            EventKind::Done(9, AccessEnding::NoKey, 0, Vec::new()),
            EventKind::Done(9, AccessEnding::Busy, 0, Vec::new()),
            EventKind::Broken(3, "an operation was refused".into()),
            EventKind::Noticed(1 << 32, 256, 6_000),
            EventKind::Memory(vec![1, 2, 3]),
            EventKind::Paths(2, 1),
            EventKind::Drained,
            EventKind::Error("down".into(), "interface 'eth0' went down".into()),
            EventKind::Recovered,
            EventKind::Gone,
            EventKind::Jumped(3),
            EventKind::Counted(1, 2, 3, 4),
        ] {
            let event = Event { at: 123, what };
            let line = serde_json::to_string(&event).unwrap();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
        }
        assert!(serde_json::from_str::<Event>(r#"{"at":1,"what":"Dr"#).is_err());
        assert!(serde_json::from_str::<Event>("").is_err());
    }
}
