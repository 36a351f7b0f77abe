//! Untagged messages, and what they share with tagged ones.

use crate::completions::{CompletionEntry, CompletionFailure, ReadArray};
use crate::endpoint::Ep;
use crate::error::{Code, OfiResult, guard};
use crate::object::inner;
use crate::request::{Call, IoVecs, Request, RequestKind, class, one};
use crate::state::EndpointState;
use crate::state::receives::Claimed;
use crate::sys::{self, fi_msg, fi_ops_msg, fid_ep, iovec};
use gigae::{Label, Wanted};
use std::ffi::c_void;

/// Sends a message. `flags` are the operation's, or those of the endpoint.
///
/// # Safety
/// The descriptor is NULL or of an open endpoint; the memory stays until the operation is
/// completed.
pub(crate) unsafe fn send(
    ep: *mut fid_ep,
    to: u64,
    label: Label,
    memory: IoVecs,
    call: impl FnOnce(&EndpointState) -> Call,
) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let mut state = inner::<_, Ep>(ep)?.core.lock();
        let call = call(&state);
        let peer = state.peer(to)?;
        if state.inject(peer, label, call, memory) {
            state.send_off(call.flags);
            return Ok(0);
        }
        let flags = sys::FI_SEND | class(label.untagged);
        let request = state.outgoing(RequestKind::Send, call, flags, memory)?;
        state.start(request, |endpoint, memory| endpoint.start_send(peer, label, memory))?;
        state.send_off(call.flags);
        Ok(0)
    })
}

/// Which messages a receive takes.
#[derive(Clone, Copy)]
pub(crate) struct ReceiveFilter {
    pub(crate) from: u64,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
    pub(crate) untagged: bool,
}

impl ReceiveFilter {
    /// Any untagged message.
    fn untagged(from: u64) -> Self {
        Self { from, tag: 0, ignore: u64::MAX, untagged: true }
    }
}

/// Receives a message.
///
/// # Safety
/// As for [`send`].
pub(crate) unsafe fn receive(
    ep: *mut fid_ep,
    want: ReceiveFilter,
    memory: IoVecs,
    call: impl FnOnce(&EndpointState) -> Call,
) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let mut state = inner::<_, Ep>(ep)?.core.lock();
        let call = call(&state);
        state.acknowledge_late();
        let from = state.source(want.from)?;
        let ReceiveFilter { tag, ignore, untagged, .. } = want;
        let wanted = Wanted { from, tag, ignore, untagged };
        if call.flags & sys::FI_PEEK != 0 {
            return peek(&mut state, wanted, call).map(|()| 0);
        }
        let several = call.flags & sys::FI_MULTI_RECV != 0;
        let least = state.receives.least_left;
        if several
            && (!untagged
                || memory.list.is_null()
                || memory.count != 1
                || (*memory.list).iov_len < least)
        {
            return Err(Code::INVALID);
        }
        let kind = if several { RequestKind::MultiReceive } else { RequestKind::Receive };
        let mut request = state.request(kind, call, memory)?;
        request.flags = sys::FI_RECV | class(untagged);
        request.reported = state.reports.wants_rx(call.flags);
        if call.flags & sys::FI_CLAIM != 0 {
            return claimed(&mut state, request, call).map(|()| 0);
        }
        state.start(request, |endpoint, memory| {
            if several {
                endpoint.start_recv_several(wanted, memory, least)
            } else {
                endpoint.start_recv(wanted, memory)
            }
        })?;
        Ok(0)
    })
}

/// Looks for a message without receiving it. Claims or discards it on request.
fn peek(state: &mut EndpointState, wanted: Wanted, call: Call) -> OfiResult<()> {
    state.progress(&mut ReadArray::none())?;
    let queue = state.reports.rx.clone().ok_or(Code::NO_CQ)?;
    let flags = sys::FI_RECV | class(wanted.untagged);
    let context = call.context;
    let found = if call.flags & (sys::FI_CLAIM | sys::FI_DISCARD) == 0 {
        state.endpoint.peek(wanted)
    } else {
        state.start_claim(wanted, call, call.flags & sys::FI_CLAIM != 0)?
    };
    let Some((peer, label, len)) = found else {
        let error = Some(CompletionFailure { code: Code::NO_MESSAGE, number: 11, beyond: 0 });
        queue.push(CompletionEntry {
            context,
            flags,
            tag: wanted.tag,
            error,
            ..CompletionEntry::NONE
        });
        return Ok(());
    };
    let source = state.number(peer);
    let flags = flags | label.data.map_or(0, |_| sys::FI_REMOTE_CQ_DATA);
    let data = label.data.unwrap_or_default();
    queue.push(CompletionEntry {
        context,
        flags,
        len,
        data,
        tag: label.tag,
        source,
        ..CompletionEntry::NONE
    });
    Ok(())
}

