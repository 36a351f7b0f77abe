//! A file that is not complete, under its temporary name.

use crate::beneath::CAREFULLY;
use crate::fault::fault;
use gigae_share::{Attributes, Fault};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Timespec, Timestamps, fchmod, flock,
    fstat, ftruncate, futimens, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::rc::Rc;

/// A block that has only zeros stays a hole.
const BLOCK: usize = 4096;

/// Longest part of a file's name in its temporary name: the rest of 255 bytes is for the version.
const LONGEST: usize = 220;

/// The temporary name of this version of a file.
pub(crate) fn temporary(name: &[u8], version: u64) -> Vec<u8> {
    let name = &name[..name.len().min(LONGEST)];
    [b".", name, format!(".gigae-{version:016x}").as_bytes()].concat()
}

/// The times to set; that of the last access becomes the same.
pub(crate) fn times(attributes: &Attributes) -> Timestamps {
    let time = Timespec { tv_sec: attributes.seconds, tv_nsec: attributes.nanoseconds.into() };
    Timestamps { last_access: time, last_modification: time }
}

/// The permissions to set.
pub(crate) fn mode(attributes: &Attributes) -> Mode {
    Mode::from_raw_mode(attributes.mode.into())
}

#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) path: Vec<u8>,
    directory: Rc<OwnedFd>,
    name: Vec<u8>,
    temporary: Vec<u8>,
    file: OwnedFd,
    /// Zeros need not be written: nothing else is there.
    sparse: bool,
}

impl Partial {
    /// Opens it, and returns how many bytes an earlier try has left.
    pub(crate) fn open(
        directory: Rc<OwnedFd>,
        name: Vec<u8>,
        path: Vec<u8>,
        attributes: &Attributes,
    ) -> Result<(Self, u64), Fault> {
        let temporary = temporary(&name, attributes.version);
        let (file, len) = lock(&directory, &temporary)?;
        let sparse = attributes.sparse && len == 0;
        let partial = Self { path, directory, name, temporary, file, sparse };
        match partial.has_room(attributes, len) {
            Ok(()) => Ok((partial, len)),
            Err(fault) => {
                if len == 0 {
                    partial.remove();
                }
                Err(fault)
            }
        }
    }

    fn has_room(&self, attributes: &Attributes, len: u64) -> Result<(), Fault> {
        let space = rustix::fs::fstatvfs(&self.file).map_err(fault)?;
        let missing = attributes.size.saturating_sub(len);
        if !attributes.sparse && missing / space.f_frsize.max(1) > space.f_bavail {
            return Err(Fault::Full);
        }
        Ok(())
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        use rustix::fd::AsFd;
        self.file.as_fd()
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), Fault> {
        if !self.sparse {
            return self.write_all(offset, data);
        }
        for (block, at) in data.chunks(BLOCK).zip((offset..).step_by(BLOCK)) {
            if block.iter().any(|&byte| byte != 0) {
                self.write_all(at, block)?;
            }
        }
        Ok(())
    }

