//! `gigae compare`: two or more saved runs, cell by cell.
//!
//! `side` reads them, `cell` finds what they have in common, [`shift()`] says by how much a cell
//! differs and `family` whether that is more than chance, `conditions` what else differs between
//! the runs. What is shown is made by [`crate::compared`]. docs/explanation/method.md says what a
//! verdict means.
//!
//! What this does not do: it measures nothing, and it does not say why something differs.

mod cell;
mod conditions;
mod family;
mod shift;
mod side;
mod text;

pub use cell::{ComparedCell, Unit};
pub use conditions::ConditionDifference;
pub use shift::{Shift, shift};
pub use side::{Side, SideError};
pub use text::text;

use cell::Links;
use family::Row;
use gigae_eval_model::doubt;
use gigae_eval_model::doubt::Doubt;
use gigae_eval_model::duration::nanoseconds;
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::results::Series;
use gigae_eval_model::stats;
use serde::Serialize;

/// Name and version of the form of the comparison as JSON.
pub const SCHEMA: &str = "gigae.compare/1";

/// The evaluator's own loops may take so much longer by chance, as a share.
const SPEED: f64 = 0.10;

/// With fewer cells nothing can be said of what they have in common.
const ENOUGH: usize = 6;

/// Two or more saved runs beside the first of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// The smallest difference that counts, in percent.
    pub least: f64,
    /// What is compared; the first is the reference.
    pub sides: Vec<Summary>,
    /// The conditions that differ.
    pub differs: Vec<ConditionDifference>,
    /// Each of the others against the reference.
    pub against: Vec<SideComparison>,
}

/// One of the sides in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// What it is called.
    pub name: String,
    /// Its plan.
    pub plan: String,
    /// When its runs began, in UTC (RFC 3339).
    pub dates: Vec<String>,
    /// Version of the program and of its source.
    pub gigae: String,
    /// Kernel of the measuring end.
    pub kernel: String,
    /// Interface and driver of the measuring end.
    pub nic: String,
    /// Share of the measuring CPUs' time that a hypervisor withheld.
    pub steal: f64,
}

/// One side against the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideComparison {
    /// Number of the side.
    pub side: usize,
    /// What the figures' tests take for a unit.
    pub unit: Unit,
    /// How many of these the reference and the side have.
    pub units: [usize; 2],
    /// The figures of all common cells.
    pub figures: Vec<Compared>,
    /// What a message costs in them; runs are the units.
    pub costs: Vec<Compared>,
    /// Cells that only the reference and only the side has.
    pub alone: [Vec<String>; 2],
    /// Doubts about all of it.
    pub doubts: Vec<Doubt>,
}

/// A figure or a cost of a cell on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The cell.
    pub cell: ComparedCell,
    /// Which cost; absent for the figure itself.
    pub cost: Option<&'static str>,
    /// The unit of both medians.
    pub unit: String,
    /// Medians of the reference and of the other, over the units.
    pub medians: [f64; 2],
    /// The difference in percent of the reference: Hodges and Lehmann's estimate, of the
    /// logarithms. Absent where a value is not positive.
    pub change: Option<f64>,
    /// Its 95 % interval, in percent; absent where there is one value on a side.
    pub ci95: Option<[f64; 2]>,
    /// What `ci95` really covers.
    pub coverage: Option<f64>,
    /// The chance of such a difference anywhere in the family while nothing differs; absent where
    /// there are too few units for a test.
    pub p: Option<f64>,
    /// The smallest difference in percent that could have been seen.
    pub visible: Option<f64>,
    /// What follows.
    pub verdict: ComparisonVerdict,
    /// Whether either side has a doubt about it.
    pub doubtful: bool,
}

/// What became of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonVerdict {
    /// Significantly better than the reference.
    Better,
    /// Significantly worse.
    Worse,
    /// Significant, and smaller than what counts.
    Slight,
    /// No difference was found.
    Same,
    /// There are too few units for a test.
    Untested,
}

