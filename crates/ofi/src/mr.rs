//! Memory that peers may use: registered with the domain's endpoint, under a key that the library
//! chooses. Places in it are counted from its beginning.

use crate::core::Core;
use crate::domain::Domain;
use crate::error::{Code, Outcome, Stub, status};
use crate::object::{self, descriptor};
use crate::request::{Request, one};
use crate::sys::{self, fi_mr_attr, fi_ops, fi_ops_mr, fid, fid_domain, fid_mr, iovec};
use gigae::{RegionKey, Rights};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// What the descriptor leads to.
pub(crate) struct Region {
    core: Arc<Core>,
    key: RegionKey,
}

impl Drop for Region {
    fn drop(&mut self) {
        let mut state = self.core.lock();
        state.regions -= 1;
        drop(state.endpoint.deregister(self.key));
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
        let core = domain.core()?;
        let key = {
            let mut state = core.lock();
            let key = state.endpoint.register(memory.into_memory(), rights)?;
            state.regions += 1;
            key
        };
        let fid = descriptor(sys::FI_CLASS_MR, context, &OPS);
        let descriptor = fid_mr { fid, mem_desc: null_mut(), key: key.0 };
        object::open(descriptor, Arc::new(Region { core, key }), mr)
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
    _key: u64,
    _flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { register(domain, (&one(buf, len), 1), access, context, mr) })
}

unsafe extern "C" fn regv(
    domain: *mut fid,
    pieces: *const iovec,
    count: usize,
    access: u64,
    _offset: u64,
    _key: u64,
    _flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { register(domain, (pieces, count), access, context, mr) })
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
        register(domain, (attr.mr_iov, attr.iov_count), attr.access, attr.context, mr)
    })
}

/// Binding is not needed: an endpoint is as good as a queue, and counters of a region are not there.
unsafe extern "C" fn bind(_mr: *mut fid, other: *mut fid, _flags: u64) -> c_int {
    // SAFETY: the caller's promise.
    status(|| match unsafe { other.as_ref() } {
        Some(fid) if fid.fclass == sys::FI_CLASS_EP as usize => Ok(()),
        Some(_) => Err(Code::NO_SYS),
        None => Err(Code::INVALID),
    })
}

/// Enabling is not needed.
unsafe extern "C" fn control(_mr: *mut fid, command: c_int, _arg: *mut c_void) -> c_int {
    status(|| match u32::try_from(command) {
        Ok(sys::FI_ENABLE | sys::FI_REFRESH) => Ok(()),
        _ => Err(Code::NO_SYS),
    })
}
