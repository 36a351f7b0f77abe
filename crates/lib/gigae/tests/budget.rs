//! What a message may cost between the program and the kernel: no allocation, no lock, no separate
//! clock read, and in streams only a share of a doorbell. Needs root.
//!
//! Two endpoints on the ends of a cable, over AF_XDP in generic mode and over AF_PACKET, or on one
//! node with memory between them, in one thread: a veth delivers within the sender's system call,
//! and memory at once, so a message is there right after it was sent, and what happens is nearly
//! the same on every run. Nothing is concluded from how long it takes.
//!
//! - **Allocations** are counted by the allocator, of this thread, in the functions `measured_...`.
//! - **Clock reads and doorbells** are counted by the library itself (`Counters`).
//! - **Locks**, and clock reads or system calls that the library does not count, are looked for
//!   with valgrind's callgrind: this program runs itself under it, and it counts for the same
//!   functions, down to the C library, the instructions that lock the bus (taking a lock that is
//!   free is one, and so is changing the count of an `Arc`) and the system calls (waiting for a
//!   lock that is taken is one, and a clock read too, since valgrind hides the vDSO).
//!
//! It cannot see what the kernel does in its calls, nor what other processors make of a lock: the
//! bus-locked instruction is forbidden, whatever it would cost. Acquire and release without one, as
//! in the rings, are plain loads and stores on x86-64, the only processor for which this is said.
//! The code is that of the test's profile, not of a release. Messages lost, copied for want of
//! frames or failed are not among those that are sent here; nor are blocking receives.
#![allow(missing_docs)]

#[path = "../../proto/tests/callgrind/mod.rs"]
mod callgrind;
mod heap;

use gigae::{Backend, Endpoint, Mode, Options, Peer, Progress, Wait};
use gigae_fabric::{Fabric, NetnsGuard, testing};
use heap::allocations;
use std::hint::black_box;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Messages per case.
const MESSAGES: u64 = 10_000;

/// The same under valgrind, which is some fifty times slower.
const COUNTED_MESSAGES: u64 = 1_000;

/// Messages and empty polls for each clock read, at least: the library reads it once per 64 frames
/// and polls, at each of two ends, and once per report of a loss.
const PER_CLOCK_READ: u64 = 8;

/// Messages of a stream for each doorbell, at least. The sender rings once per 32 frames; one in 16
/// frames is acknowledged with a separate doorbell.
const PER_DOORBELL: u64 = 8;

/// Frames that a stream sends before the receiver drains: no more than the credit of a new session.
const BURST: u64 = 32;

/// Empty polls after which a message counts as lost: more than any timer of the protocol takes.
const MOST_VAIN_POLLS: u64 = 100_000_000;

/// Polls for each look at who has come, gone or rung, where memory is used: a system call.
const PER_LOOK: u64 = 64;

/// Most polls of both ends for a message, empty polls not counted: as it is sent and received, and
/// for the acknowledgements of both.
const POLLS: u64 = 6;

/// Callgrind's names for instructions that lock the bus, and for system calls.
const BUS_LOCKS: &str = "Ge";
const CALLS: &str = "sysCount";

/// In a program with several threads glibc marks the thread around each system call at which it may
/// be cancelled, with such an instruction: `sendmmsg`, which AF_PACKET's doorbell is. Part of the
/// price of the call.
const CANCELLATION: [&str; 2] = ["__pthread_enable_asynccancel", "__pthread_disable_asynccancel"];

/// A writer of shared memory looks here whether the reader sleeps. A fence lies between its write
/// and that look; it is such an instruction on this processor. There is one for each doorbell that
/// the library would ring, so at most one for each message.
const FENCES: &str = "Link>::flush";

/// Tells this program, when it runs under valgrind, over which backend.
const COUNTED: &str = "GIGAE_BUDGET_COUNTED";

// ---------------------------------------------------------------------------------------------
// What is done

/// By what frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Link(Backend),
    /// Memory within a node.
    Memory,
}

const XDP: By = By::Link(Backend::XdpMode(Mode::XdpGeneric));
const PACKET: By = By::Link(Backend::Packet);

/// All of them, and their names for the program that runs under valgrind.
const ALL: [(&str, By); 3] = [("xdp", XDP), ("packet", PACKET), ("memory", By::Memory)];

struct EndpointPair {
    // Before the fabric, so that they are closed while it is there.
    a: Endpoint,
    b: Endpoint,
    to_b: Peer,
    // Neighbours are looked for where the caller is.
    _inside: Option<NetnsGuard>,
    _fabric: Fabric,
}

