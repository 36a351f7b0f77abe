//! Reports: pure functions of the results.
//!
//! Nothing here measures, reads a file or knows a clock; the same `results.json` always gives the
//! same report.

mod access;
pub mod asked;
pub mod compare;
pub mod compared;
pub mod cores;
pub mod csv;
pub mod files;
pub mod findings;
pub mod found;
pub mod html;
pub mod incast;
pub mod machine;
pub mod markdown;
mod metadata;
pub mod mounts;
mod outages;
mod overlay;
mod printed;
pub mod programs;
pub mod ratios;
mod repeat;
mod shares;
pub mod sweeps;
pub mod tables;
pub mod text;
mod tips;
pub mod tuning;
