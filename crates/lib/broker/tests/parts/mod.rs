//! Brokers and their clients as processes of their own: this program again; its environment says
//! what it is to be.

pub(crate) mod attacker;
pub(crate) mod blocking;

use gigae_broker::{BrokerError, Port, PortOffer, Request};
use gigae_fabric::{Fabric, Node, testing};
use gigae_link::{ChannelSet, Filter, Link, conformance};
use gigae_wire::{Envelope, MacAddr, NodeAddr, Route};
use gigae_xdp::{XdpConfig, XdpLink};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a process is to be, and by what.
const ROLE: &str = "GIGAE_TEST_ROLE";
const SOCKET: &str = "GIGAE_TEST_SOCKET";
const CONFIG: &str = "GIGAE_TEST_CONFIG";

/// Variables that a program with more rights than its user ignores; of libfabric's provider, one.
pub(crate) const IGNORED: [&str; 4] =
    ["GIGAE_CLUSTER", "GIGAE_NODE", gigae_broker::VARIABLE, "FI_GIGAE_IFACE"];

/// `nobody`, who has no privileges, and another user without privileges.
pub(crate) const NOBODY: u32 = 65534;
pub(crate) const OTHER: u32 = 65533;

/// Far more than anything bounded here takes, on a busy machine.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

pub(crate) const CHANNEL: u8 = 3;

/// 1 MiB.
pub(crate) fn request() -> Request {
    Request {
        interface: None,
        ethertype: 0x88b5,
        channels: ChannelSet::EMPTY.with(CHANNEL),
        long_frames: true,
        tx_frames: 64,
        rx_frames: 192,
        rx_ready: 64,
    }
}

/// If this process was begun as a part of a test, is that.
pub(crate) fn play() -> bool {
    let Ok(role) = std::env::var(ROLE) else { return false };
    let (role, uid) = role.split_once(' ').unwrap_or((&role, "0"));
    become_user(uid.parse().unwrap());
    let path = |name| PathBuf::from(std::env::var_os(name).unwrap());
    match role {
        "broker" => {
            let mut say = |line: &str| println!("{line}");
            let (config, socket) = (path(CONFIG), path(SOCKET));
            // SAFETY: the handler stores a flag, which is all that a handler may do.
            unsafe { libc::signal(libc::SIGTERM, stop as *const () as libc::sighandler_t) };
            match gigae_broker::run(&config, &socket, &STOP, &mut say) {
                Ok(()) => println!("ended"),
                Err(error) => println!("failed: {error}"),
            }
        }
        "echo" => echo(&path(SOCKET)),
        "ask" => ask(&path(SOCKET)),
        "fake" => fake(&path(SOCKET)),
        "attacker" => attacker::attack(&path(SOCKET)),
        "secure" => {
            let values = IGNORED.map(gigae_host::environment::variable);
            println!("{:?} {values:?}", gigae_broker::socket());
        }
        other => panic!("no such part: {other}"),
    }
    true
}

/// Set by SIGTERM.
static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Asks for a port and fills its memory; says so, waits for a line, and takes the port.
fn ask(socket: &Path) {
    let offer = PortOffer::ask(socket, &request()).unwrap_or_else(|e| panic!("{e}"));
    println!("asked");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    offer.filled().unwrap();
    println!("filled");
    let _port = offer.take().unwrap_or_else(|e| panic!("{e}"));
    println!("open");
    std::thread::sleep(BOUND);
}

/// Listens as a broker does, and says whether anybody asks it.
fn fake(socket: &Path) {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let listener = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(socket).unwrap()).unwrap();
    std::fs::set_permissions(socket, PermissionsExt::from_mode(0o666)).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    println!("listens");
    let asked = rustix::net::accept(&listener).unwrap();
    let flags = rustix::net::RecvFlags::empty();
    let (length, _) = rustix::net::recv(&asked, &mut [0; 100][..], flags).unwrap();
    println!("got {length} bytes");
}

/// Gives up root's user, groups and so all capabilities, for good.
pub(crate) fn become_user(uid: u32) {
    if uid != 0 {
        // SAFETY: system calls on plain numbers.
        let results = unsafe {
            [
                libc::setgroups(0, std::ptr::null()),
                libc::setresgid(uid, uid, uid),
                libc::setresuid(uid, uid, uid),
            ]
        };
        assert_eq!(results, [0; 3]);
        let left = rustix::thread::capabilities(None).unwrap();
        assert!(left.permitted.is_empty() && left.effective.is_empty());
    }
}

/// Opens a port and sends every frame back to its sender.
fn echo(socket: &Path) {
    let mut port = match Port::open(socket, &request()) {
        Ok(port) => port,
        Err(error) => return println!("refused: {error}"),
    };
    let info = port.link.info();
    println!("open {} {}", info.mac, info.interface);
    let (own, end) = (NodeAddr::Ethernet(info.mac), Instant::now() + BOUND);
    let mut frames = Vec::new();
    while Instant::now() < end {
        port.link.poll(&mut frames, 64).unwrap();
        let arena = port.link.memory().arena.clone();
        for frame in frames.drain(..) {
            let mut back = arena.bytes(&frame).to_vec();
            let from = MacAddr(back[6..12].try_into().unwrap());
            let route = Route::new(Envelope::DEFAULT, own, NodeAddr::Ethernet(from));
            route.unwrap().write(&mut back);
            conformance::send(&mut *port.link, &back);
            port.link.recycle(frame);
        }
        let _ = port.link.wait(Some(Duration::from_millis(100))).unwrap();
    }
}

