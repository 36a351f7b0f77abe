//! Where an end is: in a node of a virtual network, or on this machine as it is.

use crate::error::ServiceError;
use gigae_eval_measure::site::Site;
use gigae_fabric::{FabricError, Node};
use gigae_host::netns::NetnsGuard;
use std::net::{IpAddr, Ipv4Addr};

/// A place for servers or clients.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its address.
    pub ip: Ipv4Addr,
    /// Its MAC address.
    pub mac: [u8; 6],
    interfaces: Vec<String>,
    /// Absent: it is the calling thread's network.
    node: Option<Node>,
}

impl Host {
    /// This machine, by its measured interfaces.
    pub fn this(site: &Site) -> Result<Self, ServiceError> {
        match site.ip {
            IpAddr::V4(ip) => {
                let interfaces = site.interfaces().map(str::to_owned).collect();
                Ok(Self { ip, mac: site.mac, interfaces, node: None })
            }
            IpAddr::V6(_) => Err(ServiceError::Unavailable(format!(
                "file services need IPv4; give {} an address",
                site.interface
            ))),
        }
    }

    /// The names of its interfaces.
    pub fn interfaces(&self) -> &[String] {
        &self.interfaces
    }

    /// Moves the calling thread there until the guard is dropped, unless it is there.
    pub fn enter(&self) -> Result<Option<NetnsGuard>, FabricError> {
        self.node.as_ref().map(Node::enter).transpose()
    }
}

impl From<Node> for Host {
    fn from(node: Node) -> Self {
        let (ip, mac, interfaces) = (node.ipv4, node.mac, node.interfaces());
        Self { ip, mac, interfaces, node: Some(node) }
    }
}
