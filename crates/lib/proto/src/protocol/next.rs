//! The usual frames, one in each direction, each in one line.
//!
//! A message that is sent while nothing waits, and window, credit and flight have room, is numbered
//! and transmitted as it is admitted.
//!
//! The usual frame that arrives: data, the next in order of the session that the last frame
//! belonged to, while no frame is kept out of order. Nothing in it is refused, and nothing but its
//! acknowledgement is to be answered. All other frames take the way of
//! [`incoming`](super::incoming), on which each of these things is asked where it matters.

use super::Protocol;
use super::memory::KEPT_WINDOWS;
use crate::frame_kind::FrameKind;
use crate::session::SessionState;
use crate::{Arrival, DataFrame, Delivery, PeerId};
use gigae_wire::{Flags, Kind};

/// # Sending
impl<T, R> Protocol<T, R> {
    /// Admits a message like [`send`](Self::send), and transmits it like
    /// [`poll_data`](Self::poll_data), if it is as usual; hands the buffer back otherwise.
    #[inline(always)]
    pub fn send_at_once(
        &mut self,
        peer: PeerId,
        len: u16,
        buffer: T,
    ) -> Result<DataFrame<'_, T>, T> {
        let waits = self.wants_transmit();
        let session = &mut self.sessions[peer.0 as usize];
        let Some(send) = session.send.as_mut().filter(|send| !waits && send.is_open()) else {
            return Err(buffer);
        };
        let is_usual = matches!(session.state, SessionState::Established)
            && !session.sizing
            && session.failures == 0
            && len <= session.peer.max_payload;
        if !is_usual {
            return Err(buffer);
        }
        send.push(buffer, FrameKind::by_link(Kind::Data), len)?;
        self.memory.unacknowledged += 1;
        self.counters.messages_sent += 1;
        Ok(self.build_data(peer))
    }
}

/// # Frames that arrived
impl<T, R> Protocol<T, R> {
    /// Takes in a data frame that came by the first path, if it is as usual; hands the buffer back
    /// otherwise, for [`handle`](Self::handle). A message comes out by
    /// [`poll_delivery`](Self::poll_delivery). A frame with operations is delivered by this call,
    /// unless others or ends of sessions wait to be taken first; [`release`](Self::release) it.
    #[inline(always)]
    pub fn handle_next(
        &mut self,
        arrival: &Arrival<'_>,
        buffer: R,
    ) -> Result<Option<Delivery<R>>, R> {
        let (peer, header) = (self.table.last, arrival.header);
        let is_usual = arrival.path.is_first()
            && header.dst_port == self.config.port
            && !header.flags.has_any(Flags::ASK.with(Flags::ANSWER).with(Flags::STOPPED))
            && self.memory.kept == 0
            && self.outputs.deliveries.len() < self.config.receive_frames as usize
            && self.is_of(peer, arrival);
        if !is_usual {
            return Err(buffer);
        }
        let session = &mut self.sessions[peer.0 as usize];
        let (Some(send), Some(receive)) = (&mut session.send, &mut session.receive) else {
            return Err(buffer);
        };
        if !receive.is_next(header.seq) {
            return Err(buffer);
        }
        let Ok(done) = send.acknowledge(self.now, header.ack, &mut self.outputs.acknowledged)
        else {
            return Err(buffer);
        };
        self.memory.unacknowledged -= done as usize;
        send.credit(header.ack, header.credit);
        receive.take_next(self.config.ack_every);
        session.received_on = arrival.path;
        session.received(done > 0);
        let delivery = Delivery { peer, epoch: session.local, buffer };
        self.counters.frames_delivered += 1;
        if self.memory.windows > KEPT_WINDOWS && done > 0 {
            self.shrink(peer);
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
