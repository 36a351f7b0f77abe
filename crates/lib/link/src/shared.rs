//! A received frame that is lent out in parts, because it carries several messages.

use crate::RxFrame;
use crate::arena::RxPart;
use std::ops::Range;

/// A received frame and the count of its parts that are lent. Parts may overlap: they are only
/// read. The frame comes back once all parts have; a part that is forgotten keeps it for ever.
#[derive(Debug)]
pub struct SharedFrame {
    frame: RxFrame,
    lent: u32,
}

impl SharedFrame {
    /// A frame of which nothing is lent yet.
    #[inline]
    pub fn new(frame: RxFrame) -> Self {
        Self { frame, lent: 0 }
    }

    /// Lends some bytes of the frame.
    ///
    /// # Panics
    /// If they are not within the frame.
    #[inline]
    pub fn lend(&mut self, bytes: Range<usize>) -> RxPart {
        self.lent += 1;
        self.frame.part(bytes)
    }

    /// Takes a part back.
    ///
    /// # Panics
    /// If it is another frame's.
    #[inline]
    pub fn give_back(&mut self, part: RxPart) {
        assert!(part.is_of(&self.frame), "a part of another frame");
        self.lent -= 1;
    }

    /// How many parts are lent.
    #[inline]
    pub fn lent(&self) -> u32 {
        self.lent
    }

    /// The frame, for reading.
    #[inline]
    pub fn frame(&self) -> &RxFrame {
        &self.frame
    }

    /// The frame itself, once nothing of it is lent.
    ///
    /// # Panics
    /// If something is.
    #[inline]
    pub fn into_frame(self) -> RxFrame {
        assert!(self.lent == 0, "parts of the frame are lent");
        self.frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arena;

    #[test]
    fn parts_are_read_where_they_lie_and_the_frame_comes_back_after_the_last() {
        let arena = Arena::anonymous(4096).unwrap();
        // SAFETY: the only tokens of this arena, one after the other.
        let mut frame = unsafe { crate::TxFrame::new(&arena, 0..4096, 0) };
        arena.bytes_mut(&mut frame)[100..105].copy_from_slice(b"gigae");
        // SAFETY: as above; the transmit token is not used any more.
        let mut shared = SharedFrame::new(unsafe { RxFrame::new(&arena, 100..200, 3) });
        let (all, some) = (shared.lend(0..5), shared.lend(1..3));
        assert_eq!((arena.part(&all), arena.part(&some)), (&b"gigae"[..], &b"ig"[..]));
        shared.give_back(all);
        assert_eq!(shared.lent(), 1);
        shared.give_back(some);
        assert_eq!(shared.into_frame().slot(), 3);
    }

    #[test]
    #[should_panic(expected = "a part outside its frame")]
    fn a_part_past_the_end_cannot_be_lent() {
        let arena = Arena::anonymous(4096).unwrap();
        // SAFETY: the only token of this arena.
        let _ = SharedFrame::new(unsafe { RxFrame::new(&arena, 0..100, 0) }).lend(99..101);
    }

    #[test]
    #[should_panic(expected = "parts of the frame are lent")]
    fn a_frame_with_a_part_lent_does_not_come_back() {
        let arena = Arena::anonymous(4096).unwrap();
        // SAFETY: the only token of this arena.
        let mut shared = SharedFrame::new(unsafe { RxFrame::new(&arena, 0..100, 0) });
        let _part = shared.lend(0..1);
        let _ = shared.into_frame();
    }
}
