//! Endpoints over UDP sockets: for everybody, and with those over other links in the UDP envelope.

use super::*;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// The addresses of nodes in both families.
const ADDRESSES: [fn(&Fabric, u16) -> Address; 2] = [
    |fabric, n| IpAddr::from(fabric.node(n).ipv4).into(),
    |fabric, n| IpAddr::from(fabric.node(n).ipv6).into(),
];

pub(crate) fn messages_and_operations_pass_over_udp_sockets_at_every_mtu() {
    for mtu in [1500, 9000] {
        let fabric = testing::fabric("udplink", |config: &mut FabricConfig| config.mtu = mtu);
        let options = options(Backend::Udp).envelope(UDP);
        exchange(&fabric, &options, true, 5_000);
        for address in ADDRESSES {
            operate_with(&fabric, &options, |n| address(&fabric, n));
        }
    }
}

pub(crate) fn udp_sockets_and_the_other_links_understand_each_other() {
    // With jumbo frames, plain messages over AF_XDP are shorter than over the others.
    for (mtu, other) in [(1500, Backend::Xdp), (1500, Backend::Packet), (9000, Backend::Packet)] {
        let fabric = testing::fabric("udpmixed", |config: &mut FabricConfig| config.mtu = mtu);
        for address in ADDRESSES {
            let [a, b] = [(1, Backend::Udp), (2, other)]
                .map(|(n, link)| on(&fabric.node(n), options(link).envelope(UDP)).unwrap());
            let [to_a, to_b] = [1, 2].map(|n| address(&fabric, n));
            std::thread::scope(|scope| {
                scope.spawn(move || converse(&a, to_b, 1000));
                scope.spawn(move || converse(&b, to_a, 1000));
            });
        }
    }
}

pub(crate) fn udp_sockets_lose_no_message_where_the_wire_loses_and_doubles_buffers() {
    let fabric = testing::fabric("udpwild", |config: &mut FabricConfig| {
        config.loss = 0.02;
        config.duplicate = 0.01;
        config.corrupt = 0.01;
        config.seed = 7;
    });
    let options = options(Backend::Udp).envelope(UDP);
    exchange(&fabric, &options, true, 3_000);
    operate_with(&fabric, &options, |n| IpAddr::from(fabric.node(n).ipv4).into());
}

/// Without any capability: `Auto` finds the socket, says why, and a message goes to and fro.
pub(crate) fn an_ordinary_user_opens_an_endpoint_in_the_udp_envelope() {
    let fabric = testing::fabric("udpuser", |_| ());
    let b = on(&fabric.node(2), options(Backend::Udp).envelope(UDP)).unwrap();
    let _inside = fabric.node(1).enter().unwrap();
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .unwrap();
    let refused = options(Backend::Auto).open().expect_err("a raw socket takes a capability");
    let refused = refused.to_string();
    assert!(refused.contains("in the UDP envelope"), "{refused}");
    let a = options(Backend::Auto).envelope(UDP).open().unwrap();
    assert_eq!(a.link().mode, Mode::Udp);
    let reason = &a.link().reason;
    assert!(reason.contains("AF_PACKET was refused: opening a packet socket"), "{reason}");
    let to_b = a.peer(IpAddr::from(fabric.node(2).ipv4)).unwrap();
    a.send(to_b, b"hello").unwrap();
    let question = b.recv_timeout(PATIENCE).unwrap().expect("it came");
    b.send(question.from(), &question).unwrap();
    assert_eq!(&a.recv_timeout(PATIENCE).unwrap().expect("the answer came")[..], b"hello");
}

pub(crate) fn a_udp_port_has_one_endpoint_and_the_error_says_so() {
    let fabric = testing::fabric("udpport", |_| ());
    let node = fabric.node(1);
    let open = |port| on(&node, options(Backend::Udp).envelope(Envelope::Udp { port }));
    let first = open(4791).unwrap();
    let error = open(4791).expect_err("it is in use").to_string();
    assert!(error.contains("UDP port 4791 of 'eth0' is in use"), "{error}");
    open(4792).unwrap();
    drop(first);
    open(4791).unwrap();
    let error = on(&node, options(Backend::Udp)).expect_err("an EtherType").to_string();
    assert!(error.contains("choose the UDP envelope"), "{error}");
    let error = open(0).expect_err("a port that peers cannot know").to_string();
    assert!(error.contains("choose one from 1 to 65535"), "{error}");
}

