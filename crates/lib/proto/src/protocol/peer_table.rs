//! The indexes by which peers are found, and the counts of unnamed peers.

use crate::{Instant, PeerId, PeerKey};
use gigae_wire::{Epoch, NodeAddr};
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};

/// Entries of one node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EntryCounts {
    pub(super) all: u32,
    pub(super) unnamed: u32,
}

/// See the module's description. The peers themselves, their sessions, are beside it.
#[derive(Clone, Debug)]
pub(super) struct PeerTable {
    pub(super) by_key: HashMap<PeerKey, PeerId>,
    /// Peers by their further addresses. The key includes this end's epoch of the session or
    /// proposal that named the address, so a peer's claim takes nothing from another peer.
    pub(super) by_path: HashMap<(PeerKey, Epoch), PeerId>,
    /// Entries by node.
    pub(super) nodes: HashMap<NodeAddr, EntryCounts>,
    /// Sessions that are being proposed, by node and this end's epoch, and the other version in
    /// which the node has answered the Hello.
    pub(super) proposing: HashMap<(NodeAddr, Epoch), Option<u8>>,
    /// The count of unnamed peers; those of them that are replaceable, oldest first; and
    /// entries that were given to another peer.
    pub(super) unnamed: usize,
    pub(super) replaceable: VecDeque<(PeerId, Instant)>,
    pub(super) replaced: Vec<(PeerId, PeerKey)>,
    /// The peer of the last frame. Most frames come from the same peer as the one before.
    pub(super) last: PeerId,
}

/// Entries in the tables of peers, for comparison with what the configuration allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableUsage {
    /// Peers.
    pub peers: usize,
    /// Those of them that the program has not named.
    pub unnamed_peers: usize,
    /// Addresses of peers: one for each, and those of their further links.
    pub addresses: usize,
    /// Nodes that have peers.
    pub nodes: usize,
    /// Sessions that are being proposed.
    pub proposing: usize,
    /// Replaceable peers: those that may make room for others.
    pub replaceable: usize,
}

impl PeerTable {
    pub(super) fn usage(&self) -> TableUsage {
        TableUsage {
            peers: self.by_key.len(),
            unnamed_peers: self.unnamed,
            addresses: self.by_key.len() + self.by_path.len(),
            nodes: self.nodes.len(),
            proposing: self.proposing.len(),
            replaceable: self.replaceable.len(),
        }
    }

    pub(super) fn new() -> Self {
        Self {
            by_key: HashMap::new(),
            by_path: HashMap::new(),
            nodes: HashMap::new(),
            proposing: HashMap::new(),
            unnamed: 0,
            replaceable: VecDeque::new(),
            replaced: Vec::new(),
            last: PeerId(0),
        }
    }
}

/// Leaves out what follows from the sessions. (Other nodes' versions do not, but no checked model
/// has any.)
impl Hash for PeerTable {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let Self {
            by_key: _,
            by_path: _,
            nodes: _,
            proposing: _,
            unnamed,
            replaceable,
            replaced,
            last,
        } = self;
        (unnamed, replaceable, replaced, last).hash(to);
    }
}
