//! The state of a libfabric endpoint: the library's endpoint, and the objects that are bound to it.

use crate::av::Vector;
use crate::core::Core;
use crate::counter::Counter;
use crate::cq::Queue;
use crate::domain::Domain;
use crate::error::{Code, OfiResult};
use crate::object::{KeepAlive, lock};
use crate::sys;
use std::sync::{Arc, Mutex};

/// The objects that are bound to an endpoint. They are not closed before it.
#[derive(Default)]
struct Bound {
    vector: Option<Arc<Vector>>,
    queues: Vec<Arc<Queue>>,
    counters: Vec<Arc<Counter>>,
    others: Vec<KeepAlive>,
}

/// What the descriptor leads to.
pub(crate) struct Ep {
    // Before the library's endpoint, whose link may take long to close.
    bound: Mutex<Bound>,
    pub(crate) core: Arc<Core>,
    domain: Arc<Domain>,
}

impl Ep {
    pub(crate) fn new(core: Arc<Core>, domain: Arc<Domain>) -> Self {
        Self { bound: Mutex::default(), core, domain }
    }

    /// Names peers by their numbers in this vector.
    pub(crate) fn bind_vector(&self, vector: &Arc<Vector>) {
        self.core.lock().peers.vector = Some(Arc::clone(&vector.addresses));
        lock(&self.bound).vector = Some(Arc::clone(vector));
    }

    /// Reports operations to this queue: sends, receives, or both.
    pub(crate) fn bind_queue(&self, queue: &Arc<Queue>, flags: u64) -> OfiResult<()> {
        let known = sys::FI_TRANSMIT | sys::FI_RECV | sys::FI_SELECTIVE_COMPLETION;
        if flags & !known != 0 || flags & (sys::FI_TRANSMIT | sys::FI_RECV) == 0 {
            return Err(Code::INVALID);
        }
        self.domain.check(&queue.domain)?;
        let selective = flags & sys::FI_SELECTIVE_COMPLETION != 0;
        {
            let reports = &mut self.core.lock().reports;
            let (sends, receives) = (flags & sys::FI_TRANSMIT != 0, flags & sys::FI_RECV != 0);
            if sends && reports.tx.is_some() || receives && reports.rx.is_some() {
                return Err(Code::INVALID);
            }
            let completions = || Some(Arc::clone(&queue.completions));
            if sends {
                (reports.tx, reports.tx_selective) = (completions(), selective);
            }
            if receives {
                (reports.rx, reports.rx_selective) = (completions(), selective);
            }
        }
        lock(&self.bound).queues.push(Arc::clone(queue));
        queue.sources.follow(&self.core, queue.wait())
    }

    /// Counts operations with this counter, and what peers do with memory here.
    pub(crate) fn bind_counter(&self, counter: &Arc<Counter>, flags: u64) -> OfiResult<()> {
        let known = sys::FI_SEND | sys::FI_RECV | sys::FI_READ | sys::FI_WRITE | REMOTE;
        if flags & !known != 0 {
            return Err(Code::INVALID);
        }
        self.domain.check(&counter.domain)?;
        {
            let mut state = self.core.lock();
            if flags & REMOTE != 0 {
                state.count_accesses();
            }
            state.reports.counters.push((flags, Arc::clone(&counter.count)));
        }
        lock(&self.bound).counters.push(Arc::clone(counter));
        counter.follow(&self.core)
    }

    /// Ends the use of all other objects. May be called again.
    pub(crate) fn leave(&self) {
        self.core.lock().detach();
        let bound = lock(&self.bound);
        for queue in &bound.queues {
            queue.sources.leave(&self.core, queue.wait());
        }
        for counter in &bound.counters {
            counter.leave(&self.core);
        }
        drop(bound);
        // No other object or thread has it then: dropping this closes its link.
        self.domain.leave(&self.core);
    }

    /// Keeps another object open as long as the endpoint.
    pub(crate) fn keep(&self, object: KeepAlive) {
        lock(&self.bound).others.push(object);
    }
}

/// What peers do with memory here.
const REMOTE: u64 = sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE;

impl Drop for Ep {
    fn drop(&mut self) {
        // It was not closed by the program, or there is nothing left to do.
        self.leave();
    }
}
