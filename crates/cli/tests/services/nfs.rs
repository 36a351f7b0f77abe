//! NFS: whole files, and reads and writes within a file.

use crate::{PATIENCE, TestDirectory};
use crate::{all_gone, busy, in_network_of, interrupt, of_run, said, with, with_files};
use gigae_eval_model::access::{Export, Way};
use gigae_eval_model::metadata::Operation;
use gigae_fabric::Fabric;
use gigae_host::proc::process::command;
use rustix::process::{Pid, Signal};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

/// Server and client.
const NFS: [&str; 2] = ["ganesha.nfsd", "nfs-cp"];
const ACCESSES: [&str; 2] = ["qemu-nbd", "fio"];

pub(crate) fn an_nfs_server_gives_and_takes_files_for_several_clients() {
    let place = with_files(
        r#"
service = "nfs"
links = ["gigabit"]
sizes = [3_000, 2_000_000]
to = ["disk"]
clients = [1, 2]
[[files]]
service = "nfs"
links = ["gigabit"]
sizes = [3_000, 2_000_000]
directions = ["put"]
to = ["disk"]
"#,
    );
    let output = place.eval().output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = place.results();
    assert_eq!(results.files.len(), 6, "{:?}", results.skipped);
    for one in &results.files {
        assert!(one.command.starts_with("nfs-cp ") && one.version.contains("anesha"), "{one:?}");
        assert_eq!((one.repetitions.len(), one.before_ms), (2, None), "{one:?}");
        // Two repetitions: one and two clients that fetch, and one that sends.
        let is_get = one.cell.direction.is_get();
        assert_eq!(one.verified, if is_get { (1 + 2) * 2 } else { 2 }, "{one:?}");
        let bytes = one.cell.size * u64::from(one.cell.clients) * 2;
        let sent = if is_get { &one.server } else { &one.client };
        assert!(sent.tx_bytes > bytes, "{one:?}");
    }
    assert_eq!(place.left(), [] as [PathBuf; 0]);
}

/// Reads and writes over every way, with and without waits for the disk.
const ACCESS: &str = r#"
[[access]]
service = "nfs"
links = ["gigabit"]
size_mib = 1
patterns = ["read", "randrw"]
blocks = [4096]
depths = [1, 32]
ways = ["network", "localhost", "local"]
seconds = 0.2
[[access]]
service = "nfs"
links = ["gigabit"]
size_mib = 1
patterns = ["randwrite"]
blocks = [65536]
depths = [4]
exports = ["async", "sync"]
fsync = 2
"#;

pub(crate) fn reads_and_writes_within_a_file_go_every_way_and_are_compared_once() {
    let place = with(ACCESS);
    let output = place.eval().output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = place.results();
    assert_eq!(results.access.len(), 2 * 2 * 3 + 2, "{:?}", results.skipped);
    for one in &results.access {
        let (cell, pattern) = (&one.cell, one.cell.pattern);
        assert_eq!((one.read.is_some(), one.write.is_some()), (pattern.reads(), pattern.writes()));
        for (_, side) in one.sides() {
            let latency = side.latency;
            assert!(side.median > 0.0 && side.repetitions.len() == 2, "{one:?}");
            assert!(0.0 < latency.p50_us && latency.p50_us <= latency.p99_us, "{one:?}");
            assert!(latency.p99_us <= latency.p999_us, "{one:?}");
        }
        assert_eq!(one.fsync.is_some(), cell.fsync > 0, "{one:?}");
        // The whole file was written over the link, read back and compared.
        let checked = (cell.way, cell.export) == (Way::Network, Export::Async);
        assert_eq!(one.verified, if checked { 1 << 20 } else { 0 }, "{one:?}");
        assert_eq!(one.waits > 0, cell.fsync > 0, "{one:?}");
        assert_eq!(one.client_versions.len(), 2, "{one:?}");
        assert!(one.client_versions[0].starts_with("fio-") && one.file_system.is_some(), "{one:?}");
        // Only one way has frames on the link, and more than the file's bytes are in them.
        let frames = [&one.server, &one.client].map(|end| end.tx_bytes + end.rx_bytes);
        let over = cell.way == Way::Network;
        assert!(frames.iter().all(|bytes| (*bytes > one.bytes) == over), "{one:?}");
        // Without a time, the file is through after all of it.
        assert!(cell.seconds.is_some() || one.bytes == 2 << 20, "{one:?}");
        assert!(one.command.starts_with("fio ") && one.version.contains("anesha"), "{one:?}");
    }
    let read = |name: &str| std::fs::read_to_string(place.path("out").join(name)).unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for text in [read("report.md"), read("report.html"), said] {
        for words in ["(ground: transfer)", "nfs randrw 4K of 1 MiB, depth 32, localhost"] {
            assert!(text.contains(words), "'{words}' is not in: {text}");
        }
    }
    let lines = read("results.csv").lines().filter(|line| line.contains(",transfer,nfs,")).count();
    // Three ways and two depths of reads, the same of both, and writes to both exports.
    assert_eq!(lines, 6 + 2 * 6 + 2);
    assert_eq!(place.left(), [] as [PathBuf; 0]);
}

/// Names over two links that differ in their delay.
const NAMES: &str = r#"
[link.far]
rate_mbit = 1000
server_rate_mbit = 1000
nodes = 3
delay_us = 2000
[[experiment]]
kind = "rtt"
links = ["gigabit", "far"]
transports = ["tcp"]
sizes = [64]
waits = ["sleep"]
seconds = 0.05
warmup = 0.02
[[metadata]]
service = "nfs"
links = ["gigabit", "far"]
files = [7, 120]
"#;

