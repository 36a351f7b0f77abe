//! Where frames to IP nodes go: where the kernel says, also when that changes.

use super::*;
use gigae_link::{ChannelSet, Filter, Link, Segment};
use gigae_packet::{PacketConfig, PacketLink};
use gigae_proto::{Body, Instant, PeerKey, Protocol, ProtocolConfig};
use gigae_wire::{HEADER_LEN, MacAddr, NodeAddr, Route};

fn ip(node: &Node, arguments: &str) {
    let status = node.command("ip").unwrap().args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// The kernels find each other by ARP from now on, as on any network.
fn forget_neighbours(nodes: &[&Node]) {
    for node in nodes {
        ip(node, "neighbour flush all nud permanent dev eth0");
        ip(node, "neighbour flush all dev eth0");
    }
}

/// A proposal of a session, as it lies on the wire.
fn proposal(route: &Route, to: NodeAddr) -> Vec<u8> {
    let mut attacker = Protocol::<(), ()>::new(ProtocolConfig::default(), 7);
    let peer = attacker.peer(PeerKey { node: to, port: 0, channel: 0 }).unwrap();
    attacker.advance(Instant(1_000_000));
    attacker.propose(peer);
    let hello = attacker.poll_transmit().unwrap();
    let Body::Control(payload, padded) = hello.body else { unreachable!("nothing else waits") };
    let mut frame = vec![0; route.len() + HEADER_LEN];
    frame.extend_from_slice(payload);
    frame.resize(route.len() + HEADER_LEN + payload.len().max(padded.into()), 0);
    hello.header.seal(&mut frame[route.len()..]);
    route.write(&mut frame);
    frame
}

pub(crate) fn an_earlier_sender_in_a_nodes_name_gets_nothing_that_is_sent_to_the_node() {
    let fabric = testing::fabric("name", |config| config.nodes = 3);
    let [one, two, three] = [1, 2, 3].map(|n| fabric.node(n));
    forget_neighbours(&[&one, &two, &three]);
    let udp = || options(Backend::Packet).envelope(UDP);
    let (a, b) = (on(&one, udp()).unwrap(), on(&two, udp()).unwrap());
    let mut attacker = {
        let _inside = three.enter().unwrap();
        let filter = Filter { envelope: UDP, channels: ChannelSet::from_iter([0]) };
        PacketLink::open(PacketConfig::new("eth0", filter)).unwrap()
    };
    let to = NodeAddr::Ip { ip: one.ipv4.into(), next_hop: MacAddr(one.mac) };
    let from = NodeAddr::Ip { ip: two.ipv4.into(), next_hop: MacAddr(three.mac) };
    let bytes = proposal(&Route::new(UDP, from, to).unwrap(), to);
    // Long enough for the victim's kernel to find the node whose name it is.
    for _ in 0..50 {
        let mut frame = attacker.take().unwrap();
        attacker.memory().arena.bytes_mut(&mut frame)[..bytes.len()].copy_from_slice(&bytes);
        let posted = attacker.post(frame, 0..bytes.len(), Segment::Last);
        attacker.flush().unwrap();
        attacker.release(posted.into());
        assert!(a.recv_timeout(Duration::from_millis(1)).unwrap().is_none());
    }
    let to_b = a.peer(Address::from(IpAddr::from(two.ipv4))).unwrap();
    a.send(to_b, b"for b alone").unwrap();
    assert_eq!(receive(&a, &b), b"for b alone");
    let mut batch = Vec::new();
    while attacker.poll(&mut batch, 64).unwrap() > 0 {
        for frame in batch.drain(..) {
            let led_astray = attacker.memory().arena.bytes(&frame)[..6] == three.mac;
            assert!(!led_astray, "the victim has sent a frame to the attacker");
            attacker.recycle(frame);
        }
    }
}

pub(crate) fn a_node_that_comes_back_with_another_mac_address_is_reachable_again() {
    let fabric = testing::fabric("moved", |_| ());
    let (one, two) = (fabric.node(1), fabric.node(2));
    forget_neighbours(&[&one, &two]);
    let udp = || options(Backend::Packet).envelope(UDP);
    let address = |node: &Node| Address::from(IpAddr::from(node.ipv4));
    let (a, b) = (on(&one, udp()).unwrap(), on(&two, udp()).unwrap());
    let to_b = a.peer(address(&two)).unwrap();
    a.send(to_b, b"before").unwrap();
    assert_eq!(receive(&a, &b), b"before");
    drop(b);
    ip(&two, "link set dev eth0 down");
    ip(&two, "link set dev eth0 address 02:00:00:00:77:77");
    ip(&two, "link set dev eth0 up");
    fabric.await_links().unwrap();
    let b = on(&two, udp()).unwrap();
    let to_a = b.peer(address(&one)).unwrap();
    b.send(to_a, b"I am back").unwrap();
    assert_eq!(receive(&b, &a), b"I am back");
    a.send(to_b, b"so I see").unwrap();
    assert_eq!(receive(&a, &b), b"so I see");
}

pub(crate) fn a_node_whose_neighbour_entry_changes_in_a_conversation_is_asked_for_again() {
    let fabric = testing::fabric("changed", |config| config.nodes = 3);
    let [one, two, three] = [1, 2, 3].map(|n| fabric.node(n));
    let udp = || options(Backend::Packet).envelope(UDP);
    let (a, b) = (on(&one, udp()).unwrap(), on(&two, udp()).unwrap());
    // The kernel is wrong about it at first, as after a node has moved.
    let hex = |mac: [u8; 6]| MacAddr(mac).to_string();
    let two_is_at = |mac: [u8; 6]| {
        ip(&one, &format!("neighbour replace {} lladdr {} dev eth0", two.ipv4, hex(mac)));
    };
    two_is_at(three.mac);
    let to_b = a.peer(Address::from(IpAddr::from(two.ipv4))).unwrap();
    a.send(to_b, b"is anybody there?").unwrap();
    for _ in 0..20 {
        assert!(a.recv_timeout(Duration::from_millis(1)).unwrap().is_none());
        assert!(b.recv_timeout(Duration::from_millis(1)).unwrap().is_none(), "it went elsewhere");
    }
    two_is_at(two.mac);
    assert_eq!(receive(&a, &b), b"is anybody there?");
}
