//! One node of a fabric: its addresses, and ways to run something inside it.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use gigae_host::netns::NetnsGuard;
use serde::Serialize;

use crate::{FabricError, netns, topology};

/// One node of a fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Name of its network namespace, as `ip netns` shows it.
    pub name: String,
    /// Its interface to the first network inside that namespace.
    pub interface: &'static str,
    /// MAC address of the interface, locally administered.
    pub mac: [u8; 6],
    /// IPv4 address, in 198.18.0.0/24 (RFC 2544's benchmarking range).
    pub ipv4: Ipv4Addr,
    /// IPv6 address, in fd00::/64.
    pub ipv6: Ipv6Addr,
    networks: u16,
}

impl Node {
    pub(crate) fn new(prefix: &str, number: u16, networks: u16) -> Node {
        Node {
            name: topology::node_name(prefix, number),
            interface: topology::INTERFACE,
            mac: topology::mac(number),
            ipv4: topology::ipv4(number),
            ipv6: topology::ipv6(number),
            networks,
        }
    }

    /// The names of its interfaces, one to each network, in their order.
    pub fn interfaces(&self) -> Vec<String> {
        (0..self.networks).map(topology::interface).collect()
    }

    /// MAC address of its interface `eth{network}`, counted from 0: that to the first network is
    /// [`mac`](Self::mac).
    pub fn mac_on(&self, network: u16) -> [u8; 6] {
        topology::mac_on(network, self.mac)
    }

    /// Moves the *calling thread* into the node's network namespace until the guard is dropped.
    ///
    /// Threads started while the guard lives begin in the node too, and stay there.
    /// `/sys/class/net` keeps showing the former namespace; `/proc/thread-self/net/` and netlink
    /// follow the thread. Two system calls; needs `CAP_SYS_ADMIN`.
    pub fn enter(&self) -> Result<NetnsGuard, FabricError> {
        netns::enter(&self.name)
    }

    /// A command that will run inside the node.
    ///
    /// Only the network namespace changes: unlike `ip netns exec`, the mounts stay those of the
    /// caller (what is mounted inside is seen outside), and so `/sys` still shows the caller's
    /// network. Needs `CAP_SYS_ADMIN` when it is spawned.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, FabricError> {
        let namespace = netns::open(&self.name)?;
        let mut command = Command::new(program);
        // SAFETY: between fork and exec the closure makes one system call, `setns`, on a
        // descriptor that it owns; it neither allocates nor locks.
        unsafe {
            command.pre_exec(move || gigae_host::netns::set(namespace.as_fd()));
        }
        Ok(command)
    }
}
