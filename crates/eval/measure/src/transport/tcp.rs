//! TCP: a byte stream through the kernel, cut into messages by their known length.

mod writer;
mod zerocopy;

use super::common::{ahead, read, set_waiting, try_again};
use crate::channel::{Calls, Channel, JOIN_TIMEOUT, ReceivedMessage, Side, Task, TransportError};
use crate::end::Opening;
use crate::end::Probe;
use crate::shared_port::SharedPort;
use crate::site::{ChannelAddress, Site};
use ::gigae::Endpoint;
use gigae_eval_model::note::Note;
use gigae_eval_model::plan::{TcpOptions, Wait};
use gigae_eval_model::transport::CONGESTION_CONTROL;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use writer::Writer;

/// Bytes that the receiver of a stream takes at a time; as large as the socket buffer of the
/// papers.
const READ_SIZE: usize = 128 << 10;

/// Messages from this length on lie in memories that take turns, as those of the transports that
/// hand messages over do.
const TURNS_FROM: usize = 2048;

/// Opens one end.
pub(super) fn open(
    site: &Site,
    task: &Task,
    side: Side,
) -> Result<Box<dyn Opening>, TransportError> {
    let failed = TransportError::io;
    let domain = Domain::for_address(SocketAddr::new(site.ip, 0));
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))
        .map_err(failed("opening a TCP socket"))?;
    tune(&socket, task.setting.tcp(), site)?;
    let shared_port = site.shared_port.clone().filter(|_| side == Side::Server);
    let port = match &shared_port {
        Some(shared_port) => shared_port.port(),
        None => {
            let any = SocketAddr::new(site.ip, 0);
            socket.bind(&any.into()).map_err(failed("binding a TCP socket"))?;
            if side == Side::Server {
                socket.listen(1).map_err(failed("listening for TCP"))?;
            }
            let local = socket.local_addr().ok().and_then(|local| local.as_socket());
            local.map_or(0, |local| local.port())
        }
    };
    let beside = task
        .setting
        .tcp()
        .beside
        .map(|mode| super::gigae::idle_endpoint(site, mode))
        .transpose()?;
    Ok(Box::new(TcpOpening {
        socket,
        address: site.address(port),
        task: task.clone(),
        side,
        shared_port,
        beside,
        site: site.clone(),
    }))
}

/// Buffers must be set before the connection is made, or they do not count for the window scale
/// (tcp(7)).
pub(crate) fn tune(
    socket: &Socket,
    options: TcpOptions,
    site: &Site,
) -> Result<(), TransportError> {
    let failed = TransportError::io("setting TCP options");
    if let Some(bytes) = options.buffer {
        socket.set_send_buffer_size(bytes as usize).map_err(&failed)?;
        socket.set_recv_buffer_size(bytes as usize).map_err(&failed)?;
    }
    socket.set_tcp_nodelay(options.nodelay).map_err(&failed)?;
    if options.zerocopy {
        zerocopy::allow(socket)?;
    }
    match (options.congestion_control, &site.congestion) {
        (Some(own), _) => choose(socket, own.name()),
        (None, Some(name)) => socket.set_tcp_congestion(name.as_bytes()).map_err(failed),
        (None, None) => {
            // Absent or forbidden: the default stays, and the results say which one that is.
            let _ = socket.set_tcp_congestion(CONGESTION_CONTROL.as_bytes());
            Ok(())
        }
    }
}

/// Sets the congestion control that a variant is about: without it there is nothing to measure.
fn choose(socket: &Socket, name: &str) -> Result<(), TransportError> {
    socket.set_tcp_congestion(name.as_bytes()).map_err(|error| {
        TransportError::Unavailable(match error.kind() {
            std::io::ErrorKind::PermissionDenied => format!(
                "this user may not choose TCP's congestion control '{name}'; add it to net.ipv4.tcp_allowed_congestion_control or run as root"
            ),
            _ => format!(
                "this kernel does not offer TCP's congestion control '{name}' ({error}); load its module ('modprobe tcp_{name}')"
            ),
        })
    })
}

struct TcpOpening {
    socket: Socket,
    address: ChannelAddress,
    task: Task,
    side: Side,
    /// By which the connection comes, if not by its own port.
    shared_port: Option<Arc<SharedPort>>,
    /// An idle endpoint on the same interface.
    beside: Option<Endpoint>,
    site: Site,
}

impl Opening for TcpOpening {
    fn address(&self) -> ChannelAddress {
        self.address.clone()
    }

