//! Discovery: the payload of the answer, and how links recognize the question (`PROTOCOL.md` §10).

use crate::{Discard, Envelope, Kind, MacAddr, VERSION};
use core::net::{IpAddr, Ipv6Addr};
use core::str;

/// Longest name of a node in bytes: a label of RFC 1035.
pub const LONGEST_NAME: usize = 63;

/// Whether a node may have this name: 1 to 63 of the letters a to z and A to Z, digits, `-`, `_`
/// and `.`. So a name from the wire does no harm on a terminal or in a file.
pub fn is_node_name(name: &str) -> bool {
    let may = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(may)
}

/// Whether an Ethernet frame is a broadcast question. Links accept it on every channel (rule 10.2).
/// Looks at the addresses, the envelope and the kind; the receiver checks the rest.
pub fn is_who(envelope: Envelope, frame: &[u8]) -> bool {
    let kind = envelope.open(frame).ok().and_then(|(_, inner)| inner.get(4).copied());
    frame.starts_with(&MacAddr::BROADCAST.0) && kind == Some(VERSION << 4 | Kind::Who as u8)
}

/// Payload of [`Kind::Here`]: an endpoint's description of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here<'a> {
    /// Longest message payload in bytes that it can receive in one frame.
    pub max_payload: u16,
    /// MTU of its interface in bytes.
    pub mtu: u16,
    /// An IP address of its interface.
    pub ip: Option<IpAddr>,
    /// The channels it has open: bit `i` (least significant first) of byte `n` is channel 8n + i.
    pub channels: [u8; 32],
    /// Its node's name, see [`is_node_name`].
    pub name: &'a str,
}

/// Bytes of a Here before the name.
const FIXED: usize = 2 + 2 + 16 + 32 + 1;
const LONGEST: usize = FIXED + LONGEST_NAME;

impl<'a> Here<'a> {
    /// Longest payload in bytes.
    pub const LONGEST: usize = LONGEST;

    /// Writes the payload to the front of `to`; returns its length.
    ///
    /// # Panics
    /// If the name is longer than [`LONGEST_NAME`].
    pub fn write(&self, to: &mut [u8; LONGEST]) -> usize {
        let end = FIXED + self.name.len();
        let ip = match self.ip {
            None => Ipv6Addr::UNSPECIFIED,
            Some(IpAddr::V4(v4)) => v4.to_ipv6_mapped(),
            Some(IpAddr::V6(v6)) => v6,
        };
        to[0..2].copy_from_slice(&self.max_payload.to_be_bytes());
        to[2..4].copy_from_slice(&self.mtu.to_be_bytes());
        to[4..20].copy_from_slice(&ip.octets());
        to[20..52].copy_from_slice(&self.channels);
        to[52] = u8::try_from(self.name.len()).expect("at most 63");
        to[FIXED..end].copy_from_slice(self.name.as_bytes());
        end
    }

    /// Reads the payload. Ignores further bytes.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Discard> {
        let (fixed, rest) = payload.split_first_chunk::<FIXED>().ok_or(Discard::Malformed)?;
        let name = rest.get(..usize::from(fixed[52])).ok_or(Discard::Malformed)?;
        let name = str::from_utf8(name).ok().filter(|name| is_node_name(name));
        let mut ip = [0; 16];
        ip.copy_from_slice(&fixed[4..20]);
        let mut channels = [0; 32];
        channels.copy_from_slice(&fixed[20..52]);
        let ip = Some(Ipv6Addr::from(ip)).filter(|ip| !ip.is_unspecified());
        Ok(Self {
            max_payload: u16::from_be_bytes([fixed[0], fixed[1]]),
            mtu: u16::from_be_bytes([fixed[2], fixed[3]]),
            ip: ip.map(|ip| ip.to_canonical()),
            channels,
            name: name.ok_or(Discard::Malformed)?,
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::string::String;
    use std::vec;
    use std::vec::Vec;

    fn sample(name: &str) -> Here<'_> {
        let mut channels = [0; 32];
        channels[0] = 0b11;
        channels[31] = 0x80;
        let ip = Some("198.18.0.2".parse().unwrap());
        Here { max_payload: 1468, mtu: 1500, ip, channels, name }
    }

    fn written(here: &Here<'_>) -> Vec<u8> {
        let mut bytes = [0; Here::LONGEST];
        let len = here.write(&mut bytes);
        bytes[..len].to_vec()
    }

    /// The layout in `PROTOCOL.md` §10, byte for byte.
    #[test]
    fn the_layout_is_the_documented_one() {
        let mut expected = vec![0x05, 0xbc, 0x05, 0xdc];
        expected.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 2]);
        expected.push(0b11);
        expected.extend([0; 30]);
        expected.extend([0x80, 2, b'n', b'2']);
        assert_eq!(written(&sample("n2")), expected);
    }

    #[test]
    fn what_is_written_is_read_back_and_more_behind_it_is_ignored() {
        for ip in [None, Some("198.18.0.2"), Some("fd00::2")] {
            let ip = ip.map(|ip| ip.parse().unwrap());
            let here = Here { ip, ..sample("rack-7.node_12") };
            let mut bytes = written(&here);
            assert_eq!(Here::parse(&bytes), Ok(here));
            bytes.push(9);
            assert_eq!(Here::parse(&bytes), Ok(here));
        }
    }

    #[test]
    fn a_name_that_could_do_harm_is_malformed() {
        let long = "a".repeat(LONGEST_NAME);
        assert!(is_node_name(&long) && Here::parse(&written(&sample(&long))).is_ok());
        assert!(!is_node_name(&(long + "a")));
        for name in ["", "two words", "\u{1b}[31m", "quote\"", "caf\u{e9}", "new\nline"] {
            assert!(!is_node_name(name));
            assert_eq!(Here::parse(&written(&sample(name))), Err(Discard::Malformed), "{name}");
        }
        let whole = written(&sample("n2"));
        for len in 0..whole.len() {
            assert_eq!(Here::parse(&whole[..len]), Err(Discard::Malformed), "{len} bytes");
        }
    }

    #[test]
    fn only_a_question_to_all_is_one() {
        let mut frame = [0xff; 60];
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        frame[18] = 0x38;
        assert!(is_who(Envelope::DEFAULT, &frame));
        assert!(!is_who(Envelope::Udp { port: 9 }, &frame));
        for (at, value) in [(0, 0xfe), (5, 0xfe), (6, 3), (13, 0xb6), (18, 0x33), (18, 0x28)] {
            let mut other = frame;
            other[at] = value;
            assert!(!is_who(Envelope::DEFAULT, &other), "byte {at}");
        }
        assert!(!is_who(Envelope::DEFAULT, &frame[..18]));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..130)) {
            let _ = Here::parse(&bytes);
            let _ = is_who(Envelope::DEFAULT, &bytes);
        }

        #[test]
        fn a_name_of_allowed_letters_is_allowed(name in "[a-zA-Z0-9._-]{1,63}") {
            let name: String = name;
            prop_assert!(is_node_name(&name));
        }
    }
}
