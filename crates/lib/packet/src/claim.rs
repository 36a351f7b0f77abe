//! Keeps the kernel from answering for a UDP port that a link serves.
//!
//! AF_PACKET shows copies. The datagram itself goes on to the kernel's UDP, which would answer the
//! peer with an ICMP "port unreachable" if no socket had the port. So an ordinary UDP socket takes
//! the port, with a filter that drops every datagram before it is queued.

use crate::socket::{attach, bind_to_device};
use gigae_link::{Interface, OpenError};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// The sockets that hold a port, one per Internet protocol that the kernel has.
#[derive(Debug)]
pub(crate) struct PortClaim {
    _sockets: Vec<OwnedFd>,
}

impl PortClaim {
    /// Takes `port` on the interface. Links of other channels may hold it too.
    pub(crate) fn new(interface: &Interface, port: u16) -> Result<Self, OpenError> {
        let any: [(AddressFamily, SocketAddr); 2] = [
            (AddressFamily::INET, (Ipv4Addr::UNSPECIFIED, port).into()),
            (AddressFamily::INET6, (Ipv6Addr::UNSPECIFIED, port).into()),
        ];
        let mut sockets = Vec::new();
        for (family, address) in any {
            match claim(family, address, &interface.name) {
                Ok(socket) => sockets.push(socket),
                Err(e) if e.raw_os_error() == Some(libc::EAFNOSUPPORT) => {}
                Err(source) => {
                    return Err(OpenError::Io { what: "reserving the UDP port", source });
                }
            }
        }
        Ok(Self { _sockets: sockets })
    }
}

fn claim(family: AddressFamily, at: SocketAddr, interface: &str) -> std::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
    if family == AddressFamily::INET6 {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind_to_device(&socket, interface)?;
    let drop_all =
        [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }];
    attach(&socket, &drop_all)?;
    rustix::net::bind(&socket, &at)?;
    Ok(socket)
}
