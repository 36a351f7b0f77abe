//! What comes out of a run, for plans that together use every kind of experiment.

use crate::common::{
    TINY, TestDirectory, eval, fits_schema, left_by, skips_have_reasons, sleepers_are_all_measured,
};
use gigae_eval_model::doubt::Code;
use gigae_eval_model::results::{Results, Verdict};
use std::process::Stdio;

pub(crate) fn a_tiny_plan_gives_results_that_fit_the_schema() {
    let place = TestDirectory::new();
    let out = place.path("out");
    let child = eval()
        .args(["--json", "--plan"])
        .arg(place.plan(TINY))
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(out.join("results.json")).unwrap();
    assert_eq!(text.as_bytes(), output.stdout, "--json prints the very file");
    fits_schema(&text);
    let results = Results::parse(&text).unwrap();
    let point = |experiment: &str, transport: &str| {
        let found = results
            .series
            .iter()
            .find(|s| s.experiment.name() == experiment && s.transport == transport);
        found.unwrap_or_else(|| panic!("no {experiment} of {transport}: {:?}", results.skipped))
    };
    sleepers_are_all_measured(&results);
    for transport in ["gigae", "packet", "udp", "udp-gso", "tcp", "icmp"] {
        let series = point("rtt", transport);
        assert!(
            series.min > 0.0 && series.min <= series.p50 && series.p50 <= series.max,
            "{series:?}"
        );
        assert!((1..=2).contains(&series.repetitions.len()), "{series:?}");
        // A round trip is a frame out and at least one system call of some kind.
        assert!(series.frames >= series.n && series.syscalls >= series.n, "{series:?}");
    }
    for transport in ["gigae", "packet", "udp", "udp-gso", "tcp"] {
        let series = point("stream", transport);
        assert!(series.median > 0.0 && series.limit.is_some(), "{series:?}");
        // Two buckets of tokens at most beyond the rate, over 200 ms at 125 MB/s: a few percent.
        assert!(series.median < 1.2 * series.limit.unwrap(), "faster than the link: {series:?}");
        assert!(transport != "gigae" || series.lost == 0, "{series:?}");
    }
    assert!(out.join("report.html").exists() && out.join("report.md").exists());
    assert!(out.join("results.csv").exists());
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 4, "drafts were left");
    assert_eq!(left_by(pid), Vec::<String>::new());
}

const CONDITIONS: &str = r#"
name = "conditions"
about = "a test: a loopback, one CPU, schedules, streams beside, papers, findings"
repetitions = 2
max_repetitions = 2
[link.own]
loopback = true
[link.gigabit]
rate_mbit = 1000
[[experiment]]
kind = "stream"
links = ["own", "gigabit"]
transports = ["tcp"]
sizes = [1400]
waits = ["sleep"]
cpus = ["two", "one"]
seconds = 0.05
warmup = 0.0
[[experiment]]
kind = "rtt"
links = ["own", "gigabit"]
transports = ["udp", "tcp", "icmp"]
sizes = [8, 256, 512]
waits = ["spin"]
seconds = 0.03
warmup = 0.01
[[experiment]]
kind = "paced"
links = ["gigabit"]
transports = ["gigae", "packet", "udp", "tcp", "icmp"]
sizes = [64]
waits = ["sleep"]
rates = [500, 1000]
seconds = 0.05
warmup = 0.02
[[experiment]]
kind = "paced"
links = ["gigabit"]
transports = ["tcp"]
sizes = [64]
waits = ["sleep"]
rates = [500]
bulk = [2]
seconds = 0.05
warmup = 0.05
[source]
old = "Somebody: Something (1999)"
[[paper]]
source = "old"
at = "figure 1"
what = "TCP, of old"
kind = "rtt"
points = [[8, 139.4], [300, 150.0]]
of = { transport = "tcp", link = "gigabit" }
[[said]]
source = "old"
at = "section 2"
finding = "tcp-share"
says = "It took 21.9 % then."
"#;

