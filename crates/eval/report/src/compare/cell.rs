//! Cells that two sides have in common, and their values unit by unit.

use super::side::Side;
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::plan::{Condition, Wait};
use gigae_eval_model::results::{Results, Series};
use serde::Serialize;

/// What a unit of evidence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A whole run, with the medians of its cells.
    Run,
    /// A repetition: the runs are too few to be units.
    Repetition,
}

/// A point of a curve, whichever run it is of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedCell {
    /// Name of the link in the reference.
    pub link: String,
    /// What was measured.
    pub experiment: Experiment,
    /// The transport.
    pub transport: String,
    /// Which setting of it.
    pub variant: Option<String>,
    /// What else was unusual.
    pub condition: Condition,
    /// How both ends waited.
    pub wait: Wait,
    /// Payload in bytes.
    pub size: usize,
}

impl ComparedCell {
    fn of(series: &Series) -> Self {
        Self {
            link: series.link.clone(),
            experiment: series.experiment,
            transport: series.transport.clone(),
            variant: series.variant.clone(),
            condition: series.condition,
            wait: series.wait,
            size: series.size,
        }
    }

    /// The transport with its variant and what else is unusual.
    pub fn label(&self) -> String {
        gigae_eval_model::plan::conditional(
            &self.transport,
            self.variant.as_deref(),
            &self.condition,
        )
    }

    /// All of it but the link, for people.
    pub fn name(&self) -> String {
        let (experiment, wait) = (self.experiment.name(), self.wait.name());
        format!("{experiment} {} {wait} {} B", self.label(), self.size)
    }

    /// Whether more is better.
    pub fn larger_is_better(&self) -> bool {
        self.experiment.is_goodput()
    }

    fn is(&self, series: &Series, links: Links) -> bool {
        (links == Links::One || self.link == series.link)
            && (self.experiment, self.wait, self.size)
                == (series.experiment, series.wait, series.size)
            && (&self.transport, &self.variant) == (&series.transport, &series.variant)
            && self.condition == series.condition
    }
}

/// Whether the names of links count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// Each side has one, and so the two are compared, whatever their names.
    One,
    /// Their names distinguish them.
    Named,
}

impl Links {
    pub(super) fn of(reference: &Results, other: &Results) -> Self {
        let one = |results: &Results| results.environment.link.len() == 1;
        if one(reference) && one(other) { Self::One } else { Self::Named }
    }
}

/// All cells of a side, in the order in which its runs first have them.
pub(super) fn cells(side: &Side) -> Vec<ComparedCell> {
    let mut cells: Vec<ComparedCell> = Vec::new();
    for series in side.runs.iter().flat_map(|run| &run.series) {
        if !cells.iter().any(|cell| cell.is(series, Links::Named)) {
            cells.push(ComparedCell::of(series));
        }
    }
    cells
}

/// The series of a cell in each run of a side.
pub(super) fn of_runs<'a>(
    side: &'a Side,
    cell: &ComparedCell,
    links: Links,
) -> Vec<Option<&'a Series>> {
    let find = |run: &'a Results| run.series.iter().find(|series| cell.is(series, links));
    side.runs.iter().map(find).collect()
}

/// The figures of a cell, unit by unit; absent where a unit lacks it.
pub(super) fn figures(side: &Side, series: &[Option<&Series>], unit: Unit) -> Vec<Option<f64>> {
    let pairs = side.runs.iter().zip(series);
    match unit {
        Unit::Run => pairs.map(|(_, series)| series.map(|series| series.median)).collect(),
        Unit::Repetition => pairs
            .flat_map(|(run, series)| {
                let rounds = run.series.iter().map(|series| series.repetitions.len()).max();
                let value = |round: usize| series.and_then(|s| s.repetitions.get(round).copied());
                (0..rounds.unwrap_or(0)).map(value).collect::<Vec<_>>()
            })
            .collect(),
    }
}

/// How many units a side has.
pub(super) fn units(side: &Side, unit: Unit) -> usize {
    figures(side, &vec![None; side.runs.len()], unit).len()
}

/// Something that a message costs; less is better.
pub(super) struct ComparedCost {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) of: fn(&Series) -> Option<f64>,
}

/// The costs that are compared. A spinning end takes all of its CPU, and makes as many empty polls
/// as it has time for. So of spinning ends only the calls that send are compared.
pub(super) const COSTS: [ComparedCost; 5] = [
    ComparedCost {
        name: "CPU, measuring end",
        unit: "us",
        of: |series| {
            let seconds = series.cpu_local * series.local.seconds;
            cpu(series, series.measuring_wait(), seconds)
        },
    },
    ComparedCost {
        name: "CPU, answering end",
        unit: "us",
        of: |series| cpu(series, series.wait, series.cpu_remote * series.remote.seconds),
    },
    ComparedCost {
        name: "system calls",
        unit: "",
        of: |series| match series.measuring_wait() {
            Wait::Spin => series.per_message(series.local.send_calls as f64),
            _ => series.per_message(series.syscalls as f64),
        },
    },
    ComparedCost {
        name: "frames",
        unit: "",
        of: |series| series.per_message(series.frames as f64),
    },
    ComparedCost {
        name: "interrupts",
        unit: "",
        of: |series| series.per_message(series.interrupts as f64),
    },
];

fn cpu(series: &Series, wait: Wait, seconds: f64) -> Option<f64> {
    if wait == Wait::Spin { None } else { series.per_message(seconds * 1e6) }
}
