//! The control connection: what the two ends tell each other beside the measured traffic.
//!
//! Both prove that they know the same key (HMAC-SHA256 over fresh random numbers of both ends, RFC
//! 2104); the key itself never travels. Every later message carries a code over a key of this
//! session, the direction and a running number, so that nothing can be changed, repeated or left
//! out. The messages are not encrypted: they hold settings and figures, no secrets.
//!
//! On the wire a message is its length (4 bytes, big-endian), that many bytes of JSON, and from the
//! end of the handshake on a code of 32 bytes. Lengths are bounded, far more narrowly before the peer
//! is known; every read and write has a deadline.

use crate::cost::Baseline;
use crate::environment::EndEnvironment;
use crate::probe::Answered;
use crate::site::Address;
use crate::soak::sample::Sample;
use crate::soak::traffic::Traffic;
use crate::transport::Task;
use hmac::{Hmac, Mac};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

/// Version of everything in this module and of what its messages mean. Ends of different versions
/// refuse each other.
pub const VERSION: u32 = 3;

/// TCP port that `serve` listens on unless told otherwise; in the range that IANA leaves free.
pub const PORT: u16 = 49_988;

/// Bytes of a message from a peer that has not proved itself.
const HANDSHAKE_LIMIT: usize = 512;
/// Bytes of any other message: the slices of the longest stream fit several times.
const MESSAGE_LIMIT: usize = 1 << 20;
/// Time for the whole handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Fewest bytes of a key: what cannot be guessed.
const SHORTEST_KEY: usize = 16;
/// Largest key file that is read.
const LONGEST_KEY: usize = 4096;

const TAG: usize = 32;

/// A secret that both ends share.
#[derive(Clone)]
pub struct Key(Vec<u8>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// A fresh random key.
    pub fn random() -> Result<Self, ControlError> {
        random().map(|bytes| Self(bytes.to_vec()))
    }

    /// The contents of a file, without white space at its ends.
    pub fn read(file: &Path) -> Result<Self, ControlError> {
        let bytes = std::fs::read(file)
            .map_err(|source| ControlError::KeyFile { file: file.display().to_string(), source })?;
        Self::from_bytes(bytes.trim_ascii())
    }

    /// A key from outside, checked for its length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ControlError> {
        if (SHORTEST_KEY..=LONGEST_KEY).contains(&bytes.len()) {
            Ok(Self(bytes.to_vec()))
        } else {
            Err(ControlError::KeyLength(bytes.len()))
        }
    }

    /// The key as one line of text, for the pipe to a child.
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }

    /// Reads back what [`Key::to_hex`] wrote.
    pub fn from_hex(text: &str) -> Result<Self, ControlError> {
        Self::from_bytes(&unhex(text)?)
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in parts {
            // Each part with its length: no two lists of parts give the same bytes.
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }

    fn code(&self, parts: &[&[u8]]) -> [u8; TAG] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Compares in a time that does not depend on where the codes differ.
    fn verify(&self, parts: &[&[u8]], code: &[u8]) -> bool {
        self.mac(parts).verify_slice(code).is_ok()
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
    /// Open your end of this task; mine is here.
    Run {
        /// What to do.
        task: Task,
        /// Where the client's end is.
        address: Address,
    },
    /// I am done and sent this many bytes in all.
    Finish {
        /// Bytes.
        bytes: u64,
    },
    /// I could not join; give up this repetition.
    Cancel,
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
    /// Where the client's end is, with the port to which TCP connects.
    pub address: Address,
    /// What each connection begins with, so that the client knows whose it is.
    pub token: u64,
    /// The memory that the client has registered for this end.
    pub key: u64,
    /// Seconds until the end at the latest.
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
    /// To [`Request::Run`]: the server's end is open, here.
    Ready(Address),
    /// To [`Request::Finish`].
    Done(Box<Answered>),
    /// To [`Request::Cancel`].
    Cancelled,
    /// To [`Request::Soak`]: the server's end is open, here.
    Soaking {
        /// Where.
        address: Address,
        /// The memory registered for the client.
        key: u64,
    },
    /// To [`Request::Watch`], and to [`Request::Finish`] of a soak.
    Sample(Box<Sample>),
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
    /// The connection broke.
    Io(io::Error),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyFile { file, source } => write!(
                f,
                "cannot read key file '{file}': {source}; make one with 'head -c 32 /dev/urandom | base64 > FILE' and copy it to both machines"
            ),
            Self::KeyLength(bytes) => write!(
                f,
                "a key of {bytes} bytes does not do; it must have {SHORTEST_KEY} to {LONGEST_KEY}"
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
            Self::Io(source) => write!(f, "the control connection broke: {source}; try again"),
        }
    }
}