/// A process that is ended with its test.
pub(crate) struct TestProcess {
    pub(crate) process: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl TestProcess {
    pub(crate) fn start(node: &Node, role: &str, socket: &Path, config: &Path) -> Self {
        let mut command: Command = node.command(std::env::current_exe().unwrap()).unwrap();
        command.env(ROLE, role).env(SOCKET, socket).env(CONFIG, config);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Self { process, lines }
    }

    /// The next thing that it says.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Has it go on.
    pub(crate) fn go_on(&mut self) {
        writeln!(self.process.stdin.as_mut().unwrap()).unwrap();
    }

    pub(crate) fn signal(&self, number: libc::c_int) {
        // SAFETY: a system call on plain numbers; the process is ours and not waited for yet.
        assert_eq!(unsafe { libc::kill(self.process.id() as libc::pid_t, number) }, 0);
    }

    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = self.lines.read_to_string(&mut String::new());
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// Two nodes, of which the first has a broker.
pub(crate) struct Testbed {
    pub(crate) fabric: Fabric,
    /// Where the broker's socket and configuration are.
    directory: tempfile::TempDir,
    pub(crate) broker: TestProcess,
}

impl Testbed {
    /// `more` is added to a configuration that allows `nobody` the use of eth0.
    pub(crate) fn new(test: &str, more: &str) -> Self {
        let fabric = testing::fabric(test, |_| ());
        let directory = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).unwrap();
        let text = format!("nics = ['eth0']\nusers = [{NOBODY}]\n{more}");
        std::fs::write(directory.path().join("broker.toml"), text).unwrap();
        let broker = start_broker(&fabric, directory.path());
        Self { fabric, directory, broker }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("broker.sock")
    }

    /// Kills the broker and starts another.
    pub(crate) fn restart(&mut self) {
        self.broker.end();
        self.broker = start_broker(&self.fabric, self.directory.path());
    }

    /// A client of this user that sends frames back: its address and interface, or why it was
    /// refused.
    pub(crate) fn echo(&self, uid: u32) -> Result<(TestProcess, MacAddr, String), String> {
        self.echo_at(uid, &self.socket())
    }

    /// The same of a broker that listens elsewhere.
    pub(crate) fn echo_at(
        &self,
        uid: u32,
        socket: &Path,
    ) -> Result<(TestProcess, MacAddr, String), String> {
        let role = format!("echo {uid}");
        let mut part = TestProcess::start(&self.fabric.node(1), &role, socket, Path::new(""));
        let line = part.line();
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["open", mac, interface] => Ok((part, mac.parse().unwrap(), interface.to_owned())),
            _ => Err(line.strip_prefix("refused: ").expect("an answer").to_owned()),
        }
    }

    /// A port of this process's, which is root and so allowed if the configuration says so.
    pub(crate) fn port(&self) -> Port {
        self.open(&request()).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The same, asked for from the first node.
    pub(crate) fn open(&self, request: &Request) -> Result<Port, BrokerError> {
        self.inside(|| Port::open(&self.socket(), request))
    }

    /// Does something in the first node's network namespace.
    pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        let node = self.fabric.node(1);
        let _inside = node.enter().unwrap();
        work()
    }

    /// A link on the other node.
    pub(crate) fn other(&self) -> XdpLink {
        let node = self.fabric.node(2);
        let _inside = node.enter().unwrap();
        let channels = ChannelSet::EMPTY.with(CHANNEL);
        XdpLink::open(XdpConfig::new("eth0", Filter { envelope: Envelope::DEFAULT, channels }))
            .unwrap()
    }

    /// Names of the children on the first node.
    pub(crate) fn children(&self) -> Vec<String> {
        let node = self.fabric.node(1);
        let _inside = node.enter().unwrap();
        gigae_macvlan::children().unwrap().into_iter().map(|found| found.name).collect()
    }

    /// Waits until the first node has these children.
    pub(crate) fn until_children(&self, names: &[&str]) {
        until(|| self.children() == names, || format!("{:?}", self.children()));
    }
}

fn start_broker(fabric: &Fabric, directory: &Path) -> TestProcess {
    let (socket, config) = (directory.join("broker.sock"), directory.join("broker.toml"));
    let mut broker = TestProcess::start(&fabric.node(1), "broker", &socket, &config);
    loop {
        let line = broker.line();
        assert!(!line.is_empty() && !line.starts_with("failed"), "{line}");
        if line.starts_with("makes ports") {
            return broker;
        }
    }
}

pub(crate) fn until(mut is: impl FnMut() -> bool, what: impl Fn() -> String) {
    let end = Instant::now() + BOUND;
    while !is() {
        assert!(Instant::now() < end, "{}", what());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Outer headers from a link to an address.
pub(crate) fn route(from: &dyn Link, to: MacAddr) -> Route {
    let from = NodeAddr::Ethernet(from.info().mac);
    Route::new(Envelope::DEFAULT, from, NodeAddr::Ethernet(to)).unwrap()
}