impl EndpointPair {
    fn new(by: By) -> Self {
        let fabric = testing::fabric("budget", |config| config.cable = true);
        let open = |n: u16, name: &str, backend| {
            let _inside = fabric.node(n).enter().unwrap();
            let options = Options::new(name).backend(backend).wait(Wait::Spin);
            // The way of a call is the same with the thread. What a call does besides when the
            // machine took the processor from it for so long that the thread came is not a cost of
            // a message.
            let options = options.progress(Progress::Manual);
            let options = options.local(by == By::Memory);
            options.linger(Duration::from_millis(100)).open().unwrap()
        };
        let (a, b, inside) = match by {
            By::Link(backend) => (open(1, "eth0", backend), open(2, "eth0", backend), None),
            By::Memory => {
                let ip = |arguments: &str| {
                    let mut ip = fabric.node(1).command("ip").unwrap();
                    assert!(ip.args(arguments.split(' ')).status().unwrap().success());
                };
                ip("link add x0 up type veth peer name y0");
                ip("link set y0 up");
                // The ends of no wire: what does not go through memory does not arrive.
                let ends = (open(1, "eth0", Backend::Packet), open(1, "x0", Backend::Packet));
                (ends.0, ends.1, Some(fabric.node(1).enter().unwrap()))
            }
        };
        let to_b = a.peer(b.link().mac).unwrap();
        Self { a, b, to_b, _inside: inside, _fabric: fabric }
    }

