//! What can be wrong with a cluster file, or with this host's place in it.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A cluster file could not be used. The text is one line and says where and what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClusterError {
    /// It cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be written.
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its text is wrong.
    Text {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what to do.
        what: String,
    },
    /// No node has this name.
    UnknownNode {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// No node has this number.
    NoSuchNumber {
        /// The file.
        path: PathBuf,
        /// The number.
        number: usize,
        /// How many nodes there are.
        count: usize,
    },
    /// A node lacks the address by which it would be reached.
    NoAddress {
        /// The file.
        path: PathBuf,
        /// The line of its NIC.
        line: usize,
        /// The node.
        node: String,
        /// `mac` or `ip`.
        missing: &'static str,
    },
    /// No node has an address of this host.
    NotHere {
        /// The file.
        path: PathBuf,
    },
    /// Several nodes have addresses of this host.
    SeveralHere {
        /// The file.
        path: PathBuf,
        /// Two of them.
        names: [String; 2],
    },
    /// None or several of this host's interfaces have the address of this node's NIC.
    Interface {
        /// The file.
        path: PathBuf,
        /// The line of the NIC.
        line: usize,
        /// The node.
        node: String,
        /// The interfaces with the address.
        interfaces: Vec<String>,
    },
    /// The kernel did not tell the addresses of this host.
    Local(io::Error),
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => write!(
                f,
                "cannot read the cluster file '{}': {source}; name one by --cluster or GIGAE_CLUSTER, or make it with 'gigae discover --write FILE'",
                path.display()
            ),
            Self::Write { path, source } => write!(
                f,
                "cannot write the cluster file '{}': {source}; check the directory and its permissions",
                path.display()
            ),
            Self::Text { path, line, what } => write!(f, "{}:{line}: {what}", path.display()),
            Self::UnknownNode { path, name, known } if known.is_empty() => write!(
                f,
                "{}: no node '{name}', nor any other; add [[node]] tables, or fill it with 'gigae discover --write {0}'",
                path.display()
            ),
            Self::UnknownNode { path, name, known } => {
                write!(f, "{}: no node '{name}'; choose one of: {known}", path.display())
            }
            Self::NoSuchNumber { path, number, count } => write!(
                f,
                "{}: no node {number}; its {count} nodes are counted from 0",
                path.display()
            ),
            Self::NoAddress { path, line, node, missing } => write!(
                f,
                "{}:{line}: node '{node}' has no {missing} to be reached by; add it, or fill it in with 'gigae discover --write {0}'",
                path.display()
            ),
            Self::NotHere { path } => write!(
                f,
                "{}: no node has a mac or ip of this host; add it, or name this node by GIGAE_NODE",
                path.display()
            ),
            Self::SeveralHere { path, names: [a, b] } => write!(
                f,
                "{}: '{a}' and '{b}' both have addresses of this host; say by GIGAE_NODE which it is",
                path.display()
            ),
            Self::Interface { path, line, node, interfaces } if interfaces.is_empty() => write!(
                f,
                "{}:{line}: no interface here has the address of node '{node}'; correct it, or write its interface",
                path.display()
            ),
            Self::Interface { path, line, node, interfaces } => write!(
                f,
                "{}:{line}: {} all have the address of node '{node}'; write which is meant as its interface",
                path.display(),
                interfaces.join(", ")
            ),
            Self::Local(e) => {
                write!(
                    f,
                    "looking up the addresses of this host failed: {e}; name this node by GIGAE_NODE and write its interface"
                )
            }
        }
    }
}

impl std::error::Error for ClusterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } | Self::Local(source) => {
                Some(source)
            }
            _ => None,
        }
    }
}