/// Receives or discards a message that was claimed with the same context.
fn claimed(state: &mut EndpointState, request: Box<Request>, call: Call) -> OfiResult<()> {
    let key = call.context.addr();
    let discard = call.flags & sys::FI_DISCARD != 0;
    match state.receives.claims.remove(&key) {
        Some((slot, Claimed::Arriving)) if !discard => {
            state.receives.claims.insert(key, (slot, Claimed::Wanted(request)));
            return Ok(());
        }
        Some((_, Claimed::Arrived(claim, ended))) if !discard => {
            state.deliver(request, &claim, ended, &mut ReadArray::none());
            state.operations.give_back(claim);
            return Ok(());
        }
        Some((_, Claimed::Arriving | Claimed::Arrived(..))) => {
            let (context, flags) = (request.context, request.flags);
            if let (Some(queue), true) = (&state.reports.rx, request.reported) {
                queue.push(CompletionEntry { context, flags, ..CompletionEntry::NONE });
            }
            state.operations.give_back(request);
            return Ok(());
        }
        Some(wanted) => drop(state.receives.claims.insert(key, wanted)),
        None => {}
    }
    state.operations.give_back(request);
    Err(Code::NO_MESSAGE)
}

pub(crate) static MSG_OPS: fi_ops_msg = fi_ops_msg {
    size: size_of::<fi_ops_msg>(),
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
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { recvv(ep, &one(buf, len), std::ptr::null_mut(), 1, from, context) }
}

unsafe extern "C" fn recvv(
    ep: *mut fid_ep,
    pieces: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        receive(ep, ReceiveFilter::untagged(from), IoVecs::new(pieces, count), |state| {
            Call::new(context, state.choice.rx_flags)
        })
    }
}

unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(msg) = msg.as_ref() else { return guard(|| Err(Code::INVALID)) };
        let memory = IoVecs::new(msg.msg_iov, msg.iov_count);
        receive(ep, ReceiveFilter::untagged(msg.addr), memory, |_| Call::new(msg.context, flags))
    }
}

unsafe extern "C" fn send_one(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { sendv(ep, &one(buf, len), std::ptr::null_mut(), 1, to, context) }
}

unsafe extern "C" fn sendv(
    ep: *mut fid_ep,
    pieces: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        send(ep, to, Label::UNTAGGED, IoVecs::new(pieces, count), |state| {
            Call::new(context, state.choice.tx_flags)
        })
    }
}

/// The label of a message, with data if the flags say so.
pub(crate) fn labelled(label: Label, flags: u64, data: u64) -> Label {
    if flags & sys::FI_REMOTE_CQ_DATA != 0 { label.with_data(data) } else { label }
}

unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(msg) = msg.as_ref() else { return guard(|| Err(Code::INVALID)) };
        let label = labelled(Label::UNTAGGED, flags, msg.data);
        let memory = IoVecs::new(msg.msg_iov, msg.iov_count);
        send(ep, msg.addr, label, memory, |_| Call::new(msg.context, flags))
    }
}

unsafe extern "C" fn inject(ep: *mut fid_ep, buf: *const c_void, len: usize, to: u64) -> isize {
    // SAFETY: the caller's promise.
    unsafe { send(ep, to, Label::UNTAGGED, IoVecs::new(&one(buf, len), 1), |_| Call::silent(0)) }
}

unsafe extern "C" fn senddata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        send(ep, to, Label::UNTAGGED.with_data(data), IoVecs::new(&one(buf, len), 1), |state| {
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
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let label = Label::UNTAGGED.with_data(data);
        send(ep, to, label, IoVecs::new(&one(buf, len), 1), |_| Call::silent(0))
    }
}
