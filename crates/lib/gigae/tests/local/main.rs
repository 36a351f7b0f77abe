//! Endpoints of one node, between which frames go through memory: on interfaces of one network
//! namespace, mostly with no wire between them, in threads and in processes. Each test makes its
//! own namespaces and removes them. Needs root.
#![allow(missing_docs)]

#[path = "../numbered/mod.rs"]
mod numbered;
mod processes;
mod registered;
mod tasks;

use gigae::{
    Address, Backend, Completion, Endpoint, Envelope, Mode, Options, Progress, Reason, RecvError,
    Rights, Wait, Wanted,
};
use gigae_fabric::{Fabric, NetnsGuard, Node, testing};
use gigae_observe::EndpointDescription;
use gigae_wire::Kind;
use numbered::body;
use processes::*;
use registered::*;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use tasks::{carry_out, echo};

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const PATIENCE: Duration = Duration::from_secs(60);

const BACKENDS: [Backend; 3] =
    [Backend::XdpMode(Mode::XdpGeneric), Backend::XdpMode(Mode::XdpNative), Backend::Packet];

fn options(interface: &str, backend: Backend) -> Options {
    Options::new(interface).backend(backend).wait(Wait::Sleep).local(true)
}

fn on(node: &Node, options: Options) -> Endpoint {
    let _inside = node.enter().unwrap();
    options.open().unwrap()
}

fn ip(node: &Node, arguments: &[&str]) {
    assert!(node.command("ip").unwrap().args(arguments).status().unwrap().success());
}

/// A node with this many pairs of interfaces, `x0` and `y0` and so on: each pair is a cable, and
/// nothing leads from one pair to another.
fn node_with(test: &str, pairs: usize, mtu: usize) -> (Fabric, Node, NetnsGuard) {
    let fabric = testing::fabric(test, |_| ());
    let node = fabric.node(1);
    let mtu = mtu.to_string();
    for n in 0..pairs {
        let names = [format!("x{n}"), format!("y{n}")];
        ip(&node, &["link", "add", &names[0], "type", "veth", "peer", "name", &names[1]]);
        names.iter().for_each(|name| ip(&node, &["link", "set", name, "mtu", &mtu, "up"]));
    }
    // Neighbours are looked for where the caller is.
    let inside = node.enter().unwrap();
    (fabric, node, inside)
}

fn address(endpoint: &Endpoint) -> Address {
    Address::from(endpoint.link().mac)
}

/// The same numbered messages of all sizes both ways at once; every byte is checked.
fn exchange(ends: [&mut Endpoint; 2], count: u32) {
    let addresses = [address(ends[1]), address(ends[0])];
    std::thread::scope(|scope| {
        for (end, other) in ends.into_iter().zip(addresses) {
            scope.spawn(move || converse(end, other, count));
        }
    });
}

fn converse(end: &Endpoint, other: Address, count: u32) {
    let peer = end.peer(other).unwrap();
    let max = end.max_message();
    let (mut sent, mut got) = (0, 0);
    while got < count || sent < count {
        let until = count.min(sent + 16);
        while sent < until && end.try_send(peer, &body(sent, max)).is_ok() {
            sent += 1;
        }
        let patience = if sent < count { Duration::ZERO } else { PATIENCE };
        while got < count {
            let message = end.recv_timeout(patience);
            let message = message.unwrap_or_else(|error| failed(end, &error, (sent, got)));
            let Some(message) = message else { break };
            assert_eq!(message[..], body(got, max), "message {got}");
            got += 1;
        }
        assert!(sent < count || got == count, "{got} of {count} messages came in time");
    }
    end.drain(PATIENCE).unwrap();
}

/// Panics with what can be known of why.
fn failed(end: &Endpoint, error: &RecvError, (sent, got): (u32, u32)) -> ! {
    let (to, reason) = end.take_failure().map(|failed| (failed.to(), failed.reason())).unzip();
    panic!("{error}, to {to:?}, {reason:?}, {sent} sent, {got} received, {:?}", end.counters());
}

/// Frames sent and received through memory.
fn by_memory(end: &Endpoint) -> (u64, u64) {
    let link = end.counters().link;
    (link.memory_tx_frames, link.memory_rx_frames)
}

