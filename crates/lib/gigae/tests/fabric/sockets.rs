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
    let fabric = testing::fabric("udpmixed", |_| ());
    for other in [Backend::Xdp, Backend::Packet] {
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

/// A question to the subnet, by the IPv4 broadcast address.
pub(crate) fn endpoints_over_udp_sockets_find_each_other() {
    let fabric = testing::fabric("udpfind", |config| config.nodes = 3);
    let open = |n: u16, link| {
        let options = options(link).envelope(UDP).name(&format!("node-{n}"));
        on(&fabric.node(n), options).unwrap()
    };
    let found = while_alive(vec![open(2, Backend::Udp), open(3, Backend::Packet)], || {
        let asker = open(1, Backend::Udp);
        let ask = || asker.discover(Duration::from_millis(100)).unwrap();
        (0..100).map(|_| ask()).find(|found| found.len() == 2).expect("both answer")
    });
    let ips: Vec<_> = found.iter().map(|found| found.ip).collect();
    assert_eq!(ips, [2, 3].map(|n| Some(IpAddr::from(fabric.node(n).ipv4))));
}
