//! Tables that set variants, losses and ways of reading beside one another, and beside the paper.

use super::tables::figure;
use gigae_eval_model::experiment::{ACCESS_METHODS, Experiment};
use gigae_eval_model::number::{millions, percent, set_share, short, tenths};
use gigae_eval_model::papers;
use gigae_eval_model::plan::{Condition, PaperRow, RowPlan, Wait};
use gigae_eval_model::results::{Results, Series};
use gigae_eval_page::table::{MEANS, Table, words};
use std::collections::BTreeSet;

/// A row of 003, table 4, as it is called there.
fn row_name(row: PaperRow) -> &'static str {
    match row {
        PaperRow::Driver => "device driver",
        PaperRow::InterruptsAvoided => "interrupts avoided",
        PaperRow::Interrupts => "interrupts not avoided",
        PaperRow::NoCopy => "no copy",
    }
}

/// A figure of 003, table 4: MB/s of 1,468-byte messages, or microseconds of an 8-byte round trip,
/// which was not measured for the last row.
pub(crate) fn table_4(row: PaperRow, unit: &str) -> Option<f64> {
    papers::find("pm2", "table 4", row_name(row), unit)
}

/// 003, table 1.
fn table_1() -> String {
    let all = papers::papers().printed.iter();
    let table = all.filter(|one| (one.source.as_str(), one.at.as_str()) == ("pm2", "table 1"));
    let said = table.flat_map(|one| one.figures.iter().map(|(what, us)| format!("{what} {us} us")));
    let said: Vec<String> = said.collect();
    format!("1999 (003, table 1, Alpha 21264 at 500 MHz): {}.", said.join(", "))
}

/// A message is small while its number per second says more than its bytes.
pub const SMALL: usize = 256;

/// A column of the plan's rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RowColumn {
    experiment: Experiment,
    size: usize,
}

impl RowColumn {
    /// The row and column of a series.
    fn of(series: &Series) -> Self {
        Self { experiment: series.experiment, size: series.size }
    }

    fn name(&self) -> String {
        let what = match self.experiment {
            Experiment::Rtt => "round trip, us",
            _ => "stream, MB/s",
        };
        format!("{} B {what}", self.size)
    }
}

/// The plan's rows: a column per experiment and size that was measured for any of them, round trips
/// first, then streams from the longest message on; the paper's figures after the first stream,
/// which is the one they compare with. With `meanings`, a column says what each row means.
pub fn row_table(results: &Results, meanings: bool) -> Option<Table> {
    let rows = &results.plan.row;
    let mut found: BTreeSet<RowColumn> = BTreeSet::new();
    for row in rows {
        found.extend(series_of(results, row).map(RowColumn::of));
    }
    if found.is_empty() {
        return None;
    }
    let (trips, mut streams): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|column| column.experiment == Experiment::Rtt);
    streams.reverse();
    let compared = trips.len() + streams.len().min(1);
    let columns: Vec<RowColumn> = trips.into_iter().chain(streams).collect();
    let papers = rows.iter().any(|row| row.paper.is_some());
    let line = |name: &str, cells: Vec<String>, paper: [String; 3], means: &str| {
        let mut line = vec![name.to_owned()];
        let (first, last) = cells.split_at(compared);
        line.extend_from_slice(first);
        line.extend(paper.into_iter().filter(|_| papers));
        line.extend_from_slice(last);
        line.extend(meanings.then(|| means.to_owned()));
        line
    };
    let paper = ["1999 us", "1999 MB/s", "1999 row"].map(str::to_owned);
    let header = line("what", columns.iter().map(RowColumn::name).collect(), paper, MEANS);
    let cells = |row: &RowPlan| {
        let value = |column: &RowColumn| {
            let mut all = series_of(results, row);
            all.find(|series| RowColumn::of(series) == *column).map_or(String::new(), figure)
        };
        columns.iter().map(value).collect()
    };
    Some(Table {
        title: "What each measure gives".into(),
        note: row_note(papers),
        header,
        rows: rows
            .iter()
            .map(|row| line(&row.name, cells(row), paper_cells(row.paper), &row.means))
            .collect(),
    })
}

fn row_note(papers: bool) -> String {
    let mut note =
        "Medians of this run; a cell is empty where it was not planned or was refused.".to_owned();
    if papers {
        note += " 1999: GigaE PM II (003, table 4), 8 B round trips and streams of 1,468 B.";
    }
    note
}

fn series_of<'a>(results: &'a Results, row: &'a RowPlan) -> impl Iterator<Item = &'a Series> + 'a {
    results.series.iter().filter(|series| {
        matches!(series.experiment, Experiment::Rtt | Experiment::Stream)
            && (series.link.as_str(), series.transport.as_str()) == (&row.link, &row.transport)
            && (series.variant.as_ref(), series.wait) == (row.variant.as_ref(), row.wait)
            && series.condition == Condition::default()
    })
}

fn paper_cells(row: Option<PaperRow>) -> [String; 3] {
    let Some(row) = row else { return Default::default() };
    let said = |unit| table_4(row, unit).map_or("not measured".to_owned(), |it| format!("{it:.1}"));
    [said("us"), said("MB/s"), row_name(row).to_owned()]
}

