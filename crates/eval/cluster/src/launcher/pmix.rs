//! PMIx, by its library: Open MPI's `mpirun`, and `srun --mpi=pmix`.
//!
//! The library is opened when it is needed (dlopen(3)), so a build needs neither it nor its
//! headers. What follows is of `pmix.h` and `pmix_common.h` of versions 2 to 5: the library's name,
//! `libpmix.so.2`, stands for this interface.

use super::contract::{KEY, Launcher, LauncherError};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

/// The library.
const LIBRARY: &CStr = c"libpmix.so.2";

/// Bytes of a name of a job, and of a key, with the byte that ends it.
const NAMESPACE: usize = 256;
const KEY_ROOM: usize = 512;

/// Types of values.
const BOOL: u16 = 1;
const STRING: u16 = 3;
const UINT32: u16 = 14;

/// Any rank of the job: its size is kept so.
const WILDCARD: u32 = u32::MAX - 1;

/// All ranks may read it.
const GLOBAL: u8 = 3;

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone)]
struct Proc {
    namespace: [u8; NAMESPACE],
    rank: u32,
}

/// The beginning of `pmix_value_t`, and more room than any version's value takes.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
union Data {
    string: *mut c_char,
    uint32: u32,
    flag: bool,
    room: [u64; 7],
}

/// `pmix_info_t`, of which only one is passed at a time.
#[repr(C)]
struct Info {
    key: [u8; KEY_ROOM],
    flags: u32,
    value: Value,
}

type Status = c_int;

/// The functions of the library.
struct Functions {
    init: unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> Status,
    put: unsafe extern "C" fn(u8, *const c_char, *mut Value) -> Status,
    commit: unsafe extern "C" fn() -> Status,
    fence: unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> Status,
    get: unsafe extern "C" fn(
        *const Proc,
        *const c_char,
        *const Info,
        usize,
        *mut *mut Value,
    ) -> Status,
    finalize: unsafe extern "C" fn(*const Info, usize) -> Status,
}

/// A process of a launcher that speaks PMIx. The library stays open: it has threads of its own.
pub struct Pmix {
    functions: Functions,
    own: Proc,
    size: u32,
    finished: bool,
}

/// A function of the open library.
///
/// # Safety
///
/// `F` is the type of a function pointer, and that of the function of this name.
unsafe fn function<F>(library: *mut c_void, name: &CStr) -> Result<F, LauncherError> {
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>(), "a function's pointer");
    // SAFETY: the handle is of an open library, and the name lives across the call.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        return Err(LauncherError::NoLibrary(format!("it has no {}", name.to_string_lossy())));
    }
    // SAFETY: both are pointers of one size, and the caller says what this one points to.
    Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
}

impl Functions {
    fn load() -> Result<Self, LauncherError> {
        if cfg!(target_feature = "crt-static") {
            return Err(LauncherError::Static);
        }
        // SAFETY: the name is a string that lives across the call. The library's own begin runs,
        // as when a program is linked with it.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if library.is_null() {
            return Err(LauncherError::NoLibrary(reason()));
        }
        // SAFETY: the types above are those of pmix.h.
        unsafe {
            Ok(Self {
                init: function(library, c"PMIx_Init")?,
                put: function(library, c"PMIx_Put")?,
                commit: function(library, c"PMIx_Commit")?,
                fence: function(library, c"PMIx_Fence")?,
                get: function(library, c"PMIx_Get")?,
                finalize: function(library, c"PMIx_Finalize")?,
            })
        }
    }
}

/// What dlopen(3) says of its last failure.
fn reason() -> String {
    // SAFETY: the text is the C library's, and is copied before another call can change it.
    let text = unsafe {
        let text = libc::dlerror();
        if text.is_null() { c"no reason" } else { CStr::from_ptr(text) }
    };
    text.to_string_lossy().replace('\n', " ")
}

fn held(call: &'static str, status: Status) -> Result<(), LauncherError> {
    if status == 0 { Ok(()) } else { Err(LauncherError::Pmix { call, status }) }
}

fn text(value: &str) -> Result<CString, LauncherError> {
    CString::new(value).map_err(|error| LauncherError::Io(error.into()))
}

