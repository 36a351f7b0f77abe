//! Results with as many cells as a real run has, for tests.
//!
//! The small files in `fixtures` are parts of two real runs, whose plans are beside them. This
//! module multiplies those plans out again. Each cell has the median that the real run had, rounded
//! to four digits. Everything else of a cell is made up from the cell of its kind in the file.

use crate::environment::{LOOPBACK_KIND, LinkEnvironment, MEMORY};
use crate::experiment::Experiment;
use crate::figures::{self, Measured};
use crate::plan::{Cell, LinkPlan, Plan};
use crate::results::{Results, Series};
use crate::transport;

/// What the cells of `plan.toml` measured, in their order.
#[rustfmt::skip]
const FIRST: [f64; 105] = [
    // memory
    6.226, 65.52, 147.7, 2713.0, 8.261, 73.01, 174.5, 7354.0, 3.431, 21.86, 61.77, 1901.0, 3907.0,
    3979.0, 4467.0, 31_010.0,
    // rtt over cable
    2.923, 3.165, 4.042, 2.132, 2.192, 2.61, 2.449, 2.633, 3.027, 3.809, 3.854, 4.585, 6.213,
    6.228, 7.275, 2.035, 2.079, 2.189, 85.58, 95.06, 2.771, 3.958, 58.55, 59.12, 65.32, 61.02,
    61.58, 62.1, 60.35, 67.73, 2.029, 2.186,
    // stream over cable
    1.109, 7.669, 79.39, 0.9314, 13.36, 115.0, 1.831, 15.81, 280.9, 0.6352, 5.958, 78.73, 4.274,
    11.18, 59.87, 5.161, 25.2, 77.36, 619.9, 586.3,
    // rtt over gigabit
    4.029, 5.62, 3.345, 4.389, 7.335, 8.489,
    // stream over gigabit
    1.234, 54.07, 43.25, 1.499, 46.45, 52.31, 1.06, 43.08, 38.38, 1.346, 37.15, 45.66, 8.33,
    50.97, 62.79, 59.82, 63.89, 56.56, 66.35, 51.83, 61.8,
    // idle over gigabit
    0.3325, 0.3555,
    // stream over lossy
    95.79, 101.8, 106.4, 63.21, 59.3, 60.14, 47.69, 18.59,
];

/// What the cells of `plan-2.toml` measured, in their order.
#[rustfmt::skip]
const SECOND: [f64; 45] = [
    // memory
    21_800.0, 19_860.0, 3248.0, 83_750.0,
    // rtt over own
    5.395, 25_870.0,
    // stream over own
    58.76, 406.3,
    // rtt over gigabit
    17_260.0, 23_890.0, 9.689, 34.57, 33.96, 6796.0, 6.479, 6.642, 7.871, 6.633, 7.113, 7.746,
    23_810.0, 23_850.0, 27_170.0, 3977.0, 26.58, 3852.0,
    // stream over gigabit
    9.203, 12.82, 2.892, 1.595, 9.668, 8.031, 0.227, 0.7173, 3.052, 17.58, 5.598, 15.55, 8.225,
    21.02, 104.5,
    // paced over gigabit
    21_260.0, 47_820.0, 14_890.0, 13_790.0,
];

/// The repetitions of a cell, as shares of its median.
const REPETITIONS: [f64; 6] = [0.97, 1.1, 1.0, 0.93, 1.0, 1.02];

/// Goodput of TCP at 1 Gbit/s, in MB/s.
const TCP_LIMIT: f64 = 117.7;

/// A Gigabit Ethernet in MB/s, and what a frame needs beside the payload: headers, preamble, gap.
const GIGABIT: f64 = 125.0;
const FRAME_OVERHEAD: f64 = 70.0;

/// Most of what there is to show: all kinds of links and waits, loss, figures and rows of a paper.
pub fn first() -> Results {
    let results = include_str!("../fixtures/results.json");
    build(results, include_str!("../fixtures/plan.toml"), &FIRST)
}

/// Conditions, papers and findings.
pub fn second() -> Results {
    let results = include_str!("../fixtures/results-2.json");
    build(results, include_str!("../fixtures/plan-2.toml"), &SECOND)
}

fn build(part: &str, plan: &str, medians: &[f64]) -> Results {
    let mut results = Results::parse(part).expect("the fixture");
    results.plan = Plan::parse("fixture", plan).expect("the plan beside it");
    results.environment.link = links(&results.plan, &results.environment.link);
    let cells = cells(&results);
    assert_eq!(cells.len(), medians.len(), "a median for each cell");
    let all = cells.iter().zip(medians).enumerate();
    let part = std::mem::take(&mut results.series);
    results.series = all
        .map(|(number, ((link, cell), median))| series(&part, number, link, cell, *median))
        .collect();
    results.figures = figures::of_run(Measured {
        plan: &results.plan,
        links: &results.environment.link,
        series: &results.series,
        skipped: &results.skipped,
    });
    results
}

