//! What can go wrong after an endpoint is open: one type per operation.

use crate::memory::Memory;
use gigae_link::LinkError;
use gigae_transfer::TooLong;
use std::time::Duration;

/// A peer cannot be addressed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The address does not fit the envelope: MAC addresses go with Ethernet, IP addresses with
    /// UDP.
    #[error(
        "the address does not fit the envelope; give a MAC address for Ethernet, an IP address for UDP"
    )]
    Family,
    /// The channel of the address is not open on this endpoint.
    #[error("channel {0} is not open here; open it with Options::channels")]
    Channel(u8),
    /// The table of peers is full.
    #[error("this endpoint already knows {0} peers; open another endpoint")]
    TooMany(usize),
    /// The route to an IP address was not found.
    #[error("{0}")]
    Unreachable(String),
}

/// A message was not accepted for sending, and will not arrive: it may be sent again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// Longer than one frame holds, or than the peer can receive.
    #[error("a message of {len} bytes is too long; at most {max} are possible")]
    TooLong {
        /// Bytes of the message.
        len: usize,
        /// Bytes that are possible.
        max: usize,
    },
    /// Earlier messages to this peer failed, and the program has not taken them. Or failed messages
    /// to other peers hold transmit buffers, the program holds the rest, and a blocking call needs
    /// one.
    #[error("earlier messages failed; take them with take_failure, then send again")]
    Failed,
    /// The program itself holds all transmit buffers, as [`SendBuffer`](crate::SendBuffer)s, and a
    /// blocking call needs one: none can come free.
    #[error("the program itself holds all transmit buffers; send or drop some of them")]
    BuffersHeld,
    /// The link stopped working.
    #[error("{0}")]
    Link(#[from] LinkError),
}

/// A message was not accepted for sending without waiting; what was given comes back.
#[derive(Debug, thiserror::Error)]
pub enum TrySendError<B> {
    /// The window towards the peer is full, or there is no free buffer. Receive, or call
    /// `progress`, and try again.
    #[error("no room now; receive or make progress, then try again")]
    WouldBlock(B),
    /// It will not be accepted later either, until the reason is gone.
    #[error("{0}")]
    Refused(SendError),
}

impl<B> From<SendError> for TrySendError<B> {
    fn from(e: SendError) -> Self {
        Self::Refused(e)
    }
}

impl<B> From<LinkError> for TrySendError<B> {
    fn from(e: LinkError) -> Self {
        Self::Refused(e.into())
    }
}

/// Nothing could be received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// No message is there, and messages sent earlier failed. Their answers will not come.
    #[error("messages sent earlier failed; take them with take_failure, then receive again")]
    Failed,
    /// The link stopped working.
    #[error("{0}")]
    Link(#[from] LinkError),
}

/// Not everything that was sent was acknowledged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DrainError {
    /// The given time passed first.
    #[error("messages are not acknowledged after {0:?}; wait longer or check the peer")]
    Timeout(Duration),
    /// Messages failed.
    #[error("messages failed; take them with take_failure")]
    Failed,
    /// The link stopped working.
    #[error("{0}")]
    Link(#[from] LinkError),
}

/// An operation was not started: it is longer than 1 GiB, or 1,048,576 are going on. Its memory
/// comes back.
#[derive(Debug, thiserror::Error)]
#[error(
    "one operation takes at most 1 GiB, and an endpoint 1,048,576 operations and as many \
     registered memories; divide it, or wait for others to complete"
)]
pub struct OperationError(pub Option<Memory>);

impl From<TooLong<Memory>> for OperationError {
    fn from(TooLong(memory): TooLong<Memory>) -> Self {
        Self(Some(memory))
    }
}

/// The other endpoints could not be asked who they are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoverError {
    /// In the UDP envelope questions go to the broadcast address of an IPv4 subnet, and this
    /// interface is on none.
    #[error(
        "'{0}' has no IPv4 subnet to ask; give it an address with 'ip address add', or ask in the Ethernet envelope"
    )]
    NoSubnet(String),
    /// The link stopped working.
    #[error("{0}")]
    Link(#[from] LinkError),
}
