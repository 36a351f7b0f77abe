//! What the comparison says of runs that were made up: false alarms, differences that are there,
//! and what it cannot know.

use super::*;
use gigae_eval_model::doubt::Code;
use gigae_eval_model::plan::Wait;
use gigae_eval_model::results::Results;
use oorandom::Rand32;

const FIRST: &str = include_str!("../../../model/fixtures/results.json");
const SECOND: &str = include_str!("../../../model/fixtures/results-2.json");

/// Figures of a family: as many as the plan `compare` has.
const CELLS: usize = 18;

/// Repetitions of a run.
const REPETITIONS: usize = 6;

/// By how much figures vary, as shares.
#[derive(Clone, Copy)]
struct Scatter {
    /// From repetition to repetition; one in twenty is far off besides.
    repetition: f64,
    /// From run to run, each cell on its own.
    run: f64,
    /// From run to run, all cells alike.
    common: f64,
    /// From each run to the next, all cells alike.
    drift: f64,
}

const ORDINARY: Scatter = Scatter { repetition: 0.03, run: 0.015, common: 0.03, drift: 0.0 };

fn normal(random: &mut Rand32) -> f64 {
    (0..12).map(|_| f64::from(random.rand_float())).sum::<f64>() - 6.0
}

/// Makes runs up, one after the other.
struct Machine {
    template: Results,
    random: Rand32,
    scatter: Scatter,
    made: u32,
}

impl Machine {
    fn new(seed: u64, scatter: Scatter) -> Self {
        let mut template = gigae_eval_model::testing::first();
        template.series.retain(|series| {
            matches!(series.experiment, Experiment::Rtt | Experiment::Stream) && series.median > 0.0
        });
        template.series.truncate(CELLS);
        assert_eq!(template.series.len(), CELLS);
        template.environment.link.truncate(1);
        // What is the same in all of them is looked at in each.
        template.environment.link[0].local.nic = serde_json::Value::Null;
        template.environment.link[0].remote.nic = serde_json::Value::Null;
        template.plan.figure.clear();
        Self { template, random: Rand32::new(seed), scatter, made: 0 }
    }

    /// A run in which `changed` cells take so much longer, or carry so much more.
    fn run(&mut self, changed: usize, change: f64) -> Results {
        let mut run = self.template.clone();
        self.made += 1;
        run.environment.date = gigae_eval_model::date::utc(u64::from(self.made) * 100);
        let scatter = self.scatter;
        let common =
            scatter.common * normal(&mut self.random) + scatter.drift * f64::from(self.made);
        for (cell, series) in run.series.iter_mut().enumerate() {
            let own = if cell < changed { (1.0 + change).ln() } else { 0.0 };
            let middle = series.median.ln() + own + common + scatter.run * normal(&mut self.random);
            let one = |_| {
                let off = if self.random.rand_range(0..20) == 0 { 0.3 } else { 0.0 };
                (middle + off + scatter.repetition * normal(&mut self.random)).exp()
            };
            series.repetitions = (0..REPETITIONS).map(one).collect();
            series.median = stats::median(&series.repetitions).unwrap();
        }
        run
    }

    fn side(&mut self, runs: usize, changed: usize, change: f64) -> Side {
        let runs = (0..runs).map(|_| self.run(changed, change)).collect();
        Side { name: "made up".into(), runs }
    }

    /// Two sides, one run of each at a time.
    fn in_turns(&mut self, runs: usize, changed: usize, change: f64) -> [Side; 2] {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            before.push(self.run(0, 0.0));
            after.push(self.run(changed, change));
        }
        [before, after].map(|runs| Side { name: "made up".into(), runs })
    }
}

fn against_of(sides: &[Side], least: f64) -> SideComparison {
    compare(sides, least).unwrap().against.swap_remove(0)
}

/// In how many of `families` families there is a significant difference, however small.
fn alarms(families: u64, scatter: Scatter, sides: impl Fn(&mut Machine) -> [Side; 2]) -> usize {
    let alarmed = |seed: &u64| {
        let mut machine = Machine::new(*seed, scatter);
        let against = against_of(&sides(&mut machine), 0.0);
        assert_eq!(against.figures.len(), CELLS);
        against.figures.iter().chain(&against.costs).any(|one| one.verdict.differs())
    };
    (1..=families).filter(alarmed).count()
}

