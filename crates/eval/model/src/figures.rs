//! Figures: what a plan asked of its cells, found in what was measured.
//!
//! [`of_run`] takes one run's values, [`over_runs`] puts those of several runs together. Nothing is
//! guessed: a figure with a missing cell is not measured, and says which one and why.

use crate::doubt::Code;
use crate::environment::LinkEnvironment;
use crate::environment::NETWORK;
use crate::experiment::Experiment;
use crate::plan::{CellChoice, Condition, FigurePlan, Plan, ResolvedCell, Value};
use crate::results::{Bound, Figure, Point, Results, Run, Series, Skipped, Verdict};
use crate::stats;
use crate::transport;
use std::collections::BTreeSet;

/// The measured cells of a run.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The links.
    pub links: &'a [LinkEnvironment],
    /// The points.
    pub series: &'a [Series],
    /// What could not be measured.
    pub skipped: &'a [Skipped],
}

/// All figures of a plan, from one run.
pub fn of_run(measured: Measured<'_>) -> Vec<Figure> {
    measured.plan.figure.iter().map(|figure| one(figure, measured)).collect()
}

fn one(plan: &FigurePlan, measured: Measured<'_>) -> Figure {
    let (mut points, mut missing) = (Vec::new(), None);
    let mut doubts = BTreeSet::new();
    // The plan was checked: every cell is said in full.
    for (of, over) in plan.targets().unwrap_or_default() {
        let mut value = |choice: &CellChoice<'_>| match measured.best(choice, plan) {
            Ok((value, target)) => {
                let codes = measured.find(target).into_iter().flat_map(Series::doubt_codes);
                doubts.extend(codes.cloned());
                Some(value)
            }
            Err(why) => {
                missing.get_or_insert(why);
                None
            }
        };
        points.push(Point {
            size: measured.size(&of[0]).unwrap_or(0),
            of: vec![value(&of)],
            over: over.iter().map(value).collect(),
            unit: unit(plan).to_owned(),
        });
    }
    let asked = plan.at_most.map(Bound::AtMost).or(plan.at_least.map(Bound::AtLeast));
    let unit = if plan.over.is_some() { "" } else { unit(plan) };
    conclude(Figure {
        name: plan.name.clone(),
        unit: unit.to_owned(),
        asked,
        points,
        runs: Vec::new(),
        measured: None,
        verdict: Verdict::NotMeasured,
        missing,
        doubts: doubts.into_iter().collect(),
    })
}

fn unit(plan: &FigurePlan) -> &'static str {
    match plan.value {
        Value::Median => plan.kind.unit(),
        Value::P99 => "us",
        Value::Messages => "/s",
        Value::Share => "",
        Value::PerLink => plan.kind.unit(),
        Value::Cpu => "CPU s/GB",
        Value::Calls => "calls per frame",
    }
}

impl Measured<'_> {
    /// The best value of cells and whose it is, or why one of them has none.
    fn best<'t, 'p>(
        &self,
        choice: &'t CellChoice<'p>,
        plan: &FigurePlan,
    ) -> Result<(f64, &'t ResolvedCell<'p>), String> {
        let mut best: Option<(f64, &ResolvedCell<'_>)> = None;
        for target in choice {
            let value = self.value(target, plan.value)?;
            if best.is_none_or(|(other, _)| (value > other) == plan.larger_is_better()) {
                best = Some((value, target));
            }
        }
        best.ok_or_else(|| "it names no cell".into())
    }

    /// The value of a cell, or why the cell has no value.
    fn value(&self, target: &ResolvedCell<'_>, value: Value) -> Result<f64, String> {
        let series = self.find(target).ok_or_else(|| self.why_not(target))?;
        let found = match value {
            Value::PerLink => Some(series.median / self.links_used(target)),
            value => series.value(value),
        };
        // A stream of which nothing arrived says nothing in a ratio.
        let positive =
            |value: &f64| value.is_finite() && (*value > 0.0 || target.kind == Experiment::Idle);
        found.filter(positive).ok_or_else(|| format!("{} gave no such value", target.say()))
    }

    fn find(&self, target: &ResolvedCell<'_>) -> Option<&Series> {
        let (size, link) = (self.size(target)?, self.link(target)?);
        self.series.iter().find(|series| {
            (series.experiment, series.wait, series.size) == (target.kind, target.wait, size)
                && series.link == link.name
                && series.transport == target.transport
                && series.variant.as_deref() == target.variant
                && series.condition == Condition::default()
        })
    }

    /// The link that was meant. Between two machines, their link is used where the plan names a
    /// cable, but not where the plan wants a rate or a loss.
    fn link(&self, target: &ResolvedCell<'_>) -> Option<&LinkEnvironment> {
        let cable = self.plan.link.get(target.link).is_some_and(|link| link.cable);
        let fits =
            |link: &&LinkEnvironment| link.name == target.link || (cable && link.kind == NETWORK);
        self.links.iter().find(fits)
    }

    /// How many links the transport used as one.
    fn links_used(&self, target: &ResolvedCell<'_>) -> f64 {
        let all = transport::by_name(target.transport).is_some_and(|one| one.uses_all_links);
        let link = self.link(target).filter(|_| all);
        link.map_or(1.0, |link| link.links as f64)
    }

    fn size(&self, target: &ResolvedCell<'_>) -> Option<usize> {
        let transport = transport::by_name(target.transport)?;
        Some(target.size.bytes(transport, self.link(target)?.mtu))
    }

    fn why_not(&self, target: &ResolvedCell<'_>) -> String {
        let link = self.link(target).map_or(target.link, |link| &link.name);
        let label = crate::plan::label(target.transport, target.variant);
        let about = |skipped: &&Skipped| {
            skipped.link == link
                && (skipped.transport == label || skipped.transport == target.transport)
        };
        let reason = self.skipped.iter().find(about).map_or("it was not measured", |s| &s.reason);
        format!("{}: {reason}", target.say())
    }
}

