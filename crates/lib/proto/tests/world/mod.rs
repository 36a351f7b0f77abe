//! Any number of protocols on a simulated network, in virtual time.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part of it")]

use gigae_proto::{
    Arrival, Body, BulkConfig, Delivery, Destination, FailedSend, ForeignFrame, Instant, PathTo,
    PeerId, PeerKey, Protocol, ProtocolConfig, Unsent,
};
use gigae_sim::{Faults, Network, Port};
use gigae_wire::{
    Discard, Envelope, HEADER_LEN, Header, Kind, MacAddr, NodeAddr, PathAddr, PathId, Route,
};
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

pub const CHANNEL: u8 = 3;

/// The UDP port of all sockets, and the longest payload of their frames.
const SOCKET: u16 = 4792;
pub const LONGEST_BULK: u16 = 1440;

pub struct Node {
    pub proto: Protocol<Vec<u8>, Vec<u8>>,
    /// Its links, one unless it has several.
    pub links: Vec<(Port, MacAddr)>,
    /// Where paths lead beyond the first.
    pub paths: HashMap<(PeerId, PathId), PathAddr>,
    /// The second link is a socket for bulk data.
    pub has_bulk: bool,
    /// The datagrams of what comes by the socket come one by one.
    pub uncoalesced: Option<bool>,
    /// What the protocol has said of that of the peer's socket.
    pub uncoalesced_paths: Vec<bool>,
    /// Data frames sent by each path.
    pub sent_on: Vec<usize>,
    /// Messages delivered and released, in order.
    pub received: Vec<(PeerId, Vec<u8>)>,
    /// Messages delivered and not released yet.
    pub holding: Vec<Delivery<Vec<u8>>>,
    pub failed: Vec<FailedSend<Vec<u8>>>,
    /// Reads messages as they come.
    pub reads: bool,
    /// Kinds of the frames sent, in order.
    pub sent: Vec<Header>,
    /// Drops the n-th frame that it would send (exact faults).
    pub drop_sent: Vec<usize>,
    /// Drops all frames of this kind that it would send.
    pub drops: Option<Kind>,
    /// Whether each of the frames sent goes first.
    pub sent_first: Vec<bool>,
    /// Drops all frames that go first.
    pub drops_first: bool,
    /// Nanoseconds that frames wait which do not go first, and those that wait, with the time of
    /// their end.
    pub behind: u64,
    waiting: VecDeque<(u64, Port, Vec<u8>)>,
}

pub struct World {
    pub net: Network,
    pub nodes: Vec<Node>,
    secrets: u128,
}

impl World {
    pub fn new(count: usize, seed: u64, faults: Faults, config: &ProtocolConfig) -> Self {
        Self::with_links(&vec![1; count], seed, faults, config)
    }

    /// Nodes with this many links each.
    pub fn with_links(links: &[usize], seed: u64, faults: Faults, config: &ProtocolConfig) -> Self {
        let net = Network::new(seed, faults);
        let mut world = Self { net, nodes: Vec::new(), secrets: u128::from(seed) };
        for &count in links {
            let links: Vec<_> = (0..count).map(|_| world.net.add_port()).collect();
            let macs = links.iter().map(|&(_, mac)| mac).filter(|_| count > 1).collect();
            let proto = world.protocol(ProtocolConfig { links: macs, ..config.clone() });
            world.nodes.push(Node {
                proto,
                links,
                paths: HashMap::new(),
                has_bulk: false,
                uncoalesced: Some(false),
                uncoalesced_paths: Vec::new(),
                sent_on: vec![0; count],
                received: Vec::new(),
                holding: Vec::new(),
                failed: Vec::new(),
                reads: true,
                sent: Vec::new(),
                drop_sent: Vec::new(),
                drops: None,
                sent_first: Vec::new(),
                drops_first: false,
                behind: 0,
                waiting: VecDeque::new(),
            });
        }
        world
    }

    /// Two nodes, each with a link, and those named with a socket for bulk data beside it.
    pub fn with_bulk(has: [bool; 2], seed: u64, faults: Faults, config: &ProtocolConfig) -> Self {
        let mut world = Self::with_links(&[1, 1], seed, faults, config);
        // The network carries a frame's two datagrams whole.
        world.net.set_mtu(2 * 1500);
        for (node, _) in has.into_iter().enumerate().filter(|&(_, has)| has) {
            let (port, mac) = world.net.add_port();
            let at = (ip(mac), SOCKET).into();
            let bulk = Some(BulkConfig { at, datagram: LONGEST_BULK + HEADER_LEN as u16, most: 2 });
            let proto = world.protocol(ProtocolConfig { bulk, ..config.clone() });
            let node = &mut world.nodes[node];
            node.proto = proto;
            node.links.push((port, mac));
            node.sent_on.push(0);
            node.has_bulk = true;
        }
        world
    }

    pub fn pair(faults: Faults, config: &ProtocolConfig) -> Self {
        Self::new(2, 1, faults, config)
    }

