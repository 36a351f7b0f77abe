//! What was measured, side by side, as text; and what was reached of what is asked.

use crate::bench::{Figures, RankPattern};
use gigae_eval_model::results::{Bound, Verdict};
use gigae_eval_model::stats::median;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How much is asked.
const ROWS: usize = 12;

/// What is asked: name, at least or at most, how much.
const ASKED: [(&str, Bound); ROWS] = [
    ("8 B latency, TCP / gigae", Bound::AtLeast(2.5)),
    ("8 B latency, gigae / half of the library's own round trip", Bound::AtMost(1.25)),
    ("bandwidth 64 KiB, gigae / TCP", Bound::AtLeast(1.0)),
    ("bandwidth 1 MiB, gigae / TCP", Bound::AtLeast(1.0)),
    ("time of the sort (alltoall), TCP / gigae", Bound::AtLeast(1.1)),
    ("time of the solver (allreduce), TCP / gigae", Bound::AtLeast(1.1)),
    ("HPC Challenge's own checks passed, of 2", Bound::AtLeast(2.0)),
    ("MPI_Init, gigae / TCP", Bound::AtMost(2.0)),
    ("messages of 8 B, 64 at a time, millions per second", Bound::AtLeast(3.0)),
    ("the same, gigae / TCP", Bound::AtLeast(10.0)),
    ("allreduce of 64 KiB, TCP / gigae", Bound::AtLeast(1.2)),
    ("alltoall of 4 KiB, TCP / gigae", Bound::AtLeast(1.5)),
];

/// Of HPC Challenge, what its network decides: name, and whether more is better.
const HPCC: [(&str, bool); 9] = [
    ("seconds", false),
    ("HPL_Tflops", true),
    ("PTRANS_GBs", true),
    ("MPIRandomAccess_GUPs", true),
    ("MPIFFT_Gflops", true),
    ("AvgPingPongLatency_usec", false),
    ("RandomlyOrderedRingLatency_usec", false),
    ("AvgPingPongBandwidth_GBytes", true),
    ("RandomlyOrderedRingBandwidth_GBytes", true),
];

/// A table of sizes, of programs, of HPC Challenge's figures, of what was asked, and the
/// conditions.
pub fn text(figures: &Figures) -> String {
    let mut text = String::new();
    sizes(&mut text, "half a round trip, us", &figures.latency, false);
    sizes(&mut text, "one way, MB/s", &figures.bandwidth, true);
    let _ = writeln!(text, "\n{}", line(&["two ranks, us", "TCP", "gigae", "ratio"]));
    for (pattern, tcp) in &figures.patterns[TCP] {
        let gigae = figures.patterns[GIGAE].get(pattern);
        let RankPattern { name, bytes } = pattern;
        let row =
            row(&format!("{name}, {bytes} B"), median(tcp), gigae.and_then(|g| median(g)), false);
        let _ = writeln!(text, "{row}");
    }
    let head = ["", "TCP", "gigae", "ratio"];
    let _ = writeln!(text, "\n{}", line(&head));
    let times = [
        ("MPI_Init, ms", &figures.init),
        ("sort, s", &figures.sort),
        ("solver, s", &figures.solve),
    ];
    for (name, times) in times {
        let (tcp, gigae) = (median(&times[TCP]), median(&times[GIGAE]));
        let _ = writeln!(text, "{}", row(name, tcp, gigae, false));
    }
    let (tcp, gigae) = (&figures.hpcc[TCP], &figures.hpcc[GIGAE]);
    for (name, more_is_better) in HPCC {
        let value = |all: &BTreeMap<String, f64>| all.get(name).copied();
        let name = format!("hpcc {name}");
        let _ = writeln!(text, "{}", row(&name, value(tcp), value(gigae), more_is_better));
    }
    let _ = writeln!(
        text,
        "\nRatios are above 1 where gigae is the better one. Medians of {} runs; \
        hpcc once.\n",
        figures.own.len()
    );
    for ((name, bound), value) in ASKED.iter().zip(values(figures)) {
        let (sign, limit) = bound.parts();
        let said = Verdict::of(Some(*bound), value).name();
        let _ = writeln!(text, "{name:<62} {} {sign} {limit:.2}  {said}", number(value));
    }
    text.push('\n');
    if let Some(own) = median(&figures.own) {
        let own = number(Some(own));
        let _ = writeln!(text, "the library's own round trip of 8 bytes: {own} us");
    }
    for condition in &figures.conditions {
        let _ = writeln!(text, "{condition}");
    }
    text
}

