//! The description of an endpoint: the header of its shared memory.

use crate::layout::*;
use crate::sync::{AtomicU64, Ordering};

/// Most links of an endpoint.
pub const MOST_LINKS: usize = 8;

/// Bytes of a link's name and of its mode, each.
const TEXT_LEN: usize = 16;

/// How an endpoint's frames are recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// By this EtherType.
    Ethernet(u16),
    /// By this UDP port.
    Udp(u16),
}

/// A link of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkDescription {
    /// The interface, at most 16 bytes.
    pub interface: String,
    /// How frames reach the wire, at most 16 bytes.
    pub mode: String,
    /// Its address.
    pub mac: [u8; 6],
    /// Longest frame in bytes.
    pub max_frame: usize,
}

/// An endpoint's description of itself, which never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointDescription {
    /// When it was opened, in nanoseconds of the monotonic clock.
    pub opened: u64,
    /// Its port id.
    pub port: u16,
    /// Its envelope.
    pub wire: Encapsulation,
    /// Its channels, channel 0 in bit 0 of the first word.
    pub channels: [u64; 4],
    /// Its links, 1 to 8.
    pub links: Vec<LinkDescription>,
    /// Names of its counters, of its counters per link, and of its values per peer.
    pub names: [Vec<String>; 3],
}

impl EndpointDescription {
    /// Writes the header, the magic number last.
    pub(crate) fn write(&self, words: &[AtomicU64]) {
        let put = |place: usize, word: u64| words[place].store(word, Ordering::Relaxed);
        put(AT_VERSION, VERSION);
        put(AT_OPENED, self.opened);
        put(AT_PORT, self.port.into());
        let (kind, number) = match self.wire {
            Encapsulation::Ethernet(number) => (0, number),
            Encapsulation::Udp(number) => (1, number),
        };
        put(AT_WIRE, kind << 32 | u64::from(number));
        self.channels.iter().enumerate().for_each(|(i, &word)| put(AT_CHANNELS + i, word));
        let links = &self.links[..self.links.len().min(MOST_LINKS)];
        put(AT_LINK_COUNT, links.len() as u64);
        for (i, link) in links.iter().enumerate() {
            let at = AT_LINKS + i * LINK_WORDS;
            put_text(&words[at..at + 2], &link.interface);
            put_text(&words[at + 2..at + 4], &link.mode);
            let [a, b, c, d, e, f] = link.mac;
            put(at + 4, u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
            put(at + 5, link.max_frame as u64);
        }
        let names = self.names.each_ref().map(|names| names.join(" ")).join("\n");
        put(AT_NAMES_LEN, names.len() as u64);
        put_text(&words[AT_NAMES..HEADER_WORDS], &names);
        words[AT_MAGIC].store(MAGIC, Ordering::Release);
    }

    /// Reads the header. Trusts nothing in it: every number becomes a value, and text that no
    /// endpoint writes is refused.
    pub(crate) fn read(words: &[AtomicU64]) -> Result<Self, Foreign> {
        if words[AT_MAGIC].load(Ordering::Acquire) != MAGIC {
            return Err(Foreign::NoEndpoint);
        }
        let get = |place: usize| words[place].load(Ordering::Relaxed);
        if get(AT_VERSION) != VERSION {
            return Err(Foreign::Version(get(AT_VERSION)));
        }
        let number = get(AT_WIRE) as u16;
        let wire = match get(AT_WIRE) >> 32 {
            0 => Encapsulation::Ethernet(number),
            _ => Encapsulation::Udp(number),
        };
        let count = get(AT_LINK_COUNT) as usize;
        if !(1..=MOST_LINKS).contains(&count) {
            return Err(Foreign::NoEndpoint);
        }
        let link = |i: usize| {
            let at = AT_LINKS + i * LINK_WORDS;
            let [_, _, mac @ ..] = get(at + 4).to_be_bytes();
            Some(LinkDescription {
                interface: text(&words[at..at + 2], TEXT_LEN)?,
                mode: text(&words[at + 2..at + 4], TEXT_LEN)?,
                mac,
                max_frame: get(at + 5) as usize,
            })
        };
        let links = (0..count).map(link).collect::<Option<_>>().ok_or(Foreign::NoEndpoint)?;
        let names = text(&words[AT_NAMES..HEADER_WORDS], get(AT_NAMES_LEN) as usize);
        let names = names.ok_or(Foreign::NoEndpoint)?;
        let mut lines = names.lines();
        let mut next =
            || lines.next().unwrap_or_default().split_whitespace().map(Into::into).collect();
        Ok(Self {
            opened: get(AT_OPENED),
            port: get(AT_PORT) as u16,
            wire,
            channels: std::array::from_fn(|i| get(AT_CHANNELS + i)),
            links,
            names: std::array::from_fn(|_| next()),
        })
    }
}

/// Why a memory cannot be observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// It is not an endpoint's, or not complete yet.
    NoEndpoint,
    /// Its layout has another version.
    Version(u64),
}

