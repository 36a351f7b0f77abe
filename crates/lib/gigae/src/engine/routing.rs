//! Peers, and the ways to their nodes.

use super::Engine;
use crate::sources::Way;
use gigae_proto::{PeerId, PeerKey};
use gigae_wire::NodeAddr;
use std::net::IpAddr;
use tracing::{debug, info};

impl Engine {
    /// The peer of a key, with its outer headers built.
    pub(crate) fn peer(&mut self, key: PeerKey) -> Option<PeerId> {
        let peer = self.proto.peer(key)?;
        self.complete_routes();
        self.loopback.note(peer, &key, self.proto.config().port, &self.sources);
        Some(peer)
    }

    /// Builds the outer headers of peers that the protocol has entered by itself.
    pub(super) fn complete_routes(&mut self) {
        self.links[0].routes.complete(&mut self.proto, &mut self.sources);
    }

    /// Asks for the way to a node, and takes the answer. With `doubt` the one that is known may be
    /// wrong.
    #[cold]
    pub(crate) fn ask_way(&mut self, node: NodeAddr, doubt: bool) {
        let NodeAddr::Ip { ip, .. } = node else { return };
        if let Some(Way { source, next_hop }) = self.sources.ask(ip, doubt, self.clock.now()) {
            // Who spoke to another address of this node is answered from that.
            let source = self.sources.way(ip).map_or(source, |way| way.source);
            self.set_way(ip, Way { source, next_hop });
        }
    }

    /// The way to an IP node is this from now on.
    pub(crate) fn set_way(&mut self, to: IpAddr, way: Way) {
        let before = self.sources.way(to).map(|way| way.next_hop);
        if self.sources.set(to, way, self.clock.now()) {
            let Way { source, next_hop } = way;
            match before.filter(|before| *before != next_hop) {
                Some(before) => info!(node = %to, %before, now = %next_hop, "next hop changed"),
                None => debug!(node = %to, %source, mac = %next_hop, "way to a node"),
            }
            self.links[0].routes.renew(to, &self.proto, &self.sources);
        }
    }
}
