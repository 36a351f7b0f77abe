//! The connection itself: the handshake, and messages in encrypted records.
//!
//! Each end first says its version and a fresh random number, in the clear (4 bytes of length,
//! big-endian, then JSON). Then follows Noise_NNpsk0_25519_ChaChaPoly_SHA256 (the Noise Protocol
//! Framework, revision 34), in which the shared key is mixed and which covers both greetings: a
//! first message that was recorded is worth nothing at another greeting, so the server knows after
//! the client's one message that it has the key, and the client after the server's. Who records it
//! all and learns the key later cannot read it.
//!
//! A record is its length (2 bytes, big-endian) and as many bytes of Noise ciphertext. A message is
//! 4 bytes of length (big-endian) and as many of JSON, in as many records as it takes; the next one
//! begins with a new record. Records are numbered by Noise: none can be changed, repeated or left
//! out.

use super::error::ControlError;
use super::key::{Key, random};
use super::message::{Limits, Reply, Request, VERSION};
use data_encoding::HEXLOWER;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use snow::{Builder, HandshakeState, TransportState};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";

/// Bytes of a message from a peer that has not proved itself.
const HANDSHAKE_LIMIT: usize = 512;
/// Bytes of any other message: the slices of the longest stream fit several times.
const MESSAGE_LIMIT: usize = 1 << 20;
/// Time for the whole handshake.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest ciphertext of a record, and what of it is the code that protects it (Noise, section 3).
const RECORD: usize = 65_535;
const TAG: usize = 16;

/// A peer that answers nothing for so long is gone: its cable is cut, or its machine has stopped.
pub const GONE_AFTER: Duration = Duration::from_secs(20);

/// Time for an answer over the control connection. A peer that is gone is noticed earlier, so this
/// is for one that is slow: busy processors, a NIC that takes seconds for a setting, or the
/// kernel's lock of interfaces, which who opens or closes a link waits for and others may hold for
/// more than a minute.
pub const ANSWER: Duration = Duration::from_secs(300);

/// The kernel begins to ask whether it is there after a quarter of that, and asks every second from
/// then on (tcp(7)): a stream that is measured drops some of the questions.
const PROBE_EVERY: Duration = Duration::from_secs(1);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    gigae_eval: u32,
    nonce: String,
}

/// An authenticated and encrypted connection.
#[derive(Debug)]
pub struct Session {
    stream: TcpStream,
    noise: TransportState,
    /// What the server's owner allows; known to the client, once it is its turn.
    pub limits: Limits,
}

/// A connection before its peer is known.
struct Wire {
    stream: TcpStream,
    deadline: Instant,
}

/// The client's half of the handshake.
pub(super) fn client(stream: TcpStream, key: &Key) -> Result<Session, ControlError> {
    let mut wire = Wire::new(stream)?;
    let ours = wire.greet()?;
    let theirs = wire.receive_greeting()?;
    let (secret, covered) = (key.shared(), [&ours[..], &theirs].concat());
    let mut noise = builder(&secret, &covered)?.build_initiator().map_err(broken)?;
    wire.say(&mut noise)?;
    // The server closes when it sees another key, before it proves anything itself.
    wire.answered(&mut noise).map_err(|error| match error {
        ControlError::Closed => ControlError::WrongKey,
        other => other,
    })?;
    wire.session(noise)
}

/// The server's half of the handshake on an accepted connection.
pub fn accept(stream: TcpStream, key: &Key) -> Result<Session, ControlError> {
    let mut wire = Wire::new(stream)?;
    // Sent before the versions are compared, so that the other end can name the difference as well.
    let ours = wire.greet()?;
    let theirs = wire.receive_greeting()?;
    let (secret, covered) = (key.shared(), [&theirs[..], &ours].concat());
    let mut noise = builder(&secret, &covered)?.build_responder().map_err(broken)?;
    wire.answered(&mut noise)?;
    wire.say(&mut noise)?;
    wire.session(noise)
}

