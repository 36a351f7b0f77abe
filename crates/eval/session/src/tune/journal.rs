//! What was before: written down and synced before the first change, below `/run`, where it is gone
//! after a reboot, as the settings are.
//!
//! A file for each [`super::Tuner`] that changed something. Each change is written twice: before
//! it, as *pending*, and after it, with what the driver made of it. So a later reader knows whether
//! the value that is there now is ours.

use super::interface::TunedInterface;
use super::knob::Knob;
use super::list::by_name;
use gigae_fabric::OwnerProcess;
use gigae_host::netns;
use gigae_host::proc::process;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the files are. Not below `/run/gigae`, which belongs to the broker's unit: systemd removes
/// it when that stops, and its user could put files there.
pub(super) const DIRECTORY: &str = "/run/gigae-tuning";

/// Extension of one that is not yet written whole.
const DRAFT: &str = "partial";

/// The file's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct JournalRecord {
    /// Who changed it.
    pub(super) owner: OwnerProcess,
    /// The number by which the kernel distinguishes namespaces.
    pub(super) namespace: u64,
    pub(super) entries: Vec<JournalEntry>,
}

/// A knob of an interface, what it was and what it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalEntry {
    pub(super) knob: String,
    pub(super) interface: String,
    /// The interface's number: another one of that name is not ours.
    pub(super) index: u32,
    /// Exact value.
    pub(super) before: String,
    /// Exact value that was set last; absent while it is as before.
    pub(super) set: Option<String>,
    /// Whether it is just being changed: the value there is ours then, whatever it is.
    pub(super) pending: bool,
}

/// What became of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RestoreResult {
    /// It is as it was before.
    Back,
    /// Another program changed it to this, or it is no longer there: it was left alone.
    Left(String),
    /// It could not be put back.
    Failed(String),
}

impl JournalEntry {
    /// Puts the value back, unless it is not ours any more.
    pub(super) fn put_back(&self, knob: &dyn Knob, nic: &mut TunedInterface) -> RestoreResult {
        let now = match knob.read(nic) {
            Ok(now) => now,
            Err(why) => return RestoreResult::Left(why.0),
        };
        if now == self.before {
            return RestoreResult::Back;
        }
        if !self.pending && self.set.as_ref() != Some(&now) {
            return RestoreResult::Left(format!("somebody made it {}", knob.say(&now)));
        }
        let written = knob.write(nic, &self.before);
        match (written, knob.read(nic)) {
            (_, Ok(now)) if now == self.before => RestoreResult::Back,
            (Err(error), _) => RestoreResult::Failed(error.to_string()),
            (Ok(()), Ok(now)) => RestoreResult::Failed(format!("it stayed {}", knob.say(&now))),
            (Ok(()), Err(why)) => RestoreResult::Failed(why.0),
        }
    }

    /// The same in the calling thread's namespace, looking for the interface first.
    pub(super) fn put_back_here(&self) -> RestoreResult {
        let Some(knob) = by_name(&self.knob) else {
            return RestoreResult::Failed("this version does not know it".into());
        };
        match TunedInterface::new(&self.interface) {
            Ok(mut nic) if nic.index == self.index => self.put_back(knob, &mut nic),
            Ok(_) => RestoreResult::Left("another interface has that name now".into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                RestoreResult::Left("the interface is gone".into())
            }
            Err(error) => RestoreResult::Failed(error.to_string()),
        }
    }

    /// One line on it, for people; nothing where all is well.
    pub(super) fn say(&self, outcome: &RestoreResult) -> Option<String> {
        let (knob, interface) = (&self.knob, &self.interface);
        let before = by_name(knob).map_or(self.before.clone(), |knob| knob.say(&self.before));
        match outcome {
            RestoreResult::Back => None,
            RestoreResult::Left(why) => {
                Some(format!("{knob} of {interface} was {before} before; {why}, so it was left"))
            }
            RestoreResult::Failed(why) => Some(format!(
                "{knob} of {interface} could not be made {before} again: {why}; set it by hand, or try 'gigae tuning restore'"
            )),
        }
    }
}

/// A journal that is being kept.
pub(super) struct Journal {
    pub(super) path: PathBuf,
    pub(super) record: JournalRecord,
}

impl Journal {
    /// A new one of this process, written and synced.
    pub(super) fn create(entries: Vec<JournalEntry>) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (owner, namespace) = (OwnerProcess::this(), namespace()?);
        fs::create_dir_all(DIRECTORY)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(DIRECTORY).join(format!("{}-{number}.json", owner.pid));
        let journal = Self { path, record: JournalRecord { owner, namespace, entries } };
        journal.write()?;
        Ok(journal)
    }

    /// Writes it whole or not at all, and syncs it.
    pub(super) fn write(&self) -> io::Result<()> {
        let partial = self.path.with_extension(DRAFT);
        let text = serde_json::to_vec(&self.record)?;
        let mut file = File::create(&partial)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&partial, &self.path)?;
        File::open(DIRECTORY)?.sync_all()
    }

    /// Takes it away: all is as before.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove(&self.path)
    }
}

/// Reads one; `None` if the file is gone, or has no record that can be read.
pub(super) fn read(path: &Path) -> Option<JournalRecord> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Writes what is left of one after it was put back.
pub(super) fn rewrite(path: &Path, record: JournalRecord) -> io::Result<()> {
    Journal { path: path.to_owned(), record }.write()
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    let _ = fs::remove_file(path.with_extension(DRAFT));
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// All that there are.
pub(super) fn all() -> Vec<PathBuf> {
    files("json")
}

/// Half-written ones of processes that are gone: what they would have said had not been done yet.
pub(super) fn drafts() -> Vec<PathBuf> {
    let gone = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let pid = name.split('-').next().unwrap_or_default();
        pid.parse::<u32>().is_ok_and(|pid| !process::exists(pid))
    };
    files(DRAFT).into_iter().filter(gone).collect()
}

fn files(extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut found: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|own| own == extension)).collect();
    found.sort();
    found
}

/// Held while a dead run's settings are put back, so that two do not at once. It is the kernel's
/// (flock(2)), so a killed process gives it back.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take() -> io::Result<Self> {
        fs::create_dir_all(DIRECTORY)?;
        let path = Path::new(DIRECTORY).join("lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        loop {
            match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                other => return other.map(|()| Self { _file: file }).map_err(Into::into),
            }
        }
    }
}

/// The calling thread's namespace.
pub(super) fn namespace() -> io::Result<u64> {
    Ok(fs::metadata(netns::OWN)?.ino())
}
