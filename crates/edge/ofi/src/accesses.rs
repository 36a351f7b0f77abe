//! Counting what peers do with memory here: for an endpoint (`FI_RMA_EVENT`) and for one memory. The
//! library counts; here counters of the program's are told of the difference.

use crate::counter::Counter;
use crate::state::State;
use crate::sys;
use gigae::RegionKey;
use std::sync::Arc;

/// A memory with a counter of what peers write there.
pub(crate) struct Watched {
    key: RegionKey,
    counter: Arc<Counter>,
    /// Writes that were counted.
    counted: u64,
}

impl State {
    /// From now on what peers do with memory here is counted.
    pub(crate) fn count_accesses(&mut self) {
        self.binding.accesses = Some(self.endpoint.accesses());
    }

    /// Counts what peers write into a memory.
    pub(crate) fn watch(&mut self, key: RegionKey, counter: &Arc<Counter>) {
        let counted = self.endpoint.region_writes(key).unwrap_or_default();
        self.watched.push(Watched { key, counter: Arc::clone(counter), counted });
    }

    /// Whether the endpoint counts something by this counter.
    pub(crate) fn is_counted_by(&self, counter: &Arc<Counter>) -> bool {
        let bound = self.binding.counters.iter().map(|(_, bound)| bound);
        let watching = self.watched.iter().map(|watched| &watched.counter);
        bound.chain(watching).any(|known| Arc::ptr_eq(known, counter))
    }

    /// The memory is no longer registered.
    pub(crate) fn unwatch(&mut self, key: RegionKey) {
        self.watched.retain(|watched| watched.key != key);
    }

    /// Counts what peers have done with memory here since the last look.
    pub(crate) fn count_remote(&mut self) {
        if let Some(before) = self.binding.accesses {
            let now = self.endpoint.accesses();
            let (writes, reads) = (now.writes - before.writes, now.reads - before.reads);
            for (counted, counter) in &self.binding.counters {
                let some = |what, count| if counted & what != 0 { count } else { 0 };
                let count = some(sys::FI_REMOTE_WRITE, writes) + some(sys::FI_REMOTE_READ, reads);
                if count > 0 {
                    counter.count(count, true);
                }
            }
            self.binding.accesses = Some(now);
        }
        for Watched { key, counter, counted } in &mut self.watched {
            let now = self.endpoint.region_writes(*key).unwrap_or_default();
            if now > *counted {
                counter.count(now - *counted, true);
                *counted = now;
            }
        }
    }
}
