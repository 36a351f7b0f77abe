//! C programs on real interfaces, in network namespaces that each test makes and removes, under
//! valgrind where they are linked with the shared library. Needs root.
#![allow(missing_docs)]

#[allow(dead_code, reason = "the other file of tests uses the rest")]
mod common;

use common::{Installed, Linking, run, text};
use gigae_fabric::{Fabric, testing};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Valgrind's own exit code for errors and leaks, which no program here uses.
const VALGRIND: &[&str] = &[
    "--quiet",
    "--error-exitcode=9",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite,indirect,possible",
    // Half of the time in which it reads the library; functions are still named.
    "--read-inline-info=no",
    // Threads take turns. Otherwise one that computes may keep the others from running for long.
    "--fair-sched=try",
];

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// One test at a time has its programs run under valgrind: it makes them some forty times as slow,
/// and ten pairs at once would take each other for dead.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that will run inside a node, under valgrind or not, with its interface as an argument.
fn inside(fabric: &Fabric, node: u16, program: &Path, valgrind: bool) -> Command {
    let mut command = untold(fabric, node, program, valgrind);
    command.arg(fabric.node(node).interface);
    command
}

/// The same without the interface.
fn untold(fabric: &Fabric, node: u16, program: &Path, valgrind: bool) -> Command {
    let node = fabric.node(node);
    let mut command = if valgrind {
        let suppressed = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/valgrind.supp");
        let mut command = node.command("valgrind").unwrap();
        command.args(VALGRIND).arg(format!("--suppressions={suppressed}")).arg(program);
        command
    } else {
        node.command(program).unwrap()
    };
    command.env("LD_LIBRARY_PATH", Installed::once().path("lib"));
    command
}

/// A program that waits for another, and its MAC address, which it prints first. It ends with the
/// test: who reads the test's output would wait for it, too.
struct Waiting {
    child: Child,
    said: BufReader<ChildStdout>,
    mac: String,
}