pub(crate) fn a_loopback_one_cpu_schedules_and_bulk_streams_come_out_of_a_run() {
    let place = TestDirectory::new();
    let out = place.path("out");
    let output =
        eval().arg("--plan").arg(place.plan(CONDITIONS)).arg("--out").arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(out.join("results.json")).unwrap();
    fits_schema(&text);
    let results = Results::parse(&text).unwrap();
    skips_have_reasons(&results);
    assert!(results.skipped.len() < results.series.len() / 2, "{:?}", results.skipped);
    assert_eq!(results.links(), ["own", "gigabit"]);
    assert_eq!(results.environment.link[0].kind, "loopback");
    let own = results.environment.overhead.unwrap();
    assert!(own.round_trip_ns > 0.0 && own.message_ns > 0.0, "{own:?}");
    // On a busy machine there may be no time for one of them, which the results say.
    let count = |link: &str, words: &str| {
        let mine =
            results.series.iter().filter(|series| series.link == link && series.median > 0.0);
        let skipped = results.skipped.iter().filter(|skipped| skipped.link == link);
        mine.filter(|series| series.label().ends_with(words)).count()
            + skipped.filter(|skipped| skipped.transport.ends_with(words)).count()
    };
    assert_eq!((count("own", "on one CPU"), count("gigabit", "on one CPU")), (1, 1));
    assert_eq!((count("gigabit", " 500/s"), count("gigabit", " 1000/s")), (5, 5));
    assert_eq!(count("gigabit", "500/s beside 2 streams"), 1);
    // 50 ms of a schedule of 1,000 per second, twice; what is not answered in time counts as lost.
    for series in results.series.iter().filter(|series| series.condition.rate == Some(1000.0)) {
        assert_eq!(series.sent, 140, "{series:?}");
        assert_eq!(series.n + series.warmup.n + series.lost, 140, "{series:?}");
    }
    let report = std::fs::read_to_string(out.join("report.md")).unwrap();
    for words in [
        "What follows",
        "It took 21.9 % then. (Somebody",
        "TCP, of old",
        "on one CPU",
        "Inventory (own)",
    ] {
        assert!(report.contains(words), "'{words}' is not in: {report}");
    }
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Round trips under load") && said.contains("What follows"), "{said}");
}

const ASKED: &str = r#"
name = "asked"
about = "a test: variants, loss, figures, an idle end, memory"
repetitions = 2
max_repetitions = 2
[link.gigabit]
rate_mbit = 1000
[link.lossy]
rate_mbit = 1000
loss = 0.02
[tcp.nodelay]
nodelay = true
[gigae.go-back-n]
recovery = "go-back-n"
backend = "packet"
[gigae.copied]
copy = true
aggregate = false
checksum = false
backend = "generic"
[xdp.small]
mode = "generic"
batch = 4
rx_frames = 256
[xdp.huge]
mode = "generic"
huge_pages = true
[[experiment]]
kind = "stream"
links = ["gigabit", "lossy"]
transports = ["gigae", "tcp"]
gigae = ["default", "go-back-n"]
sizes = ["frame"]
waits = ["sleep"]
seconds = 0.1
warmup = 0.02
[[experiment]]
kind = "rtt"
links = ["gigabit"]
transports = ["gigae", "xdp"]
gigae = ["copied"]
sizes = [8, 64]
waits = ["sleep"]
seconds = 0.03
warmup = 0.01
[[experiment]]
kind = "idle"
links = ["gigabit"]
transports = ["gigae"]
gigae = ["default"]
sizes = [8]
waits = ["adaptive"]
seconds = 0.3
warmup = 0.05
[[experiment]]
kind = "memory"
sizes = [8, 4096]
seconds = 0.01
warmup = 0.0
[[figure]]
name = "kept under loss"
kind = "stream"
wait = "sleep"
sizes = ["frame"]
of = { transport = "gigae", link = "lossy" }
over = { transport = "gigae", link = "gigabit" }
at_least = 1000
[[figure]]
name = "idle"
kind = "idle"
link = "gigabit"
wait = "adaptive"
sizes = [8]
of = { transport = "gigae" }
[[figure]]
name = "goodput"
kind = "stream"
value = "share"
link = "gigabit"
wait = "sleep"
sizes = ["frame"]
of = { transport = "gigae" }
at_most = 1000
[[figure]]
name = "refused"
kind = "rtt"
link = "gigabit"
wait = "sleep"
sizes = [8, 64]
of = { transport = "xdp", variant = "huge" }
over = { transport = "xdp", variant = "small" }
at_most = 1000
"#;

