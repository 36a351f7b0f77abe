//! The figures of the HTML page: slowdown over message size beside what others published, and the
//! time of an incast over its senders.

use super::conditions::class_name;
use super::tables::{over_ideal, random};
use crate::plan::PublishedPlan;
use crate::results::{Cell, Class, Results};
use crate::workload::Workload;
use gigae_eval_page::figure::ChartFigure;
use gigae_eval_page::svg::{Axis, Chart, SIZES, SvgLine, SvgPoint};

/// Where the classes of lengths are drawn, in bytes.
const PLACES: [f64; 4] = [400.0, 4_000.0, 32_000.0, 512_000.0];

/// Colours of lines; with more, they repeat.
const COLOURS: usize = 8;

/// All figures.
pub(super) fn charts(results: &Results) -> Vec<ChartFigure> {
    let slowdowns = random(results).into_iter().map(|(plan, label, cells)| {
        let lines = cells.iter().enumerate().map(|(style, cell)| slowdown(cell, style)).collect();
        let printed = plan.published.iter().enumerate();
        let printed = printed.filter_map(|(style, published)| curve(published, style)).collect();
        let chart = Chart {
            title: format!("Slowdown, 99th percentile: {label}"),
            unit: "slowdown".into(),
            log: true,
            across: SIZES,
            level: None,
            mark: None,
            lines,
        };
        let note = "Each point is a class of lengths: below 1.5 kB, to 10 kB, to 100 kB, above. \
                    Hollow markers are published figures."
            .into();
        ChartFigure { printed, note, ..ChartFigure::from(chart) }
    });
    slowdowns.chain(incasts(results)).collect()
}

fn slowdown(cell: &Cell, style: usize) -> SvgLine {
    let point = |(class, size): (usize, f64)| {
        let figure = |class: &Class| class.p99;
        let spread = cell.over(|run| figure(run.slowdown.get(class)?))?;
        let class = cell.runs.first().and_then(|run| run.slowdown.get(class));
        let tip = class.map(class_name).unwrap_or_default();
        let (value, low, high) = (spread.median, spread.low, spread.high);
        Some(SvgPoint { size, value, low, high, tip })
    };
    let points = PLACES.into_iter().enumerate().filter_map(point).collect();
    SvgLine { name: cell.protocol.clone(), style: style % COLOURS, points }
}

fn curve(published: &PublishedPlan, style: usize) -> Option<SvgLine> {
    let point =
        |(size, value)| SvgPoint { size, value, low: value, high: value, tip: String::new() };
    let points = PLACES.into_iter().zip(published.p99?).map(point).collect();
    let name = format!("{} (published)", published.source);
    Some(SvgLine { name, style: style % COLOURS, points })
}

/// The time of an incast over its senders, for each length of which there are several.
fn incasts(results: &Results) -> Vec<ChartFigure> {
    let mut figures = Vec::new();
    for incast in results.plan.incast.iter().filter(|incast| incast.senders.len() > 1) {
        let label = |senders: u32| {
            let (bytes, spread_us) = (incast.bytes, incast.spread_us);
            Workload::Incast { senders, bytes, spread_us }.label()
        };
        let mut senders = incast.senders.clone();
        senders.sort_unstable();
        let line = |(style, protocol): (usize, String)| {
            let point = |&senders: &u32| {
                let wanted = label(senders);
                let mut cells = results.cells.iter();
                let cell =
                    cells.find(|cell| cell.workload == wanted && cell.protocol == protocol)?;
                let spread = cell.over(over_ideal)?;
                let (value, low, high) = (spread.median, spread.low, spread.high);
                let size = f64::from(senders);
                Some(SvgPoint { size, value, low, high, tip: cell.workload.clone() })
            };
            let points = senders.iter().filter_map(point).collect();
            SvgLine { name: protocol.clone(), style: style % COLOURS, points }
        };
        let protocols = results.plan.protocols();
        let names = protocols.iter().map(|protocol| protocol.name().to_owned()).enumerate();
        let lines: Vec<SvgLine> = names.map(line).filter(|line| !line.points.is_empty()).collect();
        if lines.is_empty() {
            continue;
        }
        figures.push(ChartFigure::from(Chart {
            title: format!("Time of an incast over its ideal, {} B of each sender", incast.bytes),
            unit: "time / ideal".into(),
            log: true,
            across: Axis::Plain("senders"),
            level: None,
            mark: None,
            lines,
        }));
    }
    figures
}
