//! Messages in frames: to be sent, received, and failed.

use crate::endpoint::Endpoint;
use crate::engine::FailedMessage;
use crate::error::{SendError, TrySendError};
use crate::inbox::InboxMessage;
use crate::outbound::PAYLOAD;
use crate::peer::Peer;
use gigae_link::TxFrame;
use gigae_proto::Reason;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A free transmit frame, to be filled in place: the message is sent without a copy.
///
/// It dereferences to the longest message that fits. The call that sends it says how many of its
/// bytes to send. Its contents are those of a former message until they are overwritten. Dropped
/// unsent, it is free again.
pub struct SendBuffer<'a> {
    endpoint: &'a Endpoint,
    /// `None` only while the buffer is being consumed.
    frame: Option<TxFrame>,
}

impl<'a> SendBuffer<'a> {
    pub(crate) fn new(endpoint: &'a Endpoint, frame: TxFrame) -> Self {
        Self { endpoint, frame: Some(frame) }
    }

    /// Sends the first `len` bytes and rings the doorbell; waits while the window is full.
    ///
    /// No copy, one system call.
    pub fn send(self, to: Peer, len: usize) -> Result<(), SendError> {
        self.accept::<true>(to, len)
    }

    /// Like [`send`](Self::send) without the doorbell: the message goes with the next
    /// [`Endpoint::flush`], `send` or receive, or when enough frames wait. A small message is
    /// copied into the frame of one that waits already, which is cheaper than a separate frame;
    /// otherwise no copy. No system call unless it has to wait or enough frames do.
    pub fn queue(self, to: Peer, len: usize) -> Result<(), SendError> {
        self.accept::<false>(to, len)
    }

    #[inline]
    fn accept<const RING: bool>(self, to: Peer, len: usize) -> Result<(), SendError> {
        let endpoint = self.endpoint;
        let mut buffer = self;
        loop {
            match buffer.try_accept::<RING>(to, len) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Refused(e)) => return Err(e),
                Err(TrySendError::WouldBlock(back)) => buffer = back,
            }
            endpoint.wait_for_room(to)?;
        }
    }

    /// Like [`queue`](Self::queue), but gives the buffer back instead of waiting.
    pub fn try_queue(self, to: Peer, len: usize) -> Result<(), TrySendError<Self>> {
        self.try_accept::<false>(to, len)
    }

    #[inline]
    fn try_accept<const RING: bool>(
        mut self,
        to: Peer,
        len: usize,
    ) -> Result<(), TrySendError<Self>> {
        self.endpoint.check_len(len)?;
        let Some(frame) = self.frame.take() else { unreachable!("buffers are consumed once") };
        let mut engine = self.endpoint.engine();
        let frame = match RING {
            true => match engine.send_frame_at_once(to.0, frame, len) {
                Ok(()) => return Ok(()),
                Err(frame) => frame,
            },
            false => frame,
        };
        match engine.queue_frame(to.0, frame, len) {
            Ok(()) => {
                if RING {
                    engine.send_accepted();
                }
                Ok(())
            }
            Err(TrySendError::WouldBlock(frame)) => {
                engine.look(8);
                drop(engine);
                self.frame = Some(frame);
                Err(TrySendError::WouldBlock(self))
            }
            Err(TrySendError::Refused(error)) => Err(error.into()),
        }
    }
}

impl Deref for SendBuffer<'_> {
    type Target = [u8];

    /// # Panics
    /// Never: the buffer is there until it is consumed. Reading has a separate call, since the call
    /// for writing needs exclusive access to the token.
    fn deref(&self) -> &[u8] {
        let frame = self.frame.as_ref().expect("not consumed");
        &self.endpoint.arenas().first.unsent_bytes(frame)[PAYLOAD..][..self.endpoint.max_message()]
    }
}

impl DerefMut for SendBuffer<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        let frame = self.frame.as_mut().expect("not consumed");
        &mut self.endpoint.arenas().first.bytes_mut(frame)[PAYLOAD..][..self.endpoint.max_message()]
    }
}

impl Drop for SendBuffer<'_> {
    /// In a child of fork(2) nothing happens: the frame is the parent's.
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take()
            && let Some(mut engine) = self.endpoint.engine_to_drop()
        {
            engine.give_back_unsent(frame);
        }
    }
}

impl fmt::Debug for SendBuffer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendBuffer").field("capacity", &self.len()).finish()
    }
}

/// A received message, borrowed from the endpoint: it dereferences to its bytes, which lie in the
/// frame as the link received it. Dropping it gives the frame back.
///
/// A message that the program keeps holds back the sender's credit. A program that keeps too many
/// stops the sender, not the link.
pub struct Message<'a> {
    endpoint: &'a Endpoint,
    /// `None` only while the message is being dropped.
    received: Option<InboxMessage>,
}

impl<'a> Message<'a> {
    #[inline]
    pub(crate) fn new(endpoint: &'a Endpoint, received: InboxMessage) -> Self {
        Self { endpoint, received: Some(received) }
    }

    #[inline]
    fn received(&self) -> &InboxMessage {
        self.received.as_ref().expect("not dropped")
    }

    /// For simulations whose program keeps messages beside their endpoint: the message without its
    /// endpoint, which holds its frame as before until [`Endpoint::kept`] has it back.
    #[doc(hidden)]
    pub fn keep(mut self) -> OwnedMessage {
        OwnedMessage(self.received.take().expect("not dropped"))
    }

    /// The sender and the channel. An answer goes there.
    #[inline]
    pub fn from(&self) -> Peer {
        let engine = self.endpoint.engine();
        Peer(engine.inbox.sender(self.received(), &engine.links.arenas))
    }
}

impl Deref for Message<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.received().bytes(self.endpoint.arenas())
    }
}

impl Drop for Message<'_> {
    /// In a child of fork(2) nothing happens: the frame is the parent's.
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(received) = self.received.take()
            && let Some(mut engine) = self.endpoint.engine_to_drop()
        {
            engine.give_back(received);
        }
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("from", &self.from()).field("len", &self.len()).finish()
    }
}

/// See [`Message::keep`].
#[doc(hidden)]
pub struct OwnedMessage(InboxMessage);

impl OwnedMessage {
    pub(crate) fn into_message(self, endpoint: &Endpoint) -> Message<'_> {
        Message::new(endpoint, self.0)
    }
}

impl fmt::Debug for OwnedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnedMessage")
    }
}

/// A message that was sent and not acknowledged, handed back: it dereferences to its bytes.
pub struct Failed<'a> {
    endpoint: &'a Endpoint,
    copy: Box<[u8]>,
    to: Peer,
    reason: Reason,
}

impl<'a> Failed<'a> {
    pub(crate) fn new(endpoint: &'a Endpoint, failed: FailedMessage) -> Self {
        let FailedMessage { message, to, reason } = failed;
        Self { endpoint, copy: message, to: Peer(to), reason }
    }

    /// The peer to which it was sent.
    pub fn to(&self) -> Peer {
        self.to
    }

    /// Why it failed. It may have arrived all the same: only its acknowledgement did not.
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

impl Deref for Failed<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.copy
    }
}

impl fmt::Display for Failed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = self.endpoint.address(self.to);
        write!(f, "a message of {} bytes to {to} failed: {}", self.len(), self.reason)
    }
}

impl fmt::Debug for Failed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failed").field("to", &self.to).field("reason", &self.reason).finish()
    }
}
