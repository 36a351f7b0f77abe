//! The packet backend on a fabric, held to the suite for all links.

use gigae_fabric::{Node, testing};
use gigae_link::conformance::{Kernels, LinkPair, PairOptions};
use gigae_link::{Link, conformance_tests};
use gigae_macvlan::Child;
use gigae_packet::{PacketConfig, PacketLink, Receive};
use gigae_wire::{Envelope, MacAddr, NodeAddr, Route};
use std::net::IpAddr;

const UDP: Envelope = Envelope::Udp { port: 4791 };

fn main() {
    let mut tests = Vec::new();
    tests.extend(conformance_tests!("ethernet", Envelope::DEFAULT, over_ipv4));
    tests.extend(conformance_tests!("ethernet, MTU 3400", Envelope::DEFAULT, over_ipv4, 3400));
    tests.extend(conformance_tests!("ethernet, MTU 9000", Envelope::DEFAULT, over_ipv4, 9000));
    tests.extend(conformance_tests!("children", Envelope::DEFAULT, children));
    tests.extend(conformance_tests!("udp_over_ipv6, MTU 9000", UDP, over_ipv6, 9000));
    tests.extend(conformance_tests!("udp_over_ipv4", UDP, over_ipv4));
    tests.extend(conformance_tests!("udp_over_ipv6", UDP, over_ipv6));
    tests.extend(conformance_tests!("calls", Envelope::DEFAULT, calls));
    tests.extend(conformance_tests!("calls, MTU 9000", UDP, calls, 9000));
    testing::for_users_except(&[]).run(&tests);
}

fn over_ipv4(options: &PairOptions) -> LinkPair {
    pair(options, |node| node.ipv4.into())
}

fn over_ipv6(options: &PairOptions) -> LinkPair {
    pair(options, |node| node.ipv6.into())
}

/// Links on children of the NICs.
fn children(options: &PairOptions) -> LinkPair {
    let child = |node: &Node| Some(Child::make(node.interface).unwrap());
    pair_on(options, |node| node.ipv4.into(), child, Receive::Ring)
}

/// Links without rings.
fn calls(options: &PairOptions) -> LinkPair {
    pair_on(options, |node| node.ipv4.into(), |_| None, Receive::Calls)
}

fn pair(options: &PairOptions, ip: fn(&Node) -> IpAddr) -> LinkPair {
    pair_on(options, ip, |_| None, Receive::Ring)
}

fn pair_on(
    options: &PairOptions,
    ip: fn(&Node) -> IpAddr,
    child: fn(&Node) -> Option<Child>,
    receive: Receive,
) -> LinkPair {
    let fabric =
        testing::fabric("a pair of packet links", |config| config.mtu = options.mtu as u32);
    let nodes = [fabric.node(1), fabric.node(2)];
    let [(a, first), (b, second)] = [0, 1].map(|i: usize| {
        let _inside = nodes[i].enter().unwrap();
        let child = child(&nodes[i]);
        let name = child.as_ref().map_or(nodes[i].interface, Child::name);
        let mut config = PacketConfig::new(name, options.filter.clone());
        config.tx_frames = options.tx_frames;
        config.rx_frames = options.rx_frames;
        config.receive = receive;
        (Box::new(PacketLink::open(config).unwrap()), child)
    });
    let envelope = options.filter.envelope;
    let address = |node: &Node, mac| match envelope {
        Envelope::Ethernet { .. } => NodeAddr::Ethernet(mac),
        Envelope::Udp { .. } => NodeAddr::Ip { ip: ip(node), next_hop: MacAddr(node.mac) },
    };
    let [at_a, at_b] =
        [(0, a.info().mac), (1, b.info().mac)].map(|(i, mac)| address(&nodes[i], mac));
    let addresses = [ip(&nodes[0]), ip(&nodes[1])];
    let enter = nodes.map(|node| -> gigae_link::conformance::Enter {
        Box::new(move || Box::new(node.enter().unwrap()))
    });
    LinkPair {
        a,
        b,
        to_b: Route::new(envelope, at_a, at_b).unwrap(),
        to_a: Route::new(envelope, at_b, at_a).unwrap(),
        kernels: Some(Kernels { addresses, enter }),
        keep_alive: Box::new((first, second, fabric)),
    }
}
