//! A switch whose frames take time: they leave it a fixed time after they came.
//!
//! Kernels without netem have no queue that delays. So a process of ours, the *forwarder*, takes
//! the place of the bridge. It has a packet socket on each port of the switch, and the frames that
//! wait in one bounded queue. Ports, their shaping, impairments and counters stay as they are:
//!
//! ```text
//!   n1 eth0 ── p1 ─ socket ──► frames, in order, ──► socket ─ impair ─ tbf ─ p2 ── eth0 n2
//!                              each for its time
//! ```
//!
//! The process is this program again, started as the forwarder ([`become_forwarder`]). It gets the
//! sockets and needs no privilege after that. It ends when the fabric is taken down, and when the
//! process that created the fabric ends, unless the fabric is kept.
//!
//! A frame's time begins when the forwarder has read it, so no frame is early. How late the frames
//! leave is counted ([`DelayCounters`]).

mod addresses;
mod forwarder;
mod held;
mod socket;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gigae_host::affinity;
use gigae_host::proc::process::Stat;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::FdFlags;
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use crate::delay::addresses::Mac;
use crate::delay::forwarder::{Forwarder, Port};
use crate::delay::socket::PortSocket;
use crate::state::{self, OwnerProcess};
use crate::{Delay, FabricConfig, FabricError, netns, topology};

/// Has the forwarder's task. Set for the forwarder only.
const TASK: &str = "GIGAE_FABRIC_FORWARDER";

/// The forwarder's name, as `ps` shows it.
const NAME: &str = "gigae-delay";

/// Written to the forwarder: it is to go on when its starter has ended.
const KEEP: [u8; 1] = *b"k";

/// The forwarder writes this to its standard error when it forwards; before, why it cannot.
const READY: [u8; 1] = *b"+";

/// A process that was killed is gone within milliseconds; this long only if the machine is busy.
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// Whether this program can be the forwarder.
static CAN_FORWARD: AtomicBool = AtomicBool::new(false);

/// What the forwarder did since the fabric was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DelayCounters {
    /// Frames whose time came.
    pub frames: u64,
    /// How much later than at their time they were sent, all together, in nanoseconds.
    pub late_ns: u64,
    /// Frames that found no room: neither in the queue nor in a socket.
    pub dropped: u64,
    /// Frames that the kernel refused to send, because they are too long or the port is down.
    pub failed: u64,
    /// The most bytes that the queue held at once. Each frame counts 64 bytes beside its own.
    pub peak: u64,
}

impl DelayCounters {
    fn to_bytes(self) -> [u8; 40] {
        let mut bytes = [0; 40];
        let all = [self.frames, self.late_ns, self.dropped, self.failed, self.peak];
        bytes.chunks_mut(8).zip(all).for_each(|(to, from)| to.copy_from_slice(&from.to_ne_bytes()));
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut all = bytes.chunks_exact(8).map(|one| one.try_into().map(u64::from_ne_bytes));
        let mut next = || all.next()?.ok();
        let (frames, late_ns, dropped) = (next()?, next()?, next()?);
        Some(Self { frames, late_ns, dropped, failed: next()?, peak: next()? })
    }

    /// How much later than at its time a frame was sent, on average, in microseconds.
    pub fn late_us(&self) -> f64 {
        if self.frames == 0 { 0.0 } else { self.late_ns as f64 / self.frames as f64 / 1e3 }
    }
}

/// What the forwarder is to do.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    delay: Delay,
    limit: usize,
    ports: Vec<TaskPort>,
}

#[derive(Debug, Serialize, Deserialize)]
struct TaskPort {
    socket: RawFd,
    network: u16,
    mac: Mac,
}

/// The forwarder of a fabric, as the process has it that created the fabric. Dropping it ends the
/// forwarder.
#[derive(Debug)]
pub(crate) struct ForwarderProcess {
    child: Child,
    control: Option<ChildStdin>,
}

