//! The daemon: accepts connections, makes ports, takes them back.
//!
//! One thread, one `poll`: nothing waits for a client. A client sends its request as soon as it is
//! connected; the connection then stays open for as long as the client has the port, and its end, also
//! by SIGKILL, is how the broker learns to remove the child. What a client may keep waiting is bounded,
//! for each user and in all, and so is for how long.

use crate::config::Config;
use crate::ledger::{Grant, Ledger};
use crate::names::Peer;
use crate::protocol::{Answer, REQUEST_LEN, Refusal, Request, Why};
use crate::{message, privileges};
use gigae_link::{Filter, Mode, OpenError};
use gigae_macvlan::Child;
use gigae_wire::Envelope;
use gigae_xdp::{BusyPoll, Parts, XdpConfig, XdpLink};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::Mode as Permissions;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::error::Error;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Connections that the kernel keeps for us: the ranks of a large node start at once.
const BACKLOG: i32 = 1024;

/// Connections accepted before those that have asked get their turn.
const ACCEPTED_AT_ONCE: usize = 64;

/// A client asks at once; this is for one that was not given the processor.
const ASKS_WITHIN: Duration = Duration::from_secs(5);

/// Clients that have not asked yet, of one user and in all.
const WAITING_PER_USER: usize = 64;
const WAITING: usize = 1024;

/// Longest sleep: a signal that comes just before it is seen after it.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// Runs a broker until `stop` is set: reads its configuration, listens, gives up what it does not need, tells
/// the supervisor (systemd, `sd_notify`(3)) that it is ready, and serves. What happens is told to `say`, one line
/// each. For a process that has one thread.
pub fn run(
    config: &Path,
    socket: &Path,
    stop: &AtomicBool,
    say: &mut dyn FnMut(&str),
) -> Result<(), Box<dyn Error>> {
    let ledger = Ledger::new(Config::read(config)?);
    let nics = ledger.config().nics.join(", ");
    let broker = Broker::listen(ledger, socket)?;
    privileges::confine()?;
    broker.sweep(say)?;
    say(&format!("makes ports on {nics} for those who ask at '{}'", socket.display()));
    ready();
    Ok(broker.serve(stop, say)?)
}

/// Tells the supervisor, if there is one.
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

/// A broker that listens.
#[derive(Debug)]
struct Broker {
    ledger: Ledger,
    listener: OwnedFd,
    path: PathBuf,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    connection: OwnedFd,
    peer: Peer,
    state: State,
}

#[derive(Debug)]
enum State {
    /// It has connected then, and not asked yet.
    Silent(Instant),
    /// It has a port.
    Has(Given),
    /// It is to be forgotten.
    Over,
}

/// What one client has of ours.
#[derive(Debug)]
struct Given {
    child: Child,
    grant: Grant,
}

impl Broker {
    /// Listens at `path`, where every user may connect. Its directory is made if it is not there, and a
    /// socket that a killed broker left is replaced.
    fn listen(ledger: Ledger, path: &Path) -> io::Result<Self> {
        let listener = listen(path)
            .map_err(|e| io::Error::other(format!("listening at '{}': {e}", path.display())))?;
        Ok(Self { ledger, listener, path: path.into(), clients: Vec::new() })
    }

    /// Removes the children that nobody uses any more in this network namespace.
    fn sweep(&self, say: &mut dyn FnMut(&str)) -> io::Result<()> {
        for name in gigae_macvlan::remove_left_overs()? {
            say(&format!("removed {name}, which a killed process left"));
        }
        Ok(())
    }

