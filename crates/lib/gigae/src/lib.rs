//! Reliable, ordered messages on plain Ethernet frames.
//!
//! An [`Endpoint`] sends messages to other endpoints on the same Ethernet and receives theirs.
//! There is no connection to make: name a peer by its MAC address and send. Every message arrives
//! once and in order, or comes back as failed with the reason; nothing is lost silently. TCP/IP
//! continues to work over the same interface.
//!
//! ```no_run
//! use gigae::{Address, Endpoint};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = Endpoint::open("eth1")?;
//! let peer = endpoint.peer("02:00:00:00:00:02".parse::<Address>()?)?;
//! endpoint.send(peer, b"hello")?;
//! let answer = endpoint.recv()?;
//! println!("{} bytes from {}", answer.len(), endpoint.address(answer.from()));
//! # Ok(())
//! # }
//! ```
//!
//! # What it costs
//!
//! | call | copies | system calls |
//! |---|---|---|
//! | [`Endpoint::send`] | 1 | 1 doorbell |
//! | [`SendBuffer::send`] | 0 | 1 doorbell |
//! | [`Endpoint::queue`], [`SendBuffer::queue`] | as above; 1 into a frame that waits already | none; one doorbell for all at [`Endpoint::flush`] or the next receive, or for 32 frames |
//! | [`Endpoint::try_recv`], [`Endpoint::recv`] while spinning | 0 | none, but doorbells for acknowledgements |
//!
//! (Besides the copy that the kernel makes each way in AF_XDP's copy mode and AF_PACKET, and one
//! more out of AF_PACKET's ring.) None of these allocates or takes a lock. The clock is read once
//! per 64 frames or empty polls.
//!
//! # Progress
//!
//! A program may compute for as long as it likes. While it makes no calls, one background thread
//! per process acknowledges, repeats, answers, and carries out peers' operations on registered
//! memory ([`Options::progress`]). A program that calls [`Endpoint::progress`] often enough may do
//! without it ([`Progress::Manual`]).
//!
//! # Logs
//!
//! [`log_to_stderr`] shows what `GIGAE_LOG` asks for: sessions, the choice of mode, losses,
//! refusals. A program may set a subscriber of the crate `tracing` instead. Messages have no
//! events.
//!
//! # fork(2)
//!
//! After fork(2), use an endpoint in the parent only: a call in the child panics. Dropping it
//! there, its messages or its buffers does nothing.

#![forbid(unsafe_code)]

mod address;
mod brokered;
mod clock;
mod cluster;
mod endpoint;
mod engine;
mod error;
mod inbox;
mod link;
mod links;
mod local;
mod log;
mod measured;
mod memory;
mod message;
mod neighbour;
mod open;
mod operations;
mod options;
mod outbound;
mod peer;
mod resolve;
mod route_table;
mod sharing;
mod simulated;
mod tapped;
mod wait;

pub use address::{Address, ParseAddressError};
pub use brokered::broker_nics;
pub use cluster::{Cluster, ClusterError, Nic, Node};
pub use endpoint::{Counters, Endpoint, PathStatistics, Usage};
pub use error::{
    DiscoverError, DrainError, OperationError, PeerError, RecvError, SendError, TrySendError,
};
#[doc(hidden)]
pub use gigae_host::environment;
pub use gigae_link::{Filter, Info, Link, LinkError, Mode, OpenError};
pub use gigae_proto::Reason;
pub use gigae_shm::SharedBuffer;
pub use gigae_udp::Offload;
pub use gigae_wire::{Envelope, MacAddr, payload_of_mtu};
pub use gigae_xdp::BusyPoll;
pub use local::{ip_of, mac_of};
pub use log::log_to_stderr;
pub use measured::MeasuredBackends;
pub use memory::Memory;
#[doc(hidden)]
pub use message::OwnedMessage;
pub use message::{Failed, Message, SendBuffer};
pub use neighbour::Neighbour;
pub use operations::{
    Accesses, Action, Bytes, Change, Completion, Label, MOST_FETCHED, Notice, Number, OpError,
    OpId, RegionKey, Rights, Started, Status, Wanted,
};
pub use options::{Backend, BrokerUse, Options, Progress};
pub use peer::Peer;
pub use sharing::Sharing;
#[doc(hidden)]
pub use sharing::nics;
#[doc(hidden)]
pub use simulated::ip as simulated_ip;
pub use wait::Wait;
