//! The sending half of a session: a sliding window over unacknowledged messages
//! (`PROTOCOL.md` §5 and §7).
//!
//! ```text
//!   base            sent             next        base + capacity
//!    |  in flight    |   queued       |   free     |
//! ```
//!
//! Each transmission goes out on one [path](crate::path), which numbers its transmissions. A frame
//! is lost when a later transmission on the same path has arrived and this one has not: later by
//! more than [`Reordering`](crate::flight::Reordering). This one rule serves first transmissions
//! and repetitions, selective repeat and go-back-N. The window knows nothing of peers or headers.

mod arrivals;
mod bulk_size;
mod first;
mod loss;
mod paths;
mod slots;
mod statistics;

use crate::ProtocolConfig;
use crate::frame_kind::FrameKind;
use crate::path::Path;
use crate::time::Instant;
use bulk_size::BulkSize;
use first::Classes;
use gigae_wire::{Flags, Kind, PathId, SeqNo};
use slots::{SlotState, WindowSlot, WindowSlots, keep};

pub(crate) use first::Class;
pub(crate) use slots::Spare;

/// With shared credit, messages of at most so many frames are short. The last so many frames of a
/// session's credit are for them.
pub const SHORT: u32 = 4;

/// Slots that a window begins with: enough for a program that asks and waits for the answer, and a
/// few more.
const FEWEST_SLOTS: usize = 4;

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(crate) struct SendWindow<T> {
    /// A power of two, at most the window. Empty while an empty window has given its memory up.
    slots: WindowSlots<T>,
    /// Frames that may be in it.
    window: u16,
    base: SeqNo,
    sent: SeqNo,
    next: SeqNo,
    /// First number without credit.
    limit: SeqNo,
    /// The receiver has room for credit that is kept for short messages.
    keeps: bool,
    /// Frames that the program has for this window and that are not in it, about.
    above: u32,
    /// Frames to transmit again.
    lost: u32,
    /// Go-back-N: frames in flight that the receiver will drop, because one before them is lost.
    undeliverable: u32,
    /// The first path, and those of further links. At least one is alive.
    first: Path,
    further: Box<[Path]>,
    /// While the first path works, nothing goes by another.
    keeps_to_first: bool,
    /// The second path is a socket, for bulk frames.
    has_bulk: bool,
    bulk_size: BulkSize,
    /// Credit is shared, so paths over links look at the queues on their way.
    shares_queues: bool,
    /// Which frames go first, if any do.
    classes: Option<Classes>,
}

/// What [`SendWindow::transmit`] chose.
pub(crate) struct Transmission {
    pub(crate) seq: SeqNo,
    pub(crate) repeated: bool,
    pub(crate) kind: Kind,
    pub(crate) path: PathId,
    /// It is longer than a frame of the path, so it goes in parts.
    pub(crate) in_parts: bool,
    pub(crate) class: Class,
    /// There is no credit for a new frame behind it, and more credit would not only make a queue on
    /// the way longer.
    pub(crate) stopped: bool,
}

impl<T> SendWindow<T> {
    pub(crate) fn new(first: SeqNo, config: &ProtocolConfig) -> Self {
        Self {
            slots: Box::default(),
            window: config.send_window,
            base: first,
            sent: first,
            next: first,
            limit: first,
            keeps: false,
            above: 0,
            lost: 0,
            undeliverable: 0,
            first: Path::new(config),
            further: (1..config.own_paths()).map(|_| Path::new(config)).collect(),
            keeps_to_first: false,
            has_bulk: false,
            bulk_size: BulkSize::default(),
            shares_queues: false,
            classes: config.longest_first.map(|longest| Classes::new(longest, first)),
        }
    }

    /// Begins again, empty, at another number. The memory is kept.
    pub(crate) fn restart(&mut self, first: SeqNo) {
        debug_assert!(self.is_empty());
        self.base = first;
        self.sent = first;
        self.next = first;
        (self.limit, self.keeps) = (first, false);
        (self.lost, self.undeliverable) = (0, 0);
        self.above = 0;
        self.classes = self.classes.map(|classes| classes.anew(first));
    }

    fn capacity(&self) -> u32 {
        self.window.into()
    }

    /// Makes room for more frames, from `spare` or by allocation. False if the window is already as
    /// large as allowed.
    #[cold]
    pub(crate) fn grow(&mut self, spare: &mut Spare<T>) -> bool {
        let (before, most) = (self.slots.len(), usize::from(self.window));
        if before >= most {
            return false;
        }
        if before == 0
            && let Some(slots) = spare.pop()
        {
            self.slots = slots;
            return true;
        }
        let count = (before * 2).max(FEWEST_SLOTS).min(most);
        let mut slots: WindowSlots<T> =
            std::iter::repeat_with(WindowSlot::empty).take(count).collect();
        let mut seq = self.base;
        while seq != self.next {
            std::mem::swap(&mut slots[seq.0 as usize & (count - 1)], self.slot(seq));
            seq += 1;
        }
        keep(std::mem::replace(&mut self.slots, slots), spare);
        true
    }

