//! `fi_tagged.h`: tagged messages.

use super::*;
use std::ffi::c_void;

records! {
    struct fi_msg_tagged {
        msg_iov: *const iovec, desc: *mut *mut c_void, iov_count: usize, addr: fi_addr_t, tag: u64,
        ignore: u64, context: *mut c_void, data: u64,
    }
}

tables! {
    struct fi_ops_tagged {
        recv(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t,
            tag: u64, ignore: u64, context: *mut c_void) -> isize;
        recvv(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
            src_addr: fi_addr_t, tag: u64, ignore: u64, context: *mut c_void) -> isize;
        recvmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize;
        send(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void,
            dest_addr: fi_addr_t, tag: u64, context: *mut c_void) -> isize;
        sendv(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
            dest_addr: fi_addr_t, tag: u64, context: *mut c_void) -> isize;
        sendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize;
        inject(ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t,
            tag: u64) -> isize;
        senddata(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64,
            dest_addr: fi_addr_t, tag: u64, context: *mut c_void) -> isize;
        injectdata(ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t,
            tag: u64) -> isize;
    }
}
