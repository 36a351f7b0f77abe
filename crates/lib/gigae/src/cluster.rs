//! The node table of a cluster: one TOML file that every entry point reads.
//!
//! [`Cluster::template`] explains every key. The same file serves all nodes: each finds itself in
//! it by its own addresses. `gigae discover --write FILE` fills it from the wire.
//!
//! It says where nodes are and nothing about what they do; it is read once and not watched.

mod error;
mod file;
mod update;

use crate::address::Address;
use crate::local::{Local, interfaces};
use crate::options::Options;
pub use error::ClusterError;
use gigae_host::environment::variable;
use gigae_wire::{Envelope, MacAddr};
use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Names the cluster file.
const FILE_VARIABLE: &str = "GIGAE_CLUSTER";

/// Names this node, if its addresses do not identify it.
const NODE_VARIABLE: &str = "GIGAE_NODE";

/// Where the cluster file is, unless [`FILE_VARIABLE`] or the caller names another.
const DEFAULT_FILE: &str = "/etc/gigae/cluster.toml";

/// The nodes of a cluster, numbered from 0 in the order of its file, and how they speak.
///
/// ```no_run
/// let cluster = gigae::Cluster::load()?;
/// let endpoint = cluster.options()?.open()?;
/// let peer = endpoint.peer(cluster.node("n3")?)?;
/// endpoint.send(peer, b"hello")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cluster {
    path: PathBuf,
    text: String,
    envelope: Envelope,
    channel: u8,
    port: u16,
    trunk: bool,
    nodes: Vec<Node>,
}

/// A node of a [`Cluster`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name, which no other node of the cluster has.
    pub name: String,
    /// Port id of its endpoint.
    pub port: u16,
    /// Its network cards, at least one. The first is the one that is used, or all as one where the
    /// file says `trunk = true`; those at the same place of different nodes are on the same
    /// network.
    pub nics: Vec<Nic>,
}

/// A network card of a [`Node`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// The interface's name on its node.
    pub interface: Option<String>,
    /// Its MAC address; this or an IP address is there.
    pub mac: Option<MacAddr>,
    /// Its IP address.
    pub ip: Option<IpAddr>,
    /// Where in the file it begins.
    at: usize,
}

impl Cluster {
    /// Reads the cluster file: the one that the environment variable `GIGAE_CLUSTER` names, else
    /// `/etc/gigae/cluster.toml`. A program with more rights than its user ignores the variable.
    pub fn load() -> Result<Self, ClusterError> {
        let named = variable(FILE_VARIABLE);
        Self::read(Path::new(named.as_deref().unwrap_or(OsStr::new(DEFAULT_FILE))))
    }

