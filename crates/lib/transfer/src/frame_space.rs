//! The rest of a frame that is being filled, and data that stay where they are until it is sent.

use crate::memory::Bytes;
use std::num::NonZeroU16;

/// Least room for a part of something longer. A smaller part is not worth its header.
pub(crate) const LEAST_PART: usize = 64;

/// Fewer bytes are copied into the frame.
const LEAST_IN_PLACE: usize = 4096;

/// Data of a frame that stay in the memory of their operation until the frame is sent. They are the
/// frame's last bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlace {
    pub(crate) operation: u32,
    /// Where in the operation's memory they begin.
    pub(crate) from: u32,
    /// How many.
    pub(crate) len: NonZeroU16,
}

impl InPlace {
    /// How many bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.get().into()
    }

    /// Whether it is none: never.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// The bytes of [`InPlace`] data.
#[derive(Clone, Copy, Debug)]
pub struct InPlaceBytes<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// See [`Bytes::is_lendable`].
    pub lendable: bool,
}

/// The rest of a frame that is being filled.
pub(crate) struct FrameSpace<'a> {
    pub(crate) bytes: &'a mut [u8],
    /// Bytes of the frame that are filled.
    pub(crate) before: usize,
    /// Data may stay in place.
    pub(crate) in_place: bool,
    /// Nothing else waits for the peer.
    pub(crate) last: bool,
}

impl FrameSpace<'_> {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Puts `len` bytes of an operation's memory behind its header, which was written: copies them,
    /// or leaves them in place.
    pub(crate) fn take(
        &mut self,
        header: usize,
        operation: u32,
        memory: &impl Bytes,
        from: usize,
        len: usize,
    ) -> FillResult {
        // Nothing comes behind data that stay in place.
        let ends = self.last || header + len + LEAST_PART > self.len();
        if self.in_place && ends && len >= LEAST_IN_PLACE && memory.slice(from, len).is_some() {
            let len = u16::try_from(len).ok().and_then(NonZeroU16::new);
            let len = len.expect("a part of at most 65,535 bytes");
            return FillResult::Left(header, InPlace { operation, from: from as u32, len });
        }
        memory.read(from, &mut self.bytes[header..header + len]);
        FillResult::Wrote(header + len)
    }
}

/// The result of trying to write the next thing.
pub(crate) enum FillResult {
    /// Wrote this many bytes; there may be more for this frame.
    Wrote(usize),
    /// Wrote a header of this many bytes, whose data stay in place. Nothing comes behind them.
    Left(usize, InPlace),
    /// It needs more room; the next frame will have it.
    Full,
    /// There is nothing to write, or it must wait for the peer.
    Nothing,
}
