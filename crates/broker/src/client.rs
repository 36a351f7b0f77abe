//! The client's side: asking for a port, and having it.

use crate::message;
use crate::protocol::{ANSWER_LEN, Answer, DESCRIPTORS, Refusal, Request, Why};
use gigae_link::{ChannelSet, OpenError};
use gigae_macvlan::Claim;
use gigae_xdp::{Parts, XdpLink};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a broker listens.
pub const SOCKET: &str = "/run/gigae/broker.sock";

/// Names another place.
pub const VARIABLE: &str = "GIGAE_BROKER";

/// A port is made in some ten milliseconds, and requests are served one after the other: this is for a
/// broker that is stopped, or has a thousand others to serve first.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// No port was got.
#[derive(Debug)]
pub enum BrokerError {
    /// Nobody listens there.
    Absent {
        /// Where.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The broker refuses.
    Refused(Refusal),
    /// The broker gave no answer, or none that can be read.
    Broken(String),
    /// The port's parts make no link.
    Link(OpenError),
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent { path, source } => write!(
                f,
                "no broker listens at '{}' ({source}); start 'gigae broker', or name its socket by {VARIABLE}",
                path.display()
            ),
            Self::Refused(refusal) => f.write_str(&refusal.text),
            Self::Broken(why) => f.write_str(why),
            Self::Link(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for BrokerError {}

/// The socket that `GIGAE_BROKER` names, or else [`SOCKET`]; `None` if it says `never`.
pub fn socket() -> Option<PathBuf> {
    match std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) if path == "never" => None,
        named => Some(named.map_or_else(|| SOCKET.into(), PathBuf::from)),
    }
}

/// A port that a broker has made for this process. It ends with the last copies of all its descriptors.
pub struct Port {
    /// The link on the port. To be dropped before the rest.
    pub link: Box<XdpLink>,
    /// Its address on this node, claimed for as long as it is used, also when the broker is gone.
    pub claim: Claim,
    /// Its end tells the broker of ours.
    pub connection: OwnedFd,
}

impl Port {
    /// Asks the broker that listens at `path`, and waits for its answer: some ten milliseconds, 30 s at
    /// most. Needs no privileges.
    pub fn open(path: &Path, request: &Request) -> Result<Self, BrokerError> {
        let connection = connect(path)?;
        let (answer, descriptors) = ask(&connection, request)?;
        let description = match answer {
            Answer::Port(description) => description,
            Answer::Refusal(refusal) => return Err(BrokerError::Refused(refusal)),
        };
        let descriptors: Result<[OwnedFd; DESCRIPTORS], _> = descriptors.try_into();
        let [socket, memory, program, control, claim] = descriptors
            .map_err(|_| BrokerError::Broken("the broker's answer lacks descriptors".into()))?;
        let parts = Parts { description, socket, memory, program, control };
        // SAFETY: the broker made the parts for this request and has closed its own copies.
        let link = unsafe { XdpLink::assemble(parts) }.map_err(BrokerError::Link)?;
        Ok(Self { link: Box::new(link), claim: claim.into(), connection })
    }
}

/// The NICs of which the broker at `path` makes ports for this user. Fails if it makes none, or there is no
/// broker. Waits for its answer as [`Port::open`] does.
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
    match ask(&connect(path)?, &nothing)?.0 {
        Answer::Refusal(Refusal { why: Why::Nothing, text }) => {
            Ok(text.split_whitespace().map(str::to_owned).collect())
        }
        Answer::Refusal(refusal) => Err(BrokerError::Refused(refusal)),
        Answer::Port(_) => Err(BrokerError::Broken("the broker's answer is another's".into())),
    }
}

fn connect(path: &Path) -> Result<OwnedFd, BrokerError> {
    let absent = |e: Errno| BrokerError::Absent { path: path.into(), source: e.into() };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(absent)?;
    for way in [sockopt::Timeout::Send, sockopt::Timeout::Recv] {
        sockopt::set_socket_timeout(&socket, way, Some(ANSWER_WITHIN)).map_err(absent)?;
    }
    let address = SocketAddrUnix::new(path).map_err(absent)?;
    rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address)).map_err(absent)?;
    Ok(socket)
}

/// One request, one answer with its descriptors.
fn ask(connection: &OwnedFd, request: &Request) -> Result<(Answer, Vec<OwnedFd>), BrokerError> {
    // A broker that refuses at once may have closed already: its answer can be read all the same.
    match message::send(connection, &request.bytes(), &[]) {
        Ok(()) | Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {}
        Err(e) => return Err(BrokerError::Broken(format!("asking the broker failed: {e}"))),
    }
    let mut bytes = [0; ANSWER_LEN];
    let received = match message::receive(connection, &mut bytes) {
        // It has closed without reading our request: told once, before its answer.
        Err(Errno::CONNRESET) => message::receive(connection, &mut bytes),
        received => received,
    };
    let (length, descriptors) = received.map_err(|e| {
        BrokerError::Broken(match e {
            Errno::AGAIN => format!(
                "the broker has not answered for {ANSWER_WITHIN:?}; see whether 'gigae broker' still runs"
            ),
            e => format!("the broker's answer cannot be had: {e}"),
        })
    })?;
    if length == 0 {
        let text = "the broker has hung up without an answer; see what it says (its journal)";
        return Err(BrokerError::Broken(text.into()));
    }
    let answer = Answer::parse(&bytes[..length]);
    Ok((answer.map_err(|e| BrokerError::Broken(e.to_string()))?, descriptors))
}
