//! A provider for libfabric: programs that use libfabric, and MPI on top of it, run over gigae's
//! messages without recompilation. `docs/reference/libfabric.md` says what is supported.
//!
//! libfabric loads the library from the directories in `FI_PROVIDER_PATH` and calls
//! [`fi_prov_ini`]. All other entries are reached by tables. There is one file for each kind of
//! object and one for each table of operations. Files use only those of lower layers:
//!
//! | layer | files |
//! |---|---|
//! | entry | `lib` |
//! | opening: sets the tables of all others | `fabric`, `info` |
//! | an endpoint's entries | `ep` |
//! | operations | `msg`, `tagged`, `rma`, `atomic`, `cm`, `mr` |
//! | what an endpoint of libfabric and a domain know | `endpoint`, `domain`, `region` |
//! | other objects | `cq`, `counter`, `poll`, `av`, `eq` |
//! | one endpoint of the library behind a lock | `sources`, `core`, `state` |
//! | what it reads and reports to | `completions`, `count`, `addresses`, `request` |
//! | basics | `object`, `wait`, `spin`, `address`, `settings`, `launcher`, `provider`, `host`, `error`, `sys` |
//!
//! An object that others report to or read has two files. One has what endpoints know of it
//! (`completions`, `count`, `addresses`). The other has its entries (`cq`, `counter`, `av`), which
//! make progress at endpoints.
//!
//! This is the edge to C: every entry catches panics and checks what can be checked. What cannot be
//! checked, such as a closed descriptor, is the caller's promise, as everywhere in libfabric.

mod address;
mod addresses;
mod atomic;
mod av;
mod cm;
mod completions;
mod core;
mod count;
mod counter;
mod cq;
mod domain;
mod endpoint;
mod ep;
mod eq;
mod error;
mod fabric;
mod host;
mod info;
mod launcher;
mod lock;
mod mr;
mod msg;
mod object;
mod poll;
mod provider;
mod region;
mod request;
mod rma;
mod settings;
mod sources;
mod spin;
mod state;
#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    clippy::all,
    reason = "C's names; its headers document them"
)]
mod sys;
mod tagged;
#[cfg(test)]
mod tests;
mod wait;

use std::cell::UnsafeCell;

/// The provider's description, which libfabric writes to.
struct Provider(UnsafeCell<sys::fi_provider>);

// SAFETY: libfabric uses it under its own lock.
unsafe impl Sync for Provider {}

static PROVIDER: Provider = Provider(UnsafeCell::new(sys::fi_provider {
    version: provider::VERSION,
    fi_version: 0,
    context: sys::fi_context { internal: [std::ptr::null_mut(); 4] },
    name: c"gigae".as_ptr(),
    getinfo: Some(info::getinfo),
    fabric: Some(fabric::open),
    cleanup: Some(cleanup),
}));

/// Everything ends with its object.
unsafe extern "C" fn cleanup() {}

/// libfabric calls this when it has loaded the library. Returns the provider's description, or NULL
/// if libfabric's own functions are not found.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut std::ffi::c_void {
    let Some(host) = host::host() else { return std::ptr::null_mut() };
    let provider = PROVIDER.0.get();
    // SAFETY: libfabric calls this once, before it uses what it returns.
    unsafe { (*provider).fi_version = host.version() };
    provider.cast()
}
