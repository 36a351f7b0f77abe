//! Opening files beneath a directory, and what the kernel says of them.

use crate::fault::of_source;
use gigae_share::{Attributes, Fault, Kind};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, openat2};
use rustix::io::Errno;
use twox_hash::XxHash3_64;

/// The kernel asks to try again when something was renamed at the same moment. A program that does
/// nothing else can make it ask without end.
const TRIES: usize = 64;

/// How symlinks in a path are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symlinks {
    /// Followed, as long as they stay beneath the directory.
    Beneath,
    /// Refused.
    Refused,
}

/// Opens a path beneath a directory. Empty: the directory itself.
pub(crate) fn open(
    directory: impl AsFd,
    path: &[u8],
    flags: OFlags,
    symlinks: Symlinks,
) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if symlinks == Symlinks::Refused {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    let path = if path.is_empty() { b"." } else { path };
    let flags = flags | OFlags::CLOEXEC;
    let mut opened = Err(Errno::AGAIN);
    for _ in 0..TRIES {
        opened = openat2(&directory, path, flags, Mode::empty(), resolve);
        if !matches!(opened, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    opened
}

/// Opens a directory beneath another one, to use what is in it.
pub(crate) fn directory(
    beneath: impl AsFd,
    path: &[u8],
    symlinks: Symlinks,
) -> Result<OwnedFd, Errno> {
    open(beneath, path, OFlags::PATH | OFlags::DIRECTORY, symlinks)
}

/// How a file is opened that may turn out to be something else: without waiting for the other end
/// of a FIFO, and without becoming a terminal's process.
pub(crate) const CAREFULLY: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// The attributes in the kernel's answer.
pub(crate) fn attributes(stat: &Stat) -> Attributes {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Special,
    };
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    // Setting the time of the bytes back changes that of the inode. Two changes within one tick of
    // the kernel's clock (4 ms) may leave the same times.
    let parts = [
        stat.st_dev,
        stat.st_ino,
        size,
        stat.st_mtime as u64,
        stat.st_mtime_nsec,
        stat.st_ctime as u64,
        stat.st_ctime_nsec,
    ];
    Attributes {
        kind,
        sparse: kind == Kind::File && u64::try_from(stat.st_blocks).unwrap_or(0) * 512 < size,
        mode: (stat.st_mode & 0o777) as u16,
        size,
        seconds: stat.st_mtime,
        nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
        version: XxHash3_64::oneshot(&parts.map(u64::to_le_bytes).concat()),
    }
}

/// The attributes of an open file.
pub(crate) fn attributes_of(file: impl AsFd) -> Result<Attributes, Fault> {
    Ok(attributes(&rustix::fs::fstat(file).map_err(of_source)?))
}
