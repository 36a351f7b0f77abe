//! `fi_cm.h`: addresses and connections of endpoints.

use super::*;
use std::ffi::{c_int, c_void};

records! {
    struct fid_mc { fid: fid, fi_addr: fi_addr_t }
}

tables! {
    struct fi_ops_cm {
        setname(fid: fid_t, addr: *mut c_void, addrlen: usize) -> c_int;
        getname(fid: fid_t, addr: *mut c_void, addrlen: *mut usize) -> c_int;
        getpeer(ep: *mut fid_ep, addr: *mut c_void, addrlen: *mut usize) -> c_int;
        connect(ep: *mut fid_ep, addr: *const c_void, param: *const c_void,
            paramlen: usize) -> c_int;
        listen(pep: *mut fid_pep) -> c_int;
        accept(ep: *mut fid_ep, param: *const c_void, paramlen: usize) -> c_int;
        reject(pep: *mut fid_pep, handle: fid_t, param: *const c_void, paramlen: usize) -> c_int;
        shutdown(ep: *mut fid_ep, flags: u64) -> c_int;
        join(ep: *mut fid_ep, addr: *const c_void, flags: u64, mc: *mut *mut fid_mc,
            context: *mut c_void) -> c_int;
    }
}
