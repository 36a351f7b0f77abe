//! How an IP node is reached by frames that this library builds itself (the UDP envelope,
//! `PROTOCOL.md` §3).
//!
//! The kernel knows it already: its routing tables hold the source address and the gateway, its
//! neighbour tables hold MAC addresses. Both are asked by netlink. When the neighbour is not known
//! yet, an empty UDP datagram towards the node makes the kernel find it by ARP (RFC 826) or
//! neighbour discovery (RFC 4861).
//!
//! A [`Reservation`] also keeps the UDP port: frames that reach the kernel's stack too, as
//! AF_PACKET's do, would otherwise be answered with ICMP "port unreachable". Its sockets carry a
//! filter that drops everything (socket(7), `SO_ATTACH_FILTER`), so nothing is ever queued; the
//! kernel counts the dropped datagrams as UDP `InErrors`.
//!
//! What it does not do: it neither keeps a table nor follows changes (`route_table.rs` asks again),
//! it sends no ARP itself, and it refuses multicast and broadcast.

use gigae_netlink::{Error, RouteInfo, RouteType, Rtnetlink};
use gigae_wire::MacAddr;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

/// How long a neighbour may take to answer. The kernel repeats its question after one second
/// (`retrans_time_ms`, arp(7)), so this is its first question and any answer to it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two looks at the neighbour table. An answer on a LAN takes less than a millisecond.
const INTERVAL: Duration = Duration::from_millis(2);

/// A port at which no program is expected to listen, as with traceroute(8). To make the kernel look
/// for a neighbour, an empty datagram goes there if no port is agreed upon.
const NOBODYS_PORT: u16 = 33_434;

/// The MAC address of the neighbour with an IP address on the network of an interface. Looking for
/// it may take a second.
pub(crate) fn neighbour(ip: IpAddr, interface: &str) -> io::Result<MacAddr> {
    let kept = reserve(NOBODYS_PORT, interface)?;
    if kept.kernel_route(ip).map_err(io::Error::other)?.neighbour != ip {
        let text = format!("{ip} is not on the network of '{interface}'");
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    Ok(kept.next_hop(ip).map_err(io::Error::other)?.next_hop)
}

/// A UDP port that is kept on one interface, and the means to ask the kernel for routes over it.
///
/// All of it belongs to the network namespace in which it was made, whichever thread uses it.
#[derive(Debug)]
pub(crate) struct Reservation {
    interface: String,
    index: u32,
    port: u16,
    ipv4: UdpSocket,
    /// `None` when the kernel has no IPv6.
    ipv6: Option<UdpSocket>,
    kernel: Rtnetlink,
    /// The link is a socket, which has the port itself. The kernel finds its next hops.
    by_socket: bool,
}

/// The route to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    /// This node's address, as the kernel would choose it towards that node.
    pub(crate) source: IpAddr,
    /// The node itself or the router that leads there. Zeros where the kernel finds it.
    pub(crate) next_hop: MacAddr,
}

