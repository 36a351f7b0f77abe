//! What a mounted file system changes in an export.
//!
//! Everything is opened beneath the export, and no symlink is followed. What is there may be
//! anything: only regular files are opened to be written.

use crate::beneath::{self, CAREFULLY, Symlinks};
use crate::fault::{of_change, of_link, of_name};
use crate::inode;
use crate::watches::{self, Watches};
use gigae_share::{Change, Done, Fault, Inode, Kind, Parent, valid_name};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT, chmodat, fchmod,
    fstat, fsync, ftruncate, linkat, mkdirat, openat, renameat_with, symlinkat, unlinkat,
    utimensat,
};
use rustix::io::Errno;

/// Files that stay open between two changes: a client writes to a file some times, and may have
/// no permission to open it again. Fewer than a process may have (1024).
const MOST_OPEN: usize = 128;

/// A file that is open for writing.
#[derive(Debug)]
struct Written {
    path: Vec<u8>,
    id: u64,
    file: OwnedFd,
}

/// Changes files beneath a directory.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Files that were written last, the last one at the end.
    open: Vec<Written>,
    /// Two changes of a directory have two times.
    times_are_fine: bool,
    /// Where they have not.
    watches: Watches,
}

impl Changes {
    /// `times_are_fine`: the kernel gives each change of a file whose times somebody has seen
    /// another time.
    pub(crate) fn new(times_are_fine: bool) -> Self {
        Self { open: Vec::new(), times_are_fine, watches: Watches::default() }
    }

    /// Changes a name in a directory. Also returns what the directory is then.
    fn names<T>(
        &mut self,
        directory: &OwnedFd,
        change: impl FnOnce() -> Result<T, Fault>,
    ) -> Result<(T, Option<Parent>), Fault> {
        let before = inode::of(directory, b"").ok();
        let by_times = before.map(|it| it.attributes.version).filter(|_| self.times_are_fine);
        let by_watch = before.and_then(|it| self.watches.version(it.id));
        let changed = change()?;
        let Ok(inode) = inode::of(directory, b"") else { return Ok((changed, None)) };
        let after = inode.attributes.version;
        // Else this file system's times are coarse.
        self.times_are_fine &= by_times != Some(after);
        let by_times = by_times.filter(|_| self.times_are_fine).map(|before| (before, after));
        let names = match by_watch {
            Some(before) => self.watches.changed(inode.id, before),
            None => by_times,
        };
        Ok((changed, Some(Parent { inode, names })))
    }

    pub(crate) fn close_files(&mut self) {
        self.open.clear();
    }

    /// Carries out a change. Returns the file that was made or changed.
    pub(crate) fn make(&mut self, root: BorrowedFd<'_>, change: &Change) -> Result<Done, Fault> {
        let mut empty = None;
        let (inode, parent) = match change {
            Change::File { path, mode, new, truncate } => {
                self.create(root, path, (*mode, *new, *truncate))?
            }
            Change::Directory { path, mode } => {
                let (parent, name) = parent(root, path)?;
                let made = self.names(&parent, || make_directory(&parent, name, *mode))?;
                let ((inode, opened), parent) = made;
                empty = match (inode, opened) {
                    (Some(inode), Some(opened)) if self.times_are_fine => {
                        // Another process may have been there first.
                        watches::is_empty(&opened).then_some(inode.attributes.version)
                    }
                    (Some(inode), Some(opened)) => self.watches.made(&opened, inode.id),
                    _ => None,
                };
                (inode, parent)
            }
            Change::Symlink { path, target } => {
                let (parent, name) = parent(root, path)?;
                self.names(&parent, || {
                    symlinkat(&target[..], &parent, name).map_err(of_change)?;
                    found(&parent, name)
                })?
            }
            Change::Remove { path, id, directory } => {
                let (parent, name) = parent(root, path)?;
                let flags = if *directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                has(&parent, name, *id)?;
                // It would keep its room on the disk.
                self.open.retain(|written| written.path != *path);
                self.names(&parent, || {
                    unlinkat(&parent, name, flags).map_err(of_change)?;
                    Ok(None)
                })?
            }
            change => (self.others(root, change)?, None),
        };
        Ok(Done { inode, empty, parent })
    }