impl ForwarderProcess {
    /// Starts the forwarder of a fabric whose ports are there. Frames pass when this returns.
    pub(crate) fn start(config: &FabricConfig, delay: Delay) -> Result<Self, FabricError> {
        if !CAN_FORWARD.load(Ordering::Relaxed) {
            return Err(FabricError::config(
                "a fabric with a delay needs a program whose main calls gigae_fabric::become_forwarder",
            ));
        }
        let numbers = (0..config.networks)
            .flat_map(|network| (1..=config.nodes).map(move |number| (network, number)));
        let open = |(network, number)| {
            let port = topology::port_of(network, number);
            PortSocket::open(&port)
                .map(|socket| (socket, network, topology::mac_on(network, topology::mac(number))))
                .map_err(|error| FabricError::system(format!("opening the port {port}"), error))
        };
        let ports: Vec<(PortSocket, u16, Mac)> =
            netns::inside(&topology::switch_name(&config.prefix), || numbers.map(open).collect())?;
        let to_task = |(socket, network, mac): &(PortSocket, u16, Mac)| TaskPort {
            socket: socket.as_fd().as_raw_fd(),
            network: *network,
            mac: *mac,
        };
        let limit = usize::try_from(config.delay_buffer).unwrap_or(usize::MAX);
        let task = Task { delay, limit, ports: ports.iter().map(to_task).collect() };
        let fail = |error: io::Error| FabricError::system("starting the forwarder", error);
        let text = serde_json::to_string(&task).map_err(|error| fail(error.into()))?;
        let counters = state::delay_file(&config.prefix)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0(NAME).env(TASK, text).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::from(counters)).stderr(Stdio::piped());
        let inherited: Vec<RawFd> = task.ports.iter().map(|port| port.socket).collect();
        // SAFETY: between fork and exec the closure makes system calls on descriptors that live in
        // `ports` until the process has started; it neither allocates nor locks.
        unsafe {
            command.pre_exec(move || {
                // A Ctrl-C at the terminal is for the process that created the fabric.
                rustix::process::setsid()?;
                inherited.iter().try_for_each(|&fd| {
                    let fd = BorrowedFd::borrow_raw(fd);
                    Ok(rustix::io::fcntl_setfd(fd, FdFlags::empty())?)
                })
            });
        }
        let mut child = command.spawn().map_err(fail)?;
        let (control, said) = (child.stdin.take(), child.stderr.take());
        // An error from here on ends it.
        let forwarder = Self { child, control };
        let mut text = Vec::new();
        // It says that it is ready, or why not, or ends.
        for byte in said.into_iter().flat_map(Read::bytes) {
            match byte.map_err(fail)? {
                ready if text.is_empty() && [ready] == READY => return Ok(forwarder),
                byte => text.push(byte),
            }
        }
        let text = String::from_utf8_lossy(&text);
        let why = if text.trim().is_empty() { "it ended at once" } else { text.trim() };
        Err(fail(io::Error::other(why)))
    }

    /// The process.
    pub(crate) fn process(&self) -> OwnerProcess {
        OwnerProcess::of(self.child.id())
    }

    /// Lets it go on when this process has ended.
    pub(crate) fn keep(&mut self) -> Result<(), FabricError> {
        let Some(mut control) = self.control.take() else { return Ok(()) };
        control
            .write_all(&KEEP)
            .map_err(|error| FabricError::system("keeping the forwarder", error))
    }
}

