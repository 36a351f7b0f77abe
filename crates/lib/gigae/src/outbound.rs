//! Messages on their way out: in the transmit frame that carries them, alone or several together.

mod segments;

use gigae_link::{Arena, Held, Link, Posted, Segment, TxFrame};
use gigae_proto::PeerId;
use gigae_transfer::{InPlace, InPlaceBytes};
use gigae_udp::BulkLink;
use gigae_wire::{HEADER_LEN, Header, MAX_ENVELOPE, PathId, Pieces, Route, TAG_LEN, batch};
use segments::SegmentedFrame;
use std::borrow::Cow;
use std::ops::Range;

pub(crate) use segments::{FrameSegment, MOST_SEGMENTS};

/// Where payloads begin in a transmit frame: room for the longest headers and a length in front of
/// the first message, and a cache line's boundary, so that a message written in place is aligned.
pub(crate) const PAYLOAD: usize = 128;
const _: () = assert!(PAYLOAD >= MAX_ENVELOPE + TAG_LEN + HEADER_LEN + batch::PREFIX_LEN);

/// Where the payload of a Batch begins: the first message stays where it was written.
const BATCH: usize = PAYLOAD - batch::PREFIX_LEN;

/// Shortest Ethernet frame without FCS (IEEE Std 802.3, clause 3.2.8).
const SHORTEST_FRAME: usize = 60;

/// Bytes of padding at most: 14 behind an empty payload, rounded up.
const MOST_PADDING: usize = 16;

/// The segments behind the first. Boxed, since a window has hundreds of frames, and few of them
/// any.
pub(crate) type FurtherSegments = Box<Vec<FrameSegment>>;

/// A transmit frame in the protocol's window, with one message or several, or with operations.
#[derive(Debug)]
pub(crate) struct Outbound {
    /// Only taken out while it is posted.
    frame: Option<OutboundFrame>,
    /// Bytes of payload in this frame: the message, or the messages with their lengths.
    len: u16,
    batch: bool,
    /// The path whose link it was filled for, and in whose memory it lies.
    path: PathId,
    /// The peer, if it carries operations.
    operations: Option<PeerId>,
    /// Operations for which one transmit frame is not enough go on in these. The list is used
    /// again.
    behind: Option<FurtherSegments>,
    /// The last bytes of the payload are not in the frame but in the program's memory.
    in_place: Option<InPlace>,
}

#[derive(Debug)]
enum OutboundFrame {
    Taken(TxFrame),
    Posted(Posted),
}

impl OutboundFrame {
    fn bytes<'a>(&'a self, arena: &'a Arena) -> &'a [u8] {
        match self {
            Self::Taken(frame) => arena.unsent_bytes(frame),
            Self::Posted(frame) => arena.posted_bytes(frame),
        }
    }

    /// Takes the frame back, unless the NIC still holds it.
    #[inline]
    fn reclaim(self, link: &mut impl Link) -> Self {
        match self {
            Self::Taken(frame) => Self::Taken(frame),
            Self::Posted(posted) => match link.reclaim(posted) {
                Ok(frame) => Self::Taken(frame),
                Err(posted) => Self::Posted(posted),
            },
        }
    }

    #[inline]
    fn release(self, link: &mut impl Link) {
        link.release(match self {
            Self::Taken(frame) => Held::from(frame),
            Self::Posted(frame) => Held::from(frame),
        });
    }
}

/// The payload of a control frame, padded with zeros to `len` bytes.
#[derive(Clone, Copy)]
pub(crate) struct Padded<'a> {
    payload: Pieces<'a>,
    len: usize,
}

impl<'a> Padded<'a> {
    /// Without padding.
    pub(crate) fn whole(payload: Pieces<'a>) -> Self {
        Self { payload, len: payload.len() }
    }

    /// Padded to `pad` bytes if that is more.
    pub(crate) fn new(payload: &'a [u8], pad: u16) -> Self {
        Self { payload: payload.into(), len: payload.len().max(pad.into()) }
    }
}

