//! What can be wrong with a cluster file, or with this host's place in it.

use std::io;
use std::path::{Path, PathBuf};

/// A cluster file could not be used. The text is one line and says where and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// It cannot be read.
    #[error(
        "cannot read the cluster file '{path}': {source}; name one by --cluster or GIGAE_CLUSTER, or make it with 'gigae discover --write FILE'"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be written.
    #[error(
        "cannot write the cluster file '{path}': {source}; check the directory and its permissions"
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its text is wrong.
    #[error("{path}:{line}: {what}")]
    Text {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what to do.
        what: String,
    },
    /// No node has this name.
    #[error("{path}: no node '{name}'{}", other_nodes(path, known))]
    UnknownNode {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// No node has this number.
    #[error("{path}: no node {number}; its {count} nodes are counted from 0")]
    NoSuchNumber {
        /// The file.
        path: PathBuf,
        /// The number.
        number: usize,
        /// How many nodes there are.
        count: usize,
    },
    /// A node lacks the address by which it would be reached.
    #[error(
        "{path}:{line}: node '{node}' has no {missing} to be reached by; add it, or fill it in with 'gigae discover --write {path}'"
    )]
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
    #[error(
        "{path}: no node has a mac or ip of this host; add it, or name this node by GIGAE_NODE"
    )]
    NotHere {
        /// The file.
        path: PathBuf,
    },
    /// Several nodes have addresses of this host.
    #[error("{path}: '{}' and '{}' both have addresses of this host; say by GIGAE_NODE which it is", .names[0], .names[1])]
    SeveralHere {
        /// The file.
        path: PathBuf,
        /// Two of them.
        names: [String; 2],
    },
    /// None or several of this host's interfaces have the address of this node's NIC.
    #[error("{path}:{line}: {}", not_one_interface(node, interfaces))]
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
    /// The kernel did not report the addresses of this host.
    #[error(
        "looking up the addresses of this host failed: {0}; name this node by GIGAE_NODE and write its interface"
    )]
    Local(#[source] io::Error),
}

/// What to do about a name that no node has.
fn other_nodes(path: &Path, known: &str) -> String {
    if known.is_empty() {
        let path = path.display();
        format!(
            ", nor any other; add [[node]] tables, or fill it with 'gigae discover --write {path}'"
        )
    } else {
        format!("; choose one of: {known}")
    }
}

/// What to do about a NIC whose address none or several of the interfaces have.
fn not_one_interface(node: &str, interfaces: &[String]) -> String {
    if interfaces.is_empty() {
        format!(
            "no interface here has the address of node '{node}'; correct it, or write its interface"
        )
    } else {
        let interfaces = interfaces.join(", ");
        format!(
            "{interfaces} all have the address of node '{node}'; write which is meant as its interface"
        )
    }
}
