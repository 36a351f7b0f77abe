//! What a workload's process says on its pipe: one line for each event, with the time.
//!
//! What it is about to send is said before, and that it was accepted after; so whoever reads knows of every
//! message that may arrive, also when the process is killed between the two.

use gigae_torture::body::Id;
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
    /// Frames sent, frames received and repetitions of the endpoint that is closed now.
    Counted(u64, u64, u64),
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
            What::Drained => write!(f, "d {at}"),
            What::Trouble(kind, text) => write!(f, "e {at} {kind} {}", text.replace('\n', " ")),
            What::Well => write!(f, "w {at}"),
            What::Gone => write!(f, "g {at}"),
            What::Jumped(times) => write!(f, "j {at} {times}"),
            What::Counted(sent, received, repeated) => {
                write!(f, "c {at} {sent} {received} {repeated}")
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
        "d" => What::Drained,
        "e" => What::Trouble(words.next()?.to_owned(), words.collect::<Vec<_>>().join(" ")),
        "w" => What::Well,
        "g" => What::Gone,
        "j" => What::Jumped(next(&mut words)?),
        "c" => What::Counted(next(&mut words)?, next(&mut words)?, next(&mut words)?),
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
            What::Drained,
            What::Trouble("down".into(), "interface 'eth0' went down".into()),
            What::Well,
            What::Gone,
            What::Jumped(3),
            What::Counted(1, 2, 3),
        ] {
            let event = Event { at: 123, what };
            assert_eq!(event.to_string().parse(), Ok(event));
        }
        assert!("r 1 2 3".parse::<Event>().is_err());
        assert!("".parse::<Event>().is_err());
    }
}
