//! A run: virtual time, the nodes in it, and all that goes wrong.
//!
//! It is a simulation by events. A node is called when something has arrived and it has noticed,
//! when its endpoint asked to be called, or when it wants to do something; between these the time
//! jumps.

mod faults;
mod rest;

use crate::figures::Figures;
use crate::memory::Regions;
use crate::messages::Messages;
use crate::node::{Checkers, Context, KnownPeer, Node};
use crate::notices::Notices;
use crate::pair::NodePair;
use crate::scenario::{Scenario, percent, steep};
use crate::tagged::TaggedMessages;
use crate::trace::{Event, Trace};
use crate::violation::{CheckResult, Class, Violation};
use gigae::{Address, MacAddr, RegionKey, Rights};
use gigae_sim::{Network, Port};
use oorandom::Rand64;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;

/// Virtual nanoseconds.
const MICROSECOND: u64 = 1000;
const MILLISECOND: u64 = 1000 * MICROSECOND;

/// Longest time between two looks of a node that never sleeps and finds nothing.
const LONGEST_LOOK: u64 = 500 * MICROSECOND;

/// Calls of nodes after which a run is taken for one that never ends.
const MOST_CALLS: u64 = 20_000_000;

/// Time that a node which is closing gives its own messages to be acknowledged.
const CLOSING: u64 = 50 * MILLISECOND;

/// What a run is to show of itself.
#[derive(Debug, Default)]
pub struct Watch {
    /// Print every event.
    pub verbose: bool,
    /// Write every frame to a pcapng file.
    pub capture: Option<std::fs::File>,
}

/// What came of a run.
#[derive(Debug)]
pub struct RunReport {
    /// What was tried.
    pub figures: Figures,
    /// A number that follows from every delivery, completion and fault and its virtual time.
    pub digest: u64,
    /// What was broken, if anything.
    pub violation: Option<Violation>,
    /// The last events of the two nodes that it concerns.
    pub events: Vec<String>,
}

/// Runs a scenario to its end or its first violation.
///
/// # Errors
/// If the capture cannot be written.
pub fn run(scenario: &Scenario, watch: Watch) -> io::Result<RunReport> {
    let mut simulation = Simulation::new(scenario, &watch);
    if let Some(file) = watch.capture {
        simulation.net.capture(file)?;
    }
    let result = simulation.live().and_then(|()| simulation.rest());
    Ok(simulation.outcome(result.err()))
}

enum HostState {
    Up,
    /// It waits until then for acknowledgements, and closes gracefully.
    Closing {
        until: u64,
        left: bool,
    },
    /// It comes back then, or never.
    Down {
        until: Option<u64>,
    },
}

/// What the simulation knows of a node besides its program.
struct SimulatedHost {
    node: Option<Node>,
    state: HostState,
    /// Of its links, in their order.
    ports: Vec<Port>,
    /// Whether it sleeps until it is called.
    sleeps: bool,
    /// Time until it notices that something has arrived.
    latency: u64,
    /// When it is called next; other calls that were planned are void.
    call: u64,
    /// Time between two looks, if it does not sleep.
    look: u64,
    act: u64,
    paused: u64,
    frozen: u64,
}