    /// Gives up the memory of an empty window. False if the window has no memory, or frames are in
    /// it.
    #[cold]
    pub(crate) fn shrink(&mut self, spare: &mut Spare<T>) -> bool {
        let gives = self.is_empty() && self.has_slots();
        if gives {
            keep(std::mem::take(&mut self.slots), spare);
        }
        gives
    }

    /// Whether it has any memory for frames.
    pub(crate) fn has_slots(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Frames in the window.
    pub(crate) fn len(&self) -> u32 {
        self.next.ahead_of(self.base).cast_unsigned()
    }

    #[inline]
    fn slot_of(&self, seq: SeqNo) -> &WindowSlot<T> {
        let mask = self.slots.len().wrapping_sub(1);
        &self.slots[seq.0 as usize & mask]
    }

    #[inline]
    fn slot(&mut self, seq: SeqNo) -> &mut WindowSlot<T> {
        let mask = self.slots.len().wrapping_sub(1);
        &mut self.slots[seq.0 as usize & mask]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.base == self.next
    }

    /// Whether nothing more can be admitted before something is acknowledged.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.capacity()
    }

    /// Number that the next new data frame will have on the wire.
    #[inline]
    pub(crate) fn sent(&self) -> SeqNo {
        self.sent
    }

    /// Whether frames are in flight or must be repeated: an acknowledgement is expected.
    #[inline]
    pub(crate) fn awaits_answer(&self) -> bool {
        self.base != self.sent
    }

