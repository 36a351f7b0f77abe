//! Settings that are tried and put back on real interfaces, whatever ends the run: this test binary
//! plays `gigae` for itself.

mod control_port;
mod program;

use control_port::await_socket;
use gigae_eval_measure::site::Site;
use gigae_eval_model::knobs::{Set, WantedKnob};
use gigae_eval_model::results::Results;
use gigae_eval_session::tune::{self, TunedInterface, Tuner};
use gigae_fabric::{Fabric, Node, testing, tests};
use gigae_host::proc::process::Stat;
use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const PATIENCE: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    if let Some(code) = program::play() {
        return code;
    }
    if std::env::var_os(APART).is_none() && testing::obstacle().is_none() {
        panic!("unshare (util-linux): {}", apart());
    }
    testing::run(tests![
        a_sweep_on_a_virtual_network_says_what_was_tried_and_what_follows,
        every_knob_that_a_virtual_interface_has_is_turned_and_put_back,
        both_ends_of_a_run_are_as_before_when_it_is_done,
        ctrl_c_puts_both_ends_back,
        a_killed_run_is_put_back_by_its_guardian,
        a_killed_server_is_put_back_by_its_guardian,
        a_slower_cpus_control_group_goes_with_the_run_however_it_ends,
        with_its_guardian_killed_too_the_next_one_puts_back_what_nobody_changed_since,
        a_server_whose_owner_does_not_allow_it_refuses_and_nothing_is_changed
    ]);
}

/// Set where no other process sees the journals.
const APART: &str = "GIGAE_TUNING_TEST_APART";

/// Every start puts back what dead runs left, those of these tests included. So these tests see
/// journals of their own, in a file system that only this process and its children see.
fn apart() -> std::io::Error {
    const APART_AND_ON: &str =
        "mkdir -p /run/gigae-tuning && mount -t tmpfs tmpfs /run/gigae-tuning && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "slave", "sh", "-c", APART_AND_ON, "sh"]);
    command.arg(std::env::current_exe().unwrap()).args(std::env::args_os().skip(1));
    command.env(APART, "1").exec()
}

/// And one test at a time.
fn alone() -> File {
    let file = File::create(std::env::temp_dir().join("gigae-tuning-tests.lock")).unwrap();
    rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
    file
}

const SWEEP: &str = r#"
name = "sweep"
about = "a test: some knobs that a virtual cable has, one that it has not, one of the whole machine"
repetitions = 2
max_repetitions = 2
[link.cable]
cable = true
[link.gigabit]
rate_mbit = 1000
[tune]
by = "tcp"
[tune.knobs]
gro = ["on", "off"]
tso = [false]
mtu = [9000]
rx-usecs = [50]
busy-read = [50]
rps = ["other"]
congestion-control = ["reno", "nosuch"]
[[experiment]]
kind = "rtt"
links = ["cable", "gigabit"]
transports = ["tcp", "udp"]
sizes = [8]
waits = ["sleep"]
tune = true
seconds = 0.03
warmup = 0.01
[[experiment]]
kind = "stream"
links = ["cable", "gigabit"]
transports = ["tcp"]
sizes = [16384]
waits = ["sleep"]
tune = true
seconds = 0.05
warmup = 0.02
[[experiment]]
kind = "rtt"
links = ["cable"]
transports = ["icmp"]
sizes = [8]
waits = ["spin"]
seconds = 0.03
warmup = 0.01
"#;

/// A plan that keeps three settings changed at once for most of a minute, at both ends.
const LONG: &str = r#"
name = "long"
about = "a test: to be ended while settings are changed"
repetitions = 100
max_repetitions = 100
[link.cable]
cable = true
[tune]
by = "tcp"
sweep = "product"
[tune.knobs]
tso = ["off"]
mtu = [4000]
rps = ["all"]
[[experiment]]
kind = "rtt"
links = ["cable"]
transports = ["tcp"]
sizes = [8]
waits = ["sleep"]
tune = true
seconds = 0.3
warmup = 0.0
"#;

