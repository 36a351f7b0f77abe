//! The kernel's requests, on their way from the thread that reads them.

use fuser::{
    ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEntry, ReplyOpen, ReplyStatfs,
};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the kernel asks for, and where the answer goes. An answer that is dropped is EIO.
#[derive(Debug)]
pub(crate) enum Call {
    Lookup {
        parent: u64,
        name: Vec<u8>,
        reply: ReplyEntry,
    },
    Forget {
        number: u64,
        lookups: u64,
    },
    Attributes {
        number: u64,
        reply: ReplyAttr,
    },
    ReadLink {
        number: u64,
        reply: ReplyData,
    },
    Open {
        number: u64,
        reply: ReplyOpen,
    },
    Read {
        number: u64,
        offset: u64,
        len: u32,
        /// What the kernel had been told when it asked.
        begun: u64,
        reply: ReplyData,
    },
    List {
        number: u64,
        handle: u64,
        from: u64,
        reply: Listing,
    },
    CloseDirectory {
        handle: u64,
    },
    Space {
        number: u64,
        reply: ReplyStatfs,
    },
    /// The file system was unmounted.
    Unmounted,
}

/// A listing that the kernel fills: names only, or with attributes.
#[derive(Debug)]
pub(crate) enum Listing {
    Names(ReplyDirectory),
    Full(ReplyDirectoryPlus),
}

/// A queue between two threads.
#[derive(Debug)]
pub(crate) struct Calls {
    queue: Mutex<VecDeque<Call>>,
    /// Readable while there is something in it.
    wakes: OwnedFd,
}

impl Calls {
    pub(crate) fn new() -> std::io::Result<Self> {
        let wakes = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { queue: Mutex::default(), wakes })
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Call>> {
        // A thread that panicked while it held the lock cannot have left the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, call: Call) {
        let mut queue = self.queue();
        queue.push_back(call);
        if queue.len() == 1 {
            // It cannot fail: the counter is far from its end.
            let _ = rustix::io::write(&self.wakes, &1u64.to_ne_bytes());
        }
    }

    /// All that is in it.
    pub(crate) fn take(&self) -> VecDeque<Call> {
        let mut queue = self.queue();
        if !queue.is_empty() {
            // It holds what was written when the queue became longer than empty.
            let _ = rustix::io::read(&self.wakes, &mut [0; 8]);
        }
        std::mem::take(&mut *queue)
    }

    pub(crate) fn wakes(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }
}
