//! What can be measured: a file per experiment, with its two loops and what its figure is.
//!
//! An experiment is a loop for each end over any [`Channel`](crate::transport::Channel), so that all
//! transports are measured by the same code, and a [`Form`]: its name, its unit, and how the figure of a repetition comes out of
//! what the ends counted. To add one: write a file here and name it in [`Experiment`], in
//! [`Experiment::form`] and in the two ends of [`Probe`](crate::probe::Probe); the compiler says where it is missing. Plans,
//! tables and figures know it then.

pub mod idle;
pub mod incast;
pub mod memory;
mod pace;
pub mod paced;
pub mod rtt;
pub mod stream;
mod tally;

use crate::probe::{Answered, Asked};
use serde::{Deserialize, Serialize};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Experiment {
    /// A message goes out, one of the same length comes back: microseconds ([`rtt`]).
    Rtt,
    /// Messages go one way as fast as they can: 10^6 bytes per second at the receiver ([`stream`]).
    Stream,
    /// Both ends wait for a message of this size and none comes: share of one CPU at the measuring end
    /// ([`idle`]).
    Idle,
    /// No network: what a received message costs its reader in place, copied and mapped, in
    /// nanoseconds ([`memory`]).
    Memory,
    /// Messages go out by a schedule and come back: microseconds from the intended time ([`paced`]).
    Paced,
    /// Many send to one as fast as they can: 10^6 bytes per second of all at the receiver ([`incast`]).
    Incast,
}

/// What an experiment is for plans, tables and figures.
pub struct Form {
    /// Its name in plans and results.
    pub name: &'static str,
    /// The unit of its figures.
    pub unit: &'static str,
    /// What it is called over a table or a figure of message sizes, and the unit in words; `None` if it
    /// has a table of its own.
    pub sizes: Option<(&'static str, &'static str)>,
    /// The figure of a repetition.
    pub figure: fn(&Asked, &Answered) -> f64,
    /// Its samples, and those of its warm-up, in thousandths of the unit.
    pub samples: for<'a> fn(&'a Asked, &'a Answered) -> Samples<'a>,
    /// Messages that were lost, on transports that lose some.
    pub lost: fn(&Asked, &Answered) -> u64,
}

/// Samples of the measured part, and of the warm-up.
pub type Samples<'a> = (&'a [u32], &'a [u32]);

/// Samples are thousandths of a figure's unit: nanoseconds of microseconds, bytes per millisecond of
/// 10^6 bytes per second, picoseconds of nanoseconds.
pub const SCALE: f64 = 1e-3;

impl Experiment {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Rtt, Self::Stream, Self::Idle, Self::Memory, Self::Paced, Self::Incast];

    /// What it is.
    pub fn form(self) -> &'static Form {
        match self {
            Self::Rtt => &rtt::FORM,
            Self::Stream => &stream::FORM,
            Self::Idle => &idle::FORM,
            Self::Memory => &memory::FORM,
            Self::Paced => &paced::FORM,
            Self::Incast => &incast::FORM,
        }
    }

    /// The unit of its figures.
    pub fn unit(self) -> &'static str {
        self.form().unit
    }

    /// The name in plans and results.
    pub fn name(self) -> &'static str {
        self.form().name
    }

    /// Whether its samples are times of round trips, in nanoseconds.
    pub fn is_trip(self) -> bool {
        matches!(self, Self::Rtt | Self::Paced)
    }
}

/// The client's own samples.
fn asked<'a>(asked: &'a Asked, _: &'a Answered) -> Samples<'a> {
    (&asked.samples, &asked.warmup)
}

/// Their median.
fn median(asked: &Asked, _: &Answered) -> f64 {
    crate::stats::median_of_integers(&asked.samples).unwrap_or(0.0) * SCALE
}

/// What the client missed.
fn missed(asked: &Asked, _: &Answered) -> u64 {
    asked.lost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_has_the_same_name_in_plans_results_and_tables() {
        for experiment in Experiment::ALL {
            let said = serde_json::to_value(experiment).unwrap();
            assert_eq!(said, experiment.name());
            assert_eq!(serde_json::from_value::<Experiment>(said).unwrap(), experiment);
        }
    }
}
