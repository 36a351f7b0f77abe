//! Plans for the network simulator, their runs on all cores, and reports of them.
//!
//! [`Plan`] is a TOML file: a network, what its hosts send, and with which protocols. [`run`]
//! carries it out in virtual time. [`Results`] hold every figure, and [`report`] makes text, HTML
//! and Markdown from them alone. The same command gives the same results, to the byte.
//!
//! The simulator itself is `gigae-network`. Nothing here measures a real network.

#![forbid(unsafe_code)]

mod job;
mod measure;
mod plan;
mod port;
mod protocol;
pub mod report;
mod results;
mod run;
mod slug;
mod workload;

pub use plan::{
    DctcpPlan, GigaePlan, HomaPlan, IncastPlan, NetworkPlan, PatternPlan, Plan, PlanError,
    PublishedPlan, RandomPlan, SHIPPED, SwiftPlan, text,
};
pub use port::{PortName, PortNameError};
pub use results::{Cell, Class, Frames, Results, Run, Tier};
pub use run::{Config, Finished, Recording, SimulateError, run};
