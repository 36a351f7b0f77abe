//! The functions of libfabric itself that a provider needs.
//!
//! They are looked up when the provider is loaded, and not linked. So the crate builds without
//! libfabric, and uses the libfabric that loaded it, which may be the program's own.

use crate::sys;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

type DupInfo = unsafe extern "C" fn(*const sys::fi_info) -> *mut sys::fi_info;
type FreeInfo = unsafe extern "C" fn(*mut sys::fi_info);
type Version = unsafe extern "C" fn() -> u32;

pub(crate) struct HostInfo {
    dup_info: DupInfo,
    free_info: FreeInfo,
    version: Version,
}

/// The name of libfabric, if the program hides it from other libraries.
const LIBRARY: &CStr = c"libfabric.so.1";

/// libfabric, if it is in this process or can be loaded.
pub(crate) fn host() -> Option<&'static HostInfo> {
    static HOST: OnceLock<Option<HostInfo>> = OnceLock::new();
    HOST.get_or_init(|| {
        let [dup_info, free_info, version] =
            [c"fi_dupinfo", c"fi_freeinfo", c"fi_version"].map(find);
        // SAFETY: these are the types of the functions with these names in libfabric's interface,
        // which does not change; none is null.
        unsafe {
            Some(HostInfo {
                dup_info: std::mem::transmute::<*mut c_void, DupInfo>(dup_info?),
                free_info: std::mem::transmute::<*mut c_void, FreeInfo>(free_info?),
                version: std::mem::transmute::<*mut c_void, Version>(version?),
            })
        }
    })
    .as_ref()
}

fn find(name: &CStr) -> Option<*mut c_void> {
    let look = |library| {
        // SAFETY: a name that ends in NUL, and a handle of dlopen's or the default one.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    look(libc::RTLD_DEFAULT).or_else(|| {
        // SAFETY: a name that ends in NUL; libfabric's constructors are sound.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_LAZY) };
        if library.is_null() { None } else { look(library) }
    })
}

impl HostInfo {
    /// A description with all its parts, empty or as a copy.
    ///
    /// # Safety
    /// `info` is NULL or a description.
    pub(crate) unsafe fn dup_info(&self, info: *const sys::fi_info) -> *mut sys::fi_info {
        // SAFETY: the caller's promise.
        unsafe { (self.dup_info)(info) }
    }

    /// # Safety
    /// `info` is NULL or a list of descriptions that libfabric has allocated and that no other code
    /// uses.
    pub(crate) unsafe fn free_info(&self, info: *mut sys::fi_info) {
        // SAFETY: the caller's promise.
        unsafe { (self.free_info)(info) };
    }

    /// The version of the interface.
    pub(crate) fn version(&self) -> u32 {
        // SAFETY: it takes nothing.
        unsafe { (self.version)() }
    }
}

/// Descriptions as libfabric makes them, for tests without libfabric.
#[cfg(test)]
pub(crate) mod stand_in {
    use crate::host::HostInfo;
    use crate::sys;

    pub(crate) const HOST: HostInfo = HostInfo { dup_info, free_info, version };

    unsafe extern "C" fn version() -> u32 {
        1 << 16 | 17
    }

    /// An empty part.
    fn part<T>() -> *mut T {
        // SAFETY: all parts are plain numbers and pointers.
        Box::into_raw(Box::new(unsafe { std::mem::zeroed() }))
    }

    unsafe extern "C" fn dup_info(_: *const sys::fi_info) -> *mut sys::fi_info {
        let info = part::<sys::fi_info>();
        // SAFETY: it was just made.
        unsafe {
            (*info).tx_attr = part();
            (*info).rx_attr = part();
            (*info).ep_attr = part();
            (*info).domain_attr = part();
            (*info).fabric_attr = part();
        }
        info
    }

    /// Tests do not free their memory.
    unsafe extern "C" fn free_info(_: *mut sys::fi_info) {}
}
