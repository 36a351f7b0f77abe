//! Puts the segments of received frames together, where a frame may be in several chunks.
//!
//! In the copy modes the kernel shows a frame's descriptors all at once; a zero-copy driver may
//! show them one by one. A frame is handed on only when it is complete. A frame with an invalid
//! descriptor, or with more segments than the link promises, is dropped completely.

use crate::umem::Umem;
use gigae_link::RxFrame;

/// Most segments of a frame, sent and received: what hardware takes in zero-copy mode (i40e and ice
/// chain up to this many descriptors). The kernel itself takes 17.
pub(crate) const MAX_SEGMENTS: usize = 8;

/// A frame that is being received.
#[derive(Default)]
pub(crate) struct Assembly {
    segments: Vec<RxFrame>,
    /// A segment of the frame is missing, so its later segments are dropped too.
    broken: bool,
}

/// The state of a frame after a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameState {
    /// There is more to come.
    Unfinished,
    /// It is in the batch.
    Whole,
    /// It was dropped.
    Broken,
}

impl Assembly {
    /// Takes in the next segment (`None`: its descriptor was invalid). `more` says that others
    /// follow.
    #[inline]
    pub(crate) fn add(
        &mut self,
        umem: &mut Umem,
        segment: Option<RxFrame>,
        more: bool,
        batch: &mut Vec<RxFrame>,
    ) -> FrameState {
        match segment {
            Some(segment) if !self.broken && self.segments.len() < MAX_SEGMENTS => {
                self.segments.push(if more { segment.continued() } else { segment });
            }
            unusable => {
                self.broken = true;
                self.segments.drain(..).chain(unusable).for_each(|segment| umem.recycle(segment));
            }
        }
        if more {
            return FrameState::Unfinished;
        }
        batch.append(&mut self.segments);
        if std::mem::take(&mut self.broken) { FrameState::Broken } else { FrameState::Whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::umem::CHUNK;
    use gigae_link::Arena;

    /// Sixteen receive chunks, all with the kernel.
    fn umem() -> Umem {
        let mut umem = Umem::new(Arena::anonymous(Umem::bytes(1, 16)).unwrap(), 1, 16);
        umem.provide(16);
        while umem.missing().is_some() {}
        umem
    }

    /// Receives frames, each a list of chunks. Nothing can be received into chunk 0.
    fn receive(umem: &mut Umem, frames: &[&[u64]]) -> (Vec<RxFrame>, Vec<FrameState>) {
        let (mut assembly, mut batch, mut became) = (Assembly::default(), Vec::new(), Vec::new());
        for chunks in frames {
            for (i, chunk) in chunks.iter().enumerate() {
                let segment = umem.hand_out(chunk * CHUNK as u64 + 256, 100);
                let before = batch.len();
                let last = i + 1 == chunks.len();
                let frame = assembly.add(umem, segment, !last, &mut batch);
                assert!(last == (frame != FrameState::Unfinished));
                assert!(last || batch.len() == before, "handed on before its last segment");
                became.extend((frame != FrameState::Unfinished).then_some(frame));
            }
        }
        (batch, became)
    }

    fn handed_out(umem: &mut Umem) -> usize {
        while umem.missing().is_some() {}
        16 - umem.ready()
    }

    #[test]
    fn all_segments_but_the_last_say_that_their_frame_goes_on() {
        let mut umem = umem();
        let (batch, became) = receive(&mut umem, &[&[1], &[2, 3, 4], &[5, 6]]);
        let tokens: Vec<_> = batch.iter().map(|token| (token.slot(), token.continues())).collect();
        assert_eq!(tokens, [(1, false), (2, true), (3, true), (4, false), (5, true), (6, false)]);
        assert_eq!(became, [FrameState::Whole; 3]);
        batch.into_iter().for_each(|token| umem.recycle(token));
        assert_eq!(handed_out(&mut umem), 0);
    }

    #[test]
    fn a_frame_with_a_senseless_descriptor_is_dropped_whole_and_the_next_is_not() {
        for broken in [&[0, 1, 2][..], &[1, 0, 2], &[1, 2, 0], &[0]] {
            let mut umem = umem();
            let (batch, became) = receive(&mut umem, &[broken, &[7, 8]]);
            let slots: Vec<_> = batch.iter().map(RxFrame::slot).collect();
            assert_eq!((slots, became), (vec![7, 8], vec![FrameState::Broken, FrameState::Whole]));
            assert_eq!(handed_out(&mut umem), 2, "the chunks of the broken frame are not lost");
            batch.into_iter().for_each(|token| umem.recycle(token));
        }
    }

    #[test]
    fn a_frame_of_too_many_segments_is_dropped_whole() {
        let mut umem = umem();
        let chunks: Vec<u64> = (1..=MAX_SEGMENTS as u64 + 1).collect();
        let (batch, became) = receive(&mut umem, &[&chunks, &[12]]);
        assert_eq!((batch.len(), became), (1, vec![FrameState::Broken, FrameState::Whole]));
        batch.into_iter().for_each(|token| umem.recycle(token));
        assert_eq!(handed_out(&mut umem), 0);
        let (all, became) = receive(&mut umem, &[&chunks[..MAX_SEGMENTS]]);
        assert_eq!((all.len(), became), (MAX_SEGMENTS, vec![FrameState::Whole]));
        all.into_iter().for_each(|token| umem.recycle(token));
    }
}
