//! What is measured: one small contract that every transport fulfils.
//!
//! A [`Transport`] opens one end ([`Opening`]), which has an address that the ends exchange over the
//! control connection; joined with the peer's address it becomes a [`Channel`]. The loops in
//! [`crate::probe`] know channels only, so that all transports are measured by the same code and the
//! same clock. To add a transport: write one file here and name it in [`all`].
//!
//! Messages have a number and a length. The sender writes the number; the receiver reads one byte of
//! every cache line, by the same rule for all. What else producing and using data costs is the
//! application's.

mod bulk;
mod gigae;
mod icmp;
mod raw;
mod tcp;
mod udp;

pub(crate) use tcp::CONGESTION_CONTROL;

use crate::plan::{Condition, Experiment, Setting, Wait};
use crate::probe::Probe;
use crate::site::{Address, Site};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::time::Duration;

/// How long a blocking call sleeps before the loop looks at its flags and its time again. Short
/// enough that the end of a repetition is noticed soon, long enough to cost nothing.
pub const NAP: Duration = Duration::from_millis(5);

/// The same where nothing is expected: so long that waking up does not count, short enough that an
/// interruption is not noticed late.
const IDLE_NAP: Duration = Duration::from_millis(250);

/// How long an end waits for its peer to join.
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Socket buffers of transports without a setting of their own: the papers' 128 KB.
pub const SOCKET_BUFFER: usize = 128 << 10;

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Asks, or sends the stream.
    Client,
    /// Answers, or receives the stream.
    Server,
}

/// What both ends are to do in one repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Round trips or a stream.
    pub experiment: Experiment,
    /// Name of the transport.
    pub transport: String,
    /// The transport's setting.
    pub setting: Setting,
    /// What else is unusual.
    pub condition: Condition,
    /// How to wait.
    pub wait: Wait,
    /// Payload in bytes.
    pub size: usize,
    /// Discarded seconds.
    pub warmup: f64,
    /// Measured seconds.
    pub measure: f64,
    /// Bytes per second that the client may send at most.
    pub rate: Option<f64>,
}

impl Task {
    /// How long a sleeping receive sleeps before it returns empty-handed.
    pub fn nap(&self) -> Duration {
        if self.experiment == Experiment::Idle { IDLE_NAP } else { NAP }
    }
}

/// A kind of transport.
pub trait Transport: Sync {
    /// Its name in plans and results.
    fn name(&self) -> &'static str;

    /// What it is, in a few words for people.
    fn about(&self) -> &'static str;

    /// Whether every message arrives, in order.
    fn reliable(&self) -> bool;

    /// Whether the receiver gets the messages that were sent, and not a mere stream of bytes.
    fn boundaries(&self) -> bool {
        true
    }

    /// What can be measured with it.
    fn experiments(&self) -> &'static [Experiment] {
        &[Experiment::Rtt, Experiment::Stream, Experiment::Idle, Experiment::Paced]
    }

    /// Whether one end hears all who send to it; else each of many senders needs an end of its own.
    fn hears_all(&self) -> bool {
        false
    }

    /// How it can wait.
    fn waits(&self) -> &'static [Wait] {
        &[Wait::Spin, Wait::Sleep]
    }

    /// Largest payload in one frame on a link of this MTU, in bytes.
    fn frame_payload(&self, mtu: usize) -> usize;

    /// Largest message it carries on a link of this MTU, in bytes.
    fn largest(&self, mtu: usize) -> usize {
        self.frame_payload(mtu)
    }

    /// Payload in a full frame of a message longer than a frame, in bytes.
    fn part_payload(&self, mtu: usize) -> usize {
        self.frame_payload(mtu)
    }

    /// Whether it uses all links between the ends as one, or only the first.
    fn uses_all_links(&self) -> bool {
        false
    }

    /// Opens one end.
    fn open(
        &self,
        site: &Site,
        task: &Task,
        side: Side,
    ) -> Result<Box<dyn Opening>, TransportError>;
}

/// An end that waits for its peer.
pub trait Opening: Send {
    /// Where the peer reaches this end.
    fn address(&self) -> Address;

    /// Completes the channel. Takes at most [`JOIN_TIMEOUT`].
    fn join(self: Box<Self>, peer: &Address) -> Result<Box<dyn Probe>, TransportError>;
}