/// The knobs of [`LONG`] and `gro`, of a node's interface.
fn values(node: &Node) -> Vec<String> {
    let _inside = node.enter().unwrap();
    let place = TunedInterface::new("eth0").unwrap();
    let read = |name| tune::by_name(name).unwrap().read(&place).unwrap();
    ["tso", "mtu", "rps", "gro"].map(read).to_vec()
}

/// Waits until the node's values are so.
fn await_values(node: &Node, what: &str, so: impl Fn(&[String]) -> bool) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = values(node);
        if so(&now) {
            return now;
        }
        assert!(Instant::now() < deadline, "{what}: {now:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Two nodes, a server in the second that allows tuning or not, and what belongs to it.
struct TuningFixture {
    fabric: Fabric,
    place: tempfile::TempDir,
    server: Child,
    before: [Vec<String>; 2],
}

impl Drop for TuningFixture {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl TuningFixture {
    fn new(test: &str, allow: bool) -> Self {
        let fabric = testing::fabric(test, |config| config.cable = true);
        let place = tempfile::tempdir().unwrap();
        let key = place.path().join("key");
        fs::write(&key, "sixteen bytes and more").unwrap();
        fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
        let before = [1, 2].map(|number| values(&fabric.node(number)));
        let mut command = fabric.node(2).command(std::env::current_exe().unwrap()).unwrap();
        command.args(["serve", "--nic", "eth0", "--config", "/dev/null", "--key"]).arg(&key);
        if allow {
            command.arg("--allow-tuning");
        }
        let server = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Self { fabric, place, server, before }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn eval(&self, plan: &str) -> Command {
        fs::write(self.path("plan.toml"), plan).unwrap();
        let mut command = self.fabric.node(1).command(std::env::current_exe().unwrap()).unwrap();
        let peer = self.fabric.node(2).ipv4.to_string();
        command.args(["eval", "--nic", "eth0", "--peer", &peer, "--plan"]);
        command.arg(self.path("plan.toml")).arg("--key").arg(self.path("key"));
        command.arg("--out").arg(self.path("out"));
        command
    }

    /// Starts the long plan and waits until everything is changed at both ends.
    fn change(&self) -> Child {
        self.await_server();
        let run = self.eval(LONG).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        for number in [1, 2] {
            let before = &self.before[usize::from(number) - 1];
            await_values(&self.fabric.node(number), "nothing was changed", |now| {
                (0..3).all(|knob| now[knob] != before[knob])
            });
        }
        run
    }

    /// Waits until the server listens.
    fn await_server(&self) {
        await_socket(&self.fabric.node(2), "0A", PATIENCE);
    }

    fn await_as_before(&self) {
        for number in [1, 2] {
            let before = &self.before[usize::from(number) - 1];
            await_values(&self.fabric.node(number), "it was not put back", |now| {
                now == &before[..]
            });
        }
    }
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Waits until each thread of a process has stopped after SIGSTOP: one that is inside a kernel call
/// may change something until that ends.
fn await_stopped(pid: u32) {
    let moves = || {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let mut ids = tasks.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // /proc has a thread by its number, too. One that has ended since changes nothing.
        ids.any(|id: u32| Stat::of(id).is_some_and(|stat| stat.state != 'T'))
    };
    let deadline = Instant::now() + PATIENCE;
    while moves() {
        assert!(Instant::now() < deadline, "it is not stopped");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The guardian that this process started.
fn guardian_of(pid: u32) -> u32 {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found = ids.find(|id: &u32| {
        let line = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.contains("--when-closed") && Stat::of(*id).is_some_and(|stat| stat.parent == pid)
    });
    found.expect("a guardian")
}

/// Journals of this process.
fn journals(pid: u32) -> usize {
    let entries = fs::read_dir("/run/gigae-tuning").into_iter().flatten().flatten();
    let own = format!("{pid}-");
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn fits_schema(results: &str) {
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../eval/model/schema/gigae.eval.2.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let value = serde_json::from_str(results).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

fn a_sweep_on_a_virtual_network_says_what_was_tried_and_what_follows() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let (plan, out) = (place.path().join("plan.toml"), place.path().join("out"));
    fs::write(&plan, SWEEP).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["eval", "--plan"]).arg(plan).arg("--out").arg(&out);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(journals(pid), 0);
    let json = fs::read_to_string(out.join("results.json")).unwrap();
    fits_schema(&json);
    let results = Results::parse(&json).unwrap();
    let names = |link: &str| -> Vec<String> {
        let tuning = results.tuning.iter().find(|tuning| tuning.link == link).unwrap();
        let single = tuning.trials.iter().filter(|trial| !trial.best);
        single.map(|trial| trial.name.clone()).collect()
    };
    // A veth begins without GRO; its offloads on a shaped link and the switch's MTU are the
    // network's.
    assert_eq!(
        names("cable"),
        ["congestion-control reno", "gro on", "mtu 9000", "rps other", "tso off"]
    );
    assert_eq!(names("gigabit"), ["congestion-control reno", "gro on", "rps other"]);
    let cable = &results.tuning[0];
    let why = |ends: &[gigae_eval_model::knobs::KnobState], knob: &str| {
        let state = ends.iter().find(|state| state.knob == knob).unwrap();
        state.absent.clone().unwrap_or_default()
    };
    for ends in [&cable.local, &cable.remote] {
        assert!(why(ends, "rx-usecs").contains("driver does not have it"), "{ends:?}");
        assert!(why(ends, "busy-read").contains("whole machine"), "{ends:?}");
        assert_eq!(why(ends, "gro"), "");
    }
    for trial in cable.trials.iter().filter(|trial| trial.failed.is_none()) {
        // What is measured under every setting, and not the rest of the plan.
        assert!(trial.series.iter().all(|series| series.transport != "icmp"), "{trial:?}");
        assert!(trial.series.iter().any(|series| series.transport == "tcp"), "{trial:?}");
    }
    let reno = &cable.trials[0].series[0];
    assert!(reno.note.as_ref().unwrap().congestion_control() == Some("reno"), "{reno:?}");
    assert!(
        results.series.iter().all(|one| one
            .note
            .as_ref()
            .is_none_or(|note| note.congestion_control() != Some("reno")))
    );
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    for words in ["Settings tried (cable, tcp)", "Knobs (gigabit)", "whole machine", "as it was"] {
        assert!(report.contains(words), "no '{words}' in {report}");
    }
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("round trip in microseconds"), "no figure");
}

fn every_knob_that_a_virtual_interface_has_is_turned_and_put_back() {
    let _alone = alone();
    let fabric = testing::fabric("every_knob", |config| config.cable = true);
    let _inside = fabric.node(1).enter().unwrap();
    let mut site = Site::find("eth0").unwrap();
    site.cpu = Some(0);
    let tried = |name: &str| match name {
        "rps" => "same",
        "irq-affinity" => "spread",
        "congestion-control" => "reno",
        "mtu" => "1400",
        "tx-ring" | "rx-ring" => "max",
        "gro" => "on",
        "tso" | "gso" | "lro" | "rx-checksum" | "tx-checksum" | "adaptive-rx" => "off",
        _ => "50",
    };
    let wanted =
        |name: &str| WantedKnob { knob: name.to_owned(), values: vec![tried(name).to_owned()] };
    let wanted: Vec<WantedKnob> = tune::KNOBS.iter().map(|knob| wanted(knob.name())).collect();
    let read =
        |name: &str| tune::by_name(name).unwrap().read(&TunedInterface::new("eth0").unwrap());
    let before: Vec<_> = wanted.iter().map(|one| read(&one.knob)).collect();
    let (mut tuner, states) = Tuner::new(&site, &wanted).unwrap();
    let mut turned = Vec::new();
    for state in &states {
        let value = tried(&state.knob);
        if !state.changes(value) {
            assert!(state.absent.is_some() || state.values[0].same, "{state:?}");
            continue;
        }
        let set = Set { knob: state.knob.clone(), value: value.to_owned() };
        tuner.apply(&[set]).unwrap_or_else(|error| panic!("{state:?}: {error}"));
        turned.push(state.knob.as_str());
        let changed = wanted.iter().zip(&before).filter(|(one, was)| read(&one.knob) != **was);
        let changed: Vec<&str> = changed.map(|(one, _)| one.knob.as_str()).collect();
        // Of a socket's setting nothing is seen from outside.
        let seen = if state.knob == "congestion-control" { vec![] } else { vec![&state.knob[..]] };
        assert_eq!(changed, seen, "one at a time");
    }
    for knob in ["tso", "gro", "mtu", "napi-defer-hard-irqs", "gro-flush-timeout", "rps"] {
        assert!(turned.contains(&knob), "{knob}: {states:?}");
    }
    // What another machine asks for is looked at before it is done.
    let set = Set { knob: "mtu".into(), value: "68".into() };
    tuner.apply(&[set]).unwrap();
    drop(tuner);
    let after: Vec<_> = wanted.iter().map(|one| read(&one.knob)).collect();
    assert_eq!(after, before);
    assert_eq!(journals(std::process::id()), 0);
}

fn both_ends_of_a_run_are_as_before_when_it_is_done() {
    let _alone = alone();
    let fixture = TuningFixture::new("as_before", true);
    let mut run = fixture.change();
    signal(run.id(), Signal::KILL);
    run.wait().unwrap();
    fixture.await_as_before();
    let plan = SWEEP.replace("links = [\"cable\", \"gigabit\"]", "links = [\"cable\"]");
    let plan =
        plan.replace("[link.gigabit]\nrate_mbit = 1000\n", "").replace("busy-read = [50]\n", "");
    let output = fixture.eval(&plan).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let results = fs::read_to_string(fixture.path("out").join("results.json")).unwrap();
    let results = Results::parse(&results).unwrap();
    assert_eq!(results.tuning[0].link, "network");
    assert!(
        results.tuning[0]
            .trials
            .iter()
            .any(|trial| trial.name == "mtu 9000" && trial.failed.is_none())
    );
    let now = [1, 2].map(|number| values(&fixture.fabric.node(number)));
    assert_eq!(now, fixture.before);
}

fn ctrl_c_puts_both_ends_back() {
    let _alone = alone();
    let fixture = TuningFixture::new("ctrl_c", true);
    let run = fixture.change();
    let pid = run.id();
    assert_eq!(journals(pid), 1);
    signal(pid, Signal::INT);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert_eq!(values(&fixture.fabric.node(1)), fixture.before[0], "at the end of the run");
    assert_eq!(journals(pid), 0);
    fixture.await_as_before();
}

fn a_killed_run_is_put_back_by_its_guardian() {
    let _alone = alone();
    let fixture = TuningFixture::new("killed", true);
    let mut run = fixture.change();
    let pid = run.id();
    signal(pid, Signal::KILL);
    run.wait().unwrap();
    fixture.await_as_before();
    let deadline = Instant::now() + PATIENCE;
    while journals(pid) > 0 {
        assert!(Instant::now() < deadline, "its journal was left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn a_killed_server_is_put_back_by_its_guardian() {
    let _alone = alone();
    let fixture = TuningFixture::new("killed_server", true);
    let run = fixture.change();
    signal(fixture.server.id(), Signal::KILL);
    let output = run.wait_with_output().unwrap();
    assert!(!output.status.success() && text(&output).lines().count() == 1, "{}", text(&output));
    fixture.await_as_before();
}

/// The control group of a process, while that is one with a quota.
fn quota_group(pid: u32) -> Option<PathBuf> {
    let read = |file: String| fs::read_to_string(file).unwrap_or_default();
    let cgroups = read(format!("/proc/{pid}/cgroup"));
    let line = cgroups.lines().find(|line| line.ends_with(&format!("/gigae-quota-{pid}")))?;
    let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
    let mounts = read("/proc/self/mounts".to_owned());
    let mount = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|words| {
        match controllers.split(',').next() {
            Some("") | None => words[2] == "cgroup2",
            Some(first) => words[2] == "cgroup" && words[3].split(',').any(|one| one == first),
        }
    })?;
    Some(PathBuf::from(mount[1]).join(path.trim_start_matches('/')))
}

/// Where the kernel has quotas. Elsewhere the results must say why there is none.
fn a_slower_cpus_control_group_goes_with_the_run_however_it_ends() {
    let _alone = alone();
    let knobs = "tso = [\"off\"]\nmtu = [4000]\nrps = [\"all\"]";
    let plan = LONG.replace(knobs, "cpu-quota = [50]");
    assert_ne!(plan, LONG);
    for (how, signals) in [("quota_int", Signal::INT), ("quota_kill", Signal::KILL)] {
        let fixture = TuningFixture::new(how, true);
        fixture.await_server();
        let node = fixture.fabric.node(1);
        let absent = {
            let _inside = node.enter().unwrap();
            let place = TunedInterface::new("eth0").unwrap();
            tune::by_name("cpu-quota").unwrap().read(&place).err()
        };
        if let Some(why) = absent {
            let short = plan.replace("repetitions = 100", "repetitions = 1");
            let output = fixture.eval(&short).output().unwrap();
            assert!(output.status.success(), "{}", text(&output));
            let report = fs::read_to_string(fixture.path("out").join("report.md")).unwrap();
            assert!(report.contains(&why.0), "{}: {report}", why.0);
            continue;
        }
        let mut run =
            fixture.eval(&plan).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let pids = [run.id(), fixture.server.id()];
        let deadline = Instant::now() + PATIENCE;
        let groups = loop {
            assert!(Instant::now() < deadline, "no process has a quota");
            assert!(run.try_wait().unwrap().is_none(), "the run ended without a quota");
            if let [Some(here), Some(there)] = pids.map(quota_group) {
                break [here, there];
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        signal(run.id(), signals);
        run.wait().unwrap();
        // The server goes on and puts its process back by itself.
        while groups.iter().any(|group| group.exists()) || journals(pids[0]) > 0 {
            assert!(Instant::now() < deadline, "a control group is left: {groups:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(quota_group(fixture.server.id()), None);
    }
}

fn with_its_guardian_killed_too_the_next_one_puts_back_what_nobody_changed_since() {
    let _alone = alone();
    let fixture = TuningFixture::new("both_killed", true);
    let mut run = fixture.change();
    let (node, guardian) = (fixture.fabric.node(1), guardian_of(run.id()));
    signal(run.id(), Signal::STOP);
    await_stopped(run.id());
    // Stopped between two changes or within one: the value there is its own in either case.
    let changed = await_values(&node, "changed", |now| now != &fixture.before[0][..]);
    signal(guardian, Signal::KILL);
    signal(run.id(), Signal::KILL);
    run.wait().unwrap();
    assert_eq!(values(&node), changed, "no process is left that would put it back");
    assert_eq!(journals(run.id()), 1);
    // Another program changes the MTU in the meantime.
    let ip =
        node.command("ip").unwrap().args(["link", "set", "dev", "eth0", "mtu", "3000"]).status();
    assert!(ip.unwrap().success());
    // From another namespace.
    let output =
        Command::new(std::env::current_exe().unwrap()).args(["tuning", "restore"]).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", text(&output));
    assert!(said.contains(&format!("(process {})", run.id())), "{said}");
    let [now, before] = [values(&node), fixture.before[0].clone()];
    assert_eq!((&now[0], &now[2], &now[3]), (&before[0], &before[2], &before[3]), "{said}");
    // Whether it had been changed when the run was stopped is chance; if so, it was left and said.
    assert_eq!(now[1], "3000");
    assert_eq!(said.contains("mtu of eth0"), changed[1] != before[1], "{said}");
    assert_eq!(journals(run.id()), 0);
}

fn a_server_whose_owner_does_not_allow_it_refuses_and_nothing_is_changed() {
    let _alone = alone();
    let fixture = TuningFixture::new("refused", false);
    fixture.await_server();
    let output = fixture.eval(LONG).output().unwrap();
    let said = text(&output);
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("--allow-tuning") && said.contains("ends = \"measuring\""), "{said}");
    let now = [1, 2].map(|number| values(&fixture.fabric.node(number)));
    assert_eq!(now, fixture.before);
}
