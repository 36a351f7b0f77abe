//! What the program takes out of the engine and gives back: messages that arrived, and those that
//! failed.

use super::Engine;
use super::failures::FailedMessage;
use crate::error::RecvError;
use crate::inbox::{Done, InboxMessage};

impl Engine {
    /// The next message that has arrived, if any and if it lies in its frame.
    #[inline(always)]
    pub(crate) fn next_message(&mut self) -> Option<InboxMessage> {
        let Self { inbox, proto, links, .. } = self;
        let mut message = None;
        if !inbox.has_open() {
            message = inbox.open(proto.poll_delivery()?, links);
        }
        if message.is_none() {
            message = inbox.next(&links.arenas);
        }
        proto.counters_mut().messages_received += u64::from(message.is_some());
        message
    }

    /// The next message that has arrived, if any and if it had to be copied; or the
    /// error that says that some have failed.
    #[cold]
    pub(crate) fn next_copy(&mut self) -> Result<Option<InboxMessage>, RecvError> {
        let copied = self.inbox.next_copy();
        if copied.is_none() && self.has_failures() {
            return Err(RecvError::Failed);
        }
        self.proto.counters_mut().messages_received += u64::from(copied.is_some());
        Ok(copied)
    }

    /// Whether there is a next message.
    #[inline]
    pub(crate) fn has_messages(&self) -> bool {
        self.inbox.has_open() || self.proto.has_deliveries()
    }

    /// The program is done with a message.
    #[inline]
    pub(crate) fn give_back(&mut self, message: InboxMessage) {
        let done = self.inbox.give_back(message, &self.links.arenas);
        if let Some(Done { frame, from, epoch }) = done {
            if let Some((path, frame)) = frame {
                self.links.recycle(path, frame);
            }
            self.proto.release(from, epoch);
            self.quiet = false;
            self.provide_if_few();
        }
    }

    /// Has as many frames ready for reception as the peers have credit for.
    #[inline]
    pub(super) fn provide_if_few(&mut self) {
        if self.rx.are_few(self.proto.credit()) {
            self.provide();
        }
    }

    #[cold]
    pub(super) fn provide(&mut self) {
        self.links.provide(self.rx.ready_for(self.proto.credit()));
    }

    /// The next message that failed.
    pub(crate) fn take_failure(&mut self) -> Option<FailedMessage> {
        if self.failed.are_none() {
            let mut failure = self.proto.poll_failure()?;
            let (peer, reason) = (failure.peer, failure.reason);
            let messages = failure.buffer.messages(&self.tx.arena);
            self.release(failure.buffer);
            self.failed.add(messages, peer, reason);
        }
        self.failed.take()
    }

    /// Whether [`take_failure`](Self::take_failure) would return one.
    #[inline]
    pub(crate) fn has_failures(&self) -> bool {
        !self.failed.are_none() || self.proto.has_failures()
    }

    /// Frees what the protocol is done with.
    pub(crate) fn reap(&mut self) {
        while let Some(message) = self.proto.poll_acknowledged() {
            if let Some(peer) = message.carries_operations() {
                self.transfer.acknowledged(peer);
            }
            self.release(message);
        }
        while let Some(spent) = self.proto.poll_spent() {
            self.release(spent);
        }
        while let Some(inbound) = self.proto.poll_discarded() {
            self.inbox.leave(inbound, &mut self.links);
        }
    }
}
