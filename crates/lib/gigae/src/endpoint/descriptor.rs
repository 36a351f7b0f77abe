//! What a program sleeps on.
//!
//! For each frame that arrives, the kernel walks through all that watch the link's socket. That
//! costs some 100 ns for each, on the processor that receives. So nothing watches the links before
//! the program wants the descriptor.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// See the module's description.
pub(super) struct Descriptor {
    links: Arc<[OwnedFd]>,
    /// The thread has taken in what the program may want.
    _wakeup: Option<OwnedFd>,
    /// Readable while one of them is.
    all: OwnedFd,
    is_wanted: Cell<bool>,
    /// Links that `all` has.
    watched: Cell<usize>,
}

impl Descriptor {
    pub(super) fn new(links: Arc<[OwnedFd]>, wakeup: Option<OwnedFd>) -> io::Result<Self> {
        let (is_wanted, watched) = (Cell::new(false), Cell::new(0));
        if let ([link], None) = (&*links, &wakeup) {
            // Sleeping on an AF_XDP socket itself also gives the kernel what it needs to wake us.
            let (all, watched) = (link.try_clone()?, Cell::new(1));
            return Ok(Self { links, _wakeup: wakeup, all, is_wanted, watched });
        }
        let all = epoll::create(CreateFlags::CLOEXEC)?;
        if let Some(wakeup) = &wakeup {
            epoll::add(&all, wakeup, EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(Self { links, _wakeup: wakeup, all, is_wanted, watched })
    }

    /// The descriptor. If the kernel refuses to watch a link, the next [`watch`](Self::watch) says
    /// so.
    pub(super) fn get(&self) -> BorrowedFd<'_> {
        self.is_wanted.set(true);
        let _ = self.watch();
        self.all.as_fd()
    }

    /// Watches the links, if the program wants the descriptor.
    pub(super) fn watch(&self) -> Result<(), Errno> {
        while let Some(link) = self.links.get(self.watched.get()).filter(|_| self.is_wanted.get()) {
            match epoll::add(&self.all, link, EventData::new_u64(0), EventFlags::IN) {
                // A child of fork(2) shares it, and may have been first.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            self.watched.set(self.watched.get() + 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

    #[test]
    fn a_lone_link_without_a_thread_is_the_descriptor_itself() {
        let link = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let all = Descriptor::new([link.try_clone().unwrap()].into(), None).unwrap();
        rustix::io::write(&link, &7_u64.to_ne_bytes()).unwrap();
        let mut value = [0; 8];
        rustix::io::read(all.get(), &mut value).unwrap();
        assert_eq!(u64::from_ne_bytes(value), 7);
    }

    #[test]
    fn links_are_watched_once_the_descriptor_is_wanted() {
        let link = || eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let ends = [link(), link()];
        let links = ends.each_ref().map(|end| end.try_clone().unwrap());
        let wakeup = link();
        let all = Descriptor::new(links.into(), Some(wakeup.try_clone().unwrap())).unwrap();
        let is_readable = || {
            let mut fds = [PollFd::from_borrowed_fd(all.all.as_fd(), PollFlags::IN)];
            poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
        };
        let set = |fd: &OwnedFd| rustix::io::write(fd, &1_u64.to_ne_bytes()).unwrap();
        let clear = |fd: &OwnedFd| rustix::io::read(fd, &mut [0; 8]).unwrap();
        set(&ends[1]);
        all.watch().unwrap();
        assert!(!is_readable(), "the program does not want it");
        set(&wakeup);
        assert!(is_readable());
        clear(&wakeup);
        let _ = all.get();
        assert!(is_readable(), "what came before counts, too");
        clear(&ends[1]);
        assert!(!is_readable());
        set(&ends[0]);
        let _ = all.get();
        all.watch().unwrap();
        assert!(is_readable());
    }
}
