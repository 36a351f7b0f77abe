//! The fabric: what domains and event queues are opened from.

use crate::counter::Counter;
use crate::cq::Queue;
use crate::eq::Events;
use crate::error::{Code, Stub, status};
use crate::object::{self, descriptor, inner, table};
use crate::sys::{self, fi_ops_fabric, fid, fid_cntr, fid_cq, fid_eq, fid_fabric};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// What the descriptor leads to.
pub(crate) struct Fabric;

static OPS: sys::fi_ops = object::only_close::<fid_fabric, Fabric>();

static FABRIC_OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: Some(crate::domain::open),
    passive_ep: Stub::NONE,
    eq_open: Some(crate::eq::open),
    wait_open: Stub::NONE,
    trywait: Some(trywait),
    domain2: Some(crate::domain::open2),
};

/// Opens the fabric.
///
/// # Safety
/// Pointers are NULL or to what their types say, as for all entries that follow.
pub(crate) unsafe extern "C" fn open(
    attr: *mut sys::fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let attr = attr.as_ref().ok_or(Code::INVALID)?;
        let name = crate::address::text(attr.name)?;
        if name.is_some_and(|name| name != crate::info::FABRIC) {
            return Err(Code::NO_DATA);
        }
        let fid = descriptor(sys::FI_CLASS_FABRIC, context, &OPS);
        let api_version = attr.api_version;
        let descriptor = fid_fabric { fid, ops: table(&FABRIC_OPS), api_version };
        object::open(descriptor, Arc::new(Fabric), fabric)
    })
}

/// Says whether a program may sleep on the descriptors of these objects.
unsafe extern "C" fn trywait(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let _ = inner::<_, Fabric>(fabric)?;
        for n in 0..usize::try_from(count).map_err(|_| Code::INVALID)? {
            let fid = fids.as_ref().ok_or(Code::INVALID).map(|_| fids.add(n).read())?;
            match fid.as_ref().ok_or(Code::INVALID)?.fclass as u32 {
                sys::FI_CLASS_CQ => inner::<_, Queue>(fid.cast::<fid_cq>())?.prepare()?,
                sys::FI_CLASS_CNTR => inner::<_, Counter>(fid.cast::<fid_cntr>())?.prepare()?,
                sys::FI_CLASS_EQ => inner::<_, Events>(fid.cast::<fid_eq>())?.prepare()?,
                _ => return Err(Code::INVALID),
            }
        }
        Ok(())
    })
}
