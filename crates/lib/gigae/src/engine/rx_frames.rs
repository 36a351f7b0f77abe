//! Received frames between the links and the inbox, and how many are kept ready for reception.

use gigae_link::RxFrame;
use gigae_proto::PeerId;
use gigae_wire::Epoch;

/// Frames taken from the link at a time: enough to amortise what is done per batch, few enough to
/// stay in the cache.
pub(super) const BATCH: usize = 64;

/// Frames kept ready for what comes without credit: acknowledgements, proposals.
const READY_BESIDES: usize = 64;

/// See the module's description.
pub(super) struct RxFrames {
    pub(super) batch: Vec<RxFrame>,
    /// The sessions of frames of the batch whose operations were carried out, one for each frame.
    pub(super) carried_out: Vec<(PeerId, Epoch)>,
    /// Frames received since the endpoint was opened.
    pub(super) received: u64,
    /// Frames that the links were asked to have ready, and segments of the longest.
    ready: usize,
    segments: usize,
}

impl RxFrames {
    pub(super) fn new(segments: usize) -> Self {
        let carried_out = Vec::with_capacity(BATCH);
        Self { batch: Vec::with_capacity(BATCH), carried_out, received: 0, ready: 0, segments }
    }

    /// Whether fewer are ready than the peers have credit for.
    #[inline]
    pub(super) fn are_few(&self, credit: u32) -> bool {
        credit as usize + READY_BESIDES > self.ready
    }

    /// As many as the peers have credit for are to be ready: how many frames of memory that takes.
    pub(super) fn ready_for(&mut self, credit: u32) -> usize {
        // In steps, since credit grows frame by frame.
        self.ready = (credit as usize + READY_BESIDES).next_multiple_of(64);
        self.ready * self.segments
    }
}
