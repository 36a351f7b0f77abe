//! The library's endpoint behind a lock, and how its completions reach the program.
//!
//! One lock per endpoint, taken once per operation and per poll for completions. The list of the
//! endpoints that report to a queue or counter has a lock that is held while they make progress, so
//! it comes before theirs. Entries of queues and values of counters have their own locks, which are
//! taken while an endpoint's is held and never the other way round.

use crate::error::Outcome;
use crate::object::lock;
use crate::state::EndpointState;
use gigae::{Address, Endpoint};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// See the module's description.
pub(crate) struct Core {
    state: Mutex<EndpointState>,
    /// A duplicate of the library's, once somebody wants to sleep.
    fd: OnceLock<Option<OwnedFd>>,
    pub(crate) address: Address,
}

impl Core {
    pub(crate) fn new(endpoint: Endpoint) -> Outcome<Arc<Self>> {
        let address = endpoint.identity().address;
        let state = Mutex::new(EndpointState::new(endpoint));
        Ok(Arc::new(Self { state, fd: OnceLock::new(), address }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, EndpointState> {
        lock(&self.state)
    }

    /// What to sleep on. Takes the endpoint's lock the first time.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        let own = || self.lock().endpoint.fd()?.try_clone_to_owned().ok();
        self.fd.get_or_init(own).as_ref().map(AsFd::as_fd)
    }

    /// Takes in what has arrived and reports ended operations.
    pub(crate) fn progress(&self) -> Outcome<()> {
        self.lock().progress()
    }

    /// How long the program may sleep on the descriptor.
    pub(crate) fn prepare_to_wait(&self) -> Outcome<Option<Duration>> {
        Ok(self.lock().endpoint.prepare_to_wait()?)
    }
}