    fn protocol(&mut self, config: ProtocolConfig) -> Protocol<Vec<u8>, Vec<u8>> {
        self.secrets += 1 << 64;
        Protocol::new(config, self.secrets)
    }

    /// The node forgets everything and begins again, as after a crash.
    pub fn restart(&mut self, node: usize) {
        let config = self.nodes[node].proto.config().clone();
        let proto = self.protocol(config);
        let node = &mut self.nodes[node];
        node.proto = proto;
        node.holding.clear();
        node.failed.clear();
        node.paths.clear();
    }

    pub fn now(&self) -> Instant {
        Instant(self.net.now())
    }

    pub fn peer(&mut self, from: usize, to: usize) -> PeerId {
        let node = self.nodes[to].links[0].1.into();
        self.nodes[from].proto.peer(PeerKey { node, port: 0, channel: CHANNEL }).unwrap()
    }

    pub fn try_send(&mut self, from: usize, to: usize, body: &[u8]) -> Result<(), Unsent<Vec<u8>>> {
        let peer = self.peer(from, to);
        let len = u16::try_from(body.len()).unwrap();
        self.nodes[from].proto.send(peer, len, body.to_vec())
    }

    pub fn send(&mut self, from: usize, to: usize, body: &[u8]) {
        self.try_send(from, to, body).expect("the window has room");
    }

    pub fn received(&self, node: usize) -> Vec<&[u8]> {
        self.nodes[node].received.iter().map(|(_, body)| &body[..]).collect()
    }

    /// Lets every node do what it can at this moment; true if any frame moved.
    pub fn settle(&mut self) -> bool {
        let now = self.now();
        let mut moved = false;
        for node in &mut self.nodes {
            node.proto.advance(now);
            for path in PathId::all(node.links.len()) {
                while let Some(frame) = self.net.receive(node.links[path.index()].0) {
                    moved = true;
                    node.take(path, frame);
                }
            }
            node.deliver();
            moved |= node.transmit(&self.net);
            node.send_waiting(&self.net);
            node.proto.advance(now);
            moved |= node.proto.wants_transmit();
        }
        moved
    }

    /// Runs until nothing is left to do before `until`, or to that moment.
    pub fn run_until(&mut self, until: Instant) {
        loop {
            while self.settle() {}
            let timers = self.nodes.iter().map(|n| n.proto.next_deadline().0).min().unwrap();
            let waiting = self.nodes.iter().filter_map(|n| Some(n.waiting.front()?.0)).min();
            let timers = timers.min(waiting.unwrap_or(u64::MAX));
            let next = self.net.next_arrival().unwrap_or(u64::MAX).min(timers);
            if next > until.0 {
                self.net.advance_to(until.0);
                return;
            }
            self.net.advance_to(next.max(self.net.now() + 1));
        }
    }

    pub fn run(&mut self, time: Duration) {
        self.run_until(self.now() + time);
    }
}

impl Node {
    fn take(&mut self, path: PathId, frame: Vec<u8>) {
        let socket = Envelope::Udp { port: SOCKET };
        let by_socket = self.has_bulk && !path.is_first();
        let envelope = if by_socket { socket } else { Envelope::DEFAULT };
        let parsed = envelope.open(&frame).and_then(|(from, inner)| {
            Header::parse(inner).map(|(header, payload)| (from, header, payload.to_vec()))
        });
        match parsed {
            Ok((from, header, payload)) => {
                let arrival = Arrival { path, from: &from, header: &header, payload: &payload };
                let usual = match header.kind.is_data() {
                    true => self.proto.handle_next(&arrival, payload.clone()),
                    false => Err(payload.clone()),
                };
                let buffer = match usual {
                    Ok(operations) => {
                        self.holding.extend(operations);
                        None
                    }
                    Err(payload) => {
                        let mut buffer = Some(payload);
                        // Refused frames are counted, which is what the tests look at.
                        let _ = self.proto.handle(arrival, &mut buffer);
                        buffer
                    }
                };
                // A question whether a peer is still there is short; one whether a path works, as
                // long as the longest frame.
                let is_long = payload.len() > usize::from(LONGEST_BULK);
                let is_question = by_socket && is_long && !header.kind.is_data();
                if let Some(uncoalesced) = self.uncoalesced.filter(|_| is_question) {
                    self.proto.arrived_uncoalesced(&arrival, uncoalesced);
                }
                assert!(buffer.is_some() || header.kind.is_data(), "only messages are kept");
            }
            Err(Discard::Version(_)) => {
                let (from, inner) = Envelope::DEFAULT.open(&frame).unwrap();
                self.proto.handle_foreign_version(path, from, ForeignFrame::parse(inner));
            }
            Err(why) => self.proto.counters_mut().discard(why),
        }
    }

    pub fn deliver(&mut self) {
        while let Some(delivery) = self.proto.poll_delivery() {
            self.holding.push(delivery);
        }
        while let Some(delivery) = self.proto.poll_operations() {
            self.holding.push(delivery);
        }
        if self.reads {
            self.release_all();
        }
        while self.proto.poll_acknowledged().is_some() {}
        while self.proto.poll_discarded().is_some() {}
        self.failed.extend(std::iter::from_fn(|| self.proto.poll_failure()));
    }

