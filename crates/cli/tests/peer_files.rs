//! File services between two machines: `gigae serve --allow-files` in one node of a virtual network
//! and `gigae eval --peer` in another, with the real servers and clients.
#![allow(missing_docs)]

use gigae_confine::{Kernel, Landlock};
use gigae_eval_model::results::Results;
use gigae_eval_model::service::{Direction, OWN};
use gigae_eval_session::control::{
    self, FilesReply, FilesRequest, FilesServing, Key, Reply, Request, Session,
};
use gigae_fabric::{Fabric, testing, tests};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A bound against hanging, and nothing else.
const PATIENCE: Duration = Duration::from_secs(300);

/// Who a server of root's is, where there is no user gigae-serve.
const NOBODY: u32 = 65_534;

fn main() {
    testing::run(tests![
        services_of_another_machine_are_measured_and_every_copy_is_compared,
        another_machine_serves_files_only_if_its_owner_allows_it,
        a_server_says_what_is_wrong_with_its_directory,
        jobs_that_ask_for_too_much_are_refused_and_the_session_goes_on,
        a_client_that_fills_the_disk_is_sent_away_even_if_it_never_pauses,
        what_was_measured_counts_when_the_time_of_a_client_is_over,
        a_network_without_ipv4_leaves_file_services_out,
        what_a_client_sends_is_removed_whatever_its_permissions,
        only_the_run_logs_in_and_it_reads_nothing_outside_of_its_directory,
        a_client_that_is_killed_leaves_no_server_and_no_file,
        a_server_that_is_interrupted_or_ended_leaves_no_file
    ]);
}

fn says(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

fn plan(files: &str) -> String {
    format!(
        "name = \"tiny\"\nabout = \"a test\"\nrepetitions = 2\nmax_repetitions = 2\n\
         [link.cable]\n[[experiment]]\nkind = \"stream\"\nlinks = [\"cable\"]\n\
         transports = [\"tcp\"]\nsizes = [65536]\nwaits = [\"sleep\"]\nseconds = 0.05\n\
         warmup = 0.02\n{files}"
    )
}

fn files(service: &str, more: &str) -> String {
    format!("[[files]]\nservice = \"{service}\"\nlinks = [\"cable\"]\n{more}\n")
}

/// Two machines, and a directory with a key, a plan and the directory that is lent.
struct Machines {
    place: tempfile::TempDir,
    fabric: Fabric,
}

/// A server and what it says. It is killed with this value, if it lives.
struct Serving {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    /// Waits until the server says something with these words.
    fn wait_for_line(&self, words: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect(words);
            if line.contains(words) {
                return line;
            }
        }
    }
}

