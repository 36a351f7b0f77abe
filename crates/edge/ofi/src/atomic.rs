//! Atomic changes of peers' memory: all that libfabric defines for integers and floating-point
//! numbers of 8 to 64 bits, as many at once as one operation of the library takes. All are
//! little-endian on both sides.

use crate::endpoint::Ep;
use crate::error::{Code, OfiResult, guard, status};
use crate::object::inner;
use crate::provider::MOST_PIECES;
use crate::request::{Call, IoVecs, RequestKind, one};
use crate::sys::{
    self, fi_atomic_attr, fi_datatype, fi_ioc, fi_msg_atomic, fi_op, fi_ops_atomic, fid_domain,
    fid_ep, iovec,
};
use gigae::{Action, Change, Number, RegionKey};
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

pub(crate) static ATOMIC_OPS: fi_ops_atomic = fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    readwrite: Some(readwrite),
    readwritev: Some(readwritev),
    readwritemsg: Some(readwritemsg),
    compwrite: Some(compwrite),
    compwritev: Some(compwritev),
    compwritemsg: Some(compwritemsg),
    writevalid: Some(writevalid),
    readwritevalid: Some(readwritevalid),
    compwritevalid: Some(compwritevalid),
};

// Memory of a program has the byte order of its processor.
const _: () = assert!(cfg!(target_endian = "little"));

/// Which of the three kinds of atomic operations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Write,
    Fetch,
    Compare,
}

/// The change with these libfabric codes for `count` numbers, or an error if no change has these
/// codes.
fn change_of(family: Family, kind: fi_datatype, op: fi_op, count: usize) -> OfiResult<Change> {
    let action = *Action::ALL.get(op as usize).ok_or(Code::NO_SYS)?;
    let number = *Number::ALL.get(kind as usize).ok_or(Code::NO_SYS)?;
    let is_there = match family {
        Family::Write => action.operands() == 1,
        Family::Fetch => action.operands() < 2,
        Family::Compare => action.operands() == 2,
    };
    // One number shows whether the change exists.
    if !is_there || Change::new(action, number, 1, false).is_none() {
        return Err(Code::NO_SYS);
    }
    Change::new(action, number, count, family != Family::Write).ok_or(Code::INVALID)
}

const _: () = {
    assert!(sys::FI_MIN == Action::Min as u32 && sys::FI_MSWAP == Action::SwapMasked as u32);
    assert!(sys::FI_ATOMIC_READ == Action::Read as u32 && sys::FI_CSWAP == Action::Swap as u32);
    assert!(sys::FI_INT8 == Number::I8 as u32 && sys::FI_DOUBLE == Number::F64 as u32);
};

/// Numbers of the program in several places.
#[derive(Clone, Copy)]
struct NumberList {
    places: *const fi_ioc,
    count: usize,
}

const NONE: NumberList = NumberList { places: null(), count: 0 };

/// The arguments of an atomic operation.
struct AtomicArguments {
    family: Family,
    datatype: fi_datatype,
    op: fi_op,
    operands: NumberList,
    compare: NumberList,
    before: NumberList,
    to: u64,
    offset: u64,
    key: u64,
}

/// A list as pieces of memory, and how many numbers there are.
///
/// # Safety
/// There are as many places as the list says.
unsafe fn pieces(list: NumberList, number: Number) -> OfiResult<([iovec; MOST_PIECES], usize)> {
    let NumberList { places, count } = list;
    let mut pieces = [one(null(), 0); MOST_PIECES];
    if count > MOST_PIECES || (places.is_null() && count > 0) {
        return Err(Code::INVALID);
    }
    let mut numbers = 0_usize;
    for (n, piece) in pieces[..count].iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        let fi_ioc { addr, count } = unsafe { places.add(n).read() };
        let len = count.checked_mul(number.size()).ok_or(Code::INVALID)?;
        if addr.is_null() && len > 0 {
            return Err(Code::INVALID);
        }
        *piece = one(addr, len);
        numbers = numbers.checked_add(count).ok_or(Code::INVALID)?;
    }
    Ok((pieces, numbers))
}

