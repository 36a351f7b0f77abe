//! Flows of several nodes through one port, both ways, on virtual networks: this test binary plays
//! `gigae` for itself.

mod program;

use gigae_eval_model::results::Results;
use gigae_eval_model::shares::{SharesFigure, Way};
use gigae_fabric::{testing, tests};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    if let Some(code) = program::play() {
        return code;
    }
    testing::for_users_except(&[]).run(tests![flows_of_gigae_and_tcp_share_a_port_both_ways]);
}

const PLAN: &str = r#"
name = "sharing"
about = "a test: gigae and TCP at once through one port"
repetitions = 1
max_repetitions = 1
[link.small]
rate_mbit = 50
server_rate_mbit = 50
nodes = 6
buffer = 32768
[gigae.credit]
backend = "packet"
[gigae.plain]
shared_credit = false
backend = "packet"
[[experiment]]
kind = "rtt"
links = ["small"]
transports = ["tcp"]
sizes = [8]
waits = ["sleep"]
seconds = 0.1
warmup = 0.01
[[shares]]
links = ["small"]
ways = ["in", "out"]
flows = [
    { transport = "gigae", variant = "credit", count = 2 },
    { transport = "tcp", count = 2 },
]
seconds = 0.8
warmup = 0.2
[[shares]]
links = ["small"]
flows = [{ transport = "gigae", variant = "plain", count = 4 }]
seconds = 0.8
warmup = 0.2
repetitions = 2
[[shares]]
links = ["small"]
flows = [{ transport = "tcp", count = 4 }]
seconds = 0.8
warmup = 0.2
[[shares]]
links = ["small"]
ways = ["in", "out"]
flows = [{ transport = "gigae", variant = "credit", count = 4 }]
size = 65536
seconds = 0.8
warmup = 0.2
"#;

fn flows_of_gigae_and_tcp_share_a_port_both_ways() {
    let place = tempfile::tempdir().unwrap();
    let (plan, out) = (place.path().join("plan.toml"), place.path().join("out"));
    std::fs::write(&plan, PLAN).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["eval", "--plan"]).arg(&plan).arg("--out").arg(&out);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(out.join("results.json")).unwrap();
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../eval/model/schema/gigae.eval.2.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let value = serde_json::from_str(&text).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let results = Results::parse(&text).unwrap();
    let found: Vec<(String, Way)> =
        results.shares.iter().map(|one| (one.cell.mix(), one.cell.way)).collect();
    let mixed = "2 gigae credit + 2 tcp".to_owned();
    let wanted = [
        (mixed.clone(), Way::In),
        (mixed, Way::Out),
        ("4 gigae plain".to_owned(), Way::In),
        ("4 tcp".to_owned(), Way::In),
        ("4 gigae credit".to_owned(), Way::In),
        ("4 gigae credit".to_owned(), Way::Out),
    ];
    assert_eq!(found, wanted, "{:?}", results.skipped);
    results.shares.iter().for_each(is_complete);
    let times: Vec<usize> = results.shares.iter().map(|one| one.repetitions.len()).collect();
    assert_eq!(times, [1, 1, 2, 1, 1, 1]);
    assert_eq!(results.shares[4].cell.size, 65_536);
    // Four connections hold more than the switch's buffer.
    assert!(results.shares[3].switch_dropped > 0, "{:?}", results.shares[3]);
    for name in ["report.md", "report.html"] {
        let report = std::fs::read_to_string(out.join(name)).unwrap();
        for words in
            ["Shares of one port", "2 gigae credit + 2 tcp", "32.0 KiB", "4 to 1", "1 to 4"]
        {
            assert!(report.contains(words), "'{words}' is not in {name}: {report}");
        }
    }
    let lines = std::fs::read_to_string(out.join("results.csv")).unwrap();
    let lines = lines.lines().filter(|line| line.contains(",shares,")).count();
    let trips = results.shares.iter().filter(|one| one.trips.is_some()).count();
    assert!(trips > 0, "{:?}", results.shares);
    // All together, each flow, and the round trips.
    assert_eq!(lines, 6 * (1 + 4) + trips);
}

fn is_complete(one: &SharesFigure) {
    let nodes: Vec<u16> = one.flows.iter().map(|flow| flow.node).collect();
    assert_eq!(nodes, [1, 3, 4, 5], "{one:?}");
    // A flow may be starved for so short a time, and a question may be lost several times.
    assert!(one.flows.iter().all(|flow| flow.share.is_some()) && one.median > 0.0, "{one:?}");
    assert!((0.25 - 1e-9..=1.0 + 1e-9).contains(&one.fairness), "{one:?}");
    // A bucket lets a burst through, and the counters are read a little before or after.
    assert!(one.share.is_some_and(|share| share > 0.0 && share < 1.3), "{one:?}");
    assert!(one.switch_frames > 0, "{one:?}");
    if let Some(trips) = &one.trips {
        assert!(trips.n > 0 && trips.p50_us > 0.0, "{one:?}");
        assert_eq!(trips.transport, one.cell.flows[0].transport);
    }
}
