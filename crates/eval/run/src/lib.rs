//! A run: all cells of a plan, in random order, on every link of it.
//!
//! The order is that of a randomised block design: in each round every cell has one repetition, in
//! a new order drawn from the plan's seed, so that whatever changes over time (temperature,
//! neighbours) hits all cells alike. After the planned repetitions, only cells whose interval is
//! still too wide go on. Nothing is written here; the caller has the results or one error.
//!
//! Settings that a plan tries are blocks of that design (`tuned.rs`).

mod access;
mod config;
mod error;
mod file_hosts;
mod files;
mod gather;
mod incast;
mod metadata;
mod mounts;
mod programs;
mod progress;
mod repetition;
mod rounds;
mod run;
mod services;
mod shares;
mod threads;
mod tuned;

pub use config::{Config, ProgramRuns, RemoteEnd};
pub use error::RunError;
pub use gather::{CellRepetitions, SoFar};
pub use progress::{FinishedRepetition, MeasuredLink, RunProgress, ViewCost};
pub use run::run;
