//! The frames of a send window, each in a slot.

use crate::time::Instant;
use gigae_wire::Kind;

/// Slots of a window that are worth keeping for another: more were needed by a burst, which pays
/// for its own in a few allocations.
const MOST_SPARE_SLOTS: usize = 8;

/// How many windows' worth of those.
const MOST_SPARE: usize = 64;

/// Slots that no window has now.
pub(crate) type Spare<T> = Vec<Slots<T>>;

pub(super) type Slots<T> = Box<[Slot<T>]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    Queued,
    InFlight,
    Lost,
    /// Held by the receiver beyond a gap.
    Held,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Slot<T> {
    /// `None` only where the slot is outside the window.
    pub(super) token: Option<T>,
    pub(super) state: State,
    /// Sent more than once: its acknowledgement says nothing about the round-trip time.
    pub(super) repeated: bool,
    /// What it carries: Data, Batch or Op.
    pub(super) kind: Kind,
    pub(super) len: u16,
    /// The path of its latest transmission, and the number there.
    pub(super) path: u8,
    pub(super) transmission: u32,
    /// The clock's last reading before that.
    pub(super) sent_at: Instant,
}

/// What is known of a frame that has arrived.
pub(super) struct SentFrame {
    pub(super) state: State,
    pub(super) path: u8,
    pub(super) transmission: u32,
    pub(super) repeated: bool,
    pub(super) sent_at: Instant,
}

impl<T> Slot<T> {
    pub(super) fn empty() -> Self {
        Self {
            token: None,
            state: State::Queued,
            repeated: false,
            kind: Kind::Data,
            len: 0,
            path: 0,
            transmission: 0,
            sent_at: Instant(0),
        }
    }

    #[inline]
    pub(super) fn sent_frame(&self) -> SentFrame {
        let &Self { state, path, transmission, repeated, sent_at, .. } = self;
        SentFrame { state, path, transmission, repeated, sent_at }
    }
}

/// Keeps slots that a window does not need for another, if they are few.
pub(super) fn keep<T>(slots: Slots<T>, spare: &mut Spare<T>) {
    if (1..=MOST_SPARE_SLOTS).contains(&slots.len()) && spare.len() < MOST_SPARE {
        spare.push(slots);
    }
}
