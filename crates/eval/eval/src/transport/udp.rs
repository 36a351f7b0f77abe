//! UDP: datagrams through the kernel, unreliable.

use super::{
    Arrival, Calls, Channel, Opening, SOCKET_BUFFER, Side, Task, Transport, TransportError,
    WITH_MANY, message, read, set_waiting, try_again,
};
use crate::plan::Experiment;
use crate::probe::Probe;
use crate::site::{Address, Site};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::SocketAddr;

/// IPv4 and UDP headers.
const HEADERS: usize = 20 + 8;

/// Largest datagram over IPv4 (RFC 768, RFC 791); beyond one frame it travels in fragments.
const LARGEST: usize = 65_535 - HEADERS;

pub(super) struct Udp;

impl Transport for Udp {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn about(&self) -> &'static str {
        "UDP sockets"
    }

    fn reliable(&self) -> bool {
        false
    }

    fn experiments(&self) -> &'static [Experiment] {
        WITH_MANY
    }

    fn frame_payload(&self, mtu: usize) -> usize {
        mtu.saturating_sub(HEADERS)
    }

    fn largest(&self, _mtu: usize) -> usize {
        LARGEST
    }

    fn open(
        &self,
        site: &Site,
        task: &Task,
        _side: Side,
    ) -> Result<Box<dyn Opening>, TransportError> {
        let failed = TransportError::io;
        let domain = Domain::for_address(SocketAddr::new(site.ip, 0));
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
            .map_err(failed("opening a UDP socket"))?;
        socket.set_send_buffer_size(SOCKET_BUFFER).map_err(failed("setting UDP options"))?;
        socket.set_recv_buffer_size(SOCKET_BUFFER).map_err(failed("setting UDP options"))?;
        let port = site.door.as_ref().map_or(0, |door| door.port());
        socket
            .bind(&SocketAddr::new(site.ip, port).into())
            .map_err(failed("binding a UDP socket"))?;
        let port = socket
            .local_addr()
            .ok()
            .and_then(|local| local.as_socket())
            .map_or(0, |local| local.port());
        Ok(Box::new(UdpOpening { socket, address: site.address(port), task: task.clone() }))
    }
}

struct UdpOpening {
    socket: Socket,
    address: Address,
    task: Task,
}

impl Opening for UdpOpening {
    fn address(&self) -> Address {
        self.address.clone()
    }

    fn join(self: Box<Self>, peer: &Address) -> Result<Box<dyn Probe>, TransportError> {
        let to = SocketAddr::new(peer.ip, peer.port);
        self.socket.connect(&to.into()).map_err(TransportError::io("connecting a UDP socket"))?;
        set_waiting(&self.socket, &self.task).map_err(TransportError::io("setting UDP options"))?;
        Ok(Box::new(UdpChannel {
            socket: self.socket,
            outgoing: message(self.task.size),
            incoming: vec![0; self.task.size.max(4)],
            calls: Calls::default(),
        }))
    }
}

struct UdpChannel {
    socket: Socket,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    calls: Calls,
}

impl Channel for UdpChannel {
    fn send(&mut self, number: u32, size: usize) -> Result<bool, TransportError> {
        self.outgoing[..4].copy_from_slice(&number.to_le_bytes());
        self.calls.all += 1;
        self.calls.send += 1;
        match self.socket.write(&self.outgoing[..size]) {
            Ok(_) => Ok(true),
            // ENOBUFS: the device's queue is full (udp(7), packet(7)); as good as no room.
            Err(error) if try_again(&error) || error.raw_os_error() == Some(libc::ENOBUFS) => {
                Ok(false)
            }
            Err(error) => Err(TransportError::io("sending by UDP")(error)),
        }
    }

    fn receive(&mut self) -> Result<Option<Arrival>, TransportError> {
        self.calls.all += 1;
        match self.socket.read(&mut self.incoming) {
            Ok(bytes) => {
                let number = read(&self.incoming[..bytes]).unwrap_or(0);
                Ok(Some(Arrival { number, bytes }))
            }
            Err(error) if try_again(&error) => Ok(None),
            Err(error) => Err(TransportError::io("receiving by UDP")(error)),
        }
    }

    fn calls(&self) -> Calls {
        self.calls
    }

    fn note(&self) -> Option<String> {
        let send = self.socket.send_buffer_size().unwrap_or(0);
        let receive = self.socket.recv_buffer_size().unwrap_or(0);
        Some(format!("SO_SNDBUF {send}, SO_RCVBUF {receive}"))
    }
}
