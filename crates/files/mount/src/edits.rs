//! Changes that the kernel asks for, and the answers to it.

use crate::inodes::Inodes;
use fuser::{Errno, ReplyAttr, ReplyCreate, ReplyEmpty, ReplyEntry};
use gigae_share::{Change, Fault, MAX_PATH, join, valid_name};

/// A directory, and a name in it.
pub(crate) type Name = (u64, Vec<u8>);

/// A change, by the numbers of files that the kernel knows.
#[derive(Debug)]
pub(crate) enum Edit {
    File {
        at: Name,
        mode: u16,
        new: bool,
        truncate: bool,
    },
    Directory {
        at: Name,
        mode: u16,
    },
    Symlink {
        at: Name,
        target: Vec<u8>,
    },
    Link {
        number: u64,
        to: Name,
    },
    Remove {
        at: Name,
        directory: bool,
        /// The file is open, and gets this name instead.
        hidden: Option<Vec<u8>>,
    },
    Rename {
        from: Name,
        to: Name,
        new: bool,
        /// What is there now is open, and first gets this name, too.
        hidden: Option<Vec<u8>>,
        /// It has it.
        linked: bool,
    },
    Set {
        number: u64,
        mode: Option<u16>,
        size: Option<u64>,
        modified: Option<(i64, u32)>,
    },
    Sync {
        number: u64,
    },
}

/// Where the answer goes.
#[derive(Debug)]
pub(crate) enum EditReply {
    Created(ReplyCreate),
    Entry(ReplyEntry),
    Attributes(ReplyAttr),
    Done(ReplyEmpty),
}

impl EditReply {
    pub(crate) fn error(self, error: Errno) {
        match self {
            Self::Created(reply) => reply.error(error),
            Self::Entry(reply) => reply.error(error),
            Self::Attributes(reply) => reply.error(error),
            Self::Done(reply) => reply.error(error),
        }
    }
}

impl Edit {
    /// The name that it makes (`true`) or removes, if it does nothing else to names.
    pub(crate) fn name(&self) -> Option<(&Name, bool)> {
        match self {
            Self::File { at, .. } | Self::Directory { at, .. } | Self::Symlink { at, .. } => {
                Some((at, true))
            }
            Self::Remove { at, hidden: None, .. } => Some((at, false)),
            _ => None,
        }
    }

    /// All names that it makes or removes.
    pub(crate) fn names(&self) -> Vec<Name> {
        let hidden = match self {
            Self::Remove { at, hidden, .. } | Self::Rename { to: at, hidden, .. } => {
                hidden.as_ref().map(|hidden| (at.0, hidden.clone()))
            }
            _ => None,
        };
        let names = match self {
            Self::File { at, .. }
            | Self::Directory { at, .. }
            | Self::Symlink { at, .. }
            | Self::Remove { at, .. }
            | Self::Link { to: at, .. } => vec![at.clone()],
            Self::Rename { from, to, .. } => vec![from.clone(), to.clone()],
            Self::Set { .. } | Self::Sync { .. } => Vec::new(),
        };
        names.into_iter().chain(hidden).collect()
    }

    /// Directories in which it does more than that.
    pub(crate) fn mixes(&self) -> [Option<u64>; 2] {
        match self {
            Self::Link { to, .. } => [Some(to.0), None],
            Self::Remove { at, hidden: Some(_), .. } => [Some(at.0), None],
            Self::Rename { from, to, .. } => [Some(from.0), Some(to.0)],
            Self::Set { number, .. } => [Some(*number), None],
            _ => [None, None],
        }
    }

    /// The file that it changes, whose bytes must be at the server before.
    pub(crate) fn follows(&self) -> Option<u64> {
        match self {
            Self::Set { number, .. } | Self::Sync { number } | Self::Link { number, .. } => {
                Some(*number)
            }
            _ => None,
        }
    }

    /// Whether a missing file is a name that is not there, and not a file that was removed.
    pub(crate) fn finds(&self) -> bool {
        !matches!(self, Self::Set { .. } | Self::Sync { .. })
    }

    /// Whether it changes the paths of files that are in use: nothing else is then on its way.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self, Self::Rename { .. } | Self::Remove { hidden: Some(_), .. })
    }

    /// The same by paths.
    pub(crate) fn change(&self, inodes: &Inodes) -> Result<Change, Fault> {
        let path = |number: u64| inodes.path(number).ok_or(Fault::Changed);
        let id = |number: u64| inodes.id(number).ok_or(Fault::Changed);
        let beside = |directory: u64, name: &[u8]| {
            let path = join(&path(directory)?, name);
            match valid_name(name) && path.len() <= MAX_PATH {
                true => Ok(path),
                false => Err(Fault::TooLong),
            }
        };
        let named = |(directory, name): &Name| beside(*directory, name);
        let id_of = |(directory, name): &Name| {
            inodes.named(*directory, name).and_then(|number| inodes.id(number)).unwrap_or(0)
        };
        Ok(match self {
            Self::File { at, mode, new, truncate } => {
                Change::File { path: named(at)?, mode: *mode, new: *new, truncate: *truncate }
            }
            Self::Directory { at, mode } => Change::Directory { path: named(at)?, mode: *mode },
            Self::Symlink { at, target } => {
                Change::Symlink { path: named(at)?, target: target.clone() }
            }
            Self::Link { number, to } => {
                Change::Link { from: path(*number)?, id: id(*number)?, to: named(to)? }
            }
            Self::Remove { at, hidden: Some(hidden), .. } => Change::Rename {
                from: named(at)?,
                to: beside(at.0, hidden)?,
                id: id_of(at),
                new: true,
            },
            Self::Remove { at, directory, hidden: None } => {
                Change::Remove { path: named(at)?, id: id_of(at), directory: *directory }
            }
            Self::Rename { to, hidden: Some(hidden), linked: false, .. } => {
                Change::Link { from: named(to)?, id: id_of(to), to: beside(to.0, hidden)? }
            }
            Self::Rename { from, to, new, .. } => {
                Change::Rename { from: named(from)?, to: named(to)?, id: id_of(from), new: *new }
            }
            Self::Set { number, mode, size, modified } => Change::Set {
                path: path(*number)?,
                id: id(*number)?,
                mode: *mode,
                size: *size,
                modified: *modified,
            },
            Self::Sync { number } => Change::Sync { path: path(*number)?, id: id(*number)? },
        })
    }
}
