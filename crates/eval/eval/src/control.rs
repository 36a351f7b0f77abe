//! The control connection: what the two ends tell each other beside the measured traffic.
//!
//! Both prove that they know the same [`Key`], which never travels, and all that follows is encrypted:
//! [`Session`] says how. Lengths are bounded, far more narrowly before the peer is known; every read and
//! write has a deadline; a peer that is gone is noticed after [`GONE_AFTER`].
//!
//! A server has one client at a time. The others are told their place ([`Reply::Waiting`]) until it is
//! their turn ([`Reply::Welcome`]).

mod key;
mod session;

pub use key::{KEY_FILE, Key};
pub use session::{ANSWER, GONE_AFTER, Session, accept};

use crate::cost::Baseline;
use crate::environment::EndEnvironment;
use crate::probe::Answered;
use crate::programs::Job;
use crate::site::Address;
use crate::soak::duration;
use crate::soak::sample::Sample;
use crate::soak::traffic::Traffic;
use crate::transport::Task;
use crate::tune::{KnobState, Set};
use serde::{Deserialize, Serialize};
use session::HANDSHAKE_TIMEOUT;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Version of everything in this module and of what its messages mean. Ends of different versions
/// refuse each other.
pub const VERSION: u32 = 6;

/// TCP port that `serve` listens on unless told otherwise; in the range that IANA leaves free.
pub const PORT: u16 = 49_988;

/// Who waits for his turn hears of it so often, and gives up when he hears nothing for several times that.
pub const TELL_EVERY: Duration = Duration::from_secs(1);
const TOLD_NOTHING: Duration = Duration::from_secs(20);

/// What the owner of a server allows each client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Seconds of a session.
    pub seconds: Option<f64>,
    /// Bytes per second of payload, in each direction.
    pub rate: Option<f64>,
}

/// A client's place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// Clients before this one, the one that is served included.
    pub before: u32,
    /// For how long the one that is served has been, in seconds.
    pub served: f64,
    /// Seconds until its turn at most, where the owner of the server limits sessions.
    pub at_most: Option<f64>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.before {
            1 => f.write_str("waiting: 1 client is before this one")?,
            more => write!(f, "waiting: {more} clients are before this one")?,
        }
        match self.at_most {
            Some(seconds) => write!(f, ", {} at most", duration::say(seconds)),
            None => write!(f, ", the present one for {}", duration::say(self.served)),
        }
    }
}

/// What the client asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Describe your end.
    Describe,
    /// Watch your idle machine for this many milliseconds.
    Baseline(u64),
    /// What have you of these knobs, each with values that may be asked for? Whatever was set before is put back.
    Knobs(Vec<(String, Vec<String>)>),
    /// Set these, of those that were asked about, and all others as they were. The session's end puts back all.
    Tune(Vec<Set>),
    /// Open your end of this task; mine is here.
    Run {
        /// What to do.
        task: Task,
        /// Where the client's end is.
        address: Address,
    },
    /// Open your ends of this task, to which many send; theirs are here. Ends with [`Request::Gathered`] or
    /// [`Request::Cancel`].
    Gather {
        /// What to do.
        task: Task,
        /// Where the senders are.
        addresses: Vec<Address>,
    },
    /// The senders are done and sent this many bytes each.
    Gathered {
        /// Bytes, in the senders' order.
        bytes: Vec<u64>,
    },
    /// I am done and sent this many bytes in all.
    Finish {
        /// Bytes.
        bytes: u64,
    },
    /// I could not join; give up this repetition.
    Cancel,
    /// Which other programs are installed there?
    Programs,
    /// Start your end of this program. Ends with [`Request::Cancel`].
    Program(Box<Job>),
    /// Open your end of a soak; mine is here. Ends with [`Request::Finish`] or [`Request::Cancel`].
    Soak(Box<Soak>),
    /// How is your end of the soak?
    Watch {
        /// Begin nothing new from now on.
        quiet: bool,
    },
}

