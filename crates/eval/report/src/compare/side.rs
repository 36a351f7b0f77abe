//! Saved runs, as they are named on the command line.

use gigae_eval_model::environment::Environment;
use gigae_eval_model::results::Results;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The file of a run.
const FILE: &str = "results.json";

/// One of the things that are compared: a run, or several of the same.
#[derive(Clone, Debug)]
pub struct Side {
    /// What it is called: the directory.
    pub name: String,
    /// Its runs; at least one.
    pub runs: Vec<Results>,
}

/// Saved runs could not be read. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
#[error("cannot read '{}': {reason}; name a {FILE} of 'gigae eval', or its directory", .path.display())]
pub struct SideError {
    path: PathBuf,
    reason: String,
}

impl Side {
    /// Reads a `results.json`, or a directory: its `results.json`, which says of how many runs
    /// (`run-1` and so on) it is the sum, or without one all directories in it that have one.
    pub fn read(path: &Path) -> Result<Self, SideError> {
        let name = name(path);
        if !path.is_dir() {
            return Ok(Self { name, runs: vec![read(path)?] });
        }
        let file = path.join(FILE);
        let runs = if file.exists() { summed(path, read(&file)?)? } else { within(path)? };
        Ok(Self { name, runs })
    }

    /// The first run, from which what all have in common is taken.
    pub fn first(&self) -> &Results {
        &self.runs[0]
    }

    /// The conditions of all runs.
    pub(super) fn environments(&self) -> impl Iterator<Item = &Environment> {
        self.runs.iter().map(|run| &run.environment)
    }
}

/// The directory without what every run has in its place.
fn name(path: &Path) -> String {
    let short = if path.ends_with(FILE) { path.parent() } else { Some(path) };
    let short = short.filter(|short| !short.as_os_str().is_empty()).unwrap_or(path);
    let text = short.display().to_string();
    let text = text.trim_end_matches('/').trim_start_matches("./");
    if text.is_empty() { path.display().to_string() } else { text.to_owned() }
}

fn failed(path: &Path, reason: impl fmt::Display) -> SideError {
    SideError { path: path.to_owned(), reason: reason.to_string().replace('\n', " ") }
}

fn read(path: &Path) -> Result<Results, SideError> {
    let text = fs::read_to_string(path).map_err(|error| failed(path, error))?;
    Results::parse(&text).map_err(|error| failed(path, format!("it is not a {FILE}: {error}")))
}

/// The runs of which these results are the sum, if they are of several.
fn summed(directory: &Path, results: Results) -> Result<Vec<Results>, SideError> {
    match results.runs.len() {
        0 | 1 => Ok(vec![results]),
        runs => {
            (1..=runs).map(|run| read(&directory.join(format!("run-{run}")).join(FILE))).collect()
        }
    }
}

/// The runs in the directories within this one, by name.
fn within(directory: &Path) -> Result<Vec<Results>, SideError> {
    let entries = fs::read_dir(directory).map_err(|error| failed(directory, error))?;
    let entries = entries.filter_map(|entry| Some(entry.ok()?.path().join(FILE)));
    let mut files: Vec<PathBuf> = entries.filter(|file| file.exists()).collect();
    // So that run-10 comes behind run-9.
    files.sort_by_key(|file| (file.as_os_str().len(), file.clone()));
    if files.is_empty() {
        return Err(failed(
            directory,
            format!("there is no {FILE} in it, and in no directory in it"),
        ));
    }
    files.iter().map(|file| read(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = include_str!("../../../model/fixtures/results-2.json");

    /// The fixture as a run of this date, of `of` runs in all.
    fn saved(place: &Path, date: &str, of: usize) {
        let mut results = Results::parse(FIXTURE).unwrap();
        results.environment.date = date.into();
        results.runs = vec![results.runs[0].clone(); of];
        fs::create_dir_all(place).unwrap();
        fs::write(place.join(FILE), results.to_json()).unwrap();
    }

    fn dates(path: &Path) -> Vec<String> {
        let side = Side::read(path).unwrap();
        side.environments().map(|environment| environment.date.clone()).collect()
    }

    #[test]
    fn a_directory_gives_the_runs_that_its_results_are_the_sum_of() {
        let place = tempfile::tempdir().unwrap();
        let all = place.path();
        saved(all, "sum", 2);
        saved(&all.join("run-1"), "1", 1);
        saved(&all.join("run-2"), "2", 1);
        // Left over from a time when there were more.
        saved(&all.join("run-3"), "3", 1);
        assert_eq!(dates(all), ["1", "2"]);
        assert_eq!(dates(&all.join(FILE)), ["sum"], "a file is a file");
        saved(all, "sum", 1);
        assert_eq!(dates(all), ["sum"]);
        saved(all, "sum", 4);
        let error = Side::read(all).unwrap_err().to_string();
        assert!(error.contains("run-4") && error.contains("or its directory"), "{error}");
    }

    #[test]
    fn a_directory_without_results_of_its_own_gives_all_in_it_by_number() {
        let place = tempfile::tempdir().unwrap();
        for run in [10, 2, 1] {
            saved(&place.path().join(format!("run-{run}")), &run.to_string(), 1);
        }
        assert_eq!(dates(place.path()), ["1", "2", "10"]);
        let empty = tempfile::tempdir().unwrap();
        let error = Side::read(empty.path()).unwrap_err().to_string();
        assert!(error.contains("there is no results.json"), "{error}");
    }

    #[test]
    fn a_side_is_called_by_its_directory() {
        for (path, expected) in [
            ("before/results.json", "before"),
            ("./after/", "after"),
            ("results.json", "results.json"),
            ("/", "/"),
            ("a/run-1", "a/run-1"),
        ] {
            assert_eq!(name(Path::new(path)), expected);
        }
    }

    #[test]
    fn what_is_no_results_is_refused_in_one_line() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("text");
        fs::write(&file, "{\n\"schema\": 1}\n").unwrap();
        for path in [&file, &place.path().join("nothing")] {
            let error = Side::read(path).unwrap_err().to_string();
            assert!(error.contains("name a results.json") && error.lines().count() == 1, "{error}");
        }
    }
}
