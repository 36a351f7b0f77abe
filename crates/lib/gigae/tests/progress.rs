//! Programs that make no calls: their endpoints acknowledge, repeat, answer and lend their memory
//! all the same. On real interfaces in network namespaces that each test makes and removes. Needs
//! root.
//!
//! A program that computes is one that sleeps here: neither makes calls. Nothing is concluded from
//! how long something takes; what would never happen without the thread is waited for with
//! [`PATIENCE`].
#![allow(missing_docs)]

mod numbered;

use gigae::{
    Address, Backend, Completion, DrainError, Endpoint, Envelope, Mode, Options, Peer, Progress,
    Rights, Wait, Wanted,
};
use gigae_fabric::{Fabric, Node, testing};
use numbered::body;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same for what is to be lost if no end answers: the thread is not kept off the processor for
/// so long.
const PEER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a program computes: more than twice [`PEER_TIMEOUT`].
const COMPUTES: Duration = Duration::from_secs(5);

const BACKENDS: [Backend; 3] =
    [Backend::XdpMode(Mode::XdpGeneric), Backend::XdpMode(Mode::XdpNative), Backend::Packet];

fn on(node: &Node, options: Options) -> Endpoint {
    let _inside = node.enter().unwrap();
    options.open().unwrap()
}

fn options(backend: Backend) -> Options {
    Options::new("eth0").backend(backend).wait(Wait::Sleep).peer_timeout(PEER_TIMEOUT)
}

/// Two ends, and the second as the first one's peer.
fn pair(fabric: &Fabric, options: &Options) -> ([Endpoint; 2], Peer) {
    let ends = [1, 2].map(|n| on(&fabric.node(n), options.clone()));
    let peer = ends[0].peer(ends[1].link().mac).unwrap();
    (ends, peer)
}

/// Bytes of which each place has its own.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn completed(end: &Endpoint) -> Completion {
    let completion = end.completion_timeout(PATIENCE).unwrap().expect("completed in time");
    assert_eq!(completion.result, Ok(()));
    completion
}

/// Everything that a peer may want of a program, while that makes no calls.
fn serves_while_its_program_computes(ends: &[Endpoint; 2], peer: Peer) {
    let [active, passive] = ends;
    let key = passive.register(vec![7; 100_000], Rights::ALL).unwrap();
    // From here on the passive end's program makes no call.
    active.send(peer, b"acknowledged by nobody's call").unwrap();
    active.drain(PATIENCE).unwrap();
    active.start_write(peer, key, 8, pattern(60_000), None).unwrap();
    completed(active);
    active.start_read(peer, key, 8, vec![0; 60_000]).unwrap();
    let read = completed(active).memory.and_then(gigae::Memory::into_vec);
    assert!(read == Some(pattern(60_000)));
    active.start_fetch_add(peer, key, 0, 1).unwrap();
    assert_eq!(completed(active).value, u64::from_le_bytes([7; 8]));
    std::thread::sleep(COMPUTES);
    // More than a peer timeout later: no peer was lost, and it serves on.
    active.start_compare_swap(peer, key, 0, u64::from_le_bytes([7; 8]) + 1, 5).unwrap();
    completed(active);
    assert!(active.take_failure().is_none());
    // Now it calls again.
    assert_eq!(passive.recv().unwrap()[..], b"acknowledged by nobody's call"[..]);
    assert_eq!(passive.region_writes(key), Some(3));
    assert!(passive.counters().progress_turns > 0);
}

fn a_program_that_computes_acknowledges_and_lends_its_memory() {
    for backend in BACKENDS {
        let fabric = testing::fabric("computes", |_| ());
        let (ends, peer) = pair(&fabric, &options(backend));
        serves_while_its_program_computes(&ends, peer);
    }
}

