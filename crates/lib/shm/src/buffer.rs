//! [`SharedBuffer`]: memory that neighbours can map.

use gigae_memfd::SharedMemory;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// What `/proc/PID/maps` and `/proc/PID/fd` show as its name.
const NAME: &str = "gigae-memory";

/// Bytes of a word.
const WORD: usize = 8;

/// Memory that processes of this node can map, so that a remote read or write is one copy, without
/// the owner. A copy of this value is the same memory. It is freed with the last one, but not
/// before the neighbours that have mapped it have made a call since, or are gone.
///
/// Peers may write at any time, so its bytes are copied in and out. An aligned number of up to 8
/// bytes is never torn by one [`read`](Self::read) or [`write`](Self::write). Long accesses of
/// peers, and those in frames, may tear a number at the place where they are cut. A child of
/// fork(2) shares the memory with its parent.
#[derive(Clone)]
pub struct SharedBuffer {
    allocation: Arc<Allocation>,
    start: usize,
    len: usize,
}

struct Allocation {
    memory: SharedMemory,
    fd: OwnedFd,
}

impl SharedBuffer {
    /// Memory of `len` zeros, in a sealed memfd (memfd_create(2)): one descriptor and seven system
    /// calls. It takes up memory as it is written to. The size of `/dev/shm` does not matter.
    ///
    /// Fails without a free descriptor, and where a filter forbids the system call. Other memory
    /// does the same then, by frames.
    pub fn new(len: usize) -> io::Result<Self> {
        let (memory, fd) = SharedMemory::create(NAME, len.div_ceil(WORD).max(1))?;
        Ok(Self { allocation: Arc::new(Allocation { memory, fd }), start: 0, len })
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of it, or `None` if it is not all within. Neighbours that may use a part can map all
    /// of the memory. Atomic changes can lose updates where the same bytes, in this or another
    /// part, are also registered without the right to change them atomically.
    pub fn part(&self, at: usize, len: usize) -> Option<Self> {
        let within = at <= self.len && len <= self.len - at;
        let allocation = Arc::clone(&self.allocation);
        within.then(|| Self { allocation, start: self.start + at, len })
    }

    /// Where it begins. It stays there.
    pub fn address(&self) -> *mut u8 {
        self.words().as_ptr().cast::<u8>().cast_mut().wrapping_add(self.start)
    }

    /// Copies bytes out, from this one on.
    ///
    /// # Panics
    /// If they are not all within it.
    pub fn read(&self, at: usize, out: &mut [u8]) {
        self.check(at, out.len());
        self.allocation.memory.read(self.start + at, out);
    }

    /// Copies bytes in, from this one on.
    ///
    /// # Panics
    /// If they do not all fit.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.check(at, bytes.len());
        self.allocation.memory.write(self.start + at, bytes);
    }

    fn check(&self, at: usize, len: usize) {
        assert!(at <= self.len && len <= self.len - at, "bytes outside of the memory");
    }

    fn words(&self) -> &[std::sync::atomic::AtomicU64] {
        self.allocation.memory.words()
    }

    /// Bytes in front of it, and words of all of the memory.
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.start, self.words().len())
    }

    /// The memory's descriptor.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.allocation.fd.as_fd()
    }
}

impl fmt::Debug for SharedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBuffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_the_same_memory_and_ends_where_it_says() {
        let whole = SharedBuffer::new(100).unwrap();
        let part = whole.part(10, 20).unwrap().part(5, 10).unwrap();
        part.write(0, b"0123456789");
        let mut read = [0; 12];
        whole.read(14, &mut read);
        assert_eq!(&read, b"\x000123456789\0");
        assert_eq!(part.address(), whole.address().wrapping_add(15));
        assert!(part.part(0, 11).is_none() && part.part(11, 0).is_none());
        assert!(std::panic::catch_unwind(|| part.write(1, &[0; 10])).is_err());
        assert_eq!((whole.len(), SharedBuffer::new(0).unwrap().len()), (100, 0));
    }
}
