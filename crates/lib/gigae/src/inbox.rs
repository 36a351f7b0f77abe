//! Received frames: those that the protocol has, whose messages are being handed out, or which the
//! program has messages of.
//!
//! A frame stays in one place here, by its slot; what moves is a number or a part of it.

use crate::links::{Arenas, Links};
use crate::outbound::MOST_SEGMENTS;
use gigae_link::{Link, RxFrame, RxPart, SharedFrame};
use gigae_proto::{Delivery, PeerId};
use gigae_wire::{Epoch, PathId, Pieces, batch};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A received frame in the inbox, by its number among those of all links.
#[derive(Debug)]
pub(crate) struct Inbound(u32);

impl Inbound {
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.0
    }
}

/// A message in the program's hands.
pub(crate) enum InboxMessage {
    /// In its frame, alone or with others.
    Part(RxPart),
    /// In a copy of its frame's payload: more frames are lent than the link can spare.
    Copy(Box<Copied>),
}

impl InboxMessage {
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, arenas: &'a Arenas) -> &'a [u8] {
        match self {
            Self::Part(part) => arenas.part(part),
            Self::Copy(copied) => &copied.payload[copied.message.clone()],
        }
    }
}

/// See [`InboxMessage::Copy`].
#[derive(Clone)]
pub(crate) struct Copied {
    payload: Arc<[u8]>,
    message: Range<usize>,
    from: PeerId,
    epoch: Epoch,
}

/// Where in a frame its payload lies.
#[derive(Clone, Copy)]
pub(crate) struct PayloadRange {
    pub(crate) start: u16,
    pub(crate) len: u16,
}

/// A data frame that enters the inbox.
pub(crate) struct InboxEntry {
    /// The link that it came by, and its number among the frames of all links.
    pub(crate) path: PathId,
    pub(crate) number: u32,
    pub(crate) frame: RxFrame,
    pub(crate) payload: PayloadRange,
    /// It may carry several messages.
    pub(crate) several: bool,
}

/// A frame with one message or several, some of which may be in the program's hands.
struct InboxFrame {
    frame: SharedFrame,
    /// The link that it came by.
    path: PathId,
    /// Where in the frame the payload lies.
    start: u16,
    len: u16,
    /// Several messages, [checked](batch::check), of which not all were handed out yet.
    open: bool,
    /// The sender and the session, once it is delivered.
    from: PeerId,
    epoch: Epoch,
}

impl InboxFrame {
    #[inline]
    fn payload(&self) -> Range<usize> {
        usize::from(self.start)..usize::from(self.start) + usize::from(self.len)
    }
}

/// The frame whose messages are being handed out.
struct OpenFrame {
    source: FrameSource,
    /// Where in the payload the next one begins.
    at: usize,
}

enum FrameSource {
    /// The frame in this slot, with several messages.
    Slot(u32),
    /// A copy, and whether it is of several.
    Copy(Copied, bool),
}

/// What a peer has credit for again: a frame that is out of the program's hands. The frame itself
/// goes back to the link, unless it has already.
pub(crate) struct Done {
    pub(crate) frame: Option<(PathId, RxFrame)>,
    pub(crate) from: PeerId,
    pub(crate) epoch: Epoch,
}

/// The frames behind the first of one that was received in segments.
#[derive(Default)]
pub(crate) struct Segments([Option<RxFrame>; MOST_SEGMENTS - 1]);

impl Segments {
    /// Adds the next one, or hands it back if there are too many.
    pub(crate) fn push(&mut self, frame: RxFrame) -> Result<(), RxFrame> {
        match self.0.iter_mut().find(|place| place.is_none()) {
            Some(place) => {
                *place = Some(frame);
                Ok(())
            }
            None => Err(frame),
        }
    }

    pub(crate) fn for_each(self, f: impl FnMut(RxFrame)) {
        self.0.into_iter().flatten().for_each(f);
    }

    /// Their bytes.
    pub(crate) fn bytes<'a, 'p>(
        &'a self,
        arenas: &'a Arenas,
        pieces: &'p mut [&'a [u8]; MOST_SEGMENTS],
    ) -> &'p [&'a [u8]] {
        let mut count = 0;
        for (piece, frame) in pieces.iter_mut().zip(self.0.iter().flatten()) {
            *piece = arenas.bytes(frame);
            count += 1;
        }
        &pieces[..count]
    }
}

