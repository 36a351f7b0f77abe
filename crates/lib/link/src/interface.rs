//! Looking up a network interface: what every kernel backend must know before it opens a socket,
//! and how it distinguishes an interface that is down from one that is gone.
//!
//! Uses the ioctls of netdevice(7) on its own socket, so that it keeps looking into the network
//! namespace in which it was made, whichever thread or process asks. It is a UNIX-domain socket: a
//! process that gets it from another one cannot reach the network by it. `/sys/class/net` would
//! show the namespace in which it was mounted. Nothing here changes an interface.

use crate::{LinkError, OpenError};
use gigae_host::netdevice;
use gigae_netlink::Rtnetlink;
use gigae_wire::MacAddr;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// `ARPHRD_ETHER` and `ARPHRD_LOOPBACK` of linux/if_arp.h: the hardware types with Ethernet
/// headers.
const ETHERNET_TYPES: [u16; 2] = [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK];

/// One network interface of the namespace in which it was found.
#[derive(Debug)]
pub struct Interface {
    /// Its name when it was found.
    pub name: String,
    /// Its index in its namespace.
    pub index: u32,
    /// Its own address.
    pub mac: MacAddr,
    /// Longest payload of a frame in bytes, Ethernet header and FCS not counted.
    pub mtu: usize,
    /// Index of the NIC that carries its frames, if it is a macvlan.
    pub lower: Option<u32>,
    /// The socket through which it is looked at, by this process or another that gets it with the
    /// rest.
    pub control: OwnedFd,
}

impl Interface {
    /// Finds an interface that is up, by name, in the calling thread's network namespace.
    ///
    /// Six system calls; no privileges. Fails when there is no such interface, when it is down and
    /// when it is not Ethernet.
    pub fn find(name: &str) -> Result<Self, OpenError> {
        let io = |what| move |e: Errno| OpenError::Io { what, source: e.into() };
        let control = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(io("opening a socket to look at interfaces"))?;
        let absent = || {
            let existing = gigae_host::proc::net::interfaces().unwrap_or_default();
            OpenError::NoInterface { name: name.to_owned(), existing }
        };
        let index = rustix::net::netdevice::name_to_index(&control, name).map_err(|e| match e {
            Errno::NODEV | Errno::INVAL | Errno::NAMETOOLONG => absent(),
            other => io("looking up the interface")(other),
        })?;
        let mut interface = Self {
            name: name.to_owned(),
            index,
            mac: MacAddr::default(),
            mtu: 0,
            control,
            lower: None,
        };
        interface.read(name).map_err(|e| match e {
            Errno::NODEV => absent(),
            Errno::MEDIUMTYPE => io("using an interface that is not Ethernet")(e),
            other => io("looking up the interface")(other),
        })?;
        if interface.driver().as_deref() == Some("macvlan") {
            interface.lower = lower(index);
        }
        interface.check().map_err(|e| match e {
            LinkError::Down(name) => OpenError::InterfaceDown(name),
            LinkError::Gone(_) | LinkError::Detached(_) => absent(),
            LinkError::Io { what, source } => OpenError::Io { what, source },
        })?;
        Ok(interface)
    }

    /// Whether the interface still exists and is up, and so is the NIC that carries its frames if
    /// it is a macvlan. Two system calls, two more for such a NIC.
    pub fn check(&self) -> Result<(), LinkError> {
        let check = |index| match self.flags(index) {
            Ok(flags) if flags & libc::IFF_UP != 0 => Ok(()),
            Ok(_) => Err(LinkError::Down(self.name_of(index).unwrap_or(self.name.clone()))),
            Err(Errno::NODEV) => Err(LinkError::Gone(self.name.clone())),
            Err(e) => Err(LinkError::Io { what: "looking at the interface", source: e.into() }),
        };
        check(self.index)?;
        self.lower.map_or(Ok(()), check)
    }

    /// Whether the interface has a carrier (`IFF_RUNNING`): a cable, or a peer that is up. Two
    /// system calls.
    pub fn has_carrier(&self) -> bool {
        self.flags(self.index).is_ok_and(|flags| flags & libc::IFF_RUNNING != 0)
    }

    /// Name of the driver ("veth", "igb"), if it has one (ethtool -i). Two system calls.
    pub fn driver(&self) -> Option<String> {
        let name = self.name_of(self.index).ok()?;
        netdevice::driver(&self.control, &name).ok()?.driver
    }

    fn read(&mut self, name: &str) -> Result<(), Errno> {
        let (kind, mac) = netdevice::hardware(&self.control, name)?;
        if !ETHERNET_TYPES.contains(&kind) {
            return Err(Errno::MEDIUMTYPE);
        }
        self.mac = MacAddr(mac);
        self.mtu = netdevice::mtu(&self.control, name)? as usize;
        Ok(())
    }

    /// Under the name that the interface has now: names change, indices do not.
    fn flags(&self, index: u32) -> Result<i32, Errno> {
        netdevice::flags(&self.control, &self.name_of(index)?)
    }

    fn name_of(&self, index: u32) -> Result<String, Errno> {
        rustix::net::netdevice::index_to_name(&self.control, index)
    }
}

/// Index of the NIC under a macvlan, unless that lies in another namespace.
fn lower(index: u32) -> Option<u32> {
    Rtnetlink::open().ok()?.link(index).ok()?.lower
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_interface_is_reported_with_those_there_are() {
        let error = Interface::find("no-such-nic").unwrap_err().to_string();
        assert!(error.contains("no-such-nic") && error.contains("lo"), "{error}");
        let error = Interface::find("a-name-far-too-long-for-linux").unwrap_err();
        assert!(matches!(error, OpenError::NoInterface { .. }), "{error}");
    }

    #[test]
    fn the_loopback_is_found_with_its_mtu() {
        let lo = Interface::find("lo").unwrap();
        assert!(lo.mtu > 1500 && lo.index > 0 && lo.has_carrier());
        lo.check().unwrap();
    }
}
