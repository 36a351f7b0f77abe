//! `gigae simulate` as a person uses it: plans, reports, mistakes, Ctrl-C.
#![allow(missing_docs)]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn gigae(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gigae")).args(arguments).output().unwrap()
}

fn says(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = gigae(arguments);
    assert!(output.status.success(), "{}", says(&output.stderr));
    says(&output.stdout)
}

/// One line on standard error that contains `part`, exit code 1, nothing on standard output.
fn fails(arguments: &[&str], part: &str) {
    let output = gigae(arguments);
    let error = says(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.starts_with("gigae: ") && error.lines().count() == 1, "{error}");
    assert!(error.contains(part) && output.stdout.is_empty(), "{error}");
}

/// A plan that takes some milliseconds.
const SMALL: &str = r#"
name = "small"
about = "4 senders with 20 kB each"
[network]
hosts = 5
rate_mbit = 10000
switch_ns = 250
turnaround_ns = 1000
[[incast]]
senders = [4]
bytes = 20000
spread_us = 5
[[gigae]]
[[homa]]
"#;

fn plan(place: &Path, text: &str) -> String {
    let file = place.join("plan.toml");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn plans_are_listed_and_printed() {
    let list = succeeds(&["simulate", "--list"]);
    for name in ["incast", "homa16", "leaf-spine-144", "patterns"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{list}");
        let text = succeeds(&["simulate", name, "--print"]);
        assert!(text.contains(&format!("name = \"{name}\"")), "{text}");
    }
    assert!(list.contains("Carry one out with: gigae simulate NAME"), "{list}");
}

#[test]
fn a_plan_has_its_report_and_its_files() {
    let place = tempfile::tempdir().unwrap();
    let (plan, out) = (plan(place.path(), SMALL), place.path().join("out"));
    let json = place.path().join("copy.json");
    let (out_text, json_text) = (out.to_str().unwrap(), json.to_str().unwrap());
    let text = succeeds(&[
        "simulate",
        &plan,
        "--out",
        out_text,
        "--json",
        json_text,
        "--seeds",
        "2",
        "--trace",
        "to-host-0,host-1",
        "--queues",
        "to-host-0",
        "--every-us",
        "1",
    ]);
    assert!(text.contains("incast 4 x 20 kB in 5 us, gigae"), "{text}");
    assert!(text.contains(out_text) && text.contains(json_text), "{text}");
    let mut names: Vec<String> = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let wanted = [
        "incast-4-x-20-kb-in-5-us-gigae-queues.csv",
        "incast-4-x-20-kb-in-5-us-gigae.pcapng",
        "incast-4-x-20-kb-in-5-us-homa-queues.csv",
        "incast-4-x-20-kb-in-5-us-homa.pcapng",
        "simulation.html",
        "simulation.json",
        "simulation.md",
    ];
    assert_eq!(names, wanted);
    let saved = std::fs::read_to_string(out.join("simulation.json")).unwrap();
    assert_eq!(std::fs::read_to_string(&json).unwrap(), saved);
    // The same seed, the same bytes.
    assert_eq!(succeeds(&["simulate", &plan, "--seeds", "2", "--json", "-"]), saved);
    let parsed: serde_json::Value = serde_json::from_str(&saved).unwrap();
    assert_eq!(parsed["cells"][0]["runs"].as_array().unwrap().len(), 2);
    let one = succeeds(&["simulate", &plan, "--protocols", "homa", "--seed", "9", "--json", "-"]);
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["cells"].as_array().unwrap().len(), 1);
    assert_eq!(one["cells"][0]["runs"][0]["seed"], 9);
    assert!(one["command"].as_str().unwrap().ends_with(" --protocols homa --seed 9"));
}

