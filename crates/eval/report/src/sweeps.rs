//! What is swept over something else than the message size: schedules over their rate, streams over
//! the socket buffer.

use super::repeat;
use super::tables::figure;
use super::tips;
use crate::findings::bandwidth_delay;
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::number::{hundredths, short};
use gigae_eval_model::plan::{CellFilterPair, Condition, Wait};
use gigae_eval_model::results::{Results, Series};
use gigae_eval_page::figure::ChartFigure;
use gigae_eval_page::svg::{Axis, Chart, Mark, SvgLine, SvgPoint};
use gigae_eval_page::table::{Table, words};
use std::collections::BTreeMap;

/// Round trips by a schedule: rate down, percentiles across.
pub fn load_table(results: &Results) -> Option<Table> {
    let paced = results.series.iter().filter(|series| series.experiment == Experiment::Paced);
    let rows: Vec<Vec<String>> = paced
        .map(|series| {
            let beside = Condition { rate: None, ..series.condition }.words();
            vec![
                gigae_eval_model::plan::label(&series.transport, series.variant.as_deref()),
                series.condition.rate.map_or(String::new(), |rate| rate.to_string()),
                series.wait.name().to_owned(),
                beside,
                figure(series),
                short(series.p90),
                short(series.p99),
                short(series.p999),
                short(series.max),
                hundredths(series.loss()),
                series.link.clone(),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: "Round trips under load".into(),
        note: "Microseconds from the moment at which a message should have gone by its schedule to its answer; the measuring \
               end spins, the answering one waits as said. Unanswered: of all messages of the schedule."
            .into(),
        header: words(&[
            "transport", "per second", "wait", "beside", "median", "p90", "p99", "p99.9", "max", "unanswered", "link",
        ]),
        rows,
    })
}

/// TCP's streams by socket buffer: buffers down, sizes of writes across; `None` below three
/// buffers.
pub fn buffer_tables(results: &Results) -> Vec<Table> {
    results.links().into_iter().filter_map(|link| buffer_table(results, link)).collect()
}

/// A column of TCP's streams by socket buffer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BufferColumn {
    /// Of writes.
    size: usize,
    /// Whether TCP_NODELAY is set.
    nodelay: bool,
}

fn by_buffer<'a>(
    results: &'a Results,
    link: &'a str,
) -> BTreeMap<u32, BTreeMap<BufferColumn, &'a Series>> {
    let mut found: BTreeMap<u32, BTreeMap<BufferColumn, &Series>> = BTreeMap::new();
    for series in results.of(Experiment::Stream, link, Wait::Spin) {
        let options = series.variant.as_ref().and_then(|name| results.plan.tcp.get(name));
        let Some(options) = options.filter(|options| options.is_plain()) else { continue };
        if series.transport == "tcp" && series.condition == Condition::default() {
            // The row of the kernel's own buffer comes last.
            let row = found.entry(options.buffer.unwrap_or(u32::MAX)).or_default();
            row.insert(BufferColumn { size: series.size, nodelay: options.nodelay }, series);
        }
    }
    if found.len() > 3 { found } else { BTreeMap::new() }
}

fn column_name(BufferColumn { size, nodelay }: BufferColumn) -> String {
    format!("{size} B{}", if nodelay { " nodelay" } else { "" })
}

