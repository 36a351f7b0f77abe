//! How the process's thread wakes a program that sleeps on its own.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;

/// The descriptor that wakes the program, and whether the program watches it.
#[derive(Default)]
pub(super) struct Wakeup {
    /// Made readable when the program, which sleeps on its own, may want something: created on
    /// demand.
    descriptor: Option<OwnedFd>,
    /// The program may want something and has not looked since: the descriptor is readable.
    readable: bool,
    /// The call of the program that said that it would sleep on the endpoint's descriptor: that is
    /// so until the next.
    watched_from: Option<u32>,
    /// Turns of the thread since the endpoint was opened.
    pub(super) turns: u64,
}

impl Wakeup {
    /// A descriptor that polls readable when the program should look. Two system calls.
    pub(super) fn descriptor(&mut self) -> io::Result<OwnedFd> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        self.descriptor = Some(descriptor.try_clone()?);
        Ok(descriptor)
    }

    /// The program is about to sleep on the endpoint's descriptor. Its call will have left as
    /// number `calls`. Whether the thread has taken in something since the last time.
    pub(super) fn watch_from(&mut self, calls: u32) -> bool {
        self.watched_from = Some(calls);
        let came = std::mem::take(&mut self.readable);
        if came && let Some(descriptor) = &self.descriptor {
            let _ = rustix::io::read(descriptor, &mut [0; 8]);
        }
        came
    }

    /// Whether the program said in its last call, of this number, that it would sleep there.
    pub(super) fn is_watched(&self, calls: u32) -> bool {
        self.watched_from == Some(calls)
    }

    /// Whether the descriptor is readable: the program has not looked since.
    pub(super) fn is_readable(&self) -> bool {
        self.readable
    }

    /// Makes the descriptor readable.
    pub(super) fn wake_program(&mut self) {
        // The descriptor is the endpoint's own, and its counter is zero.
        let write = |fd: &OwnedFd| rustix::io::write(fd, &1_u64.to_ne_bytes()).is_ok();
        self.readable = self.descriptor.as_ref().is_none_or(write);
    }
}