/// What is asked, as JSON: name, bound, and the value of each run, as the evaluator's results have
/// them.
pub fn json(figures: &Figures) -> String {
    let runs = figures.own.len();
    let by_run: Vec<_> = (0..runs).map(|run| each(figures, &|all| all.get(run).copied())).collect();
    let entry = |(at, (name, asked)): (usize, &(&str, Bound))| {
        let values: Vec<Option<f64>> = by_run.iter().map(|run| run[at]).collect();
        json!({ "name": name, "asked": asked, "runs": values })
    };
    let entries: Vec<_> = ASKED.iter().enumerate().map(entry).collect();
    format!("{:#}\n", json!({ "figures": entries }))
}

fn values(figures: &Figures) -> [Option<f64>; ROWS] {
    each(figures, &median)
}

/// The values of what is asked, each made of one value of what was measured in several runs.
fn each(figures: &Figures, pick: &dyn Fn(&[f64]) -> Option<f64>) -> [Option<f64>; ROWS] {
    let at =
        |maps: &[BTreeMap<u32, Vec<f64>>; 2], of: usize, bytes: u32| pick(maps[of].get(&bytes)?);
    let ratio = |above: Option<f64>, below: Option<f64>| Some(above? / below?);
    let latency = |of| at(&figures.latency, of, 8);
    let wide =
        |bytes| ratio(at(&figures.bandwidth, GIGAE, bytes), at(&figures.bandwidth, TCP, bytes));
    // The sweep has this many messages under way at a time.
    let messages = |of| at(&figures.bandwidth, of, 8).map(|megabytes| megabytes / 8.0);
    let pattern = |name: &str, bytes: u32| {
        let pattern = RankPattern { name: name.to_owned(), bytes };
        let of = |of: usize| pick(figures.patterns[of].get(&pattern)?);
        ratio(of(TCP), of(GIGAE))
    };
    let own = pick(&figures.own).map(|own| own / 2.0);
    let faster = |times: &[Vec<f64>; 2]| ratio(pick(&times[TCP]), pick(&times[GIGAE]));
    let passed = figures.hpcc.iter().filter(|all| !all.is_empty()).count();
    [
        ratio(latency(TCP), latency(GIGAE)),
        ratio(latency(GIGAE), own),
        wide(64 << 10),
        wide(1 << 20),
        faster(&figures.sort),
        faster(&figures.solve),
        Some(passed as f64),
        ratio(pick(&figures.init[GIGAE]), pick(&figures.init[TCP])),
        messages(GIGAE),
        ratio(messages(GIGAE), messages(TCP)),
        pattern("allreduce", 64 << 10),
        pattern("alltoall", 4 << 10),
    ]
}

/// Places in the pairs of figures.
const TCP: usize = crate::Transport::Tcp as usize;
const GIGAE: usize = crate::Transport::Gigae as usize;

fn sizes(text: &mut String, what: &str, maps: &[BTreeMap<u32, Vec<f64>>; 2], more_is_better: bool) {
    let _ = writeln!(text, "\n{}", line(&[what, "TCP", "gigae", "ratio"]));
    for (&bytes, tcp) in &maps[TCP] {
        let gigae = maps[GIGAE].get(&bytes).and_then(|all| median(all));
        let name = format!("{bytes} B");
        let _ = writeln!(text, "{}", row(&name, median(tcp), gigae, more_is_better));
    }
}

fn row(name: &str, tcp: Option<f64>, gigae: Option<f64>, more_is_better: bool) -> String {
    let ratio = match (tcp, gigae) {
        (Some(tcp), Some(gigae)) if more_is_better => Some(gigae / tcp),
        (Some(tcp), Some(gigae)) => Some(tcp / gigae),
        _ => None,
    };
    line(&[name, &number(tcp), &number(gigae), &number(ratio)])
}

fn line([name, a, b, c]: &[&str; 4]) -> String {
    format!("{name:<42}{a:>12}{b:>12}{c:>10}")
}

