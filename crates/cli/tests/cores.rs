//! Several threads at each end, and the library's ceiling: this test binary plays `gigae` for
//! itself.

mod program;

use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::plan::Wait;
use gigae_eval_model::results::{Results, Series};
use gigae_fabric::{testing, tests};
use gigae_host::affinity;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    if let Some(code) = program::play() {
        return code;
    }
    testing::for_users_except(&[])
        .run(tests![each_thread_has_an_end_of_its_own_and_the_ceiling_stands_beside]);
}

const PLAN: &str = r#"
name = "threads"
about = "a test: several threads at each end"
repetitions = 2
max_repetitions = 2
[link.cable]
cable = true
[gigae.packet]
backend = "packet"
[gigae.sockets]
backend = "udp"
[[experiment]]
kind = "ceiling"
transports = ["gigae"]
gigae = ["default"]
sizes = [8, "frame"]
waits = ["spin"]
threads = [1, 16]
seconds = 0.1
warmup = 0.05
[[experiment]]
kind = "cores"
links = ["cable"]
transports = ["gigae", "tcp", "udp", "icmp"]
gigae = ["packet", "sockets"]
sizes = [1000]
waits = ["sleep"]
threads = [1, 2, 16]
seconds = 0.3
warmup = 0.1
"#;

fn each_thread_has_an_end_of_its_own_and_the_ceiling_stands_beside() {
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
    let cpus = affinity::allowed().len();
    for transport in ["gigae packet", "gigae sockets", "tcp", "udp"] {
        for threads in [1, 2, 16] {
            let is = |one: &&Series| {
                let name = format!("{} {}", one.transport, one.variant.as_deref().unwrap_or(""));
                (one.experiment, name.trim(), one.condition.threads)
                    == (Experiment::Cores, transport, threads)
            };
            let series = results.series.iter().find(is);
            if threads as usize > cpus {
                assert!(series.is_none(), "{series:?}");
                continue;
            }
            let series =
                series.unwrap_or_else(|| panic!("no {transport} {threads}: {:?}", results.skipped));
            let rates = &series.shares.as_ref().unwrap().last;
            assert_eq!(rates.len(), threads as usize, "{series:?}");
            assert!(rates.iter().all(|rate| *rate > 0.0), "{series:?}");
            assert!(transport == "udp" || series.lost == 0, "{series:?}");
        }
    }
    let ceiling = |size: usize, threads| {
        results.series.iter().find(|one| {
            (one.experiment, one.wait, one.size, one.condition.threads)
                == (Experiment::Ceiling, Wait::Spin, size, threads)
        })
    };
    for size in [8, 1468] {
        let series = ceiling(size, 1);
        assert_eq!(series.is_some(), cpus >= 2, "{:?}", results.skipped);
        assert!(series.is_none_or(|one| one.median > 0.0 && one.lost == 0), "{series:?}");
        assert!(ceiling(size, 16).is_none() || cpus >= 32);
    }
    if cpus < 16 {
        let said = |kind: &str| {
            let what = |what: &Option<String>| what.as_ref().is_some_and(|it| it.starts_with(kind));
            let mut of_kind = results.skipped.iter().filter(|one| what(&one.what));
            of_kind.next().is_some_and(|one| one.reason.contains(&format!("has {cpus};")))
        };
        assert!(said("cores of") && said("ceiling of"), "{:?}", results.skipped);
    }
    for name in ["report.md", "report.html"] {
        let report = std::fs::read_to_string(out.join(name)).unwrap();
        assert!(report.contains("Several threads at each end"), "{name}: {report}");
        let sentence = "Without a kernel, one processor each way carries gigae";
        assert_eq!(report.contains(sentence), cpus >= 2, "{name}: {report}");
    }
}
