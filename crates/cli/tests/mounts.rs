//! Mounted file systems: guests that share files by NFS, CIFS and `gigae share` on virtual
//! networks.
//!
//! Called as `eval ...`, `share ...` or `mount ...`, this test binary plays `gigae`; called by
//! `cargo test`, it is the tests.

mod program;

use gigae_eval_model::mount_figure::{MountCell, MountFigure, MountPlace, MountSystem, MountTest};
use gigae_eval_model::plan::GuestsPlan;
use gigae_eval_model::results::Results;
use gigae_eval_services::mount::{MountLab, MountNodes};
use gigae_eval_services::store::FileStore;
use gigae_fabric::{Fabric, testing, tests};
use gigae_host::proc::process::{command, is_alive};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const PATIENCE: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    if let Some(code) = program::play() {
        return code;
    }
    testing::run(tests![
        guests_share_verified_files_by_each_system_and_every_report_names_the_ground,
        a_second_client_that_does_not_ask_opens_what_is_old,
        a_test_that_fails_in_the_guest_costs_its_cell_alone,
        guests_are_in_a_network_that_has_nothing_but_the_run,
        an_interrupted_or_killed_run_leaves_no_guest,
        programs_that_are_not_installed_name_their_packages
    ])
}

fn plan(mount: &str) -> String {
    format!(
        r#"
name = "mounts"
about = "a test: mounted files"
repetitions = 2
max_repetitions = 2
[link.switch]
[[experiment]]
kind = "stream"
links = ["switch"]
transports = ["tcp"]
sizes = [65536]
waits = ["sleep"]
seconds = 0.05
warmup = 0.02
[guests]
memory_mib = [192, 128]
disk_mib = 48
[[mount]]
links = ["switch"]
{mount}
"#
    )
}

const SMALL: &str = r#"
tests = [{ program = "fio", pattern = "randrw", mib = 2 }]
places = ["network", "localhost", "disk"]
systems = ["nfs-4.2", "nfs-3"]
repetitions = 2
"#;

/// A place for a test's files.
struct TestDirectory(tempfile::TempDir);

