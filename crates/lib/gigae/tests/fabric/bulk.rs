//! The socket for bulk data beside a link: what goes by it, and what happens when it stops to work.

use super::*;
use gigae::{Memory, Wanted};
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const LONG: usize = 300_000;

/// The first bytes of message `n`.
fn long(n: u32, len: usize) -> Vec<u8> {
    body(n, 1400).into_iter().chain((0..).map(|i: u32| (i ^ n) as u8)).take(len).collect()
}

/// Sends messages of this range, each when the one before has arrived whole.
pub(crate) fn exchange_long(
    a: &Endpoint,
    b: &Endpoint,
    address: &Address,
    range: std::ops::Range<u32>,
) {
    exchange_sized(a, b, address, (range, LONG));
}

/// The same with messages of this length.
pub(crate) fn exchange_sized(
    a: &Endpoint,
    b: &Endpoint,
    address: &Address,
    (range, len): (std::ops::Range<u32>, usize),
) {
    let to_b = a.peer(*address).unwrap();
    for n in range {
        b.start_recv(Wanted::tag(u64::from(n)), vec![0; len]).unwrap();
        a.start_send(to_b, u64::from(n), long(n, len)).unwrap();
        let mut got = None;
        let end = std::time::Instant::now() + PATIENCE;
        while got.is_none() {
            assert!(
                std::time::Instant::now() < end,
                "message {n} does not arrive: {:?} {:?}",
                a.paths(),
                b.paths()
            );
            a.progress().unwrap();
            got = b.completion_timeout(Duration::from_millis(1)).unwrap();
        }
        let completion = got.unwrap();
        completion.result.unwrap();
        let bytes = completion.memory.and_then(Memory::into_vec).unwrap();
        assert!(bytes == long(n, len), "message {n}");
        let sent = a.completion_timeout(PATIENCE).unwrap().expect("it is acknowledged");
        sent.result.unwrap();
    }
}

/// Frames that an endpoint has received by its link and by its socket.
pub(crate) fn received(endpoint: &Endpoint) -> [u64; 2] {
    let paths = endpoint.paths();
    [0, 1].map(|path| paths.get(path).map_or(0, |path| path.link.rx_frames))
}

pub(crate) fn pair(fabric: &Fabric, options: &Options) -> [Endpoint; 2] {
    [1, 2].map(|n| on(&fabric.node(n), options.clone()).unwrap())
}

pub(crate) fn long_messages_go_by_the_socket_and_short_ones_by_the_link() {
    for mtu in [1500, 9000] {
        let fabric = testing::fabric("bulk", |config: &mut FabricConfig| config.mtu = mtu);
        for backend in [Backend::Xdp, Backend::Packet] {
            let [a, b] = pair(&fabric, &options(backend));
            let to_b = Address::from(gigae::MacAddr(fabric.node(2).mac));
            exchange_long(&a, &b, &to_b, 0..2);
            let before = received(&b);
            exchange_long(&a, &b, &to_b, 2..12);
            let after = received(&b);
            let [link, socket] = [0, 1].map(|path| after[path] - before[path]);
            // Ten messages in frames of up to 64 KiB. The link has an offer for each, and
            // acknowledgements. On a busy machine frames may be shorter, and one may go by the
            // link, in some 60 parts. All of them would take more than 2,000 frames of the link.
            assert!((40..=1_000).contains(&socket), "{socket} frames by the socket");
            assert!(link <= 300, "{link} frames by the link");
            let counters = b.counters().operations;
            // Not those behind a frame that the receiver does not expect: a question whether the
            // socket works, or a repetition.
            assert!(counters.placed >= 20, "received where they belong: {counters:?}");
            assert_eq!(counters.invalid, 0);
        }
    }
}

/// Messages both ways, which go by the sockets.
fn exchange_by_sockets([a, b]: [&Endpoint; 2], n: u32) {
    for (from, to) in [(a, b), (b, a)] {
        let address = to.identity().address;
        // The first ones ask whether the sockets work.
        exchange_long(from, to, &address, n..n + 2);
        let before = received(to);
        exchange_long(from, to, &address, n + 2..n + 12);
        let after = received(to);
        let [link, socket] = [0, 1].map(|path| after[path] - before[path]);
        assert!((40..=1_000).contains(&socket), "{socket} frames by the socket");
        assert!(link <= 300, "{link} frames by the link");
    }
}

