//! The UDP backend on a fabric, held to the suite for all links.

use gigae_fabric::{Node, testing};
use gigae_link::conformance::{Kernels, Options, Pair};
use gigae_link::conformance_tests;
use gigae_udp::{UdpConfig, UdpLink};
use gigae_wire::{Envelope, MacAddr, NodeAddr, Route};
use std::net::IpAddr;

const UDP: Envelope = Envelope::Udp { port: 4791 };

fn main() {
    let mut tests = Vec::new();
    tests.extend(conformance_tests!("ipv4", UDP, over_ipv4));
    tests.extend(conformance_tests!("ipv6", UDP, over_ipv6));
    tests.extend(conformance_tests!("ipv4, MTU 9000", UDP, over_ipv4, 9000));
    tests.extend(conformance_tests!("ipv6, MTU 9000", UDP, over_ipv6, 9000));
    testing::run(&tests);
}

fn over_ipv4(options: &Options) -> Pair {
    pair(options, |node| node.ipv4.into())
}

fn over_ipv6(options: &Options) -> Pair {
    pair(options, |node| node.ipv6.into())
}

fn pair(options: &Options, ip: fn(&Node) -> IpAddr) -> Pair {
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
    Pair {
        a,
        b,
        to_b: Route::new(UDP, at_a, at_b).unwrap(),
        to_a: Route::new(UDP, at_b, at_a).unwrap(),
        kernels: Some(Kernels { addresses, enter }),
        ground: Box::new(fabric),
    }
}
