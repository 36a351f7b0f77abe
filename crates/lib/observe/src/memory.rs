//! The shared memory of an endpoint. Observers recognize it by its name and find it by its open
//! descriptor.

use crate::layout::TOTAL_WORDS;
use rustix::fs::{FileType, MemfdFlags, Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// The name by which observers recognize it.
pub(crate) const NAME: &str = "gigae-endpoint";

/// A mapping of [`TOTAL_WORDS`] words and the descriptor behind it.
#[derive(Debug)]
pub(crate) struct EndpointMemory {
    mapped: gigae_memfd::SharedMemory,
    pub(crate) fd: OwnedFd,
}

impl EndpointMemory {
    /// New memory, all zeros. It takes up memory as it is written to.
    pub(crate) fn create() -> io::Result<Self> {
        let (mapped, fd) = gigae_memfd::SharedMemory::create(NAME, TOTAL_WORDS)?;
        Ok(Self { mapped, fd })
    }

    /// Opens the memory of another process by its name below `/proc`. Refuses anything but a memfd
    /// of the right, sealed length that `user` or root made.
    ///
    /// The other process chose the file, and opening one can have effects. A FIFO wakes the process
    /// at its other end, a device acts, and a user's file system (FUSE) may never answer. So the
    /// file is first only named (`O_PATH`), which asks its file system nothing. It is opened after
    /// the kernel has confirmed that it lies where only memfds and other anonymous memory do.
    pub(crate) fn open(path: &Path, user: u32) -> io::Result<Self> {
        let refuse = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        let named = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        if mount(named.as_fd())? != mount_of_memfds()? {
            return refuse("no memfd");
        }
        let stat = rustix::fs::fstat(&named)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return refuse("no memfd");
        }
        if stat.st_uid != user && stat.st_uid != 0 {
            return refuse("a memfd of another user");
        }
        gigae_memfd::check(reopen(&named, OFlags::RDONLY)?, TOTAL_WORDS)?;
        // Writable: an observer writes there that it looks.
        let fd = reopen(&named, OFlags::RDWR)?;
        Ok(Self { mapped: gigae_memfd::SharedMemory::map(&fd, TOTAL_WORDS)?, fd })
    }

    /// All of it.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.mapped.words()
    }
}

/// Opens a named file. Never waits, not even for a lease (fcntl(2)) of another process.
fn reopen(named: &OwnedFd, access: OFlags) -> io::Result<OwnedFd> {
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let path = format!("/proc/self/fd/{}", named.as_raw_fd());
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// The kernel's number of the mount that a file lies on (proc_pid_fdinfo(5)).
fn mount(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()))?;
    let number = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    number.ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// The mount of all memfds, which is the kernel's own and appears in no namespace.
fn mount_of_memfds() -> io::Result<u64> {
    mount(rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC)?.as_fd())
}
