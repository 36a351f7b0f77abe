//! Memory of the program's, and what of it others may use.

use crate::table::Table;
use gigae_wire::Pieces;
use gigae_wire::op::Status;
use std::collections::HashMap;

/// Memory that operations copy from and to. Lengths are at most 1 GiB, places within the length.
pub trait Memory {
    /// Bytes.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes out, beginning at `at`.
    ///
    /// # Panics
    /// If they are not all within the memory.
    fn read(&self, at: usize, out: &mut [u8]);

    /// Copies bytes in, beginning at `at`.
    ///
    /// # Panics
    /// If they do not all fit.
    fn write(&mut self, at: usize, bytes: &[u8]);

    /// Copies bytes in that lie in several places, beginning at `at`.
    ///
    /// # Panics
    /// If they do not all fit.
    fn write_pieces(&mut self, mut at: usize, pieces: Pieces) {
        for piece in pieces {
            self.write(at, piece);
            at += piece.len();
        }
    }
}

impl Memory for Vec<u8> {
    fn len(&self) -> usize {
        Self::len(self)
    }

    fn read(&self, at: usize, out: &mut [u8]) {
        out.copy_from_slice(&self[at..][..out.len()]);
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self[at..][..bytes.len()].copy_from_slice(bytes);
    }
}

/// Names a registered memory to other endpoints. Half of it is random: one that was not told cannot
/// be guessed in practice, and one that is over fits nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionKey(pub u64);

/// What others may do with a registered memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rights(u8);

impl Rights {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Reading.
    pub const READ: Self = Self(1);
    /// Writing.
    pub const WRITE: Self = Self(2);
    /// Atomic changes.
    pub const ATOMIC: Self = Self(4);
    /// All of it.
    pub const ALL: Self = Self(7);

    /// Both sets of rights.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all rights of `other` are among these.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

#[derive(Debug)]
struct Region<M> {
    memory: M,
    rights: Rights,
    secret: u32,
    writes: u64,
}

/// How often others have used memories of this endpoint since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Writes and atomic changes that were carried out.
    pub writes: u64,
    /// Reads that were answered to the end.
    pub reads: u64,
}

/// The registered memories of one endpoint.
#[derive(Debug)]
pub(crate) struct Regions<M> {
    table: Table<Region<M>>,
    /// Numbers of those whose keys the program has chosen, by these.
    chosen: HashMap<u64, u32>,
    random: u64,
    pub(crate) accesses: Accesses,
}

impl<M: Memory> Regions<M> {
    pub(crate) fn new(seed: u64) -> Self {
        let (table, chosen) = (Table::new(), HashMap::new());
        Self { table, chosen, random: seed, accesses: Accesses::default() }
    }

    /// The next number of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
    /// Generators, OOPSLA 2014).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Hands the memory back if there are too many.
    pub(crate) fn register(&mut self, memory: M, rights: Rights) -> Result<RegionKey, M> {
        let region = Region { memory, rights, secret: 0, writes: 0 };
        let number = self.table.insert(region).map_err(|region| region.memory)?;
        loop {
            let secret = (self.random() >> 32) as u32;
            let key = u64::from(secret) << 32 | u64::from(number);
            if !self.chosen.contains_key(&key) {
                self.table.get_mut(number).expect("just entered").secret = secret;
                return Ok(RegionKey(key));
            }
        }
    }

    /// The same under a key of the program's choice. Hands the memory back, too, if the key is that of
    /// another.
    pub(crate) fn register_as(
        &mut self,
        key: RegionKey,
        memory: M,
        rights: Rights,
    ) -> Result<(), M> {
        if self.number(key).is_some() {
            return Err(memory);
        }
        // It has another key besides, which nobody is told.
        let RegionKey(own) = self.register(memory, rights)?;
        self.chosen.insert(key.0, own as u32);
        Ok(())
    }

    fn number(&self, key: RegionKey) -> Option<u32> {
        let number = key.0 as u32;
        let is_own = |region: &Region<M>| u64::from(region.secret) == key.0 >> 32;
        if self.table.get(number).is_some_and(is_own) {
            return Some(number);
        }
        self.chosen.get(&key.0).copied()
    }

    pub(crate) fn deregister(&mut self, key: RegionKey) -> Option<M> {
        let number = self.number(key)?;
        self.chosen.remove(&key.0);
        self.table.remove(number).map(|region| region.memory)
    }

    pub(crate) fn memory(&self, key: RegionKey) -> Option<&M> {
        Some(&self.table.get(self.number(key)?)?.memory)
    }

    pub(crate) fn memory_mut(&mut self, key: RegionKey) -> Option<&mut M> {
        let number = self.number(key)?;
        Some(&mut self.table.get_mut(number)?.memory)
    }

    /// Writes of others that were completed.
    pub(crate) fn writes(&self, key: RegionKey) -> Option<u64> {
        Some(self.table.get(self.number(key)?)?.writes)
    }

    pub(crate) fn count_write(&mut self, key: RegionKey) {
        if let Some(region) = self.number(key).and_then(|number| self.table.get_mut(number)) {
            region.writes += 1;
            self.accesses.writes += 1;
        }
    }

    /// The memory, if `len` bytes from `offset` on may be used so.
    pub(crate) fn check(
        &mut self,
        key: RegionKey,
        offset: u64,
        len: u64,
        rights: Rights,
    ) -> Result<&mut M, Status> {
        let number = self.number(key).ok_or(Status::Key)?;
        let region = self.table.get_mut(number).ok_or(Status::Key)?;
        if !region.rights.has(rights) {
            return Err(Status::Rights);
        }
        match offset.checked_add(len) {
            Some(end) if end <= region.memory.len() as u64 => Ok(&mut region.memory),
            _ => Err(Status::Bounds),
        }
    }
}
