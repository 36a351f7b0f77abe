//! Hosts, switches and the links between them.

use crate::frame::{GAP, PREAMBLE, SHORTEST, wire_bytes};
use crate::port::{Node, Port};
use crate::{HostId, PortId, Rate, Time};
use std::ops::Range;

/// A cable: both directions are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Its rate.
    pub rate: Rate,
    /// The time that a bit takes from end to end.
    pub delay: Time,
    /// The chance that a frame is lost, 0 to 1.
    pub loss: f64,
}

impl Link {
    /// A link without losses.
    pub fn new(rate: Rate, delay: Time) -> Self {
        Self { rate, delay, loss: 0.0 }
    }
}

/// When a switch begins to forward a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// When it has the whole frame.
    StoreAndForward,
    /// When it has the first 64 bytes. A frame from a slower link to a faster one is stored first,
    /// because the switch would run out of bytes otherwise.
    CutThrough,
}

/// How much a switch can hold. A frame that does not fit is dropped on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Any number of bytes.
    Unlimited,
    /// So many bytes for each port.
    PerPort(u64),
    /// So many bytes for all ports together. A port can hold at most `alpha` times what is free
    /// (numerator, denominator): the dynamic threshold of usual switches.
    Shared {
        /// All bytes.
        bytes: u64,
        /// Numerator and denominator, each 1 to 1,024.
        alpha: (u64, u64),
    },
}

/// What a switch is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// From a frame's arrival until it is in its queue. A frame takes no room in the buffer within
    /// this time.
    pub latency: Time,
    /// When it begins to forward.
    pub forwarding: Forwarding,
    /// Its memory. A frame takes room from its arrival until it and the gap behind it have left.
    pub buffer: Buffer,
    /// ECN: mark a frame if the bytes held for its port, its own among them, are more than this.
    pub mark_above: Option<u64>,
}

impl Switch {
    /// A switch that stores and forwards, without limits and marks.
    pub fn new(latency: Time) -> Self {
        let (forwarding, buffer) = (Forwarding::StoreAndForward, Buffer::Unlimited);
        Self { latency, forwarding, buffer, mark_above: None }
    }
}

/// Two tiers: hosts on leaves, every leaf on every spine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeafSpine {
    /// Leaves.
    pub leaves: u32,
    /// Hosts on each leaf.
    pub hosts_per_leaf: u32,
    /// Spines: so many equal-cost paths from each leaf to each other.
    pub spines: u32,
    /// Between host and leaf.
    pub host_link: Link,
    /// Between leaf and spine.
    pub core_link: Link,
    /// All switches.
    pub switch: Switch,
}

impl LeafSpine {
    /// The topology of pFabric, Homa, Aeolus and dcPIM: 9 leaves with 16 hosts each, 4 spines; 10
    /// Gbit/s to hosts, 40 Gbit/s between switches, 250 ns per switch.
    pub fn published() -> Self {
        Self {
            leaves: 9,
            hosts_per_leaf: 16,
            spines: 4,
            host_link: Link::new(Rate::gbit(10), Time::ZERO),
            core_link: Link::new(Rate::gbit(40), Time::ZERO),
            switch: Switch::new(Time::ns(250)),
        }
    }
}

/// Where a switch sends a frame for the hosts of a leaf: to one of some neighbouring ports.
#[derive(Clone, Copy, Debug)]
struct Group {
    first: PortId,
    count: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct SwitchPlan {
    pub(crate) switch: Switch,
    /// Its number among the leaves, if it is one.
    leaf: Option<u32>,
    /// By leaf.
    groups: Vec<Group>,
    pub(crate) ports: Range<PortId>,
}

/// A network's plan. [`crate::Network::new`] builds it.
#[derive(Clone, Debug)]
pub struct Topology {
    pub(crate) ports: Vec<Port>,
    pub(crate) switches: Vec<SwitchPlan>,
    /// By host.
    leaf_of: Vec<u32>,
    down: Vec<PortId>,
}

impl Topology {
    /// Hosts on one switch. A host handles a frame `turnaround` after its last bit has arrived.
    ///
    /// # Panics
    /// As [`Topology::leaf_spine`].
    pub fn one_switch(hosts: u32, link: Link, switch: Switch, turnaround: Time) -> Self {
        let (host_link, core_link) = (link, link);
        let plan =
            LeafSpine { leaves: 1, hosts_per_leaf: hosts, spines: 0, host_link, core_link, switch };
        Self::leaf_spine(plan, turnaround)
    }

