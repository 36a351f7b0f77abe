//! What a mounted file system shows of a file, and of the file system that it is in.

use crate::bytes::{Malformed, Reader, Write};
use crate::entry::{Attributes, Kind};
use crate::names::valid_name;

/// A file as a mounted file system shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// What a copy has of it, too.
    pub attributes: Attributes,
    /// Which file it is: another number if another one has its name. Hard links of a file have the
    /// same one. Neither 0 nor 1, which have a meaning of their own in the kernel.
    pub id: u64,
    /// Its names.
    pub links: u32,
    /// What it occupies, in units of 512 bytes.
    pub blocks: u64,
    /// When the file or its attributes were changed last: seconds since 1970, and nanoseconds.
    pub changed: (i64, u32),
}

/// Bytes of an [`Inode`] in a message.
pub(crate) const INODE: usize = 31 + 8 + 4 + 8 + 12;

impl Inode {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.attributes.encode(out);
        out.put(&self.id.to_le_bytes());
        out.put(&self.links.to_le_bytes());
        out.put(&self.blocks.to_le_bytes());
        out.put(&self.changed.0.to_le_bytes());
        out.put(&self.changed.1.to_le_bytes());
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let inode = Self {
            attributes: Attributes::decode(from)?,
            id: from.u64()?,
            links: from.u32()?,
            blocks: from.u64()?,
            changed: (from.i64()?, from.u32()?),
        };
        if inode.id < 2 || inode.changed.1 >= 1_000_000_000 {
            return Err(Malformed);
        }
        Ok(inode)
    }
}

/// An entry of a directory that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name: also `.` and `..`, which have the attributes of the directory itself.
    pub name: Vec<u8>,
    /// The file.
    pub inode: Inode,
    /// From where on the directory has the entries behind this one. Never 0.
    pub next: u64,
}

impl Named {
    /// Bytes that it takes in a message.
    pub(crate) fn encoded_len(&self) -> usize {
        INODE + 8 + 2 + self.name.len()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_string(&self.name);
        self.inode.encode(out);
        out.put(&self.next.to_le_bytes());
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let name = from.string()?.to_vec();
        let (inode, next) = (Inode::decode(from)?, from.u64()?);
        let itself = name == b"." || name == b"..";
        let valid = match itself {
            true => inode.attributes.kind == Kind::Directory,
            false => valid_name(&name),
        };
        // Places in a directory are signed numbers in the kernel.
        if !valid || next == 0 || i64::try_from(next).is_err() {
            return Err(Malformed);
        }
        Ok(Self { name, inode, next })
    }
}

/// How much room a file system has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of a block.
    pub block: u32,
    /// Blocks, those that are free, and those of them that an ordinary user may fill.
    pub blocks: [u64; 3],
    /// Files that it can have, and how many more.
    pub files: [u64; 2],
}

impl Space {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put(&self.block.to_le_bytes());
        self.blocks.iter().chain(&self.files).for_each(|number| out.put(&number.to_le_bytes()));
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            block: from.u32()?,
            blocks: [from.u64()?, from.u64()?, from.u64()?],
            files: [from.u64()?, from.u64()?],
        })
    }
}
