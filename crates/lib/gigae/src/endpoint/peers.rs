//! The calls that name other endpoints, and find them on the wire (`PROTOCOL.md` §10).

use super::Endpoint;
use super::waiting::Pause;
use crate::address::{Address, Host};
use crate::error::{DiscoverError, PeerError};
use crate::neighbour::Neighbour;
use crate::peer::Peer;
use crate::resolve::Reservation;
use crate::route_table::IpRoute;
use crate::simulated;
use gigae_proto::PeerKey;
use gigae_wire::{Envelope, NodeAddr};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// # Finding peers
impl Endpoint {
    /// Names another endpoint. Sends nothing to it. For an IP address it asks the kernel for the
    /// route, and the kernel may look for the neighbour on the wire, which takes up to a second.
    pub fn peer(&self, address: impl Into<Address>) -> Result<Peer, PeerError> {
        let Address { host, port, channel } = address.into();
        if !self.channels.contains(channel) {
            return Err(PeerError::Channel(channel));
        }
        let node = match (host, &self.reservation) {
            (Host::Mac(mac), None) if !mac.is_group() && !self.is_in_ip() => mac.into(),
            (Host::Ip(ip), None) if self.is_in_ip() => {
                let source = simulated::ip(self.info.mac, ip.is_ipv6());
                self.by_route(ip, IpRoute { source, next_hop: simulated::next_hop(ip)? })
            }
            (Host::Ip(ip), Some(_)) if self.is_own(ip, port) => {
                self.by_route(ip, IpRoute { source: ip, next_hop: self.info.mac })
            }
            (Host::Ip(ip), Some(reservation)) => {
                let within = self.engine().route_table.local_route(ip);
                let route = within.map_or_else(|| kernel_route(reservation, ip), Ok)?;
                self.by_route(ip, route)
            }
            _ => return Err(PeerError::Family),
        };
        let mut engine = self.engine();
        let most = engine.proto.config().max_peers;
        engine.peer(PeerKey { node, port, channel }).map(Peer).ok_or(PeerError::TooMany(most))
    }

    /// The address of a peer.
    pub fn address(&self, peer: Peer) -> Address {
        let PeerKey { node, port, channel } = self.engine().proto.key(peer.0);
        let host = match node {
            NodeAddr::Ethernet(mac) => Host::Mac(mac),
            NodeAddr::Ip { ip, .. } => Host::Ip(ip),
        };
        Address { host, port, channel }
    }

    /// Asks all endpoints on the wire who they are. [`neighbours`](Self::neighbours) has their
    /// answers when they are received. Question and answer may be lost, so ask more than once.
    /// Answers take up to 5 ms, so that not all come at once, and where more nodes are known up to
    /// a second: 20 us for each of them.
    /// Endpoints answer while they make progress. Endpoints on this same interface do not receive
    /// the question, and of several on one other interface perhaps only one does. In the UDP
    /// envelope the question goes to the interface's IPv4 subnet. 1 system call.
    pub fn ask(&self) -> Result<(), DiscoverError> {
        self.engine().ask(Duration::MAX).map(|_| ())
    }

    /// The endpoints that have answered since this one was opened, by name. Allocates.
    pub fn neighbours(&self) -> Vec<Neighbour> {
        let mut all = self.look().neighbours().to_vec();
        all.sort_by(|a, b| (&a.name, a.mac, a.port).cmp(&(&b.name, b.mac, b.port)));
        all
    }

    /// What this endpoint answers when others ask who it is.
    pub fn identity(&self) -> Neighbour {
        self.engine().identity()
    }

    /// [Asks](Self::ask) every 100 ms for this time, or less often where thousands answer. Returns
    /// the endpoints that have answered.
    pub fn discover(&self, time: Duration) -> Result<Vec<Neighbour>, DiscoverError> {
        const ASK_EVERY: Duration = Duration::from_millis(100);
        let end = Instant::now() + time;
        while Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            let spread = self.engine().ask(left)?;
            let next = end.min(Instant::now() + ASK_EVERY.max(2 * spread));
            let mut pause = Pause::default();
            while pause.pass(self, Some(next))? {
                self.engine().progress()?;
            }
        }
        Ok(self.neighbours())
    }
}

impl Endpoint {
    /// A node that is reached by this route from now on.
    fn by_route(&self, ip: IpAddr, route: IpRoute) -> NodeAddr {
        self.engine().set_ip_route(ip, route);
        NodeAddr::Ip { ip, next_hop: route.next_hop }
    }

    /// Whether this is the address of this very endpoint, to which operations need no route.
    fn is_own(&self, ip: IpAddr, port: u16) -> bool {
        let engine = self.engine();
        let own = engine.route_table.own.as_ref().is_some_and(|own| own.contains(&ip));
        own && port == engine.proto.config().port
    }

    fn is_in_ip(&self) -> bool {
        matches!(self.engine().route_table.envelope, Envelope::Udp { .. })
    }
}

/// The route to another node, as the kernel finds it.
fn kernel_route(kernel: &Reservation, ip: IpAddr) -> Result<IpRoute, PeerError> {
    let hop = kernel.next_hop(ip).map_err(|e| PeerError::Unreachable(e.to_string()))?;
    Ok(IpRoute { source: hop.source, next_hop: hop.next_hop })
}
