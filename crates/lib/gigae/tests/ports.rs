//! Interfaces and queues of a process's own: the first that is free of several, and a queue that is
//! not the first. On real interfaces in network namespaces. Needs root.
#![allow(missing_docs)]

use gigae::{Address, Backend, Endpoint, Envelope, Mode, OpenError, Options, Sharing, Wait};
use gigae_fabric::{Fabric, Node, testing};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// It loads an XDP program.
const OF_ROOT: &[&str] = &[
    "an_endpoint_on_the_second_queue_hears_that_one",
    "endpoints_of_one_process_share_a_nic_by_its_queues",
    "endpoints_in_ip_have_udp_ports_and_queues_of_their_own",
];

fn main() {
    testing::for_users_except(OF_ROOT).run(&[
        ("of_several_interfaces_each_endpoint_has_one_of_its_own", each_has_one_of_its_own as fn()),
        ("those_with_addresses_of_their_own_carry_datagrams", they_carry_datagrams),
        ("when_all_are_in_use_sharing_decides", when_all_are_in_use_sharing_decides),
        ("what_is_down_or_missing_is_passed_over", what_is_down_or_missing_is_passed_over),
        ("an_endpoint_on_the_second_queue_hears_that_one", the_second_queue),
        ("endpoints_of_one_process_share_a_nic_by_its_queues", queues_of_one_process),
        ("endpoints_in_ip_have_udp_ports_and_queues_of_their_own", queues_in_ip),
    ]);
}

