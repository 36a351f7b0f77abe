//! A file that is not complete, under its temporary name.

use crate::beneath::CAREFULLY;
use crate::fault::fault;
use gigae_share::{Attributes, Fault};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, Timespec, Timestamps, fchmod, flock, fstat,
    ftruncate, futimens, openat, renameat, unlinkat,
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
        let (file, len) = match own(&directory, &temporary)? {
            Some(found) => found,
            None => {
                unlinkat(&*directory, &temporary[..], AtFlags::empty()).map_err(fault)?;
                own(&directory, &temporary)?.ok_or(Fault::Locked)?
            }
        };
        let space = rustix::fs::fstatvfs(&file).map_err(fault)?;
        let missing = attributes.size.saturating_sub(len);
        if !attributes.sparse && missing / space.f_frsize.max(1) > space.f_bavail {
            return Err(Fault::Full);
        }
        let sparse = attributes.sparse && len == 0;
        Ok((Self { path, directory, name, temporary, file, sparse }, len))
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
    pub(crate) fn finish(self, attributes: &Attributes) -> Result<(), Fault> {
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

/// The file under this name, locked, and its length; `None` if it is not this user's own. Only
/// that may be written to: in a directory for all, others could have put something there.
fn own(directory: &OwnedFd, name: &[u8]) -> Result<Option<(OwnedFd, u64)>, Fault> {
    let flags = CAREFULLY | OFlags::RDWR | OFlags::CREATE;
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
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some((file, u64::try_from(stat.st_size).unwrap_or(0)))),
        Err(Errno::AGAIN) => Err(Fault::Locked),
        Err(error) => Err(fault(error)),
    }
}
