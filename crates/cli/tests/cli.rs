//! The command as a person uses it: what it prints, its exit codes, what it leaves behind.
#![allow(missing_docs)]

use gigae_fabric::{Fabric, testing, tests};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

fn gigae(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gigae")).args(arguments).output().unwrap()
}

fn says(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

/// One line on standard error that contains `part`, exit code 1, nothing on standard output.
fn fails(arguments: &[&str], part: &str) {
    let output = gigae(arguments);
    let error = says(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.starts_with("gigae: ") && error.lines().count() == 1, "{error}");
    assert!(error.contains(part), "{error}");
    assert!(output.stdout.is_empty());
}

fn succeeds(arguments: &[&str]) -> String {
    let output = gigae(arguments);
    assert!(output.status.success(), "{}", says(&output.stderr));
    says(&output.stdout)
}

fn namespaces() -> Vec<String> {
    let listed = Command::new("ip").args(["netns", "list"]).output().unwrap();
    says(&listed.stdout).lines().map(str::to_owned).collect()
}

/// The forwarder outlives the command that made it, and goes with the fabric.
fn a_fabric_with_a_delay_stays_and_goes() {
    let prefix = &testing::prefix();
    fails(&["fabric", "up", "--prefix", prefix, "--delay", "soon"], "200us");
    fails(&["fabric", "up", "--prefix", prefix, "--delay", "1h"], "not a delay");
    let said = succeeds(&["fabric", "up", "--prefix", prefix, "--delay", "3ms"]);
    assert!(said.contains("delay 3ms: "), "{said}");
    let fabric = Fabric::attach(prefix).unwrap();
    let frames = || fabric.delay_counters().unwrap().frames;
    let before = frames();
    let target = fabric.node(2).ipv4;
    let listener = {
        let _inside = fabric.node(2).enter().unwrap();
        std::net::TcpListener::bind((target, 4000)).unwrap()
    };
    let begin = std::time::Instant::now();
    {
        let _inside = fabric.node(1).enter().unwrap();
        std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    }
    assert!(begin.elapsed() >= std::time::Duration::from_millis(6));
    assert!(frames() > before);
    assert!(succeeds(&["fabric", "status", "--prefix", prefix]).contains("delay 3ms: "));
    assert!(succeeds(&["fabric", "down", "--prefix", prefix]).contains("removed"));
    let left = std::fs::read_dir("/run/gigae-fabric").unwrap().flatten();
    let own = left.filter(|file| file.file_name().to_string_lossy().starts_with(&**prefix));
    assert_eq!(own.count(), 0);
}

fn a_fabric_is_laid_entered_shown_and_removed() {
    let prefix = testing::prefix();
    let prefix = prefix.as_str();
    let created =
        succeeds(&["fabric", "up", "--prefix", prefix, "--nodes", "3", "--rate", "100mbit"]);
    assert!(created.contains("3 nodes") && created.contains("100mbit"), "{created}");
    assert_eq!(succeeds(&["fabric", "status", "--prefix", prefix]).lines().count(), 5);
    let addresses = succeeds(&["fabric", "exec", "--prefix", prefix, "n3", "ip", "-4", "addr"]);
    assert!(addresses.contains("198.18.0.3/24"), "{addresses}");
    let exit = gigae(&["fabric", "exec", "--prefix", prefix, "n1", "sh", "-c", "exit 7"]);
    assert_eq!(exit.status.code(), Some(7), "the command's own exit code");
    fails(&["fabric", "up", "--prefix", prefix], prefix);
    fails(&["fabric", "exec", "--prefix", prefix, "n9", "true"], "n1 to n3");
    assert!(succeeds(&["fabric", "down", "--prefix", prefix]).contains("removed"));
    assert!(!namespaces().iter().any(|name| name.starts_with(prefix)));
    fails(&["fabric", "status", "--prefix", prefix], "gigae fabric up");
}

fn the_inventory_says_which_xdp_mode_the_self_test_reached() {
    let fabric = testing::fabric("nic", |_| ());
    let mut command = fabric.node(1).command(env!("CARGO_BIN_EXE_gigae")).unwrap();
    let table = says(&command.args(["nic", "eth0"]).output().unwrap().stdout);
    assert!(table.contains("veth") && table.contains("xdp generic"), "{table}");
    let mut command = fabric.node(1).command(env!("CARGO_BIN_EXE_gigae")).unwrap();
    let refused = command.args(["nic", "nosuch"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(says(&refused.stderr).contains("eth0"));
}

/// `gigae` on a node.
fn on(fabric: &Fabric, node: u16, arguments: &[&str]) -> Command {
    let mut command = fabric.node(node).command(env!("CARGO_BIN_EXE_gigae")).unwrap();
    command.args(arguments).env_remove("GIGAE_CLUSTER").env_remove("GIGAE_NODE");
    command
}

/// A server, which is ended with its test.
struct TestServer(Child);

impl TestServer {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("serving on"), "{line}");
        Self(child)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const PLAN: &str = r#"
name = "tiny"
about = "a test: one figure"
repetitions = 2
max_repetitions = 2
[link.gigabit]
rate_mbit = 1000
[[experiment]]
kind = "rtt"
links = ["gigabit"]
transports = ["gigae"]
sizes = [8]
waits = ["sleep"]
seconds = 0.03
warmup = 0.01
"#;

fn what_is_discovered_fills_a_cluster_file_that_the_commands_read() {
    let fabric = testing::fabric("discover", |config| config.nodes = 3);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (file, key) = (path("cluster.toml"), path("key"));
    succeeds(&["key", &key]);
    let started = [2, 3].map(|n| {
        TestServer::start(on(&fabric, n, &["serve", "--nic", "eth0", "--key", &key, "--cpu", "0"]))
    });
    let run = |node: u16, arguments: &[&str]| {
        let output = on(&fabric, node, arguments).output().unwrap();
        assert!(output.status.success(), "{}", says(&output.stderr));
        says(&output.stdout)
    };
    // The only interface that is up is taken by itself.
    let table = run(1, &["discover", "--write", &file, "--time", "10"]);
    assert!(table.contains("2 endpoints answered"), "{table}");
    for n in 1..=3 {
        let node = fabric.node(n);
        let mac = gigae::MacAddr(node.mac).to_string();
        let row = table.lines().find(|line| line.contains(&mac)).expect(&table);
        assert!(row.contains(&node.ipv4.to_string()) && row.contains("1500"), "{row}");
        assert_eq!(row.contains("(this node)"), n == 1, "{row}");
    }
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written.matches("\n[[node]]").count(), 3, "{written}");
    let again = run(1, &["discover", "--write", &file]);
    assert!(again.contains("nothing to add"), "{again}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), written);
    let nic = run(2, &["nic", "--cluster", &file]);
    assert!(nic.contains("eth0") && nic.contains("AF_XDP"), "{nic}");
    drop(started);

    // All nodes are namespaces of one host, so the file's names are made unique by a number.
    let cluster = gigae::Cluster::read(file.as_ref()).unwrap();
    let second = |node: &&gigae::Node| node.nics[0].ip == Some(fabric.node(2).ipv4.into());
    let name = cluster.nodes().iter().find(second).unwrap().name.clone();
    let serve = ["serve", "--cluster", &file, "--key", &key, "--cpu", "0"];
    let _serving = TestServer::start(on(&fabric, 2, &serve));
    let found = run(3, &["discover", "--cluster", &file, "--time", "10"]);
    assert!(found.lines().any(|line| line.starts_with(&format!("{name} "))), "{found}");
    let (plan, out) = (path("plan.toml"), path("out"));
    std::fs::write(&plan, PLAN).unwrap();
    let eval = ["eval", "--cluster", &file, "--peer", &name, "--key", &key, "--plan", &plan];
    run(1, &[&eval[..], &["--out", &out]].concat());
    let nobody = eval.map(|word| if word == name { "nobody" } else { word });
    let refused = on(&fabric, 1, &nobody).output().unwrap();
    let error = says(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(error.contains("no node 'nobody'; choose one of:") && error.contains(&name), "{error}");
}

fn the_doctor_says_what_is_missing_and_what_to_do() {
    let fabric = testing::fabric("doctor", |_| ());
    let ask = |interface: &[&str]| {
        let mut command = on(&fabric, 1, &["doctor"]);
        // Neither this machine's cluster file nor its provider.
        command.env("GIGAE_CLUSTER", "/nowhere").env("FI_PROVIDER_PATH", "/nowhere");
        command.env("GIGAE_BROKER", "/nowhere/broker.sock").args(interface).output().unwrap()
    };
    let line = |text: &str, about: &str| {
        let found = text.lines().find(|line| line.starts_with(about));
        found.unwrap_or_else(|| panic!("no line on {about}: {text}")).to_owned()
    };
    // The only interface that is up.
    let output = ask(&[]);
    let text = says(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.ends_with("messages can be sent on eth0\n"), "{text}");
    assert!(line(&text, "endpoint").contains("ok     packet"), "{text}");
    assert!(line(&text, "endpoint").contains("AF_XDP has generic mode only"), "{text}");
    assert!(line(&text, "driver").contains("veth"), "{text}");
    assert!(line(&text, "link").contains("MTU 1500"), "{text}");
    assert!(line(&text, "broker").contains("none at /nowhere"), "{text}");
    assert!(line(&text, "provider").contains("note"), "{text}");

    // Beside a program that has the NIC.
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key").to_str().unwrap().to_owned();
    succeeds(&["key", &key]);
    let serving = ["serve", "--nic", "eth0", "--key", &key, "--cpu", "0"];
    let serving = [1, 2].map(|node| TestServer::start(on(&fabric, node, &serving)));
    let text = says(&ask(&["eth0"]).stdout);
    assert!(line(&text, "in use by").contains("gigae ("), "{text}");
    assert!(line(&text, "endpoint").contains("1 answer"), "{text}");
    drop(serving);

    // Without privileges.
    let mut command = fabric.node(1).command("setpriv").unwrap();
    command.args(["--bounding-set", "-all"]).env("GIGAE_CLUSTER", "/nowhere");
    let program = env!("CARGO_BIN_EXE_gigae");
    let output = command.args([program, "doctor", "eth0"]).output().unwrap();
    let text = says(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", says(&output.stderr));
    assert!(line(&text, "privileges").contains("CAP_NET_RAW"), "{text}");
    assert!(line(&text, "endpoint").contains("note   udp"), "{text}");
    assert!(line(&text, "UDP port").contains("ok     4791 is free"), "{text}");
    let sockets = format!("ok     {}; the kernel has UDP_SEGMENT and UDP_GRO", fabric.node(1).ipv4);
    assert!(line(&text, "bulk socket").contains(&sockets), "{text}");

    // A link that is down, and a NIC that is not there.
    let mut command = fabric.node(1).command("ip").unwrap();
    assert!(command.args(["link", "set", "eth0", "down"]).status().unwrap().success());
    let output = ask(&["eth0"]);
    let text = says(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("ip link set eth0 up"), "{text}");
    assert!(says(&ask(&["nosuch"]).stdout).contains("choose one of: "));
    let output = ask(&[]);
    assert!(says(&output.stderr).contains("no interface is up"), "{output:?}");
}

fn the_log_says_which_mode_was_chosen_and_why() {
    let fabric = testing::fabric("log", |_| ());
    let log = |what: &str, levels: &str| {
        let mut command = on(&fabric, 1, &[what, "eth0"]);
        says(&command.env("GIGAE_LOG", levels).output().unwrap().stderr)
    };
    // It asks for AF_XDP.
    let all = log("nic", "debug");
    let line = |part: &str| all.lines().any(|line| line.contains(part));
    assert!(line(" DEBUG gigae_xdp::probe: mode chosen interface=eth0 mode=xdp generic"), "{all}");
    assert!(line(" INFO  gigae::open: endpoint opened interface=eth0 mode=xdp generic"), "{all}");
    assert!(line("endpoint closed interface=eth0"), "{all}");
    let some = log("nic", "info,gigae::endpoint=off");
    assert!(some.contains("endpoint opened"), "{some}");
    assert!(!some.contains("mode chosen") && !some.contains("endpoint closed"), "{some}");
    let own = log("doctor", "info");
    assert!(own.contains("AF_XDP refused: AF_PACKET is tried interface=eth0"), "{own}");
    assert!(own.contains("endpoint opened interface=eth0 mode=packet"), "{own}");
}

fn a_log_level_that_is_none_is_said_and_stops_nothing() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gigae"));
    let output = command.arg("plans").env("GIGAE_LOG", "debgu").output().unwrap();
    let error = says(&output.stderr);
    assert!(output.status.success() && !output.stdout.is_empty(), "{error}");
    assert!(error.starts_with("gigae: nothing is logged: GIGAE_LOG is \"debgu\": "), "{error}");
    assert!(
        error.contains("write error, warn, info, debug") && error.lines().count() == 1,
        "{error}"
    );
}

fn ctrl_c_ends_a_discovery_and_leaves_nothing() {
    let fabric = testing::fabric("ctrl_c", |_| ());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cluster.toml");
    let arguments = ["discover", "--interface", "eth0", "--time", "3600", "--write"];
    let child = on(&fabric, 1, &arguments).arg(&file).stdout(Stdio::piped()).spawn().unwrap();
    // Once its socket is there, it asks.
    let sockets = || {
        let mut command = fabric.node(1).command("cat").unwrap();
        says(&command.arg("/proc/self/net/packet").output().unwrap().stdout).lines().count() - 1
    };
    while sockets() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.is_empty());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

fn wrong_input_is_refused_in_one_line() {
    fails(&["fabric", "up", "--rate", "fast"], "is not a rate");
    fails(&["fabric", "up", "--loss", "2"], "from 0 to 1");
    fails(&["eval", "--plan", "nosuch"], "nosuch");
    fails(&["eval", "--plan", "icmp", "--remember"], "--plan backend");
    fails(&["serve", "--nic", "lo", "--key", "/nonexistent"], "/nonexistent");
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key").to_str().unwrap().to_owned();
    succeeds(&["key", &key]);
    fails(&["serve", "--cluster", "/nonexistent", "--key", &key], "cannot read the cluster file");
    fails(&["nic", "--cluster", "/nonexistent"], "gigae discover --write");
    fails(&["discover", "--cluster", "/nonexistent"], "GIGAE_CLUSTER");
    fails(&["discover", "--interface", "nosuch"], "nosuch");
}

fn every_command_explains_itself() {
    for command in [
        "eval",
        "plans",
        "compare",
        "serve",
        "key",
        "soak",
        "share",
        "cp",
        "mount",
        "fabric",
        "nic",
        "discover",
        "doctor",
        "stat",
        "capture",
        "broker",
        "completions",
        "man",
    ] {
        let help = succeeds(&[command, "--help"]);
        assert!(help.contains("Usage: gigae") && help.len() > 200, "{help}");
    }
    assert_eq!(gigae(&["nonsense"]).status.code(), Some(2));
}

/// They load an XDP program, or start a server, which becomes another user.
const OF_ROOT: &[&str] = &[
    "the_inventory_says_which_xdp_mode_the_self_test_reached",
    "what_is_discovered_fills_a_cluster_file_that_the_commands_read",
    "the_doctor_says_what_is_missing_and_what_to_do",
    "the_log_says_which_mode_was_chosen_and_why",
];

fn main() {
    testing::for_users_except(OF_ROOT).run(tests![
        a_fabric_is_laid_entered_shown_and_removed,
        a_fabric_with_a_delay_stays_and_goes,
        the_inventory_says_which_xdp_mode_the_self_test_reached,
        what_is_discovered_fills_a_cluster_file_that_the_commands_read,
        the_doctor_says_what_is_missing_and_what_to_do,
        the_log_says_which_mode_was_chosen_and_why,
        a_log_level_that_is_none_is_said_and_stops_nothing,
        ctrl_c_ends_a_discovery_and_leaves_nothing,
        wrong_input_is_refused_in_one_line,
        every_command_explains_itself
    ]);
}
