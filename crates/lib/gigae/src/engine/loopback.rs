//! Operations of an endpoint with itself: what is filled for its own address is handled at once and
//! never becomes a frame on the wire, from which no NIC would bring it back.
//!
//! Plain messages to itself are not carried: they lie in frames of the link.

use crate::memory::Memory;
use crate::route_table::RouteTable;
use gigae_proto::{PeerId, PeerKey};
use gigae_transfer::Transfer;
use gigae_wire::{Epoch, NodeAddr};

/// Bytes that are filled at a time: enough that a long message costs few turns, within what an
/// operation's length can say, and in the cache.
const TURN: usize = 32 << 10;

/// The only session that an endpoint ever has with itself.
const EPOCH: Epoch = Epoch(0);

/// What an endpoint knows of itself as a peer.
#[derive(Debug, Default)]
pub(super) struct Loopback {
    /// Itself, once it was named as a peer: on one channel or on several.
    own: Vec<PeerId>,
    /// Allocated when it is first needed.
    frame: Vec<u8>,
}

impl Loopback {
    #[inline]
    pub(super) fn is_own(&self, peer: PeerId) -> bool {
        self.own.contains(&peer)
    }

    /// Remembers a peer that is the endpoint of this port itself.
    pub(super) fn note(
        &mut self,
        peer: PeerId,
        key: &PeerKey,
        port: u16,
        route_table: &RouteTable,
    ) {
        let here = match key.node {
            NodeAddr::Ethernet(mac) => mac == route_table.mac,
            NodeAddr::Ip { ip, .. } => {
                route_table.ip_route(ip).is_some_and(|route| route.source == ip)
            }
        };
        if here && key.port == port && !self.is_own(peer) {
            self.own.push(peer);
        }
    }

    /// Carries out what waits for this endpoint itself, up to a turn's worth of bytes. Two copies
    /// of the data.
    pub(super) fn carry_out(&mut self, transfer: &mut Transfer<Memory>, peer: PeerId) {
        self.frame.resize(TURN, 0);
        let len = transfer.fill(peer, EPOCH, &mut self.frame);
        if len > 0 {
            transfer.framed(peer);
            transfer.handle(peer, EPOCH, self.frame[..len].into());
            transfer.acknowledged(peer);
        }
    }
}
