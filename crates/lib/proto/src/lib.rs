//! The GigaE protocol without input, output or time: reliable, ordered messages between nodes that
//! never connect (`PROTOCOL.md` §4 to §8).
//!
//! [`Protocol`] is a state machine. Three calls put something in: [`Protocol::handle`] a received
//! frame, [`Protocol::send`] a message, [`Protocol::advance`] the time. The `poll_*` methods take
//! something out: frames to transmit ([`Protocol::poll_transmit`]), messages to deliver
//! ([`Protocol::poll_delivery`]), free buffers ([`Protocol::poll_acknowledged`]) and failed
//! messages ([`Protocol::poll_failure`]). Frame memory is opaque: a transmit buffer is some `T`, a
//! receive buffer some `R`. The protocol only keeps them and hands them on.
//!
//! The protocol reads no clock and no bytes of a message, opens no socket and allocates nothing per
//! message. A peer's windows grow with their contents. Most empty windows give their memory up; a
//! little of it is kept for other peers. So an idle peer takes less than a kilobyte, however many
//! there are.

#![forbid(unsafe_code)]

mod config;
mod counters;
mod flight;
mod foreign;
mod frame_kind;
mod log;
mod path;
mod path_set;
mod peer;
mod protocol;
mod queues;
mod reason;
mod receive;
mod rtt;
mod scatter;
mod secret;
mod send;
mod session;
mod size;
mod time;
mod timers;
mod types;

pub use config::{BulkConfig, LEAST_PART, ProtocolConfig};
pub use counters::ProtocolCounters;
pub use foreign::ForeignFrame;
pub use path::PathCounters;
pub use peer::{PeerSnapshot, SessionPhase};
pub use protocol::{MOST_KEPT_BULK, Protocol, TableUsage};
pub use reason::Reason;
pub use send::SHORT;
pub use time::Instant;
pub use types::{
    Arrival, Body, DataFrame, Delivery, Destination, EndedSession, FailedSend, PathTo, PeerId,
    PeerKey, Transmit, Unsent,
};
