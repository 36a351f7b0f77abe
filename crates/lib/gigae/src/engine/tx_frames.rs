//! Transmit frames that messages lie in: the program has them, or the window.

use crate::link::AnyLink;
use crate::outbound::{Behind, FrameSegment, Outbound};
use gigae_link::{Arena, Link, TxFrame};
use std::sync::Arc;

/// Transmit frames that messages cannot have: they carry acknowledgements, without which the
/// frames held by the window would never come back.
const CONTROL_FRAMES: usize = 64;

/// See the module's description. All of them are the first link's.
pub(super) struct TxFrames {
    pub(super) arena: Arc<Arena>,
    lent: usize,
    most: usize,
    /// Empty lists of segments, for frames that need one.
    spare: Vec<Behind>,
}

impl TxFrames {
    pub(super) fn new(link: &AnyLink) -> Self {
        let most = link.info().tx_frames.saturating_sub(CONTROL_FRAMES).max(1);
        Self { arena: Arc::clone(link.memory().arena), lent: 0, most, spare: Vec::new() }
    }

    /// Whether messages have all that they may have.
    #[inline]
    pub(super) fn are_all_lent(&self) -> bool {
        self.lent >= self.most
    }

    /// A frame for a message, if the link has one.
    #[inline]
    pub(super) fn take(&mut self, link: &mut AnyLink) -> Option<TxFrame> {
        let frame = link.take()?;
        self.lent += 1;
        Some(frame)
    }

    /// A message's frame that was never admitted.
    #[inline]
    pub(super) fn give_back(&mut self, link: &mut AnyLink, frame: TxFrame) {
        self.lent -= 1;
        link.release(frame.into());
    }

    /// The frames of a message that the protocol is done with.
    #[inline]
    pub(super) fn release(&mut self, link: &mut AnyLink, message: Outbound) {
        self.lent -= message.frames();
        self.spare.extend(message.release(link));
    }

    /// Adds a segment to those behind a first frame.
    pub(super) fn add_behind(&mut self, behind: &mut Option<Behind>, segment: FrameSegment) {
        behind.get_or_insert_with(|| self.spare.pop().unwrap_or_default()).push(segment);
    }
}
