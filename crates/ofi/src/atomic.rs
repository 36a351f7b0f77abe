//! Atomic changes of peers' memory, as far as the library has them: adding to, reading and
//! comparing-and-swapping one number of 64 bits, which is little-endian there.

use crate::ep::Ep;
use crate::error::{Code, Outcome, Stub, guard, status};
use crate::object::inner;
use crate::request::Kind;
use crate::state::Call;
use crate::sys::{
    self, fi_atomic_attr, fi_datatype, fi_ioc, fi_msg_atomic, fi_op, fi_ops_atomic, fid_domain,
    fid_ep,
};
use gigae::RegionKey;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

pub(crate) static ATOMIC_OPS: fi_ops_atomic = fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write: Some(write),
    writev: Stub::NONE,
    writemsg: Some(writemsg),
    inject: Some(inject),
    readwrite: Some(readwrite),
    readwritev: Stub::NONE,
    readwritemsg: Some(readwritemsg),
    compwrite: Some(compwrite),
    compwritev: Stub::NONE,
    compwritemsg: Some(compwritemsg),
    writevalid: Some(writevalid),
    readwritevalid: Some(readwritevalid),
    compwritevalid: Some(compwritevalid),
};

/// Which of the three kinds of atomic operations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Write,
    Fetch,
    Compare,
}

/// Whether there is such an operation.
fn is_there(family: Family, datatype: fi_datatype, op: fi_op) -> bool {
    let number = matches!(datatype, sys::FI_INT64 | sys::FI_UINT64);
    number
        && match family {
            Family::Write => op == sys::FI_SUM,
            Family::Fetch => op == sys::FI_SUM || op == sys::FI_ATOMIC_READ,
            Family::Compare => op == sys::FI_CSWAP,
        }
}

/// What is done where, and what with.
struct Change {
    family: Family,
    datatype: fi_datatype,
    op: fi_op,
    count: usize,
    operand: *const c_void,
    compare: *const c_void,
    before: *mut c_void,
    to: u64,
    offset: u64,
    key: u64,
}

/// # Safety
/// The descriptor is NULL or of an open endpoint; operands are there, and the place for what was there
/// before stays until the operation is completed.
unsafe fn change(
    ep: *mut fid_ep,
    change: Change,
    context: *mut c_void,
    flags: Option<u64>,
    silent: bool,
) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let Change { family, datatype, op, .. } = change;
        if !is_there(family, datatype, op) || change.count != 1 {
            return Err(Code::NO_SYS);
        }
        let number = |at: *const c_void| -> Outcome<u64> {
            if at.is_null() { Err(Code::INVALID) } else { Ok(at.cast::<u64>().read_unaligned()) }
        };
        let operand = if op == sys::FI_ATOMIC_READ { 0 } else { number(change.operand)? };
        if family != Family::Write && change.before.is_null() {
            return Err(Code::INVALID);
        }
        let mut state = inner::<_, Ep>(ep)?.core.lock();
        let flags = flags.unwrap_or(state.binding.tx_flags) & !sys::FI_INJECT;
        let call = Call { silent, ..Call::new(context, flags) };
        let (peer, key) = (state.peer(change.to)?, RegionKey(change.key));
        let kind = Kind::Atomic { before: change.before.cast() };
        let which = if family == Family::Write { sys::FI_WRITE } else { sys::FI_READ };
        let memory = (std::ptr::null(), 0);
        let expected = if family == Family::Compare { Some(number(change.compare)?) } else { None };
        let request = state.outgoing(kind, call, sys::FI_ATOMIC | which, memory)?;
        state.start_atomic(request, |endpoint| match expected {
            None => endpoint.start_fetch_add(peer, key, change.offset, operand),
            Some(expected) => {
                endpoint.start_compare_swap(peer, key, change.offset, expected, operand)
            }
        })?;
        state.send_off(call.flags);
        Ok(0)
    })
}

/// # Safety
/// As the interface says, as for all entries that follow.
unsafe extern "C" fn write(
    ep: *mut fid_ep,
    operand: *const c_void,
    count: usize,
    _desc: *mut c_void,
    to: u64,
    offset: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let (family, compare, before) = (Family::Write, std::ptr::null(), null_mut());
    let what = Change { family, datatype, op, count, operand, compare, before, to, offset, key };
    // SAFETY: the caller's promise.
    unsafe { change(ep, what, context, None, false) }
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    operand: *const c_void,
    count: usize,
    to: u64,
    offset: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
) -> isize {
    let (family, compare, before) = (Family::Write, std::ptr::null(), null_mut());
    let what = Change { family, datatype, op, count, operand, compare, before, to, offset, key };
    // SAFETY: the caller's promise.
    unsafe { change(ep, what, null_mut(), None, true) }
}

