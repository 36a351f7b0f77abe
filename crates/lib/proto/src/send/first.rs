//! Which frames go first: before others in switches (`PROTOCOL.md` §14).
//!
//! A frame that goes first overtakes those that do not. The frames of a session are delivered in
//! order, so overtaking each other would bring nothing, and what is overtaken by four frames would
//! count as lost. There is one exception: bytes that the peer has asked for have no order, so the
//! operations of a short message may be carried out before them. Such a frame is *early*.

use super::SendWindow;
use super::slots::SlotState;
use gigae_wire::{Flags, Kind, SeqNo};

/// Most frames in a window of which one goes first. Two short messages have as many. With more, the
/// program sends a long transfer, in whatever pieces.
const MOST_FIRST: u32 = 2 * super::SHORT;

/// How a data frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// There are no classes.
    Only,
    /// It does not go first.
    Ordinary,
    /// It goes first, and overtakes none of its session.
    First,
    /// It goes first, and its operations may be carried out before those of others, but not before
    /// the frame so many numbers before; 0: there is none.
    Early(u8),
}

/// What a window knows of the frames that did not go first.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Classes {
    /// Longest payload in bytes of a frame that goes first.
    longest: u16,
    /// The first frame of the session.
    start: SeqNo,
    /// Behind the last frame that did not go first.
    ordinary: SeqNo,
    /// What the header of that one said of credit.
    said: Flags,
    /// The peer has asked or repeated a frame: the next Ack does not go first.
    is_asked: bool,
    /// The peer keeps frames out of order, so that some may overtake others.
    overtakes: bool,
}

impl Classes {
    pub(super) fn new(longest: u16, start: SeqNo) -> Self {
        let (said, is_asked, overtakes) = (Flags::NONE, false, false);
        Self { longest, start, ordinary: start, said, is_asked, overtakes }
    }

    /// The same for another session.
    pub(super) fn anew(self, start: SeqNo) -> Self {
        Self::new(self.longest, start)
    }
}

impl<T> SendWindow<T> {
    /// The class of a data frame that is transmitted now. A repeated one does not go first: perhaps
    /// the network loses all frames that do. None does before the peer has acknowledged the first
    /// frame: it would overtake the Confirm.
    #[cold]
    #[inline(never)]
    pub(super) fn class(&mut self, seq: SeqNo, repeated: bool) -> Class {
        let Some(classes) = self.classes else { return Class::Only };
        let slot = self.slot(seq);
        slot.early = None;
        let (is_free, len) = (slot.kind == Kind::Op && !slot.order.loose, slot.len);
        let may = slot.order.short && !repeated && self.base != classes.start;
        if may && len <= classes.longest {
            if !self.base.is_before(classes.ordinary) {
                if self.len() <= MOST_FIRST {
                    return Class::First;
                }
            } else if is_free
                && classes.overtakes
                && let Some(back) = self.back(seq)
            {
                self.slot(seq).early = Some(back);
                return Class::Early(back);
            }
        }
        if let Some(classes) = &mut self.classes
            && classes.ordinary.is_before(seq + 1)
        {
            classes.ordinary = seq + 1;
        }
        Class::Ordinary
    }

    /// How many numbers before a frame the last one is that overtakes others and may not have
    /// arrived; 0 if there is none. `None` if the frame must not overtake all that is before it. A
    /// frame that the receiver only keeps is not carried out.
    fn back(&mut self, seq: SeqNo) -> Option<u8> {
        let (mut before, mut last) = (self.base, seq);
        while before != seq {
            let slot = self.slot(before);
            if slot.early.is_some() && slot.state != SlotState::Lost {
                last = before;
            } else if !slot.order.loose {
                return None;
            }
            before += 1;
        }
        let back = u8::try_from(seq.ahead_of(last)).ok()?;
        let by_one_path = self.further.is_empty() || self.has_bulk;
        (back <= Flags::MOST_BACK && by_one_path).then_some(back)
    }

    /// Frames may overtake others: the peer keeps frames out of order.
    pub(crate) fn set_overtakes(&mut self, overtakes: bool) {
        if let Some(classes) = &mut self.classes {
            classes.overtakes = overtakes;
        }
    }

    /// What the header of a data frame says of credit: `flags`, or what the last ordinary one said
    /// if it overtakes that. Else the older one would come later and take it back.
    pub(crate) fn say(&mut self, class: Class, flags: Flags) -> Flags {
        match (&mut self.classes, class) {
            (Some(classes), Class::Ordinary) => classes.said = flags.of_credit(),
            (Some(classes), Class::Early(back)) => {
                return flags.with_credit_of(classes.said).early(back);
            }
            _ => {}
        }
        flags
    }

    /// The peer has asked for an Ack, or repeated a frame since the last Ack may be lost. As with
    /// repeated frames, the next one does not go first.
    pub(crate) fn asked(&mut self) {
        if let Some(classes) = &mut self.classes {
            classes.is_asked = true;
        }
    }

    /// Whether an Ack with these flags goes first. Not one that says something else of credit than
    /// data frames which it would overtake: those would then take it back.
    pub(crate) fn acknowledges_first(&mut self, flags: Flags) -> bool {
        let Some(classes) = &mut self.classes else { return false };
        let overtakes = self.base != self.sent && self.base.is_before(classes.ordinary);
        let is_asked = std::mem::take(&mut classes.is_asked);
        !is_asked && (!overtakes || classes.said == flags.of_credit())
    }
}
