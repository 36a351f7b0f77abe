//! Small plans, carried out: their figures, files and reports.
#![allow(missing_docs)]

use gigae_eval_simulate::{Cell, Config, Finished, Plan, Recording, Results, Run, report, run};
use gigae_network::Time;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const INCAST: &str = r#"
name = "tiny"
about = "8 senders with 50 kB each"
[network]
rate_mbit = 10000
delay_ns = 100
switch_ns = 250
turnaround_ns = 2000
buffer = 65536
mark_above = 30000
[[incast]]
senders = [2, 8]
bytes = 50000
[[homa]]
[[dctcp]]
timeout_us = 500
[[swift]]
window = 1.0
timeout_us = 500
"#;

const RANDOM: &str = r#"
name = "tiny-tiers"
about = "8 hosts on two tiers"
seeds = 3
[network]
leaves = 2
hosts_per_leaf = 4
spines = 2
rate_mbit = 10000
core_rate_mbit = 40000
switch_ns = 250
turnaround_ns = 1000
shared_buffer = 2000000
alpha = 0.5
mark_above = 98670
[[random]]
lengths = "W3"
load = 0.6
messages = 4000
short = 10000
[[random.published]]
source = "somebody"
p99 = [1.0, 2.0, 3.0, 4.0]
[[random]]
bytes = 3000
load = 0.4
messages = 1000
responses = true
[[homa]]
[[homa]]
name = "two classes"
first_below = 1500
[[dctcp]]
[[swift]]
"#;

fn config(text: &str) -> Config {
    let plan = Plan::parse("test", text).unwrap();
    Config { plan, command: "gigae simulate test".into(), threads: 2, recording: None }
}

fn carry_out(config: &Config) -> Results {
    let results = run(config, &AtomicBool::new(false), &mut |_, _, _| ()).unwrap().results;
    assert!(!results.interrupted);
    results
}

fn cell<'a>(results: &'a Results, workload: &str, protocol: &str) -> &'a Cell {
    let mut cells = results.cells.iter();
    let found = cells.find(|cell| cell.workload == workload && cell.protocol == protocol);
    found.unwrap_or_else(|| panic!("no {workload}, {protocol}"))
}

fn only(results: &Results, workload: &str, protocol: &str) -> Run {
    let cell = cell(results, workload, protocol);
    assert_eq!((cell.runs.len(), cell.wanted), (1, 1));
    cell.runs[0].clone()
}

#[test]
fn models_have_their_figures_on_every_machine() {
    let results = carry_out(&config(INCAST));
    let mut figures = Vec::new();
    for protocol in ["homa", "dctcp", "swift"] {
        let run = only(&results, "incast 8 x 50 kB", protocol);
        assert_eq!((run.messages, run.unfinished), (8, 0));
        assert_eq!(run.ideal_us, Some(341.504));
        let (time, frames) = (run.completion_us.unwrap(), run.frames);
        // An acknowledgement may be on its way at the end.
        assert!(frames.sent - frames.delivered - frames.dropped < 8);
        assert!(run.queues[0].most <= 65_536 && run.queues[0].fullest == "to-host-0");
        assert!(run.queues[0].fullest_p99 <= run.queues[0].most);
        assert!((run.goodput.unwrap() - 341.504 / time).abs() < 0.01, "{:?}", run.goodput);
        figures.push((protocol, time, frames.sent, frames.dropped, frames.marked));
    }
    assert_eq!(figures, GOLDEN_INCAST);
}

const GOLDEN_INCAST: [(&str, f64, u64, u64, u64); 3] = [
    ("homa", 1262.3484, 529, 8, 233),
    ("dctcp", 987.3404, 612, 52, 80),
    ("swift", 1008.5828, 564, 4, 209),
];