/// What a soaked end must know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Soak {
    /// Sizes, rate and seed.
    pub traffic: Traffic,
    /// The server's number in the soak; the client's is 0.
    pub number: u8,
    /// Where the client's end is.
    pub address: Address,
    /// The ports from which its TCP connections come, in the order of their roles. The server connects nowhere.
    pub ports: Vec<u16>,
    /// The memory that the client has registered for this end.
    pub key: u64,
    /// Seconds after which the server begins nothing new.
    pub seconds: f64,
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// To [`Request::Describe`].
    Description(Box<EndEnvironment>),
    /// To [`Request::Baseline`].
    Baseline(Baseline),
    /// To [`Request::Knobs`].
    Knobs(Vec<KnobState>),
    /// To [`Request::Tune`]: it is done.
    Tuned,
    /// To [`Request::Run`]: the server's end is open, here.
    Ready(Address),
    /// To [`Request::Gather`]: the server's ends are open, here; one for each sender or one for all.
    Gathering(Vec<Address>),
    /// To [`Request::Gathered`].
    Counted(Vec<Answered>),
    /// To [`Request::Finish`].
    Done(Box<Answered>),
    /// To [`Request::Cancel`].
    Cancelled,
    /// To [`Request::Programs`]: their names.
    Programs(Vec<String>),
    /// To [`Request::Program`]: it waits.
    Listening {
        /// Where.
        at: SocketAddr,
    },
    /// To [`Request::Soak`]: the server's end is open, here.
    Soaking {
        /// Where, with the port to which the client connects by TCP.
        address: Address,
        /// The memory registered for the client.
        key: u64,
    },
    /// To [`Request::Watch`], and to [`Request::Finish`] of a soak.
    Sample(Box<Sample>),
    /// Unasked, before anything else: others are before this client.
    Waiting(Waiting),
    /// Unasked, once: it is this client's turn, and this is what it may do.
    Welcome(Limits),
    /// Unasked or to any: the session is over.
    Over {
        /// One line.
        reason: String,
    },
    /// To any: it did not work, but the session goes on.
    Failed {
        /// One line.
        reason: String,
        /// Whether this transport can never work here.
        unavailable: bool,
    },
}