unsafe extern "C" fn readwrite(
    ep: *mut fid_ep,
    operand: *const c_void,
    count: usize,
    _desc: *mut c_void,
    before: *mut c_void,
    _before_desc: *mut c_void,
    to: u64,
    offset: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let (family, compare) = (Family::Fetch, std::ptr::null());
    let what = Change { family, datatype, op, count, operand, compare, before, to, offset, key };
    // SAFETY: the caller's promise.
    unsafe { change(ep, what, context, None, false) }
}

unsafe extern "C" fn compwrite(
    ep: *mut fid_ep,
    operand: *const c_void,
    count: usize,
    _desc: *mut c_void,
    compare: *const c_void,
    _compare_desc: *mut c_void,
    before: *mut c_void,
    _before_desc: *mut c_void,
    to: u64,
    offset: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let family = Family::Compare;
    let what = Change { family, datatype, op, count, operand, compare, before, to, offset, key };
    // SAFETY: the caller's promise.
    unsafe { change(ep, what, context, None, false) }
}

/// The one number that a list of numbers names.
///
/// # Safety
/// `list` is NULL or has `count` entries.
unsafe fn only(list: *const fi_ioc, count: usize) -> Outcome<(*mut c_void, usize)> {
    // SAFETY: the caller's promise.
    match unsafe { list.as_ref() } {
        Some(ioc) if count == 1 => Ok((ioc.addr, ioc.count)),
        _ => Err(Code::INVALID),
    }
}

/// What a message says is to be done.
///
/// # Safety
/// `msg` is NULL or a message, whose lists have as many entries as it says.
unsafe fn of_msg(family: Family, msg: *const fi_msg_atomic) -> Outcome<(Change, *mut c_void)> {
    // SAFETY: the caller's promise.
    unsafe {
        let msg = msg.as_ref().ok_or(Code::INVALID)?;
        // Reading needs no operand.
        let (operand, count) = match only(msg.msg_iov, msg.iov_count) {
            Err(_) if msg.op == sys::FI_ATOMIC_READ => (null_mut(), 1),
            only => only?,
        };
        let place = msg.rma_iov.as_ref().filter(|_| msg.rma_iov_count == 1).ok_or(Code::INVALID)?;
        let what = Change {
            family,
            datatype: msg.datatype,
            op: msg.op,
            count,
            operand,
            compare: std::ptr::null(),
            before: null_mut(),
            to: msg.addr,
            offset: place.addr,
            key: place.key,
        };
        Ok((what, msg.context))
    }
}

unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        match of_msg(Family::Write, msg) {
            Ok((what, context)) => change(ep, what, context, Some(flags), false),
            Err(code) => guard(|| Err(code)),
        }
    }
}

unsafe extern "C" fn readwritemsg(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    before: *mut fi_ioc,
    _before_desc: *mut *mut c_void,
    before_count: usize,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        match (of_msg(Family::Fetch, msg), only(before, before_count)) {
            (Ok((what, context)), Ok((before, _))) => {
                change(ep, Change { before, ..what }, context, Some(flags), false)
            }
            _ => guard(|| Err(Code::INVALID)),
        }
    }
}

unsafe extern "C" fn compwritemsg(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    compare: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    before: *mut fi_ioc,
    _before_desc: *mut *mut c_void,
    before_count: usize,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let what = of_msg(Family::Compare, msg);
        match (what, only(compare, compare_count), only(before, before_count)) {
            (Ok((what, context)), Ok((compare, _)), Ok((before, _))) => {
                change(ep, Change { compare, before, ..what }, context, Some(flags), false)
            }
            _ => guard(|| Err(Code::INVALID)),
        }
    }
}

/// # Safety
/// `count` is NULL or points to a writable number.
unsafe fn valid(family: Family, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int {
    status(|| {
        if !is_there(family, datatype, op) {
            return Err(Code::NO_SYS);
        }
        // SAFETY: the caller's promise.
        if let Some(count) = unsafe { count.as_mut() } {
            *count = 1;
        }
        Ok(())
    })
}

unsafe extern "C" fn writevalid(
    _ep: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { valid(Family::Write, datatype, op, count) }
}

unsafe extern "C" fn readwritevalid(
    _ep: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { valid(Family::Fetch, datatype, op, count) }
}

unsafe extern "C" fn compwritevalid(
    _ep: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { valid(Family::Compare, datatype, op, count) }
}

/// The domain's answer to the same question.
pub(crate) unsafe extern "C" fn query(
    _domain: *mut fid_domain,
    datatype: fi_datatype,
    op: fi_op,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    let family = match flags {
        sys::FI_FETCH_ATOMIC => Family::Fetch,
        sys::FI_COMPARE_ATOMIC => Family::Compare,
        _ => Family::Write,
    };
    let mut count = 0;
    // SAFETY: the number is here, and the caller's promise.
    unsafe {
        let code = valid(family, datatype, op, &mut count);
        if let (0, Some(attr)) = (code, attr.as_mut()) {
            (attr.count, attr.size) = (count, size_of::<u64>());
        }
        code
    }
}
