//! Chaos on real links: endpoints in processes of their own, on interfaces in network namespaces,
//! while something goes wrong that the machine itself can do.
//!
//! A [`Scenario`] and a seed make a [`run`](Scenario::run): a fabric of three nodes, a workload's
//! process ([`worker`]) at two of them that sends numbered messages to the other, TCP connections
//! beside them on the same NICs, and one kind of fault. Afterwards either everything goes on and
//! nothing is lost, or the calls concerned have returned the errors that are expected, in the time
//! that is stated. Every message is known ([`replay`]). In the end nothing may be left: no program
//! on an interface, no socket, process or namespace; and a survivor with nothing to do must not use
//! a processor.
//!
//! Bounds are generous: a machine may be busy. What is never allowed is that something does not
//! come at all.

mod bench;
pub mod event;
mod figures;
pub mod process;
pub mod replay;
mod scenario;
mod system;
mod tcp;
pub mod worker;

pub use figures::Figures;
pub use scenario::{ALL, Scenario};
