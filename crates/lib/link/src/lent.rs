//! Frame memory that a process makes for another process, which it does not trust.
//!
//! The borrower can write(2) to the memory from a page that never comes (of FUSE, of a
//! userfaultfd). It then holds the lock of the memory's inode without end, and every process that
//! wants the lock waits without end. write(2), ftruncate(2), fallocate(2) and adding a seal take
//! it. So the lender does none of them while another process may have the memory open:
//!
//! - It seals the length and maps the memory before it lends it. The borrower adds the seal against
//!   further mappings. The lender only reads the seals and counts the pages, which takes no lock.
//! - Before it adds a seal to find out whether the memory is still in use, it takes a *lease* on
//!   it. The kernel gives a lease for writing only if no other file of the inode is open, in
//!   whatever process, a mapping or a message ([`fcntl(2)`], `F_SETLEASE`; Linux 5.3).
//!
//! [`fcntl(2)`]: https://man7.org/linux/man-pages/man2/fcntl.2.html

use crate::arena::Arena;
use crate::mapping;
use rustix::fs::{Mode, OFlags, SealFlags};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes of the blocks that fstat(2) counts.
const BLOCK: u64 = 512;

/// Of linux/fcntl.h; `libc` lacks it.
const F_SETSIG: libc::c_int = 10;

/// What is left of something that was lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// No process has anything of it.
    Nothing,
    /// Some process has something.
    Something,
    /// This can never be known: the borrower prevented it.
    Unknown,
}

/// Memory that is lent to one process. No call on it waits for that process.
#[derive(Debug)]
pub struct LentMemory {
    file: OwnedFd,
    /// Until it is taken, or ends.
    arena: RefCell<Option<Arena>>,
}

impl LentMemory {
    /// Makes memory of `len` bytes that has no page yet, and maps it. Some ten system calls.
    pub fn new(len: usize) -> io::Result<Self> {
        // The file that memfd_create(2) returns does not count as open for writing, so the kernel
        // gives no lease on it.
        let file = open(&mapping::reserve(len)?)?;
        // SAFETY: nothing is read from it (`filled`).
        let arena = unsafe { Arena::untouched(&file, len) }?;
        Ok(Self { file, arena: RefCell::new(Some(arena)) })
    }

    /// A descriptor for the borrower, which maps the memory by [`Arena::of`].
    pub fn lend(&self) -> io::Result<OwnedFd> {
        open(&self.file)
    }

    /// Takes the mapping, if the borrower has made all pages and sealed the memory: no process can
    /// map it for writing again, or take a page out of it. Refused unless it has at least `least`
    /// bytes. Adds no page.
    ///
    /// # Safety
    /// Nothing may be read from this arena: the borrower may write to it at any time.
    pub unsafe fn filled(&self, least: usize) -> io::Result<Arena> {
        // The seal comes first: after it no page can go, so the pages can be counted.
        if !rustix::fs::fcntl_get_seals(&self.file)?.contains(SealFlags::FUTURE_WRITE) {
            return refuse("frame memory that is not sealed against further mappings");
        }
        let there = u64::try_from(rustix::fs::fstat(&self.file)?.st_blocks).unwrap_or(0) * BLOCK;
        match self.arena.take() {
            Some(arena) if arena.len() < least => refuse("frame memory that is too short"),
            Some(arena) if there < arena.len() as u64 => {
                refuse("frame memory of which pages are missing")
            }
            Some(arena) => Ok(arena),
            None => refuse("frame memory that is already in use"),
        }
    }

    /// Removes the mapping, if it was not taken.
    pub fn unmap(&self) {
        drop(self.arena.take());
    }

    /// Whether another file of this memory is open: as a descriptor, a mapping or in a message.
    pub fn is_open(&self) -> bool {
        Lease::take(&self.file).is_none()
    }

    /// What other processes have of it, sockets with which it is registered included. If a socket
    /// has it, the kernel takes up to 150 ms to answer. Without an own mapping only.
    pub fn remaining(&self) -> Remaining {
        // No process has a file by which it could hold the inode's lock. One that opens the memory
        // waits in open(2) for the end of the lease.
        let Some(_lease) = Lease::take(&self.file) else { return Remaining::Something };
        let _ = rustix::fs::fcntl_add_seals(&self.file, SealFlags::WRITE);
        match rustix::fs::fcntl_get_seals(&self.file) {
            Ok(seals) if seals.contains(SealFlags::WRITE) => Remaining::Nothing,
            Ok(seals) if seals.contains(SealFlags::SEAL) => Remaining::Unknown,
            _ => Remaining::Something,
        }
    }
}

