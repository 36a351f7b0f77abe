//! The frames of a send window, each in a slot.

use crate::frame_kind::FrameOrder;
use crate::time::Instant;
use gigae_wire::{Kind, PathId};

/// Largest number of slots that is kept for another window. A window with more had a burst, and can
/// pay for its own slots with a few allocations.
const MOST_SPARE_SLOTS: usize = 8;

/// How many windows' slots are kept.
const MOST_SPARE: usize = 64;

/// Slots that no window uses now.
pub(crate) type Spare<T> = Vec<WindowSlots<T>>;

pub(super) type WindowSlots<T> = Box<[WindowSlot<T>]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SlotState {
    Queued,
    InFlight,
    Lost,
    /// The receiver keeps it beyond a gap.
    Held,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct WindowSlot<T> {
    /// `None` only where the slot is outside the window.
    pub(super) token: Option<T>,
    pub(super) state: SlotState,
    /// Sent more than once, so its acknowledgement gives no round-trip time.
    pub(super) repeated: bool,
    /// What it carries: Data, Batch or Op.
    pub(super) kind: Kind,
    /// It goes by the socket while that works.
    pub(super) bulk: bool,
    /// It was admitted for the link, which does not carry such long ones any more.
    pub(super) too_long: bool,
    pub(super) order: FrameOrder,
    /// It overtakes those, and how many numbers before it the last one did.
    pub(super) early: Option<u8>,
    /// Datagrams that it takes: one, unless it is a bulk frame.
    pub(super) datagrams: u8,
    pub(super) len: u16,
    /// The path of its latest transmission, and the number there.
    pub(super) path: PathId,
    pub(super) transmission: u32,
    /// The clock's last reading before that transmission.
    pub(super) sent_at: Instant,
}

/// What is known of a frame that the receiver has.
pub(super) struct SentFrame {
    pub(super) state: SlotState,
    pub(super) path: PathId,
    pub(super) datagrams: u8,
    pub(super) transmission: u32,
    pub(super) repeated: bool,
    pub(super) early: bool,
    pub(super) sent_at: Instant,
}

impl<T> WindowSlot<T> {
    pub(super) fn empty() -> Self {
        Self {
            token: None,
            state: SlotState::Queued,
            repeated: false,
            kind: Kind::Data,
            bulk: false,
            too_long: false,
            order: FrameOrder { short: false, loose: false },
            early: None,
            datagrams: 1,
            len: 0,
            path: PathId::FIRST,
            transmission: 0,
            sent_at: Instant(0),
        }
    }

    #[inline]
    pub(super) fn sent_frame(&self) -> SentFrame {
        let &Self { state, path, datagrams, transmission, repeated, sent_at, .. } = self;
        let early = self.early.is_some();
        SentFrame { state, path, datagrams, transmission, repeated, early, sent_at }
    }
}

/// Keeps slots for another window if they are few.
pub(super) fn keep<T>(slots: WindowSlots<T>, spare: &mut Spare<T>) {
    if (1..=MOST_SPARE_SLOTS).contains(&slots.len()) && spare.len() < MOST_SPARE {
        spare.push(slots);
    }
}
