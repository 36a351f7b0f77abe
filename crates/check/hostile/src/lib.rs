//! What an attacker can send, and what must hold whatever it is.
//!
//! Each public function is a target: it reads its input as a sequence of decisions (`script`),
//! carries them out, and panics if something does not hold. `fuzz/` searches for such inputs; what
//! it has found worth keeping lies in `fuzz/corpus`, and the tests of this crate run all of it
//! again.
//!
//! Hostile frames get past the checksum: they are put together and then sealed, as anybody on the
//! same Ethernet can. What such a node may do is bounded: no panic, no endless loop, no memory
//! beyond a stated bound, and what honest nodes send each other still arrives once, in order and
//! unchanged, as long as no node both lies about its address and knows the epochs of the session
//! that it lies about. What is kept and answered is bounded also then: `resources` has an attacker
//! who sees all.

mod broker;
mod calls;
mod clients;
mod cluster;
#[cfg(feature = "evaluator")]
mod control;
mod discovery;
#[cfg(feature = "evaluator")]
mod documents;
mod endpoint;
mod files;
mod frames;
mod identities;
mod meter;
mod protocol;
mod resources;
mod scenario;
mod script;
pub mod search;
mod speaker;
mod transfer;
mod wire;

pub use broker::broker;
pub use calls::calls;
pub use clients::{clients, clients_alone};
pub use cluster::cluster;
#[cfg(feature = "evaluator")]
pub use control::control;
pub use discovery::discovery;
#[cfg(feature = "evaluator")]
pub use documents::{plan, results};
pub use endpoint::endpoint;
pub use files::files;
pub use identities::identities;
pub use meter::Meter;
pub use protocol::protocol;
pub use resources::resources;
pub use resources::work::{CallMeter, Carrier, KINDS, work};
pub use transfer::transfer;
pub use wire::wire;
