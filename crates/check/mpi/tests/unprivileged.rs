//! Jobs of users without privileges: on each host a broker opens the links of all ranks, or they
//! have UDP sockets. Needs root, Open MPI, Python and, the first time, the Python package index.
#![allow(missing_docs)]

mod common;

use common::{LIMIT, run};
use gigae_fabric::testing;
use gigae_mpi::hosts::Finished;
use gigae_mpi::{Hosts, Vendor};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What a process is to be, and by what.
const ROLE: &str = "GIGAE_TEST_ROLE";
const CONFIG: &str = "GIGAE_TEST_CONFIG";
const SOCKET: &str = "GIGAE_TEST_SOCKET";

/// `nobody`, who may have ports of the brokers, and a user who may not.
const NOBODY: u32 = 65534;
const OTHER: u32 = 65533;

fn main() {
    if std::env::var_os(ROLE).is_some() {
        return broker();
    }
    let tests: [(&str, fn()); 9] = [
        ("a_users_program_of_libfabrics_finds_every_byte", fi_pingpong_finds_every_byte),
        ("open_mpi_of_a_user_holds_on_two_hosts", open_mpi_holds),
        ("open_mpi_of_a_user_holds_with_two_ranks_on_each_host", open_mpi_holds_with_two_on_each),
        ("mpich_of_a_user_holds_with_two_ranks_on_each_host", mpich_holds_with_two_on_each),
        ("a_killed_rank_of_a_user_leaves_no_port", a_killed_rank_leaves_no_port),
        (
            "a_user_who_is_not_allowed_reads_so_in_what_mpirun_says",
            a_user_that_is_not_allowed_reads_so,
        ),
        ("open_mpi_of_a_user_holds_without_a_broker", open_mpi_holds_without_a_broker),
        ("mpich_of_a_user_holds_without_a_broker", mpich_holds_without_a_broker),
        ("a_user_reads_that_the_broker_has_another_nic", a_user_that_names_another_nic_reads_so),
    ];
    testing::run_together(&tests);
}

fn broker() {
    let path = |name| std::env::var_os(name).unwrap();
    let (config, socket) = (path(CONFIG), path(SOCKET));
    let mut say = |line: &str| println!("{line}");
    let stop = AtomicBool::new(false);
    let result = gigae_broker::run(config.as_ref(), socket.as_ref(), &stop, &mut say);
    println!("failed: {:?}", result.err().map(|error| error.to_string()));
}

