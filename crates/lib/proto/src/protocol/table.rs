//! By what peers are found, and what is counted of those that the program has not named.

use crate::{Instant, PeerId, PeerKey};
use gigae_wire::{Epoch, NodeAddr};
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};

/// What the table holds of one node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entries {
    pub(super) all: u32,
    pub(super) strangers: u32,
}

/// Sessions that are being proposed to one node, and another version that a frame from there had
/// since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proposals {
    pub(super) count: u32,
    pub(super) version: Option<u8>,
}

/// See the module's description. The peers themselves, their sessions, are beside it.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) by_key: HashMap<PeerKey, PeerId>,
    /// Whose further addresses these are, by this end's epoch of the session or proposal that named
    /// them: what one peer claims takes nothing from another.
    pub(super) by_path: HashMap<(PeerKey, Epoch), PeerId>,
    /// Entries by node.
    pub(super) nodes: HashMap<NodeAddr, Entries>,
    /// Sessions that are being proposed, by node.
    pub(super) proposing: HashMap<NodeAddr, Proposals>,
    /// Entries of peers that the program has not named, and those of them in the order of their
    /// coming that may make room for others. Entries that have.
    pub(super) strangers: usize,
    pub(super) visitors: VecDeque<(PeerId, Instant)>,
    pub(super) replaced: Vec<(PeerId, PeerKey)>,
    /// The peer of the last frame: most frames come from the same one as the last.
    pub(super) last: PeerId,
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            by_key: HashMap::new(),
            by_path: HashMap::new(),
            nodes: HashMap::new(),
            proposing: HashMap::new(),
            strangers: 0,
            visitors: VecDeque::new(),
            replaced: Vec::new(),
            last: PeerId(0),
        }
    }
}

/// Left out is what follows from the sessions. (Versions of other nodes do not, and no checked
/// model has any.)
impl Hash for Table {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let Self {
            by_key: _,
            by_path: _,
            nodes: _,
            proposing: _,
            strangers,
            visitors,
            replaced,
            last,
        } = self;
        (strangers, visitors, replaced, last).hash(to);
    }
}
