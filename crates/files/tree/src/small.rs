//! A small file, which arrives as a whole.
//!
//! It has no name while it is written (open(2), `O_TMPFILE`), and gets its own when all of it is
//! there. So nothing is left of it after a kill, no other process can have it open, and two
//! changes of the directory become one. Where the file system has no such files, it has a temporary
//! name until then, and a lock.

use crate::fault::fault;
use crate::partial::{lock, lock_open, mode, temporary, times};
use gigae_share::{Attributes, Fault};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, OFlags, fchmod, fstat, ftruncate, futimens, linkat, openat, renameat, unlinkat,
};
use rustix::io::Errno;

/// A file as it is to be stored.
pub(crate) struct SmallFile<'a> {
    /// Its directory.
    pub(crate) directory: &'a OwnedFd,
    /// Its name there.
    pub(crate) name: &'a [u8],
    pub(crate) attributes: &'a Attributes,
    pub(crate) data: &'a [u8],
    /// Permissions that new files do not get from the kernel.
    pub(crate) umask: u16,
}

/// What has become of a file that was to have no name.
pub(crate) enum Unnamed {
    /// It has its own.
    Stored,
    /// It cannot be had at this time: it needs a temporary name.
    Refused,
    /// The same for all files: this kernel or file system has no such files.
    Unsupported,
}

impl SmallFile<'_> {
    /// Stores it without a temporary name, if nothing has its own name.
    pub(crate) fn store_unnamed(&self) -> Result<Unnamed, Fault> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = match openat(self.directory, ".", flags, mode(self.attributes)) {
            Ok(file) => file,
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => return Ok(Unnamed::Unsupported),
            // The other way says what is wrong.
            Err(_) => return Ok(Unnamed::Refused),
        };
        self.write(&file, false).map_err(fault)?;
        let link = |name: &[u8]| linkat(&file, "", self.directory, name, AtFlags::EMPTY_PATH);
        match link(self.name) {
            Ok(()) => Ok(Unnamed::Stored),
            Err(Errno::EXIST) => {
                // A link replaces nothing; a renaming does. While the file has its temporary name,
                // no other process may write it.
                let temporary = temporary(self.name, self.attributes.version);
                lock_open(&file)?;
                match link(&temporary) {
                    Ok(()) => self.rename(&temporary).map(|()| Unnamed::Stored),
                    Err(_) => Ok(Unnamed::Refused),
                }
            }
            // Before Linux 6.10, only for processes with CAP_DAC_READ_SEARCH.
            Err(Errno::NOENT) if fstat(self.directory).is_ok_and(|stat| stat.st_nlink > 0) => {
                Ok(Unnamed::Unsupported)
            }
            Err(_) => Ok(Unnamed::Refused),
        }
    }

    /// Stores it under a temporary name first.
    pub(crate) fn store_named(&self) -> Result<(), Fault> {
        let temporary = temporary(self.name, self.attributes.version);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let create = || openat(self.directory, &temporary[..], flags, mode(self.attributes));
        let (file, left) = match create() {
            // Another process writes it, or was killed.
            Err(Errno::EXIST) => {
                let (file, len) = lock(self.directory, &temporary)?;
                (file, Some(len))
            }
            created => (created.map_err(fault)?, None),
        };
        if left.is_none() {
            lock_open(&file)?;
        }
        let emptied = if left.is_some_and(|len| len > 0) { ftruncate(&file, 0) } else { Ok(()) };
        if let Err(error) = emptied.and_then(|()| self.write(&file, left.is_some())) {
            // The error of the writing is the one to report.
            let _ = unlinkat(self.directory, &temporary[..], AtFlags::empty());
            return Err(fault(error));
        }
        self.rename(&temporary)
    }

    /// Writes bytes and attributes. `old`: the file was not made with its permissions.
    fn write(&self, file: impl AsFd, old: bool) -> Result<(), Errno> {
        let mut rest = self.data;
        while !rest.is_empty() {
            match rustix::io::write(&file, rest) {
                Err(Errno::INTR) => {}
                written => rest = &rest[written?..],
            }
        }
        if old || self.attributes.mode & self.umask != 0 {
            fchmod(&file, mode(self.attributes))?;
        }
        futimens(&file, &times(self.attributes))
    }

    /// Gives it its own name in the place of the temporary one.
    fn rename(&self, temporary: &[u8]) -> Result<(), Fault> {
        rename(self.directory, temporary, self.name)
    }
}

/// Gives a new file, whose name is temporary, its own name.
pub(crate) fn rename(directory: &OwnedFd, from: &[u8], to: &[u8]) -> Result<(), Fault> {
    renameat(directory, from, directory, to).map_err(|error| {
        // The error of the renaming is the one to report.
        let _ = unlinkat(directory, from, AtFlags::empty());
        fault(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_share::Kind;
    use rustix::process::geteuid;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    const ATTRIBUTES: Attributes = Attributes {
        kind: Kind::File,
        sparse: false,
        mode: 0o462,
        size: 5,
        seconds: 1_000_000_000,
        nanoseconds: 123_456_789,
        version: 7,
    };

    fn small<'a>(directory: &'a OwnedFd, data: &'a [u8]) -> SmallFile<'a> {
        SmallFile { directory, name: b"file", attributes: &ATTRIBUTES, data, umask: 0o022 }
    }

    /// The only file there has these bytes, and all of the attributes.
    fn is_stored(directory: &Path, data: &[u8]) {
        let file = directory.join("file");
        assert_eq!(fs::read(&file).unwrap(), data);
        let metadata = fs::metadata(&file).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.mtime()), (0o462, 1_000_000_000));
        assert_eq!(metadata.mtime_nsec(), 123_456_789);
        assert_eq!(fs::read_dir(directory).unwrap().count(), 1);
    }

    #[test]
    fn both_ways_store_the_same_also_in_the_place_of_a_file_and_of_a_symlink() {
        let place = tempfile::tempdir().unwrap();
        let directory = OwnedFd::from(fs::File::open(place.path()).unwrap());
        let file = place.path().join("file");
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let has_unnamed = openat(&directory, ".", flags, mode(&ATTRIBUTES)).is_ok();
        let unnamed = |data: &[u8]| match small(&directory, data).store_unnamed() {
            Ok(Unnamed::Stored) => assert!(has_unnamed),
            // Older kernels allow it to root only, and some file systems have no such files.
            Ok(Unnamed::Unsupported) if !has_unnamed || !geteuid().is_root() => {
                small(&directory, data).store_named().unwrap();
            }
            _ => panic!("there are files without a name here, and this one was not stored"),
        };
        unnamed(b"first");
        is_stored(place.path(), b"first");
        unnamed(b"other");
        is_stored(place.path(), b"other");
        small(&directory, b"third").store_named().unwrap();
        is_stored(place.path(), b"third");
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("elsewhere", &file).unwrap();
        unnamed(b"again");
        is_stored(place.path(), b"again");
        fs::remove_file(&file).unwrap();
        small(&directory, b"named").store_named().unwrap();
        is_stored(place.path(), b"named");
    }

    #[test]
    fn a_directory_stays_and_nothing_is_left_beside_it() {
        let place = tempfile::tempdir().unwrap();
        let directory = OwnedFd::from(fs::File::open(place.path()).unwrap());
        fs::create_dir(place.path().join("file")).unwrap();
        let refused = small(&directory, b"x").store_unnamed();
        assert!(matches!(refused, Err(Fault::WrongKind) | Ok(Unnamed::Unsupported)));
        assert_eq!(small(&directory, b"x").store_named(), Err(Fault::WrongKind));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
