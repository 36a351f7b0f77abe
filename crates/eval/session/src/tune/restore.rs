//! Puts back what a dead run left changed.

use super::journal::{self, JournalEntry, JournalRecord, Lock, RestoreResult};
use super::quota;
use gigae_host::netns;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Puts back what runs changed whose processes are gone; gives a line for each run, and one for
/// each value that was not put back. Costs a look into a directory where there is nothing to do.
pub fn abandoned() -> io::Result<Vec<String>> {
    quota::sweep();
    let dead = |path: &PathBuf| journal::read(path).is_some_and(|record| !record.owner.lives());
    if !journal::all().iter().any(dead) && journal::drafts().is_empty() {
        return Ok(Vec::new());
    }
    let _lock = Lock::take()?;
    let mut said = Vec::new();
    for draft in journal::drafts() {
        journal::remove(&draft)?;
    }
    for path in journal::all() {
        // Its guardian may have put the values back in the meantime.
        if let Some(record) = journal::read(&path).filter(|record| !record.owner.lives()) {
            let pid = record.owner.pid;
            said.push(format!(
                "put back the settings that a run changed that was killed (process {pid})"
            ));
            said.extend(put_back(&path, record)?);
        }
    }
    Ok(said)
}

/// The same of one journal, whose run has just ended. Nothing where it put back everything itself.
pub(super) fn of_journal(path: &Path) -> io::Result<Vec<String>> {
    let _lock = Lock::take()?;
    match journal::read(path) {
        Some(record) => {
            quota::remove_of(record.owner.pid);
            put_back(path, record)
        }
        None => Ok(Vec::new()),
    }
}

/// Puts back what a journal says, the last entry first, and removes it, or leaves in it what could
/// not be.
fn put_back(path: &Path, mut record: JournalRecord) -> io::Result<Vec<String>> {
    let Some(namespace) = find(record.namespace) else {
        // The interfaces went with their namespace.
        journal::remove(path)?;
        return Ok(Vec::new());
    };
    let entries = std::mem::take(&mut record.entries);
    let outcomes = if journal::namespace()? == record.namespace {
        each(entries)
    } else {
        // Namespaces belong to threads.
        let there = std::thread::spawn(move || {
            netns::set(namespace.as_fd())?;
            io::Result::Ok(each(entries))
        });
        there.join().map_err(|_| io::Error::other("putting settings back panicked"))??
    };
    let said = outcomes.iter().filter_map(|(entry, outcome)| entry.say(outcome)).collect();
    let failed = outcomes.into_iter().filter(|(_, one)| matches!(one, RestoreResult::Failed(_)));
    record.entries = failed.map(|(entry, _)| entry).rev().collect();
    if record.entries.is_empty() {
        journal::remove(path)?;
    } else {
        journal::rewrite(path, record)?;
    }
    Ok(said)
}

fn each(entries: Vec<JournalEntry>) -> Vec<(JournalEntry, RestoreResult)> {
    let back = |entry: JournalEntry| {
        let outcome = entry.put_back_here();
        (entry, outcome)
    };
    entries.into_iter().rev().map(back).collect()
}

/// The namespace of this number: the thread's own, one with a name, or one that a process is in.
fn find(inode: u64) -> Option<File> {
    let named = fs::read_dir("/run/netns").into_iter().flatten().flatten().map(|one| one.path());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.map(|one| one.path().join("ns/net"));
    let mut places = std::iter::once(PathBuf::from(netns::OWN)).chain(named).chain(processes);
    let found = places.find(|path| fs::metadata(path).is_ok_and(|found| found.ino() == inode))?;
    File::open(found).ok()
}