/// Processes of ordinary users share a NIC so. Each has its own UDP port, and other nodes with any
/// link reach it there; those of its node reach it through memory.
pub(crate) fn endpoints_that_share_a_nic_have_udp_ports_of_their_own() {
    let fabric = testing::fabric("udpshare", |_| ());
    let taken = {
        let _inside = fabric.node(1).enter().unwrap();
        std::net::UdpSocket::bind("0.0.0.0:4792").unwrap()
    };
    for family in [|node: Node| IpAddr::from(node.ipv4), |node: Node| IpAddr::from(node.ipv6)] {
        let open = |(n, link)| {
            let options = options(link).envelope(UDP).sharing(Sharing::Auto).local(true);
            on(&fabric.node(n), options).unwrap()
        };
        let links = [Backend::Udp, Backend::Udp, Backend::Udp, Backend::Packet, Backend::Udp];
        let nodes = [1, 1, 1, 2, 2];
        let mut ends = nodes.into_iter().zip(links).map(open).collect::<Vec<_>>();
        let ids: Vec<_> = ends.iter().map(|end| end.identity().address.port_id()).collect();
        assert_eq!(ids, [0, 32_770, 32_771, 0, 32_769], "one port is another program's");
        let address = |(n, id)| Address::from(family(fabric.node(n))).port(id);
        let addresses: Vec<_> = nodes.into_iter().zip(ids).map(address).collect();
        all_with_all(&mut ends, &nodes.map(|n| fabric.node(n)), &addresses);
        for end in &ends {
            let counters = end.counters().link;
            assert!(counters.memory_tx_frames > 100, "{counters:?}");
        }
    }
    drop(taken);
}

/// The progress thread begins in the namespace of the process's first endpoint. It answers a
/// neighbour of another one, which only memory leads to.
pub(crate) fn an_endpoint_of_another_namespace_answers_its_neighbour_although_its_program_computes()
{
    let fabric = testing::fabric("udpother", |_| ());
    let open = |n| {
        let options = options(Backend::Packet).envelope(UDP).sharing(Sharing::Auto).local(true);
        on(&fabric.node(n), options).unwrap()
    };
    let (_first, sender, computes) = (open(1), open(2), open(2));
    let own = IpAddr::from(fabric.node(2).ipv4);
    let port = computes.identity().address.port_id();
    let inside = fabric.node(2).enter().unwrap();
    sender.send(sender.peer(Address::from(own).port(port)).unwrap(), b"8 bytes.").unwrap();
    sender.drain(PATIENCE).unwrap();
    assert_eq!(&computes.recv().unwrap()[..], b"8 bytes.");
    drop(inside);
}

/// Each sends as many numbered messages to each other one. Every byte is checked. Endpoints find
/// those of their node from its namespace only.
fn all_with_all(ends: &mut [Endpoint], nodes: &[Node], addresses: &[Address]) {
    let count = 300;
    std::thread::scope(|scope| {
        for ((end, own), node) in ends.iter_mut().zip(addresses).zip(nodes) {
            let others = addresses.iter().filter(move |other| *other != own);
            let mut left: Vec<_> = others.map(|&to| (to, end.peer(to).unwrap(), 0)).collect();
            scope.spawn(move || {
                let _inside = node.enter().unwrap();
                let (max, mut got) = (end.max_message(), std::collections::HashMap::new());
                let all = left.len() as u32 * count;
                loop {
                    for (_, peer, sent) in &mut left {
                        while *sent < count && end.try_send(*peer, &body(*sent, max)).is_ok() {
                            *sent += 1;
                        }
                    }
                    let sending = left.iter().any(|to| to.2 < count);
                    // All may have come before the last one is sent.
                    if !sending && got.values().sum::<u32>() == all {
                        break;
                    }
                    let patience = if sending { Duration::ZERO } else { PATIENCE };
                    let message = end.recv_timeout(patience).unwrap_or_else(|error| {
                        let why = end.take_failure().map(|failed| failed.to_string());
                        panic!("{own}: {error}: {why:?}, got {got:?}");
                    });
                    let Some(message) = message else {
                        assert!(sending, "{own} got {got:?} of {all} messages in time");
                        continue;
                    };
                    let from = got.entry(end.address(message.from())).or_default();
                    assert_eq!(message[..], body(*from, max));
                    *from += 1;
                }
                assert!(addresses.iter().all(|to| to == own || got[to] == count), "{got:?}");
                end.drain(PATIENCE).unwrap();
            });
        }
    });
}

/// A question to the subnet, by the IPv4 broadcast address.
pub(crate) fn endpoints_over_udp_sockets_find_each_other() {
    let fabric = testing::fabric("udpfind", |config| config.nodes = 3);
    let open = |n: u16, link| {
        let options = options(link).envelope(UDP).name(&format!("node-{n}"));
        on(&fabric.node(n), options).unwrap()
    };
    // Their programs make no calls.
    let _others = [open(2, Backend::Udp), open(3, Backend::Packet)];
    // The second one has its own UDP port, and asks at the port of all nodes.
    let found = [0, 32_769].map(|port| {
        let options = options(Backend::Udp).envelope(UDP).name("node-1").port(port);
        let requester = on(&fabric.node(1), options).unwrap();
        let ask = || requester.discover(Duration::from_millis(100)).unwrap();
        (0..100).map(|_| ask()).find(|found| found.len() == 2).expect("both answer")
    });
    for found in found {
        let ips: Vec<_> = found.iter().map(|found| found.ip).collect();
        assert_eq!(ips, [2, 3].map(|n| Some(IpAddr::from(fabric.node(n).ipv4))));
    }
}
