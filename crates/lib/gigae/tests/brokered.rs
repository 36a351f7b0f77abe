//! Endpoints of users without privileges, whose links a broker opens, on real interfaces in network
//! namespaces. Needs root.
#![allow(missing_docs)]

use gigae::{Address, BrokerUse, Envelope, OpenError, Options, RegionKey, Rights, Sharing};
use gigae_fabric::{Fabric, Node, testing};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What a process is to be, and by what.
const ROLE: &str = "GIGAE_TEST_ROLE";
const CONFIG: &str = "GIGAE_TEST_CONFIG";
const SOCKET: &str = "GIGAE_BROKER";

/// `nobody`, who has no privileges.
const NOBODY: u32 = 65534;

/// Far more than anything bounded here takes, on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

/// How long a peer may be silent where one computes, and how long that computes: more than twice
/// as long.
const PEER_TIMEOUT: Duration = Duration::from_secs(2);
const COMPUTES: Duration = Duration::from_secs(5);

fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("broker") => return broker(),
        Ok(role) => return client(role),
        Err(_) => {}
    }
    testing::run(&[
        ("a_user_without_privileges_exchanges_messages_with_another_node", exchanges as fn()),
        (
            "a_user_that_computes_acknowledges_and_lends_its_memory",
            a_user_that_computes_acknowledges_and_lends_its_memory,
        ),
        ("users_of_one_nic_exchange_messages_with_each_other", neighbours),
        ("the_error_says_what_the_broker_refuses", the_error_says_what_the_broker_refuses),
        ("without_a_broker_the_missing_capability_is_told", without_a_broker),
    ]);
}

fn broker() {
    let path = |name| std::env::var_os(name).unwrap();
    let (config, socket) = (path(CONFIG), path(SOCKET));
    let mut say = |line: &str| println!("{line}");
    let stop = AtomicBool::new(false);
    let result = gigae_broker::run(config.as_ref(), socket.as_ref(), &stop, &mut say);
    println!("failed: {:?}", result.err().map(|error| error.to_string()));
}

/// Gives up root's user and so all capabilities, opens an endpoint and sends every message back.
fn client(role: &str) {
    // SAFETY: system calls on plain numbers.
    let results = unsafe {
        let (uid, none) = (NOBODY, std::ptr::null());
        [libc::setgroups(0, none), libc::setresgid(uid, uid, uid), libc::setresuid(uid, uid, uid)]
    };
    assert_eq!(results, [0; 3]);
    let options = Options::new("eth0");
    let options = match role {
        "never" => options.broker(BrokerUse::Never),
        "udp" => options.envelope(Envelope::Udp { port: 4791 }),
        "local" => options.local(true),
        "child" => options.sharing(Sharing::Child),
        _ => options,
    };
    let endpoint = match options.open() {
        Ok(endpoint) => endpoint,
        Err(error) => {
            let kind = match &error {
                OpenError::Refused { .. } => "refused",
                OpenError::MissingCapability { .. } => "missing",
                _ => "other",
            };
            return println!("{kind}: {error}");
        }
    };
    println!("{} {}", Address::from(endpoint.link().mac), endpoint.link().reason);
    if role == "computes" {
        let key = endpoint.register(vec![0; 100_000], Rights::ALL).unwrap();
        let from = endpoint.recv_timeout(BOUND).unwrap().expect("a greeting").from();
        endpoint.send(from, &key.0.to_ne_bytes()).unwrap();
        let end = Instant::now() + COMPUTES;
        while Instant::now() < end {}
    }
    while let Ok(Some(message)) = endpoint.recv_timeout(BOUND) {
        let (from, bytes) = (message.from(), message.to_vec());
        drop(message);
        endpoint.send(from, &bytes).unwrap();
    }
}

/// A process that is ended with its test, and the first line that it said.
struct ChildProcess(Child, String);

impl ChildProcess {
    fn start(node: &Node, role: &str, directory: &Path, until: &str) -> Self {
        let mut command = node.command(std::env::current_exe().unwrap()).unwrap();
        command.env(ROLE, role).env(CONFIG, directory.join("broker.toml"));
        command.env(SOCKET, directory.join("broker.sock"));
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(until)));
        let line = line.expect("an answer").unwrap();
        // What else it says goes nowhere, and does not hold it up.
        std::thread::spawn(move || lines.count());
        Self(process, line)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two nodes, of which the first has a broker that allows the use of eth0 as `users` says.
fn place(test: &str, users: &str) -> (Fabric, tempfile::TempDir, ChildProcess) {
    use std::os::unix::fs::PermissionsExt;
    let fabric = testing::fabric(test, |_| ());
    let directory = tempfile::tempdir().unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let text = format!("nics = ['eth0']\n{users}");
    std::fs::write(directory.path().join("broker.toml"), text).unwrap();
    let broker = ChildProcess::start(&fabric.node(1), "broker", directory.path(), "makes ports");
    (fabric, directory, broker)
}

