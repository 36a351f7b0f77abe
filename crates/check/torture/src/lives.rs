//! When which node was there.

/// One node's present or last life.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Life {
    /// How often the node was opened before; meaningless before the first time.
    pub(crate) number: u16,
    pub(crate) is_open: bool,
    was_open: bool,
    /// When its former life ended, in virtual nanoseconds: what was sent until then, the former
    /// life may have taken.
    pub(crate) former_end: u64,
    /// When it ended, if it is not open.
    pub(crate) end: u64,
}

/// All nodes' lives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lives(Vec<Life>);

impl Lives {
    pub(crate) fn new(nodes: usize) -> Self {
        Self(vec![Life::default(); nodes])
    }

    pub(crate) fn of(&self, node: u16) -> Life {
        self.0[usize::from(node)]
    }

    pub(crate) fn opened(&mut self, node: u16) {
        let life = &mut self.0[usize::from(node)];
        debug_assert!(!life.is_open);
        let number = life.number + u16::from(life.was_open);
        *life = Life { number, is_open: true, was_open: true, former_end: life.end, end: 0 };
    }

    pub(crate) fn gone(&mut self, node: u16, now: u64) {
        let life = &mut self.0[usize::from(node)];
        (life.is_open, life.end) = (false, now);
    }
}
