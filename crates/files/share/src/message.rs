//! The messages: what is asked, and what is answered.
//!
//! A request begins with its version, its kind and its number; a reply with its kind. Everything
//! that comes from the other end is checked here, once.

use crate::bytes::{Malformed, Reader, Write};
use crate::change::{Change, Changed, MAX_CHANGE, Ticket};
use crate::entry::{Attributes, Entry, target};
use crate::error::Fault;
use crate::inode::{Inode, Named, Space};
use crate::names::{valid_name, valid_path};
use crate::status::Status;
use twox_hash::XxHash3_128;

/// The version of this protocol.
const VERSION: u8 = 1;

/// The kind of a request that changes something.
const CHANGE: u8 = 15;

/// Longest request but for [changes](Change). It is sent unasked, and so needs no more than a frame
/// or some.
pub const MAX_REQUEST: usize = 32 << 10;

/// Bytes of a large file in a reply. Longer ones leave the processor's second cache between being
/// read, hashed and sent.
pub const PART: usize = 256 << 10;

/// Longest reply.
pub const MAX_REPLY: usize = PART + 4096;

/// Files up to this length come many to a reply. For a longer one, a reply of its own costs little.
pub const SMALL: usize = 64 << 10;

/// Most digests in a reply: the server reads that many parts before it answers others.
pub(crate) const MOST_DIGESTS: u32 = 32;

/// Most names in a request for small files.
pub(crate) const MOST_NAMES: usize = 512;

/// Most places with data in a reply.
pub(crate) const MOST_PLACES: usize = 4096;

/// Most sources of a push.
pub const MOST_SOURCES: usize = 512;

/// Most problems in the status of a push, and most of what is left; the rest is only counted.
pub const MOST_PROBLEMS: usize = 16;

/// The digest of a part.
pub fn digest(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}

/// What a node asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Whether the other end is there. It answers all earlier requests first.
    Ping,
    /// The attributes of a file.
    Look {
        /// Its path.
        path: Vec<u8>,
    },
    /// What is in a directory.
    List {
        /// Its path.
        path: Vec<u8>,
        /// Where the former reply has ended; 0 at first.
        from: u64,
    },
    /// Whole files of a directory.
    Small {
        /// The directory's path.
        path: Vec<u8>,
        /// The files' names.
        names: Vec<Vec<u8>>,
    },
    /// A part of a file.
    Read {
        /// The file's path.
        path: Vec<u8>,
        /// Its version.
        version: u64,
        /// First byte.
        offset: u64,
        /// How many.
        len: u32,
    },
    /// Where a file has data, and where holes.
    Map {
        /// The file's path.
        path: Vec<u8>,
        /// Its version.
        version: u64,
    },
    /// The digests of parts.
    Digests {
        /// The file's path.
        path: Vec<u8>,
        /// Its version.
        version: u64,
        /// The file's length.
        size: u64,
        /// First part.
        first: u64,
        /// How many.
        count: u32,
    },
    /// Fetch files from the node that asks.
    Take {
        /// A random number of this push. The same one again asks for nothing new.
        id: u64,
        /// What to ask that node for, and the name that it gets in a directory.
        sources: Vec<(Vec<u8>, Vec<u8>)>,
        /// A directory, or the new path of the only source.
        to: Vec<u8>,
        /// Also those of the same size and time.
        ignore_times: bool,
        /// `to` is the new path, also if a directory is there: a former request has made it.
        exact: bool,
    },
    /// How far that is.
    Status,
    /// Stop the fetch of this number. The reply is how far it was.
    Cancel {
        /// The number.
        id: u64,
    },
    /// All that a mounted file system shows of a file.
    Stat {
        /// Its path.
        path: Vec<u8>,
    },
    /// The same of what is in a directory, with `.` and `..`.
    Scan {
        /// Its path.
        path: Vec<u8>,
        /// Where to begin: 0, or what came with an entry.
        from: u64,
        /// Bytes of the reply at most, so that other replies need not wait for a long one.
        most: u32,
    },
    /// Bytes of a file, whatever its version.
    Range {
        /// Its path.
        path: Vec<u8>,
        /// Its [identity](crate::Inode::id).
        id: u64,
        /// First byte.
        offset: u64,
        /// How many. There are fewer at the end of the file only.
        len: u32,
    },
    /// How much room the file system has.
    Space {
        /// The path of a file there.
        path: Vec<u8>,
    },
    /// Change something.
    Change {
        /// Which one of which client: it is carried out once. A [`Caller`](crate::Caller) sets it.
        ticket: Ticket,
        /// What.
        change: Change,
    },
}