/// A program that waits for a write by looking at its memory polls nothing, and the thread leaves
/// an endpoint alone whose program calls.
fn a_program_that_only_looks_is_written_to() {
    const KEY: gigae::RegionKey = gigae::RegionKey(5);
    let looks: [fn(&Endpoint) -> bool; 10] = [
        |end| end.region_writes(KEY) == Some(1),
        |end| end.with_region(KEY, |bytes| bytes[7] == 1).unwrap(),
        |end| {
            let mut byte = [0];
            end.read_region(KEY, 7, &mut byte) && byte == [1]
        },
        |end| end.accesses().writes == 1,
        |end| end.take_notice().is_some(),
        |end| end.peek(Wanted::tag(9)).is_some(),
        |end| end.counters().link.rx_frames > 0,
        |end| end.take_completion().is_some(),
        |end| end.start_recv_found(Wanted::tag(9), |len| vec![0; len]).unwrap().is_some(),
        |end| end.write_region(KEY, 0, &[0]) && end.accesses().writes == 1,
    ];
    for backend in [Backend::Packet, Backend::Udp] {
        let fabric = testing::fabric("looks", |_| ());
        for look in looks {
            let options = options(backend).envelope(Envelope::Udp { port: 4791 });
            let [active, passive] = [1, 2].map(|n| on(&fabric.node(n), options.clone()));
            passive.register_as(KEY, vec![0; 8], Rights::ALL).unwrap();
            passive.start_recv(Wanted::tag(8), vec![0; 1]).unwrap();
            let peer = Address::from(IpAddr::from(fabric.node(2).ipv4));
            let peer = active.peer(peer).unwrap();
            for label in [8, 9] {
                active.start_send(peer, label, vec![1]).unwrap();
            }
            active.start_write(peer, KEY, 0, vec![1; 8], Some(1)).unwrap();
            let end = Instant::now() + PATIENCE;
            while !look(&passive) {
                assert!(Instant::now() < end, "nothing was seen");
            }
        }
    }
}

fn the_same_in_the_udp_envelope() {
    for backend in [Backend::Auto, Backend::Udp] {
        let fabric = testing::fabric("udp", |_| ());
        let options = options(backend).envelope(Envelope::Udp { port: 4791 });
        let ends = [1, 2].map(|n| on(&fabric.node(n), options.clone()));
        let peer = ends[0].peer(Address::from(IpAddr::from(fabric.node(2).ipv4))).unwrap();
        serves_while_its_program_computes(&ends, peer);
    }
}

fn the_same_over_two_interfaces_as_one() {
    let fabric = testing::fabric("trunk", |config| config.networks = 2);
    for backend in [Backend::Xdp, Backend::Packet] {
        let trunk = Options::trunk(["eth0", "eth1"]).backend(backend).wait(Wait::Sleep);
        let (ends, peer) = pair(&fabric, &trunk.peer_timeout(PEER_TIMEOUT));
        serves_while_its_program_computes(&ends, peer);
    }
}

fn the_same_through_memory_within_a_node() {
    let fabric = testing::fabric("local", |config| config.networks = 2);
    // Neighbours are looked for where the caller is.
    let _inside = fabric.node(1).enter().unwrap();
    for backend in [Backend::Xdp, Backend::Packet] {
        let open = |name| {
            let local = Options::new(name).local(true).backend(backend).wait(Wait::Sleep);
            local.peer_timeout(PEER_TIMEOUT).open().unwrap()
        };
        let ends = ["eth0", "eth1"].map(open);
        let peer = ends[0].peer(ends[1].link().mac).unwrap();
        serves_while_its_program_computes(&ends, peer);
        assert!(ends[0].counters().link.memory_tx_frames > 0, "by memory");
    }
}

fn the_first_message_to_a_peer_does_not_wait_for_the_senders_next_call() {
    for backend in BACKENDS {
        let fabric = testing::fabric("first", |_| ());
        let (ends, peer) = pair(&fabric, &options(backend));
        ends[0].send(peer, b"and then it computes").unwrap();
        let message = ends[1].recv_timeout(PATIENCE).unwrap().expect("delivered");
        assert_eq!(message[..], b"and then it computes"[..]);
    }
}

