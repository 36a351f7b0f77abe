//! The interfaces of this host: their names, MAC addresses and IP addresses, asked of the kernel.
//! It does not follow changes.

use crate::resolve::neighbour;
use gigae_netlink::{InterfaceInfo, Rtnetlink};
use gigae_wire::MacAddr;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// An interface of the calling thread's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    pub(crate) name: String,
    index: u32,
    pub(crate) mac: Option<MacAddr>,
    pub(crate) subnets: Vec<Subnet>,
}

/// An address with the length of its prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subnet {
    pub(crate) ip: IpAddr,
    pub(crate) prefix: u8,
}

/// All interfaces, in the kernel's order. Some ten system calls; no privileges.
pub(crate) fn interfaces() -> io::Result<Vec<Local>> {
    let kernel = Rtnetlink::open()?;
    let mut all: Vec<_> = kernel.links()?.into_iter().map(Local::from).collect();
    for address in kernel.addresses()? {
        if let Some(local) = all.iter_mut().find(|local| local.index == address.index) {
            local.subnets.push(Subnet { ip: address.ip, prefix: address.prefix });
        }
    }
    Ok(all)
}

/// The MAC address of the node that has an IP address on the network of an interface: this node, or
/// a neighbour that the kernel knows or finds. Looking for it may take a second.
pub fn mac_of(ip: IpAddr, interface: &str) -> io::Result<MacAddr> {
    match interfaces()?.into_iter().find(|local| local.addresses().contains(&ip)) {
        Some(own) => own.mac.filter(|_| own.name == interface).ok_or_else(|| {
            let text = format!("{ip} is an address of this node, but not of '{interface}'");
            io::Error::new(io::ErrorKind::NotFound, text)
        }),
        None => neighbour(ip, interface),
    }
}

/// The IP address by which peers name an endpoint on an interface in the UDP envelope: an IPv4
/// address, or else an IPv6 address that is not link-local. `None` if the interface has neither.
pub fn ip_of(interface: &str) -> Option<IpAddr> {
    interfaces().ok()?.into_iter().find(|local| local.name == interface)?.ip()
}

impl From<InterfaceInfo> for Local {
    fn from(link: InterfaceInfo) -> Self {
        // The loopback's is all zeros, which is not a node's address.
        let mac = link.mac.map(MacAddr).filter(|mac| *mac != MacAddr::default());
        Self { name: link.name, index: link.index, mac, subnets: Vec::new() }
    }
}

impl Local {
    #[cfg(test)]
    pub(crate) fn new(name: &str, mac: Option<MacAddr>, subnets: Vec<Subnet>) -> Self {
        Self { name: name.into(), index: 0, mac, subnets }
    }

    /// The address by which others name it: IPv4 if there is one, and none that needs a scope.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        let is_reported = |ip: &IpAddr| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
        self.subnets.iter().map(|subnet| subnet.ip).filter(is_reported).min_by_key(IpAddr::is_ipv6)
    }

    /// All its addresses.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.subnets.iter().map(|subnet| subnet.ip).collect()
    }

    /// Whether this address is the interface's own.
    pub(crate) fn has(&self, ip: IpAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.ip == ip)
    }
}

impl Subnet {
    /// Its own IPv4 address and the one to which all nodes of the subnet listen (RFC 919); `None`
    /// over IPv6, which has none, and where the subnet is too small to have one (RFC 3021).
    pub(crate) fn broadcast(&self) -> Option<(Ipv4Addr, Ipv4Addr)> {
        let IpAddr::V4(own) = self.ip else { return None };
        let hosts = self.hosts()?;
        Some((own, Ipv4Addr::from_bits(own.to_bits() | hosts)))
    }

    /// Whether another node of this subnet may have this address.
    pub(crate) fn has_neighbour(&self, ip: IpAddr) -> bool {
        let (IpAddr::V4(own), IpAddr::V4(ip), Some(hosts)) = (self.ip, ip, self.hosts()) else {
            return false;
        };
        let (own, ip) = (own.to_bits(), ip.to_bits());
        own & !hosts == ip & !hosts && ip & hosts != 0 && ip & hosts != hosts && ip != own
    }

    /// The bits of an IPv4 address in which the subnet's nodes differ.
    fn hosts(&self) -> Option<u32> {
        (self.ip.is_ipv4() && self.prefix < 31).then(|| u32::MAX >> self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(ip: &str, prefix: u8) -> Subnet {
        Subnet { ip: ip.parse().unwrap(), prefix }
    }

    #[test]
    fn the_loopback_is_found_with_its_addresses() {
        let all = interfaces().unwrap();
        let lo = all.iter().find(|local| local.name == "lo").unwrap();
        assert!(lo.has(Ipv4Addr::LOCALHOST.into()));
        assert_eq!((lo.mac, lo.ip()), (None, Some(Ipv4Addr::LOCALHOST.into())));
    }

    #[test]
    fn a_subnet_knows_its_broadcast_address_and_who_may_be_on_it() {
        let (own, all) = subnet("198.18.0.5", 24).broadcast().unwrap();
        assert_eq!(
            (own.to_string(), all.to_string()),
            ("198.18.0.5".into(), "198.18.0.255".into())
        );
        for (ip, is) in [
            ("198.18.0.1", true),
            ("198.18.0.5", false),
            ("198.18.0.0", false),
            ("198.18.0.255", false),
            ("198.18.1.1", false),
            ("255.255.255.255", false),
            ("224.0.0.1", false),
            ("fd00::1", false),
        ] {
            assert_eq!(subnet("198.18.0.5", 24).has_neighbour(ip.parse().unwrap()), is, "{ip}");
        }
        for (ip, prefix) in [("198.18.0.5", 31), ("198.18.0.5", 32), ("fd00::5", 64)] {
            assert_eq!(subnet(ip, prefix).broadcast(), None);
        }
    }
}
