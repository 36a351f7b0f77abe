//! Deterministic simulation: whole endpoints on a simulated network that does its worst, and a checker
//! that knows every message.
//!
//! A [`Scenario`] follows from a seed: 2 to 1,000 nodes, MTUs, windows, recovery mode, link, weather. A
//! [`run`] of it is a world in virtual time in which nodes send messages and start
//! operations, stop receiving, freeze, crash, close and come back, while frames are lost, doubled, delayed and
//! corrupted and the network is parted. [`Messages`], [`Tagged`] and [`Regions`] hold the library to what it
//! promises; each is a plain model that can be lied to (`tests/checker.rs`), so that it is known to notice.
//! In the end all faults are healed, and everything has to have arrived or failed within a stated time.
//!
//! The whole library above the kernel is under test: engine, inbox, operations, protocol, headers. What is not:
//! the kernel's links, blocking calls and the memory of C programs; they have tests of their own.
//!
//! The same seed gives the same run, to the frame: [`Outcome::digest`] says so.

#![forbid(unsafe_code)]

pub mod body;
mod figures;
pub mod goodput;
mod lives;
mod memory;
mod messages;
mod node;
mod scenario;
mod tagged;
mod trace;
mod violation;
mod world;

pub use figures::Figures;
pub use memory::{ATOMICS, Access, Ending as AccessEnding, Regions, WORDS};
pub use messages::Messages;
pub use scenario::Scenario;
pub use tagged::{Ending, Post, Tagged, Want, body as tagged_body, tag};
pub use violation::{Checked, Class, Violation};
pub use world::{Outcome, Watch, run};