/// Keeps `port` on the interface, for IPv4 and (if the kernel has it) IPv6, until it is dropped.
///
/// The same port can be kept more than once, also by other processes that share it in this way
/// (`SO_REUSEADDR`, socket(7)); a program that uses it exclusively makes this fail with
/// [`io::ErrorKind::AddrInUse`]. Port 0 is refused. Every error's text says what to do.
///
/// 16 system calls. Ports below 1024 need `CAP_NET_BIND_SERVICE`, kernels before 5.7
/// `CAP_NET_RAW` (`SO_BINDTODEVICE`, socket(7)).
pub(crate) fn reserve(port: u16, interface: &str) -> io::Result<Reservation> {
    let explain = |e| explain(e, port, interface);
    if port == 0 {
        let text = "UDP port 0 cannot be reserved; choose one from 1 to 65535";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let ipv4 = keep(Domain::IPV4, (Ipv4Addr::UNSPECIFIED, port).into(), interface);
    let ipv4 = ipv4.map_err(explain)?;
    let ipv6 = match keep(Domain::IPV6, (Ipv6Addr::UNSPECIFIED, port).into(), interface) {
        Ok(socket) => Some(socket),
        Err(e) if e.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => None,
        Err(e) => return Err(explain(e)),
    };
    let index =
        rustix::net::netdevice::name_to_index(&ipv4, interface).map_err(|e| explain(e.into()))?;
    let kernel = Rtnetlink::open().map_err(|e| explain(e.into()))?;
    let interface = interface.to_owned();
    Ok(Reservation { interface, index, port, ipv4, ipv6, kernel, by_socket: false })
}

/// For a link over a UDP socket, which has the port itself. As many system calls.
pub(crate) fn by_socket(port: u16, interface: &str) -> io::Result<Reservation> {
    let any = keep(Domain::IPV4, (Ipv4Addr::UNSPECIFIED, 0).into(), interface)?;
    let ipv6 = keep(Domain::IPV6, (Ipv6Addr::UNSPECIFIED, 0).into(), interface).ok();
    let index = rustix::net::netdevice::name_to_index(&any, interface)?;
    let (interface, kernel) = (interface.to_owned(), Rtnetlink::open()?);
    Ok(Reservation { interface, index, port, ipv4: any, ipv6, kernel, by_socket: true })
}

/// The filter comes before the address, so that nothing slips in between. Binding to the device
/// leaves the port on other interfaces alone and sends by this one only.
fn keep(domain: Domain, at: SocketAddr, interface: &str) -> io::Result<UdpSocket> {
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if domain == Domain::IPV6 {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.attach_filter(&[drop_everything()])?;
    socket.bind(&at.into())?;
    // Datagrams wait until the neighbour is found, and who sends them does not.
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// "Keep zero bytes" in classic BPF (the kernel's networking/filter document): `ret #0`.
fn drop_everything() -> SockFilter {
    const RETURN_CONSTANT: u16 = 0x06;
    SockFilter::new(RETURN_CONSTANT, 0, 0, 0)
}

fn explain(e: io::Error, port: u16, interface: &str) -> io::Error {
    let text = match e.kind() {
        io::ErrorKind::AddrInUse => format!(
            "UDP port {port} is in use by another program ('ss -ulnp' names it); stop it or choose another port"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "keeping UDP port {port} on '{interface}' is not permitted; run as root, or grant CAP_NET_BIND_SERVICE (ports below 1024) and CAP_NET_RAW"
        ),
        _ if e.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => {
            format!("no interface '{interface}' here; choose one that 'ip link' lists")
        }
        _ => format!("keeping UDP port {port} on '{interface}': {e}"),
    };
    io::Error::new(e.kind(), text)
}

impl Reservation {
    /// Another of the same port, for use beside this one. Six system calls, in the same network
    /// namespace as [`reserve`].
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            interface: self.interface.clone(),
            index: self.index,
            port: self.port,
            ipv4: self.ipv4.try_clone()?,
            ipv6: self.ipv6.as_ref().map(UdpSocket::try_clone).transpose()?,
            kernel: Rtnetlink::open()?,
            by_socket: self.by_socket,
        })
    }

    /// Finds the route to the node `to` over this interface.
    ///
    /// Six system calls when the kernel knows the neighbour. Otherwise one more to ask for it, and
    /// two for every look at the table; this *blocks* until the neighbour answers, one second at
    /// most. No privileges.
    ///
    /// An entry that the kernel holds for stale is taken as it is: it was right when it was last
    /// confirmed, and the kernel sees none of our traffic that could confirm it.
    pub(crate) fn next_hop(&self, to: IpAddr) -> Result<Hop, ResolveError> {
        let route = self.kernel_route(to)?;
        if let Some(next_hop) = self.neighbour(route.neighbour)? {
            return Ok(Hop { source: route.source, next_hop });
        }
        self.provoke(to)?;
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            std::thread::sleep(INTERVAL);
            if let Some(next_hop) = self.neighbour(route.neighbour)? {
                return Ok(Hop { source: route.source, next_hop });
            }
        }
        let interface = self.interface.clone();
        Err(ResolveError::NoAnswer { to, neighbour: route.neighbour, interface })
    }

    /// What the kernel knows now of the route to the node `to`: this node's address, and the next
    /// hop if that neighbour is known. Six system calls; does not wait.
    pub(crate) fn look(&self, to: IpAddr) -> Option<(IpAddr, Option<MacAddr>)> {
        let route = self.kernel_route(to).ok()?;
        Some((route.source, self.neighbour(route.neighbour).ok()?))
    }

    /// Two lookups: restricted to an interface, the kernel does not see that an address is its own
    /// but on another interface.
    fn kernel_route(&self, to: IpAddr) -> Result<KernelRoute, ResolveError> {
        if to.is_multicast() || to.is_unspecified() {
            return Err(ResolveError::NoNode(to));
        }
        if to.is_loopback() {
            return Err(ResolveError::Own(to)); // Without a route while `lo` is down.
        }
        let anywhere = self.kernel.route(to, None);
        if anywhere.is_ok_and(|route| route.kind == RouteType::Local) {
            return Err(ResolveError::Own(to));
        }
        let dead_end = match self.kernel.route(to, Some(self.index)) {
            Ok(route) => match read_route(&route, to, self.index) {
                Ok(route) => return Ok(route),
                Err(dead_end) => dead_end,
            },
            Err(e) if says_no_route(&e) => RouteUnusable::NoRoute,
            Err(e) => return Err(ResolveError::io("looking up the route", e.into())),
        };
        let interface = self.interface.clone();
        Err(match dead_end {
            RouteUnusable::NoRoute => ResolveError::NoRoute { to, interface },
            RouteUnusable::NoSource => ResolveError::NoSource { to, interface },
            RouteUnusable::Own => ResolveError::Own(to),
            RouteUnusable::NoNode => ResolveError::NoNode(to),
        })
    }

    /// The neighbour's MAC address, if the kernel has it. Since Linux 5.0. Zeros for a link over a
    /// socket, which needs none; but frames to a neighbour that does not answer would fill the
    /// socket.
    fn neighbour(&self, ip: IpAddr) -> Result<Option<MacAddr>, ResolveError> {
        let found = self.kernel.neighbour(ip, self.index);
        let found = found.map_err(|e| ResolveError::io("looking up the neighbour", e.into()))?;
        Ok(found.map(|mac| if self.by_socket { MacAddr::default() } else { MacAddr(mac) }))
    }

    /// Makes the kernel look for the neighbour, or verify one that has not answered for long. The
    /// node's endpoint has the same port and drops the datagram. A node without an endpoint may
    /// answer with ICMP, which has no effect here.
    pub(crate) fn provoke(&self, to: IpAddr) -> Result<(), ResolveError> {
        let sent = match (to, &self.ipv6) {
            (IpAddr::V4(ip), _) => self.ipv4.send_to(&[], (ip, self.port)),
            // The scope matters to link-local addresses only.
            (IpAddr::V6(ip), Some(ipv6)) => {
                ipv6.send_to(&[], SocketAddrV6::new(ip, self.port, 0, self.index))
            }
            (IpAddr::V6(_), None) => Err(Errno::AFNOSUPPORT.into()),
        };
        sent.map(drop).map_err(|e| ResolveError::io("asking for the neighbour", e))
    }
}

