//! The messages between a client and the broker, as bytes.
//!
//! ```text
//!  client                     broker
//!    request ───────────────▶  books the port
//!    fills, ◀──────── memory   one descriptor, of which no page is there
//!    seals
//!    filled ────────────────▶  makes the port
//!    uses it ◀───────── port   two descriptors
//! ```
//!
//! A refusal may come instead of memory or port. It ends the connection.
//!
//! All numbers are little-endian; texts end at a zero byte or at the end of their field. Every
//! message begins alike, in every version:
//!
//! | bytes | what |
//! |---|---|
//! | 0-3 | `gigb` |
//! | 4-5 | version, 3 |
//! | 6 | kind: 1 request, 2 port, 3 refusal, 4 memory, 5 filled |
//! | 7 | zero; of a refusal the reason ([`RefusalCode`]) |
//!
//! A **request** continues, up to exactly 72 bytes:
//!
//! | bytes | what |
//! |---|---|
//! | 8-9 | EtherType |
//! | 10 | bit 0: frames may be in several buffers |
//! | 11 | zero |
//! | 12-15, 16-19, 20-23 | transmit frames, receive frames, of these ready at first |
//! | 24-55 | channels, channel 0 in bit 0 of the first byte |
//! | 56-71 | name of the NIC, at most 15 bytes; empty: any |
//!
//! A request for zero frames asks for no port, but whether the user may have some. The answer is
//! always a refusal. If the user may have ports ([`RefusalCode::Nothing`]), its text lists the
//! names of the NICs, separated by blanks.
//!
//! A **port** continues with the contents of [`Description`], 56 bytes, and the reason as text. It
//! carries two descriptors ([`DESCRIPTORS`]). A **refusal** continues with a text for people.
//! **Memory**, with its one descriptor, and **filled** are only these 8 bytes. **Filled** says that
//! the client has made all pages of the memory and sealed it against further mappings
//! (`F_SEAL_FUTURE_WRITE`).

use gigae_link::{ChannelSet, Mode};
use gigae_wire::MacAddr;
use gigae_xdp::{Description, XdpLink};
use std::fmt;

/// Version of this protocol. Client and daemon are installed together, so another version is
/// refused.
pub const VERSION: u16 = 3;

/// Bytes of a request.
pub const REQUEST_LEN: usize = 72;

/// Most bytes of an answer.
pub const ANSWER_LEN: usize = 1024;

/// Descriptors that come with a port: socket, claim.
pub const DESCRIPTORS: usize = 2;

const MAGIC: [u8; 4] = *b"gigb";
const REQUEST: u8 = 1;
const PORT: u8 = 2;
const REFUSAL: u8 = 3;
const MEMORY: u8 = 4;
const FILLED: u8 = 5;

const HEADER: usize = 8;
const DESCRIPTION: usize = 56;

/// Room for the name of an interface, with a zero byte behind it (linux/if.h, `IFNAMSIZ`).
const NAME: usize = 16;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The NIC for the port; `None` for any that the broker may use.
    pub interface: Option<String>,
    /// The EtherType of the frames.
    pub ethertype: u16,
    /// Their channels.
    pub channels: ChannelSet,
    /// Whether frames may be in several buffers.
    pub long_frames: bool,
    /// Transmit frames of 4 KiB.
    pub tx_frames: u32,
    /// Receive frames of 4 KiB.
    pub rx_frames: u32,
    /// Receive frames that the kernel has at first.
    pub rx_ready: u32,
}

/// The message is invalid or of another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The sender speaks this version.
    Version(u16),
    /// Its length, mark or kind is wrong, or a value is impossible.
    Nonsense,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(
                f,
                "version {VERSION} of the broker's protocol meets version {version}; install the same \
                 release of the library and of the command 'gigae', and start the broker again"
            ),
            Self::Nonsense => f.write_str("this is not a message of the broker's protocol"),
        }
    }
}

