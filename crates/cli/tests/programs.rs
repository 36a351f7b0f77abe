//! Other programs beside our own figures, on virtual networks: the real ones, and some that do what
//! none should.
//!
//! Called as `eval ...` or `serve ...`, this test binary plays `gigae`; called by the name of a
//! measuring program, that program, as badly as FAKE says; called by `cargo test`, it is the tests.

mod program;

use gigae_eval_model::results::Results;
use gigae_eval_session::programs;
use gigae_fabric::{Fabric, testing, tests};
use gigae_host::affinity;
use gigae_host::proc::process::is_alive;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// The file into which fakes write their numbers.
const PIDS: &str = "FAKE_PIDS";

/// It starts a server, which becomes another user.
const OF_ROOT: &[&str] = &["another_machine_runs_programs_only_if_its_owner_allows_it"];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let name = Path::new(&words[0]).file_name().unwrap_or_default().to_string_lossy().into_owned();
    if programs::all().iter().any(|program| program.form().files.contains(&name.as_str())) {
        return fake(&name, &words[1..]);
    }
    if let Some(code) = program::play() {
        return code;
    }
    testing::for_users_except(OF_ROOT).run(tests![
        installed_programs_stand_beside_ours_in_every_report,
        a_program_that_lies_hangs_floods_or_dies_is_reported_and_the_run_goes_on,
        a_killed_run_leaves_no_program_and_none_of_its_children,
        another_machine_runs_programs_only_if_its_owner_allows_it,
        a_program_that_is_not_installed_names_its_package
    ]);
}

/// iperf3 answers well if `FAKE` says so, else with rubbish; sockperf dies at the answering end;
/// NetPIPE hangs, with a child process; qperf floods.
fn fake(name: &str, words: &[String]) -> ExitCode {
    let after = |option: &str| {
        let place = words.iter().position(|word| word == option)?;
        words.get(place + 1).cloned()
    };
    let measures = match name {
        "iperf3" => after("-c").is_some(),
        "sockperf" => words[0] == "ping-pong",
        "NPtcp" => after("-h").is_some(),
        _ => words.len() > 2,
    };
    if let Ok(file) = std::env::var(PIDS) {
        #[expect(clippy::zombie_processes, reason = "it is to be killed with this one")]
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
        writeln!(file, "{}\n{}", std::process::id(), child.id()).unwrap();
    }
    if !measures {
        if name == "sockperf" {
            eprintln!("sockperf: no\x1b[1m port for you");
            return ExitCode::from(7);
        }
        let port = after("-P").or(after("-lp")).or(after("-p")).unwrap().parse::<u16>().unwrap();
        let listener = TcpListener::bind(("0.0.0.0", port)).unwrap();
        loop {
            let _ = listener.accept();
        }
    }
    match name {
        "iperf3" if std::env::var("FAKE").is_ok_and(|how| how == "well") => {
            println!("{{\"end\": {{\"sum_received\": {{\"bits_per_second\": 8e8}}}}}}");
        }
        "iperf3" => println!("{{\"end\": {{}}}}\n\u{7}rubbish"),
        "NPtcp" => std::thread::sleep(PATIENCE * 10),
        _ => loop {
            // Until no process reads it any more.
            if std::io::stdout().write_all(&[b'x'; 4096]).is_err() {
                return ExitCode::FAILURE;
            }
        },
    }
    ExitCode::SUCCESS
}

const PLAN: &str = r#"
name = "beside"
about = "a test: programs beside"
repetitions = 1
max_repetitions = 1
[link.gigabit]
rate_mbit = 1000
[tcp.nodelay]
nodelay = true
buffer = 131072
[[experiment]]
kind = "rtt"
links = ["gigabit"]
transports = ["tcp", "udp"]
sizes = [64]
waits = ["sleep"]
seconds = 0.03
warmup = 0.01
[[experiment]]
kind = "stream"
links = ["gigabit"]
transports = ["tcp", "udp"]
sizes = [1400]
waits = ["sleep"]
seconds = 0.05
warmup = 0.02
"#;

/// A place for a test's files.
struct TestDirectory(tempfile::TempDir);

