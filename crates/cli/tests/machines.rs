//! Two machines: `gigae serve` in one node of a virtual network and `gigae eval` in another, as a
//! person would run them.
#![allow(missing_docs)]

use gigae_eval_measure::site::Site;
use gigae_eval_model::doubt::Code;
use gigae_eval_model::results::Results;
use gigae_eval_serve::{self as serve, Presence, ServeConfig, Service};
use gigae_eval_session::control::{self, ControlError, Key, Reply, Request};
use gigae_fabric::{Fabric, testing, tests};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A bound against hanging, and nothing else.
const PATIENCE: Duration = Duration::from_secs(300);

fn main() {
    testing::run(tests![
        two_clients_at_once_are_served_one_after_the_other,
        a_client_that_is_killed_leaves_nothing_at_the_server,
        a_cut_cable_is_noticed_by_both_ends,
        what_the_owner_allows_is_kept_and_said_by_one_port,
        prometheus_has_data_for_every_panel_of_the_dashboard,
        machines_without_ipv4_measure_each_other,
        a_server_needs_three_capabilities_and_not_root,
        a_server_without_any_capability_measures_udp_sockets,
        a_server_of_roots_gives_up_root,
        what_is_repeated_has_a_directory_for_each_time,
        keys_are_made_once_and_kept_secret
    ]);
}

