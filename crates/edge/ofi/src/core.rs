//! The endpoint of the library behind a lock, and the way from its completions to the caller's.
//!
//! One lock per endpoint, taken once per operation and per look for completions. The list of the endpoints that report to a
//! queue or counter has a lock that is held while they make progress, so it comes before theirs; entries of queues and
//! values of counters have locks of their own, which are taken under an endpoint's and never the other way round.

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

    /// Takes in what has arrived and reports what has ended.
    pub(crate) fn progress(&self) -> Outcome<()> {
        self.lock().progress()
    }

    /// How long the program may sleep on the descriptor.
    pub(crate) fn prepare_to_wait(&self) -> Outcome<Option<Duration>> {
        Ok(self.lock().endpoint.prepare_to_wait()?)
    }
}
