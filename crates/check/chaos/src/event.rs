//! What a workload's process says on its pipe: one line for each event, with the time.
//!
//! What it is about to send is said before, and that it was accepted after; so whoever reads knows of every
//! message that may arrive, also when the process is killed between the two.

use gigae_torture::AccessEnding;
use gigae_torture::body::{self, Id, mix};
use std::fmt;
use std::str::FromStr;

/// An event at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_MONOTONIC` in nanoseconds, which all processes share.
    pub at: u64,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An endpoint was opened, in this mode.
    Opened(String),
    /// Messages with these lengths will be sent next, numbered from the first on.
    Intent(u32, Vec<u16>),
    /// All messages before this number were accepted.
    Accepted(u32),
    /// A message arrived: this one, of so many bytes, each of which was compared.
    Received(Id, u16),
    /// Something arrived that is none of ours.
    Torn(usize),
    /// Messages failed for this reason, these in their order.
    Failed(String, Vec<(Id, u16)>),
    /// A tagged message is about to be started: its number and length.
    Started(u32, usize),
    /// A tagged message was completed: its number, and whether with success.
    Ended(u32, bool),
    /// A receive was completed, with bytes that are right as far as they go.
    Tagged(Taken),
    /// Something is about to be done, by this number, to the memory of the other's life.
    Began(u32, u16, Deed),
    /// It has ended: its number, how, what was there before an atomic change, what was read.
    Done(u32, AccessEnding, u64, Vec<u8>),
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
    Trouble(String, String),
    /// Calls do what they should again.
    Well,
    /// The endpoint was closed.
    Gone,
    /// The wall clock was seen to jump by more than a second, so often by now.
    Jumped(u64),
    /// Frames sent, received, repeated and dropped of the endpoint that is closed now.
    Counted(u64, u64, u64, u64),
}

/// What an end does to the other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It writes so many bytes from a place of its own area on, and wants that known or not.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
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

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at;
        match &self.what {
            What::Opened(mode) => write!(f, "o {at} {mode}"),
            What::Intent(first, lens) => {
                write!(f, "i {at} {first}")?;
                lens.iter().try_for_each(|len| write!(f, " {len}"))
            }
            What::Accepted(upto) => write!(f, "a {at} {upto}"),
            What::Received(id, len) => write!(f, "r {at} {} {len}", Named(*id)),
            What::Torn(len) => write!(f, "x {at} {len}"),
            What::Failed(reason, messages) => {
                write!(f, "f {at} {reason}")?;
                messages.iter().try_for_each(|(id, len)| write!(f, " {} {len}", Named(*id)))
            }
            What::Started(number, len) => write!(f, "s {at} {number} {len}"),
            What::Ended(number, success) => write!(f, "t {at} {number} {success}"),
            What::Tagged(Taken { index, tag, len, total, lost }) => {
                write!(f, "p {at} {index} {tag} {len} {total} {lost}")
            }
            What::Began(number, life, deed) => write!(f, "b {at} {number} {life} {}", Did(*deed)),
            What::Done(number, ending, value, bytes) => {
                write!(f, "z {at} {number} {} {value} {}", word_of(*ending), Hex(bytes))
            }
            What::Broken(number, text) => write!(f, "q {at} {number} {}", text.replace('\n', " ")),
            What::Noticed(word, offset, len) => write!(f, "n {at} {word} {offset} {len}"),
            What::Memory(bytes) => write!(f, "m {at} {}", Hex(bytes)),
            What::Paths(deaths, returns) => write!(f, "l {at} {deaths} {returns}"),
            What::Drained => write!(f, "d {at}"),
            What::Trouble(kind, text) => write!(f, "e {at} {kind} {}", text.replace('\n', " ")),
            What::Well => write!(f, "w {at}"),
            What::Gone => write!(f, "g {at}"),
            What::Jumped(times) => write!(f, "j {at} {times}"),
            What::Counted(sent, received, repeated, dropped) => {
                write!(f, "c {at} {sent} {received} {repeated} {dropped}")
            }
        }
    }
}

/// A message's identity in four words.
struct Named(Id);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Id { from, life, to, number } = self.0;
        write!(f, "{from} {life} {to} {number}")
    }
}

struct Did(Deed);

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Deed::Write(offset, len, notice) => write!(f, "write {offset} {len} {notice}"),
            Deed::Read(offset, len) => write!(f, "read {offset} {len}"),
            Deed::Add(word, operand) => write!(f, "add {word} {operand}"),
            Deed::Swap(word, expected, new) => write!(f, "swap {word} {expected} {new}"),
        }
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

const ENDINGS: [(AccessEnding, &str); 4] = [
    (AccessEnding::Done, "done"),
    (AccessEnding::Lost, "lost"),
    (AccessEnding::NoKey, "nokey"),
    (AccessEnding::Busy, "busy"),
];

fn word_of(ending: AccessEnding) -> &'static str {
    ENDINGS.iter().find(|(one, _)| *one == ending).map_or("", |(_, word)| word)
}

/// A line is none of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoEvent(pub String);

impl FromStr for Event {
    type Err = NoEvent;