    /// Serves until `stop` is set (by a signal's handler, which also ends a sleep). Ports that are in use
    /// then stay in use: nothing of them needs a broker, and the next one removes what they leave.
    fn serve(mut self, stop: &AtomicBool, say: &mut dyn FnMut(&str)) -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let (news, ready) = self.sleep()?;
            let clients = ready.into_iter().rev();
            clients.for_each(|client| self.attend(client, say));
            self.forget();
            if news {
                self.accept(say);
            }
        }
        let given = self.clients.drain(..).filter_map(|client| match client.state {
            State::Has(given) => Some(given),
            _ => None,
        });
        let in_use = given.map(|given| std::mem::forget(given.child)).count();
        say(&format!("ends; {in_use} ports stay in use"));
        let _ = std::fs::remove_file(&self.path);
        Ok(())
    }

    /// Sleeps until something is to be done: whether somebody connects, and which clients have sent
    /// something or ended.
    fn sleep(&self) -> io::Result<(bool, Vec<usize>)> {
        let time = Timespec { tv_sec: 0, tv_nsec: LONGEST_SLEEP.subsec_nanos().into() };
        let sockets = self.clients.iter().map(|client| client.connection.as_fd());
        let sockets = std::iter::once(self.listener.as_fd()).chain(sockets);
        let mut fds: Vec<_> =
            sockets.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match rustix::event::poll(&mut fds, Some(&time)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok((false, Vec::new())),
            Err(e) => return Err(e.into()),
        }
        let has = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let clients = fds[1..].iter().enumerate().filter(|(_, fd)| has(fd));
        Ok((has(&fds[0]), clients.map(|(i, _)| i).collect()))
    }

    fn accept(&mut self, say: &mut dyn FnMut(&str)) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(connection) = rustix::net::accept_with(&self.listener, flags) else { return };
            let Ok(peer) = Peer::of(&connection) else { continue };
            if let Err(refusal) = self.admit(&peer) {
                refuse(&connection, refusal);
                continue;
            }
            self.clients.push(Client { connection, peer, state: State::Silent(Instant::now()) });
            self.attend(self.clients.len() - 1, say);
        }
    }

    /// Whether one more client may wait. Of a user with too many, the one that has waited longest ends.
    fn admit(&mut self, peer: &Peer) -> Result<(), Refusal> {
        self.ledger.allows(peer)?;
        let is_silent = |client: &&mut Client| matches!(client.state, State::Silent(_));
        let silent: Vec<_> = self.clients.iter_mut().filter(is_silent).collect();
        if silent.len() >= WAITING {
            return Err(Refusal::new(Why::Busy, "too many requests wait; try again"));
        }
        // In the order in which they came.
        let mut own: Vec<_> = silent.into_iter().filter(|c| c.peer.uid == peer.uid).collect();
        if own.len() >= WAITING_PER_USER {
            own[0].state = State::Over;
        }
        Ok(())
    }

    /// Takes a client's request, or learns of its end.
    fn attend(&mut self, client: usize, say: &mut dyn FnMut(&str)) {
        let mut bytes = [0; REQUEST_LEN + 1];
        let Client { connection, peer, state } = &mut self.clients[client];
        let length = match message::receive_plain(connection, &mut bytes) {
            Err(Errno::AGAIN | Errno::INTR) => return,
            Ok(length) if length > 0 => length,
            _ => return self.end(client, say),
        };
        if !matches!(state, State::Silent(_)) {
            // It has asked already, and there is nothing else to say.
            return self.end(client, say);
        }
        let peer = peer.clone();
        let given = Request::parse(bytes.get(..length).unwrap_or_default())
            .map_err(|e| Refusal::new(Why::Malformed, e))
            .and_then(|request| self.give(&peer, &request));
        let (given, parts) = match given {
            Ok(given) => given,
            Err(refusal) => {
                refuse(&self.clients[client].connection, refusal);
                return self.end(client, say);
            }
        };
        let (name, nic) = (given.child.name().to_owned(), given.child.parent().to_owned());
        say(&format!("{name} on {nic} is user {}'s (process {})", peer.uid, peer.pid));
        let sent = hand_over(&self.clients[client].connection, &given.child, parts);
        self.clients[client].state = State::Has(given);
        if sent.is_err() {
            self.end(client, say);
        }
    }

    /// Makes a port, if this client may have it.
    fn give(&mut self, peer: &Peer, request: &Request) -> Result<(Given, Parts), Refusal> {
        let grant = self.ledger.grant(peer, request)?;
        match make(request, &self.ledger.config().nics) {
            Ok((child, parts)) => Ok((Given { child, grant }, parts)),
            Err(error) => {
                self.ledger.release(grant);
                Err(Refusal::new(Why::Failed, for_others(error)))
            }
        }
    }

    /// Takes back what a client has, and hangs up.
    fn end(&mut self, client: usize, say: &mut dyn FnMut(&str)) {
        let state = std::mem::replace(&mut self.clients[client].state, State::Over);
        if let State::Has(Given { child, grant }) = state {
            let name = child.name().to_owned();
            drop(child);
            self.ledger.release(grant);
            say(&format!("{name} is removed"));
        }
    }

    /// Forgets clients that are over, and those that do not ask.
    fn forget(&mut self) {
        let too_old = |since: &Instant| since.elapsed() > ASKS_WITHIN;
        self.clients.retain(|client| match &client.state {
            State::Over => false,
            State::Silent(since) => !too_old(since),
            State::Has(_) => true,
        });
    }
}

