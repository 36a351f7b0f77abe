//! The library's endpoint behind a lock, and how its completions reach the program.
//!
//! One [lock](crate::lock) per endpoint, taken once per operation and per poll for completions. The
//! list of the endpoints that report to a queue or counter has a lock that is held while they make
//! progress, so it comes before theirs. Entries of queues have their own lock, which is taken while
//! an endpoint's is held and never the other way round. A domain's lock comes before all of these.

use crate::completions::ReadArray;
use crate::error::OfiResult;
use crate::lock::{Guard, Lock, Threads};
use crate::state::EndpointState;
use crate::wait::WaitObject;
use gigae::{Address, Endpoint};
use std::sync::Arc;
use std::time::Duration;

/// See the module's description.
pub(crate) struct Core {
    state: Lock<EndpointState>,
    pub(crate) address: Address,
}

impl Core {
    pub(crate) fn new(endpoint: Endpoint, threads: Threads) -> OfiResult<Arc<Self>> {
        let address = endpoint.identity().address;
        // SAFETY: the program promised it when it asked for its threading model.
        let state = unsafe { Lock::new(threads, EndpointState::new(endpoint)) };
        Ok(Arc::new(Self { state, address }))
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> Guard<'_, EndpointState> {
        self.state.lock()
    }

    /// For a call that concerns all endpoints of the domain.
    pub(crate) fn visit(&self) -> Guard<'_, EndpointState> {
        self.state.visit()
    }

    /// Has a queue or counter wake for this endpoint, if it has a descriptor.
    pub(crate) fn wake(&self, wait: &WaitObject) -> OfiResult<()> {
        self.lock().endpoint.fd().map_or(Ok(()), |fd| wait.watch(fd))
    }

    /// Ends that.
    pub(crate) fn wake_no_more(&self, wait: &WaitObject) {
        if let Some(fd) = self.lock().endpoint.fd() {
            wait.unwatch(fd);
        }
    }

    /// Whether it has a descriptor to sleep on.
    pub(crate) fn has_fd(&self) -> bool {
        self.lock().endpoint.fd().is_some()
    }

    /// Takes in what has arrived and reports ended operations.
    #[inline(always)]
    pub(crate) fn progress(&self, array: &mut ReadArray<'_>) -> OfiResult<()> {
        self.lock().progress(array)
    }

    /// How long the program may sleep on the descriptor.
    pub(crate) fn prepare_to_wait(&self) -> OfiResult<Option<Duration>> {
        let mut state = self.lock();
        // An access of a peer brings no completion, and another call may have taken it in. Before
        // the endpoint prepares: to count is a look, which may take in more.
        state.count_remote();
        Ok(state.endpoint.prepare_to_wait()?)
    }
}
