//! What blocks datagrams: firewalls, ICMP, MTUs, a missing family of addresses.

use super::*;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::Ipv4Addr;
use std::process::Command;

/// Runs a command on a node, or on the switch with 0.
fn run(fabric: &Fabric, node: u16, program: &str, arguments: &str) {
    let mut command = match node {
        0 => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &format!("{}-sw", fabric.config().prefix), program]);
            command
        }
        node => fabric.node(node).command(program).unwrap(),
    };
    let output = command.args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "{program} {arguments}: {output:?}");
}

/// A message there and one back.
fn there_and_back(a: &Endpoint, b: &Endpoint, to_b: gigae::Peer, text: &[u8]) {
    a.send(to_b, text).unwrap();
    let question = b.recv_timeout(PATIENCE).unwrap().expect("it came");
    assert!(question[..] == *text);
    b.send(question.from(), &question).unwrap();
    assert!(a.recv_timeout(PATIENCE).unwrap().expect("the answer came")[..] == *text);
}

fn sockets(fabric: &Fabric) -> ([Endpoint; 2], gigae::Peer) {
    let options = options(Backend::Udp).envelope(UDP);
    let [a, b] = [1, 2].map(|n| on(&fabric.node(n), options.clone()).unwrap());
    let to_b = a.peer(IpAddr::from(fabric.node(2).ipv4)).unwrap();
    ([a, b], to_b)
}

/// The kernel there answers with ICMP while no process has the port, and strangers may send more of
/// it.
pub(crate) fn icmp_ends_no_link_over_a_udp_socket() {
    let fabric = testing::fabric("udpicmp", |config| config.nodes = 3);
    let ([a, b], to_b) = sockets(&fabric);
    drop(b);
    a.send(to_b, b"first").unwrap();
    for _ in 0..20 {
        assert!(a.recv_timeout(Duration::from_millis(10)).unwrap().is_none());
    }
    let b = on(&fabric.node(2), options(Backend::Udp).envelope(UDP)).unwrap();
    assert_eq!(&b.recv_timeout(PATIENCE).unwrap().expect("it was repeated")[..], b"first");
    let full = vec![7; a.max_message()];
    there_and_back(&a, &b, to_b, &full);
    let _inside = fabric.node(3).enter().unwrap();
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap();
    let ends = [fabric.node(1).ipv4, fabric.node(2).ipv4];
    // Host and port unreachable, prohibited, and "fragmentation needed" with a tiny MTU.
    for (code, mtu) in [(1, 0), (3, 0), (13, 0), (4, 296)] {
        socket
            .send_to(
                &unreachable(code, mtu, ends),
                &std::net::SocketAddr::from((ends[0], 0)).into(),
            )
            .unwrap();
    }
    for _ in 0..10 {
        there_and_back(&a, &b, to_b, &full);
    }
}

/// An ICMP message "destination unreachable" (RFC 792) about a datagram between these.
fn unreachable(code: u8, mtu: u16, [from, to]: [Ipv4Addr; 2]) -> Vec<u8> {
    let port = 4791_u16.to_be_bytes();
    let udp = [&port[..], &port, &1472_u16.to_be_bytes(), &[0, 0]].concat();
    let ip = [&[0x45, 0, 5, 0xdc, 0, 0, 0x40, 0, 64, 17, 0, 0][..], &from.octets(), &to.octets()];
    let mut message = [&[3, code, 0, 0, 0, 0][..], &mtu.to_be_bytes(), &ip.concat(), &udp].concat();
    let sum: u32 = message.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let check = !((sum & 0xffff) + (sum >> 16)) as u16;
    message[2..4].copy_from_slice(&check.to_be_bytes());
    message
}

/// A wall at the second node, as firewalls are: what comes from the first is dropped. The kernels
/// of small machines have no firewall, but they check where sources are.
fn wall(fabric: &Fabric, is_up: bool) {
    let (from, action) = (fabric.node(1).ipv4, if is_up { "add" } else { "del" });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _inside = fabric.node(2).enter().unwrap();
            std::fs::write("/proc/sys/net/ipv4/conf/eth0/rp_filter", "1").unwrap();
        });
    });
    run(fabric, 2, "ip", &format!("route {action} blackhole {from}/32"));
}

pub(crate) fn a_firewall_that_opens_again_costs_no_message() {
    let fabric = testing::fabric("udpwall", |_| ());
    let ([a, b], to_b) = sockets(&fabric);
    there_and_back(&a, &b, to_b, b"before");
    wall(&fabric, true);
    a.send(to_b, b"meanwhile").unwrap();
    for _ in 0..30 {
        assert!(a.recv_timeout(Duration::from_millis(10)).unwrap().is_none());
    }
    assert!(b.recv_timeout(Duration::from_millis(1)).unwrap().is_none(), "it is a wall");
    wall(&fabric, false);
    assert_eq!(&b.recv_timeout(PATIENCE).unwrap().expect("it came late")[..], b"meanwhile");
    there_and_back(&a, &b, to_b, b"after");
}

