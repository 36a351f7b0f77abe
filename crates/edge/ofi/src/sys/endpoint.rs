//! `fi_endpoint.h`: endpoints and untagged messages.

use super::*;
use std::ffi::{c_int, c_uint, c_void};

pub(crate) const FI_OPT_ENDPOINT: c_uint = 0;
pub(crate) const FI_OPT_MIN_MULTI_RECV: c_uint = 0;

records! {
    struct fi_msg {
        msg_iov: *const iovec, desc: *mut *mut c_void, iov_count: usize, addr: fi_addr_t,
        context: *mut c_void, data: u64,
    }

    struct fid_ep {
        fid: fid, ops: *mut fi_ops_ep, cm: *mut fi_ops_cm, msg: *mut fi_ops_msg,
        rma: *mut fi_ops_rma, tagged: *mut fi_ops_tagged, atomic: *mut fi_ops_atomic,
        collective: *mut fi_ops_collective,
    }

    struct fid_pep { fid: fid, ops: *mut fi_ops_ep, cm: *mut fi_ops_cm }
    struct fid_stx { fid: fid, ops: *mut fi_ops_ep }
}

tables! {
    struct fi_ops_ep {
        cancel(fid: fid_t, context: *mut c_void) -> isize;
        getopt(fid: fid_t, level: c_int, optname: c_int, optval: *mut c_void,
            optlen: *mut usize) -> c_int;
        setopt(fid: fid_t, level: c_int, optname: c_int, optval: *const c_void,
            optlen: usize) -> c_int;
        tx_ctx(sep: *mut fid_ep, index: c_int, attr: *mut fi_tx_attr, tx_ep: *mut *mut fid_ep,
            context: *mut c_void) -> c_int;
        rx_ctx(sep: *mut fid_ep, index: c_int, attr: *mut fi_rx_attr, rx_ep: *mut *mut fid_ep,
            context: *mut c_void) -> c_int;
        rx_size_left(ep: *mut fid_ep) -> isize;
        tx_size_left(ep: *mut fid_ep) -> isize;
    }

    struct fi_ops_msg {
        recv(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t,
            context: *mut c_void) -> isize;
        recvv(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
            src_addr: fi_addr_t, context: *mut c_void) -> isize;
        recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize;
        send(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void,
            dest_addr: fi_addr_t, context: *mut c_void) -> isize;
        sendv(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
            dest_addr: fi_addr_t, context: *mut c_void) -> isize;
        sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize;
        inject(ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t) -> isize;
        senddata(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64,
            dest_addr: fi_addr_t, context: *mut c_void) -> isize;
        injectdata(ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64,
            dest_addr: fi_addr_t) -> isize;
    }
}
