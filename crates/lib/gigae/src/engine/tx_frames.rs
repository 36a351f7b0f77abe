//! Transmit frames that messages lie in: the program has them, or the window.

use crate::link::AnyLink;
use crate::outbound::{FrameSegment, FurtherSegments, Outbound};
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
    /// Those that the windows have, or messages that failed.
    queued: usize,
    /// The longest message or operation takes this many.
    segments: usize,
    /// Empty lists of segments, for frames that need one.
    spare: Vec<FurtherSegments>,
}

impl TxFrames {
    /// The frames of a link. The longest payload takes `segments` of them.
    pub(super) fn new(link: &AnyLink, segments: usize) -> Self {
        let most = link.info().tx_frames.saturating_sub(CONTROL_FRAMES).max(1);
        let arena = Arc::clone(link.memory().arena);
        let spare = Vec::new();
        Self { arena, lent: 0, most, queued: 0, segments: segments.max(1), spare }
    }

    /// Whether messages have all that they may have.
    #[inline]
    pub(super) fn is_exhausted(&self) -> bool {
        self.lent >= self.most
    }

    /// Whether a peer may queue another frame. From half of the frames on, an unnamed peer must
    /// have fewer than its part of a quarter of them. The last quarter is for peers that the
    /// program has named, in parts. So peers that take nothing leave frames for others, however
    /// many there are. `is_within` says whether the peer has fewer than its part of that number of
    /// frames, and is named if it must be.
    #[inline]
    pub(super) fn may_queue(&self, is_within: impl FnOnce(usize, bool) -> bool) -> bool {
        self.has_plenty() || self.may_queue_of_few(is_within)
    }

    /// Whether any peer may queue another frame.
    #[inline]
    pub(super) fn has_plenty(&self) -> bool {
        self.queued < self.most / 2
    }

    #[cold]
    fn may_queue_of_few(&self, is_within: impl FnOnce(usize, bool) -> bool) -> bool {
        let only_named = self.queued >= self.most - self.most / 4;
        is_within(self.most / 4 / self.segments, only_named)
    }

    /// `frames` more frames are in the window from now on.
    #[inline]
    pub(super) fn queued(&mut self, frames: usize) {
        self.queued += frames;
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
        let frames = message.frames();
        self.lent -= frames;
        self.queued -= frames;
        if let Some(behind) = message.release(link) {
            self.spare.push(behind);
        }
    }

    /// Adds a segment to those behind a first frame.
    pub(super) fn add_behind(
        &mut self,
        behind: &mut Option<FurtherSegments>,
        segment: FrameSegment,
    ) {
        behind.get_or_insert_with(|| self.spare.pop().unwrap_or_default()).push(segment);
    }
}
