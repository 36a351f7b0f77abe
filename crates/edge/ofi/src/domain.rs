//! A domain: one NIC or several combined, and the endpoints of the library there, one for each of
//! the program's. Each is opened when it is first needed and closed with the last object that uses
//! it.

use crate::core::Core;
use crate::error::{Code, OfiResult};
use crate::lock::Threads;
use crate::object::{KeepAlive, lock};
use crate::region::Region;
use crate::request::Request;
use gigae::{Endpoint, OpenError, Rights};
use std::sync::{Arc, Mutex, Weak};

/// Opens an endpoint of the library.
pub(crate) type Opener = Box<dyn Fn() -> Result<Endpoint, OpenError> + Send + Sync>;

/// What the descriptor leads to.
pub(crate) struct Domain {
    opener: Opener,
    ports: Mutex<Ports>,
    /// What the program's threads do at the same time.
    pub(crate) threads: Threads,
    /// The program chooses the keys of registered memory.
    own_keys: bool,
    /// The fabric that opened it, unless a test did.
    _fabric: Option<KeepAlive>,
}

/// The library's endpoints, and the memory that is registered with all of them.
#[derive(Default)]
struct Ports {
    all: Vec<Weak<Core>>,
    regions: Vec<Weak<Region>>,
    /// The first one, if memory needed it. Programs may register and deregister before they open an
    /// endpoint, and opening takes long.
    kept: Option<Arc<Core>>,
}

impl Ports {
    /// Forgets closed endpoints.
    fn tidy(&mut self) {
        self.all.retain(|core| core.strong_count() > 0);
        self.regions.retain(|region| region.strong_count() > 0);
    }

    /// Opens one more endpoint. Registered memory can also be used through it.
    fn open(&mut self, opener: &Opener, threads: Threads) -> OfiResult<Arc<Core>> {
        // The code that the program gets says little.
        let endpoint = opener().inspect_err(|error| eprintln!("gigae: {error}"))?;
        let core = Core::new(endpoint, threads)?;
        for region in self.regions.iter().filter_map(Weak::upgrade) {
            region.join(&core)?;
        }
        self.all.push(Arc::downgrade(&core));
        Ok(core)
    }
}

impl Domain {
    /// A domain of a fabric, which stays open as long.
    pub(crate) fn new(
        opener: Opener,
        threads: Threads,
        own_keys: bool,
        fabric: Option<KeepAlive>,
    ) -> Self {
        Self { opener, ports: Mutex::default(), threads, own_keys, _fabric: fabric }
    }

    /// Refuses an object of another domain: what the program promised of its threads may differ.
    pub(crate) fn check(&self, of: &KeepAlive) -> OfiResult<()> {
        let (own, of) = (&raw const *self, Arc::as_ptr(of));
        if std::ptr::addr_eq(own, of) { Ok(()) } else { Err(Code::INVALID) }
    }

    /// The library's endpoint for one of the program's.
    pub(crate) fn take(&self) -> OfiResult<Arc<Core>> {
        let mut ports = lock(&self.ports);
        ports.tidy();
        // From now on the program's endpoint keeps it.
        match ports.kept.take() {
            Some(core) => Ok(core),
            None => ports.open(&self.opener, self.threads),
        }
    }

    /// The program's endpoint is being closed: no peer reaches memory through it any more.
    pub(crate) fn leave(&self, core: &Arc<Core>) {
        let mut ports = lock(&self.ports);
        ports.all.retain(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(core)));
        for region in ports.regions.iter().filter_map(Weak::upgrade) {
            region.leave(core);
        }
    }

    /// Calls this while no endpoint of the domain opens or closes. Both use all memory for a while,
    /// so at any other time an object's count of users says more than the program knows.
    pub(crate) fn still<T>(&self, call: impl FnOnce() -> T) -> T {
        let _ports = lock(&self.ports);
        call()
    }

    /// Registers memory with all endpoints of the library, at least one. `key` is the program's
    /// key; ignored if the library chooses keys.
    pub(crate) fn register(
        self: &Arc<Self>,
        memory: Box<Request>,
        rights: Rights,
        key: u64,
    ) -> OfiResult<Arc<Region>> {
        let mut ports = lock(&self.ports);
        ports.tidy();
        let first = match ports.all.iter().find_map(Weak::upgrade) {
            Some(core) => core,
            None => {
                let core = ports.open(&self.opener, self.threads)?;
                ports.kept = Some(Arc::clone(&core));
                core
            }
        };
        let key = self.own_keys.then_some(key);
        let region = Region::new(Arc::clone(self), &first, memory, rights, key)?;
        for core in ports.all.iter().filter_map(Weak::upgrade) {
            if !Arc::ptr_eq(&core, &first) {
                region.join(&core)?;
            }
        }
        let region = Arc::new(region);
        ports.regions.push(Arc::downgrade(&region));
        Ok(region)
    }
}
