//! The entries of a completion queue: ended operations in the order of their ends. Endpoints write
//! here, or straight into the array of the program that reads; `cq.rs` reads.

use crate::address::NOT_AVAILABLE;
use crate::error::{Code, OfiResult};
use crate::lock::{Lock, Threads};
use crate::sys::fi_cq_tagged_entry;
use crate::wait::WaitObject;
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// An operation has ended.
#[derive(Clone, Copy)]
pub(crate) struct CompletionEntry {
    pub(crate) context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    /// The sender's number in the address vector.
    pub(crate) source: u64,
    pub(crate) error: Option<CompletionFailure>,
}

/// Why it failed.
#[derive(Clone, Copy)]
pub(crate) struct CompletionFailure {
    pub(crate) code: Code,
    /// The second number, which [`explain`](crate::error::explain) explains.
    pub(crate) number: c_int,
    /// Bytes for which there was no room.
    pub(crate) beyond: usize,
}

// SAFETY: the pointers are only handed on.
unsafe impl Send for CompletionEntry {}

impl CompletionEntry {
    pub(crate) const NONE: Self = Self {
        context: null_mut(),
        flags: 0,
        len: 0,
        buf: null_mut(),
        data: 0,
        tag: 0,
        source: NOT_AVAILABLE,
        error: None,
    };
}

/// See the module's description. It grows if the reader is slow: nothing is ever lost. What peers
/// can make of it is bounded ([`MOST_UNREAD`](crate::state::MOST_UNREAD)).
pub(crate) struct Completions {
    entries: Lock<VecDeque<CompletionEntry>>,
    /// Number of entries, so a read of an empty queue takes no lock.
    count: AtomicUsize,
    /// An endpoint waits for a read with its doorbell.
    is_expected: AtomicBool,
    pub(crate) wait: Option<WaitObject>,
}

impl Completions {
    /// With room for `room` entries.
    pub(crate) fn new(room: usize, wait: Option<WaitObject>, threads: Threads) -> Self {
        // SAFETY: the program promised it when it asked for its threading model.
        let entries = unsafe { Lock::new(threads, VecDeque::with_capacity(room)) };
        let is_expected = AtomicBool::new(false);
        Self { entries, count: AtomicUsize::new(0), is_expected, wait }
    }

    /// The next read makes progress also if there are entries.
    pub(crate) fn expect_read(&self) {
        self.is_expected.store(true, Ordering::Release);
    }

    /// Whether the read that begins now must make progress.
    #[inline]
    pub(crate) fn was_expected(&self) -> bool {
        self.is_expected.load(Ordering::Relaxed) && self.is_expected.swap(false, Ordering::Acquire)
    }

    pub(crate) fn push(&self, entry: CompletionEntry) {
        {
            let mut entries = self.entries.lock();
            entries.push_back(entry);
            self.count.store(entries.len(), Ordering::Release);
        }
        if let Some(wait) = &self.wait {
            wait.signal();
        }
    }

    /// Number of entries. Takes no lock.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether there are no entries. Takes no lock.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same for a program that is about to sleep. With the lock: an entry that comes after this
    /// wakes the program.
    pub(crate) fn is_empty_before_sleep(&self) -> bool {
        self.entries.lock().is_empty()
    }

    /// Takes the first entry if it has an error.
    pub(crate) fn take_failed(&self) -> OfiResult<(CompletionEntry, CompletionFailure)> {
        let mut entries = self.entries.lock();
        let entry = *entries.front().ok_or(Code::AGAIN)?;
        let failure = entry.error.ok_or(Code::AGAIN)?;
        entries.pop_front();
        self.count.store(entries.len(), Ordering::Release);
        Ok((entry, failure))
    }
}

/// The array of a program that reads a queue. While the queue is empty, what ends during that read
/// goes straight there.
pub(crate) struct ReadArray<'a> {
    queue: Option<&'a Completions>,
    place: *mut u8,
    /// Bytes of an entry in the program's format.
    entry_size: usize,
    room: usize,
    written: usize,
    /// Where the senders' numbers go, or NULL.
    sources: *mut u64,
    /// Progress did more than ask whether something has arrived.
    did_work: bool,
}

impl<'a> ReadArray<'a> {
    /// For progress by which the program reads nothing.
    #[inline]
    pub(crate) fn none() -> Self {
        let (place, sources) = (null_mut(), null_mut());
        Self { queue: None, place, entry_size: 0, room: 0, written: 0, sources, did_work: false }
    }

    /// # Safety
    /// `place` has room for `room` entries of that size, and `sources` for as many numbers unless
    /// it is NULL, as long as this is used. The size is that of one of the formats.
    #[inline]
    pub(crate) unsafe fn new(
        queue: &'a Completions,
        entry_size: usize,
        place: *mut u8,
        room: usize,
        sources: *mut u64,
    ) -> Self {
        let (queue, did_work) = (Some(queue), false);
        Self { queue, place, entry_size, room, written: 0, sources, did_work }
    }

    /// Entries so far.
    #[inline]
    pub(crate) fn written(&self) -> usize {
        self.written
    }

    /// Whether progress did more than ask whether something has arrived.
    #[inline]
    pub(crate) fn did_work(&self) -> bool {
        self.did_work
    }

    /// Progress does so.
    #[inline]
    pub(crate) fn note_work(&mut self) {
        self.did_work = true;
    }

    /// Reports to a queue.
    #[inline]
    pub(crate) fn report(&mut self, queue: &Completions, entry: CompletionEntry) {
        let is_read = self.written < self.room
            && self.queue.is_some_and(|read| std::ptr::eq(read, queue))
            && queue.is_empty();
        if is_read && entry.error.is_none() { self.write(&entry) } else { queue.push(entry) }
    }

    /// Takes entries without error from the queue, as long as there is room.
    #[inline(always)]
    pub(crate) fn fill(&mut self) -> OfiResult<()> {
        match self.queue {
            Some(queue) if !queue.is_empty() => self.fill_from(queue),
            _ => Ok(()),
        }
    }

    #[inline(never)]
    fn fill_from(&mut self, queue: &Completions) -> OfiResult<()> {
        let mut entries = queue.entries.lock();
        let mut failed = false;
        while self.written < self.room
            && let Some(entry) = entries.front()
        {
            failed = entry.error.is_some();
            if failed {
                break;
            }
            self.write(entry);
            entries.pop_front();
        }
        queue.count.store(entries.len(), Ordering::Release);
        if failed && self.written == 0 { Err(Code::AVAILABLE) } else { Ok(()) }
    }

    #[inline]
    fn write(&mut self, entry: &CompletionEntry) {
        let whole = fi_cq_tagged_entry {
            op_context: entry.context,
            flags: entry.flags,
            len: entry.len,
            buf: entry.buf,
            data: entry.data,
            tag: entry.tag,
        };
        // SAFETY: `written` is less than `room`, and there is that much room; each format is the
        // beginning of the longest.
        unsafe {
            let place = self.place.add(self.written * self.entry_size);
            if self.entry_size == size_of_val(&whole) {
                place.cast::<fi_cq_tagged_entry>().write_unaligned(whole);
            } else {
                place.copy_from((&raw const whole).cast(), self.entry_size);
            }
            if !self.sources.is_null() {
                self.sources.add(self.written).write(entry.source);
            }
        }
        self.written += 1;
    }
}
