//! Memory regions: memory that peers may use, under a key. The library chooses the key, or the
//! program if it does not ask for the library's keys (`FI_MR_PROV_KEY`). Offsets count from the
//! beginning of the memory.

use crate::counter::Counter;
use crate::domain::Domain;
use crate::endpoint::Ep;
use crate::error::{Code, OfiResult, Stub, status};
use crate::object::{self, descriptor, inner};
use crate::region::Region;
use crate::request::{IoVecs, Request, one};
use crate::sys::{
    self, fi_mr_attr, fi_ops, fi_ops_mr, fid, fid_cntr, fid_domain, fid_ep, fid_mr, iovec,
};
use gigae::Rights;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(close),
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

/// The arguments of a registration.
struct Registration {
    memory: IoVecs,
    access: u64,
    key: u64,
    context: *mut c_void,
}

/// # Safety
/// `mr` is NULL or points to a writable pointer; the memory stays until the region is closed.
unsafe fn register(
    domain: *mut fid,
    registration: Registration,
    mr: *mut *mut fid_mr,
) -> OfiResult<()> {
    let Registration { memory, access, key, context } = registration;
    // SAFETY: the caller's promise.
    unsafe {
        let domain = object::of_class::<fid_domain, Domain>(domain, sys::FI_CLASS_DOMAIN)?;
        if mr.is_null() {
            return Err(Code::INVALID);
        }
        let mut request = Request::new();
        request.set_memory(memory)?;
        let mut rights = Rights::NONE;
        if access & sys::FI_REMOTE_READ != 0 {
            rights = rights.with(Rights::READ);
        }
        if access & sys::FI_REMOTE_WRITE != 0 {
            rights = rights.with(Rights::WRITE).with(Rights::ATOMIC);
        }
        let region = Domain::register(domain, request, rights, key)?;
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
    let piece = one(buf, len);
    let registration = Registration { memory: IoVecs::new(&piece, 1), access, key, context };
    // SAFETY: the caller's promise.
    status(|| unsafe { register(domain, registration, mr) })
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
    let registration = Registration { memory: IoVecs::new(pieces, count), access, key, context };
    // SAFETY: the caller's promise.
    status(|| unsafe { register(domain, registration, mr) })
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
        let memory = IoVecs::new(attr.mr_iov, attr.iov_count);
        let &fi_mr_attr { access, requested_key: key, context, .. } = attr;
        register(domain, Registration { memory, access, key, context }, mr)
    })
}

/// Refused if an endpoint is bound to it, and not because another thread opens or closes one.
unsafe extern "C" fn close(mr: *mut fid) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let region = object::of_class::<fid_mr, Region>(mr, sys::FI_CLASS_MR)?;
        let domain = Arc::clone(&region.domain);
        domain.still(|| object::close::<fid_mr, Region>(mr, Region::leave_all))
    })
}

/// An endpoint need not be bound: any of the domain works. A bound one keeps the memory from being
/// closed before it. A counter counts what peers write; what they read is counted only for an
/// endpoint.
unsafe extern "C" fn bind(mr: *mut fid, other: *mut fid, flags: u64) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        match other.as_ref().ok_or(Code::INVALID)?.fclass as u32 {
            sys::FI_CLASS_EP => {
                let region = object::of_class::<fid_mr, Region>(mr, sys::FI_CLASS_MR)?;
                let ep = inner::<_, Ep>(other.cast::<fid_ep>())?;
                ep.keep(Arc::clone(region) as _);
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