fn builder<'a>(secret: &'a [u8; 32], covered: &'a [u8]) -> Result<Builder<'a>, ControlError> {
    let pattern = PATTERN.parse().map_err(broken)?;
    Builder::new(pattern).psk(0, secret).and_then(|it| it.prologue(covered)).map_err(broken)
}

/// What only a mistake of ours, or a kernel without random numbers, leads to.
fn broken(error: snow::Error) -> ControlError {
    ControlError::Io(io::Error::other(format!("Noise: {error:?}")))
}

impl Wire {
    fn new(stream: TcpStream) -> Result<Self, ControlError> {
        stream.set_nodelay(true).map_err(ControlError::Io)?;
        gone_after(&stream, GONE_AFTER)?;
        Ok(Self { stream, deadline: Instant::now() + HANDSHAKE_TIMEOUT })
    }

    /// Says version and random number; what was said.
    fn greet(&mut self) -> Result<Vec<u8>, ControlError> {
        let hello = Hello { gigae_eval: VERSION, nonce: HEXLOWER.encode(&random::<32>()?) };
        let body = serde_json::to_vec(&hello).expect("a greeting is plain data");
        self.send(&body)?;
        Ok(body)
    }

    /// The peer's greeting, if it is of this version.
    fn receive_greeting(&mut self) -> Result<Vec<u8>, ControlError> {
        let body = self.receive()?;
        let hello: Hello =
            serde_json::from_slice(&body).map_err(|_| ControlError::Garbled("no greeting"))?;
        if hello.gigae_eval == VERSION {
            Ok(body)
        } else {
            Err(ControlError::OtherVersion { theirs: hello.gigae_eval })
        }
    }

    /// This end's message of the handshake.
    fn say(&mut self, noise: &mut HandshakeState) -> Result<(), ControlError> {
        let mut message = [0; HANDSHAKE_LIMIT];
        let len = noise.write_message(&[], &mut message).map_err(broken)?;
        self.send(&message[..len])
    }

    /// The peer's message of the handshake, which only who has the key can make.
    fn answered(&mut self, noise: &mut HandshakeState) -> Result<(), ControlError> {
        let message = self.receive()?;
        let mut nothing = [0; HANDSHAKE_LIMIT];
        noise.read_message(&message, &mut nothing).map_err(|_| ControlError::WrongKey).map(drop)
    }

    fn send(&mut self, body: &[u8]) -> Result<(), ControlError> {
        let length = u32::try_from(body.len()).expect("greetings are short").to_be_bytes();
        write_all(&mut self.stream, &[&length, body].concat(), self.deadline)
    }

    fn receive(&mut self) -> Result<Vec<u8>, ControlError> {
        let mut length = [0; 4];
        read_exact(&mut self.stream, &mut length, self.deadline)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > HANDSHAKE_LIMIT {
            return Err(ControlError::Garbled("a message that is too long"));
        }
        let mut body = vec![0; length];
        read_exact(&mut self.stream, &mut body, self.deadline)?;
        Ok(body)
    }

    fn session(self, noise: HandshakeState) -> Result<Session, ControlError> {
        let noise = noise.into_transport_mode().map_err(broken)?;
        Ok(Session { stream: self.stream, noise, limits: Limits::default() })
    }
}

/// Has the kernel end the connection when the peer answers nothing for so long: neither questions
/// nor what was sent.
fn gone_after(stream: &TcpStream, time: Duration) -> Result<(), ControlError> {
    let alive = TcpKeepalive::new().with_time(time / 4).with_interval(PROBE_EVERY);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&alive).map_err(ControlError::Io)?;
    socket.set_tcp_user_timeout(Some(time)).map_err(ControlError::Io)
}

impl Session {
    /// Takes the peer for gone when it answers nothing for so long, instead of [`GONE_AFTER`]; four
    /// seconds at least.
    pub fn gone_after(&self, time: Duration) -> Result<(), ControlError> {
        gone_after(&self.stream, time)
    }

