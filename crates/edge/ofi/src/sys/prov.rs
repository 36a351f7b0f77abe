//! `providers/fi_prov.h`: the description of a provider for libfabric.

use super::*;
use std::ffi::{c_char, c_int, c_void};

records! {
    struct fi_provider {
        version: u32,
        fi_version: u32,
        context: fi_context,
        name: *const c_char,
        getinfo: Option<unsafe extern "C" fn(version: u32, node: *const c_char,
            service: *const c_char, flags: u64, hints: *const fi_info,
            info: *mut *mut fi_info) -> c_int>,
        fabric: Option<unsafe extern "C" fn(attr: *mut fi_fabric_attr, fabric: *mut *mut fid_fabric,
            context: *mut c_void) -> c_int>,
        cleanup: Option<unsafe extern "C" fn()>,
    }
}
