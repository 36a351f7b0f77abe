//! Several interfaces as one, on real interfaces in network namespaces that each test makes and
//! removes. Needs root.
#![allow(missing_docs)]

mod numbered;

use gigae::{Address, Backend, Completion, Endpoint, Mode, Options, Rights, Wait, Wanted};
use gigae_fabric::{Fabric, FabricConfig, Node, Rate, testing};
use numbered::body;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn networks(test: &str, count: u16) -> Fabric {
    testing::fabric(test, |config: &mut FabricConfig| config.networks = count)
}

fn options(links: u16, backend: Backend) -> Options {
    let trunk = Options::trunk((0..links).map(|i| format!("eth{i}")));
    trunk.backend(backend).wait(Wait::Sleep)
}

fn on(node: &Node, options: Options) -> Endpoint {
    let _inside = node.enter().unwrap();
    options.open().unwrap()
}

fn ip(node: &Node, arguments: &[&str]) {
    assert!(node.command("ip").unwrap().args(arguments).status().unwrap().success());
}

/// The same numbered messages of all sizes both ways at once; every byte is checked.
fn exchange(ends: [Endpoint; 2], count: u32) {
    let addresses = [1, 0].map(|other: usize| Address::from(ends[other].link().mac));
    let max = ends[0].max_message().min(ends[1].max_message());
    std::thread::scope(|scope| {
        for (end, other) in ends.into_iter().zip(addresses) {
            scope.spawn(move || converse(&end, other, max, count));
        }
    });
}

fn converse(end: &Endpoint, other: Address, max: usize, count: u32) {
    let peer = end.peer(other).unwrap();
    let (mut sent, mut got) = (0, 0);
    while got < count || sent < count {
        let until = count.min(sent + 16);
        while sent < until && end.try_send(peer, &body(sent, max)).is_ok() {
            sent += 1;
        }
        let patience = if sent < count { Duration::ZERO } else { PATIENCE };
        while got < count {
            let Some(message) = end.recv_timeout(patience).unwrap() else { break };
            assert_eq!(message[..], body(got, max), "message {got}");
            got += 1;
        }
        assert!(sent < count || got == count, "{got} of {count} messages came in time");
    }
    end.drain(PATIENCE).unwrap();
}

fn messages_pass_over_two_interfaces_of_every_kind() {
    let fabric = networks("kinds", 2);
    for backend in
        [Backend::XdpMode(Mode::XdpGeneric), Backend::XdpMode(Mode::XdpNative), Backend::Packet]
    {
        let ends = [1, 2].map(|n| on(&fabric.node(n), options(2, backend)));
        exchange(ends, 4_000);
    }
}

fn messages_pass_over_four_shaped_interfaces_of_several_rates() {
    let rates = vec![Rate::GIGABIT, Rate::bits_per_second(100_000_000), Rate::GIGABIT];
    let fabric = testing::fabric("rates", |config| {
        (config.networks, config.rate, config.network_rates) = (4, Some(Rate::GIGABIT), rates);
    });
    let ends = [1, 2].map(|n| on(&fabric.node(n), options(4, Backend::Xdp)));
    exchange(ends, 20_000);
}

fn the_end_with_fewer_interfaces_says_how_many_are_used() {
    let fabric = networks("mixed", 2);
    for (here, there) in [(1, 2), (2, 1)] {
        let ends = [(1, here), (2, there)]
            .map(|(n, links)| on(&fabric.node(n), options(links, Backend::Xdp)));
        exchange(ends, 1_000);
    }
}

fn the_shortest_mtu_limits_the_messages() {
    let fabric = networks("mtus", 2);
    for n in [1, 2] {
        ip(&fabric.node(n), &["link", "set", "eth1", "mtu", "1000"]);
    }
    let ends = [1, 2].map(|n| on(&fabric.node(n), options(2, Backend::Xdp)));
    assert_eq!(ends[0].max_message(), 1000 - 32);
    exchange(ends, 1_000);
}

/// A stream of numbered messages while `meanwhile` does something to the links and sees how many
/// have arrived; then the sender's links.
fn stream(fabric: &Fabric, backend: Backend, meanwhile: impl FnOnce(&AtomicU32, &Counted)) {
    let [a, b] = [1, 2].map(|n| on(&fabric.node(n), options(2, backend)));
    let to = Address::from(b.link().mac);
    let (stop, arrived, total) = (AtomicBool::new(false), AtomicU32::new(0), OnceLock::new());
    let shared = Counted { deaths: AtomicU32::new(0), returns: AtomicU32::new(0) };
    std::thread::scope(|scope| {
        let (stop, arrived, total, shared) = (&stop, &arrived, &total, &shared);
        scope.spawn(move || {
            let peer = a.peer(to).unwrap();
            let mut sent = 0u32;
            while !stop.load(Ordering::Relaxed) {
                a.send(peer, &body(sent, a.max_message())).unwrap();
                sent += 1;
                let sum = |of: fn(&gigae::PathStatistics) -> u64| {
                    a.paths().iter().map(of).sum::<u64>() as u32
                };
                if sent.is_multiple_of(64) {
                    shared.deaths.store(sum(|p| p.counters.deaths), Ordering::Relaxed);
                    shared.returns.store(sum(|p| p.counters.returns), Ordering::Relaxed);
                }
            }
            // Told only now: until then the receiver may have to acknowledge something again.
            a.drain(PATIENCE).unwrap();
            total.set(sent).unwrap();
        });
        scope.spawn(move || {
            let mut got = 0u32;
            let mut last = Instant::now();
            while total.get() != Some(&got) {
                assert!(last.elapsed() < PATIENCE, "{got} of {total:?} messages came");
                let Some(message) = b.recv_timeout(Duration::from_millis(100)).unwrap() else {
                    continue;
                };
                assert_eq!(message[..4], got.to_be_bytes(), "in order, each once");
                got += 1;
                arrived.store(got, Ordering::Relaxed);
                last = Instant::now();
            }
        });
        meanwhile(arrived, shared);
        stop.store(true, Ordering::Relaxed);
    });
}