impl Outbound {
    /// A frame with one message of `len` bytes, which was written at [`PAYLOAD`].
    #[inline]
    pub(crate) fn new(frame: TxFrame, len: u16) -> Self {
        let frame = Some(OutboundFrame::Taken(frame));
        let (operations, behind, in_place) = (None, None, None);
        Self { frame, len, batch: false, path: PathId::FIRST, operations, behind, in_place }
    }

    /// A frame with `len` bytes of operations for a peer, which were written at [`PAYLOAD`], and
    /// those in the segments behind it.
    #[inline]
    pub(crate) fn operations(
        frame: TxFrame,
        len: u16,
        behind: Option<FurtherSegments>,
        to: PeerId,
    ) -> Self {
        Self { operations: Some(to), behind, ..Self::new(frame, len) }
    }

    /// A frame of the socket's with `len` bytes of operations for a peer, which were written at
    /// [`PAYLOAD`], except those that stay in place.
    pub(crate) fn bulk(frame: TxFrame, len: u16, in_place: Option<InPlace>, to: PeerId) -> Self {
        let path = PathId::SOCKET;
        Self { operations: Some(to), path, in_place, ..Self::new(frame, len) }
    }

    /// Data of it that are not in the frame but in the program's memory.
    #[inline]
    pub(crate) fn in_place(&self) -> Option<InPlace> {
        self.in_place
    }

    /// Copies the data that stayed in place into the frame. False if the NIC still holds it. One
    /// copy. Data whose operation is over are zeros: the peer has acknowledged them without having
    /// them, and must not see what the frame carried before.
    #[cold]
    pub(crate) fn bring_in(
        &mut self,
        link: &mut impl Link,
        arena: &Arena,
        data: Option<&[u8]>,
    ) -> bool {
        let end = self.payload().end;
        let frame = self.frame.take().expect("a message keeps its frame").reclaim(link);
        let OutboundFrame::Taken(frame) = self.frame.insert(frame) else { return false };
        if let Some(in_place) = self.in_place.take() {
            let room = &mut arena.bytes_mut(frame)[end - in_place.len()..end];
            match data {
                Some(data) => room.copy_from_slice(data),
                None => room.fill(0),
            }
        }
        true
    }

    /// Like [`post`](Self::post) for a frame whose last bytes are `data`, in the program's memory.
    /// The socket sends it at once. It reads them for the checksum; the kernel copies them, or
    /// gets their pages.
    pub(crate) fn post_in_place(
        &mut self,
        link: &mut BulkLink,
        arena: &Arena,
        data: InPlaceBytes<'_>,
        to: &Route,
        header: &Header,
    ) -> bool {
        let mut frame = match self.frame.take().expect("a message keeps its frame").reclaim(link) {
            OutboundFrame::Taken(frame) => frame,
            posted => {
                self.frame = Some(posted);
                return false;
            }
        };
        let payload = self.payload();
        let whole = payload.start - HEADER_LEN - to.len()..payload.end;
        let bytes = arena.bytes_mut(&mut frame);
        to.write(&mut bytes[whole.clone()]);
        let InPlaceBytes { bytes, lendable } = data;
        let posted = link.post_in_place(frame, whole, header, bytes, lendable);
        self.frame = Some(OutboundFrame::Posted(posted));
        true
    }

    /// The path in whose link's memory it lies.
    #[inline]
    pub(crate) fn path(&self) -> PathId {
        self.path
    }

    /// Transmit frames that it holds.
    #[inline]
    pub(crate) fn frames(&self) -> usize {
        1 + self.behind.as_ref().map_or(0, |behind| behind.len())
    }

    /// The peer to which it carries operations, if it does.
    #[inline]
    pub(crate) fn carries_operations(&self) -> Option<PeerId> {
        self.operations
    }