/// A further process on a NIC has an interface without an IP address. Its socket has the NIC's.
pub(crate) fn a_child_of_a_nic_has_a_socket_at_the_address_of_the_nic() {
    let fabric = testing::fabric("bulkchild", |_| ());
    let near = fabric.node(1);
    let open = |sharing| on(&near, options(Backend::Packet).sharing(sharing)).unwrap();
    let [itself, first, second] = [Sharing::Alone, Sharing::Child, Sharing::Child].map(open);
    let far = on(&fabric.node(2), options(Backend::Packet)).unwrap();
    exchange_by_sockets([&itself, &far], 0);
    exchange_by_sockets([&first, &far], 100);
    // Both at the same address: the datagrams do not leave the node.
    exchange_by_sockets([&first, &second], 200);
    drop((itself, first, second));
    // Memory is faster. Both have a socket.
    let open = |sharing| on(&near, options(Backend::Packet).sharing(sharing).local(true)).unwrap();
    let [itself, child] = [Sharing::Alone, Sharing::Child].map(open);
    exchange_long(&itself, &child, &child.identity().address, 0..2);
    let before = received(&child)[1];
    exchange_long(&itself, &child, &child.identity().address, 2..12);
    assert_eq!((received(&child)[1], child.paths().len()), (before, 2));
    let flush = ["address", "flush", "dev", "eth0"];
    assert!(near.command("ip").unwrap().args(flush).status().unwrap().success());
    assert_eq!(open(Sharing::Child).paths().len(), 1, "no socket without an address");
}

/// To the receiver they have the same IP address, port id and channel. Only the epochs of their
/// sessions say whose frame came by the socket.
pub(crate) fn endpoints_at_one_ip_address_do_not_get_each_others_long_messages() {
    const ROUNDS: u32 = 20;
    let fabric = testing::fabric("bulkcrowd", |_| ());
    let open = |n, sharing| on(&fabric.node(n), options(Backend::Packet).sharing(sharing)).unwrap();
    let here = [Sharing::Alone, Sharing::Child, Sharing::Child].map(|sharing| open(1, sharing));
    let there = open(2, Sharing::Alone);
    let to_there = here.each_ref().map(|end| end.peer(there.identity().address).unwrap());
    let to_here = here.each_ref().map(|end| there.peer(end.identity().address).unwrap());
    for (n, end) in (0..).map(|n| n * 100).zip(&here) {
        exchange_by_sockets([end, &there], n);
    }
    let (before, mut round, end) = (received(&there)[1], 0, Instant::now() + PATIENCE);
    // A message is five frames. On a busy machine the link may have all of them for some seconds.
    while round < ROUNDS || received(&there)[1] < before + 150 {
        for ((which, near), (to, back)) in (0..).zip(&here).zip(to_there.iter().zip(&to_here)) {
            let [there_tag, back_tag] = [0, 1].map(|n| round * 6 + which * 2 + n);
            for (to, tag) in [(&there, there_tag), (near, back_tag)] {
                to.start_recv(Wanted::tag(tag.into()), vec![0; LONG]).unwrap();
            }
            for (from, to, tag) in [(near, to, there_tag), (&there, back, back_tag)] {
                from.start_send(*to, u64::from(tag), long(tag, LONG)).unwrap();
            }
        }
        let mut left = 12;
        while left > 0 {
            assert!(Instant::now() < end, "{left} operations of round {round} left");
            for endpoint in here.iter().chain([&there]) {
                let Some(done) = endpoint.try_completion().unwrap() else { continue };
                done.result.unwrap();
                let tag = done.tag as u32;
                let bytes = done.memory.and_then(Memory::into_vec).unwrap();
                assert!(bytes == long(tag, LONG), "message {tag}");
                if std::ptr::eq(endpoint, &raw const there) {
                    assert_eq!(done.peer, Some(to_here[tag as usize % 6 / 2]), "message {tag}");
                }
                left -= 1;
            }
        }
        round += 1;
    }
}

/// Another process gets neither the port nor a part of what comes to it.
pub(crate) fn the_port_of_a_socket_is_its_own() {
    let fabric = testing::fabric("bulkport", |_| ());
    let near = fabric.node(1);
    let end = on(&near, options(Backend::Packet).sharing(Sharing::Child)).unwrap();
    let port = udp_port(&near);
    let _inside = near.enter().unwrap();
    for ip in [IpAddr::from(near.ipv4), Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]
    {
        let at = SocketAddr::new(ip, port);
        let socket = Socket::new(Domain::for_address(at), Type::DGRAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.set_reuse_port(true).unwrap();
        let refused = socket.bind(&at.into()).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse, "{at}");
    }
    drop(end);
}