/// Three digits or more.
fn number(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 0.1 || value == 0.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::answers;

    fn figures(tcp: f64, gigae: f64) -> Figures {
        let sweep = |value: f64| [8, 65536, 1 << 20].map(|bytes| (bytes, vec![value])).into();
        let pair = |first: f64, second: f64| {
            let mut pair = [vec![], vec![]];
            (pair[TCP], pair[GIGAE]) = (vec![first], vec![second]);
            pair
        };
        let mut all = Figures {
            init: pair(tcp, gigae),
            sort: pair(tcp, gigae),
            solve: pair(tcp, gigae),
            own: vec![2.0, 2.0, 9.0],
            ..Figures::default()
        };
        for (of, value) in [(TCP, tcp), (GIGAE, gigae)] {
            all.latency[of] = sweep(value);
            all.bandwidth[of] = sweep(value);
            all.hpcc[of].insert("seconds".into(), value);
            for (name, bytes) in [("allreduce", 64 << 10), ("alltoall", 4 << 10)] {
                all.patterns[of].insert(RankPattern { name: name.into(), bytes }, vec![value]);
            }
        }
        all
    }

    fn said(text: &str, asked: usize) -> &str {
        let line = text.lines().find(|line| line.starts_with(ASKED[asked].0)).unwrap();
        line.rsplit("  ").next().unwrap()
    }

    #[test]
    fn what_is_reached_and_what_is_missed_is_said() {
        let text = text(&figures(3.0, 1.2));
        let outcomes: Vec<_> = (0..ASKED.len()).map(|asked| said(&text, asked)).collect();
        let (reached, missed) = ("reached", "missed");
        assert_eq!(
            outcomes,
            [
                reached, reached, missed, missed, reached, reached, reached, reached, missed,
                missed, reached, reached
            ]
        );
    }

    #[test]
    fn every_run_is_in_the_file_for_the_gate() {
        let mut all = figures(3.0, 1.5);
        all.latency[TCP].insert(8, vec![3.0, 6.0]);
        all.latency[GIGAE].insert(8, vec![1.5, 1.5]);
        let all: serde_json::Value = serde_json::from_str(&super::json(&all)).unwrap();
        let figures = all["figures"].as_array().unwrap();
        let of = |name: &str| {
            figures.iter().find(|one| one["name"].as_str().unwrap().contains(name)).unwrap()
        };
        let first = of("8 B latency, TCP / gigae");
        assert_eq!(first["asked"], json!({ "at_least": 2.5 }));
        assert_eq!(first["runs"], json!([2.0, 4.0, null]));
        assert_eq!(of("of 2")["runs"], json!([2.0, 2.0, 2.0]));
    }

    #[test]
    fn each_figure_stands_in_the_column_of_its_transport() {
        let text = text(&figures(3.0, 1.5));
        for row in
            ["8 B", "alltoall, 4096 B", "MPI_Init, ms", "sort, s", "solver, s", "hpcc seconds"]
        {
            let line = text.lines().find(|line| line.starts_with(row)).unwrap();
            let said: Vec<_> = line[row.len()..].split_whitespace().collect();
            assert_eq!(said, ["3.00", "1.50", "2.00"], "{row}");
        }
    }

    #[test]
    fn what_was_not_measured_is_not_taken_for_reached() {
        let text = text(&Figures::default());
        assert_eq!(said(&text, 0), "not measured");
        assert_eq!(said(&text, 6), "missed");
    }

    #[test]
    fn the_median_stands_in_the_middle() {
        assert_eq!((median(&[]), median(&[3.0, 1.0, 2.0])), (None, Some(2.0)));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    }

    #[test]
    fn hpcc_is_believed_only_if_all_its_checks_were_passed() {
        let good = "5 tests completed and passed residual checks.\n\
            0 tests completed and failed residual checks.\n\
            0 tests completed and failed residual checks,\n\
            Success=1\nMPIRandomAccess_ErrorsFraction=0\nMPIRandomAccess_LCG_ErrorsFraction=0\n\
            MPIFFT_maxErr=1.3e-15\nHPL_Tflops=0.25\n";
        assert_eq!(answers(good).unwrap()["HPL_Tflops"], 0.25);
        for (right, wrong) in [
            ("Success=1", "Success=0"),
            ("0 tests", "1 tests"),
            ("LCG_ErrorsFraction=0", "LCG_ErrorsFraction=0.02"),
            ("1.3e-15", "0.1"),
            ("MPIFFT_maxErr", "other"),
            ("checks,\n", "words,\n"),
        ] {
            assert!(answers(&good.replacen(right, wrong, 1)).is_err(), "{wrong}");
        }
    }
}