/// Why the broker refuses a request, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RefusalCode {
    /// The request is invalid.
    Malformed = 1,
    /// The user may not use the broker.
    User = 2,
    /// There is no such NIC, or it may not be used.
    Interface = 3,
    /// The EtherType may not be used.
    EtherType = 4,
    /// The user or all users together have too many ports, or too much memory.
    Limit = 5,
    /// Too many requests wait.
    Busy = 6,
    /// The port could not be made.
    Failed = 7,
    /// It asked for no frames. The user may have ports on the NICs in the text.
    Nothing = 8,
    /// The client is in another network namespace than the broker.
    Namespace = 9,
}

impl RefusalCode {
    const ALL: [Self; 9] = [
        Self::Malformed,
        Self::User,
        Self::Interface,
        Self::EtherType,
        Self::Limit,
        Self::Busy,
        Self::Failed,
        Self::Nothing,
        Self::Namespace,
    ];
}

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For programs.
    pub why: RefusalCode,
    /// For people: one line that says what to do.
    pub text: String,
}

impl Refusal {
    pub(crate) fn new(why: RefusalCode, text: impl fmt::Display) -> Self {
        Self { why, text: text.to_string() }
    }
}

/// The broker's answer, without the descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The frame memory of the port, for the client to fill.
    Memory,
    /// The port.
    Port(Description),
    /// A refusal.
    Refusal(Refusal),
}

/// The kind, the byte behind it, and the rest of a message.
fn open(bytes: &[u8]) -> Result<(u8, u8, &[u8]), Malformed> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or(Malformed::Nonsense)?;
    let [m0, m1, m2, m3, v0, v1, kind, detail] = *header;
    match (u16::from_le_bytes([v0, v1]), [m0, m1, m2, m3] == MAGIC) {
        (_, false) => Err(Malformed::Nonsense),
        (VERSION, true) => Ok((kind, detail, rest)),
        (other, true) => Err(Malformed::Version(other)),
    }
}

fn header(kind: u8, detail: u8) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend([kind, detail]);
    bytes
}

/// Takes fields from the front of a message whose length was checked.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Malformed::Nonsense)?;
        self.0 = rest;
        Ok(*field)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_le_bytes)
    }

    /// A valid name of an interface, or an empty one.
    fn name(&mut self) -> Result<String, Malformed> {
        let field: [u8; NAME] = self.take()?;
        let end = field.iter().position(|&byte| byte == 0).unwrap_or(NAME);
        let (name, rest) = field.split_at(end);
        let sound = end < NAME
            && name.iter().all(|&byte| byte.is_ascii_graphic() && byte != b'/')
            && rest.iter().all(|&byte| byte == 0);
        let text = std::str::from_utf8(name).ok().filter(|_| sound);
        text.map(str::to_owned).ok_or(Malformed::Nonsense)
    }
}

fn name(interface: &str) -> [u8; NAME] {
    let mut field = [0; NAME];
    field.iter_mut().zip(interface.bytes().take(NAME - 1)).for_each(|(to, byte)| *to = byte);
    field
}

/// The message that a client sends when it has filled the memory.
pub fn filled() -> Vec<u8> {
    header(FILLED, 0)
}

/// Whether this is that message.
pub(crate) fn is_filled(bytes: &[u8]) -> bool {
    bytes == filled()
}

impl Request {
    /// Bytes of frame memory of the port.
    pub fn memory(&self) -> usize {
        XdpLink::memory_for(self.tx_frames, self.rx_frames)
    }

    /// Whether this asks for no port, only for the NICs that there are.
    pub(crate) fn is_query(&self) -> bool {
        (self.tx_frames, self.rx_frames) == (0, 0)
    }

