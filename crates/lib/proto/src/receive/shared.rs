//! Credit that is less than there is room for, because several senders want more than the link
//! carries (`PROTOCOL.md` 6.5 to 6.9).

use super::ReceiveWindow;
use crate::send::SHORT;
use gigae_wire::SeqNo;

impl<R> ReceiveWindow<R> {
    /// [`release`](Self::release) with shared credit. While it is rationed, the sender gets credit
    /// for `rationed` frames from the next one on, beside what it [is granted](Self::grant), and
    /// the window does not grow.
    pub(crate) fn release_shared(&mut self, most: u32, unasked: u32, is_rationed: bool) -> i32 {
        self.held = self.held.saturating_sub(1);
        let before = self.window;
        let left = self.room.ahead_of(self.granted).max(0).cast_unsigned();
        let used = self.patient || self.wanted > 0 || left < before / 2;
        self.wanted = self.wanted.saturating_sub(1);
        self.window = (before + u32::from(used && !is_rationed)).min(most);
        let edge = SeqNo(self.next.0.wrapping_sub(self.held));
        if self.room.is_before(edge + self.window) {
            self.room = edge + self.window;
        }
        self.raise(self.next + unasked.max(self.for_short()));
        self.go();
        self.window.cast_signed() - before.cast_signed()
    }

    /// GO: the peer is stopped, or soon will be, because it does not know of its credit.
    pub(crate) fn go(&mut self) {
        let unadvertised = self.granted.ahead_of(self.advertised).cast_unsigned();
        let left = self.advertised.ahead_of(self.next);
        let soon = unadvertised >= self.window / 2 && left <= (self.window / 4).cast_signed();
        self.urgent |= unadvertised > 0 && (left <= self.for_short().cast_signed() || soon);
    }

    /// Gives a lone peer credit for all the room that there is. Its first credit was less, because
    /// it could have been the first of many.
    pub(crate) fn open(&mut self) {
        self.raise(self.room);
    }

    /// Gives credit up to a number, as far as there is room.
    fn raise(&mut self, to: SeqNo) {
        let to = if self.room.is_before(to) { self.room } else { to };
        if self.granted.is_before(to) {
            self.granted = to;
        }
        if self.limit.is_before(self.granted) {
            self.limit = self.granted;
        }
    }

    /// Gives credit for so many frames more, beside that for short messages, as far as there is
    /// room, and an acknowledgement says so at once. Returns how many.
    pub(crate) fn grant(&mut self, frames: u32) -> u32 {
        let (before, ahead) = (self.granted, self.granted.ahead_of(self.highest).max(0));
        self.raise(before + frames + self.for_short().saturating_sub(ahead.cast_unsigned()));
        let given = self.granted.ahead_of(before).cast_unsigned();
        self.urgent |= given > 0;
        given
    }

    /// Gives credit for all that there is room for. Returns for how many frames more.
    pub(crate) fn grant_all(&mut self, wanted: u32) -> u32 {
        let before = self.granted;
        let from = if before.is_before(self.highest) { self.highest } else { before };
        self.raise(from + wanted + self.for_short());
        self.go();
        self.granted.ahead_of(before).cast_unsigned()
    }

    /// The peer keeps its last credit for short messages, or not.
    pub(crate) fn set_kept(&mut self, keeps: bool) {
        self.keeps = keeps;
    }

    /// Frames of the credit that the peer keeps for short messages.
    fn for_short(&self) -> u32 {
        if self.keeps && !self.is_narrow() { SHORT } else { 0 }
    }

    /// In a crowd there is no room for credit that is kept.
    pub(crate) fn is_narrow(&self) -> bool {
        self.window.saturating_sub(self.held) <= 2 * SHORT
    }

    /// First number for which no credit was given.
    pub(crate) fn granted(&self) -> SeqNo {
        self.granted
    }

    /// The same without the last credit, which is for short messages.
    pub(crate) fn granted_but_reserve(&self) -> SeqNo {
        SeqNo(self.granted.0.wrapping_sub(self.for_short()))
    }

    /// Whether there is room for more than there is credit for.
    pub(crate) fn has_room(&self) -> bool {
        self.granted.is_before(self.room)
    }

    /// One past the highest number received.
    pub(crate) fn highest(&self) -> SeqNo {
        self.highest
    }

    /// Frames for which the sender has credit, and of which none has arrived, nor any behind it.
    /// Without the last credit, which is for short messages.
    pub(crate) fn outstanding(&self) -> u32 {
        self.granted.ahead_of(self.highest).max(0).cast_unsigned().saturating_sub(self.for_short())
    }

    /// Whether a frame is missing that is probably lost.
    pub(crate) fn is_missing(&self) -> bool {
        self.gap && !self.patient && (self.kept_count == 0 || self.kept_count > self.early_count)
    }

    /// How many are.
    pub(crate) fn missing(&self) -> u32 {
        if !self.is_missing() {
            return 0;
        }
        let ahead = self.highest.ahead_of(self.next).max(0).cast_unsigned();
        ahead.saturating_sub(self.kept_count - self.early_count).max(1)
    }
}