fn ip(node: &Node, arguments: &[&str]) {
    let output = node.command("ip").unwrap().args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Two nodes, of which the first has two more interfaces that an administrator has made: they stand
/// for the functions of a NIC.
fn functions(test: &str) -> Fabric {
    let fabric = testing::fabric(test, |_| {});
    for name in ["vf0", "vf1"] {
        let node = fabric.node(1);
        ip(
            &node,
            &["link", "add", "link", "eth0", "name", name, "type", "macvlan", "mode", "bridge"],
        );
        ip(&node, &["link", "set", name, "up"]);
    }
    fabric
}

fn open(node: &Node, options: Options) -> Result<Endpoint, OpenError> {
    let _inside = node.enter().unwrap();
    options.wait(Wait::Sleep).open()
}

fn name(endpoint: &Endpoint) -> &str {
    &endpoint.link().interface
}

/// Messages of several lengths both ways, every byte compared.
fn exchange(a: &Endpoint, b: &Endpoint) {
    for length in [0, 1, 60, 1400, 7].into_iter().cycle().take(60) {
        let bytes: Vec<u8> = (0..length).map(|i| (i * 5 + length) as u8).collect();
        for (from, to) in [(a, b), (b, a)] {
            carry(from, to, &bytes);
        }
    }
}

/// Both ends in one thread, in turn: an end makes progress in its own calls only.
fn carry(from: &Endpoint, to: &Endpoint, bytes: &[u8]) {
    from.send(from.peer(to.identity().address).unwrap(), bytes).unwrap();
    let start = Instant::now();
    loop {
        if let Some(message) = to.recv_timeout(Duration::from_millis(5)).unwrap() {
            assert_eq!(to.address(message.from()), from.identity().address);
            assert!(message[..] == *bytes, "{} bytes", bytes.len());
            return;
        }
        assert!(from.recv_timeout(Duration::ZERO).unwrap().is_none());
        assert!(start.elapsed() < PATIENCE, "{} bytes did not arrive", bytes.len());
    }
}

fn each_has_one_of_its_own() {
    let fabric = functions("functions");
    let (near, far) = (fabric.node(1), fabric.node(2));
    let other = open(&far, Options::new("eth0")).unwrap();
    for backend in [Backend::Xdp, Backend::Auto] {
        let any = || open(&near, Options::new("vf0/vf1").backend(backend));
        let (first, second) = (any().unwrap(), any().unwrap());
        assert_eq!((name(&first), name(&second)), ("vf0", "vf1"));
        exchange(&first, &other);
        exchange(&second, &other);
        exchange(&first, &second);
        drop(first);
        assert_eq!(name(&any().unwrap()), "vf0", "it is free again");
    }
}

fn they_carry_datagrams() {
    let fabric = functions("datagrams");
    let (near, far) = (fabric.node(1), fabric.node(2));
    for (name, address) in [("vf0", "198.18.0.101/24"), ("vf1", "198.18.0.102/24")] {
        ip(&near, &["address", "add", address, "dev", name]);
    }
    let udp = |names: &str| Options::new(names).envelope(Envelope::Udp { port: 4791 });
    let other = open(&far, udp("eth0")).unwrap();
    let _first = open(&near, Options::new("vf0")).unwrap();
    let second = open(&near, udp("vf0/vf1")).unwrap();
    assert_eq!(name(&second), "vf1");
    exchange(&second, &other);
}

fn when_all_are_in_use_sharing_decides() {
    let fabric = functions("all in use");
    let node = fabric.node(1);
    let any = |sharing| open(&node, Options::new("vf0/vf1").sharing(sharing));
    let both = [any(Sharing::Alone).unwrap(), any(Sharing::Auto).unwrap()];
    assert_eq!(both.each_ref().map(name), ["vf0", "vf1"]);
    let refused = any(Sharing::Alone).unwrap_err().to_string();
    assert!(refused.contains("use each of vf0, vf1; name more"), "{refused}");
    let child = any(Sharing::Auto).unwrap();
    assert!(name(&child).starts_with("gigae"), "{}", name(&child));
    drop(both);
    assert!(name(&any(Sharing::Child).unwrap()).starts_with("gigae"));
}

fn what_is_down_or_missing_is_passed_over() {
    let fabric = functions("passed over");
    let node = fabric.node(1);
    ip(&node, &["link", "set", "vf0", "down"]);
    let any = |names: &str| open(&node, Options::new(names));
    let second = any("nosuch/vf0/vf1").unwrap();
    assert_eq!(name(&second), "vf1");
    // There is one, though it is in use.
    let refused = any("nosuch/vf1").unwrap_err().to_string();
    assert!(refused.contains("name more"), "{refused}");
    let refused = any("nosuch/vf0").unwrap_err();
    assert!(matches!(refused, OpenError::NoInterface { .. }), "{refused}");
    let refused = any("vf0/nosuch").unwrap_err();
    assert!(matches!(refused, OpenError::InterfaceDown(_)), "{refused}");
    let refused = open(&node, Options::trunk(["vf0/vf1", "vf1"])).unwrap_err().to_string();
    assert!(refused.contains("named twice"), "{refused}");
}

/// Two nodes back to back, whose interfaces have two queues.
fn two_queues(test: &str) -> Fabric {
    testing::fabric(test, |config| (config.cable, config.queues) = (true, 2))
}

/// In native mode, what goes out by a queue of a veth arrives at the other end's queue of the same
/// number.
fn the_second_queue() {
    let fabric = two_queues("queues");
    let (near, far) = (fabric.node(1), fabric.node(2));
    let on = |node, queue, mode| {
        open(node, Options::new("eth0").queue(queue).backend(Backend::XdpMode(mode)))
    };
    let second = |node| on(node, 1, Mode::XdpNative).unwrap();
    let (a, b) = (second(&near), second(&far));
    exchange(&a, &b);
    drop(b);
    // What goes out by the first arrives at the first, to which no endpoint listens there.
    let first = on(&far, 0, Mode::XdpNative).unwrap();
    // The Reset of the other.
    assert!(a.recv_timeout(Duration::from_millis(50)).unwrap().is_none());
    let received = a.counters().link.rx_frames;
    first.send(first.peer(Address::from(a.link().mac)).unwrap(), b"lost").unwrap();
    assert!(a.recv_timeout(Duration::from_millis(100)).unwrap().is_none());
    assert_eq!(a.counters().link.rx_frames, received);
    drop(first);
    let refused = on(&far, 2, Mode::XdpNative).unwrap_err().to_string();
    assert!(refused.contains("is there a queue 2?"), "{refused}");
}

/// A thread with an endpoint for each queue, at both ends, each on its own channel.
fn queues_of_one_process() {
    let fabric = two_queues("threads");
    let (near, far) = (fabric.node(1), fabric.node(2));
    let on = |node, queue: u32, mode| {
        let options = Options::new("eth0").queue(queue).channels([queue as u8 + 1]);
        open(node, options.backend(Backend::XdpMode(mode)))
    };
    let native = |node, queue| on(node, queue, Mode::XdpNative).unwrap();
    let pairs = [0, 1].map(|queue| (queue, native(&near, queue), native(&far, queue)));
    let threads = pairs.map(|(queue, a, b)| {
        std::thread::spawn(move || {
            exchange_on(queue as u8 + 1, &a, &b);
            (a, b)
        })
    });
    let [(a, b), (second, other)] = threads.map(|thread| thread.join().unwrap());
    for end in [&a, &b, &second, &other] {
        assert!(end.counters().link.rx_frames > 0);
    }
    let refused = on(&near, 1, Mode::XdpNative).unwrap_err();
    assert!(matches!(refused, OpenError::QueueBusy { queue: 1, .. }), "{refused}");
    drop(second);
    // The first one's program is there, and it is not for this mode.
    let refused = on(&near, 1, Mode::XdpGeneric).unwrap_err().to_string();
    assert!(refused.contains("another mode"), "{refused}");
    exchange_on(1, &a, &b);
    let second = native(&near, 1);
    exchange_on(2, &second, &other);
    // Whichever was first: the program stays as long as one is left.
    drop(a);
    exchange_on(2, &second, &other);
    drop(second);
    on(&near, 0, Mode::XdpGeneric).unwrap();
}

/// The same with UDP ports instead of channels. So the flows of the pairs differ in both ports, and
/// a NIC can spread or steer them by these.
fn queues_in_ip() {
    let fabric = two_queues("ipqueues");
    let (near, far) = (fabric.node(1), fabric.node(2));
    let on = |node, queue: u16| {
        let options = Options::new("eth0").envelope(Envelope::Udp { port: 47_000 });
        let options = options.port(32_768 + queue).queue(queue.into());
        open(node, options.backend(Backend::XdpMode(Mode::XdpNative))).unwrap()
    };
    let pairs = [0, 1].map(|queue| (on(&near, queue), on(&far, queue)));
    for (a, b) in &pairs {
        exchange_on(0, a, b);
    }
    for end in pairs.iter().flat_map(|(a, b)| [a, b]) {
        assert!(end.counters().link.rx_frames > 0);
    }
}

/// Messages both ways on a channel.
fn exchange_on(channel: u8, a: &Endpoint, b: &Endpoint) {
    let start = Instant::now();
    for number in 0..200_u32 {
        for (from, to) in [(a, b), (b, a)] {
            let peer = from.peer(to.identity().address.channel(channel)).unwrap();
            from.send(peer, &number.to_le_bytes()).unwrap();
            let message = loop {
                if let Some(message) = to.recv_timeout(Duration::from_millis(5)).unwrap() {
                    break message;
                }
                assert!(from.recv_timeout(Duration::ZERO).unwrap().is_none());
                assert!(start.elapsed() < PATIENCE, "message {number} on channel {channel}");
            };
            assert_eq!(message[..], number.to_le_bytes());
        }
    }
}
