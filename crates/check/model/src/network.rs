//! Frames on their way.

use crate::node::Frame;
use std::collections::VecDeque;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// One direction between two nodes, by one of their links.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Way {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) path: usize,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, path } = self;
        write!(f, "{from} to {to}")?;
        if *path > 0 { write!(f, " by {path}") } else { Ok(()) }
    }
}

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Network {
    nodes: usize,
    paths: usize,
    /// In the order in which they were sent, for each way.
    queues: Vec<VecDeque<Frame>>,
    /// Frames that may arrive at any time.
    pub(crate) late: Vec<(Way, Frame)>,
    /// The path on which nothing arrives any more.
    pub(crate) cut: Option<usize>,
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

    fn index(&self, way: Way) -> usize {
        (way.from * self.nodes + way.to) * self.paths + way.path
    }

    /// All ways, in an order that does not change.
    pub(crate) fn ways(&self) -> impl Iterator<Item = Way> + use<> {
        let (nodes, paths) = (self.nodes, self.paths);
        (0..nodes * nodes * paths).map(move |i| {
            let pair = i / paths;
            Way { from: pair / nodes, to: pair % nodes, path: i % paths }
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    pub(crate) fn push(&mut self, way: Way, frame: Frame) {
        if self.cut != Some(way.path) {
            let i = self.index(way);
            self.queues[i].push_back(frame);
        }
    }

    /// The oldest frame of a way.
    pub(crate) fn first(&self, way: Way) -> Option<&Frame> {
        self.queues[self.index(way)].front()
    }

    pub(crate) fn pop(&mut self, way: Way) -> Option<Frame> {
        let i = self.index(way);
        self.queues[i].pop_front()
    }

    /// A frame will arrive at any time.
    pub(crate) fn keep_late(&mut self, way: Way, frame: Option<Frame>) {
        self.late.extend(frame.map(|frame| (way, frame)));
        // In an order of their own: in which order they became late means nothing.
        self.late.sort_by_cached_key(digest);
    }

    /// The late frames that differ, by number.
    pub(crate) fn late_ones(&self) -> impl Iterator<Item = usize> {
        (0..self.late.len()).filter(|&i| i == 0 || self.late[i] != self.late[i - 1])
    }

    /// Nothing arrives by a path any more.
    pub(crate) fn cut(&mut self, path: usize) {
        self.cut = Some(path);
        let ways: Vec<_> = self.ways().filter(|way| way.path == path).collect();
        for way in ways {
            let i = self.index(way);
            self.queues[i].clear();
        }
        self.late.retain(|(way, _)| way.path != path);
    }
}
