//! UDP: datagrams through the kernel, unreliable.

use super::common::{message, read, set_waiting, try_again};
use crate::channel::{Calls, Channel, ReceivedMessage, Side, Task, TransportError};
use crate::end::Opening;
use crate::end::Probe;
use crate::site::{ChannelAddress, Site};
use gigae_eval_model::note::Note;
use gigae_eval_model::transport::SOCKET_BUFFER;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::SocketAddr;

/// Opens one end.
pub(super) fn open(
    site: &Site,
    task: &Task,
    _side: Side,
) -> Result<Box<dyn Opening>, TransportError> {
    let (socket, address) = socket(site)?;
    Ok(Box::new(UdpOpening { socket, address, task: task.clone() }))
}

/// A UDP socket and where the peer reaches it.
pub(super) fn socket(site: &Site) -> Result<(Socket, ChannelAddress), TransportError> {
    let failed = TransportError::io;
    let domain = Domain::for_address(SocketAddr::new(site.ip, 0));
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
        .map_err(failed("opening a UDP socket"))?;
    socket.set_send_buffer_size(SOCKET_BUFFER).map_err(failed("setting UDP options"))?;
    socket.set_recv_buffer_size(SOCKET_BUFFER).map_err(failed("setting UDP options"))?;
    let port = site.shared_port.as_ref().map_or(0, |shared_port| shared_port.port());
    socket.bind(&SocketAddr::new(site.ip, port).into()).map_err(failed("binding a UDP socket"))?;
    let port = socket
        .local_addr()
        .ok()
        .and_then(|local| local.as_socket())
        .map_or(0, |local| local.port());
    Ok((socket, site.address(port)))
}

/// Connects a socket to the peer's.
pub(super) fn connect(
    socket: &Socket,
    peer: &ChannelAddress,
    task: &Task,
) -> Result<(), TransportError> {
    let to = SocketAddr::new(peer.ip, peer.port);
    socket.connect(&to.into()).map_err(TransportError::io("connecting a UDP socket"))?;
    set_waiting(socket, task).map_err(TransportError::io("setting UDP options"))
}

/// No room now. ENOBUFS: the device's queue is full (udp(7), packet(7)).
pub(super) fn full(error: &io::Error) -> bool {
    try_again(error) || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// The buffers of a socket.
pub(super) fn note(socket: &Socket) -> Note {
    let send = socket.send_buffer_size().unwrap_or(0);
    let receive = socket.recv_buffer_size().unwrap_or(0);
    Note::Udp([send, receive])
}

struct UdpOpening {
    socket: Socket,
    address: ChannelAddress,
    task: Task,
}

impl Opening for UdpOpening {
    fn address(&self) -> ChannelAddress {
        self.address.clone()
    }

    fn join(self: Box<Self>, peer: &ChannelAddress) -> Result<Box<dyn Probe>, TransportError> {
        connect(&self.socket, peer, &self.task)?;
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
        match self.socket.write(&self.outgoing[..size]) {
            Ok(_) => {
                self.calls.send += 1;
                self.calls.sent += 1;
                Ok(true)
            }
            Err(error) if full(&error) => Ok(false),
            Err(error) => Err(TransportError::io("sending by UDP")(error)),
        }
    }

    fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
        self.calls.all += 1;
        match self.socket.read(&mut self.incoming) {
            Ok(bytes) => {
                self.calls.receive += 1;
                self.calls.received += 1;
                let number = read(&self.incoming[..bytes]).unwrap_or(0);
                Ok(Some(ReceivedMessage { number, bytes }))
            }
            Err(error) if try_again(&error) => Ok(None),
            Err(error) => Err(TransportError::io("receiving by UDP")(error)),
        }
    }

    fn calls(&self) -> Calls {
        self.calls
    }

    fn note(&mut self) -> Option<Note> {
        Some(note(&self.socket))
    }
}
