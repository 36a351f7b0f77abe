//! The provider as libfabric's own programs see it, between two nodes. Needs root or user
//! namespaces, libfabric-bin and strace.
#![allow(missing_docs)]

use gigae_fabric::{Fabric, testing};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The port on which `fi_pingpong` waits for the other end, and the state of a socket that waits,
/// as /proc/net/tcp has them.
const PORT: &str = ":B9E8";
/// Another.
const OTHER: &str = "47599";
const OTHER_PORT: &str = ":B9EF";
const LISTENS: &str = "0A";

/// A directory with the provider under the name by which libfabric takes it.
fn provider() -> TempDir {
    // Tests and the library lie in TARGET/PROFILE/deps.
    let exe = std::env::current_exe().unwrap();
    let built = exe.parent().unwrap().join("libgigae_fi.so");
    let place = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&built, place.path().join("libgigae-fi.so")).unwrap();
    place
}

/// Runs a program without any capability.
const NO_RIGHTS: [&str; 5] = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"];

/// A program of libfabric's inside a node, started by such a one.
fn started(by: &[&str], fabric: &Fabric, node: u16, program: &str, provider: &Path) -> Command {
    // Nothing here takes that long.
    let mut command = fabric.node(node).command("timeout").unwrap();
    command.arg("120").args(by).args([program, "-p", "gigae"]);
    command.env("FI_PROVIDER_PATH", provider);
    command.env("FI_GIGAE_IFACE", fabric.node(node).interface);
    command.env("GIGAE_CLUSTER", "/nowhere");
    command
}

fn inside(fabric: &Fabric, node: u16, program: &str, provider: &Path) -> Command {
    started(&[], fabric, node, program, provider)
}

fn well(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}{complained}", output.status);
    said
}

