//! The socket: its options, and its two system calls.

use gigae_link::{Interface, OpenError};
use libc::{c_int, c_void};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use tracing::info;

/// `SK_MEMINFO_DROPS` of linux/sock_diag.h: which word of `SO_MEMINFO` counts drops.
const DROPS: usize = 8;
const MEMINFO_WORDS: usize = 9;

/// `SO_NETNS_COOKIE` of asm-generic/socket.h.
const NETNS_COOKIE: c_int = 71;

/// Room for the control messages of a buffer: a length, and an address with an interface's number.
/// As words, since their headers must be aligned.
pub(crate) type Control = [u64; 16];

/// An Internet address as the kernel reads and writes it, of either family.
pub(crate) type Name = libc::sockaddr_in6;

/// The address of a node as the kernel takes it, and how many bytes of it.
#[derive(Clone, Copy)]
pub(crate) struct KernelAddress {
    pub(crate) name: Name,
    pub(crate) length: libc::socklen_t,
}

/// The control messages of a buffer, and how many bytes of them.
#[derive(Clone, Copy)]
pub(crate) struct ControlMessages {
    pub(crate) words: Control,
    pub(crate) length: usize,
}

/// Who sent a datagram, and to which own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatagramEnds {
    pub(crate) from: SocketAddr,
    pub(crate) to: IpAddr,
}

/// A UDP socket for one port of one interface.
#[derive(Debug)]
pub(crate) struct UdpSocket {
    fd: OwnedFd,
    /// For both families. Otherwise it is bound to an address, or the kernel has no IPv6.
    both: bool,
    /// The own address that it is bound to, if it is.
    own: Option<IpAddr>,
    /// The interface's number, which link-local addresses need.
    interface: u32,
    port: u16,
}

/// What one call received.
#[derive(Debug)]
pub(crate) struct ReceivedBuffer {
    pub(crate) length: usize,
    pub(crate) ends: DatagramEnds,
    /// It was sent to an IPv4 address for all.
    pub(crate) to_all: bool,
    /// The length of each datagram but the last, if there are several.
    pub(crate) segment: Option<usize>,
}

/// What the kernel does for UDP sockets that carry many datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// It cuts a buffer into datagrams (`UDP_SEGMENT`, Linux 4.18).
    pub cuts: bool,
    /// It joins datagrams to a buffer (`UDP_GRO`, Linux 5.0).
    pub joins: bool,
}

impl Offload {
    /// Asks the kernel. Three or four system calls; no privileges.
    pub fn look() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        let fd = OwnedFd::from(socket);
        let joins = set(&fd, libc::SOL_UDP, libc::UDP_GRO, &1).is_ok();
        Ok(Self { cuts: can_cut(&fd), joins })
    }
}

/// Whether the kernel can cut buffers (Linux 4.18). An older one ignores the wish.
fn can_cut(fd: &OwnedFd) -> bool {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    let (fd, to) = (fd.as_raw_fd(), (&raw mut value).cast());
    // SAFETY: pointer and length describe an integer that lives across the call.
    unsafe { libc::getsockopt(fd, libc::SOL_UDP, libc::UDP_SEGMENT, to, &raw mut length) == 0 }
}

