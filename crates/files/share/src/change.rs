//! What a mounted file system changes.

use crate::bytes::{Malformed, Reader, Write};
use crate::entry::Kind;
use crate::inode::Inode;
use crate::message::{PART, digest, path};
use crate::names::MAX_PATH;

/// A change of a shared directory. Paths have no symlink before their ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new file, which is empty. One that is there is an error if `new`, else it stays.
    File {
        /// Its path.
        path: Vec<u8>,
        /// Its permissions.
        mode: u16,
        /// It must not be there.
        new: bool,
        /// One that is there becomes empty.
        truncate: bool,
    },
    /// A new directory.
    Directory {
        /// Its path.
        path: Vec<u8>,
        /// Its permissions.
        mode: u16,
    },
    /// A new symlink.
    Symlink {
        /// Its path.
        path: Vec<u8>,
        /// Where it leads.
        target: Vec<u8>,
    },
    /// Removes a file or an empty directory.
    Remove {
        /// Its path.
        path: Vec<u8>,
        /// Its identity. 0: whatever has this path.
        id: u64,
        /// It is a directory.
        directory: bool,
    },
    /// Gives a file another name.
    Rename {
        /// Its path.
        from: Vec<u8>,
        /// Its new one.
        to: Vec<u8>,
        /// Its identity, by which a rename that was carried out before is recognized. 0: whatever
        /// has this path.
        id: u64,
        /// Nothing may be there.
        new: bool,
    },
    /// Gives a file one more name.
    Link {
        /// Its path.
        from: Vec<u8>,
        /// Its identity.
        id: u64,
        /// The other path.
        to: Vec<u8>,
    },
    /// Opens a file to write to it: fails if that cannot be.
    Open {
        /// Its path.
        path: Vec<u8>,
        /// Its identity.
        id: u64,
        /// It becomes empty.
        truncate: bool,
    },
    /// Sets attributes of a file: those that are there.
    Set {
        /// Its path.
        path: Vec<u8>,
        /// Its identity.
        id: u64,
        /// Permissions.
        mode: Option<u16>,
        /// Length.
        size: Option<u64>,
        /// When it was changed last: seconds and nanoseconds.
        modified: Option<(i64, u32)>,
    },
    /// Writes bytes.
    Write {
        /// The file's path.
        path: Vec<u8>,
        /// Its identity.
        id: u64,
        /// Where.
        offset: u64,
        /// What.
        data: Vec<u8>,
    },
    /// Waits until a file or directory is on the disk.
    Sync {
        /// Its path.
        path: Vec<u8>,
        /// Its identity.
        id: u64,
    },
}

/// Longest change in a message.
pub const MAX_CHANGE: usize = PART + 2 * MAX_PATH + 128;

/// Most changes of a client between the oldest one that it waits for and the newest one. The server
/// keeps the answers to so many.
pub(crate) const MOST_CHANGES: u64 = 256;

/// Which change of which client it is. A change that is asked for again has the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// A random number, which the client has as long as it runs.
    pub client: u64,
    /// The number of the change. Later changes have higher ones.
    pub number: u64,
    /// The client waits for no change with a lower number: the server must not carry it out.
    pub oldest: u64,
    /// 0 if the change was not sent before. Else the [record](Changed::record) that the server
    /// had of the client then: if it has another one, it does not know what became of the change.
    pub sent_to: u64,
}

impl Ticket {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.client, self.number, self.oldest, self.sent_to] {
            out.put(&number.to_le_bytes());
        }
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (client, number) = (from.u64()?, from.u64()?);
        let ticket = Self { client, number, oldest: from.u64()?, sent_to: from.u64()? };
        let fits = ticket.number.checked_sub(ticket.oldest).is_some_and(|n| n < MOST_CHANGES);
        if fits { Ok(ticket) } else { Err(Malformed) }
    }
}

/// What a change has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The file that was made or changed.
    pub inode: Option<Inode>,
    /// A new directory, which is empty: the version of its names.
    pub empty: Option<u64>,
    /// The directory in which one name was made or removed.
    pub parent: Option<Parent>,
}

/// A directory after a name was made or removed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The directory itself.
    pub inode: Inode,
    /// The versions of its names before and after that. If a client knows the first one, nobody
    /// else has changed a name in between. `None`: the server cannot say that.
    pub names: Option<(u64, u64)>,
}

/// The answer to a change that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The number of what the server keeps of the client: another one after a restart. Never 0.
    pub record: u64,
    /// The number of the machine's start. What was written before it, and not synced, may be lost.
    pub boot: u64,
    /// What it has done.
    pub done: Done,
}

impl Changed {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Done { inode, empty, parent } = self.done;
        let names = parent.and_then(|parent| parent.names);
        out.put(&self.record.to_le_bytes());
        out.put(&self.boot.to_le_bytes());
        let present = [inode.is_some(), parent.is_some(), names.is_some(), empty.is_some()];
        out.push(present.iter().rev().fold(0, |flags, is| flags << 1 | u8::from(*is)));
        inode.iter().for_each(|inode| inode.encode(out));
        parent.iter().for_each(|parent| parent.inode.encode(out));
        let versions = names.into_iter().flat_map(|(before, after)| [before, after]).chain(empty);
        versions.for_each(|version| out.put(&version.to_le_bytes()));
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (record, boot, has) = (from.u64()?, from.u64()?, from.u8()?);
        if has & !15 != 0 {
            return Err(Malformed);
        }
        let inode = if has & 1 != 0 { Some(Inode::decode(from)?) } else { None };
        let parent = if has & 2 != 0 { Some(Inode::decode(from)?) } else { None };
        let names = if has & 4 != 0 { Some((from.u64()?, from.u64()?)) } else { None };
        let empty = if has & 8 != 0 { Some(from.u64()?) } else { None };
        let parent = match (parent, names) {
            (Some(inode), _) if inode.attributes.kind != Kind::Directory => return Err(Malformed),
            (Some(inode), names) => Some(Parent { inode, names }),
            (None, Some(_)) => return Err(Malformed),
            (None, None) => None,
        };
        let done = Done { inode, empty, parent };
        if record == 0 { Err(Malformed) } else { Ok(Self { record, boot, done }) }
    }
}

