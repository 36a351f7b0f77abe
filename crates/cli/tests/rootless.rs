//! `gigae` as an ordinary user runs it, without any capability: virtual networks in a user
//! namespace.
#![allow(missing_docs)]

use gigae_eval_model::results::Results;
use gigae_fabric::{testing, tests};
use gigae_host::proc::process::is_alive;
use gigae_host::user::in_user_namespace;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A bound against hanging, and nothing else.
const PATIENCE: Duration = Duration::from_secs(300);

fn main() {
    testing::for_users_except(&[]).run(tests![
        all_is_measured_but_what_needs_a_program_of_bpf,
        ctrl_c_ends_a_users_run_with_all_that_it_laid,
        a_killed_run_of_a_user_leaves_nothing,
        a_machine_that_forbids_user_namespaces_is_named_with_the_remedy,
        a_fabric_stands_as_long_as_a_command_runs,
        a_signal_ends_the_command_and_the_fabric
    ]);
}

/// A directory of the user's, and the program in it, where every user can run it.
struct User(tempfile::TempDir);

impl User {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::copy(env!("CARGO_BIN_EXE_gigae"), place.path().join("gigae")).unwrap();
        fs::create_dir(place.path().join("home")).unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(place.path().join("home"), Permissions::from_mode(0o777)).unwrap();
        Self(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("home").join(name)
    }

