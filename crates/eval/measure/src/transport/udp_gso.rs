//! UDP with segmentation offload: one system call sends and receives a train of datagrams
//! (`UDP_SEGMENT`, `UDP_GRO`, udp(7)).
//!
//! All datagrams of a measurement have one length. A message that fits into a datagram is one. A
//! longer one goes in parts of equal length, each in a datagram behind the numbers of the message
//! and of the part. A message is lost if one of its datagrams is lost or comes out of order;
//! nothing is sent again.

mod datagrams;
mod parts;

use super::udp::{connect, full, note, socket};
use crate::channel::{Calls, Side, Slept, Task, TransportError};
use crate::end::{Opening, Probe};
use crate::site::{ChannelAddress, Site};
use datagrams::Datagrams;
use gigae_eval_model::note::Note;
use gigae_eval_model::transport::{LARGEST_DATAGRAM, PART_HEADER};
use parts::Parts;
use rustix::net::sockopt;
use socket2::Socket;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::time::Instant;

/// Most datagrams of a train. The kernel's limit was 64 until Linux 6.9, and is 128 since.
const TRAIN: usize = 64;

/// Most bytes of a train: an IP packet's 65,535 less its headers, rounded down.
const TRAIN_BYTES: usize = 65_000;

/// Receive buffer in bytes, as far as the process may: a long message comes as fast as the sender
/// can send, and the receiver may be interrupted in the meantime.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Opens one end.
pub(super) fn open(
    site: &Site,
    task: &Task,
    _side: Side,
) -> Result<Box<dyn Opening>, TransportError> {
    let (socket, address) = socket(site)?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
        // The note of the results has what it is.
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    }
    let headers = if site.ip.is_ipv6() { 40 + 8 } else { 20 + 8 };
    let longest = site.mtu.saturating_sub(headers).min(LARGEST_DATAGRAM);
    if longest <= PART_HEADER {
        let reason = format!("an MTU of {} has no room for a datagram; raise it", site.mtu);
        return Err(TransportError::Unavailable(reason));
    }
    Ok(Box::new(GsoOpening { socket, address, task: task.clone(), longest }))
}

struct GsoOpening {
    socket: Socket,
    address: ChannelAddress,
    task: Task,
    /// Longest datagram that goes in one frame.
    longest: usize,
}

impl Opening for GsoOpening {
    fn address(&self) -> ChannelAddress {
        self.address.clone()
    }

    fn join(self: Box<Self>, peer: &ChannelAddress) -> Result<Box<dyn Probe>, TransportError> {
        connect(&self.socket, peer, &self.task)?;
        let size = self.task.size;
        if size <= self.longest {
            return Ok(Box::new(Datagrams::new(Trains::new(self.socket, size)?, size)));
        }
        let parts = size.div_ceil(self.longest - PART_HEADER);
        let part = size.div_ceil(parts);
        let trains = Trains::new(self.socket, PART_HEADER + part)?;
        Ok(Box::new(Parts::new(trains, size, part)))
    }
}

/// A connected socket for datagrams of one length.
struct Trains {
    socket: Socket,
    /// Bytes of a datagram.
    datagram: usize,
    calls: Calls,
    /// Whether the socket sleeps, and whether it did in the last receive.
    sleeps: bool,
    slept: Slept,
}

impl Trains {
    fn new(socket: Socket, datagram: usize) -> Result<Self, TransportError> {
        let sleeps = !socket.nonblocking().map_err(TransportError::io("reading UDP options"))?;
        for (option, value) in [(libc::UDP_SEGMENT, datagram), (libc::UDP_GRO, 1)] {
            set(&socket, option, value).map_err(|error| {
                TransportError::Unavailable(format!(
                    "this kernel has no segmentation offload for UDP ({error}); use Linux 5.0 or newer"
                ))
            })?;
        }
        Ok(Self { socket, datagram, calls: Calls::default(), sleeps, slept: Slept::No })
    }

    /// Most datagrams of a train.
    fn longest(&self) -> usize {
        (TRAIN_BYTES / self.datagram).clamp(1, TRAIN)
    }

    /// Sends a train; `false` if there is no room now.
    fn send(&mut self, train: &[IoSlice<'_>]) -> Result<bool, TransportError> {
        self.calls.all += 1;
        match self.socket.send_vectored(train) {
            Ok(bytes) => {
                self.calls.send += 1;
                self.calls.sent += bytes.div_ceil(self.datagram) as u64;
                Ok(true)
            }
            Err(error) if full(&error) => Ok(false),
            // Without checksum offload, or with headers that do not fit (net/ipv4/udp.c).
            Err(error) if matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL)) => {
                Err(TransportError::Unavailable(format!(
                    "the interface cannot segment UDP ({error}); turn on its transmit checksums or leave udp-gso out"
                )))
            }
            Err(error) => Err(TransportError::io("sending by UDP with GSO")(error)),
        }
    }

    /// A train is about to be asked for, which may take a sleep.
    fn ask(&mut self) {
        self.calls.all += 1;
        if self.sleeps {
            self.slept = Slept::From(Instant::now());
        }
    }

    /// Counts a call that received `bytes` bytes, and says how many datagrams they are.
    fn received(&mut self, bytes: usize) -> Result<usize, TransportError> {
        let datagrams = bytes / self.datagram;
        if !bytes.is_multiple_of(self.datagram) {
            return Err(TransportError::Unavailable(format!(
                "{bytes} B came instead of datagrams of {} B; set the same MTU at both ends",
                self.datagram
            )));
        }
        self.calls.receive += 1;
        self.calls.received += datagrams as u64;
        Ok(datagrams)
    }

    fn note(&self) -> Note {
        note(&self.socket)
    }
}

fn set(socket: &Socket, option: libc::c_int, value: usize) -> io::Result<()> {
    let value = libc::c_int::try_from(value).map_err(io::Error::other)?;
    let length = size_of_val(&value) as libc::socklen_t;
    let from = (&raw const value).cast();
    // SAFETY: pointer and length describe an integer that lives across the call.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, option, from, length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests;