struct Counted {
    deaths: AtomicU32,
    returns: AtomicU32,
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn more(arrived: &AtomicU32, count: u32) {
    let before = arrived.load(Ordering::Relaxed);
    wait_for("messages go on", || arrived.load(Ordering::Relaxed) >= before + count);
}

/// Each interface of each end goes down once while messages flow, and comes back.
fn messages_go_on_while_an_interface_is_down_and_take_it_again(backend: Backend) {
    let fabric = networks("cut", 2);
    stream(&fabric, backend, |arrived, links| {
        more(arrived, 1_000);
        let mut times = 0;
        for node in [1, 2] {
            for interface in ["eth0", "eth1"] {
                let node = fabric.node(node);
                ip(&node, &["link", "set", interface, "down"]);
                wait_for("the link is given up", || links.deaths.load(Ordering::Relaxed) > times);
                more(arrived, 1_000);
                ip(&node, &["link", "set", interface, "up"]);
                fabric.await_links().unwrap();
                wait_for("the link is back", || {
                    links.returns.load(Ordering::Relaxed) >= links.deaths.load(Ordering::Relaxed)
                });
                more(arrived, 1_000);
                times = links.deaths.load(Ordering::Relaxed);
            }
        }
    });
}

fn messages_go_on_while_an_interface_is_down_over_xdp() {
    messages_go_on_while_an_interface_is_down_and_take_it_again(Backend::Xdp);
}

fn messages_go_on_while_an_interface_is_down_over_packet_sockets() {
    messages_go_on_while_an_interface_is_down_and_take_it_again(Backend::Packet);
}

/// Probes of a link that is down must not use up the frames that messages are written into.
fn a_first_interface_that_stays_down_takes_no_frames_for_good() {
    let fabric = networks("down", 2);
    stream(&fabric, Backend::Xdp, |arrived, links| {
        more(arrived, 1_000);
        ip(&fabric.node(1), &["link", "set", "eth0", "down"]);
        wait_for("the link is given up", || links.deaths.load(Ordering::Relaxed) > 0);
        more(arrived, 20_000);
        std::thread::sleep(Duration::from_secs(1));
        more(arrived, 20_000);
    });
}

fn remote_memory_is_read_over_two_interfaces() {
    let fabric = networks("memory", 2);
    let [a, b] = [1, 2].map(|n| on(&fabric.node(n), options(2, Backend::Xdp)));
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| ((i * 31) >> 3) as u8).collect();
    let key = b.register(bytes.clone(), Rights::READ).unwrap();
    let (stop, to) = (AtomicBool::new(false), Address::from(b.link().mac));
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                b.recv_timeout(Duration::from_millis(1)).unwrap();
            }
        });
        let peer = a.peer(to).unwrap();
        a.start_read(peer, key, 0, vec![0; bytes.len()]).unwrap();
        let done = a.completion_timeout(PATIENCE).unwrap().expect("it is read");
        stop.store(true, Ordering::Relaxed);
        let Completion { result, memory, .. } = done;
        result.unwrap();
        assert!(memory.and_then(gigae::Memory::into_vec).unwrap() == bytes);
        // In which shares is another matter, tried in virtual time: here a busy machine may hold
        // one up.
        assert!(a.paths().iter().all(|path| path.link.rx_frames > 0), "{:?}", a.paths());
    });
}

