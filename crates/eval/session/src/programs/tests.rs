//! What programs are asked and how they are read, from what they said in runs.

use super::pairs::beside as paired;
use super::*;
use gigae_eval_model::plan::Plan;
use gigae_eval_model::plan::TcpOptions;
use gigae_eval_model::program_figure::{Agreement, ProgramFigure};
use std::net::SocketAddr;

fn job(program: &str, experiment: Experiment, transport: &str, size: usize) -> Job {
    let tcp = TcpOptions { nodelay: true, buffer: Some(131_072), ..TcpOptions::default() };
    Job { program: program.into(), experiment, transport: transport.into(), size, seconds: 1, tcp }
}

fn read(job: &Job, said: &str) -> Option<f64> {
    check(job).unwrap().0.read(job, said)
}

fn asked(job: &Job) -> String {
    let at: SocketAddr = "198.18.0.2:7777".parse().unwrap();
    check(job).unwrap().0.measuring(job, at).join(" ")
}

#[test]
fn programs_have_names_of_their_own_and_measure_what_is_there() {
    let mut names = names();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all().len() + 1);
    for program in all() {
        for measure in program.form().measures {
            let transport = transport::by_name(measure.transport).unwrap();
            assert!(transport.offers(measure.experiment));
            assert!(measure.sizes[0] < measure.sizes[1]);
        }
    }
}

#[test]
fn a_job_that_no_program_has_is_refused() {
    let good = job("iperf3", Experiment::Stream, "tcp", 1400);
    check(&good).unwrap();
    for (bad, word) in [
        (Job { program: "rm".into(), ..good.clone() }, "unknown"),
        (Job { transport: "gigae".into(), ..good.clone() }, "does not measure"),
        (Job { experiment: Experiment::Rtt, ..good.clone() }, "does not measure"),
        (Job { size: 0, ..good.clone() }, "bytes"),
        (Job { size: 1 << 30, ..good.clone() }, "bytes"),
        (Job { seconds: 0, ..good.clone() }, "seconds"),
        (Job { seconds: 100_000, ..good.clone() }, "seconds"),
        (Job { tcp: TcpOptions { buffer: Some(0), ..good.tcp }, ..good.clone() }, "buffer"),
    ] {
        let Err(why) = check(&bad) else { panic!("{bad:?}") };
        assert!(why.contains(word), "{why}");
    }
}

const PLAN: &str = r#"
name = "p"
about = "a test"
repetitions = 1
max_repetitions = 1
[link.cable]
cable = true
[tcp.nodelay]
nodelay = true
buffer = 131072
[tcp.untuned]
[tcp.watched]
beside = "packet"
[[experiment]]
kind = "rtt"
links = ["cable"]
transports = ["tcp", "udp", "gigae"]
sizes = [8, 64, 1400]
waits = ["spin"]
seconds = 1
warmup = 0.1
[[experiment]]
kind = "stream"
links = ["cable"]
transports = ["tcp", "udp"]
sizes = [64, 1400, 65000, 1000000]
waits = ["spin"]
seconds = 1
warmup = 0.1
"#;