pub(crate) fn operations_on_names_stand_beside_the_delay_of_their_link() {
    let place = with(NAMES);
    let output = place.eval().output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = place.results();
    assert_eq!(results.metadata.len(), 4, "{:?}", results.skipped);
    for one in &results.metadata {
        assert_eq!(one.operations.len(), Operation::ALL.len(), "{one:?}");
        // A second client saw all names after create, rename and delete, in both repetitions.
        assert_eq!(one.verified, 2 * 3 * u64::from(one.cell.files), "{one:?}");
        assert!(one.version.contains("anesha"), "{one:?}");
        for rate in &one.operations {
            let listing = rate.operation == Operation::List;
            assert_eq!(rate.samples, if listing { 10 } else { one.cell.files.into() });
            assert!(rate.repetitions.len() == 2 && rate.median > 0.0, "{one:?}");
            assert!(0.0 < rate.p50_us && rate.p50_us <= rate.p99_us, "{one:?}");
            assert_eq!(rate.p99().is_some(), rate.samples >= 100);
            // A lower bound: each asks the server once at least, over twice the delay.
            assert!(one.link != "far" || rate.p50_us >= 4000.0, "{one:?}");
        }
    }
    let delays: Vec<_> = results.environment.link.iter().map(|link| link.delay_us).collect();
    assert!(delays.contains(&None) && delays.contains(&Some(2000)), "{delays:?}");
    let trip = results.series.iter().find(|one| one.link == "far" && one.unit == "us").unwrap();
    assert!(trip.min >= 4000.0, "{trip:?}");
    let read = |name: &str| std::fs::read_to_string(place.path("out").join(name)).unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for text in [read("report.md"), read("report.html"), said] {
        for words in ["nfs names of 120 files", "With 2000 us added one way (TCP"] {
            assert!(text.contains(words), "'{words}' is not in: {text}");
        }
    }
    let lines = read("results.csv").lines().filter(|line| line.contains(",transfer,nfs,")).count();
    assert_eq!(lines, 4 * Operation::ALL.len());
    assert_eq!(place.left(), [] as [PathBuf; 0]);
}

/// The server of a run that makes files by their names now.
fn naming(run: &mut Child, place: &TestDirectory) -> u32 {
    let own = place.path("tmp").display().to_string();
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(run.try_wait().unwrap().is_none(), "the run has ended");
        assert!(Instant::now() < deadline, "no file was made");
        let server = of_run(&own).into_iter().find(|pid| command(*pid) == "ganesha.nfsd");
        let stores = place.left().into_iter();
        let mut made = stores.map(|store| store.join("export/in/names0/file9"));
        if let Some(server) = server.filter(|_| made.any(|file| file.exists())) {
            return server;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn operations_on_names_end_with_a_signal_and_with_their_server() {
    let many = NAMES.replace("files = [7, 120]", "files = [10000]");
    for kill in [false, true] {
        let place = with(&many);
        let mut run = place.eval().spawn().unwrap();
        let server = naming(&mut run, &place);
        if kill {
            let server = Pid::from_raw(server.try_into().unwrap()).unwrap();
            rustix::process::kill_process(server, Signal::KILL).unwrap();
        } else {
            interrupt(&run);
        }
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), None, "{}", said(&output));
        if kill {
            assert!(output.status.success(), "{}", said(&output));
            let results = place.results();
            // The other link has a server of its own.
            assert_eq!(results.metadata.len(), 1, "{:?}", results.skipped);
            let skipped = results.skipped.iter().find(|one| one.transport == "nfs").unwrap();
            assert!(skipped.reason.contains("ganesha.nfsd ended with signal: 9"), "{skipped:?}");
        } else {
            assert!(!output.status.success());
        }
        assert_eq!(place.left(), [] as [PathBuf; 0]);
    }
}

pub(crate) fn an_interrupted_or_killed_run_leaves_nothing_of_nfs() {
    let files = r#"
[[files]]
service = "nfs"
links = ["gigabit"]
sizes = [60_000_000]
to = ["disk"]
"#;
    let access = ACCESS.replace("seconds = 0.2", "seconds = 100");
    for (services, programs) in [(files, NFS), (&*access, ACCESSES)] {
        for kill in [false, true] {
            let place = with(services);
            let mut run = place.eval().spawn().unwrap();
            let mut pids = busy(&mut run, &place, programs);
            let server = *pids.iter().find(|pid| command(**pid) == "ganesha.nfsd").unwrap();
            let all = in_network_of(server);
            let is_rpcbind = |pid: &u32| command(*pid) == "rpcbind";
            assert!(all.iter().any(is_rpcbind), "without it there is no version 3");
            pids.extend(all);
            match kill {
                true => run.kill().unwrap(),
                false => interrupt(&run),
            }
            run.wait_with_output().unwrap();
            all_gone(&pids);
            Fabric::down_abandoned().unwrap();
            let own = place.path("tmp").display().to_string();
            assert_eq!(of_run(&own), [] as [u32; 0]);
            let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
            let ours = mounts.lines().filter(|line| line.starts_with("gigae /run "));
            assert_eq!(ours.count(), 0, "its mounts are its own: {mounts}");
            assert!(kill || place.left().is_empty());
        }
    }
}

pub(crate) fn programs_of_reads_and_writes_name_their_packages() {
    let place = with(ACCESS);
    let output = place.eval().env("PATH", place.few()).output().unwrap();
    let text = said(&output);
    assert!(!output.status.success(), "{text}");
    for words in ["fio", "qemu-nbd", "nfs-cp", "libnfs-utils", "qemu-utils"] {
        assert!(text.contains(words), "'{words}' is not in: {text}");
    }
    assert_eq!(text.lines().count(), 1, "{text}");
}
