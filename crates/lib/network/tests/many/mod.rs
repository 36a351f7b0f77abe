//! Thousands of nodes that run the protocol, and what happens when all of them, one of them, or the
//! switch between them restarts.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each program uses a part of it")]

use gigae_network::protocol_host::{Message, Processor, ProtocolHost};
use gigae_network::{Buffer, HostId, Link, Network, Rate, Switch, Time, Topology};
use gigae_proto::ProtocolConfig;
use oorandom::Rand32;
use std::collections::HashSet;

/// A switch port's buffer.
pub const BUFFER: u64 = 512 << 10;
/// A host that takes a microsecond for a frame, and has room for as many as endpoints usually have.
pub const PROCESSOR: Processor = Processor { per_frame: Time::us(1), ring: 4_096 };

/// A message on its way: from, to.
pub type Pair = (HostId, HostId);

/// Each node sends to `count` others, chosen at random.
pub fn neighbours(nodes: u32, count: u32, seed: u64) -> Vec<Pair> {
    let mut random = Rand32::new(seed);
    let mut pairs = HashSet::new();
    let mut list = Vec::new();
    for from in 0..nodes {
        let mut left = count.min(nodes - 1);
        while left > 0 {
            let to = random.rand_range(0..nodes);
            if to != from && pairs.insert((from, to)) {
                list.push((from, to));
                left -= 1;
            }
        }
    }
    list
}

/// All others send to node 0.
pub fn clients(nodes: u32) -> Vec<Pair> {
    (1..nodes).map(|from| (from, 0)).collect()
}

/// Each of the nodes sends to each of the first `receivers`, beginning with the one after it.
pub fn all_to_all(nodes: u32, receivers: u32) -> Vec<Pair> {
    let to = |from: u32| (0..receivers).map(move |n| (from, (from + 1 + n) % receivers));
    let pairs = (0..nodes).flat_map(to);
    pairs.filter(|(from, to)| from != to).collect()
}

/// What an exchange took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Until half, 99 % and all of the messages had arrived.
    pub half: Time,
    pub most: Time,
    pub all: Time,
    /// Frames sent, and the most of a node.
    pub frames: u64,
    pub busiest: u64,
    /// Frames dropped at full ports, and at full receive rings.
    pub dropped: u64,
    pub overflows: u64,
    /// Most bytes in the queue of a port.
    pub queue: u64,
    /// Messages that came back to their senders, which sent them again.
    pub failed: u64,
    pub events: u64,
}

pub struct Many {
    pub network: Network<ProtocolHost>,
    pub nodes: u32,
    secrets: u128,
}

impl Many {
    pub fn new(nodes: u32, processor: Processor, buffer: u64, shared_credit: bool) -> Self {
        let switch = Switch { buffer: Buffer::PerPort(buffer), ..Switch::new(Time::ns(250)) };
        let link = Link::new(Rate::gbit(10), Time::ns(100));
        let topology = Topology::one_switch(nodes, link, switch, Time::us(2));
        let host = |node: u32| {
            // A node with few peers needs few frames.
            let receive_frames = if node == 0 { 4_096 } else { 512 };
            // Peers that the program does not name have seven eighths of the table.
            let max_peers = (nodes as usize * 8 / 7 + 8).max(16_384);
            let config = ProtocolConfig {
                receive_frames,
                shared_credit,
                max_peers,
                ..ProtocolConfig::default()
            };
            ProtocolHost::new(config, u128::from(node) + 1, processor)
        };
        let hosts = (0..nodes).map(host).collect();
        let secrets = u128::from(nodes) + 1;
        Self { network: Network::new(topology, hosts, 1), nodes, secrets }
    }

    /// Each pair's sender sends `each` messages of `len` bytes now.
    pub fn send(&mut self, pairs: &[Pair], each: u32, len: u16) {
        for &(from, to) in pairs {
            for _ in 0..each {
                let message = Message { number: from, len };
                self.network.call(from, |host, context| host.send(to, message, context));
            }
        }
    }

