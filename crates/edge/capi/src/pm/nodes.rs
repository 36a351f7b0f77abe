//! The list of nodes. Only this file knows where it comes from.

use super::{Fault, PmResult};
use crate::error::Error;
use gigae::{Cluster, MacAddr};
use std::collections::BTreeMap;
use std::ffi::c_int;

/// The nodes by number, and the other settings of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nodes {
    /// One, or several combined.
    pub(crate) interfaces: Vec<String>,
    pub(crate) checksum: bool,
    pub(crate) nodes: BTreeMap<c_int, MacAddr>,
}

/// Reads the nodes from a file of PM/Ethernet, or otherwise from the cluster file.
pub(crate) fn read(file: Option<&str>) -> PmResult<Nodes> {
    let Some(file) = file else { return from_cluster() };
    let text = std::fs::read_to_string(file)
        .map_err(|e| Error::invalid(format!("the configuration file {file}: {e}")))?;
    Ok(parse(&text)?)
}

/// The nodes in the order of the cluster file, named by their first NICs' MAC addresses, as in PM.
fn from_cluster() -> PmResult<Nodes> {
    let refuse = |e: gigae::ClusterError| Fault::invalid(&e.to_string());
    let cluster = Cluster::load().map_err(refuse)?;
    let interfaces = cluster.interfaces().map_err(refuse)?;
    let numbered = |(number, node): (usize, &gigae::Node)| {
        let mac = node.nics.first().and_then(|nic| nic.mac);
        let mac = mac.ok_or_else(|| {
            let (path, name) = (cluster.path().display(), &node.name);
            Fault::invalid(&format!("{path}: node '{name}' has no mac, which PM needs; add it"))
        })?;
        Ok((c_int::try_from(number).map_err(|_| Fault::invalid("too many nodes"))?, mac))
    };
    let nodes = cluster.nodes().iter().enumerate().map(numbered).collect::<PmResult<_>>()?;
    Ok(Nodes { interfaces, checksum: true, nodes })
}

/// Parses PM/Ethernet's configuration, and `netdev` of SCore 7's cluster database.
fn parse(text: &str) -> Result<Nodes, Error> {
    let interfaces = vec!["eth0".to_owned()];
    let mut all = Nodes { interfaces, checksum: true, nodes: BTreeMap::new() };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let refuse = |why| Error::invalid(format!("'{}' in the list of nodes: {why}", line.trim()));
        match *line.split_whitespace().collect::<Vec<_>>() {
            [] => {}
            ["netdev", name] => all.interfaces = vec![name.to_owned()],
            ["checksum", "0"] => all.checksum = false,
            ["checksum", "1"] => all.checksum = true,
            // The protocol sets these by itself.
            ["unit" | "maxnsend" | "backoff", _] => {}
            [number, mac, ..] => {
                let number: c_int = number.parse().ok().filter(|&n| n >= 0).ok_or_else(|| {
                    refuse("a line begins with a node number, netdev, checksum, unit, maxnsend or backoff")
                })?;
                let mac =
                    mac.parse().map_err(|_| refuse("the second word is not a MAC address"))?;
                if all.nodes.insert(number, mac).is_some() {
                    return Err(refuse("the node is already in the list"));
                }
            }
            [_] => return Err(refuse("a node has a number and a MAC address")),
        }
    }
    if all.nodes.is_empty() {
        return Err(Error::invalid("the list of nodes is empty; write 'NUMBER MAC' for each"));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_of_pm_ethernet_is_read() {
        let text = "unit 0\nchecksum 0 # hardware is good\nmaxnsend 8\nbackoff 4800\n\n\
                    0 02:00:00:00:00:01 one.example\n3 02:00:00:00:00:02\nnetdev eth7";
        let nodes = parse(text).unwrap();
        assert_eq!((nodes.interfaces, nodes.checksum), (vec!["eth7".to_owned()], false));
        let macs = [(0, "02:00:00:00:00:01"), (3, "02:00:00:00:00:02")];
        let macs = macs.map(|(number, mac)| (number, mac.parse().unwrap()));
        assert_eq!(nodes.nodes, BTreeMap::from(macs));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, why) in [
            ("", "is empty"),
            ("0", "'0' in the list"),
            ("-1 02:00:00:00:00:01", "begins with a node number"),
            ("one 02:00:00:00:00:01", "begins with a node number"),
            ("1 host", "not a MAC address"),
            ("1 02:00:00:00:00:01\n1 02:00:00:00:00:02", "already in the list"),
        ] {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
