//! `providers/fi_prov.h`: the description of a provider for libfabric.

use super::*;
use std::ffi::{c_char, c_int, c_void};

pub const FI_LIB_EXTENSION: &[u8; 3] = b"fi\0";
pub const FI_LIB_SUFFIX: &[u8; 6] = b"fi.so\0";

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_provider {
    pub version: u32,
    pub fi_version: u32,
    pub context: fi_context,
    pub name: *const c_char,
    pub getinfo: Option<
        unsafe extern "C" fn(
            version: u32,
            node: *const c_char,
            service: *const c_char,
            flags: u64,
            hints: *const fi_info,
            info: *mut *mut fi_info,
        ) -> c_int,
    >,
    pub fabric: Option<
        unsafe extern "C" fn(
            attr: *mut fi_fabric_attr,
            fabric: *mut *mut fid_fabric,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub cleanup: Option<unsafe extern "C" fn()>,
}
