//! The commands of `gigae`: their arguments, what they print, and their exit codes. The work is
//! done by the other crates.

pub mod broker;
pub mod capture;
pub mod compare;
pub mod discover;
pub mod doctor;
mod endpoints;
pub mod eval;
pub mod fabric;
pub mod generate;
pub mod key;
pub mod nic;
pub mod outcome;
mod peer;
pub mod plans;
mod remember;
pub mod serve;
pub mod soak;
pub mod stat;
mod terminal;
pub mod tui;
pub mod tuning;
