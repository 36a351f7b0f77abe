//! Sending, with a copy and in place.

use crate::abi::{Buffer, EndpointHandle};
use crate::endpoint::{ENDPOINTS, OpenEndpoint, call};
use crate::error::{Code, EntryResult, Error, answer};
use crate::handle::contain;
use crate::text;
use gigae::{Endpoint, Peer, SendBuffer, SendError, TrySendError};
use std::ffi::{c_int, c_void};

/// Sends a message. See the header, as for all that follow.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_send(
    endpoint: *mut EndpointHandle,
    to: u32,
    data: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { send(endpoint, to, data, len, |e, to, bytes| Ok(e.send(to, bytes)?)) }
}

/// Queues a message without the doorbell.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_queue(
    endpoint: *mut EndpointHandle,
    to: u32,
    data: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { send(endpoint, to, data, len, |e, to, bytes| Ok(e.queue(to, bytes)?)) }
}

/// Sends a message if that needs no waiting.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_try_send(
    endpoint: *mut EndpointHandle,
    to: u32,
    data: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { send(endpoint, to, data, len, |e, to, bytes| Ok(e.try_send(to, bytes)?)) }
}

/// # Safety
/// `data` is NULL or points to `len` bytes.
#[inline]
unsafe fn send(
    endpoint: *mut EndpointHandle,
    to: u32,
    data: *const c_void,
    len: usize,
    how: impl FnOnce(&'static Endpoint, Peer, &[u8]) -> EntryResult<()>,
) -> c_int {
    call(endpoint, |state| {
        let to = state.peer(to)?;
        let endpoint = state.endpoint();
        check(len, endpoint.max_message())?;
        // SAFETY: the caller's promise, for a length that was checked.
        how(endpoint, to, unsafe { text::bytes(data, len)? })?;
        Ok(0)
    })
}

/// Refuses a wrong length before anything is read or used up.
#[inline]
fn check(len: usize, max: usize) -> EntryResult<()> {
    if len > max { Err(SendError::TooLong { len, max }.into()) } else { Ok(()) }
}

/// Rings the doorbell for queued messages.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_flush(endpoint: *mut EndpointHandle) -> c_int {
    call(endpoint, |state| {
        state.endpoint().flush()?;
        Ok(0)
    })
}

/// Takes a buffer to fill in place.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_buffer_take(
    endpoint: *mut EndpointHandle,
    buffer: *mut Buffer,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { take(endpoint, buffer, |endpoint| Ok(endpoint.buffer()?)) }
}

/// Takes a buffer to fill in place, if one is free.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_buffer_try_take(
    endpoint: *mut EndpointHandle,
    buffer: *mut Buffer,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { take(endpoint, buffer, |endpoint| Ok(endpoint.try_buffer().ok_or(Code::Again)?)) }
}

/// # Safety
/// `to` is NULL or points to writable memory for a `Buffer`.
#[inline]
unsafe fn take(
    handle: *mut EndpointHandle,
    to: *mut Buffer,
    how: impl FnOnce(&'static Endpoint) -> EntryResult<SendBuffer<'static>>,
) -> c_int {
    call(handle, |state| {
        // SAFETY: the caller's promise. NULL is noticed before anything is taken.
        unsafe { text::put(to, Buffer::EMPTY, "where to put the buffer")? };
        let taken = how(state.endpoint())?;
        let ticket = state.buffers.insert(taken).map_err(|_| Code::TooMany)?;
        let bytes = state.buffers.get_mut(ticket).ok_or(Code::BadHandle)?;
        let buffer = Buffer {
            capacity: bytes.len(),
            data: bytes.as_mut_ptr().cast(),
            opaque: [handle.addr() as u64, ticket, 0, 0],
        };
        // SAFETY: the caller's promise.
        unsafe { text::put(to, buffer, "where to put the buffer")? };
        Ok(0)
    })
}

/// Sends a buffer.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_buffer_send(buffer: *mut Buffer, to: u32, len: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { spend(buffer, to, len, |buffer, to| Ok(buffer.send(to, len)?)) }
}

/// Sends a buffer without the doorbell.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_buffer_queue(buffer: *mut Buffer, to: u32, len: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { spend(buffer, to, len, |buffer, to| Ok(buffer.queue(to, len)?)) }
}

/// Queues a buffer without the doorbell, if that needs no waiting.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_buffer_try_queue(buffer: *mut Buffer, to: u32, len: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { spend(buffer, to, len, |buffer, to| buffer.try_queue(to, len)) }
}

/// Returns a buffer unsent.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_buffer_drop(buffer: *mut Buffer) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(buffer, |state, ticket| {
            drop(state.buffers.remove(ticket).ok_or(Code::BadHandle)?);
            Ok(SendResult::Taken)
        })
    }
}

/// What happened to a buffer or a message.
enum SendResult {
    /// C code does not hold it any more.
    Taken,
    /// It is used up, and there is an error to report.
    Lost(Error),
    /// C code still holds it: there was no room.
    WouldBlock,
}

/// Sends a buffer in one of several ways. It is then used up, unless there was no room or the
/// arguments were refused earlier.
///
/// # Safety
/// `buffer` is NULL or points to a `Buffer`.
#[inline]
unsafe fn spend(
    buffer: *mut Buffer,
    to: u32,
    len: usize,
    how: impl FnOnce(SendBuffer<'static>, Peer) -> Result<(), TrySendError<SendBuffer<'static>>>,
) -> c_int {
    let work = |state: &mut OpenEndpoint, ticket| {
        let to = state.peer(to)?;
        let capacity = state.buffers.get(ticket).ok_or(Code::BadHandle)?.len();
        check(len, capacity)?;
        let taken = state.buffers.lift(ticket).ok_or(Code::BadHandle)?;
        let end = match how(taken, to) {
            Ok(()) => SendResult::Taken,
            Err(TrySendError::Refused(e)) => SendResult::Lost(e.into()),
            Err(TrySendError::WouldBlock(back)) => {
                state.buffers.put(ticket, back);
                return Ok(SendResult::WouldBlock);
            }
        };
        state.buffers.remove(ticket);
        Ok(end)
    };
    // SAFETY: the caller's promise.
    unsafe { with(buffer, work) }
}

/// Looks up the buffer that C code holds, and empties C's structure if it is used up.
///
/// # Safety
/// `buffer` is NULL or points to a `Buffer`.
#[inline]
unsafe fn with(
    buffer: *mut Buffer,
    work: impl FnOnce(&mut OpenEndpoint, u64) -> EntryResult<SendResult>,
) -> c_int {
    answer(contain(|| {
        // SAFETY: the caller's promise.
        let held = unsafe { buffer.as_mut() }.ok_or_else(|| Error::null("the buffer"))?;
        let [handle, ticket, ..] = held.opaque;
        if handle == 0 {
            return Err(Code::BadHandle.into());
        }
        // A valid handle came from an address and fits into one. A made-up one may not.
        let handle = usize::try_from(handle).map_err(|_| Code::BadHandle)?;
        match ENDPOINTS.with(handle, |state| work(state, ticket))? {
            SendResult::WouldBlock => return Err(Code::Again.into()),
            SendResult::Taken => *held = Buffer::EMPTY,
            SendResult::Lost(error) => {
                *held = Buffer::EMPTY;
                return Err(error);
            }
        }
        Ok(0)
    }))
}
