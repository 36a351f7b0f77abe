//! ICMP ECHO: the remote kernel answers by itself, so the remote end of this channel does nothing.
//!
//! Round trips only, IPv4 only (RFC 792). The size is that of the echo's data.

use super::common::{message, read, set_waiting, try_again};
use crate::channel::{Calls, Channel, NAP, ReceivedMessage, Side, Task, TransportError};
use crate::end::Opening;
use crate::end::Probe;
use crate::site::{ChannelAddress, Site};
use gigae_wire::{internet_checksum, internet_sum};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;

/// Level and name of the option that filters what a raw ICMP socket receives (raw(7)).
const SOL_RAW: libc::c_int = 255;
const ICMP_FILTER: libc::c_int = 1;

/// Opens one end.
pub(super) fn open(
    site: &Site,
    task: &Task,
    side: Side,
) -> Result<Box<dyn Opening>, TransportError> {
    if site.ip.is_ipv6() {
        return Err(TransportError::Unavailable(
            "icmp needs an IPv4 address on the interface".into(),
        ));
    }
    let failed = TransportError::io;
    let socket = match side {
        Side::Server => None,
        Side::Client => {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))
                .map_err(failed("opening a raw ICMP socket"))?;
            only_replies(&socket).map_err(failed("filtering ICMP"))?;
            socket
                .bind(&SocketAddr::new(site.ip, 0).into())
                .map_err(failed("binding a raw ICMP socket"))?;
            Some(socket)
        }
    };
    Ok(Box::new(IcmpOpening { socket, address: site.address(0), task: task.clone() }))
}

/// Everything but echo replies is filtered out by the kernel.
fn only_replies(socket: &Socket) -> std::io::Result<()> {
    let blocked: u32 = !(1 << ECHO_REPLY);
    // SAFETY: ICMP_FILTER reads a u32, whose address and size are given.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), SOL_RAW, ICMP_FILTER, (&raw const blocked).cast(), 4)
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

struct IcmpOpening {
    socket: Option<Socket>,
    address: ChannelAddress,
    task: Task,
}

impl Opening for IcmpOpening {
    fn address(&self) -> ChannelAddress {
        self.address.clone()
    }

    fn join(self: Box<Self>, peer: &ChannelAddress) -> Result<Box<dyn Probe>, TransportError> {
        let Some(socket) = self.socket else { return Ok(Box::new(KernelResponder)) };
        socket
            .connect(&SocketAddr::new(peer.ip, 0).into())
            .map_err(TransportError::io("connecting a raw ICMP socket"))?;
        set_waiting(&socket, &self.task).map_err(TransportError::io("setting ICMP options"))?;
        let mut random = [0; 2];
        getrandom::fill(&mut random).map_err(|_| {
            TransportError::Unavailable("the kernel gives no random numbers".into())
        })?;
        let mut outgoing = vec![ECHO_REQUEST, 0, 0, 0, random[0], random[1], 0, 0];
        outgoing.extend(message(self.task.size));
        let incoming = vec![0; outgoing.len() + 60];
        let unnumbered = internet_sum(&outgoing[12..]);
        Ok(Box::new(IcmpChannel {
            socket,
            outgoing,
            incoming,
            unnumbered,
            calls: Calls::default(),
        }))
    }
}

/// The remote end, where the kernel answers.
struct KernelResponder;

impl Channel for KernelResponder {
    fn send(&mut self, _number: u32, _size: usize) -> Result<bool, TransportError> {
        Ok(true)
    }

    fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
        std::thread::sleep(NAP);
        Ok(None)
    }

    fn calls(&self) -> Calls {
        Calls::default()
    }
}

struct IcmpChannel {
    socket: Socket,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// Sum over the data after the number, which never changes.
    unnumbered: u32,
    calls: Calls,
}

impl Channel for IcmpChannel {
    fn send(&mut self, number: u32, size: usize) -> Result<bool, TransportError> {
        self.outgoing[6..8].copy_from_slice(&(number as u16).to_be_bytes());
        self.outgoing[8..12].copy_from_slice(&number.to_le_bytes());
        self.outgoing[2..4].fill(0);
        let sum = internet_checksum(internet_sum(&self.outgoing[..12]) + self.unnumbered);
        self.outgoing[2..4].copy_from_slice(&sum.to_be_bytes());
        self.calls.all += 1;
        match self.socket.write(&self.outgoing[..8 + size]) {
            Ok(_) => {
                self.calls.send += 1;
                self.calls.sent += 1;
                Ok(true)
            }
            Err(error) if try_again(&error) || error.raw_os_error() == Some(libc::ENOBUFS) => {
                Ok(false)
            }
            Err(error) => Err(TransportError::io("sending an ICMP ECHO")(error)),
        }
    }

    fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
        self.calls.all += 1;
        match self.socket.read(&mut self.incoming) {
            Ok(bytes) => Ok(reply(&self.incoming[..bytes], &self.outgoing[4..6])),
            Err(error) if try_again(&error) => Ok(None),
            Err(error) => Err(TransportError::io("receiving an ICMP ECHO")(error)),
        }
    }

    fn calls(&self) -> Calls {
        self.calls
    }
}

/// Reads an IPv4 packet with an echo reply to the given identifier.
fn reply(packet: &[u8], identifier: &[u8]) -> Option<ReceivedMessage> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let icmp = packet.get(header..)?;
    let data = icmp.get(8..)?;
    if icmp[0] != ECHO_REPLY || &icmp[4..6] != identifier {
        return None;
    }
    Some(ReceivedMessage { number: read(data)?, bytes: data.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_distinguished_from_other_packets_and_a_short_one_is_none() {
        let mut packet = vec![0x45; 20];
        packet.extend([0, 0, 0, 0, 7, 7, 0, 1, 9, 0, 0, 0]);
        assert_eq!(reply(&packet, &[7, 7]), Some(ReceivedMessage { number: 9, bytes: 4 }));
        assert_eq!(reply(&packet, &[7, 8]), None);
        assert_eq!(reply(&packet[..26], &[7, 7]), None);
        assert_eq!(reply(&[], &[7, 7]), None);
    }
}
