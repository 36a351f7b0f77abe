//! Two nodes as two machines, and links of two interfaces.

use crate::common::{
    PATIENCE, TINY, TestDirectory, eval, fits_schema, is_one_line_error, sleepers_are_all_measured,
};
use crate::control_port::await_socket;
use gigae_eval_model::results::{Results, Verdict};
use gigae_fabric::{Fabric, testing};
use gigae_host::affinity;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A fabric with `serve` in its second node, as if that were another machine.
struct Machines {
    fabric: Fabric,
    serve: Child,
    peer: String,
    /// Interfaces of both.
    nics: String,
}

impl Machines {
    fn new(test: &str, key: &Path) -> Self {
        Self::with(test, key, 1)
    }

    /// With this many networks between them.
    fn with(test: &str, key: &Path, networks: u16) -> Self {
        let fabric = testing::fabric(test, |config| config.networks = networks);
        let nics = fabric.interfaces().join(",");
        let node = fabric.node(2);
        let mut command = node.command(std::env::current_exe().unwrap()).unwrap();
        // Two machines do not share a processor, so neither do these; the other end takes the last
        // one.
        let cpu = affinity::allowed()[0].to_string();
        command.args(["serve", "--nic", &nics, "--cpu", &cpu, "--key"]).arg(key);
        command.stderr(Stdio::piped());
        let mut serve = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(serve.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("serving on"), "{line}");
        Self { peer: node.ipv4.to_string(), fabric, serve, nics }
    }

    fn eval(&self, key: &Path, place: &TestDirectory, plan: &Path) -> Command {
        let mut command = self.fabric.node(1).command(std::env::current_exe().unwrap()).unwrap();
        command.args(["eval", "--nic", &self.nics, "--peer", &self.peer, "--key"]).arg(key);
        command.arg("--plan").arg(plan).arg("--out").arg(place.path("out"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        let _ = self.serve.kill();
        let _ = self.serve.wait();
    }
}

pub(crate) fn two_nodes_with_a_key_file_measure_each_other() {
    let place = TestDirectory::new();
    let key = place.key("key", "the key of both machines\n");
    let plan = place.plan(TINY);
    let machines = Machines::new("two_nodes", &key);
    let wrong = place.key("wrong", "some other key altogether\n");
    let refused = machines.eval(&wrong, &place, &plan).output().unwrap();
    is_one_line_error(&refused, &["another key"]);
    let output = machines.eval(&key, &place, &plan).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results =
        Results::parse(&std::fs::read_to_string(place.path("out/results.json")).unwrap()).unwrap();
    assert_eq!(results.links(), ["network"]);
    sleepers_are_all_measured(&results);
    assert!(
        results.environment.command.contains("--peer")
            && !results.environment.command.contains("the key")
    );
}

pub(crate) fn two_nodes_measure_each_other_over_two_interfaces_as_one() {
    let place = TestDirectory::new();
    let key = place.key("key", "the key of both machines\n");
    let machines = Machines::with("two_nics", &key, 2);
    let output = machines.eval(&key, &place, &place.plan(TRUNK)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(place.path("out/results.json")).unwrap();
    uses_both(&Results::parse(&text).unwrap(), "network");
}

/// What a link of two interfaces must have led to.
fn uses_both(results: &Results, link: &str) {
    assert!(results.skipped.is_empty(), "{:?}", results.skipped);
    let environment = results.environment.link.iter().find(|one| one.name == link).unwrap();
    assert_eq!(environment.links, 2);
    for end in [&environment.local, &environment.remote] {
        assert_eq!((end.interface.as_str(), end.further_nics.len()), ("eth0, eth1", 1));
    }
    assert_eq!(results.environment.nic, "eth0, eth1");
    let here = || results.series.iter().filter(|series| series.link == link);
    let transports: Vec<_> = here().map(|series| series.transport.as_str()).collect();
    assert_eq!(transports, ["gigae", "gigae-write", "tcp"]);
    assert!(here().all(|series| series.median > 0.0 && series.lost == 0), "{transports:?}");
}

const TRUNK: &str = r#"
name = "trunk"
about = "a test: one link, and two as one"
repetitions = 2
max_repetitions = 2
[link.one]
rate_mbit = 100
[link.two]
rate_mbit = 100
links = 2
[[experiment]]
kind = "stream"
links = ["one", "two"]
transports = ["gigae", "gigae-write", "tcp"]
sizes = [100000]
waits = ["sleep"]
seconds = 0.3
warmup = 0.1
[[figure]]
name = "share of each"
kind = "stream"
value = "per-link"
wait = "sleep"
sizes = [100000]
of = { transport = "gigae-write", link = "two" }
over = { transport = "gigae-write", link = "one" }
at_least = 0.001
"#;

pub(crate) fn a_link_of_two_is_used_as_one_and_the_limit_is_that_of_both() {
    let place = TestDirectory::new();
    let out = place.path("out");
    let output =
        eval().arg("--plan").arg(place.plan(TRUNK)).arg("--out").arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(out.join("results.json")).unwrap();
    fits_schema(&text);
    let results = Results::parse(&text).unwrap();
    uses_both(&results, "two");
    for (transport, times) in [("gigae", 2.0), ("gigae-write", 2.0), ("tcp", 1.0)] {
        let limit = |link: &str| {
            let mut all = results.series.iter();
            all.find(|one| one.link == link && one.transport == transport).unwrap().limit.unwrap()
        };
        assert_eq!(limit("two"), limit("one") * times, "{transport}");
    }
    assert_eq!(results.figures[0].verdict, Verdict::Reached);
    let report = std::fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("eth0, eth1") && report.contains("2 side by side, each"), "{report}");
}

pub(crate) fn a_peer_that_vanishes_ends_the_run_in_bounded_time() {
    let place = TestDirectory::new();
    let key = place.key("key", "the key of both machines\n");
    let plan = place.plan(&TINY.replacen("seconds = 0.2", "seconds = 3.0", 1));
    let mut machines = Machines::new("vanishing_peer", &key);
    let child = machines.eval(&key, &place, &plan).spawn().unwrap();
    // ESTABLISHED: before that, there is no peer that could vanish.
    await_socket(&machines.fabric.node(2), "01", PATIENCE);
    // As a rule it measures by then; it has to notice in any state.
    std::thread::sleep(Duration::from_secs(2));
    machines.serve.kill().unwrap();
    let begin = Instant::now();
    let output = child.wait_with_output().unwrap();
    // A repetition (3 s) may run to its end, and each step of giving up has its own limit.
    assert!(begin.elapsed() < Duration::from_secs(40), "it did not give up");
    is_one_line_error(&output, &["peer"]);
    assert!(!place.path("out").exists());
}
