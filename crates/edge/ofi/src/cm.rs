//! The address of an endpoint. All other entries here are for connections, which do not exist.

use crate::address;
use crate::endpoint::Ep;
use crate::error::{Stub, status};
use crate::object;
use crate::sys::{self, fi_ops_cm, fid, fid_ep};
use std::ffi::{c_int, c_void};

pub(crate) static CM_OPS: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: Stub::NONE,
    getname: Some(getname),
    getpeer: Stub::NONE,
    connect: Stub::NONE,
    listen: Stub::NONE,
    accept: Stub::NONE,
    reject: Stub::NONE,
    shutdown: Stub::NONE,
    join: Stub::NONE,
};

/// # Safety
/// As the interface says.
unsafe extern "C" fn getname(fid: *mut fid, addr: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let ep = object::of_class::<fid_ep, Ep>(fid, sys::FI_CLASS_EP)?;
        address::put(&address::encode(&ep.core.address), addr, len)
    })
}
