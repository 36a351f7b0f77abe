//! How each experiment measures: a file per experiment, with its two loops and how its figure is
//! counted.
//!
//! An experiment is a loop for each end over any [`Channel`], so that all transports are measured
//! by the same code, and a [`Method`]: how the figure of a repetition comes out of what the ends
//! counted. To add one: write a file here with a `METHOD`, an `ask` and an `answer`, name it in the
//! list below, and give it a line in `gigae_eval_model::experiment`.

pub mod ceiling;
pub mod cores;
pub mod idle;
pub mod incast;
pub mod memory;
mod pace;
pub mod paced;
pub mod rtt;
pub mod stream;
mod tally;

use crate::channel::Channel;
use crate::probe::{Answered, Asked, Loop, ProbeError};
use gigae_eval_model::experiment::{Experiment, SCALE};

macro_rules! loops {
    ($($name:ident: $file:ident,)*) => {
        /// How the figures of an experiment are counted.
        pub fn method(experiment: Experiment) -> &'static Method {
            match experiment {
                $(Experiment::$name => &$file::METHOD,)*
            }
        }

        /// The client's loop.
        pub fn ask<C: Channel>(channel: &mut C, run: &Loop<'_>) -> Result<Asked, ProbeError> {
            match run.task.experiment {
                $(Experiment::$name => $file::ask(channel, run),)*
            }
        }

        /// The server's.
        pub fn answer<C: Channel>(
            channel: &mut C,
            run: &Loop<'_>,
        ) -> Result<Answered, ProbeError> {
            match run.task.experiment {
                $(Experiment::$name => $file::answer(channel, run),)*
            }
        }
    };
}

loops! {
    Rtt: rtt,
    Stream: stream,
    Idle: idle,
    Memory: memory,
    Paced: paced,
    Incast: incast,
    Cores: cores,
    Ceiling: ceiling,
}

/// How the figures of an experiment are counted.
pub struct Method {
    /// The figure of a repetition.
    pub figure: fn(&Asked, &Answered) -> f64,
    /// Its samples, and those of its warm-up, in thousandths of the unit.
    pub samples: for<'a> fn(&'a Asked, &'a Answered) -> Samples<'a>,
    /// Messages that were lost, on transports that lose some.
    pub lost: fn(&Asked, &Answered) -> u64,
}

/// Samples of the measured part, and of the warm-up.
pub type Samples<'a> = (&'a [u32], &'a [u32]);

/// The client's own samples.
fn asked<'a>(asked: &'a Asked, _: &'a Answered) -> Samples<'a> {
    (&asked.samples, &asked.warmup)
}

/// Their median.
fn median(asked: &Asked, _: &Answered) -> f64 {
    gigae_eval_model::stats::median_of_integers(&asked.samples).unwrap_or(0.0) * SCALE
}

/// What the client missed.
fn missed(asked: &Asked, _: &Answered) -> u64 {
    asked.lost
}
