//! Instructions per message of `wire` and `proto`, counted by valgrind's callgrind and compared with
//! `snapshots/instructions.txt`. They do not depend on the machine's load, nor on what else it runs.
//!
//! What is counted is `examples/instructions.rs`, built as releases are; each case is a function of
//! its own there, so a call and a return are in every figure. The snapshot is made anew by
//!
//! ```text
//! UPDATE_SNAPSHOT=1 cargo test -p gigae-proto --test instructions
//! ```
//!
//! It sees neither what an instruction costs nor what waits for memory: fewer are not always
//! faster. It sees nothing of `link` and `gigae`, whose budget is `crates/gigae/tests/budget.rs`.
//! The checksum of a whole long frame is not counted: `crc-fast` chooses its instructions by the
//! processor. That of a short one takes SSE 4.2, which valgrind offers on any that has AVX.
//!
//! Without valgrind the tests that need it are ignored; if `CI` is set they fail.
#![allow(missing_docs)]

mod callgrind;

use libtest_mimic::Arguments;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Per cent by which a count may differ from the snapshot's with the same compiler. Counts are
/// exact then and the same on every run; this much is left to edits that nobody means as a change of
/// cost and that move a spill or a jump.
const SAME_COMPILER: f64 = 3.0;

/// The same with another compiler, which makes other code of the same source: a guess at what that
/// may do, far below what a forgotten copy, lookup or allocation adds.
const OTHER_COMPILER: f64 = 25.0;

/// Instructions that any count may differ by: a few per cent of the smallest are less than one.
const ALWAYS: f64 = 1.0;

/// Instructions per message by case, and the compiler that made them.
#[derive(Clone, Debug, PartialEq)]
struct Counts {
    compiler: String,
    cases: BTreeMap<String, f64>,
}

impl Counts {
    fn parse(text: &str) -> Self {
        let mut counts = Self { compiler: String::new(), cases: BTreeMap::new() };
        for line in text.lines() {
            if let Some(compiler) = line.strip_prefix("# with ") {
                compiler.clone_into(&mut counts.compiler);
            } else if let Some((case, count)) = line.split_once(' ')
                && case != "#"
            {
                counts.cases.insert(case.into(), count.trim().parse().expect("a number"));
            }
        }
        counts
    }

    fn text(&self) -> String {
        let mut text = String::from("# instructions per message; made by tests/instructions.rs\n");
        writeln!(text, "# with {}", self.compiler).expect("strings take all");
        for (case, count) in &self.cases {
            writeln!(text, "{case:<40} {count:8.1}").expect("strings take all");
        }
        text
    }

    /// What differs from the snapshot by more than it may, one line each.
    fn compare(&self, snapshot: &Self) -> Vec<String> {
        let mut wrong = Vec::new();
        let percent =
            if self.compiler == snapshot.compiler { SAME_COMPILER } else { OTHER_COMPILER };
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

/// Builds the counted program and where it lies. Flags of the caller's are left out, so that
/// everybody counts the same code.
fn build() -> PathBuf {
    // Tests lie in TARGET/PROFILE/deps.
    let exe = std::env::current_exe().expect("this program has a path");
    let target = exe.ancestors().nth(3).expect("tests lie in a target directory");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--locked", "-q", "-p", "gigae-proto"]);
    cargo.args(["--example", "instructions", "--target-dir"]).arg(target);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    for flags in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"] {
        cargo.env_remove(flags);
    }
    assert!(
        cargo.status().expect("cargo is there").success(),
        "the counted program does not build"
    );
    target.join("release/examples/instructions")
}

/// The compiler and the kind of processor it makes code for.
fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("rustc is there");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    format!("{} for {}", version.trim(), std::env::consts::ARCH)
}

fn count() -> (Counts, callgrind::Profile) {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("instructions.callgrind");
    let (profile, output) = callgrind::run(&build(), &[], &[], &out);
    let said = String::from_utf8(output.stdout).expect("the program prints text");
    let mut cases = BTreeMap::new();
    for (case, messages) in said.lines().filter_map(|line| line.split_once(' ')) {
        let messages = messages.parse::<f64>().expect("a number");
        let count = profile.inclusive(case, "Ir") as f64 / messages;
        cases.insert(case.trim_start_matches("measured_").to_owned(), count);
    }
    (Counts { compiler: compiler(), cases }, profile)
}

fn every_message_takes_as_many_instructions_as_the_snapshot_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/instructions.txt");
    let (counts, profile) = count();
    print!("{}", counts.text());
    // Its functions for long copies are chosen by the processor, and nothing here should be long.
    let outside: Vec<_> =
        profile.objects().filter(|o| !o.contains("examples/instructions")).collect();
    assert!(outside.is_empty(), "counted outside the program, in {outside:?}");
    if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
        return std::fs::write(path, counts.text()).expect("the snapshot is writable");
    }
    let snapshot = std::fs::read_to_string(path).expect("the snapshot is there");
    let wrong = counts.compare(&Counts::parse(&snapshot));
    assert!(
        wrong.is_empty(),
        "{}\nif that is meant: UPDATE_SNAPSHOT=1 cargo test -p gigae-proto --test instructions",
        wrong.join("\n")
    );
}

fn a_count_that_has_changed_in_either_direction_is_told() {
    let counts = |compiler: &str, cases: &[(&str, f64)]| Counts {
        compiler: compiler.into(),
        cases: cases.iter().map(|&(case, count)| (case.into(), count)).collect(),
    };
    let snapshot = counts("rustc 1", &[("long", 1000.0), ("short", 10.0)]);
    assert_eq!(Counts::parse(&snapshot.text()), snapshot);
    let wrong =
        |compiler: &str, cases: &[(&str, f64)]| counts(compiler, cases).compare(&snapshot).len();
    assert_eq!(wrong("rustc 1", &[("long", 1029.0), ("short", 11.0)]), 0);
    assert_eq!(wrong("rustc 1", &[("long", 1031.0), ("short", 8.9)]), 2);
    assert_eq!(wrong("rustc 1", &[("long", 969.0), ("short", 11.1)]), 2);
    assert_eq!(wrong("rustc 2", &[("long", 1240.0), ("short", 12.0)]), 0);
    assert_eq!(wrong("rustc 2", &[("long", 1260.0), ("short", 13.0)]), 2);
    assert_eq!(wrong("rustc 1", &[("long", 1000.0), ("other", 10.0)]), 2);
}

fn main() {
    let trials = vec![
        callgrind::trial(
            "every_message_takes_as_many_instructions_as_the_snapshot_says",
            callgrind::obstacle(),
            every_message_takes_as_many_instructions_as_the_snapshot_says,
        ),
        callgrind::trial(
            "a_count_that_has_changed_in_either_direction_is_told",
            None,
            a_count_that_has_changed_in_either_direction_is_told,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