impl std::error::Error for ControlError {}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    gigae_eval: u32,
    nonce: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Proof {
    code: String,
}

/// An authenticated connection.
#[derive(Debug)]
pub struct Session {
    stream: TcpStream,
    key: Key,
    sending: Direction,
    receiving: Direction,
}

#[derive(Debug)]
struct Direction {
    name: &'static [u8],
    count: u64,
}

/// Connects to a server and proves the key, both ways.
pub fn connect(peer: &str, key: &Key) -> Result<Session, ControlError> {
    let unreachable = |source| ControlError::Unreachable { peer: peer.to_owned(), source };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address");
    for address in addresses(peer).map_err(unreachable)? {
        match TcpStream::connect_timeout(&address, HANDSHAKE_TIMEOUT) {
            Ok(stream) => return client_handshake(stream, key),
            Err(error) => last = error,
        }
    }
    Err(unreachable(last))
}

fn addresses(peer: &str) -> io::Result<Vec<SocketAddr>> {
    // "HOST:PORT", "[V6]:PORT", or a bare host or address with the default port.
    let with_port = peer.parse::<SocketAddr>().is_ok()
        || peer
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.contains(':') && port.parse::<u16>().is_ok());
    let found = if with_port { peer.to_socket_addrs()? } else { (peer, PORT).to_socket_addrs()? };
    Ok(found.collect())
}

fn client_handshake(stream: TcpStream, key: &Key) -> Result<Session, ControlError> {
    let (mut wire, ours) = (Wire::new(stream)?, random()?);
    wire.send(&Hello { gigae_eval: VERSION, nonce: hex(&ours) })?;
    let theirs = hello(&mut wire)?;
    wire.send(&Proof { code: hex(&key.code(&[b"client", &ours, &theirs])) })?;
    let proof: Proof = match wire.receive() {
        // The server closes on a wrong proof, before it proves anything itself.
        Err(ControlError::Closed) => return Err(ControlError::WrongKey),
        other => other?,
    };
    if !key.verify(&[b"server", &ours, &theirs], &unhex(&proof.code)?) {
        return Err(ControlError::WrongKey);
    }
    Ok(wire.session(key, &ours, &theirs, b"to server", b"to client"))
}

/// The server's half of the handshake on an accepted connection.
pub fn accept(stream: TcpStream, key: &Key) -> Result<Session, ControlError> {
    let (mut wire, ours) = (Wire::new(stream)?, random()?);
    // Sent before the versions are compared, so that the other end can name the difference as well.
    wire.send(&Hello { gigae_eval: VERSION, nonce: hex(&ours) })?;
    let theirs = hello(&mut wire)?;
    let proof: Proof = wire.receive()?;
    if !key.verify(&[b"client", &theirs, &ours], &unhex(&proof.code)?) {
        return Err(ControlError::WrongKey);
    }
    wire.send(&Proof { code: hex(&key.code(&[b"server", &theirs, &ours])) })?;
    Ok(wire.session(key, &theirs, &ours, b"to client", b"to server"))
}

fn hello(wire: &mut Wire) -> Result<Vec<u8>, ControlError> {
    let hello: Hello = wire.receive()?;
    if hello.gigae_eval != VERSION {
        return Err(ControlError::OtherVersion { theirs: hello.gigae_eval });
    }
    let nonce = unhex(&hello.nonce)?;
    if nonce.len() == TAG { Ok(nonce) } else { Err(ControlError::Garbled("a malformed greeting")) }
}

/// A connection before its peer is known.
struct Wire {
    stream: TcpStream,
    deadline: Instant,
}

impl Wire {
    fn new(stream: TcpStream) -> Result<Self, ControlError> {
        stream.set_nodelay(true).map_err(ControlError::Io)?;
        Ok(Self { stream, deadline: Instant::now() + HANDSHAKE_TIMEOUT })
    }

    fn send<T: Serialize>(&mut self, message: &T) -> Result<(), ControlError> {
        write_all(&mut self.stream, &framed(message), self.deadline)
    }

    fn receive<T: DeserializeOwned>(&mut self) -> Result<T, ControlError> {
        let body = read_body(&mut self.stream, HANDSHAKE_LIMIT, self.deadline)?;
        serde_json::from_slice(&body).map_err(|_| ControlError::Garbled("no greeting"))
    }