/// Writes as much of a text as fits, padded with zeros; `?` replaces characters that are not
/// printable.
fn put_text(words: &[AtomicU64], text: &str) {
    let seen = |byte: u8| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\n');
    let text: Vec<u8> = text.bytes().map(|byte| if seen(byte) { byte } else { b'?' }).collect();
    let mut chunks = text.chunks(8);
    for word in words {
        let mut bytes = [0; 8];
        let chunk = chunks.next().unwrap_or_default();
        bytes[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }
}

/// A text of at most `len` bytes, up to the first zero. `None` if it has other characters than
/// printable ones, the blank and the end of a line: others might do harm on a terminal.
fn text(words: &[AtomicU64], len: usize) -> Option<String> {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
    let bytes = &bytes[..len.min(bytes.len())];
    let bytes = bytes.split(|&byte| byte == 0).next()?;
    let may = |&byte: &u8| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\n');
    bytes.iter().all(may).then(|| String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn words() -> Vec<AtomicU64> {
        (0..HEADER_WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn about() -> EndpointDescription {
        let link = |n: u8| LinkDescription {
            interface: format!("eth{n}"),
            mode: "xdp zero-copy".into(),
            mac: [2, 0, 0, 0, 0, n],
            max_frame: 1514,
        };
        EndpointDescription {
            opened: 12,
            port: 7,
            wire: Encapsulation::Udp(4711),
            channels: [1, 0, 0, 1 << 63],
            links: (0..8).map(link).collect(),
            names: [vec!["a".into(), "b".into()], vec![], vec!["window".into()]],
        }
    }

    #[test]
    fn an_observer_reads_what_the_endpoint_says_of_itself() {
        let words = words();
        assert_eq!(EndpointDescription::read(&words), Err(Foreign::NoEndpoint));
        about().write(&words);
        assert_eq!(EndpointDescription::read(&words), Ok(about()));
    }

    #[test]
    fn other_versions_differ_from_what_is_no_endpoint() {
        let words = words();
        about().write(&words);
        words[AT_VERSION].store(9, Ordering::Relaxed);
        assert_eq!(EndpointDescription::read(&words), Err(Foreign::Version(9)));
        words[AT_VERSION].store(VERSION, Ordering::Relaxed);
        for count in [0, 9, u64::MAX] {
            words[AT_LINK_COUNT].store(count, Ordering::Relaxed);
            assert_eq!(EndpointDescription::read(&words), Err(Foreign::NoEndpoint));
        }
        words[AT_LINK_COUNT].store(1, Ordering::Relaxed);
        words[AT_NAMES_LEN].store(u64::MAX, Ordering::Relaxed);
        assert!(EndpointDescription::read(&words).is_ok(), "no more is read than there is");
        words[AT_LINKS].store(u64::from_ne_bytes(*b"eth\x1b[2Jx"), Ordering::Relaxed);
        assert_eq!(
            EndpointDescription::read(&words),
            Err(Foreign::NoEndpoint),
            "a name that clears the screen"
        );
    }
}
