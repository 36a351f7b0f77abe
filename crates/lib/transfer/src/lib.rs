//! Tagged and untagged messages of any size, and access to remote memory, without input, output or
//! time (`PROTOCOL.md` §9).
//!
//! [`Transfer`] uses the ordered, reliable frames of `gigae_proto`. The payloads of Op frames go in
//! by [`Transfer::handle`] and come out by [`Transfer::fill`]. The layer below handles loss, order,
//! credit and restarted peers. Every operation that a program starts ends in a
//! [`TransferCompletion`].
//!
//! - A **small or medium message** is sent unasked and cut into frames. If no receive matches it,
//!   the receiver keeps it, up to an allowance per sender, which the sender knows.
//! - A **large message**, or one beyond that allowance, is offered. The receiver pulls it once it
//!   knows where to put it: one copy at each end, whatever the size.
//! - **Remote memory** is registered under a key that cannot be guessed. The owner's endpoint
//!   executes reads, writes and atomic changes while its program uses the endpoint. It refuses a
//!   wrong key, wrong bounds or missing rights with a reason.
//!
//! Memory is whatever implements [`Bytes`]. It is copied from and to, and never kept after the
//! operation's end.

#![forbid(unsafe_code)]

mod atomic;
mod frame_space;
mod guesses;
mod incoming;
mod log;
mod matching;
mod memory;
mod notices;
mod operation;
mod outgoing;
mod parts;
mod peer;
mod pool;
mod slot_table;
mod transfer;
mod unexpected_queue;

pub use frame_space::{InPlace, InPlaceBytes};
pub use gigae_wire::op::Label;
pub use matching::Selector;
pub use memory::{Accesses, Bytes, RegionKey, Rights, predictable_keys};
pub use operation::{OpError, OpId, TransferCompletion, TransferNotice};
pub use transfer::{
    Expected, PlacedPayload, Start, TooLong, Transfer, TransferConfig, TransferCounters,
    TransferUsage,
};