impl TestDirectory {
    fn new(mount: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.path("plan.toml"), plan(mount)).unwrap();
        std::fs::create_dir(place.path("tmp")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn eval(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["eval", "--plan"]).arg(self.path("plan.toml")).arg("--out");
        command.arg(self.path("out")).env("TMPDIR", self.path("tmp"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn results(&self) -> Results {
        let text = std::fs::read_to_string(self.path("out/results.json")).unwrap();
        let schema = include_str!("../../eval/model/schema/gigae.eval.2.json");
        let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let value = serde_json::from_str(&text).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|it| it.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        Results::parse(&text).unwrap()
    }

    /// What is left in the directory for temporary files.
    fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("tmp")).unwrap().flatten();
        entries.map(|entry| entry.path()).collect()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn guests_share_verified_files_by_each_system_and_every_report_names_the_ground() {
    let mount =
        SMALL.replace("mib = 2 }", "mib = 2 }, { program = \"bonnie++\", mib = 0, files = 1 }");
    let mount = mount.replace("repetitions = 2", "repetitions = 1");
    let own = r#"
[[mount]]
links = ["switch"]
systems = ["nfs-4.2", "gigae"]
tests = [{ program = "stat", files = 1 }, { program = "bonnie++", mib = 0, files = 1 }]
repetitions = 1
[[mount]]
links = ["switch"]
places = ["network", "localhost"]
systems = ["cifs"]
tests = [{ program = "fio", pattern = "randrw", mib = 2 }]
repetitions = 1
[[mount]]
links = ["switch"]
systems = ["nfs-4.2", "nfs-3"]
nconnect = [4]
tests = [{ program = "fio", pattern = "randrw", mib = 2 }]
repetitions = 1
[[mount]]
links = ["switch"]
systems = ["nfs-4.2", "nfs-3", "cifs", "gigae"]
tests = [{ program = "two-clients", openings = 3, looks = 1 }]
repetitions = 1
"#;
    let place = TestDirectory::new(&(mount + own));
    let output = place.eval().output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = place.results();
    let find = |place, system, what: &str| -> Option<&MountFigure> {
        results.mounts.iter().find(|one| {
            (one.cell.place, one.cell.system, one.what.as_str()) == (place, system, what)
                && one.cell.nconnect == 1
        })
    };
    let ways = [
        (MountPlace::Network, Some(MountSystem::Nfs42)),
        (MountPlace::Network, Some(MountSystem::Nfs3)),
        (MountPlace::Localhost, Some(MountSystem::Nfs42)),
        (MountPlace::Localhost, Some(MountSystem::Nfs3)),
        (MountPlace::Network, Some(MountSystem::Cifs)),
        (MountPlace::Localhost, Some(MountSystem::Cifs)),
        (MountPlace::Disk, None),
    ];
    for (place, system) in ways {
        let rate = find(place, system, "random read/write: read");
        let rate = rate.unwrap_or_else(|| panic!("{place:?} {system:?}: {:?}", results.skipped));
        assert!(rate.median > 0.0 && rate.repetitions.len() == 1, "{rate:?}");
        let directory = if system.is_some() { "/mnt/files/" } else { "/mnt/disk/" };
        assert!(rate.command.contains(directory), "{rate:?}");
    }
    // What is over in less than half a second has no figure, but creating by a synchronous server
    // takes longer.
    assert!(find(MountPlace::Network, Some(MountSystem::Nfs3), "create, sequential").is_some());
    for system in [MountSystem::Nfs42, MountSystem::Gigae] {
        for what in ["stat, listed", "stat, by name"] {
            let rate = find(MountPlace::Network, Some(system), what);
            assert!(rate.is_some_and(|one| one.median > 0.0), "{what}: {:?}", results.skipped);
        }
    }
    let [guests] = &results.guests[..] else { panic!("{:?}", results.guests) };
    // Two versions of NFS and CIFS in two places, NFS by several connections, and gigae, a file
    // each way.
    assert_eq!(guests.verified, 2 * (2 * 3 + 2 + 1));
    for system in [MountSystem::Nfs42, MountSystem::Nfs3, MountSystem::Cifs, MountSystem::Gigae] {
        let old = find(MountPlace::Network, Some(system), "old contents");
        let seen = find(MountPlace::Network, Some(system), "new attributes seen after");
        assert_eq!(old.map(|one| one.median), Some(0.0), "{system:?}: {:?}", results.skipped);
        assert!(seen.is_some_and(|one| one.median > 0.0 && one.range.is_some()), "{system:?}");
    }
    let several = |one: &&MountFigure| one.cell.nconnect == 4 && one.median > 0.0;
    let several = results.mounts.iter().filter(several).count();
    assert_eq!(several, 2 * 2, "reads and writes by each version: {:?}", results.skipped);
    for what in ["create, sequential", "delete, sequential"] {
        let rate = find(MountPlace::Network, Some(MountSystem::Gigae), what);
        assert!(rate.is_some_and(|one| one.median > 0.0), "{what}: {:?}", results.skipped);
    }
    let doubted = |one: &MountFigure| one.doubts.len() == 1 && one.ci95.is_none();
    assert!(results.mounts.iter().all(doubted), "one repetition decides nothing");
    assert!(guests.trip_us.iter().chain(&guests.stream).all(|value| *value > 0.0), "{guests:?}");
    assert_ne!(guests.kernel, results.environment.kernel);
    let read = |name: &str| std::fs::read_to_string(place.path("out").join(name)).unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    for text in [read("report.md"), read("report.html"), printed] {
        for words in [
            "ground: mount (User-mode Linux)",
            "What the guests cost",
            "localhost, NFS 3",
            "network, gigae mount",
            "What a second client sees",
            "network, NFS 3, nconnect 4",
            "times as many",
            "few-repetitions",
        ] {
            assert!(text.contains(words), "'{words}' is not in: {text}");
        }
    }
    let lines = read("results.csv").lines().filter(|line| line.contains(",mount,fio,")).count();
    assert_eq!(lines, (ways.len() + 2) * 2);
    assert_eq!(place.left(), [] as [PathBuf; 0]);
}

/// The measurement finds what it looks for.
fn a_second_client_that_does_not_ask_opens_what_is_old() {
    let fabric = testing::fabric("two clients", |_| ());
    let guests = GuestsPlan { memory_mib: [192, 128], disk_mib: 48, raid: false };
    let store = FileStore::new(MountLab::needs(&guests)).unwrap();
    let nodes = [fabric.node(1), fabric.node(2)];
    let mtu = fabric.config().mtu;
    let place = MountNodes { nodes: [&nodes[0], &nodes[1]], cpus: [None, None], mtu };
    let interrupted = AtomicBool::new(false);
    let mut lab = MountLab::start(&store, &guests, &place, &interrupted).unwrap();
    let cell = MountCell {
        place: MountPlace::Network,
        system: Some(MountSystem::Nfs3),
        nconnect: 1,
        test: MountTest::TwoClients { openings: 3, looks: 1 },
    };
    let mut old = |options| {
        lab.mount_second_with(options);
        let measured = lab.measure(&cell, &interrupted).unwrap();
        measured.values.iter().find(|one| one.what == "old contents").unwrap().value
    };
    assert_eq!(old(""), 0.0);
    assert_eq!(old("nocto,actimeo=60"), 3.0);
}

fn a_test_that_fails_in_the_guest_costs_its_cell_alone() {
    // More files than the file system has inodes.
    let place = TestDirectory::new(
        r#"
tests = [
    { program = "bonnie++", mib = 0, files = 64 },
    { program = "fio", pattern = "read", mib = 2 },
]
places = ["disk"]
"#,
    );
    let output = place.eval().output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = place.results();
    let tests: Vec<String> = results.mounts.iter().map(|one| one.cell.test.title()).collect();
    assert_eq!(tests, ["fio read 2 MiB"], "{:?}", results.skipped);
    // A busy machine may skip what the guests cost as well.
    let reason = |reason: &str| reason.contains("could not run bonnie++");
    let skipped = results.skipped.iter().find(|one| reason(&one.reason));
    let skipped = skipped.unwrap_or_else(|| panic!("{:?}", results.skipped));
    assert_eq!(skipped.transport, "mounted files");
    assert_eq!(skipped.reason.lines().count(), 1);
}

/// Processes whose command lines name this directory.
fn of_run(directory: &str) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let ours = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(directory)
    };
    numbers.filter(ours).collect()
}

/// Waits until a run has both guests, and the client has run a script; the numbers of all processes
/// of both.
fn busy(run: &mut Child, place: &TestDirectory) -> Vec<u32> {
    let deadline = Instant::now() + PATIENCE;
    let own = place.path("tmp").display().to_string();
    loop {
        let scripts = place.left().iter().any(|run| run.join("client/3").exists());
        if scripts {
            return of_run(&own).into_iter().filter(|pid| *pid != run.id()).collect();
        }
        assert!(run.try_wait().unwrap().is_none(), "the run has ended");
        assert!(Instant::now() < deadline, "no client: {:?}", of_run(&own));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn all_gone(pids: &[u32]) {
    let deadline = Instant::now() + PATIENCE;
    while let Some(pid) = pids.iter().find(|&&pid| is_alive(pid)) {
        assert!(
            Instant::now() < deadline,
            "{pid} ({}) of {pids:?} outlived the run",
            command(*pid)
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// As Ctrl-C does.
fn interrupt(run: &Child) {
    let number = rustix::process::Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap();
    rustix::process::kill_process(number, rustix::process::Signal::INT).unwrap();
}

fn guests_are_in_a_network_that_has_nothing_but_the_run() {
    let place = TestDirectory::new(SMALL);
    let mut run = place.eval().spawn().unwrap();
    let pids = busy(&mut run, &place);
    let network = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    assert!(pids.len() > 4, "both guests: {pids:?}");
    for pid in &pids {
        assert_ne!(network(&pid.to_string()), network("self"), "{}", command(*pid));
    }
    interrupt(&run);
    run.wait_with_output().unwrap();
    all_gone(&pids);
}

fn an_interrupted_or_killed_run_leaves_no_guest() {
    for kill in [false, true] {
        let place = TestDirectory::new(SMALL);
        let mut run = place.eval().spawn().unwrap();
        let pids = busy(&mut run, &place);
        match kill {
            true => run.kill().unwrap(),
            false => interrupt(&run),
        }
        let output = run.wait_with_output().unwrap();
        all_gone(&pids);
        assert_eq!(of_run(&place.path("tmp").display().to_string()), [] as [u32; 0]);
        if !kill {
            assert_eq!(output.status.code(), Some(130), "{}", said(&output));
            assert_eq!(place.left(), [] as [PathBuf; 0]);
        }
        Fabric::down_abandoned().unwrap();
    }
}

fn programs_that_are_not_installed_name_their_packages() {
    let place = TestDirectory::new(SMALL);
    let directory = place.path("few");
    std::fs::create_dir(&directory).unwrap();
    for tool in ["ip", "tc", "sh"] {
        let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(Path::new);
        let found = places.iter().map(|place| place.join(tool)).find(|file| file.exists());
        symlink(found.unwrap(), directory.join(tool)).unwrap();
    }
    let output = place.eval().env("PATH", &directory).output().unwrap();
    let text = said(&output);
    assert!(!output.status.success(), "{text}");
    for word in ["linux.uml", "fio", "try 'apt install user-mode-linux"] {
        assert!(text.contains(word), "{text}");
    }
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(!place.path("out/results.json").exists());
}