/// Only the socket's datagrams meet it: the link carries what is long.
pub(crate) fn a_firewall_on_the_bulk_sockets_port_leaves_long_messages_to_the_link() {
    let fabric = testing::fabric("bulkwall", |_| ());
    wall(&fabric, true);
    let [a, b] = pair(&fabric, &options(Backend::Packet));
    let to_b = Address::from(gigae::MacAddr(fabric.node(2).mac));
    exchange_long(&a, &b, &to_b, 0..5);
    assert_eq!((b.paths().len(), received(&b)[1]), (2, 0), "nothing came by the socket");
}

/// The parts by which a UDP link carries a bulk frame are datagrams of one length. On a virtual
/// link, a peer whose link takes frames would get the kernel's buffer of them as one frame.
pub(crate) fn where_the_bulk_socket_stops_to_work_a_udp_link_carries_long_messages_to_any_link() {
    for backend in [Backend::Packet, Backend::XdpMode(Mode::XdpGeneric)] {
        let fabric = testing::fabric("bulkparts", |_| ());
        let open = |n, backend| on(&fabric.node(n), options(backend).envelope(UDP)).unwrap();
        let (a, b) = (open(1, Backend::Udp), open(2, backend));
        let to_b = IpAddr::from(fabric.node(2).ipv4).into();
        // The first ones ask whether the socket works. Long ones would show the link that buffers
        // get lost.
        let (mut sent, end) = (0, std::time::Instant::now() + PATIENCE);
        while received(&b)[1] < 10 {
            assert!(std::time::Instant::now() < end, "the socket is not used");
            exchange_sized(&a, &b, &to_b, (sent..sent + 1, 5_000));
            sent += 1;
        }
        exchange_long(&a, &b, &to_b, sent..sent + 2);
        let [link, socket] = received(&b);
        assert!(link < 100 && socket > 0, "{link} frames by the link, {socket} by the socket");
        // Only the kernel's sockets there are behind it.
        wall(&fabric, true);
        exchange_long(&a, &b, &to_b, sent + 2..sent + 5);
    }
}

/// A switch passes no long frames any more: neither those of the socket, nor jumbo frames of the
/// link.
pub(crate) fn an_mtu_that_shrinks_on_the_way_costs_no_long_message() {
    for options in [options(Backend::Packet), options(Backend::Udp).envelope(UDP)] {
        let by_ip = options.filter().envelope == UDP;
        let fabric = testing::fabric("bulkmtu", |config| config.mtu = 9000);
        let [a, b] = pair(&fabric, &options);
        let to_b = match by_ip {
            true => IpAddr::from(fabric.node(2).ipv4).into(),
            false => Address::from(gigae::MacAddr(fabric.node(2).mac)),
        };
        exchange_long(&a, &b, &to_b, 0..5);
        run(&fabric, 0, "ip", "link set p2 mtu 1500");
        exchange_long(&a, &b, &to_b, 5..8);
    }
}

/// Frames of the link were under way when the network began to drop such long ones. They are
/// numbered, so they go in parts.
pub(crate) fn a_link_that_carries_less_than_before_costs_no_long_message() {
    for backend in [Backend::Packet, Backend::Xdp] {
        let fabric = testing::fabric("linkmtu", |config| config.mtu = 9000);
        let [a, b] = pair(&fabric, &options(backend));
        let to_b = Address::from(gigae::MacAddr(fabric.node(2).mac));
        exchange_long(&a, &b, &to_b, 0..5);
        // From now on the link carries everything, in its longest frames.
        wall(&fabric, true);
        exchange_long(&a, &b, &to_b, 5..8);
        let before = received(&b);
        exchange_long(&a, &b, &to_b, 8..9);
        let [link, socket] = [0, 1].map(|path| received(&b)[path] - before[path]);
        assert!((30..200).contains(&link) && socket == 0, "{link} frames by the link, {socket}");
        run(&fabric, 0, "ip", "link set p2 mtu 1500");
        exchange_long(&a, &b, &to_b, 9..15);
        assert_eq!(a.counters().protocol.black_holes, 1);
    }
}

pub(crate) fn nodes_with_ipv6_alone_have_a_socket_for_long_messages() {
    let fabric = testing::fabric("bulkv6", |_| ());
    for node in [1, 2] {
        run(&fabric, node, "ip", "-4 address flush dev eth0");
    }
    let [a, b] = pair(&fabric, &options(Backend::Packet));
    exchange_long(&a, &b, &Address::from(gigae::MacAddr(fabric.node(2).mac)), 0..5);
    assert!(received(&b)[1] > 0, "{:?}", b.paths());
    drop((a, b));
    let [a, b] = pair(&fabric, &options(Backend::Udp).envelope(UDP));
    assert_eq!(b.identity().address, IpAddr::from(fabric.node(2).ipv6).into());
    exchange_long(&a, &b, &b.identity().address, 0..5);
}
