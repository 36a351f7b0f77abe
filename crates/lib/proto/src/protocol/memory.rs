//! The memory of all windows together: who may keep how much.

use crate::send::Spare;

/// Windows that keep the memory they have grown to, on either side, while nothing is in them: peers
/// that are spoken to again and again. A window beyond gives its own up when it is empty, so that a
/// peer costs less than a kilobyte while nothing is going on.
pub(super) const KEPT_WINDOWS: usize = 16;

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(super) struct Memory<T> {
    /// Frames kept out of order, over all sessions, and sessions with memory for that.
    pub(super) kept: u32,
    pub(super) tables: usize,
    /// Frames in all send windows, windows with memory, and memory that none has.
    pub(super) unacknowledged: usize,
    pub(super) windows: usize,
    pub(super) spare: Spare<T>,
}

impl<T> Memory<T> {
    pub(super) fn new() -> Self {
        Self { kept: 0, tables: 0, unacknowledged: 0, windows: 0, spare: Vec::new() }
    }
}