    /// Two tiers. A host handles a frame `turnaround` after its last bit has arrived.
    ///
    /// # Panics
    /// If there are several leaves and no spine, or no hosts, or if a shared buffer has more than
    /// 2^50 bytes or an alpha out of its bounds.
    pub fn leaf_spine(plan: LeafSpine, turnaround: Time) -> Self {
        let LeafSpine { leaves, hosts_per_leaf, spines, host_link, core_link, switch } = plan;
        assert!(leaves > 0 && hosts_per_leaf > 0, "a network has at least one host");
        assert!(leaves == 1 || spines > 0, "leaves need a spine between them");
        if let Buffer::Shared { bytes, alpha: (times, of) } = switch.buffer {
            // So that products with alpha fit into 64 bits.
            assert!(bytes <= 1 << 50, "a shared buffer has at most 2^50 bytes");
            let valid = 1..=1_024;
            assert!(valid.contains(&times) && valid.contains(&of), "alpha has parts of 1 to 1,024");
        }
        let hosts = leaves * hosts_per_leaf;
        let cut_through = switch.forwarding == Forwarding::CutThrough;
        let new = |node, peer, link: Link| {
            let after = match peer {
                Node::Host(_) => turnaround,
                Node::Switch(_) => switch.latency,
            };
            let mut port = Port::new(node, peer, link.rate, link.delay + after, link.loss);
            port.cut_through = cut_through && matches!(peer, Node::Switch(_));
            port
        };
        let leaf_of: Vec<u32> = (0..hosts).map(|host| host / hosts_per_leaf).collect();
        let mut down = Vec::new();
        let nic = |h| new(Node::Host(h), Node::Switch(leaf_of[h as usize]), host_link);
        let mut ports: Vec<Port> = (0..hosts).map(nic).collect();
        let mut switches = Vec::new();
        for leaf in 0..leaves {
            let begin = ports.len() as PortId;
            for host in leaf * hosts_per_leaf..(leaf + 1) * hosts_per_leaf {
                down.push(ports.len() as PortId);
                ports.push(new(Node::Switch(leaf), Node::Host(host), host_link));
            }
            let up = Group { first: ports.len() as PortId, count: spines };
            for spine in 0..spines {
                ports.push(new(Node::Switch(leaf), Node::Switch(leaves + spine), core_link));
            }
            let groups = vec![up; leaves as usize];
            let ports = begin..ports.len() as PortId;
            switches.push(SwitchPlan { switch, leaf: Some(leaf), groups, ports });
        }
        for spine in leaves..leaves + spines {
            let begin = ports.len() as PortId;
            let to_leaf = |leaf| new(Node::Switch(spine), Node::Switch(leaf), core_link);
            ports.extend((0..leaves).map(to_leaf));
            let groups = (0..leaves).map(|leaf| Group { first: begin + leaf, count: 1 }).collect();
            let ports = begin..ports.len() as PortId;
            switches.push(SwitchPlan { switch, leaf: None, groups, ports });
        }
        Self { ports, switches, leaf_of, down }
    }

    /// The number of hosts.
    pub fn hosts(&self) -> u32 {
        self.leaf_of.len() as u32
    }

    /// The rate of hosts' links.
    pub fn host_rate(&self) -> Rate {
        self.ports[0].rate
    }

    /// The port of a switch that leads to this host.
    pub fn port_to(&self, host: HostId) -> PortId {
        self.down[host as usize]
    }

    /// The ports of a switch. Leaves come first, then spines.
    pub fn ports_of(&self, switch: u32) -> Range<PortId> {
        self.switches[switch as usize].ports.clone()
    }

    /// Another rate for the port that leads to a host, and not for the host's own: a narrow place.
    pub fn set_rate_to(&mut self, host: HostId, rate: Rate) {
        self.ports[self.down[host as usize] as usize].rate = rate;
    }

    /// The port by which a switch forwards frames of a flow to a host.
    #[inline]
    pub fn route(&self, switch: u32, destination: HostId, flow: u32) -> PortId {
        let plan = &self.switches[switch as usize];
        let leaf = self.leaf_of[destination as usize];
        if plan.leaf == Some(leaf) {
            return self.down[destination as usize];
        }
        let group = plan.groups[leaf as usize];
        match group.count {
            1 => group.first,
            count => {
                let hash = u64::from(mix(flow ^ switch.wrapping_mul(0x9E37_79B9)));
                group.first + ((hash * u64::from(count)) >> 32) as u32
            }
        }
    }

    /// The ports that a flow takes from host to host, the sender's NIC first.
    pub fn path(&self, source: HostId, destination: HostId, flow: u32) -> Vec<PortId> {
        let mut path = vec![source];
        while let Node::Switch(switch) = self.ports[path[path.len() - 1] as usize].peer {
            path.push(self.route(switch, destination, flow));
        }
        path
    }

    /// The time from the begin of the first transmission until the receiver handles the last frame,
    /// on an idle network: `full` frames of `full_length` bytes, then one of `last_length`, unless
    /// that is 0.
    pub fn ideal(&self, path: &[PortId], full: u64, full_length: u32, last_length: u32) -> Time {
        let full_wire = wire_bytes(full_length);
        // For each port: when it is done with the last of the full frames.
        let mut done = vec![Time::ZERO; path.len()];
        let mut handled = Time::ZERO;
        if full > 0 {
            let (mut begin, mut slowest) = (Time::ZERO, Time::ZERO);
            for (i, &port) in path.iter().enumerate() {
                let time = self.ports[port as usize].rate.time(full_wire);
                slowest = slowest.max(time);
                // The slowest link so far sets the pace of the frames behind the first one.
                done[i] = begin + time + Time(slowest.0 * (full - 1));
                begin = self.handled(path, i, begin, full_length);
                handled = begin + Time(slowest.0 * (full - 1));
            }
        }
        if last_length > 0 {
            let mut ready = Time::ZERO;
            for (i, &done) in done.iter().enumerate() {
                let begin = ready.max(done);
                ready = self.handled(path, i, begin, last_length);
            }
            handled = handled.max(ready);
        }
        handled
    }

    /// When the node behind the `i`th port of a path handles a frame that is sent from `begin` on.
    fn handled(&self, path: &[PortId], i: usize, begin: Time, length: u32) -> Time {
        let port = &self.ports[path[i] as usize];
        let faster =
            path.get(i + 1).is_some_and(|&next| self.ports[next as usize].rate < port.rate);
        let bytes = match port.cut_through && !faster {
            true => PREAMBLE + SHORTEST,
            false => wire_bytes(length) - GAP,
        };
        begin + port.rate.time(bytes) + port.delay
    }
}

/// Spreads all bits of a number over all bits.
fn mix(mut hash: u32) -> u32 {
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x7FEB_352D);
    hash ^= hash >> 15;
    hash = hash.wrapping_mul(0x846C_A68B);
    hash ^ (hash >> 16)
}