    /// What changes no names, or those of two directories.
    fn others(&mut self, root: BorrowedFd<'_>, change: &Change) -> Result<Option<Inode>, Fault> {
        match change {
            Change::Link { from, id, to } => {
                let (from, from_name) = parent(root, from)?;
                is(found(&from, from_name)?, *id)?;
                let (to, to_name) = parent(root, to)?;
                linkat(&from, from_name, &to, to_name, AtFlags::empty()).map_err(of_link)?;
                found(&to, to_name)
            }
            Change::Rename { from: old, to: new_path, id, new } => {
                let (from, from_name) = parent(root, old)?;
                let (to, to_name) = parent(root, new_path)?;
                has(&from, from_name, *id)?;
                let flags = if *new { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
                renameat_with(&from, from_name, &to, to_name, flags).map_err(of_name)?;
                self.open.retain(|written| written.path != *new_path);
                self.open.iter_mut().filter(|written| written.path == *old).for_each(|written| {
                    written.path.clone_from(new_path);
                });
                Ok(None)
            }
            Change::Open { path, id, truncate } => {
                let file = self.file(root, path, *id)?;
                if *truncate {
                    ftruncate(file, 0).map_err(of_change)?;
                }
                found(file, b"")
            }
            Change::Set { path, id, mode, size, modified } => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW;
                let file = beneath::open(root, path, flags, Symlinks::Refused);
                let file = file.map_err(of_change)?;
                let kind = is(found(&file, b"")?, *id)?.attributes.kind;
                if kind == Kind::Special {
                    return Err(Fault::Special);
                }
                if let Some(size) = size {
                    ftruncate(self.file(root, path, *id)?, *size).map_err(of_change)?;
                }
                // The kernel's link to what is open: no name is looked up again.
                let link = format!("/proc/self/fd/{}", file.as_raw_fd());
                if let Some(mode) = mode
                    && kind != Kind::Symlink
                {
                    // A directory keeps what makes new files belong to its group.
                    let kept = if kind == Kind::Directory { special_bits(&file)? } else { 0 };
                    let mode = Mode::from_raw_mode(kept | u32::from(*mode));
                    chmodat(CWD, &link, mode, AtFlags::empty()).map_err(of_change)?;
                }
                if let Some((tv_sec, nanoseconds)) = *modified {
                    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
                    let time = Timespec { tv_sec, tv_nsec: nanoseconds.into() };
                    let times = Timestamps { last_access: omit, last_modification: time };
                    utimensat(CWD, &link, &times, AtFlags::empty()).map_err(of_change)?;
                }
                found(&file, b"")
            }
            Change::Write { path, id, offset, data } => {
                let file = self.file(root, path, *id)?;
                let (mut offset, mut data) = (*offset, &data[..]);
                while !data.is_empty() {
                    match rustix::io::pwrite(file, data, offset) {
                        Ok(0) => return Err(Fault::Disk),
                        Ok(written) => {
                            offset += written as u64;
                            data = &data[written..];
                        }
                        Err(Errno::INTR) => {}
                        Err(error) => return Err(of_change(error)),
                    }
                }
                found(file, b"")
            }
            Change::Sync { path, id } => {
                fsync(self.open_to_sync(root, path, *id)?).map_err(of_change)?;
                Ok(None)
            }
            Change::File { .. }
            | Change::Directory { .. }
            | Change::Symlink { .. }
            | Change::Remove { .. } => Err(Fault::Invalid),
        }
    }

