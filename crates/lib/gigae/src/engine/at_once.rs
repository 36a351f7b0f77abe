//! A message that is sent while nothing waits: from the program to the doorbell in one line.
//!
//! It does what queueing a message and transmitting all that waits do for a lone one. Where
//! anything else is to be done, it does nothing, and the message is queued.

use super::Engine;
use crate::outbound::{Outbound, PAYLOAD};
use gigae_link::TxFrame;
use gigae_proto::{DataFrame, PeerId};
use gigae_wire::PathId;

impl Engine {
    /// Sends a message at once. False, with no effect, if it has to be queued. One copy.
    #[inline]
    pub(crate) fn send_at_once(&mut self, peer: PeerId, message: &[u8]) -> bool {
        if !self.has_nothing_to_send() || self.tx.is_exhausted() {
            return false;
        }
        let Some(mut frame) = self.tx.take(&mut self.links[PathId::FIRST].link) else {
            return false;
        };
        self.tx.arena.bytes_mut(&mut frame)[PAYLOAD..][..message.len()].copy_from_slice(message);
        match self.post_and_ring(peer, frame, message.len()) {
            Ok(()) => true,
            Err(frame) => {
                self.give_back_unsent(frame);
                false
            }
        }
    }

    /// The same for a message that was written into a frame in place, which comes back if it has to
    /// be queued.
    #[inline]
    pub(crate) fn send_frame_at_once(
        &mut self,
        peer: PeerId,
        frame: TxFrame,
        len: usize,
    ) -> Result<(), TxFrame> {
        if self.has_nothing_to_send() { self.post_and_ring(peer, frame, len) } else { Err(frame) }
    }

    /// Whether nothing goes out before the next message, and all that has arrived was looked at
    /// since the last one.
    #[inline]
    fn has_nothing_to_send(&self) -> bool {
        self.looked
            && !self.proto.wants_transmit()
            && self.transfer.ready() == 0
            && !self.doorbell.waits()
            && self.failed.are_none()
            && self.tx.has_plenty()
    }

    #[inline]
    fn post_and_ring(&mut self, peer: PeerId, frame: TxFrame, len: usize) -> Result<(), TxFrame> {
        let len = u16::try_from(len).expect("no longer than a frame");
        let message = self.proto.send_at_once(peer, len, Outbound::new(frame, len));
        let DataFrame { to, path, header, buffer, .. } = message.map_err(Outbound::into_taken)?;
        self.links[path].post(to, buffer, &header);
        self.tx.queued(1);
        self.clock.count(1);
        self.ring_for_accepted();
        self.looked = false;
        self.reap();
        Ok(())
    }
}
