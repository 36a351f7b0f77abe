//! This node's own addresses, and where frames to other nodes go (`PROTOCOL.md` §3).
//!
//! In the UDP envelope only the kernel says what the next hop of a node is. The sender's MAC
//! address in a frame decides nothing. The endpoint asks the kernel again when a node does not
//! answer, and when its frames come from another MAC address than the one to which the answers go.

use crate::resolve::Reservation;
use crate::simulated;
use gigae_proto::Instant;
use gigae_wire::{Envelope, MacAddr, NodeAddr, Route};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// Questions to the kernel in a [`PERIOD`]: each takes some 20 us, and any node can cause them.
const MOST_QUESTIONS: u32 = 100;

/// Of these, questions after which the kernel looks for a neighbour on the wire: it has room for
/// some hundred that it looks for at a time.
const MOST_SEARCHES: u32 = 16;

/// The part of both that is left for nodes to which a route is known: peers, that is.
const RESERVED_PART: u32 = 4;

/// Strangers that are remembered for an answer.
const MOST_RECENT_HELLOS: usize = 64;

const PERIOD: Duration = Duration::from_millis(100);

/// What knows the routes to IP nodes.
#[derive(Debug)]
pub(crate) enum Resolver {
    /// Nothing: in an Ethernet envelope no routes are needed.
    None,
    Kernel(Reservation),
    /// A simulated network, on which they follow from the addresses.
    Simulated,
}

/// The route to an IP node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpRoute {
    /// This node's address towards it.
    pub(crate) source: IpAddr,
    pub(crate) next_hop: MacAddr,
}

#[derive(Clone, Copy, Debug)]
struct KnownRoute {
    route: IpRoute,
    /// When it was asked for.
    asked: Instant,
    /// When the node last showed that it is to be spoken to from another address of ours.
    moved: Option<Instant>,
}

/// A node that proposed a session a moment ago.
#[derive(Clone, Copy, Debug)]
struct RecentHello {
    ip: IpAddr,
    route: IpRoute,
    /// When the kernel was last asked for it.
    asked: Instant,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct RouteTable {
    pub(crate) envelope: Envelope,
    pub(crate) mac: MacAddr,
    /// The IP addresses that the interface had when the endpoint was opened; `None` if the kernel
    /// did not say.
    pub(crate) own: Option<Vec<IpAddr>>,
    /// Endpoints of this node, at its own addresses, are reached through memory.
    pub(crate) near: bool,
    ip_routes: HashMap<IpAddr, KnownRoute>,
    recent_hellos: VecDeque<RecentHello>,
    resolver: Resolver,
    /// Questions since then.
    since: Instant,
    questions: u32,
    searches: u32,
}

impl RouteTable {
    pub(crate) fn new(
        envelope: Envelope,
        mac: MacAddr,
        own: Option<Vec<IpAddr>>,
        resolver: Resolver,
    ) -> Self {
        let ip_routes = HashMap::new();
        let (recent_hellos, since) = (VecDeque::new(), Instant(0));
        let near = false;
        Self {
            envelope,
            mac,
            own,
            near,
            ip_routes,
            recent_hellos,
            resolver,
            since,
            questions: 0,
            searches: 0,
        }
    }

    /// Nodes to which a route is known, and strangers that are remembered for an answer.
    pub(crate) fn len(&self) -> usize {
        self.ip_routes.len() + self.recent_hellos.len()
    }

    /// The outer headers towards a node; `None` if the route to it is not known.
    pub(crate) fn route(&self, to: NodeAddr) -> Option<Route> {
        let NodeAddr::Ip { ip, .. } = to else {
            return Route::new(self.envelope, NodeAddr::Ethernet(self.mac), to);
        };
        self.route_by(ip, self.ip_route(ip).or_else(|| self.answer_route(ip))?)
    }

    /// The same for an answer to a Hello: it comes from the address to which that was sent.
    pub(crate) fn route_of_answer(&self, to: NodeAddr) -> Option<Route> {
        let NodeAddr::Ip { ip, .. } = to else { return self.route(to) };
        let Some(answer) = self.answer_route(ip) else { return self.route(to) };
        let next_hop = self.ip_route(ip).map_or(answer.next_hop, |route| route.next_hop);
        self.route_by(ip, IpRoute { next_hop, ..answer })
    }

    fn route_by(&self, ip: IpAddr, IpRoute { source, next_hop }: IpRoute) -> Option<Route> {
        let from = NodeAddr::Ip { ip: source, next_hop: self.mac };
        Route::new(self.envelope, from, NodeAddr::Ip { ip, next_hop })
    }

    /// The route to an IP node, if it is known.
    pub(crate) fn ip_route(&self, to: IpAddr) -> Option<IpRoute> {
        Some(self.ip_routes.get(&to)?.route)
    }