#[test]
fn random_messages_have_slowdowns_of_all_seeds() {
    let results = carry_out(&config(RANDOM));
    for protocol in ["homa", "two classes", "dctcp", "swift"] {
        let cell = cell(&results, "w3 60 %", protocol);
        assert_eq!(cell.runs.iter().map(|run| run.seed).collect::<Vec<_>>(), [1, 2, 3]);
        for run in &cell.runs {
            assert_eq!((run.messages, run.unfinished), (4_000, 0), "{protocol}");
            let counts: u64 = run.slowdown.iter().map(|class| class.count).sum();
            assert!((2_900..3_500).contains(&counts), "80 % of the messages: {counts}");
            let short = run.short.as_ref().unwrap();
            assert_eq!(short.count, run.slowdown[0].count + run.slowdown[1].count);
            for class in run.slowdown.iter().chain([short]).filter(|class| class.count > 0) {
                let (p50, p99) = (class.p50.unwrap(), class.p99.unwrap());
                assert!(1.0 <= p50 && p50 <= p99, "{protocol}: {class:?}");
            }
            assert!(run.completion_us.is_none() && run.fairness.is_none());
            let tiers: Vec<&str> = run.queues.iter().map(|tier| tier.tier.as_str()).collect();
            assert_eq!(tiers, ["switch to host", "leaf to spine", "spine to leaf"]);
            assert!(run.offered.unwrap() > 0.3 && run.goodput.unwrap() > 0.2, "{run:?}");
        }
        let echoes = &self::cell(&results, "3 kB RPC 40 %", protocol).runs[0];
        assert_eq!((echoes.messages, echoes.unfinished), (2_000, 0), "requests and responses");
        assert!(echoes.slowdown[1].p50.unwrap() < 2.0);
    }
    let p99 = |protocol| cell(&results, "w3 60 %", protocol).runs[0].slowdown[0].p99.unwrap();
    let [all_alike, short_first] = [p99("homa"), p99("two classes")];
    assert!(short_first < all_alike / 2.0, "{short_first} {all_alike}");
    assert_eq!(format!("{all_alike:.6} {short_first:.6}"), GOLDEN_SLOWDOWNS);
}

const GOLDEN_SLOWDOWNS: &str = "19.325297 2.260023";

#[test]
fn the_librarys_endpoints_carry_patterns() {
    let text = r#"
name = "patterns"
[network]
hosts = 5
rate_mbit = 10000
switch_ns = 250
turnaround_ns = 1000
[[incast]]
senders = [4]
bytes = 20000
[[all_to_all]]
bytes = 3
[[ring]]
bytes = 100001
[[gigae]]
"#;
    let results = carry_out(&config(text));
    for (workload, messages) in
        [("incast 4 x 20 kB", 4), ("all-to-all 3 B", 20), ("ring 100.001 kB", 40)]
    {
        let run = only(&results, workload, "gigae");
        assert_eq!((run.messages, run.unfinished), (messages, 0), "{workload}");
        assert!(run.completion_us >= run.ideal_us, "{run:?}");
        assert_eq!((run.frames.dropped, run.frames.lost), (0, 0));
    }
    assert!(report::text(&results, false).contains("processor takes no time"));
}

#[test]
fn the_same_seed_has_the_same_json_on_any_number_of_threads() {
    let first = carry_out(&config(RANDOM)).to_json();
    assert_eq!(carry_out(&Config { threads: 1, ..config(RANDOM) }).to_json(), first);
    let mut other = config(RANDOM);
    other.plan.seed = 7;
    let other = carry_out(&other);
    assert_eq!(other.cells[0].runs[0].seed, 7);
    assert_ne!(other.to_json(), first);
    let parsed: Results = serde_json::from_str(&first).unwrap();
    assert_eq!(parsed.to_json(), first);
}

#[test]
fn what_is_not_random_runs_once() {
    let mut tiny = config(INCAST);
    tiny.plan.seeds = 5;
    assert!(carry_out(&tiny).cells.iter().all(|cell| cell.runs.len() == 1));
    tiny.plan.incast[0].spread_us = 20;
    let results = carry_out(&tiny);
    let runs = &cell(&results, "incast 8 x 50 kB in 20 us", "homa").runs;
    assert_eq!(runs.len(), 5);
    assert_ne!(runs[0].completion_us, runs[1].completion_us);
}

