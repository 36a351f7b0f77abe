//! The calls for messages of one frame: sending, receiving, and what failed.

use super::Endpoint;
use super::waiting::Pause;
use crate::engine::{Engine, NotQueued};
use crate::error::{RecvError, SendError, TrySendError};
use crate::message::{Failed, Message, OwnedMessage, SendBuffer};
use crate::peer::Peer;
use std::time::{Duration, Instant};

/// # Sending messages
///
/// A message is accepted at once or when there is room; the protocol delivers it later.
impl Endpoint {
    /// A transmit buffer to fill in place; waits while all are in use. Fails where none can come
    /// free: the program holds all of them, or messages that failed do.
    pub fn buffer(&self) -> Result<SendBuffer<'_>, SendError> {
        loop {
            if let Some(buffer) = self.try_buffer() {
                return Ok(buffer);
            }
            self.wait_for_buffer()?;
        }
    }

    /// A transmit buffer to fill in place, or `None` while all are in use: receive or make
    /// progress.
    #[inline]
    pub fn try_buffer(&self) -> Option<SendBuffer<'_>> {
        let frame = self.take(Engine::take)?;
        Some(SendBuffer::new(self, frame))
    }

    /// Sends a message: one copy, one doorbell. Waits while the window towards the peer is full, or
    /// the peer has its part of the transmit frames: all peers share three quarters of them, and
    /// each that the program has named has an equal part of the rest. A peer that answers but does
    /// not receive can prolong this without limit (STOP). A peer that does not answer is reported
    /// within the peer timeout.
    ///
    /// Accepted is not delivered: a message that is not acknowledged comes back by
    /// [`take_failure`](Self::take_failure). [`drain`](Self::drain) waits for all.
    #[inline]
    pub fn send(&self, to: Peer, message: &[u8]) -> Result<(), SendError> {
        self.accept::<true>(to, message)
    }

    /// Like [`send`](Self::send) without the doorbell: the message goes with the next
    /// [`flush`](Self::flush), `send` or receive, or when 32 frames wait. For streams: one doorbell
    /// for many messages, and one frame for as many small ones as fit.
    #[inline]
    pub fn queue(&self, to: Peer, message: &[u8]) -> Result<(), SendError> {
        self.accept::<false>(to, message)
    }

    /// Queues a message, and rings the doorbell if that is wanted.
    #[inline]
    fn accept<const RING: bool>(&self, to: Peer, message: &[u8]) -> Result<(), SendError> {
        self.check_len(message.len())?;
        loop {
            let queued = {
                let mut engine = self.engine();
                if RING && engine.send_at_once(to.0, message) {
                    return Ok(());
                }
                let queued = engine.queue(to.0, message);
                if RING && queued.is_ok() {
                    engine.send_accepted();
                }
                queued
            };
            match queued {
                Ok(()) => return Ok(()),
                Err(NotQueued::NoFrame) => self.wait_for_buffer()?,
                Err(NotQueued::WindowFull) => self.wait_for_room(to)?,
                Err(NotQueued::Refused(e)) => return Err(e),
            }
        }
    }

    /// Like [`send`](Self::send), but never waits.
    pub fn try_send(&self, to: Peer, message: &[u8]) -> Result<(), TrySendError<()>> {
        self.check_len(message.len())?;
        let mut engine = self.engine();
        if engine.send_at_once(to.0, message) {
            return Ok(());
        }
        match engine.queue(to.0, message) {
            Ok(()) => {
                engine.send_accepted();
                Ok(())
            }
            Err(NotQueued::Refused(e)) => Err(TrySendError::Refused(e)),
            Err(NotQueued::NoFrame | NotQueued::WindowFull) => {
                engine.send_and_progress()?;
                Err(TrySendError::WouldBlock(()))
            }
        }
    }

    /// Rings the doorbell for everything that was queued, and receives what has arrived, so that
    /// acknowledgements free buffers while they are still in the cache. One system call, none if
    /// nothing was queued.
    #[inline]
    pub fn flush(&self) -> Result<(), SendError> {
        Ok(self.engine().send_and_progress()?)
    }

    /// Rings the doorbell for everything that was queued or started. Unlike
    /// [`flush`](Self::flush), it does not receive, unless operations wait for a full window. For
    /// programs that receive right after this call. One system call, none if nothing was queued or
    /// started.
    #[inline]
    pub fn ring(&self) -> Result<(), SendError> {
        Ok(self.engine().send_waiting()?)
    }

    /// The next message that was not acknowledged and will not be, with the reason. Until all of a
    /// peer's are taken, nothing more can be sent to it.
    pub fn take_failure(&self) -> Option<Failed<'_>> {
        let failed = self.take(Engine::take_failure)?;
        Some(Failed::new(self, failed))
    }
}

/// # Receiving messages
///
/// `try_recv` never waits. The others wait as the endpoint's waiting style says.
impl Endpoint {
    /// The next message, or `None` if no message is there now. Receives frames, sends
    /// acknowledgements and retransmits what is due.
    #[inline(always)]
    pub fn try_recv(&self) -> Result<Option<Message<'_>>, RecvError> {
        let mut engine = self.engine();
        if engine.is_idle() {
            return Ok(None);
        }
        let may_have = engine.has_messages() || engine.progress()? > 0;
        if may_have && let Some(message) = engine.next_message() {
            return Ok(Some(Message::new(self, message)));
        }
        let copied = engine.next_copy()?;
        Ok(copied.map(|copied| Message::new(self, copied)))
    }

    /// The next message; waits for it as the endpoint's waiting style says.
    #[inline]
    pub fn recv(&self) -> Result<Message<'_>, RecvError> {
        match self.recv_until(None)? {
            Some(message) => Ok(message),
            None => unreachable!("there is no end to wait for"),
        }
    }

    /// The next message, or `None` after `timeout`.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Message<'_>>, RecvError> {
        // The clock is read only if there is something to wait for.
        match self.try_recv()? {
            Some(message) => Ok(Some(message)),
            None => self.recv_until(Some(Instant::now() + timeout)),
        }
    }

    #[inline]
    fn recv_until(&self, end: Option<Instant>) -> Result<Option<Message<'_>>, RecvError> {
        let mut pause = Pause::default();
        loop {
            if let Some(message) = self.try_recv()? {
                pause.end(self);
                return Ok(Some(message));
            }
            if !pause.pass(self, end)? {
                return Ok(None);
            }
        }
    }

    /// A message of this endpoint that was [kept](Message::keep); of another endpoint's frames, its
    /// bytes are refused by a panic. For simulations.
    #[doc(hidden)]
    pub fn kept(&self, message: OwnedMessage) -> Message<'_> {
        message.into_message(self)
    }
}
