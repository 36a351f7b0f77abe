//! Which frames go first: before others in switches (`PROTOCOL.md` §14).
//!
//! A frame that goes first overtakes those that do not. The frames of a session must not overtake
//! each other, since that would bring nothing: they are delivered in order. And what is overtaken
//! by four frames would count as lost.

use super::SendWindow;
use gigae_wire::{Flags, SeqNo};

/// Most frames in a window of which one goes first. Two short messages have as many. With more, the
/// program sends a long transfer, in whatever pieces.
const MOST_FIRST: u32 = 2 * super::SHORT;

/// What a window knows of the frames that did not go first.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Classes {
    /// Longest payload in bytes of a frame that goes first.
    longest: u16,
    /// Behind the last one of them.
    ordinary: SeqNo,
    /// What the header of the last one said of credit.
    said: Flags,
    /// The peer has asked or repeated a frame: the next Ack does not go first.
    is_asked: bool,
}

impl Classes {
    /// The first frame of a session does not go first. It would overtake the Confirm.
    pub(super) fn new(longest: u16, first: SeqNo) -> Self {
        Self { longest, ordinary: first + 1, said: Flags::NONE, is_asked: false }
    }

    /// The same for another session.
    pub(super) fn anew(self, first: SeqNo) -> Self {
        Self::new(self.longest, first)
    }
}

impl<T> SendWindow<T> {
    /// Whether a data frame that is transmitted now goes first. Notes it if not. A repeated frame
    /// does not: perhaps the network loses all frames that do.
    #[cold]
    #[inline(never)]
    pub(super) fn goes_first(&mut self, seq: SeqNo, repeated: bool) -> bool {
        let slot = self.slot(seq);
        let (is_short, len) = (slot.short && !repeated, slot.len);
        let may = is_short && self.len() <= MOST_FIRST;
        let Some(classes) = &mut self.classes else { return false };
        let first = may && len <= classes.longest && !self.base.is_before(classes.ordinary);
        if !first && classes.ordinary.is_before(seq + 1) {
            classes.ordinary = seq + 1;
        }
        first
    }

    /// A data frame does not go first, and its header says this of credit.
    #[cold]
    #[inline(never)]
    pub(crate) fn said(&mut self, flags: Flags) {
        if let Some(classes) = &mut self.classes {
            classes.said = flags.of_credit();
        }
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
