//! The state word of a handle's slot: how often it was used, and whether a call is in progress.
//! Threads share nothing else of a handle. `tools/loom` runs it in every order.

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bits of the word for the phase; the others count the uses.
const PHASE_BITS: u32 = 2;

/// What a slot may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Phase {
    /// For another object.
    Free = 0,
    /// For a call.
    Idle = 1,
    /// For nothing: a call is in progress.
    Busy = 2,
    /// For being closed.
    Broken = 3,
}

/// See the module's description.
pub(crate) struct Word(AtomicUsize);

impl Word {
    /// A free slot that was not used yet.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self(AtomicUsize::new(Phase::Free as usize))
    }

    /// The same; loom's words cannot be constants.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(Phase::Free as usize))
    }

    /// From free to busy. Returns the number of this use, within `mask`.
    pub(crate) fn occupy(&self, mask: usize) -> Option<usize> {
        let seen = self.0.load(Ordering::Relaxed);
        let uses = ((seen >> PHASE_BITS) + 1) & mask;
        let taken = uses << PHASE_BITS | Phase::Busy as usize;
        let free = phase(seen) == Phase::Free
            && self.0.compare_exchange(seen, taken, Ordering::Acquire, Ordering::Relaxed).is_ok();
        free.then_some(uses)
    }

    /// From `from` to busy. Otherwise returns the slot's phase, if this is the same use.
    #[inline]
    pub(crate) fn enter(&self, uses: usize, from: Phase) -> Result<(), Option<Phase>> {
        let busy = uses << PHASE_BITS | Phase::Busy as usize;
        let from = uses << PHASE_BITS | from as usize;
        match self.0.compare_exchange(from, busy, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(seen) => Err((seen >> PHASE_BITS == uses).then(|| phase(seen))),
        }
    }

    /// From busy to `to`.
    #[inline]
    pub(crate) fn leave(&self, uses: usize, to: Phase) {
        self.0.store(uses << PHASE_BITS | to as usize, Ordering::Release);
    }
}

fn phase(state: usize) -> Phase {
    match state & 3 {
        0 => Phase::Free,
        1 => Phase::Idle,
        2 => Phase::Busy,
        _ => Phase::Broken,
    }
}
