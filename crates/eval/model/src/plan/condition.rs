//! Conditions: what an experiment varies besides transport, setting, waiting and size.

use crate::experiment::Experiment;
use serde::{Deserialize, Serialize};

/// Most messages per second of a schedule: a microsecond is what an end can keep to.
const HIGHEST_RATE: f64 = 1e6;

/// Most senders; each has a thread.
pub const MOST_SENDERS: u32 = 16;

/// Most threads at each end.
pub const MOST_THREADS: u32 = 16;

/// Most bulk streams beside a measurement; each has a thread at either end.
const MOST_BULK: u32 = 64;

/// The condition of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Condition {
    /// Messages per second of a schedule ([`Experiment::Paced`]); absent for all else.
    pub rate: Option<f64>,
    /// How many CPUs both ends have between them.
    pub cpus: Cpus,
    /// TCP streams that fill the same link, in the direction of the messages, during the
    /// measurement.
    pub bulk: u32,
    /// Senders of an [`Experiment::Incast`]; none for all else.
    #[serde(skip_serializing_if = "none")]
    pub senders: u32,
    /// Threads at each end, each with a stream of its own ([`Experiment::Cores`],
    /// [`Experiment::Ceiling`]); none for all else.
    #[serde(skip_serializing_if = "none")]
    pub threads: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn none(count: &u32) -> bool {
    *count == 0
}

/// How many CPUs both ends of a measurement on one machine have between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cpus {
    /// One each.
    #[default]
    Two,
    /// The same one.
    One,
}

impl Condition {
    /// What is unusual about it, in a few words; empty for an ordinary one.
    pub fn words(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.rate.map(|rate| format!("{rate}/s")));
        if self.cpus == Cpus::One {
            words.push("on one CPU".to_owned());
        }
        match self.bulk {
            0 => {}
            1 => words.push("beside a stream".to_owned()),
            streams => words.push(format!("beside {streams} streams")),
        }
        match self.senders {
            0 => {}
            1 => words.push("from one sender".to_owned()),
            senders => words.push(format!("from {senders} senders")),
        }
        match self.threads {
            0 => {}
            1 => words.push("on one thread".to_owned()),
            threads => words.push(format!("on {threads} threads")),
        }
        words.join(" ")
    }

    /// How many ends send at once.
    pub fn ends(&self) -> u32 {
        self.senders.max(self.threads).max(1)
    }

    /// Refuses what cannot be done, in one line. Both the plan and the answering end ask.
    pub fn check(&self, experiment: Experiment) -> Result<(), String> {
        if self.rate.is_some() != (experiment == Experiment::Paced) {
            return Err("a paced experiment, and no other, has rates".into());
        }
        if self.rate.is_some_and(|rate| !(1.0..=HIGHEST_RATE).contains(&rate)) {
            return Err(format!("rates must be from 1 to {HIGHEST_RATE} messages per second"));
        }
        if (self.senders > 0) != (experiment == Experiment::Incast) {
            return Err("an incast experiment, and no other, has senders".into());
        }
        if self.senders > MOST_SENDERS {
            return Err(format!("at most {MOST_SENDERS} senders"));
        }
        if self.senders > 0 && (self.bulk > 0 || self.cpus == Cpus::One) {
            return Err(
                "an incast experiment has neither bulk streams beside it nor one CPU".into()
            );
        }
        if (self.threads > 0) != experiment.has_threads() {
            return Err("experiments of cores and ceilings, and no others, have threads".into());
        }
        if self.threads > MOST_THREADS {
            return Err(format!("at most {MOST_THREADS} threads"));
        }
        if self.threads > 0 && (self.bulk > 0 || self.cpus == Cpus::One) {
            return Err("threads have CPUs of their own and no bulk streams beside them".into());
        }
        if self.bulk > MOST_BULK {
            return Err(format!("at most {MOST_BULK} bulk streams"));
        }
        Ok(())
    }
}
