//! Frames in flight.

use crate::node::Frame;
use gigae_wire::PathId;
use std::collections::VecDeque;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// One direction between two nodes, by one of their links.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LinkDirection {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) path: PathId,
}

impl fmt::Debug for LinkDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, path } = self;
        write!(f, "{from} to {to}")?;
        if path.is_first() { Ok(()) } else { write!(f, " by {path}") }
    }
}

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Network {
    nodes: usize,
    paths: usize,
    /// In the order in which they were sent, for each direction.
    queues: Vec<VecDeque<Frame>>,
    /// Frames that may arrive at any time.
    pub(crate) late: Vec<(LinkDirection, Frame)>,
    /// The path on which nothing arrives any more.
    pub(crate) cut: Option<PathId>,
}

/// A number that differs for what differs.
pub(crate) fn digest(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

impl Network {
    pub(crate) fn new(nodes: usize, paths: usize) -> Self {
        let queues = vec![VecDeque::new(); nodes * nodes * paths];
        Self { nodes, paths, queues, late: Vec::new(), cut: None }
    }

    fn index(&self, direction: LinkDirection) -> usize {
        (direction.from * self.nodes + direction.to) * self.paths + direction.path.index()
    }

    /// All directions, in an order that does not change.
    pub(crate) fn directions(&self) -> impl Iterator<Item = LinkDirection> + use<> {
        let (nodes, paths) = (self.nodes, self.paths);
        (0..nodes * nodes * paths).map(move |i| {
            let pair = i / paths;
            let path = PathId::new(i % paths);
            LinkDirection { from: pair / nodes, to: pair % nodes, path }
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    pub(crate) fn push(&mut self, direction: LinkDirection, frame: Frame) {
        if self.cut != Some(direction.path) {
            let i = self.index(direction);
            self.queues[i].push_back(frame);
        }
    }

    /// The oldest frame of a direction.
    pub(crate) fn first(&self, direction: LinkDirection) -> Option<&Frame> {
        self.queues[self.index(direction)].front()
    }

    pub(crate) fn pop(&mut self, direction: LinkDirection) -> Option<Frame> {
        let i = self.index(direction);
        self.queues[i].pop_front()
    }

    /// A frame will arrive at any time.
    pub(crate) fn keep_late(&mut self, direction: LinkDirection, frame: Option<Frame>) {
        self.late.extend(frame.map(|frame| (direction, frame)));
        // In an order of their own: in which order they became late means nothing.
        self.late.sort_by_cached_key(digest);
    }

    /// The late frames that differ, by number.
    pub(crate) fn late_ones(&self) -> impl Iterator<Item = usize> {
        (0..self.late.len()).filter(|&i| i == 0 || self.late[i] != self.late[i - 1])
    }

    /// Nothing arrives by a path any more.
    pub(crate) fn cut(&mut self, path: PathId) {
        self.cut = Some(path);
        let directions: Vec<_> =
            self.directions().filter(|direction| direction.path == path).collect();
        for direction in directions {
            let i = self.index(direction);
            self.queues[i].clear();
        }
        self.late.retain(|(direction, _)| direction.path != path);
    }
}
