//! Writing the results so that a reader finds all of a file or nothing.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The results could not be written. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
#[error("cannot write '{}': {source}; {}", .path.display(), advice(.source))]
pub struct WriteError {
    path: PathBuf,
    source: io::Error,
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space or choose another place with --out"
        }
        _ => "choose a writable directory with --out",
    }
}

/// A file to write, below the directory of all.
#[derive(Clone, Copy, Debug)]
pub struct TextFile<'a> {
    /// Its name.
    pub name: &'a str,
    /// What is in it.
    pub text: &'a str,
}

/// Removes files that were begun and not finished.
struct UnfinishedFiles(Vec<PathBuf>);

impl Drop for UnfinishedFiles {
    fn drop(&mut self) {
        for draft in &self.0 {
            // What is gone already was renamed.
            let _ = fs::remove_file(draft);
        }
    }
}

/// Makes the directory, and says now rather than after the run whether files can be written there.
pub fn prepare(directory: &Path) -> Result<(), WriteError> {
    let failed = |source| WriteError { path: directory.to_owned(), source };
    let existed = directory.exists();
    fs::create_dir_all(directory).map_err(failed)?;
    let probe = directory.join(format!(".writable.{}", std::process::id()));
    let written = File::create(&probe);
    let _ = fs::remove_file(&probe);
    if !existed {
        // Only ours if empty: nothing is left behind by a run that fails.
        let _ = fs::remove_dir(directory);
    }
    written.map(drop).map_err(failed)
}

/// Writes all files or none: each is written and synced beside its place, then all are renamed.
pub fn write_all(directory: &Path, files: &[TextFile<'_>]) -> Result<(), WriteError> {
    let existed = directory.exists();
    let outcome = write_drafts(directory, files);
    if outcome.is_err() && !existed {
        let _ = fs::remove_dir(directory);
    }
    outcome
}

fn write_drafts(directory: &Path, files: &[TextFile<'_>]) -> Result<(), WriteError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| WriteError { path, source }
    };
    fs::create_dir_all(directory).map_err(failed(directory))?;
    let mut drafts = UnfinishedFiles(Vec::new());
    for TextFile { name, text } in files {
        let draft = directory.join(format!(".{name}.{}", std::process::id()));
        drafts.0.push(draft.clone());
        let mut file = File::create(&draft).map_err(failed(&draft))?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed(&draft))?;
    }
    for (file, draft) in files.iter().zip(&drafts.0) {
        let place = directory.join(file.name);
        fs::rename(draft, &place).map_err(failed(&place))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_written_and_no_draft_is_left() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("a/b");
        let files = [TextFile { name: "one", text: "1" }, TextFile { name: "two", text: "2" }];
        write_all(&directory, &files).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(fs::read_to_string(directory.join("two")).unwrap(), "2");
    }

    #[test]
    fn a_place_that_is_no_directory_is_refused_in_one_line() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        let error = prepare(&file).unwrap_err().to_string();
        assert!(error.contains("--out") && error.lines().count() == 1, "{error}");
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_others_unwritten() {
        let place = tempfile::tempdir().unwrap();
        let names = ["good", "no/such/place"];
        let files = names.map(|name| TextFile { name, text: "1" });
        assert!(write_all(place.path(), &files).is_err());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn preparing_leaves_nothing_behind() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("new");
        prepare(&directory).unwrap();
        assert!(!directory.exists());
    }
}