impl Pmix {
    /// Greets the launcher.
    pub fn begin() -> Result<Self, LauncherError> {
        let functions = Functions::load()?;
        let mut own = Proc { namespace: [0; NAMESPACE], rank: 0 };
        // SAFETY: the library fills in `own`; it takes no information from a null pointer.
        held("PMIx_Init", unsafe { (functions.init)(&raw mut own, ptr::null_mut(), 0) })?;
        let mut this = Self { functions, own, size: 0, finished: false };
        let value = this.value(WILDCARD, "pmix.job.size")?;
        // SAFETY: the value is the library's, which keeps it; its type says what it holds.
        this.size = unsafe {
            if (*value).kind != UINT32 {
                return Err(LauncherError::Pmix { call: "PMIx_Get of the job's size", status: 0 });
            }
            (*value).data.uint32
        };
        Ok(this)
    }

    /// What a rank has under a key. The value is never freed: there are few, and they are short.
    fn value(&self, rank: u32, key: &str) -> Result<*const Value, LauncherError> {
        let of = Proc { rank, ..self.own.clone() };
        let (key, mut value) = (text(key)?, ptr::null_mut());
        // SAFETY: all pointers live across the call, after which `value` is the library's.
        let status = unsafe {
            (self.functions.get)(&raw const of, key.as_ptr(), ptr::null(), 0, &raw mut value)
        };
        held("PMIx_Get", status)?;
        if value.is_null() {
            return Err(LauncherError::Pmix { call: "PMIx_Get", status });
        }
        Ok(value)
    }
}

impl Drop for Pmix {
    fn drop(&mut self) {
        // A process that has not said goodbye is one that failed, to its launcher.
        let _ = self.finish();
    }
}

impl Launcher for Pmix {
    fn protocol(&self) -> &'static str {
        "PMIx"
    }

    fn rank(&self) -> u32 {
        self.own.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn put(&mut self, value: &str) -> Result<(), LauncherError> {
        let (key, said) = (text(KEY)?, text(value)?);
        let mut value = Value { kind: STRING, data: Data { room: [0; 7] } };
        value.data.string = said.as_ptr().cast_mut();
        // SAFETY: the library copies key and value, which live across the call.
        held("PMIx_Put", unsafe { (self.functions.put)(GLOBAL, key.as_ptr(), &raw mut value) })?;
        // SAFETY: it takes nothing.
        held("PMIx_Commit", unsafe { (self.functions.commit)() })
    }

    fn fence(&mut self) -> Result<(), LauncherError> {
        let value = Value { kind: BOOL, data: Data { room: [0; 7] } };
        let mut collect = Info { key: [0; KEY_ROOM], flags: 0, value };
        // All that ranks have put comes along: one exchange instead of one for each value.
        collect.key[..12].copy_from_slice(b"pmix.collect");
        collect.value.data.flag = true;
        // SAFETY: the one information lives across the call; no process means all of the job.
        held("PMIx_Fence", unsafe { (self.functions.fence)(ptr::null(), 0, &raw const collect, 1) })
    }

    fn get(&mut self, rank: u32) -> Result<String, LauncherError> {
        let value = self.value(rank, KEY)?;
        // SAFETY: the value is the library's, which keeps it; its type says what it holds.
        let said = unsafe {
            if (*value).kind != STRING || (*value).data.string.is_null() {
                return Err(LauncherError::Pmix { call: "PMIx_Get of another rank", status: 0 });
            }
            CStr::from_ptr((*value).data.string)
        };
        Ok(said.to_string_lossy().into_owned())
    }

    fn finish(&mut self) -> Result<(), LauncherError> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        // SAFETY: it takes no information from a null pointer.
        held("PMIx_Finalize", unsafe { (self.functions.finalize)(ptr::null(), 0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// As C lays them out.
    #[test]
    fn the_structures_lie_as_the_library_expects_them() {
        assert_eq!((size_of::<Proc>(), offset_of!(Proc, rank)), (260, 256));
        assert_eq!(offset_of!(Value, data), 8);
        assert_eq!((offset_of!(Info, flags), offset_of!(Info, value)), (512, 520));
        // `pmix_value_t` has 32 bytes: ours has them and more.
        assert!(size_of::<Value>() >= 32);
    }
}