fn messages_pass_between_interfaces_with_no_wire_between_them() {
    let (_fabric, node, _inside) = node_with("apart", 2, 1500);
    for backend in BACKENDS {
        for wait in [Wait::Sleep, Wait::Spin, Wait::Adaptive] {
            let [mut a, mut b] =
                ["x0", "x1"].map(|name| on(&node, options(name, backend).wait(wait)));
            exchange([&mut a, &mut b], 3_000);
            for end in [&a, &b] {
                let (sent, got) = by_memory(end);
                assert!(sent > 100 && got > 100, "{backend:?}, {wait:?}: {sent} and {got} frames");
            }
        }
    }
}

/// Data frames that an endpoint of an interface sent or received while `work` was done: how many
/// have a checksum of the header alone, and how many of the payload, too.
fn header_only(interface: &str, work: impl FnOnce()) -> (usize, usize) {
    let found = gigae_observe::find(Some(std::process::id())).unwrap();
    let is_on = |about: &EndpointDescription| about.links[0].interface == interface;
    let observed = found.endpoints.into_iter().find(|found| is_on(&found.about)).unwrap();
    let mut capture = observed.capture(60).unwrap();
    capture.look();
    work();
    let (mut frame, mut counts) = (Vec::new(), (0, 0));
    while capture.next(&mut frame).is_some() {
        // Behind the Ethernet header: PROTOCOL.md, section 1.
        let header = &frame[14..];
        match (header[4] & 0xf, header[31] & 2) {
            (DATA, 0) => counts.1 += 1,
            (DATA, _) => counts.0 += 1,
            _ => {}
        }
    }
    counts
}

/// The kind of frames with one message.
const DATA: u8 = Kind::Data as u8;

fn what_goes_through_memory_has_no_checksum_of_its_payload() {
    let (_fabric, node, _inside) = node_with("unsummed", 1, 1500);
    for near in [true, false] {
        let open = |name| on(&node, options(name, Backend::Packet).local(near));
        let (mut a, mut b) = (open("x0"), open("y0"));
        // The rings are there.
        exchange([&mut a, &mut b], 100);
        let (alone, whole) = header_only("x0", || exchange([&mut a, &mut b], 300));
        let (expected, other) = if near { (alone, whole) } else { (whole, alone) };
        assert!(expected > 100 && other == 0, "near: {near}: {alone} and {whole} frames");
    }
}

fn between_two_who_are_awake_a_thousand_messages_make_hardly_a_system_call() {
    let (_fabric, node, _inside) = node_with("awake", 1, 1500);
    // The thread sleeps, and is woken by system calls, where the machine takes a processor away for
    // a while.
    let awake = |name| options(name, Backend::Xdp).wait(Wait::Spin).progress(Progress::Manual);
    let [mut a, mut b] = ["x0", "y0"].map(|name| on(&node, awake(name)));
    exchange([&mut a, &mut b], 100);
    let before = [&a, &b].map(|end| end.counters().link);
    exchange([&mut a, &mut b], 5_000);
    for (end, before) in [&a, &b].into_iter().zip(before) {
        let link = end.counters().link;
        let (frames, calls) =
            (link.memory_tx_frames - before.memory_tx_frames, link.doorbells - before.doorbells);
        assert!(frames > 300 && calls == 0, "{calls} system calls for {frames} frames");
        assert_eq!(link.tx_frames - before.tx_frames, frames, "none by the NIC");
    }
}

fn a_sleeper_is_woken_and_so_is_a_program_with_a_loop_of_its_own() {
    let (_fabric, node, _inside) = node_with("sleep", 2, 1500);
    for backend in BACKENDS {
        let [a, b] = ["x0", "x1"].map(|name| on(&node, options(name, backend)));
        let (at_a, at_b) = (address(&a), address(&b));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let peer = a.peer(at_b).unwrap();
                for n in 0..60u32 {
                    std::thread::sleep(Duration::from_millis(u64::from(n % 7)));
                    a.send(peer, &n.to_be_bytes()).unwrap();
                    let answer = a.recv_timeout(PATIENCE).unwrap().expect("an answer");
                    assert_eq!(answer[..], n.to_be_bytes());
                }
                a.drain(PATIENCE).unwrap();
            });
            let peer = b.peer(at_a).unwrap();
            for n in 0..60u32 {
                let deadline = Instant::now() + PATIENCE;
                let message = loop {
                    if let Some(message) = b.try_recv().unwrap() {
                        break message;
                    }
                    assert!(Instant::now() < deadline, "message {n}");
                    let time = b.prepare_to_wait().unwrap().unwrap_or(PATIENCE).min(PATIENCE);
                    let time = Timespec {
                        tv_sec: time.as_secs() as i64,
                        tv_nsec: time.subsec_nanos().into(),
                    };
                    let fd = b.fd().unwrap();
                    rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&time))
                        .unwrap();
                    b.progress().unwrap();
                };
                assert_eq!(message[..], n.to_be_bytes());
                b.send(peer, &message).unwrap();
            }
            b.drain(PATIENCE).unwrap();
        });
    }
}