/// With and without loss: the last frames are repeated, and acknowledged, without a call.
fn what_was_sent_arrives_while_both_programs_compute() {
    let fabric = testing::fabric("both", |config| config.loss = 0.05);
    let (ends, peer) = pair(&fabric, &options(Backend::Auto).peer_timeout(PATIENCE));
    let receive = ends[1].start_recv(Wanted::tag(9), vec![0; 1_000_000]).unwrap();
    ends[0].start_send(peer, 9, pattern(1_000_000)).unwrap();
    ends[0].flush().unwrap();
    // Only the thread's turns carry it on: taking a completion looks at no link.
    let end = Instant::now() + PATIENCE;
    let received = loop {
        if let Some(received) = ends[1].take_completion() {
            break received;
        }
        assert!(Instant::now() < end, "not completed by the thread");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!((received.id, received.result), (receive, Ok(())));
    assert!(received.memory.unwrap().into_vec().unwrap() == pattern(1_000_000));
}

fn an_endpoint_that_closes_waits_for_messages_though_another_has_failed() {
    let fabric = testing::fabric("close", |_| ());
    let options = options(Backend::Auto).peer_timeout(Duration::from_millis(200)).linger(PATIENCE);
    let ([a, b], peer) = pair(&fabric, &options);
    let gone = a.peer(gigae::MacAddr([2, 0, 0, 0, 0, 77])).unwrap();
    a.send(gone, b"lost").unwrap();
    assert!(matches!(a.drain(PATIENCE), Err(DrainError::Failed)));
    // The session is not up yet.
    a.send(peer, b"arrives").unwrap();
    drop(a);
    assert_eq!(&*b.recv_timeout(PATIENCE).unwrap().expect("it has arrived"), b"arrives");
}

/// Without an answer, closing takes as long as the linger, and no peer is lost within that.
fn an_endpoint_that_closes_is_answered_while_its_peer_computes() {
    let fabric = testing::fabric("closes", |_| ());
    let options = options(Backend::Auto).peer_timeout(2 * PATIENCE).linger(PATIENCE);
    let ([active, passive], peer) = pair(&fabric, &options);
    // An operation that goes on until the other end closes: no receive takes this message.
    let to = passive.peer(active.link().mac).unwrap();
    passive.start_send(to, 9, vec![7; 100_000]).unwrap();
    passive.flush().unwrap();
    // From here on the passive end's program makes no call.
    let end = Instant::now() + PATIENCE;
    while active.peek(Wanted::tag(9)).is_none() {
        assert!(Instant::now() < end, "the message was not offered");
        active.progress().unwrap();
    }
    active.send(peer, b"the last").unwrap();
    let began = Instant::now();
    drop(active);
    assert!(began.elapsed() < PATIENCE, "no end answered");
    std::thread::sleep(Duration::from_secs(1));
    // Now it calls again.
    let message = passive.recv_timeout(PATIENCE).unwrap().expect("it had arrived");
    assert_eq!((&message[..], message.from()), (&b"the last"[..], to));
    let ended = passive.completion_timeout(PATIENCE).unwrap().expect("the other end has closed");
    let closed = gigae::OpError::Lost(gigae::Reason::Reset);
    assert_eq!((ended.peer, ended.result), (Some(to), Err(closed)));
    assert!(passive.take_failure().is_none());
    assert!(passive.counters().progress_turns > 0);
}

fn a_peer_that_does_not_receive_is_not_lost_and_loses_nothing() {
    let fabric = testing::fabric("stop", |_| ());
    let (ends, peer) = pair(&fabric, &options(Backend::Auto));
    // More than the other end has credit for, which its program gives back by nothing.
    let mut sent = 0;
    while ends[0].try_send(peer, &body(sent, 1000)).is_ok() && sent < 10_000 {
        sent += 1;
    }
    std::thread::sleep(COMPUTES);
    ends[0].progress().unwrap();
    assert!(ends[0].take_failure().is_none());
    for n in 0..sent {
        let message = ends[1].recv_timeout(PATIENCE).unwrap().expect("it had arrived");
        assert_eq!(message[..], body(n, 1000));
    }
}

fn readable(end: &Endpoint) {
    let fd = end.fd().expect("a link of the kernel");
    let time = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&time)).unwrap();
    assert_eq!(ready, 1, "the descriptor becomes readable");
}

