//! Memory that processes share without trusting each other: a sealed memfd (memfd_create(2)), seen
//! as atomic words.
//!
//! A process that has the descriptor may write anything at any time. So this crate gives access to
//! its bytes only by atomics, for which any bits are a valid number. It maps a file only if that
//! has the length that *this* side expects and is sealed against shrinking: shrinking would end the
//! reader with a signal (`SIGBUS`). The users of this crate check what the words mean.
//!
//! This is a separate crate because `gigae-shm` and `gigae-observe` share it, and neither may
//! depend on the other.

mod bytes;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Seals against shrinking, which would end a reader with a signal, against growing, and against
/// further seals.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// File system of memfds (statfs(2), `TMPFS_MAGIC`). Pages that are not there yet can always be
/// had; those of `hugetlbfs` cannot.
const TMPFS: i64 = 0x0102_1994;

/// A mapping of shared words, which needs no open descriptor. Dropping it unmaps it.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: the mapping is of the whole process and of no thread; all access is by atomics.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Creates memory of `len` words, all zeros. Returns it with the descriptor to pass on;
    /// `/proc/PID/fd` shows the name. It takes up memory as it is written to. Seven system calls.
    /// `len` must not be zero.
    pub fn create(name: &str, len: usize) -> io::Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            // Before Linux 6.3.
            Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
            made => made,
        }?;
        rustix::fs::ftruncate(&fd, bytes(len)? as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SEALS)?;
        Ok((Self::map(&fd, len)?, fd))
    }

    /// Maps memory of another process, if [`check`] accepts it. Four system calls.
    pub fn map(fd: impl AsFd, len: usize) -> io::Result<Self> {
        Self::map_as(fd, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// The same for memory whose descriptor is open for reading only. To write there ends the
    /// process with a signal.
    pub fn map_to_read(fd: impl AsFd, len: usize) -> io::Result<Self> {
        Self::map_as(fd, len, ProtFlags::READ)
    }

    fn map_as(fd: impl AsFd, len: usize, access: ProtFlags) -> io::Result<Self> {
        let bytes = check(&fd, len)?;
        let null = std::ptr::null_mut();
        // SAFETY: a fresh mapping at a place of the kernel's choice aliases nothing of this
        // process.
        let base = unsafe { rustix::mm::mmap(null, bytes, access, MapFlags::SHARED, &fd, 0)? };
        let base = NonNull::new(base.cast()).expect("mmap returns no null");
        Ok(Self { base, len })
    }

    /// All of it.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this length, is aligned to a page and lives as long as `self`;
        // the file cannot become shorter (checked in `map`). Other processes may write any of it at
        // any time, which atomics allow, and any bits are a number.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

/// Refuses anything but a memfd of `len` words that keeps its length. Returns the length in bytes.
/// The descriptor need not be open for writing.
pub fn check(fd: impl AsFd, len: usize) -> io::Result<usize> {
    let refuse = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    if rustix::fs::fstatfs(&fd)?.f_type as i64 != TMPFS {
        return refuse("no memfd");
    }
    if !rustix::fs::fcntl_get_seals(&fd)?.contains(SealFlags::SHRINK) {
        return refuse("a memfd that may become shorter");
    }
    let bytes = bytes(len)?;
    if rustix::fs::fstat(&fd)?.st_size != bytes as i64 {
        return refuse("a memfd of another length");
    }
    Ok(bytes)
}

/// Bytes of `len` words.
fn bytes(len: usize) -> io::Result<usize> {
    let fits = |bytes: &usize| isize::try_from(*bytes).is_ok();
    len.checked_mul(8).filter(fits).ok_or(io::ErrorKind::InvalidInput.into())
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours (`map`), of this length, and no borrow of it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len * 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    fn memfd(bytes: u64, seals: SealFlags) -> OwnedFd {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("gigae-test", flags).unwrap();
        rustix::fs::ftruncate(&fd, bytes).unwrap();
        rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
        fd
    }

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let (here, fd) = SharedMemory::create("gigae-test", 1024).unwrap();
        let there = SharedMemory::map(fd, 1024).unwrap();
        here.words()[1023].store(7, Ordering::Relaxed);
        assert_eq!(there.words()[1023].load(Ordering::Relaxed), 7);
        assert!(there.words().iter().take(1023).all(|word| word.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn what_may_become_shorter_or_has_another_length_or_is_no_memfd_is_not_mapped() {
        let refused = |fd: OwnedFd| SharedMemory::map(fd, 512).is_err();
        assert!(!refused(memfd(4096, SEALS)));
        assert!(refused(memfd(4096, SealFlags::GROW)), "may become shorter");
        assert!(refused(memfd(2048, SEALS)) && refused(memfd(8192, SEALS)));
        assert!(refused(std::fs::File::open("/proc/self/status").unwrap().into()));
        assert!(refused(std::fs::File::open("/dev/zero").unwrap().into()));
        let (_whole, fd) = SharedMemory::create("gigae-test", 512).unwrap();
        assert!(
            rustix::fs::ftruncate(&fd, 8).is_err() && rustix::fs::ftruncate(&fd, 1 << 20).is_err()
        );
    }

    #[test]
    fn a_length_that_no_memory_has_is_refused() {
        assert!(SharedMemory::create("gigae-test", usize::MAX).is_err());
        assert!(SharedMemory::map(memfd(4096, SEALS), usize::MAX / 8).is_err());
    }
}
