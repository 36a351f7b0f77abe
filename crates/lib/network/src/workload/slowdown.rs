//! How much longer messages took than on an idle network.

use super::{Echo, Framing, Record};
use crate::{Time, Topology};
use std::collections::HashMap;
use std::fmt;

/// Messages of a class of lengths.
#[derive(Clone, Debug)]
pub struct Class {
    /// The shortest length.
    pub from: u32,
    /// The first length that is too long.
    pub to: u32,
    /// Slowdowns, ascending.
    slowdowns: Vec<f64>,
}

impl Class {
    /// Messages.
    pub fn count(&self) -> usize {
        self.slowdowns.len()
    }

    /// The slowdown that a part (0 to 1) of the messages did not exceed.
    pub fn quantile(&self, part: f64) -> f64 {
        quantile(&self.slowdowns, part)
    }
}

/// The value that a part (0 to 1) of ascending values does not exceed. NaN if there is no value.
pub fn quantile(ascending: &[f64], part: f64) -> f64 {
    let rank = (part * ascending.len() as f64).ceil() as usize;
    ascending.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Slowdowns by class of length. A slowdown is a message's time over the time that the same message
/// needs on an idle network.
#[derive(Clone, Debug)]
pub struct SlowdownTable {
    /// Below 1.5 kB, 1.5 to 10 kB, 10 to 100 kB, above.
    pub classes: Vec<Class>,
    /// Messages that never arrived.
    pub unfinished: usize,
}

impl SlowdownTable {
    /// The bounds between classes of lengths, in bytes, as published with Homa.
    pub const BOUNDS: [u32; 3] = [1_500, 10_000, 100_000];

    /// Of messages that began within a span of time.
    pub fn new(
        records: &[Record],
        topology: &Topology,
        framing: Framing,
        span: std::ops::Range<Time>,
    ) -> Self {
        let times = records.iter().map(|record| (record.message, record.completed));
        Self::of(times.filter(|(message, _)| span.contains(&message.at)), topology, framing, 1)
    }

    /// Of requests that began within a span of time, until their responses had arrived
    /// ([`Echo`]).
    pub fn of_echoes(
        records: &[Record],
        topology: &Topology,
        framing: Framing,
        span: std::ops::Range<Time>,
    ) -> Self {
        let responses: HashMap<u32, Time> = records
            .iter()
            .filter_map(|record| Some((Echo::<()>::request_of(&record.message)?, record.completed)))
            .collect();
        let requests = (0u32..).zip(records).filter(|(_, record)| record.message.tag == 0);
        let times = requests.map(|(number, record)| {
            (record.message, responses.get(&number).copied().unwrap_or(Time::NEVER))
        });
        Self::of(times.filter(|(message, _)| span.contains(&message.at)), topology, framing, 2)
    }

    /// All messages of the classes that end at this length or below, as one class.
    pub fn below(&self, length: u32) -> Class {
        let within = self.classes.iter().filter(|class| class.to <= length);
        let mut slowdowns: Vec<f64> = within.flat_map(|class| &class.slowdowns).copied().collect();
        slowdowns.sort_unstable_by(f64::total_cmp);
        Class { from: 0, to: length, slowdowns }
    }

    fn of(
        times: impl Iterator<Item = (super::Message, Time)>,
        topology: &Topology,
        framing: Framing,
        transfers: u64,
    ) -> Self {
        let starts = [0].into_iter().chain(Self::BOUNDS);
        let ends = Self::BOUNDS.into_iter().chain([u32::MAX]);
        let mut classes: Vec<Class> =
            starts.zip(ends).map(|(from, to)| Class { from, to, slowdowns: Vec::new() }).collect();
        let mut unfinished = 0;
        for (message, completed) in times {
            if completed == Time::NEVER {
                unfinished += 1;
                continue;
            }
            let (source, destination) = (message.source, message.destination);
            let ideal = framing.ideal(topology, source, destination, message.length).0 * transfers;
            let class = Self::BOUNDS.partition_point(|&bound| bound <= message.length);
            classes[class].slowdowns.push((completed - message.at).0 as f64 / ideal as f64);
        }
        for class in &mut classes {
            class.slowdowns.sort_unstable_by(f64::total_cmp);
        }
        Self { classes, unfinished }
    }
}

impl fmt::Display for SlowdownTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>22} {:>9} {:>8} {:>8} {:>8}", "bytes", "messages", "p50", "p99", "p99.9")?;
        for class in &self.classes {
            let bytes = match class.to {
                u32::MAX => format!("from {}", class.from),
                to => format!("{} to {}", class.from, to - 1),
            };
            let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|part| class.quantile(part));
            let count = class.count();
            writeln!(f, "{bytes:>22} {count:>9} {p50:>8.2} {p99:>8.2} {p999:>8.2}")?;
        }
        match self.unfinished {
            0 => Ok(()),
            n => writeln!(f, "{n} messages never arrived"),
        }
    }
}
