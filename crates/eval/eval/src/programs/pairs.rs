//! Pairs: a figure of ours and one of a program's, made one right after the other, in turns.
//!
//! What is told is the median of the pairs' ratios with its interval: what changes from minute to minute hits
//! both of a pair, and so does not count.

use super::{Comparison, Ours};
use crate::experiment::SCALE;
use crate::plan::Experiment;
use crate::probe::{Answered, Asked};
use crate::stats;
use serde::{Deserialize, Serialize};

/// Figures that differ by less agree.
pub const AGREE: f64 = 0.05;

/// How many pairs are made unless told otherwise.
pub const PAIRS: u32 = 10;

/// A program's figure beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// The program.
    pub program: String,
    /// The link.
    pub link: String,
    /// What was measured.
    pub experiment: Experiment,
    /// Over which transport.
    pub transport: String,
    /// Bytes of a message or write.
    pub size: usize,
    /// The sockets' options at both ends, of both.
    pub options: String,
    /// Unit of both figures.
    pub unit: String,
    /// Median of ours.
    pub ours: f64,
    /// Median of the program's.
    pub theirs: f64,
    /// Median of the pairs' ratios, ours over the program's.
    pub ratio: f64,
    /// Confidence interval of `ratio`, from order statistics.
    pub ci95: [f64; 2],
    /// What `ci95` really covers; less than 0.95 for fewer than six pairs.
    pub coverage: f64,
    /// All pairs: ours, the program's.
    pub pairs: Vec<[f64; 2]>,
    /// What the program's figure is, and where it is counted.
    pub counts: String,
    /// What the program does otherwise than we do.
    pub otherwise: String,
    /// The program's command line at the measuring end, of the last pair.
    pub command: String,
}

/// Whether two figures agree within [`AGREE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The median of the ratios is within.
    Agrees,
    /// It is not, and neither is any of its interval.
    Differs,
    /// It is not, but its interval reaches in.
    Open,
}

impl Beside {
    /// What follows from the pairs; `None` without any.
    pub fn new(of: &Comparison, link: &str, command: &str, pairs: Vec<[f64; 2]>) -> Option<Self> {
        let all = |value: fn(&[f64; 2]) -> f64| pairs.iter().map(value).collect::<Vec<f64>>();
        let ratios = all(|[ours, theirs]| ours / theirs);
        let interval = stats::median_interval(&ratios)?;
        Some(Self {
            program: of.program.name().to_owned(),
            link: link.to_owned(),
            experiment: of.measure.experiment,
            transport: of.measure.transport.to_owned(),
            size: of.job.size,
            options: of.job.options(),
            unit: of.measure.experiment.unit().to_owned(),
            ours: stats::median(&all(|pair| pair[0]))?,
            theirs: stats::median(&all(|pair| pair[1]))?,
            ratio: stats::median(&ratios)?,
            ci95: [interval.low, interval.high],
            coverage: interval.coverage,
            pairs,
            counts: of.measure.counts.to_owned(),
            otherwise: of.measure.otherwise.to_owned(),
            command: command.to_owned(),
        })
    }

    /// Whether both agree.
    pub fn verdict(&self) -> Verdict {
        let within = 1.0 - AGREE..=1.0 + AGREE;
        if within.contains(&self.ratio) {
            Verdict::Agrees
        } else if self.ci95[0] <= *within.end() && self.ci95[1] >= *within.start() {
            Verdict::Open
        } else {
            Verdict::Differs
        }
    }
}

impl Ours {
    /// Our figure of a repetition; `None` if it brought nothing.
    pub fn figure(self, experiment: Experiment, asked: &Asked, answered: &Answered) -> Option<f64> {
        let mean = |samples: &[u32]| {
            let sum: u64 = samples.iter().map(|&sample| u64::from(sample)).sum();
            (!samples.is_empty()).then(|| sum as f64 / samples.len() as f64 * SCALE)
        };
        let samples = &asked.samples;
        let figure = match self {
            Self::Goodput | Self::Median => (experiment.form().figure)(asked, answered),
            Self::Mean => mean(samples)?,
            Self::LeastMean => {
                let parts = samples.chunks(samples.len().div_ceil(3).max(1));
                parts.filter_map(mean).reduce(f64::min)?
            }
        };
        (figure > 0.0).then_some(figure)
    }
}
