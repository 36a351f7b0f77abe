//! Where fetched files go.

use crate::beneath::{self, Symlinks, attributes};
use crate::export::{Export, fill};
use crate::fault::fault;
use crate::partial::{Partial, mode, remove_others, remove_own, temporaries, temporary, times};
use crate::small::{SmallFile, Unnamed, rename};
use gigae_share::{Attributes, Fault, Kind, Sink};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, fchmod, fstat, futimens, mkdirat, openat, readlinkat, statat,
    symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

/// Directories that stay open: what arrives is of a few directories at a time.
const MOST_OPEN: usize = 32;

/// What the path of a destination means.
#[derive(Debug)]
pub struct Place {
    /// The directory beneath which everything is written.
    pub destination: Destination,
    /// The name there of the only source; `None` if the destination is a directory that exists, in
    /// which each source keeps its name.
    pub name: Option<Vec<u8>>,
}

/// A directory beneath which files are written.
#[derive(Debug)]
pub struct Destination {
    root: Rc<OwnedFd>,
    /// Permissions that new files do not get from the kernel.
    umask: u16,
    /// Its file system may have files without a name.
    has_unnamed: bool,
    /// Directories that were used last, the last one at the end.
    directories: Vec<(Vec<u8>, Rc<OwnedFd>)>,
    partial: BTreeMap<u32, Partial>,
    left: Vec<Vec<u8>>,
    /// The directory in which a file was begun or stored last, and what was temporary there before.
    seen: Option<(Vec<u8>, Vec<Vec<u8>>)>,
}

impl Place {
    /// A path of this host.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        use std::os::unix::ffi::OsStrExt;
        let open = |path: &[u8]| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            openat(CWD, if path.is_empty() { b"." } else { path }, flags, Mode::empty())
        };
        Self::resolve(path.as_os_str().as_bytes(), open).map_err(fault)
    }

    /// A path beneath an export; `exact`: it is a new name, whatever is there.
    pub fn beneath(export: &Export, path: &[u8], exact: bool) -> Result<Self, Fault> {
        let open = |path: &[u8]| beneath::directory(export.root(), path, Symlinks::Beneath);
        let place = if exact { Self::new_name(path, open) } else { Self::resolve(path, open) };
        place.map_err(|error| export.fault(error))
    }

    /// A directory that exists, or a new name in one.
    fn resolve(path: &[u8], open: impl Fn(&[u8]) -> Result<OwnedFd, Errno>) -> Result<Self, Errno> {
        match open(path) {
            Ok(root) => return Ok(Self { destination: Destination::new(root), name: None }),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(error) => return Err(error),
        }
        Self::new_name(path, open)
    }

    fn new_name(
        path: &[u8],
        open: impl Fn(&[u8]) -> Result<OwnedFd, Errno>,
    ) -> Result<Self, Errno> {
        let (parent, name) = split(path);
        // `new/`: a directory is meant.
        let (parent, name) = if name.is_empty() {
            split(parent.strip_suffix(b"/").unwrap_or(parent))
        } else {
            (parent, name)
        };
        if !gigae_share::valid_name(name) {
            return Err(Errno::NOENT);
        }
        let root = open(parent)?;
        Ok(Self { destination: Destination::new(root), name: Some(name.to_vec()) })
    }
}

/// The directory, with the slash behind it, and the name in it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    path.split_at(path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1))
}

impl Destination {
    fn new(root: OwnedFd) -> Self {
        // There is no other way to ask for it, and no other thread makes files here.
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        Self {
            root: Rc::new(root),
            umask: (umask.as_raw_mode() & 0o777) as u16,
            has_unnamed: true,
            directories: Vec::new(),
            partial: BTreeMap::new(),
            left: Vec::new(),
            seen: None,
        }
    }

    /// The temporary files that were left for another try, as paths beneath the destination.
    pub fn left(&self) -> &[Vec<u8>] {
        &self.left
    }

    fn directory(&mut self, path: &[u8]) -> Result<Rc<OwnedFd>, Fault> {
        if path.is_empty() {
            return Ok(Rc::clone(&self.root));
        }
        if let Some((last, directory)) = self.directories.last()
            && last == path
        {
            return Ok(Rc::clone(directory));
        }
        let known = self.directories.iter().position(|(known, _)| known == path);
        let entry = match known {
            Some(at) => self.directories.remove(at),
            None => {
                let opened = beneath::directory(&*self.root, path, Symlinks::Refused);
                if self.directories.len() == MOST_OPEN {
                    self.directories.remove(0);
                }
                (path.to_vec(), Rc::new(opened.map_err(fault)?))
            }
        };
        let directory = Rc::clone(&entry.1);
        self.directories.push(entry);
        Ok(directory)
    }

    /// Lists what is temporary in the directory of a path, once for its files in a row.
    fn see(&mut self, directory: &OwnedFd, path: &[u8]) {
        let (above, _) = split(path);
        if self.seen.as_ref().is_none_or(|(seen, _)| seen != above) {
            self.seen = Some((above.to_vec(), temporaries(directory)));
        }
    }

    /// Removes what a killed copy has left of a small file that is stored now.
    fn remove_left(&mut self, directory: &OwnedFd, path: &[u8], name: &[u8], version: u64) {
        self.see(directory, path);
        let Some((_, temporaries)) = self.seen.as_ref().filter(|seen| !seen.1.is_empty()) else {
            return;
        };
        remove_others(directory, name, version, temporaries);
        let this = temporary(name, version);
        if temporaries.contains(&this) {
            remove_own(directory, &this);
        }
    }