#[test]
fn runs_of_one_thing_raise_a_false_alarm_in_one_family_of_twenty_at_most() {
    for scatter in [
        ORDINARY,
        // No two runs are alike, and all cells of a run go together or each its own way.
        Scatter { common: 0.2, ..ORDINARY },
        Scatter { run: 0.1, ..ORDINARY },
    ] {
        let two = |machine: &mut Machine| [machine.side(4, 0, 0.0), machine.side(4, 0, 0.0)];
        let found = alarms(200, scatter, two);
        assert!(found <= 10, "{found} of 200");
    }
    let unequal = |machine: &mut Machine| [machine.side(3, 0, 0.0), machine.side(5, 0, 0.0)];
    let found = alarms(200, ORDINARY, unequal);
    assert!(found <= 10, "{found} of 200");
}

#[test]
fn with_one_run_on_a_side_repetitions_are_compared_and_nothing_is_known_of_runs() {
    let one = |machine: &mut Machine| [machine.side(1, 0, 0.0), machine.side(1, 0, 0.0)];
    let alike = Scatter { run: 0.0, common: 0.0, ..ORDINARY };
    let found = alarms(60, alike, one);
    assert!(found <= 5, "{found} of 60 where runs do not differ");
    // What this cannot know: it takes another run for another thing, and says so.
    let found = alarms(60, Scatter { repetition: 0.01, ..ORDINARY }, one);
    assert!(found > 30, "{found} of 60");
    let against = against_of(&one(&mut Machine::new(1, ORDINARY)), 5.0);
    assert_eq!((against.unit, against.units), (Unit::Repetition, [6, 6]));
    let doubt = against.doubts[0].to_string();
    assert!(doubt.starts_with("few-runs: 1 and 1 runs") && doubt.contains("--runs 4"), "{doubt}");
    assert!(against.costs.iter().all(|cost| cost.verdict == ComparisonVerdict::Untested));
}

#[test]
fn a_difference_of_ten_percent_is_found() {
    let found = |changed: usize, scatter: Scatter| -> usize {
        let hit = |seed: &u64| {
            let mut machine = Machine::new(1000 + seed, scatter);
            let sides = [machine.side(4, 0, 0.0), machine.side(4, changed, 0.1)];
            let against = against_of(&sides, 5.0);
            against.figures[..changed].iter().any(|figure| figure.verdict.differs())
        };
        (1..=100).filter(hit).count()
    };
    // Of one cell where the machine is quiet, and of all of them in the ordinary scatter.
    let quiet = Scatter { repetition: 0.02, run: 0.005, common: 0.005, drift: 0.0 };
    let (one, all) = (found(1, quiet), found(CELLS, Scatter { common: 0.01, ..ORDINARY }));
    assert!(one >= 80 && all >= 80, "{one} and {all} of 100");
}

#[test]
fn better_and_worse_are_distinguished_and_what_is_slight_does_not_count() {
    let quiet = Scatter { repetition: 0.001, run: 0.001, common: 0.0, drift: 0.0 };
    let mut machine = Machine::new(7, quiet);
    let sides =
        [machine.side(4, 0, 0.0), machine.side(4, CELLS, 0.2), machine.side(4, CELLS, 0.02)];
    let against = against_of(&[sides[0].clone(), sides[1].clone()], 5.0);
    for figure in &against.figures {
        let stream = figure.cell.experiment == Experiment::Stream;
        assert_eq!(
            figure.verdict,
            if stream { ComparisonVerdict::Better } else { ComparisonVerdict::Worse }
        );
        let (change, [low, high]) = (figure.change.unwrap(), figure.ci95.unwrap());
        assert!((change - 20.0).abs() < 1.0 && low < change && change < high, "{figure:?}");
    }
    assert!(against.doubts.iter().any(|doubt| doubt.code == Some(Code::InCommon)), "{against:?}");
    let slight = against_of(&[sides[0].clone(), sides[2].clone()], 5.0);
    assert!(slight.figures.iter().all(|figure| figure.verdict == ComparisonVerdict::Slight));
    // Two comparisons with one reference need more runs for the same.
    let both = compare(&sides, 5.0).unwrap();
    assert!(both.against.iter().all(|against| against.unit == Unit::Repetition));
    assert!(
        both.against[0].doubts[0].to_string().contains("--runs 5"),
        "{:?}",
        both.against[0].doubts
    );
}