/// All links of a plan, the machine's own first. One that the file does not have is like its last
/// one.
fn links(plan: &Plan, part: &[LinkEnvironment]) -> Vec<LinkEnvironment> {
    let mut links: Vec<_> = plan.link.iter().collect();
    links.sort_by_key(|(_, link)| !link.loopback);
    let link = |(name, link): (&String, &LinkPlan)| {
        let known = part.iter().find(|one| one.name == *name).or(part.last());
        let mut known = known.expect("the file has a link").clone();
        known.remote.nic = known.local.nic.clone();
        LinkEnvironment {
            name: name.clone(),
            kind: if link.loopback { LOOPBACK_KIND } else { "fabric" }.into(),
            rate: link.rate_mbit.map(|rate| rate as f64 * 1e6),
            loss: link.loss,
            delay_us: link.delay_us,
            down_ms: link.down_ms,
            ..known
        }
    };
    links.into_iter().map(link).collect()
}

/// What was measured: first in memory, then link by link, without what the run skipped.
fn cells(results: &Results) -> Vec<(String, Cell)> {
    let mut all: Vec<_> =
        results.plan.memory_cells().into_iter().map(|cell| (MEMORY.to_owned(), cell)).collect();
    for link in &results.environment.link {
        let cells = results.plan.cells(Some(&link.name), link.mtu).into_iter();
        all.extend(cells.map(|cell| (link.name.clone(), cell)));
    }
    let skipped = |(link, cell): &(String, Cell)| {
        results.skipped.iter().any(|one| one.link == *link && one.transport == cell.label())
    };
    all.retain(|cell| !skipped(cell));
    all
}

fn series(part: &[Series], number: usize, link: &str, cell: &Cell, median: f64) -> Series {
    let kind = part.iter().find(|one| one.experiment == cell.experiment);
    let series = kind.unwrap_or(&part[0]).clone();
    let [low, high] = [0.93, 1.1].map(|share| share * median);
    let transport = transport::by_name(&cell.transport);
    let lossy = cell.experiment == Experiment::Stream && transport.is_some_and(|one| !one.reliable);
    let stream = cell.experiment == Experiment::Stream;
    let limit = match &cell.transport[..] {
        "tcp" => TCP_LIMIT,
        _ => GIGABIT * cell.size as f64 / (cell.size as f64 + FRAME_OVERHEAD),
    };
    let note = match &cell.transport[..] {
        "tcp" => Some("congestion control cubic, SO_SNDBUF 262144, SO_RCVBUF 262144"),
        "udp" => Some("SO_SNDBUF 262144, SO_RCVBUF 262144"),
        "packet" => Some("packet: AF_PACKET was asked for; it works on every interface"),
        "gigae" | "xdp" => Some("xdp generic: on a veth native mode is slower"),
        _ => None,
    };
    let mut doubts = Vec::new();
    for (every, doubt) in [
        (2, "wide-interval: +-9 % after 6 repetitions; repeat on a quieter machine"),
        (3, "interference: other threads took 61 % of the measuring CPU; stop other work"),
        (7, "unsettled: within a repetition the figure moved by 12 %; plan a longer warmup"),
    ] {
        if number.is_multiple_of(every) {
            doubts.push(doubt.into());
        }
    }
    if lossy {
        doubts.push("loss: 10.00 % of the messages did not arrive".into());
    }
    Series {
        experiment: cell.experiment,
        transport: cell.transport.clone(),
        variant: cell.variant.clone(),
        condition: cell.condition,
        link: link.to_owned(),
        wait: cell.wait,
        size: cell.size,
        unit: cell.experiment.unit().to_owned(),
        median,
        ci95: [low, high],
        repetitions: REPETITIONS.map(|share| share * median).to_vec(),
        p50: median,
        p90: 1.2 * median,
        p99: 1.5 * median,
        p999: 2.0 * median,
        min: 0.8 * median,
        max: 2.5 * median,
        mean: 1.05 * median,
        lost: if lossy { series.sent / 10 } else { 0 },
        limit: (stream && matches!(link, "gigabit" | "lossy")).then_some(limit),
        note: note.map(|note| note.to_owned().into()),
        doubts,
        ..series
    }
}
