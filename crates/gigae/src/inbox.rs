//! Received messages: frames whose messages are being handed out, and those in the program's hands.

use gigae_link::{Arena, Link, RxFrame, RxPart, SharedFrame};
use gigae_proto::{Delivery, PeerId};
use gigae_wire::{Epoch, batch};
use std::ops::Range;
use std::sync::Arc;

/// A received frame with one message or several.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) frame: RxFrame,
    pub(crate) start: u16,
    pub(crate) len: u16,
    /// Several messages, [checked](batch::check).
    pub(crate) batch: bool,
}

impl Inbound {
    #[inline]
    pub(crate) fn payload(&self) -> Range<usize> {
        usize::from(self.start)..usize::from(self.start) + usize::from(self.len)
    }
}

/// A message as it is handed out.
pub(crate) struct Received {
    pub(crate) body: Body,
    pub(crate) from: PeerId,
    pub(crate) epoch: Epoch,
}

/// Where a received message lies.
pub(crate) enum Body {
    /// In a frame of its own.
    Frame(Inbound),
    /// In a frame together with others.
    Part(RxPart),
    /// In a copy of the frame's payload: more frames are lent than the link can spare.
    Copy(Arc<[u8]>, Range<usize>),
}

impl Body {
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, arena: &'a Arena) -> &'a [u8] {
        match self {
            Self::Frame(inbound) => &arena.bytes(&inbound.frame)[inbound.payload()],
            Self::Part(part) => arena.part(part),
            Self::Copy(payload, message) => &payload[message.clone()],
        }
    }
}

/// A frame with several messages, some of which may be in the program's hands.
struct Shared {
    frame: SharedFrame,
    from: PeerId,
    epoch: Epoch,
    /// All its messages were handed out.
    emptied: bool,
}

/// The frame whose messages are being handed out.
struct Open {
    source: Source,
    payload: Range<usize>,
    /// Where in the payload the next one begins.
    at: usize,
}

enum Source {
    /// The shared frame in this slot.
    Slot(usize),
    Copy(Arc<[u8]>, PeerId, Epoch),
}

/// What a peer has credit for again: a frame that is out of the program's hands. The frame itself
/// goes back to the link, unless it has already.
pub(crate) struct Done {
    pub(crate) frame: Option<RxFrame>,
    pub(crate) from: PeerId,
    pub(crate) epoch: Epoch,
}

/// See the module's description.
pub(crate) struct Inbox {
    open: Option<Open>,
    /// By the frames' slots.
    shared: Vec<Option<Shared>>,
    /// Frames in the program's hands, the open one included, and the most that may be.
    lent: usize,
    most_lent: usize,
    /// Frames that were copied.
    copied: u64,
}

impl Inbox {
    pub(crate) fn new(link: &impl Link) -> Self {
        let info = link.info();
        Self {
            open: None,
            // Backends number their frames from zero; should one not, the table grows.
            shared: std::iter::repeat_with(|| None).take(info.tx_frames + info.rx_frames).collect(),
            lent: 0,
            most_lent: info.rx_frames / 2,
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

    /// Takes a delivered frame: its only message, or `None` if it holds several, the first of which
    /// [`next`](Self::next) returns.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        delivery: Delivery<Inbound>,
        link: &mut impl Link,
        arena: &Arena,
    ) -> Option<Received> {
        let Delivery { peer: from, epoch, buffer } = delivery;
        if self.lent >= self.most_lent {
            return self.copy(Delivery { peer: from, epoch, buffer }, link, arena);
        }
        self.lent += 1;
        if !buffer.batch {
            return Some(Received { body: Body::Frame(buffer), from, epoch });
        }
        let (payload, slot) = (buffer.payload(), buffer.frame.slot() as usize);
        if slot >= self.shared.len() {
            self.shared.resize_with(slot + 1, || None);
        }
        let frame = SharedFrame::new(buffer.frame);
        self.shared[slot] = Some(Shared { frame, from, epoch, emptied: false });
        self.open = Some(Open { source: Source::Slot(slot), at: 0, payload });
        None
    }

    /// The same with a copy of the payload; the frame goes back at once.
    #[cold]
    fn copy(
        &mut self,
        delivery: Delivery<Inbound>,
        link: &mut impl Link,
        arena: &Arena,
    ) -> Option<Received> {
        let Delivery { peer: from, epoch, buffer } = delivery;
        self.copied += 1;
        let copy: Arc<[u8]> = arena.bytes(&buffer.frame)[buffer.payload()].into();
        let payload = 0..copy.len();
        link.recycle(buffer.frame);
        if !buffer.batch {
            return Some(Received { body: Body::Copy(copy, payload), from, epoch });
        }
        self.open = Some(Open { source: Source::Copy(copy, from, epoch), at: 0, payload });
        None
    }

    /// The next message of the open frame.
    #[inline]
    pub(crate) fn next(&mut self, arena: &Arena) -> Option<Received> {
        let open = self.open.as_mut()?;
        let (received, end) = match &open.source {
            Source::Slot(slot) => {
                let shared = self.shared[*slot].as_mut().expect("the open frame is there");
                let start = open.payload.start;
                let payload = &arena.bytes(shared.frame.frame())[open.payload.clone()];
                let message = batch::message_at(payload, open.at)?;
                let part = shared.frame.lend(start + message.start..start + message.end);
                shared.emptied = message.end >= open.payload.len();
                let body = Body::Part(part);
                (Received { body, from: shared.from, epoch: shared.epoch }, message.end)
            }
            Source::Copy(copy, from, epoch) => {
                let message = batch::message_at(copy, open.at)?;
                let end = message.end;
                let body = Body::Copy(Arc::clone(copy), message);
                (Received { body, from: *from, epoch: *epoch }, end)
            }
        };
        open.at = end;
        if end >= open.payload.len() {
            self.open = None;
        }
        Some(received)
    }

    /// A message has come back from the program: what is done with it, if that was the last of its
    /// frame.
    #[inline]
    pub(crate) fn give_back(&mut self, received: Received) -> Option<Done> {
        let Received { body, from, epoch } = received;
        match body {
            Body::Frame(inbound) => {
                self.lent -= 1;
                Some(Done { frame: Some(inbound.frame), from, epoch })
            }
            Body::Part(part) => {
                let place = &mut self.shared[part.slot() as usize];
                let shared = place.as_mut().expect("a frame stays while a part is lent");
                shared.frame.give_back(part);
                if !shared.emptied || shared.frame.lent() > 0 {
                    return None;
                }
                let Shared { frame, .. } = place.take()?;
                self.lent -= 1;
                Some(Done { frame: Some(frame.into_frame()), from, epoch })
            }
            // The open frame holds the copy too until it is emptied.
            Body::Copy(copy, _) => {
                (Arc::strong_count(&copy) == 1).then_some(Done { frame: None, from, epoch })
            }
        }
    }
}
