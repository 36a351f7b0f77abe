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

/// The part of both that is left for nodes to which a way is known: peers, that is.
const RESERVED_PART: u32 = 4;

/// Strangers that are remembered for an answer.
const MOST_HEARD: usize = 64;

const PERIOD: Duration = Duration::from_millis(100);

/// What knows the ways to IP nodes.
#[derive(Debug)]
pub(crate) enum Resolver {
    /// Nothing: in an Ethernet envelope no ways are needed.
    None,
    Kernel(Reservation),
    /// A simulated network, on which they follow from the addresses.
    Simulated,
}

/// The way to an IP node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// This node's address towards it.
    pub(crate) source: IpAddr,
    pub(crate) next_hop: MacAddr,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    way: Way,
    /// When it was asked for.
    asked: Instant,
    /// When the node last showed that it is to be spoken to from another address of ours.
    moved: Option<Instant>,
}

/// A node that proposed a session a moment ago.
#[derive(Clone, Copy, Debug)]
struct Heard {
    ip: IpAddr,
    way: Way,
    /// When the kernel was last asked for it.
    asked: Instant,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) envelope: Envelope,
    pub(crate) mac: MacAddr,
    /// The IP addresses that the interface had when the endpoint was opened; `None` if the kernel
    /// did not say.
    pub(crate) own: Option<Vec<IpAddr>>,
    /// Endpoints of this node, at its own addresses, are reached through memory.
    pub(crate) near: bool,
    ways: HashMap<IpAddr, Known>,
    heard: VecDeque<Heard>,
    resolver: Resolver,
    /// Questions since then.
    since: Instant,
    questions: u32,
    searches: u32,
}

impl Sources {
    pub(crate) fn new(
        envelope: Envelope,
        mac: MacAddr,
        own: Option<Vec<IpAddr>>,
        resolver: Resolver,
    ) -> Self {
        let ways = HashMap::new();
        let (heard, since) = (VecDeque::new(), Instant(0));
        let near = false;
        Self { envelope, mac, own, near, ways, heard, resolver, since, questions: 0, searches: 0 }
    }

    /// Nodes to which a way is known, and strangers that are remembered for an answer.
    pub(crate) fn len(&self) -> usize {
        self.ways.len() + self.heard.len()
    }

    /// The outer headers towards a node; `None` if the way to it is not known.
    pub(crate) fn route(&self, to: NodeAddr) -> Option<Route> {
        let NodeAddr::Ip { ip, .. } = to else {
            return Route::new(self.envelope, NodeAddr::Ethernet(self.mac), to);
        };
        self.route_by(ip, self.way(ip).or_else(|| self.heard(ip))?)
    }

    /// The same for an answer to a Hello: it comes from the address to which that was sent.
    pub(crate) fn route_of_answer(&self, to: NodeAddr) -> Option<Route> {
        let NodeAddr::Ip { ip, .. } = to else { return self.route(to) };
        let Some(heard) = self.heard(ip) else { return self.route(to) };
        let next_hop = self.way(ip).map_or(heard.next_hop, |way| way.next_hop);
        self.route_by(ip, Way { next_hop, ..heard })
    }

    fn route_by(&self, ip: IpAddr, Way { source, next_hop }: Way) -> Option<Route> {
        let from = NodeAddr::Ip { ip: source, next_hop: self.mac };
        Route::new(self.envelope, from, NodeAddr::Ip { ip, next_hop })
    }

    /// The way to an IP node, if it is known.
    pub(crate) fn way(&self, to: IpAddr) -> Option<Way> {
        Some(self.ways.get(&to)?.way)
    }

    /// The way by which an IP node that proposed a session is answered.
    fn heard(&self, from: IpAddr) -> Option<Way> {
        Some(self.heard.iter().find(|heard| heard.ip == from)?.way)
    }

    /// Whether that node last proposed a session to another address of ours than this.
    pub(crate) fn was_heard_elsewhere(&self, from: &NodeAddr, own: Option<IpAddr>) -> bool {
        let NodeAddr::Ip { ip, .. } = *from else { return false };
        self.heard(ip).is_some_and(|way| Some(way.source) != own)
    }