/// The program sleeps on the descriptor, the thread takes the frame in first or does not: the
/// program wakes.
fn an_event_loop_wakes_for_what_the_thread_took_in() {
    for backend in [Backend::Xdp, Backend::Packet] {
        let fabric = testing::fabric("events", |_| ());
        let (ends, peer) = pair(&fabric, &options(backend));
        let [sender, receiver] = &ends;
        for n in 0..300_u32 {
            // Sometimes the message is there before the program sleeps, sometimes the thread has
            // it.
            sender.send(peer, &body(n, 500)).unwrap();
            std::thread::sleep(Duration::from_micros(u64::from(n % 30) * 100));
            let message = loop {
                if let Some(message) = receiver.try_recv().unwrap() {
                    break message;
                }
                if receiver.prepare_to_wait().unwrap().is_none() {
                    readable(receiver);
                }
            };
            assert_eq!(message[..], body(n, 500));
        }
        // Its program makes no call that takes anything in, so the thread does; then the program
        // wakes.
        while receiver.prepare_to_wait().unwrap().is_some() {}
        let before = receiver.counters();
        let end = Instant::now() + PATIENCE;
        sender.send(peer, b"later").unwrap();
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let now = receiver.counters();
            if now.protocol.frames_delivered > before.protocol.frames_delivered {
                assert!(now.progress_turns > before.progress_turns, "the thread had a turn");
                break;
            }
            assert!(Instant::now() < end, "the thread does not take it in");
        }
        readable(receiver);
        assert_eq!(receiver.try_recv().unwrap().expect("taken in")[..], b"later"[..]);
        // What was announced is taken back before the next sleep.
        while receiver.prepare_to_wait().unwrap().is_some() {}
        let fd = receiver.fd().unwrap();
        let none =
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&Timespec::default())).unwrap();
        assert!(backend == Backend::Packet || none == 0, "readable without end");
    }
}

fn a_program_that_sleeps_in_a_call_is_left_alone() {
    const MESSAGES: u32 = 20;
    let fabric = testing::fabric("asleep", |_| ());
    let (ends, peer) = pair(&fabric, &options(Backend::Auto));
    let [sender, receiver] = ends;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for n in 0..MESSAGES {
                let message = receiver.recv().unwrap();
                assert_eq!(message[..], body(n, 100));
            }
            // Between two calls the machine may take the processor from this program for a while.
            let turns = receiver.counters().progress_turns;
            assert!(
                turns < MESSAGES.into(),
                "{turns} turns beside a program that sleeps in its calls"
            );
        });
        for n in 0..MESSAGES {
            // Many frames while it sleeps there, each of which would be a turn.
            std::thread::sleep(Duration::from_millis(20));
            sender.send(peer, &body(n, 100)).unwrap();
        }
        sender.drain(PATIENCE).unwrap();
    });
}

fn nothing_wakes_up_where_nothing_is_going_on() {
    let fabric = testing::fabric("idle", |_| ());
    let (ends, peer) = pair(&fabric, &options(Backend::Auto));
    ends[0].send(peer, b"one").unwrap();
    assert_eq!(ends[1].recv().unwrap()[..], b"one"[..]);
    ends[0].drain(PATIENCE).unwrap();
    // Until the last tick and the last timer.
    std::thread::sleep(Duration::from_secs(1));
    let before = ends[0].counters().progress_wakeups;
    // The look itself was a call, after which the thread looks for some ticks.
    std::thread::sleep(Duration::from_millis(100));
    let look = ends[0].counters().progress_wakeups - before;
    std::thread::sleep(Duration::from_secs(2));
    let woken = ends[0].counters().progress_wakeups - before - look;
    assert!(look <= 10, "{look} wake-ups after a call");
    assert!(woken <= look + 10, "{woken} wake-ups in two idle seconds");
}

fn without_the_thread_nobody_acts_for_a_program() {
    let fabric = testing::fabric("manual", |_| ());
    let (ends, peer) = pair(&fabric, &options(Backend::Auto).progress(Progress::Manual));
    assert!(threads().is_empty());
    ends[0].send(peer, b"nobody answers").unwrap();
    assert!(ends[0].drain(PEER_TIMEOUT * 4).is_err());
    assert_eq!(ends[1].counters().progress_turns, 0);
}

/// Status files of this process's progress threads.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let status = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default()
    };
    tasks.map(status).filter(|status| status.contains("gigae-progress")).collect()
}

