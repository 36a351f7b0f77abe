//! libfabric's interface as Rust sees it: the types and constants of its C headers, one file for
//! each. C's headers share one name space and refer to each other, and so do these: all names are
//! used as `sys::NAME`.
//!
//! bindgen 0.72.1 has made them from the headers of libfabric 1.17 (`fabric.h`, `fi_atomic.h`,
//! `fi_cm.h`, `fi_domain.h`, `fi_endpoint.h`, `fi_eq.h`, `fi_errno.h`, `fi_rma.h`, `fi_tagged.h`,
//! `providers/fi_prov.h`) with
//!
//! ```text
//! --no-doc-comments --no-layout-tests --no-prepend-enum-name --no-derive-debug --use-core
//! --allowlist-type 'fi_.*|fid.*|iovec' --allowlist-var 'FI_.*' --blocklist-function '.*'
//! --default-enum-style consts --rust-target 1.85 --rust-edition 2024
//! ```
//!
//! Then macros were made `u64` (`sed -E 's/^(pub const FI_[A-Z0-9_]+): u32 = /\1: u64 = /'`), types
//! of pthreads and of poll(2) left out, and the items sorted by header. Then what nothing uses was
//! left out: items that neither the provider nor another item here needs. The command makes them
//! again. Structs became `records!` and `tables!`, with all of C's fields in C's order. Everything
//! became `pub(crate)`.

/// Plain structs of C.
macro_rules! records {
    ($(struct $name:ident { $($field:ident: $of:ty),* $(,)? })*) => {$(
        #[repr(C)]
        #[derive(Copy, Clone)]
        pub(crate) struct $name {
            $(pub(crate) $field: $of,)*
        }
    )*};
}

/// Tables of operations: the table's size, then pointers to functions.
macro_rules! tables {
    ($(struct $name:ident {
        $($entry:ident($($argument:ident: $of:ty),*) -> $result:ty;)*
    })*) => {$(
        #[repr(C)]
        #[derive(Copy, Clone)]
        pub(crate) struct $name {
            pub(crate) size: usize,
            $(pub(crate) $entry: Option<unsafe extern "C" fn($($argument: $of),*) -> $result>,)*
        }
    )*};
}

mod atomic;
mod cm;
mod collective;
mod domain;
mod endpoint;
mod eq;
mod errno;
mod fabric;
mod info;
mod prov;
mod rma;
mod tagged;

pub(crate) use atomic::*;
pub(crate) use cm::*;
pub(crate) use collective::*;
pub(crate) use domain::*;
pub(crate) use endpoint::*;
pub(crate) use eq::*;
pub(crate) use errno::*;
pub(crate) use fabric::*;
pub(crate) use info::*;
pub(crate) use prov::*;
pub(crate) use rma::*;
pub(crate) use tagged::*;
