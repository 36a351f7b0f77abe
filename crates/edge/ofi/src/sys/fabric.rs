//! `fabric.h`: capabilities and flags, what all descriptors have in common, the fabric.

use super::*;
use std::ffi::{c_char, c_int, c_uint, c_void};

pub(crate) const FI_PROV_SPECIFIC: u64 = 2147483648;
pub(crate) const FI_MSG: u64 = 2;
pub(crate) const FI_RMA: u64 = 4;
pub(crate) const FI_TAGGED: u64 = 8;
pub(crate) const FI_ATOMIC: u64 = 16;
pub(crate) const FI_COLLECTIVE: u64 = 64;
pub(crate) const FI_READ: u64 = 256;
pub(crate) const FI_WRITE: u64 = 512;
pub(crate) const FI_RECV: u64 = 1024;
pub(crate) const FI_SEND: u64 = 2048;
pub(crate) const FI_TRANSMIT: u64 = 2048;
pub(crate) const FI_REMOTE_READ: u64 = 4096;
pub(crate) const FI_REMOTE_WRITE: u64 = 8192;
pub(crate) const FI_MULTI_RECV: u64 = 65536;
pub(crate) const FI_REMOTE_CQ_DATA: u64 = 131072;
pub(crate) const FI_MORE: u64 = 262144;
pub(crate) const FI_PEEK: u64 = 524288;
pub(crate) const FI_TRIGGER: u64 = 1048576;
pub(crate) const FI_COMPLETION: u64 = 16777216;
pub(crate) const FI_EVENT: u64 = 16777216;
pub(crate) const FI_INJECT: u64 = 33554432;
pub(crate) const FI_INJECT_COMPLETE: u64 = 67108864;
pub(crate) const FI_TRANSMIT_COMPLETE: u64 = 134217728;
pub(crate) const FI_DELIVERY_COMPLETE: u64 = 268435456;
pub(crate) const FI_AFFINITY: u64 = 536870912;
pub(crate) const FI_LOCAL_COMM: u64 = 2251799813685248;
pub(crate) const FI_REMOTE_COMM: u64 = 4503599627370496;
pub(crate) const FI_SHARED_AV: u64 = 9007199254740992;
pub(crate) const FI_RMA_EVENT: u64 = 72057594037927936;
pub(crate) const FI_SOURCE: u64 = 144115188075855872;
pub(crate) const FI_NAMED_RX_CTX: u64 = 288230376151711744;
pub(crate) const FI_DIRECTED_RECV: u64 = 576460752303423488;
pub(crate) const FI_CLAIM: u64 = 576460752303423488;
pub(crate) const FI_DISCARD: u64 = 288230376151711744;
pub(crate) const FI_MR_PROV_KEY: u64 = 64;
pub(crate) const FI_ORDER_RAR: u64 = 1;
pub(crate) const FI_ORDER_RAW: u64 = 2;
pub(crate) const FI_ORDER_RAS: u64 = 4;
pub(crate) const FI_ORDER_WAW: u64 = 16;
pub(crate) const FI_ORDER_WAS: u64 = 32;
pub(crate) const FI_ORDER_SAR: u64 = 64;
pub(crate) const FI_ORDER_SAW: u64 = 128;
pub(crate) const FI_ORDER_SAS: u64 = 256;
pub(crate) const FI_ORDER_DATA: u64 = 65536;
pub(crate) const FI_SELECTIVE_COMPLETION: u64 = 576460752303423488;

pub(crate) type fid_t = *mut fid;
pub(crate) type fi_addr_t = u64;

pub(crate) const FI_FORMAT_UNSPEC: c_uint = 0;

pub(crate) const FI_CLASS_FABRIC: c_uint = 1;
pub(crate) const FI_CLASS_DOMAIN: c_uint = 2;
pub(crate) const FI_CLASS_EP: c_uint = 3;
pub(crate) const FI_CLASS_AV: c_uint = 11;
pub(crate) const FI_CLASS_MR: c_uint = 12;
pub(crate) const FI_CLASS_EQ: c_uint = 13;
pub(crate) const FI_CLASS_CQ: c_uint = 14;
pub(crate) const FI_CLASS_CNTR: c_uint = 15;
pub(crate) const FI_CLASS_POLL: c_uint = 17;

pub(crate) const FI_GETOPSFLAG: c_uint = 2;
pub(crate) const FI_SETOPSFLAG: c_uint = 3;
pub(crate) const FI_GETWAIT: c_uint = 5;
pub(crate) const FI_ENABLE: c_uint = 6;
pub(crate) const FI_REFRESH: c_uint = 14;
pub(crate) const FI_GETWAITOBJ: c_uint = 16;

records! {
    struct iovec { iov_base: *mut c_void, iov_len: usize }
    struct fi_ioc { addr: *mut c_void, count: usize }
    struct fid { fclass: usize, context: *mut c_void, ops: *mut fi_ops }
    struct fid_fabric { fid: fid, ops: *mut fi_ops_fabric, api_version: u32 }
    struct fi_context { internal: [*mut c_void; 4usize] }
}

tables! {
    struct fi_ops {
        close(fid: *mut fid) -> c_int;
        bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int;
        control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int;
        ops_open(fid: *mut fid, name: *const c_char, flags: u64, ops: *mut *mut c_void,
            context: *mut c_void) -> c_int;
        tostr(fid: *const fid, buf: *mut c_char, len: usize) -> c_int;
        ops_set(fid: *mut fid, name: *const c_char, flags: u64, ops: *mut c_void,
            context: *mut c_void) -> c_int;
    }

    struct fi_ops_fabric {
        domain(fabric: *mut fid_fabric, info: *mut fi_info, dom: *mut *mut fid_domain,
            context: *mut c_void) -> c_int;
        passive_ep(fabric: *mut fid_fabric, info: *mut fi_info, pep: *mut *mut fid_pep,
            context: *mut c_void) -> c_int;
        eq_open(fabric: *mut fid_fabric, attr: *mut fi_eq_attr, eq: *mut *mut fid_eq,
            context: *mut c_void) -> c_int;
        wait_open(fabric: *mut fid_fabric, attr: *mut fi_wait_attr,
            waitset: *mut *mut fid_wait) -> c_int;
        trywait(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int;
        domain2(fabric: *mut fid_fabric, info: *mut fi_info, dom: *mut *mut fid_domain, flags: u64,
            context: *mut c_void) -> c_int;
    }
}
