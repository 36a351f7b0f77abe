//! The program's memory, and which parts of it other endpoints may use.

use crate::slot_table::SlotTable;
use gigae_wire::Pieces;
use gigae_wire::op::Status;
use std::collections::HashMap;
use std::fmt;

/// Memory that operations copy from and to. At most 1 GiB long; all offsets are within it.
pub trait Bytes {
    /// Its length.
    fn len(&self) -> usize;

    /// Whether the length is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes out, beginning at `at`.
    ///
    /// # Panics
    /// If they are not all within the memory.
    fn read(&self, at: usize, out: &mut [u8]);

    /// `len` bytes from `at` on, if they lie in one piece that can be read in place. They must stay
    /// where they are while an operation has the memory, even if the value itself moves: another
    /// process may read them. Others are copied with [`read`](Self::read).
    fn slice(&self, at: usize, len: usize) -> Option<&[u8]> {
        let _ = (at, len);
        None
    }

    /// Whether the kernel may read the bytes of [`slice`](Self::slice) even after the operation, so
    /// that its peer may see them: default `false`, and not for memory that is used for one peer
    /// after the other.
    fn is_lendable(&self) -> bool {
        false
    }

    /// The same for bytes that can be written in place, too. Others are copied with
    /// [`write`](Self::write).
    fn slice_mut(&mut self, at: usize, len: usize) -> Option<&mut [u8]> {
        let _ = (at, len);
        None
    }

    /// Copies bytes in, beginning at `at`.
    ///
    /// # Panics
    /// If they do not all fit.
    fn write(&mut self, at: usize, bytes: &[u8]);

    /// Copies bytes in from several pieces, beginning at `at`.
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

impl Bytes for Vec<u8> {
    fn len(&self) -> usize {
        Self::len(self)
    }

    fn read(&self, at: usize, out: &mut [u8]) {
        out.copy_from_slice(&self[at..][..out.len()]);
    }

    fn slice(&self, at: usize, len: usize) -> Option<&[u8]> {
        self.get(at..at.checked_add(len)?)
    }

    fn is_lendable(&self) -> bool {
        true
    }

    fn slice_mut(&mut self, at: usize, len: usize) -> Option<&mut [u8]> {
        self.get_mut(at..at.checked_add(len)?)
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self[at..][..bytes.len()].copy_from_slice(bytes);
    }
}

/// Names a registered memory to other endpoints. An endpoint that knows the key may use the memory.
/// All 64 bits come from the generator that the endpoint was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionKey(pub u64);

/// The source of keys. Some of its numbers must not reveal the others.
pub(crate) struct Generator(Box<dyn FnMut() -> u64 + Send>);

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Generator")
    }
}

/// Keys for simulations and tests, the same for the same seed: SplitMix64 (Steele, Lea, Flood: Fast
/// Splittable Pseudorandom Number Generators, OOPSLA 2014). One key reveals all others.
pub fn predictable_keys(seed: u64) -> impl FnMut() -> u64 + Send {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// What other endpoints may do with a registered memory.
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
    key: RegionKey,
    writes: u64,
}

/// A registered memory that was found by its key. Looked up once per operation, which may have many
/// parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionRef {
    pub(crate) key: RegionKey,
    number: u32,
}

/// How often other endpoints have used memories of this endpoint since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Writes and atomic changes that were executed.
    pub writes: u64,
    /// Reads that were answered completely.
    pub reads: u64,
}

/// The registered memories of one endpoint.
#[derive(Debug)]
pub(crate) struct Regions<M> {
    table: SlotTable<Region<M>>,
    by_key: HashMap<u64, u32>,
    keys: Generator,
    pub(crate) accesses: Accesses,
}

impl<M: Bytes> Regions<M> {
    pub(crate) fn new(keys: impl FnMut() -> u64 + Send + 'static) -> Self {
        let (table, by_key) = (SlotTable::default(), HashMap::new());
        let keys = Generator(Box::new(keys));
        Self { table, by_key, keys, accesses: Accesses::default() }
    }

    /// Registers a memory, or hands it back if there are too many.
    pub(crate) fn register(&mut self, memory: M, rights: Rights) -> Result<RegionKey, M> {
        loop {
            let key = RegionKey((self.keys.0)());
            if !self.by_key.contains_key(&key.0) {
                return self.register_as(key, memory, rights).map(|()| key);
            }
        }
    }

    /// The same under a key of the program's choice. Also hands the memory back if the key is in
    /// use.
    pub(crate) fn register_as(
        &mut self,
        key: RegionKey,
        memory: M,
        rights: Rights,
    ) -> Result<(), M> {
        if self.by_key.contains_key(&key.0) {
            return Err(memory);
        }
        let region = Region { memory, rights, key, writes: 0 };
        let number = self.table.insert(region).map_err(|region| region.memory)?;
        self.by_key.insert(key.0, number);
        Ok(())
    }

    pub(crate) fn deregister(&mut self, key: RegionKey) -> Option<M> {
        let number = self.by_key.remove(&key.0)?;
        self.table.remove(number).map(|region| region.memory)
    }

    /// The memory with this key. One lookup in a hash table, whether the key exists or not.
    pub(crate) fn find(&self, key: RegionKey) -> Option<RegionRef> {
        let number = *self.by_key.get(&key.0)?;
        Some(RegionRef { key, number })
    }

    fn region(&self, key: RegionKey) -> Option<&Region<M>> {
        self.table.get(*self.by_key.get(&key.0)?)
    }

    pub(crate) fn memory(&self, key: RegionKey) -> Option<&M> {
        Some(&self.region(key)?.memory)
    }

    pub(crate) fn memory_mut(&mut self, key: RegionKey) -> Option<&mut M> {
        let number = *self.by_key.get(&key.0)?;
        Some(&mut self.table.get_mut(number)?.memory)
    }

    /// Completed writes of other endpoints.
    pub(crate) fn writes(&self, key: RegionKey) -> Option<u64> {
        Some(self.region(key)?.writes)
    }

    pub(crate) fn count_write(&mut self, found: RegionRef) {
        if let Some(region) = self.table.get_mut(found.number) {
            region.writes += 1;
            self.accesses.writes += 1;
        }
    }

    /// The memory, if it is still registered and allows this use of `len` bytes from `offset` on.
    pub(crate) fn check(
        &mut self,
        found: RegionRef,
        offset: u64,
        len: u64,
        rights: Rights,
    ) -> Result<&mut M, Status> {
        // A number is used again at some time; a key is not.
        let region = self.table.get_mut(found.number).filter(|region| region.key == found.key);
        let region = region.ok_or(Status::Key)?;
        if !region.rights.has(rights) {
            return Err(Status::Rights);
        }
        match offset.checked_add(len) {
            Some(end) if end <= region.memory.len() as u64 => Ok(&mut region.memory),
            _ => Err(Status::Bounds),
        }
    }
}