pub(crate) fn variants_loss_and_figures_come_out_of_every_run() {
    let place = TestDirectory::new();
    let out = place.path("out");
    let output = eval()
        .args(["--runs", "2", "--plan"])
        .arg(place.plan(ASKED))
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for run in ["run-1", "run-2", "."] {
        fits_schema(&std::fs::read_to_string(out.join(run).join("results.json")).unwrap());
    }
    let results =
        Results::parse(&std::fs::read_to_string(out.join("results.json")).unwrap()).unwrap();
    let labels: std::collections::BTreeSet<String> =
        results.series.iter().map(gigae_eval_model::results::Series::label).collect();
    for label in ["gigae", "gigae go-back-n", "gigae copied", "xdp small", "tcp nodelay", "map"] {
        assert!(labels.contains(label), "no {label} in {labels:?}; {:?}", results.skipped);
    }
    let verdicts: Vec<Verdict> = results.figures.iter().map(|figure| figure.verdict).collect();
    // Where no huge pages are reserved, one cell is refused, and the reason comes through.
    let reserved = std::fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap_or_default();
    let refused = matches!(reserved.trim(), "" | "0");
    let last = if refused { Verdict::NotMeasured } else { Verdict::Reached };
    let expected = [Verdict::Missed, Verdict::Information, Verdict::Reached, last];
    assert_eq!(verdicts, expected, "{:?}", results.figures);
    let missing = results.figures[3].missing.as_ref();
    assert_eq!(missing.is_some_and(|why| why.contains("xdp huge")), refused, "{missing:?}");
    assert_eq!(results.skipped.iter().any(|skipped| skipped.transport == "xdp huge"), refused);
    assert!(results.figures.iter().all(|figure| figure.runs.len() == 2));
    assert_eq!(results.runs.len(), 2);
    let lossy = results.environment.link.iter().find(|link| link.name == "lossy").unwrap();
    assert_eq!(lossy.loss, 0.02);
    assert!(results.environment.congestion_control == "cubic", "{:?}", results.environment);
    for words in ["Run 1 of 2", "Run 2 of 2", "missed", "Conditions"] {
        assert!(said.contains(words), "'{words}' was not said: {said}");
    }
}

const JUMBO: &str = r#"
name = "jumbo"
about = "a test: raw frames of MTU 9000"
repetitions = 2
max_repetitions = 2
[link.jumbo]
rate_mbit = 1000
mtu = 9000
[xdp.generic]
mode = "generic"
[xdp.native]
mode = "native"
[[experiment]]
kind = "rtt"
links = ["jumbo"]
transports = ["packet", "xdp"]
xdp = ["generic", "native"]
sizes = [8, "frame"]
waits = ["sleep"]
seconds = 0.05
warmup = 0.02
[[experiment]]
kind = "stream"
links = ["jumbo"]
transports = ["packet", "xdp"]
xdp = ["generic", "native"]
sizes = ["frame"]
waits = ["sleep"]
seconds = 0.1
warmup = 0.02
"#;

