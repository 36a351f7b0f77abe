//! Operations: started with memory of C code, completed later. C code names each by a ticket
//! (`tickets.rs`).

use crate::abi::*;
use crate::caller_memory::borrow;
use crate::endpoint::{OpenEndpoint, call};
use crate::error::{Code, EntryResult, Error};
use crate::text;
use gigae::{Endpoint, OpError, OpId, OperationError, Peer, RegionKey, Wanted};
use std::ffi::{c_int, c_void};
use std::time::Duration;

/// Starts an operation and returns its number to C code.
///
/// # Safety
/// `id` is NULL or points to a writable number.
unsafe fn start(
    endpoint: *mut EndpointHandle,
    context: *mut c_void,
    id: *mut u64,
    how: impl FnOnce(&OpenEndpoint, &Endpoint) -> EntryResult<OpId>,
) -> c_int {
    call(endpoint, |state| {
        let put = |ticket| {
            // SAFETY: not NULL, and the caller's promise.
            (!id.is_null()).then(|| unsafe { id.write(ticket) });
        };
        put(0);
        let endpoint = state.endpoint();
        let op = how(state, endpoint)?;
        put(state.operations.insert(endpoint, op, context)?);
        Ok(0)
    })
}

impl From<OperationError> for Error {
    fn from(e: OperationError) -> Self {
        Self::new(Code::TooMany, e)
    }
}

/// Starts sending a tagged message. See the header, as for all that follow.
///
/// # Safety
/// Pointers are NULL or as the header says; the library uses the memory until the completion.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_start_send(
    endpoint: *mut EndpointHandle,
    to: u32,
    tag: u64,
    data: *const c_void,
    len: usize,
    context: *mut c_void,
    id: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise; what is sent is not written to.
    unsafe {
        start(endpoint, context, id, |state, endpoint| {
            Ok(endpoint.start_send(state.peer(to)?, tag, borrow(data.cast_mut(), len)?)?)
        })
    }
}

/// Starts receiving a tagged message.
///
/// # Safety
/// Pointers are NULL or as the header says; the library uses the memory until the completion.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_start_recv(
    endpoint: *mut EndpointHandle,
    from: u32,
    tag: u64,
    ignore: u64,
    data: *mut c_void,
    len: usize,
    context: *mut c_void,
    id: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        start(endpoint, context, id, |state, endpoint| {
            let wanted = wanted(state, from, tag, ignore)?;
            Ok(endpoint.start_recv(wanted, borrow(data, len)?)?)
        })
    }
}

fn wanted(state: &OpenEndpoint, from: u32, tag: u64, ignore: u64) -> EntryResult<Wanted> {
    let from = if from == ANYBODY { None } else { Some(state.peer(from)?) };
    Ok(Wanted { from, tag, ignore, untagged: false })
}

/// The message that a receive would get at once.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_peek(
    endpoint: *mut EndpointHandle,
    from: u32,
    tag: u64,
    ignore: u64,
    found: *mut Tagged,
) -> c_int {
    call(endpoint, |state| {
        let empty = Tagged { tag: 0, len: 0, from: 0, reserved: 0 };
        // SAFETY: the caller's promise.
        unsafe { text::put(found, empty, "where to put what is found")? };
        let wanted = wanted(state, from, tag, ignore)?;
        let (peer, label, len) = state.endpoint().peek(wanted).ok_or(Code::Again)?;
        let message = Tagged { tag: label.tag, len, from: state.peers.number(peer), reserved: 0 };
        // SAFETY: the caller's promise.
        unsafe { text::put(found, message, "where to put what is found")? };
        Ok(0)
    })
}

/// Cancels an operation.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_cancel(endpoint: *mut EndpointHandle, id: u64) -> c_int {
    call(endpoint, |state| {
        let going = state.operations.going(id)?;
        Ok(c_int::from(going.is_some_and(|op| state.endpoint().cancel(op))))
    })
}

/// The address in a peer's memory.
///
/// # Safety
/// `place` is NULL or points to a `RemoteAddress`.
unsafe fn at(
    state: &OpenEndpoint,
    place: *const RemoteAddress,
) -> EntryResult<(Peer, RegionKey, u64)> {
    // SAFETY: the caller's promise.
    let place = unsafe { place.as_ref() }.ok_or_else(|| Error::null("the place"))?;
    Ok((state.peer(place.peer)?, RegionKey(place.key), place.offset))
}