impl Waiting {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let mac = line.trim().strip_prefix("waiting on ").unwrap_or_else(|| {
            panic!("it printed '{line}' and ended: {:?}", child.wait());
        });
        Self { mac: mac.to_owned(), said, child }
    }

    /// What else it says until it ends well.
    fn end(mut self) -> String {
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {rest}");
        rest
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It has mostly ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hello(linking: Linking, valgrind: bool) {
    let fabric = testing::fabric("hello", |_| ());
    let program = match valgrind {
        true => Installed::once().compile_patient("examples/hello.c"),
        false => Installed::once().compile("examples/hello.c", linking),
    };
    let waiting = Waiting::start(inside(&fabric, 1, &program, valgrind));
    let mut greeting = inside(&fabric, 2, &program, valgrind);
    let mac = waiting.mac.clone();
    let answer = text(&run(greeting.arg(&mac)).stdout);
    assert_eq!(answer, format!("{mac} says hello to you\n"));
    let other = gigae::MacAddr(fabric.node(2).mac);
    assert_eq!(waiting.end(), format!("{other} says hello\n"));
}

fn two_programs_say_hello() {
    let _alone = alone();
    hello(Linking::Shared, true);
}

fn two_static_programs_say_hello() {
    hello(Linking::Static, false);
}

fn a_c_program_logs_if_its_environment_says_so() {
    let fabric = testing::fabric("log", |_| ());
    let program = Installed::once().compile("examples/hello.c", Linking::Shared);
    let waiting = Waiting::start(inside(&fabric, 1, &program, false));
    let mut greeting = inside(&fabric, 2, &program, false);
    let output = run(greeting.arg(&waiting.mac).env("GIGAE_LOG", "info"));
    let log = text(&output.stderr);
    let opened = " INFO  gigae::open: endpoint opened interface=eth0";
    let up = format!(" INFO  gigae_proto::log: session up peer={} ", waiting.mac);
    assert!(log.contains(opened) && log.contains(&up), "{log}");
    waiting.end();
}

/// What a process is to be, and by what.
const ROLE: &str = "GIGAE_TEST_ROLE";
const CONFIG: &str = "GIGAE_TEST_CONFIG";
const SOCKET: &str = "GIGAE_BROKER";

/// `nobody`, who has no privileges.
const NOBODY: &str = "65534";

fn broker() {
    let path = |name| std::env::var_os(name).unwrap();
    let (config, socket) = (path(CONFIG), path(SOCKET));
    let mut say = |line: &str| println!("{line}");
    let stop = AtomicBool::new(false);
    let result = gigae_broker::run(config.as_ref(), socket.as_ref(), &stop, &mut say);
    println!("failed: {:?}", result.err().map(|error| error.to_string()));
}

/// Ended with its test.
struct Broker(Child);

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two programs of a user without privileges, each with a broker on its node.
fn programs_of_a_user_say_hello_over_brokers() {
    use std::os::unix::fs::PermissionsExt;
    let fabric = testing::fabric("a user's hello", |_| ());
    let place = tempfile::tempdir().unwrap();
    let open = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(place.path(), open(0o755)).unwrap();
    let config = place.path().join("broker.toml");
    std::fs::write(&config, format!("nics = ['eth0']\nusers = [{NOBODY}]\n")).unwrap();
    // Where it was built not every user may look.
    let program = place.path().join("hello");
    let built = Installed::once().compile("examples/hello.c", Linking::Static);
    std::fs::copy(built, &program).unwrap();
    std::fs::set_permissions(&program, open(0o755)).unwrap();
    let socket = |node| place.path().join(format!("n{node}.sock"));
    let start = |node| {
        let mut command = fabric.node(node).command(std::env::current_exe().unwrap()).unwrap();
        command.env(ROLE, "broker").env(CONFIG, &config).env(SOCKET, socket(node));
        let mut process = Broker(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut said = BufReader::new(process.0.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().starts_with("makes ports")));
        // What else it says goes nowhere, and does not hold it up.
        std::thread::spawn(move || said.count());
        process
    };
    let _brokers = [1, 2].map(start);
    let as_nobody = |node: u16| {
        let mut command = fabric.node(node).command("setpriv").unwrap();
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
        command.arg(&program).arg(fabric.node(node).interface).env(SOCKET, socket(node));
        command
    };
    let waiting = Waiting::start(as_nobody(1));
    assert_ne!(waiting.mac, gigae::MacAddr(fabric.node(1).mac).to_string(), "a port's own");
    let answer = text(&run(as_nobody(2).arg(&waiting.mac)).stdout);
    assert_eq!(answer, format!("{} says hello to you\n", waiting.mac));
    assert!(waiting.end().ends_with("says hello\n"));
}

fn a_ping_pong_in_place_with_an_event_loop_is_clean_under_valgrind() {
    let _alone = alone();
    let fabric = testing::fabric("pingpong", |_| ());
    let compile = |source| Installed::once().compile_patient(source);
    let waiting = Waiting::start(inside(&fabric, 1, &compile("examples/epoll.c"), true));
    let mut pinging = inside(&fabric, 2, &compile("examples/inplace.c"), true);
    let said = text(&run(pinging.arg(&waiting.mac)).stdout);
    assert_eq!(said, "1000 pings came back\n");
    assert_eq!(waiting.end(), "");
}

/// What two ends of one program say: the one that is asked, then the one that asks.
fn two(fabric: &Fabric, source: &str) -> (String, String) {
    let program = Installed::once().compile_patient(source);
    let waiting = Waiting::start(inside(fabric, 1, &program, true));
    let asked = text(&run(inside(fabric, 2, &program, true).arg(&waiting.mac)).stdout);
    (waiting.end(), asked)
}

fn a_tagged_mebibyte_comes_back_and_is_clean_under_valgrind() {
    let _alone = alone();
    let fabric = testing::fabric("tagged", |_| ());
    let (_, said) = two(&fabric, "examples/tagged.c");
    assert_eq!(said, "1048576 bytes came back\n");
}

fn a_one_sided_write_with_a_notice_is_clean_under_valgrind() {
    let _alone = alone();
    let fabric = testing::fabric("remote", |_| ());
    let (written, said) = two(&fabric, "examples/remote.c");
    assert_eq!((written.as_str(), said.as_str()), ("hello, and 42\n", "no error\n"));
}

/// With default settings, and for longer than its peer waits for an answer.
fn a_c_program_that_computes_receives_and_lends_its_memory_without_a_call() {
    const PEER_TIMEOUT: Duration = Duration::from_secs(2);
    const MESSAGES: u32 = 20;
    let fabric = testing::fabric("computes", |_| ());
    let program = Installed::once().compile("tests/c/computes.c", Linking::Shared);
    let mut command = inside(&fabric, 1, &program, false);
    let waiting = Waiting::start({
        command.args(["5", &MESSAGES.to_string()]);
        command
    });
    let endpoint = {
        let node = fabric.node(2);
        let _inside = node.enter().unwrap();
        gigae::Options::new("eth0").peer_timeout(PEER_TIMEOUT).open().unwrap()
    };
    let peer = endpoint.peer(waiting.mac.parse::<gigae::Address>().unwrap()).unwrap();
    endpoint.send(peer, b"which key?").unwrap();
    let answer = endpoint.recv_timeout(PATIENCE).unwrap().expect("the key");
    let key = gigae::RegionKey(u64::from_ne_bytes(answer[..].try_into().unwrap()));
    // From here on the C program makes no call for 5 s. There is a pause of 150 ms 20 times.
    for n in 0..MESSAGES {
        for started in [
            endpoint.start_write(peer, key, 8, b"by nobody's call\0".to_vec(), None),
            endpoint.start_fetch_add(peer, key, 0, 1),
        ] {
            started.unwrap();
            let done = endpoint.completion_timeout(PATIENCE).unwrap().expect("in time");
            assert_eq!(done.result, Ok(()));
        }
        // The last of them ends the program, which has its memory until then.
        endpoint.send(peer, &n.to_ne_bytes()).unwrap();
        endpoint.drain(PATIENCE).unwrap();
        std::thread::sleep(Duration::from_millis(150));
    }
    assert!(endpoint.take_failure().is_none());
    assert_eq!(waiting.end(), "20 messages, counted to 20, wrote 'by nobody's call'\n");
}

/// The nodes of a fabric in the form for PM programs, numbered from 0.
fn pm_nodes(fabric: &Fabric) -> String {
    let netdev = format!("netdev {}\n", fabric.node(1).interface);
    let nodes = (0..fabric.config().nodes).map(|number| {
        let mac = gigae::MacAddr(fabric.node(number + 1).mac);
        format!("{number} {mac} node{number}\n")
    });
    nodes.fold(netdev, |all, node| all + &node)
}

/// The same as a cluster file.
fn cluster_file(fabric: &Fabric) -> String {
    let node = |number: u16| {
        let mac = gigae::MacAddr(fabric.node(number + 1).mac);
        format!("[[node]]\nname = \"node{number}\"\nnic = [{{ mac = \"{mac}\" }}]\n")
    };
    (0..fabric.config().nodes).map(node).collect()
}

/// What a PM program says that runs on every node of a fabric at once.
fn pm(fabric: &Fabric, source: &str) -> Vec<String> {
    let program = Installed::once().compile_patient(source);
    let nodes = pm_nodes(fabric);
    let file = |text: &str| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    };
    let (config, cluster) = (file(&nodes), file(&cluster_file(fabric)));
    let shared = tempfile::tempdir().unwrap();
    let start = |node| {
        let mut command = untold(fabric, node, &program, true);
        command.arg(config.path()).arg(shared.path()).env("GIGAE_CLUSTER", cluster.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut all: Vec<Child> = (1..=fabric.config().nodes).map(start).collect();
    for child in &mut all {
        // It says that it is open. If it ends instead, what it said is shown below.
        let _ = child.stdout.as_mut().unwrap().read_exact(&mut [0; "open\n".len()]);
    }
    // All go on when their input ends.
    all.iter_mut().for_each(|child| drop(child.stdin.take()));
    let ends = all.into_iter().map(|child| child.wait_with_output().unwrap());
    let ends: Vec<_> = ends.collect();
    for end in &ends {
        let said = |bytes: &[u8]| text(bytes);
        assert!(end.status.success(), "{}: {}{}", end.status, said(&end.stdout), said(&end.stderr));
    }
    ends.into_iter().map(|end| text(&end.stdout)).collect()
}

/// The same with a context of PM, which has default settings, too.
fn a_pm_program_that_computes_receives_without_a_call() {
    const MESSAGES: i32 = 20;
    let fabric = testing::fabric("pm-computes", |_| ());
    let mut config = tempfile::NamedTempFile::new().unwrap();
    config.write_all(pm_nodes(&fabric).as_bytes()).unwrap();
    let program = Installed::once().compile("tests/c/pm_computes.c", Linking::Shared);
    let mut command = untold(&fabric, 1, &program, false);
    command.arg(config.path()).args(["5", &MESSAGES.to_string()]);
    let waiting = Waiting::start(command);
    let endpoint = {
        let node = fabric.node(2);
        let _inside = node.enter().unwrap();
        gigae::Options::new("eth0").peer_timeout(Duration::from_secs(2)).open().unwrap()
    };
    let peer = endpoint.peer(gigae::MacAddr(fabric.node(1).mac)).unwrap();
    endpoint.send(peer, &(-1_i32).to_ne_bytes()).unwrap();
    endpoint.drain(PATIENCE).unwrap();
    // From here on the PM program makes no call for 5 s. There is a pause of 150 ms 20 times.
    for n in 0..MESSAGES {
        endpoint.send(peer, &n.to_ne_bytes()).unwrap();
        endpoint.drain(PATIENCE).unwrap();
        std::thread::sleep(Duration::from_millis(150));
    }
    assert!(endpoint.take_failure().is_none());
    assert_eq!(waiting.end(), "20 messages\n");
}

fn a_pm_ping_pong_is_clean_under_valgrind() {
    let _alone = alone();
    let said = pm(&testing::fabric("pm-pingpong", |_| ()), "examples/pm_pingpong.c");
    assert_eq!(said, ["node 0: 1000 round trips\n", "node 1: 1000 round trips\n"]);
}

fn a_pm_ring_of_sleepers_is_clean_under_valgrind() {
    let _alone = alone();
    let fabric = testing::fabric("pm-ring", |config| config.nodes = 3);
    let rounds = |node| format!("node {node} of 3: 100 rounds\n");
    assert_eq!(pm(&fabric, "examples/pm_ring.c"), [0, 1, 2].map(rounds));
}

fn pm_programs_use_each_others_memory_cleanly_under_valgrind() {
    let _alone = alone();
    let said = pm(&testing::fabric("pm-remote", |_| ()), "tests/c/pm_remote.c");
    assert_eq!(said, ["300000 bytes there and back\n", "300000 bytes were written\n"]);
}

fn pm_misuse_is_answered_with_pms_codes_and_clean_under_valgrind() {
    let _alone = alone();
    pm(&testing::fabric("pm-misuse", |_| ()), "tests/c/pm_misuse.c");
}

fn programs_find_each_other_by_the_names_of_a_cluster_file() {
    let _alone = alone();
    let fabric = testing::fabric("cluster", |_| ());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cluster.toml");
    let node = |n: u16| {
        let mac = gigae::MacAddr(fabric.node(n).mac);
        format!("[[node]]\nname = \"first-{n}\"\nnic = [{{ mac = \"{mac}\" }}]\n")
    };
    std::fs::write(&file, node(1) + &node(2)).unwrap();
    let program = Installed::once().compile_patient("tests/c/cluster.c");
    let start = |n: u16| {
        let mut command = untold(&fabric, n, &program, true);
        command.arg(&file);
        command
    };
    let waiting = Waiting::start(start(1));
    assert_eq!(waiting.mac, "first-1, 0 of 2");
    let said = text(&run(start(2).arg("first-1")).stdout);
    assert_eq!(said, "first-2 got a message of first-1\n");
    assert_eq!(waiting.end(), "first-1 got a message of first-2\n");
}

fn two_programs_speak_over_two_interfaces_as_one() {
    let _alone = alone();
    let fabric = testing::fabric("c-trunk", |config| config.networks = 2);
    let (answered, asked) = two(&fabric, "tests/c/trunk.c");
    assert_eq!((answered.as_str(), asked.as_str()), ("200 messages\n", "200 messages\n"));
}

/// On interfaces between which there is no wire.
fn two_programs_of_a_node_speak_through_memory() {
    let _alone = alone();
    let fabric = testing::fabric("c-local", |_| ());
    let node = fabric.node(1);
    for n in 0..2 {
        let (end, other) = (format!("x{n}"), format!("y{n}"));
        let arguments = ["link", "add", &end, "up", "type", "veth", "peer", "name", &other];
        run(node.command("ip").unwrap().args(arguments));
        run(node.command("ip").unwrap().args(["link", "set", &other, "up"]));
    }
    let program = Installed::once().compile_patient("tests/c/local.c");
    let start = |interface: &str| {
        let mut command = untold(&fabric, 1, &program, true);
        command.arg(interface);
        command
    };
    let waiting = Waiting::start(start("x0"));
    let said = text(&run(start("x1").arg(&waiting.mac)).stdout);
    assert_eq!((said.as_str(), waiting.end().as_str()), ("200 messages\n", "200 messages\n"));
}

fn misuse_is_answered_with_codes_and_clean_under_valgrind() {
    let _alone = alone();
    let fabric = testing::fabric("misuse", |_| ());
    let program = Installed::once().compile("tests/c/misuse.c", Linking::Shared);
    run(inside(&fabric, 1, &program, true).arg("02:00:00:00:00:99"));
}

fn valgrind_is_asked_in_a_way_that_notices_a_leak() {
    let _alone = alone();
    let fabric = testing::fabric("leak", |_| ());
    let program = Installed::once().compile("tests/c/leak.c", Linking::Shared);
    let output = inside(&fabric, 1, &program, true).output().unwrap();
    assert_eq!(output.status.code(), Some(9), "{}", text(&output.stderr));
}

fn main() {
    if std::env::var_os(ROLE).is_some() {
        return broker();
    }
    testing::run_together(&[
        ("two_programs_say_hello", two_programs_say_hello as fn()),
        ("programs_of_a_user_say_hello_over_brokers", programs_of_a_user_say_hello_over_brokers),
        ("two_static_programs_say_hello", two_static_programs_say_hello),
        (
            "a_c_program_logs_if_its_environment_says_so",
            a_c_program_logs_if_its_environment_says_so,
        ),
        (
            "a_ping_pong_in_place_with_an_event_loop_is_clean_under_valgrind",
            a_ping_pong_in_place_with_an_event_loop_is_clean_under_valgrind,
        ),
        (
            "a_tagged_mebibyte_comes_back_and_is_clean_under_valgrind",
            a_tagged_mebibyte_comes_back_and_is_clean_under_valgrind,
        ),
        (
            "a_one_sided_write_with_a_notice_is_clean_under_valgrind",
            a_one_sided_write_with_a_notice_is_clean_under_valgrind,
        ),
        (
            "a_c_program_that_computes_receives_and_lends_its_memory_without_a_call",
            a_c_program_that_computes_receives_and_lends_its_memory_without_a_call,
        ),
        (
            "a_pm_program_that_computes_receives_without_a_call",
            a_pm_program_that_computes_receives_without_a_call,
        ),
        ("a_pm_ping_pong_is_clean_under_valgrind", a_pm_ping_pong_is_clean_under_valgrind),
        (
            "a_pm_ring_of_sleepers_is_clean_under_valgrind",
            a_pm_ring_of_sleepers_is_clean_under_valgrind,
        ),
        (
            "pm_programs_use_each_others_memory_cleanly_under_valgrind",
            pm_programs_use_each_others_memory_cleanly_under_valgrind,
        ),
        (
            "pm_misuse_is_answered_with_pms_codes_and_clean_under_valgrind",
            pm_misuse_is_answered_with_pms_codes_and_clean_under_valgrind,
        ),
        (
            "programs_find_each_other_by_the_names_of_a_cluster_file",
            programs_find_each_other_by_the_names_of_a_cluster_file,
        ),
        (
            "two_programs_speak_over_two_interfaces_as_one",
            two_programs_speak_over_two_interfaces_as_one,
        ),
        (
            "two_programs_of_a_node_speak_through_memory",
            two_programs_of_a_node_speak_through_memory,
        ),
        (
            "misuse_is_answered_with_codes_and_clean_under_valgrind",
            misuse_is_answered_with_codes_and_clean_under_valgrind,
        ),
        (
            "valgrind_is_asked_in_a_way_that_notices_a_leak",
            valgrind_is_asked_in_a_way_that_notices_a_leak,
        ),
    ]);
}
