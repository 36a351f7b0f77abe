//! A socket to the kernel: requests, acknowledgements and lists, whatever family they are of.

use crate::{Error, Result};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable,
};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt,
};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::time::Duration;

/// The kernel answers within the `send` of a request, so this only bounds the unforeseen.
const KERNEL_TIMEOUT: Duration = Duration::from_secs(1);

/// Lists, and answers about one interface, come in datagrams of up to 32 KiB (the kernel's
/// `netlink_dump`, `rtnl_getlink`).
const ANSWER_LEN: usize = 32 * 1024;

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    /// Distinguishes the answer to a request from a late answer to an earlier request.
    sequence: Cell<u32>,
}

impl Socket {
    /// A connected socket receives from the kernel only, from no other process. Four system calls.
    pub(crate) fn open(protocol: Option<Protocol>) -> Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let fd = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(KERNEL_TIMEOUT))?;
        ask_for_words(&fd);
        rustix::net::connect(&fd, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { fd, sequence: Cell::new(0) })
    }

    /// Asks for one object. Two system calls.
    pub(crate) fn ask<M>(&self, request: M) -> Result<M>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        let mut answer = None;
        self.exchange(request, 0, &mut |object| answer = Some(object))?;
        answer.ok_or_else(|| Error::malformed("an answer without an object"))
    }

    /// Changes something; `flags` say whether it may or must not exist (`NLM_F_CREATE`,
    /// `NLM_F_EXCL`). Two system calls.
    pub(crate) fn change<M>(&self, request: M, flags: u16) -> Result<()>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        self.exchange(request, NLM_F_ACK | flags, &mut |_| ())
    }

    /// Asks for all objects of a kind. Three system calls or more.
    pub(crate) fn list<M>(&self, request: M) -> Result<Vec<M>>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        let mut objects = Vec::new();
        self.exchange(request, NLM_F_DUMP, &mut |object| objects.push(object))?;
        Ok(objects)
    }

    fn exchange<M>(&self, request: M, flags: u16, found: &mut dyn FnMut(M)) -> Result<()>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        let bytes = written(request, sequence, NLM_F_REQUEST | flags);
        retry_on_intr(|| rustix::net::send(&self.fd, &bytes, SendFlags::empty()))?;
        let mut buffer = [const { MaybeUninit::uninit() }; ANSWER_LEN];
        let several = flags == NLM_F_DUMP;
        loop {
            let received = rustix::net::recv(&self.fd, &mut buffer[..], RecvFlags::empty());
            let ((bytes, _), _) = match received {
                Err(Errno::INTR) => continue,
                received => received?,
            };
            if read(bytes, sequence, several, found)? {
                return Ok(());
            }
        }
    }
}

/// Asks the kernel to give its reasons in words too, which it does since Linux 4.12.
fn ask_for_words(fd: &OwnedFd) {
    let (on, length) = (1_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the option's value is an integer that lives until the call returns. Errors only mean
    // that there will be no words.
    unsafe {
        let (level, option) = (libc::SOL_NETLINK, libc::NETLINK_EXT_ACK);
        libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const on).cast(), length);
    }
}

pub(crate) fn written<M: NetlinkSerializable>(request: M, sequence: u32, flags: u16) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    (header.flags, header.sequence_number) = (flags, sequence);
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Takes one datagram apart; whether it was the last of the answer. Messages that answer another
/// request are passed over.
pub(crate) fn read<M: NetlinkDeserializable>(
    mut bytes: &[u8],
    sequence: u32,
    several: bool,
    found: &mut dyn FnMut(M),
) -> Result<bool> {
    while !bytes.is_empty() {
        let message = NetlinkMessage::<M>::deserialize(bytes).map_err(Error::malformed)?;
        let header = message.header;
        if header.sequence_number == sequence {
            match message.payload {
                NetlinkPayload::InnerMessage(object) => {
                    found(object);
                    if !several {
                        return Ok(true);
                    }
                }
                NetlinkPayload::Error(error) => {
                    return Error::of(&header, &error).map_or(Ok(true), Err);
                }
                NetlinkPayload::Done(_) => return Ok(true),
                _ => {}
            }
        }
        // Messages begin at multiples of four (netlink(7), NLMSG_ALIGN).
        let length = (header.length as usize).next_multiple_of(4).max(4);
        bytes = bytes.get(length..).unwrap_or_default();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_route::RouteNetlinkMessage;
    use netlink_packet_route::link::{LinkAttribute, LinkMessage};

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

    fn answers(bytes: &[u8], sequence: u32) -> Result<(bool, Vec<RouteNetlinkMessage>)> {
        let mut found = Vec::new();
        let last = read(bytes, sequence, false, &mut |object| found.push(object))?;
        Ok((last, found))
    }

    #[test]
    fn an_answer_to_an_earlier_request_is_passed_over() {
        let bytes = written(link(), 4, NLM_F_REQUEST);
        assert_eq!(answers(&bytes, 5).unwrap(), (false, vec![]));
        assert_eq!(answers(&bytes, 4).unwrap(), (true, vec![link()]));
    }

    #[test]
    fn a_kernel_error_keeps_its_number_and_none_is_success() {
        let number = Errno::NETUNREACH.raw_os_error();
        let error = answers(&verdict(number), 4).unwrap_err();
        assert_eq!(std::io::Error::from(error).raw_os_error(), Some(number));
        assert_eq!(answers(&verdict(0), 4).unwrap(), (true, vec![]));
        assert!(answers(&verdict(i32::MIN + 1), 4).is_err());
    }

    #[test]
    fn a_cut_answer_is_an_error_and_no_panic() {
        let bytes = written(link(), 4, NLM_F_REQUEST);
        for len in 1..bytes.len() {
            assert!(answers(&bytes[..len], 4).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn what_is_not_permitted_or_not_there_is_refused_with_its_number() {
        let kernel = Socket::open(None).unwrap();
        let mut absent = LinkMessage::default();
        absent.attributes.push(LinkAttribute::IfName("no-such-nic".into()));
        let error = kernel.ask(RouteNetlinkMessage::GetLink(absent)).unwrap_err();
        assert_eq!(error.errno(), Errno::NODEV);
    }
}