/// Starts writing into a peer's memory.
///
/// # Safety
/// Pointers are NULL or as the header says; the library uses the memory until the completion.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_start_write(
    endpoint: *mut EndpointHandle,
    to: *const RemoteAddress,
    data: *const c_void,
    len: usize,
    notice: *const u64,
    context: *mut c_void,
    id: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise; what is sent is not written to.
    unsafe {
        start(endpoint, context, id, |state, endpoint| {
            let (peer, key, offset) = at(state, to)?;
            let memory = borrow(data.cast_mut(), len)?;
            Ok(endpoint.start_write(peer, key, offset, memory, notice.as_ref().copied())?)
        })
    }
}

/// Starts reading a peer's memory.
///
/// # Safety
/// Pointers are NULL or as the header says; the library uses the memory until the completion.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_start_read(
    endpoint: *mut EndpointHandle,
    from: *const RemoteAddress,
    data: *mut c_void,
    len: usize,
    context: *mut c_void,
    id: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        start(endpoint, context, id, |state, endpoint| {
            let (peer, key, offset) = at(state, from)?;
            Ok(endpoint.start_read(peer, key, offset, borrow(data, len)?)?)
        })
    }
}

/// Starts adding to a number in a peer's memory.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_start_fetch_add(
    endpoint: *mut EndpointHandle,
    place: *const RemoteAddress,
    operand: u64,
    context: *mut c_void,
    id: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        start(endpoint, context, id, |state, endpoint| {
            let (peer, key, offset) = at(state, place)?;
            Ok(endpoint.start_fetch_add(peer, key, offset, operand)?)
        })
    }
}

/// Starts replacing a number in a peer's memory.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_start_compare_swap(
    endpoint: *mut EndpointHandle,
    place: *const RemoteAddress,
    expected: u64,
    desired: u64,
    context: *mut c_void,
    id: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        start(endpoint, context, id, |state, endpoint| {
            let (peer, key, offset) = at(state, place)?;
            Ok(endpoint.start_compare_swap(peer, key, offset, expected, desired)?)
        })
    }
}

/// The next operation that has ended, if one has.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_try_completion(
    endpoint: *mut EndpointHandle,
    completion: *mut Completion,
) -> c_int {
    let take = |endpoint: &Endpoint| Ok(endpoint.try_completion()?.ok_or(Code::Again)?);
    // SAFETY: the caller's promise.
    unsafe { complete(endpoint, completion, take) }
}

/// The next operation that has ended, within a time.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_completion_timeout(
    endpoint: *mut EndpointHandle,
    completion: *mut Completion,
    microseconds: u64,
) -> c_int {
    let take = |endpoint: &Endpoint| {
        let ended = endpoint.completion_timeout(Duration::from_micros(microseconds))?;
        let why = if endpoint.outstanding() == 0 { Code::Again } else { Code::Timeout };
        Ok(ended.ok_or(why)?)
    };
    // SAFETY: the caller's promise.
    unsafe { complete(endpoint, completion, take) }
}

/// # Safety
/// `to` is NULL or points to writable memory for a `Completion`.
unsafe fn complete(
    endpoint: *mut EndpointHandle,
    to: *mut Completion,
    take: impl FnOnce(&Endpoint) -> EntryResult<gigae::Completion>,
) -> c_int {
    call(endpoint, |state| {
        // SAFETY: the caller's promise. NULL is noticed before anything is taken.
        unsafe { text::put(to, Completion::EMPTY, "where to put the completion")? };
        if state.operations.is_empty() {
            let ended = take(state.endpoint())?;
            state.operations.keep(ended);
        }
        let (id, context, ended) = state.operations.take()?;
        let completion = Completion {
            id,
            context,
            tag: ended.tag,
            value: ended.value,
            len: ended.len,
            total: ended.total,
            peer: ended.peer.map_or(0, |peer| state.peers.number(peer)),
            status: ended.result.map_or_else(|e| Code::of_operation(e) as c_int, |()| 0),
            reason: match ended.result {
                Err(OpError::Lost(why)) => reason(why),
                _ => GIGAE_REASON_OTHER,
            },
            reserved: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { text::put(to, completion, "where to put the completion")? };
        Ok(0)
    })
}

/// The number of operations whose completion was not taken.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_outstanding(
    endpoint: *mut EndpointHandle,
    operations: *mut usize,
) -> c_int {
    call(endpoint, |state| {
        let count = state.operations.ended() + state.endpoint().outstanding();
        // SAFETY: the caller's promise.
        unsafe { text::put(operations, count, "where to put the number")? };
        Ok(0)
    })
}
