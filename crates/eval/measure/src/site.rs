//! One end of a measurement: an interface, its addresses, and the CPU that its loop is pinned to.
//!
//! Everything is asked for from within the calling thread's network namespace; `/sys/class/net` is
//! avoided, because a thread that entered a namespace still sees the former one there.

use crate::shared_port::SharedPort;
use gigae_host::affinity;
use gigae_netlink::Rtnetlink;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Where an end measures.
#[derive(Clone, Debug)]
pub struct Site {
    /// The interface that carries the measured traffic; of several, the first, whose addresses
    /// count.
    pub interface: String,
    /// Those that are used together with it by transports that can.
    pub further: Vec<String>,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its IP address: IPv4 if it has one.
    pub ip: IpAddr,
    /// Its MTU in bytes; of several, the shortest.
    pub mtu: usize,
    /// The CPU for the measuring thread; `None` leaves it to the scheduler.
    pub cpu: Option<usize>,
    /// The number of the measuring thread among those that measure at once, from 0. Each has its
    /// own channel, and its own queue of the interface where it uses one.
    pub thread: u8,
    /// Whether the interface is a virtual one of our own, which has no interrupt lines.
    pub virtual_link: bool,
    /// Congestion control of its TCP sockets; absent: that of all figures that are to be compared.
    pub congestion: Option<String>,
    /// The only port by which peers can reach this end, if there is such a limit.
    pub shared_port: Option<Arc<SharedPort>>,
}

/// Where the peer of an end can be reached by the measured traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelAddress {
    /// IP address.
    pub ip: IpAddr,
    /// TCP or UDP port, zero where the transport uses no port.
    pub port: u16,
    /// TCP port for bulk streams beside the measurement, zero where there are none.
    pub bulk: u16,
    /// Ethernet address.
    pub mac: [u8; 6],
}

/// An interface could not be used. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// There is no such interface.
    #[error("no interface '{name}' here; choose one of: {}", .existing.join(", "))]
    NoInterface {
        /// The name asked for.
        name: String,
        /// The names there are.
        existing: Vec<String>,
    },
    /// It has no IP address, which TCP, UDP and ICMP need.
    #[error("interface '{0}' has no IP address; give it one with 'ip address add'")]
    NoAddress(String),
    /// The kernel refused to answer.
    #[error("{what} failed: {source}; check the permissions")]
    Io {
        /// What was asked.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl Site {
    /// Looks an interface up in the calling thread's namespace, or several with commas between
    /// them.
    pub fn find(interfaces: &str) -> Result<Self, SiteError> {
        let (links, addresses) = Rtnetlink::open()
            .and_then(|kernel| Ok((kernel.links()?, kernel.addresses()?)))
            .map_err(|e| SiteError::Io { what: "listing the interfaces", source: e.into() })?;
        let find = |name: &str| {
            links.iter().find(|link| link.name == name).ok_or_else(|| {
                let mut existing: Vec<_> = links.iter().map(|link| link.name.clone()).collect();
                existing.sort();
                SiteError::NoInterface { name: name.to_owned(), existing }
            })
        };
        let all: Vec<_> = interfaces.split(',').map(find).collect::<Result<_, _>>()?;
        let first = all[0];
        let ip = addresses
            .iter()
            .filter(|address| address.index == first.index)
            .map(|address| address.ip)
            // A link-local IPv6 address needs a scope, which the peer cannot know.
            .filter(|ip| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()))
            .min_by_key(IpAddr::is_ipv6)
            .ok_or_else(|| SiteError::NoAddress(first.name.clone()))?;
        let shortest = all.iter().map(|link| link.mtu).min().unwrap_or_default();
        Ok(Self {
            interface: first.name.clone(),
            further: all[1..].iter().map(|link| link.name.clone()).collect(),
            mac: first.mac.unwrap_or_default(),
            ip,
            mtu: shortest as usize,
            cpu: None,
            thread: 0,
            virtual_link: false,
            congestion: None,
            shared_port: None,
        })
    }

    /// All its interfaces, the first one first.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.interface).chain(&self.further).map(String::as_str)
    }

    /// Their names, for people.
    pub fn names(&self) -> String {
        self.interfaces().collect::<Vec<_>>().join(", ")
    }

    /// The same for one of several threads that measure at once: each has the next one of these
    /// CPUs, if there are any.
    pub fn of_thread(&self, number: usize, cpus: &[usize]) -> Self {
        let cpu = cpus.iter().cycle().nth(number).copied().or(self.cpu);
        Self { cpu, thread: number as u8, ..self.clone() }
    }

    /// This end's address with a port.
    pub fn address(&self, port: u16) -> ChannelAddress {
        ChannelAddress { ip: self.ip, port, bulk: 0, mac: self.mac }
    }

    /// Pins the calling thread to this end's CPU, if there is one.
    pub fn pin(&self) -> io::Result<()> {
        self.cpu.map_or(Ok(()), affinity::pin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_loopback_interface_is_found_with_its_address() {
        let site = Site::find("lo").unwrap();
        assert_eq!(site.ip, IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(site.mtu >= 1500);
    }

    #[test]
    fn an_unknown_interface_is_refused_with_the_names_there_are() {
        let error = Site::find("nosuch0").unwrap_err().to_string();
        assert!(error.contains("no interface 'nosuch0'") && error.contains("lo"), "{error}");
        assert_eq!(error.lines().count(), 1);
        let error = Site::find("lo,nosuch1").unwrap_err().to_string();
        assert!(error.contains("no interface 'nosuch1'"), "{error}");
    }

    #[test]
    fn several_interfaces_are_named_with_commas() {
        let site = Site::find("lo,lo").unwrap();
        assert_eq!((site.interface.as_str(), site.names().as_str()), ("lo", "lo, lo"));
        assert_eq!(site.interfaces().count(), 2);
    }
}
