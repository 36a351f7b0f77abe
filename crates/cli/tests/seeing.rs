//! `gigae capture` and `gigae stat` as a person uses them, on endpoints over real interfaces. Needs
//! root.
#![allow(missing_docs)]

mod tshark;

use gigae::{Address, Backend, Endpoint, Envelope, Mode, Options, Progress, Wait, Wanted};
use gigae_fabric::{Node, testing, tests};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const PATIENCE: Duration = Duration::from_secs(300);

fn gigae() -> Command {
    Command::new(env!("CARGO_BIN_EXE_gigae"))
}

/// Each test looks at the endpoints of this process.
fn own() -> String {
    std::process::id().to_string()
}

fn says(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

fn on(node: &Node, options: Options) -> Endpoint {
    let _inside = node.enter().unwrap();
    options.open().unwrap()
}

/// A capture of this process's frames, which is ended with its test.
struct Capturing {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
    file: PathBuf,
}

impl Capturing {
    fn start(directory: &Path, more: &[&str]) -> Self {
        let file = directory.join("frames.pcapng");
        let mut command = gigae();
        command.args(["capture", "--pid", &own(), "-w", file.to_str().unwrap()]).args(more);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("capturing"), "{line}");
        Self { child, said, file }
    }

    /// Ctrl-C; what it said at last.
    fn end(mut self) -> (String, PathBuf) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        (said, self.file.clone())
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both ends make progress until neither has anything to send. Of the time of a round, no more than
/// a millisecond counts: in the rest the processor may have been another's.
fn settle(ends: &[Endpoint; 2]) {
    let (mut idle, mut since) = (Duration::ZERO, Instant::now());
    let mut last = [0; 2];
    while idle < Duration::from_millis(300) {
        let now = ends.each_ref().map(|end| {
            end.progress().unwrap();
            end.counters().link.tx_frames
        });
        idle += since.elapsed().min(Duration::from_millis(1));
        since = Instant::now();
        if now != last {
            (last, idle) = (now, Duration::ZERO);
        }
    }
}

/// Messages and a large tagged one, from the first end to the second.
fn talk(ends: &[Endpoint; 2], to: Address, large: usize) {
    let [a, b] = ends;
    let peer = a.peer(to).unwrap();
    b.start_recv(Wanted::ANY, vec![0; large]).unwrap();
    a.start_send(peer, 7, vec![9; large]).unwrap();
    let end = Instant::now() + PATIENCE;
    let (mut sent, mut got) = (0u32, 0);
    while got < 1_000 {
        while sent < 1_000 && a.try_send(peer, &[sent as u8; 300]).is_ok() {
            sent += 1;
        }
        a.progress().unwrap();
        while b.try_recv().unwrap().is_some() {
            got += 1;
        }
        assert!(Instant::now() < end, "{got} of 1000 messages");
    }
    settle(ends);
}

/// What a capture has of each interface and direction: frames by kind, and none that is wrong.
fn counted(file: &Path, options: &[&str]) -> BTreeMap<(u32, bool), BTreeMap<u8, u64>> {
    let fields = [
        "frame.interface_id",
        "frame.packet_flags_direction",
        "gigae.kind",
        "gigae.checksum.status",
        "_ws.expert.message",
        "frame.cap_len",
        "frame.len",
        "gigae.length",
    ];
    let mut all: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for row in tshark::read(file, options, &fields) {
        // The dissector verifies the checksums of short payloads.
        let status = if row[7].parse::<u16>().unwrap() > 128 { "2" } else { "1" };
        assert_eq!(row[3], status, "{row:?}");
        // The kernel chooses the port of the socket for bulk data: perhaps one that traceroute
        // uses.
        let harmless = ["STOP", "Possible traceroute"].iter().any(|what| row[4].starts_with(what));
        assert!(row[4].is_empty() || harmless, "{row:?}");
        assert_eq!(row[5], row[6], "whole frames");
        let out = match &row[1][..] {
            "0x00000002" | "2" => true,
            "0x00000001" | "1" => false,
            other => panic!("direction {other:?}"),
        };
        let kinds = all.entry((row[0].parse().unwrap(), out)).or_default();
        *kinds.entry(row[2].parse().unwrap()).or_default() += 1;
    }
    all
}

const ACK: u8 = 2;

fn a_capture_has_every_frame_that_the_endpoints_count() {
    let generic = Backend::XdpMode(Mode::XdpGeneric);
    let udp = Envelope::Udp { port: 4791 };
    let cases = [
        (generic, Envelope::DEFAULT, 1500),
        (Backend::Packet, udp, 1500),
        (Backend::Udp, udp, 1500),
        (generic, udp, 9000),
        (Backend::Packet, Envelope::DEFAULT, 9000),
    ];
    for (backend, envelope, mtu) in cases {
        let fabric = testing::fabric("capture", |config| config.mtu = mtu);
        let options = Options::new("eth0").backend(backend).envelope(envelope).wait(Wait::Spin);
        let ends = [1, 2].map(|n| on(&fabric.node(n), options.clone()));
        let to = match envelope {
            Envelope::Udp { .. } => Address::from(std::net::IpAddr::from(fabric.node(2).ipv4)),
            Envelope::Ethernet { .. } => Address::from(ends[1].link().mac),
        };
        let directory = tempfile::tempdir().unwrap();
        let capturing = Capturing::start(directory.path(), &[]);
        talk(&ends, to, 200_000);
        let counters = ends.each_ref().map(Endpoint::counters);
        let (said, file) = capturing.end();
        let frames: u64 = counters.iter().map(|c| c.link.tx_frames + c.link.rx_frames).sum();
        assert_eq!(said, format!("{frames} frames, 0 dropped\n"), "{backend:?} {envelope:?}");
        let all = &counted(&file, &["-o", "gigae.udp_port:4791"]);
        // Interfaces are in the order in which the endpoints were opened: of each, its link and its
        // socket for bulk data.
        for (end, counters) in (0..).zip(&counters) {
            let of =
                |out| [2 * end, 2 * end + 1].into_iter().filter_map(move |i| all.get(&(i, out)));
            let sum = |out| of(out).flat_map(BTreeMap::values).sum::<u64>();
            assert_eq!((sum(true), sum(false)), (counters.link.tx_frames, counters.link.rx_frames));
            let acks: u64 = of(true).filter_map(|kinds| kinds.get(&ACK)).sum();
            assert_eq!(acks, counters.protocol.acks_sent, "{backend:?} {envelope:?}");
        }
    }
}

fn a_capture_of_a_trunk_has_an_interface_for_each_nic() {
    let fabric = testing::fabric("trunk", |config| config.networks = 2);
    let options = Options::trunk(["eth0", "eth1"]).backend(Backend::Packet).wait(Wait::Spin);
    let ends = [1, 2].map(|n| on(&fabric.node(n), options.clone()));
    let to = Address::from(ends[1].link().mac);
    let directory = tempfile::tempdir().unwrap();
    let capturing = Capturing::start(directory.path(), &[]);
    talk(&ends, to, 400_000);
    let paths = ends.each_ref().map(Endpoint::paths);
    let (said, file) = capturing.end();
    assert!(said.ends_with(", 0 dropped\n"), "{said}");
    let all = counted(&file, &[]);
    for (interface, path) in (0..).zip(paths.iter().flatten()) {
        let sum = |out| all.get(&(interface, out)).map_or(0, |kinds| kinds.values().sum::<u64>());
        assert_eq!(
            (sum(true), sum(false)),
            (path.link.tx_frames, path.link.rx_frames),
            "{interface}"
        );
        assert!(path.link.tx_frames > 0);
    }
}

fn frames_are_cut_counted_and_chosen_as_asked() {
    let fabric = testing::fabric("options", |_| ());
    let options = Options::new("eth0").backend(Backend::Packet).wait(Wait::Spin);
    let ends = [1, 2].map(|n| on(&fabric.node(n), options.clone()));
    let to = Address::from(ends[1].link().mac);
    let directory = tempfile::tempdir().unwrap();
    let capturing =
        Capturing::start(directory.path(), &["--snaplen", "60", "--count", "20", "--nic", "eth0"]);
    talk(&ends, to, 10_000);
    let (said, file) = capturing.end();
    assert!(said.starts_with("20 frames"), "{said}");
    let rows = tshark::read(&file, &[], &["frame.cap_len", "frame.interface_name", "gigae.length"]);
    assert!(
        rows.len() == 20 && rows.iter().all(|row| row[0] == "60" && row[1] == "eth0"),
        "{rows:?}"
    );
    // A second one has to wait for the first. No one waits for one that was killed.
    let mut first = Capturing::start(directory.path(), &[]);
    let refused = gigae().args(["capture", "--pid", &own(), "-w", "/dev/null"]).output().unwrap();
    assert!(!refused.status.success() && says(&refused.stderr).contains("captured already"));
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let second = Capturing::start(directory.path(), &[]);
    talk(&ends, to, 10_000);
    assert!(second.end().0.ends_with("0 dropped\n"));
}

fn a_capture_ends_when_no_endpoint_is_left_and_can_be_piped() {
    let fabric = testing::fabric("pipe", |_| ());
    let options = Options::new("eth0").backend(Backend::Packet).wait(Wait::Spin);
    let ends = [1, 2].map(|n| on(&fabric.node(n), options.clone()));
    let to = Address::from(ends[1].link().mac);
    let mut capture = gigae();
    capture.args(["capture", "--pid", &own()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = capture.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.args([
        "-n",
        "-X",
        &format!("lua_script:{}", tshark::DISSECTOR),
        "-r",
        "-",
        "-Y",
        "gigae.kind == 3",
    ]);
    let tshark =
        tshark.stdin(child.stdout.take().unwrap()).stdout(Stdio::piped()).stderr(Stdio::null());
    let tshark = tshark.spawn().unwrap();
    talk(&ends, to, 10_000);
    drop(ends);
    let shown = says(&tshark.wait_with_output().unwrap().stdout);
    assert!(shown.contains("Hello 0 > 0") && shown.contains("max 1468"), "{shown}");
    assert!(child.wait().unwrap().success());
}

fn stat(more: &[&str]) -> Output {
    gigae().args(["stat", "--pid", &own()]).args(more).output().unwrap()
}

fn look(more: &[&str]) -> Vec<Value> {
    let output = stat(more);
    assert!(output.status.success(), "{}", says(&output.stderr));
    says(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn the_counters_and_peers_that_are_shown_are_those_of_the_endpoint() {
    let fabric = testing::fabric("stat", |_| ());
    // What no program calls, and no thread acts for, is shown as such.
    let options = Options::new("eth0").backend(Backend::Packet).port(9).progress(Progress::Manual);
    let ends = [1, 2].map(|n| on(&fabric.node(n), options.clone().wait(Wait::Spin)));
    let to = Address::from(ends[1].link().mac).port(9);
    talk(&ends, to, 100_000);
    // While its program uses it.
    let stop = AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        let using = scope.spawn(|| {
            let ends = ends;
            while !stop.load(Ordering::Relaxed) {
                ends.iter().for_each(|end| end.progress().unwrap());
            }
            ends
        });
        // One that did not get the processor for a quarter of a second does not seem to be used.
        let end = Instant::now() + PATIENCE;
        let looks = loop {
            let looks = look(&["--json", "--count", "2", "--interval", "0.3"]);
            let seen = looks.last().and_then(|last| last["endpoints"].as_array());
            let used = seen.is_some_and(|seen| seen.iter().all(|one| one["state"] == "in use"));
            // In the end they are looked at when the other thread is over.
            if used || Instant::now() > end {
                break looks;
            }
        };
        stop.store(true, Ordering::Relaxed);
        (looks, using.join().unwrap())
    });
    let (looks, ends) = looks;
    assert_eq!(looks.len(), 2);
    for (n, end) in ends.iter().enumerate() {
        let seen = &looks[1]["endpoints"][n];
        assert_eq!((&seen["state"], &seen["port"]), (&"in use".into(), &9.into()), "{seen}");
        let (protocol, link) = (end.counters().protocol, end.paths()[0].link);
        assert_eq!(seen["counts"]["messages_sent"], protocol.messages_sent);
        assert_eq!(seen["counts"]["messages_received"], protocol.messages_received);
        assert_eq!(seen["links"][0]["counts"]["tx_frames"], link.tx_frames);
        assert_eq!(seen["links"][0]["mac"], end.link().mac.to_string());
        assert_eq!(seen["per_second"]["messages_sent"], 0.0);
        assert!(seen["per_second"]["progress_wakeups"].is_number(), "{seen}");
        let peer = &seen["peers"][0];
        let other = &ends[1 - n];
        assert_eq!(peer["address"], other.link().mac.to_string());
        assert_eq!((&peer["state"], &peer["port"]), (&"up".into(), &9.into()));
        assert_eq!(peer["figures"]["unacknowledged"], 0);
    }
    let frames =
        |n: usize, what: &str| looks[1]["endpoints"][n]["peers"][0]["figures"][what].clone();
    assert_eq!(frames(0, "frames_sent"), frames(1, "frames_received"));
    assert_eq!(frames(1, "frames_received"), ends[1].counters().protocol.frames_delivered);
    // No program calls them now.
    assert!(
        look(&["--json", "--once"])[0]["endpoints"][0]["state"]
            .as_str()
            .unwrap()
            .starts_with("not polled")
    );
    let text = says(&stat(&["--once"]).stdout);
    assert!(
        text.contains("messages_sent") && text.contains("not polled for") && text.contains("peer"),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "no terminal, no control characters");
}

fn an_endpoint_that_sleeps_has_left_its_figures() {
    let fabric = testing::fabric("asleep", |_| ());
    let options = Options::new("eth0").backend(Backend::Packet).wait(Wait::Sleep);
    // The thread would leave the figures of the one that only sends.
    let a = on(&fabric.node(1), options.clone().progress(Progress::Manual));
    let b = on(&fabric.node(2), options);
    let to = Address::from(b.link().mac);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The last one ends it.
            while b.recv().unwrap()[0] != 9 {}
        });
        let peer = a.peer(to).unwrap();
        (0..9).for_each(|n| a.send(peer, &[n]).unwrap());
        a.drain(PATIENCE).unwrap();
        let asleep = |all: &Value| {
            let all = all["endpoints"].as_array().unwrap();
            all.iter().find(|seen| seen["state"] == "asleep").cloned()
        };
        let end = Instant::now() + PATIENCE;
        let seen = loop {
            if let Some(seen) = asleep(&look(&["--json", "--once"])[0]) {
                break seen;
            }
            assert!(Instant::now() < end, "it does not fall asleep");
        };
        assert_eq!(seen["counts"]["messages_received"], 9);
        assert_eq!(
            seen["peers"][0]["figures"]["frames_received"],
            seen["counts"]["frames_delivered"]
        );
        a.send(peer, &[9]).unwrap();
        a.drain(PATIENCE).unwrap();
    });
}