/// See the module's description.
pub(crate) struct Inbox {
    open: Option<OpenFrame>,
    /// By the frames' numbers.
    frames: Vec<Option<InboxFrame>>,
    /// The rest of those that were received in segments, by the number of the first.
    behind: HashMap<u32, Segments>,
    /// Frames in the program's hands, the open one included, and the most that may be.
    lent: usize,
    most_lent: usize,
    /// Frames that were copied.
    copied: u64,
}

impl Inbox {
    pub(crate) fn new(links: &Links) -> Self {
        let frames = links.frames();
        let infos = links.without_bulk().map(Link::info);
        let least = infos.map(|info| info.rx_frames).min().unwrap_or(0);
        Self {
            open: None,
            // Backends number their frames from zero; should one not, the table grows.
            behind: HashMap::new(),
            frames: std::iter::repeat_with(|| None).take(frames).collect(),
            lent: 0,
            // All of them may have come by the link with the fewest.
            most_lent: least / 16,
            copied: 0,
        }
    }

    /// Frames that were copied because too many were lent.
    pub(crate) fn copied(&self) -> u64 {
        self.copied
    }

    /// Whether a frame's messages are being handed out.
    #[inline]
    pub(crate) fn has_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes in a data frame.
    #[inline]
    pub(crate) fn enter(&mut self, entry: InboxEntry) -> Inbound {
        let InboxEntry { path, number: slot, frame, payload, several } = entry;
        let PayloadRange { start, len } = payload;
        if slot as usize >= self.frames.len() {
            self.frames.resize_with(slot as usize + 1, || None);
        }
        let frame = SharedFrame::new(frame);
        let (from, epoch) = (PeerId(0), Epoch::UNKNOWN);
        let shared = InboxFrame { frame, path, start, len, open: several, from, epoch };
        self.frames[slot as usize] = Some(shared);
        Inbound(slot)
    }

    /// The rest of a frame that was taken in and was received in segments.
    pub(crate) fn enter_behind(&mut self, first: &Inbound, behind: Segments) {
        self.behind.insert(first.0, behind);
    }

    /// A frame that is not delivered goes back to its link.
    #[inline]
    pub(crate) fn leave(&mut self, inbound: Inbound, links: &mut Links) {
        let InboxFrame { frame, path, .. } = self.take(inbound.0);
        links.recycle(path, frame.into_frame());
        if !self.behind.is_empty()
            && let Some(behind) = self.behind.remove(&inbound.0)
        {
            behind.for_each(|frame| links.recycle(path, frame));
        }
    }

    /// Lets the caller read the payload of a frame that is not handed out, which then goes back to
    /// its link.
    #[inline]
    pub(crate) fn read(&mut self, inbound: Inbound, links: &mut Links, read: impl FnOnce(Pieces)) {
        let shared = self.frames[inbound.0 as usize].as_ref().expect("the frame is there");
        let place = shared.payload();
        let first = links.arenas.bytes(shared.frame.frame());
        match self.behind.get(&inbound.0).filter(|_| place.end > first.len()) {
            None => read(first[place].into()),
            Some(behind) => {
                let mut pieces = [&[] as &[u8]; MOST_SEGMENTS];
                let rest = behind.bytes(&links.arenas, &mut pieces);
                let mut payload = Pieces::new(&first[place.start..], rest);
                if let Some(payload) = payload.split(place.len()) {
                    read(payload);
                }
            }
        }
        self.leave(inbound, links);
    }

    #[inline]
    fn take(&mut self, slot: u32) -> InboxFrame {
        self.frames[slot as usize].take().expect("the frame is there")
    }

    #[inline]
    fn shared(&mut self, slot: u32) -> &mut InboxFrame {
        self.frames[slot as usize].as_mut().expect("the frame is there")
    }

