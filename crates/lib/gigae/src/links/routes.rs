//! The outer headers towards each peer.

use crate::route_table::RouteTable;
use gigae_proto::{PeerId, Protocol};
use gigae_wire::{NodeAddr, Route};
use std::net::IpAddr;

/// Outer headers by peer: `None` while the route to its node is not known, and nothing goes there
/// then.
#[derive(Default)]
pub(crate) struct Routes(Vec<Option<Route>>);

impl Routes {
    #[inline]
    pub(crate) fn to(&self, peer: PeerId) -> Option<&Route> {
        self.0.get(peer.0 as usize).and_then(Option::as_ref)
    }

    /// Frames to a peer go by this route from now on.
    pub(super) fn set(&mut self, peer: PeerId, route: Option<Route>) {
        let peer = peer.0 as usize;
        if self.0.len() <= peer {
            self.0.resize_with(peer + 1, || None);
        }
        self.0[peer] = route;
    }

    /// Builds those of peers that the protocol has entered by itself.
    pub(crate) fn complete<T, R>(
        &mut self,
        proto: &mut Protocol<T, R>,
        route_table: &mut RouteTable,
    ) {
        while let Some((peer, former)) = proto.poll_replaced() {
            let node = proto.key(peer).node;
            if let NodeAddr::Ip { ip, .. } = former.node
                && !proto.is_known_node(&former.node)
            {
                route_table.forget(ip);
            }
            if let Some(route) = self.0.get_mut(peer.0 as usize) {
                *route = route_table.route(node);
            }
        }
        while self.0.len() < proto.peers() {
            self.0.reserve_exact(proto.peers_at_once() - self.0.len());
            let peer = PeerId(u32::try_from(self.0.len()).expect("bounded by max_peers"));
            self.0.push(route_table.route(proto.key(peer).node));
        }
    }

    /// Builds those of a node's peers again: the route to it has changed.
    pub(crate) fn renew<T, R>(
        &mut self,
        node: IpAddr,
        proto: &Protocol<T, R>,
        route_table: &RouteTable,
    ) {
        for (peer, route) in self.0.iter_mut().enumerate() {
            let key = proto.key(PeerId(peer as u32)).node;
            if matches!(key, NodeAddr::Ip { ip, .. } if ip == node) {
                *route = route_table.route(key);
            }
        }
    }
}