/// Writes of a mebibyte and tagged messages of several frames, while each interface of each end
/// goes down once and comes back.
fn operations_go_on_while_an_interface_is_down() {
    const LEN: usize = 1 << 20;
    const TAGGED: usize = 100_000;
    let fabric = networks("opcut", 2);
    let [a, b] = [1, 2].map(|n| on(&fabric.node(n), options(2, Backend::Xdp)));
    let bytes = |n: u32, len| body(n, len).into_iter().cycle().take(len).collect::<Vec<u8>>();
    let key = b.register(vec![0; LEN], Rights::ALL).unwrap();
    let (to, stop, rounds) =
        (Address::from(b.link().mac), AtomicBool::new(false), AtomicU32::new(0));
    let deaths = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let (stop, rounds, deaths) = (&stop, &rounds, &deaths);
        let writing = scope.spawn(move || {
            let peer = a.peer(to).unwrap();
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                a.start_write(peer, key, 0, bytes(n, LEN), Some(n.into())).unwrap();
                a.start_send(peer, n as u64, bytes(n, TAGGED)).unwrap();
                for _ in 0..2 {
                    let done = a.completion_timeout(PATIENCE).unwrap().expect("it is done");
                    done.result.unwrap();
                }
                deaths.store(
                    a.paths().iter().map(|p| p.counters.deaths as u32).sum(),
                    Ordering::Relaxed,
                );
                n += 1;
                rounds.store(n, Ordering::Relaxed);
            }
            a.start_send(peer, u64::MAX, vec![]).unwrap();
            a.drain(PATIENCE).unwrap();
            n
        });
        let reading = scope.spawn(move || {
            let mut n = 0;
            loop {
                b.start_recv(Wanted::ANY, vec![0; TAGGED]).unwrap();
                let done = b.completion_timeout(PATIENCE).unwrap().expect("it has come");
                if done.tag == u64::MAX {
                    b.drain(PATIENCE).unwrap();
                    return n;
                }
                assert_eq!((done.tag, done.result), (n.into(), Ok(())), "in order, each once");
                let memory = done.memory.and_then(gigae::Memory::into_vec).unwrap();
                assert!(memory == bytes(n, TAGGED), "message {n}");
                // The write began before the message and is in place before it.
                let notice = b.try_notice().unwrap().expect("the write is there");
                assert_eq!((notice.value, notice.len as usize), (n.into(), LEN));
                n += 1;
            }
        });
        more(rounds, 5);
        for (node, interface) in [(1, "eth0"), (1, "eth1"), (2, "eth0"), (2, "eth1")] {
            let node = fabric.node(node);
            let before = deaths.load(Ordering::Relaxed);
            ip(&node, &["link", "set", interface, "down"]);
            wait_for("the link is given up", || deaths.load(Ordering::Relaxed) > before);
            more(rounds, 5);
            ip(&node, &["link", "set", interface, "up"]);
            fabric.await_links().unwrap();
            more(rounds, 20);
        }
        stop.store(true, Ordering::Relaxed);
        let written = writing.join().unwrap();
        assert_eq!(reading.join().unwrap(), written, "nothing is lost");
    });
}

fn epoll_wakes_up_for_a_message_on_any_interface() {
    use rustix::event::{PollFd, PollFlags, poll};
    let fabric = networks("epoll", 2);
    for backend in [Backend::Xdp, Backend::Packet] {
        let [a, b] = [1, 2].map(|n| on(&fabric.node(n), options(2, backend)));
        let peer = a.peer(b.link().mac).unwrap();
        let waiting = std::thread::spawn(move || {
            let end = Instant::now() + PATIENCE;
            let mut got = 0;
            while got < 100 {
                assert!(Instant::now() < end, "no message came in time");
                let limit = b.prepare_to_wait().unwrap().unwrap_or(PATIENCE).min(PATIENCE);
                let limit = rustix::time::Timespec::try_from(limit).unwrap();
                let fd = b.fd().unwrap();
                poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)).unwrap();
                while let Some(message) = b.try_recv().unwrap() {
                    assert_eq!(message[..], [got; 1000]);
                    got += 1;
                }
            }
            b.drain(PATIENCE).unwrap();
            assert!(b.paths().iter().all(|path| path.link.rx_frames > 0));
        });
        for n in 0..100 {
            a.send(peer, &[n; 1000]).unwrap();
        }
        a.drain(PATIENCE).unwrap();
        waiting.join().unwrap();
    }
}

fn main() {
    testing::run(&[
        (
            "messages_pass_over_two_interfaces_of_every_kind",
            messages_pass_over_two_interfaces_of_every_kind as fn(),
        ),
        (
            "messages_pass_over_four_shaped_interfaces_of_several_rates",
            messages_pass_over_four_shaped_interfaces_of_several_rates,
        ),
        (
            "the_end_with_fewer_interfaces_says_how_many_are_used",
            the_end_with_fewer_interfaces_says_how_many_are_used,
        ),
        ("the_shortest_mtu_limits_the_messages", the_shortest_mtu_limits_the_messages),
        (
            "messages_go_on_while_an_interface_is_down_over_xdp",
            messages_go_on_while_an_interface_is_down_over_xdp,
        ),
        (
            "messages_go_on_while_an_interface_is_down_over_packet_sockets",
            messages_go_on_while_an_interface_is_down_over_packet_sockets,
        ),
        (
            "a_first_interface_that_stays_down_takes_no_frames_for_good",
            a_first_interface_that_stays_down_takes_no_frames_for_good,
        ),
        ("remote_memory_is_read_over_two_interfaces", remote_memory_is_read_over_two_interfaces),
        (
            "operations_go_on_while_an_interface_is_down",
            operations_go_on_while_an_interface_is_down,
        ),
        (
            "epoll_wakes_up_for_a_message_on_any_interface",
            epoll_wakes_up_for_a_message_on_any_interface,
        ),
    ]);
}
