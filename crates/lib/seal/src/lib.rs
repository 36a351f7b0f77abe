//! Sealed frames: authenticated and encrypted sessions, without sockets, clocks or randomness of
//! their own. Not used by `gigae-proto` yet.
//!
//! A [`handshake`] of two messages makes a [`Session`]: a [`Sealer`] and an [`Opener`]. Time is an
//! argument in monotonic nanoseconds, randomness in bytes. Sealing and opening allocate nothing.

#![forbid(unsafe_code)]

mod aead;
mod error;
pub mod handshake;
mod session;
mod suite;
mod window;

pub use aead::{BadTag, FrameKey, TAG_LEN, Tag};
pub use error::HandshakeError;
pub use handshake::{Binding, Credentials, Initiator, Responder, Session};
pub use session::{
    Counter, Exhausted, FRAMES_OF_A_PHASE, MOST_OF_A_PHASE, OVERHEAD, OVERLAP, OpenError, Opener,
    PATHS, Sealer, TIME_OF_A_PHASE, Trailer,
};
pub use suite::{Level, OFFER_LEN, Offer, Suite};
pub use window::{ReplayWindow, WINDOW};
