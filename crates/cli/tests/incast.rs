//! Many senders and one receiver, on virtual networks: this test binary plays `gigae` for itself.

mod program;

use gigae_eval_model::results::{Results, Series};
use gigae_fabric::{testing, tests};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    if let Some(code) = program::play() {
        return code;
    }
    testing::for_users_except(&[]).run(tests![many_nodes_and_many_streams_of_one_share_a_receiver]);
}

const PLAN: &str = r#"
name = "many"
about = "a test: many senders, one receiver"
repetitions = 2
max_repetitions = 2
[link.two]
rate_mbit = 100
[link.many]
rate_mbit = 100
nodes = 4
buffer = 65536
[tcp.nodelay]
nodelay = true
buffer = 131072
[[experiment]]
kind = "incast"
links = ["two", "many"]
transports = ["gigae", "udp", "tcp", "icmp"]
sizes = [1400]
waits = ["sleep"]
senders = [1, 3]
seconds = 0.4
warmup = 0.2
"#;

fn many_nodes_and_many_streams_of_one_share_a_receiver() {
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
    let of = |link: &str, transport: &str, senders: u32| -> Option<&Series> {
        let is = |one: &&Series| {
            (one.link.as_str(), one.transport.as_str(), one.condition.senders)
                == (link, transport, senders)
        };
        results.series.iter().find(is)
    };
    for link in ["two", "many"] {
        for transport in ["gigae", "udp", "tcp"] {
            for senders in [1, 3] {
                // A NIC has one endpoint, so one node has no more senders.
                if (link, transport, senders) == ("two", "gigae", 3) {
                    assert!(of(link, transport, senders).is_none());
                    assert!(results.skipped.iter().any(|one| one.transport.starts_with("gigae")));
                    continue;
                }
                let series = of(link, transport, senders).unwrap_or_else(|| {
                    panic!("no {transport} {senders} on {link}: {:?}", results.skipped)
                });
                let shares = series.shares.as_ref().unwrap();
                assert_eq!(shares.last.len(), senders as usize, "{series:?}");
                assert!(
                    series.median > 0.0 && shares.last.iter().all(|rate| *rate > 0.0),
                    "{series:?}"
                );
                let least = 1.0 / f64::from(senders) - 1e-9;
                assert!((least..=1.0 + 1e-9).contains(&shares.fairness), "{series:?}");
                assert!(transport == "udp" || series.lost == 0, "{series:?}");
                let sum: f64 = shares.last.iter().sum();
                assert!(sum < 1.5 * 12.5, "more than the link carries: {series:?}");
                assert!(shares.trip_p50.is_some_and(|trip| trip > 0.0), "{series:?}");
            }
        }
    }
    // Three nodes' sockets hold more than the switch's buffer, and datagrams know no better.
    let udp = of("many", "udp", 3).unwrap();
    assert!(udp.loss() > 0.05, "{udp:?}");
    for name in ["report.md", "report.html"] {
        let report = std::fs::read_to_string(out.join(name)).unwrap();
        for words in ["Many senders, one receiver", "3 senders by TCP reach", "evenness"] {
            assert!(report.contains(words), "'{words}' is not in {name}: {report}");
        }
    }
}