    /// Sends a message; takes at most a few seconds.
    pub fn send<T: Serialize>(&mut self, message: &T) -> Result<(), ControlError> {
        let body = serde_json::to_vec(message).expect("messages are plain data");
        let length = u32::try_from(body.len()).expect("messages are far below 4 GiB");
        let plain = [&length.to_be_bytes()[..], &body].concat();
        let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
        let mut record = [0; 2 + RECORD];
        for part in plain.chunks(RECORD - TAG) {
            let len = self.noise.write_message(part, &mut record[2..]).map_err(broken)?;
            record[..2].copy_from_slice(&(len as u16).to_be_bytes());
            write_all(&mut self.stream, &record[..2 + len], deadline)?;
        }
        Ok(())
    }

    /// The next message, if it comes in time.
    pub fn receive<T: DeserializeOwned>(&mut self, timeout: Duration) -> Result<T, ControlError> {
        let deadline = Instant::now() + timeout;
        let mut plain = self.record(deadline)?;
        let Some(length) = plain.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) as usize)
        else {
            return Err(ControlError::Garbled("a message without its length"));
        };
        if length > MESSAGE_LIMIT {
            return Err(ControlError::Garbled("a message that is too long"));
        }
        while plain.len() < 4 + length {
            plain.extend(self.record(deadline)?);
        }
        if plain.len() > 4 + length {
            return Err(ControlError::Garbled("more than a message"));
        }
        serde_json::from_slice(&plain[4..]).map_err(|_| ControlError::Garbled("an unknown message"))
    }

    /// The next record, never an empty one: a message could be of as many of those as one likes.
    fn record(&mut self, deadline: Instant) -> Result<Vec<u8>, ControlError> {
        let mut length = [0; 2];
        read_exact(&mut self.stream, &mut length, deadline)?;
        let mut record = vec![0; usize::from(u16::from_be_bytes(length))];
        read_exact(&mut self.stream, &mut record, deadline)?;
        let mut plain = vec![0; record.len()];
        match self.noise.read_message(&record, &mut plain) {
            Ok(len @ 1..) => {
                plain.truncate(len);
                Ok(plain)
            }
            _ => Err(ControlError::Garbled("a record with a wrong code")),
        }
    }

    /// Asks and waits for the answer.
    pub fn ask(&mut self, request: &Request, timeout: Duration) -> Result<Reply, ControlError> {
        self.send(request)?;
        self.receive(timeout)
    }

    /// Whether a message (or the end of the connection) is there within `timeout`. A peer that is
    /// gone is an error.
    pub fn readable(&self, timeout: Duration) -> Result<bool, ControlError> {
        let wait = Some(timeout.max(Duration::from_millis(1)));
        self.stream.set_read_timeout(wait).map_err(ControlError::Io)?;
        match self.stream.peek(&mut [0]) {
            Ok(_) => Ok(true),
            Err(error) if again(&error) => Ok(false),
            Err(error) => Err(ended(error)),
        }
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
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
            Err(error) => return Err(ended(error)),
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
            Err(error) => return Err(ended(error)),
        }
    }
    Ok(())
}

/// What the end of a connection means.
fn ended(error: io::Error) -> ControlError {
    use io::ErrorKind::{
        BrokenPipe, ConnectionReset, HostUnreachable, NetworkUnreachable, TimedOut,
    };
    match error.kind() {
        ConnectionReset | BrokenPipe => ControlError::Closed,
        // The kernel got no answer. A timeout of the socket is another error on Linux.
        TimedOut | HostUnreachable | NetworkUnreachable => ControlError::Gone,
        _ => ControlError::Io(error),
    }
}

fn time_left(deadline: Instant) -> Option<Duration> {
    deadline.checked_duration_since(Instant::now()).filter(|left| *left >= Duration::from_micros(1))
}

fn again(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