fn says(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

fn plan(experiments: &[(&str, &str, &str, f64)]) -> String {
    let mut text = "name = \"tiny\"\nabout = \"a test\"\nrepetitions = 2\nmax_repetitions = 2\n\
        [link.gigabit]\nrate_mbit = 1000\n[tcp.nodelay]\nnodelay = true\nbuffer = 131072\n"
        .to_owned();
    for (kind, transports, size, seconds) in experiments {
        text += &format!(
            "[[experiment]]\nkind = \"{kind}\"\nlinks = [\"gigabit\"]\ntransports = [{transports}]\n\
            sizes = [{size}]\nwaits = [\"sleep\"]\nseconds = {seconds}\nwarmup = 0.02\n"
        );
    }
    text
}

/// A plan whose last experiment has GigaE messages over AF_XDP, which these virtual networks have
/// in one mode only.
fn by_xdp(plan: String) -> String {
    plan + "gigae = [\"xdp\"]\n[gigae.xdp]\nbackend = \"generic\"\n"
}

/// The two of them, and a directory with a key and a plan.
struct Machines {
    serve: Child,
    lines: Receiver<String>,
    place: tempfile::TempDir,
    fabric: Fabric,
    peer: String,
}

impl Machines {
    fn new(test: &str, plan: &str, serve: &[&str]) -> Self {
        let fabric = testing::fabric(test, |_| ());
        let peer = fabric.node(2).ipv4.to_string();
        Self::on(fabric, peer, plan, &[], serve)
    }

    /// `before` is what starts the server: a program and its arguments, if it is another.
    fn on(fabric: Fabric, peer: String, plan: &str, before: &[&str], serve: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("plan.toml"), plan).unwrap();
        let key = place.path().join("key");
        Key::create(&key).unwrap();
        if !before.is_empty() {
            // For the user that the server is to be.
            use std::os::unix::fs::{PermissionsExt, chown};
            std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
            chown(&key, Some(65_534), None).unwrap();
        }
        let gigae = [env!("CARGO_BIN_EXE_gigae"), "serve", "--nic", "eth0", "--cpu", "0"];
        let words = [before, &gigae, serve].concat();
        let mut command = fabric.node(2).command(words[0]).unwrap();
        command.args(&words[1..]).arg("--key").arg(key).stderr(Stdio::piped());
        let mut serve = command.spawn().unwrap();
        let (sender, lines) = channel();
        let reader = BufReader::new(serve.stderr.take().unwrap());
        std::thread::spawn(move || {
            reader.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let machines = Self { serve, lines, place, fabric, peer };
        machines.wait_for_line("serving on");
        machines
    }

    /// Waits until the server says something with these words.
    fn wait_for_line(&self, words: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect(words);
            if line.contains(words) {
                return line;
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn eval(&self, out: &str) -> Command {
        let mut command = self.fabric.node(1).command(env!("CARGO_BIN_EXE_gigae")).unwrap();
        command.args(["eval", "--nic", "eth0", "--peer", &self.peer, "--key"]);
        command.arg(self.path("key")).arg("--plan").arg(self.path("plan.toml"));
        command.arg("--out").arg(self.path(out)).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn results(&self, output: &Output, out: &str) -> Results {
        assert!(output.status.success(), "{}", says(&output.stderr));
        let text = std::fs::read_to_string(self.path(out).join("results.json")).unwrap();
        let results = Results::parse(&text).unwrap();
        assert!(results.skipped.is_empty(), "{:?}", results.skipped);
        results
    }

    /// What kinds of descriptors the server has.
    fn descriptors(&self) -> Vec<String> {
        let all = std::fs::read_dir(format!("/proc/{}/fd", self.serve.id())).unwrap().flatten();
        // One that was closed since the listing does not count.
        let kinds = all.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let kind = |link: PathBuf| link.to_string_lossy().split(':').next().unwrap().to_owned();
        let mut kinds: Vec<_> = kinds.map(kind).collect();
        kinds.sort();
        kinds
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        let _ = self.serve.kill();
        let _ = self.serve.wait();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ip(fabric: &Fabric, node: u16, arguments: &str) -> String {
    let mut command = fabric.node(node).command("ip").unwrap();
    let output = command.args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", says(&output.stderr));
    says(&output.stdout)
}

fn two_clients_at_once_are_served_one_after_the_other() {
    let machines = Machines::new("two_clients", &plan(&[("rtt", "\"tcp\"", "8", 0.5)]), &[]);
    let key = Key::read(&machines.path("key")).unwrap();
    // Has its turn until the second one has said that it waits.
    let mut first = {
        let _inside = machines.fabric.node(1).enter().unwrap();
        control::connect(&machines.peer, &key, &mut |_| true).unwrap()
    };
    let mut second = machines.eval("out").spawn().unwrap();
    let mut said = BufReader::new(second.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("waiting: 1 client is before this one"), "{line}");
    let described = first.ask(&Request::Describe, PATIENCE);
    assert!(matches!(described, Ok(Reply::Description(_))), "{described:?}");
    drop(first);
    let mut output = second.wait_with_output().unwrap();
    said.read_to_end(&mut output.stderr).unwrap();
    assert_eq!(machines.results(&output, "out").series.len(), 1);
    assert!(!says(&output.stderr).contains("waiting"), "{}", says(&output.stderr));
}

fn a_client_that_is_killed_leaves_nothing_at_the_server() {
    let plan = by_xdp(plan(&[("rtt", "\"gigae\"", "8", 20.0)]));
    let machines = Machines::new("killed_client", &plan, &["--metrics", "127.0.0.1:9488"]);
    // Who answers has opened everything.
    scrape(&machines.fabric);
    let before = machines.descriptors();
    for out in ["one", "two"] {
        let mut child = machines.eval(out).spawn().unwrap();
        let program = || ip(&machines.fabric, 2, "-d link show eth0").contains("xdp");
        until("the endpoint's program", program);
        child.kill().unwrap();
        child.wait().unwrap();
        machines.wait_for_line("client ");
        until("the program's end", || !program());
        until(&format!("{before:#?}"), || machines.descriptors() == before);
    }
}

fn a_cut_cable_is_noticed_by_both_ends() {
    let fabric = testing::fabric("cut", |_| ());
    let (key, stop) = (Key::random().unwrap(), AtomicBool::new(false));
    let (sender, lines) = channel();
    let (port, listens) = channel();
    // A short time, and not 20 s.
    let gone_after = Duration::from_secs(4);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _inside = fabric.node(2).enter().unwrap();
            let listener = TcpListener::bind((fabric.node(2).ipv4, 0)).unwrap();
            port.send(listener.local_addr().unwrap()).unwrap();
            let site = Site::find("eth0").unwrap();
            let service = Service {
                listener: &listener,
                key: &key,
                site: &site,
                presence: Presence::none(),
                config: ServeConfig { gone_after, ..ServeConfig::default() },
                metrics: None,
            };
            let mut log = |line: &str| sender.send(line.to_owned()).unwrap();
            serve::serve(service, &stop, &mut log).unwrap();
        });
        let _inside = fabric.node(1).enter().unwrap();
        let peer = listens.recv_timeout(PATIENCE).unwrap().to_string();
        let mut session = control::connect(&peer, &key, &mut |_| true).unwrap();
        session.gone_after(gone_after).unwrap();
        let described = |session: &mut control::Session| {
            matches!(session.ask(&Request::Describe, PATIENCE), Ok(Reply::Description(_)))
        };
        assert!(described(&mut session));
        ip(&fabric, 1, "link set eth0 down");
        let line = lines.recv_timeout(PATIENCE).unwrap();
        assert!(line.contains("does not answer any more"), "{line}");
        let end: Result<Reply, _> = session.receive(PATIENCE);
        assert!(matches!(end, Err(ControlError::Gone)), "{end:?}");
        ip(&fabric, 1, "link set eth0 up");
        fabric.await_links().unwrap();
        let mut again = control::connect(&peer, &key, &mut |_| true).unwrap();
        assert!(described(&mut again), "the server was lost with its client");
        stop.store(true, Ordering::Relaxed);
    });
}

fn what_the_owner_allows_is_kept_and_said_by_one_port() {
    let experiments = [("stream", "\"udp\", \"tcp\", \"gigae\", \"packet\"", "1400", 0.5)];
    let config = "max_rate = \"20mbit\"\nmax_duration = \"30s\"\none_port = true\n\
        allow = [\"198.18.0.0/15\"]\nmetrics = \"127.0.0.1:9488\"\n";
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("serve.toml");
    std::fs::write(&file, config).unwrap();
    let serve = ["--config", file.to_str().unwrap()];
    let machines = Machines::new("limits", &plan(&experiments), &serve);
    let results = machines.results(&machines.eval("out").output().unwrap(), "out");
    assert_eq!(results.series.len(), 4);
    for series in &results.series {
        // 2.5 MB/s, and what may have gathered on the way.
        assert!(series.median > 0.0 && series.median < 3.0, "{series:?}");
    }
    assert!(results.doubts.iter().any(|doubt| doubt.code == Some(Code::Limited)), "{results:?}");
    let page = scrape(&machines.fabric);
    let arrived = "gigae_serve_repetitions_total{experiment=\"stream\",transport=\"tcp\"} 2";
    assert!(page.lines().any(|line| line == arrived), "{page}");

    std::fs::write(machines.path("plan.toml"), plan(&[("rtt", "\"tcp\"", "8", 20.0)])).unwrap();
    let long = machines.eval("long").output().unwrap();
    let error = says(&long.stderr);
    assert!(error.contains("--max-duration") && error.lines().count() == 1, "{error}");
    assert!(!long.status.success() && !machines.path("long").exists());
}

fn scrape(fabric: &Fabric) -> String {
    let _inside = fabric.node(2).enter().unwrap();
    let mut stream = TcpStream::connect("127.0.0.1:9488").unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A Prometheus that reads the server's metrics, in its node of the network.
struct Prometheus<'a> {
    process: Child,
    fabric: &'a Fabric,
}

impl<'a> Prometheus<'a> {
    fn new(machines: &'a Machines) -> Self {
        let config = "global:\n  scrape_interval: 200ms\nscrape_configs:\n- job_name: gigae\n  \
            static_configs:\n  - targets: ['127.0.0.1:9488']\n";
        let file = machines.path("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let mut command = machines.fabric.node(2).command("prometheus").unwrap();
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", machines.path("data").display()));
        command.args(["--web.listen-address=127.0.0.1:9490", "--log.level=error"]);
        Self { process: command.spawn().expect("prometheus"), fabric: &machines.fabric }
    }

    /// What an expression is now: a list of samples. `None` while Prometheus is not ready.
    fn query(&self, expression: &str) -> Option<Vec<serde_json::Value>> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let _inside = self.fabric.node(2).enter().unwrap();
        let mut stream = TcpStream::connect("127.0.0.1:9490").ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET /api/v1/query?query={encoded} HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        if head.contains(" 503 ") {
            return None;
        }
        let answer: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(answer["status"], "success", "{expression}: {body}");
        Some(answer["data"]["result"].as_array().unwrap().clone())
    }
}

impl Drop for Prometheus<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn prometheus_has_data_for_every_panel_of_the_dashboard() {
    let dashboard = include_str!("../../eval/serve/grafana/gigae-serve.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let plan = plan(&[("stream", "\"tcp\"", "1400", 0.5), ("rtt", "\"tcp\"", "8", 0.5)]);
    let machines = Machines::new("prometheus", &plan, &["--metrics", "127.0.0.1:9488"]);
    let prometheus = Prometheus::new(&machines);
    until("Prometheus", || prometheus.query("up == 1").is_some_and(|up| up.len() == 1));
    machines.results(&machines.eval("out").output().unwrap(), "out");
    let mut count = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            // As Grafana replaces its variables.
            let expression = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
            let expression = expression.replace("$job", ".*").replace("$instance", ".*");
            until(&expression, || !prometheus.query(&expression).unwrap().is_empty());
            count += 1;
        }
    }
    assert!(count >= 12, "{count} expressions");
    let repetitions = "sum(gigae_serve_repetitions_total)";
    until(repetitions, || prometheus.query(repetitions).unwrap()[0]["value"][1] == "4");
    let info = prometheus.query("gigae_build_info").unwrap();
    assert_eq!(info[0]["metric"]["version"], gigae_eval_measure::environment::VERSION);
}