/// What a route says: where frames go, and from which address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KernelRoute {
    source: IpAddr,
    neighbour: IpAddr,
}

/// Why a route is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RouteUnusable {
    NoRoute,
    NoSource,
    Own,
    NoNode,
}

fn read_route(route: &RouteInfo, to: IpAddr, index: u32) -> Result<KernelRoute, RouteUnusable> {
    match route.kind {
        RouteType::Unicast => {}
        RouteType::Local => return Err(RouteUnusable::Own),
        RouteType::BlackHole
        | RouteType::Unreachable
        | RouteType::Prohibit
        | RouteType::Throw
        | RouteType::Unspec => return Err(RouteUnusable::NoRoute),
        _ => return Err(RouteUnusable::NoNode),
    }
    // Given an interface, IPv4 takes every address for a neighbour on it if no table has a route.
    let assumed = to.is_ipv4() && route.table == 0;
    if assumed || route.interface != Some(index) {
        return Err(RouteUnusable::NoRoute);
    }
    let source = route.source.filter(|ip| !ip.is_unspecified()).ok_or(RouteUnusable::NoSource)?;
    Ok(KernelRoute { source, neighbour: route.gateway.unwrap_or(to) })
}

/// The kernel's answers for a missing route and for routes of the types unreachable, prohibit
/// and blackhole (ip-route(8)).
fn says_no_route(e: &Error) -> bool {
    matches!(e.errno(), Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ACCESS | Errno::INVAL)
}

