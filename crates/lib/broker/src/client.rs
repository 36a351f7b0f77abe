//! The client's side: asks for a port and keeps it.

use crate::message;
use crate::protocol::{ANSWER_LEN, Answer, DESCRIPTORS, Refusal, RefusalCode, Request, filled};
use gigae_host::environment::variable;
use gigae_link::{Arena, ChannelSet, OpenError};
use gigae_macvlan::Claim;
use gigae_xdp::{LinkParts, XdpLink};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The broker's socket.
pub const SOCKET: &str = "/run/gigae/broker.sock";

/// The environment variable that names another socket.
pub const VARIABLE: &str = "GIGAE_BROKER";

/// Longest wait for an answer. The broker makes a port in some ten milliseconds and serves one
/// request after the other. So this is for a broker that is stopped or has a thousand other
/// requests.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Why the client got no port.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// No broker listens there.
    #[error(
        "no broker listens at '{path}' ({why}); start 'gigae broker', or name its socket with {VARIABLE}"
    )]
    Absent {
        /// Where.
        path: PathBuf,
        /// What the kernel said. Not `source`: the text has it already.
        why: io::Error,
    },
    /// The process that listens there belongs neither to root nor to this process's user, so it may
    /// be anyone's.
    #[error(
        "user {uid} listens at '{path}', who is neither root nor this process's user, and is not trusted; start 'gigae broker' as root, or correct {VARIABLE}"
    )]
    UntrustedUser {
        /// Where.
        path: PathBuf,
        /// The user who listens.
        uid: u32,
    },
    /// The broker refuses.
    #[error("{}", .0.text)]
    Refused(Refusal),
    /// The broker gave no answer, or one that cannot be parsed.
    #[error("{0}")]
    Broken(String),
    /// The port's parts do not make a link.
    #[error("{0}")]
    Link(OpenError),
}

/// The socket that `GIGAE_BROKER` names, otherwise [`SOCKET`]; `None` if the variable is `never`. A
/// program with more rights than its user ignores the variable ([`variable`]).
pub fn socket() -> Option<PathBuf> {
    match variable(VARIABLE) {
        Some(path) if path == "never" => None,
        named => Some(named.map_or_else(|| SOCKET.into(), PathBuf::from)),
    }
}

/// A port that a broker has made for this process. It ends when the last copies of all its
/// descriptors are closed.
pub struct Port {
    /// The link on the port. Drop it before the rest.
    pub link: Box<XdpLink>,
    /// Its address on this node, claimed as long as it is used, also after the broker has ended.
    pub claim: Claim,
    /// The broker notices by this connection that the client has ended.
    pub connection: OwnedFd,
}

impl Port {
    /// Asks the broker that listens at `path` and waits for its answer: some ten milliseconds, at
    /// most 30 s. Needs no privileges.
    pub fn open(path: &Path, request: &Request) -> Result<Self, BrokerError> {
        let offer = PortOffer::ask(path, request)?;
        offer.filled()?;
        offer.take()
    }
}

/// [`Port::open`] in three steps. The broker works only in the last one.
#[derive(Debug)]
pub struct PortOffer {
    connection: OwnedFd,
    arena: Arena,
}

impl PortOffer {
    /// Asks the broker at `path`, fills the frame memory, so its pages are charged to this process,
    /// and seals it.
    pub fn ask(path: &Path, request: &Request) -> Result<Self, BrokerError> {
        let connection = connect(path)?;
        say(&connection, &request.bytes())?;
        let memory = match receive(&connection)? {
            (Answer::Memory, descriptors) => {
                let [memory] = descriptors.try_into().map_err(|_| lacks_descriptors())?;
                memory
            }
            (Answer::Refusal(refusal), _) => return Err(BrokerError::Refused(refusal)),
            (Answer::Port(_), _) => return Err(another()),
        };
        // SAFETY: the broker made the memory for this request and gave it to no other process. It
        // writes to it only until it has answered, before there is a link that reads.
        let arena = unsafe { Arena::of(&memory, request.memory()) };
        let taking = |source| OpenError::Io { what: "filling frame memory", source };
        let arena = arena.map_err(taking).map_err(BrokerError::Link)?;
        Ok(Self { connection, arena })
    }

    /// Reports that the memory is filled. Does not wait.
    pub fn filled(&self) -> Result<(), BrokerError> {
        say(&self.connection, &filled())
    }