fn machines_without_ipv4_measure_each_other() {
    let fabric = testing::fabric("ipv6", |_| ());
    for node in [1, 2] {
        ip(&fabric, node, "-4 address flush dev eth0");
    }
    let peer = fabric.node(2).ipv6.to_string();
    let experiments = [("rtt", "\"udp\", \"tcp\", \"gigae\", \"packet\"", "8", 0.05)];
    let machines = Machines::on(fabric, peer, &plan(&experiments), &[], &[]);
    let results = machines.results(&machines.eval("out").output().unwrap(), "out");
    assert_eq!(results.series.len(), 4);
}

fn a_server_needs_three_capabilities_and_not_root() {
    let experiments = [("rtt", "\"udp\", \"tcp\", \"icmp\", \"gigae\", \"packet\"", "8", 0.05)];
    let fabric = testing::fabric("capabilities", |_| ());
    let peer = fabric.node(2).ipv4.to_string();
    // What the unit gives it; the last of them is LimitMEMLOCK=infinity, which not every machine of
    // tests may set.
    let these = "+net_admin,+net_raw,+bpf,+ipc_lock";
    let all_but_these = format!("-all,{these}");
    let user = "--reuid 65534 --regid 65534 --clear-groups --no-new-privs";
    let mut before: Vec<_> = ["setpriv"].into_iter().chain(user.split(' ')).collect();
    before.extend(["--inh-caps", these, "--ambient-caps", these, "--bounding-set", &all_but_these]);
    let plan = by_xdp(plan(&experiments));
    let machines = Machines::on(fabric, peer, &plan, &before, &[]);
    let results = machines.results(&machines.eval("out").output().unwrap(), "out");
    assert_eq!(results.series.len(), 5);
    let gigae = results.series.iter().find(|series| series.transport == "gigae").unwrap();
    assert!(
        gigae.note.as_ref().is_some_and(|note| note.to_string().contains("xdp")),
        "{:?}",
        gigae.note
    );
}