    fn join(self: Box<Self>, peer: &ChannelAddress) -> Result<Box<dyn Probe>, TransportError> {
        let socket = match self.side {
            Side::Client => {
                let to = SocketAddr::new(peer.ip, peer.port);
                self.socket
                    .connect_timeout(&to.into(), JOIN_TIMEOUT)
                    .map_err(TransportError::io("connecting by TCP"))?;
                self.socket
            }
            Side::Server => match &self.shared_port {
                None => accept(&self.socket, peer)?,
                Some(shared_port) => {
                    let late = TransportError::PeerGone("did not connect by TCP in time");
                    let came = shared_port.wait(JOIN_TIMEOUT).and_then(|mut came| came.pop());
                    let socket: Socket = came.ok_or(late)?.into();
                    tune(&socket, self.task.setting.tcp(), &self.site)?;
                    socket
                }
            },
        };
        let failed = TransportError::io("setting TCP options");
        let options = self.task.setting.tcp();
        socket.set_tcp_nodelay(options.nodelay).map_err(&failed)?;
        if options.zerocopy {
            // An accepted socket does not have it from the one that listened.
            zerocopy::allow(&socket)?;
        }
        set_waiting(&socket, &self.task).map_err(&failed)?;
        let size = self.task.size;
        let in_turn = size >= TURNS_FROM && !options.one_buffer;
        let turns = if in_turn { ahead(size) } else { 1 };
        // An answering end must find the ends of messages; a sink takes what is there.
        let read_mode = match self.task.experiment.is_trip() {
            true => ReadMode::Whole,
            false if turns > 1 => ReadMode::Several,
            false => ReadMode::Any,
        };
        let room = if read_mode == ReadMode::Any { READ_SIZE.max(size) } else { turns * size };
        Ok(Box::new(TcpChannel {
            writer: Writer::new(size, options, in_turn),
            nap: (self.task.wait != Wait::Spin).then(|| self.task.nap()),
            socket,
            size,
            incoming: vec![0; room],
            received: 0,
            read_mode,
            reads: 0,
            _beside: self.beside,
        }))
    }
}

/// Accepts the announced peer only.
fn accept(listener: &Socket, peer: &ChannelAddress) -> Result<Socket, TransportError> {
    let failed = TransportError::io("accepting a TCP connection");
    listener.set_nonblocking(true).map_err(&failed)?;
    let deadline = Instant::now() + JOIN_TIMEOUT;
    while Instant::now() < deadline {
        match listener.accept() {
            Ok((socket, from)) if from.as_socket().is_some_and(|from| from.ip() == peer.ip) => {
                return Ok(socket);
            }
            Ok(_) => {}
            Err(error) if try_again(&error) => std::thread::sleep(Duration::from_micros(200)),
            Err(error) => return Err(failed(error)),
        }
    }
    Err(TransportError::PeerGone("did not connect by TCP in time"))
}

/// How a channel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadMode {
    /// Message by message.
    Whole,
    /// As much as there is, into the memories of the next messages, and looks at each message once
    /// it is complete.
    Several,
    /// As much as there is, whatever it is.
    Any,
}

struct TcpChannel {
    socket: Socket,
    writer: Writer,
    /// For how long to sleep for the kernel's completions; absent: not at all.
    nap: Option<Duration>,
    size: usize,
    /// The memories of the messages, one behind the other.
    incoming: Vec<u8>,
    /// Bytes of it that were read in this round.
    received: usize,
    read_mode: ReadMode,
    reads: u64,
    _beside: Option<Endpoint>,
}

impl Channel for TcpChannel {
    fn send(&mut self, number: u32, _size: usize) -> Result<bool, TransportError> {
        if !self.writer.write(&self.socket, number)? {
            self.writer.wait(&self.socket, self.nap)?;
            return Ok(false);
        }
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        self.writer.push(&self.socket).map(drop)
    }

    fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
        // What found no room when it was flushed.
        self.writer.push(&self.socket)?;
        self.reads += 1;
        let (from, size) = (self.received, self.size);
        let end = match self.read_mode {
            ReadMode::Whole => (from / size + 1) * size,
            ReadMode::Several => self.incoming.len().min(from + READ_SIZE.max(size)),
            ReadMode::Any => self.incoming.len(),
        };
        let bytes = match self.socket.read(&mut self.incoming[from..end]) {
            Ok(0) => return Err(TransportError::PeerGone("closed the TCP connection")),
            Ok(bytes) => bytes,
            Err(error) if try_again(&error) => return Ok(None),
            Err(error) => return Err(TransportError::io("receiving by TCP")(error)),
        };
        if self.read_mode == ReadMode::Any {
            read(&self.incoming[..bytes]);
            return Ok(Some(ReceivedMessage { number: 0, bytes }));
        }
        let complete = from / size * size..(from + bytes) / size * size;
        self.received = if from + bytes == self.incoming.len() { 0 } else { from + bytes };
        let messages = self.incoming[complete.clone()].chunks(size);
        let number = messages.fold(None, |_, message| read(message));
        match self.read_mode {
            ReadMode::Whole if complete.is_empty() => Ok(None),
            ReadMode::Whole => {
                Ok(Some(ReceivedMessage { number: number.unwrap_or(0), bytes: size }))
            }
            _ => Ok(Some(ReceivedMessage { number: 0, bytes })),
        }
    }

    fn settled(&mut self) -> Result<bool, TransportError> {
        if !self.writer.settled(&self.socket)? {
            self.writer.wait(&self.socket, self.nap)?;
            return Ok(false);
        }
        Ok(true)
    }

    fn calls(&self) -> Calls {
        let calls = self.writer.calls;
        Calls { all: calls.all + self.reads, ..calls }
    }

    fn note(&mut self) -> Option<Note> {
        let name = self.socket.tcp_congestion().ok()?;
        let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
        let send = self.socket.send_buffer_size().unwrap_or(0);
        let receive = self.socket.recv_buffer_size().unwrap_or(0);
        Some(Note::Tcp {
            congestion_control: name,
            buffers: [send, receive],
            zerocopy: self.writer.zerocopy(&self.socket),
        })
    }
}
