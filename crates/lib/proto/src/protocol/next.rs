//! The usual frames, one in each direction, each in one call.
//!
//! A message that is sent while nothing waits, and window, credit and flight have room, is numbered
//! and transmitted as it is admitted.
//!
//! The usual frame that arrives: data, the next in order of the session that the last frame
//! belonged to, while no frame is kept out of order. Nothing in it is refused, and nothing but its
//! acknowledgement is to be answered. All other frames take the way of
//! [`incoming`](super::incoming), on which each of these things is asked where it matters.

use super::Protocol;
use crate::frame_kind::FrameKind;
use crate::session::SessionState;
use crate::{Arrival, DataFrame, Delivery, PeerId};
use gigae_wire::{Flags, Kind};

/// # Sending
impl<T, R> Protocol<T, R> {
    /// Whether [`send_at_once`](Self::send_at_once) can send a message of `len` bytes now: nothing
    /// is to be transmitted before it, and it would go by the first path.
    #[inline(always)]
    pub fn may_send_at_once(&self, peer: PeerId, len: u16) -> bool {
        let session = &self.sessions[peer.0 as usize];
        !self.wants_transmit()
            && self.routes.is_empty()
            && matches!(session.state, SessionState::Established)
            && !session.sizing
            && session.failures == 0
            && len <= session.peer.max_payload
            && session.send.as_ref().is_some_and(|send| send.is_open())
    }

    /// Admits a message like [`send`](Self::send) and transmits it like
    /// [`poll_data`](Self::poll_data). The caller posts the frame by the first link.
    ///
    /// Call this only if [`may_send_at_once`](Self::may_send_at_once) has said yes to the same
    /// message and no other method was called since.
    #[inline(always)]
    pub fn send_at_once(&mut self, peer: PeerId, len: u16, buffer: T) -> DataFrame<'_, T> {
        debug_assert!(self.may_send_at_once(peer, len), "ask first");
        let session = &mut self.sessions[peer.0 as usize];
        let send = session.send.as_mut().expect("established");
        if send.push(buffer, FrameKind::short(Kind::Data), len).is_err() {
            unreachable!("an open window has a free slot")
        }
        self.admitted(peer);
        self.counters.messages_sent += 1;
        self.build_data(peer)
    }
}

/// # Frames that arrived
impl<T, R> Protocol<T, R> {
    /// Takes in a data frame that came by the first path, if it is as usual; hands the buffer back
    /// otherwise, for [`handle`](Self::handle). A message comes out by
    /// [`poll_delivery`](Self::poll_delivery). A frame with operations is returned by this call,
    /// unless others or ends of sessions wait to be taken first. The caller carries these
    /// operations out before it hands over the next frame, and then [`release`](Self::release)s the
    /// frame.
    #[inline(always)]
    pub fn handle_next(
        &mut self,
        arrival: &Arrival<'_>,
        buffer: R,
    ) -> Result<Option<Delivery<R>>, R> {
        let (peer, header) = (self.table.last, arrival.header);
        let is_usual = header.kind.is_data()
            && arrival.path.is_first()
            && header.dst_port == self.config.port
            && !header.flags.has_any(Flags::ASK.with(Flags::ANSWER).with(Flags::STOPPED))
            && self.memory.kept == 0
            && self.outputs.deliveries.len() < self.config.receive_frames as usize
            && self.is_of(peer, arrival);
        if !is_usual {
            return Err(buffer);
        }
        let receive = self.session(peer).receive.as_ref().expect("established");
        if !receive.is_next(header.seq) {
            return Err(buffer);
        }
        let Ok(done) = self.acknowledge(peer, header) else { return Err(buffer) };
        let session = &mut self.sessions[peer.0 as usize];
        let receive = session.receive.as_mut().expect("established");
        receive.take_next(self.config.ack_every);
        session.received_on = arrival.path;
        session.received(done > 0);
        let delivery = Delivery { peer, epoch: session.local, buffer };
        self.counters.frames_delivered += 1;
        self.shrink_if_many(peer, done);
        if self.shares_credit(header) {
            self.demanded(peer, header, Some(arrival.payload.len()));
        }
        self.after_frame(peer);
        if header.kind != Kind::Op {
            self.outputs.deliveries.push_back(delivery);
        } else if self.has_operations() {
            self.outputs.operations.push_back(delivery);
        } else {
            return Ok(Some(delivery));
        }
        Ok(None)
    }
}