/// As where there are more processes than processors: who sends goes on while who reads is kept off
/// its processor.
fn what_is_sent_while_a_neighbour_does_not_look_waits_for_it_and_is_not_lost() {
    let (_fabric, node, _inside) = node_with("off", 2, 1500);
    for channels in [1, 3] {
        // Without the thread, which would look.
        let manual = |name| options(name, Backend::Packet).progress(Progress::Manual);
        let open = |name| on(&node, manual(name).channels(0..channels));
        let (a, b) = (open("x0"), open("x1"));
        let (at_a, at_b) = (address(&a), address(&b));
        let peers = |channel| (a.peer(at_b.channel(channel)), b.peer(at_a.channel(channel)));
        let deadline = Instant::now() + PATIENCE;
        let receive = |at: &Endpoint, other: &Endpoint| loop {
            if let Some(message) = at.try_recv().unwrap() {
                break message.len();
            }
            other.progress().unwrap();
            assert!(Instant::now() < deadline, "a message did not come");
        };
        let long = vec![7; a.max_message()];
        let mut most = 0;
        for round in 0..200 {
            let mut sent = 0;
            for channel in 0..channels {
                let (to_b, to_a) = (peers(channel).0.unwrap(), peers(channel).1.unwrap());
                // What is read at once, which moves where in the ring the rest begins.
                for _ in 0..if sent == 0 { round % 20 } else { 0 } {
                    a.send(to_b, &long).unwrap();
                    receive(&b, &a);
                    b.send(to_a, b"it came").unwrap();
                    receive(&a, &b);
                }
                while a.try_send(to_b, &long).is_ok() {
                    sent += 1;
                }
            }
            (0..sent).for_each(|_| assert_eq!(receive(&b, &a), long.len()));
            most = most.max(sent);
        }
        // Each channel is a peer. The first one has its whole window, all together half of the
        // transmit frames.
        let least = if channels == 1 { 250 } else { 450 };
        assert!(most >= least, "never more than {most} waited");
        // That a timeout repeats something on a busy machine is not a loss.
        for end in [&a, &b] {
            let link = end.counters().link;
            assert!(link.memory_full == 0, "{link:?}");
        }
    }
}

fn on_several_interfaces_as_one_memory_is_used_once_and_for_all_while_the_first_ones_work() {
    let (_fabric, node, _inside) = node_with("trunk", 2, 1500);
    let open = |names: [&str; 2]| {
        on(&node, Options::trunk(names).backend(Backend::Packet).wait(Wait::Sleep).local(true))
    };
    let (mut a, mut b) = (open(["x0", "x1"]), open(["y0", "y1"]));
    // By each end, frames through memory and by the second link.
    let counts = |ends: [&Endpoint; 2]| {
        ends.map(|end| (by_memory(end).0, end.paths()[1].link.tx_frames, end.counters().link))
    };
    exchange([&mut a, &mut b], 500);
    let before = counts([&a, &b]);
    exchange([&mut a, &mut b], 3_000);
    for (before, after) in before.iter().zip(counts([&a, &b])) {
        let (memory, second) = (after.0 - before.0, after.1 - before.1);
        assert!(memory > 200 && second < 50, "{memory} frames through memory, {second} not");
    }
    // Who sleeps on several links is woken by what comes through memory.
    let before = counts([&a, &b]);
    let (at_a, at_b) = (address(&a), address(&b));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let a = &mut a;
            (0..40).for_each(|n| echo(a, at_b, n));
        });
        let b = &mut b;
        scope.spawn(move || {
            let peer = b.peer(at_a).unwrap();
            for _ in 0..40 {
                let message = b.recv_timeout(PATIENCE).unwrap().expect("a question").to_vec();
                std::thread::sleep(Duration::from_millis(1));
                b.send(peer, &message).unwrap();
            }
        });
    });
    for (before, after) in before.iter().zip(counts([&a, &b])) {
        let rung = after.2.doorbells - before.2.doorbells;
        assert!(rung >= 10, "{rung} doorbells for 40 messages to a sleeper");
    }
    ip(&node, &["link", "set", "x0", "down"]);
    exchange([&mut a, &mut b], 500);
    ip(&node, &["link", "set", "x0", "up"]);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let before = counts([&a, &b]);
        exchange([&mut a, &mut b], 500);
        let after = counts([&a, &b]);
        if (0..2).all(|end| after[end].0 - before[end].0 > 40) {
            break;
        }
        assert!(Instant::now() < deadline, "memory is not used again: {before:?}, {after:?}");
    }
}