pub(crate) fn raw_frames_are_as_long_as_a_jumbo_network_allows() {
    let place = TestDirectory::new();
    let out = place.path("out");
    let output =
        eval().arg("--plan").arg(place.plan(JUMBO)).arg("--out").arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(out.join("results.json")).unwrap();
    let results = Results::parse(&text).unwrap();
    skips_have_reasons(&results);
    let full = results.series.iter().filter(|series| series.size == 8968).count();
    let (all, missing) = (results.series.len(), results.skipped.len());
    assert_eq!(all + missing, 9, "{:?}, {:?}", results.series, results.skipped);
    assert!(full + missing >= 6 && all > missing, "{:?}, {:?}", results.series, results.skipped);
}

const BEST: &str = r#"
name = "best"
about = "a test: TCP and UDP at their best"
repetitions = 2
max_repetitions = 2
[link.cable]
cable = true
[tcp.buffered]
write = 65536
[tcp.zerocopy]
zerocopy = true
[tcp.bbr]
congestion_control = "bbr"
[tcp.reno]
congestion_control = "reno"
[[experiment]]
kind = "rtt"
links = ["cable"]
transports = ["tcp", "udp-gso"]
sizes = [8, 100000]
waits = ["sleep"]
seconds = 0.1
warmup = 0.02
[[experiment]]
kind = "stream"
links = ["cable"]
transports = ["tcp", "udp-gso"]
sizes = [8, 100000]
waits = ["sleep"]
seconds = 0.2
warmup = 0.02
"#;

pub(crate) fn tcp_and_udp_at_their_best_are_measured_or_left_out_with_the_reason() {
    let place = TestDirectory::new();
    let out = place.path("out");
    let output =
        eval().arg("--plan").arg(place.plan(BEST)).arg("--out").arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(out.join("results.json")).unwrap();
    fits_schema(&text);
    let results = Results::parse(&text).unwrap();
    let offered = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let offered = offered.unwrap_or_default();
    for control in ["bbr", "reno"] {
        let label = format!("tcp {control}");
        let reason = results.skipped.iter().find(|skipped| skipped.transport == label);
        match offered.split_whitespace().any(|name| name == control) {
            true => assert_eq!(reason, None),
            false => assert!(reason.unwrap().reason.contains(&format!("modprobe tcp_{control}"))),
        }
        for series in results.series.iter().filter(|series| series.label() == label) {
            let note = series.note.as_ref().unwrap();
            assert_eq!(note.congestion_control(), Some(control));
        }
    }
    assert_eq!(results.environment.congestion_control, "cubic", "another one is a variant's own");
    let of = |label: &str, kind: &str, size| {
        let mut all = results.series.iter();
        let found = all.find(|one| {
            (one.label().as_str(), one.experiment.name(), one.size) == (label, kind, size)
        });
        found.unwrap_or_else(|| panic!("no {kind} of {label}: {:?}", results.skipped))
    };
    for (kind, size) in [("rtt", 8), ("rtt", 100_000), ("stream", 8), ("stream", 100_000)] {
        let copied = of("tcp zerocopy", kind, size);
        let zerocopy = copied.note.as_ref().unwrap().zerocopy().unwrap();
        assert!(zerocopy.writes > 0, "{copied:?}");
        let doubt = copied.doubts.iter().any(|doubt| doubt.code == Some(Code::Copied));
        assert_eq!(doubt, zerocopy.copied > 0, "{copied:?}");
        of("udp-gso", kind, size);
    }
    let buffered = of("tcp buffered", "stream", 8);
    assert!(buffered.sent > 100 * buffered.local.send_calls, "{buffered:?}");
    for size in [8, 100_000] {
        let train = of("udp-gso", "stream", size);
        assert!(train.local.sent_per_call().unwrap() > 8.0, "{train:?}");
        assert!(train.remote.received_per_call().unwrap() >= 1.0, "{train:?}");
    }
    let page = std::fs::read_to_string(out.join("report.md")).unwrap();
    assert!(page.contains("writes copied"), "{page}");
}
