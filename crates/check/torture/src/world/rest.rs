//! The end of a run: all faults are healed, and everything has to arrive, fail or complete.

use super::{HostState, MICROSECOND, MILLISECOND, SimulatedHost, Simulation};
use crate::node::Node;
use crate::pair::NodePair;
use crate::violation::{CheckResult, Class, Violation};
use std::time::Duration;

/// Besides twice the peer timeout, what a run may take to come to rest once all faults are healed:
/// many nodes fill one slow port's buffer again and again.
const REST: u64 = 60_000 * MILLISECOND;

impl Simulation<'_> {
    /// All is healed; everything has to arrive or fail within the stated time.
    pub(super) fn rest(&mut self) -> CheckResult {
        self.resting = true;
        let now = self.net.now();
        self.heal_links();
        self.join();
        for n in 0..self.scenario.nodes {
            let host = &mut self.hosts[usize::from(n)];
            (host.paused, host.frozen) = (0, 0);
            if let HostState::Down { until: Some(_) } = host.state {
                self.checkers.figures.restarts += 1;
                self.open(n);
            } else if host.node.is_some() {
                self.call(n, now + MICROSECOND);
            }
        }
        self.note("all is healed", 0);
        let limit = now + 2 * self.scenario.peer_timeout.as_nanos() as u64 + REST;
        self.come_to_rest(now, limit)?;
        // Receives that nothing was matched with are the only operations left, and go at once.
        for host in &mut self.hosts {
            host.node.iter_mut().for_each(Node::withdraw);
        }
        self.come_to_rest(now, limit)?;
        self.settle()
    }

    fn come_to_rest(&mut self, since: u64, limit: u64) -> CheckResult {
        let mut look = self.net.now();
        while !self.is_at_rest()? {
            look += 5 * MILLISECOND;
            if look > limit {
                return Err(self.what_hangs(limit - since));
            }
            while self.step(look)? {}
        }
        Ok(())
    }

    /// Whether nothing is left to do.
    fn is_at_rest(&mut self) -> CheckResult<bool> {
        let mut rest = true;
        for host in &mut self.hosts {
            rest &= !matches!(host.state, HostState::Closing { .. });
            let Some(node) = &mut host.node else { continue };
            let drained = node.is_drained();
            if drained {
                self.checkers.messages.drained(node.me);
            }
            rest &= drained && node.is_done() && !node.has_unwanted();
        }
        // Acknowledged messages may be unread: each node reads all that it has.
        rest &= self.net.next_arrival().is_none();
        if rest {
            for n in 0..self.scenario.nodes {
                if let Some(mut node) = self.hosts[usize::from(n)].node.take() {
                    let result = self.serve_node(&mut node, usize::MAX);
                    let more = node.has_unwanted() || !node.is_drained();
                    self.hosts[usize::from(n)].node = Some(node);
                    let now = self.net.now();
                    self.call(n, now + MICROSECOND);
                    result?;
                    rest &= !more;
                }
            }
            rest &= self.net.next_arrival().is_none();
        }
        Ok(rest)
    }

    fn what_hangs(&self, time: u64) -> Violation {
        let waits = |host: &&SimulatedHost| {
            host.node.as_ref().is_some_and(|n| !n.is_drained() || !n.is_done() || n.has_unwanted())
        };
        let node = self.hosts.iter().find(waits).and_then(|p| p.node.as_ref());
        let me = node.map_or(0, |node| node.me);
        let what = match node {
            Some(node) => {
                let time = Duration::from_nanos(time);
                format!("after {time:?} without faults: {}", node.waits_for())
            }
            None => "frames go on for ever".into(),
        };
        Violation::new(Class::Hung, NodePair::of_one(me), what)
    }

    fn settle(&mut self) -> CheckResult {
        self.checkers.messages.settle()?;
        self.checkers.tagged.settle()?;
        self.checkers.notices.settle()?;
        for node in self.hosts.iter().filter_map(|host| host.node.as_ref()) {
            let regions = &mut self.checkers.regions;
            let settle = |memory: &[u8]| regions.settle(node.me, memory);
            node.endpoint.with_region(node.key, settle).expect("it is registered")?;
        }
        Ok(())
    }
}