#[test]
fn each_program_stands_beside_the_cell_whose_options_it_can_set() {
    let plan = Plan::parse("p", PLAN).unwrap();
    let cells = plan.cells(Some("cable"), 1500);
    let found = comparisons(&cells, all(), 1500);
    let said: Vec<String> = found
        .iter()
        .map(|one| {
            let name = one.measure.experiment.name();
            format!("{} {name} {} {}", one.label(), one.job.size, one.job.options())
        })
        .collect();
    assert_eq!(
        said,
        [
            "iperf3 tcp stream 65000 nodelay, buffers 131072",
            "iperf3 udp stream 1400 buffers 131072",
            "sockperf tcp rtt 64 nodelay, buffers 131072",
            "sockperf udp rtt 64 buffers 131072",
            "netpipe tcp rtt 8 nodelay, buffers 131072",
            "qperf tcp stream 65000 the kernel's buffers",
            "qperf udp stream 1400 buffers 131072",
            "qperf tcp rtt 8 the kernel's buffers",
            "qperf udp rtt 8 buffers 131072",
            "netperf tcp stream 65000 nodelay, buffers 131072",
            "netperf udp stream 1400 buffers 131072",
            "netperf tcp rtt 8 nodelay, buffers 131072",
            "netperf udp rtt 8 buffers 131072",
        ]
    );
    for one in &found {
        assert_eq!((one.cell.wait, one.cell.size), (Wait::Sleep, one.job.size));
        if one.measure.transport == "tcp" {
            assert_eq!(one.cell.setting.tcp(), one.job.tcp, "not the same options");
        }
        check(&one.job).unwrap();
    }
    // What cannot be set is set for us, too.
    let only: Vec<Cell> =
        cells.into_iter().filter(|cell| cell.variant.as_deref() == Some("nodelay")).collect();
    let netless = comparisons(&only, &[by_name("qperf").unwrap()], 1500);
    let set = TcpOptions { one_buffer: true, ..TcpOptions::default() };
    assert!(netless.iter().all(|one| one.cell.setting.tcp() == set));
    assert_eq!(netless.len(), 2);
}

#[test]
fn programs_are_asked_for_the_same_options() {
    assert_eq!(
        asked(&job("iperf3", Experiment::Stream, "tcp", 1400)),
        "-c 198.18.0.2 -p 7777 -J -i 0 -t 1 -l 1400 -w 131072 -C cubic -N"
    );
    assert_eq!(
        asked(&job("iperf3", Experiment::Stream, "udp", 1400)),
        "-c 198.18.0.2 -p 7777 -J -i 0 -t 1 -l 1400 -w 131072 -u -b 0"
    );
    assert_eq!(
        asked(&job("sockperf", Experiment::Rtt, "tcp", 64)),
        "ping-pong -i 198.18.0.2 -p 7777 --buffer-size 131072 --tcp --full-rtt -t 1 -m 64"
    );
    assert_eq!(
        asked(&job("qperf", Experiment::Rtt, "udp", 64)),
        "198.18.0.2 -lp 7777 -t 1 -m 64 -uu -e 9 -sb 131072 udp_lat"
    );
    assert_eq!(
        asked(&job("netperf", Experiment::Rtt, "tcp", 64)),
        "-H 198.18.0.2 -p 7777 -P 0 -l 1 -t TCP_RR -- -r 64,64 -s 131072 -S 131072 -D -Kcubic -k THROUGHPUT"
    );
}

#[test]
fn rubbish_is_no_figure() {
    for program in all() {
        for measure in program.form().measures {
            let job = job(program.name(), measure.experiment, measure.transport, 64);
            for said in ["", "{}", "[1]", "\u{0}\u{0}", "= = =", "percentile 50.000 =", "64 1"] {
                assert_eq!(read(&job, said), None, "{} {said:?}", program.name());
            }
        }
    }
}

#[test]
fn ours_is_of_the_same_kind_as_theirs() {
    use gigae_eval_measure::probe::{Answered, Asked};
    let asked = Asked { samples: vec![1000, 3000, 2000, 2000, 9000, 1000], ..Asked::default() };
    let of = |ours: OwnFigure| ours.figure(Experiment::Rtt, &asked, &Answered::default());
    assert_eq!(of(OwnFigure::Mean), Some(3.0));
    assert_eq!(of(OwnFigure::Median), Some(2.0));
    assert_eq!(of(OwnFigure::LeastMean), Some(2.0));
    let none = Asked::default();
    for ours in [OwnFigure::Mean, OwnFigure::Median, OwnFigure::LeastMean] {
        assert_eq!(ours.figure(Experiment::Rtt, &none, &Answered::default()), None);
    }
}