/// Waits until a program listens for the other end, for a minute.
fn await_listener(waiting: &mut Child, port: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    let sockets = ["tcp", "tcp6"].map(|name| format!("/proc/{}/net/{name}", waiting.id()));
    let listens = |path: &String| {
        let table = std::fs::read_to_string(path).unwrap_or_default();
        table.lines().any(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            fields.len() > 3 && fields[1].ends_with(port) && fields[3] == LISTENS
        })
    };
    while !sockets.iter().any(listens) {
        assert!(
            Instant::now() < end,
            "it does not wait for the other end: {:?}",
            waiting.try_wait()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Two processes on each of two nodes, each pair by a NIC that both share.
fn two_processes_on_a_nic_talk_with_two_others_at_once() {
    let fabric = testing::fabric("sharing", |_| ());
    two_pairs(&fabric, &[], |_, _| ());
    for node in [1, 2] {
        let left = ip(&fabric, node, &["link", "show", "group", "26473"]);
        assert_eq!(left, "", "what is shared goes with the processes");
    }
}

/// The same where the first node has an interface for each, which an administrator has made.
fn each_process_has_an_interface_of_those_that_are_named() {
    let fabric = testing::fabric("functions", |_| ());
    for name in ["vf0", "vf1"] {
        let macvlan = ["name", name, "type", "macvlan", "mode", "bridge"];
        ip(&fabric, 1, &[&["link", "add", "link", "eth0"][..], &macvlan].concat());
        ip(&fabric, 1, &["link", "set", name, "up"]);
    }
    two_pairs(&fabric, &[], |node, command| {
        if node == 1 {
            command.env("FI_GIGAE_IFACE", "vf0/vf1").env("FI_GIGAE_SHARING", "alone");
        }
    });
}

/// What `ip` says on a node.
fn ip(fabric: &Fabric, node: u16, arguments: &[&str]) -> String {
    well(fabric.node(node).command("ip").unwrap().args(arguments).output().unwrap())
}

fn two_pairs(fabric: &Fabric, by: &[&str], change: impl Fn(u16, &mut Command)) {
    let provider = provider();
    let command = |node| {
        let mut command = started(by, fabric, node, "fi_pingpong", provider.path());
        command.args(["-e", "rdm", "-c", "-m", "tagged", "-I", "5"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        change(node, &mut command);
        command
    };
    let mut waiting = command(1).spawn().unwrap();
    let mut other = command(1).args(["-B", OTHER]).spawn().unwrap();
    await_listener(&mut waiting, PORT);
    await_listener(&mut other, OTHER_PORT);
    let at = fabric.node(1).ipv4.to_string();
    let calling = command(2).arg(&at).spawn().unwrap();
    let calling_other = command(2).args(["-P", OTHER, &at]).spawn().unwrap();
    for process in [calling, calling_other, waiting, other] {
        well(process.wait_with_output().unwrap());
    }
}

/// The sizes that `fi_pingpong` usually has, there and back, with each byte checked.
fn ping_pong(fabric: &Fabric, arguments: &[&str]) {
    ping_pong_with(fabric, arguments, &[], |_| ());
}

/// The same with a change of how the programs are started.
fn ping_pong_with(
    fabric: &Fabric,
    arguments: &[&str],
    by: &[&str],
    change: impl Fn(&mut Command),
) -> String {
    ping_pong_at(fabric, &fabric.node(1).ipv4.to_string(), arguments, by, change)
}

/// The same with this address of the first node for the control connection. Returns what the second
/// one wrote to standard error.
fn ping_pong_at(
    fabric: &Fabric,
    address: &str,
    arguments: &[&str],
    by: &[&str],
    change: impl Fn(&mut Command),
) -> String {
    let provider = provider();
    let command = |node| {
        let mut command = started(by, fabric, node, "fi_pingpong", provider.path());
        command.args(["-e", "rdm", "-c"]).args(arguments);
        change(&mut command);
        command
    };
    let mut waiting = command(1);
    let waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut waiting = waiting.unwrap();
    await_listener(&mut waiting, PORT);
    let output = command(2).arg(address).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = well(output);
    well(waiting.wait_with_output().unwrap());
    // A line for each size.
    for size in ["64 ", "4k ", "64k ", "1m "] {
        assert!(said.lines().any(|line| line.starts_with(size)), "{size}: {said}");
    }
    errors
}

fn fi_pingpong_finds_every_byte_of_messages() {
    let fabric = testing::fabric("fi_pingpong", |_| ());
    ping_pong(&fabric, &["-m", "msg", "-I", "10"]);
}

fn fi_pingpong_finds_every_byte_of_tagged_messages_with_loss() {
    let fabric = testing::fabric("fi_pingpong tagged", |config| {
        (config.loss, config.seed) = (0.01, 3);
    });
    ping_pong(&fabric, &["-m", "tagged", "-I", "5"]);
}

fn fi_pingpong_finds_every_byte_in_the_udp_envelope() {
    let fabric = testing::fabric("fi_pingpong udp", |_| ());
    let place = tempfile::tempdir().unwrap();
    let (file, mut text) =
        (place.path().join("cluster"), String::from("envelope = { udp = 4711 }"));
    for n in [1, 2] {
        let node = fabric.node(n);
        let (mac, ip) = (gigae::MacAddr(node.mac), node.ipv4);
        text +=
            &format!("\n[[node]]\nname = \"n{n}\"\nnic = [{{ mac = \"{mac}\", ip = \"{ip}\" }}]\n");
    }
    std::fs::write(&file, text).unwrap();
    for by in [&[][..], &NO_RIGHTS] {
        ping_pong_with(&fabric, &["-m", "tagged", "-I", "5"], by, |command| {
            command.env("GIGAE_CLUSTER", &file).env("FI_GIGAE_IFACE", "");
        });
    }
}

/// Whether they have capabilities and ask for UDP, or have none and no broker.
fn fi_pingpong_finds_every_byte_over_udp_sockets() {
    let fabric = testing::fabric("fi_pingpong sockets", |config| config.networks = 2);
    let arguments = &["-m", "tagged", "-I", "5"];
    ping_pong_with(&fabric, arguments, &[], |command| _ = command.env("FI_GIGAE_BACKEND", "udp"));
    ping_pong_with(&fabric, arguments, &NO_RIGHTS, |_| ());
    // IPv6 only, but for the control connection, which goes by the other network.
    for n in [1, 2] {
        ip(&fabric, n, &["-4", "address", "flush", "dev", fabric.node(n).interface]);
        ip(&fabric, n, &["address", "replace", &format!("198.18.9.{n}/24"), "dev", "eth1"]);
    }
    ping_pong_at(&fabric, "198.18.9.1", arguments, &NO_RIGHTS, |_| ());
}

fn long_messages_have_a_socket_of_their_own_unless_the_variable_says_no() {
    let fabric = testing::fabric("fi_pingpong bulk", |_| ());
    for (bulk, has) in [("1", true), ("0", false)] {
        let log = ping_pong_with(&fabric, &["-m", "tagged", "-I", "5"], &[], |command| {
            command.env("FI_GIGAE_BULK", bulk).env("GIGAE_LOG", "info");
        });
        assert!(log.contains("session up"), "{log}");
        assert_eq!(log.contains("path up"), has, "{log}");
    }
}

fn two_processes_of_ordinary_users_talk_with_two_others_by_one_nic() {
    let fabric = testing::fabric("fi_pingpong users", |_| ());
    two_pairs(&fabric, &NO_RIGHTS, |_, _| ());
}

fn fi_info_lists_the_nic_and_what_cannot_be_had_is_not_there() {
    let fabric = testing::fabric("fi_info", |_| ());
    let provider = provider();
    let info = || inside(&fabric, 1, "fi_info", provider.path());
    let said = well(info().output().unwrap());
    let domain = format!("domain: {}", fabric.node(1).interface);
    assert!(said.contains("provider: gigae") && said.contains(&domain), "{said}");
    assert!(said.contains("FI_EP_RDM"), "{said}");
    for refused in [
        &["-t", "FI_EP_MSG"][..],
        &["-t", "FI_EP_DGRAM"],
        &["-c", "FI_COLLECTIVE"],
        &["-d", "nowhere"],
    ] {
        let output = info().args(refused).output().unwrap();
        assert!(!output.status.success(), "{refused:?}: {output:?}");
    }
    let output = info().env("FI_GIGAE_IFACE", "nowhere").output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    // What another process shares the NIC with is not a NIC to choose.
    let nic = fabric.node(1).interface;
    let child = ["name", "gigae0", "group", "26473", "up", "type", "macvlan", "mode", "bridge"];
    let mut ip = fabric.node(1).command("ip").unwrap();
    well(ip.args(["link", "add", "link", nic]).args(child).output().unwrap());
    let said = well(info().env_remove("FI_GIGAE_IFACE").output().unwrap());
    assert!(said.contains(&domain) && !said.contains("gigae0"), "{said}");
}

/// Closing an AF_PACKET socket and registering for membarrier(2) in a process with threads wait for
/// a grace period each. So the link's socket is the only one, and the program registers before it
/// has threads.
fn opening_a_link_waits_for_no_grace_period_that_it_can_avoid() {
    let fabric = testing::fabric("fi_pingpong grace", |_| ());
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("trace").display().to_string();
    // A file for each thread, in which a program's first one begins with execve(2).
    let strace = ["strace", "-ff", "-qq", "-e", "execve,socket,membarrier,clone3", "-o", &file];
    ping_pong_with(&fabric, &["-m", "tagged", "-I", "5"], &strace, |_| ());
    let mut programs = 0;
    for entry in place.path().read_dir().unwrap() {
        let calls = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        if calls.contains("execve(") {
            programs += 1;
            assert_eq!(calls.matches("socket(AF_PACKET, SOCK_RAW").count(), 1, "{calls}");
            let registers = calls.find("membarrier(MEMBARRIER_CMD_REGISTER").expect(&calls);
            assert!(calls.find("clone3(").is_some_and(|thread| registers < thread), "{calls}");
        }
    }
    assert_eq!(programs, 2, "of two nodes");
}

/// The beginning of libfabric's `fi_info`.
#[repr(C)]
struct Described {
    next: *mut Self,
    caps: u64,
    mode: u64,
    addr_format: u32,
    src_addrlen: usize,
    dest_addrlen: usize,
    src_addr: *const c_char,
    dest_addr: *const c_char,
}

/// libfabric's `fi_getinfo`.
type GetInfo = unsafe extern "C" fn(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const c_void,
    info: *mut *mut Described,
) -> c_int;

/// What this program is when a node runs it: it asks libfabric for a node as the source (1 << 57,
/// `FI_SOURCE`) or as the destination, and says the address that the first description has.
fn ask(node: &str, as_source: bool) {
    let node = CString::new(node).unwrap();
    // SAFETY: libfabric and its function of this type; node and service are texts, and what it
    // describes stays.
    unsafe {
        let library = libc::dlopen(c"libfabric.so.1".as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null(), "no libfabric.so.1");
        let found = libc::dlsym(library, c"fi_getinfo".as_ptr());
        assert!(!found.is_null());
        let getinfo = std::mem::transmute::<*mut c_void, GetInfo>(found);
        let (version, flags) = (1 << 16 | 17, if as_source { 1 << 57 } else { 0 });
        let (mut info, service) = (std::ptr::null_mut(), c"9".as_ptr());
        let code = getinfo(version, node.as_ptr(), service, flags, std::ptr::null(), &mut info);
        assert_eq!(code, 0);
        let address = if as_source { (*info).src_addr } else { (*info).dest_addr };
        println!("{}", CStr::from_ptr(address).to_str().unwrap());
    }
}

fn a_node_is_named_by_its_ip_address_with_and_without_a_cluster_file() {
    let fabric = testing::fabric("by ip", |_| ());
    let (provider, place) = (provider(), tempfile::tempdir().unwrap());
    let file = place.path().join("cluster");
    let mut text = String::new();
    for n in [1, 2] {
        let node = fabric.node(n);
        let (mac, ip) = (gigae::MacAddr(node.mac), node.ipv4);
        text +=
            &format!("[[node]]\nname = \"n{n}\"\nnic = [{{ mac = \"{mac}\", ip = \"{ip}\" }}]\n");
    }
    std::fs::write(&file, text).unwrap();
    let exe = std::env::current_exe().unwrap();
    for cluster in ["/nowhere", file.to_str().unwrap()] {
        for (n, role) in [(1, SOURCE), (2, DESTINATION)] {
            let node = fabric.node(n);
            let mut command = fabric.node(1).command("timeout").unwrap();
            command.arg("60").arg(&exe).env(role, node.ipv4.to_string());
            command.env("FI_PROVIDER_PATH", provider.path()).env("FI_PROVIDER", "gigae");
            command.env("GIGAE_CLUSTER", cluster);
            if cluster == "/nowhere" {
                command.env("FI_GIGAE_IFACE", fabric.node(1).interface);
            }
            let said = well(command.output().unwrap());
            let expected = format!("{}/9", gigae::MacAddr(node.mac));
            assert_eq!(said.trim(), expected, "{role} by {cluster}");
        }
    }
}

/// Environment variables that make this program [`ask`].
const SOURCE: &str = "TEST_SOURCE";
const DESTINATION: &str = "TEST_DESTINATION";

/// It loses frames.
const OF_ROOT: &[&str] = &["fi_pingpong_finds_every_byte_of_tagged_messages_with_loss"];

fn main() {
    for role in [SOURCE, DESTINATION] {
        if let Ok(node) = std::env::var(role) {
            return ask(&node, role == SOURCE);
        }
    }
    testing::for_users_except(OF_ROOT).run(&[
        (
            "a_node_is_named_by_its_ip_address_with_and_without_a_cluster_file",
            a_node_is_named_by_its_ip_address_with_and_without_a_cluster_file as fn(),
        ),
        ("fi_pingpong_finds_every_byte_of_messages", fi_pingpong_finds_every_byte_of_messages),
        (
            "fi_pingpong_finds_every_byte_of_tagged_messages_with_loss",
            fi_pingpong_finds_every_byte_of_tagged_messages_with_loss,
        ),
        (
            "two_processes_on_a_nic_talk_with_two_others_at_once",
            two_processes_on_a_nic_talk_with_two_others_at_once,
        ),
        (
            "each_process_has_an_interface_of_those_that_are_named",
            each_process_has_an_interface_of_those_that_are_named,
        ),
        (
            "fi_pingpong_finds_every_byte_in_the_udp_envelope",
            fi_pingpong_finds_every_byte_in_the_udp_envelope,
        ),
        (
            "fi_pingpong_finds_every_byte_over_udp_sockets",
            fi_pingpong_finds_every_byte_over_udp_sockets,
        ),
        (
            "long_messages_have_a_socket_of_their_own_unless_the_variable_says_no",
            long_messages_have_a_socket_of_their_own_unless_the_variable_says_no,
        ),
        (
            "two_processes_of_ordinary_users_talk_with_two_others_by_one_nic",
            two_processes_of_ordinary_users_talk_with_two_others_by_one_nic,
        ),
        (
            "opening_a_link_waits_for_no_grace_period_that_it_can_avoid",
            opening_a_link_waits_for_no_grace_period_that_it_can_avoid,
        ),
        (
            "fi_info_lists_the_nic_and_what_cannot_be_had_is_not_there",
            fi_info_lists_the_nic_and_what_cannot_be_had_is_not_there,
        ),
    ]);
}
