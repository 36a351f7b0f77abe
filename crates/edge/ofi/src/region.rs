//! A memory that peers may use: registered with all endpoints of a domain, under one key.
//!
//! The list of the endpoints is used only while the domain is held [still](Domain::still). So
//! nothing here keeps an endpoint open that another thread closes.

use crate::core::Core;
use crate::counter::Counter;
use crate::domain::Domain;
use crate::error::{Code, OfiResult};
use crate::lock::Threads;
use crate::object::lock;
use crate::request::Request;
use gigae::{RegionKey, Rights};
use std::sync::{Arc, Mutex};

/// What the descriptor leads to.
pub(crate) struct Region {
    pub(crate) key: RegionKey,
    /// For registering it with one more endpoint.
    memory: Mutex<Box<Request>>,
    rights: Rights,
    cores: Mutex<Vec<Arc<Core>>>,
    /// Counters of what peers write here.
    counters: Mutex<Vec<Arc<Counter>>>,
    pub(crate) domain: Arc<Domain>,
}

impl Region {
    /// Registers memory with the first endpoint of a domain, under this key or one that the library
    /// chooses.
    pub(crate) fn new(
        domain: Arc<Domain>,
        core: &Arc<Core>,
        memory: Box<Request>,
        rights: Rights,
        key: Option<u64>,
    ) -> OfiResult<Self> {
        let (cores, counters) = (Mutex::default(), Mutex::default());
        if let Some(key) = key.map(RegionKey) {
            let memory = Mutex::new(memory);
            let region = Self { key, memory, rights, cores, counters, domain };
            return region.join(core).map(|()| region);
        }
        let mut state = core.visit();
        let key = state.register(None, memory.again().into_memory(), rights)?;
        let cores = Mutex::new(vec![Arc::clone(core)]);
        Ok(Self { key, memory: Mutex::new(memory), rights, cores, counters, domain })
    }

    /// Registers the memory with one more endpoint.
    pub(crate) fn join(&self, core: &Arc<Core>) -> OfiResult<()> {
        let mut state = core.visit();
        if state.endpoint.region_writes(self.key).is_some() {
            return Err(Code::KEY);
        }
        let memory = lock(&self.memory).again().into_memory();
        state.register(Some(self.key), memory, self.rights)?;
        drop(state);
        lock(&self.cores).push(Arc::clone(core));
        for counter in lock(&self.counters).iter() {
            core.visit().watch(self.key, &counter.count);
            counter.follow(core)?;
        }
        Ok(())
    }

    /// Counts what peers write here from now on.
    pub(crate) fn count(&self, counter: &Arc<Counter>) -> OfiResult<()> {
        self.domain.check(&counter.domain)?;
        if self.domain.threads == Threads::Completion {
            // The program did not ask for it: [`Threads::promised`].
            return Err(Code::NO_SYS);
        }
        self.domain.still(|| {
            lock(&self.counters).push(Arc::clone(counter));
            // Holds only one of these locks at a time.
            let cores = lock(&self.cores).clone();
            cores.iter().try_for_each(|core| {
                core.visit().watch(self.key, &counter.count);
                counter.follow(core)
            })
        })
    }

    /// The memory is closed. May be called again.
    pub(crate) fn leave_all(&self) {
        let cores = lock(&self.cores).clone();
        for core in &cores {
            self.leave(core);
        }
    }

    /// An endpoint is closed, or the memory.
    pub(crate) fn leave(&self, core: &Arc<Core>) {
        if !lock(&self.cores).iter().any(|known| Arc::ptr_eq(known, core)) {
            return;
        }
        core.visit().deregister(self.key);
        lock(&self.cores).retain(|known| !Arc::ptr_eq(known, core));
        // A counter of the endpoint itself still follows it.
        for counter in lock(&self.counters).iter() {
            if !core.visit().is_counted_by(&counter.count) {
                counter.leave(core);
            }
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // It was not closed by the program, or there is nothing left to do.
        self.leave_all();
    }
}