    /// Whether a message waits and only missing credit holds it back.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.base == self.sent
            && (self.sent != self.next && self.sent == self.limit
                || self.above > 0 && self.lacks_credit_above())
    }

    /// Longest queued message in bytes. Frames with operations are longer; they are queued only
    /// once the allowed length is known.
    pub(crate) fn longest(&self) -> u16 {
        let messages = self.slots.iter().filter(|s| s.token.is_some() && s.kind != Kind::Op);
        messages.map(|s| s.len).max().unwrap_or(0)
    }

    /// Frames with operations that have longer payloads than this, go whole, and could go in parts
    /// instead.
    fn longer(&mut self, than: u16) -> impl Iterator<Item = &mut WindowSlot<T>> {
        let slots = self.slots.iter_mut().filter(|_| self.has_bulk);
        let goes_whole = |s: &WindowSlot<T>| s.kind == Kind::Op && !s.bulk && !s.too_long;
        slots.filter(move |s| s.token.is_some() && goes_whole(s) && s.len > than)
    }

    /// Whether there are such frames.
    pub(crate) fn has_longer(&mut self, than: u16) -> bool {
        self.longer(than).next().is_some()
    }

    /// The link carries no longer payloads than this any more. What is longer goes in parts.
    pub(crate) fn divide(&mut self, longest: u16) {
        self.longer(longest).for_each(|slot| slot.too_long = true);
    }

    /// Admits a frame, or hands it back when there is no free slot. The window may
    /// [grow](Self::grow) then, unless it is full.
    #[inline(always)]
    pub(crate) fn push(&mut self, token: T, kind: FrameKind, len: u16) -> Result<(), T> {
        if self.len() as usize >= self.slots.len() {
            return Err(token);
        }
        let next = self.next;
        let slot = self.slot(next);
        slot.token = Some(token);
        slot.state = SlotState::Queued;
        slot.repeated = false;
        slot.kind = kind.kind;
        slot.bulk = kind.bulk > 0;
        slot.too_long = false;
        slot.order = kind.order;
        slot.datagrams = kind.bulk.max(1);
        slot.len = len;
        self.next += 1;
        Ok(())
    }

    /// Lets `extend` add a message, or an operation if `kind` is Op, to the last frame, if that was
    /// never transmitted and has the same. `extend` gets the buffer and returns the frame's new
    /// length, or `None` if the message does not fit.
    #[inline]
    pub(crate) fn append(
        &mut self,
        kind: Kind,
        extend: impl FnOnce(&mut T) -> Option<u16>,
    ) -> bool {
        if self.sent == self.next {
            return false;
        }
        let last = SeqNo(self.next.0.wrapping_sub(1));
        let slot = self.slot(last);
        let is_op = kind == Kind::Op;
        if (slot.kind == Kind::Op) != is_op || is_op && (slot.bulk || slot.order.loose) {
            return false;
        }
        let Some(len) = slot.token.as_mut().and_then(extend) else { return false };
        slot.len = len;
        slot.kind = kind;
        true
    }

    /// How many frames would go with more credit, as a header says it ([`Flags::demand`]).
    #[inline]
    pub(crate) fn demand(&self) -> u8 {
        if self.next.ahead_of(self.limit) <= 0 && !self.lacks_credit_above() {
            return 0;
        }
        let left = self.next.ahead_of(self.sent).cast_unsigned() + self.above;
        // At most 16 bits: a window has 32,768 frames at most.
        (32 - left.leading_zeros()).min(Flags::MOST_DEMAND.into()) as u8
    }

    /// About so many frames wait above this window.
    pub(crate) fn set_above(&mut self, frames: u32) {
        self.above = frames.min(u16::MAX.into());
    }

    /// Frames of the credit that are for short messages.
    fn kept(&self) -> i32 {
        if self.keeps { SHORT.cast_signed() } else { 0 }
    }

    /// Whether what waits above could use credit that is kept for short messages.
    pub(crate) fn keeps_credit(&self) -> bool {
        self.keeps && self.lacks_credit_above()
    }

    /// Whether the receiver has room for credit that is kept.
    pub(crate) fn set_keeps(&mut self, keeps: bool) {
        self.keeps = keeps;
    }

    /// Whether the next frame from above would be sent at once. Its message has `whole` frames: the
    /// last credit is for short ones.
    pub(crate) fn may_fill(&self, whole: u32) -> bool {
        let kept = if whole > SHORT { self.kept() } else { 0 };
        let has_credit = self.limit.ahead_of(self.next) > kept;
        let unsent = self.next.ahead_of(self.sent).cast_unsigned();
        let (in_flight, flight) = self.first.flight();
        let has_room = !self.further.is_empty() || in_flight + unsent < flight;
        has_credit && has_room && (self.lost, self.undeliverable) == (0, 0)
    }

    /// What waits above may need more credit.
    #[cold]
    #[inline(never)]
    fn lacks_credit_above(&self) -> bool {
        self.above > 0 && self.limit.ahead_of(self.next) <= self.kept()
    }

    /// Raises the credit limit. It is never lowered.
    #[inline]
    pub(crate) fn credit(&mut self, ack: SeqNo, credit: u16) {
        let limit = ack + u32::from(credit);
        if self.limit.is_before(limit) {
            self.limit = limit;
        }
    }

    /// Whether a frame should be transmitted now: the flight and the credit allow it.
    #[inline]
    pub(crate) fn can_transmit(&self) -> bool {
        (self.lost > 0 || self.has_new())
            && if self.further.is_empty() { self.first.has_room() } else { self.choose().is_some() }
    }

    /// Whether a new frame may go out. Not while frames are in flight that the receiver will drop.
    /// A new frame would overtake their repetition, the receiver would drop it too, and so on
    /// without end.
    #[inline]
    fn has_new(&self) -> bool {
        self.sent != self.next && self.sent.is_before(self.limit) && self.undeliverable == 0
    }

    /// Whether a message has a free slot and can be transmitted at once, by the first path.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.sent == self.next
            && (self.lost, self.undeliverable) == (0, 0)
            && self.sent.is_before(self.limit)
            && (self.len() as usize) < self.slots.len()
            && (self.further.is_empty() || self.goes_by_first())
            && self.first.has_room()
    }

    /// The frame to transmit when [`can_transmit`](Self::can_transmit), marked as in flight. Lost
    /// frames come first, then new ones. `now` is the clock's last reading.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, now: Instant) -> Transmission {
        let repeated = self.lost > 0;
        let seq = if repeated {
            self.lost -= 1;
            self.next_lost()
        } else {
            self.sent += 1;
            SeqNo(self.sent.0.wrapping_sub(1))
        };
        let path =
            if self.further.is_empty() { PathId::FIRST } else { self.choose_for(seq, repeated) };
        let class = match self.classes {
            None => Class::Only,
            Some(_) => self.class(seq, repeated),
        };
        let datagrams = self.slot(seq).datagrams.into();
        let transmission = self.path(path).transmit(seq, repeated, datagrams);
        let slot = self.slot(seq);
        slot.state = SlotState::InFlight;
        slot.repeated |= repeated;
        slot.path = path;
        slot.transmission = transmission;
        slot.sent_at = now;
        let (kind, in_parts) = (slot.kind, path.is_first() && (slot.bulk || slot.too_long));
        let stopped = self.sent == self.limit && self.path(path).rtt.is_short();
        Transmission { seq, repeated, kind, path, in_parts, class, stopped }
    }

    /// The buffer of a message within the window.
    #[inline]
    pub(crate) fn message(&mut self, seq: SeqNo) -> &mut T {
        self.slot(seq).token.as_mut().expect("a slot within the window holds its message")
    }

    /// Empties the window: every frame in order, with what it carries.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Kind, T)> + '_ {
        let (base, count) = (self.base, self.len());
        self.base = self.next;
        self.sent = self.next;
        (self.lost, self.undeliverable) = (0, 0);
        self.paths_mut().for_each(Path::forget);
        let mask = self.slots.len().wrapping_sub(1);
        let slots = &mut self.slots;
        (0..count).filter_map(move |i| {
            let slot = &mut slots[(base + i).0 as usize & mask];
            Some((slot.kind, slot.token.take()?))
        })
    }
}