/// # Safety
/// The descriptor is NULL or of an open endpoint; the operands exist, and the places for the former
/// values stay until the operation is completed.
unsafe fn change(
    ep: *mut fid_ep,
    asked: OfiResult<AtomicArguments>,
    context: *mut c_void,
    flags: Option<u64>,
    silent: bool,
) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let asked = asked?;
        let AtomicArguments { family, datatype, op, .. } = asked;
        let number = change_of(family, datatype, op, 1)?.number();
        let (operands, given) = pieces(asked.operands, number)?;
        let (compare, compared) = pieces(asked.compare, number)?;
        let (before, room) = pieces(asked.before, number)?;
        // Reading needs no operands. The room for the result gives the count.
        let reads = op == sys::FI_ATOMIC_READ;
        let change = change_of(family, datatype, op, if reads { room } else { given })?;
        let len = change.len();
        let fits = |numbers: usize| numbers.checked_mul(number.size()) == Some(len);
        if (family != Family::Write && !fits(room))
            || (family == Family::Compare && !fits(compared))
        {
            return Err(Code::INVALID);
        }
        let mut state = inner::<_, Ep>(ep)?.core.lock();
        let flags = flags.unwrap_or(state.choice.tx_flags) & !sys::FI_INJECT;
        let call = Call { silent, ..Call::new(context, flags) };
        let (peer, key) = (state.peer(asked.to)?, RegionKey(asked.key));
        let which = if family == Family::Write { sys::FI_WRITE } else { sys::FI_READ };
        let memory = IoVecs::new(before.as_ptr(), MOST_PIECES);
        let mut request =
            state.outgoing(RequestKind::Atomic, call, sys::FI_ATOMIC | which, memory)?;
        let lists = [&operands, &compare];
        request.bring(&lists[..change.action().operands()], len);
        let offset = asked.offset;
        state.start(request, |endpoint, memory| {
            endpoint.start_atomic(peer, key, offset, change, memory)
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
    let list = ioc(operand, count);
    // SAFETY: the caller's promise.
    unsafe { writev(ep, &list, null_mut(), 1, to, offset, key, datatype, op, context) }
}

/// One place of numbers.
fn ioc(addr: *const c_void, count: usize) -> fi_ioc {
    fi_ioc { addr: addr.cast_mut(), count }
}

unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    list: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    to: u64,
    offset: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let (family, operands) = (Family::Write, NumberList { places: list, count });
    let (compare, before) = (NONE, NONE);
    let asked =
        AtomicArguments { family, datatype, op, operands, compare, before, to, offset, key };
    // SAFETY: the caller's promise.
    unsafe { change(ep, Ok(asked), context, None, false) }
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
    let list = ioc(operand, count);
    let (family, operands) = (Family::Write, NumberList { places: &raw const list, count: 1 });
    let (compare, before) = (NONE, NONE);
    let asked =
        AtomicArguments { family, datatype, op, operands, compare, before, to, offset, key };
    // SAFETY: the caller's promise.
    unsafe { change(ep, Ok(asked), null_mut(), None, true) }
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
    let (list, mut before) = (ioc(operand, count), ioc(before, count));
    let (none, before) = (null_mut(), &raw mut before);
    // SAFETY: the caller's promise.
    unsafe {
        readwritev(ep, &list, none, 1, before, none, 1, to, offset, key, datatype, op, context)
    }
}

unsafe extern "C" fn readwritev(
    ep: *mut fid_ep,
    list: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    before: *mut fi_ioc,
    _before_desc: *mut *mut c_void,
    before_count: usize,
    to: u64,
    offset: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    // The operands of a read are ignored.
    let operands =
        if op == sys::FI_ATOMIC_READ { NONE } else { NumberList { places: list, count } };
    let (family, compare) = (Family::Fetch, NONE);
    let before = NumberList { places: before.cast_const(), count: before_count };
    let asked =
        AtomicArguments { family, datatype, op, operands, compare, before, to, offset, key };
    // SAFETY: the caller's promise.
    unsafe { change(ep, Ok(asked), context, None, false) }
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
    let [list, compare, before] = [operand, compare, before.cast_const()].map(|at| ioc(at, count));
    let single = |places| NumberList { places, count: 1 };
    let (family, operands) = (Family::Compare, single(&raw const list));
    let (compare, before) = (single(&raw const compare), single(&raw const before));
    let asked =
        AtomicArguments { family, datatype, op, operands, compare, before, to, offset, key };
    // SAFETY: the caller's promise.
    unsafe { change(ep, Ok(asked), context, None, false) }
}

