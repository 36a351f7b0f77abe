//! Hosts to start MPI programs on: the nodes of a fabric, each with its own name and a way in.

use crate::Error;
use gigae_fabric::{Fabric, FabricConfig};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Between two looks at whether a job has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Characters kept of a job's standard error.
const MOST_STDERR: usize = 4_000;

/// What separates a job from this process. The file systems of shared memory and of run-time data
/// are the job's own and end with it; among the latter is the one program that enters hosts.
const APART: &str = r#"
mount -t tmpfs gigae-mpi /dev/shm && mount -t tmpfs -o mode=755 gigae-mpi "$0/run" &&
    mkdir "$0/run/netns" "$0/run/gigae" && mount --rbind /run/netns "$0/run/netns" &&
    mount --rbind "$0/run" /run && install -m 4755 "$0/enter" /run/enter && "$@"
exit $?
"#;

/// A program in the place of rsh: `rsh HOST COMMAND...`, the command put together and read by a
/// shell.
const RSH: &str = r#"#!/bin/sh
host=$1
shift
exec /run/enter "$host" env HOME=PLACE/home TMPDIR=PLACE/home sh -c "$*"
"#;

/// Hosts `n1`, `n2` and so on, on one Ethernet, until this is dropped.
#[derive(Debug)]
pub struct Hosts {
    fabric: Fabric,
    place: TempDir,
    /// Who starts jobs, if not root.
    user: Option<u32>,
}

/// How a job ended, and what it wrote.
#[derive(Debug)]
pub struct Finished {
    /// The launcher's exit status.
    pub status: ExitStatus,
    /// What was written to standard output.
    pub stdout: String,
    /// The end of what was written to standard error.
    pub stderr: String,
    /// From the start of the launcher to its end.
    pub took: Duration,
}

impl Hosts {
    /// Makes hosts of a fabric's nodes, and a directory for their files.
    pub fn new(fabric: Fabric) -> Result<Hosts, Error> {
        let place = tempfile::Builder::new().prefix("gigae-mpi-").tempdir();
        let place = place.map_err(|error| format!("making a directory for jobs: {error}"))?;
        let hosts = Hosts { fabric, place, user: None };
        for directory in [hosts.home(), hosts.provider(), hosts.place().join("run")] {
            fs::create_dir(&directory)
                .map_err(|error| format!("making {}: {error}", directory.display()))?;
        }
        hosts.compile_enter()?;
        let rsh = RSH.replace("PLACE", &hosts.place().display().to_string());
        fs::write(hosts.rsh(), rsh)
            .map_err(|error| format!("writing {}: {error}", hosts.rsh().display()))?;
        open_to_all(&hosts.rsh())?;
        // A copy: where it was built not every user may look.
        fs::copy(built("libgigae_fi.so")?, hosts.provider().join("libgigae-fi.so"))
            .map_err(|error| format!("copying the provider: {error}"))?;
        Ok(hosts)
    }

    /// The same hosts, on which this user starts jobs, and who has no privileges.
    pub fn for_user(mut self, user: u32) -> Result<Hosts, Error> {
        let library = self.provider().join("libgigae-fi.so");
        for path in [self.place(), &self.provider(), &library] {
            open_to_all(path)?;
        }
        std::os::unix::fs::chown(self.home(), Some(user), Some(user))
            .map_err(|error| format!("giving {} to user {user}: {error}", self.home().display()))?;
        self.user = Some(user);
        Ok(self)
    }

    /// Lays a fabric and makes hosts of its nodes.
    pub fn up(config: FabricConfig) -> Result<Hosts, Error> {
        Hosts::new(Fabric::up(config).map_err(|error| error.to_string())?)
    }

    /// Has TCP's congestion control be one that goes by loss, cubic or else reno: the others expect
    /// wires on which time passes. The kernel lets a namespace choose among what the machine
    /// allows. Says which it is.
    pub fn tune_tcp(&self) -> Result<String, Error> {
        const SETTING: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
        let mut chosen = String::new();
        for node in self.fabric.nodes() {
            let _inside = node.enter().map_err(|error| error.to_string())?;
            let set = ["cubic", "reno"].iter().any(|name| fs::write(SETTING, name).is_ok());
            let is = fs::read_to_string(SETTING).map_err(|error| format!("{SETTING}: {error}"))?;
            chosen = is.trim().to_owned();
            if !set {
                chosen.push_str(", which could not be changed");
            }
        }
        Ok(chosen)
    }

    /// The network below.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// A directory that goes with this value.
    pub fn place(&self) -> &Path {
        self.place.path()
    }

    /// The directory with the provider under the name by which libfabric takes it.
    pub fn provider(&self) -> PathBuf {
        self.place().join("provider")
    }

    /// Where jobs have their home and put what they keep for themselves.
    pub fn home(&self) -> PathBuf {
        self.place().join("home")
    }

