//! What is known of a file besides its bytes.

use crate::bytes::{Malformed, Reader, Write};
use crate::names::{MAX_PATH, valid_name};

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A regular file.
    File = 1,
    /// A directory.
    Directory = 2,
    /// A symlink, which is copied as such.
    Symlink = 3,
    /// Anything else, which is not copied.
    Special = 4,
}

/// The attributes of a file that are copied or compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub kind: Kind,
    /// It has holes.
    pub sparse: bool,
    /// Permissions: nine bits.
    pub mode: u16,
    /// Bytes.
    pub size: u64,
    /// When its bytes were changed last: seconds since 1970.
    pub seconds: i64,
    /// And nanoseconds.
    pub nanoseconds: u32,
    /// Another number if the file has become another one or has been changed.
    pub version: u64,
}

/// Only permissions are copied: no set-user-id, set-group-id or sticky bit.
pub(crate) const PERMISSIONS: u16 = 0o777;

impl Attributes {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind as u8 | u8::from(self.sparse) << 7);
        out.put(&self.mode.to_le_bytes());
        out.put(&self.size.to_le_bytes());
        out.put(&self.seconds.to_le_bytes());
        out.put(&self.nanoseconds.to_le_bytes());
        out.put(&self.version.to_le_bytes());
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let first = from.u8()?;
        let kind = match first & 0x7f {
            1 => Kind::File,
            2 => Kind::Directory,
            3 => Kind::Symlink,
            4 => Kind::Special,
            _ => return Err(Malformed),
        };
        let attributes = Self {
            kind,
            sparse: first & 0x80 != 0,
            mode: from.u16()? & PERMISSIONS,
            size: from.u64()?,
            seconds: from.i64()?,
            nanoseconds: from.u32()?,
            version: from.u64()?,
        };
        // What the kernel can hold: offsets are signed.
        if attributes.nanoseconds >= 1_000_000_000 || i64::try_from(attributes.size).is_err() {
            return Err(Malformed);
        }
        Ok(attributes)
    }
}

/// A file in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its attributes.
    pub attributes: Attributes,
    /// Of a symlink: where it leads.
    pub target: Vec<u8>,
}

impl Entry {
    /// Bytes that it takes in a message.
    pub(crate) fn encoded_len(&self) -> usize {
        // Kind, mode, size, time, version, and two lengths.
        31 + 4 + self.name.len() + self.target.len()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_string(&self.name);
        self.attributes.encode(out);
        out.put_string(&self.target);
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let name = from.string()?;
        let attributes = Attributes::decode(from)?;
        let target = target(from, attributes.kind)?;
        if !valid_name(name) {
            return Err(Malformed);
        }
        Ok(Self { name: name.to_vec(), attributes, target })
    }
}

/// Where a symlink leads, which is empty for anything else.
pub(crate) fn target(from: &mut Reader<'_>, kind: Kind) -> Result<Vec<u8>, Malformed> {
    let target = from.string()?;
    let valid = match kind {
        Kind::Symlink => !target.is_empty() && target.len() <= MAX_PATH && !target.contains(&0),
        _ => target.is_empty(),
    };
    if valid { Ok(target.to_vec()) } else { Err(Malformed) }
}