/// The route to a node was not found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    /// No route leads to the address over the interface.
    #[error("no route to {to} over '{interface}'; choose another interface or add a route with 'ip {family} route add'", family = if .to.is_ipv4() { "-4" } else { "-6" })]
    NoRoute {
        /// The node's address.
        to: IpAddr,
        /// The interface.
        interface: String,
    },
    /// There is a route, but this node has no address to send from.
    #[error(
        "no address to reach {to} from; give '{interface}' one with 'ip address add ADDRESS/LENGTH dev {interface}'"
    )]
    NoSource {
        /// The node's address.
        to: IpAddr,
        /// The interface.
        interface: String,
    },
    /// The address belongs to this host; its loopback addresses do too.
    #[error(
        "{0} is an address of this host, which its own frames do not reach; give another node's, or let frames within the node go through memory (Options::local)"
    )]
    Own(IpAddr),
    /// A multicast, broadcast, anycast or unspecified address.
    #[error("{0} is not the address of one node; give a unicast address")]
    NoNode(IpAddr),
    /// The neighbour did not answer within a second.
    #[error("{}", no_answer(to, neighbour, interface))]
    NoAnswer {
        /// The node's address.
        to: IpAddr,
        /// The node itself or the gateway.
        neighbour: IpAddr,
        /// The interface.
        interface: String,
    },
    /// A system call failed.
    #[error("{what} failed: {source}; check that the interface is still there and up")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl ResolveError {
    fn io(what: &'static str, source: io::Error) -> Self {
        Self::Io { what, source }
    }
}

fn no_answer(to: &IpAddr, neighbour: &IpAddr, interface: &str) -> String {
    if to == neighbour {
        format!(
            "{to} does not answer on '{interface}'; check the address, the link and that the node is up"
        )
    } else {
        format!(
            "the gateway {neighbour} towards {to} does not answer on '{interface}'; check the route and the link"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETH: u32 = 7;
    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn route(kind: RouteType) -> RouteInfo {
        let source = Some(ip("198.18.0.1"));
        RouteInfo { kind, source, gateway: None, interface: Some(ETH), table: 254 }
    }

    #[test]
    fn a_node_on_the_link_is_its_own_neighbour() {
        let expected = KernelRoute { source: ip("198.18.0.1"), neighbour: ip("198.18.0.2") };
        assert_eq!(read_route(&route(RouteType::Unicast), ip("198.18.0.2"), ETH), Ok(expected));
    }

    #[test]
    fn a_gateway_is_the_neighbour_also_when_it_speaks_ipv6() {
        for gateway in ["198.18.0.9", "fe80::9"].map(ip) {
            let route = RouteInfo { gateway: Some(gateway), ..route(RouteType::Unicast) };
            let found = read_route(&route, ip("198.19.0.2"), ETH);
            assert_eq!(found.unwrap().neighbour, gateway);
        }
    }

    #[test]
    fn a_neighbour_that_is_only_assumed_is_no_route() {
        let route = RouteInfo { table: 0, ..route(RouteType::Unicast) };
        assert_eq!(read_route(&route, ip("192.0.2.1"), ETH), Err(RouteUnusable::NoRoute));
    }

    #[test]
    fn a_route_over_another_interface_is_no_route() {
        let route = RouteInfo { interface: Some(ETH + 1), ..route(RouteType::Unicast) };
        assert_eq!(read_route(&route, ip("198.18.0.2"), ETH), Err(RouteUnusable::NoRoute));
    }

    #[test]
    fn without_an_own_address_there_is_nothing_to_send_from() {
        for source in [None, Some(ip("0.0.0.0"))] {
            let route = RouteInfo { source, ..route(RouteType::Unicast) };
            assert_eq!(read_route(&route, ip("198.18.0.2"), ETH), Err(RouteUnusable::NoSource));
        }
    }

    #[test]
    fn only_unicast_routes_lead_to_a_node() {
        for (kind, dead_end) in [
            (RouteType::Local, RouteUnusable::Own),
            (RouteType::Broadcast, RouteUnusable::NoNode),
            (RouteType::Multicast, RouteUnusable::NoNode),
            (RouteType::Anycast, RouteUnusable::NoNode),
            (RouteType::Prohibit, RouteUnusable::NoRoute),
        ] {
            assert_eq!(read_route(&route(kind), ip("198.18.0.2"), ETH), Err(dead_end));
        }
    }

    #[test]
    fn every_error_is_one_line_that_names_the_address() {
        let to = ip("198.18.0.2");
        let interface = || "eth1".to_owned();
        for error in [
            ResolveError::NoRoute { to, interface: interface() },
            ResolveError::NoSource { to, interface: interface() },
            ResolveError::Own(to),
            ResolveError::NoNode(to),
            ResolveError::NoAnswer { to, neighbour: to, interface: interface() },
            ResolveError::NoAnswer { to, neighbour: ip("198.18.0.9"), interface: interface() },
        ] {
            let text = error.to_string();
            assert!(text.contains("198.18.0.2") && !text.contains('\n'), "{text}");
        }
    }
}
