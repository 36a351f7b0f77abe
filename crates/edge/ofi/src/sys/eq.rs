//! `fi_eq.h`: event and completion queues, counters, poll sets.

use super::*;
use std::ffi::{c_char, c_int, c_uint, c_void};

pub(crate) const FI_WAIT_NONE: fi_wait_obj = 0;
pub(crate) const FI_WAIT_UNSPEC: fi_wait_obj = 1;
pub(crate) const FI_WAIT_SET: fi_wait_obj = 2;
pub(crate) const FI_WAIT_FD: fi_wait_obj = 3;
pub(crate) const FI_WAIT_YIELD: fi_wait_obj = 5;
pub(crate) type fi_wait_obj = c_uint;

pub(crate) const FI_AV_COMPLETE: c_uint = 5;

pub(crate) const FI_CQ_FORMAT_UNSPEC: fi_cq_format = 0;
pub(crate) const FI_CQ_FORMAT_CONTEXT: fi_cq_format = 1;
pub(crate) const FI_CQ_FORMAT_MSG: fi_cq_format = 2;
pub(crate) const FI_CQ_FORMAT_DATA: fi_cq_format = 3;
pub(crate) const FI_CQ_FORMAT_TAGGED: fi_cq_format = 4;
pub(crate) type fi_cq_format = c_uint;

pub(crate) type fi_cq_wait_cond = c_uint;

pub(crate) const FI_CNTR_EVENTS_COMP: fi_cntr_events = 0;
pub(crate) type fi_cntr_events = c_uint;

records! {
    struct fi_wait_attr { wait_obj: fi_wait_obj, flags: u64 }
    struct fid_wait { fid: fid, ops: *mut fi_ops_wait }
    struct fi_poll_attr { flags: u64 }
    struct fid_poll { fid: fid, ops: *mut fi_ops_poll }

    struct fi_eq_attr {
        size: usize, flags: u64, wait_obj: fi_wait_obj, signaling_vector: c_int,
        wait_set: *mut fid_wait,
    }

    struct fi_eq_entry { fid: fid_t, context: *mut c_void, data: u64 }

    struct fi_eq_err_entry {
        fid: fid_t, context: *mut c_void, data: u64, err: c_int, prov_errno: c_int,
        err_data: *mut c_void, err_data_size: usize,
    }

    struct fid_eq { fid: fid, ops: *mut fi_ops_eq }
    struct fi_cq_entry { op_context: *mut c_void }
    struct fi_cq_msg_entry { op_context: *mut c_void, flags: u64, len: usize }

    struct fi_cq_data_entry {
        op_context: *mut c_void, flags: u64, len: usize, buf: *mut c_void, data: u64,
    }

    struct fi_cq_tagged_entry {
        op_context: *mut c_void, flags: u64, len: usize, buf: *mut c_void, data: u64, tag: u64,
    }

    struct fi_cq_err_entry {
        op_context: *mut c_void, flags: u64, len: usize, buf: *mut c_void, data: u64, tag: u64,
        olen: usize, err: c_int, prov_errno: c_int, err_data: *mut c_void, err_data_size: usize,
    }

    struct fi_cq_attr {
        size: usize, flags: u64, format: fi_cq_format, wait_obj: fi_wait_obj,
        signaling_vector: c_int, wait_cond: fi_cq_wait_cond, wait_set: *mut fid_wait,
    }

    struct fid_cq { fid: fid, ops: *mut fi_ops_cq }

    struct fi_cntr_attr {
        events: fi_cntr_events, wait_obj: fi_wait_obj, wait_set: *mut fid_wait, flags: u64,
    }

    struct fid_cntr { fid: fid, ops: *mut fi_ops_cntr }
}

tables! {
    struct fi_ops_wait {
        wait(waitset: *mut fid_wait, timeout: c_int) -> c_int;
    }

    struct fi_ops_poll {
        poll(pollset: *mut fid_poll, context: *mut *mut c_void, count: c_int) -> c_int;
        poll_add(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int;
        poll_del(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int;
    }

    struct fi_ops_eq {
        read(eq: *mut fid_eq, event: *mut u32, buf: *mut c_void, len: usize, flags: u64) -> isize;
        readerr(eq: *mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64) -> isize;
        write(eq: *mut fid_eq, event: u32, buf: *const c_void, len: usize, flags: u64) -> isize;
        sread(eq: *mut fid_eq, event: *mut u32, buf: *mut c_void, len: usize, timeout: c_int,
            flags: u64) -> isize;
        strerror(eq: *mut fid_eq, prov_errno: c_int, err_data: *const c_void, buf: *mut c_char,
            len: usize) -> *const c_char;
    }

    struct fi_ops_cq {
        read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize;
        readfrom(cq: *mut fid_cq, buf: *mut c_void, count: usize,
            src_addr: *mut fi_addr_t) -> isize;
        readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize;
        sread(cq: *mut fid_cq, buf: *mut c_void, count: usize, cond: *const c_void,
            timeout: c_int) -> isize;
        sreadfrom(cq: *mut fid_cq, buf: *mut c_void, count: usize, src_addr: *mut fi_addr_t,
            cond: *const c_void, timeout: c_int) -> isize;
        signal(cq: *mut fid_cq) -> c_int;
        strerror(cq: *mut fid_cq, prov_errno: c_int, err_data: *const c_void, buf: *mut c_char,
            len: usize) -> *const c_char;
    }

    struct fi_ops_cntr {
        read(cntr: *mut fid_cntr) -> u64;
        readerr(cntr: *mut fid_cntr) -> u64;
        add(cntr: *mut fid_cntr, value: u64) -> c_int;
        set(cntr: *mut fid_cntr, value: u64) -> c_int;
        wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int;
        adderr(cntr: *mut fid_cntr, value: u64) -> c_int;
        seterr(cntr: *mut fid_cntr, value: u64) -> c_int;
    }
}
