//! What goes wrong: the links' faults, partitions, cuts, nodes that stop, vanish, close.

use super::{CLOSING, HostState, MICROSECOND, Simulation};
use crate::pair::NodePair;
use crate::scenario::{percent, pick, steep};
use gigae_sim::Faults;

impl Simulation<'_> {
    /// The links' faults change, a partition comes or goes, a node stops, vanishes, closes.
    pub(super) fn change(&mut self) {
        let now = self.net.now();
        let every = self.scenario.change_every.as_nanos() as u64;
        self.next_change = now + 1 + self.random.rand_range(0..2 * every);
        let Self { scenario, random, .. } = self;
        let n = random.rand_range(0..scenario.nodes.into()) as u16;
        let other = random.rand_range(0..scenario.nodes.into()) as u16;
        // Some last for longer than the peer timeout, most for less.
        let timeout = scenario.peer_timeout.as_nanos() as u64;
        let lasting = steep(random, 10 * MICROSECOND, 2 * timeout);
        match random.rand_range(0..100) {
            0..=34 => self.change_faults(),
            35..=44 => self.heal_links(),
            45..=58 if scenario.most_ports() > 1 && percent(random, 50) => self.cut_link(n),
            45..=51 => {
                self.sever(NodePair { from: n, to: other }, false);
                self.checkers.figures.partitions += 1;
            }
            52..=58 => {
                self.sever(NodePair { from: n, to: other }, true);
                self.checkers.figures.one_way += 1;
            }
            59..=62 => self.split(),
            63..=77 => self.join(),
            78..=86 => {
                self.hosts[usize::from(n)].paused = now + lasting;
                self.checkers.figures.pauses += 1;
                self.note("stops receiving", n);
            }
            87..=91 => {
                self.hosts[usize::from(n)].frozen = now + lasting;
                self.checkers.figures.freezes += 1;
                self.note("freezes", n);
            }
            92..=96 => {
                if matches!(self.hosts[usize::from(n)].state, HostState::Down { .. }) {
                    return;
                }
                let until = percent(random, 80).then(|| now + steep(random, MICROSECOND, lasting));
                self.checkers.figures.crashes += 1;
                self.note("crashes", n);
                self.vanish(n, until);
            }
            _ => {
                let host = &mut self.hosts[usize::from(n)];
                if matches!(host.state, HostState::Up) {
                    host.state = HostState::Closing { until: now + CLOSING, left: false };
                    self.note("begins to close", n);
                }
            }
        }
    }

    /// All nodes fall into two parts. No frames pass between them, or only one way.
    fn split(&mut self) {
        let one_way = pick(&mut self.random, &[true, false]);
        let part: Vec<bool> = self.hosts.iter().map(|_| percent(&mut self.random, 50)).collect();
        // Of many nodes, some of the first: a pair costs an entry.
        let most = self.hosts.len().min(64);
        for a in 0..most {
            for b in (0..most).filter(|&b| part[a] != part[b] && (part[a] || !one_way)) {
                self.sever(NodePair { from: a as u16, to: b as u16 }, true);
            }
        }
        match one_way {
            true => self.checkers.figures.one_way += 1,
            false => self.checkers.figures.partitions += 1,
        }
    }

    /// The faults change, on all links or on one of them.
    fn change_faults(&mut self) {
        let links = self.scenario.most_ports();
        let one = percent(&mut self.random, 50).then(|| self.random.rand_range(0..links as u64));
        for link in (0..links).filter(|&link| one.is_none_or(|one| one == link as u64)) {
            let faults = self.scenario.random_faults(link, &mut self.random);
            self.set_faults(link, faults);
        }
    }

    /// All faults of links end.
    pub(super) fn heal_links(&mut self) {
        for link in 0..self.scenario.most_ports() {
            self.set_faults(link, self.scenario.quiet(link));
        }
    }

    fn set_faults(&mut self, link: usize, faults: Faults) {
        if self.scenario.most_ports() == 1 {
            return self.net.set_faults(faults);
        }
        for host in &self.hosts {
            if let Some(&port) = host.ports.get(link) {
                self.net.set_port_faults(port, faults);
            }
        }
    }

    /// Nothing of one node reaches another, or nothing passes between the two.
    fn sever(&mut self, pair: NodePair, one_way: bool) {
        for &a in &self.hosts[usize::from(pair.from)].ports {
            for &b in &self.hosts[usize::from(pair.to)].ports {
                self.net.sever(a, b, true);
                if !one_way {
                    self.net.sever(b, a, true);
                }
            }
        }
    }

    /// One of a node's links fails, in either direction or both.
    fn cut_link(&mut self, n: u16) {
        let ports = &self.hosts[usize::from(n)].ports;
        // A node that is not there stays cut off.
        if self.hosts[usize::from(n)].node.is_none() {
            return;
        }
        let port = pick(&mut self.random, ports);
        let (from, to) = pick(&mut self.random, &[(true, true), (true, false), (false, true)]);
        self.net.cut(port, from, to);
        self.checkers.figures.link_cuts += 1;
        self.note("loses a link", n);
    }

    /// All partitions and cuts are healed.
    pub(super) fn join(&mut self) {
        self.net.join_all();
        for host in self.hosts.iter().filter(|host| host.node.is_some()) {
            host.ports.iter().for_each(|&port| self.net.cut(port, false, false));
        }
    }
}