/// A lease for writing, given back on drop.
struct Lease<'a>(&'a OwnedFd);

impl<'a> Lease<'a> {
    /// `None` if another file is open.
    fn take(file: &'a OwnedFd) -> Option<Self> {
        // A process that opens the memory during a lease has the lender signalled. SIGIO, the
        // default, would end it; SIGURG is ignored. The end of a lease restores the default.
        fcntl(file, F_SETSIG, libc::SIGURG).ok()?;
        fcntl(file, libc::F_SETLEASE, libc::F_WRLCK).ok().map(|()| Self(file))
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let _ = fcntl(self.0, libc::F_SETLEASE, libc::F_UNLCK);
    }
}

/// Opens a file of this process once more.
fn open(file: &OwnedFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

fn fcntl(file: &OwnedFd, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: a system call on plain numbers.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn refuse<T>(what: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use rustix::fs::FallocateFlags;

    const LEN: usize = 8192;

    fn filled(memory: &LentMemory) -> io::Result<Arena> {
        // SAFETY: nothing is read.
        unsafe { memory.filled(LEN) }
    }

    #[test]
    fn lent_memory_is_taken_with_all_its_pages_or_not_at_all() {
        let memory = LentMemory::new(LEN).unwrap();
        let theirs = memory.lend().unwrap();
        let blocks = || rustix::fs::fstat(&theirs).unwrap().st_blocks;
        let refused = filled(&memory).unwrap_err().to_string();
        assert!(refused.contains("not sealed") && blocks() == 0, "{refused}, {}", blocks());
        rustix::fs::fcntl_add_seals(&theirs, SealFlags::FUTURE_WRITE).unwrap();
        let refused = filled(&memory).unwrap_err().to_string();
        assert!(refused.contains("missing") && blocks() == 0, "{refused}, {}", blocks());

        let memory = LentMemory::new(LEN).unwrap();
        let theirs = memory.lend().unwrap();
        // SAFETY: the only mapping that is read.
        let first = unsafe { Arena::of(&theirs, LEN).unwrap() };
        let second = filled(&memory).unwrap();
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert!(rustix::fs::fallocate(&theirs, punch, 0, 4096).is_err(), "a page went");
        // SAFETY: it is refused.
        assert!(unsafe { Arena::of(&theirs, LEN) }.is_err(), "it was mapped once more");
        assert!(filled(&memory).is_err(), "it was taken twice");
        drop((first, second));
    }

    #[test]
    fn lent_memory_is_open_until_its_last_file_and_mapping_are_gone() {
        let memory = LentMemory::new(LEN).unwrap();
        assert!(!memory.is_open());
        let theirs = memory.lend().unwrap();
        // SAFETY: the only mapping that is read.
        let arena = unsafe { Arena::of(&theirs, LEN).unwrap() };
        assert!(memory.is_open());
        let for_reading = format!("/proc/self/fd/{}", theirs.as_raw_fd());
        let for_reading = std::fs::File::open(for_reading).unwrap();
        drop(theirs);
        memory.unmap();
        assert_eq!(memory.remaining(), Remaining::Something);
        drop(arena);
        assert_eq!(memory.remaining(), Remaining::Something);
        drop(for_reading);
        assert!(!memory.is_open());
        assert_eq!(memory.remaining(), Remaining::Nothing);
    }

    /// A process may keep the memory's place (`O_PATH`), which no lease shows, and open it again.
    #[test]
    fn a_process_that_opens_the_memory_during_a_lease_does_not_end_the_lender() {
        let memory = LentMemory::new(LEN).unwrap();
        let theirs = memory.lend().unwrap();
        let path = format!("/proc/self/fd/{}", theirs.as_raw_fd());
        let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        drop(theirs);
        // The kernel forgets the signal at the end of each lease.
        assert!(!memory.is_open());
        let lease = Lease::take(&memory.file).expect("only its place is known");
        let path = format!("/proc/self/fd/{}", place.as_raw_fd());
        let how = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&path, how, Mode::empty());
        assert_eq!(opened.err(), Some(rustix::io::Errno::AGAIN));
        drop(lease);
        let opened = rustix::fs::open(&path, how, Mode::empty()).unwrap();
        assert!(memory.is_open());
        drop(opened);
        assert!(!memory.is_open());
    }
}
