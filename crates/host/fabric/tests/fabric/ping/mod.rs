//! One echo request and its answer, over a raw ICMP socket of the calling thread's namespace
//! (RFC 792, RFC 4443); `ping` is not installed everywhere.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto};

const IDENTIFIER: [u8; 2] = [0x67, 0x69];
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// True when `target` answers one echo request.
pub(crate) fn answers(target: IpAddr) -> bool {
    let (family, protocol, request, reply) = match target {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, 8, 0),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, 128, 129),
    };
    let socket = rustix::net::socket(family, SocketType::RAW, Some(protocol)).unwrap();
    let mut message = [request, 0, 0, 0, IDENTIFIER[0], IDENTIFIER[1], 0, 1];
    if target.is_ipv4() {
        // For ICMPv6 the kernel computes the checksum, which covers the addresses too.
        let checksum = checksum(&message).to_be_bytes();
        message[2..4].copy_from_slice(&checksum);
    }
    let address = std::net::SocketAddr::new(target, 0);
    rustix::net::sendto(&socket, &message, SendFlags::empty(), &address).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while let Ok(bytes) = receive(&socket, deadline) {
        // IPv4 delivers its header too.
        let start = if target.is_ipv4() { usize::from(bytes[0] & 15) * 4 } else { 0 };
        if bytes[start] == reply && bytes[start + 4..start + 6] == IDENTIFIER {
            return true;
        }
    }
    false
}

fn receive(socket: &OwnedFd, deadline: Instant) -> io::Result<Vec<u8>> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout =
        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    let mut ready = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    if rustix::event::poll(&mut ready, Some(&timeout))? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut bytes = vec![0; 2048];
    let (length, _) = rustix::net::recv(socket, &mut bytes[..], RecvFlags::empty())?;
    bytes.truncate(length);
    Ok(bytes)
}

fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 =
        bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    !((sum & 0xffff) + (sum >> 16)) as u16
}