#[test]
fn what_drifts_with_time_is_a_difference_of_sides_one_after_the_other_and_not_of_those_in_turns() {
    let drifting = Scatter { common: 0.002, drift: 0.02, ..ORDINARY };
    let drifting = Scatter { repetition: 0.005, run: 0.002, ..drifting };
    let after = |machine: &mut Machine| [machine.side(4, 0, 0.0), machine.side(4, 0, 0.0)];
    let turns = |machine: &mut Machine| machine.in_turns(4, 0, 0.0);
    let (one_after, in_turns) = (alarms(20, drifting, after), alarms(20, drifting, turns));
    assert!(one_after > 15 && in_turns <= 1, "{one_after} and {in_turns} of 20");
    let said = |sides: [Side; 2]| {
        let against = against_of(&sides, 5.0);
        against.doubts.iter().any(|doubt| doubt.code == Some(Code::OneAfterTheOther))
    };
    assert!(said(after(&mut Machine::new(1, ORDINARY))));
    assert!(!said(turns(&mut Machine::new(1, ORDINARY))));
}

#[test]
fn no_difference_is_said_with_the_smallest_that_could_have_been_seen() {
    let mut machine = Machine::new(3, ORDINARY);
    let sides = [machine.side(4, 0, 0.0), machine.side(4, 0, 0.0)];
    let comparison = compare(&sides, 5.0).unwrap();
    for figure in &comparison.against[0].figures {
        assert_eq!(figure.verdict, ComparisonVerdict::Same, "{figure:?}");
        assert!(figure.visible.unwrap() >= 5.0, "{figure:?}");
    }
    let text = text(&comparison, false);
    assert!(text.contains("no significant difference in 18 figures"), "{text}");
    assert!(text.contains("could have been seen"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

fn saved(name: &str, text: &str) -> Side {
    Side { name: name.into(), runs: vec![Results::parse(text).unwrap()] }
}

#[test]
fn runs_of_both_versions_are_compared_by_what_they_have_in_common() {
    let comparison = compare(&[saved("one", FIRST), saved("two", SECOND)], 5.0).unwrap();
    let against = &comparison.against[0];
    assert!(!against.figures.is_empty() && against.alone.iter().all(|alone| !alone.is_empty()));
    // The link of that name, and what needs none.
    let known = |figure: &Compared| matches!(figure.cell.link.as_str(), "gigabit" | "memory");
    assert!(against.figures.iter().all(known));
    assert!(comparison.differs.iter().any(|differs| differs.what == "plan"));
    let again = compare(&[saved("one", FIRST), saved("one", FIRST)], 5.0).unwrap();
    assert_eq!(again.differs, []);
    for figure in &again.against[0].figures {
        assert!(figure.change.is_none_or(|change| change == 0.0) && !figure.verdict.differs());
    }
}

#[test]
fn what_differs_is_said_once_for_all_places_where_it_does() {
    let mut machine = Machine::new(1, ORDINARY);
    let mut sides = [machine.side(1, 0, 0.0), machine.side(1, 0, 0.0)];
    let environment = &mut sides[1].runs[0].environment;
    environment.kernel = "6.99".into();
    environment.git = "abc".into();
    let link = &mut environment.link[0];
    for end in [&mut link.local, &mut link.remote] {
        end.kernel = "6.99".into();
        end.git = "abc".into();
    }
    link.local.offloads["tso"] = "changed".into();
    link.local.interface = "another".into();
    let found = compare(&sides, 5.0).unwrap().differs;
    let what: Vec<&str> = found.iter().map(|differs| differs.what.as_str()).collect();
    let ends = "kernel (answering end; measuring end)";
    assert_eq!(what, ["git", ends, "offloads tso (measuring end)"], "{found:?}");
    assert_eq!(found[2].values[1], "changed");
    sides[0].runs.push(sides[1].runs[0].clone());
    let against = against_of(&sides, 5.0);
    assert!(against.doubts.iter().any(|doubt| doubt.code == Some(Code::Mixed)), "{against:?}");
}

#[test]
fn links_of_another_name_are_the_same_where_each_side_has_one() {
    let mut machine = Machine::new(1, ORDINARY);
    let mut sides = [machine.side(1, 0, 0.0), machine.side(1, 0, 0.0)];
    let other = &mut sides[1].runs[0];
    other.environment.link[0].name = "network".into();
    other.series.iter_mut().for_each(|series| series.link = "network".into());
    assert_eq!(against_of(&sides, 5.0).figures.len(), CELLS);
    let second = other_link(&sides[1].runs[0]);
    sides[1].runs[0].environment.link.push(second);
    let error = compare(&sides, 5.0).unwrap_err().to_string();
    assert!(error.contains("no cell is in both") && error.contains("gigae eval --plan"), "{error}");
    assert!(error.contains("network, further") && error.lines().count() == 1, "{error}");
}

fn other_link(results: &Results) -> gigae_eval_model::environment::LinkEnvironment {
    gigae_eval_model::environment::LinkEnvironment {
        name: "further".into(),
        ..results.environment.link[0].clone()
    }
}

#[test]
fn figures_without_a_logarithm_are_shown_and_not_judged() {
    let mut machine = Machine::new(1, ORDINARY);
    let mut sides = [machine.side(4, 0, 0.0), machine.side(4, 0, 0.0)];
    for run in &mut sides[1].runs {
        run.series[0].median = 0.0;
    }
    sides[1].runs[0].series[1].repetitions.clear();
    let against = against_of(&sides, 5.0);
    let figure = &against.figures[0];
    assert_eq!(
        (figure.verdict, figure.change, figure.p),
        (ComparisonVerdict::Untested, None, None)
    );
    assert_eq!(figure.medians[1], 0.0);
}

/// The measuring end of `paced` polls, whatever the answering one does.
#[test]
fn empty_polls_are_no_cost_of_the_messages() {
    let verdicts = |experiment| {
        let mut machine = Machine::new(1, ORDINARY);
        let mut sides = machine.in_turns(4, 0, 0.0);
        for (side, calls) in sides.iter_mut().zip([1000.0, 1200.0]) {
            for (number, run) in side.runs.iter_mut().enumerate() {
                for series in &mut run.series {
                    (series.experiment, series.wait) = (experiment, Wait::Sleep);
                    let calls = calls * (1.0 + 0.001 * number as f64);
                    series.syscalls = (series.n as f64 * calls) as u64;
                }
            }
        }
        let against = against_of(&sides, 5.0);
        against.costs.iter().filter(|one| one.verdict.differs()).count()
    };
    assert!(verdicts(Experiment::Rtt) > 0);
    assert_eq!(verdicts(Experiment::Paced), 0);
}

#[test]
fn the_page_and_the_lines_have_every_figure_and_no_text_that_does_harm() {
    let mut machine = Machine::new(1, ORDINARY);
    let mut sides = [machine.side(4, 0, 0.0), machine.side(4, 1, 0.5)];
    let evil = "</style><script>alert(1)</script>\"'";
    sides[1].name = evil.into();
    sides[1].runs[0].environment.kernel = evil.into();
    sides[1].runs[0].environment.link[0].local.kernel = evil.into();
    let comparison = compare(&sides, 5.0).unwrap();
    let page = crate::compared::page(&comparison, &sides);
    // The pages' own script and style sheet.
    assert!(page.matches("<script").count() == 1 && page.matches("</style>").count() == 1);
    assert!(page.len() < 2_000_000 && !page.contains("NaN") && !page.contains("://"));
    assert_eq!(page, crate::compared::page(&comparison, &sides));
    for word in ["What else differs", "<svg", "class=\"line c", " d1\"", "seen from", "Doubts"] {
        assert!(page.contains(word), "no {word}");
    }
    let csv = crate::compared::csv(&comparison);
    let against = &comparison.against[0];
    assert_eq!(csv.lines().count(), 1 + against.figures.len() + against.costs.len());
    let json = serde_json::to_value(&comparison).unwrap();
    assert_eq!(json["schema"], SCHEMA);
    assert_eq!(json["against"][0]["figures"].as_array().unwrap().len(), CELLS);
}
