//! Outputs and returns: deliveries, ends of sessions, free buffers.

use super::Protocol;
use super::outputs::pop;
use crate::{Delivery, EndedSession, FailedSend, PeerId};
use gigae_wire::Epoch;

/// # Taking messages out, and buffers back
impl<T, R> Protocol<T, R> {
    /// Whether [`poll_delivery`](Self::poll_delivery) would return something.
    #[inline]
    pub fn has_deliveries(&self) -> bool {
        !self.outputs.deliveries.is_empty()
    }

    /// The next message to deliver. When the application is done with it, it must call
    /// [`release`](Self::release); otherwise the peer stays stopped.
    #[inline(always)]
    pub fn poll_delivery(&mut self) -> Option<Delivery<R>> {
        pop(&mut self.outputs.deliveries)
    }

    /// The next frame with operations, in the order of its session. [`release`](Self::release) it
    /// like a message.
    #[inline]
    pub fn poll_operations(&mut self) -> Option<Delivery<R>> {
        pop(&mut self.outputs.operations)
    }

    /// The next session that has ended, or that did not come up. Take its deliveries first; those
    /// of its successor may already be among them.
    pub fn poll_ended(&mut self) -> Option<EndedSession> {
        self.outputs.ended.pop_front()
    }

    /// Whether [`poll_ended`](Self::poll_ended) would return something.
    #[inline]
    pub fn has_ended(&self) -> bool {
        !self.outputs.ended.is_empty()
    }

    /// Whether [`poll_operations`](Self::poll_operations) or [`poll_ended`](Self::poll_ended) would
    /// return something.
    #[inline]
    pub fn has_operations(&self) -> bool {
        !self.outputs.operations.is_empty() || !self.outputs.ended.is_empty()
    }

    /// Transmit buffers that [`poll_acknowledged`](Self::poll_acknowledged) would return.
    #[inline]
    pub fn acknowledged(&self) -> usize {
        self.outputs.acknowledged.len()
    }

    /// The next transmit buffer that is free because its message was acknowledged.
    #[inline]
    pub fn poll_acknowledged(&mut self) -> Option<T> {
        pop(&mut self.outputs.acknowledged)
    }

    /// The next message that failed. The protocol admits no further message for its peer until all
    /// failures of that peer are taken.
    pub fn poll_failure(&mut self) -> Option<FailedSend<T>> {
        let failure = self.outputs.failures.pop_front()?;
        self.session_mut(failure.peer).failures -= 1;
        Some(failure)
    }

    /// Whether [`poll_failure`](Self::poll_failure) would return something.
    #[inline]
    pub fn has_failures(&self) -> bool {
        !self.outputs.failures.is_empty()
    }

    /// The next receive buffer that is free because its session ended before the frame was in
    /// order.
    #[inline]
    pub fn poll_discarded(&mut self) -> Option<R> {
        self.outputs.discarded.pop()
    }

    /// The next transmit buffer with operations that is free because its session ended.
    /// [`poll_ended`](Self::poll_ended) reports the failure.
    #[inline]
    pub fn poll_spent(&mut self) -> Option<T> {
        self.outputs.spent.pop()
    }

    /// The application is done with a delivered message: its buffer counts as credit again.
    #[inline]
    pub fn release(&mut self, peer: PeerId, epoch: Epoch) {
        if self.shares.is_plain {
            self.release_up_to(self.shares.share, peer, epoch);
        } else {
            self.release_in_crowd(peer, epoch);
        }
    }

    #[cold]
    #[inline(never)]
    fn release_in_crowd(&mut self, peer: PeerId, epoch: Epoch) {
        let mut most = self.shares.share;
        if self.shares.crowded {
            most = self.shares.of(&mut self.sessions[peer.0 as usize], &self.config);
        }
        if self.shares.is_shared {
            self.release_shared(most, peer, epoch);
        } else {
            self.release_up_to(most, peer, epoch);
        }
    }

    #[inline(always)]
    fn release_up_to(&mut self, most: u32, peer: PeerId, epoch: Epoch) {
        let session = &mut self.sessions[peer.0 as usize];
        if session.local != epoch {
            return;
        }
        if let Some(receive) = &mut session.receive {
            self.shares.granted = self.shares.granted.wrapping_add_signed(receive.release(most));
            if receive.is_due(false) {
                self.enqueue(peer);
            }
        }
    }

    /// Frames for which the peers have or may get credit. This many data frames may arrive at once,
    /// and control frames besides.
    #[inline]
    pub fn credit(&self) -> u32 {
        self.shares.granted
    }
}
