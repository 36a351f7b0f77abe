//! What was written into a frame: bytes that the peer has asked for, or anything else.

use super::Transfer;
use crate::frame_space::FillResult;
use crate::memory::Bytes;

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
    pub fn is_loose(&self) -> bool {
        self.written == Some(Written::Replies)
    }

    /// Notes what a step has written, if it has.
    pub(crate) fn wrote(&mut self, what: Written, step: FillResult) -> FillResult {
        if matches!(step, FillResult::Wrote(1..) | FillResult::Left(..)) {
            self.written = match self.written {
                Some(before) if before != what => Some(Written::Others),
                _ => Some(what),
            };
        }
        step
    }
}
