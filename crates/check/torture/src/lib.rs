//! Deterministic simulation: whole endpoints on a simulated network that does its worst, and a
//! checker that knows every message.
//!
//! A [`Scenario`] follows from a seed: 2 to 1,000 nodes with 1 to 4 links, MTUs, windows, recovery
//! mode, envelope, faults. A [`run`] of it is a simulation in virtual time in which nodes send
//! messages and keep some, start and cancel operations, stop receiving, freeze, crash, close and
//! come back, while frames are lost, doubled, delayed and corrupted, links are cut and the network
//! is parted. [`Messages`], [`TaggedMessages`], [`Regions`] and [`Notices`] hold the library to
//! what it promises; each is a plain model that can be lied to (`tests/checker.rs`), so that it is
//! known to notice. In the end all faults are healed, and everything has to have arrived or failed
//! within a stated time.
//!
//! The whole library above the kernel is under test: engine, inbox, operations, protocol, headers.
//! What is not: the kernel's links, blocking calls and the memory of C programs; they have tests of
//! their own.
//!
//! The same seed gives the same run, to the frame: [`RunReport::digest`] says so.

#![forbid(unsafe_code)]

mod figures;
pub mod goodput;
mod lives;
mod memory;
mod messages;
mod node;
mod notices;
mod pair;
mod scenario;
mod tagged;
mod trace;
mod violation;
mod world;

pub use figures::Figures;
pub use gigae_body as body;
pub use memory::{ATOMICS, Access, AccessEnding, Regions, Swap, WORDS};
pub use messages::Messages;
pub use notices::{NoticedRange, Notices};
pub use pair::NodePair;
pub use scenario::{Ip, LinkKind, Scenario};
pub use tagged::{Ending, Post, ReceiveReport, TaggedMessages, Want, body as tagged_body, tag};
pub use violation::{CheckResult, Class, Violation};
pub use world::{RunReport, Watch, run};