    /// Where a broker is to listen so that jobs find it on this host, 1 and so on, at the usual
    /// place. Makes its directory.
    pub fn broker(&self, host: u16) -> Result<PathBuf, Error> {
        let directory = self.place().join(format!("brokers/n{host}"));
        fs::create_dir_all(&directory)
            .map_err(|error| format!("making {}: {error}", directory.display()))?;
        open_to_all(&self.place().join("brokers"))?;
        open_to_all(&directory)?;
        Ok(directory.join("broker.sock"))
    }

    /// The program that takes the place of rsh.
    pub fn rsh(&self) -> PathBuf {
        self.place().join("rsh")
    }

    /// Names of the first hosts, with this many places on each, as launchers read them.
    pub fn list(&self, hosts: u16, places: u16) -> String {
        let names: Vec<_> = (1..=hosts).map(|host| format!("n{host}:{places}")).collect();
        names.join(",")
    }

    /// Runs a program on the first host, and all that it starts in a PID namespace of their own.
    /// Ends it, and them, when `limit` has passed or `interrupted` is set.
    pub fn run(
        &self,
        argv: &[String],
        limit: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Finished, Error> {
        let (out, err) = (self.place().join("stdout"), self.place().join("stderr"));
        let file = |path| fs::File::create(path).map_err(|error| format!("for a job: {error}"));
        // Brokers are there before a job, and stay.
        let others = self.processes();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork"]);
        command.args(["--kill-child", "--mount-proc", "sh", "-c", APART]).arg(self.place());
        if let Some(user) = self.user.map(|user| user.to_string()) {
            command.args(["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"]);
        }
        let home = self.home().display().to_string();
        command.args(["/run/enter", "n1", "env", &format!("HOME={home}")]);
        command.arg(format!("TMPDIR={home}")).args(argv).current_dir(self.place());
        command.stdin(Stdio::null()).stdout(file(&out)?).stderr(file(&err)?);
        // Ctrl-C is for this program, which then ends the job.
        command.process_group(0);
        let begin = Instant::now();
        let mut child = command
            .spawn()
            .map_err(|error| format!("setpriv cannot be run: {error}; install util-linux"))?;
        let status = loop {
            let status = child.try_wait().map_err(|error| format!("waiting for a job: {error}"))?;
            let late = begin.elapsed() > limit;
            match status {
                Some(status) => break status,
                None if late || interrupted.load(Ordering::Relaxed) => {
                    // The namespace's first process goes with it, and all others with that one.
                    let _ = child.kill();
                    let _ = child.wait();
                    self.await_silence(&others);
                    if !late {
                        return Err("interrupted".into());
                    }
                    let (stdout, stderr) = (text(&out), tail(&text(&err)));
                    let limit = limit.as_secs();
                    return Err(format!("not done after {limit} s: {stdout}{stderr}"));
                }
                None => std::thread::sleep(LOOK),
            }
        };
        let took = begin.elapsed();
        self.await_silence(&others);
        Ok(Finished { status, stdout: text(&out), stderr: tail(&text(&err)), took })
    }

    /// Until no process but these is left on any host: an interface is free again only then. The
    /// kernel ends those of a PID namespace at once; how long it takes depends on what else it
    /// does.
    fn await_silence(&self, others: &[u32]) {
        let end = Instant::now() + Duration::from_secs(10);
        let left = || self.processes().iter().any(|process| !others.contains(process));
        while Instant::now() < end && left() {
            std::thread::sleep(LOOK);
        }
    }

    /// Those on all hosts.
    fn processes(&self) -> Vec<u32> {
        let status = self.fabric.status();
        status.map_or(Vec::new(), |all| all.processes.iter().map(|one| one.pid).collect())
    }

    /// The one program of a job that runs as root for every caller.
    fn compile_enter(&self) -> Result<(), Error> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/enter.c");
        let define = |name: &str, value: &str| format!("-D{name}=\"{value}\"");
        let mut command = Command::new("cc");
        command.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]);
        command.arg(define("PREFIX", &self.fabric.config().prefix));
        command.arg(define("PLACE", &self.place().display().to_string()));
        let output = command.arg("-o").arg(self.place().join("enter")).arg(source).output();
        let output = output.map_err(|error| format!("cc cannot be run: {error}; install gcc"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("enter.c: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }
}

/// A file that was built with this program: beside it, or with what it depends on.
fn built(name: &str) -> Result<PathBuf, Error> {
    let exe = std::env::current_exe().map_err(|error| format!("looking for {name}: {error}"))?;
    let beside = exe.parent().unwrap_or(Path::new("."));
    // Programs lie in TARGET/PROFILE, tests and libraries in TARGET/PROFILE/deps.
    [beside.join("deps").join(name), beside.join(name)]
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| {
            format!("{name} is not in {}; run: cargo build -p gigae-mpi", beside.display())
        })
}

/// Has every user read and enter, or run, it.
pub(crate) fn open_to_all(path: &Path) -> Result<(), Error> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .map_err(|error| format!("opening {} to all: {error}", path.display()))
}

fn text(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn tail(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(MOST_STDERR);
    text.chars().skip(skipped).collect()
}