impl UdpSocket {
    /// Opens it for all addresses of an interface, in the calling thread's network namespace. No
    /// privileges for ports from 1024 on, and for port 0, which means a free one.
    pub(crate) fn open(interface: &Interface, port: u16) -> Result<Self, OpenError> {
        let (socket, both) = match new(Domain::IPV6) {
            Ok(socket) => (socket, true),
            Err(e) if e.raw_os_error() == Some(libc::EAFNOSUPPORT) => {
                (new(Domain::IPV4).map_err(opening)?, false)
            }
            Err(e) => return Err(opening(e)),
        };
        let any: IpAddr = if both {
            socket.set_only_v6(false).map_err(opening)?;
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        if both {
            set(&socket, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, &1).map_err(opening)?;
        }
        set(&socket, libc::SOL_IP, libc::IP_PKTINFO, &1).map_err(opening)?;
        let socket = Self::bind(socket, interface, (any, port).into())?;
        Ok(Self { both, ..socket })
    }

    /// Opens it for one address of an interface, with a free port. The kernel need not say to which
    /// address a datagram was sent, and the program does not say from which one goes. The address
    /// need not be there yet.
    pub(crate) fn open_at(interface: &Interface, ip: IpAddr) -> Result<Self, OpenError> {
        let (domain, level, freebind) = match ip {
            IpAddr::V4(_) => (Domain::IPV4, libc::SOL_IP, libc::IP_FREEBIND),
            IpAddr::V6(_) => (Domain::IPV6, libc::SOL_IPV6, libc::IPV6_FREEBIND),
        };
        let socket = new(domain).map_err(opening)?;
        set(&socket, level, freebind, &1).map_err(opening)?;
        let socket = Self::bind(socket, interface, (ip, 0).into())?;
        Ok(Self { own: Some(ip), ..socket })
    }

    /// Sets the options that all have, and binds it.
    fn bind(socket: Socket, interface: &Interface, at: SocketAddr) -> Result<Self, OpenError> {
        let fail = opening;
        socket.set_nonblocking(true).map_err(fail)?;
        socket.set_broadcast(true).map_err(fail)?;
        socket.bind_device(Some(interface.name.as_bytes())).map_err(|e| {
            if e.raw_os_error() == Some(libc::EPERM) {
                let (what, capability) = ("binding a socket to an interface", "CAP_NET_RAW");
                return OpenError::MissingCapability { what, capability };
            }
            fail(e)
        })?;
        let (fd, port) = (OwnedFd::from(socket), at.port());
        // A router must not cut a datagram, nor the kernel choose the length (ip(7), ipv6(7)).
        let probe = libc::IP_PMTUDISC_PROBE;
        set(&fd, libc::SOL_IP, libc::IP_MTU_DISCOVER, &probe).map_err(fail)?;
        if at.is_ipv6() {
            let probe = libc::IPV6_PMTUDISC_PROBE;
            set(&fd, libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, &probe).map_err(fail)?;
        }
        // Linux 5.0.
        if set(&fd, libc::SOL_UDP, libc::UDP_GRO, &1).is_err() {
            info!(interface = %interface.name, "the kernel joins no datagrams: each takes a system call");
        }
        bind(&fd, &scoped(at, interface.index), interface)?;
        let name = rustix::net::getsockname(&fd).map_err(|e| fail(e.into()))?;
        let port = SocketAddr::try_from(name).map_or(port, |name| name.port());
        Ok(Self { fd, both: false, own: None, interface: interface.index, port })
    }

    /// Sends nothing to broadcast addresses from now on, which peers may name.
    pub(crate) fn refuse_broadcasts(&self) -> Result<(), OpenError> {
        let what = "opening a UDP socket";
        sockopt::set_socket_broadcast(&self.fd, false)
            .map_err(|e| OpenError::Io { what, source: e.into() })
    }

    /// The port that it is bound to.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Whether the kernel can cut buffers.
    pub(crate) fn can_cut(&self) -> bool {
        can_cut(&self.fd)
    }

    /// Lets the socket keep up to `sent` sent and `received` received bytes, as far as the process
    /// may (`net.core.wmem_max`, `net.core.rmem_max`).
    pub(crate) fn keep(&self, interface: &str, sent: usize, received: usize) {
        if sockopt::set_socket_send_buffer_size_force(&self.fd, sent).is_err() {
            let _ = sockopt::set_socket_send_buffer_size(&self.fd, sent);
        }
        if sockopt::set_socket_recv_buffer_size_force(&self.fd, received).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&self.fd, received);
        }
        // The kernel reports twice the size that was set (socket(7)).
        let kept = sockopt::socket_recv_buffer_size(&self.fd).unwrap_or(0) / 2;
        if kept < received {
            info!(%interface, kept, asked = received, "the kernel keeps less than was asked: bursts may get lost; raise net.core.rmem_max");
        }
    }

    /// Another socket of the same interface and namespace that only sends, from this own address to
    /// this node, in datagrams of `segment` bytes. 14 system calls.
    pub(crate) fn connected(
        &self,
        from: IpAddr,
        to: SocketAddr,
        segment: u16,
    ) -> io::Result<OwnedFd> {
        let socket = new(if to.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 })?;
        socket.set_nonblocking(true)?;
        let fd = OwnedFd::from(socket);
        if namespace_of(&fd)? != namespace_of(&self.fd)? {
            return Err(Errno::XDEV.into());
        }
        let interface = self.interface as c_int;
        set(&fd, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, &interface)?;
        let (level, option, probe) = match to {
            SocketAddr::V4(_) => (libc::SOL_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
            SocketAddr::V6(_) => {
                (libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
            }
        };
        set(&fd, level, option, &probe)?;
        set(&fd, libc::SOL_UDP, libc::UDP_SEGMENT, &segment.into())?;
        // What comes to it is lost.
        sockopt::set_socket_recv_buffer_size(&fd, 0)?;
        let kept = sockopt::socket_send_buffer_size(&self.fd)? / 2;
        if sockopt::set_socket_send_buffer_size_force(&fd, kept).is_err() {
            sockopt::set_socket_send_buffer_size(&fd, kept)?;
        }
        rustix::net::bind(&fd, &scoped((from, 0).into(), self.interface))?;
        rustix::net::connect(&fd, &scoped(to, self.interface))?;
        Ok(fd)
    }

    /// The address of a node as the kernel takes it.
    pub(crate) fn kernel_address(&self, to: SocketAddr) -> KernelAddress {
        let port = to.port();
        let flat: SocketAddr = match (to.ip(), self.both) {
            (IpAddr::V4(ip), false) => (ip, port).into(),
            (IpAddr::V4(ip), true) => (ip.to_ipv6_mapped(), port).into(),
            (IpAddr::V6(_), _) => scoped(to, self.interface),
        };
        let flat = socket2::SockAddr::from(flat);
        // SAFETY: for this structure of plain integers zeros are valid; the shorter IPv4 one and
        // the IPv6 one both fit it, and socket2 says how many bytes its address has.
        unsafe {
            let mut name: Name = std::mem::zeroed();
            let length = (flat.len() as usize).min(size_of::<Name>());
            std::ptr::copy_nonoverlapping(
                flat.as_ptr().cast::<u8>(),
                (&raw mut name).cast::<u8>(),
                length,
            );
            KernelAddress { name, length: length as libc::socklen_t }
        }
    }

    /// Fills in the control messages of a buffer: from which own address it goes, unless the socket
    /// is bound to one, and how the kernel cuts it. Returns the bytes of them.
    pub(crate) fn write_control(
        &self,
        control: &mut Control,
        from: IpAddr,
        segment: Option<u16>,
    ) -> usize {
        let mut writer = ControlWriter { control, used: 0 };
        match (from, self.both) {
            _ if self.own.is_some() => {}
            (IpAddr::V4(from), false) => {
                let address = libc::in_addr { s_addr: u32::from(from).to_be() };
                let none = libc::in_addr { s_addr: 0 };
                let info =
                    libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: none };
                writer.push(libc::SOL_IP, libc::IP_PKTINFO, info);
            }
            (from, _) => {
                let from = match from {
                    IpAddr::V4(from) => from.to_ipv6_mapped(),
                    IpAddr::V6(from) => from,
                };
                let address = libc::in6_addr { s6_addr: from.octets() };
                let info = libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: 0 };
                writer.push(libc::SOL_IPV6, libc::IPV6_PKTINFO, info);
            }
        }
        if let Some(segment) = segment {
            writer.push(libc::SOL_UDP, libc::UDP_SEGMENT, segment);
        }
        writer.used
    }

    /// Sends buffers. Returns how many from the start were taken.
    pub(crate) fn send(&self, buffers: &mut [libc::mmsghdr]) -> Result<usize, Errno> {
        let (fd, count) = (self.fd.as_raw_fd(), buffers.len() as u32);
        // SAFETY: the slice is valid for its length, and the caller made every message in it point
        // to memory that lives across the call.
        let sent =
            unsafe { libc::sendmmsg(fd, buffers.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
        usize::try_from(sent).map_err(|_| last())
    }

    /// Receives one buffer into `pieces`, one after the other. `Ok(None)`: it did not fit, or the
    /// kernel does not say whom it was sent to.
    pub(crate) fn receive(
        &self,
        pieces: &mut [libc::iovec],
    ) -> Result<Option<ReceivedBuffer>, Errno> {
        let mut control: Control = [0; 16];
        // SAFETY: the structure is plain integers, for which zeros are valid.
        let mut name: Name = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is plain integers and pointers, for which zeros are valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = (&raw mut name).cast();
        message.msg_namelen = size_of::<Name>() as libc::socklen_t;
        message.msg_iov = pieces.as_mut_ptr();
        message.msg_iovlen = pieces.len() as _;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of::<Control>() as _;
        let fd = self.fd.as_raw_fd();
        // SAFETY: the message points to a name, control words and pieces that live across the call;
        // the caller made every piece point to memory that nothing else uses.
        let length = unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT) };
        let length = usize::try_from(length).map_err(|_| last())?;
        if message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
            return Ok(None);
        }
        let from = address_of(&name);
        let ControlData { to, to_all, segment } = read_control(&message);
        let to = to.or(self.own);
        let ends = to.zip(from).map(|(to, from)| DatagramEnds { from, to });
        Ok(ends.map(|ends| ReceivedBuffer { length, ends, to_all, segment }))
    }

    /// Datagrams for which the socket had no room, since the start.
    pub(crate) fn dropped(&self) -> u64 {
        let mut words = [0_u32; MEMINFO_WORDS];
        let mut length = size_of_val(&words) as libc::socklen_t;
        // SAFETY: pointer and length describe an array that lives across the call.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                words.as_mut_ptr().cast::<c_void>(),
                &raw mut length,
            )
        };
        if result == 0 { words[DROPS].into() } else { 0 }
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn new(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
}