/// The threads once there are `count`. One names itself when it runs, and the kernel lists it until
/// a moment after it was joined.
fn await_threads(count: usize) -> Vec<String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let threads = threads();
        if threads.len() == count {
            return threads;
        }
        assert!(Instant::now() < end, "{count} threads and not {threads:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The slice of time that a thread has asked for, in nanoseconds; zero where the kernel does not
/// tell.
fn slice(thread: libc::pid_t) -> u64 {
    // SAFETY: numbers only, and the call fills no more than the size that it is given.
    unsafe {
        let mut how: libc::sched_attr = std::mem::zeroed();
        let size = size_of_val(&how);
        assert_eq!(libc::syscall(libc::SYS_sched_getattr, thread, &raw mut how, size, 0), 0);
        how.sched_runtime
    }
}

fn one_thread_serves_all_endpoints_takes_no_signal_and_ends_with_the_last() {
    let fabric = testing::fabric("thread", |_| ());
    assert!(threads().is_empty());
    for _ in 0..3 {
        let ends = [1, 2].map(|n| on(&fabric.node(n), options(Backend::Packet)));
        let status = await_threads(1).remove(0);
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
        let blocked = u64::from_str_radix(blocked, 16).unwrap();
        // All but SIGKILL, SIGSTOP, and the two that the C library keeps for itself.
        let never = [libc::SIGKILL, libc::SIGSTOP, 32, 33].map(|signal| 1_u64 << (signal - 1));
        let never = never.iter().fold(0, |all, one| all | one);
        assert_eq!(blocked | never, u64::MAX, "{blocked:x}");
        let thread = status.lines().find_map(|line| line.strip_prefix("Pid:\t")).unwrap();
        // Before Linux 6.12 there was nothing to ask for. The thread has its name before it asks.
        let (thread, begin) = (thread.parse().unwrap(), std::time::Instant::now());
        while slice(0) != 0 && slice(thread) != 100_000 {
            assert!(begin.elapsed() < Duration::from_secs(60), "{} ns", slice(thread));
            std::thread::sleep(Duration::from_millis(1));
        }
        let [first, second] = ends;
        drop(first);
        assert_eq!(threads().len(), 1);
        drop(second);
        await_threads(0);
    }
}

/// What a child of fork(2) does, as a process: its status.
fn in_child(child: impl FnOnce() -> bool) {
    // SAFETY: the child calls nothing but `child`, and ends. What other threads held when it was
    // made (of the allocator, glibc sees to that) it does not use.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let well = catch_unwind(AssertUnwindSafe(child)).unwrap_or(false);
        // SAFETY: ends the child without running what the parent has to run at its end.
        unsafe { libc::_exit(i32::from(!well)) };
    }
    let mut status = 0;
    // SAFETY: the status is this function's own.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "the child's status");
}

fn a_forked_child_can_neither_use_nor_harm_the_endpoint_and_may_open_its_own() {
    let fabric = testing::fabric("fork", |config| config.nodes = 3);
    let (ends, peer) = pair(&fabric, &options(Backend::Auto).linger(Duration::ZERO));
    let [sender, receiver] = ends;
    sender.send(peer, b"before").unwrap();
    assert_eq!(receiver.recv().unwrap()[..], b"before"[..]);
    let third = fabric.node(3);
    let inherited = std::cell::RefCell::new(Some(sender));
    in_child(|| {
        let sender = inherited.take().unwrap();
        let refused = catch_unwind(AssertUnwindSafe(|| sender.send(peer, b"forged").is_ok()));
        drop(sender);
        let own = on(&third, options(Backend::Auto));
        let to = own.peer(receiver.link().mac).unwrap();
        own.send(to, b"from the child").unwrap();
        refused.is_err() && own.drain(PATIENCE).is_ok() && await_threads(1).len() == 1
    });
    let sender = inherited.take().unwrap();
    sender.send(peer, b"after").unwrap();
    sender.drain(PATIENCE).unwrap();
    let mut got: Vec<_> = (0..2)
        .map(|_| receiver.recv_timeout(PATIENCE).unwrap().expect("both arrive").to_vec())
        .collect();
    got.sort();
    assert_eq!(got, [&b"after"[..], b"from the child"]);
    // How often the child says goodbye depends on how fast it is answered.
    assert_eq!(sender.counters().protocol.sessions, 1, "the parent's session outlives the child");
    assert_eq!(receiver.counters().protocol.sessions, 2, "the parent's and the child's own");
}

