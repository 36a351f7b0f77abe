//! Memory of this end that peers may use, and counting their accesses: for an endpoint
//! (`FI_RMA_EVENT`) and for one memory. The library counts; this file adds the difference to the
//! program's counters.

use crate::count::Count;
use crate::state::reports::Reports;
use crate::sys;
use gigae::{Accesses, Endpoint, RegionKey};
use std::sync::Arc;

/// A memory with a counter of what peers write there.
struct WatchedMemory {
    key: RegionKey,
    counter: Arc<Count>,
    /// Writes counted so far.
    counted: u64,
}

/// See the module's description.
#[derive(Default)]
pub(crate) struct Remote {
    /// Memories that peers may use.
    pub(crate) regions: usize,
    /// Notices of writes may wait in the library.
    pub(crate) may_notify: bool,
    watched: Vec<WatchedMemory>,
    /// Accesses of peers that were counted so far, if a counter is bound for them.
    pub(crate) accesses: Option<Accesses>,
}

impl WatchedMemory {
    /// Peers have written to it `writes` times.
    fn count(&mut self, writes: u64) {
        if writes > self.counted {
            self.counter.add(writes - self.counted, true);
            self.counted = writes;
        }
    }
}

impl Remote {
    /// Counts what peers write into a memory.
    pub(crate) fn watch(&mut self, endpoint: &Endpoint, key: RegionKey, counter: &Arc<Count>) {
        let counted = endpoint.region_writes(key).unwrap_or_default();
        self.watched.push(WatchedMemory { key, counter: Arc::clone(counter), counted });
    }

    /// The memory is no longer registered. Peers wrote to it `writes` times.
    pub(crate) fn unwatch(&mut self, key: RegionKey, writes: u64) {
        self.watched.retain_mut(|watched| {
            let stays = watched.key != key;
            if !stays {
                watched.count(writes);
            }
            stays
        });
    }

    /// Whether a memory is counted by this counter.
    pub(crate) fn is_counted_by(&self, counter: &Arc<Count>) -> bool {
        self.watched.iter().any(|watched| Arc::ptr_eq(&watched.counter, counter))
    }

    /// Counts what peers have done with memory here since the last poll.
    pub(crate) fn count(&mut self, endpoint: &Endpoint, reports: &Reports) {
        if let Some(before) = self.accesses {
            let now = endpoint.accesses();
            let (writes, reads) = (now.writes - before.writes, now.reads - before.reads);
            for (counted, counter) in &reports.counters {
                let some = |what, count| if counted & what != 0 { count } else { 0 };
                let count = some(sys::FI_REMOTE_WRITE, writes) + some(sys::FI_REMOTE_READ, reads);
                if count > 0 {
                    counter.add(count, true);
                }
            }
            self.accesses = Some(now);
        }
        for watched in &mut self.watched {
            watched.count(endpoint.region_writes(watched.key).unwrap_or_default());
        }
    }
}