/// The control connection failed. The text is one line and says what to do.
#[derive(Debug)]
pub enum ControlError {
    /// The key file cannot be read.
    KeyFile {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// Everybody can read the key file.
    KeyOpen {
        /// The file.
        file: String,
        /// Its mode.
        mode: u32,
    },
    /// The key file cannot be written.
    KeyWrite {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The key is too short or too long.
    KeyLength(usize),
    /// The kernel gives no random numbers.
    Random,
    /// The peer cannot be reached.
    Unreachable {
        /// Its name.
        peer: String,
        /// Why.
        source: io::Error,
    },
    /// The peer has another key.
    WrongKey,
    /// The peer speaks another version.
    OtherVersion {
        /// Its version.
        theirs: u32,
    },
    /// The peer is not an evaluator, or something changed its messages.
    Garbled(&'static str),
    /// The peer did not answer in time.
    Silent(&'static str),
    /// The peer closed the connection.
    Closed,
    /// The peer answers nothing any more.
    Gone,
    /// The peer ended the session.
    Over(String),
    /// This end did not want to wait for its turn.
    GivenUp,
    /// The connection broke.
    Io(io::Error),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyFile { file, source } => write!(
                f,
                "cannot read key file '{file}': {source}; make one with 'gigae key' and copy it to both machines, or name another with --key"
            ),
            Self::KeyOpen { file, mode } => write!(
                f,
                "key file '{file}' can be read by everybody (mode {mode:o}), so it is no secret; make a new one with 'gigae key', or run 'chmod 600 {file}' if nobody has read it"
            ),
            Self::KeyWrite { file, source } => write!(
                f,
                "cannot write key file '{file}': {source}; remove an old key first, or name another file"
            ),
            Self::KeyLength(bytes) => write!(
                f,
                "a key of {bytes} bytes does not do; it must have {} to {}",
                key::SHORTEST,
                key::LONGEST
            ),
            Self::Random => f.write_str("the kernel gives no random numbers; see getrandom(2)"),
            Self::Unreachable { peer, source } => {
                write!(
                    f,
                    "cannot reach '{peer}': {source}; start 'gigae serve' there and check the address"
                )
            }
            Self::WrongKey => {
                f.write_str("the peer has another key; copy the same key file to both machines")
            }
            Self::OtherVersion { theirs } => write!(
                f,
                "the peer speaks version {theirs} of the control protocol, this is {VERSION}; install the same gigae on both machines"
            ),
            Self::Garbled(what) => {
                write!(
                    f,
                    "the peer sent {what}; check that it is 'gigae serve' of the same version"
                )
            }
            Self::Silent(what) => {
                write!(f, "the peer did not {what} in time; look at its messages and try again")
            }
            Self::Closed => f.write_str(
                "the peer closed the control connection; look at its messages and try again",
            ),
            Self::Gone => f.write_str(
                "the peer does not answer any more; check that its machine runs and the way there",
            ),
            Self::Over(reason) => write!(f, "the peer ended the session: {reason}"),
            Self::GivenUp => f.write_str("gave up waiting for its turn"),
            Self::Io(source) => write!(f, "the control connection broke: {source}; try again"),
        }
    }
}

impl std::error::Error for ControlError {}

/// Connects to a server, proves the key, both ways, and waits for its turn: `turn` hears each time how
/// long that may take, and gives up with `false`.
pub fn connect(
    peer: &str,
    key: &Key,
    turn: &mut dyn FnMut(&Waiting) -> bool,
) -> Result<Session, ControlError> {
    let unreachable = |source| ControlError::Unreachable { peer: peer.to_owned(), source };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address");
    for address in addresses(peer).map_err(unreachable)? {
        match TcpStream::connect_timeout(&address, HANDSHAKE_TIMEOUT) {
            Ok(stream) => return admitted(session::client(stream, key)?, turn),
            Err(error) => last = error,
        }
    }
    Err(unreachable(last))
}

fn admitted(
    mut session: Session,
    turn: &mut dyn FnMut(&Waiting) -> bool,
) -> Result<Session, ControlError> {
    loop {
        match session.receive(TOLD_NOTHING)? {
            Reply::Waiting(waiting) if !turn(&waiting) => return Err(ControlError::GivenUp),
            Reply::Waiting(_) => {}
            Reply::Welcome(limits) => {
                session.limits = limits;
                return Ok(session);
            }
            Reply::Over { reason } => return Err(ControlError::Over(reason)),
            _ => return Err(ControlError::Garbled("an answer without a question")),
        }
    }
}

/// "HOST:PORT", "[V6]:PORT", or a bare host or address, in brackets or not, with the default port.
fn addresses(peer: &str) -> io::Result<Vec<SocketAddr>> {
    let with_port = peer.parse::<SocketAddr>().is_ok()
        || peer
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.contains(':') && port.parse::<u16>().is_ok());
    let bare = peer.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(peer);
    let found = if with_port { peer.to_socket_addrs()? } else { (bare, PORT).to_socket_addrs()? };
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_named_with_and_without_a_port_and_in_both_families() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:49988"),
            ("127.0.0.1:5", "127.0.0.1:5"),
            ("fd00::2", "[fd00::2]:49988"),
            ("[fd00::2]", "[fd00::2]:49988"),
            ("[fd00::2]:5", "[fd00::2]:5"),
        ] {
            assert_eq!(addresses(text).unwrap(), [address.parse().unwrap()], "{text}");
        }
    }

    #[test]
    fn who_waits_is_told_his_place_and_the_time() {
        let waiting = Waiting { before: 1, served: 61.0, at_most: None };
        assert_eq!(
            waiting.to_string(),
            "waiting: 1 client is before this one, the present one for 1m 1s"
        );
        let waiting = Waiting { before: 3, served: 1.0, at_most: Some(600.0) };
        assert_eq!(waiting.to_string(), "waiting: 3 clients are before this one, 10m at most");
    }
}