#[test]
fn a_trace_that_cannot_get_its_name_costs_no_figures() {
    let place = tempfile::tempdir().unwrap();
    let (plan, out) = (plan(place.path(), SMALL), place.path().join("out"));
    // Nothing takes the name of a directory that is not empty.
    std::fs::create_dir_all(out.join("incast-4-x-20-kb-in-5-us-homa.pcapng/full")).unwrap();
    let out_text = out.to_str().unwrap();
    let output = gigae(&["simulate", &plan, "--out", out_text, "--trace", "host-1"]);
    let (text, error) = (says(&output.stdout), says(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("homa.pcapng") && error.lines().count() == 1, "{error}");
    assert!(text.contains("incast 4 x 20 kB in 5 us, homa"), "{text}");
    for name in ["simulation.json", "simulation.html", "incast-4-x-20-kb-in-5-us-gigae.pcapng"] {
        assert!(out.join(name).is_file() && text.contains(name), "{name}: {text}");
    }
}

#[test]
fn mistakes_are_said_in_one_line() {
    let place = tempfile::tempdir().unwrap();
    fails(&["simulate", "no-such"], "choose one of incast");
    let wrong = plan(place.path(), &SMALL.replace("hosts = 5", "host = 5"));
    fails(&["simulate", &wrong], "line 5: unknown field `host`");
    let right = plan(place.path(), SMALL);
    fails(&["simulate", &right, "--protocols", "tcp"], "has no protocol 'tcp'");
    let out = place.path().join("out");
    let out = out.to_str().unwrap();
    fails(&["simulate", &right, "--out", out, "--trace", "host-5"], "no port 'host-5'");
    assert!(!Path::new(out).exists());
    fails(&["simulate", &right, "--json", "/dev/null/file"], "with --json");
    // Before the run, which would take minutes.
    let long = SMALL.replace("bytes = 20000", "bytes = 4000000000").replace("[[gigae]]\n", "");
    let long = plan(place.path(), &long);
    fails(&["simulate", &long, "--json", "/dev/null/file"], "with --json");
    let right = plan(place.path(), SMALL);
    let refused = gigae(&["simulate", &right, "--out", out, "--trace", "port-5"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(says(&refused.stderr).contains("to-host-0"));
}

#[test]
fn a_json_file_is_replaced_as_a_whole_and_a_device_is_written_to() {
    let place = tempfile::tempdir().unwrap();
    let plan = plan(place.path(), SMALL);
    let (json, link) = (place.path().join("j.json"), place.path().join("link"));
    std::fs::write(&json, "old").unwrap();
    std::os::unix::fs::symlink("j.json", &link).unwrap();
    succeeds(&["simulate", &plan, "--json", link.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&json).unwrap().starts_with('{'));
    assert!(link.is_symlink());
    let count = std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(count, 3, "no draft is left");
    let (out, within) = (place.path().join("out"), place.path().join("out/within.json"));
    let (out, within) = (out.to_str().unwrap(), within.to_str().unwrap());
    succeeds(&["simulate", &plan, "--out", out, "--json", within]);
    assert_eq!(std::fs::read_dir(out).unwrap().count(), 4);
    let text = succeeds(&["simulate", &plan, "--json", "/dev/stderr"]);
    assert!(text.contains("incast 4 x 20 kB in 5 us, homa") && text.contains("/dev/stderr"));
}

#[test]
fn tables_are_printed_even_if_files_cannot_be_written() {
    // There, a file can be made but takes no bytes.
    let place = tempfile::tempdir().unwrap();
    let plan = plan(place.path(), SMALL);
    let output = gigae(&["simulate", &plan, "--json", "/dev/full"]);
    let (text, error) = (says(&output.stdout), says(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(text.contains("incast 4 x 20 kB in 5 us, homa"), "{text}");
    assert!(error.contains("with --json") && error.lines().count() == 1, "{error}");
}

#[test]
fn ctrl_c_shows_what_is_finished_and_leaves_no_file() {
    let place = tempfile::tempdir().unwrap();
    // The second workload takes minutes.
    let long = SMALL.replace("[[gigae]]\n", "[[ring]]\nbytes = 4000000000\n");
    let plan = plan(place.path(), &long.replace("spread_us", "# "));
    let out = place.path().join("new");
    let child = Command::new(env!("CARGO_BIN_EXE_gigae"))
        .args(["simulate", &plan, "--threads", "1", "--queues", "host-0", "--out"])
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let draft = out.join(format!(".ring-4000-mb-homa-queues.csv.{}", child.id()));
    while !draft.exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let signalled = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    let output = child.wait_with_output().unwrap();
    let (text, error) = (says(&output.stdout), says(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{error}");
    assert_eq!(error, "gigae: interrupted: 1 of 2 runs are finished, and no file was written\n");
    assert!(text.contains("incast 4 x 20 kB, homa") && !text.contains("ring"), "{text}");
    assert!(!out.exists());
}