fn columns(rows: &BTreeMap<u32, BTreeMap<BufferColumn, &Series>>) -> Vec<BufferColumn> {
    let mut columns: Vec<BufferColumn> =
        rows.values().flat_map(|row| row.keys().copied()).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

fn buffer_table(results: &Results, link: &str) -> Option<Table> {
    let rows = by_buffer(results, link);
    let columns = columns(&rows);
    let product = bandwidth_delay(results, link)
        .map_or(String::new(), |product| format!(" Bandwidth-delay product: {product:.0} B."));
    let line = |(buffer, row): (&u32, &BTreeMap<BufferColumn, &Series>)| {
        let name = if *buffer == u32::MAX { "the kernel's".into() } else { buffer.to_string() };
        let cells =
            columns.iter().map(|column| row.get(column).map_or(String::new(), |one| figure(one)));
        std::iter::once(name).chain(cells).collect()
    };
    (!rows.is_empty()).then(|| Table {
        title: format!("TCP by socket buffer ({link})"),
        note: format!(
            "MB/s of streams, by size of writes; SO_SNDBUF and SO_RCVBUF as asked for, of which the kernel \
             makes twice as much (socket(7)).{product}"
        ),
        header: std::iter::once("buffer".to_owned()).chain(columns.iter().copied().map(column_name)).collect(),
        rows: rows.iter().map(line).collect(),
    })
}

/// The same as figures, with the bandwidth-delay product drawn in.
pub(super) fn buffer_figures(results: &Results) -> Vec<ChartFigure> {
    results.links().into_iter().filter_map(|link| buffer_figure(results, link)).collect()
}

fn buffer_figure(results: &Results, link: &str) -> Option<ChartFigure> {
    let rows = by_buffer(results, link);
    let columns = columns(&rows);
    let line = |(style, column): (usize, &BufferColumn)| SvgLine {
        name: column_name(*column),
        style: style % 8,
        points: rows
            .iter()
            .filter(|(buffer, _)| **buffer != u32::MAX)
            .filter_map(|(buffer, row)| Some(point(f64::from(*buffer), row.get(column)?)))
            .collect(),
    };
    let lines: Vec<SvgLine> = columns.iter().enumerate().map(line).collect();
    let one = rows.values().flat_map(BTreeMap::values).next()?;
    let whole = repeat::figure(results, one);
    let all = ("all lines".to_owned(), vec![CellFilterPair::new("transport", "tcp")]);
    let commands = std::iter::once(all)
        .chain(
            columns.iter().map(|column| (column_name(*column), buffers(results, &rows, *column))),
        )
        .filter_map(|(name, part)| {
            let part: repeat::RepeatedCells = whole.iter().cloned().chain(part).collect();
            Some((name, repeat::command(results, &part)?))
        });
    let chart = Chart {
        title: format!("TCP by socket buffer, by size of writes ({link})"),
        unit: "MB/s at the receiver".into(),
        log: true,
        across: Axis::Bytes("socket buffer in bytes"),
        level: None,
        mark: bandwidth_delay(results, link)
            .map(|product| Mark { at: product, name: "bandwidth x delay".into() }),
        lines,
    };
    let (repeat, numbers) = (commands.collect(), buffer_table(results, link));
    Some(ChartFigure { numbers, repeat, ..ChartFigure::from(chart) })
}

/// The settings and the size that a column is made of.
fn buffers(
    results: &Results,
    rows: &BTreeMap<u32, BTreeMap<BufferColumn, &Series>>,
    column: BufferColumn,
) -> repeat::RepeatedCells {
    let cells = rows.values().filter_map(|row| row.get(&column));
    let settings =
        cells.map(|one| CellFilterPair::new("transport", repeat::transport(results, one)));
    settings.chain(repeat::size(results, column.size)).collect()
}

/// A series' median and its interval, drawn at this place of the axis.
pub(super) fn point(at: f64, series: &Series) -> SvgPoint {
    SvgPoint {
        size: at,
        value: series.median,
        low: series.ci95[0],
        high: series.ci95[1],
        tip: tips::of(series),
    }
}

/// Medians and 99th percentiles over the rate of a schedule, a figure for each link and style of
/// waiting.
pub(super) fn load_figures(results: &Results) -> Vec<ChartFigure> {
    let each = |link| {
        [Wait::Spin, Wait::Sleep].into_iter().filter_map(move |wait| load(results, link, wait))
    };
    results.links().into_iter().flat_map(each).collect()
}

fn load(results: &Results, link: &str, wait: Wait) -> Option<ChartFigure> {
    let mut curves: BTreeMap<String, Vec<&Series>> = BTreeMap::new();
    for series in results.of(Experiment::Paced, link, wait) {
        if series.condition.bulk == 0 {
            let name = gigae_eval_model::plan::label(&series.transport, series.variant.as_deref());
            curves.entry(name).or_default().push(series);
        }
    }
    curves.retain(|_, curve| curve.len() > 1);
    let rate = |one: &Series| one.condition.rate.unwrap_or(0.0);
    for curve in curves.values_mut() {
        curve.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    }
    let tail = |one: &&Series| {
        let tip = format!("p99 {} us\n{}", short(one.p99), tips::of(one));
        SvgPoint { size: rate(one), value: one.p99, low: one.p99, high: one.p99, tip }
    };
    let lines = curves.iter().enumerate().flat_map(|(number, (name, curve))| {
        let medians = curve.iter().map(|one| point(rate(one), one)).collect();
        let (tails, of_tails) = (curve.iter().map(tail).collect(), format!("{name} p99"));
        [
            SvgLine { name: name.clone(), style: 2 * number % 8, points: medians },
            SvgLine { name: of_tails, style: (2 * number + 1) % 8, points: tails },
        ]
    });
    let chart = Chart {
        title: format!("Round trip under load, {} ({link})", wait.name()),
        unit: "microseconds from the intended time".into(),
        log: true,
        across: Axis::Plain("messages per second"),
        level: None,
        mark: None,
        lines: lines.collect(),
    };
    let whole = repeat::figure(results, curves.values().flatten().next()?);
    let commands =
        std::iter::once(("all lines".to_owned(), vec![CellFilterPair::new("bulk", "0")]))
            .chain(
                curves.iter().map(|(name, curve)| (name.clone(), repeat::curve(results, curve[0]))),
            )
            .filter_map(|(name, part)| {
                let part: repeat::RepeatedCells = whole.iter().cloned().chain(part).collect();
                Some((name, repeat::command(results, &part)?))
            });
    let repeat = commands.collect();
    Some(ChartFigure { repeat, ..ChartFigure::from(chart) })
}
