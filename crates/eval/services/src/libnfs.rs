//! The NFS client libnfs: the few functions that operations on names need.
//!
//! The library is opened when it is needed (dlopen(3)), so a build needs neither it nor its
//! headers. Its calls return when the server has answered; they work on the calling thread and in
//! its network namespace. What follows here is of `nfsc/libnfs.h`, library version 13.

use gigae_host::signals;
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::ptr;

/// The library, and Debian's package of it.
pub(crate) const LIBRARY: (&str, &str) = ("libnfs.so.13", "libnfs13");

/// A call that gets no answer fails after this time, in milliseconds.
const PATIENCE_MS: c_int = 30_000;

/// How often the library connects again after a connection broke. Not zero: see [`NfsClient`].
const RETRIES: c_int = 1;

/// Permissions of a new file.
const MODE: c_int = 0o644;

/// More words than `struct nfs_stat_64` has, which is 17.
const STAT_WORDS: usize = 32;

/// `struct nfs_context`, `struct nfsfh` and `struct nfsdir` are the library's own.
type Handle = *mut c_void;

/// `struct nfsdirent`, as far as it is read.
#[repr(C)]
struct Entry {
    next: *mut Entry,
    name: *mut c_char,
}

/// The functions of the library.
struct Functions {
    init: unsafe extern "C" fn() -> Handle,
    destroy: unsafe extern "C" fn(Handle),
    error: unsafe extern "C" fn(Handle) -> *const c_char,
    set_timeout: unsafe extern "C" fn(Handle, c_int),
    set_dircache: unsafe extern "C" fn(Handle, c_int),
    set_autoreconnect: unsafe extern "C" fn(Handle, c_int),
    mount: unsafe extern "C" fn(Handle, *const c_char, *const c_char) -> c_int,
    mkdir: unsafe extern "C" fn(Handle, *const c_char) -> c_int,
    rmdir: unsafe extern "C" fn(Handle, *const c_char) -> c_int,
    creat: unsafe extern "C" fn(Handle, *const c_char, c_int, *mut Handle) -> c_int,
    close: unsafe extern "C" fn(Handle, Handle) -> c_int,
    stat: unsafe extern "C" fn(Handle, *const c_char, *mut u64) -> c_int,
    opendir: unsafe extern "C" fn(Handle, *const c_char, *mut Handle) -> c_int,
    readdir: unsafe extern "C" fn(Handle, Handle) -> *mut Entry,
    closedir: unsafe extern "C" fn(Handle, Handle),
    rename: unsafe extern "C" fn(Handle, *const c_char, *const c_char) -> c_int,
    unlink: unsafe extern "C" fn(Handle, *const c_char) -> c_int,
}

/// The open library. It stays open: its code may be on the stack of a thread of its own.
struct Library(Handle);

impl Library {
    fn open() -> io::Result<Self> {
        let name = CString::new(LIBRARY.0).map_err(io::Error::other)?;
        // SAFETY: the name is a string that lives across the call. The library's own begin runs,
        // as when a program is linked with it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            let (file, package) = LIBRARY;
            let why = format!("{file} cannot be loaded; try 'apt install {package}'");
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        Ok(Self(handle))
    }

    /// A function of the library.
    ///
    /// # Safety
    ///
    /// `F` is the type of a function pointer, and that of the function of this name.
    unsafe fn function<F>(&self, name: &CStr) -> io::Result<F> {
        assert_eq!(size_of::<F>(), size_of::<Handle>(), "a function's pointer");
        // SAFETY: the handle is of an open library, and the name lives across the call.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if found.is_null() {
            let name = name.to_string_lossy();
            return Err(io::Error::other(format!("{} has no {name}", LIBRARY.0)));
        }
        // SAFETY: both are pointers of one size, and the caller says what this one points to.
        Ok(unsafe { std::mem::transmute_copy::<Handle, F>(&found) })
    }
}

impl Functions {
    fn load() -> io::Result<Self> {
        let library = Library::open()?;
        // SAFETY: the types above are those of nfsc/libnfs.h.
        unsafe {
            Ok(Self {
                init: library.function(c"nfs_init_context")?,
                destroy: library.function(c"nfs_destroy_context")?,
                error: library.function(c"nfs_get_error")?,
                set_timeout: library.function(c"nfs_set_timeout")?,
                set_dircache: library.function(c"nfs_set_dircache")?,
                set_autoreconnect: library.function(c"nfs_set_autoreconnect")?,
                mount: library.function(c"nfs_mount")?,
                mkdir: library.function(c"nfs_mkdir")?,
                rmdir: library.function(c"nfs_rmdir")?,
                creat: library.function(c"nfs_creat")?,
                close: library.function(c"nfs_close")?,
                stat: library.function(c"nfs_stat64")?,
                opendir: library.function(c"nfs_opendir")?,
                readdir: library.function(c"nfs_readdir")?,
                closedir: library.function(c"nfs_closedir")?,
                rename: library.function(c"nfs_rename")?,
                unlink: library.function(c"nfs_unlink")?,
            })
        }
    }
}

