//! A socket to the kernel's routing (rtnetlink(7)): asking for routes, neighbours, interfaces and
//! addresses, and changing interfaces. It neither keeps a table nor follows changes.

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use rustix::fd::OwnedFd;
use rustix::io::retry_on_intr;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::cell::Cell;
use std::io;
use std::time::Duration;

/// The kernel answers within the `send` of a request, so this only bounds the unforeseen.
const KERNEL_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers to requests for one object are a few hundred bytes. 8 KiB is what netlink(7) advises.
const ANSWER_LEN: usize = 8192;

/// Lists come in datagrams of up to 32 KiB (the kernel's `netlink_dump`).
const LIST_LEN: usize = 32 * 1024;

/// See the module's description. It belongs to the network namespace in which it was made, whichever
/// thread uses it.
#[derive(Debug)]
pub struct Rtnetlink {
    socket: OwnedFd,
    /// Tells the answer to a request from a late one to an earlier.
    sequence: Cell<u32>,
}

impl Rtnetlink {
    /// A connected socket hears the kernel only, no other process. Three system calls.
    pub fn open() -> rustix::io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None, // NETLINK_ROUTE is protocol 0.
        )?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(KERNEL_TIMEOUT))?;
        rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { socket, sequence: Cell::new(0) })
    }

    /// Asks for one object. Two system calls; no privileges.
    pub fn ask(&self, request: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
        let sequence = self.send(request, NLM_F_REQUEST)?;
        self.answer(sequence)?.ok_or_else(|| invalid("an answer without an object".into()))
    }

    /// Changes something; `flags` say whether it may or must not exist (`NLM_F_CREATE`,
    /// `NLM_F_EXCL`). Two system calls. Needs `CAP_NET_ADMIN`.
    pub fn change(&self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let sequence = self.send(request, NLM_F_REQUEST | NLM_F_ACK | flags)?;
        self.answer(sequence).map(drop)
    }

    fn answer(&self, sequence: u32) -> io::Result<Option<RouteNetlinkMessage>> {
        let mut buffer = [0; ANSWER_LEN];
        loop {
            let (len, _) =
                retry_on_intr(|| rustix::net::recv(&self.socket, &mut buffer, RecvFlags::empty()))?;
            if let Some(answer) = read_answer(&buffer[..len], sequence) {
                return answer;
            }
        }
    }

    /// Asks for all objects of a kind. Three system calls or more; no privileges.
    pub fn list(&self, request: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        let sequence = self.send(request, NLM_F_REQUEST | NLM_F_DUMP)?;
        let mut buffer = vec![0; LIST_LEN];
        let mut objects = Vec::new();
        loop {
            let (len, _) =
                retry_on_intr(|| rustix::net::recv(&self.socket, &mut buffer, RecvFlags::empty()))?;
            if read_list(&buffer[..len], sequence, &mut objects)? {
                return Ok(objects);
            }
        }
    }

    /// Returns the number that answers will have.
    fn send(&self, request: RouteNetlinkMessage, flags: u16) -> io::Result<u32> {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        let bytes = written(request, sequence, flags);
        retry_on_intr(|| rustix::net::send(&self.socket, &bytes, SendFlags::empty()))?;
        Ok(sequence)
    }
}

/// Takes one datagram of a list apart; whether it was the last.
fn read_list(
    mut bytes: &[u8],
    sequence: u32,
    objects: &mut Vec<RouteNetlinkMessage>,
) -> io::Result<bool> {
    while !bytes.is_empty() {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
        if message.header.sequence_number == sequence {
            match message.payload {
                NetlinkPayload::InnerMessage(object) => objects.push(object),
                NetlinkPayload::Error(e) => return Err(e.to_io()),
                NetlinkPayload::Done(_) => return Ok(true),
                _ => {}
            }
        }
        // Messages begin at multiples of four (netlink(7), NLMSG_ALIGN).
        let len = (message.header.length as usize).next_multiple_of(4).max(4);
        bytes = bytes.get(len..).unwrap_or_default();
    }
    Ok(false)
}

fn written(request: RouteNetlinkMessage, sequence: u32, flags: u16) -> Vec<u8> {
    let mut message = NetlinkMessage::from(request);
    message.header.flags = flags;
    message.header.sequence_number = sequence;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// `None` if it answers another request; without an object if it says that a change was made.
fn read_answer(bytes: &[u8], sequence: u32) -> Option<io::Result<Option<RouteNetlinkMessage>>> {
    let message = match NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes) {
        Ok(message) => message,
        Err(e) => return Some(Err(invalid(format!("an unknown form of answer ({e})")))),
    };
    if message.header.sequence_number != sequence {
        return None;
    }
    Some(match message.payload {
        NetlinkPayload::InnerMessage(answer) => Ok(Some(answer)),
        NetlinkPayload::Error(e) if e.code.is_none() => Ok(None),
        NetlinkPayload::Error(e) => Err(e.to_io()),
        other => Err(invalid(format!("an answer of type {}", other.message_type()))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_route::link::{LinkAttribute, LinkMessage};
    use rustix::io::Errno;

    fn link() -> RouteNetlinkMessage {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName("eth1".into()));
        RouteNetlinkMessage::NewLink(link)
    }

    /// What the kernel says of a request: a number of errno(3), or zero.
    fn verdict(errno: i32) -> Vec<u8> {
        let mut bytes = written(link(), 4, NLM_F_REQUEST);
        bytes[4..6].copy_from_slice(&2u16.to_ne_bytes()); // NLMSG_ERROR
        bytes[16..20].copy_from_slice(&(-errno).to_ne_bytes());
        bytes
    }

    #[test]
    fn an_answer_to_an_earlier_request_is_passed_over() {
        let bytes = written(link(), 4, NLM_F_REQUEST);
        assert!(read_answer(&bytes, 5).is_none());
        assert_eq!(read_answer(&bytes, 4).unwrap().unwrap(), Some(link()));
    }

    #[test]
    fn a_kernel_error_keeps_its_number_and_none_is_success() {
        let number = Errno::NETUNREACH.raw_os_error();
        let error = read_answer(&verdict(number), 4).unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(number));
        assert_eq!(read_answer(&verdict(0), 4).unwrap().unwrap(), None);
    }

    #[test]
    fn a_cut_answer_is_an_error_and_no_panic() {
        let bytes = written(link(), 4, NLM_F_REQUEST);
        for len in 0..bytes.len() {
            assert!(read_answer(&bytes[..len], 4).unwrap().is_err(), "{len} bytes");
        }
    }

    #[test]
    fn what_is_not_permitted_or_not_there_is_refused_with_its_number() {
        let kernel = Rtnetlink::open().unwrap();
        let mut absent = LinkMessage::default();
        absent.attributes.push(LinkAttribute::IfName("no-such-nic".into()));
        let error = kernel.ask(RouteNetlinkMessage::GetLink(absent)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::NODEV.raw_os_error()));
    }
}
