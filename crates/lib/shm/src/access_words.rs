//! The words by which the owner of registered memory and a neighbour agree on who uses it when. One
//! page for each neighbour, which the neighbour makes.
//!
//! | words | written by | what |
//! |---|---|---|
//! | 0 | neighbour | the slot of the region in which it is, plus one; 0 outside of all |
//! | 128 to 255 | owner | for each slot: the number of the permit; 0 without a region |
//! | 256 to 383 | neighbour | for each slot: writes so far |
//! | 384 to 511 | neighbour | for each slot: reads so far |
//!
//! The neighbour says in which region it is, and then looks at the permit. The owner takes the
//! permit away, and then looks at where the neighbour is. Both have a fence between the two steps,
//! so at least one of them sees what the other did (Dekker's algorithm). So either the neighbour
//! stays out, or the owner waits for it.
//!
//! Neither side trusts the other: a wrong word makes the owner wait or count wrong, and lets the
//! neighbour take the ordinary way.

use crate::sync::{AtomicU64, Ordering, fence};

/// Regions that an endpoint gives to one neighbour at a time.
pub(crate) const SLOTS: usize = if cfg!(loom) { 1 } else { 128 };

const AT_INSIDE: usize = 0;
const AT_PERMITS: usize = SLOTS;
const AT_WRITES: usize = 2 * SLOTS;
const AT_READS: usize = 3 * SLOTS;

/// Words in all: a page.
pub(crate) const WORDS: usize = 4 * SLOTS;

/// How often a neighbour has used a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCounts {
    /// Writes.
    pub writes: u64,
    /// Reads.
    pub reads: u64,
}

impl AccessCounts {
    /// What was counted since.
    pub(crate) fn since(self, before: Self) -> Self {
        let writes = self.writes.wrapping_sub(before.writes);
        Self { writes, reads: self.reads.wrapping_sub(before.reads) }
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.writes = self.writes.wrapping_add(more.writes);
        self.reads = self.reads.wrapping_add(more.reads);
    }
}

/// See the module's description. A view of the shared words.
#[derive(Clone, Copy)]
pub(crate) struct AccessWords<'a>(&'a [AtomicU64]);

/// A neighbour is inside a region until this is dropped.
pub(crate) struct Inside<'a> {
    words: AccessWords<'a>,
    slot: usize,
}

impl<'a> AccessWords<'a> {
    /// # Panics
    /// If it is not as long as the module says.
    pub(crate) fn new(words: &'a [AtomicU64]) -> Self {
        assert_eq!(words.len(), WORDS, "words of a page");
        Self(words)
    }

    /// The owner permits the use of a region, before it names the slot and the permit.
    pub(crate) fn permit(self, slot: usize, permit: u64) {
        self.0[AT_PERMITS + slot].store(permit, Ordering::Relaxed);
    }

    /// The owner takes the permit away. The neighbour may still be [inside](Self::is_inside).
    pub(crate) fn revoke(self, slot: usize) {
        self.0[AT_PERMITS + slot].store(0, Ordering::Relaxed);
        // Pairs with the fence in `enter`: see the module's description.
        fence(Ordering::SeqCst);
    }

    /// Whether the neighbour is inside a region. After [`revoke`](Self::revoke), it does not enter
    /// again.
    pub(crate) fn is_inside(self, slot: usize) -> bool {
        // Acquire: sees what the neighbour did inside.
        self.0[AT_INSIDE].load(Ordering::Acquire) == slot as u64 + 1
    }

    /// Whether the neighbour has this permit.
    pub(crate) fn is_permitted(self, slot: usize, permit: u64) -> bool {
        self.0[AT_PERMITS + slot].load(Ordering::Relaxed) == permit
    }

    /// The neighbour enters a region, if the permit is still good. One load, two stores, a fence.
    #[inline]
    pub(crate) fn enter(self, slot: usize, permit: u64) -> Option<Inside<'a>> {
        // Release: an owner that waits for another slot may read this, and not the 0 before it.
        // Then it must see what was done in that slot.
        self.0[AT_INSIDE].store(slot as u64 + 1, Ordering::Release);
        let inside = Inside { words: self, slot };
        // Pairs with the fence in `revoke`: see the module's description.
        fence(Ordering::SeqCst);
        self.is_permitted(slot, permit).then_some(inside)
    }

    /// What the neighbour has counted.
    pub(crate) fn counts(self, slot: usize) -> AccessCounts {
        let count = |at: usize| self.0[at + slot].load(Ordering::Relaxed);
        AccessCounts { writes: count(AT_WRITES), reads: count(AT_READS) }
    }
}

impl Inside<'_> {
    /// Counts a write, or a read.
    #[inline]
    pub(crate) fn count(&self, write: bool) {
        let count = &self.words.0[if write { AT_WRITES } else { AT_READS } + self.slot];
        // Only the neighbour writes it.
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: everything was done before.
        self.words.0[AT_INSIDE].store(0, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn in_every_order_nobody_is_inside_once_the_owner_has_waited() {
        loom::model(|| {
            let words: Arc<Vec<_>> = Arc::new((0..WORDS).map(|_| AtomicU64::new(0)).collect());
            let memory = Arc::new(AtomicU64::new(0));
            AccessWords::new(&words).permit(0, 7);
            let (theirs, mapped) = (Arc::clone(&words), Arc::clone(&memory));
            let neighbour = loom::thread::spawn(move || {
                for n in 1..=2 {
                    let Some(inside) = AccessWords::new(&theirs).enter(0, 7) else { return };
                    mapped.store(n, Ordering::Relaxed);
                    inside.count(true);
                }
            });
            let own = AccessWords::new(&words);
            own.revoke(0);
            while own.is_inside(0) {
                loom::thread::yield_now();
            }
            let written = memory.load(Ordering::Relaxed);
            assert_eq!(own.counts(0).writes, written, "what was done inside is seen");
            memory.store(100, Ordering::Relaxed);
            neighbour.join().unwrap();
            assert_eq!(memory.load(Ordering::Relaxed), 100, "nobody was inside any more");
        });
    }
}