/// An ordinary user's link. Its frames are as long as an MTU.
pub(crate) fn beside_a_udp_link_long_messages_go_by_a_socket_of_their_own() {
    let fabric = testing::fabric("bulkudp", |_| ());
    let [a, b] = pair(&fabric, &options(Backend::Udp).envelope(UDP));
    for ip in [IpAddr::from(fabric.node(2).ipv4), fabric.node(2).ipv6.into()] {
        let to_b = Address::from(ip);
        exchange_long(&a, &b, &to_b, 0..2);
        let before = received(&b);
        exchange_long(&a, &b, &to_b, 2..12);
        let after = received(&b);
        let [link, socket] = [0, 1].map(|path| after[path] - before[path]);
        assert!((40..=1_000).contains(&socket), "{socket} frames by the socket to {ip}");
        assert!(link <= 300, "{link} frames by the link to {ip}");
    }
}

/// Answers to a peer go in front of a write, in the same frame. What they leave of it for another
/// frame may be a few bytes.
pub(crate) fn a_long_write_goes_out_behind_answers() {
    let fabric = testing::fabric("bulkanswers", |_| ());
    let [a, b] = pair(&fabric, &options(Backend::Packet));
    let [at_a, at_b] = [1, 2].map(|n| Address::from(gigae::MacAddr(fabric.node(n).mac)));
    exchange_long(&a, &b, &at_b, 0..2);
    let (to_b, to_a) = (a.peer(at_b).unwrap(), b.peer(at_a).unwrap());
    let [short, long] = [(&a, 8), (&b, 60_000)]
        .map(|(end, len)| end.register(vec![0; len], gigae::Rights::WRITE).unwrap());
    let before = received(&b);
    for answers in 0..20 {
        for _ in 0..answers {
            b.start_write(to_a, short, 0, vec![1; 8], None).unwrap();
        }
        b.flush().unwrap();
        std::thread::sleep(Duration::from_micros(200));
        a.start_write(to_b, long, 0, vec![7; 8192], None).unwrap();
        let (end, mut left) = (Instant::now() + PATIENCE, [1, answers]);
        while left != [0, 0] {
            for (end, left) in [&a, &b].into_iter().zip(&mut left) {
                if let Some(done) = end.try_completion().unwrap() {
                    done.result.unwrap();
                    *left -= 1;
                }
            }
            assert!(Instant::now() < end, "{left:?} left of {answers} short writes and a long one");
        }
    }
    assert!(received(&b)[1] >= before[1] + 20, "they go by the socket");
}

pub(crate) fn without_a_socket_the_link_carries_everything() {
    let fabric = testing::fabric("nobulk", |_| ());
    let to_b = Address::from(gigae::MacAddr(fabric.node(2).mac));
    let with = on(&fabric.node(1), options(Backend::Xdp)).unwrap();
    let without = on(&fabric.node(2), options(Backend::Xdp).bulk(false)).unwrap();
    exchange_long(&with, &without, &to_b, 0..5);
    assert_eq!((with.paths().len(), without.paths().len()), (2, 1));
    assert_eq!(received(&without)[1], 0);
}

/// A node that loses its IP address gets nothing by the socket any more, and everything by the
/// link.
pub(crate) fn a_socket_that_stops_to_work_costs_no_message() {
    for (backend, sharing) in [(Backend::Xdp, Sharing::Alone), (Backend::Packet, Sharing::Child)] {
        stops_to_work(backend, sharing);
    }
}

fn stops_to_work(backend: Backend, sharing: Sharing) {
    let fabric = testing::fabric("bulkdies", |_| ());
    let [a, b] = pair(&fabric, &options(backend).sharing(sharing));
    let to_b = b.identity().address;
    exchange_long(&a, &b, &to_b, 0..5);
    let address = |action: &str| {
        let _inside = fabric.node(2).enter().unwrap();
        let at = format!("{}/24", fabric.node(2).ipv4);
        let done = Command::new("ip").args(["address", action, &at, "dev", "eth0"]).status();
        assert!(done.unwrap().success());
    };
    let before = received(&b);
    assert!(before[1] > 0);
    // What is on the way is numbered, so it goes by the link in parts.
    address("del");
    exchange_long(&a, &b, &to_b, 5..10);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(a.paths()[1].counters.deaths, 1);
    address("add");
    // Until it may be asked again.
    std::thread::sleep(Duration::from_millis(1500));
    exchange_long(&a, &b, &to_b, 10..15);
    let before = received(&b);
    exchange_long(&a, &b, &to_b, 15..20);
    assert!(received(&b)[1] >= before[1] + 20, "it carries long messages again");
    assert_eq!(a.paths()[1].counters.returns, 1, "{:?}", a.paths());
}

