//! Generic netlink (linux/genetlink.h): families that the kernel numbers when it starts.

use crate::socket::Socket;
use crate::{Error, Result};
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable,
    NlasIterator,
};
use rustix::net::netlink;

/// linux/genetlink.h: the family that knows the others, its request and its attributes.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// linux/genetlink.h, `struct genlmsghdr`: command, version, two reserved bytes.
const HEADER: usize = 4;

/// A family of generic netlink.
#[derive(Debug)]
pub struct Generic {
    socket: Socket,
    family: u16,
}

/// The attributes of an answer, in the kernel's order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Attributes(Vec<(u16, Vec<u8>)>);

#[derive(Debug)]
struct Message {
    family: u16,
    command: u8,
    attributes: Attributes,
}

impl Generic {
    /// Looks a family up by its name. Six system calls; no privileges.
    pub fn open(family: &str) -> Result<Self> {
        let socket = Socket::open(Some(netlink::GENERIC))?;
        let name = Attributes(vec![(CTRL_ATTR_FAMILY_NAME, [family.as_bytes(), b"\0"].concat())]);
        let request =
            Message { family: GENL_ID_CTRL, command: CTRL_CMD_GETFAMILY, attributes: name };
        let number = socket.ask(request)?.attributes.number::<2>(CTRL_ATTR_FAMILY_ID);
        let number = number.ok_or_else(|| Error::malformed("a family without a number"))?;
        Ok(Self { socket, family: u16::from_ne_bytes(number) })
    }

    /// Asks for one object. Two system calls.
    pub fn ask(&self, command: u8, attributes: Attributes) -> Result<Attributes> {
        let request = Message { family: self.family, command, attributes };
        Ok(self.socket.ask(request)?.attributes)
    }
}

impl Attributes {
    /// With one more attribute of this kind.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.push((kind, value.to_vec()));
        self
    }

    /// The bytes of the first attribute of this kind, if it has `N` bytes.
    pub fn number<const N: usize>(&self, kind: u16) -> Option<[u8; N]> {
        let (_, value) = self.0.iter().find(|(other, _)| *other == kind)?;
        value.as_slice().try_into().ok()
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Self, DecodeError> {
        let attribute = |nla: std::result::Result<_, _>| {
            nla.map(|nla: netlink_packet_core::NlaBuffer<&[u8]>| (nla.kind(), nla.value().to_vec()))
        };
        NlasIterator::new(bytes).map(attribute).collect::<std::result::Result<_, _>>().map(Self)
    }

    fn list(&self) -> Vec<DefaultNla> {
        self.0.iter().map(|(kind, value)| DefaultNla::new(*kind, value.clone())).collect()
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        HEADER + self.attributes.list().as_slice().buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer[..HEADER].copy_from_slice(&[self.command, 1, 0, 0]);
        self.attributes.list().as_slice().emit(&mut buffer[HEADER..]);
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(
        header: &NetlinkHeader,
        payload: &[u8],
    ) -> std::result::Result<Self, DecodeError> {
        let (&[command, ..], rest) =
            payload.split_first_chunk::<HEADER>().ok_or("a generic message without a header")?;
        let attributes = Attributes::parse(rest)?;
        Ok(Self { family: header.message_type, command, attributes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{read, written};

    fn bytes() -> Vec<u8> {
        let attributes = Attributes::default().with(1, &7_u32.to_ne_bytes()).with(3, b"abc");
        written(Message { family: 20, command: 1, attributes }, 1, 0)
    }

    fn answer(bytes: &[u8]) -> Result<Attributes> {
        let mut found = None;
        read(bytes, 1, false, &mut |message: Message| found = Some(message.attributes))?;
        found.ok_or_else(|| Error::malformed("nothing"))
    }

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let found = answer(&bytes()).unwrap();
        assert_eq!(found.number(1), Some(7_u32.to_ne_bytes()));
        assert_eq!((found.number(3), found.number::<4>(3)), (Some(*b"abc"), None));
    }

    #[test]
    fn a_cut_or_lying_answer_is_no_answer() {
        let whole = bytes();
        for length in 0..whole.len() - 1 {
            assert!(answer(&whole[..length]).is_err(), "{length} bytes");
        }
        for lie in [0_u16, 3, 200] {
            let mut bytes = whole.clone();
            bytes[20..22].copy_from_slice(&lie.to_ne_bytes());
            assert!(answer(&bytes).is_err(), "length {lie}");
        }
    }

    #[test]
    fn a_family_that_the_kernel_does_not_have_is_an_error() {
        assert!(Generic::open("no-such-family").is_err());
        Generic::open("nlctrl").unwrap();
    }
}