/// A process that is ended with its test.
struct ChildProcess(Child);

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A broker on each host, which allows `nobody` the use of this NIC. To be dropped before the
/// hosts.
fn brokers(hosts: &Hosts, nic: &str) -> Vec<ChildProcess> {
    let config = hosts.place().join("broker.toml");
    std::fs::write(&config, format!("nics = ['{nic}']\nusers = [{NOBODY}]\n")).unwrap();
    let start = |number| {
        let node = hosts.fabric().node(number);
        let mut command = node.command(std::env::current_exe().unwrap()).unwrap();
        command.env(ROLE, "broker").env(CONFIG, &config);
        command.env(SOCKET, hosts.broker(number).unwrap());
        let mut process = ChildProcess(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
        let listens = lines.any(|line| line.unwrap().starts_with("makes ports"));
        assert!(listens, "a broker on n{number}");
        // What else it says goes nowhere, and does not hold it up.
        std::thread::spawn(move || lines.count());
        process
    };
    (1..=hosts.fabric().config().nodes).map(start).collect()
}

fn hosts(test: &str, user: u32, nodes: u16) -> Hosts {
    let fabric = testing::fabric(test, |config| config.nodes = nodes);
    Hosts::new(fabric).and_then(|hosts| hosts.for_user(user)).unwrap()
}

fn holds(vendor: &Vendor, hosts: &Hosts, places: u16, case: &str) {
    let Finished { status, stdout, stderr, .. } = run(vendor, hosts, places, case);
    assert!(status.success(), "{status}: {stdout}{stderr}");
    assert!(stdout.contains(&format!("{case}: held")), "{stdout}{stderr}");
    until_no_port_is_left(hosts);
}

/// Brokers learn of the end of their clients, and take back what those had.
fn until_no_port_is_left(hosts: &Hosts) {
    let ports = || {
        (1..=hosts.fabric().config().nodes).fold(String::new(), |found, number| {
            let mut ip = hosts.fabric().node(number).command("ip").unwrap();
            let listed = ip.args(["-o", "link", "show", "type", "macvlan"]).output().unwrap();
            found + &String::from_utf8_lossy(&listed.stdout)
        })
    };
    let end = Instant::now() + Duration::from_secs(60);
    while !ports().is_empty() {
        assert!(Instant::now() < end, "{}", ports());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn open_mpi_holds() {
    let hosts = hosts("a user's Open MPI", NOBODY, 2);
    let _brokers = brokers(&hosts, "eth0");
    holds(&Vendor::open_mpi().unwrap(), &hosts, 1, "point-to-point");
}

/// One end on the first host, the other, once that one listens on its port, on the second.
const PING_PONG: &str = r#"
export FI_PROVIDER=gigae FI_PROVIDER_PATH=$0 FI_GIGAE_IFACE=eth0 GIGAE_CLUSTER=/nowhere
test "$(id -u)" = 65534 || exit 2
fi_pingpong -p gigae -e rdm -c -I 5 & waiting=$!
until cat /proc/net/tcp /proc/net/tcp6 | grep -q ':B9E8 [0-9A-F]*:0000 0A'; do sleep 0.02; done
/run/enter n2 fi_pingpong -p gigae -e rdm -c -I 5 198.18.0.1 && wait $waiting
"#;

fn fi_pingpong_finds_every_byte() {
    let hosts = hosts("a user's fi_pingpong", NOBODY, 2);
    let _brokers = brokers(&hosts, "eth0");
    let provider = hosts.provider().display().to_string();
    let argv = ["sh", "-c", PING_PONG, &provider].map(str::to_owned);
    let finished = hosts.run(&argv, LIMIT, &AtomicBool::new(false)).unwrap();
    let Finished { status, stdout, stderr, .. } = &finished;
    assert!(status.success(), "{status}: {stdout}{stderr}");
    assert!(stdout.lines().filter(|line| line.starts_with("1m ")).count() == 2, "{stdout}");
    until_no_port_is_left(&hosts);
}

/// Four ports, and memory between those of a host.
fn open_mpi_holds_with_two_on_each() {
    let hosts = hosts("a user's Open MPI, sharing", NOBODY, 2);
    let _brokers = brokers(&hosts, "eth0");
    holds(&Vendor::open_mpi().unwrap(), &hosts, 2, "collectives");
}

fn mpich_holds_with_two_on_each() {
    let hosts = hosts("a user's MPICH, sharing", NOBODY, 2);
    let _brokers = brokers(&hosts, "eth0");
    let installed = Vendor::mpich(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("mpich")).unwrap();
    let vendor = installed.copied(&hosts.place().join("mpich")).unwrap();
    holds(&vendor, &hosts, 2, "collectives");
}

fn a_killed_rank_leaves_no_port() {
    let hosts = hosts("a user's killed rank", NOBODY, 2);
    let _brokers = brokers(&hosts, "eth0");
    let finished = run(&Vendor::open_mpi().unwrap(), &hosts, 1, "killed");
    assert!(!finished.status.success(), "{}{}", finished.stdout, finished.stderr);
    until_no_port_is_left(&hosts);
}

/// What a user reads whose job cannot run.
fn complaint(hosts: &Hosts) -> String {
    let finished = run(&Vendor::open_mpi().unwrap(), hosts, 1, "point-to-point");
    assert!(!finished.status.success(), "{}", finished.stdout);
    finished.stdout + &finished.stderr
}

fn a_user_that_is_not_allowed_reads_so() {
    let hosts = hosts("a user who is refused", OTHER, 2);
    let _brokers = brokers(&hosts, "eth0");
    let text = complaint(&hosts);
    let refusal = format!("user {OTHER} is not among those that ");
    assert!(text.contains(&refusal) && text.contains("ask the administrator"), "{text}");
}

/// Over UDP sockets, each rank with its own port.
fn without_a_broker(vendor: &Vendor, hosts: &Hosts) {
    for (places, case) in [(1, "point-to-point"), (2, "collectives")] {
        let Finished { status, stdout, stderr, .. } = run(vendor, hosts, places, case);
        assert!(status.success(), "{status}: {stdout}{stderr}");
        assert!(stdout.contains(&format!("{case}: held")), "{stdout}{stderr}");
    }
}

fn open_mpi_holds_without_a_broker() {
    let hosts = hosts("a user's Open MPI over UDP", NOBODY, 2);
    without_a_broker(&Vendor::open_mpi().unwrap(), &hosts);
}

fn mpich_holds_without_a_broker() {
    let hosts = hosts("a user's MPICH over UDP", NOBODY, 2);
    let installed = Vendor::mpich(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("mpich")).unwrap();
    without_a_broker(&installed.copied(&hosts.place().join("mpich")).unwrap(), &hosts);
}

fn a_user_that_names_another_nic_reads_so() {
    let hosts = hosts("a user with another NIC", NOBODY, 2);
    let _brokers = brokers(&hosts, "other");
    let text = complaint(&hosts);
    assert!(text.contains("the broker makes ports on other only; see FI_GIGAE_IFACE"), "{text}");
}
