//! The GigaE protocol without input, output or time: reliable, ordered messages between nodes that
//! never connect (`PROTOCOL.md` §4 to §8).
//!
//! [`Protocol`] is a state machine. Frames that arrived go in by [`Protocol::handle`], messages to
//! send by [`Protocol::send`], the passing of time by [`Protocol::advance`]; what comes out
//! is asked for: frames to transmit ([`Protocol::poll_transmit`]), messages to deliver
//! ([`Protocol::poll_delivery`]), buffers that are free again ([`Protocol::poll_acknowledged`]) and
//! messages that failed ([`Protocol::poll_failure`]). Frame memory is opaque here: a transmit
//! buffer is some `T`, a received one some `R`, and both are only kept and handed on.
//!
//! It reads no clock and no bytes of a message, opens no socket and allocates nothing per message. A
//! peer's windows grow with what is in them; empty, all but some give their memory up, which is kept for
//! others while it is little. So an idle peer costs less than a kilobyte, however many there are.

#![forbid(unsafe_code)]

mod config;
mod counters;
mod path;
mod peer;
mod protocol;
mod reason;
mod receive;
mod rtt;
mod secret;
mod send;
mod session;
mod size;
mod time;
mod timers;
mod types;

pub use config::Config;
pub use counters::Counters;
pub use path::PathCounters;
pub use peer::{PeerFigures, PeerState};
pub use protocol::Protocol;
pub use reason::Reason;
pub use time::Instant;
pub use types::{
    Arrival, Body, DataFrame, Delivery, Destination, Ended, Failure, PathTo, PeerId, PeerKey,
    SendError, Transmit,
};
