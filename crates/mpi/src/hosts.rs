//! Hosts to start MPI programs on: the nodes of a fabric, each with a name of its own and a way in.

use crate::Trouble;
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

/// Of what a job complained, as much is told.
const COMPLAINTS: usize = 4_000;

/// Runs a program on a host: `enter HOST PROGRAM ARGUMENT...`. A host is a network namespace and a name. Both are
/// what an MPI tells hosts apart by; whoever wraps single ranks instead has them all on one host.
const ENTER: &str = r#"#!/bin/sh
host=$1
shift
exec nsenter --net=/run/netns/PREFIX-"$host" unshare --uts \
    sh -c 'hostname "$0" && exec "$@"' "$host" "$@"
"#;

/// The same as rsh does it: `rsh HOST COMMAND...`, the command put together and read by a shell.
const RSH: &str = r#"#!/bin/sh
host=$1
shift
exec DIRECTORY/enter "$host" sh -c "$*"
"#;

/// What stands between a job and this process. The file system of shared memory is the job's own and ends with it.
const APART: &str = r#"mount -t tmpfs gigae-mpi /dev/shm && "$@"; exit $?"#;

/// Hosts `n1`, `n2` and so on, on one Ethernet, until this is dropped.
#[derive(Debug)]
pub struct Hosts {
    fabric: Fabric,
    place: TempDir,
}

/// How a job ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    /// The launcher's exit status.
    pub status: ExitStatus,
    /// What was written to standard output.
    pub said: String,
    /// The end of what was written to standard error.
    pub complained: String,
    /// From the start of the launcher to its end.
    pub took: Duration,
}

impl Hosts {
    /// Makes hosts of a fabric's nodes, and a directory for their files. Needs root.
    pub fn new(fabric: Fabric) -> Result<Hosts, Trouble> {
        let place = tempfile::Builder::new().prefix("gigae-mpi-").tempdir();
        let place = place.map_err(|error| format!("making a directory for jobs: {error}"))?;
        let hosts = Hosts { fabric, place };
        let directory = hosts.place.path().display().to_string();
        hosts.script("enter", &ENTER.replace("PREFIX", &hosts.fabric.config().prefix))?;
        hosts.script("rsh", &RSH.replace("DIRECTORY", &directory))?;
        let provider = built("libgigae_fi.so")?;
        fs::create_dir(hosts.provider())
            .and_then(|()| {
                std::os::unix::fs::symlink(provider, hosts.provider().join("libgigae-fi.so"))
            })
            .map_err(|error| format!("putting the provider into {directory}: {error}"))?;
        Ok(hosts)
    }

    /// Lays a fabric and makes hosts of its nodes.
    pub fn up(config: FabricConfig) -> Result<Hosts, Trouble> {
        Hosts::new(Fabric::up(config).map_err(|error| error.to_string())?)
    }

    /// Has TCP's congestion control be one that goes by loss, cubic or else reno: the others expect wires on which
    /// time passes. The kernel lets a namespace choose among what the machine allows. Says which it is.
    pub fn tune_tcp(&self) -> Result<String, Trouble> {
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

    /// The program that takes the place of rsh.
    pub fn rsh(&self) -> PathBuf {
        self.place().join("rsh")
    }

    /// Names of the first hosts, with so many places on each, as launchers read them.
    pub fn list(&self, hosts: u16, places: u16) -> String {
        let names: Vec<_> = (1..=hosts).map(|host| format!("n{host}:{places}")).collect();
        names.join(",")
    }

    /// Runs a program on the first host, and all that it starts in a PID namespace of their own. Ends it, and them, when
    /// `limit` has passed or `interrupted` is set.
    pub fn run(
        &self,
        argv: &[String],
        limit: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Ended, Trouble> {
        let (out, err) = (self.place().join("stdout"), self.place().join("stderr"));
        let file = |path| fs::File::create(path).map_err(|error| format!("for a job: {error}"));
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork"]);
        command.args(["--kill-child", "--mount-proc", "sh", "-c", APART, "sh"]);
        command.arg(self.place().join("enter")).arg("n1").args(argv);
        command.env("TMPDIR", self.place()).current_dir(self.place());
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
                    self.await_silence();
                    if !late {
                        return Err("interrupted".into());
                    }
                    let (said, complained) = (text(&out), tail(&text(&err)));
                    let limit = limit.as_secs();
                    return Err(format!("not done after {limit} s: {said}{complained}"));
                }
                None => std::thread::sleep(LOOK),
            }
        };
        let took = begin.elapsed();
        self.await_silence();
        Ok(Ended { status, said: text(&out), complained: tail(&text(&err)), took })
    }

    /// Until no process is left on any host: an interface is free again only then. The kernel ends those of a PID
    /// namespace at once; how long it takes depends on what else it does.
    fn await_silence(&self) {
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end
            && self.fabric.status().is_ok_and(|status| !status.processes.is_empty())
        {
            std::thread::sleep(LOOK);
        }
    }

    fn script(&self, name: &str, text: &str) -> Result<(), Trouble> {
        let path = self.place().join(name);
        fs::write(&path, text)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
            .map_err(|error| format!("writing {}: {error}", path.display()))
    }
}

/// A file that was built with this program: beside it, or with what it depends on.
fn built(name: &str) -> Result<PathBuf, Trouble> {
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

fn text(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn tail(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(COMPLAINTS);
    text.chars().skip(skipped).collect()
}