    /// A node proposes a session to this address of ours, in a frame from this MAC address. The
    /// answer comes from that address and goes where the kernel says, which is asked once in a
    /// [`PERIOD`]. Returns that way. It is remembered until as many other nodes have spoken as can
    /// be answered at once.
    pub(crate) fn hear(
        &mut self,
        ip: IpAddr,
        mac: MacAddr,
        own: IpAddr,
        now: Instant,
    ) -> Option<Way> {
        let at = self.heard.iter().position(|heard| heard.ip == ip);
        let before = at.and_then(|at| self.heard.remove(at));
        let heard = match (self.ways.get(&ip), before) {
            (Some(known), _) => Heard { ip, way: known.way, asked: known.asked },
            (None, Some(before)) if now.since(before.asked) < PERIOD => before,
            (None, before) => {
                let doubt = before.is_some_and(|before| before.way.next_hop != mac);
                // A former answer is better than none.
                let way = self.ask(ip, doubt, now).or(before.map(|before| before.way))?;
                Heard { ip, way, asked: now }
            }
        };
        if self.heard.len() == MOST_HEARD {
            self.heard.pop_front();
        }
        let way = Way { source: own, ..heard.way };
        self.heard.push_back(Heard { way, ..heard });
        Some(way)
    }

    /// The last peer of a node has made room for another.
    pub(crate) fn forget(&mut self, node: IpAddr) {
        self.ways.remove(&node);
    }

    /// How many ways are known.
    #[cfg(test)]
    pub(crate) fn ways(&self) -> usize {
        self.ways.len()
    }

    /// The way to an IP node is known now; whether that is news.
    pub(crate) fn set(&mut self, to: IpAddr, way: Way, now: Instant) -> bool {
        let moved = self.ways.get(&to).and_then(|before| before.moved);
        let before = self.ways.insert(to, Known { way, asked: now, moved });
        before.is_none_or(|before| before.way != way)
    }

    /// Whether a node that is to be spoken to from another address of ours may be: once in a
    /// [`PERIOD`], since all routes are gone through for it.
    pub(crate) fn may_move(&mut self, to: IpAddr, now: Instant) -> bool {
        let Some(known) = self.ways.get_mut(&to) else { return true };
        let may = known.moved.is_none_or(|moved| now.since(moved) >= PERIOD);
        known.moved = if may { Some(now) } else { known.moved };
        may
    }

    /// The way to an address of this node at which other endpoints are reached: by no wire.
    pub(crate) fn way_within(&self, to: IpAddr) -> Option<Way> {
        let own = self.own.as_ref().filter(|_| self.near)?;
        own.contains(&to).then_some(Way { source: to, next_hop: self.mac })
    }

    /// The kernel answers from now on.
    pub(crate) fn resolve_by(&mut self, kernel: Reservation) {
        self.resolver = Resolver::Kernel(kernel);
    }

