//! The contract between a transport and the loops of the experiments.
//!
//! Messages have a number and a length. The sender writes the number; the receiver reads one byte
//! of every cache line, by the same rule for all. What else producing and using data costs is the
//! application's.

use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::note::Note;
use gigae_eval_model::plan::{Condition, Setting, Wait};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::{Duration, Instant};

/// How long a blocking call sleeps before the loop looks at its flags and its time again. Short
/// enough that the end of a repetition is noticed soon, long enough to cost nothing.
pub const NAP: Duration = Duration::from_millis(5);

/// The same where nothing is expected: so long that waking up does not count, short enough that an
/// interruption is not noticed late.
const IDLE_NAP: Duration = Duration::from_millis(250);

/// How long an end waits for its peer to join.
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(2);

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

/// What arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// The message's number; zero where a stream has no boundaries.
    pub number: u32,
    /// Bytes.
    pub bytes: usize,
}

/// System calls made so far, and what went by them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// All kinds.
    pub all: u64,
    /// Those that sent something. A call that found no room is in `all` only: a spinning end makes
    /// as many of them as it has time for. Links count every doorbell.
    pub send: u64,
    /// Datagrams or frames that those sent; zero where the transport does not count them.
    pub sent: u64,
    /// Those that received something; zero where the transport does not count them.
    pub receive: u64,
    /// Datagrams that those received.
    pub received: u64,
}

/// What a channel that may sleep knows of the sleep of its last [`receive`](Channel::receive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slept {
    /// Nothing: the kernel hands over what is there, or puts the thread to sleep.
    Unknown,
    /// It did not sleep: something was there already.
    No,
    /// It found nothing at this time, and may have slept from then on.
    From(Instant),
}

/// One end of an open connection, seen by the measuring loops.
///
/// In the style [`Wait::Spin`] no method ever sleeps; in the others `send` and `receive` sleep for
/// [`Task::nap`] at most before they return empty-handed.
pub trait Channel: Send {
    /// Sends message `number` of `size` bytes; `false` if there is no room now. May keep it back
    /// until [`flush`](Self::flush), or send what is kept back by itself when that is enough for a
    /// batch.
    fn send(&mut self, number: u32, size: usize) -> Result<bool, TransportError>;

    /// Pushes out what was sent and is still held back for a batch.
    fn flush(&mut self) -> Result<(), TransportError> {
        Ok(())
    }

    /// The next message (or, on a byte stream that is not answered, the next bytes), if there is
    /// one.
    fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError>;

    /// Whether the last `receive` slept. A stream that goes on without a pause needs no clock, but
    /// the time before a pause is that of the last arrival. Not asked in the style [`Wait::Spin`].
    fn slept(&self) -> Slept {
        Slept::Unknown
    }

    /// Whether all that was sent has safely arrived, or need not: called again and again at the end
    /// of a stream until it is true.
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
    fn note(&mut self) -> Option<Note> {
        None
    }
}

/// A transport does not work. The text is one line.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// It cannot be used here at all; others may.
    #[error("{0}")]
    Unavailable(String),
    /// The peer did not join or went away.
    #[error("the peer {0}; look at its messages and try again")]
    PeerGone(&'static str),
    /// A system call failed.
    #[error("{what} {why}", why = said(.source))]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// What a system call answered, and what to do.
fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "is not permitted; run as root or leave this transport out of the plan".into()
        }
        _ => format!("failed: {error}; check the interface and try again"),
    }
}

impl TransportError {
    /// Names what failed.
    pub fn io(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