/// A path as the library takes it.
pub(crate) fn path(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(io::Error::other)
}

/// A client of a server's export. It belongs to the thread that made it.
///
/// A call of the library waits in a loop of poll(2). If that loop ends early, the request stays
/// queued, and its answer would be written to the stack frame of the call that is gone. So:
///
/// - Signals are blocked during a call, because the library takes an interrupted poll(2) for a
///   broken connection.
/// - The library may connect again ([`RETRIES`]). Then a broken connection fails all requests
///   while their frame lives, or sends them again.
/// - After an error nothing calls the library with this context again, not even to free it:
///   freeing it, too, answers what is queued. The context is leaked. A cell fails twice at most.
pub(crate) struct NfsClient {
    functions: Functions,
    context: Handle,
    /// Whether a call has failed.
    failed: Cell<bool>,
    _of_this_thread: PhantomData<*mut ()>,
}

impl Drop for NfsClient {
    fn drop(&mut self) {
        if !self.failed.get() {
            // SAFETY: the context is one that the library made and nothing uses any longer. All
            // calls have succeeded, so no request is queued.
            unsafe { (self.functions.destroy)(self.context) }
        }
    }
}

impl NfsClient {
    /// Loads the library and connects to the export. It keeps no listings of directories.
    pub(crate) fn mount(server: &str, export: &str) -> io::Result<Self> {
        Self::mount_by(Functions::load()?, server, export)
    }

    fn mount_by(functions: Functions, server: &str, export: &str) -> io::Result<Self> {
        let (server, export) = (path(server)?, path(export)?);
        // SAFETY: the function has no arguments.
        let context = unsafe { (functions.init)() };
        if context.is_null() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let failed = Cell::new(false);
        let client = Self { functions, context, failed, _of_this_thread: PhantomData };
        client.call("mount", |library, context| {
            // SAFETY: the context lives, and so do the strings across the call.
            unsafe {
                (library.set_timeout)(context, PATIENCE_MS);
                (library.set_dircache)(context, 0);
                (library.set_autoreconnect)(context, RETRIES);
                (library.mount)(context, server.as_ptr(), export.as_ptr())
            }
        })?;
        Ok(client)
    }

