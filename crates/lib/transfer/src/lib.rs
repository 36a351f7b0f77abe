//! Tagged and untagged messages of any size and access to remote memory, without input, output or time
//! (`PROTOCOL.md` §9).
//!
//! [`Transfer`] sits on the ordered, reliable frames of `gigae_proto`: the payloads of Op frames go
//! in by [`Transfer::handle`] and come out by [`Transfer::fill`]; everything else (loss, order,
//! credit, restarted peers) has been dealt with below. What a program starts ends in a
//! [`Completion`].
//!
//! - A **small or middle message** is sent unasked and cut into frames; one that nobody waits for
//!   is kept, up to an allowance per sender, of which the sender knows.
//! - A **large message**, or one beyond that allowance, is offered and pulled by the receiver once it
//!   knows where to put it: one copy at each end, whatever the size.
//! - **Remote memory** is registered under a key that cannot be guessed; reads, writes and atomic
//!   changes are carried out by the owner's endpoint while its program uses that, and are refused
//!   with a reason when key, bounds or rights are wrong.
//!
//! Memory is whatever implements [`Bytes`]; it is copied from and to, never kept beyond the
//! operation's end.

#![forbid(unsafe_code)]

mod atomic;
mod guesses;
mod incoming;
mod kept;
mod matching;
mod memory;
mod notices;
mod operation;
mod outgoing;
mod peer;
mod pool;
mod table;
mod transfer;

pub use gigae_wire::op::Label;
pub use matching::Selector;
pub use memory::{Accesses, Bytes, RegionKey, Rights, predictable_keys};
pub use operation::{Completion, Notice, OpError, OpId};
pub use transfer::{Config, Counters, Start, TooLong, Transfer};
