//! Adding what was found on the wire to a cluster file. Whatever a person wrote stays as it is,
//! comments included: text is only put in.

use super::{Cluster, ClusterError, file};
use crate::neighbour::Neighbour;
use gigae_wire::{Envelope, LONGEST_NAME, MacAddr};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// The beginning of every new file. `@` is where the envelope goes.
const TEMPLATE: &str = r#"# Cluster file of gigae: where the nodes are. The same file serves all of them.
# It is named by --cluster FILE, else by the environment variable GIGAE_CLUSTER, else it is
# /etc/gigae/cluster.toml. 'gigae discover --write FILE' adds the nodes that answer and never removes
# or changes one.

# How frames are recognized: by their EtherType, directly on Ethernet (nodes need a mac)
#   envelope = { ethertype = 0x88b5 }
# or by a UDP port, in IP (nodes need an ip).
#   envelope = { udp = 4791 }
@

# The channel on which the nodes meet, 0 to 255, and the port id of their endpoints, 0 to 65535.
channel = 0
port = 0

# Whether all NICs of a node are used as one, 2 to 8 of them, instead of its first. The n-th of a node
# must lead to the n-th of the others; a node may have fewer. Only with an EtherType.
#   trunk = true

# Nodes are numbered from 0 in the order in which they are listed here. For each:
#   name       1 to 63 letters, digits, - _ and . that no other node has
#   nic        its network cards, at least one; the first is used, or all with a trunk. For each:
#     mac        MAC address
#     ip         IPv4 or IPv6 address; mac, ip or both
#     interface  its name on that node, if the addresses do not show it
#   port       port id of this node's endpoint, if it is another one than above
# A host finds itself by its addresses; the environment variable GIGAE_NODE overrides that.
#
#   [[node]]
#   name = "n1"
#   nic = [{ mac = "02:00:00:00:00:01", ip = "198.18.0.1", interface = "eth1" }]
"#;

impl Cluster {
    /// The text of a new file: no nodes yet, every key explained.
    pub fn template(envelope: Envelope) -> String {
        let envelope = match envelope {
            Envelope::Ethernet { ethertype } => {
                format!("envelope = {{ ethertype = 0x{ethertype:04x} }}")
            }
            Envelope::Udp { port } => format!("envelope = {{ udp = {port} }}"),
        };
        TEMPLATE.replace("\n@\n", &format!("\n{envelope}\n"))
    }

    /// The text of the file, with what was [added](Self::add).
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Adds an endpoint that was found to the text: as a new node, or as the missing address of a
    /// NIC whose other address is known. Returns one line that says what was added, or what was
    /// left out because it contradicts the file; `None` if all is known.
    pub fn add(&mut self, found: &Neighbour) -> Result<Option<String>, ClusterError> {
        let nics =
            || self.nodes.iter().flat_map(|node| node.nics.iter().map(move |nic| (node, nic)));
        let has_mac = found.mac != MacAddr::default();
        let by_mac = nics().find(|(_, nic)| nic.mac == Some(found.mac));
        let by_ip = nics().find(|(_, nic)| found.ip.is_some() && nic.ip == found.ip);
        let (nic, name, key, value) = match (by_mac, by_ip, found.ip) {
            (None, Some(_), _) if !has_mac => return Ok(None),
            (None, None, None) if !has_mac => return Ok(None),
            (Some((node, nic)), None, Some(ip)) if nic.ip.is_none() => {
                (nic, node.name.clone(), "ip", ip.to_string())
            }
            (None, Some((node, nic)), _) if nic.mac.is_none() => {
                (nic, node.name.clone(), "mac", found.mac.to_string())
            }
            (None, Some((node, nic)), _) => {
                let line = file::line(&self.text, nic.at);
                return Ok(Some(format!(
                    "not added: {} has the address of {} (line {line}) and another MAC, {}; correct it by hand",
                    found.name, node.name, found.mac
                )));
            }
            (None, None, _) => return self.append(found).map(Some),
            _ => return Ok(None),
        };
        let at = nic.at;
        if !self.text[at..].starts_with('{') {
            let line = file::line(&self.text, at);
            return Ok(Some(format!(
                "not added: the {key} of {name}, {value} (line {line}); add it by hand"
            )));
        }
        self.insert(at + 1, &format!(" {key} = \"{value}\","))?;
        Ok(Some(format!("added the {key} of {name}: {value}")))
    }

    /// A new node at the end of the file.
    fn append(&mut self, found: &Neighbour) -> Result<String, ClusterError> {
        let name = self.free_name(&found.name);
        let mut entry = String::from(if self.text.ends_with('\n') { "" } else { "\n" });
        let mac = (found.mac != MacAddr::default()).then(|| format!("mac = \"{}\"", found.mac));
        let ip = found.ip.map(|ip| format!("ip = \"{ip}\""));
        let both: Vec<_> = mac.into_iter().chain(ip).collect();
        let _ = write!(entry, "\n[[node]]\nname = \"{name}\"\nnic = [{{ {} }}]\n", both.join(", "));
        if found.port != self.port {
            let _ = writeln!(entry, "port = {}", found.port);
        }
        self.insert(self.text.len(), &entry)?;
        let mut said = format!("added {name}: {}", found.mac);
        if name != found.name {
            let _ = write!(said, " (it calls itself {}, as another does)", found.name);
        }
        Ok(said)
    }

    fn free_name(&self, wanted: &str) -> String {
        let taken = |name: &str| self.nodes.iter().any(|node| node.name == name);
        let numbered = |n: usize| {
            let suffix = format!("-{n}");
            // A node's name is ASCII.
            format!("{}{suffix}", &wanted[..wanted.len().min(LONGEST_NAME - suffix.len())])
        };
        match taken(wanted) {
            false => wanted.to_owned(),
            true => (2..).map(numbered).find(|name| !taken(name)).unwrap_or_default(),
        }
    }

    /// Puts text in if what results can be read.
    fn insert(&mut self, at: usize, text: &str) -> Result<(), ClusterError> {
        let mut whole = self.text.clone();
        whole.insert_str(at, text);
        *self = file::parse(whole, &self.path).map_err(|error| match error {
            ClusterError::Text { path, line, what } => {
                let what =
                    format!("a node cannot be added: {what}; write nodes as [[node]] tables");
                ClusterError::Text { path, line, what }
            }
            other => other,
        })?;
        Ok(())
    }

    /// Writes the text to its file: whole or not at all.
    pub fn save(&self) -> Result<(), ClusterError> {
        write_whole(&self.path, &self.text)
            .map_err(|source| ClusterError::Write { path: self.path.clone(), source })
    }
}

/// Through a file beside it that takes its place; what a link points to is replaced, not the link.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let mut beside = path.clone().into_os_string();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = std::fs::write(&beside, text).and_then(|()| {
        if let Ok(old) = std::fs::metadata(&path) {
            std::fs::set_permissions(&beside, old.permissions())?;
        }
        std::fs::rename(&beside, &path)
    });
    if written.is_err() {
        // A part of a file is of no use.
        let _ = std::fs::remove_file(&beside);
    }
    written
}
