//! Small files in a directory that only this process's user can write: notes from one process to
//! later ones.
//!
//! The directory and the file must belong to that user, and no other user may be able to write
//! them. No symbolic link is followed. A file that is too long or too old is not read.

use crate::environment::variable;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The name of the directory of notes about links.
const DIRECTORY: &str = "gigae-selftest";

/// A directory of this user's files.
#[derive(Debug)]
pub struct OwnDirectory {
    directory: OwnedFd,
    path: PathBuf,
}

/// The directory of notes about links: in `/run` for root, else in the directory of the user's
/// session. Both are empty after a restart of the machine.
pub fn usual_directory() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(Path::new("/run").join(DIRECTORY));
    }
    Some(Path::new(&variable("XDG_RUNTIME_DIR")?).join(DIRECTORY))
}

/// Whether the name of a driver can be a part of a file's name.
pub fn is_plain(driver: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !driver.is_empty() && driver.chars().all(is_plain)
}

impl OwnDirectory {
    /// Opens the directory. Makes it first if its parent exists.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let (parent, name) = path.parent().zip(path.file_name()).ok_or(Errno::INVAL)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let parent =
            rustix::fs::openat2(CWD, parent, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        match rustix::fs::mkdirat(&parent, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(e),
        }
        let directory = rustix::fs::openat(&parent, name, flags, Mode::empty())?;
        match is_own(&rustix::fs::fstat(&directory)?) {
            true => Ok(Self { directory, path: path.to_owned() }),
            false => Err(Errno::PERM),
        }
    }

    /// The path of a file in it.
    pub fn path_of(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// The contents of a file, if it can be trusted, and its age.
    pub fn read(
        &self,
        file: &str,
        longest: usize,
        good_for: Duration,
    ) -> Option<(String, Duration)> {
        // A FIFO of this name must not block the process.
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::openat(&self.directory, file, flags, Mode::empty());
        let file = File::from(opened.ok()?);
        let stat = rustix::fs::fstat(&file).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let written = file.metadata().and_then(|data| data.modified()).ok()?;
        // A file from the future is as suspect as an old one.
        let age = SystemTime::now().duration_since(written).ok()?;
        if !is_file || !is_own(&stat) || age > good_for {
            return None;
        }
        let mut text = String::new();
        file.take(longest as u64 + 1).read_to_string(&mut text).ok()?;
        (text.len() <= longest).then_some((text, age))
    }

    /// Replaces the old file with a new one.
    pub fn write(&self, file: &str, text: &str) -> Result<(), Errno> {
        let directory = &self.directory;
        let new = format!(".{file}.{}", std::process::id());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let made = rustix::fs::openat(directory, &new, flags, Mode::RUSR | Mode::WUSR)?;
        let written = File::from(made).write_all(text.as_bytes());
        let placed = match written {
            Ok(()) => rustix::fs::renameat(directory, &new, directory, file),
            Err(_) => Err(Errno::IO),
        };
        placed.or_else(|e| rustix::fs::unlinkat(directory, &new, AtFlags::empty()).and(Err(e)))
    }

    /// Removes a file.
    pub fn remove(&self, file: &str) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.directory, file, AtFlags::empty())
    }
}

/// Whether only this process's user can change a file or directory.
fn is_own(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o022 == 0
}
