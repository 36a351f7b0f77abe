//! What two threads share: the one that reads the kernel's requests, and the caller's.

use crate::answers::State;
use crate::calls::{Call, Calls};
use fuser::{Errno, Generation, ReplyAttr, ReplyEntry};
use gigae_share::{Inode, MAX_PATH, Want, join, valid_name};
use rustix::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A file system that is mounted. Its methods are those of a [`Caller`](gigae_share::Caller); the
/// kernel's requests come in by [`take_calls`](Self::take_calls).
#[derive(Debug)]
pub struct Mounted {
    calls: Arc<Calls>,
    state: Shared,
}

/// The state of both threads. It is locked for a moment only: nobody waits for the network with it.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<State>>);

impl Shared {
    pub(crate) fn new(state: State) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked while it held the lock ends the command, or the mount.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mounted {
    pub(crate) fn new(calls: Arc<Calls>, state: Shared) -> Self {
        Self { calls, state }
    }

    /// Readable when [`take_calls`](Self::take_calls) has something to do.
    pub fn wakes(&self) -> BorrowedFd<'_> {
        self.calls.wakes()
    }

    /// Whether it was unmounted.
    pub fn has_ended(&self) -> bool {
        self.state.lock().has_ended()
    }

    /// Whether the server did not answer the last question.
    pub fn is_silent(&self) -> bool {
        self.state.lock().caller.is_silent()
    }

    /// Takes the kernel's requests.
    pub fn take_calls(&mut self, now: Duration) {
        let calls = self.calls.take();
        self.state.lock().take_calls(now, calls);
    }

    /// What to do now.
    pub fn next(&mut self, now: Duration) -> Want {
        self.state.lock().next(now)
    }

    /// A reply has arrived.
    pub fn reply(&mut self, now: Duration, number: u32, message: &[u8]) {
        self.state.lock().reply(now, number, message);
    }

    /// A request, or the reply to it, was lost.
    pub fn unanswered(&mut self, number: u32) {
        self.state.lock().caller.unanswered(number);
    }

    /// The server was lost.
    pub fn lost(&mut self, now: Duration) {
        self.state.lock().caller.lost(now);
    }

    /// The end is near: programs write no more, and what they have written is sent.
    pub fn end(&mut self, now: Duration) {
        self.state.lock().end(now);
    }

    /// Whether everything that was written is at the server or has failed.
    pub fn is_written(&self) -> bool {
        self.state.lock().is_written()
    }

    /// A file, by its path in the share, to which not everything was written.
    pub fn trouble(&mut self) -> Option<(Vec<u8>, gigae_share::Fault)> {
        self.state.lock().trouble()
    }
}

impl State {
    /// Answers a look at a name, if it is known. Else returns where the answer goes, and the time.
    pub(crate) fn look_up(
        &mut self,
        parent: u64,
        name: &[u8],
        reply: ReplyEntry,
    ) -> Option<(ReplyEntry, Instant)> {
        let now = Instant::now();
        // Else paths change at this moment.
        if !self.order.is_alone() && self.is_short(parent, name) {
            if self.names.lacks(parent, name, now) {
                reply.error(Errno::ENOENT);
                return None;
            }
            if let Some((inode, left)) = self.listed(parent, name, now)
                && let Some(number) = self.inodes.found(parent, name, &inode)
            {
                reply.entry(&left, &self.attributes(number, &inode), Generation(0));
                return None;
            }
        }
        Some((reply, now))
    }

    /// Answers a question for the attributes of a directory, if they are known. Else returns where
    /// the answer goes.
    pub(crate) fn look_at(&mut self, number: u64, reply: ReplyAttr) -> Option<ReplyAttr> {
        match self.parents.known(number) {
            Some((inode, left)) if self.inodes.is(number, &inode) => {
                self.inodes.seen(number, &inode);
                reply.attr(&left, &self.attributes(number, &inode));
                None
            }
            _ => Some(reply),
        }
    }

    /// Whether the server can be asked for this name.
    fn is_short(&self, parent: u64, name: &[u8]) -> bool {
        let fits = |path: Vec<u8>| join(&path, name).len() <= MAX_PATH;
        valid_name(name) && self.inodes.path(parent).is_some_and(fits)
    }

    /// What a list says of a name: nothing, if the kernel knows the file, or has known it since.
    pub(crate) fn listed(
        &mut self,
        parent: u64,
        name: &[u8],
        now: Instant,
    ) -> Option<(Inode, Duration)> {
        self.forgets();
        let found = self.listings.known(parent, name, now);
        found.filter(|(inode, _)| self.inodes.id(inode.id).is_none())
    }

    /// The kernel has forgotten some files: what it had of them may be newer than what was listed.
    pub(crate) fn forgets(&mut self) {
        for number in self.inodes.take_gone() {
            self.listings.forget_directory(number);
            self.listings.file_changed(number);
            self.parents.forget(number);
        }
    }

    /// The server has said of a name alone what it is, for which a program has looked at this time,
    /// and the kernel did not know that file. After some of these, the directory is listed.
    pub(crate) fn looked(&mut self, now: Duration, directory: u64, at: Instant) {
        let size = self.inodes.told(directory).map_or(0, |(_, size)| size);
        if let Some(question) = self.listings.looked(directory, size, at) {
            self.begin(now, Call::Ahead(question));
        }
    }
}

#[cfg(test)]
mod tests;
