//! A simulated Ethernet in virtual time: seeded loss, duplication, reordering, corruption and
//! delay, partitions, an MTU per port, black holes, a link rate, and a capture of every frame.
//!
//! A [`Network`] is a switch with any number of ports. Nothing in it depends on real time or on
//! the order of threads: the same seed and the same calls give the same frames at the same virtual
//! nanoseconds. [`SimLink`] is a port of it behind the [`gigae_link::Link`] contract.
//!
//! It models no protocol, no CPU and no driver: a frame leaves when it is posted and takes the
//! link's delay and its own transmission time.

#![forbid(unsafe_op_in_unsafe_fn)]

mod capture;
mod faults;
mod link;
mod network;
mod switch;

pub use faults::{Faults, Tally};
pub use link::SimLink;
pub use network::{Network, Port};
