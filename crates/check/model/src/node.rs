//! One node: a protocol, its clock, and the program that uses it.

use crate::history::Message;
use crate::network::LinkDirection;
use gigae_proto::{Body, Destination, Instant, PeerId, PeerKey, Protocol, ProtocolConfig};
use gigae_wire::{Epoch, Flags, Header, Kind, MacAddr, NodeAddr, PathId, SeqNo};
use std::collections::{BTreeSet, VecDeque};

/// A frame in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub(crate) header: Header,
    pub(crate) body: Payload,
    /// The sender's life when it was sent.
    pub(crate) life: u8,
}

/// What a frame carries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Payload {
    Message(Message),
    Control(Vec<u8>),
}

/// What a node last reported to a peer, and received of it, in one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Reported {
    /// This end's epoch and the peer's.
    pub(crate) epochs: (Epoch, Epoch),
    /// Frames of the peer's that were delivered.
    pub(crate) delivered: u32,
    /// What was acknowledged, and where credit ended, at the last time.
    pub(crate) ack: SeqNo,
    pub(crate) limit: SeqNo,
    /// The latest life of the peer of which a frame was accepted.
    pub(crate) life: u8,
}

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Node {
    pub(crate) proto: Protocol<Message, Message>,
    secret: u128,
    /// Its own clock: only timers move it.
    pub(crate) now: Instant,
    /// How often it has begun again.
    pub(crate) life: u8,
    /// Epochs that this life has used or offered.
    own: BTreeSet<Epoch>,
    /// It has closed its endpoint.
    pub(crate) closed: bool,
    /// Messages that the program has and has not given back, and their sessions.
    pub(crate) held: VecDeque<(PeerId, Epoch)>,
    /// By node.
    pub(crate) reported: Vec<Reported>,
}

/// Where a node's link is.
pub(crate) fn address(node: usize, path: PathId) -> NodeAddr {
    NodeAddr::Ethernet(mac(node, path))
}

/// Of all its links, if it has several.
pub(crate) fn addresses(node: usize, paths: usize) -> Vec<MacAddr> {
    PathId::all(paths).map(|path| mac(node, path)).filter(|_| paths > 1).collect()
}

fn mac(node: usize, path: PathId) -> MacAddr {
    MacAddr([2, 0, 0, 0, path.index() as u8, node as u8])
}

/// Which node is at an address.
fn node_at(address: &NodeAddr) -> usize {
    match address {
        NodeAddr::Ethernet(mac) => mac.0[5].into(),
        NodeAddr::Ip { .. } => unreachable!("all nodes have MAC addresses"),
    }
}

impl Node {
    pub(crate) fn new(config: &ProtocolConfig, nodes: usize, secret: u128, life: u8) -> Self {
        Self {
            proto: Protocol::new(config.clone(), secret),
            secret,
            now: Instant(1),
            life,
            own: BTreeSet::new(),
            closed: false,
            held: VecDeque::new(),
            reported: vec![Reported::default(); nodes],
        }
    }

    /// It forgets all and has a new secret, or the same as before ([`Mutation`](crate::Mutation)).
    pub(crate) fn restart(&mut self, same: bool) {
        let secret = if same { self.secret } else { self.secret.wrapping_add(1 << 64) };
        *self = Self::new(&self.proto.config().clone(), self.reported.len(), secret, self.life + 1);
    }

    pub(crate) fn peer(&mut self, node: usize) -> PeerId {
        let key = PeerKey { node: address(node, PathId::FIRST), port: 0, channel: 0 };
        self.proto.peer(key).expect("the table has room")
    }

    /// Which node a peer is.
    pub(crate) fn of(&self, peer: PeerId) -> usize {
        node_at(&self.proto.key(peer).node)
    }

    /// Whether an epoch is of this life.
    pub(crate) fn owns(&self, epoch: Epoch) -> bool {
        self.own.contains(&epoch)
    }

    /// The next frame to send for this node, which has that number, and its direction.
    pub(crate) fn next_frame(&mut self, from: usize) -> Option<(LinkDirection, Frame)> {
        let life = self.life;
        // Where paths lead needs no table here.
        while self.proto.poll_path().is_some() {}
        let transmit = self.proto.poll_transmit()?;
        let (to, path, header) = (transmit.to, transmit.path, transmit.header);
        // A Reset repeats what another node has sent.
        let own = (header.kind != Kind::Reset || header.flags.has(Flags::ASK))
            .then_some(header.src_epoch);
        let body = match transmit.body {
            Body::Message(message) => Payload::Message(*message),
            Body::Control(bytes, padded) => {
                let mut bytes = bytes.to_vec();
                bytes.resize(bytes.len().max(padded.into()), 0);
                Payload::Control(bytes)
            }
        };
        self.own.extend(own);
        let to = match to {
            Destination::Peer(peer) => self.of(peer),
            Destination::Unknown(key) => node_at(&key.node),
        };
        Some((LinkDirection { from, to, path }, Frame { header, body, life }))
    }
}