    /// Runs until so many messages have arrived. Times count from `since`.
    ///
    /// # Panics
    /// If that takes longer than `limit`.
    pub fn run(&mut self, messages: usize, since: Time, limit: Time) -> Outcome {
        let (frames, events) = (self.network.totals().sent, self.network.totals().events);
        let before: Vec<_> = (0..self.nodes).map(|n| self.network.counters(n).frames).collect();
        let dropped = self.network.totals().dropped;
        let (overflows, failed) = (self.sum(|h| h.overflows), self.sum(|h| h.failed));
        let mut outcome = Outcome::default();
        let (mut arrived, mut batch) = (0, Vec::new());
        while arrived < messages {
            let came = self.network.run(since + limit);
            assert!(came, "{arrived} of {messages} messages after {limit:?}");
            self.network.take_completions(&mut batch);
            let now = self.network.now().since(since);
            arrived += batch.len();
            batch.clear();
            for (part, at) in [
                (messages / 2, &mut outcome.half),
                (messages - messages / 100, &mut outcome.most),
                (messages, &mut outcome.all),
            ] {
                if arrived >= part && *at == Time::ZERO {
                    *at = now;
                }
            }
        }
        let totals = self.network.totals();
        (outcome.frames, outcome.events) = (totals.sent - frames, totals.events - events);
        outcome.dropped = totals.dropped - dropped;
        outcome.overflows = self.sum(|h| h.overflows) - overflows;
        outcome.failed = self.sum(|h| h.failed) - failed;
        for node in 0..self.nodes {
            let sent = self.network.counters(node).frames - before[node as usize];
            outcome.busiest = outcome.busiest.max(sent);
            let port = self.network.topology().port_to(node);
            outcome.queue = outcome.queue.max(self.network.queue_length(port).most());
        }
        outcome
    }

    fn sum(&self, of: impl Fn(&ProtocolHost) -> u64) -> u64 {
        (0..self.nodes).map(|node| of(self.network.host(node))).sum()
    }

    /// All nodes begin at the same moment and send a message of 8 bytes for each pair.
    pub fn start(&mut self, pairs: &[Pair], limit: Time) -> Outcome {
        self.send(pairs, 1, 8);
        self.run(pairs.len(), Time::ZERO, limit)
    }

    /// Nothing passes the switch for so long. At its beginning all senders send `each` messages of
    /// `len` bytes.
    pub fn outage(
        &mut self,
        pairs: &[Pair],
        each: u32,
        len: u16,
        time: Time,
        limit: Time,
    ) -> Outcome {
        // Nothing is on its way any more.
        let begin = self.network.now() + Time::ms(100);
        self.network.run(begin);
        self.cut_off(true);
        self.send(pairs, each, len);
        self.network.run(begin + time);
        self.network.restart_counters();
        self.cut_off(false);
        self.run(pairs.len() * each as usize, begin + time, limit)
    }

    /// Node 0 restarts, and all others send it a message of 8 bytes at this moment.
    pub fn restart_server(&mut self, limit: Time) -> Outcome {
        let begin = self.network.now() + Time::ms(100);
        self.network.run(begin);
        self.network.restart_counters();
        let secret = self.secrets;
        self.secrets += 1;
        self.network.call(0, |host, context| host.restart(secret, context));
        let pairs = clients(self.nodes);
        self.send(&pairs, 1, 8);
        self.run(pairs.len(), begin, limit)
    }

    /// Node 0 dies for ever while all others have a message for it. Runs until all have found out.
    pub fn failure(&mut self, limit: Time) -> Outcome {
        let begin = self.network.now() + Time::ms(100);
        self.network.run(begin);
        self.network.call(0, |host, _| host.is_cut_off = true);
        let (sent, failed) = (self.network.totals().sent, self.sum(|h| h.failed));
        let pairs = clients(self.nodes);
        self.send(&pairs, 1, 8);
        let mut outcome = Outcome::default();
        while outcome.failed < pairs.len() as u64 {
            assert!(self.network.now() < begin + limit, "{} have found out", outcome.failed);
            self.network.run(self.network.now() + Time::ms(1));
            outcome.failed = self.sum(|h| h.failed) - failed;
            let now = self.network.now().since(begin);
            if outcome.failed * 2 >= pairs.len() as u64 && outcome.half == Time::ZERO {
                outcome.half = now;
            }
            outcome.all = now;
        }
        outcome.most = outcome.all;
        outcome.frames = self.network.totals().sent - sent;
        outcome
    }

    fn cut_off(&mut self, is_cut_off: bool) {
        for node in 0..self.nodes {
            self.network.call(node, |host, _| host.is_cut_off = is_cut_off);
        }
    }
}
