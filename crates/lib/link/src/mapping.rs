//! Memory for frames: mapped, populated and locked, in this process alone or with another.

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MlockFlags, ProtFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

/// What `/proc/*/maps` shows of an arena that has a descriptor.
const NAME: &str = "gigae-frames";

/// A readable and writable mapping, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

/// Pages are populated and locked so that neither a page fault nor swapping falls into the fast
/// path (mmap(2) `MAP_POPULATE`, mlock(2)).
const POPULATED: MapFlags = MapFlags::POPULATE;

/// Huge pages are a multiple or a divisor of this on the processors that this runs on.
const HUGE_PAGE: usize = 2 << 20;

/// Against shrinking, which would end a reader with a signal, and against growing.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// A sealed memfd of `len` bytes, none of which has a page yet.
fn file(len: usize, kind: MemfdFlags) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | kind;
    let memory = match rustix::fs::memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3.
        Err(Errno::INVAL) => rustix::fs::memfd_create(NAME, flags),
        made => made,
    }?;
    rustix::fs::ftruncate(&memory, len as u64)?;
    rustix::fs::fcntl_add_seals(&memory, SEALS)?;
    Ok(memory)
}

/// Bytes of a memory, which must be at least `least` and stay there.
fn length(memory: &OwnedFd, least: usize) -> io::Result<usize> {
    if !rustix::fs::fcntl_get_seals(memory)?.contains(SealFlags::SHRINK) {
        return refuse("frame memory that may become shorter");
    }
    match usize::try_from(rustix::fs::fstat(memory)?.st_size).unwrap_or(0) {
        len if len >= least && len > 0 => Ok(len),
        _ => refuse("frame memory that is too short"),
    }
}

fn refuse<T>(what: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// Maps a memory at a place of the kernel's choice.
fn map(memory: &OwnedFd, len: usize, how: MapFlags) -> Result<*mut std::ffi::c_void, Errno> {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | how);
    // SAFETY: such a mapping aliases nothing of this process.
    unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, access, flags, memory, 0) }
}

/// Memory of `len` bytes without a page, as a descriptor (memfd), for [`Mapping::of`] and
/// [`Mapping::untouched`].
pub(crate) fn reserve(len: usize) -> io::Result<OwnedFd> {
    file(len, MemfdFlags::empty())
}

impl Mapping {
    /// Maps `len` bytes of zeroed, populated memory and locks it where the limits allow
    /// (`RLIMIT_MEMLOCK`, `CAP_IPC_LOCK`); memory that cannot be locked is used as it is.
    ///
    /// One `mmap` and one `mlock`. `len` must not be zero.
    #[cfg(not(miri))]
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | POPULATED);
        // SAFETY: a fresh anonymous mapping aliases nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, access, flags)? };
        Ok(Self::locked(base, len))
    }

    /// The same without any page to begin with: they come when they are touched first, and may be
    /// swapped.
    #[cfg(not(miri))]
    pub(crate) fn sparse(len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping aliases nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, access, flags)? };
        let base = NonNull::new(base.cast()).expect("mmap returns no null");
        Ok(Self { base, len })
    }

    /// The same in a separate file (memfd), so that a fork has the same pages. No page is there
    /// yet: the caller registers the memory with the kernel, which makes all of them then, once,
    /// and each is locked as it comes. With `huge` it lies in huge pages of the system's default
    /// size, of which enough must be free (`/proc/sys/vm/nr_hugepages`), and `len` is rounded up to
    /// them.
    ///
    /// Four system calls more.
    pub(crate) fn shared(len: usize, huge: bool) -> io::Result<Self> {
        let memory = match huge {
            true => file(len.next_multiple_of(HUGE_PAGE), MemfdFlags::HUGETLB),
            false => file(len, MemfdFlags::empty()),
        }?;
        let len = length(&memory, len)?;
        let base = map(&memory, len, MapFlags::empty())?;
        // SAFETY: the range was just mapped. Failure only means that pages may be swapped.
        let _ = unsafe { rustix::mm::mlock_with(base, len, MlockFlags::ONFAULT) };
        let base = NonNull::new(base.cast()).expect("mmap returns no null");
        Ok(Self { base, len })
    }

    /// Maps memory that was made by [`reserve`], perhaps in another process: all of it, populated
    /// and locked as by [`anonymous`](Self::anonymous). Refused unless it has at least `least`
    /// bytes and will keep them. From then on no process can map it for writing again, or take a
    /// page out of it.
    ///
    /// # Safety
    /// Nothing else may write to the memory while this mapping lives, except the kernel as the
    /// tokens allow.
    pub(crate) unsafe fn of(memory: &OwnedFd, least: usize) -> io::Result<Self> {
        let len = length(memory, least)?;
        let mapping = Self::locked(map(memory, len, POPULATED)?, len);
        // After mapping, which this seal forbids.
        rustix::fs::fcntl_add_seals(memory, SealFlags::FUTURE_WRITE)?;
        Ok(mapping)
    }

    /// Maps memory of [`reserve`] without adding a page: another process makes them.
    ///
    /// # Safety
    /// Nothing may be read from this mapping: the other process may write to it at any time.
    pub(crate) unsafe fn untouched(memory: &OwnedFd, len: usize) -> io::Result<Self> {
        let base = map(memory, len, MapFlags::empty())?;
        let base = NonNull::new(base.cast()).expect("mmap returns no null");
        Ok(Self { base, len })
    }

    /// Locks a mapping that was just made.
    fn locked(base: *mut std::ffi::c_void, len: usize) -> Self {
        // SAFETY: the range is mapped. Failure only means that pages may be swapped.
        let _ = unsafe { rustix::mm::mlock(base, len) };
        let base = NonNull::new(base.cast()).expect("mmap returns no null");
        Self { base, len }
    }

    /// The same for Miri, which knows neither these flags nor `mlock`.
    #[cfg(miri)]
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        // SAFETY: `len` is not zero.
        let base = unsafe { std::alloc::alloc_zeroed(pages(len)) };
        Ok(Self { base: NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?, len })
    }

    /// Takes over a mapping that was made elsewhere.
    ///
    /// # Safety
    /// `base..base + len` must be one readable and writable mapping that nothing else unmaps and
    /// that no Rust reference points into, for as long as this one lives.
    pub(crate) unsafe fn from_raw(base: NonNull<u8>, len: usize) -> Self {
        Self { base, len }
    }

    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        #[cfg(miri)]
        // SAFETY: allocated by `map` with this layout.
        unsafe {
            std::alloc::dealloc(self.base.as_ptr(), pages(self.len));
        }
        #[cfg(not(miri))]
        // SAFETY: the mapping is ours (constructors) and nothing of it is used after its end.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Memory as a mapping gives it.
#[cfg(miri)]
fn pages(len: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(len, 4096).expect("a length of memory that exists")
}
