//! A directory that is shared.

use crate::beneath::{self, CAREFULLY, Symlinks, attributes, attributes_of};
use crate::changes::Changes;
use crate::fault::of_source;
use crate::inode;
use crate::syncs::{Synced, Syncs};
use gigae_share::{
    Attributes, Change, Done, Entry, Fault, Inode, Kind, Listed, Named, Source, Space, valid_name,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, SeekFrom, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::path::Path;

/// Files that stay open between two requests for parts: as many as a fetcher reads at a time.
const MOST_OPEN: usize = 16;

/// So often the rest of a part is read of a file that grows faster than it is read.
const TRIES: u32 = 8;

/// Bytes of names that the kernel returns at once.
const NAMES: usize = 32 << 10;

/// A directory whose files are read beneath it.
#[derive(Debug)]
pub struct Export {
    root: OwnedFd,
    /// Those that were read last, the last one at the end.
    open: Vec<(Vec<u8>, OwnedFd)>,
    /// If files may be changed.
    changes: Option<Changes>,
    /// What is being synced. `None`: the kernel has no eventfd for it, and the caller waits.
    syncs: Option<Syncs>,
}

impl Export {
    /// Opens the directory. Its path may contain symlinks, also to elsewhere.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self::new(rustix::fs::open(path, flags, Mode::empty())?))
    }

    pub(crate) fn new(root: OwnedFd) -> Self {
        Self { root, open: Vec::new(), changes: None, syncs: None }
    }

    /// Lets file systems that are mounted change files.
    pub fn writable(mut self) -> Self {
        self.changes = Some(Changes::new(times_are_fine()));
        self.syncs = Syncs::new().ok();
        self
    }

    /// Readable when [`synced`](Self::synced) has something, while files are synced.
    pub fn wakes(&self) -> Option<BorrowedFd<'_>> {
        self.syncs.as_ref().and_then(Syncs::wakes)
    }

    /// Changes that were [begun](Source::begin) and have ended.
    pub fn synced(&mut self) -> Vec<Synced> {
        self.syncs.as_mut().map(Syncs::ended).unwrap_or_default()
    }

    /// Closes the files that were used last, so that they can be removed or unmounted.
    pub fn close_files(&mut self) {
        self.open.clear();
        if let Some(changes) = &mut self.changes {
            changes.close_files();
        }
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// A missing file, or a directory that was removed with everything in it.
    pub(crate) fn fault(&self, error: Errno) -> Fault {
        match of_source(error) {
            Fault::NotFound if fstat(&self.root).is_ok_and(|root| root.st_nlink == 0) => {
                Fault::Gone
            }
            fault => fault,
        }
    }

    fn beneath(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Fault> {
        beneath::open(&self.root, path, flags, Symlinks::Beneath).map_err(|e| self.fault(e))
    }

    /// The same for a file system that is mounted.
    fn mounted(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Fault> {
        let flags = flags | OFlags::NOFOLLOW;
        beneath::open(&self.root, path, flags, Symlinks::Refused).map_err(|e| self.fault(e))
    }

    /// An open file of this path, which is a regular one.
    fn file(&mut self, path: &[u8], symlinks: Symlinks) -> Result<BorrowedFd<'_>, Fault> {
        let known = self.open.iter().position(|(known, _)| known == path);
        let entry = match known {
            Some(at) => self.open.remove(at),
            None => {
                let open = |flags| {
                    let opened = beneath::open(&self.root, path, flags, symlinks);
                    opened.map_err(|e| self.fault(e))
                };
                let is = attributes_of(open(OFlags::PATH | OFlags::NOFOLLOW)?)?;
                if is.kind != Kind::File {
                    return Err(Fault::Changed);
                }
                let file = open(CAREFULLY)?;
                if self.open.len() == MOST_OPEN {
                    self.open.remove(0);
                }
                (path.to_vec(), file)
            }
        };
        self.open.push(entry);
        Ok(self.open[self.open.len() - 1].1.as_fd())
    }

    /// Uses a file of this version. If one that was opened before has changed, or another one has
    /// its name now, it is opened again.
    fn with_file<T>(
        &mut self,
        path: &[u8],
        version: u64,
        mut uses: impl FnMut(BorrowedFd<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.with_open(path, Symlinks::Beneath, |file| {
            uses(file).and_then(|used| match attributes_of(file)?.version == version {
                true => Ok(used),
                false => Err(Fault::Changed),
            })
        })
    }

    /// Uses a file. One that was opened before is opened again if that fails.
    fn with_open<T>(
        &mut self,
        path: &[u8],
        symlinks: Symlinks,
        mut uses: impl FnMut(BorrowedFd<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        loop {
            let was_open = self.open.iter().any(|(known, _)| known == path);
            let used = uses(self.file(path, symlinks)?);
            if used.is_ok() {
                return used;
            }
            self.open.pop();
            if !was_open {
                return used;
            }
        }
    }
}

impl Source for Export {
    type Directory = OwnedFd;

    fn look(&mut self, path: &[u8]) -> Result<(Attributes, Vec<u8>), Fault> {
        let file = self.beneath(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let attributes = attributes_of(&file)?;
        if path.is_empty() && fstat(&self.root).is_ok_and(|root| root.st_nlink == 0) {
            return Err(Fault::Gone);
        }
        let target = match attributes.kind {
            Kind::Symlink => link(&file, b"")?,
            _ => Vec::new(),
        };
        Ok((attributes, target))
    }

    fn list(
        &mut self,
        path: &[u8],
        from: u64,
        take: &mut dyn FnMut(&Entry) -> bool,
    ) -> Result<Listed, Fault> {
        let directory = self.beneath(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        if from > 0 {
            rustix::fs::seek(&directory, SeekFrom::Start(from)).map_err(|_| Fault::Invalid)?;
        }
        let mut names = [MaybeUninit::uninit(); NAMES];
        let mut entries = RawDir::new(&directory, &mut names);
        let mut at = from;
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|e| self.fault(e))?;
            let (name, next) = (entry.file_name().to_bytes(), entry.next_entry_cookie());
            if name != b"."
                && name != b".."
                && let Some(found) = found(&directory, name)?
                && !take(&found)
            {
                return Ok(Listed::Until(at));
            }
            at = next;
        }
        Ok(Listed::All)
    }

    fn directory(&mut self, path: &[u8]) -> Result<OwnedFd, Fault> {
        self.beneath(path, OFlags::PATH | OFlags::DIRECTORY)
    }

    fn small(
        &mut self,
        directory: &OwnedFd,
        name: &[u8],
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<Attributes, Fault> {
        // What else it may be is not opened: that alone does something to a device or a FIFO.
        let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let before = attributes(&stat.map_err(|e| self.fault(e))?);
        if before.kind == Kind::Symlink {
            return Err(Fault::Escapes);
        }
        if before.kind != Kind::File || before.size > most as u64 {
            return Err(Fault::Changed);
        }
        let file = openat(directory, name, CAREFULLY, Mode::empty());
        let file = file.map_err(|e| self.fault(e))?;
        let (begin, len) = (out.len(), usize::try_from(before.size).unwrap_or(most));
        out.resize(begin + len, 0);
        fill(&file, 0, &mut out[begin..])?;
        match attributes_of(&file)? == before {
            true => Ok(before),
            false => Err(Fault::Changed),
        }
    }

    fn read(
        &mut self,
        path: &[u8],
        version: u64,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Fault> {
        self.with_file(path, version, |file| fill(file, offset, out))
    }

    fn data(&mut self, path: &[u8], version: u64, from: u64) -> Result<Option<(u64, u64)>, Fault> {
        self.with_file(path, version, |file| match rustix::fs::seek(file, SeekFrom::Data(from)) {
            Ok(start) => {
                let end = rustix::fs::seek(file, SeekFrom::Hole(start)).map_err(of_source)?;
                Ok(Some((start, end)))
            }
            Err(Errno::NXIO) => Ok(None),
            Err(error) => Err(of_source(error)),
        })
    }

    fn stat(&mut self, path: &[u8]) -> Result<(Inode, Vec<u8>), Fault> {
        let file = self.mounted(path, OFlags::PATH)?;
        let inode = inode::of(&file, b"").map_err(of_source)?;
        if path.is_empty() && inode.links == 0 {
            return Err(Fault::Gone);
        }
        let target = match inode.attributes.kind {
            Kind::Symlink => link(&file, b"")?,
            _ => Vec::new(),
        };
        Ok((inode, target))
    }

    fn scan(
        &mut self,
        path: &[u8],
        from: u64,
        take: &mut dyn FnMut(&Named) -> bool,
    ) -> Result<bool, Fault> {
        let directory = self.mounted(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let itself = inode::of(&directory, b"").map_err(of_source)?;
        if from > 0 {
            rustix::fs::seek(&directory, SeekFrom::Start(from)).map_err(|_| Fault::Invalid)?;
        }
        let mut names = [MaybeUninit::uninit(); NAMES];
        let mut entries = RawDir::new(&directory, &mut names);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|e| self.fault(e))?;
            let name = entry.file_name().to_bytes();
            let inode = match name {
                // A client sees nothing of the directory above an export: not even its attributes.
                b"." | b".." => itself,
                name if valid_name(name) => {
                    match inode::listed(inode::of(&directory, name), entry.ino()) {
                        Some(inode) => inode,
                        None => continue,
                    }
                }
                _ => continue,
            };
            let next = entry.next_entry_cookie();
            if !take(&Named { name: name.to_vec(), inode, next }) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn range(
        &mut self,
        path: &[u8],
        id: u64,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(Inode, usize), Fault> {
        self.with_open(path, Symlinks::Refused, |file| {
            let (mut read, mut tries) = (0, TRIES);
            loop {
                read += fill_most(file, offset + read as u64, &mut out[read..])?;
                let inode = inode::of(file, b"").map_err(of_source)?;
                if inode.id != id {
                    return Err(Fault::Changed);
                }
                // A file that grows at this moment has not ended where the bytes do.
                let whole = read == out.len() || offset + read as u64 >= inode.attributes.size;
                tries -= 1;
                if whole || tries == 0 {
                    return Ok((inode, read));
                }
            }
        })
    }

    fn change(&mut self, change: &Change) -> Result<Done, Fault> {
        let changes = self.changes.as_mut().ok_or(Fault::ReadOnly)?;
        if let Change::Remove { path, .. } | Change::Rename { to: path, .. } = change {
            // A file that is removed would keep its room on the disk.
            self.open.retain(|(known, _)| known != path);
        }
        changes.make(self.root.as_fd(), change)
    }

    fn begin(&mut self, change: &Change, work: u64) -> Option<Result<Done, Fault>> {
        let (Change::Sync { path, id }, Some(changes), Some(syncs)) =
            (change, &mut self.changes, &mut self.syncs)
        else {
            return Some(self.change(change));
        };
        let file = changes.open_to_sync(self.root.as_fd(), path, *id);
        file.and_then(|file| syncs.begin(work, file)).err().map(Err)
    }

    fn space(&mut self, path: &[u8]) -> Result<Space, Fault> {
        inode::space(self.mounted(path, OFlags::PATH)?)
    }
}

/// Since Linux 6.13, a change of a file whose times were looked at since the last one has another
/// time, on the file systems that support that.
fn times_are_fine() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|digit: char| !digit.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 13),
        _ => false,
    }
}

/// An entry of a directory; `None` if it has just been removed.
fn found(directory: &OwnedFd, name: &[u8]) -> Result<Option<Entry>, Fault> {
    let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(of_source(error)),
    };
    let attributes = attributes(&stat);
    let target = match attributes.kind {
        Kind::Symlink => match link(directory, name) {
            Err(Fault::NotFound) => return Ok(None),
            target => target?,
        },
        _ => Vec::new(),
    };
    Ok(Some(Entry { name: name.to_vec(), attributes, target }))
}

fn link(directory: &OwnedFd, name: &[u8]) -> Result<Vec<u8>, Fault> {
    Ok(readlinkat(directory, name, Vec::new()).map_err(of_source)?.into_bytes())
}

/// Reads bytes from this offset on. A file that ends earlier has become shorter.
pub(crate) fn fill(file: impl AsFd, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
    match fill_most(file, offset, out)? == out.len() {
        true => Ok(()),
        false => Err(Fault::Changed),
    }
}

/// The same, but of a file that ends earlier only what is there.
fn fill_most(file: impl AsFd, offset: u64, out: &mut [u8]) -> Result<usize, Fault> {
    let mut filled = 0;
    while filled < out.len() {
        match rustix::io::pread(&file, &mut out[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(of_source(error)),
        }
    }
    Ok(filled)
}
