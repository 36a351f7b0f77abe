//! How IP nodes are found, on fabrics: routes, ARP, neighbour discovery and the reserved port.
//!
//! The module is private to the library, so this program compiles its source once more.

#[path = "../src/resolve.rs"]
#[allow(dead_code, unused_imports, reason = "its unit tests run with the library's")]
mod resolve;

use gigae_fabric::{Node, testing};
use gigae_wire::MacAddr;
use resolve::{Hop, ResolveError, reserve};
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

/// RoCEv2's port, a likely choice; any would do inside a namespace.
const PORT: u16 = 4791;

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    testing::for_users_except(&[]).run(&[
        ("a_known_neighbour_is_found", a_known_neighbour_is_found as fn()),
        ("an_unknown_neighbour_is_asked_for", an_unknown_neighbour_is_asked_for),
        ("a_link_local_neighbour_is_asked_for", a_link_local_neighbour_is_asked_for),
        (
            "a_neighbour_is_asked_for_over_this_interface",
            a_neighbour_is_asked_for_over_this_interface,
        ),
        ("beyond_a_gateway_the_gateway_is_next", beyond_a_gateway_the_gateway_is_next),
        ("an_ipv6_gateway_carries_ipv4", an_ipv6_gateway_carries_ipv4),
        ("a_silent_neighbour_is_reported", a_silent_neighbour_is_reported),
        ("without_a_route_the_error_says_so", without_a_route_the_error_says_so),
        ("without_an_address_the_error_says_so", without_an_address_the_error_says_so),
        ("own_addresses_are_refused", own_addresses_are_refused),
        ("groups_are_refused", groups_are_refused),
        ("a_reservation_stays_in_its_namespace", a_reservation_stays_in_its_namespace),
        (
            "a_reserved_port_is_silent_and_queues_nothing",
            a_reserved_port_is_silent_and_queues_nothing,
        ),
        ("a_port_in_use_is_refused", a_port_in_use_is_refused),
        ("an_unknown_interface_is_refused", an_unknown_interface_is_refused),
    ]);
}