#[test]
fn a_run_that_reaches_its_limit_says_so() {
    let mut tiny = config(&INCAST.replace("50000", "5000000"));
    tiny.plan.limit_ms = 1;
    let results = carry_out(&tiny);
    let run = only(&results, "incast 8 x 5 MB", "homa");
    assert!(run.unfinished > 0 && run.completion_us.is_none() && run.ended_us == 1_000.0);
    assert!(report::text(&results, false).contains("messages had not arrived after 1 ms"));
}

#[test]
fn random_messages_that_did_not_begin_are_counted_and_shares_left_out() {
    let mut tiny = config(RANDOM);
    (tiny.plan.limit_ms, tiny.plan.seeds) = (1, 1);
    tiny.plan.random[0].messages = 40_000;
    let results = carry_out(&tiny);
    let run = only(&results, "w3 60 %", "homa");
    assert!(run.not_begun > 0 && run.messages + run.not_begun == 40_000, "{run:?}");
    assert_eq!((run.goodput, run.offered, run.ended_us), (None, None, 1_000.0));
    let text = report::text(&results, false);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(" had not begun. They have no slowdown, and a run"), "{text}");
}

#[test]
fn an_incast_whose_senders_have_not_all_begun_has_no_time() {
    let mut tiny = config(INCAST);
    (tiny.plan.limit_ms, tiny.plan.incast[0].spread_us) = (1, 1_000_000);
    let run = only(&carry_out(&tiny), "incast 2 x 50 kB in 1000000 us", "homa");
    assert!(run.not_begun > 0 && run.completion_us.is_none(), "{run:?}");
}

#[test]
fn reports_have_the_figures() {
    let results = carry_out(&config(RANDOM));
    let text = report::text(&results, false);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let (page, markdown) = (report::html(&results), report::markdown(&results));
    let run = &cell(&results, "w3 60 %", "swift").runs[0];
    let counts = run.slowdown[0].count.to_string();
    for report in [&text, &page, &markdown] {
        for part in ["w3 60 %, two classes", "somebody (published)", "spine to leaf", "1.00"] {
            assert!(report.contains(part), "{part}: {report}");
        }
        assert!(report.replace(',', "").contains(&counts), "{counts}: {report}");
        assert!(report.contains("8 hosts on 2 leaves and 2 spines, 40 Gbit/s in the core"));
    }
    assert!(page.contains("<svg") && page.contains("Slowdown, 99th percentile: w3 60 %"));
    assert!(markdown.contains("gigae simulate test") && page.contains("gigae simulate test"));
    let incast = carry_out(&config(INCAST));
    assert!(report::html(&incast).contains("Time of an incast over its ideal"));
    let row = report::text(&incast, false);
    let row = row.lines().find(|line| line.contains("incast 8 x 50 kB, swift")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>().join(" "), GOLDEN_ROW);
}

const GOLDEN_ROW: &str = "incast 8 x 50 kB, swift 1,009 2.953 0.796";

fn recorded(place: &Path, trace: &[&str], queues: &[&str]) -> Config {
    let names = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
    let (directory, every) = (place.to_owned(), Time::us(2));
    let recording = Recording { directory, trace: names(trace), queues: names(queues), every };
    Config { recording: Some(recording), ..config(INCAST) }
}

