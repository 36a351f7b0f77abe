//! Tagged messages.

use crate::error::{Code, guard};
use crate::msg::{ReceiveFilter, labelled, receive, send};
use crate::request::{Call, IoVecs, one};
use crate::sys::{fi_msg_tagged, fi_ops_tagged, fid_ep, iovec};
use gigae::Label;
use std::ffi::c_void;

pub(crate) static TAGGED_OPS: fi_ops_tagged = fi_ops_tagged {
    size: size_of::<fi_ops_tagged>(),
    recv: Some(recv),
    recvv: Some(recvv),
    recvmsg: Some(recvmsg),
    send: Some(send_one),
    sendv: Some(sendv),
    sendmsg: Some(sendmsg),
    inject: Some(inject),
    senddata: Some(senddata),
    injectdata: Some(injectdata),
};

/// # Safety
/// As the interface says, as for all entries that follow.
unsafe extern "C" fn recv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { recvv(ep, &one(buf, len), std::ptr::null_mut(), 1, from, tag, ignore, context) }
}

unsafe extern "C" fn recvv(
    ep: *mut fid_ep,
    pieces: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let want = ReceiveFilter { from, tag, ignore, untagged: false };
    // SAFETY: the caller's promise.
    unsafe {
        receive(ep, want, IoVecs::new(pieces, count), |state| {
            Call::new(context, state.choice.rx_flags)
        })
    }
}

unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(msg) = msg.as_ref() else { return guard(|| Err(Code::INVALID)) };
        let want =
            ReceiveFilter { from: msg.addr, tag: msg.tag, ignore: msg.ignore, untagged: false };
        receive(ep, want, IoVecs::new(msg.msg_iov, msg.iov_count), |_| {
            Call::new(msg.context, flags)
        })
    }
}

unsafe extern "C" fn send_one(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { sendv(ep, &one(buf, len), std::ptr::null_mut(), 1, to, tag, context) }
}

unsafe extern "C" fn sendv(
    ep: *mut fid_ep,
    pieces: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        send(ep, to, Label::from(tag), IoVecs::new(pieces, count), |state| {
            Call::new(context, state.choice.tx_flags)
        })
    }
}

unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(msg) = msg.as_ref() else { return guard(|| Err(Code::INVALID)) };
        let label = labelled(Label::from(msg.tag), flags, msg.data);
        let memory = IoVecs::new(msg.msg_iov, msg.iov_count);
        send(ep, msg.addr, label, memory, |_| Call::new(msg.context, flags))
    }
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    to: u64,
    tag: u64,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { send(ep, to, Label::from(tag), IoVecs::new(&one(buf, len), 1), |_| Call::silent(0)) }
}

unsafe extern "C" fn senddata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        send(ep, to, Label::from(tag).with_data(data), IoVecs::new(&one(buf, len), 1), |state| {
            Call::new(context, state.choice.tx_flags)
        })
    }
}

unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    to: u64,
    tag: u64,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let label = Label::from(tag).with_data(data);
        send(ep, to, label, IoVecs::new(&one(buf, len), 1), |_| Call::silent(0))
    }
}
