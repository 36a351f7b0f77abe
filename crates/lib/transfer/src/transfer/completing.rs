//! Operations that have ended, and how the program learns it.

use super::Transfer;
use crate::memory::Bytes;
use crate::operation::{
    MultiReceiveState, OpError, OpId, Operation, TransferCompletion, TransferNotice,
};

/// # What has ended
impl<M: Bytes> Transfer<M> {
    /// The next operation that has ended.
    #[inline]
    pub fn poll_completion(&mut self) -> Option<TransferCompletion<M>> {
        // A program that spins finds none, mostly.
        if self.has_ended() { self.take_completion() } else { None }
    }

    /// Whether [`poll_completion`](Self::poll_completion) may return one.
    #[inline]
    pub fn has_ended(&self) -> bool {
        !self.completions.is_empty() || !self.turns.is_empty()
    }

    #[inline(never)]
    fn take_completion(&mut self) -> Option<TransferCompletion<M>> {
        if self.may_take_turns() {
            self.take_turns();
        }
        self.completions.pop_front()
    }

    /// While this is on, peers cause no further completions of their own accord: receives of
    /// several messages take no more. What has begun goes on, and so do all other operations. But
    /// behind a message that waits for such a receive, the later ones of its sender wait, tagged or
    /// untagged as it is. This is for a caller that takes completions faster than its program reads
    /// them. Such a caller takes no notices in that time: their writers wait.
    pub fn hold_back(&mut self, on: bool) {
        self.held = on;
    }

    /// Whether [`poll_completion`](Self::poll_completion) or [`poll_notice`](Self::poll_notice)
    /// may return one. While peers are held back, notices do not count.
    pub fn has_completions(&self) -> bool {
        !self.completions.is_empty()
            || !self.held && !self.notices.is_empty()
            || self.may_take_turns()
    }

    /// Completions that wait for the program.
    pub fn completions(&self) -> usize {
        self.completions.len()
    }

    /// Completions and notices that wait for the program.
    pub fn pending_events(&self) -> usize {
        self.completions.len() + self.notices.len()
    }

    /// The next notice of a write. While many wait, this answers the write, too.
    pub fn poll_notice(&mut self) -> Option<TransferNotice> {
        let (notice, unanswered) = self.notices.pop()?;
        if let Some(write) = unanswered {
            self.answer_late(notice.peer, write);
        }
        Some(notice)
    }

    /// An operation is over.
    pub(crate) fn complete(&mut self, id: u32, result: Result<(), OpError>) {
        let Some(over) = self.operations.remove(id) else { return };
        if over.asks() {
            self.expect_no_more(id);
        }
        if let Some(peer) = over.peer() {
            *self.engaged_with(peer) -= 1;
        }
        let number = over.part_number();
        let Some(completion) = over.complete(id, result) else { return };
        let (Some(number), Some(peer)) = (number, completion.peer) else {
            return self.completions.push_back(completion);
        };
        // A message of a receive of several. Earlier messages of its sender are reported first.
        self.parts.end(peer, number, completion);
        while let Some(ended) = self.parts.take(peer) {
            self.complete_part(ended);
        }
        if !self.stalled.is_empty() {
            self.parts_ended(peer);
        }
    }

    /// A message of a receive of several has arrived. With the last one, the receive ends.
    pub(super) fn complete_part(&mut self, mut completion: TransferCompletion<M>) {
        let OpId(of) = completion.id;
        let Some(Operation::MultiReceive(several)) = self.operations.get_mut(of) else { return };
        several.arriving -= 1;
        let is_last = several.arriving == 0;
        match several.state {
            MultiReceiveState::Full if is_last => {
                if let Some(Operation::MultiReceive(several)) = self.operations.remove(of) {
                    completion.memory = Some(several.memory);
                }
                self.completions.push_back(completion);
            }
            MultiReceiveState::Cancelled if is_last => {
                self.completions.push_back(completion);
                self.complete(of, Err(OpError::Cancelled));
            }
            _ => self.completions.push_back(completion),
        }
    }
}