    fn parent<'a>(&mut self, path: &'a [u8]) -> Result<(Rc<OwnedFd>, &'a [u8]), Fault> {
        let (parent, name) = split(path);
        Ok((self.directory(parent.strip_suffix(b"/").unwrap_or(parent))?, name))
    }
}

impl Sink for Destination {
    fn make_directory(&mut self, path: &[u8]) -> Result<bool, Fault> {
        if path.is_empty() {
            return Ok(false);
        }
        let (parent, name) = self.parent(path)?;
        match mkdirat(&*parent, name, Mode::RWXU) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => {
                let stat = statat(&*parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(fault)?;
                match attributes(&stat).kind {
                    Kind::Directory => Ok(false),
                    _ => Err(Fault::WrongKind),
                }
            }
            Err(error) => Err(fault(error)),
        }
    }

    fn finish_directory(&mut self, path: &[u8], attributes: &Attributes) -> Result<(), Fault> {
        // The destination itself is the user's.
        if path.is_empty() {
            return Ok(());
        }
        self.directories.retain(|(known, _)| known != path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = beneath::open(&*self.root, path, flags, Symlinks::Refused);
        let directory = directory.map_err(fault)?;
        fchmod(&directory, mode(attributes)).map_err(fault)?;
        futimens(&directory, &times(attributes)).map_err(fault)
    }

    fn symlink(
        &mut self,
        path: &[u8],
        target: &[u8],
        attributes: &Attributes,
    ) -> Result<(), Fault> {
        let (parent, name) = self.parent(path)?;
        let made = match symlinkat(target, &*parent, name) {
            Err(Errno::EXIST)
                if readlinkat(&*parent, name, Vec::new())
                    .is_ok_and(|found| found.to_bytes() == target) =>
            {
                Ok(())
            }
            Err(Errno::EXIST) => {
                let temporary = temporary(name, attributes.version);
                // Left by an earlier try, if it is there.
                let _ = unlinkat(&*parent, &temporary[..], AtFlags::empty());
                symlinkat(target, &*parent, &temporary[..]).map_err(fault)?;
                return rename(&parent, &temporary, name);
            }
            made => made,
        };
        made.map_err(fault)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        utimensat(&*parent, name, &times(attributes), flags).map_err(fault)
    }

    fn has(&mut self, path: &[u8], wanted: &Attributes) -> bool {
        let Ok((parent, name)) = self.parent(path) else { return false };
        let Ok(stat) = statat(&*parent, name, AtFlags::SYMLINK_NOFOLLOW) else { return false };
        let found = attributes(&stat);
        let same = |of: &Attributes| (of.kind, of.size, of.seconds, of.nanoseconds);
        same(&found) == same(wanted)
    }

    fn store(&mut self, path: &[u8], attributes: &Attributes, data: &[u8]) -> Result<(), Fault> {
        let (directory, name) = self.parent(path)?;
        let file = SmallFile { directory: &directory, name, attributes, data, umask: self.umask };
        if self.has_unnamed {
            match file.store_unnamed()? {
                Unnamed::Stored => {
                    self.remove_left(&directory, path, name, attributes.version);
                    return Ok(());
                }
                Unnamed::Refused => {}
                Unnamed::Unsupported => self.has_unnamed = false,
            }
        }
        file.store_named()
    }

    fn begin(&mut self, file: u32, path: &[u8], attributes: &Attributes) -> Result<u64, Fault> {
        let (parent, name) = self.parent(path)?;
        // Otherwise that is known only when all of it has arrived.
        if statat(&*parent, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| beneath::attributes(&stat).kind == Kind::Directory)
        {
            return Err(Fault::WrongKind);
        }
        self.see(&parent, path);
        if let Some((_, temporaries)) = &self.seen {
            remove_others(&parent, name, attributes.version, temporaries);
        }
        let (partial, left) = Partial::open(parent, name.to_vec(), path.to_vec(), attributes)?;
        self.partial.insert(file, partial);
        Ok(left)
    }

    fn digest(&mut self, file: u32, offset: u64, len: usize) -> Result<u128, Fault> {
        let partial = self.partial.get(&file).ok_or(Fault::Invalid)?;
        let mut bytes = vec![0; len];
        fill(partial.file(), offset, &mut bytes)?;
        Ok(gigae_share::digest(&bytes))
    }

    fn write(&mut self, file: u32, offset: u64, data: &[u8]) -> Result<(), Fault> {
        self.partial.get(&file).ok_or(Fault::Invalid)?.write(offset, data)
    }

    fn finish(&mut self, file: u32, attributes: &Attributes) -> Result<(), Fault> {
        let partial = self.partial.remove(&file).ok_or(Fault::Invalid)?;
        let finished = partial.finish(attributes);
        if finished.is_err() {
            self.left.push(partial.temporary_path());
        }
        finished
    }

    fn leave(&mut self, file: u32, fault: Option<Fault>) {
        let Some(partial) = self.partial.remove(&file) else { return };
        // Of another version nothing can be used, and of an empty file there is nothing.
        let is_empty = fstat(partial.file()).is_ok_and(|stat| stat.st_size == 0);
        if is_empty || matches!(fault, Some(Fault::Changed | Fault::NotFound)) {
            partial.remove();
        } else {
            self.left.push(partial.temporary_path());
        }
    }
}