    /// Makes a directory.
    pub(crate) fn mkdir(&self, path: &CStr) -> io::Result<()> {
        // SAFETY: context and path live across the call.
        self.call("mkdir", |library, context| unsafe { (library.mkdir)(context, path.as_ptr()) })
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(&self, path: &CStr) -> io::Result<()> {
        // SAFETY: context and path live across the call.
        self.call("rmdir", |library, context| unsafe { (library.rmdir)(context, path.as_ptr()) })
    }

    /// Makes an empty file and closes it.
    pub(crate) fn create(&self, path: &CStr) -> io::Result<()> {
        let mut file: Handle = ptr::null_mut();
        self.call("create", |library, context| {
            // SAFETY: context, path and the place for the file's handle live across the call.
            unsafe { (library.creat)(context, path.as_ptr(), MODE, &raw mut file) }
        })?;
        // SAFETY: the handle is that of the call before, and is not used again.
        self.call("close", |library, context| unsafe { (library.close)(context, file) })
    }

    /// Reads what is known of a file.
    pub(crate) fn stat(&self, path: &CStr) -> io::Result<()> {
        let mut words = [0_u64; STAT_WORDS];
        self.call("stat", |library, context| {
            // SAFETY: context and path live across the call, and the words are at least as many as
            // the library writes.
            unsafe { (library.stat)(context, path.as_ptr(), words.as_mut_ptr()) }
        })
    }

    /// Reads all names of a directory, without itself and its parent.
    pub(crate) fn list(&self, path: &CStr) -> io::Result<Vec<CString>> {
        let mut directory: Handle = ptr::null_mut();
        self.call("list", |library, context| {
            // SAFETY: context, path and the place for the directory's handle live across the call.
            unsafe { (library.opendir)(context, path.as_ptr(), &raw mut directory) }
        })?;
        let mut names = Vec::new();
        loop {
            // SAFETY: the handle is open. The library has read all entries: this asks no server.
            let entry = unsafe { (self.functions.readdir)(self.context, directory) };
            if entry.is_null() {
                break;
            }
            // SAFETY: the library's entry lives until the directory is closed, and its name is a
            // string.
            let name = unsafe { CStr::from_ptr((*entry).name) };
            if name != c"." && name != c".." {
                names.push(name.to_owned());
            }
        }
        // SAFETY: the handle is open and is not used again.
        unsafe { (self.functions.closedir)(self.context, directory) };
        Ok(names)
    }

    /// Gives a file another name.
    pub(crate) fn rename(&self, from: &CStr, to: &CStr) -> io::Result<()> {
        self.call("rename", |library, context| {
            // SAFETY: context and paths live across the call.
            unsafe { (library.rename)(context, from.as_ptr(), to.as_ptr()) }
        })
    }

    /// Removes a file.
    pub(crate) fn delete(&self, path: &CStr) -> io::Result<()> {
        // SAFETY: context and path live across the call.
        self.call("delete", |library, context| unsafe { (library.unlink)(context, path.as_ptr()) })
    }

    /// Makes a call, unless one has failed before. Signals wait until it returns.
    fn call(&self, what: &str, make: impl FnOnce(&Functions, Handle) -> c_int) -> io::Result<()> {
        if self.failed.get() {
            return Err(io::Error::other(format!("NFS {what}: a call has failed before")));
        }
        let result = signals::blocked(|| make(&self.functions, self.context));
        if result >= 0 {
            return Ok(());
        }
        self.failed.set(true);
        // SAFETY: the context lives. The library returns a string that lives until its next call,
        // or nothing; it answers no request here.
        let said = unsafe {
            let text = (self.functions.error)(self.context);
            if text.is_null() { c"no reason" } else { CStr::from_ptr(text) }
        };
        let said = said.to_string_lossy();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        Err(io::Error::other(format!("NFS {what}: {said}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        /// What was called in the library of the test, and what its calls return.
        static CALLED: Cell<[u32; 3]> = const { Cell::new([0; 3]) };
        static RESULT: Cell<c_int> = const { Cell::new(0) };
    }

    const MADE: usize = 0;
    const BLOCKED: usize = 1;
    const DESTROYED: usize = 2;

    fn count(what: usize) {
        let mut all = CALLED.get();
        all[what] += 1;
        CALLED.set(all);
    }

    fn made() -> c_int {
        count(MADE);
        // SAFETY: the set is this function's own, and nothing is changed.
        let blocked = unsafe {
            let mut set = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut set);
            [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGWINCH]
                .into_iter()
                .all(|signal| libc::sigismember(&raw const set, signal) == 1)
        };
        if blocked {
            count(BLOCKED);
        }
        RESULT.get()
    }

    extern "C" fn init() -> Handle {
        ptr::NonNull::dangling().as_ptr()
    }
    extern "C" fn destroy(_: Handle) {
        count(DESTROYED);
    }
    extern "C" fn error(_: Handle) -> *const c_char {
        c"it  broke\n".as_ptr()
    }
    extern "C" fn set(_: Handle, _: c_int) {}
    extern "C" fn set_autoreconnect(_: Handle, retries: c_int) {
        assert!(retries > 0, "else a broken connection leaves its requests queued");
    }
    extern "C" fn one(_: Handle, _: *const c_char) -> c_int {
        made()
    }
    extern "C" fn two(_: Handle, _: *const c_char, _: *const c_char) -> c_int {
        made()
    }
    extern "C" fn creat(_: Handle, _: *const c_char, _: c_int, _: *mut Handle) -> c_int {
        made()
    }
    extern "C" fn close(_: Handle, _: Handle) -> c_int {
        made()
    }
    extern "C" fn stat(_: Handle, _: *const c_char, _: *mut u64) -> c_int {
        made()
    }
    extern "C" fn opendir(_: Handle, _: *const c_char, _: *mut Handle) -> c_int {
        made()
    }
    extern "C" fn readdir(_: Handle, _: Handle) -> *mut Entry {
        ptr::null_mut()
    }
    extern "C" fn closedir(_: Handle, _: Handle) {}

    fn mounted() -> io::Result<NfsClient> {
        let functions = Functions {
            init,
            destroy,
            error,
            set_timeout: set,
            set_dircache: set,
            set_autoreconnect,
            mount: two,
            mkdir: one,
            rmdir: one,
            creat,
            close,
            stat,
            opendir,
            readdir,
            closedir,
            rename: two,
            unlink: one,
        };
        NfsClient::mount_by(functions, "198.18.0.2", "/files")
    }

    #[test]
    fn signals_wait_until_a_call_of_the_library_has_returned() {
        let client = mounted().unwrap();
        client.mkdir(c"/a").unwrap();
        client.create(c"/a/1").unwrap();
        client.stat(c"/a/1").unwrap();
        assert!(client.list(c"/a").unwrap().is_empty());
        client.rename(c"/a/1", c"/a/2").unwrap();
        client.delete(c"/a/2").unwrap();
        client.rmdir(c"/a").unwrap();
        // A file is created and closed.
        assert_eq!(CALLED.get(), [9, 9, 0]);
        drop(client);
        assert_eq!(CALLED.get(), [9, 9, 1]);
    }

    #[test]
    fn after_a_failure_the_context_is_neither_used_again_nor_freed() {
        let client = mounted().unwrap();
        RESULT.set(-libc::EIO);
        assert_eq!(client.stat(c"/a").unwrap_err().to_string(), "NFS stat: it broke");
        RESULT.set(0);
        let again = client.mkdir(c"/a").unwrap_err().to_string();
        assert!(again.contains("failed before"), "{again}");
        assert!(client.list(c"/a").is_err() && client.create(c"/a/1").is_err());
        drop(client);
        assert_eq!(CALLED.get(), [2, 2, 0]);
        RESULT.set(-1);
        assert!(mounted().is_err());
        assert_eq!(CALLED.get(), [3, 3, 0]);
    }
}