/// Makes a child of the first NIC on which that is possible, and a link on it.
fn make(request: &Request, nics: &[String]) -> Result<(Child, Parts), OpenError> {
    let asked = request.interface.as_slice();
    let nics = if asked.is_empty() { nics } else { asked };
    let mut refused = None;
    for nic in nics {
        match Child::make(nic) {
            Ok(child) => {
                let parts = link(request, &child)?;
                return Ok((child, parts));
            }
            // Another may be up.
            Err(e @ (OpenError::NoInterface { .. } | OpenError::InterfaceDown(_))) => {
                refused.get_or_insert(e);
            }
            Err(e) => return Err(e),
        }
    }
    Err(refused.expect("a configuration names at least one NIC"))
}

/// What failed, for a client: what a broker lacks is none of his.
fn for_others(error: OpenError) -> String {
    match error {
        OpenError::MissingCapability { what, capability } => format!(
            "{what} is not permitted to the broker itself, which lacks {capability}; ask the administrator of this machine"
        ),
        error => error.to_string(),
    }
}

fn link(request: &Request, child: &Child) -> Result<Parts, OpenError> {
    let envelope = Envelope::Ethernet { ethertype: request.ethertype };
    let filter = Filter { envelope, channels: request.channels };
    let config = XdpConfig {
        mode: Some(Mode::XdpGeneric),
        tx_frames: request.tx_frames as usize,
        rx_frames: request.rx_frames as usize,
        rx_ready: request.rx_ready as usize,
        long_frames: request.long_frames,
        busy_poll: BusyPoll::Off,
        ..XdpConfig::new(child.name(), filter)
    };
    let mut parts = XdpLink::make(&config)?;
    parts.description.reason = "the mode that an interface on a shared NIC has".to_owned();
    Ok(parts)
}

/// Sends a client its port. Our copies of the descriptors are closed, whether it got them or not.
fn hand_over(connection: &OwnedFd, child: &Child, parts: Parts) -> Result<(), Errno> {
    let Parts { description, socket, memory, program, control } = parts;
    let descriptors = [&socket, &memory, &program, &control].map(|fd| fd.as_fd());
    let [socket, memory, program, control] = descriptors;
    let all = [socket, memory, program, control, child.claim().as_fd()];
    message::send(connection, &Answer::Port(description).bytes(), &all)
}

fn refuse(connection: &OwnedFd, refusal: Refusal) {
    // Who does not take it does not learn why.
    let _ = message::send(connection, &Answer::Refusal(refusal).bytes(), &[]);
}

/// A socket at `path` to which everybody may connect.
fn listen(path: &Path) -> io::Result<OwnedFd> {
    if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
        std::fs::create_dir_all(directory)?;
        // Whatever the umask is.
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
        // A socket that nobody listens at; any other file is left alone.
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