fn opening(source: io::Error) -> OpenError {
    OpenError::Io { what: "opening a UDP socket", source }
}

/// An address with the interface's number, which matters to link-local ones.
fn scoped(address: SocketAddr, interface: u32) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), v6.port(), 0, interface).into(),
    }
}

fn bind(fd: &OwnedFd, at: &SocketAddr, interface: &Interface) -> Result<(), OpenError> {
    rustix::net::bind(fd, at).map_err(|e| {
        let (port, name) = (at.port(), &interface.name);
        let text = match e {
            Errno::ADDRINUSE => format!(
                "UDP port {port} of '{name}' is in use by another endpoint or program ('ss -ulnp' names it); stop it or choose another port"
            ),
            Errno::ACCESS => format!(
                "UDP port {port} needs CAP_NET_BIND_SERVICE; choose one from 1024 on or run as root"
            ),
            other => format!("binding UDP port {port} of '{name}': {other}"),
        };
        let source = io::Error::new(io::Error::from(e).kind(), text);
        OpenError::Io { what: "opening a UDP socket", source }
    })
}

/// Sends a buffer by a connected socket, which cuts it into datagrams. One system call.
pub(crate) fn send(socket: BorrowedFd<'_>, pieces: &mut [libc::iovec]) -> Result<(), Errno> {
    // SAFETY: the structure is plain integers and pointers, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.as_mut_ptr();
    message.msg_iovlen = pieces.len() as _;
    // SAFETY: the caller made every piece point to memory that lives across the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(last()) } else { Ok(()) }
}

