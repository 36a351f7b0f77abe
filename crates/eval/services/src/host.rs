//! Where an end is: in a node of a virtual network, in a network namespace that somebody else has
//! made, or on this machine as it is.

use crate::error::ServiceError;
use gigae_eval_measure::site::Site;
use gigae_fabric::{FabricError, Node};
use gigae_host::netns::{self, NetnsGuard};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::sync::Arc;

/// A place for servers or clients.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its address.
    pub ip: Ipv4Addr,
    /// Its MAC address.
    pub mac: [u8; 6],
    interfaces: Vec<String>,
    network: Network,
}

/// The network of an end.
#[derive(Clone, Debug)]
enum Network {
    /// That of the calling thread.
    Own,
    Node(Node),
    Namespace(Arc<File>),
}

impl Host {
    /// This machine, by its measured interfaces.
    pub fn this(site: &Site) -> Result<Self, ServiceError> {
        match site.ip {
            IpAddr::V4(ip) => {
                let interfaces = site.interfaces().map(str::to_owned).collect();
                Ok(Self { ip, mac: site.mac, interfaces, network: Network::Own })
            }
            IpAddr::V6(_) => Err(ServiceError::Unavailable(format!(
                "file services need IPv4; give {} an address",
                site.interface
            ))),
        }
    }

    /// Another network namespace of this machine, in which it has these interfaces; the addresses
    /// are the first one's.
    pub fn in_namespace(
        ip: Ipv4Addr,
        mac: [u8; 6],
        interfaces: Vec<String>,
        namespace: File,
    ) -> Self {
        Self { ip, mac, interfaces, network: Network::Namespace(Arc::new(namespace)) }
    }

    /// The names of its interfaces.
    pub fn interfaces(&self) -> &[String] {
        &self.interfaces
    }

    /// Moves the calling thread there until the guard is dropped, unless it is there.
    pub fn enter(&self) -> Result<Option<NetnsGuard>, FabricError> {
        match &self.network {
            Network::Own => Ok(None),
            Network::Node(node) => node.enter().map(Some),
            Network::Namespace(namespace) => {
                let what = || "entering the namespace of an end".to_owned();
                let entered = netns::enter(namespace.as_fd());
                entered.map(Some).map_err(|source| FabricError::System { what: what(), source })
            }
        }
    }
}

impl From<Node> for Host {
    fn from(node: Node) -> Self {
        let (ip, mac, interfaces) = (node.ipv4, node.mac, node.interfaces());
        Self { ip, mac, interfaces, network: Network::Node(node) }
    }
}
