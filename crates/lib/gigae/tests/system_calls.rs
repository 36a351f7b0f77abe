//! System calls of whole paths over a real link, from the call that sends to the call that
//! receives, as the kernel sees them: this program runs itself under strace, and every line is a
//! call. Compared with `snapshots/system_calls.txt`, which is updated by
//!
//! ```text
//! UPDATE_SNAPSHOT=1 cargo test -p gigae --test system_calls
//! ```
//!
//! Two endpoints on the ends of a cable in one thread. Short messages go to and fro, so that each
//! carries the acknowledgement of the one before; the others are acknowledged by their number and
//! not after a time, which strace would stretch. So nothing depends on how fast the machine is.
//! Calls of other threads of the library are counted apart and printed: they depend on time. A
//! socket for bulk data is polled for a while after something came, which depends on time, too; of
//! that way only the calls that send are counted.
//!
//! Needs root and strace; where one is missing the test is ignored, and fails if `CI` is set.
#![allow(missing_docs)]

#[path = "../../proto/tests/callgrind/mod.rs"]
mod callgrind;
mod strace;

use gigae::{
    Backend, Endpoint, Memory, Mode, Options, Peer, Progress, RegionKey, Rights, Wait, Wanted,
};
use gigae_fabric::{Fabric, testing};
use std::path::Path;
use std::time::Duration;
use strace::{Calls, Counts, Trace, compare, mark, parse, read, text};

/// Messages of each case, and before that as many that are not counted.
const MESSAGES: usize = 400;

const LONG: usize = 64 << 10;
const TAG: u64 = 7;

/// Tells this program which case to run, when it runs under strace.
const TRACED: &str = "GIGAE_SYSTEM_CALLS_TRACED";

/// A backend, with or without a socket for bulk data.
struct BackendCase {
    name: &'static str,
    backend: Backend,
    bulk: bool,
}

const CASES: [BackendCase; 3] = [
    BackendCase { name: "xdp", backend: Backend::XdpMode(Mode::XdpGeneric), bulk: false },
    BackendCase { name: "packet", backend: Backend::Packet, bulk: false },
    BackendCase { name: "bulk", backend: Backend::Packet, bulk: true },
];

// ---------------------------------------------------------------------------------------------
// What is done

struct EndpointPair {
    // Before the fabric, so that they are closed while it is there.
    a: Endpoint,
    b: Endpoint,
    to_b: Peer,
    to_a: Peer,
    key: RegionKey,
    _fabric: Fabric,
}

impl EndpointPair {
    fn new(case: &BackendCase) -> Self {
        let fabric = testing::fabric("calls", |config| config.cable = true);
        let open = |n: u16| {
            let _inside = fabric.node(n).enter().unwrap();
            let options =
                Options::new("eth0").backend(case.backend).wait(Wait::Spin).bulk(case.bulk);
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

    /// One message of `len` bytes, and one back.
    fn ping_pong(&self, len: usize) {
        let directions = [(&self.a, self.to_b, &self.b), (&self.b, self.to_a, &self.a)];
        for (from, to, at) in directions {
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

/// What this program does under strace.
fn traced(name: &str) {
    let pair =
        EndpointPair::new(CASES.iter().find(|case| case.name == name).expect("one of these"));
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
// Tests

fn every_path_makes_as_many_system_calls_as_the_snapshot_says() {
    let mut counts = Counts::new();
    for BackendCase { name, bulk, .. } in CASES {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("calls-{name}.strace"));
        let program = std::env::current_exe().unwrap();
        let mut trace = strace::run(&program, &[], &[(TRACED, name)], &out);
        if bulk {
            for [worker, _] in trace.values_mut() {
                worker.retain(|call, _| call.starts_with("send"));
            }
        }
        counts.extend(strace::per_message(name, &trace, MESSAGES));
    }
    assert_eq!(counts.len(), CASES.len() * 4, "{counts:?}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/system_calls.txt");
    strace::check(&counts, &path, "cargo test -p gigae --test system_calls");
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
    let one = |name: &str, count| Calls::from([(name.to_owned(), count)]);
    let expected = [one("sendto", 2), one("poll", 1)];
    assert_eq!(read(trace), Trace::from([("one".to_owned(), expected)]));
}

fn a_count_that_has_changed_in_either_direction_is_reported() {
    let counts = |value| Counts::from([("xdp_long".to_owned(), value)]);
    let snapshot = parse(&text(&counts(10.0)));
    assert_eq!(snapshot, counts(10.0));
    assert_eq!(compare(&counts(10.2), &snapshot).len(), 0);
    assert_eq!(compare(&counts(10.4), &snapshot).len(), 1);
    assert_eq!(compare(&counts(9.6), &snapshot).len(), 1);
    assert_eq!(compare(&Counts::from([("other".to_owned(), 1.0)]), &snapshot).len(), 2);
}

fn main() {
    if let Ok(name) = std::env::var(TRACED) {
        return traced(&name);
    }
    let no_fabric = Fabric::preflight().and_then(|()| Fabric::down_abandoned()).err();
    let obstacle = no_fabric.map(|error| error.to_string()).or_else(strace::obstacle);
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