    /// Converts to bytes. Cuts a name that no interface can have, so it is not found.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = header(REQUEST, 0);
        bytes.extend(self.ethertype.to_le_bytes());
        bytes.extend([u8::from(self.long_frames), 0]);
        for number in [self.tx_frames, self.rx_frames, self.rx_ready] {
            bytes.extend(number.to_le_bytes());
        }
        self.channels.words().iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(name(self.interface.as_deref().unwrap_or("")));
        bytes
    }

    /// Parses untrusted bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (kind, detail, rest) = open(bytes)?;
        if (kind, detail) != (REQUEST, 0) || bytes.len() != REQUEST_LEN {
            return Err(Malformed::Nonsense);
        }
        let mut fields = Fields(rest);
        let ethertype = u16::from_le_bytes(fields.take()?);
        let [flags @ (0 | 1), 0] = fields.take()? else { return Err(Malformed::Nonsense) };
        let (tx_frames, rx_frames, rx_ready) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let set: [u8; 32] = fields.take()?;
        let open = |&channel: &u8| set[usize::from(channel) / 8] >> (channel % 8) & 1 == 1;
        let interface = Some(fields.name()?).filter(|name| !name.is_empty());
        let channels = (0..=u8::MAX).filter(open).collect();
        let long_frames = flags == 1;
        Ok(Self { interface, ethertype, channels, long_frames, tx_frames, rx_frames, rx_ready })
    }
}