fn what_cannot_be_looked_at_is_explained() {
    let none = |arguments: &[&str], part: &str| {
        for command in ["stat", "capture"] {
            let output =
                gigae().arg(command).args(arguments).args(["--nic", "eth0"]).output().unwrap();
            let error = says(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{error}");
            assert!(error.contains(part) && error.lines().count() == 1, "{error}");
        }
    };
    none(&["--pid", &own()], "has no endpoint open");
    none(&["--pid", "4194305"], "there is no process 4194305");
    let fabric = testing::fabric("denied", |_| ());
    let hidden = Options::new("eth0").backend(Backend::Packet).observable(false);
    let _hidden = on(&fabric.node(1), hidden);
    none(&["--pid", &own()], "has no endpoint open");
    let _seen = on(&fabric.node(2), Options::new("eth0").backend(Backend::Packet));
    let output = gigae().args(["stat", "--pid", &own(), "--nic", "eth7"]).output().unwrap();
    assert!(says(&output.stderr).contains("some are on eth0"));
    // A copy that others can run, whatever the directory of this one.
    let directory =
        tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir().unwrap();
    let copy = directory.path().join("gigae");
    std::fs::copy(env!("CARGO_BIN_EXE_gigae"), &copy).unwrap();
    let nobody = 65534;
    let output = Command::new(copy)
        .args(["stat", "--pid", &own()])
        .uid(nobody)
        .gid(nobody)
        .output()
        .unwrap();
    assert!(
        says(&output.stderr).contains("belongs to another user; run this as"),
        "{}",
        says(&output.stderr)
    );
}

/// They load an XDP program, or have other users.
const OF_ROOT: &[&str] = &[
    "a_capture_has_every_frame_that_the_endpoints_count",
    "what_cannot_be_looked_at_is_explained",
];

fn main() {
    testing::for_users_except(OF_ROOT).run(tests![
        a_capture_has_every_frame_that_the_endpoints_count,
        a_capture_of_a_trunk_has_an_interface_for_each_nic,
        frames_are_cut_counted_and_chosen_as_asked,
        a_capture_ends_when_no_endpoint_is_left_and_can_be_piped,
        the_counters_and_peers_that_are_shown_are_those_of_the_endpoint,
        an_endpoint_that_sleeps_has_left_its_figures,
        what_cannot_be_looked_at_is_explained
    ]);
}
