//! What an endpoint says of itself, and what others have said to it (`PROTOCOL.md` §10).

use crate::address::Host;
use crate::local::{Local, Subnet};
use crate::neighbour::Neighbour;
use crate::route_table::RouteTable;
use gigae_proto::Instant;
use gigae_wire::{Epoch, Header, MacAddr, NodeAddr, PathId, Route, is_node_name};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// An endpoint answers at most this many questions per [`PERIOD`] (rule 10.4). That is enough for
/// several requesters at once that repeat their question, and few beside a link's frames per
/// second.
const MOST_ANSWERS: u32 = 16;
const PERIOD: Duration = Duration::from_millis(100);

/// The name of a node whose own name cannot be found.
const UNNAMED: &str = "unnamed";

/// Endpoints remembered: as many as an endpoint can have peers, and a bound to what attackers can
/// fill, some megabytes.
const MOST_NEIGHBOURS: usize = 16_384;

/// The time over which answers to a question are spread, while few nodes are known. 10,000 answers
/// in this time fill half of 10 Gbit/s.
const LEAST_SPREAD: Duration = Duration::from_millis(5);

/// The same for each known node. Four times as many may be there, because the answers of most may
/// have been lost, and receiving one takes a busy node some microseconds.
const SPREAD_OF_ONE: Duration = Duration::from_micros(20);

/// Longest such time that a requester asks for, and that an endpoint waits with its answer.
const MOST_SPREAD: Duration = Duration::from_secs(1);

/// Answers that wait at most. A further one makes the first one go at once.
const MOST_WAITING: usize = 16;

/// In these units a question says the time.
const SPREAD_UNIT: Duration = Duration::from_micros(100);

/// How long answers may take, as a question says it.
pub(super) fn spread_units(spread: Duration) -> u16 {
    u16::try_from(spread.as_micros() / SPREAD_UNIT.as_micros()).unwrap_or(u16::MAX)
}

/// An answer that waits, so that not all nodes answer at the same moment.
pub(super) struct PendingAnswer {
    pub(super) due: Instant,
    pub(super) path: PathId,
    pub(super) route: Route,
    /// Of the answer.
    pub(super) header: Header,
}

/// See the module's description.
pub(crate) struct Discovery {
    pub(super) name: String,
    pub(super) ip: Option<IpAddr>,
    subnets: Vec<Subnet>,
    /// It is a node's, and not one of several processes' on a NIC.
    pub(super) answers: bool,
    /// The current [`PERIOD`], and the answers given in it.
    since: Instant,
    answered: u32,
    /// Answers that wait, and when the first of them is due.
    waiting: Vec<PendingAnswer>,
    pub(super) due: Instant,
    /// The number of this endpoint's question, once it has asked.
    pub(super) question: Option<Epoch>,
    neighbours: Vec<Neighbour>,
    /// Where each of them is in the list.
    places: HashMap<Key, usize>,
    /// Which of them makes room for the next one when the list is full.
    oldest: usize,
}

/// What distinguishes one endpoint from another.
type Key = (MacAddr, Host, u16);

fn key(neighbour: &Neighbour) -> Key {
    (neighbour.mac, neighbour.address.host, neighbour.port)
}

impl Discovery {
    /// `name`: what the node is called, or its host's name. `local`: the interface underneath, if a
    /// kernel knows it.
    pub(crate) fn new(name: Option<String>, local: Option<Local>, answers: bool) -> Self {
        Self {
            name: name.unwrap_or_else(host_name),
            ip: local.as_ref().and_then(Local::ip),
            subnets: local.map(|local| local.subnets).unwrap_or_default(),
            answers,
            since: Instant(0),
            answered: 0,
            waiting: Vec::new(),
            due: Instant::NEVER,
            question: None,
            neighbours: Vec::new(),
            places: HashMap::new(),
            oldest: 0,
        }
    }

    /// Whether there is an answer left now. Another [`PERIOD`] has others.
    pub(super) fn may_answer(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= PERIOD {
            (self.since, self.answered) = (now, 0);
        }
        self.answered < MOST_ANSWERS
    }

    /// An answer is given.
    pub(super) fn answer(&mut self) {
        self.answered += 1;
    }

    /// Over which time the answers to the next question should be spread.
    pub(super) fn spread(&self) -> Duration {
        let known = u32::try_from(self.neighbours.len()).unwrap_or(u32::MAX);
        (SPREAD_OF_ONE * known).clamp(LEAST_SPREAD, MOST_SPREAD)
    }

    /// How long an answer waits. `units` is what the question says, `random` is out of 2^32.
    pub(super) fn delay(units: u16, random: u32) -> Duration {
        let spread = (SPREAD_UNIT * units.into()).min(MOST_SPREAD);
        Duration::from_nanos(((u128::from(random) * spread.as_nanos()) >> 32) as u64)
    }

    /// Keeps an answer until it is due, or returns the one that goes at once instead.
    pub(super) fn postpone(&mut self, answer: PendingAnswer) -> Option<PendingAnswer> {
        let at = self.waiting.partition_point(|other| other.due <= answer.due);
        self.waiting.insert(at, answer);
        let first = (self.waiting.len() > MOST_WAITING).then(|| self.waiting.remove(0));
        self.due = self.waiting.first().map_or(Instant::NEVER, |answer| answer.due);
        first
    }

