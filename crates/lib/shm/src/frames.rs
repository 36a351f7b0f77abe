//! Receive frames of the wrapper, into which it copies frames from the rings.

use crate::ring::{Reader, Record, Ring};
use gigae_link::{Arena, Info, RxFrame, TxFrame};
use std::io;
use std::sync::Arc;

/// Frames begin at a multiple of this: a pair of cache lines.
const ALIGNED: usize = 128;

/// As many frames as the link below has for reception, numbered behind all frames of that link. The
/// frame used last is used again first, so memory that was never needed takes up none.
pub(crate) struct Frames {
    pub(crate) arena: Arc<Arena>,
    /// Number of the first.
    first: u32,
    /// Bytes in each, and bytes of a frame that fit into one: a multiple of 8 where a frame may
    /// have several.
    size: usize,
    segment: usize,
    free: Vec<u32>,
    /// Which ones the caller has.
    borrowed: Box<[bool]>,
}

impl Frames {
    pub(crate) fn new(info: &Info) -> io::Result<Self> {
        let segment = match info.max_segments {
            1 => info.max_frame,
            _ => info.segment_size & !7,
        };
        let size = segment.next_multiple_of(ALIGNED);
        let count = info.rx_frames;
        let number = |n: usize| u32::try_from(n).map_err(|_| io::ErrorKind::InvalidInput);
        let first = number(info.tx_frames + count)?;
        Ok(Self {
            arena: Arc::new(Arena::sparse(count * size)?),
            first,
            size,
            segment,
            free: (0..number(count)?).rev().collect(),
            borrowed: vec![false; count].into_boxed_slice(),
        })
    }

    /// Whether all are with the caller.
    pub(crate) fn are_all_borrowed(&self) -> bool {
        self.free.is_empty()
    }

    /// Copies a frame out of a ring and appends its tokens. False, with no effect, if too few are
    /// free.
    #[inline]
    pub(crate) fn hand_out(
        &mut self,
        reader: &Reader,
        ring: &Ring,
        record: Record,
        batch: &mut Vec<RxFrame>,
    ) -> bool {
        if self.free.len() < record.len.div_ceil(self.segment) {
            return false;
        }
        let mut from = 0;
        while from < record.len {
            let len = (record.len - from).min(self.segment);
            let index = self.free.pop().expect("enough are free");
            self.borrowed[index as usize] = true;
            let start = index as usize * self.size;
            let (place, slot) = (start..start + len, self.first + index);
            // SAFETY: the frame came off the list of free ones, so there is no other token for its
            // bytes.
            let mut room = unsafe { TxFrame::new(&self.arena, place.clone(), slot) };
            reader.copy(ring, record, from, self.arena.bytes_mut(&mut room));
            // SAFETY: `room` is not used any more.
            let token = unsafe { RxFrame::new(&self.arena, place, slot) };
            from += len;
            batch.push(if from < record.len { token.continued() } else { token });
        }
        true
    }

    /// Takes a frame back, or returns it if it is not one of these.
    ///
    /// # Panics
    /// If it is one of these and the caller does not have it.
    #[inline]
    pub(crate) fn recycle(&mut self, frame: RxFrame) -> Result<(), RxFrame> {
        if !self.arena.has(&frame) {
            return Err(frame);
        }
        let index = frame.slot() - self.first;
        assert!(
            std::mem::take(&mut self.borrowed[index as usize]),
            "a frame that was not borrowed"
        );
        self.free.push(index);
        Ok(())
    }
}
