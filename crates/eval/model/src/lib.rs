//! The evaluator's data: plans, what can be measured, results, and the statistics between them.
//!
//! Nothing here opens a socket or reads a clock. A plan is checked without a network, and the same
//! results always mean the same.

pub mod access;
pub mod choice;
pub mod cost;
pub mod date;
pub mod demand;
pub mod doubt;
pub mod duration;
pub mod environment;
pub mod experiment;
pub mod figures;
pub mod file_figure;
pub mod file_job;
pub mod job;
pub mod knobs;
pub mod metadata;
pub mod mount_figure;
pub mod note;
pub mod number;
pub mod papers;
pub mod plan;
pub mod program_figure;
pub mod results;
pub mod service;
pub mod shares;
pub mod size;
pub mod soak;
pub mod stats;
#[cfg(feature = "testing")]
pub mod testing;
pub mod traffic;
pub mod transport;
pub mod trials;
pub mod wait;
