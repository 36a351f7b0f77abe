//! A hostile node that runs the real protocol and sends any content in its sessions.

use crate::frames::{payload_of, sealed};
use gigae_proto::{
    Arrival, Destination, Instant, PathTo, PeerId, PeerKey, Protocol, ProtocolConfig, Transmit,
};
use gigae_sim::{Network, Port};
use gigae_wire::{Envelope, Header, Kind, MacAddr, NodeAddr, PathId, Route};

/// Frames that it sends at one moment.
const MOST_AT_ONCE: usize = 1024;

/// See the module.
pub(crate) struct Speaker {
    proto: Protocol<Vec<u8>, Vec<u8>>,
    envelope: Envelope,
    own: NodeAddr,
    victim: NodeAddr,
    to: PeerId,
    now: u64,
}

impl Speaker {
    pub(crate) fn new(envelope: Envelope, own: NodeAddr, victim: NodeAddr, seed: u32) -> Self {
        let mut proto = Protocol::new(ProtocolConfig::default(), seed.into());
        let key = PeerKey { node: victim, port: 0, channel: 0 };
        let to = proto.peer(key).expect("the table is empty");
        Self { proto, envelope, own, victim, to, now: 0 }
    }

    /// A node's address by that of its port, as simulated endpoints have it.
    pub(crate) fn address(envelope: Envelope, mac: MacAddr) -> NodeAddr {
        match envelope {
            Envelope::Ethernet { .. } => mac.into(),
            Envelope::Udp { .. } => {
                let [a, b, c, d, e, f] = mac.0;
                let ip = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d, e, f];
                NodeAddr::Ip { ip: std::net::Ipv6Addr::from(ip).into(), next_hop: mac }
            }
        }
    }

    /// Drops all state and proposes a new session.
    pub(crate) fn begin_anew(&mut self, seed: u32) {
        let now = self.now;
        *self = Self::new(self.envelope, self.own, self.victim, seed);
        self.advance(now);
    }

    /// Ends its session by a graceful close.
    pub(crate) fn close(&mut self) {
        self.proto.close();
    }

    pub(crate) fn advance(&mut self, now: u64) {
        self.now = now;
        self.proto.advance(Instant(now));
    }

    pub(crate) fn message(&mut self, bytes: Vec<u8>) {
        let _ = self.proto.send(self.to, bytes.len() as u16, bytes);
    }

    pub(crate) fn operations(&mut self, payload: Vec<u8>) {
        let _ = self.proto.send_operations(self.to, payload.len() as u16, payload);
    }

    /// Sends what is due; returns the number of frames.
    pub(crate) fn transmit(&mut self, net: &Network, port: Port) -> u64 {
        let mut count = 0;
        while count < MOST_AT_ONCE as u64 {
            while let Some(PathTo { .. }) = self.proto.poll_path() {}
            let Some(Transmit { to, header, body, .. }) = self.proto.poll_transmit() else { break };
            let payload = payload_of(body);
            let node = match to {
                Destination::Peer(peer) => self.proto.key(peer).node,
                Destination::Unknown(key) => key.node,
            };
            let route = Route::new(self.envelope, self.own, node).expect("addresses of one kind");
            net.send(port, &sealed(&route, &header, &payload));
            count += 1;
        }
        count
    }

    /// Handles a frame if it is addressed to this node.
    pub(crate) fn receive(&mut self, frame: &[u8]) {
        let mac = match self.own {
            NodeAddr::Ethernet(mac) | NodeAddr::Ip { next_hop: mac, .. } => mac,
        };
        if frame[..6] != mac.0 {
            return;
        }
        let Ok((from, inner)) = self.envelope.open(frame) else { return };
        let Ok((header, payload)) = Header::parse(inner) else { return };
        if matches!(header.kind, Kind::Who | Kind::Here) {
            return;
        }
        let _ = self.proto.handle(
            Arrival { path: PathId::FIRST, from: &from, header: &header, payload },
            &mut Some(Vec::new()),
        );
        while let Some(delivery) = self.proto.poll_delivery() {
            self.proto.release(delivery.peer, delivery.epoch);
        }
        while let Some(delivery) = self.proto.poll_operations() {
            self.proto.release(delivery.peer, delivery.epoch);
        }
        while self.proto.poll_acknowledged().is_some() {}
        while self.proto.poll_discarded().is_some() {}
        while self.proto.poll_spent().is_some() {}
        while self.proto.poll_ended().is_some() {}
        while self.proto.poll_failure().is_some() {}
    }
}