    fn write_all(&self, mut offset: u64, mut data: &[u8]) -> Result<(), Fault> {
        while !data.is_empty() {
            match rustix::io::pwrite(&self.file, data, offset) {
                Ok(0) => return Err(Fault::Disk),
                Ok(written) => {
                    offset += written as u64;
                    data = &data[written..];
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(fault(error)),
            }
        }
        Ok(())
    }

    /// It is complete.
    pub(crate) fn finish(&self, attributes: &Attributes) -> Result<(), Fault> {
        let finished = (|| {
            let len = fstat(&self.file)?.st_size;
            if u64::try_from(len) != Ok(attributes.size) {
                ftruncate(&self.file, attributes.size)?;
            }
            fchmod(&self.file, mode(attributes))?;
            futimens(&self.file, &times(attributes))?;
            renameat(&*self.directory, &self.temporary[..], &*self.directory, &self.name[..])
        })();
        finished.map_err(fault)
    }

    /// It is of no use to another try.
    pub(crate) fn remove(self) {
        // Nothing follows from whether it can be removed.
        let _ = unlinkat(&*self.directory, &self.temporary[..], AtFlags::empty());
    }

    /// Its temporary path.
    pub(crate) fn temporary_path(&self) -> Vec<u8> {
        let parent = self.path.len() - self.name.len();
        [&self.path[..parent], &self.temporary].concat()
    }
}

/// Tries to get hold of a file whose name another process is changing at the same moment.
const TRIES: usize = 8;

/// The file under this temporary name, locked, and its length. It is made if it is not there, and
/// replaced if it is not this user's own: in a directory for all, others could have put something
/// there.
pub(crate) fn lock(directory: &OwnedFd, name: &[u8]) -> Result<(OwnedFd, u64), Fault> {
    for _ in 0..TRIES {
        match own(directory, name, OFlags::CREATE) {
            Ok(Some(found)) => return Ok(found),
            // Renamed since it was opened.
            Err(Fault::NotFound) => {}
            Ok(None) => unlinkat(directory, name, AtFlags::empty()).map_err(fault)?,
            Err(fault) => return Err(fault),
        }
    }
    Err(Fault::Locked)
}

/// The file under this name, locked, and its length; `None` if it is not this user's own.
fn own(directory: &OwnedFd, name: &[u8], create: OFlags) -> Result<Option<(OwnedFd, u64)>, Fault> {
    let flags = CAREFULLY | OFlags::RDWR | create;
    let file = match openat(directory, name, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => file,
        Err(Errno::LOOP | Errno::NXIO) => return Ok(None),
        Err(error) => return Err(fault(error)),
    };
    let stat = fstat(&file).map_err(fault)?;
    let is_own = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_uid == geteuid().as_raw()
        && stat.st_nlink == 1;
    if !is_own {
        return Ok(None);
    }
    lock_open(&file)?;
    // The process that had the lock may have given the file its final name.
    let named = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(fault)?;
    if (named.st_dev, named.st_ino) != (stat.st_dev, stat.st_ino) {
        return Err(Fault::NotFound);
    }
    Ok(Some((file, u64::try_from(named.st_size).unwrap_or(0))))
}

/// Locks a file that no other process may write.
pub(crate) fn lock_open(file: &OwnedFd) -> Result<(), Fault> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::AGAIN) => Err(Fault::Locked),
        Err(error) => Err(fault(error)),
    }
}

/// The temporary names in a directory.
pub(crate) fn temporaries(directory: &OwnedFd) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // What cannot be listed has none that could be removed.
    let Ok(directory) = openat(directory, ".", flags, Mode::empty()) else { return found };
    let Ok(entries) = Dir::read_from(directory) else { return found };
    for entry in entries.flatten() {
        let name = entry.file_name().to_bytes();
        let version = name.len().checked_sub(16).map(|at| name.split_at(at));
        if version.is_some_and(|(before, version)| {
            before.ends_with(b".gigae-") && version.iter().all(u8::is_ascii_hexdigit)
        }) {
            found.push(name.to_vec());
        }
    }
    found
}

/// Removes what earlier tries have left of other versions of a file, and what no process writes.
pub(crate) fn remove_others(
    directory: &OwnedFd,
    name: &[u8],
    version: u64,
    temporaries: &[Vec<u8>],
) {
    let this = temporary(name, version);
    let before = &this[..this.len() - 16];
    for other in temporaries.iter().filter(|other| **other != this && other.starts_with(before)) {
        if other.len() == this.len() {
            remove_own(directory, other);
        }
    }
}

/// Removes a temporary file of this user that no process writes.
pub(crate) fn remove_own(directory: &OwnedFd, name: &[u8]) {
    if let Ok(Some(_locked)) = own(directory, name, OFlags::empty()) {
        // Nothing follows from whether it can be removed.
        let _ = unlinkat(directory, name, AtFlags::empty());
    }
}
