//! What is swept over something else than the message size: schedules over their rate, streams over the
//! socket buffer.

use super::svg::{Axis, Chart, Line, Mark, Point};
use super::tables::{Table, figure, short, words};
use crate::findings::bandwidth_delay;
use crate::plan::{Condition, Experiment, Wait};
use crate::results::{Results, Series};
use std::collections::BTreeMap;

/// Round trips by a schedule: rate down, percentiles across.
pub fn load_table(results: &Results) -> Option<Table> {
    let paced = results.series.iter().filter(|series| series.experiment == Experiment::Paced);
    let rows: Vec<Vec<String>> = paced
        .map(|series| {
            let beside = Condition { rate: None, ..series.condition }.words();
            vec![
                crate::plan::label(&series.transport, series.variant.as_deref()),
                series.condition.rate.map_or(String::new(), |rate| rate.to_string()),
                series.wait.name().to_owned(),
                beside,
                figure(series),
                short(series.p90),
                short(series.p99),
                short(series.p999),
                short(series.max),
                format!("{:.2} %", series.loss() * 100.0),
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

/// TCP's streams by socket buffer: buffers down, sizes of writes across; `None` below three buffers.
pub fn buffer_tables(results: &Results) -> Vec<Table> {
    results.links().into_iter().filter_map(|link| buffer_table(results, link)).collect()
}

/// A column: size of writes, and whether TCP_NODELAY is set.
type Column = (usize, bool);

fn by_buffer<'a>(
    results: &'a Results,
    link: &'a str,
) -> BTreeMap<u32, BTreeMap<Column, &'a Series>> {
    let mut found: BTreeMap<u32, BTreeMap<Column, &Series>> = BTreeMap::new();
    for series in results.of(Experiment::Stream, link, Wait::Spin) {
        let options = series.variant.as_ref().and_then(|name| results.plan.tcp.get(name));
        let Some(options) = options.filter(|options| options.beside.is_none()) else { continue };
        if series.transport == "tcp" && series.condition == Condition::default() {
            // The kernel's own stands last.
            let row = found.entry(options.buffer.unwrap_or(u32::MAX)).or_default();
            row.insert((series.size, options.nodelay), series);
        }
    }
    if found.len() > 3 { found } else { BTreeMap::new() }
}

fn column_name((size, nodelay): Column) -> String {
    format!("{size} B{}", if nodelay { " nodelay" } else { "" })
}

fn columns(rows: &BTreeMap<u32, BTreeMap<Column, &Series>>) -> Vec<Column> {
    let mut columns: Vec<Column> = rows.values().flat_map(|row| row.keys().copied()).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

fn buffer_table(results: &Results, link: &str) -> Option<Table> {
    let rows = by_buffer(results, link);
    let columns = columns(&rows);
    let product = bandwidth_delay(results, link)
        .map_or(String::new(), |product| format!(" Bandwidth-delay product: {product:.0} B."));
    let line = |(buffer, row): (&u32, &BTreeMap<Column, &Series>)| {
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
pub(super) fn buffer_charts(results: &Results) -> Vec<Chart> {
    let charts = results.links().into_iter().filter_map(|link| {
        let rows = by_buffer(results, link);
        let lines: Vec<Line> = columns(&rows)
            .into_iter()
            .enumerate()
            .map(|(style, column)| Line {
                name: column_name(column),
                style: style % 8,
                points: rows
                    .iter()
                    .filter(|(buffer, _)| **buffer != u32::MAX)
                    .filter_map(|(buffer, row)| Some(point(f64::from(*buffer), row.get(&column)?)))
                    .collect(),
            })
            .collect();
        (!lines.is_empty()).then(|| Chart {
            title: format!("TCP by socket buffer, by size of writes ({link})"),
            unit: "MB/s at the receiver".into(),
            log: true,
            across: Axis::Bytes("socket buffer in bytes"),
            level: None,
            mark: bandwidth_delay(results, link)
                .map(|product| Mark { at: product, name: "bandwidth x delay".into() }),
            lines,
        })
    });
    charts.collect()
}

fn point(at: f64, series: &Series) -> Point {
    let tip = format!(
        "{}, {} B: {} {} (95 % interval {} to {})",
        series.label(),
        series.size,
        short(series.median),
        series.unit,
        short(series.ci95[0]),
        short(series.ci95[1])
    );
    Point { size: at, value: series.median, low: series.ci95[0], high: series.ci95[1], tip }
}

/// Medians and 99th percentiles over the rate of a schedule, a figure for each link and style of
/// waiting.
pub(super) fn load_charts(results: &Results) -> Vec<Chart> {
    let mut charts = Vec::new();
    for link in results.links() {
        for wait in [Wait::Spin, Wait::Sleep] {
            let mut curves: BTreeMap<String, Vec<&Series>> = BTreeMap::new();
            for series in results.of(Experiment::Paced, link, wait) {
                if series.condition.bulk == 0 {
                    let name = crate::plan::label(&series.transport, series.variant.as_deref());
                    curves.entry(name).or_default().push(series);
                }
            }
            curves.retain(|_, curve| curve.len() > 1);
            let lines: Vec<Line> = curves
                .into_iter()
                .enumerate()
                .flat_map(|(number, (name, mut curve))| {
                    let rate = |one: &Series| one.condition.rate.unwrap_or(0.0);
                    curve.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
                    let tail = |one: &&Series| {
                        let tip = format!("{}: p99 {} us", one.label(), short(one.p99));
                        Point { size: rate(one), value: one.p99, low: one.p99, high: one.p99, tip }
                    };
                    let tails = curve.iter().map(tail).collect();
                    let medians = curve.iter().map(|one| point(rate(one), one)).collect();
                    [
                        Line { name: name.clone(), style: 2 * number % 8, points: medians },
                        Line {
                            name: format!("{name} p99"),
                            style: (2 * number + 1) % 8,
                            points: tails,
                        },
                    ]
                })
                .collect();
            if !lines.is_empty() {
                charts.push(Chart {
                    title: format!("Round trip under load, {} ({link})", wait.name()),
                    unit: "microseconds from the intended time".into(),
                    log: true,
                    across: Axis::Plain("messages per second"),
                    level: None,
                    mark: None,
                    lines,
                });
            }
        }
    }
    charts
}
