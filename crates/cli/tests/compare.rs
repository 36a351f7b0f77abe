//! `gigae compare` as a command, on saved runs and on new ones: this test binary plays `gigae` for
//! itself.
//!
//! Called with a command of the program it is the program; called by `cargo test` it is the tests.

mod program;

use gigae_fabric::{testing, tests};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, ExitCode, Output};

fn main() -> ExitCode {
    if let Some(code) = program::play() {
        return code;
    }
    testing::for_users_except(&[]).run(tests![
        four_runs_are_compared_with_four_others,
        saved_runs_of_any_version_are_compared,
        what_cannot_be_compared_is_one_line
    ]);
}

fn gigae(arguments: &[&str]) -> Output {
    Command::new(std::env::current_exe().unwrap()).args(arguments).output().unwrap()
}

fn says(arguments: &[&str]) -> String {
    let output = gigae(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

const TINY: &str = r#"
name = "tiny"
about = "a test"
repetitions = 2
max_repetitions = 2
[link.cable]
cable = true
[[experiment]]
kind = "rtt"
links = ["cable"]
transports = ["udp", "gigae"]
sizes = [8, 64]
waits = ["sleep"]
seconds = 0.02
warmup = 0.0
"#;

fn four_runs_are_compared_with_four_others() {
    let place = tempfile::tempdir().unwrap();
    let plan = place.path().join("tiny.toml");
    std::fs::write(&plan, TINY).unwrap();
    let [before, after, out] = ["before", "after", "out"].map(|name| place.path().join(name));
    for side in [&before, &after] {
        says(&["eval", "--plan", text(&plan), "--runs", "4", "--json", "--out", text(side)]);
    }
    let sides = [text(&before), text(&after)];
    let json = says(&["compare", sides[0], sides[1], "--json", "--out", text(&out)]);
    assert_eq!(json, std::fs::read_to_string(out.join("compare.json")).unwrap());
    let comparison: Value = serde_json::from_str(&json).unwrap();
    // One machine, one kernel, one program.
    assert_eq!(comparison["differs"], Value::Array(Vec::new()));
    let against = &comparison["against"][0];
    assert_eq!((&against["unit"], &against["units"]), (&"run".into(), &vec![4, 4].into()));
    let figures = against["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 4, "{figures:?}");
    for figure in figures {
        assert!(figure["p"].is_f64() && figure["visible"].is_f64(), "{figure}");
        let [low, high] = [0, 1].map(|end| figure["ci95"][end].as_f64().unwrap());
        let change = figure["change"].as_f64().unwrap();
        assert!(low <= change && change <= high, "{figure}");
    }
    // They sleep, so their CPU is known, too.
    let costs = against["costs"].as_array().unwrap();
    assert!(costs.iter().any(|cost| cost["cost"] == "CPU, measuring end"), "{costs:?}");
    assert!(costs.iter().all(|cost| cost["p"].is_f64()), "{costs:?}");
    let page = std::fs::read_to_string(out.join("compare.html")).unwrap();
    assert!(page.contains("Round trip over message size, sleep"), "{page}");
    assert!(page.contains("udp A") && page.contains("udp B"), "{page}");
    let lines = says(&["compare", sides[0], sides[1], "--csv"]);
    assert_eq!(lines, std::fs::read_to_string(out.join("compare.csv")).unwrap());
    let shown = says(&["compare", sides[0], sides[1]]);
    assert!(shown.contains("4 runs") && shown.contains("What follows"), "{shown}");
}

const FIXTURES: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../eval/model/fixtures/results.json"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../eval/model/fixtures/results-2.json"),
];

fn saved_runs_of_any_version_are_compared() {
    let [first, second] = FIXTURES;
    let shown = says(&["compare", first, second, second]);
    assert!(shown.contains("What else differs") && shown.contains("few-runs:"), "{shown}");
    assert!(shown.contains("B against A") && shown.contains("C against A"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    // Nothing arrived in one repetition of one of the 105.
    let mut all = gigae_eval_model::testing::first();
    all.series.last_mut().unwrap().repetitions[0] = 0.0;
    let place = tempfile::tempdir().unwrap();
    let whole = place.path().join("whole.json");
    std::fs::write(&whole, all.to_json()).unwrap();
    let same = says(&["compare", text(&whole), text(&whole)]);
    assert!(same.contains("no significant difference in 104 figures. 1 could not"), "{same}");
    assert!(same.contains("nothing: of what is recorded"), "{same}");
}

fn what_cannot_be_compared_is_one_line() {
    let refused = |arguments: &[&str], code: i32, part: &str| {
        let output = gigae(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(part) && output.stdout.is_empty(), "{error}");
        if code == 1 {
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    };
    let [first, _] = FIXTURES;
    refused(&["compare", first], 2, "2");
    refused(&["compare", first, first, "--least=-1"], 2, "percent");
    refused(&["compare", first, "/nonexistent"], 1, "name a results.json");
    let place = tempfile::tempdir().unwrap();
    let other = place.path().join("results.json");
    let mut results: Value =
        serde_json::from_str(&std::fs::read_to_string(first).unwrap()).unwrap();
    for series in results["series"].as_array_mut().unwrap() {
        series["size"] = 3.into();
    }
    std::fs::write(&other, results.to_string()).unwrap();
    refused(&["compare", first, text(&other)], 1, "no cell is in both");
    let out = place.path().join("results.json/out");
    refused(&["compare", first, first, "--out", text(&out)], 1, "--out");
}