fn operations_pass_with_short_and_long_frames() {
    const LEN: usize = 1 << 20;
    for (mtu, backend) in [(1500, Backend::Xdp), (9000, Backend::Xdp), (9000, Backend::Packet)] {
        let (_fabric, node, _inside) = node_with("operations", 2, mtu);
        let [a, b] = ["x0", "x1"].map(|name| on(&node, options(name, backend)));
        let bytes = |n: u32| body(n, 1000).into_iter().cycle().take(LEN).collect::<Vec<u8>>();
        let key = b.register(vec![0; LEN], Rights::ALL).unwrap();
        let at_b = address(&b);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for n in 0..5 {
                    b.start_recv(Wanted::ANY, vec![0; LEN]).unwrap();
                    let done = b.completion_timeout(PATIENCE).unwrap().expect("it has come");
                    assert_eq!((done.tag, done.result), (n.into(), Ok(())));
                    let memory = done.memory.and_then(gigae::Memory::into_vec).unwrap();
                    assert!(memory == bytes(n), "message {n}");
                }
                b.drain(PATIENCE).unwrap();
                assert!(by_memory(&b).1 > 500);
            });
            let peer = a.peer(at_b).unwrap();
            for n in 0..5 {
                a.start_write(peer, key, 0, bytes(n), None).unwrap();
                a.start_send(peer, u64::from(n), bytes(n)).unwrap();
                for _ in 0..2 {
                    let done = a.completion_timeout(PATIENCE).unwrap().expect("it is done");
                    done.result.unwrap();
                }
            }
            a.drain(PATIENCE).unwrap();
            let link = a.counters().link;
            assert!(link.memory_tx_frames > 500, "{link:?}");
        });
    }
}

fn a_read_brings_what_was_written_by_way_of_memory() {
    const LEN: usize = 300_000;
    let (_fabric, node, _inside) = node_with("read", 2, 1500);
    let [a, b] = ["x0", "x1"].map(|name| on(&node, options(name, Backend::Auto)));
    let bytes: Vec<u8> = (0..LEN).map(|i| (i * 31) as u8).collect();
    let key = b.register(bytes.clone(), Rights::ALL).unwrap();
    let at_b = address(&b);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                b.recv_timeout(Duration::from_millis(1)).unwrap();
            }
        });
        let peer = a.peer(at_b).unwrap();
        a.start_read(peer, key, 0, vec![0; LEN]).unwrap();
        let done = a.completion_timeout(PATIENCE).unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let Completion { result, memory, .. } = done.expect("it is read");
        result.unwrap();
        assert!(memory.and_then(gigae::Memory::into_vec).unwrap() == bytes);
    });
}

/// One neighbour and one peer on another node at once.
fn a_neighbour_and_a_peer_far_away_are_served_side_by_side() {
    let (fabric, node, _inside) = node_with("both", 1, 1500);
    for backend in BACKENDS {
        let mut here = on(&node, options("eth0", backend));
        let mut near = on(&node, options("x0", backend));
        let mut far = on(&fabric.node(2), options("eth0", backend));
        exchange([&mut here, &mut far], 1_000);
        let (sent, got) = by_memory(&here);
        assert_eq!(
            (sent, got, by_memory(&far)),
            (0, 0, (0, 0)),
            "another namespace is another node"
        );
        exchange([&mut here, &mut near], 1_000);
        assert!(by_memory(&here).0 > 50 && by_memory(&near).0 > 50);
        exchange([&mut here, &mut far], 1_000);
        assert_eq!(by_memory(&far), (0, 0));
    }
}