    fn session(
        self,
        key: &Key,
        client: &[u8],
        server: &[u8],
        sending: &'static [u8],
        receiving: &'static [u8],
    ) -> Session {
        Session {
            stream: self.stream,
            key: Key(key.code(&[b"session", client, server]).to_vec()),
            sending: Direction { name: sending, count: 0 },
            receiving: Direction { name: receiving, count: 0 },
        }
    }
}

impl Session {
    /// Sends a message; takes at most a few seconds.
    pub fn send<T: Serialize>(&mut self, message: &T) -> Result<(), ControlError> {
        let mut bytes = framed(message);
        let count = self.sending.count.to_be_bytes();
        let code = self.key.code(&[self.sending.name, &count, &bytes[4..]]);
        self.sending.count += 1;
        bytes.extend(code);
        write_all(&mut self.stream, &bytes, Instant::now() + HANDSHAKE_TIMEOUT)
    }

    /// The next message, if it comes in time.
    pub fn receive<T: DeserializeOwned>(&mut self, timeout: Duration) -> Result<T, ControlError> {
        let deadline = Instant::now() + timeout;
        let body = read_body(&mut self.stream, MESSAGE_LIMIT, deadline)?;
        let mut code = [0; TAG];
        read_exact(&mut self.stream, &mut code, deadline)?;
        let count = self.receiving.count.to_be_bytes();
        if !self.key.verify(&[self.receiving.name, &count, &body], &code) {
            return Err(ControlError::Garbled("a message with a wrong code"));
        }
        self.receiving.count += 1;
        serde_json::from_slice(&body).map_err(|_| ControlError::Garbled("an unknown message"))
    }

    /// Asks and waits for the answer.
    pub fn ask(&mut self, request: &Request, timeout: Duration) -> Result<Reply, ControlError> {
        self.send(request)?;
        self.receive(timeout)
    }

    /// Whether a message (or the end of the connection) is there within `timeout`.
    pub fn readable(&self, timeout: Duration) -> io::Result<bool> {
        self.stream.set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?;
        match self.stream.peek(&mut [0]) {
            Ok(_) => Ok(true),
            Err(error) if again(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn framed<T: Serialize>(message: &T) -> Vec<u8> {
    let body = serde_json::to_vec(message).expect("messages are plain data");
    let length = u32::try_from(body.len()).expect("messages are far below 4 GiB");
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend(body);
    bytes
}

fn read_body(
    stream: &mut TcpStream,
    limit: usize,
    deadline: Instant,
) -> Result<Vec<u8>, ControlError> {
    let mut length = [0; 4];
    read_exact(stream, &mut length, deadline)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > limit {
        return Err(ControlError::Garbled("a message that is too long"));
    }
    let mut body = vec![0; length];
    read_exact(stream, &mut body, deadline)?;
    Ok(body)
}

/// Reads until the deadline; a peer that sends a byte now and then gains no time by it.
fn read_exact(
    stream: &mut TcpStream,
    mut buffer: &mut [u8],
    deadline: Instant,
) -> Result<(), ControlError> {
    while !buffer.is_empty() {
        let left = time_left(deadline).ok_or(ControlError::Silent("answer"))?;
        stream.set_read_timeout(Some(left)).map_err(ControlError::Io)?;
        match stream.read(buffer) {
            Ok(0) => return Err(ControlError::Closed),
            Ok(bytes) => buffer = &mut buffer[bytes..],
            Err(error) if again(&error) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                return Err(ControlError::Closed);
            }
            Err(error) => return Err(ControlError::Io(error)),
        }
    }
    Ok(())
}

fn write_all(
    stream: &mut TcpStream,
    mut bytes: &[u8],
    deadline: Instant,
) -> Result<(), ControlError> {
    while !bytes.is_empty() {
        let left = time_left(deadline).ok_or(ControlError::Silent("take a message"))?;
        stream.set_write_timeout(Some(left)).map_err(ControlError::Io)?;
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if again(&error) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                ) =>
            {
                return Err(ControlError::Closed);
            }
            Err(error) => return Err(ControlError::Io(error)),
        }
    }
    Ok(())
}

fn time_left(deadline: Instant) -> Option<Duration> {
    deadline.checked_duration_since(Instant::now()).filter(|left| *left >= Duration::from_micros(1))
}

fn again(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn random() -> Result<[u8; TAG], ControlError> {
    let mut bytes = [0; TAG];
    getrandom::fill(&mut bytes).map_err(|_| ControlError::Random)?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>, ControlError> {
    let garbled = ControlError::Garbled("a malformed greeting");
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return Err(garbled);
    }
    (0..text.len() / 2)
        .map(|index| u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok())
        .collect::<Option<_>>()
        .ok_or(garbled)
}
