//! The library's endpoint behind a lock, and how its completions reach the program.
//!
//! One lock per endpoint, taken once per operation and per poll for completions. The list of the
//! endpoints that report to a queue or counter has a lock that is held while they make progress, so
//! it comes before theirs. Entries of queues and values of counters have their own locks, which are
//! taken while an endpoint's is held and never the other way round.

use crate::error::{Code, Outcome};
use crate::object::lock;
use crate::state::EndpointState;
use gigae::{Address, Endpoint};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// See the module's description.
pub(crate) struct Core {
    state: Mutex<EndpointState>,
    fd: Option<OwnedFd>,
    pub(crate) address: Address,
}

impl Core {
    pub(crate) fn new(endpoint: Endpoint) -> Outcome<Arc<Self>> {
        let fd =
            endpoint.fd().map(|fd| fd.try_clone_to_owned()).transpose().map_err(|_| Code::IO)?;
        let address = endpoint.identity().address;
        Ok(Arc::new(Self { state: Mutex::new(EndpointState::new(endpoint)), fd, address }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, EndpointState> {
        lock(&self.state)
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn has_fd(&self) -> bool {
        self.fd.is_some()
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
