//! The commands of `gigae`: their arguments, what they print, and their exit codes. The work is
//! done by the other crates.

pub mod broker;
pub mod capture;
mod cluster;
pub mod compare;
pub mod cp;
pub mod discover;
pub mod doctor;
mod endpoints;
pub mod eval;
pub mod fabric;
mod files;
pub mod generate;
pub mod key;
pub mod mount;
pub mod nic;
pub mod outcome;
mod peer;
pub mod plans;
mod remember;
pub mod serve;
pub mod share;
pub mod simulate;
pub mod soak;
pub mod stat;
mod terminal;
pub mod tui;
pub mod tuning;
