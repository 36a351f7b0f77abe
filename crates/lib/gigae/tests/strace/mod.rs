//! Runs a program under strace and counts its system calls, for tests of whole paths. The program
//! marks in the trace what is to be counted; a snapshot has the counts per message.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Per cent by which a case may differ from the snapshot, and calls per message: a loss on a busy
/// machine costs one.
const PER_CENT: f64 = 3.0;
const ALWAYS: f64 = 0.02;

/// Directory, which is not there, that marks a place in the trace: `MARK/CASE`. Between two marks
/// is the case of the first.
pub const MARK: &str = "/gigae-system-calls";

/// Calls by name.
pub type Calls = BTreeMap<String, usize>;

/// Calls by case, of the thread that works and of others.
pub type Trace = BTreeMap<String, [Calls; 2]>;

/// Calls per message by case, as the snapshot has them.
pub type Counts = BTreeMap<String, f64>;

/// Why nothing can be counted here, if nothing can.
pub fn obstacle() -> Option<String> {
    let missing = Command::new("strace").arg("-V").output().is_err();
    missing.then(|| "strace is missing; make test installs it".into())
}

/// Leaves a line in the trace. `end` ends a case.
pub fn mark(case: &str) {
    assert!(std::fs::metadata(format!("{MARK}/{case}")).is_err());
}

/// Runs a program. `out` is the file for the trace.
pub fn run(program: &Path, arguments: &[&str], environment: &[(&str, &str)], out: &Path) -> Trace {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", "trace=all", "-o"]).arg(out);
    strace.arg(program).args(arguments).envs(environment.iter().copied());
    let output = strace.output().expect("strace is there");
    let said = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", said(&output.stdout), said(&output.stderr));
    read(&std::fs::read_to_string(out).expect("strace wrote it"))
}

/// The counts of a run, in which each case had `messages` messages. Calls of other threads depend
/// on time; they are printed.
pub fn per_message(name: &str, trace: &Trace, messages: usize) -> Counts {
    let count = |(case, [worker, others]): (&String, &[Calls; 2])| {
        println!("{name} {case}: {messages} messages: {worker:?}; other threads: {others:?}");
        let all: usize = worker.values().sum();
        (format!("{name}_{case}"), all as f64 / messages as f64)
    };
    trace.iter().map(count).collect()
}

/// Compares with the snapshot, or writes it if `UPDATE_SNAPSHOT` is set.
pub fn check(counts: &Counts, path: &Path, command: &str) {
    print!("{}", text(counts));
    if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
        return std::fs::write(path, text(counts)).expect("the snapshot is writable");
    }
    let snapshot = std::fs::read_to_string(path).expect("there is a snapshot");
    let wrong = compare(counts, &parse(&snapshot)).join("\n");
    assert!(wrong.is_empty(), "{wrong}\nif that is meant: UPDATE_SNAPSHOT=1 {command}");
}

/// Reads what strace wrote: `PID CALL(ARGUMENTS) = RESULT`, a call that others interrupt in two
/// lines.
pub fn read(trace: &str) -> Trace {
    let mut found = Trace::new();
    let (mut case, mut worker) = (None, "");
    for line in trace.lines() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let Some((call, arguments)) = rest.trim_start().split_once('(') else { continue };
        // The second line of a call, a signal, an end.
        if !call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            continue;
        }
        if let Some((_, marked)) = arguments.split_once(&format!("\"{MARK}/")) {
            let name = marked.split('"').next().expect("a string ends").to_owned();
            (case, worker) = ((name != "end").then_some(name), pid);
        } else if arguments.contains("_STATISTICS") {
            // The kernel's count of dropped frames, which an endpoint reads for observers every
            // 100 ms.
        } else if let Some(case) = &case {
            let other = usize::from(pid != worker);
            let counts = &mut found.entry(case.clone()).or_default()[other];
            *counts.entry(call.to_owned()).or_default() += 1;
        }
    }
    found
}

/// The snapshot.
pub fn text(counts: &Counts) -> String {
    let head = "# system calls per message; made by tests/system_calls.rs\n".to_owned();
    counts.iter().fold(head, |text, (case, count)| text + &format!("{case:<40} {count:8.3}\n"))
}

pub fn parse(text: &str) -> Counts {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let split =
        |line: &str| line.rsplit_once(' ').map(|(a, b)| (a.trim().to_owned(), b.to_owned()));
    lines.filter_map(split).map(|(case, n)| (case, n.parse().expect("a number"))).collect()
}

/// What differs from the snapshot by more than it may, one line each.
pub fn compare(counts: &Counts, snapshot: &Counts) -> Vec<String> {
    let mut wrong = Vec::new();
    for (case, &was) in snapshot {
        match counts.get(case) {
            None => wrong.push(format!("{case}: not counted any more")),
            Some(&is) if (is - was).abs() > ALWAYS.max(was * PER_CENT / 100.0) => {
                wrong.push(format!("{case}: {is:.3} system calls per message instead of {was:.3}"));
            }
            Some(_) => {}
        }
    }
    let new = counts.keys().filter(|&case| !snapshot.contains_key(case));
    wrong.extend(new.map(|case| format!("{case}: not in the snapshot")));
    wrong
}