/// Fills in what follows from the points: the value of each run, their median, the verdict.
fn conclude(mut figure: Figure) -> Figure {
    let runs = figure.points.first().map_or(0, |point| point.of.len());
    figure.runs = (0..runs).map(|run| worst(&figure.points, run, figure.asked)).collect();
    let all: Option<Vec<f64>> = figure.runs.iter().copied().collect();
    figure.measured = all.and_then(|values| stats::median(&values));
    figure.verdict = Verdict::of(figure.asked, figure.measured);
    figure
}

/// The value of a run that is hardest on the bound; `None` if any point lacks a cell.
fn worst(points: &[Point], run: usize, bound: Option<Bound>) -> Option<f64> {
    let values: Option<Vec<f64>> = points.iter().map(|point| point.value(run)).collect();
    let choose = match bound {
        Some(Bound::AtMost(_)) => f64::max,
        _ => f64::min,
    };
    values?.into_iter().reduce(choose)
}

impl Point {
    /// The value of a run.
    pub fn value(&self, run: usize) -> Option<f64> {
        let of = *self.of.get(run)?;
        match self.over.get(run) {
            None => of,
            Some(over) => Some(of? / (*over)?),
        }
    }

    /// The median over the runs of the cell, and of the lower one of a ratio.
    pub fn cells(&self) -> (Option<f64>, Option<f64>) {
        let median = |values: &[Option<f64>]| {
            stats::median(&values.iter().flatten().copied().collect::<Vec<_>>())
        };
        (median(&self.of), median(&self.over))
    }

    /// The median over the runs of the value; `None` if a run lacks it.
    pub fn median(&self) -> Option<f64> {
        let values: Option<Vec<f64>> = (0..self.of.len()).map(|run| self.value(run)).collect();
        stats::median(&values?)
    }
}

impl Bound {
    /// Whether a value keeps within it.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }

    /// Its sign, and what is asked.
    pub fn parts(self) -> (&'static str, f64) {
        match self {
            Self::AtMost(most) => ("<=", most),
            Self::AtLeast(least) => (">=", least),
        }
    }
}

impl Verdict {
    /// What became of a value of which this is asked.
    pub fn of(asked: Option<Bound>, measured: Option<f64>) -> Self {
        match (asked, measured) {
            (_, None) => Self::NotMeasured,
            (None, _) => Self::Information,
            (Some(bound), Some(value)) if bound.holds(value) => Self::Reached,
            _ => Self::Missed,
        }
    }

    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Missed => "missed",
            Self::Information => "",
            Self::NotMeasured => "not measured",
        }
    }
}

impl Figure {
    /// Smallest and largest value of the runs that have one.
    pub fn range(&self) -> Option<(f64, f64)> {
        let values = || self.runs.iter().flatten().copied();
        values().reduce(f64::min).zip(values().reduce(f64::max))
    }
}

/// The conditions of a run that matter when several are put together.
pub fn run_of(date: &str, duration: f64, series: &[Series]) -> Run {
    let costs = || series.iter().flat_map(|series| [&series.local, &series.remote]);
    let seconds: f64 = costs().map(|cost| cost.seconds).sum();
    let steal: f64 = costs().map(|cost| cost.steal).sum();
    let steal = if seconds > 0.0 { steal / seconds } else { 0.0 };
    Run { date: date.to_owned(), duration, steal }
}

/// Puts several runs of one plan together: all figures over all runs, everything else of the last
/// one. `None` without runs.
pub fn over_runs(mut runs: Vec<Results>) -> Option<Results> {
    let last = runs.pop()?;
    let mut all = Results { runs: Vec::new(), ..last.clone() };
    let every: Vec<&Results> = runs.iter().chain([&last]).collect();
    all.plan = every[0].plan.clone();
    all.runs = every.iter().flat_map(|run| run.runs.clone()).collect();
    for (index, figure) in all.figures.iter_mut().enumerate() {
        let of_runs = || every.iter().filter_map(|run| run.figures.get(index));
        for (place, point) in figure.points.iter_mut().enumerate() {
            let points = || of_runs().filter_map(|figure| figure.points.get(place));
            point.of = points().flat_map(|point| point.of.clone()).collect();
            point.over = points().flat_map(|point| point.over.clone()).collect();
        }
        figure.missing = of_runs().find_map(|figure| figure.missing.clone());
        let doubts: BTreeSet<&Code> = of_runs().flat_map(|figure| &figure.doubts).collect();
        figure.doubts = doubts.into_iter().cloned().collect();
        *figure = conclude(figure.clone());
    }
    Some(all)
}

#[cfg(test)]
mod tests;
