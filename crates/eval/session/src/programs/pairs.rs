//! Pairs: a figure of ours and one of a program's, made one right after the other, in turns.
//!
//! The result is the median of the pairs' ratios with its interval. What changes from minute to
//! minute changes both figures of a pair, and so does not count.

use super::Comparison;
use super::program::OwnFigure;
use gigae_eval_measure::experiment;
use gigae_eval_measure::probe::{Answered, Asked};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::experiment::SCALE;
use gigae_eval_model::program_figure::ProgramFigure;
use gigae_eval_model::stats;

/// How many pairs are made by default.
pub const PAIRS: u32 = 10;

/// What follows from the pairs; `None` without any.
pub fn beside(
    of: &Comparison,
    link: &str,
    command: &str,
    pairs: Vec<[f64; 2]>,
) -> Option<ProgramFigure> {
    let all = |value: fn(&[f64; 2]) -> f64| pairs.iter().map(value).collect::<Vec<f64>>();
    let ratios = all(|[ours, theirs]| ours / theirs);
    let interval = stats::median_interval(&ratios)?;
    Some(ProgramFigure {
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

impl OwnFigure {
    /// Our figure of a repetition; `None` if it brought nothing.
    pub fn figure(self, experiment: Experiment, asked: &Asked, answered: &Answered) -> Option<f64> {
        let mean = |samples: &[u32]| {
            let sum: u64 = samples.iter().map(|&sample| u64::from(sample)).sum();
            (!samples.is_empty()).then(|| sum as f64 / samples.len() as f64 * SCALE)
        };
        let samples = &asked.samples;
        let figure = match self {
            Self::Goodput | Self::Median => {
                (experiment::method(experiment).figure)(asked, answered)
            }
            Self::Mean => mean(samples)?,
            Self::LeastMean => {
                let parts = samples.chunks(samples.len().div_ceil(3).max(1));
                parts.filter_map(mean).reduce(f64::min)?
            }
        };
        (figure > 0.0).then_some(figure)
    }
}