impl TestDirectory {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.path("plan.toml"), PLAN).unwrap();
        std::fs::write(place.path("key"), "the key of both machines\n").unwrap();
        std::fs::set_permissions(place.path("key"), PermissionsExt::from_mode(0o600)).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A search path in which these programs are this one.
    fn fakes(&self, files: &[&str]) -> String {
        let directory = self.path("bin");
        std::fs::create_dir_all(&directory).unwrap();
        for file in files {
            symlink(std::env::current_exe().unwrap(), directory.join(file)).unwrap();
        }
        format!("{}:{}", directory.display(), std::env::var("PATH").unwrap())
    }

    fn eval(&self, with: &str, pairs: &str) -> Command {
        self.options(Command::new(std::env::current_exe().unwrap()), with, pairs)
    }

    fn options(&self, mut command: Command, with: &str, pairs: &str) -> Command {
        command.args(["eval", "--plan"]).arg(self.path("plan.toml")).arg("--out");
        command.arg(self.path("out")).args(["--with", with, "--pairs", pairs]);
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
}

fn installed_programs_stand_beside_ours_in_every_report() {
    let place = TestDirectory::new();
    let named = "iperf3,sockperf,netpipe,qperf";
    let output = place.eval(named, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = place.results();
    let found: Vec<String> = results
        .programs
        .iter()
        .map(|one| format!("{} {} {}", one.program, one.transport, one.experiment.name()))
        .collect();
    let expected = [
        "iperf3 tcp stream",
        "iperf3 udp stream",
        "sockperf tcp rtt",
        "sockperf udp rtt",
        "netpipe tcp rtt",
        "qperf tcp stream",
        "qperf udp stream",
        "qperf tcp rtt",
        "qperf udp rtt",
    ];
    assert!(found.iter().all(|one| expected.contains(&one.as_str())), "{found:?}");
    // On a busy machine one of them may fail, which the results say.
    let skipped = results.skipped.iter().filter(|one| one.transport.contains(' ')).count();
    assert!(found.len() + skipped >= expected.len(), "{found:?}, {:?}", results.skipped);
    assert!(found.len() > expected.len() / 2, "{:?}", results.skipped);
    for one in &results.programs {
        // Of the same kind and unit: a factor of two or eight would be a wrong unit.
        assert!(one.ours > 0.0 && one.theirs > 0.0 && one.pairs.len() == 1, "{one:?}");
        if one.experiment.name() == "stream" {
            assert!(one.theirs < 1.3 * 125.0, "faster than the link: {one:?}");
        }
    }
    assert!(
        results.environment.command.contains("--with iperf3,sockperf"),
        "{:?}",
        results.environment
    );
    let read = |name: &str| std::fs::read_to_string(place.path("out").join(name)).unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for text in [read("report.md"), read("report.html"), said] {
        for words in ["Beside other programs", "iperf3", "agree within"] {
            assert!(text.contains(words), "'{words}' is not in: {text}");
        }
    }
    assert!(read("report.md").contains("What other programs count"));
    let lines = read("results.csv").lines().filter(|line| line.contains("beside ")).count();
    assert_eq!(lines, found.len(), "a line of ours for each");
}

fn a_program_that_lies_hangs_floods_or_dies_is_reported_and_the_run_goes_on() {
    let place = TestDirectory::new();
    let path = place.fakes(&["iperf3", "sockperf", "NPtcp", "qperf"]);
    let mut command = place.eval("iperf3,sockperf,netpipe,qperf", "3");
    let output = command.env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = place.results();
    assert!(results.programs.is_empty(), "{:?}", results.programs);
    // Where too little of the processors is left for 30 ms of measuring, the results give the
    // reason instead of a figure.
    let ours =
        results.skipped.iter().filter(|one| ["tcp nodelay", "udp"].contains(&&*one.transport));
    let ours = ours.count() + results.series.len();
    assert_eq!(ours, 4, "our own figures: {:?}, {:?}", results.series, results.skipped);
    assert!(!results.series.is_empty(), "{:?}", results.skipped);
    for (program, words) in [
        ("iperf3 tcp", &["no figure", "'rubbish'"][..]),
        ("iperf3 udp", &["no figure"]),
        (
            "sockperf tcp",
            &["at the answering end", "exit status: 7", "'sockperf: no[1m port for you'"],
        ),
        ("netpipe tcp", &["did not end in time"]),
        ("qperf udp", &["qperf ended with"]),
    ] {
        let skipped = results.skipped.iter().find(|skipped| skipped.transport == program);
        let skipped = skipped.unwrap_or_else(|| panic!("{program}: {:?}", results.skipped));
        assert!(words.iter().all(|word| skipped.reason.contains(word)), "{skipped:?}");
        assert!(skipped.reason.len() < 400 && skipped.reason.lines().count() == 1, "{skipped:?}");
    }
}

fn a_killed_run_leaves_no_program_and_none_of_its_children() {
    let place = TestDirectory::new();
    let path = place.fakes(&["NPtcp"]);
    let file = place.path("pids");
    let mut command = place.eval("netpipe", "1");
    let mut run = command.env("PATH", path).env(PIDS, &file).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let pids = loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let pids: Vec<u32> = text.lines().filter_map(|pid| pid.parse().ok()).collect();
        // Both ends, each with a child.
        if pids.len() == 4 {
            break pids;
        }
        assert!(Instant::now() < deadline, "the programs were never started: {pids:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(pids.iter().all(|&pid| is_alive(pid)), "{pids:?}");
    run.kill().unwrap();
    run.wait().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while let Some(pid) = pids.iter().find(|&&pid| is_alive(pid)) {
        assert!(Instant::now() < deadline, "{pid} of {pids:?} outlived the run");
        std::thread::sleep(Duration::from_millis(10));
    }
    Fabric::down_abandoned().unwrap();
}

/// Ends the server with the test.
struct TestServer(Child);

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn another_machine_runs_programs_only_if_its_owner_allows_it() {
    let place = TestDirectory::new();
    let path = place.fakes(&["iperf3"]);
    // The server is another user, who may not reach the directory of this program.
    std::fs::set_permissions(place.path(""), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::remove_file(place.path("bin/iperf3")).unwrap();
    std::fs::copy(std::env::current_exe().unwrap(), place.path("bin/iperf3")).unwrap();
    let fabric = testing::fabric("programs", |_| {});
    let cpu = affinity::allowed()[0].to_string();
    let serve = |more: &[&str]| {
        let mut command = fabric.node(2).command(std::env::current_exe().unwrap()).unwrap();
        command.args(["serve", "--nic", "eth0", "--cpu", &cpu, "--key"]).arg(place.path("key"));
        command.args(more).env("PATH", &path).stderr(Stdio::piped());
        let mut serve = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(serve.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("serving on"), "{line}");
        TestServer(serve)
    };
    let eval = |with: &str| {
        let command = fabric.node(1).command(std::env::current_exe().unwrap()).unwrap();
        let mut command = place.options(command, with, "2");
        command.args(["--nic", "eth0", "--peer", &fabric.node(2).ipv4.to_string(), "--key"]);
        command.arg(place.path("key")).env("PATH", &path).env("FAKE", "well");
        command.output().unwrap()
    };
    for (options, words) in [
        (&[][..], "--allow-programs"),
        (&["--allow-programs", "--max-rate", "100mbit"], "--max-rate"),
        (&["--allow-programs", "--one-port"], "--one-port"),
        (&["--allow-programs", "--max-duration", "1s"], "--max-duration"),
    ] {
        let serving = serve(options);
        let refused = eval("iperf3");
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && text.contains(words), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!place.path("out").exists(), "measured all the same");
        drop(serving);
    }
    let _serving = serve(&["--allow-programs"]);
    let output = eval("iperf3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = place.results();
    let theirs: Vec<f64> = results.programs.iter().map(|one| one.theirs).collect();
    assert_eq!(theirs, [100.0, 100.0], "{:?}", results.skipped);
}

fn a_program_that_is_not_installed_names_its_package() {
    let place = TestDirectory::new();
    let directory = place.path("few");
    std::fs::create_dir(&directory).unwrap();
    for tool in ["ip", "tc", "sh"] {
        let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(Path::new);
        let found = places.iter().map(|place| place.join(tool)).find(|file| file.exists());
        symlink(found.unwrap(), directory.join(tool)).unwrap();
    }
    for (with, package) in
        [("netpipe", "netpipe-tcp"), ("all", "iperf3 sockperf netpipe-tcp qperf")]
    {
        let output = place.eval(with, "1").env("PATH", &directory).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && text.contains(&format!("apt install {package}")),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    let output = place.eval("nonsense", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && text.contains("iperf3"), "{text}");
}
