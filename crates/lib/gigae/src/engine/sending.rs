//! Messages on their way into the window: each in a transmit frame, or added to one that still
//! waits.

use super::Engine;
use super::tx_frames::TxFrames;
use crate::error::{SendError, TrySendError};
use crate::inbox::Inbound;
use crate::outbound::{Outbound, PAYLOAD};
use gigae_link::{Arena, TxFrame};
use gigae_proto::{PeerId, Protocol};
use gigae_wire::PathId;

/// Why a message was not queued now.
pub(crate) enum NotQueued {
    /// All transmit frames are in use.
    NoFrame,
    /// The window towards the peer is full.
    WindowFull,
    Refused(SendError),
}

impl Engine {
    /// A transmit frame for a message.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<TxFrame> {
        if self.tx.is_exhausted() {
            self.reap();
            if self.tx.is_exhausted() {
                return None;
            }
        }
        self.tx.take(&mut self.links[PathId::FIRST].link)
    }

    /// Whether a message to a peer would be queued, or fail: its window and its part of the
    /// transmit frames have room.
    #[cold]
    pub(crate) fn has_room(&mut self, peer: PeerId) -> bool {
        self.proto.has_failed(peer) || !self.proto.is_full(peer) && self.may_queue(peer)
    }

    /// Whether a peer's part of the transmit frames has room for another one.
    #[inline]
    pub(super) fn may_queue(&mut self, peer: PeerId) -> bool {
        self.are_within(&self.tx, peer) || {
            self.reap();
            self.are_within(&self.tx, peer)
        }
    }

    /// The same for those of the socket for bulk data.
    #[inline]
    pub(super) fn may_queue_bulk(&mut self, peer: PeerId) -> bool {
        let may =
            |engine: &Self| engine.bulk_tx.as_ref().is_some_and(|tx| engine.are_within(tx, peer));
        may(self) || {
            self.reap();
            may(self)
        }
    }

    #[inline]
    fn are_within(&self, tx: &TxFrames, peer: PeerId) -> bool {
        tx.may_queue(|frames, only_named| self.proto.is_within_part(peer, frames, only_named))
    }

    /// Why no transmit frame can come free, however long one waits: nothing is on its way to a
    /// peer, so that all are the program's or hold messages that failed.
    pub(crate) fn starved(&self) -> Option<SendError> {
        if self.tx.is_exhausted() { self.stuck() } else { None }
    }

    /// Why what there is no room for now can never go, if so: nothing is on its way to a peer.
    pub(crate) fn stuck(&self) -> Option<SendError> {
        if self.proto.has_unacknowledged() {
            return None;
        }
        Some(if self.has_failures() { SendError::Failed } else { SendError::BuffersHeld })
    }

    /// A message's frame that was never admitted.
    #[inline]
    pub(crate) fn give_back_unsent(&mut self, frame: TxFrame) {
        self.tx.give_back(&mut self.links[PathId::FIRST].link, frame);
    }

    #[inline]
    pub(super) fn release(&mut self, message: Outbound) {
        let path = message.path();
        match &mut self.bulk_tx {
            Some(bulk) if !path.is_first() => bulk.release(&mut self.links[path].link, message),
            _ => self.tx.release(&mut self.links[PathId::FIRST].link, message),
        }
    }

    /// Queues a message, to go out with the next [`transmit`](Self::transmit): into the last frame
    /// for the peer if that still waits and has room, else into a new frame. One copy.
    #[inline]
    pub(crate) fn queue(&mut self, peer: PeerId, message: &[u8]) -> Result<(), NotQueued> {
        if self.aggregates() && append(&mut self.proto, &self.tx.arena, peer, message) {
            return Ok(());
        }
        let mut frame = self.take().ok_or(NotQueued::NoFrame)?;
        self.tx.arena.bytes_mut(&mut frame)[PAYLOAD..][..message.len()].copy_from_slice(message);
        match self.queue_alone(peer, frame, message.len()) {
            Ok(()) => Ok(()),
            Err(TrySendError::WouldBlock(frame)) => {
                self.give_back_unsent(frame);
                Err(NotQueued::WindowFull)
            }
            Err(TrySendError::Refused(error)) => Err(NotQueued::Refused(error)),
        }
    }

    /// Queues a message that was written into a frame in place. The frame comes back if the window
    /// is full.
    #[inline]
    pub(crate) fn queue_frame(
        &mut self,
        peer: PeerId,
        frame: TxFrame,
        len: usize,
    ) -> Result<(), TrySendError<TxFrame>> {
        let message = &self.tx.arena.unsent_bytes(&frame)[PAYLOAD..][..len];
        if self.aggregates() && append(&mut self.proto, &self.tx.arena, peer, message) {
            self.give_back_unsent(frame);
            return Ok(());
        }
        self.queue_alone(peer, frame, len)
    }

    #[inline]
    fn aggregates(&self) -> bool {
        self.aggregate && self.failed.are_none() && !self.doorbell.broken
    }

    #[inline]
    fn queue_alone(
        &mut self,
        peer: PeerId,
        frame: TxFrame,
        len: usize,
    ) -> Result<(), TrySendError<TxFrame>> {
        use gigae_proto::Unsent;
        if self.failed.begin_with(peer) {
            self.give_back_unsent(frame);
            return Err(SendError::Failed.into());
        }
        if self.doorbell.broken
            && let Err(error) = self.send_and_progress()
        {
            self.give_back_unsent(frame);
            return Err(error.into());
        }
        self.doorbell.broken = false;
        self.quiet = false;
        if !self.may_queue(peer) && !self.proto.has_failed(peer) {
            return Err(TrySendError::WouldBlock(frame));
        }
        let short = u16::try_from(len).expect("no longer than a frame");
        let (message, error) = match self.proto.send(peer, short, Outbound::new(frame, short)) {
            Ok(()) => {
                self.tx.queued(1);
                if self.doorbell.queued() {
                    self.send_accepted();
                }
                return Ok(());
            }
            Err(Unsent::WouldBlock(message)) => {
                return Err(TrySendError::WouldBlock(message.into_taken()));
            }
            Err(Unsent::Failed(message)) => (message, SendError::Failed),
            Err(Unsent::TooLong(message, max)) => {
                (message, SendError::TooLong { len, max: max.into() })
            }
        };
        self.give_back_unsent(message.into_taken());
        Err(error.into())
    }
}

/// Adds a message to the last frame for a peer, if that still waits and has room.
#[inline]
fn append(
    proto: &mut Protocol<Outbound, Inbound>,
    arena: &Arena,
    peer: PeerId,
    message: &[u8],
) -> bool {
    // The peer's frames may be longer than this end's.
    let own = proto.config().max_payload;
    proto.append(peer, |waiting, longest| waiting.append(arena, message, longest.min(own)))
}
