//! The command `gigae broker` as an administrator runs it, and commands of users without privileges
//! over it. Needs root.
#![allow(missing_docs)]

use gigae_fabric::{Fabric, testing};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// `nobody`, who may have ports of the broker, and a user who may not.
const NOBODY: u32 = 65534;
const OTHER: u32 = 65533;

/// Far more than anything bounded here takes, on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

fn says(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

/// Two nodes, of which the first may have a broker.
struct BrokerNodes {
    fabric: Fabric,
    directory: tempfile::TempDir,
}

/// A process that is ended with its test, and what it says on standard error.
struct ChildProcess {
    process: Child,
    lines: Receiver<String>,
}

impl BrokerNodes {
    fn new(test: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).unwrap();
        // Where it was built not every user may look.
        let (built, here) = (env!("CARGO_BIN_EXE_gigae"), directory.path().join("gigae"));
        std::fs::hard_link(built, &here)
            .or_else(|_| std::fs::copy(built, &here).map(drop))
            .unwrap();
        let nodes = Self { fabric: testing::fabric(test, |_| ()), directory };
        std::fs::write(nodes.config(), format!("nics = ['eth0']\nusers = [{NOBODY}]\n")).unwrap();
        nodes
    }

    fn config(&self) -> PathBuf {
        self.directory.path().join("broker.toml")
    }

    /// In a directory that is made for it.
    fn socket(&self) -> PathBuf {
        self.directory.path().join("run/broker.sock")
    }

    /// `gigae` on a node, as this user.
    fn gigae(&self, node: u16, user: u32, arguments: &[&str]) -> Command {
        let mut command = self.fabric.node(node).command("setpriv").unwrap();
        if user != 0 {
            let user = user.to_string();
            command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        }
        // As cautious administrators have it: what is for all must be so all the same.
        command.args(["sh", "-c", r#"umask 077 && exec "$@""#, "sh"]);
        command.arg(self.directory.path().join("gigae")).args(arguments);
        command.env("GIGAE_BROKER", self.socket()).env("GIGAE_CLUSTER", "/nowhere");
        command.env("FI_PROVIDER_PATH", "/nowhere").env_remove("GIGAE_NODE");
        command
    }

    fn run(&self, user: u32, arguments: &[&str]) -> Output {
        self.gigae(1, user, arguments).output().unwrap()
    }

    /// What starts a broker on the first node.
    fn broker(&self, user: u32) -> Command {
        let mut command = self.gigae(1, user, &["broker", "--config"]);
        command.arg(self.config()).arg("--socket").arg(self.socket());
        command
    }

    fn start_broker(&self) -> ChildProcess {
        let child = ChildProcess::start(self.broker(0));
        child.until("makes ports on eth0 for those who ask at");
        child
    }

    /// A command of a user's that has a port for a while.
    fn listener(&self, broker: &ChildProcess) -> ChildProcess {
        let discover = ["discover", "--interface", "eth0", "--time", "600"];
        let child = ChildProcess::start(self.gigae(1, NOBODY, &discover));
        broker.until("is user 65534's (process");
        child
    }

    fn until_no_port_is_left(&self) {
        let end = Instant::now() + BOUND;
        while !self.ports().is_empty() {
            assert!(Instant::now() < end, "{}", self.ports());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn ports(&self) -> String {
        let mut ip = self.fabric.node(1).command("ip").unwrap();
        says(&ip.args(["-o", "link", "show", "type", "macvlan"]).output().unwrap().stdout)
    }
}

impl ChildProcess {
    fn start(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (said, lines) = channel();
        let source = BufReader::new(process.stderr.take().unwrap());
        std::thread::spawn(move || {
            source.lines().map_while(Result::ok).try_for_each(|line| said.send(line))
        });
        Self { process, lines }
    }

    /// Reads on until it says this.
    fn until(&self, text: &str) {
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(BOUND) {
                Ok(line) if line.contains(text) => return,
                Ok(line) => said.push(line),
                Err(_) => panic!("no '{text}' in: {said:?}"),
            }
        }
    }

    fn signal(&self, name: &str) {
        let number = self.process.id().to_string();
        let status = Command::new("kill").args(["-s", name, &number]).status().unwrap();
        assert!(status.success());
    }

    /// How it ends, and what it says until then.
    fn ended(&mut self) -> (ExitStatus, String) {
        let end = Instant::now() + BOUND;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return (status, self.lines.iter().collect::<Vec<_>>().join("\n"));
            }
            assert!(Instant::now() < end, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn line(text: &str, about: &str) -> String {
    let found = text.lines().find(|line| line.starts_with(about));
    found.unwrap_or_else(|| panic!("no line on {about}: {text}")).to_owned()
}

fn users_commands_work_over_a_broker() {
    let nodes = BrokerNodes::new("users");
    let _broker = nodes.start_broker();
    assert!(std::fs::metadata(nodes.socket()).unwrap().file_type().is_socket());
    // A server to be found.
    let key = nodes.config().with_file_name("key");
    std::fs::write(&key, "0123456789abcdef").unwrap();
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    let key = key.display().to_string();
    let serve = ["serve", "--nic", "eth0", "--key", &key, "--cpu", "0"];
    let serving = ChildProcess::start(nodes.gigae(2, 0, &serve));
    serving.until("serving on");

    let output = nodes.run(NOBODY, &["doctor", "eth0"]);
    let text = says(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(line(&text, "privileges").contains("none needed: the broker opens links"), "{text}");
    assert!(line(&text, "endpoint").contains("xdp generic, 1 answer"), "{text}");
    assert!(line(&text, "broker").contains("makes ports on eth0 for this user"), "{text}");
    assert!(!text.contains("locked memory"), "{text}");

    let output = nodes.run(NOBODY, &["discover", "--interface", "eth0", "--time", "10"]);
    let (text, error) = (says(&output.stdout), says(&output.stderr));
    assert!(output.status.success(), "{error}");
    assert!(text.contains("02:67:69:00:00:02"), "{text}");
    // What commands had goes with them, once the broker has learnt of their end.
    nodes.until_no_port_is_left();

    // A port's address is not a node's: nothing is written with it.
    let file = nodes.directory.path().join("cluster.toml").display().to_string();
    let write = ["discover", "--interface", "eth0", "--write", &file];
    assert_eq!(nodes.run(NOBODY, &write).status.code(), Some(1));
}

fn a_user_that_is_not_allowed_reads_why() {
    let nodes = BrokerNodes::new("refused");
    let broker = nodes.start_broker();
    let refusal = format!("user {OTHER} is not among those that ");
    let output = nodes.run(OTHER, &["doctor", "eth0"]);
    let text = says(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(line(&text, "privileges").contains("without CAP_NET_RAW"), "{text}");
    assert!(line(&text, "endpoint").contains("note   udp"), "{text}");
    assert!(line(&text, "broker").contains(&refusal), "{text}");
    assert!(text.contains("-> ask the administrator of this machine"), "{text}");
    let output = nodes.run(OTHER, &["discover", "--interface", "eth0"]);
    let error = says(&output.stderr);
    assert!(error.contains(&refusal) && error.lines().count() == 1, "{error}");

    drop(broker);
    let output = nodes.run(NOBODY, &["doctor", "eth0"]);
    let text = says(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(line(&text, "broker").contains("note   none at "), "{text}");
    assert!(text.contains("systemctl start gigae-broker"), "{text}");
    let error = says(&nodes.run(NOBODY, &["discover", "--interface", "eth0"]).stderr);
    assert!(error.contains("with a broker ('gigae broker')"), "{error}");
}

/// SIGTERM of a supervisor's, Ctrl-C of a person's: those who have ports keep them, and the next
/// broker removes what they leave.
fn a_broker_ends_in_order_after_a_signal() {
    let nodes = BrokerNodes::new("signals");
    for signal in ["TERM", "INT", "HUP"] {
        let mut broker = nodes.start_broker();
        let client = nodes.listener(&broker);
        broker.signal(signal);
        let (status, said) = broker.ended();
        assert!(status.success(), "{signal}: {status}: {said}");
        assert!(said.contains("ends; 1 ports stay in use"), "{signal}: {said}");
        assert!(nodes.ports().contains("gigae0@eth0"), "{signal}");
        drop(client);
        let next = ChildProcess::start(nodes.broker(0));
        next.until("removed gigae0, which a killed process left");
        assert_eq!(nodes.ports(), "", "{signal}");
    }
}

/// A client that hangs, stopped in the middle of its work, delays no other client, and its port
/// goes when it is killed.
fn a_client_that_hangs_holds_nobody_up() {
    let nodes = BrokerNodes::new("hangs");
    let broker = nodes.start_broker();
    let client = nodes.listener(&broker);
    client.signal("STOP");
    let output = nodes.run(NOBODY, &["doctor", "eth0"]);
    assert!(output.status.success(), "{}", says(&output.stdout));
    broker.until("gigae1 is removed");
    assert!(nodes.ports().contains("gigae0@eth0"));
    client.signal("KILL");
    broker.until("gigae0 is removed");
    assert_eq!(nodes.ports(), "");
    // A broker that is stopped is waited for: its clients go on when it does.
    broker.signal("STOP");
    let mut asking = nodes.gigae(1, NOBODY, &["doctor", "eth0"]);
    let asking = asking.stdout(Stdio::piped()).spawn().unwrap();
    broker.signal("CONT");
    let output = asking.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", says(&output.stdout));
}

fn a_broker_that_cannot_start_says_why_in_one_line() {
    let nodes = BrokerNodes::new("cannot");
    let fails = |mut command: Command, text: &str| {
        let output = command.output().unwrap();
        let error = says(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.starts_with("gigae: ") && error.lines().count() == 1, "{error}");
        assert!(error.contains(text), "{error}");
    };
    let first = nodes.start_broker();
    fails(nodes.broker(0), "another broker does");
    drop(first);
    let mut missing = nodes.gigae(1, 0, &["broker", "--config", "/nowhere/broker.toml"]);
    missing.arg("--socket").arg(nodes.socket());
    fails(missing, "docs/reference/broker.md");
    let mut bare = nodes.fabric.node(1).command("setpriv").unwrap();
    bare.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
    bare.arg(nodes.directory.path().join("gigae")).args(["broker", "--config"]);
    bare.arg(nodes.config()).arg("--socket").arg(nodes.directory.path().join("other.sock"));
    fails(bare, "run it as root or by its systemd unit");
    std::fs::write(nodes.config(), "nics = ['eth0']\nusres = ['alice']\n").unwrap();
    fails(nodes.broker(0), "broker.toml:2: unknown field `usres`");
    std::fs::write(nodes.config(), "nics = ['eth0']\nusers = ['no-such-user']\n").unwrap();
    fails(nodes.broker(0), "broker.toml:2: no user 'no-such-user' here");
    std::fs::write(nodes.config(), "nics = ['eth0']\nuser = 'no-such-user'\n").unwrap();
    fails(
        nodes.broker(0),
        "broker.toml:2: no user 'no-such-user' in /etc/passwd; name a user of this machine",
    );
}

fn main() {
    let tests: [(&str, fn()); 5] = [
        ("users_commands_work_over_a_broker", users_commands_work_over_a_broker),
        ("a_user_that_is_not_allowed_reads_why", a_user_that_is_not_allowed_reads_why),
        ("a_broker_ends_in_order_after_a_signal", a_broker_ends_in_order_after_a_signal),
        ("a_client_that_hangs_holds_nobody_up", a_client_that_hangs_holds_nobody_up),
        (
            "a_broker_that_cannot_start_says_why_in_one_line",
            a_broker_that_cannot_start_says_why_in_one_line,
        ),
    ];
    testing::run(&tests);
}