    fn create(
        &mut self,
        root: BorrowedFd<'_>,
        path: &[u8],
        (mode, new, truncate): (u16, bool, bool),
    ) -> Result<(Option<Inode>, Option<Parent>), Fault> {
        let (above, name) = parent(root, path)?;
        let flags = CAREFULLY | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let permissions = Mode::from_raw_mode(mode.into());
        let made =
            self.names(&above, || openat(&above, name, flags, permissions).map_err(of_change));
        match made {
            Ok((file, parent)) => {
                let inode = with_mode(&file, mode)?;
                if let Some(inode) = inode {
                    self.keep(Written { path: path.to_vec(), id: inode.id, file });
                }
                Ok((inode, parent))
            }
            Err(Fault::Exists) if !new => {
                let Some(inode) = found(&above, name)? else { return Err(Fault::NotFound) };
                // It may be anything, and only a file is opened.
                if truncate && inode.attributes.kind == Kind::File {
                    let file = self.file(root, path, inode.id)?;
                    ftruncate(file, 0).map_err(of_change)?;
                    return Ok((found(file, b"")?, None));
                }
                Ok((Some(inode), None))
            }
            Err(fault) => Err(fault),
        }
    }

    /// The file or directory of this identity, to be synced.
    pub(crate) fn open_to_sync(
        &mut self,
        root: BorrowedFd<'_>,
        path: &[u8],
        id: u64,
    ) -> Result<OwnedFd, Fault> {
        if let Some(file) = self.known(path, id) {
            return file.try_clone_to_owned().map_err(|_| Fault::Busy);
        }
        let open = |flags| beneath::open(root, path, flags, Symlinks::Refused).map_err(of_change);
        let kind = is(found(open(OFlags::PATH | OFlags::NOFOLLOW)?, b"")?, id)?.attributes.kind;
        if !matches!(kind, Kind::File | Kind::Directory) {
            return Err(Fault::Changed);
        }
        let file = open(CAREFULLY | OFlags::RDONLY)?;
        is(found(&file, b"")?, id)?;
        Ok(file)
    }

    /// A file that is open already.
    fn known(&mut self, path: &[u8], id: u64) -> Option<BorrowedFd<'_>> {
        let known = self.open.iter().rposition(|file| file.id == id && file.path == path)?;
        let last = self.open.remove(known);
        self.open.push(last);
        self.open.last().map(|written| written.file.as_fd())
    }

    /// The regular file of this identity, open for writing.
    fn file(
        &mut self,
        root: BorrowedFd<'_>,
        path: &[u8],
        id: u64,
    ) -> Result<BorrowedFd<'_>, Fault> {
        if self.known(path, id).is_none() {
            let open =
                |flags| beneath::open(root, path, flags, Symlinks::Refused).map_err(of_change);
            let inode = found(open(OFlags::PATH | OFlags::NOFOLLOW)?, b"")?;
            if is(inode, id)?.attributes.kind != Kind::File {
                return Err(Fault::Changed);
            }
            let file = open(CAREFULLY | OFlags::WRONLY)?;
            is(found(&file, b"")?, id)?;
            plain(&file)?;
            self.keep(Written { path: path.to_vec(), id, file });
        }
        self.open.last().map(|written| written.file.as_fd()).ok_or(Fault::Changed)
    }

    fn keep(&mut self, written: Written) {
        self.open.retain(|known| known.path != written.path);
        if self.open.len() == MOST_OPEN {
            self.open.remove(0);
        }
        self.open.push(written);
    }
}

/// Returns it opened, if that can be.
fn make_directory(
    parent: &OwnedFd,
    name: &[u8],
    mode: u16,
) -> Result<(Option<Inode>, Option<OwnedFd>), Fault> {
    mkdirat(parent, name, Mode::from_raw_mode(mode.into())).map_err(of_change)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(parent, name, flags, Mode::empty()) {
        Ok(made) => Ok((with_mode(&made, mode)?, Some(made))),
        // One that this user may not read, or this process has too many files open. It is made.
        Err(_) => Ok((found(parent, name)?, None)),
    }
}

