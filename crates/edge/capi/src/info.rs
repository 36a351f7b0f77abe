//! Queries.

use crate::abi::{Counts, EndpointHandle, Path};
use crate::endpoint::call;
use crate::error::Error;
use crate::text;
use std::ffi::{CStr, c_char, c_int};

/// The release as text. See the header, as for all that follow.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_version() -> *const c_char {
    const VERSION: &CStr = {
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no NUL in it"),
        }
    };
    VERSION.as_ptr()
}

/// Longest message.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_max_message(
    endpoint: *mut EndpointHandle,
    bytes: *mut usize,
) -> c_int {
    call(endpoint, |state| {
        // SAFETY: the caller's promise.
        unsafe { text::put(bytes, state.endpoint().max_message(), "where to put the length")? };
        Ok(0)
    })
}

/// The interface's own MAC address as text.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_mac(
    endpoint: *mut EndpointHandle,
    text: *mut c_char,
    size: usize,
) -> c_int {
    call(endpoint, |state| {
        // SAFETY: the caller's promise.
        unsafe { text::give(&state.endpoint().link().mac.to_string(), text, size) }
    })
}

/// The address by which others name the endpoint.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_address(
    endpoint: *mut EndpointHandle,
    text: *mut c_char,
    size: usize,
) -> c_int {
    call(endpoint, |state| {
        // SAFETY: the caller's promise.
        unsafe { text::give(&state.endpoint().identity().address.to_string(), text, size) }
    })
}

/// The link underneath, in one line.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_link_info(
    endpoint: *mut EndpointHandle,
    text: *mut c_char,
    size: usize,
) -> c_int {
    call(endpoint, |state| {
        let link = state.endpoint().link();
        let line = format!(
            "{} {}, {}, {} transmit and {} receive frames: {}",
            link.interface, link.mac, link.mode, link.tx_frames, link.rx_frames, link.reason
        );
        // SAFETY: the caller's promise.
        unsafe { text::give(&line.replace('\n', " "), text, size) }
    })
}

/// The counters.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_counters(
    endpoint: *mut EndpointHandle,
    counts: *mut Counts,
    size: usize,
) -> c_int {
    call(endpoint, |state| {
        if counts.is_null() {
            return Err(Error::null("where to put the counts"));
        }
        let all = Counts::from(state.endpoint().counters());
        let (known, bytes) = (size.min(size_of::<Counts>()), counts.cast::<u8>());
        // SAFETY: the caller's promise: `size` writable bytes. A program built with an older header
        // has a shorter structure, one with a newer header a longer one.
        unsafe {
            bytes.copy_from_nonoverlapping((&raw const all).cast(), known);
            bytes.add(known).write_bytes(0, size - known);
        }
        Ok(0)
    })
}

/// The endpoint's interfaces with their counters.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_paths(
    endpoint: *mut EndpointHandle,
    paths: *mut Path,
    count: usize,
) -> c_int {
    call(endpoint, |state| {
        if paths.is_null() && count > 0 {
            return Err(Error::null("where to put the paths"));
        }
        let all = state.endpoint().paths();
        for (i, path) in all.iter().take(count).enumerate() {
            // SAFETY: the caller's promise: memory for that many.
            unsafe { paths.add(i).write(path.into()) };
        }
        // There are 8 at most.
        Ok(all.len() as c_int)
    })
}