struct Simulation<'a> {
    scenario: &'a Scenario,
    net: Network,
    random: Rand64,
    hosts: Vec<SimulatedHost>,
    /// Whose port it is.
    owners: HashMap<Port, u16>,
    others: Vec<KnownPeer>,
    checkers: Checkers,
    calls: BinaryHeap<Reverse<(u64, u16)>>,
    called: u64,
    /// Epochs of endpoints follow from it.
    opened: u32,
    next_change: u64,
    arrivals: Vec<Port>,
    /// The faults are over.
    resting: bool,
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario, watch: &Watch) -> Self {
        let count = usize::from(scenario.nodes);
        let trace = Trace::new(watch.verbose);
        let nowhere =
            KnownPeer { address: Address::from(MacAddr([0; 6])), life: 0, key: RegionKey(0) };
        let mut simulation = Self {
            scenario,
            net: Network::new(scenario.seed, scenario.quiet(0)),
            random: Rand64::new(u128::from(scenario.seed) << 64 | 1),
            hosts: Vec::new(),
            owners: HashMap::new(),
            others: vec![nowhere; count],
            checkers: Checkers {
                messages: Messages::new(count),
                tagged: TaggedMessages::new(count),
                notices: Notices::new(count),
                regions: Regions::new(count, scenario.area),
                trace,
                figures: Figures { seeds: 1, nodes: count as u64, ..Figures::default() },
            },
            calls: BinaryHeap::new(),
            called: 0,
            opened: 0,
            next_change: 0,
            arrivals: Vec::new(),
            resting: false,
        };
        // At time zero, new and earlier messages would have the same time.
        simulation.net.advance_to(MICROSECOND);
        for n in 0..scenario.nodes {
            simulation.net.set_mtu(scenario.mtus[usize::from(n) % scenario.mtus.len()]);
            let count = scenario.ports_of(n);
            let ports: Vec<_> = (0..count).map(|_| simulation.net.add_port().0).collect();
            simulation.owners.extend(ports.iter().map(|&port| (port, n)));
            let host = SimulatedHost {
                node: None,
                state: HostState::Down { until: None },
                ports,
                sleeps: scenario.sleepers[usize::from(n) % scenario.sleepers.len()],
                latency: steep(&mut simulation.random, 100, 60_000),
                call: u64::MAX,
                look: 0,
                act: 0,
                paused: 0,
                frozen: 0,
            };
            simulation.hosts.push(host);
            simulation.open(n);
        }
        simulation.heal_links();
        simulation
    }

    fn note(&mut self, what: &'static str, node: u16) {
        let (at, pair) = (self.net.now(), NodePair::of_one(node));
        self.checkers.trace.note(Event { at, what, pair, number: 0, len: 0 });
    }

    /// A node comes up.
    fn open(&mut self, n: u16) {
        let Self { scenario, net, checkers, random, .. } = self;
        let host = &mut self.hosts[usize::from(n)];
        for &port in &host.ports {
            net.reopen(port);
            net.cut(port, false, false);
        }
        self.opened += 1;
        let seed = crate::body::mix(scenario.seed << 20 ^ u64::from(self.opened)) as u32;
        let endpoint = scenario.options(n).open_simulated(net, seed).expect("memory for frames");
        let memory = vec![0; Regions::len(scenario.nodes.into(), scenario.area)];
        let key = endpoint.register(memory, Rights::ALL).expect("it is the first");
        checkers.messages.opened(n);
        checkers.tagged.opened(n);
        checkers.notices.opened(n);
        checkers.regions.opened(n);
        let address = scenario.address(endpoint.link().mac);
        let life = checkers.messages.next(n, n).life;
        self.others[usize::from(n)] = KnownPeer { address, life, key };
        host.node = Some(Node::new(n, endpoint, key));
        host.state = HostState::Up;
        (host.paused, host.frozen) = (0, 0);
        host.act = net.now() + random.rand_range(0..MILLISECOND);
        let now = net.now();
        self.call(n, now);
        self.note("opens", n);
    }

    /// A node's endpoint goes, and no frame that it sends on its way out arrives.
    fn vanish(&mut self, n: u16, until: Option<u64>) {
        let host = &mut self.hosts[usize::from(n)];
        host.ports.iter().for_each(|&port| self.net.cut(port, true, true));
        if let Some(node) = host.node.take() {
            node.end(&mut self.checkers, self.net.now());
        }
        host.state = HostState::Down { until };
        host.call = u64::MAX;
        if let Some(until) = until {
            self.call(n, until);
        }
    }

    /// Plans the next call of a node.
    fn call(&mut self, n: u16, at: u64) {
        self.hosts[usize::from(n)].call = at;
        self.calls.push(Reverse((at, n)));
    }

    /// Lets time jump to what comes next, and does it. False if nothing comes before `end`.
    fn step(&mut self, end: u64) -> CheckResult<bool> {
        let call = loop {
            match self.calls.peek() {
                Some(&Reverse((at, n))) if self.hosts[usize::from(n)].call != at => {
                    self.calls.pop();
                }
                Some(&Reverse((at, _))) => break at,
                None => break u64::MAX,
            }
        };
        let arrival = self.net.next_arrival().unwrap_or(u64::MAX);
        let change = if self.resting { u64::MAX } else { self.next_change };
        let at = call.min(arrival).min(change);
        if at > end {
            self.net.advance_to(end);
            return Ok(false);
        }
        self.net.advance_to(at);
        let now = self.net.now();
        self.net.arrivals(&mut self.arrivals);
        for port in std::mem::take(&mut self.arrivals) {
            let n = self.owners[&port];
            let host = &self.hosts[usize::from(n)];
            let noticed = now + host.latency;
            if host.node.is_some() && noticed < host.call {
                self.call(n, noticed);
            }
        }
        if change <= now {
            self.change();
        }
        while let Some(&Reverse((at, n))) = self.calls.peek() {
            if at > now {
                break;
            }
            self.calls.pop();
            if self.hosts[usize::from(n)].call == at {
                self.serve(n)?;
            }
        }
        self.checkers.messages.overdue(now)?;
        Ok(true)
    }

    /// A node's program runs.
    fn serve(&mut self, n: u16) -> CheckResult {
        self.called += 1;
        if self.called > MOST_CALLS {
            return Err(Violation::new(Class::Hung, NodePair::of_one(n), "the run never ends"));
        }
        let now = self.net.now();
        let host = &mut self.hosts[usize::from(n)];
        host.call = u64::MAX;
        if let HostState::Down { until } = host.state {
            if until.is_some_and(|until| now >= until) {
                self.checkers.figures.restarts += 1;
                self.open(n);
            }
            return Ok(());
        }
        if host.frozen > now {
            let until = host.frozen;
            self.call(n, until);
            return Ok(());
        }
        let paused = host.paused > now;
        let Some(mut node) = host.node.take() else { return Ok(()) };
        let most = match paused {
            true => 0,
            false => steep(&mut self.random, 8, 512) as usize,
        };
        let result = self.serve_node(&mut node, most);
        self.hosts[usize::from(n)].node = Some(node);
        let next = result?;
        match self.hosts[usize::from(n)].state {
            HostState::Closing { until, left: true } if next == 0 || now > until => {
                self.checkers.figures.closes += 1;
                let until = percent(&mut self.random, 80)
                    .then(|| now + steep(&mut self.random, MICROSECOND, 500 * MILLISECOND));
                self.note("is closed", n);
                self.vanish(n, until.filter(|_| !self.resting));
            }
            _ => self.call(n, next.max(now + 1)),
        }
        Ok(())
    }

    /// What a node does when it is called: it reads at most `most` messages. Returns when it wants
    /// to be called next.
    fn serve_node(&mut self, node: &mut Node, most: usize) -> CheckResult<u64> {
        let now = self.net.now();
        let host = &mut self.hosts[usize::from(node.me)];
        let paused = host.paused > now;
        let mut context = Context {
            now,
            scenario: self.scenario,
            others: &self.others,
            random: &mut self.random,
            checkers: &mut self.checkers,
            keeps: !self.resting && !matches!(host.state, HostState::Closing { .. }),
        };
        if !context.keeps {
            node.let_go(usize::MAX, &mut context)?;
        }
        let mut busy = node.take_in(most, &mut context)?;
        if !paused {
            node.take_notices(&mut context)?;
        }
        match &mut host.state {
            HostState::Closing { until, left } if !*left => {
                node.flush()?;
                let drained = node.is_drained();
                if drained {
                    context.checkers.messages.drained(node.me);
                }
                if drained || now >= *until {
                    (*left, *until) = (true, now + 500 * MILLISECOND);
                    node.endpoint.begin_close().map_err(|e| {
                        Violation::new(Class::Broken, NodePair::of_one(node.me), e.to_string())
                    })?;
                }
            }
            HostState::Closing { .. } if !node.endpoint.is_closing() => return Ok(0),
            HostState::Closing { .. } => {}
            _ if self.resting => node.receive_the_rest(&mut context)?,
            _ if now >= host.act => {
                node.act(&mut context)?;
                node.flush()?;
                let mean = self.scenario.act_every.as_nanos() as u64;
                host.act = now + self.random.rand_range(0..2 * mean);
                busy = true;
                if percent(&mut self.random, 3) && node.is_drained() {
                    self.checkers.messages.drained(node.me);
                }
                if percent(&mut self.random, 2) {
                    let regions = &self.checkers.regions;
                    let audit = |memory: &[u8]| regions.audit(node.me, memory);
                    node.endpoint.with_region(node.key, audit).expect("it is registered")?;
                }
            }
            _ => {}
        }
        let host = &mut self.hosts[usize::from(node.me)];
        let me = NodePair::of_one(node.me);
        let broken = |e: gigae::SendError| Violation::new(Class::Broken, me, e.to_string());
        let wake = if host.sleeps {
            let left = node.endpoint.prepare_to_wait().map_err(broken)?;
            // What was left over because it read only some is for the next call.
            left.map_or(u64::MAX, |left| now + (left.as_nanos() as u64).max(MICROSECOND))
        } else {
            host.look = match busy {
                true => host.latency,
                false => (host.look * 2).clamp(MICROSECOND, LONGEST_LOOK),
            };
            now + host.look
        };
        let wake = if paused && host.sleeps {
            wake.max(now + LONGEST_LOOK).min(host.paused)
        } else {
            wake
        };
        let closing = matches!(host.state, HostState::Closing { .. });
        let act = match () {
            () if closing => now + MILLISECOND,
            () if self.resting => u64::MAX,
            () => host.act,
        };
        Ok(wake.min(act))
    }

    /// The time of faults.
    fn live(&mut self) -> CheckResult {
        let end = self.scenario.until.as_nanos() as u64;
        while self.net.tally().sent < self.scenario.until_frames && self.step(end)? {}
        Ok(())
    }

    fn outcome(mut self, violation: Option<Violation>) -> RunReport {
        let events = violation.as_ref().map(|v| self.checkers.trace.of(v.pair, 60));
        let tally = self.net.tally();
        for n in 0..self.scenario.nodes {
            self.vanish(n, None);
        }
        let mut figures = self.checkers.figures;
        figures.frames = tally.sent;
        figures.dropped = tally.lost;
        figures.duplicated = tally.duplicated;
        figures.corrupted = tally.corrupted;
        figures.disordered = tally.disordered;
        figures.virtual_time = self.net.now();
        if let Some(violation) = &violation {
            let class = Class::ALL.iter().position(|&class| class == violation.class);
            figures.violations[class.expect("all classes are listed")] += 1;
        }
        let mut digest = self.checkers.trace.digest;
        for word in [tally.sent, tally.delivered, tally.lost, figures.virtual_time] {
            digest = crate::body::mix(digest ^ word);
        }
        RunReport { figures, digest, violation, events: events.unwrap_or_default() }
    }
}