impl ComparisonVerdict {
    /// Whether it is a difference that counts.
    pub fn differs(self) -> bool {
        matches!(self, Self::Better | Self::Worse)
    }
}

/// The sides have no cell in common. The text is one line and says what to do.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NothingInCommon(String);

/// Compares each side with the first. Differences of less than `least` percent do not count.
pub fn compare(sides: &[Side], least: f64) -> Result<Comparison, NothingInCommon> {
    let level = family::level(sides.len().saturating_sub(1));
    let against = (1..sides.len())
        .map(|side| against(sides, side, SignificanceTest { level, least }))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Comparison {
        schema: SCHEMA,
        least,
        sides: sides.iter().map(summary).collect(),
        differs: conditions::differences(sides),
        against,
    })
}

/// What is judged by.
#[derive(Clone, Copy)]
struct SignificanceTest {
    /// Share of false alarms that a family may have.
    level: f64,
    /// In percent.
    least: f64,
}

fn summary(side: &Side) -> Summary {
    let environment = &side.first().environment;
    let steal = side.runs.iter().flat_map(|run| &run.runs).map(|run| run.steal);
    let steal: Vec<f64> = steal.collect();
    Summary {
        name: side.name.clone(),
        plan: side.first().plan.name.clone(),
        dates: side.environments().map(|environment| environment.date.clone()).collect(),
        gigae: format!("{} ({})", environment.gigae, environment.git),
        kernel: environment.kernel.clone(),
        nic: format!("{} ({})", environment.nic, environment.driver),
        steal: stats::median(&steal).unwrap_or(0.0),
    }
}

fn against(
    sides: &[Side],
    side: usize,
    judging: SignificanceTest,
) -> Result<SideComparison, NothingInCommon> {
    let (reference, other) = (&sides[0], &sides[side]);
    let links = Links::of(reference.first(), other.first());
    let (mut common, mut alone) = (Vec::new(), [Vec::new(), Vec::new()]);
    for cell in cell::cells(reference) {
        let series = [reference, other].map(|side| cell::of_runs(side, &cell, links));
        if series.iter().all(|series| series.iter().any(Option::is_some)) {
            common.push(CommonCell { cell, series });
        } else {
            alone[0].push(full_name(&cell));
        }
    }
    for cell in cell::cells(other) {
        if cell::of_runs(reference, &cell, links).iter().all(Option::is_none) {
            alone[1].push(full_name(&cell));
        }
    }
    if common.is_empty() {
        return Err(nothing(reference, other));
    }
    let units = |unit| [reference, other].map(|side| cell::units(side, unit));
    let [n, m] = units(Unit::Run);
    let unit = if family::has_power(n, m, judging.level) { Unit::Run } else { Unit::Repetition };
    let figures = common.iter().map(|CommonCell { cell, series: [a, b] }| {
        let figures = |side, series: &[_]| cell::figures(side, series, unit);
        begun(cell, None, [a, b], [figures(reference, a), figures(other, b)])
    });
    let figures = judged(figures.collect(), judging);
    let costs = judged(common.iter().flat_map(costs).collect(), judging);
    let mut against = SideComparison {
        side,
        unit,
        units: units(unit),
        figures,
        costs,
        alone,
        doubts: Vec::new(),
    };
    against.doubts = doubts(reference, other, &against, judging);
    Ok(against)
}

fn full_name(cell: &ComparedCell) -> String {
    match cell.experiment {
        Experiment::Memory => cell.name(),
        _ => format!("{} {}", cell.link, cell.name()),
    }
}

type OfRuns<'a> = Vec<Option<&'a Series>>;

/// A cell that both sides have, with its series in the runs of each.
struct CommonCell<'a> {
    cell: ComparedCell,
    series: [OfRuns<'a>; 2],
}

/// What can be said of a figure without the others, and the values by which it is judged among
/// them.
struct UnjudgedFigure {
    compared: Compared,
    row: Row,
}

