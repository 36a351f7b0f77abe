//! What is known of existing fabrics: one file each under `/run/gigae-fabric`, and locks beside
//! them.
//!
//! Root writes these files, so the directory must be root's alone: `/run/gigae` belongs to the
//! broker's user, who could lay a symlink there and have root overwrite any file. Every access goes
//! through a descriptor of the directory ([`Directory`]), whose owner and mode are checked once and
//! which follows no symlink.
//!
//! The file is written before the first namespace is made and removed after the last one is gone.
//! It says what was asked for and who asked; it proves nothing: whether a namespace may be removed
//! is decided by the namespace's own mark.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use gigae_host::proc::process::Stat;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::{FabricConfig, FabricError};

/// Gone after a reboot, as the namespaces are.
const DIRECTORY: &str = "/run/gigae-fabric";

/// Longest file that is read.
const LONGEST: u64 = 1 << 20;

/// The directory, opened and found to be of this user (or root) alone.
#[derive(Debug)]
struct Directory(OwnedFd);

impl Directory {
    /// Makes it if it is not there.
    fn make(path: &Path) -> io::Result<Directory> {
        match rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Directory::open(path),
            Err(error) => Err(error.into()),
        }
    }

    fn open(path: &Path) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        let (owner, this) = (stat.st_uid, rustix::process::geteuid().as_raw());
        if (owner != this && owner != 0) || stat.st_mode & 0o022 != 0 {
            return Err(io::Error::other(format!(
                "{} can be written by other users (owner {owner}, mode {:o}); remove it",
                path.display(),
                stat.st_mode & 0o7777
            )));
        }
        Ok(Directory(fd))
    }

    /// A file of it, which must be no symlink. With names of one component, `O_NOFOLLOW` says that
    /// of all of it.
    fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = match flags.contains(OFlags::CREATE) {
            true => Mode::from_raw_mode(0o644),
            false => Mode::empty(),
        };
        Ok(rustix::fs::openat(&self.0, name, flags, mode)?.into())
    }

    fn lock(&self, name: &str) -> io::Result<File> {
        let file = self.file(name, OFlags::WRONLY | OFlags::CREATE)?;
        loop {
            match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                other => return Ok(other.map(|()| file)?),
            }
        }
    }

    fn read(&self, prefix: &str) -> Option<FabricState> {
        let mut text = Vec::new();
        let file = self.file(&whole(prefix), OFlags::RDONLY).ok()?;
        file.take(LONGEST).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Whole or not at all.
    fn write(&self, state: &FabricState) -> io::Result<()> {
        let (whole, partial) = (whole(&state.config.prefix), partial(&state.config.prefix));
        let text = serde_json::to_vec(state)?;
        let attempt = self.remove(&partial).and_then(|_| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            self.file(&partial, flags)?.write_all(&text)?;
            Ok(rustix::fs::renameat(&self.0, &partial, &self.0, &whole)?)
        });
        attempt.inspect_err(|_| {
            let _ = self.remove(&partial);
        })
    }

    /// True when there was something.
    fn remove(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn prefixes(&self) -> Vec<String> {
        let names = rustix::fs::Dir::read_from(self.0.as_fd()).into_iter().flatten().flatten();
        let mut found: Vec<String> = names
            .filter_map(|entry| {
                entry.file_name().to_str().ok()?.strip_suffix(".json").map(str::to_owned)
            })
            .filter(|prefix| crate::config::check_prefix(prefix).is_ok())
            .collect();
        found.sort();
        found
    }
}

fn whole(prefix: &str) -> String {
    format!("{prefix}.json")
}

fn partial(prefix: &str) -> String {
    format!("{prefix}.partial")
}

/// The counters of a fabric's forwarder.
fn delay(prefix: &str) -> String {
    format!("{prefix}.delay")
}

/// A fabric's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FabricState {
    pub(crate) config: FabricConfig,
    /// The process that created it.
    pub(crate) owner: OwnerProcess,
    /// True when it is to outlive its owner.
    pub(crate) kept: bool,
    /// The process that delays frames, if the fabric has a delay.
    #[serde(default)]
    pub(crate) forwarder: Option<OwnerProcess>,
    /// Identifier of the BPF map with the impairment counters, while impairments are set.
    pub(crate) counters: Option<u32>,
}

/// A process. Its start time distinguishes it from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerProcess {
    /// Its number.
    pub pid: u32,
    /// Clock ticks after boot, field 22 of `/proc/PID/stat` (proc(5)).
    pub started: u64,
}

impl OwnerProcess {
    /// The calling process.
    pub fn this() -> OwnerProcess {
        OwnerProcess::of(std::process::id())
    }

    /// The process of a number.
    pub(crate) fn of(pid: u32) -> OwnerProcess {
        OwnerProcess { pid, started: Stat::of(pid).map_or(0, |stat| stat.started) }
    }

    /// True while the process lives.
    pub fn lives(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.started == self.started)
    }
}

/// Locks that fabrics share by their prefixes: few files, which stay, for as many as there may be.
/// Those that have one in common wait for each other, which costs time alone.
const LOCKS: usize = 16;