/// What a received message costs its reader, in place, copied and mapped.
pub fn memory_table(results: &Results) -> Option<Table> {
    let all = || results.series.iter().filter(|series| series.experiment == Experiment::Memory);
    let sizes: BTreeSet<usize> = all().map(|series| series.size).collect();
    let find = |method: &str, size| all().find(|one| one.transport == method && one.size == size);
    let rows: Vec<Vec<String>> = sizes
        .iter()
        .map(|&size| {
            let cells = ACCESS_METHODS
                .iter()
                .map(|method| find(method.name(), size).map_or(String::new(), figure));
            std::iter::once(size.to_string()).chain(cells).collect()
        })
        .collect();
    let cheaper = sizes.iter().find(|&&size| {
        let cost = |method| find(method, size).map(|series| series.median);
        matches!((cost("map"), cost("copy")), (Some(map), Some(copy)) if map < copy)
    });
    let crossover = cheaper.map_or("mapping is dearer at all of them".to_owned(), |size| {
        format!("mapping is cheaper than copying from {size} B on")
    });
    (!rows.is_empty()).then(|| Table {
        title: "Receive in place, copied, mapped".into(),
        note: format!(
            "Nanoseconds per message, looking at each of its cache lines included, from a ring of 4,096 \
             frames in turn (copy-warm: the same one each time). Of these sizes {crossover}. {}",
            table_1()
        ),
        header: std::iter::once("bytes".to_owned())
            .chain(ACCESS_METHODS.iter().map(|method| method.name().to_owned()))
            .collect(),
        rows,
    })
}

/// What an open end costs while nothing comes.
pub fn idle_table(results: &Results) -> Option<Table> {
    let idle = results.series.iter().filter(|series| series.experiment == Experiment::Idle);
    let rows: Vec<Vec<String>> = idle
        .map(|series| {
            let per_second = |count: u64, cost: &gigae_eval_model::cost::Cost| {
                short(count as f64 / cost.seconds.max(f64::MIN_POSITIVE))
            };
            vec![
                series.link.clone(),
                series.label(),
                series.wait.name().to_owned(),
                format!("{:.3} %", series.median),
                per_second(series.syscalls, &series.local),
                per_second(series.local.sleeps, &series.local),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: "Idle".into(),
        note: "An open end that waits for a message while none comes, woken four times a second by the \
               measurement itself: its thread's share of one CPU; system calls and sleeps per second."
            .into(),
        header: words(&["link", "transport", "wait", "cpu", "calls", "sleeps"]),
        rows,
    })
}

/// Lossy links beside the loss-free one of the same rate.
pub fn loss_table(results: &Results) -> Option<Table> {
    let links = &results.environment.link;
    let mut rows = Vec::new();
    for lossy in links.iter().filter(|link| link.loss > 0.0) {
        let clean = links.iter().find(|link| {
            (link.loss, link.down_ms) == (0.0, lossy.down_ms)
                && (link.rate, link.mtu, link.delay_us) == (lossy.rate, lossy.mtu, lossy.delay_us)
                && link.kind == lossy.kind
        });
        for series in results.series.iter().filter(|series| series.link == lossy.name) {
            let without = clean.and_then(|link| {
                results
                    .series
                    .iter()
                    .find(|other| other.link == link.name && same_cell(other, series))
            });
            rows.push(loss_row(series, without, lossy.loss));
        }
    }
    (!rows.is_empty()).then(|| Table {
        title: "Under loss".into(),
        note: "Frames lost at random, each way, on links of one rate; medians and the 99th percentile, and \
               the median as a share of that without loss. Segmentation offload is off where a rate or a \
               loss is set, so that TCP passes on the same terms; its congestion control is among the \
               conditions."
            .into(),
        header: words(&["loss", "what", "transport", "wait", "without", "with", "share", "p99"]),
        rows,
    })
}

fn same_cell(one: &Series, other: &Series) -> bool {
    (one.experiment, &one.transport, &one.variant, one.wait, one.size)
        == (other.experiment, &other.transport, &other.variant, other.wait, other.size)
        && one.condition == other.condition
}

fn loss_row(series: &Series, without: Option<&Series>, loss: f64) -> Vec<String> {
    let share = without
        .filter(|without| without.median > 0.0)
        .map(|without| tenths(series.median / without.median));
    // A stream's percentiles are of its slices, of which the fast ones would be the 99th.
    let p99 = (series.experiment == Experiment::Rtt).then(|| short(series.p99));
    vec![
        set_share(loss),
        format!("{} {} {}", series.experiment.name(), series.size, series.unit),
        series.label(),
        series.wait.name().to_owned(),
        without.map_or(String::new(), |without| short(without.median)),
        short(series.median),
        share.unwrap_or_default(),
        p99.unwrap_or_default(),
    ]
}

/// Messages per second beside the bytes of a stream of small messages.
pub fn per_second(series: &Series) -> Option<String> {
    let rate = series.messages_per_second().filter(|_| series.size <= SMALL)?;
    Some(format!("{}/s", millions(rate)))
}

/// The CPU that streams take at both ends, by bytes: sleeping and adaptive ends only, for a
/// spinning one takes all there is.
pub fn cpu_table(results: &Results) -> Option<Table> {
    let streams = results.series.iter().filter(|series| series.wait != Wait::Spin);
    let rows: Vec<Vec<String>> = streams
        .filter_map(|series| {
            let demand = series.demand()?;
            Some(vec![
                series.link.clone(),
                series.label(),
                series.wait.name().to_owned(),
                series.size.to_string(),
                short(series.median),
                percent(series.cpu_local),
                percent(series.cpu_remote),
                short(demand.seconds_per_gigabyte()),
                short(demand.sender),
                short(demand.receiver),
                short(demand.interrupts),
            ])
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: "CPU of streams".into(),
        note: "Thread and interrupt time of both ends' CPUs, as a share of one CPU each and in seconds per \
               GB (10^9 bytes) that arrived, warm-up included. us/KB (1,024 bytes), as netperf has it, of which: by the \
               threads of sender and receiver, and by interrupts on their CPUs."
            .into(),
        header: words(&[
            "link", "transport", "wait", "bytes", "MB/s", "sender", "receiver", "s/GB", "us/KB sender",
            "us/KB receiver", "us/KB interrupts",
        ]),
        rows,
    })
}
