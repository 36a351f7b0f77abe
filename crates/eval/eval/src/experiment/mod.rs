//! What can be measured: a file per experiment, with its two loops and what its figure is.
//!
//! An experiment is a loop for each end over any [`Channel`], so that all transports are measured by the
//! same code, and a [`Form`]: its name, its unit, and how the figure of a repetition comes out of what the
//! ends counted. To add one: write a file here with a `FORM`, an `ask` and an `answer`, and a line in the
//! list below. Plans, tables and figures know it then; only what is peculiar to it (a condition of its own, a
//! table of its own) needs more.

pub mod idle;
pub mod incast;
pub mod memory;
mod pace;
pub mod paced;
pub mod rtt;
pub mod stream;
mod tally;

use crate::probe::{Answered, Asked, Loop, ProbeError};
use crate::transport::Channel;
use serde::{Deserialize, Serialize};

macro_rules! experiments {
    ($($(#[$what:meta])* $name:ident: $file:ident,)*) => {
        /// What is measured.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Experiment {
            $($(#[$what])* $name,)*
        }

        impl Experiment {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// What it is.
            pub fn form(self) -> &'static Form {
                match self {
                    $(Self::$name => &$file::FORM,)*
                }
            }

            /// The client's loop.
            pub(crate) fn ask<C: Channel>(self, channel: &mut C, run: &Loop<'_>) -> Result<Asked, ProbeError> {
                match self {
                    $(Self::$name => $file::ask(channel, run),)*
                }
            }

            /// The server's.
            pub(crate) fn answer<C: Channel>(
                self,
                channel: &mut C,
                run: &Loop<'_>,
            ) -> Result<Answered, ProbeError> {
                match self {
                    $(Self::$name => $file::answer(channel, run),)*
                }
            }
        }
    };
}

experiments! {
    /// A message goes out, one of the same length comes back: microseconds ([`rtt`]).
    Rtt: rtt,
    /// Messages go one way as fast as they can: 10^6 bytes per second at the receiver ([`stream`]).
    Stream: stream,
    /// Both ends wait for a message of this size and none comes: share of one CPU at the measuring end
    /// ([`idle`]).
    Idle: idle,
    /// No network: what a received message costs its reader in place, copied and mapped, in
    /// nanoseconds ([`memory`]).
    Memory: memory,
    /// Messages go out by a schedule and come back: microseconds from the intended time ([`paced`]).
    Paced: paced,
    /// Many send to one as fast as they can: 10^6 bytes per second of all at the receiver ([`incast`]).
    Incast: incast,
}

/// What kind of figure an experiment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Times of round trips; costs are those of the measured part, as the samples are.
    Trip,
    /// Bytes that arrived over time, the more the better; costs are those of everything sent.
    Goodput,
    /// Neither: less is better, and costs are not counted per message.
    Other,
}

/// What an experiment is for plans, tables and figures.
pub struct Form {
    /// Its name in plans and results.
    pub name: &'static str,
    /// The unit of its figures.
    pub unit: &'static str,
    /// What kind they are.
    pub kind: Kind,
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
        self.form().kind == Kind::Trip
    }

    /// Whether its figures are bytes over time.
    pub fn is_goodput(self) -> bool {
        self.form().kind == Kind::Goodput
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
        for &experiment in Experiment::ALL {
            let said = serde_json::to_value(experiment).unwrap();
            assert_eq!(said, experiment.name());
            assert_eq!(serde_json::from_value::<Experiment>(said).unwrap(), experiment);
        }
    }
}