/// Only if this name belongs to the file of this identity, if one is meant.
fn has(directory: &OwnedFd, name: &[u8], id: u64) -> Result<(), Fault> {
    match id {
        0 => Ok(()),
        id => is(found(directory, name)?, id).map(drop),
    }
}

/// Set-user-id, set-group-id and sticky.
fn special_bits(file: &OwnedFd) -> Result<u32, Fault> {
    Ok(fstat(file).map_err(of_change)?.st_mode & 0o7000)
}

/// A program that others can write to runs as no other user. The kernel does the same when a user
/// writes who is not root.
fn plain(file: &OwnedFd) -> Result<(), Fault> {
    let mode = fstat(file).map_err(of_change)?.st_mode;
    if mode & 0o6000 == 0 {
        return Ok(());
    }
    match fchmod(file, Mode::from_raw_mode(mode & 0o1777)) {
        // Another user's file: this one is not root.
        Ok(()) | Err(Errno::PERM) => Ok(()),
        Err(error) => Err(of_change(error)),
    }
}

/// The directory of a path, and the name in it.
fn parent<'a>(root: BorrowedFd<'_>, path: &'a [u8]) -> Result<(OwnedFd, &'a [u8]), Fault> {
    let slash = path.iter().rposition(|&byte| byte == b'/');
    let (above, name) = match slash {
        Some(0) => return Err(Fault::Escapes),
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[][..], path),
    };
    if !valid_name(name) {
        return Err(Fault::Invalid);
    }
    let parent = beneath::directory(root, above, Symlinks::Refused).map_err(of_change)?;
    Ok((parent, name))
}

fn found(directory: impl AsFd, name: &[u8]) -> Result<Option<Inode>, Fault> {
    inode::of(directory, name).map(Some).map_err(of_change)
}

/// Only if it is the file of this identity.
fn is(found: Option<Inode>, id: u64) -> Result<Inode, Fault> {
    found.filter(|inode| inode.id == id).ok_or(Fault::Changed)
}

/// What was made has these permissions: those that this process's umask has taken away, too.
fn with_mode(made: &OwnedFd, mode: u16) -> Result<Option<Inode>, Fault> {
    let inode = found(made, b"")?;
    if inode.is_some_and(|inode| inode.attributes.mode == mode) {
        return Ok(inode);
    }
    let mode = special_bits(made)? | u32::from(mode);
    fchmod(made, Mode::from_raw_mode(mode)).map_err(of_change)?;
    found(made, b"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn without_fine_times_a_new_directory_is_watched() {
        // A tmpfs: what temporary files are in may be a file system that is not watched.
        let place = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(place.path(), flags, Mode::empty()).unwrap();
        let mut changes = Changes::new(false);
        let make = Change::Directory { path: b"d".to_vec(), mode: 0o755 };
        let made = changes.make(root.as_fd(), &make).unwrap();
        assert_eq!(made.parent.unwrap().names, None, "nobody knows what is in it");
        let mut last = made.empty.unwrap();
        let mut names = |change| {
            let parent = changes.make(root.as_fd(), &change).unwrap().parent.unwrap();
            let there = inode::of(&root, b"d").unwrap();
            assert_eq!(parent.inode, there);
            parent.names
        };
        let file = |n: u32| format!("d/{n}").into_bytes();
        let create = |n| Change::File { path: file(n), mode: 0o644, new: true, truncate: false };
        let remove = |n| Change::Remove { path: file(n), id: 0, directory: false };
        for n in 0..100 {
            let other = n % 3 == 0;
            if other {
                fs::write(place.path().join(format!("d/other-{n}")), b"").unwrap();
            }
            let (before, after) = names(create(n)).unwrap();
            assert_eq!(before != last, other, "{n}");
            last = after;
            if n % 2 == 0 {
                let (before, after) = names(remove(n)).unwrap();
                assert_eq!(before, last);
                last = after;
            }
        }
    }
}