    /// Adds a message to those of a frame that was never posted. Returns the new length of the
    /// payload, or `None` if it would exceed `longest`. One copy.
    #[inline]
    pub(crate) fn append(&mut self, arena: &Arena, message: &[u8], longest: u16) -> Option<u16> {
        let Some(OutboundFrame::Taken(frame)) = &mut self.frame else { return None };
        let prefix = batch::PREFIX_LEN;
        let first = if self.batch { 0 } else { prefix };
        let total = usize::from(self.len) + first + prefix + message.len();
        let total = u16::try_from(total).ok().filter(|&total| total <= longest)?;
        let bytes = arena.bytes_mut(frame);
        if !self.batch {
            bytes[BATCH..PAYLOAD].copy_from_slice(&batch::prefix(self.len));
            self.len += batch::PREFIX_LEN as u16;
            self.batch = true;
        }
        let end = BATCH + usize::from(self.len);
        let (head, body) = bytes[end..BATCH + usize::from(total)].split_at_mut(prefix);
        head.copy_from_slice(&batch::prefix(message.len() as u16));
        body.copy_from_slice(message);
        self.len = total;
        Some(total)
    }

    /// Lets `fill` write an operation behind those of a frame of operations that was never posted.
    /// `fill` gets the rest of the frame, and returns how many bytes it wrote. Returns the new
    /// length of the payload, which does not exceed `longest`.
    #[inline]
    pub(crate) fn append_operation(
        &mut self,
        arena: &Arena,
        longest: u16,
        fill: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<u16> {
        let Some(OutboundFrame::Taken(frame)) = &mut self.frame else { return None };
        if self.behind.is_some() {
            return None;
        }
        let bytes = arena.bytes_mut(frame);
        let end = bytes.len().min(PAYLOAD + usize::from(longest));
        let room = bytes.get_mut(PAYLOAD + usize::from(self.len)..end)?;
        self.len += fill(room)? as u16;
        Some(self.len)
    }

    /// All messages in the frame, in order, copied.
    pub(crate) fn messages(&mut self, arena: &Arena) -> Vec<Box<[u8]>> {
        let payload = self.payload();
        let payload =
            &self.frame.as_ref().expect("a message keeps its frame").bytes(arena)[payload];
        if !self.batch {
            return vec![payload.into()];
        }
        let mut at = 0;
        let next = || {
            let message = batch::message_at(payload, at)?;
            at = message.end;
            Some(payload[message].into())
        };
        std::iter::from_fn(next).collect()
    }

    fn payload(&self) -> Range<usize> {
        let start = if self.batch { BATCH } else { PAYLOAD };
        start..start + usize::from(self.len)
    }

    /// The frame of a message that was never posted, given back with a refusal.
    pub(crate) fn into_taken(self) -> TxFrame {
        match self.frame {
            Some(OutboundFrame::Taken(frame)) => frame,
            _ => unreachable!("only a message that was not admitted is taken apart"),
        }
    }

    /// The frame's window hold has ended. The list of its segments, now empty, is there to be used
    /// again.
    #[inline]
    pub(crate) fn release(self, link: &mut impl Link) -> Option<FurtherSegments> {
        self.frame.expect("a message keeps its frame").release(link);
        let mut behind = self.behind?;
        behind.drain(..).for_each(|segment| segment.release(link));
        Some(behind)
    }

    /// Writes the header in front of the payload and posts the frame; false if the NIC still holds
    /// it from its last sending, which then need not be repeated.
    #[inline]
    pub(crate) fn post(
        &mut self,
        link: &mut impl Link,
        arena: &Arena,
        to: &Route,
        header: &Header,
    ) -> bool {
        if self.behind.is_some() {
            return self.post_segments(link, arena, to, header);
        }
        let mut frame = match self.frame.take().expect("a message keeps its frame").reclaim(link) {
            OutboundFrame::Taken(frame) => frame,
            posted => {
                self.frame = Some(posted);
                return false;
            }
        };
        let range = seal(arena.bytes_mut(&mut frame), self.payload(), to, header);
        self.frame = Some(OutboundFrame::Posted(link.post(frame, range, Segment::Last)));
        true
    }
}

impl Outbound {
    /// Writes the header in front of the payload of a frame of this link's. Returns both, without
    /// outer headers; `None` if the NIC still holds the frame. One copy if it is in segments.
    pub(crate) fn seal<'a>(
        &'a mut self,
        link: &mut impl Link,
        arena: &'a Arena,
        header: &Header,
    ) -> Option<Cow<'a, [u8]>> {
        let payload = self.payload();
        let behind = self.behind.as_mut().map_or(&mut [][..], |behind| &mut behind[..]);
        let ready = behind.iter_mut().all(|segment| segment.reclaim(link));
        let frame = self.frame.take().expect("a message keeps its frame").reclaim(link);
        let OutboundFrame::Taken(frame) = self.frame.insert(frame) else { return None };
        let inner = &mut arena.bytes_mut(frame)[payload.start - HEADER_LEN..payload.end];
        if behind.is_empty() {
            header.seal(inner);
            return Some(Cow::Borrowed(inner));
        }
        let mut whole = inner.to_vec();
        behind.iter().for_each(|segment| whole.extend_from_slice(segment.bytes(arena)));
        header.seal(&mut whole);
        ready.then_some(Cow::Owned(whole))
    }

    /// The same for a frame in segments.
    #[inline(never)]
    fn post_segments(
        &mut self,
        link: &mut impl Link,
        arena: &Arena,
        to: &Route,
        header: &Header,
    ) -> bool {
        let behind = self.behind.as_mut().map_or(&mut [][..], |behind| &mut behind[..]);
        let ready = behind.iter_mut().all(|segment| segment.reclaim(link));
        let frame = self.frame.take().expect("a message keeps its frame").reclaim(link);
        match frame {
            OutboundFrame::Taken(frame) if ready => {
                let payload = PAYLOAD..PAYLOAD + usize::from(self.len);
                let whole = SegmentedFrame { first: frame, payload, behind };
                let posted = segments::post(link, arena, whole, to, header);
                self.frame = Some(OutboundFrame::Posted(posted));
                true
            }
            frame => {
                self.frame = Some(frame);
                false
            }
        }
    }

    /// Posts a copy by another link than the one in whose frame it lies, which stays in the window;
    /// false if that link has no transmit frame. One copy.
    pub(crate) fn post_copy(
        &self,
        from: &Arena,
        link: &mut impl Link,
        to: &Route,
        header: &Header,
    ) -> bool {
        let first = self.frame.as_ref().expect("a message keeps its frame").bytes(from);
        let mut pieces = [&[] as &[u8]; MOST_SEGMENTS];
        let behind = self.behind.as_ref().map_or(&[][..], |behind| &behind[..]);
        for (piece, segment) in pieces.iter_mut().zip(behind) {
            *piece = segment.bytes(from);
        }
        let payload = Pieces::new(&first[self.payload()], &pieces[..behind.len()]);
        let arena = std::sync::Arc::clone(link.memory().arena);
        post_copy(link, &arena, to, header, Padded { payload, len: payload.len() })
    }
}

