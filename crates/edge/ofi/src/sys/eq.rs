//! `fi_eq.h`: event and completion queues, counters, poll sets.

use super::*;
use std::ffi::{c_char, c_int, c_uint, c_void};

pub const FI_WAIT_NONE: fi_wait_obj = 0;
pub const FI_WAIT_UNSPEC: fi_wait_obj = 1;
pub const FI_WAIT_SET: fi_wait_obj = 2;
pub const FI_WAIT_FD: fi_wait_obj = 3;
pub const FI_WAIT_MUTEX_COND: fi_wait_obj = 4;
pub const FI_WAIT_YIELD: fi_wait_obj = 5;
pub const FI_WAIT_POLLFD: fi_wait_obj = 6;
pub type fi_wait_obj = c_uint;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_wait_attr {
    pub wait_obj: fi_wait_obj,
    pub flags: u64,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_wait {
    pub size: usize,
    pub wait: Option<unsafe extern "C" fn(waitset: *mut fid_wait, timeout: c_int) -> c_int>,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_wait {
    pub fid: fid,
    pub ops: *mut fi_ops_wait,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_poll_attr {
    pub flags: u64,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_poll {
    pub size: usize,
    pub poll: Option<
        unsafe extern "C" fn(
            pollset: *mut fid_poll,
            context: *mut *mut c_void,
            count: c_int,
        ) -> c_int,
    >,
    pub poll_add: Option<
        unsafe extern "C" fn(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int,
    >,
    pub poll_del: Option<
        unsafe extern "C" fn(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int,
    >,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_poll {
    pub fid: fid,
    pub ops: *mut fi_ops_poll,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_eq_attr {
    pub size: usize,
    pub flags: u64,
    pub wait_obj: fi_wait_obj,
    pub signaling_vector: c_int,
    pub wait_set: *mut fid_wait,
}

pub const FI_NOTIFY: c_uint = 0;
pub const FI_CONNREQ: c_uint = 1;
pub const FI_CONNECTED: c_uint = 2;
pub const FI_SHUTDOWN: c_uint = 3;
pub const FI_MR_COMPLETE: c_uint = 4;
pub const FI_AV_COMPLETE: c_uint = 5;
pub const FI_JOIN_COMPLETE: c_uint = 6;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_eq_entry {
    pub fid: fid_t,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_eq_err_entry {
    pub fid: fid_t,
    pub context: *mut c_void,
    pub data: u64,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
}

#[repr(C)]
pub struct fi_eq_cm_entry {
    pub fid: fid_t,
    pub info: *mut fi_info,
    pub data: [u8; 0],
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_eq {
    pub size: usize,
    pub read: Option<
        unsafe extern "C" fn(
            eq: *mut fid_eq,
            event: *mut u32,
            buf: *mut c_void,
            len: usize,
            flags: u64,
        ) -> isize,
    >,
    pub readerr: Option<
        unsafe extern "C" fn(eq: *mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64) -> isize,
    >,
    pub write: Option<
        unsafe extern "C" fn(
            eq: *mut fid_eq,
            event: u32,
            buf: *const c_void,
            len: usize,
            flags: u64,
        ) -> isize,
    >,
    pub sread: Option<
        unsafe extern "C" fn(
            eq: *mut fid_eq,
            event: *mut u32,
            buf: *mut c_void,
            len: usize,
            timeout: c_int,
            flags: u64,
        ) -> isize,
    >,
    pub strerror: Option<
        unsafe extern "C" fn(
            eq: *mut fid_eq,
            prov_errno: c_int,
            err_data: *const c_void,
            buf: *mut c_char,
            len: usize,
        ) -> *const c_char,
    >,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_eq {
    pub fid: fid,
    pub ops: *mut fi_ops_eq,
}

pub const FI_CQ_FORMAT_UNSPEC: fi_cq_format = 0;
pub const FI_CQ_FORMAT_CONTEXT: fi_cq_format = 1;
pub const FI_CQ_FORMAT_MSG: fi_cq_format = 2;
pub const FI_CQ_FORMAT_DATA: fi_cq_format = 3;
pub const FI_CQ_FORMAT_TAGGED: fi_cq_format = 4;
pub type fi_cq_format = c_uint;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_cq_entry {
    pub op_context: *mut c_void,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_cq_msg_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_cq_data_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_cq_tagged_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_cq_err_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
}

pub const FI_CQ_COND_NONE: fi_cq_wait_cond = 0;
pub const FI_CQ_COND_THRESHOLD: fi_cq_wait_cond = 1;
pub type fi_cq_wait_cond = c_uint;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_cq_attr {
    pub size: usize,
    pub flags: u64,
    pub format: fi_cq_format,
    pub wait_obj: fi_wait_obj,
    pub signaling_vector: c_int,
    pub wait_cond: fi_cq_wait_cond,
    pub wait_set: *mut fid_wait,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_cq {
    pub size: usize,
    pub read:
        Option<unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize>,
    pub readfrom: Option<
        unsafe extern "C" fn(
            cq: *mut fid_cq,
            buf: *mut c_void,
            count: usize,
            src_addr: *mut fi_addr_t,
        ) -> isize,
    >,
    pub readerr: Option<
        unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize,
    >,
    pub sread: Option<
        unsafe extern "C" fn(
            cq: *mut fid_cq,
            buf: *mut c_void,
            count: usize,
            cond: *const c_void,
            timeout: c_int,
        ) -> isize,
    >,
    pub sreadfrom: Option<
        unsafe extern "C" fn(
            cq: *mut fid_cq,
            buf: *mut c_void,
            count: usize,
            src_addr: *mut fi_addr_t,
            cond: *const c_void,
            timeout: c_int,
        ) -> isize,
    >,
    pub signal: Option<unsafe extern "C" fn(cq: *mut fid_cq) -> c_int>,
    pub strerror: Option<
        unsafe extern "C" fn(
            cq: *mut fid_cq,
            prov_errno: c_int,
            err_data: *const c_void,
            buf: *mut c_char,
            len: usize,
        ) -> *const c_char,
    >,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *mut fi_ops_cq,
}

pub const FI_CNTR_EVENTS_COMP: fi_cntr_events = 0;
pub type fi_cntr_events = c_uint;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_cntr_attr {
    pub events: fi_cntr_events,
    pub wait_obj: fi_wait_obj,
    pub wait_set: *mut fid_wait,
    pub flags: u64,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_cntr {
    pub size: usize,
    pub read: Option<unsafe extern "C" fn(cntr: *mut fid_cntr) -> u64>,
    pub readerr: Option<unsafe extern "C" fn(cntr: *mut fid_cntr) -> u64>,
    pub add: Option<unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int>,
    pub set: Option<unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int>,
    pub wait:
        Option<unsafe extern "C" fn(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int>,
    pub adderr: Option<unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int>,
    pub seterr: Option<unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int>,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_cntr {
    pub fid: fid,
    pub ops: *mut fi_ops_cntr,
}
