//! The UDP backend on a fabric, held to the suite for all links.

use gigae_fabric::{Node, testing};
use gigae_link::conformance::{Kernels, LinkPair, PairOptions};
use gigae_link::conformance_tests;
use gigae_udp::{BulkLink, UdpConfig, UdpLink};
use gigae_wire::{Envelope, MacAddr, NodeAddr, Route};
use std::net::IpAddr;

const UDP: Envelope = Envelope::Udp { port: 4791 };

/// What the suite asks of links that links for bulk data are not: their frames are longer than the
/// MTU, no endpoint asks all nodes by them, and a socket does not buffer as many of the longest
/// frames as a ring. `tests/bulk.rs` has what takes the place of these.
const NOT_BULK: [&str; 4] = [
    "frames_of_every_length_arrive_unchanged",
    "questions_to_all_are_seen_on_every_channel",
    "a_flush_of_nothing_but_the_longest_frames_arrives_whole",
    "a_receiver_that_holds_every_frame_drops_and_recovers",
];

fn main() {
    let mut tests = Vec::new();
    tests.extend(conformance_tests!("ipv4", UDP, over_ipv4));
    tests.extend(conformance_tests!("ipv6", UDP, over_ipv6));
    tests.extend(conformance_tests!("ipv4, MTU 9000", UDP, over_ipv4, 9000));
    tests.extend(conformance_tests!("ipv6, MTU 9000", UDP, over_ipv6, 9000));
    let bulk = [
        conformance_tests!("bulk, ipv6", UDP, bulk_over_ipv6),
        conformance_tests!("bulk, MTU 9000", UDP, bulk_over_ipv4, 9000),
    ];
    tests.extend(
        bulk.concat()
            .into_iter()
            .filter(|(name, _)| !NOT_BULK.iter().any(|not| name.ends_with(not))),
    );
    testing::for_users_except(&[]).run(&tests);
}

fn over_ipv4(options: &PairOptions) -> LinkPair {
    pair(options, |node| node.ipv4.into())
}

fn over_ipv6(options: &PairOptions) -> LinkPair {
    pair(options, |node| node.ipv6.into())
}

fn bulk_over_ipv4(options: &PairOptions) -> LinkPair {
    bulk_pair(options, |node| node.ipv4.into())
}

fn bulk_over_ipv6(options: &PairOptions) -> LinkPair {
    bulk_pair(options, |node| node.ipv6.into())
}

/// Links for bulk data: their ports are the kernel's choice.
fn bulk_pair(options: &PairOptions, ip: fn(&Node) -> IpAddr) -> LinkPair {
    let fabric = testing::fabric("a pair of bulk links", |config| config.mtu = options.mtu as u32);
    let nodes = [fabric.node(1), fabric.node(2)];
    let [a, b] = [0, 1].map(|i: usize| {
        let _inside = nodes[i].enter().unwrap();
        let filter = options.filter.clone();
        Box::new(BulkLink::open(nodes[i].interface, ip(&nodes[i]), filter).unwrap())
    });
    let route = |from: &BulkLink, to: &BulkLink| {
        let node = |ip| NodeAddr::Ip { ip, next_hop: MacAddr::default() };
        let envelope = Envelope::Udp { port: from.at().port() };
        Route::to_port(envelope, node(from.at().ip()), node(to.at().ip()), to.at().port())
    };
    let (to_b, to_a) = (route(&a, &b).unwrap(), route(&b, &a).unwrap());
    LinkPair { a, b, to_b, to_a, kernels: None, keep_alive: Box::new(fabric) }
}

fn pair(options: &PairOptions, ip: fn(&Node) -> IpAddr) -> LinkPair {
    let fabric = testing::fabric("a pair of UDP links", |config| config.mtu = options.mtu as u32);
    let nodes = [fabric.node(1), fabric.node(2)];
    let [a, b] = [0, 1].map(|i: usize| {
        let _inside = nodes[i].enter().unwrap();
        let mut config = UdpConfig::new(nodes[i].interface, options.filter.clone());
        config.tx_frames = options.tx_frames;
        config.rx_frames = options.rx_frames;
        Box::new(UdpLink::open(config).unwrap())
    });
    let [at_a, at_b] =
        [0, 1].map(|i: usize| NodeAddr::Ip { ip: ip(&nodes[i]), next_hop: MacAddr::default() });
    let addresses = [ip(&nodes[0]), ip(&nodes[1])];
    let enter = nodes.map(|node| -> gigae_link::conformance::Enter {
        Box::new(move || Box::new(node.enter().unwrap()))
    });
    LinkPair {
        a,
        b,
        to_b: Route::new(UDP, at_a, at_b).unwrap(),
        to_a: Route::new(UDP, at_b, at_a).unwrap(),
        kernels: Some(Kernels { addresses, enter }),
        keep_alive: Box::new(fabric),
    }
}