impl Change {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::File { path, mode, new, truncate } => {
                out.put(&[1, u8::from(*new) | u8::from(*truncate) << 1]);
                out.put_string(path);
                out.put(&mode.to_le_bytes());
            }
            Self::Directory { path, mode } => {
                out.push(2);
                out.put_string(path);
                out.put(&mode.to_le_bytes());
            }
            Self::Symlink { path, target } => {
                out.push(3);
                out.put_string(path);
                out.put_string(target);
            }
            Self::Remove { path, id, directory } => {
                out.put(&[4, u8::from(*directory)]);
                out.put_string(path);
                out.put(&id.to_le_bytes());
            }
            Self::Rename { from, to, id, new } => {
                out.put(&[5, u8::from(*new)]);
                out.put_string(from);
                out.put_string(to);
                out.put(&id.to_le_bytes());
            }
            Self::Link { from, id, to } => {
                out.push(9);
                out.put_string(from);
                out.put(&id.to_le_bytes());
                out.put_string(to);
            }
            Self::Open { path, id, truncate } => {
                out.put(&[10, u8::from(*truncate)]);
                out.put_string(path);
                out.put(&id.to_le_bytes());
            }
            Self::Set { path, id, mode, size, modified } => {
                let present = [mode.is_some(), size.is_some(), modified.is_some()];
                let flags = present.iter().rev().fold(0, |flags, is| flags << 1 | u8::from(*is));
                out.put(&[6, flags]);
                out.put_string(path);
                out.put(&id.to_le_bytes());
                mode.iter().for_each(|mode| out.put(&mode.to_le_bytes()));
                size.iter().for_each(|size| out.put(&size.to_le_bytes()));
                if let Some((seconds, nanoseconds)) = modified {
                    out.put(&seconds.to_le_bytes());
                    out.put(&nanoseconds.to_le_bytes());
                }
            }
            Self::Write { path, id, offset, data } => {
                out.push(7);
                out.put_string(path);
                out.put(&id.to_le_bytes());
                out.put(&offset.to_le_bytes());
                out.put(&digest(data).to_le_bytes());
                out.put(data);
            }
            Self::Sync { path, id } => {
                out.push(8);
                out.put_string(path);
                out.put(&id.to_le_bytes());
            }
        }
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let flag = |from: &mut Reader<'_>| from.u8().map(|byte| byte != 0);
        let mode = |from: &mut Reader<'_>| from.u16().map(|mode| mode & 0o777);
        Ok(match from.u8()? {
            1 => {
                let flags = from.u8()?;
                let (new, truncate) = (flags & 1 != 0, flags & 2 != 0);
                Self::File { path: path(from)?, mode: mode(from)?, new, truncate }
            }
            2 => Self::Directory { path: path(from)?, mode: mode(from)? },
            3 => {
                let (path, target) = (path(from)?, path(from)?);
                if target.is_empty() {
                    return Err(Malformed);
                }
                Self::Symlink { path, target }
            }
            4 => {
                let directory = flag(from)?;
                Self::Remove { path: path(from)?, id: from.u64()?, directory }
            }
            5 => {
                let new = flag(from)?;
                Self::Rename { from: path(from)?, to: path(from)?, id: from.u64()?, new }
            }
            6 => {
                let flags = from.u8()?;
                let (path, id) = (path(from)?, from.u64()?);
                let mode = if flags & 1 != 0 { Some(mode(from)?) } else { None };
                let size = if flags & 2 != 0 { Some(from.u64()?) } else { None };
                let modified = if flags & 4 != 0 { Some((from.i64()?, from.u32()?)) } else { None };
                if size.is_some_and(|size| i64::try_from(size).is_err())
                    || modified.is_some_and(|(_, nanoseconds)| nanoseconds >= 1_000_000_000)
                {
                    return Err(Malformed);
                }
                Self::Set { path, id, mode, size, modified }
            }
            7 => {
                let (path, id, offset) = (path(from)?, from.u64()?, from.u64()?);
                let expected = from.u128()?;
                let data = from.take(from.0.len())?.to_vec();
                let end = offset.checked_add(data.len() as u64);
                let end = end.and_then(|end| i64::try_from(end).ok());
                if data.len() > PART || end.is_none() || digest(&data) != expected {
                    return Err(Malformed);
                }
                Self::Write { path, id, offset, data }
            }
            8 => Self::Sync { path: path(from)?, id: from.u64()? },
            9 => Self::Link { from: path(from)?, id: from.u64()?, to: path(from)? },
            10 => {
                let truncate = flag(from)?;
                Self::Open { path: path(from)?, id: from.u64()?, truncate }
            }
            _ => return Err(Malformed),
        })
    }
}
