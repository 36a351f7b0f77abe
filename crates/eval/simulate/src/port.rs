//! Names of ports, as people write them: `host-0`, `to-host-0`, `leaf-1-spine-0`, `spine-0-leaf-1`.

use crate::plan::NetworkPlan;
use gigae_network::{PortId, Topology};
use std::fmt;
use std::str::FromStr;

/// A port: the direction of a link in which it sends. Numbers begin at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortName {
    /// A host's NIC.
    Host(u32),
    /// The port of a switch that leads to a host.
    ToHost(u32),
    /// From a leaf to a spine.
    Up {
        /// The leaf.
        leaf: u32,
        /// The spine.
        spine: u32,
    },
    /// From a spine to a leaf.
    Down {
        /// The spine.
        spine: u32,
        /// The leaf.
        leaf: u32,
    },
}

/// A port's name that cannot be used. The text is one line and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortNameError {
    /// Not a name of a port.
    #[error("no port '{0}'; write host-0 (its NIC), to-host-0, leaf-0-spine-0 or spine-0-leaf-0")]
    Unknown(String),
    /// No such port in this network.
    #[error("the network of '{workload}' has no port '{port}'; it has {has}")]
    Absent {
        /// The port.
        port: PortName,
        /// The workload.
        workload: String,
        /// Which ports there are.
        has: String,
    },
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(f, "host-{host}"),
            Self::ToHost(host) => write!(f, "to-host-{host}"),
            Self::Up { leaf, spine } => write!(f, "leaf-{leaf}-spine-{spine}"),
            Self::Down { spine, leaf } => write!(f, "spine-{spine}-leaf-{leaf}"),
        }
    }
}

impl FromStr for PortName {
    type Err = PortNameError;

    fn from_str(text: &str) -> Result<Self, PortNameError> {
        let unknown = || PortNameError::Unknown(text.to_owned());
        let number = |text: &str| text.parse::<u32>().map_err(|_| unknown());
        match text.split('-').collect::<Vec<_>>()[..] {
            ["host", host] => Ok(Self::Host(number(host)?)),
            ["to", "host", host] => Ok(Self::ToHost(number(host)?)),
            ["leaf", leaf, "spine", spine] => {
                Ok(Self::Up { leaf: number(leaf)?, spine: number(spine)? })
            }
            ["spine", spine, "leaf", leaf] => {
                Ok(Self::Down { spine: number(spine)?, leaf: number(leaf)? })
            }
            _ => Err(unknown()),
        }
    }
}

/// The numbers of leaves, hosts on each, and spines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) leaves: u32,
    pub(crate) hosts_per_leaf: u32,
    pub(crate) spines: u32,
}

impl Shape {
    /// Of a network with so many hosts.
    pub(crate) fn new(network: &NetworkPlan, hosts: u32) -> Self {
        let leaves = network.leaves.unwrap_or(1);
        let spines = network.spines.unwrap_or(0);
        Self { leaves, hosts_per_leaf: hosts / leaves, spines }
    }

    /// The ports of switches by tier, with the tier's name.
    pub(crate) fn tiers(self) -> Vec<(&'static str, Vec<PortName>)> {
        let hosts = 0..self.leaves * self.hosts_per_leaf;
        let mut tiers = vec![("switch to host", hosts.map(PortName::ToHost).collect())];
        if self.spines > 0 {
            let up = |leaf| (0..self.spines).map(move |spine| PortName::Up { leaf, spine });
            let down = |spine| (0..self.leaves).map(move |leaf| PortName::Down { spine, leaf });
            tiers.push(("leaf to spine", (0..self.leaves).flat_map(up).collect()));
            tiers.push(("spine to leaf", (0..self.spines).flat_map(down).collect()));
        }
        tiers
    }

    /// A port's number, if there is such a port.
    pub(crate) fn port(self, name: PortName, topology: &Topology) -> Option<PortId> {
        let hosts = topology.hosts();
        let core = |leaf, spine| leaf < self.leaves && spine < self.spines;
        match name {
            PortName::Host(host) => (host < hosts).then_some(host),
            PortName::ToHost(host) => (host < hosts).then(|| topology.port_to(host)),
            PortName::Up { leaf, spine } => core(leaf, spine)
                .then(|| topology.ports_of(leaf).start + self.hosts_per_leaf + spine),
            PortName::Down { spine, leaf } => {
                core(leaf, spine).then(|| topology.ports_of(self.leaves + spine).start + leaf)
            }
        }
    }

    /// Which ports there are, for people.
    pub(crate) fn ports(self) -> String {
        let last = self.leaves * self.hosts_per_leaf - 1;
        let mut text = format!("host-0 to host-{last}, to-host-0 to to-host-{last}");
        if self.spines > 0 {
            let (leaf, spine) = (self.leaves - 1, self.spines - 1);
            text += &format!(", leaf-0-spine-0 to leaf-{leaf}-spine-{spine} and the way back");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_network::{LeafSpine, Time};

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in ["host-3", "to-host-0", "leaf-2-spine-1", "spine-1-leaf-2"] {
            assert_eq!(text.parse::<PortName>().unwrap().to_string(), text);
        }
        for text in ["host", "host-x", "leaf-1", "leaf-1-leaf-2", ""] {
            assert!(text.parse::<PortName>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_mean_the_ports_of_paths() {
        let topology = Topology::leaf_spine(LeafSpine::published(), Time::ZERO);
        let shape = Shape { leaves: 9, hosts_per_leaf: 16, spines: 4 };
        let port = |name: &str| shape.port(name.parse().unwrap(), &topology);
        for flow in 0..20 {
            let path = topology.path(17, 100, flow);
            let spine =
                (0..4).find(|spine| port(&format!("leaf-1-spine-{spine}")) == Some(path[1]));
            let spine = spine.unwrap();
            let names = ["host-17".into(), format!("leaf-1-spine-{spine}")];
            let names = names.into_iter().chain([format!("spine-{spine}-leaf-6")]);
            let ports: Vec<_> =
                names.chain(["to-host-100".into()]).map(|name| port(&name)).collect();
            assert_eq!(ports, path.into_iter().map(Some).collect::<Vec<_>>());
        }
        assert_eq!(port("to-host-144"), None);
        assert_eq!(port("leaf-0-spine-4"), None);
        let named: usize = shape.tiers().iter().map(|(_, ports)| ports.len()).sum();
        assert_eq!(named, 144 + 36 + 36);
    }
}
