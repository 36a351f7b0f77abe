//! A simulator for networks: hosts, switches and links in virtual time.
//!
//! A [`Topology`] says which hosts, switches and links there are. A [`Network`] moves frames
//! through it: queues, buffers that overflow, marks, priorities, several paths. A [`Host`] is
//! a protocol: it receives frames, has timers, and gives the NIC the next frame when the port is
//! free. The same seed gives the same run on every machine.
//!
//! The page `docs/explanation/network-simulator.md` begins with what is modelled and what is not.

#![forbid(unsafe_code)]

pub mod events;
mod frame;
mod host;
mod network;
mod port;
pub mod protocol_host;
mod queue_length;
pub mod real;
mod seeds;
mod time;
mod topology;
mod trace;
pub mod workload;
pub mod yardstick;

pub use frame::{Frame, GAP, HostId, PREAMBLE, PRIORITIES, PortId, SHORTEST, wire_bytes};
pub use host::{Completion, Context, Host};
pub use network::{Network, Totals};
pub use port::PortCounters;
pub use queue_length::QueueLength;
pub use seeds::for_each_seed;
pub use time::{Rate, Time};
pub use topology::{Buffer, Forwarding, LeafSpine, Link, Switch, Topology};
pub use trace::Trace;
