//! System calls of whole paths over a real link, from the call that sends to the call that
//! receives, as the kernel sees them: this program runs itself under strace, and every line is a
//! call. Compared with `snapshots/system_calls.txt`, which is made anew by
//!
//! ```text
//! UPDATE_SNAPSHOT=1 cargo test -p gigae --test system_calls
//! ```
//!
//! Two endpoints on the ends of a cable in one thread. Short messages go to and fro, so that each
//! carries the acknowledgement of the one before; the others are acknowledged by their number and
//! not after a time, which strace would stretch. So nothing depends on how fast the machine is.
//! Calls of other threads of the library are counted apart and printed: they depend on time.
//!
//! Needs root and strace; where one is missing the test is ignored, and fails if `CI` is set.
#![allow(missing_docs)]

#[path = "../../proto/tests/callgrind/mod.rs"]
mod callgrind;

use gigae::{
    Backend, Endpoint, Memory, Mode, Options, Peer, Progress, RegionKey, Rights, Wait, Wanted,
};
use gigae_fabric::{Fabric, testing};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Messages of each case, and before that as many that are not counted.
const MESSAGES: usize = 400;

const LONG: usize = 64 << 10;
const TAG: u64 = 7;

/// Per cent by which a case may differ from the snapshot, and calls per message: a loss on a busy
/// machine costs one.
const PER_CENT: f64 = 3.0;
const ALWAYS: f64 = 0.02;

/// Tells this program over which backend to go, when it runs under strace.
const TRACED: &str = "GIGAE_SYSTEM_CALLS_TRACED";

/// Directory, which is not there, that marks a place in the trace: `MARK/CASE`. Between two marks
/// is the case of the first.
const MARK: &str = "/gigae-system-calls";

const BACKENDS: [(&str, Backend); 2] =
    [("xdp", Backend::XdpMode(Mode::XdpGeneric)), ("packet", Backend::Packet)];

// ---------------------------------------------------------------------------------------------
// What is done

struct Pair {
    // Before the fabric, so that they are closed while it is there.
    a: Endpoint,
    b: Endpoint,
    to_b: Peer,
    to_a: Peer,
    key: RegionKey,
    _fabric: Fabric,
}

impl Pair {
    fn new(backend: Backend) -> Self {
        let fabric = testing::fabric("calls", |config| config.cable = true);
        let open = |n: u16| {
            let _inside = fabric.node(n).enter().unwrap();
            // A socket for bulk data is polled for a while after something came: that depends on
            // time.
            let options = Options::new("eth0").backend(backend).wait(Wait::Spin).bulk(false);
            // Stopped at each call, the program is away for so long that the thread would come.
            let options = options.progress(Progress::Manual);
            let options = options.linger(Duration::from_millis(100)).tuned(256, |config| {
                config.ack_delay = Duration::from_secs(1);
                config.min_rto = Duration::from_secs(2);
                config.max_rto = Duration::from_secs(3);
            });
            options.open().unwrap()
        };
        let (a, b) = (open(1), open(2));
        let (to_b, to_a) = (a.peer(b.link().mac).unwrap(), b.peer(a.link().mac).unwrap());
        let key = b.register(vec![0; LONG], Rights::ALL).unwrap();
        Self { a, b, to_b, to_a, key, _fabric: fabric }
    }

    /// One message of so many bytes, and one back.
    fn ping_pong(&self, len: usize) {
        let ways = [(&self.a, self.to_b, &self.b), (&self.b, self.to_a, &self.a)];
        for (from, to, at) in ways {
            let buffer = from.buffer().unwrap();
            buffer.send(to, len).unwrap();
            loop {
                if let Some(message) = at.try_recv().unwrap() {
                    assert_eq!(message.len(), len);
                    break;
                }
                from.progress().unwrap();
            }
        }
    }

    fn message(&self) {
        self.b.start_recv(Wanted::tag(TAG), vec![0; LONG]).unwrap();
        self.a.start_send(self.to_b, TAG, vec![1; LONG]).unwrap();
        self.completes(&self.b);
        self.completes(&self.a);
    }

    fn write(&self) {
        self.a.start_write(self.to_b, self.key, 0, vec![1; LONG], None).unwrap();
        self.completes(&self.a);
    }

    fn completes(&self, at: &Endpoint) {
        loop {
            if let Some(done) = at.try_completion().unwrap() {
                assert_eq!(done.result, Ok(()));
                assert_eq!(done.memory.and_then(Memory::into_vec).map(|m| m.len()), Some(LONG));
                return;
            }
            self.a.progress().unwrap();
            self.b.progress().unwrap();
        }
    }
}

/// Leaves a line in the trace.
fn mark(case: &str) {
    assert!(std::fs::metadata(format!("{MARK}/{case}")).is_err());
}

/// What this program does under strace.
fn traced(name: &str) {
    let backend = BACKENDS.into_iter().find(|known| known.0 == name).expect("one of these").1;
    let pair = Pair::new(backend);
    let full = pair.a.max_message();
    type Case<'a> = (&'a str, usize, Box<dyn Fn() + 'a>);
    let cases: [Case<'_>; 4] = [
        ("message_8_bytes", MESSAGES / 2, Box::new(|| pair.ping_pong(8))),
        ("full_frame", MESSAGES / 2, Box::new(|| pair.ping_pong(full))),
        ("message_64_kib", MESSAGES, Box::new(|| pair.message())),
        ("write_64_kib", MESSAGES, Box::new(|| pair.write())),
    ];
    for (case, times, run) in &cases {
        (0..*times).for_each(|_| run());
        mark(case);
        (0..*times).for_each(|_| run());
        mark("end");
    }
}

