//! Other machines and interfaces, as options and the cluster file name them.

use gigae::{Cluster, ClusterError};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// The cluster file, where one is named or needed for the interface.
pub(crate) fn cluster(
    file: Option<&Path>,
    nic: Option<&str>,
) -> Result<Option<Cluster>, ClusterError> {
    match (file, nic) {
        (Some(file), _) => Cluster::read(file).map(Some),
        (None, None) => Cluster::load().map(Some),
        (None, Some(_)) => Ok(None),
    }
}

/// The interfaces that were named, else the cluster file's, which is there then.
pub(crate) fn interface(
    nic: Option<&str>,
    cluster: Option<Cluster>,
) -> Result<String, ClusterError> {
    match (nic, cluster) {
        (None, Some(cluster)) => Ok(cluster.interfaces()?.join(",")),
        (nic, _) => Ok(nic.unwrap_or_default().to_owned()),
    }
}

/// An address stays as it is; anything else is a node's name, with a port behind it or not.
pub(crate) fn host_of(peer: &str, cluster: &Cluster) -> Result<String, ClusterError> {
    if peer.parse::<IpAddr>().is_ok() || peer.parse::<SocketAddr>().is_ok() {
        return Ok(peer.to_owned());
    }
    let (name, port) = match peer.rsplit_once(':').map(|(name, port)| (name, port.parse())) {
        Some((name, Ok(port))) => (name, Some(port)),
        _ => (peer, None),
    };
    let ip = cluster.ip(name)?;
    Ok(port.map_or_else(|| ip.to_string(), |port| SocketAddr::new(ip, port).to_string()))
}
