//! Where the frames of a link lie.

use crate::{Arena, RxFrame};
use std::sync::Arc;

/// The frame memory of a link: one arena, and perhaps a second for received frames.
#[derive(Clone, Copy, Debug)]
pub struct FrameMemory<'a> {
    /// All transmit frames, and received ones.
    pub arena: &'a Arc<Arena>,
    /// More received frames, as many as [`Info::rx_frames`](crate::Info::rx_frames), numbered
    /// behind all of the first arena's. Most links have none.
    pub beside: Option<&'a Arc<Arena>>,
}

impl<'a> FrameMemory<'a> {
    /// The bytes of a received frame, in whatever memory it lies.
    ///
    /// # Panics
    /// If the frame is another link's.
    #[inline]
    pub fn received(&self, frame: &'a RxFrame) -> &'a [u8] {
        match self.beside {
            Some(beside) if beside.has(frame) => beside.bytes(frame),
            _ => self.arena.bytes(frame),
        }
    }
}

impl<'a> From<&'a Arc<Arena>> for FrameMemory<'a> {
    #[inline]
    fn from(arena: &'a Arc<Arena>) -> Self {
        Self { arena, beside: None }
    }
}
