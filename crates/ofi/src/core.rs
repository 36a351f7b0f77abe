//! The endpoint of the library behind a lock, and the way from its completions to the caller's.
//!
//! One lock per endpoint, taken once per operation and per look for completions. The list of the endpoints that report to a
//! queue or counter has a lock that is held while they make progress, so it comes before theirs; entries of queues and
//! values of counters have locks of their own, which are taken under an endpoint's and never the other way round.

use crate::error::{Code, Outcome};
use crate::object::lock;
use crate::state::State;
use gigae::{Address, Endpoint};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the progress thread sleeps at most, and between two looks while the program makes progress
/// itself.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
const PATROL: Duration = Duration::from_millis(1);

/// See the module's description.
pub(crate) struct Core {
    state: Mutex<State>,
    fd: Option<OwnedFd>,
    pub(crate) address: Address,
    /// How often the program has looked for completions.
    looks: AtomicU64,
    stop: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Core {
    pub(crate) fn new(endpoint: Endpoint) -> Outcome<Arc<Self>> {
        let fd =
            endpoint.fd().map(|fd| fd.try_clone_to_owned()).transpose().map_err(|_| Code::IO)?;
        let address = endpoint.identity().address;
        Ok(Arc::new(Self {
            state: Mutex::new(State::new(endpoint)),
            fd,
            address,
            looks: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            thread: Mutex::new(None),
        }))
    }

    /// Starts a thread that makes progress while the program makes none.
    pub(crate) fn work(self: &Arc<Self>) -> Outcome<()> {
        self.stop.store(false, Ordering::Relaxed);
        let core = Arc::clone(self);
        let thread = std::thread::Builder::new().name("gigae-fi".into());
        let thread = thread.spawn(move || core.patrol()).map_err(|_| Code::OTHER)?;
        *lock(&self.thread) = Some(thread);
        Ok(())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn has_fd(&self) -> bool {
        self.fd.is_some()
    }

    /// Takes in what has arrived and reports what has ended.
    pub(crate) fn progress(&self) -> Outcome<()> {
        // Two threads may count one look between them, which is as good.
        self.looks.store(self.looks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.lock().progress()
    }

    /// How long the program may sleep on the descriptor.
    pub(crate) fn prepare_to_wait(&self) -> Outcome<Option<Duration>> {
        Ok(self.lock().endpoint.prepare_to_wait()?)
    }

    /// Ends that thread, if there is one.
    pub(crate) fn rest(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = lock(&self.thread).take() {
            // It does not panic but where the library would anyhow.
            let _ = thread.join();
        }
    }

    /// Makes progress while nobody else does.
    fn patrol(&self) {
        let mut seen = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let looks = self.looks.load(Ordering::Relaxed);
            if looks != seen {
                seen = looks;
                std::thread::sleep(PATROL);
                continue;
            }
            // What does not work shows in the program's own calls.
            let left = {
                let mut state = self.lock();
                let _ = state.progress();
                state.endpoint.prepare_to_wait().unwrap_or_default()
            };
            let left = left.map_or(LONGEST_SLEEP, |left| left.min(LONGEST_SLEEP));
            match &self.fd {
                Some(fd) => {
                    let time = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos() as _ };
                    let _ = poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&time));
                }
                None => std::thread::sleep(left.min(PATROL)),
            }
        }
    }
}
