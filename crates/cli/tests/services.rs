//! File services on virtual networks: the real servers and clients, and servers that do what none
//! should.
//!
//! Called as `eval ...`, `share ...` or `cp ...`, this test binary plays `gigae`; called as
//! `vsftpd`, a bad server; called by `cargo test`, it is the tests.

#[path = "services/nfs.rs"]
mod nfs;
mod program;

use gigae_eval_model::doubt::Code;
use gigae_eval_model::results::Results;
use gigae_eval_model::service::{Connection, Sink};
use gigae_fabric::{Fabric, testing, tests};
use gigae_host::proc::process::{command, is_alive};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a server that is this program does: `dies`, or `hangs` with its port open.
const FAKE: &str = "FAKE";

/// Samba becomes other users, and control groups belong to root.
const OF_ROOT: &[&str] = &[
    "a_server_of_samba_signs_and_encrypts_for_several_clients",
    "an_interrupted_or_killed_run_leaves_nothing_of_samba",
    "an_interrupted_or_killed_run_leaves_nothing_of_ssh_and_rsync",
    "every_other_service_copies_files_and_trees_both_ways",
    "an_nfs_server_gives_and_takes_files_for_several_clients",
    "reads_and_writes_within_a_file_go_every_way_and_are_compared_once",
    "operations_on_names_stand_beside_the_delay_of_their_link",
    "operations_on_names_end_with_a_signal_and_with_their_server",
    "an_interrupted_or_killed_run_leaves_nothing_of_nfs",
    "a_server_with_little_memory_reads_its_disk_for_each_copy",
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if Path::new(&words[0]).file_name().is_some_and(|name| name == "vsftpd") {
        return fake(&words[1..]);
    }
    if let Some(code) = program::play() {
        return code;
    }
    testing::for_users_except(OF_ROOT).run(tests![
        copies_are_verified_and_login_is_told_from_transfer_in_every_report,
        a_server_of_samba_signs_and_encrypts_for_several_clients,
        a_server_with_little_memory_reads_its_disk_for_each_copy,
        a_server_that_dies_shows_the_end_of_its_log,
        a_server_that_says_nothing_sensible_costs_its_cells_alone,
        a_file_server_is_in_a_network_that_has_nothing_but_the_run,
        an_interrupted_run_leaves_no_server_no_client_and_no_file,
        a_killed_run_leaves_no_server_and_the_next_one_removes_its_files,
        an_interrupted_or_killed_run_leaves_nothing_of_samba,
        an_interrupted_or_killed_run_leaves_nothing_of_ssh_and_rsync,
        every_other_service_copies_files_and_trees_both_ways,
        gigae_cp_stands_beside_ftp_in_every_report,
        a_copy_goes_on_after_its_link_was_down,
        nfs::an_nfs_server_gives_and_takes_files_for_several_clients,
        nfs::reads_and_writes_within_a_file_go_every_way_and_are_compared_once,
        nfs::operations_on_names_stand_beside_the_delay_of_their_link,
        nfs::operations_on_names_end_with_a_signal_and_with_their_server,
        nfs::an_interrupted_or_killed_run_leaves_nothing_of_nfs,
        nfs::programs_of_reads_and_writes_name_their_packages,
        a_program_that_is_not_installed_names_its_package
    ]);
}

fn fake(words: &[String]) -> ExitCode {
    if words[0] == "-v" {
        println!("vsftpd: version of a test");
        return ExitCode::SUCCESS;
    }
    if std::env::var(FAKE).is_ok_and(|how| how == "dies") {
        println!("one\ntwo\n500 OOPS: \x1b[1mno\n");
        return ExitCode::from(2);
    }
    let configuration = std::fs::read_to_string(&words[0]).unwrap();
    let port = configuration.lines().find_map(|line| line.strip_prefix("listen_port=")).unwrap();
    let listener = TcpListener::bind(("0.0.0.0", port.parse().unwrap())).unwrap();
    loop {
        // Neither a greeting nor an answer.
        drop(listener.accept());
    }
}

/// A plan with files of these sizes.
fn plan(sizes: &str) -> String {
    format!(
        r#"
name = "files"
about = "a test: files"
repetitions = 2
max_repetitions = 2
[link.gigabit]
rate_mbit = 1000
server_rate_mbit = 1000
nodes = 3
[[experiment]]
kind = "stream"
links = ["gigabit"]
transports = ["tcp"]
sizes = [65536]
waits = ["sleep"]
seconds = 0.05
warmup = 0.02
[[files]]
service = "ftp"
links = ["gigabit"]
sizes = [{sizes}]
to = ["null", "disk"]
connections = ["new", "kept"]
clients = [1, 3]
"#
    )
}