impl Request {
    /// The message.
    pub fn encode(&self, number: u32) -> Vec<u8> {
        let mut out = vec![VERSION, self.kind()];
        if let Self::Change { change: Change::Write { data, .. }, .. } = self {
            out.reserve(data.len() + 512);
        }
        out.put(&number.to_le_bytes());
        match self {
            Self::Ping | Self::Status => {}
            Self::Look { path } => out.put_string(path),
            Self::List { path, from } => {
                out.put_string(path);
                out.put(&from.to_le_bytes());
            }
            Self::Small { path, names } => {
                out.put_string(path);
                names.iter().for_each(|name| out.put_string(name));
            }
            Self::Read { path, version, offset, len } => {
                out.put_string(path);
                out.put(&version.to_le_bytes());
                out.put(&offset.to_le_bytes());
                out.put(&len.to_le_bytes());
            }
            Self::Map { path, version } => {
                out.put_string(path);
                out.put(&version.to_le_bytes());
            }
            Self::Digests { path, version, size, first, count } => {
                out.put_string(path);
                out.put(&version.to_le_bytes());
                out.put(&size.to_le_bytes());
                out.put(&first.to_le_bytes());
                out.put(&count.to_le_bytes());
            }
            Self::Take { id, sources, to, ignore_times, exact } => {
                out.put(&id.to_le_bytes());
                out.push(u8::from(*ignore_times) | u8::from(*exact) << 1);
                out.put_string(to);
                for (path, name) in sources {
                    out.put_string(path);
                    out.put_string(name);
                }
            }
            Self::Cancel { id } => out.put(&id.to_le_bytes()),
            Self::Stat { path } | Self::Space { path } => out.put_string(path),
            Self::Scan { path, from, most } => {
                out.put_string(path);
                out.put(&from.to_le_bytes());
                out.put(&most.to_le_bytes());
            }
            Self::Change { ticket, change } => {
                ticket.encode(&mut out);
                change.encode(&mut out);
            }
            Self::Range { path, id, offset, len } => {
                out.put_string(path);
                out.put(&id.to_le_bytes());
                out.put(&offset.to_le_bytes());
                out.put(&len.to_le_bytes());
            }
        }
        out
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Ping => 1,
            Self::Look { .. } => 2,
            Self::List { .. } => 3,
            Self::Small { .. } => 4,
            Self::Read { .. } => 5,
            Self::Map { .. } => 6,
            Self::Digests { .. } => 7,
            Self::Take { .. } => 8,
            Self::Status => 9,
            Self::Cancel { .. } => 10,
            Self::Stat { .. } => 11,
            Self::Scan { .. } => 12,
            Self::Range { .. } => 13,
            Self::Space { .. } => 14,
            Self::Change { .. } => CHANGE,
        }
    }

    /// The number of a message, and the request if it is valid. `Err` if even the number is
    /// missing.
    pub fn decode(message: &[u8]) -> Result<(u32, Option<Self>), Malformed> {
        let mut from = Reader(message);
        let (version, kind, number) = (from.u8()?, from.u8()?, from.u32()?);
        let most = if kind == CHANGE { MAX_CHANGE } else { MAX_REQUEST };
        if version != VERSION || message.len() > most {
            return Ok((number, None));
        }
        Ok((number, Self::body(kind, from).ok()))
    }

    fn body(kind: u8, mut from: Reader<'_>) -> Result<Self, Malformed> {
        let request = match kind {
            1 => Self::Ping,
            2 => Self::Look { path: path(&mut from)? },
            3 => Self::List { path: path(&mut from)?, from: from.u64()? },
            4 => {
                let path = path(&mut from)?;
                let mut names = Vec::new();
                while !from.0.is_empty() {
                    names.push(name(&mut from)?);
                    if names.len() > MOST_NAMES {
                        return Err(Malformed);
                    }
                }
                Self::Small { path, names }
            }
            5 => {
                let path = path(&mut from)?;
                let version = from.u64()?;
                let (offset, len) = part(&mut from)?;
                Self::Read { path, version, offset, len }
            }
            6 => Self::Map { path: path(&mut from)?, version: from.u64()? },
            7 => {
                let path = path(&mut from)?;
                let (version, size) = (from.u64()?, from.u64()?);
                let (first, count) = (from.u64()?, from.u32()?);
                let parts = size.div_ceil(PART as u64);
                let end = first.checked_add(count.into()).ok_or(Malformed)?;
                if count > MOST_DIGESTS || end > parts || i64::try_from(size).is_err() {
                    return Err(Malformed);
                }
                Self::Digests { path, version, size, first, count }
            }
            8 => {
                let id = from.u64()?;
                let flags = from.u8()?;
                let to = path(&mut from)?;
                let mut sources = Vec::new();
                while !from.0.is_empty() {
                    sources.push((path(&mut from)?, name(&mut from)?));
                    if sources.len() > MOST_SOURCES {
                        return Err(Malformed);
                    }
                }
                let (ignore_times, exact) = (flags & 1 != 0, flags & 2 != 0);
                Self::Take { id, sources, to, ignore_times, exact }
            }
            9 => Self::Status,
            10 => Self::Cancel { id: from.u64()? },
            11 => Self::Stat { path: path(&mut from)? },
            12 => Self::Scan { path: path(&mut from)?, from: from.u64()?, most: from.u32()? },
            13 => {
                let (path, id) = (path(&mut from)?, from.u64()?);
                let (offset, len) = part(&mut from)?;
                Self::Range { path, id, offset, len }
            }
            14 => Self::Space { path: path(&mut from)? },
            CHANGE => {
                let ticket = Ticket::decode(&mut from)?;
                Self::Change { ticket, change: Change::decode(&mut from)? }
            }
            _ => return Err(Malformed),
        };
        from.end()?;
        Ok(request)
    }
}

