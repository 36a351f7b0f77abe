//! A message that is sent while nothing waits: from the program to the doorbell in one call.
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
        if !self.may_send_at_once(peer, message.len()) || self.tx.is_exhausted() {
            return false;
        }
        let Some(mut frame) = self.tx.take(&mut self.links[PathId::FIRST].link) else {
            return false;
        };
        self.tx.arena.bytes_mut(&mut frame)[PAYLOAD..][..message.len()].copy_from_slice(message);
        self.post_and_ring(peer, frame, message.len());
        true
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
        if !self.may_send_at_once(peer, len) {
            return Err(frame);
        }
        self.post_and_ring(peer, frame, len);
        Ok(())
    }

    /// Whether a message of `len` bytes can be posted now, with nothing else to be done:
    ///
    /// - all that has arrived was looked at since the last message;
    /// - no operation waits for a frame, and no frame for a doorbell;
    /// - no message that failed waits for the program;
    /// - transmit frames are not scarce;
    /// - the protocol has nothing to transmit before it, and the peer's window, credit and flight
    ///   have room.
    #[inline]
    fn may_send_at_once(&self, peer: PeerId, len: usize) -> bool {
        self.looked
            && self.transfer.ready() == 0
            && !self.doorbell.waits()
            && self.failed.are_none()
            && self.tx.has_plenty()
            && self.proto.may_send_at_once(peer, short(len))
    }

    /// The rest, once that is so.
    #[inline]
    fn post_and_ring(&mut self, peer: PeerId, frame: TxFrame, len: usize) {
        let message = Outbound::new(frame, short(len));
        let DataFrame { to, path, first, header, buffer, .. } =
            self.proto.send_at_once(peer, short(len), message);
        self.links[path].post(to, buffer, &header, first);
        self.tx.queued(1);
        self.clock.count(1);
        self.ring_for_accepted();
        self.looked = false;
        self.reap();
    }
}

#[inline]
fn short(len: usize) -> u16 {
    u16::try_from(len).expect("no longer than a frame")
}
