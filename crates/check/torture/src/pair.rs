//! The two nodes that something concerns.

use crate::body::Id;

/// The ends of a message or an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodePair {
    /// Who sends it, or starts it.
    pub from: u16,
    /// Who receives it, or whose memory is meant.
    pub to: u16,
}

impl NodePair {
    /// The same node twice, for what concerns one node only.
    pub fn of_one(node: u16) -> Self {
        Self { from: node, to: node }
    }

    /// The ends of a message.
    pub(crate) fn of(id: Id) -> Self {
        Self { from: id.from, to: id.to }
    }
}