    /// Waits for the port.
    pub fn take(self) -> Result<Port, BrokerError> {
        let Self { connection, arena } = self;
        let (description, descriptors) = match receive(&connection)? {
            (Answer::Port(description), descriptors) => (description, descriptors),
            (Answer::Refusal(refusal), _) => return Err(BrokerError::Refused(refusal)),
            (Answer::Memory, _) => return Err(another()),
        };
        let descriptors: [OwnedFd; DESCRIPTORS] =
            descriptors.try_into().map_err(|_| lacks_descriptors())?;
        let [socket, claim] = descriptors;
        let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
        let control = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None);
        let control = control.map_err(|e| {
            BrokerError::Link(OpenError::Io {
                what: "opening a socket to look at interfaces",
                source: e.into(),
            })
        })?;
        let parts = LinkParts { description, socket, control };
        // SAFETY: the broker made the parts for this request and this memory, and has closed its
        // own copies.
        let link = unsafe { XdpLink::assemble(parts, arena) }.map_err(BrokerError::Link)?;
        Ok(Port { link: Box::new(link), claim: claim.into(), connection })
    }
}

fn lacks_descriptors() -> BrokerError {
    BrokerError::Broken("the broker's answer lacks descriptors".into())
}

fn another() -> BrokerError {
    BrokerError::Broken("the broker's answer is of another kind".into())
}

/// The NICs on which the broker at `path` makes ports for this user. Fails if it makes none, or if
/// there is no broker. Waits for the answer like [`Port::open`].
pub fn nics(path: &Path) -> Result<Vec<String>, BrokerError> {
    let nothing = Request {
        interface: None,
        ethertype: 0,
        channels: ChannelSet::EMPTY,
        long_frames: false,
        tx_frames: 0,
        rx_frames: 0,
        rx_ready: 0,
    };
    let connection = connect(path)?;
    say(&connection, &nothing.bytes())?;
    match receive(&connection)?.0 {
        Answer::Refusal(Refusal { why: RefusalCode::Nothing, text }) => {
            Ok(text.split_whitespace().map(str::to_owned).collect())
        }
        Answer::Refusal(refusal) => Err(BrokerError::Refused(refusal)),
        Answer::Port(_) | Answer::Memory => Err(another()),
    }
}

fn connect(path: &Path) -> Result<OwnedFd, BrokerError> {
    let absent = |e: Errno| BrokerError::Absent { path: path.into(), why: e.into() };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(absent)?;
    for direction in [sockopt::Timeout::Send, sockopt::Timeout::Recv] {
        sockopt::set_socket_timeout(&socket, direction, Some(ANSWER_WITHIN)).map_err(absent)?;
    }
    let address = SocketAddrUnix::new(path).map_err(absent)?;
    rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address)).map_err(absent)?;
    // The client trusts the answers, so it asks the kernel which user began to listen there.
    let listener = gigae_host::socket::peer(&socket)
        .map_err(|e| BrokerError::Broken(format!("asking who listens there: {e}")))?;
    match listener.uid {
        0 => Ok(socket),
        uid if gigae_host::user::is_own(uid) => Ok(socket),
        uid => Err(BrokerError::UntrustedUser { path: path.into(), uid }),
    }
}

fn say(connection: &OwnedFd, bytes: &[u8]) -> Result<(), BrokerError> {
    match message::send(connection, bytes, &[]) {
        // A broker that refuses at once may already have closed. Its answer can still be read.
        Ok(()) | Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Ok(()),
        Err(e) => Err(BrokerError::Broken(format!("asking the broker failed: {e}"))),
    }
}

/// Receives one answer with its descriptors.
fn receive(connection: &OwnedFd) -> Result<(Answer, Vec<OwnedFd>), BrokerError> {
    let mut bytes = [0; ANSWER_LEN];
    let received = match message::receive(connection, &mut bytes) {
        // The broker closed without reading the request. The kernel reports that once, before its
        // answer.
        Err(Errno::CONNRESET) => message::receive(connection, &mut bytes),
        received => received,
    };
    let (length, descriptors) = received.map_err(|e| {
        BrokerError::Broken(match e {
            Errno::AGAIN => format!(
                "the broker has not answered for {ANSWER_WITHIN:?}; see whether 'gigae broker' still runs"
            ),
            e => format!("receiving the broker's answer failed: {e}"),
        })
    })?;
    if length == 0 {
        let text = "the broker closed the connection without an answer; see its journal";
        return Err(BrokerError::Broken(text.into()));
    }
    let answer = Answer::parse(&bytes[..length]);
    Ok((answer.map_err(|e| BrokerError::Broken(e.to_string()))?, descriptors))
}