/// What an ordinary user can serve: UDP sockets. In the cluster file's UDP envelope it can also be
/// found.
fn a_server_without_any_capability_measures_udp_sockets() {
    let text = plan(&[("stream", "\"gigae\", \"tcp\"", "1000, 65536", 0.1)])
        + "[gigae.sockets]\nbackend = \"udp\"\n";
    let fabric = testing::fabric("nothing", |_| ());
    let peer = fabric.node(2).ipv4.to_string();
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let file = place.path().join("cluster.toml").display().to_string();
    let nodes = [1, 2].map(|n| {
        let ip = fabric.node(n).ipv4;
        format!("[[node]]\nname = \"n{n}\"\nnic = [{{ interface = \"eth0\", ip = \"{ip}\" }}]\n")
    });
    std::fs::write(&file, format!("envelope = {{ udp = 4711 }}\n{}", nodes.concat())).unwrap();
    let user = "--reuid 65534 --regid 65534 --clear-groups --no-new-privs --bounding-set -all";
    let before: Vec<_> = ["setpriv"].into_iter().chain(user.split(' ')).collect();
    let machines = Machines::on(fabric, peer, &text, &before, &["--cluster", &file]);
    let mut discover = machines.fabric.node(1).command(env!("CARGO_BIN_EXE_gigae")).unwrap();
    let found = discover.args(["discover", "--cluster", &file, "--time", "10"]).output().unwrap();
    assert!(says(&found.stdout).contains("n2"), "{found:?}");
    let results = machines.results(&machines.eval("out").output().unwrap(), "out");
    let notes = results.series.iter().filter(|series| series.transport == "gigae");
    let notes: Vec<_> = notes.map(|series| series.note.as_ref().unwrap().to_string()).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes.iter().all(|note| note.contains("udp")), "{notes:?}");
}

