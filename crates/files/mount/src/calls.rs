//! The kernel's requests, on their way from the thread that reads them.

use crate::edits::{Edit, EditReply, Name};
use crate::listings::Question;
use crate::parents::Begun;
use fuser::{
    ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite,
};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What the kernel asks for, and where the answer goes. An answer that is dropped is EIO.
#[derive(Debug)]
pub(crate) enum Call {
    Lookup {
        parent: u64,
        name: Vec<u8>,
        /// When a program looked at it.
        at: Instant,
        /// The file's stamp when the server was asked.
        begun: u64,
        reply: ReplyEntry,
    },
    Forget {
        number: u64,
        lookups: u64,
    },
    Attributes {
        number: u64,
        /// The same.
        begun: u64,
        reply: ReplyAttr,
    },
    ReadLink {
        number: u64,
        reply: ReplyData,
    },
    Open {
        number: u64,
        /// To write to it.
        write: bool,
        truncate: bool,
        reply: ReplyOpen,
    },
    Read {
        number: u64,
        offset: u64,
        len: u32,
        /// What the kernel had been told when it asked.
        begun: u64,
        /// How often it was asked again.
        tries: u32,
        reply: ReplyData,
    },
    Write {
        number: u64,
        offset: u64,
        data: Vec<u8>,
        reply: ReplyWrite,
    },
    /// A program closes a file, which others may have open, too.
    Flush {
        number: u64,
        reply: ReplyEmpty,
    },
    /// A file is closed.
    Release {
        number: u64,
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
    /// Nobody waits for it: a directory in which programs look at names is listed.
    Ahead(Question),
    Space {
        number: u64,
        reply: ReplyStatfs,
    },
    Edit(Edit, EditReply, Begun),
    /// This part of a file was sent, which nobody waits for.
    Sent {
        number: u64,
        place: u64,
    },
    /// A name of a file is removed that nobody has open any more.
    Unhide {
        number: u64,
        /// The server's number for it.
        id: u64,
        name: Name,
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

#[derive(Debug, Default)]
struct Queue {
    calls: VecDeque<Call>,
    /// The other thread was woken, and has not taken them.
    is_woken: bool,
}

/// A queue between two threads.
#[derive(Debug)]
pub(crate) struct Calls {
    queue: Mutex<Queue>,
    /// Readable while there is something in it that somebody waits for.
    wakes: OwnedFd,
    /// Everything that was written is at the server.
    is_clean: AtomicBool,
}

impl Calls {
    pub(crate) fn new() -> std::io::Result<Self> {
        let wakes = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { queue: Mutex::default(), wakes, is_clean: AtomicBool::new(true) })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A thread that panicked while it held the lock cannot have left the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, call: Call) {
        let mut queue = self.queue();
        queue.calls.push_back(call);
        if !std::mem::replace(&mut queue.is_woken, true) {
            // It cannot fail: the counter is far from its end.
            let _ = rustix::io::write(&self.wakes, &1u64.to_ne_bytes());
        }
    }

    /// The same for what nobody waits for: it is taken with the next call, or after a while.
    pub(crate) fn put_quietly(&self, call: Call) {
        self.queue().calls.push_back(call);
    }

    /// All that is in it.
    pub(crate) fn take(&self) -> VecDeque<Call> {
        let mut queue = self.queue();
        if std::mem::take(&mut queue.is_woken) {
            // It holds what was written when the other thread was woken.
            let _ = rustix::io::read(&self.wakes, &mut [0; 8]);
        }
        std::mem::take(&mut queue.calls)
    }

    /// Says whether everything is at the server, before a program learns that it has written.
    pub(crate) fn set_clean(&self, is_clean: bool) {
        self.is_clean.store(is_clean, Ordering::Release);
    }

    /// Whether nothing that a program was told to be written is anywhere but at the server.
    pub(crate) fn is_clean(&self) -> bool {
        self.is_clean.load(Ordering::Acquire)
    }

    pub(crate) fn wakes(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }
}
