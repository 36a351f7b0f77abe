//! Receiving in place, and failures.

use crate::abi::*;
use crate::endpoint::{ENDPOINTS, call};
use crate::error::{Code, EntryResult, Error, answer};
use crate::handle::contain;
use crate::text;
use gigae::{Endpoint, RecvError};
use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

/// The next message. See the header, as for all that follow.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_recv(endpoint: *mut EndpointHandle, message: *mut Message) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { receive(endpoint, message, Code::Again, |e| e.recv().map(Some)) }
}

/// The next message, if there is one.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_try_recv(
    endpoint: *mut EndpointHandle,
    message: *mut Message,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { receive(endpoint, message, Code::Again, Endpoint::try_recv) }
}

/// The next message within a time.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_recv_timeout(
    endpoint: *mut EndpointHandle,
    message: *mut Message,
    microseconds: u64,
) -> c_int {
    let timeout = Duration::from_micros(microseconds);
    // SAFETY: the caller's promise.
    unsafe { receive(endpoint, message, Code::Timeout, |e| e.recv_timeout(timeout)) }
}

/// # Safety
/// `to` is NULL or points to writable memory for a `Message`.
#[inline]
unsafe fn receive(
    handle: *mut EndpointHandle,
    to: *mut Message,
    none: Code,
    how: impl FnOnce(&'static Endpoint) -> Result<Option<gigae::Message<'static>>, RecvError>,
) -> c_int {
    call(handle, |state| {
        // SAFETY: the caller's promise. NULL is noticed before anything is received.
        unsafe { text::put(to, Message::EMPTY, "where to put the message")? };
        let received = how(state.endpoint())?.ok_or(none)?;
        let from = state.peers.number(received.from());
        let ticket = state.messages.insert(received).map_err(|_| Code::TooMany)?;
        // The bytes lie in a frame or on the heap and stay there when the object moves.
        let bytes = state.messages.get(ticket).ok_or(Code::BadHandle)?;
        let message = Message {
            data: bytes.as_ptr().cast(),
            len: bytes.len(),
            from,
            reserved: 0,
            opaque: [handle.addr() as u64, ticket, 0, 0],
        };
        // SAFETY: the caller's promise.
        unsafe { text::put(to, message, "where to put the message")? };
        Ok(0)
    })
}

/// Returns a message.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_message_drop(message: *mut Message) -> c_int {
    answer(contain(|| {
        // SAFETY: the caller's promise.
        let held = unsafe { message.as_mut() }.ok_or_else(|| Error::null("the message"))?;
        let [handle, ticket, ..] = held.opaque;
        if handle == 0 {
            return Err(Code::BadHandle.into());
        }
        // A valid handle came from an address and fits into one. A made-up one may not.
        let handle = usize::try_from(handle).map_err(|_| Code::BadHandle)?;
        ENDPOINTS.with(handle, |state| {
            drop(state.messages.remove(ticket).ok_or(Code::BadHandle)?);
            Ok(())
        })?;
        *held = Message::EMPTY;
        Ok(0)
    }))
}

/// The next message that failed.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_take_failure(
    endpoint: *mut EndpointHandle,
    failure: *mut Failure,
    data: *mut c_void,
    size: usize,
) -> c_int {
    call(endpoint, |state| {
        // SAFETY: the caller's promise. Wrong arguments are noticed before anything is taken.
        unsafe { text::put(failure, Failure::EMPTY, "where to put the failure")? };
        if data.is_null() && size > 0 {
            return Err(Error::null("the data"));
        }
        let failed = state.endpoint().take_failure().ok_or(Code::Again)?;
        let fits = failed.len().min(size);
        if fits > 0 {
            // SAFETY: the caller's promise: `size` writable bytes, which are not the library's.
            unsafe { data.cast::<u8>().copy_from_nonoverlapping(failed.as_ptr(), fits) };
        }
        let said = Failure {
            to: state.peers.number(failed.to()),
            reason: reason(failed.reason()),
            len: failed.len(),
            why: why(&failed.to_string())?,
        };
        // SAFETY: the caller's promise.
        unsafe { text::put(failure, said, "where to put the failure")? };
        Ok(0)
    })
}

impl Failure {
    const EMPTY: Self = Self { to: 0, reason: GIGAE_REASON_OTHER, len: 0, why: [0; WHY] };
}

fn why(text: &str) -> EntryResult<[c_char; WHY]> {
    let mut why = [0; WHY];
    // SAFETY: the array's own size.
    unsafe { text::give(text, why.as_mut_ptr(), WHY)? };
    Ok(why)
}
