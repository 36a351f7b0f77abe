//! Waiting, progress, and event loops.

use crate::abi::EndpointHandle;
use crate::endpoint::call;
use crate::error::{Code, Error};
use crate::options::wait;
use crate::text;
use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The descriptor for epoll. See the header, as for all that follow.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_fd(endpoint: *mut EndpointHandle) -> c_int {
    call(endpoint, |state| {
        let fd = state.endpoint().fd();
        let none = || Error::new(Code::Unsupported, "this link has no descriptor");
        Ok(fd.ok_or_else(none)?.as_raw_fd())
    })
}

/// Before sleeping on the descriptor.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_prepare_to_wait(
    endpoint: *mut EndpointHandle,
    microseconds: *mut i64,
) -> c_int {
    call(endpoint, |state| {
        // SAFETY: the caller's promise.
        unsafe { text::put(microseconds, 0, "where to put the time")? };
        let time = state.endpoint().prepare_to_wait()?.map_or(-1, |time| {
            // Rounded up: a sleep that ends too early finds nothing to do.
            i64::try_from(time.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX)
        });
        // SAFETY: the caller's promise.
        unsafe { text::put(microseconds, time, "where to put the time")? };
        Ok(0)
    })
}

/// Takes in frames and does what is due, without waiting.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_progress(endpoint: *mut EndpointHandle) -> c_int {
    call(endpoint, |state| {
        state.endpoint().progress()?;
        Ok(0)
    })
}

/// Waits for all acknowledgements.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_drain(endpoint: *mut EndpointHandle, microseconds: u64) -> c_int {
    call(endpoint, |state| {
        state.endpoint().drain(Duration::from_micros(microseconds))?;
        Ok(0)
    })
}

/// Changes the waiting style.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_set_wait(endpoint: *mut EndpointHandle, style: c_int) -> c_int {
    call(endpoint, |state| {
        state.endpoint().set_wait(wait(style)?);
        Ok(0)
    })
}
