//! The shared memory itself: a memfd, mapped. The only `unsafe` of this crate.

use crate::layout::TOTAL_WORDS;
use crate::sync::AtomicU64;
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::ptr::NonNull;

/// By which observers know it.
pub(crate) const NAME: &str = "gigae-endpoint";

const BYTES: usize = TOTAL_WORDS * 8;

/// Against becoming shorter, which would end whoever reads it by a signal, and longer, and against other seals.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// File system of memfds (statfs(2), `TMPFS_MAGIC`): pages that are not there yet are always to be had, as those
/// of `hugetlbfs` are not.
const TMPFS: i64 = 0x0102_1994;

/// A mapping of [`TOTAL_WORDS`] words and the descriptor behind it.
#[derive(Debug)]
pub(crate) struct Memory {
    base: NonNull<AtomicU64>,
    pub(crate) fd: OwnedFd,
}

// SAFETY: the mapping is of the whole process and of no thread; all access is by atomics.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// New memory, all zeros. It takes up room as it is written to.
    pub(crate) fn create() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = match rustix::fs::memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
            // Before Linux 6.3.
            Err(Errno::INVAL) => rustix::fs::memfd_create(NAME, flags),
            made => made,
        }?;
        rustix::fs::ftruncate(&fd, BYTES as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SEALS)?;
        Self::map(fd)
    }

    /// That of another process, by its name below `/proc`. Refused unless it is a memfd of the right length that
    /// will keep it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // What only has the right name may be anything: waiting for it might take for ever.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let refuse = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if rustix::fs::fstatfs(&fd)?.f_type as i64 != TMPFS {
            return refuse("no memfd");
        }
        if !rustix::fs::fcntl_get_seals(&fd)?.contains(SealFlags::SHRINK) {
            return refuse("a memfd that may become shorter");
        }
        if rustix::fs::fstat(&fd)?.st_size != BYTES as i64 {
            return refuse("a memfd of another length");
        }
        Self::map(fd)
    }

    fn map(fd: OwnedFd) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let null = std::ptr::null_mut();
        // SAFETY: a fresh mapping at a place of the kernel's choice aliases nothing of this process.
        let base = unsafe { rustix::mm::mmap(null, BYTES, access, MapFlags::SHARED, &fd, 0)? };
        let base = NonNull::new(base.cast()).expect("mmap returns no null");
        Ok(Self { base, fd })
    }

    /// All of it.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this length, is aligned to a page and lives as long as `self`; the file
        // cannot become shorter (sealed here, or checked on opening). Other processes may write any of it
        // at any time, which atomics allow, and any bits are a number.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), TOTAL_WORDS) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours (`map`), and no borrow of it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), BYTES) };
    }
}
