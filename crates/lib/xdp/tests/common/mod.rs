//! AF_XDP links on a fabric.

use gigae_fabric::{Fabric, Node, testing};
use gigae_link::conformance::{Enter, Kernels, LinkPair, PairOptions};
use gigae_link::{Link, Mode};
use gigae_macvlan::Child;
use gigae_wire::{Envelope, MacAddr, NodeAddr, Route};
use gigae_xdp::{XdpConfig, XdpLink};
use std::net::IpAddr;

pub(crate) fn over_ipv4(node: &Node) -> IpAddr {
    node.ipv4.into()
}

#[allow(dead_code, reason = "not every test file speaks IPv6")]
pub(crate) fn over_ipv6(node: &Node) -> IpAddr {
    node.ipv6.into()
}

/// A link on a node of the fabric.
pub(crate) fn link(fabric: &Fabric, node: u16, options: &PairOptions, mode: Mode) -> XdpLink {
    let node = fabric.node(node);
    let _inside = node.enter().unwrap();
    let mut config = XdpConfig::new(node.interface, options.filter.clone());
    config.tx_frames = options.tx_frames;
    config.rx_frames = options.rx_frames;
    config.mode = Some(mode);
    XdpLink::open(config).unwrap()
}

/// Outer headers between two nodes.
pub(crate) fn route(envelope: Envelope, ends: [&Node; 2], ip: fn(&Node) -> IpAddr) -> Route {
    let [from, to] = ends.map(|node| match envelope {
        Envelope::Ethernet { .. } => NodeAddr::Ethernet(MacAddr(node.mac)),
        Envelope::Udp { .. } => NodeAddr::Ip { ip: ip(node), next_hop: MacAddr(node.mac) },
    });
    Route::new(envelope, from, to).unwrap()
}

/// Links on two nodes of a new fabric.
#[allow(dead_code, reason = "not every test file runs the suite")]
pub(crate) fn pair(options: &PairOptions, mode: Mode, ip: fn(&Node) -> IpAddr) -> LinkPair {
    let fabric =
        testing::fabric("a pair of AF_XDP links", |config| config.mtu = options.mtu as u32);
    let (first, second) = (fabric.node(1), fabric.node(2));
    let envelope = options.filter.envelope;
    let enter = |node: Node| -> Enter { Box::new(move || Box::new(node.enter().unwrap())) };
    LinkPair {
        a: Box::new(link(&fabric, 1, options, mode)),
        b: Box::new(link(&fabric, 2, options, mode)),
        to_b: route(envelope, [&first, &second], ip),
        to_a: route(envelope, [&second, &first], ip),
        kernels: Some(Kernels {
            addresses: [ip(&first), ip(&second)],
            enter: [enter(first), enter(second)],
        }),
        keep_alive: Box::new(fabric),
    }
}

/// Links on children of the NICs of two nodes, in the mode that is chosen for them.
#[allow(dead_code, reason = "not every test file runs the suite")]
pub(crate) fn children(options: &PairOptions) -> LinkPair {
    let fabric = testing::fabric("a pair of children", |config| config.mtu = options.mtu as u32);
    let nodes = [fabric.node(1), fabric.node(2)];
    let [(a, at_a, first), (b, at_b, second)] = [0, 1].map(|i: usize| {
        let _inside = nodes[i].enter().unwrap();
        let child = Child::make(nodes[i].interface).unwrap();
        let mut config = XdpConfig::new(child.name(), options.filter.clone());
        config.tx_frames = options.tx_frames;
        config.rx_frames = options.rx_frames;
        let link = XdpLink::open(config).unwrap();
        assert_eq!(link.info().mode, Mode::XdpGeneric, "{}", link.info().reason);
        (Box::new(link), NodeAddr::Ethernet(child.mac()), child)
    });
    let envelope = options.filter.envelope;
    let addresses = [0, 1].map(|i: usize| nodes[i].ipv4.into());
    let enter = nodes.map(|node| -> Enter { Box::new(move || Box::new(node.enter().unwrap())) });
    LinkPair {
        a,
        b,
        to_b: Route::new(envelope, at_a, at_b).unwrap(),
        to_a: Route::new(envelope, at_b, at_a).unwrap(),
        kernels: Some(Kernels { addresses, enter }),
        keep_alive: Box::new((first, second, fabric)),
    }
}
