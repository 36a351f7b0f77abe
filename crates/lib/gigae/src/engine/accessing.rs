//! Reads and writes of a neighbour's registered memory that is mapped here: one copy, and no frame.
//!
//! They are in order with what goes by frames: an access goes this way only if everything before it
//! is done, and it is done before anything after it begins.

use super::Engine;
use crate::memory::Memory;
use gigae_proto::PeerId;
use gigae_shm::{AccessCounts, DirectAccess, DirectRights};
use gigae_transfer::{Accesses, Bytes, OpId, RegionKey, Rights, TooLong};
use gigae_wire::PathId;

/// Bytes that are copied until the owner may take the memory back: usually some 0.1 ms.
const PIECE: usize = 1 << 20;

/// The same for memory here that is not in one piece: they are copied twice.
const BETWEEN: usize = 4 << 10;

/// Longest operation in bytes: a longer one is refused as if it went in frames.
const LONGEST: usize = 1 << 30;

impl Engine {
    /// Lets neighbours use a memory that was registered, if they can map it. Memory with the right
    /// to change it atomically is changed by frames only, and so are its writes: nothing must come
    /// between reading and writing a number.
    pub(crate) fn lend(&mut self, key: RegionKey, rights: Rights) {
        if let Some(Memory::Shared(buffer)) = self.transfer.region(key) {
            let write = rights.has(Rights::WRITE) && !rights.has(Rights::ATOMIC);
            let rights = DirectRights { read: rights.has(Rights::READ), write };
            if rights.read || rights.write {
                self.links.lend(key.0, buffer, rights);
            }
        }
    }

    /// Takes a registered memory back, and how often peers have written there.
    pub(crate) fn deregister(&mut self, key: RegionKey) -> Option<(Memory, u64)> {
        let writes = self.transfer.writes(key)?;
        let uses = match self.transfer.region(key)? {
            Memory::Shared(_) => self.links.take_back(key.0),
            _ => AccessCounts::default(),
        };
        Some((self.transfer.deregister(key)?, writes.wrapping_add(uses.writes)))
    }

    /// How often peers have written into a registered memory.
    pub(crate) fn region_writes(&mut self, key: RegionKey) -> Option<u64> {
        let writes = self.transfer.writes(key)?;
        Some(match self.transfer.region(key)? {
            Memory::Shared(_) => writes.wrapping_add(self.links.uses(Some(key.0)).writes),
            _ => writes,
        })
    }

    /// How often peers have used registered memories.
    pub(crate) fn accesses(&mut self) -> Accesses {
        let (own, uses) = (self.transfer.accesses(), self.links.uses(None));
        let writes = own.writes.wrapping_add(uses.writes);
        Accesses { writes, reads: own.reads.wrapping_add(uses.reads) }
    }

    /// Whether the next read or write of a peer's memory may go without frames.
    #[inline]
    fn may_access(&mut self, peer: PeerId) -> bool {
        if !self.links[PathId::FIRST].link.is_local() {
            return false;
        }
        // What the last operation's answer acknowledged.
        if self.proto.acknowledged() > 0 {
            self.reap();
        }
        self.transfer.is_caught_up(peer)
            && self.proto.is_acknowledged(peer)
            && self.proto.established(peer).is_some()
    }

    /// Writes into a peer's memory at once, if it is mapped here. False if not all of it was
    /// written: then it is to be written by frames.
    pub(crate) fn write_directly(
        &mut self,
        peer: PeerId,
        (RegionKey(key), offset): (RegionKey, u64),
        memory: &Memory,
    ) -> bool {
        let len = memory.len();
        if !(1..=LONGEST).contains(&len) || !self.may_access(peer) {
            return false;
        }
        let Self { links, proto, .. } = self;
        let unit = unit(memory);
        (0..len).step_by(unit).all(|at| {
            let piece = unit.min(len - at);
            let mut write = |bytes: &[u8]| {
                let place = (key, offset.wrapping_add(at as u64));
                let rest = len - at - piece;
                links.access(proto, peer, place, DirectAccess::Write(bytes), rest)
            };
            if let Some(bytes) = memory.slice(at, piece) {
                return write(bytes);
            }
            let mut between = [0; BETWEEN];
            memory.read(at, &mut between[..piece]);
            write(&between[..piece])
        })
    }

    /// A read or write of a peer's memory was done at once. It counts as an empty poll: a program
    /// that does nothing else takes in what has arrived now and then.
    pub(crate) fn carried_out(
        &mut self,
        peer: PeerId,
        memory: Memory,
    ) -> Result<OpId, TooLong<Memory>> {
        let id = self.transfer.carried_out(peer, memory)?;
        self.look(1);
        Ok(id)
    }

    /// Fills memory from a peer's at once, if that is mapped here. False if not all of it was read:
    /// then it is to be read by frames.
    pub(crate) fn read_directly(
        &mut self,
        peer: PeerId,
        (RegionKey(key), offset): (RegionKey, u64),
        memory: &mut Memory,
    ) -> bool {
        let len = memory.len();
        if !(1..=LONGEST).contains(&len) || !self.may_access(peer) {
            return false;
        }
        let Self { links, proto, .. } = self;
        let unit = unit(memory);
        (0..len).step_by(unit).all(|at| {
            let piece = unit.min(len - at);
            let mut read = |bytes: &mut [u8]| {
                let place = (key, offset.wrapping_add(at as u64));
                let rest = len - at - piece;
                links.access(proto, peer, place, DirectAccess::Read(bytes), rest)
            };
            if let Some(bytes) = memory.slice_mut(at, piece) {
                return read(bytes);
            }
            let mut between = [0; BETWEEN];
            let done = read(&mut between[..piece]);
            if done {
                memory.write(at, &between[..piece]);
            }
            done
        })
    }
}

/// Bytes of a memory that are copied at a time.
fn unit(memory: &Memory) -> usize {
    if memory.slice(0, memory.len()).is_some() { PIECE } else { BETWEEN }
}