    /// The next answer that is due.
    pub(super) fn due_answer(&mut self, now: Instant) -> Option<PendingAnswer> {
        let first = (now >= self.due).then(|| self.waiting.remove(0))?;
        self.due = self.waiting.first().map_or(Instant::NEVER, |answer| answer.due);
        Some(first)
    }

    /// The endpoints that have answered so far.
    pub(super) fn neighbours(&self) -> &[Neighbour] {
        &self.neighbours
    }

    /// Remembers an endpoint that has answered. If the list is full, the first that came makes
    /// room: all may be made up, and those that are there answer the next question again.
    pub(super) fn add(&mut self, neighbour: Neighbour) {
        let place = match self.places.get(&key(&neighbour)) {
            Some(&known) => known,
            None if self.neighbours.len() < MOST_NEIGHBOURS => self.neighbours.len(),
            None => {
                let place = self.oldest;
                self.oldest = (place + 1) % MOST_NEIGHBOURS;
                self.places.remove(&key(&self.neighbours[place]));
                place
            }
        };
        self.places.insert(key(&neighbour), place);
        match self.neighbours.get_mut(place) {
            Some(known) => *known = neighbour,
            None => self.neighbours.push(neighbour),
        }
    }

    /// The outer headers of a question to all.
    pub(super) fn route_to_all(&self, route_table: &RouteTable) -> Option<Route> {
        let (mac, all) = (route_table.mac, MacAddr::BROADCAST);
        Route::new(route_table.envelope, mac.into(), all.into()).or_else(|| {
            let (own, broadcast) = self.subnets.iter().find_map(Subnet::broadcast)?;
            let from = NodeAddr::Ip { ip: own.into(), next_hop: mac };
            let to = NodeAddr::Ip { ip: broadcast.into(), next_hop: all };
            Route::new(route_table.envelope, from, to)
        })
    }

    /// This node's address in the subnet of another; `None` if that is of none of this node's
    /// subnets.
    pub(super) fn own_towards(&self, ip: IpAddr) -> Option<IpAddr> {
        Some(self.subnets.iter().find(|own| own.has_neighbour(ip))?.ip)
    }
}

/// The host's name as the kernel has it, or none if a node may not have it.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().take(gigae_wire::LONGEST_NAME).collect();
    if is_node_name(&name) { name } else { UNNAMED.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;

    #[test]
    fn an_endpoint_that_answers_again_is_found_among_any_number_of_made_up_ones() {
        let mut discovery = Discovery::new(Some("asker".into()), None, true);
        let said = |n: u32| {
            let [a, b, c, d] = n.to_be_bytes();
            let mac = MacAddr([2, 0, a, b, c, d]);
            let (name, channels) = (format!("n{n}"), vec![0]);
            let (address, port) = (Address::from(mac), 0);
            Neighbour { name, address, mac, ip: None, mtu: 1500, max_message: 1468, port, channels }
        };
        for n in 1..3 * MOST_NEIGHBOURS as u32 {
            discovery.add(said(n));
            discovery.add(said(n));
        }
        discovery.add(said(0));
        let neighbours = discovery.neighbours();
        assert_eq!(neighbours.len(), MOST_NEIGHBOURS);
        assert!(neighbours.contains(&said(0)));
        assert_eq!(discovery.places.len(), MOST_NEIGHBOURS);
        assert!(discovery.places.iter().all(|(known, &place)| key(&neighbours[place]) == *known));
    }

    #[test]
    fn few_answers_wait_the_first_goes_first_and_none_waits_longer_than_a_second() {
        use gigae_wire::{Envelope, Flags, Kind, SeqNo};
        let mut discovery = Discovery::new(Some("asked".into()), None, true);
        let answer = |n: u32, due: u64| {
            let (own, to) = (MacAddr([2; 6]).into(), MacAddr([2, 0, 0, 0, 0, 1]).into());
            let route = Route::new(Envelope::DEFAULT, own, to).unwrap();
            let header = Header {
                kind: Kind::Here,
                channel: 0,
                src_port: 0,
                dst_port: 0,
                src_epoch: Epoch(0),
                dst_epoch: Epoch(n),
                seq: SeqNo(0),
                ack: SeqNo(0),
                credit: 0,
                flags: Flags::NONE,
            };
            PendingAnswer { due: Instant(due), path: PathId::FIRST, route, header }
        };
        let mut at_once = Vec::new();
        for n in 0..100 {
            let due = u64::from(n * 37 % 100);
            at_once.extend(discovery.postpone(answer(n, due)).map(|answer| answer.due.0));
            assert!(discovery.waiting.len() <= MOST_WAITING);
        }
        assert_eq!(at_once.len(), 100 - MOST_WAITING);
        let due = std::iter::from_fn(|| discovery.due_answer(Instant(1_000)));
        let due: Vec<_> = due.map(|answer| answer.due.0).collect();
        assert!(due.len() == MOST_WAITING && due.is_sorted());
        assert_eq!(discovery.due, Instant::NEVER);
        assert!(Discovery::delay(u16::MAX, u32::MAX) <= MOST_SPREAD);
        assert_eq!(Discovery::delay(0, u32::MAX), Duration::ZERO);
        assert_eq!(Discovery::delay(50, 1 << 31), Duration::from_micros(2_500));
    }
}