    /// Opens a delivered frame: its only message, or `None` if it holds several, which
    /// [`next`](Self::next) returns, or was copied, see [`next_copy`](Self::next_copy).
    #[inline(always)]
    pub(crate) fn open(
        &mut self,
        delivery: Delivery<Inbound>,
        links: &mut Links,
    ) -> Option<RxPart> {
        let Delivery { peer, epoch, buffer: Inbound(slot) } = delivery;
        let crowded = self.lent >= self.most_lent;
        let shared = self.shared(slot);
        shared.from = peer;
        shared.epoch = epoch;
        if crowded {
            self.copy(slot, links);
            return None;
        }
        if shared.open {
            self.lent += 1;
            self.open = Some(OpenFrame { source: FrameSource::Slot(slot), at: 0 });
            return None;
        }
        let payload = shared.payload();
        let part = shared.frame.lend(payload);
        self.lent += 1;
        Some(part)
    }

    /// Opens a copy of a frame's payload instead; the frame goes back at once.
    #[cold]
    fn copy(&mut self, slot: u32, links: &mut Links) {
        self.copied += 1;
        let shared = self.take(slot);
        let (payload, several) = (shared.payload(), shared.open);
        let InboxFrame { frame, path, from, epoch, .. } = shared;
        let frame = frame.into_frame();
        let payload: Arc<[u8]> = links.arenas.bytes(&frame)[payload].into();
        links.recycle(path, frame);
        let copied = Copied { message: 0..payload.len(), payload, from, epoch };
        self.open = Some(OpenFrame { source: FrameSource::Copy(copied, several), at: 0 });
    }

    /// The next message of the open frame, unless that was copied.
    #[inline]
    pub(crate) fn next(&mut self, arenas: &Arenas) -> Option<RxPart> {
        let OpenFrame { source: FrameSource::Slot(slot), at } = self.open.as_mut()? else {
            return None;
        };
        let shared = self.frames[*slot as usize].as_mut().expect("the frame is there");
        let place = shared.payload();
        let payload = &arenas.bytes(shared.frame.frame())[place.clone()];
        let message = batch::message_at(payload, *at)?;
        *at = message.end;
        shared.open = *at < payload.len();
        let part = shared.frame.lend(place.start + message.start..place.start + message.end);
        if !shared.open {
            self.open = None;
        }
        Some(part)
    }

    /// The next message of the open frame, if that was copied.
    #[cold]
    pub(crate) fn next_copy(&mut self) -> Option<Box<Copied>> {
        let OpenFrame { source: FrameSource::Copy(copied, several), at } = self.open.as_mut()?
        else {
            return None;
        };
        let all = copied.message.clone();
        let message = if *several { batch::message_at(&copied.payload, *at)? } else { all.clone() };
        *at = message.end;
        let next = Copied { message, ..copied.clone() };
        if next.message.end >= all.end {
            self.open = None;
        }
        Some(Box::new(next))
    }

    /// Who sent a message that is in the program's hands.
    #[inline]
    pub(crate) fn sender(&self, received: &InboxMessage, arenas: &Arenas) -> PeerId {
        match received {
            InboxMessage::Part(part) => {
                let shared = self.frames[arenas.number_of_part(part) as usize].as_ref();
                shared.expect("a frame stays while a part is lent").from
            }
            InboxMessage::Copy(copied) => copied.from,
        }
    }

    /// A message has come back from the program: what is done with it, if that was the last of its
    /// frame.
    #[inline]
    pub(crate) fn give_back(&mut self, part: RxPart, arenas: &Arenas) -> Option<Done> {
        let slot = arenas.number_of_part(&part);
        let shared = self.shared(slot);
        shared.frame.give_back(part);
        if shared.open || shared.frame.lent() > 0 {
            return None;
        }
        self.lent -= 1;
        let InboxFrame { frame, path, from, epoch, .. } = self.take(slot);
        Some(Done { frame: Some((path, frame.into_frame())), from, epoch })
    }

    /// The same for a copy.
    #[cold]
    pub(crate) fn give_back_copy(&mut self, copied: Copied) -> Option<Done> {
        let Copied { payload, from, epoch, .. } = copied;
        // The open frame holds the copy too until it is emptied.
        (Arc::strong_count(&payload) == 1).then_some(Done { frame: None, from, epoch })
    }
}
