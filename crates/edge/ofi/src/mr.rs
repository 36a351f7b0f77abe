//! Memory that peers may use: registered with all endpoints of the domain, under one key, which the
//! library chooses or, if the program does not ask for such keys (`FI_MR_PROV_KEY`), the program. Places
//! in it are counted from its beginning.

use crate::core::Core;
use crate::counter::Counter;
use crate::domain::Domain;
use crate::ep::Ep;
use crate::error::{Code, Outcome, Stub, status};
use crate::object::{self, descriptor, inner, lock};
use crate::request::{Request, one};
use crate::sys::{
    self, fi_mr_attr, fi_ops, fi_ops_mr, fid, fid_cntr, fid_domain, fid_ep, fid_mr, iovec,
};
use gigae::{RegionKey, Rights};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

/// What the descriptor leads to.
pub(crate) struct Region {
    key: RegionKey,
    /// What it is registered with at one more endpoint.
    memory: Mutex<Box<Request>>,
    rights: Rights,
    cores: Mutex<Vec<Arc<Core>>>,
    /// Counts what peers write here.
    counters: Mutex<Vec<Arc<Counter>>>,
    _domain: Arc<Domain>,
}

impl Region {
    /// Registers memory with the first endpoint of a domain, under this key or one of the library's.
    pub(crate) fn new(
        (domain, core): (Arc<Domain>, &Arc<Core>),
        memory: Box<Request>,
        rights: Rights,
        key: Option<u64>,
    ) -> Outcome<Self> {
        let (cores, counters, _domain) = (Mutex::default(), Mutex::default(), domain);
        if let Some(key) = key.map(RegionKey) {
            let memory = Mutex::new(memory);
            let region = Self { key, memory, rights, cores, counters, _domain };
            return region.join(core).map(|()| region);
        }
        let mut state = core.lock();
        let key = state.endpoint.register(memory.again().into_memory(), rights)?;
        state.regions += 1;
        let cores = Mutex::new(vec![Arc::clone(core)]);
        Ok(Self { key, memory: Mutex::new(memory), rights, cores, counters, _domain })
    }

    /// Registers the memory with one more endpoint.
    pub(crate) fn join(&self, core: &Arc<Core>) -> Outcome<()> {
        let mut state = core.lock();
        if state.endpoint.region_writes(self.key).is_some() {
            return Err(Code::KEY);
        }
        state.endpoint.register_as(
            self.key,
            lock(&self.memory).again().into_memory(),
            self.rights,
        )?;
        state.regions += 1;
        drop(state);
        lock(&self.cores).push(Arc::clone(core));
        for counter in lock(&self.counters).iter() {
            core.lock().watch(self.key, counter);
            counter.follow(core)?;
        }
        Ok(())
    }

    /// Counts what peers write here from now on.
    fn count(&self, counter: &Arc<Counter>) -> Outcome<()> {
        // One of these locks at a time.
        let cores = lock(&self.cores).clone();
        for core in &cores {
            core.lock().watch(self.key, counter);
            counter.follow(core)?;
        }
        lock(&self.counters).push(Arc::clone(counter));
        Ok(())
    }
}

impl Region {
    /// An endpoint goes, or the memory.
    pub(crate) fn leave(&self, core: &Arc<Core>) {
        let mut cores = lock(&self.cores);
        let Some(at) = cores.iter().position(|known| Arc::ptr_eq(known, core)) else { return };
        cores.remove(at);
        drop(cores);
        let mut state = core.lock();
        state.count_remote();
        state.regions -= 1;
        state.unwatch(self.key);
        drop(state.endpoint.deregister(self.key));
        drop(state);
        // A counter of the endpoint's own still follows it.
        for counter in lock(&self.counters).iter() {
            if !core.lock().is_counted_by(counter) {
                counter.leave(core);
            }
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let cores = lock(&self.cores).clone();
        for core in &cores {
            self.leave(core);
        }
    }
}

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(object::close_entry::<fid_mr, Region>),
    bind: Some(bind),
    control: Some(control),
    ops_open: Stub::NONE,
    tostr: Stub::NONE,
    ops_set: Stub::NONE,
};

pub(crate) static MR_OPS: fi_ops_mr = fi_ops_mr {
    size: size_of::<fi_ops_mr>(),
    reg: Some(reg),
    regv: Some(regv),
    regattr: Some(regattr),
};

/// # Safety
/// `mr` is NULL or points to a writable pointer; the memory stays until the region is closed.
unsafe fn register(
    domain: *mut fid,
    pieces: (*const iovec, usize),
    access: u64,
    key: u64,
    context: *mut c_void,
    mr: *mut *mut fid_mr,
) -> Outcome<()> {
    // SAFETY: the caller's promise.
    unsafe {
        let domain = object::of_class::<fid_domain, Domain>(domain, sys::FI_CLASS_DOMAIN)?;
        let mut memory = Request::new();
        memory.lend(pieces.0, pieces.1)?;
        let mut rights = Rights::NONE;
        if access & sys::FI_REMOTE_READ != 0 {
            rights = rights.with(Rights::READ);
        }
        if access & sys::FI_REMOTE_WRITE != 0 {
            rights = rights.with(Rights::WRITE).with(Rights::ATOMIC);
        }
        let region = Domain::register(domain, memory, rights, key)?;
        let fid = descriptor(sys::FI_CLASS_MR, context, &OPS);
        let descriptor = fid_mr { fid, mem_desc: null_mut(), key: region.key.0 };
        object::open(descriptor, region, mr)
    }
}

/// # Safety
/// As the interface says, as for all entries that follow.
unsafe extern "C" fn reg(
    domain: *mut fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    _offset: u64,
    key: u64,
    _flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { register(domain, (&one(buf, len), 1), access, key, context, mr) })
}

unsafe extern "C" fn regv(
    domain: *mut fid,
    pieces: *const iovec,
    count: usize,
    access: u64,
    _offset: u64,
    key: u64,
    _flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { register(domain, (pieces, count), access, key, context, mr) })
}

unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    _flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let attr = attr.as_ref().ok_or(Code::INVALID)?;
        let pieces = (attr.mr_iov, attr.iov_count);
        register(domain, pieces, attr.access, attr.requested_key, attr.context, mr)
    })
}

/// An endpoint need not be bound: each of the domain's will do. One that is bound keeps the memory from being closed
/// before it. A counter counts what peers write; what
/// they read is counted for an endpoint only.
unsafe extern "C" fn bind(mr: *mut fid, other: *mut fid, flags: u64) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        match other.as_ref().ok_or(Code::INVALID)?.fclass as u32 {
            sys::FI_CLASS_EP => {
                let region = object::of_class::<fid_mr, Region>(mr, sys::FI_CLASS_MR)?;
                let ep = inner::<_, Ep>(other.cast::<fid_ep>())?;
                ep.core.lock().binding.regions.push(Arc::clone(region));
                Ok(())
            }
            sys::FI_CLASS_CNTR if flags == sys::FI_REMOTE_WRITE => {
                let region = object::of_class::<fid_mr, Region>(mr, sys::FI_CLASS_MR)?;
                region.count(inner::<_, Counter>(other.cast::<fid_cntr>())?)
            }
            _ => Err(Code::NO_SYS),
        }
    })
}

/// Enabling is not needed.
unsafe extern "C" fn control(_mr: *mut fid, command: c_int, _arg: *mut c_void) -> c_int {
    status(|| match u32::try_from(command) {
        Ok(sys::FI_ENABLE | sys::FI_REFRESH) => Ok(()),
        _ => Err(Code::NO_SYS),
    })
}