    /// The route by which an IP node that proposed a session is answered.
    fn answer_route(&self, from: IpAddr) -> Option<IpRoute> {
        Some(self.recent_hellos.iter().find(|hello| hello.ip == from)?.route)
    }

    /// Whether that node last proposed a session to another address of ours than this.
    pub(crate) fn sent_hello_elsewhere(&self, from: &NodeAddr, own: Option<IpAddr>) -> bool {
        let NodeAddr::Ip { ip, .. } = *from else { return false };
        self.answer_route(ip).is_some_and(|route| Some(route.source) != own)
    }

    /// A node proposes a session to this address of ours, in a frame from this MAC address. The
    /// answer comes from that address and goes where the kernel says, which is asked once in a
    /// [`PERIOD`]. Returns that route. It is remembered until as many other nodes have spoken as
    /// can be answered at once.
    pub(crate) fn on_hello(
        &mut self,
        ip: IpAddr,
        mac: MacAddr,
        own: IpAddr,
        now: Instant,
    ) -> Option<IpRoute> {
        let at = self.recent_hellos.iter().position(|hello| hello.ip == ip);
        let before = at.and_then(|at| self.recent_hellos.remove(at));
        let hello = match (self.ip_routes.get(&ip), before) {
            (Some(known), _) => RecentHello { ip, route: known.route, asked: known.asked },
            (None, Some(before)) if now.since(before.asked) < PERIOD => before,
            (None, before) => {
                let doubt = before.is_some_and(|before| before.route.next_hop != mac);
                // A former answer is better than none.
                let route = self.ask(ip, doubt, now).or(before.map(|before| before.route))?;
                RecentHello { ip, route, asked: now }
            }
        };
        if self.recent_hellos.len() == MOST_RECENT_HELLOS {
            self.recent_hellos.pop_front();
        }
        let route = IpRoute { source: own, ..hello.route };
        self.recent_hellos.push_back(RecentHello { route, ..hello });
        Some(route)
    }

    /// The last peer of a node has made room for another.
    pub(crate) fn forget(&mut self, node: IpAddr) {
        self.ip_routes.remove(&node);
    }

    /// How many routes are known.
    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        self.ip_routes.len()
    }

    /// The route to an IP node is known now; whether it is new or has changed.
    pub(crate) fn set(&mut self, to: IpAddr, route: IpRoute, now: Instant) -> bool {
        let moved = self.ip_routes.get(&to).and_then(|before| before.moved);
        let before = self.ip_routes.insert(to, KnownRoute { route, asked: now, moved });
        before.is_none_or(|before| before.route != route)
    }

    /// Whether a node that is to be spoken to from another address of ours may be: once in a
    /// [`PERIOD`], since all routes are gone through for it.
    pub(crate) fn may_move(&mut self, to: IpAddr, now: Instant) -> bool {
        let Some(known) = self.ip_routes.get_mut(&to) else { return true };
        let may = known.moved.is_none_or(|moved| now.since(moved) >= PERIOD);
        known.moved = if may { Some(now) } else { known.moved };
        may
    }

    /// The route to an address of this node at which other endpoints are reached: by no wire.
    pub(crate) fn local_route(&self, to: IpAddr) -> Option<IpRoute> {
        let own = self.own.as_ref().filter(|_| self.near)?;
        own.contains(&to).then_some(IpRoute { source: to, next_hop: self.mac })
    }

    /// The kernel answers from now on.
    pub(crate) fn resolve_by(&mut self, kernel: Reservation) {
        self.resolver = Resolver::Kernel(kernel);
    }

    /// Asks the resolver for the route to a node, without waiting. `None` if it is not known now,
    /// or if too much was asked lately, of one node once in 100 ms: the next frame that goes
    /// unanswered asks again. The kernel is made to look for a node that it does not know, and with
    /// `doubt` to make sure of one that it does. Strangers leave a part of the questions to peers.
    pub(crate) fn ask(&mut self, to: IpAddr, doubt: bool, now: Instant) -> Option<IpRoute> {
        if now.since(self.since) >= PERIOD {
            (self.since, self.questions, self.searches) = (now, 0, 0);
        }
        let lately = |known: &mut KnownRoute| {
            let lately = now.since(known.asked) < PERIOD;
            known.asked = if lately { known.asked } else { now };
            lately
        };
        let known = self.ip_routes.get_mut(&to);
        let part = |most: u32| if known.is_some() { most } else { most - most / RESERVED_PART };
        let (most_questions, most_searches) = (part(MOST_QUESTIONS), part(MOST_SEARCHES));
        if self.questions >= most_questions || known.is_some_and(lately) {
            return None;
        }
        self.questions += 1;
        if let Some(route) = self.local_route(to) {
            return Some(route);
        }
        match &self.resolver {
            Resolver::None => None,
            Resolver::Simulated => {
                let source = simulated::ip(self.mac, to.is_ipv6());
                Some(IpRoute { source, next_hop: simulated::next_hop(to).ok()? })
            }
            Resolver::Kernel(reservation) => {
                let (source, next_hop) = reservation.look(to)?;
                if (doubt || next_hop.is_none()) && self.searches < most_searches {
                    self.searches += 1;
                    // What cannot be sent now is asked for again later.
                    let _ = reservation.provoke(to);
                }
                Some(IpRoute { source, next_hop: next_hop? })
            }
        }
    }

