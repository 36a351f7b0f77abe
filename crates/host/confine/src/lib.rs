//! A daemon gives up what it does not need.
//!
//! A daemon starts with more rights than its work needs. After it has opened its files and sockets
//! it describes what it still needs in a [`Confinement`] and calls [`Confinement::apply`]. From
//! then on a person who takes the daemon over has no more than that:
//!
//! | step | module | what is given up |
//! |---|---|---|
//! | user, capabilities, `no_new_privs` | `identity` | uid 0, every capability that is not named, set-user-id programs |
//! | Landlock | `landlock_rules` | files and directories, TCP ports, signals to other processes |
//! | seccomp | `filter` | system calls that no daemon of ours makes |
//!
//! All steps are for good, and every thread and program that the daemon starts later inherits them.
//! They act on the calling thread, so `apply` refuses to run when the process has a second thread.
//!
//! Landlock and seccomp depend on the kernel. [`Kernel`] says what this kernel has; `gigae doctor`
//! prints it, and a daemon prints [`Confined`], which contains it. A kernel without them is no
//! error: the other steps still hold.
//!
//! This crate knows nothing of networks, links or our daemons.

mod filter;
mod identity;
mod kernel;
mod landlock_rules;

pub use identity::{is_local_user, lift_limits, names, require};
pub use kernel::{Kernel, Landlock, Seccomp};
pub use landlock_rules::Fence;
pub use rustix::thread::CapabilitySet;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// TCP ports that a confined process may bind or connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// Every port.
    Any,
    /// These ports.
    Only(Vec<u16>),
    /// No port.
    None,
}

/// What a daemon still needs. A new one allows nothing but system calls that are not refused to
/// all.
#[derive(Clone, Debug)]
pub struct Confinement {
    keep: CapabilitySet,
    users: Vec<String>,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    run: Vec<PathBuf>,
    all_files: bool,
    bind: Ports,
    connect: Ports,
    calls: Vec<libc::c_long>,
}

impl Confinement {
    /// Allows nothing.
    #[expect(clippy::new_without_default, reason = "there is no usual confinement")]
    pub fn new() -> Self {
        let (bind, connect) = (Ports::None, Ports::None);
        let (users, calls) = (Vec::new(), Vec::new());
        let (read, write, run) = (Vec::new(), Vec::new(), Vec::new());
        let (keep, all_files) = (CapabilitySet::empty(), false);
        Self { keep, users, read, write, run, all_files, bind, connect, calls }
    }

    /// Keeps these capabilities. `apply` fails if the process does not have them.
    pub fn keep(mut self, capabilities: CapabilitySet) -> Self {
        self.keep |= capabilities;
        self
    }

    /// A process of uid 0 becomes this user; where `/etc/passwd` has no such user, the one of the
    /// next call, and at last `nobody`. Without a call, a process of uid 0 stays uid 0.
    pub fn user(mut self, name: &str) -> Self {
        self.users.push(name.to_owned());
        self
    }

    /// May read this file, or everything below this directory. A path that does not exist is left
    /// out.
    pub fn read(mut self, path: impl AsRef<Path>) -> Self {
        self.read.push(path.as_ref().into());
        self
    }

    /// May also change it: write, create, remove.
    pub fn write(mut self, path: impl AsRef<Path>) -> Self {
        self.write.push(path.as_ref().into());
        self
    }

    /// May also run programs from there.
    pub fn run(mut self, path: impl AsRef<Path>) -> Self {
        self.run.push(path.as_ref().into());
        self
    }

    /// May use all files as its user may, and run programs: for a daemon whose files cannot be
    /// named.
    pub fn all_files(mut self) -> Self {
        self.all_files = true;
        self
    }

    /// May bind TCP sockets to these ports. Sockets that listen already are not affected.
    pub fn bind(mut self, ports: Ports) -> Self {
        self.bind = ports;
        self
    }

    /// May connect TCP sockets to these ports.
    pub fn connect(mut self, ports: Ports) -> Self {
        self.connect = ports;
        self
    }

    /// May make this system call (`libc::SYS_bpf`), which is refused otherwise.
    pub fn call(mut self, number: libc::c_long) -> Self {
        self.calls.push(number);
        self
    }

    /// The files, ports and signals of this for one program that this process will start. Its user,
    /// capabilities and system calls are the caller's. `None` where the kernel has no Landlock.
    pub fn fence(&self) -> io::Result<Option<Fence>> {
        Fence::new(self)
    }

    /// Gives up everything else, for good. Fails if the process has another thread, or lacks a
    /// capability that it is to keep. After a failure the process must end: a part may be done.
    pub fn apply(&self) -> io::Result<Confined> {
        one_thread()?;
        let user = identity::assume(self.keep, &self.users)?;
        let landlock = landlock_rules::restrict(self)?;
        let files = !self.all_files;
        let mut calls = self.calls.clone();
        if self.all_files || !self.run.is_empty() {
            calls.extend([libc::SYS_execve, libc::SYS_execveat]);
        }
        // Last: the steps before it need calls that it refuses.
        let seccomp = filter::install(&calls)?;
        Ok(Confined { user, capabilities: self.keep, files, kernel: Kernel { landlock, seccomp } })
    }
}

/// What a process gave up; its text is one line for the daemon's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confined {
    /// The user that it is now.
    pub user: u32,
    /// The capabilities that it kept.
    pub capabilities: CapabilitySet,
    /// Whether its files were restricted to some, if the kernel can.
    pub files: bool,
    /// What the kernel enforces besides.
    pub kernel: Kernel,
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = if self.files { "" } else { ", all files" };
        write!(f, "user {}, {}{files}; {}", self.user, names(self.capabilities), self.kernel)
    }
}

/// The steps act on one thread; another one would keep its rights.
fn one_thread() -> io::Result<()> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    match threads {
        1 => Ok(()),
        _ => Err(io::Error::other(format!(
            "{threads} threads run already; a process confines itself before it starts threads"
        ))),
    }
}
