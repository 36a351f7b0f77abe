//! What was written into a frame: bytes that the peer has asked for, or anything else.

use super::Transfer;
use crate::frame_space::{FillResult, FrameSpace};
use crate::memory::Bytes;
use gigae_proto::PeerId;

/// What a frame has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// Bytes that the peer has asked for.
    Replies,
    /// Anything else.
    Others,
}

impl<M: Bytes> Transfer<M> {
    /// Whether what was filled since the last call of [`framed`](Self::framed) only brings bytes
    /// that the peer has asked for. Operations that come later may be carried out before these.
    /// False unless the configuration [separates](crate::TransferConfig::separates) them.
    pub fn is_loose(&self) -> bool {
        self.written == Some(Written::Replies)
    }

    /// The next step for a frame, which has either bytes that the peer has asked for, or anything
    /// else.
    #[cold]
    #[inline(never)]
    pub(crate) fn fill_separately(&mut self, peer: PeerId, mut room: FrameSpace) -> FillResult {
        let may = |what| self.written.is_none_or(|written| written == what);
        let (replies, others) = (may(Written::Replies), may(Written::Others));
        if others {
            let step = self.fill_answer(peer, room.bytes);
            if !matches!(step, FillResult::Nothing) {
                return self.wrote(Written::Others, step);
            }
        }
        let first = self.serves_next(peer, &mut room);
        for serves in [first, !first] {
            let (may, what) = match serves {
                true => (replies, Written::Replies),
                false => (others, Written::Others),
            };
            let step = match serves {
                _ if !may => FillResult::Nothing,
                true => self.serve(peer, &mut room),
                false => self.start(peer, &mut room),
            };
            if !matches!(step, FillResult::Nothing) {
                return self.wrote(what, step);
            }
        }
        if self.written.is_some() {
            // There may be something else for the next frame.
            self.wake(peer);
        }
        FillResult::Nothing
    }

    /// Notes what a step has written, if it has.
    fn wrote(&mut self, what: Written, step: FillResult) -> FillResult {
        if matches!(step, FillResult::Wrote(1..) | FillResult::Left(..)) {
            self.written = Some(what);
        }
        step
    }
}
