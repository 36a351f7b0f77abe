//! What an endpoint says of itself, and what others have said to it (`PROTOCOL.md` §10).

use crate::address::Host;
use crate::local::{Local, Subnet};
use crate::neighbour::Neighbour;
use crate::route_table::RouteTable;
use gigae_proto::Instant;
use gigae_wire::{Epoch, MacAddr, NodeAddr, Route, is_node_name};
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

/// Endpoints remembered; more than one Ethernet has nodes, and a bound to what attackers can fill.
const MOST_NEIGHBOURS: usize = 4096;

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
}
