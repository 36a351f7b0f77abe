//! Registered memory that neighbours use without its owner.

use super::ShmLink;
use crate::access_words::AccessCounts;
use crate::buffer::SharedBuffer;
use crate::neighbours::key;
use crate::region_messages::DirectRights;
use crate::regions::DirectAccess;
use gigae_link::Link;
use gigae_wire::MacAddr;

/// # Registered memory
impl<L: Link> ShmLink<L> {
    /// Lets neighbours that know its key use a registered memory without this endpoint.
    pub fn lend(&mut self, region: u64, buffer: SharedBuffer, rights: DirectRights) {
        self.neighbours.lend(region, buffer, rights);
    }

    /// Takes a memory back, and returns how often neighbours have used it. `None` if it is not
    /// lent. Waits while a neighbour is copying, which is usually some 100 us, or until its process
    /// has ended. If the process is stopped then, this waits until it goes on. No system call
    /// otherwise. In another PID namespace only the connection tells that a process has ended, and
    /// its forked children that run no other program keep that open.
    pub fn take_back(&mut self, region: u64) -> Option<AccessCounts> {
        self.neighbours.take_back(region)
    }

    /// How often neighbours have used a lent memory, or with `None` all memories so far.
    pub fn uses(&self, region: Option<u64>) -> AccessCounts {
        self.neighbours.uses(region)
    }

    /// Reads or writes the registered memory of a neighbour, beginning at an offset. `rest` bytes
    /// of the same access are behind these; the neighbour counts the last part. False, with no
    /// effect, if the access is not possible now: the first time for each memory, this asks the
    /// neighbour for it, which takes some system calls of both. Later one copy.
    pub fn access(
        &mut self,
        mac: MacAddr,
        (region, offset): (u64, u64),
        access: DirectAccess<'_>,
        rest: usize,
    ) -> bool {
        self.neighbours.access(key(mac.0), (region, offset), access, rest)
    }
}
