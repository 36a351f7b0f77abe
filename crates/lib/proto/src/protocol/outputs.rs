//! What waits for the caller to take it.

use crate::{Delivery, EndedSession, FailedSend, ProtocolConfig};
use std::collections::VecDeque;

/// The queues behind the `poll_` methods.
#[derive(Clone, Debug, Hash)]
pub(super) struct Outputs<T, R> {
    pub(super) deliveries: VecDeque<Delivery<R>>,
    pub(super) operations: VecDeque<Delivery<R>>,
    pub(super) ended: VecDeque<EndedSession>,
    pub(super) acknowledged: VecDeque<T>,
    pub(super) failures: VecDeque<FailedSend<T>>,
    pub(super) discarded: Vec<R>,
    pub(super) spent: Vec<T>,
}

impl<T, R> Outputs<T, R> {
    pub(super) fn new(config: &ProtocolConfig) -> Self {
        Self {
            deliveries: VecDeque::with_capacity(config.receive_frames as usize),
            operations: VecDeque::new(),
            ended: VecDeque::new(),
            acknowledged: VecDeque::with_capacity(config.send_window.into()),
            failures: VecDeque::new(),
            discarded: Vec::new(),
            spent: Vec::new(),
        }
    }
}

/// Takes the first entry of a queue. A queue that becomes empty starts at its front again: a short
/// one then stays within a few cache lines instead of moving through all of its memory.
#[inline(always)]
pub(super) fn pop<E>(queue: &mut VecDeque<E>) -> Option<E> {
    let entry = queue.pop_front()?;
    if queue.is_empty() {
        queue.clear();
    }
    Some(entry)
}
