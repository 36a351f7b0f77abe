//! The values of a counter. Endpoints count here; `counter.rs` reads.

use crate::wait::WaitObject;
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations that succeeded and that failed.
pub(crate) struct Count {
    pub(crate) done: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) wait: Option<WaitObject>,
}

impl Count {
    pub(crate) fn new(wait: Option<WaitObject>) -> Self {
        Self { done: AtomicU64::new(0), failed: AtomicU64::new(0), wait }
    }

    pub(crate) fn add(&self, number: u64, well: bool) {
        let counter = if well { &self.done } else { &self.failed };
        counter.fetch_add(number, Ordering::Release);
        self.signal();
    }

    /// Wakes the threads that wait for a change.
    pub(crate) fn signal(&self) {
        if let Some(wait) = &self.wait {
            wait.signal();
        }
    }

    /// Both numbers.
    pub(crate) fn values(&self) -> [u64; 2] {
        [&self.done, &self.failed].map(|number| number.load(Ordering::Acquire))
    }
}