/// Held while a fabric is created, changed or removed, so that two processes never work on one.
/// Most of that time passes waiting for the kernel, so fabrics of different prefixes are worked on
/// at once.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock of a fabric. It is the kernel's (flock(2)), so a killed process gives it
    /// back.
    pub(crate) fn take(prefix: &str) -> Result<Lock, FabricError> {
        let number =
            prefix.bytes().fold(0, |sum: usize, byte| (31 * sum + usize::from(byte)) % LOCKS);
        Lock::named(&format!("lock-{number}"))
    }

    /// The same for what all fabrics share. Its holder takes no other lock.
    pub(crate) fn of_all() -> Result<Lock, FabricError> {
        Lock::named("lock")
    }

    fn named(name: &str) -> Result<Lock, FabricError> {
        let locked = Directory::make(Path::new(DIRECTORY)).and_then(|all| all.lock(name));
        let fail = |error| FabricError::privileged(format!("locking {DIRECTORY}"), error);
        locked.map(|file| Lock { _file: file }).map_err(fail)
    }
}

/// What is written about `prefix`. A file that cannot be understood counts as none: the marks on
/// the namespaces decide what may be removed.
pub(crate) fn read(prefix: &str) -> Option<FabricState> {
    Directory::open(Path::new(DIRECTORY)).ok()?.read(prefix)
}

/// Writes it whole or not at all.
pub(crate) fn write(state: &FabricState) -> Result<(), FabricError> {
    let written = Directory::make(Path::new(DIRECTORY)).and_then(|all| all.write(state));
    let target = format!("writing {DIRECTORY}/{}", whole(&state.config.prefix));
    written.map_err(|error| FabricError::system(target, error))
}

/// Makes an empty file for the counters of a fabric's forwarder.
pub(crate) fn delay_file(prefix: &str) -> Result<File, FabricError> {
    let name = delay(prefix);
    let made = Directory::make(Path::new(DIRECTORY)).and_then(|all| {
        all.remove(&name)?;
        all.file(&name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
    });
    made.map_err(|error| FabricError::system(format!("making {DIRECTORY}/{name}"), error))
}

/// What the forwarder of a fabric wrote, if there is one.
pub(crate) fn read_delay_file(prefix: &str) -> Option<Vec<u8>> {
    let file = Directory::open(Path::new(DIRECTORY)).ok()?.file(&delay(prefix), OFlags::RDONLY);
    let mut bytes = Vec::new();
    file.ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Removes what is written about `prefix`; true when there was something.
pub(crate) fn forget(prefix: &str) -> Result<bool, FabricError> {
    let all = match Directory::open(Path::new(DIRECTORY)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other,
    };
    let removed = all.and_then(|all| {
        let _ = all.remove(&partial(prefix));
        let _ = all.remove(&delay(prefix));
        all.remove(&whole(prefix))
    });
    let target = format!("removing {DIRECTORY}/{}", whole(prefix));
    removed.map_err(|error| FabricError::system(target, error))
}

/// Prefixes with a file, sorted.
pub(crate) fn prefixes() -> Vec<String> {
    Directory::open(Path::new(DIRECTORY)).map(|all| all.prefixes()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn this_process_lives_and_one_with_its_number_from_another_time_does_not() {
        let this = OwnerProcess::this();
        assert!(this.lives());
        assert!(!OwnerProcess { started: this.started + 1, ..this }.lives());
    }

    fn state() -> FabricState {
        let config = FabricConfig { rate: Some(crate::Rate::GIGABIT), ..FabricConfig::default() };
        let (owner, forwarder) = (OwnerProcess::this(), None);
        FabricState { config, owner, kept: true, forwarder, counters: Some(7) }
    }

    #[test]
    fn a_state_reads_back_what_it_wrote() {
        let place = tempfile::tempdir().unwrap();
        let all = Directory::make(&place.path().join("all")).unwrap();
        let (state, prefix) = (state(), state().config.prefix);
        assert_eq!((all.read(&prefix), all.prefixes()), (None, vec![]));
        for _ in 0..2 {
            all.write(&state).unwrap();
            assert_eq!(
                (all.read(&prefix).as_ref(), all.prefixes()),
                (Some(&state), vec![prefix.clone()])
            );
        }
        assert!(all.remove(&whole(&prefix)).unwrap() && !all.remove(&whole(&prefix)).unwrap());
        assert_eq!(fs::read_dir(place.path().join("all")).unwrap().count(), 0);
    }

    #[test]
    fn no_symlink_is_followed_and_no_directory_of_another_user_is_used() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let place = tempfile::tempdir().unwrap();
        let (path, victim) = (place.path().join("all"), place.path().join("victim"));
        fs::write(&victim, "secret").unwrap();
        let all = Directory::make(&path).unwrap();
        let prefix = state().config.prefix;
        for name in [whole(&prefix), partial(&prefix), "lock".into()] {
            symlink(&victim, path.join(name)).unwrap();
        }
        assert!(all.lock("lock").is_err() && all.read(&prefix).is_none());
        // What is planted is replaced, not followed.
        all.write(&state()).unwrap();
        assert_eq!(all.read(&prefix), Some(state()));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "secret");

        let link = place.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(Directory::make(&link).is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let error = Directory::make(&path).unwrap_err().to_string();
        assert!(error.contains("mode 777"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(1), None).unwrap();
            let error = Directory::make(&path).unwrap_err().to_string();
            assert!(error.contains("owner 1"), "{error}");
        }
    }
}