/// Closes an endpoint while another one receives its Reset.
fn leave(staying: &Endpoint, leaving: Endpoint) {
    let leaving = std::thread::spawn(move || drop(leaving));
    while !leaving.is_finished() {
        staying.recv_timeout(Duration::from_millis(1)).unwrap();
    }
}

/// `x0` and `y0` have a wire, so that they talk before they are neighbours.
fn a_neighbour_that_did_not_ask_is_reached_by_the_nic_and_a_later_one_is_found() {
    let (_fabric, node, _inside) = node_with("later", 1, 1500);
    let mut a = on(&node, options("x0", Backend::Xdp));
    let mut plain = on(&node, options("y0", Backend::Xdp).local(false));
    exchange([&mut a, &mut plain], 500);
    assert_eq!((by_memory(&a), by_memory(&plain)), ((0, 0), (0, 0)));
    leave(&a, plain);
    for _ in 0..3 {
        let before = by_memory(&a);
        let mut b = on(&node, options("y0", Backend::Xdp));
        // The answer to what it says first.
        exchange([&mut a, &mut b], 10);
        exchange([&mut a, &mut b], 500);
        let after = by_memory(&a);
        assert!(after.0 - before.0 > 20 && after.1 - before.1 > 20, "{before:?}, {after:?}");
        leave(&a, b);
    }
}

/// They load an XDP program. One has other users.
const OF_ROOT: &[&str] = &[
    "between_two_who_are_awake_a_thousand_messages_make_hardly_a_system_call",
    "messages_pass_between_interfaces_with_no_wire_between_them",
    "a_sleeper_is_woken_and_so_is_a_program_with_a_loop_of_its_own",
    "an_endpoint_without_free_descriptors_sleeps_and_accepts_neighbours_later",
    "operations_pass_with_short_and_long_frames",
    "long_messages_are_read_where_they_lie_by_processes_that_may",
    "a_neighbour_and_a_peer_far_away_are_served_side_by_side",
    "a_neighbour_that_did_not_ask_is_reached_by_the_nic_and_a_later_one_is_found",
    "one_that_is_killed_is_lost_in_time_others_go_on_and_its_successor_is_found",
    "processes_of_another_user_are_no_neighbours",
    "nothing_is_left_when_neighbours_are_gone",
    "shared_memory_is_read_and_written_without_its_owner",
];

fn main() {
    if let Ok(task) = std::env::var("GIGAE_LOCAL_TASK") {
        return carry_out(&task);
    }
    macro_rules! tests {
        ($($test:ident),* $(,)?) => { &[$((stringify!($test), $test as fn())),*] };
    }
    testing::for_users_except(OF_ROOT).run(tests![
        messages_pass_between_interfaces_with_no_wire_between_them,
        what_goes_through_memory_has_no_checksum_of_its_payload,
        between_two_who_are_awake_a_thousand_messages_make_hardly_a_system_call,
        a_sleeper_is_woken_and_so_is_a_program_with_a_loop_of_its_own,
        what_is_sent_while_a_neighbour_does_not_look_waits_for_it_and_is_not_lost,
        on_several_interfaces_as_one_memory_is_used_once_and_for_all_while_the_first_ones_work,
        an_endpoint_without_free_descriptors_sleeps_and_accepts_neighbours_later,
        operations_pass_with_short_and_long_frames,
        a_read_brings_what_was_written_by_way_of_memory,
        long_messages_are_read_where_they_lie_by_processes_that_may,
        a_neighbour_and_a_peer_far_away_are_served_side_by_side,
        a_neighbour_that_did_not_ask_is_reached_by_the_nic_and_a_later_one_is_found,
        one_that_is_killed_is_lost_in_time_others_go_on_and_its_successor_is_found,
        processes_of_another_user_are_no_neighbours,
        more_processes_than_processors_all_talk_to_all,
        nothing_is_left_when_neighbours_are_gone,
        shared_memory_is_read_and_written_without_its_owner,
        a_write_to_shared_memory_waits_for_a_message_before_it,
        shared_memory_is_used_only_as_its_rights_say,
        memory_that_was_taken_back_stays_as_it_is,
        memory_is_taken_back_from_a_killed_neighbour_whose_child_lives_on,
        where_no_shared_memory_can_be_made_other_memory_does_the_same,
    ]);
}