/// What arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The message's number; zero where a stream has no boundaries.
    pub number: u32,
    /// Bytes.
    pub bytes: usize,
}

/// System calls made so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// All kinds.
    pub all: u64,
    /// Those that send.
    pub send: u64,
}

/// One end of an open connection, seen by the measuring loops.
///
/// In the style [`Wait::Spin`] no method ever sleeps; in the others `send` and `receive` sleep for
/// [`Task::nap`] at most before they return empty-handed.
pub trait Channel: Send {
    /// Sends message `number` of `size` bytes; `false` if there is no room now. May keep it back until
    /// [`flush`](Self::flush), or send what is kept back by itself when that is enough for a batch.
    fn send(&mut self, number: u32, size: usize) -> Result<bool, TransportError>;

    /// Pushes out what was sent and is still held back for a batch.
    fn flush(&mut self) -> Result<(), TransportError> {
        Ok(())
    }

    /// The next message (or, on a byte stream that is not answered, the next bytes), if there is one.
    fn receive(&mut self) -> Result<Option<Arrival>, TransportError>;

    /// Whether all that was sent has safely arrived, or need not: called again and again at the end of
    /// a stream until it is true.
    fn settled(&mut self) -> Result<bool, TransportError> {
        Ok(true)
    }

    /// System calls made so far, counted one by one.
    fn calls(&self) -> Calls;

    /// Frames that were sent again, where the channel knows of them.
    fn repeated(&self) -> u64 {
        0
    }

    /// Something worth recording about how it runs: congestion control, XDP mode.
    fn note(&self) -> Option<String> {
        None
    }
}

/// A transport does not work. The text is one line.
#[derive(Debug)]
pub enum TransportError {
    /// It cannot be used here at all; others may.
    Unavailable(String),
    /// The peer did not join or went away.
    PeerGone(&'static str),
    /// A system call failed.
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl TransportError {
    /// Names what failed.
    pub fn io(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => f.write_str(why),
            Self::PeerGone(what) => {
                write!(f, "the peer {what}; look at its messages and try again")
            }
            Self::Io { what, source } if source.kind() == io::ErrorKind::PermissionDenied => {
                write!(
                    f,
                    "{what} is not permitted; run as root or leave this transport out of the plan"
                )
            }
            Self::Io { what, source } => {
                write!(f, "{what} failed: {source}; check the interface and try again")
            }
        }
    }
}

impl std::error::Error for TransportError {}

/// All transports.
pub fn all() -> &'static [&'static dyn Transport] {
    &[&gigae::Gigae, &bulk::Write, &raw::Xdp, &raw::Packet, &udp::Udp, &tcp::Tcp, &icmp::Icmp]
}

/// Finds a transport.
pub fn by_name(name: &str) -> Option<&'static dyn Transport> {
    all().iter().copied().find(|transport| transport.name() == name)
}

/// What can be measured with transports to which many can send.
const WITH_MANY: &[Experiment] =
    &[Experiment::Rtt, Experiment::Stream, Experiment::Idle, Experiment::Paced, Experiment::Incast];

/// All names, for messages to people.
pub fn names() -> String {
    all().iter().map(|transport| transport.name()).collect::<Vec<_>>().join(", ")
}

/// Nothing to do now, try again: a full or empty socket, a nap that ended, a signal.
fn try_again(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// Sets a socket to spin or to nap.
fn set_waiting(socket: &socket2::Socket, task: &Task) -> io::Result<()> {
    socket.set_nonblocking(task.wait == Wait::Spin)?;
    if task.wait != Wait::Spin {
        socket.set_read_timeout(Some(task.nap()))?;
        socket.set_write_timeout(Some(task.nap()))?;
    }
    Ok(())
}

/// A message of the largest size, ready to be numbered and sent.
fn message(size: usize) -> Vec<u8> {
    (0..size.max(4)).map(|index| index as u8).collect()
}

/// Reads a message as a program that wants its data does, a byte of every cache line, and returns the
/// number in its first four bytes.
///
/// Without this a link that leaves the data where another CPU wrote them would seem quicker than one
/// that brings them, and what the program pays later would be nobody's cost.
#[inline]
fn read(message: &[u8]) -> Option<u32> {
    const CACHE_LINE: usize = 64;
    let lines = message.iter().step_by(CACHE_LINE).chain(message.last());
    std::hint::black_box(lines.fold(0, |sum, byte| sum ^ byte));
    message.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}