    fn from_str(line: &str) -> Result<Self, NoEvent> {
        parse(line).ok_or_else(|| NoEvent(line.to_owned()))
    }
}

fn parse(line: &str) -> Option<Event> {
    let mut words = line.split(' ');
    let kind = words.next()?;
    let at = words.next()?.parse().ok()?;
    let what = match kind {
        "o" => What::Opened(words.collect::<Vec<_>>().join(" ")),
        "i" => {
            let first = next(&mut words)?;
            What::Intent(first, words.map(|word| word.parse().ok()).collect::<Option<_>>()?)
        }
        "a" => What::Accepted(next(&mut words)?),
        "r" => What::Received(id(&mut words)?, next(&mut words)?),
        "x" => What::Torn(next(&mut words)?),
        "f" => {
            let reason = words.next()?.to_owned();
            let mut messages = Vec::new();
            let mut words = words.peekable();
            while words.peek().is_some() {
                messages.push((id(&mut words)?, next(&mut words)?));
            }
            What::Failed(reason, messages)
        }
        "s" => What::Started(next(&mut words)?, next(&mut words)?),
        "t" => What::Ended(next(&mut words)?, next(&mut words)?),
        "p" => {
            let (index, tag, len) = (next(&mut words)?, next(&mut words)?, next(&mut words)?);
            let (total, lost) = (next(&mut words)?, next(&mut words)?);
            What::Tagged(Taken { index, tag, len, total, lost })
        }
        "b" => What::Began(next(&mut words)?, next(&mut words)?, deed(&mut words)?),
        "z" => {
            let (number, ending) = (next(&mut words)?, words.next()?);
            let (ending, _) = *ENDINGS.iter().find(|(_, word)| *word == ending)?;
            What::Done(number, ending, next(&mut words)?, hex(words.next()?)?)
        }
        "q" => What::Broken(next(&mut words)?, words.collect::<Vec<_>>().join(" ")),
        "n" => What::Noticed(next(&mut words)?, next(&mut words)?, next(&mut words)?),
        "m" => What::Memory(hex(words.next()?)?),
        "l" => What::Paths(next(&mut words)?, next(&mut words)?),
        "d" => What::Drained,
        "e" => What::Trouble(words.next()?.to_owned(), words.collect::<Vec<_>>().join(" ")),
        "w" => What::Well,
        "g" => What::Gone,
        "j" => What::Jumped(next(&mut words)?),
        "c" => {
            let (sent, received) = (next(&mut words)?, next(&mut words)?);
            What::Counted(sent, received, next(&mut words)?, next(&mut words)?)
        }
        _ => return None,
    };
    Some(Event { at, what })
}

fn next<'a, T: FromStr>(words: &mut impl Iterator<Item = &'a str>) -> Option<T> {
    words.next()?.parse().ok()
}

fn id<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Id> {
    let (from, life, to) = (next(words)?, next(words)?, next(words)?);
    Some(Id { from, life, to, number: next(words)? })
}

fn deed<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Deed> {
    Some(match words.next()? {
        "write" => Deed::Write(next(words)?, next(words)?, next(words)?),
        "read" => Deed::Read(next(words)?, next(words)?),
        "add" => Deed::Add(next(words)?, next(words)?),
        "swap" => Deed::Swap(next(words)?, next(words)?, next(words)?),
        _ => return None,
    })
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_read_as_it_was_written() {
        let id = Id { from: 1, life: 2, to: 0, number: 7 };
        for what in [
            What::Opened("xdp native".into()),
            What::Intent(5, vec![16, 1468]),
            What::Accepted(7),
            What::Received(id, 1468),
            What::Torn(3),
            What::Failed("Timeout".into(), vec![(id, 16), (Id { number: 8, ..id }, 99)]),
            What::Started(3, 40_000),
            What::Ended(3, true),
            What::Tagged(Taken { index: 1, tag: 1 << 48, len: 5, total: 9, lost: false }),
            What::Began(1, 2, Deed::Write(3, 4, true)),
            What::Began(1, 2, Deed::Read(3, 4)),
            What::Began(1, 2, Deed::Add(3, u64::MAX)),
            What::Began(1, 2, Deed::Swap(3, 4, 5)),
            What::Done(9, AccessEnding::Done, 7, vec![0, 0x1f, 0xff]),
            What::Done(9, AccessEnding::Lost, 0, Vec::new()),
            What::Done(9, AccessEnding::NoKey, 0, Vec::new()),
            What::Done(9, AccessEnding::Busy, 0, Vec::new()),
            What::Broken(3, "an operation was refused".into()),
            What::Noticed(1 << 32, 256, 6_000),
            What::Memory(vec![1, 2, 3]),
            What::Paths(2, 1),
            What::Drained,
            What::Trouble("down".into(), "interface 'eth0' went down".into()),
            What::Well,
            What::Gone,
            What::Jumped(3),
            What::Counted(1, 2, 3, 4),
        ] {
            let event = Event { at: 123, what };
            assert_eq!(event.to_string().parse(), Ok(event));
        }
        assert!("r 1 2 3".parse::<Event>().is_err());
        assert!("".parse::<Event>().is_err());
    }
}
