//! Programs wait by reading a queue or counter again and again. If they outnumber the processors, a
//! spinning process keeps another from sending what it waits for; the kernel would take the
//! processor away only after milliseconds. So after some empty polls in a row, each further one
//! yields the processor.

use crate::launcher::is_crowded;
use std::sync::atomic::{AtomicU32, Ordering};

/// Empty polls before that if the job's processes outnumber the processors: some microseconds, a
/// round trip on a fast network. Such a poll asks whether something has arrived, and no more.
const CROWDED: u32 = 100;

/// The same for all others: some fifty microseconds or more. They may also outnumber the processors
/// without being known to, and yielding a processor that no other process wants costs less than a
/// microsecond.
const USUAL: u32 = 2048;

/// Empty polls in a row. Threads that poll one object at a time count as one.
pub(crate) struct Spin {
    polls: AtomicU32,
    /// Empty polls before the processor is yielded.
    most: u32,
}

impl Spin {
    /// Reads how many processes are on this node, once per process.
    pub(crate) fn new() -> Self {
        let most = if is_crowded() { CROWDED } else { USUAL };
        Self { polls: AtomicU32::new(0), most }
    }

    /// A poll found something.
    #[inline]
    pub(crate) fn found(&self) {
        self.polls.store(0, Ordering::Relaxed);
    }

    /// A poll found nothing. One that did more than ask whether something has arrived takes longer,
    /// and counts for two. Returns whether it yielded the processor. Call this without locks: it
    /// may take long to return.
    #[inline]
    pub(crate) fn empty_poll(&self, did_work: bool) -> bool {
        let polls = self.polls.load(Ordering::Relaxed).saturating_add(1 + u32::from(did_work));
        self.polls.store(polls, Ordering::Relaxed);
        if polls >= self.most {
            std::thread::yield_now();
        }
        polls >= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_offered_after_so_many_empty_polls_in_a_row_and_at_each_beyond() {
        for most in [CROWDED, USUAL] {
            let spin = Spin { polls: AtomicU32::new(0), most };
            for (did_work, usual) in [(false, most), (true, most / 2), (false, most)] {
                let yields = (1..usual + 10).filter(|_| spin.empty_poll(did_work));
                assert_eq!(yields.count(), 10);
                spin.found();
            }
        }
    }
}