    /// Asks the resolver for the way to a node, without waiting. `None` if it is not known now, or
    /// if too much was asked lately, of one node once in 100 ms: the next frame that goes
    /// unanswered asks again. The kernel is made to look for a node that it does not know, and with
    /// `doubt` to make sure of one that it does. Strangers leave a part of the questions to peers.
    pub(crate) fn ask(&mut self, to: IpAddr, doubt: bool, now: Instant) -> Option<Way> {
        if now.since(self.since) >= PERIOD {
            (self.since, self.questions, self.searches) = (now, 0, 0);
        }
        let lately = |known: &mut Known| {
            let lately = now.since(known.asked) < PERIOD;
            known.asked = if lately { known.asked } else { now };
            lately
        };
        let known = self.ways.get_mut(&to);
        let part = |most: u32| if known.is_some() { most } else { most - most / RESERVED_PART };
        let (most_questions, most_searches) = (part(MOST_QUESTIONS), part(MOST_SEARCHES));
        if self.questions >= most_questions || known.is_some_and(lately) {
            return None;
        }
        self.questions += 1;
        if let Some(way) = self.way_within(to) {
            return Some(way);
        }
        match &self.resolver {
            Resolver::None => None,
            Resolver::Simulated => {
                let source = simulated::ip(self.mac, to.is_ipv6());
                Some(Way { source, next_hop: simulated::next_hop(to).ok()? })
            }
            Resolver::Kernel(reservation) => {
                let (source, next_hop) = reservation.look(to)?;
                if (doubt || next_hop.is_none()) && self.searches < most_searches {
                    self.searches += 1;
                    // What cannot be sent now is asked for again later.
                    let _ = reservation.provoke(to);
                }
                Some(Way { source, next_hop: next_hop? })
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
    fn who_causes_questions_does_not_cause_them_without_bound() {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let envelope = Envelope::Udp { port: 4791 };
        let mut sources = Sources::new(envelope, mac, None, Resolver::Simulated);
        let asked = |sources: &mut Sources, now: u64| {
            let all = 1..=u8::MAX;
            let known =
                |n: &u8| sources.ask([198, 18, 0, *n].into(), false, Instant(now)).is_some();
            all.filter(known).count()
        };
        assert_eq!(asked(&mut sources, 1_000_000_000), 75);
        assert_eq!(asked(&mut sources, 1_050_000_000), 0);
        assert_eq!(asked(&mut sources, 1_100_000_000), 75);
        assert_eq!(sources.ways(), 0, "a question changes nothing");
        // The rest is for peers.
        for n in 0..50 {
            sources.set([198, 18, 1, n].into(), way(1, 2), Instant(0));
        }
        let peers = (0..50).filter(|n| {
            sources.ask([198, 18, 1, *n].into(), true, Instant(1_150_000_000)).is_some()
        });
        assert_eq!(peers.count(), 25);
    }

    const BOB: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 2));
    const BOBS: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
    const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn way(own: u8, next_hop: u8) -> Way {
        Way { source: [198, 18, 9, own].into(), next_hop: MacAddr([2, 0, 0, 0, 0, next_hop]) }
    }

    fn simulated() -> Sources {
        let envelope = Envelope::Udp { port: 4791 };
        Sources::new(envelope, MacAddr([2, 0, 0, 0, 0, 1]), None, Resolver::Simulated)
    }

    /// Also if another node has sent a Hello in its name to another address of ours, before it or
    /// as a peer.
    #[test]
    fn an_answer_comes_from_the_address_to_which_that_hello_was_sent() {
        let bob = NodeAddr::Ip { ip: BOB, next_hop: BOBS };
        for is_peer in [false, true] {
            let mut sources = simulated();
            if is_peer {
                sources.set(BOB, way(2, 2), Instant(0));
            }
            for (mac, own) in [(OTHER, 2), (BOBS, 1), (OTHER, 2), (BOBS, 1)] {
                let to = way(own, 0).source;
                let heard = sources.hear(BOB, mac, to, Instant(7));
                assert_eq!(heard, Some(way(own, 2)));
                assert!(!sources.was_heard_elsewhere(&bob, Some(to)));
                assert!(sources.was_heard_elsewhere(&bob, Some(way(3 - own, 0).source)));
                let mut frame = [0; 64];
                sources.route_of_answer(bob).unwrap().write(&mut frame);
                assert_eq!((&frame[..6], &frame[26..30]), (&BOBS.0[..], &[198, 18, 9, own][..]));
            }
            assert_eq!(sources.way(BOB), is_peer.then_some(way(2, 2)), "a Hello changes no way");
        }
    }

    #[test]
    fn where_a_stranger_is_answered_is_asked_again_when_that_is_old() {
        let mut sources = simulated();
        let own = way(1, 0).source;
        // It has moved since.
        let asked = Instant(1_000_000_000);
        sources.heard.push_back(Heard { ip: BOB, way: way(1, 9), asked });
        let mut hear = |now| sources.hear(BOB, BOBS, own, Instant(now)).unwrap().next_hop;
        assert_eq!([1_050_000_000, 1_100_000_000].map(&mut hear), [OTHER, BOBS]);
        assert_eq!(sources.heard.len(), 1);
    }

    #[test]
    fn a_former_answer_is_kept_when_too_much_is_asked() {
        let mut sources = simulated();
        sources.heard.push_back(Heard { ip: BOB, way: way(1, 2), asked: Instant(0) });
        sources.since = Instant(1_000_000_000);
        sources.questions = MOST_QUESTIONS;
        let heard = sources.hear(BOB, BOBS, way(2, 0).source, Instant(1_050_000_000));
        assert_eq!(heard, Some(way(2, 2)));
    }
}
