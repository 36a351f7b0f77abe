//! What only the kernel can do to a link or report about a process.

use aya::programs::loaded_links;
use gigae_fabric::Node;
use gigae_netlink::Rtnetlink;
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// linux/bpf.h.
const BPF_LINK_GET_FD_BY_ID: libc::c_int = 30;
const BPF_LINK_DETACH: libc::c_int = 34;

/// The port of datagrams that are discarded (RFC 863).
pub(crate) const DISCARD: u16 = 9;

/// A flood ends by itself then. On a busy machine the flooding thread may get little of a
/// processor, so this is far more than a flood needs to fill a buffer.
const LONGEST_FLOOD: Duration = Duration::from_secs(300);

/// Sockets of a flood.
const SOURCES: usize = 16;

/// Datagrams of a flood per millisecond, at most: 1.1 Gbit/s. They fill any buffer, and a sixth of
/// what a switch of 200 Mbit/s gets still passes. Without a bound a fast processor left so little
/// that an end got no answer for longer than its timeout, and rightly lost its peer.
const FLOOD: u128 = 100;

/// Runs a program in a node; an error says what it said.
pub(crate) fn run(node: &Node, program: &str, arguments: &str) -> Result<String, String> {
    let output = attempt(node, program, arguments)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{program} {arguments} in {}: {}",
            node.name,
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// The same, whatever comes of it.
pub(crate) fn attempt(node: &Node, program: &str, arguments: &str) -> Result<Output, String> {
    let mut command = node.command(program).map_err(|error| error.to_string())?;
    command.args(arguments.split(' ')).output().map_err(|error| format!("{program}: {error}"))
}

/// The kernel's number of the XDP program on a node's interface, if there is one, or an interface.
pub(crate) fn program_on(node: &Node, link: u16) -> Result<Option<u32>, String> {
    let _inside = node.enter().map_err(|error| error.to_string())?;
    let programs = Rtnetlink::open().and_then(|kernel| {
        let index = kernel.link_named(&format!("eth{link}"))?.index;
        kernel.programs(index)
    });
    match programs {
        Ok(programs) => Ok(programs.into_iter().find(|&id| id != 0)),
        Err(error) if error.errno() == Errno::NODEV => Ok(None),
        Err(error) => Err(format!("the program on eth{link} of {}: {error}", node.name)),
    }
}

/// Detaches a program that any process attached from its interface, as `bpftool link detach` does.
pub(crate) fn detach(program: u32) -> Result<(), String> {
    let link = loaded_links().flatten().find(|link| link.program_id() == program);
    let link = link.ok_or_else(|| format!("program {program} is attached by no link"))?;
    let text = |error: io::Error| format!("detaching program {program}: {error}");
    let fd = bpf(BPF_LINK_GET_FD_BY_ID, &[link.id(), 0, 0]).map_err(text)?;
    // SAFETY: a new descriptor that nothing else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    bpf(BPF_LINK_DETACH, &[fd.as_raw_fd() as u32]).map(drop).map_err(text)
}

fn bpf(command: libc::c_int, attributes: &[u32]) -> io::Result<libc::c_int> {
    // SAFETY: both commands used here read `size` bytes from there and write none.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(attributes))
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

/// Lines of a table of sockets in a node's network, without its heading: `packet`, `udp`, `raw`.
pub(crate) fn sockets(node: &Node, table: &str) -> Result<Vec<String>, String> {
    let _inside = node.enter().map_err(|error| error.to_string())?;
    let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
    let text = text.map_err(|error| format!("the sockets of {}: {error}", node.name))?;
    Ok(text.lines().skip(1).map(str::to_owned).collect())
}

/// The process ends when the one that started it does: nothing is left behind by a run that is
/// killed.
pub(crate) fn tie(command: &mut Command) {
    // SAFETY: between fork and exec the closure makes one system call; it neither allocates nor
    // locks.
    unsafe {
        command.pre_exec(|| {
            let signal = Some(rustix::process::Signal::KILL);
            rustix::process::set_parent_process_death_signal(signal).map_err(Into::into)
        });
    }
}

/// Keeps every processor busy for so long, with two threads each.
pub(crate) fn busy(time: Duration) {
    let count = 2 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let end = Instant::now() + time;
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
            });
        }
    });
}

/// Datagrams of 1,400 zeros from one node to a port of another, [`FLOOD`] per millisecond if so
/// many go, until `stop` is set or for [`LONGEST_FLOOD`]; how many went. `went` counts them.
pub(crate) fn flood(
    from: &Node,
    to: &Node,
    port: u16,
    stop: &AtomicBool,
    went: &AtomicU64,
) -> Result<u64, String> {
    let text = |error: io::Error| format!("the flood: {error}");
    let socket = |node: &Node, port| {
        let _inside = node.enter().map_err(|error| error.to_string())?;
        UdpSocket::bind((node.ipv4, port)).map_err(text)
    };
    // A socket must have the port, or the kernel answers each datagram by ICMP.
    let _sink = if port == DISCARD { Some(socket(to, DISCARD)?) } else { None };
    // What the switch holds is charged to its sender's socket: one alone would be held back.
    let sources: Vec<_> = (0..SOURCES).map(|_| socket(from, 0)).collect::<Result<_, _>>()?;
    sources.iter().try_for_each(|source| source.set_nonblocking(true)).map_err(text)?;
    let at = (to.ipv4, port);
    let begin = Instant::now();
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) && begin.elapsed() < LONGEST_FLOOD {
        if u128::from(sent) > begin.elapsed().as_millis() * FLOOD {
            std::thread::sleep(Duration::from_micros(100));
            continue;
        }
        let before = sent;
        for source in &sources {
            sent += u64::from(source.send_to(&[0; 1400], at).is_ok());
        }
        if sent == before {
            std::thread::yield_now();
        }
        went.store(sent, Ordering::Relaxed);
    }
    Ok(sent)
}

/// Builds the library that steps a program's wall clock when it is preloaded; its place.
pub(crate) fn stepped_clock(directory: &Path) -> Result<PathBuf, String> {
    let (source, library) = (directory.join("stepped.c"), directory.join("stepped.so"));
    let text = |error: io::Error| format!("building the stepped clock with cc: {error}");
    std::fs::write(&source, include_str!("stepped.c")).map_err(text)?;
    let mut command = Command::new("cc");
    command.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    let output = command.arg("-ldl").output().map_err(text)?;
    match output.status.success() {
        true => Ok(library),
        false => Err(text(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))),
    }
}
