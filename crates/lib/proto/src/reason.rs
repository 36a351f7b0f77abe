//! Why messages fail.

use std::fmt;

/// Why messages failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The peer answered nothing for the peer timeout.
    Timeout,
    /// The peer restarted or closed its endpoint.
    Reset,
    /// The peer speaks another version of the protocol.
    Version(u8),
    /// The message is longer than the peer can receive, which is this many bytes.
    TooLong(u16),
    /// This endpoint was closed.
    Closed,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str(
                "the peer does not answer; check that its endpoint is open and the link is up",
            ),
            Self::Reset => f.write_str(
                "the peer restarted or closed its endpoint; send again if that makes sense",
            ),
            Self::Version(v) => write!(
                f,
                "the peer speaks protocol version {v}, this end {}; install the same release on both",
                gigae_wire::VERSION
            ),
            Self::TooLong(max) => write!(
                f,
                "the peer receives at most {max} bytes; send shorter messages or raise its MTU"
            ),
            Self::Closed => f.write_str("this endpoint was closed before they were acknowledged"),
        }
    }
}
