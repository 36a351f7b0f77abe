//! Lists of sessions by what they need next.

use crate::PeerId;
use crate::timers::Timers;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// Peers noted as silent, at most. The others will be silent again soon.
pub(super) const MOST_SILENT: usize = 16;

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// Sessions that may have something to transmit, in turn.
    pub(super) transmit: VecDeque<PeerId>,
    /// Sessions with events since the clock's last reading.
    pub(super) unstamped: Vec<PeerId>,
    /// The deadlines of the sessions.
    pub(super) timers: Timers,
    /// Sessions with an acknowledgement that was delayed when the clock was read.
    pub(super) owing: Vec<PeerId>,
    /// Peers that did not answer in time, until `poll_silent` takes them.
    pub(super) silent: Vec<PeerId>,
}

impl Schedule {
    pub(super) fn new() -> Self {
        Self {
            transmit: VecDeque::with_capacity(64),
            unstamped: Vec::with_capacity(64),
            timers: Timers::new(),
            owing: Vec::with_capacity(64),
            silent: Vec::with_capacity(MOST_SILENT),
        }
    }
}

/// Nothing depends on which peers were silent.
impl Hash for Schedule {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let Self { transmit, unstamped, timers, owing, silent: _ } = self;
        (transmit, unstamped, timers, owing).hash(to);
    }
}