/// A line of a process's status (proc_pid_status(5)).
fn status(pid: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
    line.trim().replace('\t', " ")
}

fn a_server_of_roots_gives_up_root() {
    let transports =
        "\"udp\", \"udp-gso\", \"tcp\", \"gigae\", \"gigae-write\", \"packet\", \"xdp\"";
    let experiments = [("stream", transports, "1000", 0.3)];
    let both = "gigae = [\"default\", \"sockets\"]\ntransports";
    let text =
        plan(&experiments).replace("transports", both) + "[gigae.sockets]\nbackend = \"udp\"\n";
    let machines = Machines::new("rights", &text, &[]);
    let said = machines.wait_for_line("confined to");
    let pid = machines.serve.id();
    assert_eq!(status(pid, "Uid:"), "65534 65534 65534 65534");
    assert_eq!(status(pid, "Gid:"), "65534 65534 65534 65534");
    assert_eq!((status(pid, "NoNewPrivs:"), status(pid, "Seccomp:")), ("1".into(), "2".into()));
    for set in ["CapPrm:", "CapEff:", "CapBnd:"] {
        let kept = u64::from_str_radix(&status(pid, set), 16).unwrap();
        // CAP_IPC_LOCK, where the limit of locked memory could not be lifted.
        assert_eq!(kept & !(1 << 14), 1 << 12 | 1 << 13 | 1 << 39, "{set} {kept:x}");
    }
    assert!(said.contains("user 65534") && said.contains("Landlock: "), "{said}");
    // And it measures everything.
    let results = machines.results(&machines.eval("out").output().unwrap(), "out");
    assert_eq!(results.series.len(), 8);
}

fn what_is_repeated_has_a_directory_for_each_time() {
    let machines = Machines::new("repeat", &plan(&[("rtt", "\"udp\"", "8", 0.05)]), &[]);
    let mut command = machines.eval("out");
    let child = command.args(["--repeat", "1s"]).spawn().unwrap();
    let times = || {
        let found = std::fs::read_dir(machines.path("out")).into_iter().flatten().flatten();
        let whole = found.map(|entry| entry.path()).filter(|at| at.join("results.json").exists());
        whole.collect::<Vec<_>>()
    };
    until("the second time", || times().len() >= 2);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let error = says(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{error}");
    assert!(error.contains("ended after") && error.lines().count() == 1, "{error}");
    for at in times() {
        let name = at.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("20") && name.ends_with('Z') && !name.contains(':'), "{name}");
        assert!(says(&output.stdout).contains(name), "{name}");
        assert!(at.join("report.html").exists() && at.join("results.csv").exists());
    }
}

fn keys_are_made_once_and_kept_secret() {
    let place = tempfile::tempdir().unwrap();
    let run = |words: &[&str], file: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gigae"));
        command.args(words).arg(file).output().unwrap()
    };
    let file = place.path().join("key");
    let made = run(&["key"], &file);
    assert!(made.status.success() && says(&made.stdout).contains("scp"), "{made:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!says(&made.stdout).contains(text.trim()), "the key is on the terminal");
    let fails = |output: Output, word: &str| {
        let error = says(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(word) && error.lines().count() == 1, "{error}");
    };
    fails(run(&["key"], &file), "exists");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    fails(run(&["serve", "--nic", "lo", "--key"], &file), "chmod 600");
    fails(run(&["serve", "--nic", "lo", "--key"], Path::new("/nonexistent")), "gigae key");
    fails(
        run(&["serve", "--nic", "lo", "--config"], Path::new("/nonexistent")),
        "docs/reference/serve.md",
    );
    fails(run(&["eval", "--peer", "::1", "--nic", "lo", "--key"], &file), "chmod 600");
}
