//! Figures from the committed results, whose values are spoiled one by one.

use super::*;
use crate::cost::Cost;

const PLAN: &str = r#"
name = "asked"
about = "a test"
repetitions = 2
max_repetitions = 2
[link.cable]
cable = true
[link.gigabit]
rate_mbit = 1000
[tcp.nodelay]
nodelay = true
[[experiment]]
kind = "rtt"
links = ["cable", "gigabit"]
transports = ["gigae", "xdp"]
sizes = [8]
waits = ["spin"]
seconds = 0.1
warmup = 0.0
[[experiment]]
kind = "stream"
links = ["cable", "gigabit"]
transports = ["gigae", "tcp"]
sizes = [8, 1400, "frame"]
waits = ["spin"]
seconds = 0.1
warmup = 0.0
"#;

const RATIO: &str = r#"
[[figure]]
name = "round trip"
kind = "rtt"
link = "cable"
wait = "spin"
sizes = [8]
of = { transport = "gigae" }
over = { transport = "xdp" }
at_most = 1.05
"#;

const WORST: &str = r#"
[[figure]]
name = "streams"
kind = "stream"
link = "cable"
wait = "spin"
sizes = [8, 1400]
of = { transport = "gigae" }
over = { transport = "tcp", variant = "nodelay" }
at_least = 3
"#;

fn absolute(value: &str, link: &str, size: &str) -> String {
    format!(
        "[[figure]]\nname = \"one\"\nkind = \"stream\"\nvalue = \"{value}\"\nlink = \"{link}\"\n\
         wait = \"spin\"\nsizes = [{size}]\nof = {{ transport = \"gigae\" }}\n"
    )
}

fn plan(figures: &str) -> Plan {
    Plan::parse("test", &format!("{PLAN}{figures}")).unwrap()
}

/// What was measured of a cell.
struct MeasuredCell<'a> {
    experiment: Experiment,
    link: &'a str,
    transport: &'a str,
    size: usize,
    median: f64,
}

fn cell<'a>(
    experiment: Experiment,
    link: &'a str,
    transport: &'a str,
    size: usize,
    median: f64,
) -> MeasuredCell<'a> {
    MeasuredCell { experiment, link, transport, size, median }
}

