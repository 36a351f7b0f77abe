//! The entries of a completion queue: ended operations in the order of their ends. Endpoints write
//! here; `cq.rs` reads.

use crate::address::NOT_AVAILABLE;
use crate::error::{Code, OfiResult};
use crate::object::lock;
use crate::wait::WaitObject;
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;
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
    entries: Mutex<VecDeque<CompletionEntry>>,
    /// Number of entries, so a read of an empty queue takes no lock.
    count: AtomicUsize,
    /// An endpoint waits for a read with its doorbell.
    is_expected: AtomicBool,
    pub(crate) wait: Option<WaitObject>,
}

impl Completions {
    /// With room for `room` entries.
    pub(crate) fn new(room: usize, wait: Option<WaitObject>) -> Self {
        let entries = Mutex::new(VecDeque::with_capacity(room));
        let is_expected = AtomicBool::new(false);
        Self { entries, count: AtomicUsize::new(0), is_expected, wait }
    }

    /// The next read makes progress also if there are entries.
    pub(crate) fn expect_read(&self) {
        self.is_expected.store(true, Ordering::Release);
    }

    /// Whether the read that begins now must make progress.
    pub(crate) fn was_expected(&self) -> bool {
        self.is_expected.load(Ordering::Relaxed) && self.is_expected.swap(false, Ordering::Acquire)
    }

    pub(crate) fn push(&self, entry: CompletionEntry) {
        {
            let mut entries = lock(&self.entries);
            entries.push_back(entry);
            self.count.store(entries.len(), Ordering::Release);
        }
        if let Some(wait) = &self.wait {
            wait.signal();
        }
    }

    /// Number of entries. Takes no lock.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.entries).is_empty()
    }

    /// Takes up to `count` entries without error and passes each to `hand` with its index. Holds
    /// the lock for all of them.
    pub(crate) fn take(
        &self,
        count: usize,
        mut hand: impl FnMut(usize, CompletionEntry),
    ) -> OfiResult<usize> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Err(Code::AGAIN);
        }
        let mut entries = lock(&self.entries);
        let mut taken = 0;
        while taken < count {
            match entries.front() {
                Some(entry) if entry.error.is_none() => {}
                Some(_) if taken == 0 => return Err(Code::AVAILABLE),
                _ => break,
            }
            let Some(entry) = entries.pop_front() else { break };
            hand(taken, entry);
            taken += 1;
        }
        self.count.store(entries.len(), Ordering::Release);
        if taken == 0 { Err(Code::AGAIN) } else { Ok(taken) }
    }

    /// Takes the first entry if it has an error.
    pub(crate) fn take_failed(&self) -> OfiResult<(CompletionEntry, CompletionFailure)> {
        let mut entries = lock(&self.entries);
        let entry = *entries.front().ok_or(Code::AGAIN)?;
        let failure = entry.error.ok_or(Code::AGAIN)?;
        entries.pop_front();
        self.count.store(entries.len(), Ordering::Release);
        Ok((entry, failure))
    }
}