    /// Whether the IP address that a frame came to is this node's: no checksum of the protocol's
    /// covers it, and a wrong one would be learnt for good.
    pub(crate) fn has(&self, address: Option<IpAddr>) -> bool {
        let (Some(address), Some(own)) = (address, &self.own) else { return true };
        own.contains(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cause_a_bounded_number_of_route_lookups() {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let envelope = Envelope::Udp { port: 4791 };
        let mut route_table = RouteTable::new(envelope, mac, None, Resolver::Simulated);
        let asked = |route_table: &mut RouteTable, now: u64| {
            let all = 1..=u8::MAX;
            let known =
                |n: &u8| route_table.ask([198, 18, 0, *n].into(), false, Instant(now)).is_some();
            all.filter(known).count()
        };
        assert_eq!(asked(&mut route_table, 1_000_000_000), 75);
        assert_eq!(asked(&mut route_table, 1_050_000_000), 0);
        assert_eq!(asked(&mut route_table, 1_100_000_000), 75);
        assert_eq!(route_table.known(), 0, "a question changes nothing");
        // The rest is for peers.
        for n in 0..50 {
            route_table.set([198, 18, 1, n].into(), route(1, 2), Instant(0));
        }
        let peers = (0..50).filter(|n| {
            route_table.ask([198, 18, 1, *n].into(), true, Instant(1_150_000_000)).is_some()
        });
        assert_eq!(peers.count(), 25);
    }

    const BOB: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 2));
    const BOBS: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
    const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn route(own: u8, next_hop: u8) -> IpRoute {
        IpRoute { source: [198, 18, 9, own].into(), next_hop: MacAddr([2, 0, 0, 0, 0, next_hop]) }
    }

    fn simulated() -> RouteTable {
        let envelope = Envelope::Udp { port: 4791 };
        RouteTable::new(envelope, MacAddr([2, 0, 0, 0, 0, 1]), None, Resolver::Simulated)
    }

    /// Also if another node has sent a Hello in its name to another address of ours, before it or
    /// as a peer.
    #[test]
    fn an_answer_comes_from_the_address_to_which_that_hello_was_sent() {
        let bob = NodeAddr::Ip { ip: BOB, next_hop: BOBS };
        for is_peer in [false, true] {
            let mut route_table = simulated();
            if is_peer {
                route_table.set(BOB, route(2, 2), Instant(0));
            }
            for (mac, own) in [(OTHER, 2), (BOBS, 1), (OTHER, 2), (BOBS, 1)] {
                let to = route(own, 0).source;
                let answer = route_table.on_hello(BOB, mac, to, Instant(7));
                assert_eq!(answer, Some(route(own, 2)));
                assert!(!route_table.sent_hello_elsewhere(&bob, Some(to)));
                assert!(route_table.sent_hello_elsewhere(&bob, Some(route(3 - own, 0).source)));
                let mut frame = [0; 64];
                route_table.route_of_answer(bob).unwrap().write(&mut frame);
                assert_eq!((&frame[..6], &frame[26..30]), (&BOBS.0[..], &[198, 18, 9, own][..]));
            }
            let known = is_peer.then_some(route(2, 2));
            assert_eq!(route_table.ip_route(BOB), known, "a Hello changes no route");
        }
    }

    #[test]
    fn where_a_stranger_is_answered_is_asked_again_when_that_is_old() {
        let mut route_table = simulated();
        let own = route(1, 0).source;
        // It has moved since.
        let asked = Instant(1_000_000_000);
        route_table.recent_hellos.push_back(RecentHello { ip: BOB, route: route(1, 9), asked });
        let mut next_hop =
            |now| route_table.on_hello(BOB, BOBS, own, Instant(now)).unwrap().next_hop;
        assert_eq!([1_050_000_000, 1_100_000_000].map(&mut next_hop), [OTHER, BOBS]);
        assert_eq!(route_table.recent_hellos.len(), 1);
    }

    #[test]
    fn a_former_answer_is_kept_when_too_much_is_asked() {
        let mut route_table = simulated();
        let hello = RecentHello { ip: BOB, route: route(1, 2), asked: Instant(0) };
        route_table.recent_hellos.push_back(hello);
        route_table.since = Instant(1_000_000_000);
        route_table.questions = MOST_QUESTIONS;
        let answer = route_table.on_hello(BOB, BOBS, route(2, 0).source, Instant(1_050_000_000));
        assert_eq!(answer, Some(route(2, 2)));
    }
}
