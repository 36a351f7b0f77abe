//! Peers, and the routes to their nodes.

use super::Engine;
use crate::route_table::IpRoute;
use gigae_proto::{PeerId, PeerKey};
use gigae_wire::{NodeAddr, PathId};
use std::net::IpAddr;
use tracing::{debug, info};

impl Engine {
    /// The peer of a key, with its outer headers built.
    pub(crate) fn peer(&mut self, key: PeerKey) -> Option<PeerId> {
        let peer = self.proto.peer(key)?;
        self.complete_routes();
        self.loopback.note(peer, &key, self.proto.config().port, &self.route_table);
        Some(peer)
    }

    /// Builds the outer headers of peers that the protocol has entered by itself.
    pub(super) fn complete_routes(&mut self) {
        self.links[PathId::FIRST].routes.complete(&mut self.proto, &mut self.route_table);
    }

    /// Asks for the route to a node, and takes the answer. With `doubt` the one that is known may
    /// be wrong.
    #[cold]
    pub(crate) fn ask_route(&mut self, node: NodeAddr, doubt: bool) {
        let NodeAddr::Ip { ip, .. } = node else { return };
        let found = self.route_table.ask(ip, doubt, self.clock.now());
        if let Some(IpRoute { source, next_hop }) = found {
            // Who spoke to another address of this node is answered from that.
            let source = self.route_table.ip_route(ip).map_or(source, |route| route.source);
            self.set_ip_route(ip, IpRoute { source, next_hop });
        }
    }

    /// The route to an IP node is this from now on.
    pub(crate) fn set_ip_route(&mut self, to: IpAddr, route: IpRoute) {
        let before = self.route_table.ip_route(to).map(|route| route.next_hop);
        if self.route_table.set(to, route, self.clock.now()) {
            let IpRoute { source, next_hop } = route;
            match before.filter(|before| *before != next_hop) {
                Some(before) => info!(node = %to, %before, now = %next_hop, "next hop changed"),
                None => debug!(node = %to, %source, mac = %next_hop, "route to a node"),
            }
            self.links[PathId::FIRST].routes.renew(to, &self.proto, &self.route_table);
        }
    }
}
