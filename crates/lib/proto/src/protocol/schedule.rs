//! Lists of sessions, by what is to be done with them.

use crate::PeerId;
use crate::timers::Timers;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// Peers that are remembered as silent: the others are silent again soon.
pub(super) const MOST_SILENT: usize = 16;

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// Sessions that may have something to transmit, in turn.
    pub(super) transmit: VecDeque<PeerId>,
    /// Sessions in which something began after the clock's last reading.
    pub(super) undated: Vec<PeerId>,
    /// Sessions with something that is due by itself.
    pub(super) timers: Timers,
    /// Sessions with an acknowledgement that waited for company when the clock was read.
    pub(super) owing: Vec<PeerId>,
    /// Peers that did not answer in time, until somebody asks.
    pub(super) silent: Vec<PeerId>,
}

impl Schedule {
    pub(super) fn new() -> Self {
        Self {
            transmit: VecDeque::with_capacity(64),
            undated: Vec::with_capacity(64),
            timers: Timers::new(),
            owing: Vec::with_capacity(64),
            silent: Vec::with_capacity(MOST_SILENT),
        }
    }
}

/// Nothing depends on who was silent.
impl Hash for Schedule {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let Self { transmit, undated, timers, owing, silent: _ } = self;
        (transmit, undated, timers, owing).hash(to);
    }
}
