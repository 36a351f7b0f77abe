//! Runs a program under valgrind's callgrind and reads what it counted.
//!
//! The program names the functions to look into `measured_...`, keeps them out of line and never
//! calls one from another: counting is switched on when one is entered and off when it is left, so
//! that everything in the result happened within them, down to the C library.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part of it")]

pub mod snapshot;

use libtest_mimic::{Completion, Failed, Trial};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::{Command, Output};

/// What callgrind wrote (its manual, "Callgrind Format Specification").
pub struct Profile {
    /// Names of the events, in the order in which they are counted.
    events: Vec<String>,
    /// Each function's costs without those of what it calls, and with them.
    functions: HashMap<String, Costs>,
    /// Files of machine code in which anything was counted.
    objects: BTreeSet<String>,
}

#[derive(Default)]
struct Costs {
    own: Vec<u64>,
    all: Vec<u64>,
}

/// Why nothing can be counted here, if nothing can.
pub fn obstacle() -> Option<String> {
    let version = Command::new("valgrind").arg("--version").output();
    match version {
        Ok(output) if output.status.success() => None,
        _ => Some("valgrind is missing; make test installs it".into()),
    }
}

/// A test that is ignored where it cannot run, with the reason; if the environment variable `CI` is
/// set (and not empty) it fails instead.
pub fn trial(name: &str, obstacle: Option<String>, test: fn()) -> Trial {
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    Trial::ignorable_test(name, move || match obstacle {
        None => {
            test();
            Ok(Completion::Completed)
        }
        Some(reason) if in_ci => Err(Failed::from(reason)),
        Some(reason) => Ok(Completion::ignored_with(reason)),
    })
}

/// Runs a program and counts within its `measured_...` functions. `out` is the file for the result;
/// the program may learn from its environment that it is being counted.
pub fn run(
    program: &Path,
    flags: &[&str],
    environment: &[(&str, &str)],
    out: &Path,
) -> (Profile, Output) {
    run_with(program, &[], flags, environment, out)
}

/// The same with arguments for the program.
pub fn run_with(
    program: &Path,
    arguments: &[&str],
    flags: &[&str],
    environment: &[(&str, &str)],
    out: &Path,
) -> (Profile, Output) {
    let mut command = Command::new("valgrind");
    command.args(["-q", "--tool=callgrind", "--collect-atstart=no"]);
    command.args(["--toggle-collect=*measured_*", "--compress-strings=no", "--compress-pos=no"]);
    command
        .args(flags)
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .args(arguments);
    command.envs(environment.iter().copied());
    let output = command.output().expect("valgrind is there");
    assert!(
        output.status.success(),
        "{}: {}\n{}{}",
        program.display(),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = std::fs::read_to_string(out).expect("callgrind wrote its result");
    (Profile::parse(&text), output)
}

impl Profile {
    fn parse(text: &str) -> Self {
        let mut profile =
            Self { events: Vec::new(), functions: HashMap::new(), objects: BTreeSet::new() };
        let (mut function, mut object) = (String::new(), String::new());
        let mut of_a_call = false;
        for line in text.lines() {
            if let Some(events) = line.strip_prefix("events: ") {
                profile.events = events.split_whitespace().map(str::to_owned).collect();
            } else if let Some(name) = line.strip_prefix("ob=") {
                name.clone_into(&mut object);
            } else if let Some(name) = line.strip_prefix("fn=") {
                name.clone_into(&mut function);
            } else if line.starts_with("calls=") {
                of_a_call = true;
            } else if line.starts_with(|first: char| first.is_ascii_digit()) {
                let costs = profile.functions.entry(function.clone()).or_default();
                // The first number is a place in the source.
                let counts = line.split_whitespace().skip(1).map(|n| n.parse().expect("a number"));
                let counts = counts.collect::<Vec<u64>>();
                add(&mut costs.all, &counts);
                if !std::mem::take(&mut of_a_call) {
                    add(&mut costs.own, &counts);
                    profile.objects.insert(object.clone());
                }
            }
        }
        profile
    }

    /// How often an event happened in the function of this name, in whatever module, with all that
    /// it called.
    ///
    /// # Panics
    /// If there is no such function, or more than one.
    pub fn inclusive(&self, function: &str, event: &str) -> u64 {
        let named = |name: &str| name.split("::").any(|part| part == function);
        let mut found = self.functions.iter().filter(|(name, _)| named(name));
        let (Some((_, costs)), None) = (found.next(), found.next()) else {
            panic!("not one function {function} among {:?}", self.functions.keys());
        };
        self.count(&costs.all, event)
    }

    /// Functions in which an event itself happened, with how often.
    pub fn where_is(&self, event: &str) -> Vec<(&str, u64)> {
        let own =
            self.functions.iter().map(|(name, costs)| (&name[..], self.count(&costs.own, event)));
        own.filter(|&(_, count)| count > 0).collect()
    }

    /// Files of machine code in which anything was counted.
    pub fn objects(&self) -> impl Iterator<Item = &str> {
        self.objects.iter().map(String::as_str)
    }

    fn count(&self, costs: &[u64], event: &str) -> u64 {
        let at = self.events.iter().position(|name| name == event).expect("a counted event");
        // Zeros at the end of a line are left out.
        costs.get(at).copied().unwrap_or(0)
    }
}

fn add(sum: &mut Vec<u64>, counts: &[u64]) {
    sum.resize(sum.len().max(counts.len()), 0);
    for (sum, count) in sum.iter_mut().zip(counts) {
        *sum += count;
    }
}