/// Posts a frame with a copy of a payload. False if there is no transmit frame: the protocol
/// repeats what is lost.
pub(crate) fn post_copy(
    link: &mut impl Link,
    arena: &Arena,
    to: &Route,
    header: &Header,
    Padded { payload, len }: Padded<'_>,
) -> bool {
    if len > link.info().frame_size - PAYLOAD {
        return segments::post_copy(link, arena, to, header, Padded { payload, len });
    }
    let Some(mut frame) = link.take() else { return false };
    let bytes = arena.bytes_mut(&mut frame);
    let mut at = PAYLOAD;
    for piece in payload {
        bytes[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    bytes[at..PAYLOAD + len].fill(0);
    let range = seal(bytes, PAYLOAD..PAYLOAD + len, to, header);
    let posted = link.post(frame, range, Segment::Last);
    link.release(posted.into());
    true
}

/// Writes all headers in front of a payload, pads to the shortest frame, and returns where the
/// frame lies. Inlined, as the header that was just built is in registers then.
#[inline(always)]
fn seal(bytes: &mut [u8], payload: Range<usize>, to: &Route, header: &Header) -> Range<usize> {
    let (inner, end) = (payload.start - HEADER_LEN, payload.end);
    let start = inner - to.len();
    header.seal(&mut bytes[inner..end]);
    to.write(&mut bytes[start..end]);
    let shortest = start + SHORTEST_FRAME;
    if end < shortest {
        // Always as many, which needs no loop; nothing lies behind the payload.
        bytes[end..end + MOST_PADDING].fill(0);
    }
    start..end.max(shortest)
}
