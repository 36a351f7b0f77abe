//! Another program's figure beside ours.
//!
//! Both are made one right after the other, in turns. The report gives the median of the pairs'
//! ratios with its interval, so that what changes from minute to minute hits both of a pair and
//! does not count.

use crate::experiment::Experiment;
use serde::{Deserialize, Serialize};

/// Figures that differ by less agree.
pub const AGREE: f64 = 0.05;

/// A program's figure beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramFigure {
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
pub enum Agreement {
    /// The median of the ratios is within.
    Agrees,
    /// It is not, and neither is any of its interval.
    Differs,
    /// It is not, but its interval reaches in.
    Open,
}

impl ProgramFigure {
    /// Whether both agree.
    pub fn verdict(&self) -> Agreement {
        let within = 1.0 - AGREE..=1.0 + AGREE;
        if within.contains(&self.ratio) {
            Agreement::Agrees
        } else if self.ci95[0] <= *within.end() && self.ci95[1] >= *within.start() {
            Agreement::Open
        } else {
            Agreement::Differs
        }
    }
}