/// A number that the kernel gives each network namespace (Linux 5.14).
fn namespace_of(fd: &OwnedFd) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    let (fd, to) = (fd.as_raw_fd(), (&raw mut cookie).cast());
    // SAFETY: pointer and length describe a number that lives across the call.
    match unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, NETNS_COOKIE, to, &raw mut length) } {
        0 => Ok(cookie),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The address in a name that the kernel wrote.
fn address_of(name: &Name) -> Option<SocketAddr> {
    let ip = match c_int::from(name.sin6_family) {
        libc::AF_INET6 => Ipv6Addr::from(name.sin6_addr.s6_addr).to_canonical(),
        libc::AF_INET => {
            // The address is where IPv6's flow information is: behind family and port.
            Ipv4Addr::from(u32::from_be(name.sin6_flowinfo)).into()
        }
        _ => return None,
    };
    // In both families the port is where this structure has it.
    Some((ip, u16::from_be(name.sin6_port)).into())
}

/// What the kernel says of a buffer, as [`ReceivedBuffer`] has it.
#[derive(Default)]
struct ControlData {
    to: Option<IpAddr>,
    to_all: bool,
    segment: Option<usize>,
}

fn read_control(message: &libc::msghdr) -> ControlData {
    let mut notes = ControlData::default();
    // SAFETY: the message's control words are those of `receive`, as long as the kernel has said.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: not null, so a header lies there within the control words, and behind it the
        // structure that its level and type name, perhaps unaligned.
        unsafe {
            let data = libc::CMSG_DATA(header);
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let length = data.cast::<c_int>().read_unaligned();
                    notes.segment = usize::try_from(length).ok().filter(|&length| length > 0);
                }
                (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    notes.to = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).to_canonical());
                }
                (libc::SOL_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    notes.to = Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into());
                    // The latter is the own address from which to answer (ip(7)).
                    notes.to_all = info.ipi_addr.s_addr != info.ipi_spec_dst.s_addr;
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    notes
}

/// Puts control messages one behind the other.
struct ControlWriter<'a> {
    control: &'a mut Control,
    used: usize,
}

impl ControlWriter<'_> {
    fn push<T: Copy>(&mut self, level: c_int, kind: c_int, value: T) {
        let payload = size_of::<T>() as u32;
        // SAFETY: plain arithmetic (cmsg(3)).
        let (space, length) = unsafe { (libc::CMSG_SPACE(payload), libc::CMSG_LEN(payload)) };
        assert!(
            self.used + space as usize <= size_of::<Control>(),
            "no room for a control message"
        );
        // SAFETY: there is room for header and value from `used` on, which is aligned for the
        // header since it is a sum of CMSG_SPACEs; CMSG_DATA stays within.
        unsafe {
            let at = self.control.as_mut_ptr().cast::<u8>().add(self.used);
            let header = at.cast::<libc::cmsghdr>();
            // The control words are zero, and so is what other C libraries pad with.
            (*header).cmsg_len = length as _;
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
        }
        self.used += space as usize;
    }
}

fn last() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn set(socket: &impl AsRawFd, level: c_int, name: c_int, value: &c_int) -> io::Result<()> {
    let length = size_of::<c_int>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: pointer and length describe an integer that lives across the call.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
