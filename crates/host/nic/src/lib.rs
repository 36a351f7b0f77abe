//! What network interfaces this machine has: the inventory of the papers' Table 1, for today.
//!
//! Everything is read in the calling thread's network namespace, by the `SIOCETHTOOL` ioctl, so it
//! works inside a fabric's node, where `/sys/class/net` shows another namespace. What belongs to
//! the device and not to the namespace (PCIe lanes, interrupts, NUMA node) comes from
//! `/sys/bus/pci/devices`. Nothing is changed, and no privilege is needed.
//!
//! It does not try XDP out: [`Xdp`] is what the driver announces, and which mode is really reached
//! only an attempt can say ([`Nic::xdp_mode`], filled in by the caller that makes the attempt).

mod data;
pub mod ethtool;
mod pci;
mod table;
mod xdp;

use std::io;

pub use data::{Bus, Coalescing, Level, Nic, Offloads, Pcie, Queues, Rings, Xdp};
pub use pci::irqs;
pub use table::table;

use ethtool::Ethtool;

/// Why the inventory could not be taken; one line each.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NicError {
    /// There is no interface of this name.
    #[error("there is no interface {name:?} here; choose one of: {}", .existing.join(", "))]
    Unknown {
        /// The name asked for.
        name: String,
        /// Those that exist.
        existing: Vec<String>,
    },
    /// The kernel refused something.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Describes the interface `iface`, or all Ethernet interfaces of the calling thread's network
/// namespace, sorted by name (the loopback only when asked for).
///
/// Costs about fifteen system calls per interface and a look into `/sys/bus/pci`.
pub fn inventory(iface: Option<&str>) -> Result<Vec<Nic>, NicError> {
    let system = |what| move |source| NicError::System { what, source };
    let mut existing =
        gigae_host::proc::net::interfaces().map_err(system("listing the interfaces"))?;
    existing.sort();
    let socket = Ethtool::new().map_err(system("opening a socket for ethtool"))?;
    match iface {
        Some(name) if !existing.iter().any(|other| other == name) => {
            Err(NicError::Unknown { name: name.to_owned(), existing })
        }
        Some(name) => Ok(vec![describe(&socket, name)]),
        None => Ok(existing
            .iter()
            .filter(|name| socket.is_ethernet(name))
            .map(|name| describe(&socket, name))
            .collect()),
    }
}

/// The driver's own counters (`ethtool -S`), by the driver's names; none where it has none.
pub fn statistics(name: &str) -> Vec<(String, u64)> {
    Ethtool::new().ok().and_then(|socket| socket.statistics(name)).unwrap_or_default()
}

/// Gives the interface one pair of queues (`ethtool -L NAME combined 1`), so that every frame comes
/// to the first. Nothing is done where there are no pairs; a driver that cannot change them says
/// `EOPNOTSUPP`.
pub fn use_one_queue(name: &str) -> io::Result<()> {
    Ethtool::new()?.set_pairs(name, 1)
}

/// Every question that a driver does not answer leaves its part empty.
fn describe(socket: &Ethtool, name: &str) -> Nic {
    let info = socket.driver(name).unwrap_or_default();
    let device = pci::find(&info.bus);
    let link = socket.link(name).unwrap_or_default();
    let virtio = info.driver.as_deref() == Some("virtio_net");
    Nic {
        name: name.to_owned(),
        bus: match (&device, info.bus) {
            (_, Some(address)) if virtio => Bus::Virtio(address),
            (Some(_), Some(address)) => Bus::Pci(address),
            (None, Some(address)) => Bus::Other(address),
            (_, None) => Bus::Virtual,
        },
        driver: info.driver,
        version: info.version,
        firmware: info.firmware,
        pcie: device.as_deref().and_then(pci::lanes),
        mac: socket.mac(name),
        mtu: socket.mtu(name),
        speed_mbit: link.speed_mbit,
        full_duplex: link.full_duplex,
        link_up: socket.is_running(name),
        queues: socket.queues(name),
        rings: socket.rings(name),
        coalescing: socket.coalescing(name),
        offloads: socket.offloads(name),
        irqs: device.as_deref().map(pci::irqs).unwrap_or_default(),
        numa_node: device.as_deref().and_then(pci::numa_node),
        xdp: socket.index(name).and_then(xdp::features),
        xdp_mode: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_interface_is_refused_with_the_list_of_those_that_exist() {
        let message = inventory(Some("gigae-none")).unwrap_err().to_string();
        assert!(message.contains("gigae-none") && message.contains("lo"), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }

    #[test]
    fn the_loopback_is_described_when_asked_for() {
        let nic = inventory(Some("lo")).unwrap().remove(0);
        assert_eq!((nic.name.as_str(), &nic.bus, nic.pcie), ("lo", &Bus::Virtual, None));
        assert!(nic.offloads.unwrap().tso);
        assert!(nic.mtu.unwrap() >= 1500);
        assert!(inventory(None).unwrap().iter().all(|nic| nic.name != "lo"));
    }

    #[test]
    fn a_description_survives_json() {
        let nic = Nic { bus: Bus::Pci("0000:01:00.0".into()), ..Nic::default() };
        let text = serde_json::to_string(&nic).unwrap();
        assert!(text.contains(r#""bus":{"kind":"pci","address":"0000:01:00.0"}"#), "{text}");
        assert_eq!(serde_json::from_str::<Nic>(&text).unwrap(), nic);
        let bus = serde_json::to_string(&Bus::Virtual).unwrap();
        assert_eq!(serde_json::from_str::<Bus>(&bus).unwrap(), Bus::Virtual);
    }
}