    pub fn release_all(&mut self) {
        for delivery in self.holding.drain(..) {
            self.proto.release(delivery.peer, delivery.epoch);
            self.received.push((delivery.peer, delivery.buffer));
        }
    }

    fn transmit(&mut self, net: &Network) -> bool {
        let mut moved = false;
        loop {
            while let Some(PathTo { peer, path, addr, uncoalesced }) = self.proto.poll_path() {
                self.uncoalesced_paths.push(uncoalesced);
                self.paths.insert((peer, path), addr);
            }
            let (to, path, first, header, body) = match self.proto.poll_transmit() {
                None => return moved,
                Some(t) => (
                    t.to,
                    t.path,
                    t.first,
                    t.header,
                    match t.body {
                        Body::Message(m) => m.clone(),
                        Body::Control(c, pad) => {
                            let mut payload = c.to_vec();
                            payload.resize(payload.len().max(pad.into()), 0);
                            payload
                        }
                    },
                ),
            };
            moved = true;
            let (port, mac) = self.links[path.index()];
            let by_link = |node| Route::new(Envelope::DEFAULT, mac.into(), node).unwrap();
            let route = match to {
                Destination::Peer(id) if !path.is_first() => match self.paths[&(id, path)] {
                    PathAddr::Link(mac) => by_link(mac.into()),
                    PathAddr::Socket(socket) => {
                        let longest = 2 * LONGEST_BULK + HEADER_LEN as u16;
                        assert!(body.len() <= longest.into(), "too long for two datagrams");
                        let [.., high, low] = ip_bytes(socket.ip());
                        to_socket(mac, MacAddr([2, 0, 0, 0, high, low]))
                    }
                },
                Destination::Peer(id) => by_link(self.proto.key(id).node),
                Destination::Unknown(key) => by_link(key.node),
            };
            self.sent_on[path.index()] += usize::from(header.kind.is_data());
            let nth = self.sent.len();
            self.sent.push(header);
            self.sent_first.push(first);
            let drops = self.drops == Some(header.kind) || first && self.drops_first;
            if drops || self.drop_sent.contains(&nth) {
                continue;
            }
            let frame = sealed(&route, (&header, &body));
            if first || self.behind == 0 {
                net.send(port, &frame);
            } else {
                self.waiting.push_back((net.now() + self.behind, port, frame));
            }
        }
    }

    /// Sends the frames that have waited long enough.
    fn send_waiting(&mut self, net: &Network) {
        while let Some(&(until, port, ref frame)) = self.waiting.front()
            && until <= net.now()
        {
            net.send(port, frame);
            self.waiting.pop_front();
        }
    }

    /// Sends a frame of this node's making from its socket to that of a MAC address.
    pub fn send_raw(&self, net: &Network, to: MacAddr, header: &Header, payload: &[u8]) {
        let (port, mac) = self.links[1];
        send(net, port, &to_socket(mac, to), (header, payload));
    }

    /// Admits a frame of operations: by the socket if that works, otherwise by the link.
    pub fn send_bulk(&mut self, peer: PeerId, body: &[u8]) -> Result<(), Unsent<Vec<u8>>> {
        let len = u16::try_from(body.len()).unwrap();
        match self.proto.bulk(peer) {
            Some(longest) => {
                assert!(len <= longest);
                self.proto.send_bulk(peer, len, body.to_vec())
            }
            None => self.proto.send_operations(peer, len, body.to_vec()),
        }
    }

    pub fn count(&self, kind: Kind) -> usize {
        self.sent.iter().filter(|h| h.kind == kind).count()
    }
}

fn to_socket(from: MacAddr, to: MacAddr) -> Route {
    let [from, to] = [from, to].map(|mac| NodeAddr::Ip { ip: ip(mac).into(), next_hop: mac });
    Route::new(Envelope::Udp { port: SOCKET }, from, to).unwrap()
}

fn send(net: &Network, port: Port, route: &Route, frame: (&Header, &[u8])) {
    net.send(port, &sealed(route, frame));
}

fn sealed(route: &Route, (header, payload): (&Header, &[u8])) -> Vec<u8> {
    let mut frame = vec![0; route.len() + HEADER_LEN];
    frame.extend_from_slice(payload);
    header.seal(&mut frame[route.len()..]);
    route.write(&mut frame);
    frame
}

/// The IP address of a simulated port.
fn ip(mac: MacAddr) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, mac.0[4], mac.0[5])
}

fn ip_bytes(ip: std::net::IpAddr) -> [u8; 4] {
    match ip {
        std::net::IpAddr::V4(ip) => ip.octets(),
        std::net::IpAddr::V6(_) => unreachable!("all have IPv4 addresses"),
    }
}

pub fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// A quiet network with a delay of 5 us.
pub fn quiet() -> Faults {
    Faults { delay: micros(5), ..Faults::default() }
}