/// Messages to a client come back. One of each length, and many.
fn echoes(endpoint: &gigae::Endpoint, client: &ChildProcess) {
    let (address, reason) = client.1.split_once(' ').unwrap();
    assert!(reason.contains("shares 'eth0', by the broker"), "{reason}");
    let peer = endpoint.peer(address.parse::<Address>().unwrap()).unwrap();
    for length in [0, 1, 100, 1400].into_iter().cycle().take(400) {
        let bytes: Vec<u8> = (0..length).map(|i| (i * 7 + length) as u8).collect();
        endpoint.send(peer, &bytes).unwrap();
        let back = endpoint.recv_timeout(BOUND).unwrap().expect("an echo");
        assert!(back[..] == bytes[..], "{length}");
    }
}

fn exchanges() {
    let (fabric, directory, _broker) = place("exchanges", &format!("users = [{NOBODY}]"));
    for role in ["plain", "local", "child"] {
        let client = ChildProcess::start(&fabric.node(1), role, directory.path(), "");
        let node = fabric.node(2);
        let inside = node.enter().unwrap();
        let endpoint = Options::new("eth0").open().unwrap();
        drop(inside);
        echoes(&endpoint, &client);
    }
}

fn a_user_that_computes_acknowledges_and_lends_its_memory() {
    const MESSAGES: u32 = 20;
    let (fabric, directory, _broker) = place("computes", &format!("users = [{NOBODY}]"));
    let client = ChildProcess::start(&fabric.node(1), "computes", directory.path(), "");
    let endpoint = {
        let node = fabric.node(2);
        let _inside = node.enter().unwrap();
        Options::new("eth0").peer_timeout(PEER_TIMEOUT).open().unwrap()
    };
    let (address, _) = client.1.split_once(' ').unwrap();
    let peer = endpoint.peer(address.parse::<Address>().unwrap()).unwrap();
    endpoint.send(peer, b"which key?").unwrap();
    let answer = endpoint.recv_timeout(BOUND).unwrap().expect("the key");
    let key = RegionKey(u64::from_ne_bytes(answer[..].try_into().unwrap()));
    drop(answer);
    // From here on the user's program makes no call.
    for n in 0..MESSAGES {
        endpoint.send(peer, &n.to_ne_bytes()).unwrap();
        endpoint.drain(BOUND).unwrap();
        endpoint.start_write(peer, key, 8, vec![n as u8; 4000], None).unwrap();
        endpoint.start_fetch_add(peer, key, 0, 1).unwrap();
        for _ in 0..2 {
            let done = endpoint.completion_timeout(BOUND).unwrap().expect("in time");
            assert_eq!(done.result, Ok(()));
        }
        std::thread::sleep(COMPUTES / (MESSAGES + 5));
    }
    assert!(endpoint.take_failure().is_none());
    // Its socket has the address of the NIC. The first long writes ask whether it works.
    for _ in 0..10 {
        endpoint.start_write(peer, key, 5000, vec![1; 90_000], None).unwrap();
        let done = endpoint.completion_timeout(BOUND).unwrap().expect("in time");
        assert_eq!(done.result, Ok(()));
    }
    let by_socket = endpoint.paths()[1].link.tx_frames;
    assert!(by_socket >= 10, "{by_socket} frames by the socket");
    endpoint.start_read(peer, key, 0, vec![0; 4008]).unwrap();
    let read = endpoint.completion_timeout(BOUND).unwrap().expect("in time");
    let memory = read.memory.and_then(gigae::Memory::into_vec).expect("it comes back");
    assert_eq!(memory[..8], u64::from(MESSAGES).to_ne_bytes());
    assert!(memory[8..].iter().all(|&byte| u32::from(byte) == MESSAGES - 1));
    for n in 0..MESSAGES {
        let back = endpoint.recv_timeout(BOUND).unwrap().expect("an echo");
        assert_eq!(back[..], n.to_ne_bytes());
    }
}

fn neighbours() {
    let (fabric, directory, _broker) = place("neighbours", "users = ['*']");
    let client = ChildProcess::start(&fabric.node(1), "plain", directory.path(), "");
    let node = fabric.node(1);
    let _inside = node.enter().unwrap();
    let endpoint = Options::new("eth0").sharing(Sharing::Child).open().unwrap();
    echoes(&endpoint, &client);
}

fn the_error_says_what_the_broker_refuses() {
    let (fabric, directory, _broker) = place("refuses", "users = [1]");
    let client = ChildProcess::start(&fabric.node(1), "plain", directory.path(), "");
    let said = format!("user {NOBODY} is not among those that ");
    assert!(client.1.starts_with("refused: ") && client.1.contains(&said), "{}", client.1);
    assert!(client.1.contains("allows; ask the administrator"), "{}", client.1);
}

fn without_a_broker() {
    let (fabric, directory, broker) = place("without", "users = ['*']");
    let client = ChildProcess::start(&fabric.node(1), "never", directory.path(), "");
    assert!(client.1.starts_with("missing: "), "{}", client.1);
    // In this envelope there is a link that needs no capability.
    let client = ChildProcess::start(&fabric.node(1), "udp", directory.path(), "");
    assert!(client.1.contains("AF_PACKET was refused: "), "{}", client.1);
    drop(broker);
    let client = ChildProcess::start(&fabric.node(1), "plain", directory.path(), "");
    assert!(client.1.starts_with("missing: ") && client.1.contains("gigae broker"), "{}", client.1);
}