/// First byte and length of a part, which a reply can hold and a file can have.
fn part(from: &mut Reader<'_>) -> Result<(u64, u32), Malformed> {
    let (offset, len) = (from.u64()?, from.u32()?);
    let end = offset.checked_add(len.into()).and_then(|end| i64::try_from(end).ok());
    if len as usize > PART || end.is_none() {
        return Err(Malformed);
    }
    Ok((offset, len))
}

pub(crate) fn path(from: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let path = from.string()?;
    if valid_path(path) { Ok(path.to_vec()) } else { Err(Malformed) }
}

fn name(from: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let name = from.string()?;
    if valid_name(name) { Ok(name.to_vec()) } else { Err(Malformed) }
}

/// What kind of reply it is: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReplyHeader {
    /// The request failed.
    Failed = 1,
    /// The other end is there.
    Pong = 2,
    /// Attributes.
    Found = 3,
    /// Entries of a directory.
    Entries = 4,
    /// Whole files.
    Files = 5,
    /// A part of a file.
    Data = 6,
    /// Where data are.
    Places = 7,
    /// Digests of parts.
    Digests = 8,
    /// The fetch that was asked for has begun.
    Taken = 9,
    /// How far it is.
    Status = 10,
    /// All that a mounted file system shows of a file.
    Stat = 11,
    /// The same of what is in a directory.
    Scan = 12,
    /// Bytes of a file.
    Range = 13,
    /// How much room there is.
    Space = 14,
    /// A change was carried out.
    Changed = 15,
}

/// Where the bytes of a part or of small files begin in a reply: behind its kind and its digest.
pub(crate) const DATA_AT: usize = 17;

