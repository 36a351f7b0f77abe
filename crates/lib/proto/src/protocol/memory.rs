//! The memory of all windows together: who may keep how much.

use crate::send::Spare;

/// Windows on each side that keep their memory while they are empty: those of peers that are active
/// again and again. Any further window gives its memory up when it is empty, so an idle peer takes
/// less than a kilobyte.
pub(super) const KEPT_WINDOWS: usize = 16;

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(super) struct MemoryUse<T> {
    /// Frames kept out of order, over all sessions.
    pub(super) kept: u32,
    /// How many may be kept before none is any more.
    pub(super) most_kept: u32,
    /// Sessions with memory for them.
    pub(super) tables: usize,
    /// Frames in all send windows, windows with memory, and spare memory.
    pub(super) unacknowledged: usize,
    pub(super) windows: usize,
    pub(super) spare: Spare<T>,
}

impl<T> MemoryUse<T> {
    pub(super) fn new(most_kept: u32) -> Self {
        Self { kept: 0, most_kept, tables: 0, unacknowledged: 0, windows: 0, spare: Vec::new() }
    }
}