/// The port of the only UDP socket of a node that is not connected.
fn udp_port(node: &Node) -> u16 {
    let _inside = node.enter().unwrap();
    let sockets = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap();
    let mut ports = sockets.lines().filter_map(|line| {
        let [_, local, remote, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        let (_, port) = local.rsplit_once(':').filter(|_| remote == "00000000:0000")?;
        u16::from_str_radix(port, 16).ok()
    });
    ports.next().expect("a socket")
}

/// Datagrams of a stranger at the peer's own address look like those of bulk frames. They are
/// copied to where data are expected before anybody has verified them, and change no message.
pub(crate) fn a_strangers_datagrams_change_no_long_message() {
    let fabric = testing::fabric("bulkstranger", |_| ());
    let [a, b] = pair(&fabric, &options(Backend::Packet));
    let to_b = Address::from(gigae::MacAddr(fabric.node(2).mac));
    exchange_long(&a, &b, &to_b, 0..2);
    let node = fabric.node(1);
    let (to, done) = ((fabric.node(2).ipv4, udp_port(&fabric.node(2))), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            let _inside = node.enter().unwrap();
            let socket = std::net::UdpSocket::bind((node.ipv4, 0)).unwrap();
            let (mut sent, mut refused) = (0_u32, 0_u32);
            while !done.load(Ordering::Relaxed) {
                // A whole frame in one datagram, and sometimes the first of two that never is
                // followed by the other.
                let length: u16 = if sent % 64 == 63 { 1400 } else { 1392 };
                let mut bytes = [0xa5; 1400];
                bytes[..4].copy_from_slice(&[0xb6, b'G', b'E', 0x9d]);
                bytes[4..6].copy_from_slice(&length.to_be_bytes());
                bytes[6..8].copy_from_slice(&1400_u16.to_be_bytes());
                if socket.send_to(&bytes, to).is_err() {
                    refused += 1;
                }
                sent += 1;
                std::thread::sleep(Duration::from_micros(50));
            }
            sent - refused
        });
        exchange_long(&a, &b, &to_b, 2..40);
        done.store(true, Ordering::Relaxed);
        assert!(stranger.join().unwrap() > 100);
    });
    let counters = b.counters();
    assert!(counters.operations.misplaced > 0, "{:?}", counters.operations);
    assert_eq!(counters.operations.invalid, 0);
}

pub(crate) fn long_messages_survive_a_wire_that_loses_doubles_and_corrupts() {
    let fabric = testing::fabric("bulkwild", |config: &mut FabricConfig| {
        config.loss = 0.02;
        config.duplicate = 0.01;
        config.corrupt = 0.01;
        config.seed = 7;
    });
    let [a, b] = pair(&fabric, &options(Backend::Xdp));
    exchange_long(&a, &b, &Address::from(gigae::MacAddr(fabric.node(2).mac)), 0..30);
}

/// A switch that shapes cuts what the sender's kernel would have it carry whole, and nothing joins
/// it again.
pub(crate) fn where_datagrams_come_one_by_one_each_has_a_number_and_the_link_has_lone_messages() {
    let gigabit = |config: &mut FabricConfig| config.rate = Some(gigae_fabric::Rate::GIGABIT);
    let fabric = testing::fabric("bulkapart", gigabit);
    for backend in [Backend::Packet, Backend::Xdp] {
        let [a, b] = pair(&fabric, &options(backend));
        let to_b = Address::from(gigae::MacAddr(fabric.node(2).mac));
        // The first ones ask how datagrams come.
        exchange_long(&a, &b, &to_b, 0..2);
        let carried = |range, len| {
            let before = received(&b);
            exchange_sized(&a, &b, &to_b, (range, len));
            let after = received(&b);
            [0, 1].map(|path| after[path] - before[path])
        };
        let [link, socket] = carried(2..12, 1 << 20);
        assert!((120..=900).contains(&socket), "{socket} frames by the socket");
        assert!(link <= 1500, "{link} frames by the link");
        assert_eq!(b.counters().operations.placed, 0, "datagrams without numbers come so");
        let [link, socket] = carried(12..22, LONG);
        assert!(socket <= 10, "{socket} frames by the socket");
        assert!(link >= 1600, "{link} frames by the link");
    }
}
