//! A packet socket on a port of the switch (packet(7)): what the node sends comes in, what goes to
//! the node goes out through the port's queue as any frame does.
//!
//! With `PACKET_VNET_HDR`, a virtio header is in front of each frame: a long piece of
//! TCP stays in one piece, and a checksum that is not yet computed stays so.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

/// linux/if_packet.h, which the crate `libc` lacks.
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// Bytes of `struct virtio_net_hdr` of linux/virtio_net.h.
pub(super) const VNET_HEADER: usize = 10;

/// Bytes that the kernel may keep of frames that come and go. An ordinary user gets less.
const BUFFER: usize = 16 << 20;

/// Passes frames without a VLAN tag: the kernel takes the tag out of the bytes, and without it a
/// frame would arrive in another network.
const UNTAGGED: [libc::sock_filter; 4] = [
    // A = whether there is a tag
    instruction(0x20, 0, 0, (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT) as u32),
    // if A == 0, skip the next one
    instruction(0x15, 1, 0, 0),
    // nothing of the frame
    instruction(0x06, 0, 0, 0),
    // all of the frame
    instruction(0x06, 0, 0, u32::MAX),
];

const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// The socket.
#[derive(Debug)]
pub(super) struct PortSocket(OwnedFd);

/// Why a frame was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsent {
    /// The socket has no room.
    Full,
    /// The kernel refused it: it is longer than the port's MTU, its virtio header is wrong, or the
    /// port is down.
    Failed,
    /// The port dropped it (and counts it if it counts such frames), or is gone.
    Dropped,
}

impl PortSocket {
    /// Opens one on an interface of the calling thread's namespace. Needs `CAP_NET_RAW`.
    pub(super) fn open(interface: &str) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        let program =
            libc::sock_fprog { len: UNTAGGED.len() as u16, filter: UNTAGGED.as_ptr().cast_mut() };
        set(&fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
        set(&fd, libc::SOL_PACKET, PACKET_VNET_HDR, &1)?;
        set(&fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1)?;
        if sockopt::set_socket_recv_buffer_size_force(&fd, BUFFER).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&fd, BUFFER);
        }
        if sockopt::set_socket_send_buffer_size_force(&fd, BUFFER).is_err() {
            let _ = sockopt::set_socket_send_buffer_size(&fd, BUFFER);
        }
        let index = rustix::net::netdevice::name_to_index(&fd, interface)?;
        // SAFETY: the structure is plain bytes, for which zeros are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as libc::c_int;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: pointer and length describe one `sockaddr_ll` that lives across the call.
        let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
        checked(result).map(|()| Self(fd))
    }

    /// Those that another process opened and gave to this one. `None` if a number is one of the
    /// standard streams, occurs twice, or is that of no packet socket.
    ///
    /// # Safety
    ///
    /// Nothing else in this process has or closes a packet socket of these numbers.
    pub(super) unsafe fn inherited(numbers: &[RawFd]) -> Option<Vec<Self>> {
        let once = |(place, fd): (usize, &RawFd)| !numbers[..place].contains(fd);
        let fits = numbers.iter().all(|&fd| fd > 2 && is_packet_socket(fd));
        (fits && numbers.iter().enumerate().all(once)).then(|| {
            // SAFETY: each is an open socket, and the caller says that it has no other owner.
            numbers.iter().map(|&fd| Self(unsafe { OwnedFd::from_raw_fd(fd) })).collect()
        })
    }

    /// The next frame with its virtio header, if there is one; the bytes that it has, which may be
    /// more than the buffer.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        loop {
            match rustix::net::recv(&self.0, &mut *buffer, RecvFlags::TRUNC) {
                Ok((_, length)) => return Some(length),
                Err(Errno::INTR) => {}
                // There is none, or the port went down, which is said once.
                Err(_) => return None,
            }
        }
    }

    /// Sends a frame with its virtio header.
    pub(super) fn send(&self, frame: &[u8]) -> Result<(), Unsent> {
        match rustix::net::send(&self.0, frame, SendFlags::DONTWAIT) {
            Ok(_) => Ok(()),
            Err(Errno::AGAIN) => Err(Unsent::Full),
            Err(Errno::MSGSIZE | Errno::INVAL | Errno::NETDOWN) => Err(Unsent::Failed),
            Err(_) => Err(Unsent::Dropped),
        }
    }

    /// Frames that found the socket's buffer full since this was last asked.
    pub(super) fn overflows(&self) -> u64 {
        let mut counts = [0_u32; 2];
        let mut length = size_of_val(&counts) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes, `struct tpacket_stats`: two integers.
        let result = unsafe {
            let at = counts.as_mut_ptr().cast();
            let fd = self.0.as_raw_fd();
            libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, at, &raw mut length)
        };
        if result == 0 { counts[1].into() } else { 0 }
    }
}

impl AsFd for PortSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether this number is that of an open packet socket.
fn is_packet_socket(fd: RawFd) -> bool {
    let mut domain: libc::c_int = 0;
    let mut length = size_of_val(&domain) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, and refuses what is no open socket.
    let result = unsafe {
        let at = (&raw mut domain).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, at, &raw mut length)
    };
    result == 0 && domain == libc::AF_PACKET
}

fn set<T>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let (fd, length) = (socket.as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: pointer and length describe one `T` that lives across the call; the kernel copies it
    // (and, for a filter, the instructions that it points to, which are static).
    let result =
        unsafe { libc::setsockopt(fd, level, name, std::ptr::from_ref(value).cast(), length) };
    checked(result)
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_not_packet_sockets_are_refused() {
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for number in [-1, 0, 1, 2, file.as_raw_fd(), socket.as_raw_fd(), RawFd::MAX] {
            // SAFETY: none is a packet socket.
            assert!(unsafe { PortSocket::inherited(&[number]) }.is_none(), "{number}");
        }
        assert!(file.metadata().is_ok() && socket.local_addr().is_ok(), "they are still open");
    }
}