impl Drop for ForwarderProcess {
    fn drop(&mut self) {
        // A kept one is not waited for. A forwarder that hangs would not see its input's end.
        if self.control.take().is_some() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Ends the forwarder of a fabric and waits until it is gone.
pub(crate) fn end(process: &OwnerProcess) {
    let number = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let Some(pidfd) =
        number.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok())
    else {
        return;
    };
    // The descriptor is of that process and of no later one with its number.
    if process.lives() && rustix::process::pidfd_send_signal(&pidfd, Signal::KILL).is_ok() {
        let mut gone = [PollFd::new(&pidfd, PollFlags::IN)];
        while rustix::event::poll(&mut gone, Some(&PATIENCE)) == Err(rustix::io::Errno::INTR) {}
    }
}

/// Whether the forwarder of a fabric forwards. One that has ended and was not waited for does not.
pub(crate) fn runs(process: &OwnerProcess) -> bool {
    Stat::of(process.pid).is_some_and(|stat| stat.started == process.started && stat.state != 'Z')
}

/// What the forwarder of a fabric wrote.
pub(crate) fn counters(prefix: &str) -> Option<DelayCounters> {
    DelayCounters::of_bytes(&state::read_delay_file(prefix)?)
}

/// If this process was started as the forwarder of a fabric, forwards and then ends the process.
/// Else returns at once: from then on this process can create fabrics with a delay.
///
/// A program that creates such fabrics calls this at the begin of its `main`, because the forwarder
/// is the same program.
pub fn become_forwarder() {
    let Some(text) = gigae_host::environment::variable(TASK) else {
        CAN_FORWARD.store(true, Ordering::Relaxed);
        return;
    };
    let task = text.to_str().and_then(|text| serde_json::from_str::<Task>(text).ok());
    let Some(task) = task else {
        eprintln!("{NAME}: {TASK} has no task; unset it");
        std::process::exit(2);
    };
    if let Err(error) = forward(task) {
        eprintln!("{error}");
        std::process::exit(1);
    }
    std::process::exit(0);
}

/// Forwards until the fabric's creator ends it.
fn forward(task: Task) -> io::Result<()> {
    let _ = rustix::thread::set_name(c"gigae-delay");
    // The CPU on which its starter happened to be pinned is the one that is measured. The kernel
    // takes those of the whole set that this process may use.
    let _ = affinity::keep_to(&(0..rustix::thread::CpuSet::MAX_CPU).collect::<Vec<usize>>());
    // Else the kernel ends a sleep up to 50 us late.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let numbers: Vec<RawFd> = task.ports.iter().map(|port| port.socket).collect();
    // SAFETY: this process has just begun, and it has opened no packet socket.
    let sockets = unsafe { PortSocket::inherited(&numbers) };
    let sockets = sockets.ok_or_else(|| {
        io::Error::other(format!("{TASK} names no packet sockets of this process; unset it"))
    })?;
    let ports = task.ports.iter().zip(sockets);
    let ports: Vec<Port> =
        ports.map(|(port, socket)| Port { socket, network: port.network, mac: port.mac }).collect();
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    let counters = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let forwarder = Forwarder::new(Duration::from(task.delay), task.limit, &ports, counters);
    io::stderr().write_all(&READY)?;
    // Nobody reads what follows.
    let null = File::options().write(true).open("/dev/null")?;
    // SAFETY: standard error stays open; it is another file from now on.
    if unsafe { libc::dup2(null.as_raw_fd(), libc::STDERR_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    forwarder.run(&control);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_read_back_what_was_written() {
        let counters =
            DelayCounters { frames: 4, late_ns: 10_000, dropped: 3, failed: 2, peak: 1 << 40 };
        assert_eq!(DelayCounters::of_bytes(&counters.to_bytes()), Some(counters));
        assert_eq!(counters.late_us(), 2.5);
        assert_eq!(DelayCounters::default().late_us(), 0.0);
        assert_eq!(DelayCounters::of_bytes(&[0; 39]), None);
    }

    #[test]
    fn a_later_process_with_the_number_of_a_forwarder_is_not_ended() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = OwnerProcess::of(child.id());
        end(&OwnerProcess { started: process.started + 1, ..process });
        end(&OwnerProcess { pid: u32::MAX, ..process });
        assert!(process.lives() && child.try_wait().unwrap().is_none());
        end(&process);
        assert!(child.try_wait().unwrap().is_some(), "it was waited for");
    }

    #[test]
    fn a_program_that_cannot_be_the_forwarder_says_so() {
        let delay: Delay = "1ms".parse().unwrap();
        let error = ForwarderProcess::start(&FabricConfig::default(), delay).unwrap_err();
        assert!(error.to_string().contains("become_forwarder"), "{error}");
    }
}
