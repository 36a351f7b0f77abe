//! Waiting for the disk, in threads: others are answered meanwhile.

use crate::fault::of_change;
use gigae_share::{Done, Fault};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::fsync;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Threads that wait at the same time.
const MOST_THREADS: usize = 4;

/// Files that wait for a thread. Each is open; a process may have 1024.
const MOST_WAITING: usize = 64;

/// What has ended, with its number.
type Ended = (u64, Result<(), Errno>);

/// Files that are synced.
#[derive(Debug)]
pub(crate) struct Syncs {
    /// Readable when something has ended.
    wakes: Arc<OwnedFd>,
    ends: Sender<Ended>,
    ended: Receiver<Ended>,
    waiting: VecDeque<(u64, OwnedFd)>,
    running: usize,
}

/// A file that was to be synced.
#[derive(Debug)]
pub struct Synced {
    /// Which one.
    pub work: u64,
    /// How that has ended.
    pub result: Result<Done, Fault>,
    /// Bytes that were written before may be lost.
    pub is_lost: bool,
}

impl Syncs {
    pub(crate) fn new() -> std::io::Result<Self> {
        let wakes = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (ends, ended) = channel();
        Ok(Self { wakes, ends, ended, waiting: VecDeque::new(), running: 0 })
    }

    /// Readable when something [has ended](Self::ended), while something goes on.
    pub(crate) fn wakes(&self) -> Option<BorrowedFd<'_>> {
        (self.running > 0).then(|| self.wakes.as_fd())
    }

    pub(crate) fn begin(&mut self, work: u64, file: OwnedFd) -> Result<(), Fault> {
        if self.waiting.len() >= MOST_WAITING {
            return Err(Fault::Busy);
        }
        self.waiting.push_back((work, file));
        self.start();
        Ok(())
    }

    fn start(&mut self) {
        while self.running < MOST_THREADS
            && let Some((work, file)) = self.waiting.pop_front()
        {
            self.running += 1;
            let (ends, wakes) = (self.ends.clone(), Arc::clone(&self.wakes));
            let sync = move || {
                let result = fsync(&file);
                drop(file);
                // They fail only if nobody waits any more.
                let _ = ends.send((work, result));
                let _ = rustix::io::write(&*wakes, &1u64.to_ne_bytes());
            };
            if std::thread::Builder::new().name("fsync".into()).spawn(sync).is_err() {
                let _ = self.ends.send((work, Err(Errno::AGAIN)));
                let _ = rustix::io::write(&*self.wakes, &1u64.to_ne_bytes());
            }
        }
    }

    /// What has ended since.
    pub(crate) fn ended(&mut self) -> Vec<Synced> {
        if self.running == 0 {
            return Vec::new();
        }
        let _ = rustix::io::read(&*self.wakes, &mut [0; 8]);
        let ended: Vec<Ended> = self.ended.try_iter().collect();
        self.running -= ended.len();
        self.start();
        let synced = |(work, result): Ended| Synced {
            work,
            result: result.map(|()| Done::default()).map_err(of_change),
            // The others say that nothing was tried.
            is_lost: result.is_err_and(|error| {
                !matches!(error, Errno::INVAL | Errno::ROFS | Errno::AGAIN | Errno::INTR)
            }),
        };
        ended.into_iter().map(synced).collect()
    }
}
