//! A provider for libfabric: programs that speak libfabric, and MPI above it, run over gigae's
//! messages with nothing recompiled. `docs/libfabric.md` says what is there and what is not.
//!
//! libfabric loads the library from the directories in `FI_PROVIDER_PATH` and calls [`fi_prov_ini`].
//! Everything else is reached by tables of entries, one file for each kind of object: fabric, domain,
//! endpoint, address vector, completion and event queue, counter, memory region; and one for each
//! table of operations. `core.rs` and `state.rs` are where they meet: one endpoint of the library behind a
//! lock.
//!
//! This is C's edge: every entry catches panics and checks what can be checked. What cannot be,
//! such as a descriptor that was closed, is the caller's promise, as everywhere in libfabric.

mod accesses;
mod address;
mod atomic;
mod av;
mod cm;
mod core;
mod counter;
mod cq;
mod domain;
mod ep;
mod eq;
mod error;
mod fabric;
mod host;
mod info;
mod launcher;
mod mr;
mod msg;
mod object;
mod poll;
mod report;
mod request;
mod rma;
mod settings;
mod spin;
mod state;
#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    unreachable_pub,
    clippy::all,
    reason = "C's names; its headers document them"
)]
mod sys;
mod tagged;
#[cfg(test)]
mod tests;
mod wait;

use std::cell::UnsafeCell;

/// The provider's version as libfabric has it: two numbers of 16 bits.
pub(crate) const VERSION: u32 = 1;

/// The provider's description, which libfabric writes to.
struct Provider(UnsafeCell<sys::fi_provider>);

// SAFETY: libfabric uses it under a lock of its own.
unsafe impl Sync for Provider {}

static PROVIDER: Provider = Provider(UnsafeCell::new(sys::fi_provider {
    version: VERSION,
    fi_version: 0,
    context: sys::fi_context { internal: [std::ptr::null_mut(); 4] },
    name: c"gigae".as_ptr(),
    getinfo: Some(info::getinfo),
    fabric: Some(fabric::open),
    cleanup: Some(cleanup),
}));

/// Nothing outlives its objects.
unsafe extern "C" fn cleanup() {}

/// What libfabric calls when it has loaded the library: the provider's description, or NULL if
/// libfabric's own functions are not found.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut std::ffi::c_void {
    let Some(host) = host::host() else { return std::ptr::null_mut() };
    let provider = PROVIDER.0.get();
    // SAFETY: libfabric calls this once, before it uses what it returns.
    unsafe { (*provider).fi_version = host.version() };
    provider.cast()
}