unsafe extern "C" fn compwritev(
    ep: *mut fid_ep,
    list: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    compare: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    before: *mut fi_ioc,
    _before_desc: *mut *mut c_void,
    before_count: usize,
    to: u64,
    offset: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let (family, operands) = (Family::Compare, NumberList { places: list, count });
    let compare = NumberList { places: compare, count: compare_count };
    let before = NumberList { places: before.cast_const(), count: before_count };
    let asked =
        AtomicArguments { family, datatype, op, operands, compare, before, to, offset, key };
    // SAFETY: the caller's promise.
    unsafe { change(ep, Ok(asked), context, None, false) }
}

/// The arguments in a message, and its context.
///
/// # Safety
/// `msg` is NULL or a message, whose lists have as many entries as it says.
unsafe fn of_msg(
    family: Family,
    msg: *const fi_msg_atomic,
    compare: NumberList,
    before: NumberList,
) -> (OfiResult<AtomicArguments>, *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(msg) = msg.as_ref() else { return (Err(Code::INVALID), null_mut()) };
        let place = msg.rma_iov.as_ref().filter(|_| msg.rma_iov_count == 1);
        let reads = msg.op == sys::FI_ATOMIC_READ;
        let list = NumberList { places: msg.msg_iov, count: msg.iov_count };
        let asked = place.ok_or(Code::INVALID).map(|place| AtomicArguments {
            family,
            datatype: msg.datatype,
            op: msg.op,
            operands: if reads { NONE } else { list },
            compare,
            before,
            to: msg.addr,
            offset: place.addr,
            key: place.key,
        });
        (asked, msg.context)
    }
}

unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let (asked, context) = of_msg(Family::Write, msg, NONE, NONE);
        change(ep, asked, context, Some(flags), false)
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
    let before = NumberList { places: before.cast_const(), count: before_count };
    // SAFETY: the caller's promise.
    unsafe {
        let (asked, context) = of_msg(Family::Fetch, msg, NONE, before);
        change(ep, asked, context, Some(flags), false)
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
    let compare = NumberList { places: compare, count: compare_count };
    let before = NumberList { places: before.cast_const(), count: before_count };
    // SAFETY: the caller's promise.
    unsafe {
        let (asked, context) = of_msg(Family::Compare, msg, compare, before);
        change(ep, asked, context, Some(flags), false)
    }
}

/// Most numbers of one operation, if there is such an operation.
fn most(family: Family, datatype: fi_datatype, op: fi_op) -> OfiResult<usize> {
    let number = change_of(family, datatype, op, 1)?.number();
    Ok(gigae::MOST_FETCHED / number.size())
}

/// # Safety
/// `count` is NULL or points to a writable number.
unsafe fn valid(family: Family, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int {
    status(|| {
        let most = most(family, datatype, op)?;
        // SAFETY: the caller's promise.
        if let Some(count) = unsafe { count.as_mut() } {
            *count = most;
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

/// The domain's result for the same query.
pub(crate) unsafe extern "C" fn query(
    _domain: *mut fid_domain,
    datatype: fi_datatype,
    op: fi_op,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    let family = match flags {
        0 => Family::Write,
        sys::FI_FETCH_ATOMIC => Family::Fetch,
        sys::FI_COMPARE_ATOMIC => Family::Compare,
        _ => return status(|| Err(Code::INVALID)),
    };
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let attr = attr.as_mut().ok_or(Code::INVALID)?;
        let number = change_of(family, datatype, op, 1)?.number();
        (attr.count, attr.size) = (most(family, datatype, op)?, number.size());
        Ok(())
    })
}
