//! The process of a neighbour, whose memory this one can read: `process_vm_readv(2)`.
//!
//! The kernel allows that between processes of one user, unless a container, `ptrace_scope` or the
//! neighbour itself forbids it. So it is tried once when two meet. The reader puts a number into
//! the ring, and reads it at the address where the neighbour says that it has mapped the ring. If
//! the same number is there, the process is the right one.

use crate::ring::Ring;
use rustix::fd::OwnedFd;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

pub(crate) struct Lender {
    process: libc::pid_t,
}

impl Lender {
    /// The process at the other end of a connection, if its memory can be read. That process
    /// has said at which address it has mapped the ring. Two system calls.
    pub(crate) fn new(socket: &OwnedFd, ring: &Ring, ring_at: u64) -> Option<Self> {
        let process = gigae_host::socket::peer(socket).ok()?.pid;
        // Zero is a process that is not visible here.
        let lender = Some(Self { process }).filter(|_| process > 0)?;
        let number = RandomState::new().build_hasher().finish();
        let at = ring_at.wrapping_add(ring.set_probe(number));
        let mut read = [0; 8];
        (lender.read(at, &mut read) && u64::from_ne_bytes(read) == number).then_some(lender)
    }

    /// Fills bytes from an address in the process. False if not all of them are there, or it is not
    /// allowed. A system call for each 2 GiB.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let mut done = 0;
        while done < into.len() {
            let rest = &mut into[done..];
            let own = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
            let from = at.wrapping_add(done as u64) as usize;
            let from = std::ptr::with_exposed_provenance_mut(from);
            let others = libc::iovec { iov_base: from, iov_len: rest.len() };
            // SAFETY: the kernel writes to `rest` alone, as many bytes as it has. It checks the
            // address in the other process, and reads only there.
            #[expect(unsafe_code, reason = "no crate that is used here has this system call")]
            let count = unsafe { libc::process_vm_readv(self.process, &own, 1, &others, 1, 0) };
            match usize::try_from(count) {
                Ok(count) if count > 0 => done += count,
                _ => return false,
            }
        }
        true
    }
}
