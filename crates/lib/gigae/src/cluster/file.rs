//! The cluster file: its text read and checked, every error with its line.

use super::{Cluster, ClusterError, Nic, Node};
use gigae_wire::{Envelope, MAX_PATHS, MacAddr, is_node_name};
use serde::Deserialize;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Smaller numbers are lengths (IEEE Std 802.3, clause 3.2.6).
const LEAST_ETHERTYPE: u16 = 0x0600;

/// Longest name of an interface in bytes (`IFNAMSIZ` of linux/if.h, with its NUL).
const LONGEST_INTERFACE: usize = 15;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    envelope: Option<Spanned<EnvelopeEntry>>,
    #[serde(default)]
    channel: u8,
    #[serde(default)]
    port: u16,
    trunk: Option<Spanned<bool>>,
    #[serde(default)]
    node: Vec<NodeEntry>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EnvelopeEntry {
    Ethertype(u16),
    Udp(u16),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeEntry {
    name: Spanned<String>,
    port: Option<u16>,
    nic: Spanned<Vec<Spanned<NicEntry>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NicEntry {
    interface: Option<Spanned<String>>,
    mac: Option<Spanned<String>>,
    ip: Option<Spanned<String>>,
}

/// The line of a place in the text, from 1.
pub(super) fn line(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count() + 1
}

/// What is wrong, and where.
type FileIssue = (Range<usize>, String);

pub(super) fn parse(text: String, path: &Path) -> Result<Cluster, ClusterError> {
    let checked = toml::from_str::<ClusterFile>(&text)
        .map_err(|e| (e.span().unwrap_or_default(), e.message().replace('\n', " ")))
        .and_then(check);
    match checked {
        Ok(file) => Ok(Cluster { path: path.into(), text, ..file }),
        Err((at, what)) => {
            Err(ClusterError::Text { path: path.into(), line: line(&text, at.start), what })
        }
    }
}

/// What the file says, still without its path and text.
fn check(entries: ClusterFile) -> Result<Cluster, FileIssue> {
    let envelope = match &entries.envelope {
        Some(entry) => envelope(*entry.get_ref()).map_err(|what| (entry.span(), what))?,
        None => Envelope::DEFAULT,
    };
    let trunk = entries.trunk.as_ref().is_some_and(|trunk| *trunk.get_ref());
    if let (Some(entry), true, Envelope::Udp { .. }) = (&entries.trunk, trunk, envelope) {
        let what = "a node has one IP address; use an EtherType, or leave out the trunk";
        return Err((entry.span(), what.into()));
    }
    let mut seen = UsedValues::default();
    let mut nodes = Vec::new();
    for entry in entries.node {
        let name = entry.name.get_ref();
        if !is_node_name(name) {
            let what =
                format!("'{name}' is not a node's name; use 1 to 63 letters, digits, - _ and .");
            return Err((entry.name.span(), what));
        }
        let port = entry.port.unwrap_or(entries.port);
        seen.names.add(name.clone(), name, &entry.name)?;
        let nics = nics(&entry, port, &mut seen)?;
        if trunk && nics.len() > MAX_PATHS {
            let what =
                format!("node '{name}' has {} NICs; at most {MAX_PATHS} can be one", nics.len());
            return Err((entry.nic.span(), what));
        }
        nodes.push(Node { name: entry.name.into_inner(), port, nics });
    }
    let ClusterFile { channel, port, .. } = entries;
    Ok(Cluster { path: PathBuf::new(), text: String::new(), envelope, channel, port, trunk, nodes })
}

fn envelope(entry: EnvelopeEntry) -> Result<Envelope, String> {
    match entry {
        EnvelopeEntry::Ethertype(ethertype) if ethertype < LEAST_ETHERTYPE => {
            Err(format!("0x{ethertype:04x} is not an EtherType; give one from 0x0600 on"))
        }
        EnvelopeEntry::Ethertype(ethertype) => Ok(Envelope::Ethernet { ethertype }),
        EnvelopeEntry::Udp(0) => Err("0 is not a UDP port; give one from 1 on".into()),
        EnvelopeEntry::Udp(port) => Ok(Envelope::Udp { port }),
    }
}

fn nics(node: &NodeEntry, port: u16, seen: &mut UsedValues) -> Result<Vec<Nic>, FileIssue> {
    let name = node.name.get_ref();
    let mut nics = Vec::new();
    for spanned in node.nic.get_ref() {
        let (at, entry) = (spanned.span(), spanned.get_ref());
        if let Some(interface) = &entry.interface
            && !(1..=LONGEST_INTERFACE).contains(&interface.get_ref().len())
        {
            let what = "an interface's name has 1 to 15 bytes; see 'ip link' on that node";
            return Err((interface.span(), what.into()));
        }
        let mac = entry.mac.as_ref().map(mac).transpose()?;
        if let (Some(mac), Some(entry)) = (mac, &entry.mac) {
            seen.macs.add((mac, port), name, entry)?;
        }
        let ip = entry.ip.as_ref().map(ip).transpose()?;
        if let (Some(ip), Some(entry)) = (ip, &entry.ip) {
            seen.ips.add((ip, port), name, entry)?;
        }
        if mac.is_none() && ip.is_none() {
            let what = format!("this NIC of node '{name}' has no address; give it a mac or an ip");
            return Err((at, what));
        }
        let interface = entry.interface.as_ref().map(|name| name.get_ref().clone());
        nics.push(Nic { interface, mac, ip, at: at.start });
    }
    match nics.is_empty() {
        true => Err((node.nic.span(), format!("node '{name}' has no NIC; give it one"))),
        false => Ok(nics),
    }
}

fn mac(entry: &Spanned<String>) -> Result<MacAddr, FileIssue> {
    let text = entry.get_ref();
    let mac: MacAddr = text.parse().map_err(|e| (entry.span(), format!("'{text}' is {e}")))?;
    if mac.is_group() || mac == MacAddr::default() {
        let what = format!("{mac} is not the address of one NIC; see 'ip link' on that node");
        return Err((entry.span(), what));
    }
    Ok(mac)
}

fn ip(entry: &Spanned<String>) -> Result<IpAddr, FileIssue> {
    let text = entry.get_ref();
    let what =
        || format!("'{text}' is not the IP address of a node; write it as 198.18.0.2 or fd00::2");
    let ip: Option<IpAddr> = text.parse().ok();
    let is_node = |ip: &IpAddr| {
        !ip.is_multicast() && !ip.is_unspecified() && *ip != std::net::Ipv4Addr::BROADCAST
    };
    ip.filter(is_node).ok_or_else(|| (entry.span(), what()))
}

/// What was in the file so far, and the node that had it.
#[derive(Default)]
struct UsedValues {
    names: UniqueValues<String>,
    /// Endpoints on one NIC differ by their port ids.
    macs: UniqueValues<(MacAddr, u16)>,
    ips: UniqueValues<(IpAddr, u16)>,
}

struct UniqueValues<K>(HashMap<K, String>);

impl<K> Default for UniqueValues<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq> UniqueValues<K> {
    fn add(&mut self, key: K, node: &str, entry: &Spanned<String>) -> Result<(), FileIssue> {
        match self.0.insert(key, node.to_owned()) {
            None => Ok(()),
            Some(other) => {
                let text = entry.get_ref();
                let what = if *text == other {
                    format!("another node is called '{text}', too; give each a name of its own")
                } else {
                    format!(
                        "{text} is an address of node '{other}', too; correct one of them, or give them different ports"
                    )
                };
                Err((entry.span(), what))
            }
        }
    }
}
