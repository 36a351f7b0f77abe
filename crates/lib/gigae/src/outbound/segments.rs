//! Frames that are longer than one transmit frame's memory: posted in segments, as jumbo frames
//! are. The headers and the first of the payload lie in one transmit frame, the rest in others
//! behind it.

use super::{OutboundFrame, PAYLOAD, Padded};
use gigae_link::{Arena, Link, Posted, Segment, TxFrame};
use gigae_wire::{HEADER_LEN, Header, Pieces, Route};
use std::ops::Range;

/// Most segments of a frame: what a link may have, with room.
pub(crate) const MOST_SEGMENTS: usize = 8;

/// A transmit frame behind the first, and how many of its bytes belong to the payload.
#[derive(Debug)]
pub(crate) struct FrameSegment {
    /// Only taken out while it is posted.
    frame: Option<OutboundFrame>,
    len: u16,
}

impl FrameSegment {
    pub(crate) fn new(frame: TxFrame, len: u16) -> Self {
        Self { frame: Some(OutboundFrame::Taken(frame)), len }
    }

    pub(super) fn release(self, link: &mut impl Link) {
        self.frame.expect("a segment keeps its frame").release(link);
    }

    /// The bytes of the payload that lie here.
    pub(super) fn bytes<'a>(&'a self, arena: &'a Arena) -> &'a [u8] {
        let frame = self.frame.as_ref().expect("a segment keeps its frame");
        &frame.bytes(arena)[..self.len.into()]
    }

    /// Takes the frame back from the NIC, if that is done with it.
    pub(super) fn reclaim(&mut self, link: &mut impl Link) -> bool {
        let frame = self.frame.take().expect("a segment keeps its frame").reclaim(link);
        let taken = matches!(frame, OutboundFrame::Taken(_));
        self.frame = Some(frame);
        taken
    }
}

/// A frame whose payload begins in one transmit frame and goes on in those behind it.
pub(super) struct SegmentedFrame<'a> {
    pub(super) first: TxFrame,
    /// Where in the first one it begins and ends.
    pub(super) payload: Range<usize>,
    pub(super) behind: &'a mut [FrameSegment],
}

/// Posts a frame in segments, all of which were taken.
pub(super) fn post(
    link: &mut impl Link,
    arena: &Arena,
    frame: SegmentedFrame<'_>,
    to: &Route,
    header: &Header,
) -> Posted {
    let SegmentedFrame { mut first, payload, behind } = frame;
    let mut pieces = [&[] as &[u8]; MOST_SEGMENTS];
    for (piece, segment) in pieces.iter_mut().zip(&*behind) {
        *piece = segment.bytes(arena);
    }
    let rest = Pieces::new(&[], &pieces[..behind.len()]);
    let bytes = arena.bytes_mut(&mut first);
    let (inner, end) = (payload.start - HEADER_LEN, payload.end);
    let start = inner - to.len();
    header.seal_segments(&mut bytes[inner..end], rest);
    to.write_segments(&mut bytes[start..end], rest);
    let posted = link.post(first, start..end, Segment::More);
    let last = behind.len() - 1;
    for (i, segment) in behind.iter_mut().enumerate() {
        let Some(OutboundFrame::Taken(frame)) = segment.frame.take() else {
            unreachable!("all segments were taken")
        };
        let part = if i == last { Segment::Last } else { Segment::More };
        let posted = link.post(frame, 0..segment.len.into(), part);
        segment.frame = Some(OutboundFrame::Posted(posted));
    }
    posted
}

/// Posts a copy of a payload that is too long for one transmit frame, padded with zeros to `len`
/// bytes. False if there are not enough transmit frames.
#[cold]
pub(super) fn post_copy(
    link: &mut impl Link,
    arena: &Arena,
    to: &Route,
    header: &Header,
    Padded { mut payload, len }: Padded<'_>,
) -> bool {
    let size = link.info().frame_size;
    let Some(mut first) = link.take() else { return false };
    let mut behind = Vec::new();
    let mut left = len - (size - PAYLOAD);
    fill(&mut arena.bytes_mut(&mut first)[PAYLOAD..], &mut payload);
    while left > 0 {
        let Some(mut frame) = link.take() else { break };
        let part = left.min(size);
        fill(&mut arena.bytes_mut(&mut frame)[..part], &mut payload);
        behind.push(FrameSegment::new(frame, part as u16));
        left -= part;
    }
    if left > 0 || behind.len() >= link.info().max_segments {
        link.release(first.into());
        behind.into_iter().for_each(|segment| segment.release(link));
        return false;
    }
    let frame = SegmentedFrame { first, payload: PAYLOAD..size, behind: &mut behind };
    let posted = post(link, arena, frame, to, header);
    link.release(posted.into());
    behind.into_iter().for_each(|segment| segment.release(link));
    true
}

/// Copies what is left of the payload, and zeros behind it.
fn fill(bytes: &mut [u8], payload: &mut Pieces) {
    let len = payload.len().min(bytes.len());
    let mut at = 0;
    for piece in payload.split(len).into_iter().flatten() {
        bytes[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    bytes[at..].fill(0);
}
