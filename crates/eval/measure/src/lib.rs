//! What measures one end of a link: transports, the loops of the experiments, clocks and meters.
//!
//! All transports are measured by the same loops, with one clock ([`clock`]) and the same costs
//! ([`cost`]). To add a transport, see [`transport`]; to add an experiment, see [`experiment`].

mod channel;
pub mod clock;
pub mod core_to_core;
pub mod cost;
mod end;
pub mod environment;
pub mod experiment;
pub mod in_memory;
pub mod load;
pub mod probe;
pub mod shared_port;
pub mod shares;
pub mod site;
pub mod transport;