    fn counts(&self) -> CallCounts {
        let ends = [self.a.counters(), self.b.counters()];
        let sum = |of: fn(&gigae::Counters) -> u64| ends.iter().map(of).sum();
        CallCounts {
            clock_reads: sum(|c| c.clock_reads),
            doorbells: sum(|c| c.link.doorbells),
            other_calls: sum(|c| c.link.drives + c.link.waits),
            by_memory: sum(|c| c.link.memory_tx_frames),
            recovery: sum(|c| {
                c.protocol.retransmissions + c.protocol.probes + c.protocol.duplicates
            }),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct CallCounts {
    clock_reads: u64,
    doorbells: u64,
    other_calls: u64,
    /// Frames through memory.
    by_memory: u64,
    /// Frames sent or received again, and questions: on a loaded machine the receiver's kernel may
    /// get to a frame after the sender has given it up. Each may cost a doorbell.
    recovery: u64,
}

/// Receives one message at `at`, while the other end does its part. Returns its first byte, and
/// counts the empty polls.
#[inline]
fn receive(at: &Endpoint, other: &Endpoint, empty: &mut u64, answer: bool) -> u8 {
    let mut left = MOST_VAIN_POLLS;
    loop {
        if let Some(message) = at.try_recv().unwrap() {
            if answer {
                at.send(message.from(), &message).unwrap();
            }
            return message[0];
        }
        other.progress().unwrap();
        *empty += 2;
        left -= 1;
        assert!(left > 0, "a message did not come");
    }
}

/// What is done with some messages; returns the empty polls.
type Work = fn(&EndpointPair, u64) -> u64;

/// There and back, each by one call.
fn ping_pong(pair: &EndpointPair, messages: u64) -> u64 {
    let (a, b) = (&pair.a, &pair.b);
    let mut empty = 0;
    for n in 0..messages / 2 {
        a.send(pair.to_b, &[n as u8; 8]).unwrap();
        receive(b, a, &mut empty, true);
        assert_eq!(receive(a, b, &mut empty, false), n as u8);
    }
    empty
}

/// Written in place and sent alone.
fn in_place(pair: &EndpointPair, messages: u64) -> u64 {
    let mut empty = 0;
    for n in 0..messages {
        let mut buffer = pair.a.buffer().unwrap();
        buffer[..1000].fill(n as u8);
        buffer.send(pair.to_b, 1000).unwrap();
        assert_eq!(receive(&pair.b, &pair.a, &mut empty, false), n as u8);
    }
    empty
}

/// Small messages that share frames: 146 fit each.
fn small_stream(pair: &EndpointPair, messages: u64) -> u64 {
    let burst = BURST * 100;
    stream(pair, messages, burst, |n| pair.a.queue(pair.to_b, &[n as u8; 8]).unwrap())
}

/// Full frames, written in place.
fn full_stream(pair: &EndpointPair, messages: u64) -> u64 {
    stream(pair, messages, BURST, |n| {
        let mut buffer = pair.a.buffer().unwrap();
        buffer[0] = n as u8;
        let len = buffer.len();
        buffer.queue(pair.to_b, len).unwrap();
    })
}

/// Queues bursts, and drains the receiver after each.
#[inline(always)]
fn stream(pair: &EndpointPair, messages: u64, burst: u64, queue: impl Fn(u64)) -> u64 {
    let (mut sent, mut empty) = (0, 0);
    while sent < messages {
        let end = messages.min(sent + burst);
        for n in sent..end {
            queue(n);
        }
        pair.a.flush().unwrap();
        for n in sent..end {
            assert_eq!(receive(&pair.b, &pair.a, &mut empty, false), n as u8);
        }
        sent = end;
    }
    empty
}

#[inline(never)]
fn measured_ping_pong(pair: &EndpointPair, messages: u64) -> u64 {
    ping_pong(pair, messages)
}

#[inline(never)]
fn measured_in_place(pair: &EndpointPair, messages: u64) -> u64 {
    in_place(pair, messages)
}

#[inline(never)]
fn measured_small_stream(pair: &EndpointPair, messages: u64) -> u64 {
    small_stream(pair, messages)
}

#[inline(never)]
fn measured_full_stream(pair: &EndpointPair, messages: u64) -> u64 {
    full_stream(pair, messages)
}

/// Name, work, whether it is a stream.
const CASES: [(&str, Work, bool); 4] = [
    ("measured_ping_pong", measured_ping_pong, false),
    ("measured_in_place", measured_in_place, false),
    ("measured_small_stream", measured_small_stream, true),
    ("measured_full_stream", measured_full_stream, true),
];

/// Until the session is up, the credit has grown and every frame was used.
fn warm_up(pair: &EndpointPair, messages: u64) {
    for work in [ping_pong, in_place, small_stream, full_stream] {
        work(pair, messages);
    }
}

// ---------------------------------------------------------------------------------------------
// Tests

fn within_the_budget(by: By) {
    let pair = EndpointPair::new(by);
    warm_up(&pair, MESSAGES);
    for (case, work, streams) in CASES {
        let before = pair.counts();
        let mut empty = 0;
        let allocated = allocations(|| empty = work(&pair, MESSAGES));
        let after = pair.counts();
        let clock_reads = after.clock_reads - before.clock_reads;
        let doorbells = after.doorbells - before.doorbells;
        let said = format!(
            "{case} over {by:?}: {MESSAGES} messages, {empty} empty polls: {allocated} \
             allocations, {clock_reads} clock reads, {doorbells} doorbells"
        );
        println!("{said}");
        assert_eq!(allocated, 0, "{said}");
        assert!(clock_reads * PER_CLOCK_READ < MESSAGES + empty, "{said}");
        if streams {
            let recovery = after.recovery - before.recovery;
            assert!(doorbells < MESSAGES / PER_DOORBELL + recovery, "{recovery} again; {said}");
        }
        // Had nothing been sent, nothing would have been measured. No end sleeps: memory needs no
        // doorbell.
        let by_memory = after.by_memory - before.by_memory;
        let expected = if by == By::Memory { by_memory > 0 } else { by_memory == 0 };
        assert!((doorbells > 0) == (by != By::Memory) && expected, "{said}");
    }
}

fn no_message_allocates_or_reads_the_clock_over_xdp() {
    within_the_budget(XDP);
}

fn no_message_allocates_or_reads_the_clock_over_packet_sockets() {
    within_the_budget(PACKET);
}

fn no_message_allocates_or_reads_the_clock_or_rings_through_memory() {
    within_the_budget(By::Memory);
}

fn an_allocation_is_counted() {
    assert_eq!(allocations(|| ()), 0);
    assert_eq!(allocations(|| drop(black_box(vec![1u8]))), 1);
    let mut grown = Vec::with_capacity(1);
    assert_eq!(allocations(|| grown.extend(black_box([1u8]))), 0);
    assert_eq!(allocations(|| grown.extend(black_box([1u8]))), 1);
}

/// What the search for locks must find.
#[inline(never)]
fn measured_lock(lock: &Mutex<u64>) {
    *lock.lock().unwrap() += 1;
}

/// The same for hidden clock reads.
#[inline(never)]
fn measured_clock() {
    black_box(Instant::now());
}

/// What this program does under valgrind: the same with fewer messages. Says for each case how
/// many system calls the library has counted.
fn counted(name: &str) {
    let by = ALL.into_iter().find(|known| known.0 == name).expect("a name of these").1;
    let pair = EndpointPair::new(by);
    warm_up(&pair, COUNTED_MESSAGES);
    for (case, work, _) in CASES {
        let before = pair.counts();
        let empty = work(&pair, COUNTED_MESSAGES);
        let after = pair.counts();
        let calls = |c: CallCounts| c.clock_reads + c.doorbells + c.other_calls;
        let looks = match by {
            By::Link(_) => 0,
            By::Memory => (COUNTED_MESSAGES * POLLS + empty) / PER_LOOK + 1,
        };
        println!("{case} {}", calls(after) - calls(before) + looks);
    }
    let lock = black_box(Mutex::new(0));
    for _ in 0..COUNTED_MESSAGES {
        measured_lock(&lock);
        measured_clock();
    }
}

fn no_lock_is_taken(by: &str) {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("budget-{by}.callgrind"));
    let exe = std::env::current_exe().unwrap();
    let flags = ["--collect-bus=yes", "--collect-systime=yes"];
    let (profile, output) = callgrind::run(&exe, &flags, &[(COUNTED, by)], &out);
    // Giving a lock back may be a plain store.
    let known_locks = profile.inclusive("measured_lock", BUS_LOCKS);
    assert!(known_locks >= COUNTED_MESSAGES, "a lock is not seen");
    assert_eq!(profile.inclusive("measured_clock", CALLS), COUNTED_MESSAGES, "a clock read is not");
    let mut locks = profile.where_is(BUS_LOCKS);
    locks.retain(|(function, _)| !CANCELLATION.contains(function));
    if by == "memory" {
        let fences = |lock: &(&str, u64)| lock.0.ends_with(FENCES);
        let count: u64 = locks.iter().copied().filter(fences).map(|(_, count)| count).sum();
        assert!(count <= CASES.len() as u64 * COUNTED_MESSAGES, "{count} fences");
        locks.retain(|lock| !fences(lock));
    }
    let all = locks.iter().map(|(_, count)| count).sum::<u64>();
    assert_eq!(all, known_locks, "{locks:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let cases = said.lines().filter_map(|line| line.split_once(' ')).collect::<Vec<_>>();
    assert_eq!(cases.len(), CASES.len(), "{said}");
    for (case, known) in cases {
        let calls = profile.inclusive(case, CALLS);
        let said = format!(
            "{case} over {by}: {COUNTED_MESSAGES} messages, {calls} system calls, of which the \
             library counted {known}"
        );
        println!("{said}");
        // Of a few full frames none may fall on a look.
        assert!((calls > 0 || by == "memory") && calls <= known.parse().unwrap(), "{said}");
    }
}

fn no_message_takes_a_lock_over_xdp() {
    no_lock_is_taken("xdp");
}

fn no_message_takes_a_lock_over_packet_sockets() {
    no_lock_is_taken("packet");
}

fn no_message_takes_a_lock_through_memory() {
    no_lock_is_taken("memory");
}

fn main() {
    if let Ok(name) = std::env::var(COUNTED) {
        return counted(&name);
    }
    // Fabrics that killed tests left are removed.
    let fabrics = Fabric::preflight().and_then(|()| Fabric::down_abandoned());
    let no_fabric = fabrics.err().map(|error| error.to_string());
    let no_callgrind = no_fabric.clone().or_else(callgrind::obstacle);
    let trial = |name: &str, obstacle: &Option<String>, test: fn()| {
        callgrind::trial(name, obstacle.clone(), test)
    };
    let trials = vec![
        trial("an_allocation_is_counted", &None, an_allocation_is_counted),
        trial(
            "no_message_allocates_or_reads_the_clock_over_xdp",
            &no_fabric,
            no_message_allocates_or_reads_the_clock_over_xdp,
        ),
        trial(
            "no_message_allocates_or_reads_the_clock_over_packet_sockets",
            &no_fabric,
            no_message_allocates_or_reads_the_clock_over_packet_sockets,
        ),
        trial(
            "no_message_allocates_or_reads_the_clock_or_rings_through_memory",
            &no_fabric,
            no_message_allocates_or_reads_the_clock_or_rings_through_memory,
        ),
        trial(
            "no_message_takes_a_lock_through_memory",
            &no_callgrind,
            no_message_takes_a_lock_through_memory,
        ),
        trial("no_message_takes_a_lock_over_xdp", &no_callgrind, no_message_takes_a_lock_over_xdp),
        trial(
            "no_message_takes_a_lock_over_packet_sockets",
            &no_callgrind,
            no_message_takes_a_lock_over_packet_sockets,
        ),
    ];
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit();
}
