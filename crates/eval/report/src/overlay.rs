//! The curves of several saved runs in one figure.

use super::html::{MOST_LINES, look};
use crate::compare::Side;
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::number::short;
use gigae_eval_model::plan::Wait;
use gigae_eval_model::results::Series;
use gigae_eval_model::stats;
use gigae_eval_page::svg::{Axis, Chart, SIZES, SvgLine, SvgPoint};
use std::collections::BTreeMap;

/// What a side is called where there is little room.
pub(super) fn letter(side: usize) -> char {
    char::from(b'A' + u8::try_from(side % 26).expect("below 26"))
}

/// A figure for each experiment, link and style of waiting with the curves of all sides; where
/// these are too many to distinguish, one for each transport.
pub(super) fn charts(sides: &[Side]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for link in links(sides) {
        for experiment in [Experiment::Stream, Experiment::Rtt, Experiment::Paced] {
            for wait in [Wait::Spin, Wait::Sleep, Wait::Adaptive] {
                let place = Selection { link, experiment, wait };
                let lines = place.lines(sides);
                if lines.iter().all(|(_, line)| line.points.len() < 2) {
                    continue;
                }
                if lines.len() <= MOST_LINES {
                    charts.push(place.chart("", lines.into_iter().map(|(_, line)| line).collect()));
                    continue;
                }
                let mut by_label: BTreeMap<String, Vec<SvgLine>> = BTreeMap::new();
                for (label, line) in lines {
                    by_label.entry(label).or_default().push(line);
                }
                charts
                    .extend(by_label.into_iter().map(|(label, lines)| place.chart(&label, lines)));
            }
        }
    }
    charts
}

/// The names that distinguish the links; none where each side has one link.
fn links(sides: &[Side]) -> Vec<Option<&str>> {
    if sides.iter().all(|side| side.first().environment.link.len() == 1) {
        return vec![None];
    }
    let mut links: Vec<Option<&str>> = Vec::new();
    for link in sides.iter().flat_map(|side| side.first().links()) {
        if !links.contains(&Some(link)) {
            links.push(Some(link));
        }
    }
    links
}

/// Which curves stand in one figure.
#[derive(Clone, Copy)]
struct Selection<'a> {
    link: Option<&'a str>,
    experiment: Experiment,
    wait: Wait,
}

impl Selection<'_> {
    fn is_of(&self, series: &Series) -> bool {
        self.link.is_none_or(|link| series.link == link)
            && (series.experiment, series.wait) == (self.experiment, self.wait)
            // Beside bulk streams there are single points.
            && (self.experiment != Experiment::Paced || series.condition.bulk == 0)
    }

    /// Which curve of the figure a point belongs to, and where it lies across.
    fn curve(&self, series: &Series) -> (String, f64) {
        match self.experiment {
            Experiment::Paced => {
                let label =
                    gigae_eval_model::plan::label(&series.transport, series.variant.as_deref());
                (label, series.condition.rate.unwrap_or(0.0))
            }
            _ => (series.label(), series.size as f64),
        }
    }

    /// The lines with the names of their curves, the sides of each beside one another.
    fn lines(&self, sides: &[Side]) -> Vec<(String, SvgLine)> {
        let mut labels: Vec<String> = Vec::new();
        for series in sides.iter().flat_map(|side| &side.runs).flat_map(|run| &run.series) {
            let (label, _) = self.curve(series);
            if self.is_of(series) && !labels.contains(&label) {
                labels.push(label);
            }
        }
        let line = |label: &String, number: usize, side: &Side| {
            let style = look(side.first(), label) % 8 + 8 * (number % 8);
            let points = self.points(side, label);
            let name = format!("{label} {}", letter(number));
            (!points.is_empty()).then(|| (label.clone(), SvgLine { name, style, points }))
        };
        let of_label = |label| {
            let sides = sides.iter().enumerate();
            sides.filter_map(move |(number, side)| line(label, number, side))
        };
        labels.iter().flat_map(of_label).collect()
    }

    fn points(&self, side: &Side, label: &str) -> Vec<SvgPoint> {
        // Places are whole numbers or rates that a plan names.
        let mut found: BTreeMap<u64, (f64, Vec<&Series>)> = BTreeMap::new();
        for series in side.runs.iter().flat_map(|run| &run.series).filter(|one| self.is_of(one)) {
            let (name, at) = self.curve(series);
            if name == label {
                found.entry((at * 1000.0) as u64).or_insert((at, Vec::new())).1.push(series);
            }
        }
        found.into_values().map(|(at, all)| point(&side.name, at, &all)).collect()
    }

    fn chart(&self, of: &str, lines: Vec<SvgLine>) -> Chart {
        let (what, unit, across) = match self.experiment {
            Experiment::Stream => ("Bandwidth over message size", "MB/s at the receiver", SIZES),
            Experiment::Paced => (
                "Round trip under load",
                "microseconds from the intended time",
                Axis::Plain("messages per second"),
            ),
            _ => ("Round trip over message size", "microseconds", SIZES),
        };
        let mut title = format!("{what}, {}", self.wait.name());
        title += &self.link.map_or(String::new(), |link| format!(" ({link})"));
        if !of.is_empty() {
            title += &format!(": {of}");
        }
        Chart { title, unit: unit.into(), log: true, across, level: None, mark: None, lines }
    }
}

/// A run's figure with its interval, or the median of several with their range.
fn point(side: &str, at: f64, all: &[&Series]) -> SvgPoint {
    let medians: Vec<f64> = all.iter().map(|series| series.median).collect();
    let value = stats::median(&medians).unwrap_or(0.0);
    let (low, high, what) = match all {
        [one] => (one.ci95[0], one.ci95[1], "95 % interval".to_owned()),
        _ => {
            let low = medians.iter().copied().fold(f64::INFINITY, f64::min);
            let high = medians.iter().copied().fold(0.0, f64::max);
            (low, high, format!("{} runs:", medians.len()))
        }
    };
    let unit = all.first().map_or("", |series| &series.unit);
    let tip =
        format!("{side}, {at}: {} {unit} ({what} {} to {})", short(value), short(low), short(high));
    SvgPoint { size: at, value, low, high, tip }
}
