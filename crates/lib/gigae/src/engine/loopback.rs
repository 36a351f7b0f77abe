//! Operations of an endpoint with itself: what is filled for its own address is handled at once and
//! never becomes a frame on the wire, from which no NIC would bring it back.
//!
//! Plain messages to itself are not carried: they lie in frames of the link.

use super::Engine;
use gigae_proto::{PeerId, PeerKey};
use gigae_wire::{Epoch, NodeAddr};

/// Bytes that are filled at a time: enough that a long message costs few turns, within what an
/// operation's length can say, and in the cache.
const TURN: usize = 32 << 10;

/// The only session that an endpoint ever has with itself.
const EPOCH: Epoch = Epoch(0);

/// What an endpoint knows of itself as a peer.
#[derive(Debug, Default)]
pub(crate) struct Loopback {
    /// Itself, once it was named as a peer: on one channel or on several.
    own: Vec<PeerId>,
    /// Allocated when it is first needed.
    frame: Vec<u8>,
}

impl Loopback {
    #[inline]
    pub(crate) fn is_own(&self, peer: PeerId) -> bool {
        self.own.contains(&peer)
    }
}

impl Engine {
    /// Remembers a peer that is this endpoint itself.
    pub(super) fn note_own(&mut self, peer: PeerId, key: &PeerKey) {
        let here = match key.node {
            NodeAddr::Ethernet(mac) => mac == self.sources.mac,
            NodeAddr::Ip { ip, .. } => self.sources.way(ip).is_some_and(|way| way.source == ip),
        };
        if here && key.port == self.proto.config().port && !self.loopback.is_own(peer) {
            self.loopback.own.push(peer);
        }
    }

    /// Carries out what waits for this endpoint itself, up to a turn's worth of bytes. Two copies of
    /// the data.
    pub(super) fn loop_back(&mut self, peer: PeerId) {
        let mut frame = std::mem::take(&mut self.loopback.frame);
        frame.resize(TURN, 0);
        let len = self.transfer.fill(peer, EPOCH, &mut frame);
        if len > 0 {
            self.transfer.framed(peer);
            self.transfer.handle(peer, EPOCH, frame[..len].into());
            self.transfer.acknowledged(peer);
        }
        self.loopback.frame = frame;
    }
}
