//! Measures a whole cluster from inside a job that a launcher starts: `mpirun gigae eval
//! --cluster-run`, `srun gigae eval --cluster-run`.
//!
//! Every rank is one process of the same command. The launcher says who is who ([`launcher`]). Each
//! rank then connects to rank 0, which says what to measure (`coordinator`); the ranks open their
//! ends and run the loops of `gigae-eval-measure` (`worker`). What comes of it are
//! [`results`], which [`findings`] and [`report`] read.

mod card;
mod coordinator;
mod error;
pub mod findings;
mod gather;
pub mod launcher;
mod lead;
mod message;
pub mod report;
pub mod results;
pub mod rounds;
mod run;
mod schedule;
mod worker;

pub use error::ClusterError;
pub use results::ClusterResults;
pub use run::{Config, Outcome, Progress, run};
