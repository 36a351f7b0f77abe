//! The payload of the three frames that bring a session up (`PROTOCOL.md` §2 and §4).

use crate::{Discard, Paths};

/// What an endpoint can receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hello {
    /// Longest message payload in bytes that the sender can receive in one frame.
    pub max_payload: u16,
    /// Frames past a missing one that the sender keeps. Zero: it drops them (go-back-N).
    pub reorder_window: u16,
    /// Longest payload in bytes of a frame with operations that the sender can receive, in several
    /// buffers if it has them.
    pub max_operations: u16,
}

/// Payload of [`Kind::Hello`](crate::Kind::Hello), [`Kind::HelloAck`](crate::Kind::HelloAck) and
/// [`Kind::Confirm`](crate::Kind::Confirm).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handshake {
    /// What the sender can receive.
    pub hello: Hello,
    /// The sender's own token: only a node that received it can repeat it.
    pub token: u64,
    /// The other end's token; zero in a Hello.
    pub echo: u64,
    /// What the sender has beside its first link.
    pub links: Paths,
}

impl Handshake {
    /// Bytes without further addresses.
    const LEAST: usize = 22;

    /// Longest form in bytes. A Hello is padded to this length, so no answer is longer.
    pub const LONGEST: usize = Self::LEAST + Paths::LONGEST;

    /// Writes the payload; returns its length.
    pub fn write(&self, to: &mut [u8; Self::LONGEST]) -> usize {
        let Self { hello, token, echo, links } = self;
        to[0..2].copy_from_slice(&hello.max_payload.to_be_bytes());
        to[2..4].copy_from_slice(&hello.reorder_window.to_be_bytes());
        to[4..6].copy_from_slice(&hello.max_operations.to_be_bytes());
        to[6..14].copy_from_slice(&token.to_be_bytes());
        to[14..22].copy_from_slice(&echo.to_be_bytes());
        Self::LEAST + links.write(&mut to[Self::LEAST..])
    }

    /// Reads a payload. A later version may append bytes, which are ignored.
    pub fn parse(payload: &[u8]) -> Result<Self, Discard> {
        let (head, links) =
            payload.split_first_chunk::<{ Self::LEAST }>().ok_or(Discard::Malformed)?;
        let &[a, b, c, d, e, f, ref tokens @ ..] = head;
        let ([token, echo], []) = tokens.as_chunks() else { unreachable!("16 bytes are left") };
        Ok(Self {
            hello: Hello {
                max_payload: u16::from_be_bytes([a, b]),
                reorder_window: u16::from_be_bytes([c, d]),
                max_operations: u16::from_be_bytes([e, f]),
            },
            token: u64::from_be_bytes(*token),
            echo: u64::from_be_bytes(*echo),
            links: Paths::parse(links)?,
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::MacAddr;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn sample(links: &[MacAddr]) -> Handshake {
        Handshake {
            hello: Hello { max_payload: 0x05bc, reorder_window: 0x0100, max_operations: 0x2308 },
            token: 0x0102_0304_0506_0708,
            echo: 0x1112_1314_1516_1718,
            links: Paths::links(links),
        }
    }

    /// The layout in `PROTOCOL.md` §2, byte for byte.
    #[test]
    fn the_layout_is_the_documented_one() {
        let mut bytes = [0; Handshake::LONGEST];
        let len = sample(&[]).write(&mut bytes);
        assert_eq!(
            bytes[..len],
            [
                5, 0xbc, 1, 0, 0x23, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16,
                0x17, 0x18
            ]
        );
        assert_eq!(Handshake::parse(&bytes[..len - 1]), Err(Discard::Malformed));
    }

    #[test]
    fn what_is_written_is_read_back_also_with_padding_behind_it() {
        for count in [0, 2, 8] {
            let macs: Vec<_> = (1..=count).map(|n| MacAddr([2, 0, 0, 0, 1, n])).collect();
            let mut bytes = [0; Handshake::LONGEST];
            let len = sample(&macs).write(&mut bytes);
            assert_eq!(Handshake::parse(&bytes[..len]), Ok(sample(&macs)));
            assert_eq!(Handshake::parse(&bytes), Ok(sample(&macs)));
            assert_eq!(count == 8, len == Handshake::LONGEST);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Handshake::parse(&bytes);
        }
    }
}
