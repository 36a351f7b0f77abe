//! Messages that failed and were not taken yet.

use gigae_proto::{PeerId, Reason};
use std::collections::VecDeque;

/// A message that was sent and not acknowledged.
pub(crate) struct FailedMessage {
    pub(crate) message: Box<[u8]>,
    pub(crate) to: PeerId,
    pub(crate) reason: Reason,
}

/// Those of a frame that failed: it may have carried several.
#[derive(Default)]
pub(super) struct Failures(VecDeque<FailedMessage>);

impl Failures {
    #[inline]
    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the next one was for this peer.
    #[inline]
    pub(super) fn begin_with(&self, peer: PeerId) -> bool {
        self.0.front().is_some_and(|failed| failed.to == peer)
    }

    pub(super) fn add(&mut self, messages: Vec<Box<[u8]>>, to: PeerId, reason: Reason) {
        self.0.extend(messages.into_iter().map(|message| FailedMessage { message, to, reason }));
    }

    pub(super) fn take(&mut self) -> Option<FailedMessage> {
        self.0.pop_front()
    }
}