/// The committed results with series of these cells.
fn results(figures: &str, cells: &[MeasuredCell<'_>]) -> Results {
    let mut results =
        Results::parse(include_str!("../../fixtures/results.json")).expect("the fixture");
    let model = results.series[0].clone();
    results.series = cells
        .iter()
        .map(|&MeasuredCell { experiment, link, transport, size, median }| Series {
            experiment,
            transport: transport.into(),
            variant: (transport == "tcp").then(|| "nodelay".into()),
            link: link.into(),
            wait: crate::plan::Wait::Spin,
            size,
            median,
            limit: (link == "gigabit").then_some(100.0),
            ..model.clone()
        })
        .collect();
    results.plan = plan(figures);
    results.runs = vec![run_of("2000-01-01T00:00:00Z", 1.0, &results.series)];
    results.skipped.clear();
    evaluate(&mut results);
    results
}

fn evaluate(results: &mut Results) {
    results.figures = of_run(Measured {
        plan: &results.plan,
        links: &results.environment.link,
        series: &results.series,
        skipped: &results.skipped,
    });
}

use Experiment::{Rtt, Stream};

#[test]
fn a_ratio_is_that_of_the_medians_and_keeps_within_its_bound_or_not() {
    for (gigae, verdict) in [(3.0, Verdict::Reached), (3.2, Verdict::Missed)] {
        let cells = [cell(Rtt, "cable", "gigae", 8, gigae), cell(Rtt, "cable", "xdp", 8, 3.0)];
        let found = results(RATIO, &cells);
        let figure = &found.figures[0];
        assert_eq!((figure.measured, figure.verdict), (Some(gigae / 3.0), verdict));
        assert_eq!((figure.asked, figure.unit.as_str()), (Some(Bound::AtMost(1.05)), ""));
    }
}

#[test]
fn of_several_sizes_the_one_that_is_hardest_on_the_bound_counts() {
    let cells = [
        cell(Stream, "cable", "gigae", 8, 40.0),
        cell(Stream, "cable", "tcp", 8, 20.0),
        cell(Stream, "cable", "gigae", 1400, 900.0),
        cell(Stream, "cable", "tcp", 1400, 90.0),
    ];
    let figure = &results(WORST, &cells).figures[0];
    assert_eq!((figure.measured, figure.verdict), (Some(2.0), Verdict::Missed));
    let all: Vec<_> = figure.points.iter().map(|point| (point.size, point.median())).collect();
    assert_eq!(all, [(8, Some(2.0)), (1400, Some(10.0))]);
}

#[test]
fn of_several_links_the_one_that_is_best_for_a_cell_counts() {
    let both =
        |figure: &str| figure.replace("link = \"cable\"", "links = [\"cable\", \"gigabit\"]");
    let mut cells = vec![
        cell(Stream, "cable", "gigae", 8, 90.0),
        cell(Stream, "gigabit", "gigae", 8, 10.0),
        cell(Stream, "cable", "tcp", 8, 20.0),
        cell(Stream, "gigabit", "tcp", 8, 30.0),
    ];
    let figure = both(WORST).replace("[8, 1400]", "[8]");
    let found = results(&figure, &cells);
    assert_eq!(found.figures[0].measured, Some(3.0), "90 / 30");
    assert_eq!(found.figures[0].points[0].over, [Some(30.0)]);
    cells.pop();
    assert_eq!(results(&figure, &cells).figures[0].verdict, Verdict::NotMeasured);
    let cells = [
        cell(Rtt, "cable", "gigae", 8, 3.0),
        cell(Rtt, "gigabit", "gigae", 8, 2.0),
        cell(Rtt, "cable", "xdp", 8, 1.0),
        cell(Rtt, "gigabit", "xdp", 8, 4.0),
    ];
    assert_eq!(results(&both(RATIO), &cells).figures[0].measured, Some(2.0), "2 / 1");
    let twice = format!("{PLAN}{}", RATIO.replace("wait =", "links = [\"gigabit\"]\nwait ="));
    let says = Plan::parse("test", &twice).unwrap_err().to_string();
    assert!(says.contains("link or links, not both"), "{says}");
}

#[test]
fn several_links_as_one_are_judged_by_the_share_of_each() {
    let cells =
        [cell(Stream, "gigabit", "gigae", 8, 480.0), cell(Stream, "gigabit", "tcp", 8, 110.0)];
    let mut found = results(&absolute("per-link", "gigabit", "8"), &cells);
    let gigabit = |link: &&mut LinkEnvironment| link.name == "gigabit";
    found.environment.link.iter_mut().find(gigabit).unwrap().links = 4;
    evaluate(&mut found);
    assert_eq!((found.figures[0].measured, &found.figures[0].unit[..]), (Some(120.0), "MB/s"));
    // TCP goes by the first alone.
    let tcp = absolute("per-link", "gigabit", "8");
    let tcp = tcp.replace("\"gigae\" }", "\"tcp\", variant = \"nodelay\" }");
    found.plan = plan(&tcp);
    evaluate(&mut found);
    assert_eq!(found.figures[0].measured, Some(110.0));
}

#[test]
fn a_missing_cell_is_named_with_its_reason_and_never_reached() {
    let mut found = results(RATIO, &[cell(Rtt, "cable", "gigae", 8, 1.0)]);
    assert_eq!(found.figures[0].verdict, Verdict::NotMeasured);
    found.skipped.push(Skipped {
        link: "cable".into(),
        transport: "xdp".into(),
        what: None,
        reason: "no such kernel".into(),
    });
    evaluate(&mut found);
    let figure = &found.figures[0];
    assert_eq!((figure.measured, figure.verdict), (None, Verdict::NotMeasured));
    let missing = figure.missing.as_deref().unwrap();
    assert!(missing.contains("xdp") && missing.contains("no such kernel"), "{missing}");
    // One size of several is enough.
    let cells = [cell(Stream, "cable", "gigae", 8, 40.0), cell(Stream, "cable", "tcp", 8, 1.0)];
    assert_eq!(results(WORST, &cells).figures[0].verdict, Verdict::NotMeasured);
}

#[test]
fn a_stream_of_which_nothing_arrived_is_no_ratio() {
    let cells = [cell(Rtt, "cable", "gigae", 8, 1.0), cell(Rtt, "cable", "xdp", 8, 0.0)];
    assert_eq!(results(RATIO, &cells).figures[0].verdict, Verdict::NotMeasured);
}

#[test]
fn a_value_alone_has_its_unit_and_without_a_bound_no_verdict() {
    let cells =
        [cell(Stream, "cable", "gigae", 8, 120.0), cell(Stream, "gigabit", "gigae", 1468, 99.0)];
    let messages = &results(&absolute("messages", "cable", "8"), &cells).figures[0];
    assert_eq!((messages.measured, messages.unit.as_str()), (Some(15e6), "/s"));
    assert_eq!(messages.verdict, Verdict::Information);
    let share = &results(&absolute("share", "gigabit", "\"frame\""), &cells).figures[0];
    assert_eq!((share.measured, share.points[0].size), (Some(0.99), 1468));
    // A link that is not shaped has no limit.
    let none = &results(&absolute("share", "cable", "8"), &cells).figures[0];
    assert_eq!(none.verdict, Verdict::NotMeasured);
}

#[test]
fn cpu_is_that_of_both_ends_by_gigabyte() {
    let figures = absolute("cpu", "cable", "1400");
    let mut found = results(&figures, &[cell(Stream, "cable", "gigae", 1400, 500.0)]);
    let series = &mut found.series[0];
    let cost = |thread| Cost { seconds: 4.0, cpu_thread: thread, ..Cost::default() };
    (series.local, series.remote) = (cost(1.25), cost(0.75));
    (series.sent, series.lost) = (1_000_000, 0);
    evaluate(&mut found);
    // 2 s for 1.4 GB.
    assert!((found.figures[0].measured.unwrap() - 2.0 / 1.4).abs() < 1e-9);
}

#[test]
fn a_figure_takes_the_doubts_of_its_cells_along() {
    let cells = [cell(Rtt, "cable", "gigae", 8, 1.0), cell(Rtt, "cable", "xdp", 8, 1.0)];
    let doubtful = |doubts: [&str; 2]| {
        let mut found = results(RATIO, &cells);
        for (series, doubt) in found.series.iter_mut().zip(doubts) {
            series.doubts = vec![doubt.into(), "timer: said of all".into()];
        }
        evaluate(&mut found);
        found
    };
    let first = doubtful(["steal: much; wait", "loss: some; look"]);
    assert_eq!(first.figures[0].doubts, [Code::Loss, Code::Steal]);
    let all = over_runs(vec![first, doubtful(["steal: much; wait", "failed: once; repeat"])]);
    assert_eq!(all.unwrap().figures[0].doubts, [Code::Failed, Code::Loss, Code::Steal]);
}

#[test]
fn several_runs_give_the_median_and_the_range_and_each_run_its_worst() {
    let run = |gigae| {
        let cells = [cell(Rtt, "cable", "gigae", 8, gigae), cell(Rtt, "cable", "xdp", 8, 1.0)];
        results(RATIO, &cells)
    };
    let all = over_runs(vec![run(1.2), run(1.04), run(1.0)]).unwrap();
    let figure = &all.figures[0];
    assert_eq!(figure.runs, [Some(1.2), Some(1.04), Some(1.0)]);
    assert_eq!((figure.measured, figure.range()), (Some(1.04), Some((1.0, 1.2))));
    assert_eq!(figure.verdict, Verdict::Reached);
    assert_eq!(all.runs.len(), 3);
    // The median of two runs is not reached by leaving the third out.
    let lacking = results(RATIO, &[cell(Rtt, "cable", "gigae", 8, 1.0)]);
    let all = over_runs(vec![run(1.0), lacking, run(1.0)]).unwrap();
    assert_eq!(all.figures[0].verdict, Verdict::NotMeasured);
    assert_eq!(all.figures[0].runs, [Some(1.0), None, Some(1.0)]);
    assert!(all.figures[0].missing.is_some());
}

#[test]
fn between_machines_the_one_link_stands_for_a_cable_and_not_for_a_shaped_one() {
    let cells = [cell(Rtt, "network", "gigae", 8, 1.0), cell(Rtt, "network", "xdp", 8, 1.0)];
    let mut found = results(RATIO, &cells);
    let link = &mut found.environment.link;
    link.truncate(1);
    (link[0].name, link[0].kind) = ("network".into(), "network".into());
    evaluate(&mut found);
    assert_eq!(found.figures[0].verdict, Verdict::Reached);
    found.plan = plan(&absolute("messages", "gigabit", "8"));
    found.series[0].experiment = Stream;
    evaluate(&mut found);
    assert_eq!(found.figures[0].verdict, Verdict::NotMeasured);
}