impl Answer {
    /// Converts to bytes. Cuts texts that are too long for [`ANSWER_LEN`].
    pub fn bytes(&self) -> Vec<u8> {
        let (mut bytes, text) = match self {
            Self::Refusal(Refusal { why, text }) => (header(REFUSAL, *why as u8), text),
            Self::Memory => return header(MEMORY, 0),
            Self::Port(port) => (port_bytes(port), &port.reason),
        };
        let mut end = text.len().min(ANSWER_LEN - bytes.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        bytes.extend(&text.as_bytes()[..end]);
        bytes
    }

    /// Parses untrusted bytes. Removes characters from texts that could do harm on a terminal.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (kind, detail, rest) = open(bytes)?;
        match kind {
            _ if bytes.len() > ANSWER_LEN => Err(Malformed::Nonsense),
            REFUSAL => {
                let why = RefusalCode::ALL.into_iter().find(|&why| why as u8 == detail);
                let why = why.ok_or(Malformed::Nonsense)?;
                Ok(Self::Refusal(Refusal { why, text: text(rest) }))
            }
            PORT => port(rest).map(Self::Port),
            MEMORY if (detail, rest) == (0, &[]) => Ok(Self::Memory),
            _ => Err(Malformed::Nonsense),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

const MODES: [(u8, Mode); 3] =
    [(1, Mode::XdpZeroCopy), (2, Mode::XdpNative), (3, Mode::XdpGeneric)];

fn port_bytes(port: &Description) -> Vec<u8> {
    let mut bytes = header(PORT, 0);
    let mode = MODES.iter().find(|(_, mode)| *mode == port.mode).map_or(0, |&(number, _)| number);
    let flags = [port.several, port.busy, port.need_wakeup];
    let flags = flags.iter().rev().fold(0, |all, &flag| all << 1 | u8::from(flag));
    bytes.extend(port.mac.0);
    bytes.extend([mode, flags]);
    for number in [port.index, port.lower.unwrap_or(0), port.mtu, port.max_frame] {
        bytes.extend(number.to_le_bytes());
    }
    for number in [port.tx_frames, port.rx_frames, port.rx_ready, port.program] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(name(&port.interface));
    bytes
}

fn port(rest: &[u8]) -> Result<Description, Malformed> {
    if rest.len() < DESCRIPTION {
        return Err(Malformed::Nonsense);
    }
    let mut fields = Fields(rest);
    let mac = MacAddr(fields.take()?);
    let [mode, flags] = fields.take()?;
    let mode = MODES.iter().find(|&&(number, _)| number == mode).ok_or(Malformed::Nonsense)?.1;
    let (index, lower) = (fields.u32()?, fields.u32()?);
    let (mtu, max_frame) = (fields.u32()?, fields.u32()?);
    let (tx_frames, rx_frames, rx_ready) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let program = fields.u32()?;
    let interface = fields.name()?;
    let [several, busy, need_wakeup] = [0, 1, 2].map(|bit| flags >> bit & 1 == 1);
    let reason = text(&rest[DESCRIPTION..]);
    Ok(Description {
        interface,
        index,
        lower: Some(lower).filter(|&index| index > 0),
        mac,
        mtu,
        mode,
        max_frame,
        several,
        tx_frames,
        rx_frames,
        rx_ready,
        program,
        busy,
        need_wakeup,
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            interface: Some("eth1".into()),
            ethertype: 0x88b5,
            channels: [0, 7, 8, 255].into_iter().collect(),
            long_frames: true,
            tx_frames: 1024,
            rx_frames: 4096,
            rx_ready: 256,
        }
    }

    fn description() -> Description {
        Description {
            interface: "gigae0".into(),
            index: 7,
            lower: Some(2),
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            mode: Mode::XdpGeneric,
            max_frame: 1514,
            several: false,
            tx_frames: 1,
            rx_frames: 2,
            rx_ready: 3,
            program: 77,
            busy: false,
            need_wakeup: true,
            reason: "why".into(),
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let any = Request { interface: None, long_frames: false, ..request() };
        for request in [request(), any] {
            assert_eq!(request.bytes().len(), REQUEST_LEN);
            assert_eq!(Request::parse(&request.bytes()), Ok(request));
        }
        let refusals = RefusalCode::ALL.map(|why| Answer::Refusal(Refusal::new(why, "no; ask")));
        let others = [Answer::Memory, Answer::Port(description())];
        for answer in refusals.into_iter().chain(others) {
            assert_eq!(Answer::parse(&answer.bytes()), Ok(answer));
        }
    }

    #[test]
    fn what_is_cut_changed_or_longer_is_no_request() {
        let bytes = request().bytes();
        for length in 0..bytes.len() {
            assert_eq!(Request::parse(&bytes[..length]), Err(Malformed::Nonsense), "{length}");
        }
        assert_eq!(Request::parse(&[&bytes[..], &[0]].concat()), Err(Malformed::Nonsense));
        let with = |at: usize, byte: u8| {
            let mut changed = bytes.clone();
            changed[at] = byte;
            Request::parse(&changed)
        };
        assert_eq!(with(4, 1), Err(Malformed::Version(1)));
        for (at, byte) in [(0, b'G'), (6, 2), (7, 1), (10, 2), (11, 1), (56, b'/'), (57, 7)] {
            assert_eq!(with(at, byte), Err(Malformed::Nonsense), "{at}");
        }
        assert_eq!(with(71, b'x'), Err(Malformed::Nonsense), "a name that goes on behind its end");
    }

    #[test]
    fn texts_are_cut_and_cannot_harm_a_terminal() {
        let long = Refusal::new(RefusalCode::Failed, "é".repeat(ANSWER_LEN));
        let bytes = Answer::Refusal(long).bytes();
        assert!(bytes.len() <= ANSWER_LEN);
        let Ok(Answer::Refusal(cut)) = Answer::parse(&bytes) else { panic!("a refusal") };
        assert!(cut.text.chars().all(|c| c == 'é'), "{cut:?}");
        let mut bytes = header(REFUSAL, RefusalCode::Busy as u8);
        bytes.extend(b"a\x1b[2Jb\n\xff");
        let Ok(Answer::Refusal(tamed)) = Answer::parse(&bytes) else { panic!("a refusal") };
        assert_eq!(tamed.text, "a [2Jb \u{fffd}");
    }

    #[test]
    fn cut_answers_never_panic() {
        let bytes = Answer::Port(Description { reason: String::new(), ..description() }).bytes();
        assert_eq!(bytes.len(), HEADER + DESCRIPTION);
        for length in 0..bytes.len() {
            assert_eq!(Answer::parse(&bytes[..length]), Err(Malformed::Nonsense), "{length}");
        }
    }
}
