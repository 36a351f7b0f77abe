//! Why a handshake failed.

use crate::Level;

/// Why a handshake failed. Each says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// Not a handshake message.
    #[error("a malformed handshake: use the same version of gigae on both nodes")]
    Malformed,
    /// The ends demand different levels.
    #[error("this node demands {own:?}, the peer {peer:?}: set the same security on both nodes")]
    Level {
        /// What this end demands.
        own: Level,
        /// What the peer demands.
        peer: Level,
    },
    /// No suite that both have.
    #[error("both nodes have no cipher in common: allow ChaCha20-Poly1305 on both")]
    NoCommonSuite,
    /// Another key, other ends, or bytes that were changed or replayed.
    #[error("the peer has another key or names other ends: copy the same key file to both nodes")]
    Refused,
    /// The peer's node key is not known.
    #[error("the peer's node key is unknown: add its public key to the cluster file")]
    UnknownNode,
    /// The message came under a secret that is forgotten.
    #[error("the handshake took too long: the next Hello begins again")]
    TooLate,
}
