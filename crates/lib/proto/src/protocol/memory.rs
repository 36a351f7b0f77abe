//! The memory of all windows together: who may keep how much.

use crate::receive::ReceiveWindow;
use crate::send::Spare;

/// Windows on each side that keep their memory while they are empty: those of peers that are active
/// again and again. Any further window gives its memory up when it is empty, so an idle peer takes
/// less than a kilobyte.
pub(super) const KEPT_WINDOWS: usize = 16;

/// Most bulk frames kept out of order. The socket has slots, each of 64 KiB, for this many besides
/// what it needs itself (`MOST_KEPT` of `gigae_udp`).
pub const MOST_KEPT_BULK: u32 = 128;

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(super) struct MemoryUse<T> {
    /// Frames kept out of order, over all sessions, and those of them in the memory of the socket
    /// for bulk data.
    pub(super) kept: u32,
    pub(super) kept_bulk: u32,
    /// How many frames of the link may be kept.
    most_kept: u32,
    /// The frame that is being handled is a bulk frame that came by the link, in parts.
    pub(super) reassembled: bool,
    /// Sessions with memory for them.
    pub(super) tables: usize,
    /// Frames in all send windows, windows with memory, and spare memory.
    pub(super) unacknowledged: usize,
    pub(super) windows: usize,
    pub(super) spare: Spare<T>,
}

impl<T> MemoryUse<T> {
    pub(super) fn new(most_kept: u32) -> Self {
        Self {
            kept: 0,
            kept_bulk: 0,
            most_kept,
            reassembled: false,
            tables: 0,
            unacknowledged: 0,
            windows: 0,
            spare: Vec::new(),
        }
    }

    /// How many frames may be kept, of bulk data or not, how many are, and how many of a session.
    pub(super) fn kept_of<R>(&self, is_bulk: bool, receive: &ReceiveWindow<R>) -> [u32; 3] {
        let (all, own) = (self.kept_bulk, receive.kept_bulk());
        match is_bulk {
            true => [MOST_KEPT_BULK, all, own],
            false => [self.most_kept, self.kept - all, receive.kept() - own],
        }
    }
}
