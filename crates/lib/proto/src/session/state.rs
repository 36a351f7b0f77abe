//! The phases of a session, and what is repeated until it is answered.

use crate::scatter;
use crate::time::{Instant, Since};
use gigae_wire::{Epoch, Hello, Paths, SeqNo};

/// First wait in nanoseconds for the answer to a Hello or a Confirm; doubled with each repetition.
const HELLO_INTERVAL: u64 = 1_000_000;

/// Longest wait in nanoseconds between two probes. That between two Hellos or Confirms is
/// [scattered](scattered) besides.
pub(super) const LONGEST_INTERVAL: u64 = 100_000_000;

/// Waits from this one on, in nanoseconds, differ between sessions. In shorter times few frames
/// reach a node, and a lost frame should not cost more.
const SCATTERED_FROM: u64 = 8_000_000;

/// A wait of this session, longer by up to half if it is long. `seed` is the session's epoch, which
/// is random.
pub(super) fn scattered(wait: u64, seed: Epoch, turn: u32) -> u64 {
    if wait < SCATTERED_FROM { wait } else { wait + scatter::up_to(wait / 2, seed.0, turn) }
}

/// First wait in nanoseconds for the answer to a graceful close; doubled with each repetition.
pub(super) const CLOSE_INTERVAL: u64 = 1_000_000;

/// Most repetitions of a graceful close. The last one is given up 127 ms after the first frame. A
/// busy peer needs only one of the seven frames. At a loss of 20 %, all seven are lost once in
/// 78,000 times.
pub(super) const REPETITIONS: u8 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SessionState {
    /// No session; the next message proposes one.
    Idle,
    /// A Hello was or will be sent.
    Proposing(Repeated),
    /// Both epochs are known and used here. A Confirm asks whether the peer knows the session, and
    /// repeats this token of the peer. It goes out at the beginning, and when the peer says that it
    /// does not know the session.
    Confirming(Repeated, u64),
    /// The peer has also used both epochs.
    Established,
    /// This end is closing. As far as it knows, the peer does not know yet what has arrived here.
    Closing,
}

/// What is sent again until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Repeated {
    pub(super) due: bool,
    pub(super) next_at: Instant,
    interval: u64,
    pub(super) tries: u8,
}

impl Repeated {
    /// To be sent at once.
    pub(crate) fn begin(now: Instant) -> Self {
        Self { due: true, next_at: now, interval: HELLO_INTERVAL, tries: 0 }
    }

    /// It was sent, in a session with this epoch.
    pub(super) fn sent(&mut self, now: Instant, seed: Epoch) {
        self.due = false;
        self.tries = self.tries.wrapping_add(1);
        self.next_at = now.after(scattered(self.interval, seed, self.tries.into()));
        self.interval = (self.interval * 2).min(LONGEST_INTERVAL);
    }

    pub(super) fn expire(&mut self, now: Instant) {
        self.due |= now >= self.next_at;
    }
}

/// A Reset that says what has arrived, repeated until it is answered (rule 8.4).
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct GracefulClose {
    pub(crate) remote: Epoch,
    pub(super) ack: SeqNo,
    pub(crate) due: bool,
    /// When it was last sent, and how long to wait for the answer.
    pub(super) since: Since,
    pub(super) wait: u64,
    /// How many repetitions are left.
    pub(super) left: u8,
}

/// What both ends have agreed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionParameters {
    pub(crate) local: Epoch,
    pub(crate) remote: Epoch,
    pub(crate) hello: Hello,
    /// Addresses of the peer's links, if it has several.
    pub(crate) links: Paths,
    /// The first credit from the peer, in frames.
    pub(crate) credit: u16,
}

/// What a session should transmit next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextFrame {
    Hello,
    Confirm,
    Data,
    Ack,
    Probe,
    Close,
}