#[test]
fn frames_and_queue_lengths_of_ports_are_written() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("new");
    let config = recorded(&out, &["to-host-0", "host-2"], &["to-host-0"]);
    let Finished { results, files, missing } =
        run(&config, &AtomicBool::new(false), &mut |_, _, _| ()).unwrap();
    assert!(missing.is_none(), "{missing:?}");
    assert_eq!(files.len(), 2 * 6);
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 12, "and no draft");
    let bytes = std::fs::read(out.join("incast-8-x-50-kb-homa.pcapng")).unwrap();
    let mut reader = pcap_file::pcapng::PcapNgReader::new(&bytes[..]).unwrap();
    let mut frames = [0u64; 2];
    while let Some(block) = reader.next_block() {
        if let Some(packet) = block.unwrap().into_owned().into_enhanced_packet() {
            frames[packet.interface_id as usize] += 1;
            let says = String::from_utf8_lossy(&packet.data[14..]).into_owned();
            assert!(says.contains("message: "), "{says}");
        }
    }
    let sent = only(&results, "incast 8 x 50 kB", "homa").frames;
    // Frames to host 0: all but grants, requests to send again, and answers, which go to senders.
    assert!(frames[0] > 8 * 35 - 1 && frames[0] < sent.sent, "{frames:?}");
    assert!(frames[1] >= 35, "{frames:?}");
    let queue = std::fs::read_to_string(out.join("incast-8-x-50-kb-homa-queues.csv")).unwrap();
    let mut lines = queue.lines();
    assert_eq!(lines.next(), Some("time_us,port,bytes"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(rows.len() > 10 && rows.iter().all(|row| row[1] == "to-host-0"));
    assert!(rows.iter().all(|row| row[0].parse::<u64>().unwrap() % 2 == 0));
    assert!(rows.iter().any(|row| row[2].parse::<u64>().unwrap() > 30_000));
}

#[test]
fn a_port_that_is_not_there_is_refused_before_anything_runs() {
    let place = tempfile::tempdir().unwrap();
    for port in ["host-3", "leaf-0-spine-0"] {
        let config = recorded(place.path(), &[port], &[]);
        let refused = run(&config, &AtomicBool::new(false), &mut |_, _, _| panic!("it runs"));
        let error = refused.unwrap_err().to_string();
        assert!(
            error.contains(&format!("no port '{port}'")) && error.contains("host-2"),
            "{error}"
        );
    }
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_place_that_cannot_be_written_is_said_in_one_line() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused =
        run(&recorded(&file, &[], &["host-0"]), &AtomicBool::new(false), &mut |_, _, _| ());
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("--out") && error.lines().count() == 1, "{error}");
}

#[test]
fn a_file_that_cannot_get_its_name_leaves_the_figures_and_the_other_files() {
    let place = tempfile::tempdir().unwrap();
    let config = recorded(place.path(), &["to-host-0"], &["to-host-0"]);
    let whole = run(&config, &AtomicBool::new(false), &mut |_, _, _| ()).unwrap();
    assert!(whole.missing.is_none() && whole.files.len() > 1, "{whole:?}");
    let taken = &whole.files[0];
    std::fs::remove_file(taken).unwrap();
    // Nothing takes the name of a directory that is not empty.
    std::fs::create_dir_all(taken.join("full")).unwrap();
    let again = run(&config, &AtomicBool::new(false), &mut |_, _, _| ()).unwrap();
    let error = again.missing.unwrap().to_string();
    assert!(error.contains(taken.to_str().unwrap()) && error.lines().count() == 1, "{error}");
    assert_eq!(again.results.cells, whole.results.cells);
    assert_eq!(again.files, whole.files[1..]);
    // And no draft is left.
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), whole.files.len());
}

#[test]
fn an_interrupted_run_has_what_is_finished_and_leaves_no_file() {
    let place = tempfile::tempdir().unwrap();
    let mut config = recorded(place.path(), &["to-host-0"], &["to-host-0"]);
    config.threads = 1;
    config.plan.limit_ms = 3_600_000;
    // The last one takes minutes.
    config.plan.incast[0].senders = vec![2];
    let long = gigae_eval_simulate::PatternPlan { bytes: 4_000_000_000 };
    config.plan.ring = vec![long];
    config.plan.network.hosts = Some(8);
    config.plan.keep_protocols(&["homa".into()]).unwrap();
    config.recording.as_mut().unwrap().trace.clear();
    let interrupted = AtomicBool::new(false);
    let Finished { results, files, .. } = run(&config, &interrupted, &mut |done, total, _| {
        assert_eq!(total, 2_000);
        if done >= 1_000 {
            interrupted.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(results.interrupted && files.is_empty());
    assert_eq!(results.finished(), (1, 2));
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    let text = report::text(&results, false);
    assert!(text.contains("1 of 2 runs are finished") && text.contains("incast 2 x 50 kB, homa"));
    assert!(!text.contains("ring"), "{text}");
}
