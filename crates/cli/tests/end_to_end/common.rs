//! What the tests share: a small plan, a directory for its files, and what every run must hold.

use gigae_eval_model::results::Results;
use gigae_fabric::Fabric;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// An end that sleeps gets a busy processor within milliseconds, so 0.2 s bring something
/// everywhere. An end that spins may be kept off it for longer. The report says so.
pub(crate) const TINY: &str = r#"
name = "tiny"
about = "a test: every transport once"
repetitions = 2
max_repetitions = 2
[link.gigabit]
rate_mbit = 1000
[tcp.nodelay]
nodelay = true
buffer = 131072
[[experiment]]
kind = "rtt"
links = ["gigabit"]
transports = ["gigae", "packet", "udp", "udp-gso", "tcp", "icmp"]
sizes = [8]
waits = ["sleep"]
seconds = 0.2
warmup = 0.01
[[experiment]]
kind = "stream"
links = ["gigabit"]
transports = ["gigae", "packet", "udp", "udp-gso", "tcp"]
sizes = [1400]
waits = ["sleep"]
seconds = 0.2
warmup = 0.02
[[experiment]]
kind = "stream"
links = ["gigabit"]
transports = ["gigae", "gigae-write"]
sizes = [100000]
waits = ["sleep", "spin"]
seconds = 0.2
warmup = 0.02
"#;

/// A place for one test's files, and a plan in it.
pub(crate) struct TestDirectory(pub(crate) tempfile::TempDir);

impl TestDirectory {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn plan(&self, text: &str) -> PathBuf {
        let path = self.path("plan.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn key(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        path
    }
}

pub(crate) fn eval() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("eval");
    command
}

/// One line on standard error, a failure, and the words that must be in it.
pub(crate) fn is_one_line_error(output: &Output, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it succeeded: {text}");
    assert_eq!(text.lines().count(), 1, "not one line: {text}");
    for word in words {
        assert!(text.contains(word), "'{word}' is not in: {text}");
    }
}

/// Fabrics of the process with this id; their names carry it.
pub(crate) fn left_by(pid: u32) -> Vec<String> {
    let own = format!("ge{pid}-");
    Fabric::list().into_iter().filter(|prefix| prefix.starts_with(&own)).collect()
}

pub(crate) fn fits_schema(results: &str) {
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../eval/model/schema/gigae.eval.2.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let value = serde_json::from_str(results).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

/// Of the tiny plan's 15 cells only the two that spin may be missing.
pub(crate) fn sleepers_are_all_measured(results: &Results) {
    skips_have_reasons(results);
    assert_eq!(results.series.len() + results.skipped.len(), 15, "{:?}", results.skipped);
    let sleepers = results.series.iter().filter(|series| series.wait.name() == "sleep").count();
    assert_eq!(sleepers, 13, "{:?}", results.skipped);
}

/// What is missing was tried, and is named with its reason.
pub(crate) fn skips_have_reasons(results: &Results) {
    for skipped in &results.skipped {
        assert!(skipped.what.is_some() && !skipped.reason.is_empty(), "{:?}", results.skipped);
    }
}