fn ip(node: &Node, arguments: &str) {
    let status = node.command("ip").unwrap().args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// Gives the node fe80::`number`. The kernel takes frames for a new address once a separate work
/// queue has made the local route, a moment after the command returned.
fn link_local(node: &Node, number: u16) {
    ip(node, &format!("address add fe80::{number}/64 dev eth0 nodad"));
    let _inside = node.enter().unwrap();
    let local = format!("fe80{number:028x} 80 ");
    let start = Instant::now();
    while !std::fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap().contains(&local) {
        assert!(start.elapsed() < PATIENCE, "fe80::{number} has no local route");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn forget(node: &Node, other: IpAddr) {
    ip(node, &format!("neighbour delete {other} dev eth0"));
}

fn both(node: &Node) -> [IpAddr; 2] {
    [node.ipv4.into(), node.ipv6.into()]
}

fn a_known_neighbour_is_found() {
    let fabric = testing::fabric("a_known_neighbour_is_found", |_| {});
    let (here, there) = (fabric.node(1), fabric.node(2));
    let _inside = here.enter().unwrap();
    let reservation = reserve(PORT, "eth0").unwrap();
    for (source, to) in both(&here).into_iter().zip(both(&there)) {
        let hop = Hop { source, next_hop: MacAddr(there.mac) };
        assert_eq!(reservation.next_hop(to).unwrap(), hop);
    }
}

fn an_unknown_neighbour_is_asked_for() {
    let fabric = testing::fabric("an_unknown_neighbour_is_asked_for", |_| {});
    let (here, there) = (fabric.node(1), fabric.node(2));
    let _inside = here.enter().unwrap();
    let reservation = reserve(PORT, "eth0").unwrap();
    for (source, to) in both(&here).into_iter().zip(both(&there)) {
        forget(&here, to);
        let hop = Hop { source, next_hop: MacAddr(there.mac) };
        assert_eq!(reservation.next_hop(to).unwrap(), hop, "asked for");
        assert_eq!(reservation.next_hop(to).unwrap(), hop, "known now");
    }
}

fn a_link_local_neighbour_is_asked_for() {
    let fabric = testing::fabric("a_link_local_neighbour_is_asked_for", |_| {});
    let (here, there) = (fabric.node(1), fabric.node(2));
    link_local(&here, 1);
    link_local(&there, 2);
    let _inside = here.enter().unwrap();
    let hop = reserve(PORT, "eth0").unwrap().next_hop("fe80::2".parse().unwrap()).unwrap();
    assert_eq!(hop, Hop { source: "fe80::1".parse().unwrap(), next_hop: MacAddr(there.mac) });
}

fn a_neighbour_is_asked_for_over_this_interface() {
    let fabric = testing::fabric("a_neighbour_is_asked_for_over_this_interface", |_| {});
    let (here, there) = (fabric.node(1), fabric.node(2));
    // The kernel's own choice would be the longer prefix, which leads nowhere.
    ip(&here, "link add other type veth peer name rehto");
    ip(&here, "link set dev other up");
    ip(&here, "link set dev rehto up");
    let _inside = here.enter().unwrap();
    let reservation = reserve(PORT, "eth0").unwrap();
    for (source, to) in both(&here).into_iter().zip(both(&there)) {
        let length = if to.is_ipv4() { 32 } else { 128 };
        ip(&here, &format!("route add {to}/{length} dev other"));
        forget(&here, to);
        let hop = Hop { source, next_hop: MacAddr(there.mac) };
        assert_eq!(reservation.next_hop(to).unwrap(), hop);
    }
}

fn beyond_a_gateway_the_gateway_is_next() {
    let fabric = testing::fabric("beyond_a_gateway_the_gateway_is_next", |_| {});
    let (here, gateway) = (fabric.node(1), fabric.node(2));
    let _inside = here.enter().unwrap();
    let reservation = reserve(PORT, "eth0").unwrap();
    let beyond = [("198.19.0.0/24", "198.19.0.7"), ("fd00:1::/64", "fd00:1::7")];
    for ((net, to), (source, via)) in
        beyond.into_iter().zip(both(&here).into_iter().zip(both(&gateway)))
    {
        ip(&here, &format!("route add {net} via {via} dev eth0"));
        forget(&here, via);
        let hop = reservation.next_hop(to.parse().unwrap()).unwrap();
        assert_eq!(hop, Hop { source, next_hop: MacAddr(gateway.mac) });
    }
}

fn an_ipv6_gateway_carries_ipv4() {
    let fabric = testing::fabric("an_ipv6_gateway_carries_ipv4", |_| {});
    let (here, gateway) = (fabric.node(1), fabric.node(2));
    // Without a link-local address here, the kernel asks no node on behalf of IPv4.
    link_local(&here, 1);
    link_local(&gateway, 2);
    ip(&here, "route add 198.19.0.0/24 via inet6 fe80::2 dev eth0");
    let _inside = here.enter().unwrap();
    let hop = reserve(PORT, "eth0").unwrap().next_hop("198.19.0.7".parse().unwrap()).unwrap();
    assert_eq!(hop, Hop { source: here.ipv4.into(), next_hop: MacAddr(gateway.mac) });
}

fn a_silent_neighbour_is_reported() {
    let fabric = testing::fabric("a_silent_neighbour_is_reported", |_| {});
    let _inside = fabric.node(1).enter().unwrap();
    let reservation = reserve(PORT, "eth0").unwrap();
    for nobody in ["198.18.0.77", "fd00::77"] {
        let nobody: IpAddr = nobody.parse().unwrap();
        let error = reservation.next_hop(nobody).unwrap_err();
        assert!(
            matches!(error, ResolveError::NoAnswer { neighbour, .. } if neighbour == nobody),
            "{error}"
        );
    }
}

fn without_a_route_the_error_says_so() {
    let fabric = testing::fabric("without_a_route_the_error_says_so", |_| {});
    let here = fabric.node(1);
    ip(&here, "route add blackhole 198.19.1.0/24");
    ip(&here, "route add unreachable 198.19.2.0/24");
    ip(&here, "route add prohibit fd00:2::/64");
    // A route, but over another interface.
    ip(&here, "link add other type veth peer name rehto");
    ip(&here, "link set dev other up");
    ip(&here, "link set dev rehto up");
    ip(&here, "route add 198.19.3.0/24 dev other");
    ip(&here, "route add fd00:3::/64 dev other");
    let _inside = here.enter().unwrap();
    let reservation = reserve(PORT, "eth0").unwrap();
    for to in [
        "198.19.0.7",
        "fd00:1::7",
        "198.19.1.7",
        "198.19.2.7",
        "fd00:2::7",
        "198.19.3.7",
        "fd00:3::7",
    ] {
        let error = reservation.next_hop(to.parse().unwrap()).unwrap_err();
        assert!(matches!(error, ResolveError::NoRoute { .. }), "{to}: {error}");
    }
}

fn without_an_address_the_error_says_so() {
    let fabric = testing::fabric("without_an_address_the_error_says_so", |_| {});
    let here = fabric.node(1);
    ip(&here, "-4 address flush dev eth0");
    ip(&here, "route add 198.19.0.0/24 dev eth0");
    let _inside = here.enter().unwrap();
    let reservation = reserve(PORT, "eth0").unwrap();
    let error = reservation.next_hop("198.19.0.7".parse().unwrap()).unwrap_err();
    assert!(matches!(error, ResolveError::NoSource { .. }), "{error}");
}

fn own_addresses_are_refused() {
    let fabric = testing::fabric("own_addresses_are_refused", |_| {});
    let here = fabric.node(1);
    ip(&here, "link add other type veth peer name rehto");
    ip(&here, "link set dev other up");
    ip(&here, "address add 198.19.0.1/24 dev other");
    let _inside = here.enter().unwrap();
    let reservation = reserve(PORT, "eth0").unwrap();
    let others = ["127.0.0.1", "::1", "198.19.0.1"].map(|ip| ip.parse::<IpAddr>().unwrap());
    for to in both(&here).into_iter().chain(others) {
        let error = reservation.next_hop(to).unwrap_err();
        assert!(matches!(error, ResolveError::Own(own) if own == to), "{to}: {error}");
    }
}

fn groups_are_refused() {
    let fabric = testing::fabric("groups_are_refused", |_| {});
    let _inside = fabric.node(1).enter().unwrap();
    let reservation = reserve(PORT, "eth0").unwrap();
    for to in ["198.18.0.255", "255.255.255.255", "224.0.0.1", "ff02::1", "0.0.0.0", "::"] {
        let error = reservation.next_hop(to.parse().unwrap()).unwrap_err();
        assert!(matches!(error, ResolveError::NoNode(_)), "{to}: {error}");
    }
}

fn a_reservation_stays_in_its_namespace() {
    let fabric = testing::fabric("a_reservation_stays_in_its_namespace", |_| {});
    let (here, there) = (fabric.node(1), fabric.node(2));
    let reservation = {
        let _inside = here.enter().unwrap();
        reserve(PORT, "eth0").unwrap()
    };
    forget(&here, there.ipv4.into());
    let hop = reservation.next_hop(there.ipv4.into()).unwrap();
    assert_eq!(hop, Hop { source: here.ipv4.into(), next_hop: MacAddr(there.mac) });
}

fn a_reserved_port_is_silent_and_queues_nothing() {
    let fabric = testing::fabric("a_reserved_port_is_silent_and_queues_nothing", |_| {});
    let (here, there) = (fabric.node(1), fabric.node(2));
    let sender = {
        let _inside = here.enter().unwrap();
        [UdpSocket::bind("0.0.0.0:0").unwrap(), UdpSocket::bind("[::]:0").unwrap()]
    };
    let send = || {
        for (socket, to) in sender.iter().zip(both(&there)) {
            socket.send_to(b"a datagram", (to, PORT)).unwrap();
        }
    };
    let _inside = there.enter().unwrap();
    // Without a reservation the kernel answers: what is counted below does count.
    let before = Refusals::read();
    send();
    Refusals::until(|now| now.unreachable == before.unreachable + 2);

    let reservation = reserve(PORT, "eth0").unwrap();
    let before = Refusals::read();
    send();
    let after = Refusals::until(|now| now.dropped == before.dropped + 2);
    assert_eq!(after.unreachable, before.unreachable);
    for queue in ["udp", "udp6"] {
        let sockets = std::fs::read_to_string(format!("/proc/thread-self/net/{queue}")).unwrap();
        let ours: Vec<&str> = sockets.lines().filter(|line| line.contains(":12B7 ")).collect();
        assert_eq!(ours.len(), 1, "{sockets}");
        assert!(ours[0].contains(" 00000000:00000000 "), "something is queued: {}", ours[0]);
    }
    drop(reservation);
}

/// What the kernel did with datagrams that it could not deliver, IPv4 and IPv6 together.
#[derive(Debug)]
struct Refusals {
    /// ICMP messages "destination unreachable" that were sent.
    unreachable: u64,
    /// Datagrams that a socket did not take.
    dropped: u64,
}

impl Refusals {
    fn read() -> Self {
        let ipv4 = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
        let ipv6 = std::fs::read_to_string("/proc/thread-self/net/snmp6").unwrap();
        let old = |protocol: &str, counter: &str| -> u64 {
            let mut lines = ipv4.lines().filter(|line| line.starts_with(protocol));
            let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
            let place = names.split(' ').position(|name| name == counter).unwrap();
            values.split(' ').nth(place).unwrap().parse().unwrap()
        };
        let new = |counter: &str| -> u64 {
            let line = ipv6.lines().find(|line| line.split_whitespace().next() == Some(counter));
            line.unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        Self {
            unreachable: old("Icmp:", "OutDestUnreachs") + new("Icmp6OutDestUnreachs"),
            dropped: old("Udp:", "InErrors") + new("Udp6InErrors"),
        }
    }

    /// Waits for what must come; the bound only ends a test that fails.
    fn until(reached: impl Fn(&Self) -> bool) -> Self {
        let start = Instant::now();
        loop {
            let now = Self::read();
            if reached(&now) {
                return now;
            }
            assert!(start.elapsed() < PATIENCE, "still {now:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn a_port_in_use_is_refused() {
    let fabric = testing::fabric("a_port_in_use_is_refused", |_| {});
    let _inside = fabric.node(1).enter().unwrap();
    for address in ["0.0.0.0", "::"] {
        let foreign = UdpSocket::bind((address, PORT)).unwrap();
        let error = reserve(PORT, "eth0").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(error.to_string().contains("4791 is in use"), "{error}");
        drop(foreign);
        let reservation = reserve(PORT, "eth0").unwrap();
        reserve(PORT, "eth0").expect("endpoints on other channels share it");
        UdpSocket::bind((address, PORT)).expect_err("others do not");
        drop(reservation);
    }
    assert_eq!(reserve(0, "eth0").unwrap_err().kind(), ErrorKind::InvalidInput);
}

fn an_unknown_interface_is_refused() {
    let fabric = testing::fabric("an_unknown_interface_is_refused", |_| {});
    let _inside = fabric.node(1).enter().unwrap();
    let error = reserve(PORT, "eth9").unwrap_err().to_string();
    assert!(error.contains("no interface 'eth9'"), "{error}");
}