// ---------------------------------------------------------------------------------------------
// What the trace says

/// Calls by case and name, of the thread that works and of others.
type Trace = BTreeMap<String, [BTreeMap<String, usize>; 2]>;

/// Reads what strace wrote: `PID CALL(ARGUMENTS) = RESULT`, a call that others interrupt in two
/// lines.
fn read(trace: &str) -> Trace {
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
        } else if let Some(case) = &case {
            let other = usize::from(pid != worker);
            let counts = &mut found.entry(case.clone()).or_default()[other];
            *counts.entry(call.to_owned()).or_default() += 1;
        }
    }
    found
}

/// Calls per message by backend and case, as the snapshot has them.
fn text(counts: &BTreeMap<String, f64>) -> String {
    let head = "# system calls per message; made by tests/system_calls.rs\n".to_owned();
    counts.iter().fold(head, |text, (case, count)| text + &format!("{case:<40} {count:8.3}\n"))
}

fn parse(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let split =
        |line: &str| line.rsplit_once(' ').map(|(a, b)| (a.trim().to_owned(), b.to_owned()));
    lines.filter_map(split).map(|(case, n)| (case, n.parse().expect("a number"))).collect()
}

/// What differs from the snapshot by more than it may, one line each.
fn compare(counts: &BTreeMap<String, f64>, snapshot: &BTreeMap<String, f64>) -> Vec<String> {
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

// ---------------------------------------------------------------------------------------------
// Tests

fn every_path_makes_as_many_system_calls_as_the_snapshot_says() {
    let mut counts = BTreeMap::new();
    for (name, _) in BACKENDS {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("calls-{name}.strace"));
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-e", "trace=all", "-o"]).arg(&out);
        let output = strace.arg(std::env::current_exe().unwrap()).env(TRACED, name).output();
        let output = output.expect("strace is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let trace = std::fs::read_to_string(&out).unwrap();
        for (case, [worker, others]) in read(&trace) {
            let all: usize = worker.values().sum();
            counts.insert(format!("{name}_{case}"), all as f64 / MESSAGES as f64);
            println!("{name} {case}: {MESSAGES} messages: {worker:?}; other threads: {others:?}");
        }
    }
    assert_eq!(counts.len(), 2 * 4, "{counts:?}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/system_calls.txt");
    print!("{}", text(&counts));
    if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
        return std::fs::write(path, text(&counts)).expect("the snapshot is writable");
    }
    let wrong = compare(&counts, &parse(&std::fs::read_to_string(path).unwrap())).join("\n");
    let command = "UPDATE_SNAPSHOT=1 cargo test -p gigae --test system_calls";
    assert!(wrong.is_empty(), "{wrong}\nif that is meant: {command}");
}

fn every_call_between_two_marks_is_counted() {
    let trace = r#"7 openat(AT_FDCWD, "/lib", O_RDONLY) = 3
7 statx(AT_FDCWD, "/gigae-system-calls/one", 0, 0, 0x7f) = -1 ENOENT (No such file)
7 sendto(3, NULL, 0, MSG_DONTWAIT, NULL, 0) = 0
8 poll([{fd=3}], 1, 5 <unfinished ...>
7 sendto(3, NULL, 0, MSG_DONTWAIT, NULL, 0) = 0
8 <... poll resumed>) = 0 (Timeout)
7 --- SIGCHLD {si_signo=SIGCHLD} ---
7 statx(AT_FDCWD, "/gigae-system-calls/end", 0, 0, 0x7f) = -1 ENOENT (No such file)
7 close(3) = 0
"#;
    let one = |name: &str, count| BTreeMap::from([(name.to_owned(), count)]);
    let expected = [one("sendto", 2), one("poll", 1)];
    assert_eq!(read(trace), Trace::from([("one".to_owned(), expected)]));
}

fn a_count_that_has_changed_in_either_direction_is_reported() {
    let counts = |value| BTreeMap::from([("xdp_long".to_owned(), value)]);
    let snapshot = parse(&text(&counts(10.0)));
    assert_eq!(snapshot, counts(10.0));
    assert_eq!(compare(&counts(10.2), &snapshot).len(), 0);
    assert_eq!(compare(&counts(10.4), &snapshot).len(), 1);
    assert_eq!(compare(&counts(9.6), &snapshot).len(), 1);
    assert_eq!(compare(&BTreeMap::from([("other".to_owned(), 1.0)]), &snapshot).len(), 2);
}

fn main() {
    if let Ok(name) = std::env::var(TRACED) {
        return traced(&name);
    }
    let no_fabric = Fabric::preflight().and_then(|()| Fabric::down_abandoned()).err();
    let no_strace = Command::new("strace").arg("-V").output().err();
    let obstacle = no_fabric
        .map(|error| error.to_string())
        .or_else(|| no_strace.map(|_| "strace is missing; make test installs it".to_owned()));
    let trials = vec![
        callgrind::trial(
            "every_call_between_two_marks_is_counted",
            None,
            every_call_between_two_marks_is_counted,
        ),
        callgrind::trial(
            "a_count_that_has_changed_in_either_direction_is_reported",
            None,
            a_count_that_has_changed_in_either_direction_is_reported,
        ),
        callgrind::trial(
            "every_path_makes_as_many_system_calls_as_the_snapshot_says",
            obstacle,
            every_path_makes_as_many_system_calls_as_the_snapshot_says,
        ),
    ];
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit();
}
