//! Reports: pure functions of the results.
//!
//! Nothing here measures, reads a file or knows a clock; the same `results.json` always gives the
//! same report.

pub mod asked;
pub mod compare;
pub mod compared;
pub mod csv;
pub mod figure;
pub mod files;
pub mod findings;
pub mod found;
pub mod html;
pub mod incast;
pub mod machine;
pub mod markdown;
mod overlay;
pub mod page;
mod printed;
pub mod programs;
pub mod ratios;
mod repeat;
pub mod svg;
pub mod sweeps;
pub mod table;
pub mod tables;
pub mod text;
pub mod time;
mod tips;
pub mod tuning;