#[test]
fn the_ratio_is_of_pairs_and_its_interval_decides() {
    let cell = Plan::parse("p", PLAN).unwrap().cells(Some("cable"), 1500);
    let of = &comparisons(&cell, &[by_name("iperf3").unwrap()], 1500)[0];
    // The machine gets slower, which both of a pair feel.
    let pairs: Vec<[f64; 2]> =
        (0..10).map(|n| [103.0 - f64::from(n) * 9.0, 100.0 - f64::from(n) * 9.0]).collect();
    let beside = paired(of, "cable", "iperf3", pairs).unwrap();
    assert!((beside.ratio - 1.05).abs() < 0.01 && beside.coverage > 0.95, "{beside:?}");
    let with = |ratio: f64, low: f64, high: f64| {
        ProgramFigure { ratio, ci95: [low, high], ..beside.clone() }.verdict()
    };
    assert_eq!(with(1.04, 0.9, 1.2), Agreement::Agrees);
    assert_eq!(with(1.06, 1.0, 1.2), Agreement::Open);
    assert_eq!(with(1.06, 1.055, 1.2), Agreement::Differs);
    assert_eq!(with(0.9, 0.8, 0.94), Agreement::Differs);
    assert_eq!(paired(of, "cable", "", Vec::new()), None);
}

#[test]
fn what_programs_said_in_a_run_is_read_in_our_units() {
    let near = |job: &Job, said: &str, expected: f64| {
        let read = read(job, said).unwrap_or_else(|| panic!("nothing was read of {said}"));
        assert!((read / expected - 1.0).abs() < 1e-9, "{} {read}", job.program);
    };
    let stream = |program, transport| job(program, Experiment::Stream, transport, 1400);
    let trip = |program, transport| job(program, Experiment::Rtt, transport, 64);
    near(
        &stream("iperf3", "tcp"),
        r#"{"end": {"sum_sent": {"bits_per_second": 1845443453.4, "sender": true},
            "sum_received": {"seconds": 1.004024, "bytes": 231602000, "bits_per_second": 1845390150.0}}}"#,
        230.67376875,
    );
    near(
        &stream("iperf3", "udp"),
        r#"{"end": {"sum": {"bytes": 431704000, "bits_per_second": 3453556021.7, "lost_percent": 78.1},
            "sum_received": {"bytes": 94539200, "bits_per_second": 756253099.6, "sender": false}}}"#,
        94.53163745,
    );
    near(
        &trip("sockperf", "tcp"),
        "sockperf: \u{1b}[2;35m====> avg-rtt=31.390 (std-dev=307.469)\u{1b}[0m\n\
         sockperf: ---> percentile 99.000 =   91.535\nsockperf: ---> percentile 50.000 =    6.446\n\
         sockperf: ---> percentile 25.000 =    6.187\n",
        6.446,
    );
    near(&trip("netpipe", "tcp"), "      64 145.064275   0.00000337\n", 6.74);
    near(&stream("qperf", "tcp"), "tcp_bw:\n    bw  =  588426931 bytes/sec\n", 588.426931);
    let both =
        "udp_bw:\n    send_bw  =  272986000 bytes/sec\n    recv_bw  =  138542600 bytes/sec\n";
    near(&stream("qperf", "udp"), both, 138.5426);
    near(&trip("qperf", "tcp"), "tcp_lat:\n    latency  =  6219.17621 ns\n", 12.43835242);
    near(&trip("qperf", "udp"), "udp_lat:\n    latency  =  4,483.5 ns\n", 8.967);
    near(&stream("netperf", "tcp"), "THROUGHPUT=7913.92\n", 989.24);
    near(&stream("netperf", "udp"), "REMOTE_RECV_THROUGHPUT=1840.00\n", 230.0);
    near(&trip("netperf", "tcp"), "THROUGHPUT=40000.00\n", 25.0);
    // Half a figure, another block, another unit.
    assert_eq!(read(&trip("netpipe", "tcp"), "      65 145.064275   0.00000337\n"), None);
    assert_eq!(read(&stream("qperf", "tcp"), "    bw  =  588 MB/sec\n"), None);
    assert_eq!(read(&stream("iperf3", "tcp"), r#"{"error": "unable to connect"}"#), None);
}