/// The costs of a cell that both sides have.
fn costs(common: &CommonCell<'_>) -> Vec<UnjudgedFigure> {
    let CommonCell { cell, series: [a, b] } = common;
    let found = cell::COSTS.iter().filter_map(|cost| {
        let of = |series: &OfRuns<'_>| -> Vec<Option<f64>> {
            series.iter().map(|series| series.and_then(cost.of)).collect()
        };
        let values = [of(a), of(b)];
        // A cost is compared if both sides have it, and if it is above zero somewhere.
        let there = |values: &Vec<Option<f64>>| values.iter().any(Option::is_some);
        let any = values.iter().flatten().flatten().any(|value| *value > 0.0);
        (values.iter().all(there) && any).then(|| begun(cell, Some(cost), [a, b], values))
    });
    found.collect()
}

/// Begins to compare a figure or a cost of a cell.
fn begun(
    cell: &ComparedCell,
    cost: Option<&cell::ComparedCost>,
    series: [&OfRuns<'_>; 2],
    values: [Vec<Option<f64>>; 2],
) -> UnjudgedFigure {
    let first = series[0].iter().flatten().next();
    let unit = cost.map_or(first.map_or("", |first| &first.unit), |cost| cost.unit);
    let present =
        |values: &Vec<Option<f64>>| values.iter().flatten().copied().collect::<Vec<f64>>();
    let positive = values.iter().flatten().flatten().all(|value| value.is_finite() && *value > 0.0);
    let row = match &values {
        [reference, other] if positive => {
            let logarithms =
                |values: &[Option<f64>]| values.iter().map(|v| v.map(f64::ln)).collect();
            Row { reference: logarithms(reference), other: logarithms(other) }
        }
        [reference, other] => {
            Row { reference: vec![None; reference.len()], other: vec![None; other.len()] }
        }
    };
    let shift = shift(&present(&row.reference), &present(&row.other));
    let several =
        row.reference.iter().flatten().count().min(row.other.iter().flatten().count()) > 1;
    let medians = [0, 1].map(|side| stats::median(&present(&values[side])).unwrap_or(0.0));
    let doubtful =
        series.into_iter().flatten().flatten().any(|one| one.doubt_codes().next().is_some());
    let compared = Compared {
        cell: cell.clone(),
        cost: cost.map(|cost| cost.name),
        unit: unit.to_owned(),
        medians,
        change: shift.map(|shift| percent(shift.estimate)),
        ci95: shift.filter(|_| several).map(|shift| [percent(shift.low), percent(shift.high)]),
        coverage: shift.filter(|_| several).map(|shift| shift.coverage),
        p: None,
        visible: None,
        verdict: ComparisonVerdict::Untested,
        doubtful,
    };
    UnjudgedFigure { compared, row }
}

/// A difference of logarithms as a change in percent.
fn percent(logarithm: f64) -> f64 {
    logarithm.exp_m1() * 100.0
}

/// Judges what was begun as one family.
fn judged(begun: Vec<UnjudgedFigure>, judging: SignificanceTest) -> Vec<Compared> {
    let (mut all, rows): (Vec<Compared>, Vec<Row>) =
        begun.into_iter().map(|one| (one.compared, one.row)).unzip();
    for (compared, judged) in all.iter_mut().zip(family::judge(&rows, judging.level)) {
        let Some((judged, change)) = judged.zip(compared.change) else { continue };
        // As if there were one comparison alone, so that it is 0.05 that decides.
        compared.p = Some((judged.p * family::level(1) / judging.level).min(1.0));
        compared.visible = Some(percent(judged.visible).max(judging.least));
        compared.verdict = if judged.p > judging.level {
            ComparisonVerdict::Same
        } else if change.abs() < judging.least {
            ComparisonVerdict::Slight
        } else if (change > 0.0) == (compared.cost.is_none() && compared.cell.larger_is_better()) {
            ComparisonVerdict::Better
        } else {
            ComparisonVerdict::Worse
        };
    }
    all
}

fn doubts(
    reference: &Side,
    other: &Side,
    against: &SideComparison,
    judging: SignificanceTest,
) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    if against.unit == Unit::Repetition {
        doubts.push(doubt!(FewRuns, "{} and {} runs; what two runs of the same thing differ by is unknown, and what is called a difference here may be no more than that; measure both sides with --runs {}, in turns if you can",
            reference.runs.len(),
            other.runs.len(),
            family::fewest(judging.level)));
    }
    if against.figures.iter().all(|figure| figure.verdict == ComparisonVerdict::Untested) {
        doubts.push(doubt!(
            Untested,
            "too few repetitions to compare; repeat with a plan of 6 repetitions or with --runs"
        ));
    }
    for side in [reference, other] {
        if !conditions::same_within(side) {
            doubts.push(doubt!(Mixed, "the runs of '{}' were not all made under the same conditions; name such runs as sides of their own",
                side.name));
        }
    }
    doubts.extend(one_after_the_other(reference, other));
    doubts.extend(speed(reference, other));
    doubts.extend(in_common(&against.figures, judging.least));
    doubts
}

