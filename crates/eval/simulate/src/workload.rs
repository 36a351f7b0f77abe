//! What hosts send: the traffic of a workload, and its ideal time.

use crate::plan::RandomPlan;
use gigae_eval_model::number::trimmed;
use gigae_network::workload::{
    AllToAll, Echo, Framing, Incast, Lengths, Message, Poisson, RingAllreduce, Traffic,
};
use gigae_network::{Time, Topology};
use oorandom::Rand64;
use std::ops::Range;

/// A workload of a plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Workload {
    /// Messages at random times.
    Random(RandomPlan),
    /// Many senders, one receiver.
    Incast { senders: u32, bytes: u32, spread_us: u64 },
    /// Each host sends to each other one.
    AllToAll { bytes: u32 },
    /// A reduction over a ring.
    Ring { bytes: u32 },
}

/// The messages of a run.
pub(crate) struct Offered {
    pub(crate) traffic: Load,
    /// How many there are, with those that follow from others.
    pub(crate) total: u64,
    /// When messages begin that count. `None`: all do.
    pub(crate) span: Option<Range<Time>>,
    /// About how long it takes, to show progress.
    pub(crate) expected: Time,
}

/// The traffic of any workload.
pub(crate) enum Load {
    List(Listed),
    Echoes(Echo<Listed>),
    Ring(RingAllreduce),
}

/// Messages that were made beforehand.
pub(crate) struct Listed(std::vec::IntoIter<Message>);

impl Traffic for Listed {
    fn next(&mut self) -> Option<Message> {
        self.0.next()
    }
}

impl Traffic for Load {
    fn next(&mut self) -> Option<Message> {
        match self {
            Self::List(list) => list.next(),
            Self::Echoes(echoes) => echoes.next(),
            Self::Ring(ring) => ring.next(),
        }
    }

    fn completed(&mut self, number: u32, message: &Message, at: Time, more: &mut Vec<Message>) {
        match self {
            Self::List(list) => list.completed(number, message, at, more),
            Self::Echoes(echoes) => echoes.completed(number, message, at, more),
            Self::Ring(ring) => ring.completed(number, message, at, more),
        }
    }
}

/// Bytes with the unit of the workloads' literature: `8 B`, `100 kB`, `16 MB`.
fn size(bytes: u32) -> String {
    let units = [(1_000_000, "MB"), (1_000, "kB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{} {name}", trimmed(f64::from(bytes) / f64::from(unit))),
        None => format!("{bytes} B"),
    }
}

/// All messages that begin by themselves.
fn list(mut traffic: impl Traffic) -> Vec<Message> {
    std::iter::from_fn(|| traffic.next()).collect()
}

impl Workload {
    /// Its name in reports.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Random(plan) => {
                let lengths = match (&plan.lengths, plan.bytes) {
                    (Some(name), _) => name.to_lowercase(),
                    (None, bytes) => size(bytes.unwrap_or(0)),
                };
                let rpc = if plan.responses { " RPC" } else { "" };
                format!("{lengths}{rpc} {} %", trimmed(plan.load * 100.0))
            }
            Self::Incast { senders, bytes, spread_us: 0 } => {
                format!("incast {senders} x {}", size(*bytes))
            }
            Self::Incast { senders, bytes, spread_us } => {
                format!("incast {senders} x {} in {spread_us} us", size(*bytes))
            }
            Self::AllToAll { bytes } => format!("all-to-all {}", size(*bytes)),
            Self::Ring { bytes } => format!("ring {}", size(*bytes)),
        }
    }

    /// Bytes of its messages, if all have the same, or a bound. 0: those of a distribution.
    pub(crate) fn bytes(&self) -> u32 {
        match self {
            Self::Random(plan) => plan.bytes.unwrap_or(0),
            Self::Incast { bytes, .. } | Self::AllToAll { bytes } | Self::Ring { bytes } => *bytes,
        }
    }

    /// Whether its messages depend on the seed.
    pub(crate) fn is_random(&self) -> bool {
        match self {
            Self::Random(_) => true,
            Self::Incast { spread_us, .. } => *spread_us > 0,
            Self::AllToAll { .. } | Self::Ring { .. } => false,
        }
    }

    /// The hosts that it needs, if the plan does not say how many there are.
    pub(crate) fn hosts(&self, fixed: Option<u32>) -> u32 {
        match (fixed, self) {
            (Some(hosts), _) => hosts,
            (None, Self::Incast { senders, .. }) => senders + 1,
            (None, _) => unreachable!("plans without hosts are refused"),
        }
    }

    /// Its messages.
    pub(crate) fn offered(&self, topology: &Topology, framing: Framing, seed: u64) -> Offered {
        let ideal = self.ideal(topology, framing).unwrap_or(Time::ZERO);
        let hosts = u64::from(topology.hosts());
        let pairs = hosts * (hosts - 1);
        let whole = |traffic, total| Offered { traffic, total, span: None, expected: ideal };
        match self {
            Self::Random(plan) => random(plan, topology, framing, seed),
            Self::Incast { senders, bytes, spread_us } => {
                let mut messages = list(Incast::new(*senders, *bytes));
                let mut random = Rand64::new(u128::from(seed));
                for message in &mut messages {
                    message.at = Time::ns(random.rand_range(0..spread_us * 1_000 + 1));
                }
                messages.sort_by_key(|message| message.at);
                whole(Load::List(Listed(messages.into_iter())), u64::from(*senders))
            }
            Self::AllToAll { bytes } => {
                let messages = list(AllToAll::new(topology.hosts(), *bytes));
                whole(Load::List(Listed(messages.into_iter())), pairs)
            }
            Self::Ring { bytes } => {
                whole(Load::Ring(RingAllreduce::new(topology.hosts(), *bytes)), 2 * pairs)
            }
        }
    }

    /// The least time of a pattern. An incast and an all-to-all: of its bytes, headers and gaps
    /// included, on a host's link. A ring: of its steps, one after the other, on an idle network.
    pub(crate) fn ideal(&self, topology: &Topology, framing: Framing) -> Option<Time> {
        let hosts = topology.hosts();
        let bytes = |messages: u32, length: u32| {
            let byte = topology.host_rate().time(1).0;
            let one = byte.saturating_mul(framing.wire_bytes(length));
            Some(Time(one.saturating_mul(u64::from(messages))))
        };
        match self {
            Self::Random(_) => None,
            Self::Incast { senders, bytes: length, .. } => bytes(*senders, *length),
            Self::AllToAll { bytes: length } => bytes(hosts - 1, *length),
            Self::Ring { bytes } => {
                let part = bytes.div_ceil(hosts);
                let hop = |host| framing.ideal(topology, host, (host + 1) % hosts, part).0;
                let hops: Vec<u64> = (0..hosts).map(hop).collect();
                // What begins at a host goes round twice, but for two hops.
                let round = hops.iter().fold(0, |sum: u64, hop| sum.saturating_add(*hop));
                let before = |host: usize| hops[(host + hops.len() - 1) % hops.len()];
                let left_out =
                    |host: usize| before(host).saturating_add(before(host + hops.len() - 1));
                let least = (0..hops.len()).map(left_out).min()?;
                Some(Time(round.saturating_mul(2).saturating_sub(least)))
            }
        }
    }

    /// How many hosts' links carry its messages at once.
    pub(crate) fn links(&self, hosts: u32) -> u32 {
        match self {
            Self::Incast { .. } => 1,
            Self::Random(_) | Self::AllToAll { .. } | Self::Ring { .. } => hosts,
        }
    }
}

