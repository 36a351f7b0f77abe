//! AF_XDP links on a fabric.

use gigae_fabric::{Fabric, Node, testing};
use gigae_link::Mode;
use gigae_link::conformance::{Enter, Kernels, Options, Pair};
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
pub(crate) fn link(fabric: &Fabric, node: u16, options: &Options, mode: Mode) -> XdpLink {
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
pub(crate) fn pair(options: &Options, mode: Mode, ip: fn(&Node) -> IpAddr) -> Pair {
    let fabric =
        testing::fabric("a pair of AF_XDP links", |config| config.mtu = options.mtu as u32);
    let (first, second) = (fabric.node(1), fabric.node(2));
    let envelope = options.filter.envelope;
    let enter = |node: Node| -> Enter { Box::new(move || Box::new(node.enter().unwrap())) };
    Pair {
        a: Box::new(link(&fabric, 1, options, mode)),
        b: Box::new(link(&fabric, 2, options, mode)),
        to_b: route(envelope, [&first, &second], ip),
        to_a: route(envelope, [&second, &first], ip),
        kernels: Some(Kernels {
            addresses: [ip(&first), ip(&second)],
            enter: [enter(first), enter(second)],
        }),
        ground: Box::new(fabric),
    }
}