/// What is answered, borrowed from the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The request failed.
    Failed(Fault),
    /// The other end is there.
    Pong,
    /// The attributes of a file, and of a symlink where it leads.
    Found(Attributes, Vec<u8>),
    /// Entries of a directory, and from where on there are more.
    Entries(Vec<Entry>, Option<u64>),
    /// For each name the file, or why not.
    Files(Vec<Result<(Attributes, &'a [u8]), Fault>>),
    /// Bytes of a file, whose digest was right.
    Data(&'a [u8]),
    /// Where a file has data: first byte, and first one behind. `true`: there is more, all of
    /// which counts as data.
    Places(Vec<(u64, u64)>, bool),
    /// Digests of parts.
    Digests(Vec<u128>),
    /// The fetch has begun; whether to a new path, or into a directory.
    Taken(bool),
    /// How far it is.
    Status(Status),
    /// A file, and of a symlink where it leads.
    Stat(Inode, Vec<u8>),
    /// Entries of a directory. `true`: these are the last ones.
    Scan(Vec<Named>, bool),
    /// Bytes of a file, whose digest was right, and the file as it was after they were read.
    Range(Inode, &'a [u8]),
    /// How much room there is.
    Space(Space),
    /// A change was carried out.
    Changed(Changed),
}

impl<'a> Reply<'a> {
    /// Reads a reply. A part, or small files, whose digest is wrong is [`Fault::Digest`].
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader(message);
        let reply = match from.u8()? {
            1 => Self::Failed(fault(&mut from)?),
            2 => Self::Pong,
            3 => {
                let attributes = Attributes::decode(&mut from)?;
                Self::Found(attributes, target(&mut from, attributes.kind)?)
            }
            4 => {
                let next = match from.u8()? {
                    0 => None,
                    _ => Some(from.u64()?),
                };
                let mut entries = Vec::new();
                while !from.0.is_empty() {
                    entries.push(Entry::decode(&mut from)?);
                }
                Self::Entries(entries, next)
            }
            5 => {
                let expected = from.u128()?;
                if digest(from.0) != expected {
                    return Ok(Self::Failed(Fault::Digest));
                }
                let mut files = Vec::new();
                while !from.0.is_empty() {
                    files.push(match from.u8()? {
                        0 => {
                            let attributes = Attributes::decode(&mut from)?;
                            let len = usize::try_from(attributes.size).map_err(|_| Malformed)?;
                            Ok((attributes, from.take(len)?))
                        }
                        _ => Err(fault(&mut from)?),
                    });
                }
                Self::Files(files)
            }
            6 => {
                let expected = from.u128()?;
                let data = from.take(from.0.len())?;
                if digest(data) == expected {
                    Self::Data(data)
                } else {
                    Self::Failed(Fault::Digest)
                }
            }
            7 => {
                let more = from.u8()? != 0;
                let (mut places, mut end) = (Vec::new(), 0);
                while !from.0.is_empty() {
                    let place = (from.u64()?, from.u64()?);
                    // In order, and none empty: the reader need not sort.
                    if place.0 < end || place.1 <= place.0 {
                        return Err(Malformed);
                    }
                    end = place.1;
                    places.push(place);
                }
                Self::Places(places, more)
            }
            8 => {
                let mut digests = Vec::new();
                while !from.0.is_empty() {
                    digests.push(from.u128()?);
                }
                Self::Digests(digests)
            }
            9 => Self::Taken(from.u8()? != 0),
            10 => Self::Status(Status::decode(&mut from)?),
            11 => {
                let inode = Inode::decode(&mut from)?;
                Self::Stat(inode, target(&mut from, inode.attributes.kind)?)
            }
            12 => {
                let last = from.u8()? != 0;
                let mut entries = Vec::new();
                while !from.0.is_empty() {
                    entries.push(Named::decode(&mut from)?);
                }
                Self::Scan(entries, last)
            }
            13 => {
                let expected = from.u128()?;
                if digest(from.0) != expected {
                    return Ok(Self::Failed(Fault::Digest));
                }
                let inode = Inode::decode(&mut from)?;
                let len = from.0.len();
                Self::Range(inode, from.take(len)?)
            }
            14 => Self::Space(Space::decode(&mut from)?),
            15 => Self::Changed(Changed::decode(&mut from)?),
            _ => return Err(Malformed),
        };
        from.end()?;
        Ok(reply)
    }
}

pub(crate) fn fault(from: &mut Reader<'_>) -> Result<Fault, Malformed> {
    Fault::from_byte(from.u8()?).ok_or(Malformed)
}

#[cfg(test)]
mod tests;