/// All runs of one side were made before all of the other, several of each.
fn one_after_the_other(reference: &Side, other: &Side) -> Option<Doubt> {
    let ((a, b), (c, d)) = (dates(reference)?, dates(other)?);
    let (several, same) = (reference.runs.len().min(other.runs.len()) > 1, a == c && b == d);
    (several && !same && (b <= c || d <= a)).then(|| {
        doubt!(OneAfterTheOther, "all runs of one side were made before those of the other; what changed on the machine meanwhile counts as a difference; measure in turns where a difference is in doubt (docs/explanation/method.md)")
    })
}

/// When the first run began, and the last.
fn dates(side: &Side) -> Option<(&str, &str)> {
    let dates = || side.environments().map(|environment| environment.date.as_str());
    Some((dates().min()?, dates().max()?))
}

/// The machine itself was slower: what measuring costs, without any network, is not the same.
fn speed(reference: &Side, other: &Side) -> Option<Doubt> {
    let trip = |side: &Side| {
        let all = side.environments().filter_map(|environment| environment.overhead);
        stats::median(&all.map(|own| own.round_trip_ns).collect::<Vec<_>>())
    };
    let (before, after) = (trip(reference)?, trip(other)?);
    let ratio = (after / before).ln();
    (ratio.is_finite() && ratio.abs() > SPEED).then(|| {
        doubt!(Speed, "the evaluator's own loop took {} and then {}, without any network; the processors ran at another speed; compare on a machine that is left alone",
            nanoseconds(before),
            nanoseconds(after))
    })
}

/// Half of all figures moved by nearly the same, and by more than what counts.
fn in_common(figures: &[Compared], least: f64) -> Option<Doubt> {
    let better = |figure: &Compared| {
        let change = (figure.change? / 100.0).ln_1p();
        Some(if figure.cell.larger_is_better() { change } else { -change })
    };
    let mut all: Vec<f64> = figures.iter().filter_map(better).collect();
    all.sort_by(f64::total_cmp);
    let (low, high) = (*all.get(all.len() / 4)?, *all.get(all.len() * 3 / 4)?);
    let together = percent(high - low) <= least && percent(low.abs().min(high.abs())) >= least;
    (all.len() >= ENOUGH && together && (low > 0.0) == (high > 0.0)).then(|| {
        let word = if low > 0.0 { "better" } else { "worse" };
        doubt!(InCommon, "half of all figures are {word} by {:.0} to {:.0} %; look for what they have in common, the machine or what ran beside, before what differs between them",
            percent(low.abs().min(high.abs())),
            percent(low.abs().max(high.abs())))
    })
}

fn nothing(reference: &Side, other: &Side) -> NothingInCommon {
    let said = |side: &Side| {
        let first = side.first();
        let (cells, links) = (cell::cells(side).len(), first.links().join(", "));
        format!("'{}' is of plan '{}' ({cells} cells on {links})", side.name, first.plan.name)
    };
    NothingInCommon(format!(
        "no cell is in both: {}, {}; carry out one plan for both: gigae eval --plan {}",
        said(reference),
        said(other),
        reference.first().plan.name
    ))
}

#[cfg(test)]
mod tests;