    /// Begins a program as a user without capabilities. In a user namespace there is only one user,
    /// root, who must keep one for a further namespace.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        match in_user_namespace() {
            true => command.args(["--bounding-set=-all,+setfcap", "--inh-caps=-all"]),
            false => command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]),
        };
        command.arg(program).current_dir(self.path(""));
        command.env("HOME", self.path("")).env_remove("GIGAE_LOG");
        command
    }

    fn gigae(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.0.path().join("gigae"));
        command.args(arguments);
        command
    }

    fn eval(&self, plan: &str) -> Command {
        fs::write(self.path("plan.toml"), plan).unwrap();
        self.gigae(&["eval", "--plan", "plan.toml", "--out", "out"])
    }

    /// A run that is measuring, and its serving process.
    fn long_run(&self) -> (Child, u32) {
        let mut command = self.eval(&PLAN.replace("seconds = 0.2", "seconds = 60.0"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let serving = serving_process(child.id());
        std::thread::sleep(Duration::from_secs(1));
        (child, serving)
    }
}

/// Waits for the process that a run starts in its other node.
fn serving_process(run: u32) -> u32 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let started = children(run);
        let line = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline"));
        let serves = |pid: &u32| line(pid).is_ok_and(|line| line.contains("--fabric-child"));
        if let Some(serving) = started.iter().copied().find(serves) {
            return serving;
        }
        assert!(Instant::now() < deadline, "it has no serving process: {started:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn says(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// What a process of this number has of virtual networks that this process can see, too.
fn seen_of(prefix: &str) -> Vec<String> {
    let names = ["/run/netns", "/run/gigae-fabric"].map(fs::read_dir).into_iter().flatten();
    let names = names.flatten().flatten().map(|entry| entry.path().display().to_string());
    names.filter(|name| name.contains(&format!("/{prefix}"))).collect()
}

fn until_ended(pid: u32) {
    let deadline = Instant::now() + PATIENCE;
    while is_alive(pid) {
        assert!(Instant::now() < deadline, "process {pid} outlived what started it");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_one_line(output: &Output, words: &[&str]) {
    let said = says(&output.stderr);
    assert!(said.trim_end().lines().count() == 1, "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

const PLAN: &str = r#"
name = "user"
about = "a test: every transport once"
repetitions = 2
max_repetitions = 2
[link.cable]
cable = true
[link.lossy]
rate_mbit = 1000
loss = 0.01
[tcp.nodelay]
nodelay = true
[gigae.udp]
backend = "udp"
[[experiment]]
kind = "rtt"
links = ["cable"]
transports = ["gigae", "xdp", "packet", "udp", "tcp", "icmp"]
gigae = ["default", "udp"]
sizes = [8]
waits = ["sleep"]
seconds = 0.2
warmup = 0.01
[[experiment]]
kind = "stream"
links = ["lossy"]
transports = ["gigae", "tcp"]
gigae = ["default"]
sizes = [1400]
waits = ["sleep"]
seconds = 0.2
warmup = 0.01
"#;

fn all_is_measured_but_what_needs_a_program_of_bpf() {
    let user = User::new();
    let child = user.eval(PLAN).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let prefix = format!("ge{}-", child.id());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", says(&output.stderr));
    assert_eq!(seen_of(&prefix), Vec::<String>::new());
    let text = fs::read_to_string(user.path("out/results.json")).unwrap();
    let results = Results::parse(&text).unwrap();
    let name = |of: &str, variant: Option<&str>| [of, variant.unwrap_or("")].join(" ");
    let mut measured: Vec<String> =
        results.series.iter().map(|one| name(&one.transport, one.variant.as_deref())).collect();
    measured.sort();
    let expected = ["gigae ", "gigae udp", "icmp ", "packet ", "tcp nodelay", "udp "];
    assert_eq!(measured, expected, "{:?}", results.skipped);
    let gigae = results.series.iter().find(|one| one.transport == "gigae" && one.variant.is_none());
    let note = format!("{:?}", gigae.unwrap().note);
    assert!(note.contains("packet"), "{note}");

    let reason = "in a user namespace is not permitted; run as root";
    let skipped: Vec<String> = results
        .skipped
        .iter()
        .inspect(|one| assert!(one.reason.contains(reason), "{one:?}"))
        .map(|one| format!("{} on {}", one.transport, one.link))
        .collect();
    assert_eq!(skipped, ["xdp on cable", "gigae on lossy", "tcp nodelay on lossy"]);
    let report = fs::read_to_string(user.path("out/report.md")).unwrap();
    // The lines of the terminal are wrapped.
    let said = says(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [said, report] {
        assert!(text.contains("loading an XDP program in a user namespace"), "{text}");
        assert!(text.contains("loading the impairment program in a user namespace"), "{text}");
    }
}

fn ctrl_c_ends_a_users_run_with_all_that_it_laid() {
    let user = User::new();
    let (child, serving) = user.long_run();
    let prefix = format!("ge{}-", child.id());
    assert_eq!(seen_of(&prefix), Vec::<String>::new());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    is_one_line(&output, &["interrupted", "nothing is left behind"]);
    assert_eq!(output.status.code(), Some(130));
    assert!(!user.path("out").exists(), "results were begun");
    until_ended(serving);
}

/// A namespace that no process is in, and that has no name, is gone.
fn a_killed_run_of_a_user_leaves_nothing() {
    let user = User::new();
    let (mut child, serving) = user.long_run();
    child.kill().unwrap();
    child.wait().unwrap();
    until_ended(serving);
    assert_eq!(seen_of(&format!("ge{}-", child.id())), Vec::<String>::new());
}

fn a_machine_that_forbids_user_namespaces_is_named_with_the_remedy() {
    let user = User::new();
    // In a user namespace whose root forbids further ones.
    const FORBIDDING: &str = "echo 0 >/proc/sys/user/max_user_namespaces && \
        exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
    let gigae = user.0.path().join("gigae");
    for arguments in [&["eval", "--out", "out"][..], &["fabric", "run", "--", "true"], &["soak"]] {
        let mut command = user.command(Path::new("unshare"));
        command.args(["--user", "--map-root-user", "sh", "-c", FORBIDDING, "sh"]);
        let output = command.arg(&gigae).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        is_one_line(&output, &["user.max_user_namespaces is 0", "run this as root", "sysctl"]);
    }
    assert!(!user.path("out").exists(), "results were begun");
}

fn a_fabric_stands_as_long_as_a_command_runs() {
    let user = User::new();
    let prefix = testing::prefix();
    let gigae = user.0.path().join("gigae").display().to_string();
    // What an interface is called in a node, what there is, and what it ends with.
    let script = format!(
        "{gigae} fabric exec --prefix {prefix} n2 ip -o link show eth0 && \
         {gigae} fabric status --prefix {prefix} && exit 7"
    );
    let run = ["fabric", "run", "--prefix", &prefix, "--cable", "--", "sh", "-c", &script];
    let output = user.gigae(&run).output().unwrap();
    let said = says(&output.stdout);
    assert_eq!(output.status.code(), Some(7), "{said}{}", says(&output.stderr));
    assert!(said.contains("eth0") && said.contains("02:67:69:00:00:02"), "{said}");
    assert_eq!(seen_of(&prefix), Vec::<String>::new());

    // Without a command, only root can have one.
    let output = user.gigae(&["fabric", "up", "--prefix", &prefix]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    is_one_line(&output, &["needs root", "gigae fabric run -- COMMAND"]);

    // A command that is not there leaves nothing, for any user.
    let run = ["fabric", "run", "--prefix", &prefix, "--", "/nowhere"];
    let mut with_privileges = Command::new(env!("CARGO_BIN_EXE_gigae"));
    for command in [&mut user.gigae(&run), with_privileges.args(run)] {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        is_one_line(&output, &["'/nowhere' cannot be run", "check its name"]);
        assert_eq!(seen_of(&prefix), Vec::<String>::new());
    }
}

fn a_signal_ends_the_command_and_the_fabric() {
    let user = User::new();
    let prefix = testing::prefix();
    let run = ["fabric", "run", "--prefix", &prefix, "--", "sh", "-c", "echo here; exec sleep 60"];
    let mut with_privileges = Command::new(env!("CARGO_BIN_EXE_gigae"));
    for command in [&mut user.gigae(&run), with_privileges.args(run)] {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        let started = children(child.id());
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        // As shells say it.
        assert_eq!(child.wait().unwrap().code(), Some(128 + Signal::TERM.as_raw()));
        started.into_iter().for_each(until_ended);
        assert_eq!(seen_of(&prefix), Vec::<String>::new());
    }
}
