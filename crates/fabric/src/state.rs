//! What is known of standing fabrics: one file each under `/run/gigae`, and locks beside them.
//!
//! The file is written before the first namespace is made and removed after the last one is gone.
//! It says what was asked for and who asked; it proves nothing: whether a namespace may be removed
//! is decided by the namespace's own mark.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::{FabricConfig, FabricError};

/// Gone after a reboot, as the namespaces are.
const DIRECTORY: &str = "/run/gigae";

/// A fabric's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) config: FabricConfig,
    /// The process that laid it.
    pub(crate) owner: Owner,
    /// True when it is to outlive its owner.
    pub(crate) kept: bool,
    /// Identifier of the BPF map with the impairment counters, while impairments are set.
    pub(crate) counters: Option<u32>,
}

/// A process, told from a later one with the same number by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// Clock ticks after boot, field 22 of `/proc/PID/stat` (proc(5)).
    pub started: u64,
}

impl Owner {
    /// The calling process.
    pub fn this() -> Owner {
        let pid = std::process::id();
        Owner { pid, started: started(pid).unwrap_or(0) }
    }

    /// True while the process lives.
    pub fn lives(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the program's name in brackets, may itself hold blanks and brackets.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Locks that fabrics share by their prefixes: few files, which stay, for as many as there may be. Those that
/// have one in common wait for each other, which costs time alone.
const LOCKS: usize = 16;

/// Held while a fabric is laid, changed or removed, so that two processes never work on one. Most of that time passes
/// waiting for the kernel, so fabrics of different prefixes are worked on at once.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock of a fabric. It is the kernel's (flock(2)), so a killed process gives it back.
    pub(crate) fn take(prefix: &str) -> Result<Lock, FabricError> {
        let number =
            prefix.bytes().fold(0, |sum: usize, byte| (31 * sum + usize::from(byte)) % LOCKS);
        Lock::named(&format!("lock-{number}"))
    }

    /// The same for what all fabrics share. Whoever holds it takes no other.
    pub(crate) fn of_all() -> Result<Lock, FabricError> {
        Lock::named("lock")
    }

    fn named(name: &str) -> Result<Lock, FabricError> {
        let fail =
            |error: io::Error| FabricError::privileged(format!("locking {DIRECTORY}"), error);
        fs::create_dir_all(DIRECTORY).map_err(fail)?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(Path::new(DIRECTORY).join(name))
            .map_err(fail)?;
        loop {
            match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                other => return other.map(|()| Lock { _file: file }).map_err(|e| fail(e.into())),
            }
        }
    }
}

fn path(prefix: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{prefix}.json"))
}

/// What is written about `prefix`. A file that cannot be understood counts as none: the marks on
/// the namespaces decide what may be removed.
pub(crate) fn read(prefix: &str) -> Option<State> {
    serde_json::from_slice(&fs::read(path(prefix)).ok()?).ok()
}

/// Writes it whole or not at all.
pub(crate) fn write(state: &State) -> Result<(), FabricError> {
    let target = path(&state.config.prefix);
    let fail = |error| FabricError::system(format!("writing {}", target.display()), error);
    let partial = target.with_extension("partial");
    let text = serde_json::to_vec(state).map_err(|error| fail(error.into()))?;
    let attempt = File::create(&partial)
        .and_then(|mut file| file.write_all(&text))
        .and_then(|()| fs::rename(&partial, &target));
    attempt.map_err(|error| {
        let _ = fs::remove_file(&partial);
        fail(error)
    })
}

/// Removes what is written about `prefix`; true when there was something.
pub(crate) fn forget(prefix: &str) -> Result<bool, FabricError> {
    let _ = fs::remove_file(path(prefix).with_extension("partial"));
    match fs::remove_file(path(prefix)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => {
            Err(FabricError::system(format!("removing {}", path(prefix).display()), error))
        }
    }
}

/// Prefixes with a file, sorted.
pub(crate) fn prefixes() -> Vec<String> {
    let mut found: Vec<String> = fs::read_dir(DIRECTORY)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
        .filter(|prefix| crate::config::check_prefix(prefix).is_ok())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_one_with_its_number_from_another_time_does_not() {
        let this = Owner::this();
        assert!(this.lives());
        assert!(!Owner { started: this.started + 1, ..this }.lives());
    }

    #[test]
    fn a_state_reads_back_what_it_wrote() {
        let config = FabricConfig { rate: Some(crate::Rate::GIGABIT), ..FabricConfig::default() };
        let state = State { config, owner: Owner::this(), kept: true, counters: Some(7) };
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
    }
}
