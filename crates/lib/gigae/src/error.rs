//! What can go wrong after an endpoint is open: one type per operation.

use crate::memory::Memory;
use gigae_link::LinkError;
use gigae_transfer::TooLong;
use std::fmt;
use std::time::Duration;

/// A peer cannot be addressed.
#[derive(Debug)]
#[non_exhaustive]
pub enum PeerError {
    /// The address does not fit the envelope: MAC addresses go with Ethernet, IP addresses with UDP.
    Family,
    /// The channel of the address is not open on this endpoint.
    Channel(u8),
    /// The table of peers is full.
    TooMany(usize),
    /// The way to an IP address was not found.
    Unreachable(String),
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Family => f.write_str("the address does not fit the envelope; give a MAC address for Ethernet, an IP address for UDP"),
            Self::Channel(c) => write!(f, "channel {c} is not open here; open it with Options::channels"),
            Self::TooMany(n) => write!(f, "this endpoint already knows {n} peers; open another endpoint"),
            Self::Unreachable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for PeerError {}

/// A message was not accepted for sending, and will not arrive: it may be sent again.
#[derive(Debug)]
#[non_exhaustive]
pub enum SendError {
    /// Longer than one frame holds, or than the peer can receive.
    TooLong {
        /// Bytes of the message.
        len: usize,
        /// Bytes that are possible.
        max: usize,
    },
    /// Earlier messages to this peer failed and were not looked at; or those to others hold transmit buffers, the
    /// program holds the rest, and a blocking call needs one.
    Failed,
    /// The program itself holds all transmit buffers, as [`SendBuffer`](crate::SendBuffer)s, and a blocking call needs
    /// one: none can come free.
    BuffersHeld,
    /// The link stopped working.
    Link(LinkError),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { len, max } => {
                write!(f, "a message of {len} bytes is too long; at most {max} are possible")
            }
            Self::Failed => {
                f.write_str("earlier messages failed; take them with take_failure, then send again")
            }
            Self::BuffersHeld => f.write_str(
                "the program itself holds all transmit buffers; send or drop some of them",
            ),
            Self::Link(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for SendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Link(e) => Some(e),
            _ => None,
        }
    }
}

impl From<LinkError> for SendError {
    fn from(e: LinkError) -> Self {
        Self::Link(e)
    }
}

/// A message was not accepted for sending without waiting; what was given comes back.
#[derive(Debug)]
pub enum TrySendError<B> {
    /// The window towards the peer is full, or there is no free buffer. Receive, or call
    /// `progress`, and try again.
    WouldBlock(B),
    /// It will not be accepted later either, as long as the reason is there.
    Refused(SendError),
}

impl<B> fmt::Display for TrySendError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock(_) => {
                f.write_str("no room now; receive or make progress, then try again")
            }
            Self::Refused(e) => e.fmt(f),
        }
    }
}

impl<B: fmt::Debug> std::error::Error for TrySendError<B> {}

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
#[derive(Debug)]
#[non_exhaustive]
pub enum RecvError {
    /// There is no message, and there are messages of ours that failed: an answer to one of them
    /// would be waited for in vain.
    Failed,
    /// The link stopped working.
    Link(LinkError),
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed => f.write_str(
                "messages sent earlier failed; take them with take_failure, then receive again",
            ),
            Self::Link(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for RecvError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Link(e) => Some(e),
            Self::Failed => None,
        }
    }
}

impl From<LinkError> for RecvError {
    fn from(e: LinkError) -> Self {
        Self::Link(e)
    }
}

/// Not everything that was sent was acknowledged.
#[derive(Debug)]
#[non_exhaustive]
pub enum DrainError {
    /// The given time passed first.
    Timeout(Duration),
    /// Messages failed.
    Failed,
    /// The link stopped working.
    Link(LinkError),
}

impl fmt::Display for DrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout(t) => write!(
                f,
                "messages are not acknowledged after {t:?}; wait longer or check the peer"
            ),
            Self::Failed => f.write_str("messages failed; take them with take_failure"),
            Self::Link(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for DrainError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Link(e) => Some(e),
            _ => None,
        }
    }
}

impl From<LinkError> for DrainError {
    fn from(e: LinkError) -> Self {
        Self::Link(e)
    }
}

/// An operation was not started: it is longer than 1 GiB, or 1,048,576 are going on. Its memory comes
/// back.
#[derive(Debug)]
pub struct OperationError(pub Option<Memory>);

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "one operation takes at most 1 GiB, and an endpoint 1,048,576 operations and as many \
             registered memories; divide it, or wait for others to complete",
        )
    }
}

impl std::error::Error for OperationError {}

impl From<TooLong<Memory>> for OperationError {
    fn from(TooLong(memory): TooLong<Memory>) -> Self {
        Self(Some(memory))
    }
}

/// The other endpoints could not be asked who they are.
#[derive(Debug)]
#[non_exhaustive]
pub enum DiscoverError {
    /// In the UDP envelope questions go to the broadcast address of an IPv4 subnet, and this
    /// interface is on none.
    NoSubnet(String),
    /// The link stopped working.
    Link(LinkError),
}

impl fmt::Display for DiscoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSubnet(interface) => write!(
                f,
                "'{interface}' has no IPv4 subnet to ask; give it an address with 'ip address add', or ask in the Ethernet envelope"
            ),
            Self::Link(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for DiscoverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Link(e) => Some(e),
            Self::NoSubnet(_) => None,
        }
    }
}

impl From<LinkError> for DiscoverError {
    fn from(e: LinkError) -> Self {
        Self::Link(e)
    }
}
