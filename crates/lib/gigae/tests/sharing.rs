//! Several endpoints on one NIC, each with its own interface, on real interfaces in network
//! namespaces that each test makes and removes. Needs root.
#![allow(missing_docs)]

mod numbered;

use gigae::{
    Address, Backend, Endpoint, Envelope, LinkError, Mode, Options, RecvError, Sharing, Wait,
};
use gigae_fabric::{Node, testing};
use numbered::body;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Messages between two ends, each way.
const COUNT: u32 = 300;

const BACKENDS: [Backend; 2] = [Backend::XdpMode(Mode::XdpGeneric), Backend::Packet];

/// In a separate process: opens an endpoint on the NIC `eth0`, says its address and returns what
/// comes.
const ECHO: &str = "GIGAE_TEST_ECHO";

fn options(sharing: Sharing, backend: Backend) -> Options {
    Options::new("eth0").sharing(sharing).backend(backend).wait(Wait::Sleep)
}

fn on(node: &Node, options: Options) -> Endpoint {
    let _inside = node.enter().unwrap();
    options.open().unwrap()
}

fn ip(node: &Node, arguments: &[&str]) -> String {
    let output = node.command("ip").unwrap().args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// How many children there are, by their group.
fn children(node: &Node) -> usize {
    ip(node, &["-o", "link", "show", "group", "26473"]).lines().count()
}

fn mac(endpoint: &Endpoint) -> Address {
    Address::from(endpoint.link().mac)
}

/// Numbered messages of all sizes both ways at once; every byte and every sender is checked.
fn exchange(a: &mut Endpoint, b: &mut Endpoint) {
    let ends = [mac(b), mac(a)];
    std::thread::scope(|scope| {
        for (end, other) in [a, b].into_iter().zip(ends) {
            scope.spawn(move || converse(end, other));
        }
    });
}

fn converse(end: &Endpoint, other: Address) {
    let (peer, max) = (end.peer(other).unwrap(), end.max_message());
    let (mut sent, mut got) = (0, 0);
    while got < COUNT || sent < COUNT {
        let until = COUNT.min(sent + 16);
        while sent < until && end.try_send(peer, &body(sent, max)).is_ok() {
            sent += 1;
        }
        let patience = if sent < COUNT { Duration::ZERO } else { PATIENCE };
        while got < COUNT {
            let Some(message) = end.recv_timeout(patience).unwrap() else { break };
            assert_eq!(end.address(message.from()), other);
            assert_eq!(message[..], body(got, max), "message {got}");
            got += 1;
        }
        assert!(sent < COUNT || got == COUNT, "{got} of {COUNT} messages came in time");
    }
    end.drain(PATIENCE).unwrap();
}

fn three_on_one_nic_talk_with_another_node_and_with_one_another() {
    for backend in BACKENDS {
        let fabric = testing::fabric("three", |_| {});
        let (near, far) = (fabric.node(1), fabric.node(2));
        let mut other = on(&far, options(Sharing::Alone, backend));
        let mut here = [(); 3].map(|()| on(&near, options(Sharing::Child, backend)));
        for end in &mut here {
            exchange(end, &mut other);
        }
        let [a, b, c] = &mut here;
        exchange(a, b);
        exchange(b, c);
        exchange(a, c);
        drop(here);
        assert_eq!(children(&near), 0, "they go with their endpoints");
    }
}

fn the_first_has_the_nic_itself_and_the_next_a_child() {
    let fabric = testing::fabric("auto", |_| {});
    let (near, far) = (fabric.node(1), fabric.node(2));
    let auto = || on(&near, options(Sharing::Auto, Backend::Auto));
    let (mut first, mut second) = (auto(), auto());
    assert_eq!(first.link().mac.0, near.mac);
    assert_eq!((&first.link().interface[..], &second.link().interface[..]), ("eth0", "gigae0"));
    assert_ne!(second.link().mac, first.link().mac);
    assert_eq!(second.identity().address, mac(&second));
    let reason = &second.link().reason;
    assert!(reason.contains("'gigae0' shares 'eth0'"), "{reason}");
    assert_eq!(second.link().mode, Mode::Packet, "{reason}");
    let mut other = on(&far, options(Sharing::Auto, Backend::Auto));
    exchange(&mut first, &mut other);
    exchange(&mut second, &mut other);
    drop(first);
    let third = auto();
    assert_eq!(third.link().interface, "eth0", "it is free again");
    // An endpoint that does not share gets the NIC, too.
    drop(third);
    let alone = on(&near, options(Sharing::Alone, Backend::Auto));
    assert_eq!(auto().link().interface, "gigae1", "an endpoint that shares nothing has the NIC");
    drop(alone);
}

fn no_child_receives_the_frames_of_another() {
    let fabric = testing::fabric("apart", |_| {});
    let (near, far) = (fabric.node(1), fabric.node(2));
    for backend in BACKENDS {
        let itself = on(&near, options(Sharing::Auto, backend));
        let [mut a, b] = [(); 2].map(|()| on(&near, options(Sharing::Child, backend)));
        let mut other = on(&far, options(Sharing::Alone, backend));
        exchange(&mut a, &mut other);
        for deaf in [&itself, &b] {
            assert!(deaf.recv_timeout(Duration::from_millis(50)).unwrap().is_none());
            let received = deaf.counters().link.rx_frames;
            assert_eq!(received, 0, "{backend:?}, {}", deaf.link().interface);
        }
        assert!(a.counters().link.rx_frames > 0);
    }
}

/// Receives until the link's state is this, or panics.
fn await_state(end: &Endpoint, is: fn(&Result<(), LinkError>) -> bool) {
    let start = Instant::now();
    loop {
        let state = match end.recv_timeout(Duration::from_millis(20)) {
            Ok(_) => Ok(()),
            Err(RecvError::Link(error)) => Err(error),
            Err(error) => panic!("{error}"),
        };
        if is(&state) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{state:?}");
    }
}

fn a_child_tells_that_its_nic_is_down_and_goes_on_when_it_is_up_and_that_it_is_gone() {
    for backend in BACKENDS {
        let fabric = testing::fabric("down", |_| {});
        let (near, far) = (fabric.node(1), fabric.node(2));
        let mut child = on(&near, options(Sharing::Child, backend));
        let mut other = on(&far, options(Sharing::Alone, backend));
        exchange(&mut child, &mut other);
        ip(&near, &["link", "set", "eth0", "down"]);
        await_state(&child, |state| matches!(state, Err(LinkError::Down(name)) if name == "eth0"));
        ip(&near, &["link", "set", "eth0", "up"]);
        fabric.await_links().unwrap();
        await_state(&child, Result::is_ok);
        exchange(&mut child, &mut other);
        ip(&near, &["link", "delete", "eth0"]);
        await_state(&child, |state| matches!(state, Err(LinkError::Gone(_))));
    }
}

fn those_who_share_a_nic_in_the_udp_envelope_have_udp_ports_of_their_own() {
    let fabric = testing::fabric("udp", |_| {});
    let near = fabric.node(1);
    let udp = |sharing| {
        let envelope = Envelope::Udp { port: 4791 };
        options(sharing, Backend::Packet).envelope(envelope).local(true)
    };
    let open = |sharing| on(&near, udp(sharing));
    let mut all = [Sharing::Auto, Sharing::Auto, Sharing::Child].map(open);
    let at = |end: &Endpoint| end.identity().address.to_string();
    let ip = std::net::IpAddr::from(near.ipv4);
    assert_eq!(
        all.each_ref().map(at),
        [format!("{ip}"), format!("{ip}/32769"), format!("{ip}/32770")]
    );
    assert!(all.iter().all(|end| end.link().interface == "eth0"));
    assert_eq!(children(&near), 0);
    let (node, [first, second, _]) = (&near, &mut all);
    let ends = [&*second, &*first].map(|end| end.identity().address);
    std::thread::scope(|scope| {
        for (end, other) in [first, second].into_iter().zip(ends) {
            scope.spawn(move || {
                let _inside = node.enter().unwrap();
                converse(end, other);
            });
        }
    });
    drop(all);
    assert_eq!(at(&open(Sharing::Auto)), format!("{ip}"), "it is free again");
}

fn discovery_is_answered_for_the_nic_alone() {
    let fabric = testing::fabric("who", |_| {});
    let (near, far) = (fabric.node(1), fabric.node(2));
    let [itself, child] = [(); 2].map(|()| on(&near, options(Sharing::Auto, Backend::Packet)));
    let requester = on(&far, options(Sharing::Alone, Backend::Packet));
    let start = Instant::now();
    while requester.neighbours().is_empty() {
        requester.ask().unwrap();
        for end in [&child, &itself, &requester] {
            let _ = end.recv_timeout(Duration::from_millis(10)).unwrap();
        }
        assert!(start.elapsed() < PATIENCE);
    }
    let macs: Vec<_> = requester.neighbours().iter().map(|neighbour| neighbour.mac).collect();
    assert_eq!(macs, [itself.link().mac]);
    // The kernel hands broadcasts to children by a worker thread.
    while child.counters().link.rx_frames == 0 {
        assert!(start.elapsed() < PATIENCE, "the question did not arrive");
    }
}

fn children_of_several_nics_are_one_trunk() {
    let fabric = testing::fabric("trunk", |config| config.networks = 2);
    let trunk = |n, sharing| {
        let options = Options::trunk(["eth0", "eth1"]).sharing(sharing).wait(Wait::Sleep);
        on(&fabric.node(n), options)
    };
    let mut ends = [trunk(1, Sharing::Child), trunk(2, Sharing::Alone)];
    let [a, b] = &mut ends;
    exchange(a, b);
    assert!(ends[0].paths().iter().all(|path| path.link.rx_frames > 0), "both are used");
    drop(ends);
    assert_eq!(children(&fabric.node(1)), 0);
}

/// A process on a node that returns what it is sent, and its endpoint's address.
fn echo(node: &Node) -> (Child, Address) {
    let mut command = node.command(std::env::current_exe().unwrap()).unwrap();
    let command = command.env(ECHO, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (process, line.trim().parse().unwrap())
}

/// It will not be free. Each further rank of a program on a node waited for it.
fn an_address_that_another_process_has_is_not_waited_for() {
    /// A try each millisecond was a sleep, for 200 of them.
    const SLEEPS: i64 = 100;
    let slept = || {
        // SAFETY: the call writes one structure of integers, for which zeros are valid.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
            usage.ru_nvcsw
        }
    };
    let fabric = testing::fabric("taken", |_| {});
    let near = fabric.node(1);
    let (mut other, _) = echo(&near);
    let before = slept();
    let named = on(&near, options(Sharing::Alone, Backend::Packet).local(true));
    let sleeps = slept() - before;
    assert!(sleeps < SLEEPS, "{sleeps} sleeps for one endpoint");
    drop(named);
    other.kill().unwrap();
    other.wait().unwrap();
}

/// The other process's part, until it is killed, its parent is gone or nothing comes for long.
fn return_what_comes() {
    let endpoint = options(Sharing::Auto, Backend::Auto).open().unwrap();
    println!("{}", mac(&endpoint));
    while let Some(message) = endpoint.recv_timeout(PATIENCE).unwrap() {
        let (from, body) = (message.from(), message.to_vec());
        drop(message);
        endpoint.send(from, &body).unwrap();
    }
}

fn processes_share_a_nic_and_what_a_killed_one_left_is_removed_by_the_next() {
    let fabric = testing::fabric("processes", |_| {});
    let (near, far) = (fabric.node(1), fabric.node(2));
    let end = on(&far, options(Sharing::Alone, Backend::Auto));
    let asked = |to: Address, n: u32| {
        let peer = end.peer(to).unwrap();
        end.send(peer, &body(n, 1000)).unwrap();
        let mut answer = None;
        let start = Instant::now();
        while answer.is_none() && start.elapsed() < PATIENCE {
            answer = match end.recv_timeout(Duration::from_millis(100)) {
                // Who has a killed one's address does not know of what that was sent.
                Err(RecvError::Failed) => None,
                received => received.unwrap(),
            };
            while let Some((to, body)) = end.take_failure().map(|f| (f.to(), f.to_vec())) {
                end.send(to, &body).unwrap();
            }
        }
        let answer = answer.expect("an answer in time");
        assert_eq!((end.address(answer.from()), answer.to_vec()), (to, body(n, 1000)));
    };
    let mut all: Vec<_> = (0..3).map(|_| echo(&near)).collect();
    for n in 0..COUNT {
        asked(all[n as usize % 3].1, n);
    }
    assert_eq!(children(&near), 2, "one has the NIC itself");
    // The NIC's own, then a child's.
    for n in [0, 1] {
        let (mut process, was) = std::mem::replace(&mut all[n], echo(&near));
        process.kill().unwrap();
        process.wait().unwrap();
        asked(all[n].1, 7);
        assert_ne!(all[n].1, was);
    }
    assert_eq!(all[1].1, Address::from(gigae::MacAddr(near.mac)), "the killed one's NIC is free");
    assert_eq!(children(&near), 3, "the killed one's is still there");
    let (process, to) = echo(&near);
    asked(to, 8);
    assert_eq!(children(&near), 3, "one was removed, one was made");
    all.push((process, to));
    for (process, _) in &mut all {
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

/// They load an XDP program.
const OF_ROOT: &[&str] = &[
    "three_on_one_nic_talk_with_another_node_and_with_one_another",
    "the_first_has_the_nic_itself_and_the_next_a_child",
    "no_child_receives_the_frames_of_another",
    "a_child_tells_that_its_nic_is_down_and_goes_on_when_it_is_up_and_that_it_is_gone",
];

fn main() {
    if std::env::var_os(ECHO).is_some() {
        return return_what_comes();
    }
    testing::for_users_except(OF_ROOT).run(&[
        (
            "three_on_one_nic_talk_with_another_node_and_with_one_another",
            three_on_one_nic_talk_with_another_node_and_with_one_another as fn(),
        ),
        (
            "the_first_has_the_nic_itself_and_the_next_a_child",
            the_first_has_the_nic_itself_and_the_next_a_child,
        ),
        (
            "an_address_that_another_process_has_is_not_waited_for",
            an_address_that_another_process_has_is_not_waited_for,
        ),
        ("no_child_receives_the_frames_of_another", no_child_receives_the_frames_of_another),
        (
            "a_child_tells_that_its_nic_is_down_and_goes_on_when_it_is_up_and_that_it_is_gone",
            a_child_tells_that_its_nic_is_down_and_goes_on_when_it_is_up_and_that_it_is_gone,
        ),
        (
            "those_who_share_a_nic_in_the_udp_envelope_have_udp_ports_of_their_own",
            those_who_share_a_nic_in_the_udp_envelope_have_udp_ports_of_their_own,
        ),
        ("discovery_is_answered_for_the_nic_alone", discovery_is_answered_for_the_nic_alone),
        ("children_of_several_nics_are_one_trunk", children_of_several_nics_are_one_trunk),
        (
            "processes_share_a_nic_and_what_a_killed_one_left_is_removed_by_the_next",
            processes_share_a_nic_and_what_a_killed_one_left_is_removed_by_the_next,
        ),
    ]);
}
