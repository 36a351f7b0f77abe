//! `fi_domain.h`: domains, address vectors, memory regions.

use super::*;
use std::ffi::{c_char, c_int, c_uint, c_void};

pub(crate) const FI_SYMMETRIC: u64 = 576460752303423488;
pub(crate) const FI_SYNC_ERR: u64 = 288230376151711744;

pub(crate) type fi_hmem_iface = c_uint;

pub(crate) const FI_INT8: fi_datatype = 0;
pub(crate) const FI_UINT64: fi_datatype = 7;
pub(crate) const FI_DOUBLE: fi_datatype = 9;
pub(crate) const FI_VOID: fi_datatype = 256;
pub(crate) type fi_datatype = c_uint;

pub(crate) const FI_MIN: fi_op = 0;
pub(crate) const FI_SUM: fi_op = 2;
pub(crate) const FI_ATOMIC_READ: fi_op = 10;
pub(crate) const FI_ATOMIC_WRITE: fi_op = 11;
pub(crate) const FI_CSWAP: fi_op = 12;
pub(crate) const FI_CSWAP_NE: fi_op = 13;
pub(crate) const FI_CSWAP_LT: fi_op = 15;
pub(crate) const FI_CSWAP_GE: fi_op = 16;
pub(crate) const FI_MSWAP: fi_op = 18;
pub(crate) type fi_op = c_uint;

pub(crate) const FI_BARRIER: fi_collective_op = 0;
pub(crate) type fi_collective_op = c_uint;

records! {
    struct fi_av_attr {
        type_: fi_av_type, rx_ctx_bits: c_int, count: usize, ep_per_node: usize,
        name: *const c_char, map_addr: *mut c_void, flags: u64,
    }

    struct fi_av_set_attr {
        count: usize, start_addr: fi_addr_t, end_addr: fi_addr_t, stride: u64, comm_key_size: usize,
        comm_key: *mut u8, flags: u64,
    }

    struct fid_av { fid: fid, ops: *mut fi_ops_av }
    struct fid_mr { fid: fid, mem_desc: *mut c_void, key: u64 }

    struct fi_mr_attr {
        mr_iov: *const iovec, iov_count: usize, access: u64, offset: u64, requested_key: u64,
        context: *mut c_void, auth_key_size: usize, auth_key: *mut u8, iface: fi_hmem_iface,
        device: fi_mr_attr__bindgen_ty_1,
    }

    struct fid_domain { fid: fid, ops: *mut fi_ops_domain, mr: *mut fi_ops_mr }
}

#[repr(C)]
#[derive(Copy, Clone)]
pub(crate) union fi_mr_attr__bindgen_ty_1 {
    pub(crate) reserved: u64,
    pub(crate) cuda: c_int,
    pub(crate) ze: c_int,
    pub(crate) neuron: c_int,
    pub(crate) synapseai: c_int,
}

tables! {
    struct fi_ops_av {
        insert(av: *mut fid_av, addr: *const c_void, count: usize, fi_addr: *mut fi_addr_t,
            flags: u64, context: *mut c_void) -> c_int;
        insertsvc(av: *mut fid_av, node: *const c_char, service: *const c_char,
            fi_addr: *mut fi_addr_t, flags: u64, context: *mut c_void) -> c_int;
        insertsym(av: *mut fid_av, node: *const c_char, nodecnt: usize, service: *const c_char,
            svccnt: usize, fi_addr: *mut fi_addr_t, flags: u64, context: *mut c_void) -> c_int;
        remove(av: *mut fid_av, fi_addr: *mut fi_addr_t, count: usize, flags: u64) -> c_int;
        lookup(av: *mut fid_av, fi_addr: fi_addr_t, addr: *mut c_void,
            addrlen: *mut usize) -> c_int;
        straddr(av: *mut fid_av, addr: *const c_void, buf: *mut c_char,
            len: *mut usize) -> *const c_char;
        av_set(av: *mut fid_av, attr: *mut fi_av_set_attr, av_set: *mut *mut fid_av_set,
            context: *mut c_void) -> c_int;
    }

    struct fi_ops_domain {
        av_open(domain: *mut fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av,
            context: *mut c_void) -> c_int;
        cq_open(domain: *mut fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq,
            context: *mut c_void) -> c_int;
        endpoint(domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep,
            context: *mut c_void) -> c_int;
        scalable_ep(domain: *mut fid_domain, info: *mut fi_info, sep: *mut *mut fid_ep,
            context: *mut c_void) -> c_int;
        cntr_open(domain: *mut fid_domain, attr: *mut fi_cntr_attr, cntr: *mut *mut fid_cntr,
            context: *mut c_void) -> c_int;
        poll_open(domain: *mut fid_domain, attr: *mut fi_poll_attr,
            pollset: *mut *mut fid_poll) -> c_int;
        stx_ctx(domain: *mut fid_domain, attr: *mut fi_tx_attr, stx: *mut *mut fid_stx,
            context: *mut c_void) -> c_int;
        srx_ctx(domain: *mut fid_domain, attr: *mut fi_rx_attr, rx_ep: *mut *mut fid_ep,
            context: *mut c_void) -> c_int;
        query_atomic(domain: *mut fid_domain, datatype: fi_datatype, op: fi_op,
            attr: *mut fi_atomic_attr, flags: u64) -> c_int;
        query_collective(domain: *mut fid_domain, coll: fi_collective_op,
            attr: *mut fi_collective_attr, flags: u64) -> c_int;
        endpoint2(domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep, flags: u64,
            context: *mut c_void) -> c_int;
    }

    struct fi_ops_mr {
        reg(fid: *mut fid, buf: *const c_void, len: usize, access: u64, offset: u64,
            requested_key: u64, flags: u64, mr: *mut *mut fid_mr, context: *mut c_void) -> c_int;
        regv(fid: *mut fid, iov: *const iovec, count: usize, access: u64, offset: u64,
            requested_key: u64, flags: u64, mr: *mut *mut fid_mr, context: *mut c_void) -> c_int;
        regattr(fid: *mut fid, attr: *const fi_mr_attr, flags: u64, mr: *mut *mut fid_mr) -> c_int;
    }
}
