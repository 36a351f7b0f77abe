//! The daemon around a [`Broker`]: configuration, socket, privileges, supervisor.

use crate::config::BrokerConfig;
use crate::kernel::Linux;
use crate::privileges;
use crate::quotas::Quotas;
use crate::server::Broker;
use rustix::fd::OwnedFd;
use rustix::fs::Mode as Permissions;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::error::Error;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Connections that the kernel queues: all ranks of a large node start at once.
const BACKLOG: i32 = 1024;

/// Longest sleep. A signal that comes just before a sleep is handled after it.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// Runs a broker until `stop` is set (by a signal handler, which also ends a sleep). It reads its
/// configuration, listens, gives up the privileges that it does not need, reports to the supervisor
/// (systemd, `sd_notify`(3)) that it is ready, and serves. It passes one line per event to `say`.
/// For a process with one thread.
///
/// Ports in use at the end stay in use: they do not need a broker, and the next broker removes what
/// they leave. The socket also stays, since its directory belongs to root. Nothing listens there,
/// and the next broker replaces it.
pub fn run(
    config: &Path,
    socket: &Path,
    stop: &AtomicBool,
    say: &mut dyn FnMut(&str),
) -> Result<(), Box<dyn Error>> {
    let quotas = Quotas::new(BrokerConfig::read(config)?);
    let (nics, user) = (quotas.config().nics.join(", "), quotas.config().user.clone());
    // Everything below needs them, and would only report that it is not permitted.
    gigae_confine::require(privileges::KEPT)?;
    let listener = listen(socket)
        .map_err(|e| io::Error::other(format!("listening at '{}': {e}", socket.display())))?;
    let kernel = Linux::new(&listener)?;
    let mut broker = Broker::new(quotas, listener, kernel)?;
    let confined = privileges::confine(user.as_deref())?;
    say(&format!("runs as {confined}"));
    for name in gigae_macvlan::remove_left_overs()? {
        say(&format!("removed {name}, which a killed process left"));
    }
    say(&format!("makes ports on {nics} for those who ask at '{}'", socket.display()));
    ready();
    while !stop.load(Ordering::Relaxed) {
        broker.turn(LONGEST_SLEEP, say)?;
    }
    let in_use = broker.leave_in_use();
    say(&format!("ends; {in_use} ports stay in use"));
    Ok(())
}

/// Reports to the supervisor, if there is one, that the broker is ready.
fn ready() {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let bytes = path.as_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddrUnix::new_abstract_name(name),
        None => SocketAddrUnix::new(bytes),
    };
    let kind = SocketType::DGRAM;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    if let (Ok(address), Ok(socket)) = (address, socket) {
        let _ = rustix::net::sendto(&socket, b"READY=1", SendFlags::NOSIGNAL, &address);
    }
}

/// A socket at `path` to which every user may connect. Makes its directory if necessary, and
/// replaces a socket at which nothing listens.
pub fn listen(path: &Path) -> io::Result<OwnedFd> {
    if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
        std::fs::create_dir_all(directory)?;
        // Independent of the umask.
        rustix::fs::chmod(directory, Permissions::from_raw_mode(0o755))?;
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let open = || rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let address = SocketAddrUnix::new(path)?;
    match rustix::net::connect(open()?, &address) {
        Ok(()) | Err(Errno::AGAIN) => {
            let text = "another broker does; end it, or name another --socket";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
        }
        // A socket at which nothing listens. Any other file is left alone.
        Err(Errno::CONNREFUSED) if is_socket(path) => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    let listener = open()?;
    rustix::net::bind(&listener, &address)?;
    rustix::fs::chmod(path, Permissions::from_raw_mode(0o666))?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket())
}