impl Machines {
    fn new(test: &str, plan: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o755));
        // The server is another user, who has to reach its program and its directory.
        mode(place.path()).unwrap();
        let machines = Self { place, fabric: testing::fabric(test, |_| ()) };
        std::fs::write(machines.path("plan.toml"), plan).unwrap();
        Key::create(&machines.path("key")).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_gigae"), machines.path("gigae")).unwrap();
        mode(&machines.path("gigae")).unwrap();
        std::fs::create_dir(machines.path("lent")).unwrap();
        chown(machines.path("lent"), Some(NOBODY), None).unwrap();
        machines
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn lent(&self) -> String {
        self.path("lent").display().to_string()
    }

    fn command(&self, node: u16) -> Command {
        let mut command = self.fabric.node(node).command(self.path("gigae")).unwrap();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn serve(&self, more: &[&str]) -> Serving {
        self.serve_by(self.command(2), more)
    }

    /// The same by a command that begins like this.
    fn serve_by(&self, mut command: Command, more: &[&str]) -> Serving {
        command.args(["serve", "--nic", "eth0", "--cpu", "0", "--key"]).arg(self.path("key"));
        let mut child = command.args(more).spawn().unwrap();
        let (sender, lines) = channel();
        let reader = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            reader.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Serving { child, lines }
    }

    fn eval(&self) -> Command {
        self.eval_with(&self.fabric.node(2).ipv4.to_string())
    }

    fn eval_with(&self, peer: &str) -> Command {
        let mut command = self.command(1);
        command.args(["eval", "--nic", "eth0", "--peer", peer, "--key"]).arg(self.path("key"));
        command.arg("--plan").arg(self.path("plan.toml")).arg("--out").arg(self.path("out"));
        command.env("TMPDIR", self.place.path());
        command
    }

    fn results(&self, output: &Output) -> Results {
        assert!(output.status.success(), "{}", says(&output.stderr));
        let text = std::fs::read_to_string(self.path("out/results.json")).unwrap();
        Results::parse(&text).unwrap()
    }

    /// A client's session, without a run.
    fn session(&self) -> Session {
        let key = Key::read(&self.path("key")).unwrap();
        let _inside = self.fabric.node(1).enter().unwrap();
        control::connect(&self.fabric.node(2).ipv4.to_string(), &key, &mut |_| true).unwrap()
    }

    /// Whether a file can be sent to a server of files by FTP.
    fn sends(&self, at: &FilesServing, file: &str, to: &str) -> bool {
        self.curl(at, file, to).status().unwrap().success()
    }

    fn curl(&self, at: &FilesServing, file: &str, to: &str) -> Command {
        let mut curl = self.fabric.node(1).command("curl").unwrap();
        curl.args(["--silent", "--user", &format!("anonymous:{}", at.password), "--upload-file"]);
        curl.arg(file).arg(format!("ftp://{}:{}/{to}", at.ip, at.port)).stdout(Stdio::null());
        curl
    }

    /// What is in the lent directory.
    fn kept(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("lent")).unwrap().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Processes whose command lines name the lent directory, other than `gigae serve` itself.
    fn servers(&self, serving: &Serving) -> Vec<u32> {
        let numbers = std::fs::read_dir("/proc").unwrap().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let ours = |pid: &u32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            *pid != serving.child.id() && says(&words).contains(&self.lent())
        };
        numbers.filter(ours).collect()
    }

    /// Waits until neither a file nor a server is left.
    fn wait_for_nothing(&self, serving: &Serving) {
        until("the end of files and servers", || {
            self.kept().is_empty() && self.servers(serving).is_empty()
        });
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn services_of_another_machine_are_measured_and_every_copy_is_compared() {
    let both = "sizes = [1_000_000]\nto = [\"disk\"]\ndirections = [\"get\", \"put\"]";
    let tree = "sizes = [5_000]\nfiles = [100]\nto = [\"disk\"]\ndirections = [\"get\", \"put\"]";
    let mut text = files("ftp", "sizes = [1_000_000]\nconnections = [\"new\", \"kept\"]");
    text += &files("ftp", both);
    text += &files("ftp", "sizes = [5_000]\nfiles = [100]\nto = [\"disk\"]");
    for service in ["lftp", "rsync", OWN] {
        text += &(files(service, both) + &files(service, tree));
    }
    text += &files("smb", "sizes = [1_000_000]");
    let machines = Machines::new("peer_files", &plan(&text));
    let serving = machines.serve(&["--allow-files", &machines.lent()]);
    serving.wait_for_line("confined to");
    let results = machines.results(&machines.eval().output().unwrap());
    assert_eq!(results.files.len(), 5 + 2 * 4 + 2, "{:?}", results.skipped);
    for one in &results.files {
        let copies = if one.cell.direction == Direction::Get { 1 } else { 2 };
        assert!(one.verified >= copies, "{one:?}");
        assert_eq!(one.repetitions.len(), 2, "{one:?}");
        for cost in [&one.server, &one.client] {
            assert!(cost.seconds > 0.0 && cost.rx_frames > 0 && cost.tx_frames > 0, "{one:?}");
        }
        assert!(one.file_system.as_ref().unwrap().contains(&machines.lent()), "{one:?}");
        assert!(!one.version.is_empty(), "{one:?}");
        // A large file is worth some hundred frames at both ends.
        let frames = one.cell.bytes() / 10_000;
        assert!(one.server.rx_frames + one.server.tx_frames > frames, "{one:?}");
    }
    let skipped = |service: &str| {
        let all = results.skipped.iter().filter(|one| one.transport == service);
        all.map(|one| one.reason.clone()).collect::<Vec<_>>()
    };
    let smb = skipped("smb");
    assert!(smb.len() == 1 && smb[0].contains("has given up root"), "{:?}", results.skipped);
    assert_eq!(skipped("file services, TCP as ours").len(), 1, "{:?}", results.skipped);
    let own = skipped(OWN);
    assert!(own.len() == 2 && own[0].contains("not authenticated"), "{:?}", results.skipped);
    assert_eq!(results.skipped.len(), 4, "{:?}", results.skipped);
    machines.wait_for_nothing(&serving);
}

fn another_machine_serves_files_only_if_its_owner_allows_it() {
    let machines = Machines::new("peer_refused", &plan(&files("ftp", "sizes = [1000]")));
    let lent = machines.lent();
    let serving = machines.serve(&[]);
    serving.wait_for_line("confined to");
    let results = machines.results(&machines.eval().output().unwrap());
    assert!(results.files.is_empty());
    let skipped = results.skipped.iter().find(|one| one.transport == "ftp").unwrap();
    let words = "start 'gigae serve --allow-files DIR' on 198.18.0.2";
    assert!(skipped.reason.contains(words), "{skipped:?}");
    assert_eq!(skipped.reason.lines().count(), 1, "{skipped:?}");
    drop(serving);
    let serving = machines.serve(&["--allow-files", &lent]);
    serving.wait_for_line("confined to");
    std::fs::remove_file(machines.path("key")).unwrap();
    Key::create(&machines.path("key")).unwrap();
    let output = machines.eval().output().unwrap();
    let error = says(&output.stderr);
    assert!(!output.status.success() && error.contains("key"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    machines.wait_for_nothing(&serving);
}

fn a_server_says_what_is_wrong_with_its_directory() {
    let machines = Machines::new("peer_directory", &plan(""));
    let fails = |more: &[&str], words: &str| {
        let mut command = machines.command(2);
        command.args(["serve", "--nic", "eth0", "--key"]).arg(machines.path("key")).args(more);
        let output = command.output().unwrap();
        let error = says(&output.stderr);
        assert!(!output.status.success() && error.contains(words), "{error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    };
    let missing = machines.path("missing").display().to_string();
    fails(&["--allow-files", &missing], &format!("run 'mkdir {missing}'"));
    let file = machines.path("plan.toml").display().to_string();
    fails(&["--allow-files", &file], "Not a directory");
    let lent = machines.lent();
    chown(machines.path("lent"), Some(0), None).unwrap();
    let mode = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(machines.path("lent"), mode).unwrap();
    fails(&["--allow-files", &lent], &format!("run 'chown {NOBODY} {lent}'"));
    let config = machines.path("serve.toml").display().to_string();
    std::fs::write(&config, format!("allow_tuning = true\nallow_files = \"{lent}\"\n")).unwrap();
    fails(&["--config", &config], "--allow-tuning");
    for other in [&["--one-port"][..], &["--max-rate", "100mbit"]] {
        fails(&[&["--allow-files", &lent], other].concat(), "start one 'gigae serve' with");
    }
}

fn ask(session: &mut Session, request: FilesRequest) -> Reply {
    session.ask(&Request::Files(request), PATIENCE).unwrap()
}

fn serve_request(service: &str, files: &[(u64, u32)], sent: Option<u64>) -> FilesRequest {
    let job = gigae_eval_model::file_job::FileJob {
        service: service.to_owned(),
        files: files.to_vec(),
        sent,
    };
    FilesRequest::Serve(Box::new(job))
}

fn refusal(reply: Reply) -> String {
    match reply {
        Reply::Failed { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

fn jobs_that_ask_for_too_much_are_refused_and_the_session_goes_on() {
    let machines = Machines::new("peer_jobs", &plan(""));
    let serving = machines.serve(&["--allow-files", &machines.lent()]);
    serving.wait_for_line("confined to");
    let mut session = machines.session();
    assert!(refusal(ask(&mut session, FilesRequest::Begin)).contains("nothing is running"));
    let room = rustix::fs::statvfs(machines.path("lent")).unwrap();
    let all = room.f_bavail * room.f_frsize;
    for (request, words) in [
        (serve_request("sh", &[], None), "unknown service"),
        (serve_request("ftp", &[(0, 1)], None), "sizes"),
        (serve_request("ftp", &[(1, 1); 101], None), "at most 100"),
        (serve_request("ftp", &[], Some(u64::MAX)), "at most"),
        (serve_request("ftp", &[], Some(all.min(64 << 30))), "--allow-files"),
        (serve_request("nfs", &[(1, 1)], None), "given up root"),
        (serve_request(OWN, &[(1, 1)], Some(1)), "not authenticated"),
    ] {
        // A disk with more room than any job may ask for has nothing to refuse.
        if matches!(&request, FilesRequest::Serve(job) if job.sent == Some(64 << 30)) {
            continue;
        }
        let why = refusal(ask(&mut session, request));
        assert!(why.contains(words) && why.lines().count() == 1, "{why}");
    }
    let reply = ask(&mut session, serve_request("ftp", &[(1000, 1)], Some(1000)));
    let Reply::Files(FilesReply::Serving(serving_at)) = reply else { panic!("{reply:?}") };
    assert_eq!((serving_at.hashes.len(), machines.servers(&serving).is_empty()), (1, false));
    // One at a time, and no way out of the directory.
    let again = serve_request("ftp", &[(1000, 1)], None);
    assert!(refusal(ask(&mut session, again)).contains("end it first"));
    for sent in ["", ".", "..", "../1000", "/etc/passwd", "a/b"] {
        let (sent, file) = (sent.to_owned(), "1000".to_owned());
        let why = refusal(ask(&mut session, FilesRequest::Compare { sent, file }));
        assert!(why.contains("without '/'"), "{why}");
    }
    let cancelled = session.ask(&Request::Cancel, PATIENCE).unwrap();
    assert_eq!(cancelled, Reply::Cancelled);
    until("the server's end", || machines.servers(&serving).is_empty());
    drop(session);
    machines.wait_for_nothing(&serving);
}

fn only_the_run_logs_in_and_it_reads_nothing_outside_of_its_directory() {
    let machines = Machines::new("peer_login", &plan(""));
    let serving = machines.serve(&["--allow-files", &machines.lent()]);
    serving.wait_for_line("confined to");
    let mut session = machines.session();
    // Every user of the machine may read it.
    let outside = machines.path("plan.toml");
    std::fs::set_permissions(&outside, PermissionsExt::from_mode(0o644)).unwrap();
    let outside = outside.display().to_string();
    // The server's user owns it, and it is in the directory that the server may write to.
    let owners = machines.path("lent/owners");
    std::fs::write(&owners, "private").unwrap();
    chown(&owners, Some(NOBODY), None).unwrap();
    let owners = owners.display().to_string();
    for service in ["ftp", "rsync"] {
        let reply = ask(&mut session, serve_request(service, &[(1000, 1)], None));
        let Reply::Files(FilesReply::Serving(at)) = reply else { panic!("{reply:?}") };
        let fetch = |password: &str, file: &str| {
            let (from, to) = (format!("{}:{}", at.ip, at.port), machines.path("copy"));
            let program = if service == "ftp" { "curl" } else { "rsync" };
            let mut command = machines.fabric.node(1).command(program).unwrap();
            if service == "ftp" {
                command.args(["--silent", "--max-time", "60", "--user"]);
                command.arg(format!("anonymous:{password}"));
                command.arg(format!("ftp://{from}/{file}")).arg("--output").arg(&to);
            } else {
                command.env("RSYNC_PASSWORD", password);
                command.arg(format!("rsync://gigae@{from}/files/{file}")).arg(&to);
            }
            let ended = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
            // Whatever it says of itself, what counts is the copy.
            let copied = std::fs::read(&to).ok().filter(|bytes| !bytes.is_empty());
            let _ = std::fs::remove_file(&to);
            (ended.success(), copied.is_some())
        };
        assert_eq!(fetch(&at.password, "1000"), (true, true), "{service}");
        for password in ["", "guest@example.com", &at.password[1..]] {
            assert_eq!(fetch(password, "1000"), (false, false), "{service}");
        }
        // A kernel without Landlock leaves vsftpd all files of its user, and the server says so.
        if Kernel::look().landlock >= Landlock::Files || service == "rsync" {
            for file in [format!("/{outside}"), "../../../plan.toml".into()] {
                assert!(!fetch(&at.password, &file).1, "{service}: {file}");
            }
            for file in [format!("/{owners}"), "/proc/self/status".into(), "/etc/hostname".into()] {
                assert!(!fetch(&at.password, &format!("/{file}")).1, "{service}: {file}");
            }
        } else {
            serving.wait_for_line("without Landlock");
        }
        if service == "ftp" {
            assert!(!machines.sends(&at, &outside, "in/1000"), "the job sends nothing");
            assert_eq!(session.ask(&Request::Cancel, PATIENCE).unwrap(), Reply::Cancelled);
            let reply = ask(&mut session, serve_request("ftp", &[(1000, 1)], Some(1000)));
            let Reply::Files(FilesReply::Serving(at)) = reply else { panic!("{reply:?}") };
            assert!(machines.sends(&at, &outside, "in/1000"));
            if Kernel::look().landlock >= Landlock::Files {
                let elsewhere = machines.path("lent/elsewhere").display().to_string();
                let sent = machines.sends(&at, &outside, &format!("/{elsewhere}"));
                assert!(!sent && !Path::new(&elsewhere).exists());
            }
        }
        assert_eq!(session.ask(&Request::Cancel, PATIENCE).unwrap(), Reply::Cancelled);
    }
}

fn a_client_that_fills_the_disk_is_sent_away_even_if_it_never_pauses() {
    let machines = Machines::new("peer_full", &plan(""));
    // A disk that only the server sees, and that goes with it.
    let script = "mount -t tmpfs -o size=64m,uid=65534 gigae \"$1\"; shift; exec \"$@\"";
    let mut command = machines.fabric.node(2).command("unshare").unwrap();
    command.args(["--mount", "sh", "-c", script, "sh", &machines.lent()]);
    command.arg(machines.path("gigae")).stderr(Stdio::piped());
    let serving = machines.serve_by(command, &["--allow-files", &machines.lent()]);
    serving.wait_for_line("confined to");
    let large = machines.path("large");
    std::fs::write(&large, vec![1; 60_000_000]).unwrap();
    let large = large.display().to_string();
    for pauses in [true, false] {
        let mut session = machines.session();
        let much = serve_request("ftp", &[(1000, 1)], Some(60_000_000));
        assert!(refusal(ask(&mut session, much)).contains("make room"));
        let reply = ask(&mut session, serve_request("ftp", &[(1000, 1)], Some(1000)));
        let Reply::Files(FilesReply::Serving(at)) = reply else { panic!("{reply:?}") };
        // It sends far more than it has said.
        let mut curl = machines.curl(&at, &large, "in/large").spawn().unwrap();
        let reply = loop {
            if !pauses {
                session.send(&Request::Files(FilesRequest::End)).unwrap();
            }
            match session.receive(PATIENCE).unwrap() {
                Reply::Failed { reason, .. } => assert!(reason.contains("has begun"), "{reason}"),
                other => break other,
            }
        };
        let Reply::Over { reason } = reply else { panic!("{reply:?}") };
        assert!(reason.contains("filled the disk") && reason.lines().count() == 1, "{reason}");
        until("the server's end", || machines.servers(&serving).is_empty());
        curl.wait().unwrap();
        drop(session);
        serving.wait_for_line("filled the disk");
    }
}

fn what_was_measured_counts_when_the_time_of_a_client_is_over() {
    // A thousand of these take minutes.
    let machines = Machines::new("peer_time", &long_plan());
    let more = ["--allow-files", &machines.lent(), "--max-duration", "30s"];
    let serving = machines.serve(&more);
    serving.wait_for_line("confined to");
    let results = machines.results(&machines.eval().output().unwrap());
    assert!(!results.series.is_empty(), "{results:?}");
    assert!(!results.files[0].repetitions.is_empty(), "{results:?}");
    let over = results.skipped.iter().find(|one| one.reason.contains("--max-duration")).unwrap();
    assert_eq!(over.reason.lines().count(), 1, "{over:?}");
    machines.wait_for_nothing(&serving);
}

fn a_network_without_ipv4_leaves_file_services_out() {
    let machines = Machines::new("peer_v6", &plan(&files("ftp", "sizes = [1000]")));
    for node in [1, 2] {
        let mut ip = machines.fabric.node(node).command("ip").unwrap();
        assert!(ip.args("-4 address flush dev eth0".split(' ')).status().unwrap().success());
    }
    let serving = machines.serve(&["--allow-files", &machines.lent()]);
    serving.wait_for_line("confined to");
    let peer = machines.fabric.node(2).ipv6.to_string();
    let results = machines.results(&machines.eval_with(&peer).output().unwrap());
    assert!(!results.series.is_empty() && results.files.is_empty(), "{results:?}");
    let skipped = results.skipped.iter().find(|one| one.reason.contains("IPv4")).unwrap();
    assert_eq!(skipped.reason.lines().count(), 1, "{skipped:?}");
}

fn what_a_client_sends_is_removed_whatever_its_permissions() {
    let machines = Machines::new("peer_modes", &plan(""));
    let serving = machines.serve(&["--allow-files", &machines.lent()]);
    serving.wait_for_line("confined to");
    let tree = machines.path("tree");
    std::fs::create_dir_all(tree.join("closed/below")).unwrap();
    std::fs::write(tree.join("closed/below/file"), "x").unwrap();
    for directory in ["closed/below", "closed"] {
        let closed = PermissionsExt::from_mode(0o000);
        std::fs::set_permissions(tree.join(directory), closed).unwrap();
    }
    for ends in ["cancelled", "dropped"] {
        let mut session = machines.session();
        let reply = ask(&mut session, serve_request("rsync", &[(1000, 1)], Some(1000)));
        let Reply::Files(FilesReply::Serving(at)) = reply else { panic!("{reply:?}") };
        let mut rsync = machines.fabric.node(1).command("rsync").unwrap();
        rsync.env("RSYNC_PASSWORD", &at.password).args(["--recursive", "--perms"]);
        rsync.arg(&tree).arg(format!("rsync://gigae@{}:{}/files/in/", at.ip, at.port));
        assert!(rsync.status().unwrap().success());
        let there = |kept: &PathBuf| kept.join("export/in/tree").exists();
        assert!(machines.kept().iter().any(there), "{:?}", machines.kept());
        if ends == "cancelled" {
            assert_eq!(session.ask(&Request::Cancel, PATIENCE).unwrap(), Reply::Cancelled);
            assert!(!machines.kept().iter().any(there), "{:?}", machines.kept());
        }
        drop(session);
        machines.wait_for_nothing(&serving);
    }
}

/// Starts a run whose transfer takes long, and waits for its server.
fn long_run(machines: &Machines, serving: &Serving) -> Child {
    let child = machines.eval().spawn().unwrap();
    until("the server", || !machines.servers(serving).is_empty());
    child
}

fn long_plan() -> String {
    plan(&files("ftp", "sizes = [20_000_000]\nrepetitions = 1000"))
}

fn a_client_that_is_killed_leaves_no_server_and_no_file() {
    let machines = Machines::new("peer_killed", &long_plan());
    let serving = machines.serve(&["--allow-files", &machines.lent()]);
    serving.wait_for_line("confined to");
    let mut child = long_run(&machines, &serving);
    assert!(!machines.kept().is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    machines.wait_for_nothing(&serving);
    serving.wait_for_line("client ");
    // And the next one is served.
    let mut session = machines.session();
    let reply = ask(&mut session, serve_request("ftp", &[(1000, 1)], None));
    assert!(matches!(reply, Reply::Files(FilesReply::Serving(_))), "{reply:?}");
}

fn a_server_that_is_interrupted_or_ended_leaves_no_file() {
    let machines = Machines::new("peer_ended", &long_plan());
    for signal in ["-INT", "-TERM", "-KILL"] {
        let mut serving = machines.serve(&["--allow-files", &machines.lent()]);
        serving.wait_for_line("confined to");
        let mut child = long_run(&machines, &serving);
        let pid = serving.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        serving.child.wait().unwrap();
        until("the server's end", || machines.servers(&serving).is_empty());
        // What one that was killed has left goes when the next one starts.
        assert_eq!(machines.kept().is_empty(), signal != "-KILL", "{:?}", machines.kept());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let serving = machines.serve(&["--allow-files", &machines.lent()]);
    serving.wait_for_line("confined to");
    machines.wait_for_nothing(&serving);
}