/// A place for a test's files.
struct TestDirectory(tempfile::TempDir);

impl TestDirectory {
    fn new(sizes: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.path("plan.toml"), plan(sizes)).unwrap();
        std::fs::create_dir(place.path("tmp")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A search path in which `vsftpd` is this program.
    fn fake(&self) -> String {
        let directory = self.path("bin");
        std::fs::create_dir_all(&directory).unwrap();
        symlink(std::env::current_exe().unwrap(), directory.join("vsftpd")).unwrap();
        format!("{}:{}", directory.display(), std::env::var("PATH").unwrap())
    }

    /// A search path with only what virtual links need.
    fn few(&self) -> PathBuf {
        let directory = self.path("few");
        std::fs::create_dir(&directory).unwrap();
        for tool in ["ip", "tc", "sh"] {
            let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(Path::new);
            let found = places.iter().map(|place| place.join(tool)).find(|file| file.exists());
            symlink(found.unwrap(), directory.join(tool)).unwrap();
        }
        directory
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

fn copies_are_verified_and_login_is_told_from_transfer_in_every_report() {
    let place = TestDirectory::new("3_000, 1_000_000");
    let output = place.eval().output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = place.results();
    assert_eq!(results.files.len(), 16, "{:?}", results.skipped);
    for one in &results.files {
        let (before, whole) = (one.before_ms.unwrap(), one.whole_ms.unwrap());
        assert!(before > 0.0 && one.transfer_ms > 0.0, "{one:?}");
        assert!(one.cell.clients > 1 || whole >= before, "{one:?}");
        let is_long = one.cell.size >= 1_000_000;
        let shares = if is_long { one.cell.clients as usize } else { 0 };
        assert_eq!((one.repetitions.len(), one.shares.len()), (2, shares));
        assert_eq!((one.median.is_some(), one.ci95.is_some()), (is_long, is_long));
        // A server's port lets all clients together have no more. Its bucket gives a burst.
        let limit = one.limit.unwrap();
        assert!(limit < 125.0 && one.median.is_none_or(|rate| rate < limit * 1.2), "{one:?}");
        assert!(one.doubts.iter().any(|doubt| doubt.code == Some(Code::FewRepetitions)));
        // Two connections, three clients, two repetitions of each.
        assert_eq!(one.verified, 2 * (1 + 3) * 2, "{one:?}");
        // What the server sent is more than the files, and what came back is less.
        let bytes = one.cell.size * u64::from(one.cell.clients) * 2;
        assert!(one.server.tx_bytes > bytes && one.client.rx_bytes > bytes, "{one:?}");
        assert!(one.server.tx_frames > 0 && one.server.rx_frames > 0, "{one:?}");
        assert!(one.version.contains("vsftpd") && one.command.contains("curl"), "{one:?}");
    }
    let kinds = |to, connection| {
        let fits = |one: &&gigae_eval_model::file_figure::FileFigure| {
            one.cell.to == to && one.cell.connection == connection
        };
        results.files.iter().filter(fits).count()
    };
    assert_eq!(kinds(Sink::Disk, Connection::Kept), 4);
    let read = |name: &str| std::fs::read_to_string(place.path("out").join(name)).unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for text in [read("report.md"), read("report.html"), said] {
        for words in ["ground: transfer", "ftp 1 MB to disk, kept, 3 clients", "TCP alone has"] {
            assert!(text.contains(words), "'{words}' is not in: {text}");
        }
    }
    let lines = read("results.csv").lines().filter(|line| line.contains(",transfer,ftp,")).count();
    assert_eq!(lines, 16);
    assert_eq!(place.left(), [] as [PathBuf; 0]);
}

fn a_server_that_dies_shows_the_end_of_its_log() {
    let place = TestDirectory::new("3_000");
    let output = place.eval().env("PATH", place.fake()).env(FAKE, "dies").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = place.results();
    assert!(results.files.is_empty() && !results.series.is_empty());
    let skipped = results.skipped.iter().find(|one| one.transport == "ftp").unwrap();
    for words in ["vsftpd ended with exit status: 2", "'one' 'two' '500 OOPS: [1mno'"] {
        assert!(skipped.reason.contains(words), "{skipped:?}");
    }
    assert_eq!(skipped.reason.lines().count(), 1);
    assert_eq!(place.left(), [] as [PathBuf; 0]);
}

fn a_server_that_says_nothing_sensible_costs_its_cells_alone() {
    let place = TestDirectory::new("3_000");
    let output = place.eval().env("PATH", place.fake()).env(FAKE, "hangs").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = place.results();
    assert!(results.files.is_empty() && !results.series.is_empty());
    let skipped: Vec<_> = results.skipped.iter().filter(|one| one.transport == "ftp").collect();
    assert_eq!(skipped.len(), 8, "{skipped:?}");
    assert!(skipped.iter().all(|one| one.reason.starts_with("curl ended with")), "{skipped:?}");
}

/// The plan with another list of files.
fn with_files(files: &str) -> TestDirectory {
    with(&format!("[[files]]\n{files}"))
}

/// The plan with this in the place of its files.
fn with(services: &str) -> TestDirectory {
    let place = TestDirectory::new("3_000");
    let text = plan("3_000");
    let head = text.split("[[files]]").next().unwrap();
    std::fs::write(place.path("plan.toml"), format!("{head}{services}")).unwrap();
    place
}

fn a_server_of_samba_signs_and_encrypts_for_several_clients() {
    let place = with_files(
        r#"
service = "smb"
links = ["gigabit"]
sizes = [2_000_000]
to = ["null", "disk"]
protections = ["off", "sign", "encrypt"]
clients = [1, 2]
"#,
    );
    let output = place.eval().output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = place.results();
    assert_eq!(results.files.len(), 12, "{:?}", results.skipped);
    for one in &results.files {
        let word = format!("--client-protection={}", one.cell.protection.name());
        assert!(one.command.contains(&word) && one.version.contains("Version"), "{one:?}");
        // One and two clients, two repetitions, of each protection.
        assert_eq!(one.verified, (1 + 2) * 2, "{one:?}");
    }
    assert_eq!(place.left(), [] as [PathBuf; 0]);
}

fn a_server_with_little_memory_reads_its_disk_for_each_copy() {
    let place = with_files(
        r#"
service = "ftp"
links = ["gigabit"]
sizes = [40_000_000]
memory_mib = [20, 128]
"#,
    );
    // A file system in memory has no disk to read from.
    let output = place.eval().env_remove("TMPDIR").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = place.results();
    let reads: Vec<&Option<Vec<u64>>> = results.files.iter().map(|one| &one.disk_reads).collect();
    if results.skipped.iter().any(|one| one.reason.contains("cannot be limited here")) {
        let in_ci = std::env::var("CI").is_ok_and(|text| !text.is_empty());
        assert!(!in_ci, "no control groups here: {:?}", results.skipped);
        return;
    }
    assert_eq!(reads.len(), 2, "{:?}", results.skipped);
    let [Some(little), Some(much)] = reads[..] else { panic!("{reads:?}") };
    assert!(little.iter().all(|bytes| *bytes > 20_000_000), "{reads:?}");
    // A few megabytes at most: the server's own program and libraries, if the kernel dropped them.
    assert!(much.iter().all(|bytes| *bytes < 10_000_000), "{reads:?}");
    let text = std::fs::read_to_string(place.path("out/report.md")).unwrap();
    assert!(text.contains("does not fit") && text.contains("The file fits"), "{text}");
}

/// Server and client.
const FTP: [&str; 2] = ["vsftpd", "curl"];
const SMB: [&str; 2] = ["smbd", "smbclient"];

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

/// Waits until a run has a server and a client; the numbers of both.
fn busy(run: &mut Child, place: &TestDirectory, programs: [&str; 2]) -> Vec<u32> {
    let deadline = Instant::now() + PATIENCE;
    let own = place.path("tmp").display().to_string();
    loop {
        let ours = of_run(&own);
        let has = |name: &str| ours.iter().any(|pid| command(*pid) == name);
        if programs.into_iter().all(has) {
            return ours.into_iter().filter(|pid| *pid != run.id()).collect();
        }
        assert!(run.try_wait().unwrap().is_none(), "the run has ended");
        assert!(Instant::now() < deadline, "neither server nor client: {ours:?}");
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

/// Copies to disk are seen by their clients' arguments; large ones take a while.
const LARGE: &str = "60_000_000";

/// As Ctrl-C does.
fn interrupt(run: &Child) {
    let number = rustix::process::Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap();
    rustix::process::kill_process(number, rustix::process::Signal::INT).unwrap();
}

fn a_file_server_is_in_a_network_that_has_nothing_but_the_run() {
    let place = TestDirectory::new(LARGE);
    let mut run = place.eval().spawn().unwrap();
    let pids = busy(&mut run, &place, FTP);
    let network = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    let server = pids.iter().find(|pid| command(**pid) == "vsftpd").unwrap();
    assert_ne!(network(&server.to_string()), network("self"));
    let of_server = std::fs::read_to_string(format!("/proc/{server}/net/dev")).unwrap();
    let names: Vec<&str> =
        of_server.lines().skip(2).filter_map(|it| it.split(':').next()).collect();
    let mut names: Vec<&str> = names.into_iter().map(str::trim).collect();
    names.sort_unstable();
    assert_eq!(names, ["eth0", "lo"], "only the virtual link leads there");
    interrupt(&run);
    run.wait_with_output().unwrap();
    all_gone(&pids);
}

fn an_interrupted_run_leaves_no_server_no_client_and_no_file() {
    let place = TestDirectory::new(LARGE);
    let mut run = place.eval().spawn().unwrap();
    let pids = busy(&mut run, &place, FTP);
    interrupt(&run);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    all_gone(&pids);
    assert_eq!(place.left(), [] as [PathBuf; 0]);
    assert!(!place.path("out/results.json").exists());
}

fn a_killed_run_leaves_no_server_and_the_next_one_removes_its_files() {
    let place = TestDirectory::new(LARGE);
    let mut run = place.eval().spawn().unwrap();
    let pids = busy(&mut run, &place, FTP);
    run.kill().unwrap();
    run.wait().unwrap();
    all_gone(&pids);
    Fabric::down_abandoned().unwrap();
    assert_eq!(place.left().len(), 1);
    std::fs::write(place.path("plan.toml"), plan("3_000")).unwrap();
    let output = place.eval().output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(place.left(), [] as [PathBuf; 0]);
}

/// All processes in the network of this one: a server's sessions leave its group.
fn in_network_of(pid: u32) -> Vec<u32> {
    let network = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let (of, own) = (network(pid), network(std::process::id()));
    assert!(of.is_some() && of != own, "{pid} is in this test's network");
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|other| network(*other) == of).collect()
}

fn leaves_nothing(service: &str, programs: [&str; 2]) {
    let of_system = Path::new("/run/sshd").exists();
    for kill in [false, true] {
        let place = with_files(&format!(
            r#"
service = "{service}"
links = ["gigabit"]
sizes = [60_000_000]
to = ["disk"]
"#
        ));
        let mut run = place.eval().spawn().unwrap();
        let mut pids = busy(&mut run, &place, programs);
        let server = pids.iter().copied().find(|pid| command(*pid) == programs[0]).unwrap();
        pids.extend(in_network_of(server));
        match kill {
            true => run.kill().unwrap(),
            false => interrupt(&run),
        }
        run.wait_with_output().unwrap();
        all_gone(&pids);
        Fabric::down_abandoned().unwrap();
        let own = place.path("tmp").display().to_string();
        assert_eq!(of_run(&own), [] as [u32; 0], "neither the server nor what it has started");
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains("gigae /run"), "{mounts}");
        assert_eq!(Path::new("/run/sshd").exists(), of_system);
    }
}

fn an_interrupted_or_killed_run_leaves_nothing_of_samba() {
    leaves_nothing("smb", SMB);
}

fn an_interrupted_or_killed_run_leaves_nothing_of_ssh_and_rsync() {
    leaves_nothing("scp", ["sshd", "scp"]);
    leaves_nothing("rsync-ssh", ["sshd", "rsync"]);
    leaves_nothing("rsync", ["rsync", "rsync"]);
}

/// Files and trees by these services, fetched and sent.
fn both_ways(services: &[&str]) -> TestDirectory {
    let each = services.iter().map(|service| {
        format!(
            r#"
service = "{service}"
links = ["gigabit"]
sizes = [10_007]
files = [1, 200]
directions = ["get", "put"]
to = ["disk"]
"#
        )
    });
    with_files(&each.collect::<Vec<_>>().join("[[files]]"))
}

/// Every cell has its copies, all of which were compared.
fn all_copied(place: &TestDirectory, services: &[&str]) -> Results {
    let output = place.eval().output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = place.results();
    for service in services {
        let of = results.files.iter().filter(|one| one.cell.service == *service);
        let titles: Vec<String> = of.clone().map(|one| one.cell.title()).collect();
        let what = ["10,007 B", "200 files of 10,007 B"];
        let cells = [
            format!("{service} {} to disk", what[0]),
            format!("{service} put {}", what[0]),
            format!("{service} {} to disk", what[1]),
            format!("{service} put {}", what[1]),
        ];
        assert_eq!(titles, cells, "{:?}", results.skipped);
        for one in of {
            assert_eq!((one.repetitions.len(), one.verified), (2, 2), "{one:?}");
            assert!(!one.version.is_empty() && one.whole_ms > Some(0.0), "{one:?}");
            let bytes = one.cell.bytes() * 2;
            let sent = if one.cell.direction.is_get() { &one.server } else { &one.client };
            assert!(sent.tx_bytes > bytes, "{one:?}");
        }
    }
    assert_eq!(place.left(), [] as [PathBuf; 0]);
    results
}

fn every_other_service_copies_files_and_trees_both_ways() {
    let services = ["smb", "rsync", "rsync-ssh", "scp"];
    all_copied(&both_ways(&services), &services);
}

fn a_copy_goes_on_after_its_link_was_down() {
    let place = TestDirectory::new("1");
    let files = |service: &str, link: &str, size: u64| {
        format!(
            "[[files]]\nservice = \"{service}\"\nlinks = [\"{link}\"]\nsizes = [{size}]\nto = [\"disk\"]\n"
        )
    };
    let text = plan("1");
    let mut text = text[..text.find("[[files]]").unwrap()].to_owned();
    // 0.8 s for each copy. In half of that, the slowest machine starts the program that takes the
    // port down.
    text += "[link.up]\nrate_mbit = 20\n[link.down]\nrate_mbit = 20\ndown_ms = 300\n";
    for service in ["ftp", "gigae"] {
        text += &(files(service, "up", 4_000_000) + &files(service, "down", 4_000_000));
    }
    std::fs::write(place.path("plan.toml"), text).unwrap();
    let output = place.eval().output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = place.results();
    for service in ["ftp", "gigae"] {
        let on = |link: &str| {
            let one = results
                .files
                .iter()
                .find(|one| (one.cell.service.as_str(), one.link.as_str()) == (service, link));
            one.unwrap_or_else(|| panic!("{service} {link}: {:?}", results.skipped))
        };
        let down = on("down");
        assert_eq!((down.verified, down.repetitions.len()), (2, 2), "{service}");
        // Half of the bytes had to wait.
        assert!(down.whole_ms.unwrap() > 300.0 && on("up").verified == 2, "{down:?}");
    }
    let downs: Vec<_> = results.environment.link.iter().filter_map(|one| one.down_ms).collect();
    assert_eq!(downs, [300]);
    let report = std::fs::read_to_string(place.path("out/report.md")).unwrap();
    assert!(report.contains("Copies over a link that goes down (ground: transfer)"), "{report}");
    assert_eq!(place.left(), [] as [PathBuf; 0]);
}

fn gigae_cp_stands_beside_ftp_in_every_report() {
    let services = ["lftp", "gigae"];
    let place = both_ways(&services);
    let results = all_copied(&place, &services);
    let own = results.files.iter().find(|one| one.cell.service == "gigae").unwrap();
    assert!(own.before_ms.is_some() && own.version.starts_with("gigae "), "{own:?}");
    let read = |name: &str| std::fs::read_to_string(place.path("out").join(name)).unwrap();
    for text in [read("report.md"), read("report.html")] {
        assert!(text.contains("File services side by side (ground: transfer)"), "{text}");
        for verb in ["fetches", "sends"] {
            let words = format!("gigae cp {verb} 200 files of 10,007 B in ");
            assert!(text.contains(&words) && text.contains("lftp in "), "{words}: {text}");
        }
    }
}

fn a_program_that_is_not_installed_names_its_package() {
    let place = TestDirectory::new("3_000");
    let output = place.eval().env("PATH", place.few()).output().unwrap();
    let text = said(&output);
    assert!(!output.status.success() && text.contains("curl; try 'apt install"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(!place.path("out/results.json").exists());
}