fn a_forked_child_drops_what_it_holds_of_the_endpoint_and_its_parent_keeps_it() {
    let fabric = testing::fabric("held-fork", |_| ());
    let (ends, peer) = pair(&fabric, &options(Backend::Packet).linger(Duration::ZERO));
    let [sender, receiver] = ends;
    sender.send(peer, b"first").unwrap();
    sender.send(peer, b"second").unwrap();
    let held = std::cell::RefCell::new(vec![receiver.recv().unwrap(), receiver.recv().unwrap()]);
    let buffer = std::cell::RefCell::new(Some(receiver.buffer().unwrap()));
    in_child(|| {
        let held = held.take();
        // It panics with all of them on its stack.
        let refused = catch_unwind(AssertUnwindSafe(|| {
            let _held = (held, buffer.take());
            receiver.recv().is_ok()
        }));
        refused.is_err()
    });
    assert_eq!(held.take().iter().map(|one| one.len()).collect::<Vec<_>>(), [5, 6]);
    drop(buffer);
    sender.send(peer, b"after").unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap().expect("it arrives")[..], b"after"[..]);
}

/// The kernel may take the processor from a program at any place for longer than the thread waits
/// before it acts. A signal whose handler takes its time does the same, often.
fn a_program_that_is_held_up_anywhere_learns_the_end_of_each_operation() {
    const ROUNDS: u64 = 150;
    extern "C" fn take_some_time(_: libc::c_int) {
        // It is async-signal-safe (signal-safety(7)).
        let time = libc::timespec { tv_sec: 0, tv_nsec: 4_000_000 };
        // SAFETY: reads this function's own memory.
        unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
    }
    let handler: extern "C" fn(libc::c_int) = take_some_time;
    // SAFETY: the handler calls nothing but nanosleep(2). Nothing else here uses the signal.
    unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    let fabric = testing::fabric("held", |_| ());
    let options = options(Backend::Packet).peer_timeout(PATIENCE).wait(Wait::Spin);
    let (ends, peer) = pair(&fabric, &options);
    let [sender, receiver] = ends;
    // SAFETY: always succeeds.
    let program = unsafe { libc::pthread_self() };
    let (begins, began) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for n in began {
                // Another place each time.
                std::thread::sleep(Duration::from_micros(100 + n % 50));
                // SAFETY: that thread waits for this one's message.
                unsafe { libc::pthread_kill(program, libc::SIGUSR1) };
                // By now the thread attends the endpoint.
                std::thread::sleep(Duration::from_millis(2));
                sender.start_send(peer, n, vec![n as u8; 100]).unwrap();
                completed(&sender);
            }
        });
        for n in 0..ROUNDS {
            receiver.start_recv(Wanted::tag(n), vec![0; 100]).unwrap();
            begins.send(n).unwrap();
            assert_eq!(completed(&receiver).tag, n);
        }
        drop(begins);
    });
    assert!(receiver.counters().progress_turns > 0);
}

/// They load an XDP program, or lose frames.
const OF_ROOT: &[&str] = &[
    "a_program_that_computes_acknowledges_and_lends_its_memory",
    "the_same_over_two_interfaces_as_one",
    "the_same_through_memory_within_a_node",
    "the_first_message_to_a_peer_does_not_wait_for_the_senders_next_call",
    "what_was_sent_arrives_while_both_programs_compute",
    "an_event_loop_wakes_for_what_the_thread_took_in",
];

fn main() {
    testing::for_users_except(OF_ROOT).run(gigae_fabric::tests![
        a_program_that_computes_acknowledges_and_lends_its_memory,
        a_program_that_only_looks_is_written_to,
        the_same_in_the_udp_envelope,
        the_same_over_two_interfaces_as_one,
        the_same_through_memory_within_a_node,
        the_first_message_to_a_peer_does_not_wait_for_the_senders_next_call,
        what_was_sent_arrives_while_both_programs_compute,
        an_endpoint_that_closes_waits_for_messages_though_another_has_failed,
        an_endpoint_that_closes_is_answered_while_its_peer_computes,
        a_peer_that_does_not_receive_is_not_lost_and_loses_nothing,
        an_event_loop_wakes_for_what_the_thread_took_in,
        a_program_that_sleeps_in_a_call_is_left_alone,
        a_program_that_is_held_up_anywhere_learns_the_end_of_each_operation,
        nothing_wakes_up_where_nothing_is_going_on,
        without_the_thread_nobody_acts_for_a_program,
        one_thread_serves_all_endpoints_takes_no_signal_and_ends_with_the_last,
        a_forked_child_can_neither_use_nor_harm_the_endpoint_and_may_open_its_own,
        a_forked_child_drops_what_it_holds_of_the_endpoint_and_its_parent_keeps_it,
    ]);
}
