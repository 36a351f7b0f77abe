//! Received frames: those that the protocol has, whose messages are being handed out, or which the
//! program has messages of.
//!
//! A frame with one message goes from hand to hand: to the protocol, to the program, and back to
//! its link. A frame with several stays in one place here, by its number, while messages of it are
//! in the program's hands.

use crate::links::{Arenas, Links};
use crate::outbound::MOST_SEGMENTS;
use gigae_link::{Link, RxFrame, RxPart, SharedFrame};
use gigae_proto::{Delivery, PeerId};
use gigae_wire::{Epoch, PathId, Pieces, batch};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A received data frame.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) frame: RxFrame,
    pub(crate) payload: PayloadRange,
    /// The link that it came by.
    pub(crate) path: PathId,
    /// It may carry several messages, which were [checked](batch::check).
    pub(crate) several: bool,
}

/// A message in the program's hands.
pub(crate) enum InboxMessage {
    /// The only one in its frame.
    Alone(Delivery<Inbound>),
    /// One of several in its frame.
    Part(RxPart),
    /// In a copy of its frame's payload: more frames are lent than the link can spare.
    Copy(Box<Copied>),
}

impl InboxMessage {
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, arenas: &'a Arenas) -> &'a [u8] {
        match self {
            Self::Alone(Delivery { buffer: Inbound { frame, payload, .. }, .. }) => {
                &arenas.bytes(frame)[payload.bytes()]
            }
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct PayloadRange {
    pub(crate) start: u16,
    pub(crate) len: u16,
}

impl PayloadRange {
    #[inline]
    pub(crate) fn bytes(self) -> Range<usize> {
        usize::from(self.start)..usize::from(self.start) + usize::from(self.len)
    }
}

/// A frame with several messages, some of which may be in the program's hands.
struct InboxFrame {
    frame: SharedFrame,
    payload: PayloadRange,
    path: PathId,
    /// Not all messages were handed out yet.
    open: bool,
    /// The sender and the session.
    from: PeerId,
    epoch: Epoch,
}

/// The frame whose messages are being handed out.
struct OpenFrame {
    source: FrameSource,
    /// Where in the payload the next one begins.
    at: usize,
}

enum FrameSource {
    /// The frame with this number, with several messages.
    Frame(u32),
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
    /// Those with several messages, by their numbers.
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

    /// The rest of a data frame that was received in segments.
    pub(crate) fn enter_behind(&mut self, first: &Inbound, behind: Segments, arenas: &Arenas) {
        self.behind.insert(arenas.number(&first.frame), behind);
    }

    /// A frame that is not delivered goes back to its link.
    #[inline]
    pub(crate) fn leave(&mut self, inbound: Inbound, links: &mut Links) {
        let Inbound { frame, path, .. } = inbound;
        if frame.continues()
            && let Some(behind) = self.behind.remove(&links.arenas.number(&frame))
        {
            behind.for_each(|frame| links.recycle(path, frame));
        }
        links.recycle(path, frame);
    }

    /// Lets the caller read the payload of a frame that is not handed out, which then goes back to
    /// its link.
    #[inline]
    pub(crate) fn read(&mut self, inbound: Inbound, links: &mut Links, read: impl FnOnce(Pieces)) {
        let place = inbound.payload.bytes();
        let first = links.arenas.bytes(&inbound.frame);
        if !inbound.frame.continues() {
            read(first[place].into());
        } else if let Some(behind) = self.behind.get(&links.arenas.number(&inbound.frame)) {
            let mut pieces = [&[] as &[u8]; MOST_SEGMENTS];
            let rest = behind.bytes(&links.arenas, &mut pieces);
            let mut payload = Pieces::new(&first[place.start..], rest);
            if let Some(payload) = payload.split(place.len()) {
                read(payload);
            }
        }
        self.leave(inbound, links);
    }

    /// Opens a delivered frame: its only message, or `None` if it holds several, which
    /// [`next`](Self::next) returns, or was copied, see [`next_copy`](Self::next_copy).
    #[inline(always)]
    pub(crate) fn open(
        &mut self,
        delivery: Delivery<Inbound>,
        links: &mut Links,
    ) -> Option<InboxMessage> {
        if self.lent >= self.most_lent {
            self.copy(delivery, links);
            return None;
        }
        self.lent += 1;
        if delivery.buffer.several {
            self.open_several(delivery, &links.arenas);
            return None;
        }
        Some(InboxMessage::Alone(delivery))
    }

    /// Opens a frame with several messages.
    #[inline(never)]
    fn open_several(&mut self, delivery: Delivery<Inbound>, arenas: &Arenas) {
        let Delivery { peer: from, epoch, buffer } = delivery;
        let Inbound { frame, payload, path, .. } = buffer;
        let number = arenas.number(&frame);
        // Backends number their frames from zero; should one not, the table grows.
        if number as usize >= self.frames.len() {
            self.frames.resize_with(number as usize + 1, || None);
        }
        let frame = SharedFrame::new(frame);
        let shared = InboxFrame { frame, payload, path, open: true, from, epoch };
        self.frames[number as usize] = Some(shared);
        self.open = Some(OpenFrame { source: FrameSource::Frame(number), at: 0 });
    }

    /// Opens a copy of a frame's payload instead; the frame goes back at once.
    #[cold]
    fn copy(&mut self, delivery: Delivery<Inbound>, links: &mut Links) {
        self.copied += 1;
        let Delivery { peer: from, epoch, buffer } = delivery;
        let Inbound { frame, payload, path, several } = buffer;
        let payload: Arc<[u8]> = links.arenas.bytes(&frame)[payload.bytes()].into();
        links.recycle(path, frame);
        let copied = Copied { message: 0..payload.len(), payload, from, epoch };
        self.open = Some(OpenFrame { source: FrameSource::Copy(copied, several), at: 0 });
    }

    /// The next message of the open frame, unless that was copied.
    #[inline]
    pub(crate) fn next(&mut self, arenas: &Arenas) -> Option<InboxMessage> {
        let OpenFrame { source: FrameSource::Frame(number), at } = self.open.as_mut()? else {
            return None;
        };
        let shared = self.frames[*number as usize].as_mut().expect("the frame is there");
        let place = shared.payload.bytes();
        let payload = &arenas.bytes(shared.frame.frame())[place.clone()];
        let message = batch::message_at(payload, *at)?;
        *at = message.end;
        shared.open = *at < payload.len();
        let part = shared.frame.lend(place.start + message.start..place.start + message.end);
        if !shared.open {
            self.open = None;
        }
        Some(InboxMessage::Part(part))
    }

    /// The next message of the open frame, if that was copied.
    #[cold]
    pub(crate) fn next_copy(&mut self) -> Option<InboxMessage> {
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
        Some(InboxMessage::Copy(Box::new(next)))
    }

    /// Who sent a message that is in the program's hands.
    #[inline]
    pub(crate) fn sender(&self, received: &InboxMessage, arenas: &Arenas) -> PeerId {
        match received {
            InboxMessage::Alone(delivery) => delivery.peer,
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
    pub(crate) fn give_back(&mut self, message: InboxMessage, arenas: &Arenas) -> Option<Done> {
        match message {
            InboxMessage::Alone(Delivery { peer: from, epoch, buffer }) => {
                self.lent -= 1;
                Some(Done { frame: Some((buffer.path, buffer.frame)), from, epoch })
            }
            InboxMessage::Part(part) => self.give_back_part(part, arenas),
            InboxMessage::Copy(copied) => Self::give_back_copy(*copied),
        }
    }

    #[inline(never)]
    fn give_back_part(&mut self, part: RxPart, arenas: &Arenas) -> Option<Done> {
        let place = &mut self.frames[arenas.number_of_part(&part) as usize];
        let shared = place.as_mut().expect("a frame stays while a part is lent");
        shared.frame.give_back(part);
        if shared.open || shared.frame.lent() > 0 {
            return None;
        }
        self.lent -= 1;
        let InboxFrame { frame, path, from, epoch, .. } = place.take()?;
        Some(Done { frame: Some((path, frame.into_frame())), from, epoch })
    }

    #[cold]
    fn give_back_copy(copied: Copied) -> Option<Done> {
        let Copied { payload, from, epoch, .. } = copied;
        // The open frame holds the copy too until it is emptied.
        (Arc::strong_count(&payload) == 1).then_some(Done { frame: None, from, epoch })
    }
}
