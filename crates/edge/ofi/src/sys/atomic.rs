//! `fi_atomic.h`: atomic changes of remote memory.

use super::*;
use std::ffi::{c_int, c_void};

pub(crate) const FI_FETCH_ATOMIC: u64 = 288230376151711744;
pub(crate) const FI_COMPARE_ATOMIC: u64 = 576460752303423488;

records! {
    struct fi_atomic_attr { count: usize, size: usize }

    struct fi_msg_atomic {
        msg_iov: *const fi_ioc, desc: *mut *mut c_void, iov_count: usize, addr: fi_addr_t,
        rma_iov: *const fi_rma_ioc, rma_iov_count: usize, datatype: fi_datatype, op: fi_op,
        context: *mut c_void, data: u64,
    }
}

tables! {
    struct fi_ops_atomic {
        write(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void,
            dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op,
            context: *mut c_void) -> isize;
        writev(ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize,
            dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op,
            context: *mut c_void) -> isize;
        writemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize;
        inject(ep: *mut fid_ep, buf: *const c_void, count: usize, dest_addr: fi_addr_t, addr: u64,
            key: u64, datatype: fi_datatype, op: fi_op) -> isize;
        readwrite(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void,
            result: *mut c_void, result_desc: *mut c_void, dest_addr: fi_addr_t, addr: u64,
            key: u64, datatype: fi_datatype, op: fi_op, context: *mut c_void) -> isize;
        readwritev(ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize,
            resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize,
            dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op,
            context: *mut c_void) -> isize;
        readwritemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, resultv: *mut fi_ioc,
            result_desc: *mut *mut c_void, result_count: usize, flags: u64) -> isize;
        compwrite(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void,
            compare: *const c_void, compare_desc: *mut c_void, result: *mut c_void,
            result_desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64,
            datatype: fi_datatype, op: fi_op, context: *mut c_void) -> isize;
        compwritev(ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize,
            comparev: *const fi_ioc, compare_desc: *mut *mut c_void, compare_count: usize,
            resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize,
            dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op,
            context: *mut c_void) -> isize;
        compwritemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, comparev: *const fi_ioc,
            compare_desc: *mut *mut c_void, compare_count: usize, resultv: *mut fi_ioc,
            result_desc: *mut *mut c_void, result_count: usize, flags: u64) -> isize;
        writevalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int;
        readwritevalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op,
            count: *mut usize) -> c_int;
        compwritevalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op,
            count: *mut usize) -> c_int;
    }
}
