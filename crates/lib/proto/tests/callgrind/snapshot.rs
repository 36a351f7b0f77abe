//! Instructions per message against a snapshot that is checked in.
//!
//! A test that counts calls [`check`]. The snapshot is updated by the same test with
//! `UPDATE_SNAPSHOT=1`.

use super::Profile;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};

/// Per cent by which a count may differ from the snapshot's with the same compiler. Counts are
/// exact then and the same on every run; this much is left to edits that are not meant as a change
/// of cost and that move a spill or a jump.
const SAME_COMPILER: f64 = 3.0;

/// The same with another compiler or C library, which makes other code of the same source: a guess
/// at what that may do, far below what a forgotten copy, lookup or allocation adds.
const OTHER_COMPILER: f64 = 25.0;

/// Instructions that any count may differ by: a few per cent of the smallest are less than one.
const ALWAYS: f64 = 1.0;

/// Instructions per message by case, and what made and ran them.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    pub made_by: String,
    pub cases: BTreeMap<String, f64>,
}

impl Counts {
    /// Of a program that printed each `measured_...` function and how many messages passed through
    /// it.
    pub fn of(profile: &Profile, output: &Output) -> Self {
        let said = String::from_utf8_lossy(&output.stdout);
        let mut cases = BTreeMap::new();
        for line in said.lines().filter(|line| line.starts_with("measured_")) {
            let (case, messages) = line.split_once(' ').expect("a case and a number");
            let messages = messages.trim().parse::<f64>().expect("a number");
            let count = profile.inclusive(case, "Ir") as f64 / messages;
            cases.insert(case.trim_start_matches("measured_").to_owned(), count);
        }
        assert!(!cases.is_empty(), "nothing was counted: {said}");
        Self { made_by: made_by(), cases }
    }

    pub fn parse(text: &str) -> Self {
        let mut counts = Self { made_by: String::new(), cases: BTreeMap::new() };
        for line in text.lines() {
            if let Some(made_by) = line.strip_prefix("# with ") {
                made_by.clone_into(&mut counts.made_by);
            } else if let Some((case, count)) = line.split_once(' ')
                && case != "#"
            {
                counts.cases.insert(case.into(), count.trim().parse().expect("a number"));
            }
        }
        counts
    }

    pub fn text(&self) -> String {
        let mut text = String::from("# instructions per message; made by the test beside it\n");
        writeln!(text, "# with {}", self.made_by).expect("strings take all");
        for (case, count) in &self.cases {
            writeln!(text, "{case:<40} {count:8.1}").expect("strings take all");
        }
        text
    }

    /// Says that counts may differ by much from the snapshot's, if another compiler or C library
    /// made it.
    pub fn loosely(&self, snapshot: &Self) -> Option<String> {
        let (was, is) = (&snapshot.made_by, &self.made_by);
        let line =
            format!("made with '{was}', here is '{is}': counts may differ by {OTHER_COMPILER} %");
        (was != is).then_some(line)
    }

    /// What differs from the snapshot by more than it may, one line each.
    pub fn compare(&self, snapshot: &Self) -> Vec<String> {
        let mut wrong = Vec::new();
        let percent = if self.made_by == snapshot.made_by { SAME_COMPILER } else { OTHER_COMPILER };
        for (case, &was) in &snapshot.cases {
            match self.cases.get(case) {
                None => wrong.push(format!("{case}: not counted any more")),
                Some(&is) if (is - was).abs() > ALWAYS.max(was * percent / 100.0) => wrong
                    .push(format!("{case}: {is:.1} instructions per message instead of {was:.1}")),
                Some(_) => {}
            }
        }
        let new = self.cases.keys().filter(|&case| !snapshot.cases.contains_key(case));
        wrong.extend(new.map(|case| format!("{case}: not in the snapshot")));
        wrong
    }
}

/// Compares with the snapshot at `path`, or updates it if the environment variable
/// `UPDATE_SNAPSHOT` is set.
///
/// # Panics
/// If they differ; names the command that updates it.
pub fn check(counts: &Counts, path: &Path, command: &str) {
    print!("{}", counts.text());
    if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
        return std::fs::write(path, counts.text()).expect("the snapshot is writable");
    }
    let snapshot = std::fs::read_to_string(path).expect("the snapshot is there");
    let snapshot = Counts::parse(&snapshot);
    // `tools/test` repeats lines that begin so at its end.
    if let Some(line) = counts.loosely(&snapshot) {
        let path = path.display();
        println!("snapshot: {path}: {line}; update it by UPDATE_SNAPSHOT=1 {command}");
    }
    let wrong = counts.compare(&snapshot);
    let said = wrong.join("\n");
    assert!(wrong.is_empty(), "{said}\nif that is meant: UPDATE_SNAPSHOT=1 {command}");
}

/// Cargo with these arguments, for what is counted: into this program's target directory, and
/// without the caller's flags, so that everybody counts the same code.
///
/// # Panics
/// If it fails.
pub fn cargo(arguments: &[&str]) -> Output {
    // Tests lie in TARGET/PROFILE/deps.
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).args(["--release", "--locked", "-q"]);
    cargo.arg("--target-dir").arg(target()).current_dir(env!("CARGO_MANIFEST_DIR"));
    for flags in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"] {
        cargo.env_remove(flags);
    }
    cargo.stderr(std::process::Stdio::inherit());
    let output = cargo.output().expect("cargo is there");
    assert!(output.status.success(), "the counted program does not build");
    output
}

/// The target directory that this program lies in.
pub fn target() -> std::path::PathBuf {
    let exe = std::env::current_exe().expect("this program has a path");
    exe.ancestors().nth(3).expect("tests lie in a target directory").to_owned()
}

/// The compiler, the kind of processor it makes code for, and the C library.
fn made_by() -> String {
    let first_line = |program: &std::ffi::OsStr, flag: &str| {
        let output = Command::new(program).arg(flag).output().expect("it is there");
        String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
    };
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let rustc = first_line(&rustc, "--version");
    let libc = first_line("getconf".as_ref(), "GNU_LIBC_VERSION");
    format!("{rustc} for {}, {libc}", std::env::consts::ARCH)
}