fn random(plan: &RandomPlan, topology: &Topology, framing: Framing, seed: u64) -> Offered {
    let lengths = match (&plan.lengths, plan.bytes) {
        (Some(name), _) => Lengths::named(&name.to_lowercase()).expect("it was checked"),
        (None, bytes) => Lengths::fixed(bytes.unwrap_or(1)),
    };
    // Requests are half of the load, and responses the other half.
    let load = if plan.responses { plan.load / 2.0 } else { plan.load };
    let total = u64::from(plan.messages) * if plan.responses { 2 } else { 1 };
    let messages = list(Poisson::new(topology, framing, lengths, load, plan.messages, seed));
    let last = messages.last().map_or(Time::ZERO, |message| message.at);
    // The first tenth fills the network, and in the last one it becomes empty.
    let span = Some(Time(last.0 / 10)..Time(last.0 / 10 * 9));
    let list = Listed(messages.into_iter());
    let traffic = if plan.responses { Load::Echoes(Echo(list)) } else { Load::List(list) };
    Offered { traffic, total, span, expected: last }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_network::{Link, Rate, Switch};

    const FRAMING: Framing = Framing { payload: 1_442, header: 76 };

    fn star(hosts: u32) -> Topology {
        let link = Link::new(Rate::gbit(10), Time::ns(100));
        Topology::one_switch(hosts, link, Switch::new(Time::ns(250)), Time::us(2))
    }

    #[test]
    fn an_ideal_incast_takes_the_time_of_its_bytes() {
        let incast = Workload::Incast { senders: 20, bytes: 1_442, spread_us: 0 };
        assert_eq!(incast.ideal(&star(21), FRAMING), Some(Time(20 * 1_538 * 800)));
        let all = Workload::AllToAll { bytes: 1_442 };
        assert_eq!(all.ideal(&star(5), FRAMING), Some(Time(4 * 1_538 * 800)));
    }

    #[test]
    fn an_ideal_that_no_clock_can_hold_is_the_greatest() {
        let incast = Workload::Incast { senders: 99_999, bytes: u32::MAX, spread_us: 0 };
        let link = Link::new(Rate::mbit(1), Time::ns(100));
        let topology = Topology::one_switch(3, link, Switch::new(Time::ns(250)), Time::us(2));
        assert_eq!(incast.ideal(&topology, FRAMING), Some(Time::NEVER));
    }

    #[test]
    fn an_ideal_ring_takes_the_time_of_its_steps() {
        let topology = star(6);
        let step = FRAMING.ideal(&topology, 0, 1, 1_442).0;
        let ring = Workload::Ring { bytes: 6 * 1_442 };
        assert_eq!(ring.ideal(&topology, FRAMING), Some(Time(10 * step)));
        assert_eq!(ring.links(6), 6);
    }

    #[test]
    fn senders_of_an_incast_begin_within_their_time() {
        let incast = Workload::Incast { senders: 50, bytes: 100, spread_us: 10 };
        let begin = |seed| {
            let mut offered = incast.offered(&star(51), FRAMING, seed);
            let all = std::iter::from_fn(|| offered.traffic.next());
            all.map(|message| (message.at, message.source)).collect::<Vec<_>>()
        };
        let (first, second) = (begin(1), begin(2));
        assert_eq!(first.len(), 50);
        assert!(first.is_sorted() && first.iter().all(|(at, _)| *at <= Time::us(10)));
        assert_ne!(first, second);
        assert!(first.last().unwrap().0 > Time::us(5));
    }
}