    /// Reads this file.
    pub fn read(path: &Path) -> Result<Self, ClusterError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ClusterError::Read { path: path.into(), source })?;
        Self::parse(text, path)
    }

    /// Reads the text of a file; the path is for messages and for [`save`](Self::save).
    pub fn parse(text: String, path: &Path) -> Result<Self, ClusterError> {
        file::parse(text, path)
    }

    /// Its nodes by number.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The envelope in which they speak.
    pub fn envelope(&self) -> Envelope {
        self.envelope
    }

    /// Port id of the nodes that have none of their own.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The file it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of a node by its name.
    pub fn number(&self, name: &str) -> Result<usize, ClusterError> {
        self.nodes.iter().position(|node| node.name == name).ok_or_else(|| {
            let (path, name) = (self.path.clone(), name.to_owned());
            ClusterError::UnknownNode { path, name, known: self.names() }
        })
    }

    /// The address of a node's endpoint by the node's name, for
    /// [`Endpoint::peer`](crate::Endpoint::peer).
    pub fn node(&self, name: &str) -> Result<Address, ClusterError> {
        self.address(self.number(name)?)
    }

    /// The address of a node's endpoint by the node's number.
    pub fn address(&self, number: usize) -> Result<Address, ClusterError> {
        let node = self.nodes.get(number).ok_or_else(|| {
            let path = self.path.clone();
            ClusterError::NoSuchNumber { path, number, count: self.nodes.len() }
        })?;
        let nic = &node.nics[0];
        let (address, missing) = match self.envelope {
            Envelope::Ethernet { .. } => (nic.mac.map(Address::from), "mac"),
            Envelope::Udp { .. } => (nic.ip.map(Address::from), "ip"),
        };
        let address = address.ok_or_else(|| self.lacks(node, missing))?;
        Ok(address.port(node.port).channel(self.channel))
    }

    /// The IP address of a node by its name, for other protocols beside gigae.
    pub fn ip(&self, name: &str) -> Result<IpAddr, ClusterError> {
        let node = &self.nodes[self.number(name)?];
        node.nics[0].ip.ok_or_else(|| self.lacks(node, "ip"))
    }

    fn lacks(&self, node: &Node, missing: &'static str) -> ClusterError {
        let line = file::line(&self.text, node.nics[0].at);
        ClusterError::NoAddress { path: self.path.clone(), line, node: node.name.clone(), missing }
    }

    /// The number of this node: the one that the environment variable `GIGAE_NODE` names, else the
    /// one with a MAC or IP address of this host (of its network namespace). Some ten system calls.
    pub fn own(&self) -> Result<usize, ClusterError> {
        match named_node() {
            Some(name) => self.number(&name),
            None => self.own_among(&locals()?),
        }
    }

    fn own_among(&self, locals: &[Local]) -> Result<usize, ClusterError> {
        let is_here = |nic: &Nic| locals.iter().any(|local| nic.is_on(local));
        let mut here = (0..self.nodes.len()).filter(|&n| self.nodes[n].nics.iter().any(is_here));
        let path = || self.path.clone();
        let own = here.next().ok_or_else(|| ClusterError::NotHere { path: path() })?;
        match here.next() {
            None => Ok(own),
            Some(other) => {
                let names = [own, other].map(|n| self.nodes[n].name.clone());
                Err(ClusterError::SeveralHere { path: path(), names })
            }
        }
    }

    /// Options for this node's endpoint: its [interfaces](Self::interfaces), and the envelope,
    /// channel and port id of the file; all else at its default. System calls as for
    /// [`own`](Self::own).
    pub fn options(&self) -> Result<Options, ClusterError> {
        let node = &self.nodes[self.own()?];
        Ok(Options::trunk(self.interfaces()?)
            .envelope(self.envelope)
            .channels([self.channel])
            .port(node.port)
            .name(&node.name))
    }

    /// The names of this node's interfaces that are used: of its first NIC, or of all where the
    /// file says `trunk = true`. Each is the file's, else that of the interface with the address.
    pub fn interfaces(&self) -> Result<Vec<String>, ClusterError> {
        self.interfaces_of(self.own()?, &mut locals)
    }

    /// Asks the kernel only if the file does not name all.
    fn interfaces_of(
        &self,
        number: usize,
        locals: &mut dyn FnMut() -> Result<Vec<Local>, ClusterError>,
    ) -> Result<Vec<String>, ClusterError> {
        let node = &self.nodes[number];
        let name = |nic: &Nic| match &nic.interface {
            Some(name) => Ok(name.clone()),
            None => self.find_interface(node, nic, &locals()?),
        };
        let used = if self.trunk { node.nics.len() } else { 1 };
        node.nics[..used].iter().map(name).collect()
    }

    /// An IP address identifies an interface better than a MAC address, which bonds, bridges and
    /// VLANs share with the interfaces below them.
    fn find_interface(
        &self,
        node: &Node,
        nic: &Nic,
        locals: &[Local],
    ) -> Result<String, ClusterError> {
        let by = |test: &dyn Fn(&&Local) -> bool| -> Vec<&Local> {
            locals.iter().filter(test).collect()
        };
        let mut found = by(&|local| nic.ip.is_some_and(|ip| local.has(ip)));
        if found.len() != 1 {
            found = by(&|local| nic.is_on(local));
        }
        if let [local] = found[..] {
            return Ok(local.name.clone());
        }
        let interfaces = found.into_iter().map(|local| local.name.clone()).collect();
        let line = file::line(&self.text, nic.at);
        let (path, node) = (self.path.clone(), node.name.clone());
        Err(ClusterError::Interface { path, line, node, interfaces })
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.nodes.iter().map(|node| &node.name[..]).collect();
        names.join(", ")
    }
}

impl Nic {
    fn is_on(&self, local: &Local) -> bool {
        self.mac.is_some() && self.mac == local.mac || self.ip.is_some_and(|ip| local.has(ip))
    }
}

fn named_node() -> Option<String> {
    variable(NODE_VARIABLE)?.into_string().ok()
}

fn locals() -> Result<Vec<Local>, ClusterError> {
    interfaces().map_err(ClusterError::Local)
}

#[cfg(test)]
mod tests;
