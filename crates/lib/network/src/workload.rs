//! Messages between hosts: how long, how often, from where to where, and how long they took.

mod drive;
mod framing;
mod lengths;
mod slowdown;
mod traffic;

pub use drive::{Drive, MessageHost, Record, drive};
pub use framing::Framing;
pub use lengths::Lengths;
pub use slowdown::{Class, SlowdownTable, quantile};
pub use traffic::{AllToAll, Echo, Incast, Message, Poisson, RingAllreduce, Traffic};
