//! The packet socket (packet(7)): its options, its ring and its queue to the kernel.

use gigae_link::{Filter, Interface, OpenError};
use gigae_wire::Envelope;
use libc::{c_int, sock_filter};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::cell::Cell;
use std::io;

/// `ETH_P_ALL`: all protocols.
const EVERY_PROTOCOL: u16 = libc::ETH_P_ALL as u16;

/// A packet socket.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    fd: OwnedFd,
    /// The kernel sets its count of drops to zero when it is read.
    dropped: Cell<u64>,
}

impl PacketSocket {
    /// Opens a socket that receives nothing yet: its protocol is zero until it is bound.
    pub(crate) fn open() -> Result<Self, OpenError> {
        let fd = rustix::net::socket_with(
            AddressFamily::PACKET,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|e| match e {
            Errno::PERM | Errno::ACCESS => OpenError::MissingCapability {
                what: "opening a packet socket",
                capability: "CAP_NET_RAW",
            },
            Errno::AFNOSUPPORT => OpenError::Unsupported {
                what: "AF_PACKET",
                instead: "use the xdp backend or a kernel with CONFIG_PACKET",
            },
            other => OpenError::Io { what: "opening a packet socket", source: other.into() },
        })?;
        Ok(Self { fd, dropped: Cell::new(0) })
    }

    /// Sets everything that must be set before the ring is made; the filter comes first.
    pub(crate) fn prepare(&self, filter: &[sock_filter], bypass: bool) -> Result<(), OpenError> {
        let fail = |what| move |source| OpenError::Io { what, source };
        attach(&self.fd, filter).map_err(fail("attaching the packet filter"))?;
        let version = libc::tpacket_versions::TPACKET_V2 as c_int;
        set(&self.fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
            .map_err(fail("choosing the packet ring's version"))?;
        // Linux 4.20. Without it the filter's packet type keeps outgoing frames away.
        let _ = set(&self.fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1);
        if bypass {
            set(&self.fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)
                .map_err(fail("bypassing the queueing discipline"))?;
        }
        Ok(())
    }

    /// Makes the kernel's receive ring.
    pub(crate) fn make_ring(&self, ring: &libc::tpacket_req) -> Result<(), OpenError> {
        set(&self.fd, libc::SOL_PACKET, libc::PACKET_RX_RING, ring)
            .map_err(|source| OpenError::Io { what: "making the packet ring", source })
    }

    /// Starts reception from the interface.
    pub(crate) fn bind(&self, interface: &Interface, filter: &Filter) -> Result<(), OpenError> {
        let protocol = match filter.envelope {
            Envelope::Ethernet { ethertype } => ethertype,
            Envelope::Udp { .. } => EVERY_PROTOCOL,
        };
        // SAFETY: the structure is plain bytes, for which zeros are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = interface.index as c_int;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: pointer and length describe one `sockaddr_ll` that lives across the call.
        let result =
            unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), length) };
        match checked(result).map_err(|e| (e.raw_os_error(), e)) {
            Ok(_) => Ok(()),
            Err((Some(libc::ENETDOWN), _)) => Err(OpenError::InterfaceDown(interface.name.clone())),
            Err((_, source)) => Err(OpenError::Io { what: "binding the packet socket", source }),
        }
    }

    /// Lets the kernel hold `bytes` of outgoing frames. If the kernel grants less, each flush
    /// continues where the last one stopped.
    pub(crate) fn allow_queued(&self, bytes: usize) {
        if sockopt::set_socket_send_buffer_size_force(&self.fd, bytes).is_err() {
            let _ = sockopt::set_socket_send_buffer_size(&self.fd, bytes);
        }
    }

    /// Lets `bytes` of frames wait for [`receive`](Self::receive), or as many as the kernel grants.
    pub(crate) fn allow_waiting(&self, bytes: usize) {
        if sockopt::set_socket_recv_buffer_size_force(&self.fd, bytes).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&self.fd, bytes);
        }
    }

    /// Receives a batch of frames that wait. Returns how many; each message then has its frame's
    /// length, also of one that did not fit.
    #[inline]
    pub(crate) fn receive(&self, batch: &mut [libc::mmsghdr]) -> Result<usize, Errno> {
        let (fd, count) = (self.fd.as_raw_fd(), batch.len() as u32);
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the slice is valid for its length, and the caller made every message in it point
        // to memory that lives across the call and that nothing else accesses.
        let result = unsafe {
            libc::recvmmsg(fd, batch.as_mut_ptr(), count, flags as _, std::ptr::null_mut())
        };
        checked(result)
            .map(|n| usize::try_from(n).unwrap_or(0))
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
    }

    /// Sends a batch. Returns how many messages from its start were taken.
    pub(crate) fn send(&self, batch: &mut [libc::mmsghdr]) -> Result<usize, Errno> {
        let (fd, count) = (self.fd.as_raw_fd(), batch.len() as u32);
        // SAFETY: the slice is valid for its length, and the caller made every message in it point
        // to memory that lives across the call.
        let result =
            unsafe { libc::sendmmsg(fd, batch.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
        checked(result)
            .map(|n| usize::try_from(n).unwrap_or(0))
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
    }

    /// Sends a frame. Returns how many were taken: one.
    #[inline]
    pub(crate) fn send_one(&self, frame: &[u8]) -> Result<usize, Errno> {
        rustix::net::send(&self.fd, frame, rustix::net::SendFlags::DONTWAIT).map(|_| 1)
    }

    /// Frames for this host that found no room, since the start.
    pub(crate) fn dropped(&self) -> u64 {
        // SAFETY: the structure is plain integers, for which zeros are valid.
        let mut stats: libc::tpacket_stats = unsafe { std::mem::zeroed() };
        let mut length = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: pointer and length describe one `tpacket_stats` that lives across the call.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            )
        };
        if result == 0 {
            self.dropped.set(self.dropped.get() + u64::from(stats.tp_drops));
        }
        self.dropped.get()
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Attaches a classic BPF program to a socket.
pub(crate) fn attach(socket: &impl AsFd, filter: &[sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Restricts a socket to one interface (socket(7), `SO_BINDTODEVICE`).
pub(crate) fn bind_to_device(socket: &impl AsFd, interface: &str) -> io::Result<()> {
    let mut name = [0u8; libc::IFNAMSIZ];
    name.iter_mut().take(libc::IFNAMSIZ - 1).zip(interface.bytes()).for_each(|(to, c)| *to = c);
    set(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name)
}

fn set<T>(socket: &impl AsFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let (fd, length) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: pointer and length describe one `T` that lives across the call; the kernel copies it
    // (and, for a filter, the instructions that it points to, which live in the caller).
    let result =
        unsafe { libc::setsockopt(fd, level, name, std::ptr::from_ref(value).cast(), length) };
    checked(result).map(drop)
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
