//! Memory of C code that peers may use, and their notices.

use crate::abi::*;
use crate::caller_memory::borrow;
use crate::endpoint::{OpenEndpoint, call};
use crate::error::{Code, EntryResult, Error};
use crate::memory::shared;
use crate::text;
use gigae::{RegionKey, Rights};
use std::ffi::{c_int, c_void};
use std::time::Duration;

/// Lets peers use a memory. See the header, as for all that follow.
///
/// # Safety
/// Pointers are NULL or as the header says. The library also uses the memory until it is
/// deregistered or the endpoint closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_register(
    endpoint: *mut EndpointHandle,
    data: *mut c_void,
    len: usize,
    rights: c_int,
    key: *mut u64,
) -> c_int {
    call(endpoint, |state| {
        // SAFETY: the caller's promise. NULL is noticed before anything is registered.
        unsafe { text::put(key, 0, "where to put the key")? };
        let rights = self::rights(rights)?;
        let memory = match shared(data, len)? {
            Some(buffer) => buffer.into(),
            // SAFETY: the caller's promise.
            None => unsafe { borrow(data, len)? },
        };
        let RegionKey(number) = state.endpoint().register(memory, rights)?;
        // SAFETY: the caller's promise.
        unsafe { text::put(key, number, "where to put the key")? };
        Ok(0)
    })
}

/// The sum of one or several rights.
fn rights(bits: c_int) -> EntryResult<Rights> {
    let all = [
        (GIGAE_RIGHT_READ, Rights::READ),
        (GIGAE_RIGHT_WRITE, Rights::WRITE),
        (GIGAE_RIGHT_ATOMIC, Rights::ATOMIC),
    ];
    let known = all.iter().fold(0, |known, (bit, _)| known | bit);
    if bits & !known != 0 || bits == 0 {
        return Err(Error::invalid(format!("the rights are {bits}; give bits of gigae_rights")));
    }
    let given = all.iter().filter(|(bit, _)| bits & bit != 0);
    Ok(given.fold(Rights::NONE, |rights, &(_, right)| rights.with(right)))
}

/// Takes a memory back.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_deregister(endpoint: *mut EndpointHandle, key: u64) -> c_int {
    call(endpoint, |state| {
        drop(state.endpoint().deregister(RegionKey(key)).ok_or(Code::BadHandle)?);
        Ok(0)
    })
}

/// The next notice, if there is one.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_try_notice(
    endpoint: *mut EndpointHandle,
    notice: *mut Notice,
) -> c_int {
    let take = |state: &mut OpenEndpoint| state.endpoint().try_notice()?.ok_or(Code::Again.into());
    // SAFETY: the caller's promise.
    unsafe { notify(endpoint, notice, take) }
}

/// The next notice within a time.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_notice_timeout(
    endpoint: *mut EndpointHandle,
    notice: *mut Notice,
    microseconds: u64,
) -> c_int {
    let take = |state: &mut OpenEndpoint| {
        let timeout = Duration::from_micros(microseconds);
        state.endpoint().notice_timeout(timeout)?.ok_or(Code::Timeout.into())
    };
    // SAFETY: the caller's promise.
    unsafe { notify(endpoint, notice, take) }
}

/// # Safety
/// `to` is NULL or points to writable memory for a `Notice`.
unsafe fn notify(
    endpoint: *mut EndpointHandle,
    to: *mut Notice,
    take: impl FnOnce(&mut OpenEndpoint) -> EntryResult<gigae::Notice>,
) -> c_int {
    call(endpoint, |state| {
        // SAFETY: the caller's promise. NULL is noticed before anything is taken.
        unsafe { text::put(to, Notice::default(), "where to put the notice")? };
        let gigae::Notice { peer, key: RegionKey(key), offset, len, value, .. } = take(state)?;
        let notice = Notice { key, offset, value, peer: state.peers.number(peer), len };
        // SAFETY: the caller's promise.
        unsafe { text::put(to, notice, "where to put the notice")? };
        Ok(0)
    })
}
