//! Reads and writes peers' memory. An address is an offset from the beginning of the memory.

use crate::endpoint::Ep;
use crate::error::{Code, OfiResult, guard};
use crate::object::inner;
use crate::request::{Call, IoVecs, RequestKind, one};
use crate::state::EndpointState;
use crate::sys::{self, fi_msg_rma, fi_ops_rma, fid_ep, iovec};
use gigae::RegionKey;
use std::ffi::c_void;

/// An address in a peer's memory.
#[derive(Clone, Copy)]
struct RemoteAddress {
    at: u64,
    offset: u64,
    key: u64,
}

/// The kind of access.
#[derive(Clone, Copy)]
enum Access {
    Read,
    /// With data for the peer's completion queue, if there are any.
    Write(Option<u64>),
}

pub(crate) static RMA_OPS: fi_ops_rma = fi_ops_rma {
    size: size_of::<fi_ops_rma>(),
    read: Some(read),
    readv: Some(readv),
    readmsg: Some(readmsg),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    writedata: Some(writedata),
    injectdata: Some(injectdata),
};

/// # Safety
/// The descriptor is NULL or of an open endpoint; the memory stays until the operation is
/// completed.
unsafe fn start(
    ep: *mut fid_ep,
    to: RemoteAddress,
    access: Access,
    memory: IoVecs,
    call: impl FnOnce(&EndpointState) -> Call,
) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let mut state = inner::<_, Ep>(ep)?.core.lock();
        let call = call(&state);
        let (peer, key) = (state.peer(to.at)?, RegionKey(to.key));
        let (kind, which) = match access {
            Access::Read => (RequestKind::Read, sys::FI_READ),
            Access::Write(_) => (RequestKind::Write, sys::FI_WRITE),
        };
        let request = state.outgoing(kind, call, sys::FI_RMA | which, memory)?;
        state.start(request, |endpoint, memory| match access {
            Access::Read => endpoint.start_read(peer, key, to.offset, memory),
            Access::Write(data) => endpoint.start_write(peer, key, to.offset, memory, data),
        })?;
        state.send_off(call.flags);
        Ok(0)
    })
}

/// The one remote address in a message.
///
/// # Safety
/// It points to as many addresses as it says.
unsafe fn remote_address(msg: &fi_msg_rma) -> OfiResult<RemoteAddress> {
    // SAFETY: the caller's promise.
    match unsafe { msg.rma_iov.as_ref() } {
        Some(iov) if msg.rma_iov_count == 1 => {
            Ok(RemoteAddress { at: msg.addr, offset: iov.addr, key: iov.key })
        }
        _ => Err(Code::INVALID),
    }
}

/// # Safety
/// As the interface says, as for all entries that follow.
unsafe extern "C" fn read(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    at: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { readv(ep, &one(buf, len), std::ptr::null_mut(), 1, at, offset, key, context) }
}

unsafe extern "C" fn readv(
    ep: *mut fid_ep,
    pieces: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    at: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let to = RemoteAddress { at, offset, key };
    // SAFETY: the caller's promise.
    unsafe {
        start(ep, to, Access::Read, IoVecs::new(pieces, count), |state| {
            Call::new(context, state.choice.tx_flags & !sys::FI_INJECT)
        })
    }
}

unsafe extern "C" fn readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let to = msg.as_ref().ok_or(Code::INVALID).and_then(|msg| remote_address(msg));
        let (Some(msg), Ok(to)) = (msg.as_ref(), to) else {
            return guard(|| Err(Code::INVALID));
        };
        start(ep, to, Access::Read, IoVecs::new(msg.msg_iov, msg.iov_count), |_| {
            Call::new(msg.context, flags & !sys::FI_INJECT)
        })
    }
}

unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    at: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { writev(ep, &one(buf, len), std::ptr::null_mut(), 1, at, offset, key, context) }
}

unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    pieces: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    at: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let to = RemoteAddress { at, offset, key };
    // SAFETY: the caller's promise.
    unsafe {
        start(ep, to, Access::Write(None), IoVecs::new(pieces, count), |state| {
            Call::new(context, state.choice.tx_flags)
        })
    }
}

unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let to = msg.as_ref().ok_or(Code::INVALID).and_then(|msg| remote_address(msg));
        let (Some(msg), Ok(to)) = (msg.as_ref(), to) else {
            return guard(|| Err(Code::INVALID));
        };
        let data = (flags & sys::FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        start(ep, to, Access::Write(data), IoVecs::new(msg.msg_iov, msg.iov_count), |_| {
            Call::new(msg.context, flags)
        })
    }
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    at: u64,
    offset: u64,
    key: u64,
) -> isize {
    let to = RemoteAddress { at, offset, key };
    // SAFETY: the caller's promise.
    unsafe {
        start(ep, to, Access::Write(None), IoVecs::new(&one(buf, len), 1), |_| Call::silent(0))
    }
}

unsafe extern "C" fn writedata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    at: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let to = RemoteAddress { at, offset, key };
    // SAFETY: the caller's promise.
    unsafe {
        start(ep, to, Access::Write(Some(data)), IoVecs::new(&one(buf, len), 1), |state| {
            Call::new(context, state.choice.tx_flags)
        })
    }
}

unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    at: u64,
    offset: u64,
    key: u64,
) -> isize {
    let to = RemoteAddress { at, offset, key };
    // SAFETY: the caller's promise.
    unsafe {
        start(ep, to, Access::Write(Some(data)), IoVecs::new(&one(buf, len), 1), |_| {
            Call::silent(0)
        })
    }
}
