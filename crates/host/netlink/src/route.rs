//! IP addresses of interfaces, routes and neighbours.

use crate::Result;
use crate::rtnetlink::{Rtnetlink, unexpected};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;
use std::net::IpAddr;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The interface.
    pub index: u32,
    /// The address.
    pub ip: IpAddr,
    /// Length of its prefix in bits.
    pub prefix: u8,
}

/// The route that the kernel would take to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteInfo {
    /// Whether it leads to a node at all.
    pub kind: RouteType,
    /// This node's address that the kernel would choose.
    pub source: Option<IpAddr>,
    /// The router, if the node is not on the link itself. It may be of the other IP version.
    pub gateway: Option<IpAddr>,
    /// Index of the interface.
    pub interface: Option<u32>,
    /// The table in which it is; 0 if in none.
    pub table: u32,
}

impl Rtnetlink {
    /// The addresses of all interfaces. Three system calls or more; no privileges.
    pub fn addresses(&self) -> Result<Vec<InterfaceAddress>> {
        let all = self.socket.list(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        let address = |message| match message {
            RouteNetlinkMessage::NewAddress(address) => read_address(&address),
            _ => None,
        };
        Ok(all.into_iter().filter_map(address).collect())
    }

    /// Gives an interface one more address. Needs `CAP_NET_ADMIN`.
    pub fn add_address(&self, new: &InterfaceAddress) -> Result<()> {
        let mut address = AddressMessage::default();
        address.header.family = AddressFamily::from(new.ip);
        address.header.prefix_len = new.prefix;
        address.header.index = new.index;
        address.attributes =
            vec![AddressAttribute::Local(new.ip), AddressAttribute::Address(new.ip)];
        let request = RouteNetlinkMessage::NewAddress(address);
        self.socket.change(request, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// The route to an address, over this interface if one is given. Two system calls; no
    /// privileges.
    pub fn route(&self, to: IpAddr, interface: Option<u32>) -> Result<RouteInfo> {
        let mut request = RouteMessage::default();
        request.header.address_family = AddressFamily::from(to);
        request.header.destination_prefix_length = if to.is_ipv4() { 32 } else { 128 };
        // Makes the kernel name the table in which it found the route.
        request.header.flags = RouteFlags::LookupTable;
        request.attributes.push(RouteAttribute::Destination(to.into()));
        request.attributes.extend(interface.map(RouteAttribute::Oif));
        match self.socket.ask(RouteNetlinkMessage::GetRoute(request))? {
            RouteNetlinkMessage::NewRoute(route) => Ok(RouteInfo::from(&route)),
            other => Err(unexpected(&other)),
        }
    }

    /// The MAC address of a neighbour on an interface, if the kernel has one that can be sent to.
    /// Two system calls; no privileges. Since Linux 5.0.
    pub fn neighbour(&self, ip: IpAddr, interface: u32) -> Result<Option<[u8; 6]>> {
        let request = neighbour(ip, interface);
        match self.socket.ask(RouteNetlinkMessage::GetNeighbour(request)) {
            Ok(RouteNetlinkMessage::NewNeighbour(entry)) => Ok(usable_mac(&entry)),
            Ok(other) => Err(unexpected(&other)),
            Err(error) if error.errno() == Errno::NOENT => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the kernel know a neighbour for good. Needs `CAP_NET_ADMIN`.
    pub fn set_neighbour(&self, ip: IpAddr, interface: u32, mac: [u8; 6]) -> Result<()> {
        let mut entry = neighbour(ip, interface);
        entry.header.state = NeighbourState::Permanent;
        entry.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
        let request = RouteNetlinkMessage::NewNeighbour(entry);
        self.socket.change(request, NLM_F_CREATE | NLM_F_REPLACE)
    }
}

/// `IFA_LOCAL` where there is one: `IFA_ADDRESS` is the other end of a point-to-point link then.
fn read_address(message: &AddressMessage) -> Option<InterfaceAddress> {
    let find =
        |which: fn(&AddressAttribute) -> Option<IpAddr>| message.attributes.iter().find_map(which);
    let ip = find(|a| if let AddressAttribute::Local(ip) = a { Some(*ip) } else { None })
        .or_else(|| find(|a| if let AddressAttribute::Address(ip) = a { Some(*ip) } else { None }));
    Some(InterfaceAddress {
        index: message.header.index,
        ip: ip?,
        prefix: message.header.prefix_len,
    })
}

impl From<&RouteMessage> for RouteInfo {
    fn from(message: &RouteMessage) -> Self {
        let (kind, table) = (message.header.kind, u32::from(message.header.table));
        let mut route = Self { kind, source: None, gateway: None, interface: None, table };
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::PrefSource(RouteAddress::Inet(ip)) => {
                    route.source = Some(IpAddr::V4(*ip));
                }
                RouteAttribute::PrefSource(RouteAddress::Inet6(ip)) => {
                    route.source = Some(IpAddr::V6(*ip));
                }
                RouteAttribute::Gateway(RouteAddress::Inet(ip))
                | RouteAttribute::Via(RouteVia::Inet(ip)) => route.gateway = Some(IpAddr::V4(*ip)),
                RouteAttribute::Gateway(RouteAddress::Inet6(ip))
                | RouteAttribute::Via(RouteVia::Inet6(ip)) => route.gateway = Some(IpAddr::V6(*ip)),
                RouteAttribute::Oif(number) => route.interface = Some(*number),
                RouteAttribute::Table(number) => route.table = *number,
                _ => {}
            }
        }
        route
    }
}

fn neighbour(ip: IpAddr, interface: u32) -> NeighbourMessage {
    let mut entry = NeighbourMessage::default();
    entry.header.family = AddressFamily::from(ip);
    entry.header.ifindex = interface;
    entry.attributes.push(NeighbourAttribute::Destination(NeighbourAddress::from(ip)));
    entry
}

/// The MAC address in an entry with one that can be sent to: `NUD_VALID` of the kernel's
/// net/neighbour.h.
fn usable_mac(entry: &NeighbourMessage) -> Option<[u8; 6]> {
    match entry.header.state {
        NeighbourState::Reachable
        | NeighbourState::Stale
        | NeighbourState::Delay
        | NeighbourState::Probe
        | NeighbourState::Permanent
        | NeighbourState::Noarp => {}
        _ => return None,
    }
    entry.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(bytes) => bytes.as_slice().try_into().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_route_has_its_source_its_table_and_a_gateway_of_either_version() {
        let mut message = RouteMessage::default();
        (message.header.kind, message.header.table) = (RouteType::Unicast, 254);
        message.attributes =
            vec![RouteAttribute::Oif(7), RouteAttribute::PrefSource(ip("198.18.0.1").into())];
        let plain = RouteInfo {
            kind: RouteType::Unicast,
            source: Some(ip("198.18.0.1")),
            gateway: None,
            interface: Some(7),
            table: 254,
        };
        assert_eq!(RouteInfo::from(&message), plain);
        message.attributes.push(RouteAttribute::Table(1000));
        message.attributes.push(RouteAttribute::Via(RouteVia::Inet6("fe80::9".parse().unwrap())));
        let over = RouteInfo { gateway: Some(ip("fe80::9")), table: 1000, ..plain };
        assert_eq!(RouteInfo::from(&message), over);
        message.attributes.push(RouteAttribute::Gateway(ip("198.18.0.9").into()));
        assert_eq!(RouteInfo::from(&message).gateway, Some(ip("198.18.0.9")));
    }

    #[test]
    fn an_address_of_a_point_to_point_link_is_the_own_end() {
        let mut message = AddressMessage::default();
        (message.header.index, message.header.prefix_len) = (3, 31);
        assert_eq!(read_address(&message), None);
        message.attributes.push(AddressAttribute::Address(ip("198.18.0.2")));
        assert_eq!(read_address(&message).unwrap().ip, ip("198.18.0.2"));
        message.attributes.push(AddressAttribute::Local(ip("198.18.0.3")));
        let own = InterfaceAddress { index: 3, ip: ip("198.18.0.3"), prefix: 31 };
        assert_eq!(read_address(&message), Some(own));
    }

    #[test]
    fn only_a_neighbour_with_a_confirmed_mac_address_is_used() {
        use NeighbourState::*;
        let entry = |state, mac: &[u8]| {
            let mut entry = NeighbourMessage::default();
            entry.header.state = state;
            entry.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
            usable_mac(&entry)
        };
        for state in [Reachable, Stale, Delay, Probe, Permanent, Noarp] {
            assert_eq!(entry(state, &MAC), Some(MAC), "{state:?}");
        }
        for state in [Incomplete, Failed, None, Other(0x300)] {
            assert_eq!(entry(state, &MAC), Option::None, "{state:?}");
        }
        assert_eq!(entry(Reachable, &MAC[..4]), Option::None, "no Ethernet");
    }

    #[test]
    fn the_loopback_has_its_address() {
        let lo = InterfaceAddress { index: 1, ip: ip("127.0.0.1"), prefix: 8 };
        assert!(Rtnetlink::open().unwrap().addresses().unwrap().contains(&lo));
    }
}
