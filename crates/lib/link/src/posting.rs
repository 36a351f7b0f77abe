//! Checks for backends of what is posted: its length, and whether its last segment came.

use crate::{Info, Segment};

/// Ethernet header: the shortest thing that can be sent.
const ETHERNET: usize = 14;

/// The frame that is being posted. Call [`add`](Self::add) first in `post` and
/// [`flush`](Self::flush) first in `flush`. Panics on what [`Link::post`](crate::Link::post)
/// refuses.
#[derive(Debug)]
pub struct Posting {
    max_frame: usize,
    max_segments: usize,
    /// Bytes and segments posted of a frame whose last segment is to come.
    bytes: usize,
    segments: usize,
}

impl Posting {
    /// For a link as described.
    pub fn new(info: &Info) -> Self {
        let Info { max_frame, max_segments, .. } = *info;
        Self { max_frame, max_segments, bytes: 0, segments: 0 }
    }

    /// A segment of `length` bytes is posted.
    #[inline]
    pub fn add(&mut self, length: usize, segment: Segment) {
        if segment == Segment::More || self.segments > 0 {
            self.add_to_several(length, segment);
        } else {
            assert!((ETHERNET..=self.max_frame).contains(&length), "{length} bytes to send");
        }
    }

    #[cold]
    fn add_to_several(&mut self, length: usize, segment: Segment) {
        self.bytes += length;
        self.segments += 1;
        let Self { max_frame, max_segments, bytes, segments } = *self;
        if segment == Segment::Last {
            let fits = length > 0 && (ETHERNET..=max_frame).contains(&bytes);
            assert!(fits, "{bytes} bytes to send");
            (self.bytes, self.segments) = (0, 0);
        } else {
            assert!(length > 0 && bytes < max_frame, "{bytes} bytes to send and more to come");
            let few = segments < max_segments;
            assert!(few, "{segments} segments of {max_segments} and more to come");
        }
    }

    /// Nothing can be sent while a frame is unfinished.
    #[inline]
    pub fn flush(&self) {
        assert!(self.segments == 0, "the last segment of a frame was not posted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Whether a link of 100 bytes and three segments takes these, the last one ending the frame.
    fn takes(lengths: &[usize]) -> bool {
        let mut posting = Posting { max_frame: 100, max_segments: 3, bytes: 0, segments: 0 };
        let (last, others) = lengths.split_last().unwrap();
        catch_unwind(AssertUnwindSafe(|| {
            others.iter().for_each(|&length| posting.add(length, Segment::More));
            posting.add(*last, Segment::Last);
            posting.flush();
        }))
        .is_ok()
    }

    #[test]
    fn what_the_link_takes_passes_and_nothing_else() {
        for good in [&[14][..], &[100], &[1, 13], &[98, 1, 1], &[40, 40, 20]] {
            assert!(takes(good), "{good:?}");
        }
        for bad in [&[13][..], &[101], &[0], &[100, 0], &[0, 50], &[50, 51], &[20, 20, 20, 20]] {
            assert!(!takes(bad), "{bad:?}");
        }
    }

    #[test]
    #[should_panic(expected = "the last segment of a frame was not posted")]
    fn an_unfinished_frame_is_not_sent() {
        let mut posting = Posting { max_frame: 100, max_segments: 3, bytes: 0, segments: 0 };
        posting.add(50, Segment::More);
        posting.flush();
    }
}
