//! The evaluator: what a network really gives, and what it costs.
//!
//! A plan (TOML) names transports, message sizes and styles of waiting; [`run::run`] measures them on
//! a virtual network of its own or between two machines, and gives [`results::Results`], from which
//! the reports are made. [`cli`] is what the `gigae` program calls.
//!
//! One method for all: both ends run the loops of an [`experiment`] over the channels of [`transport`], with
//! the clock of [`clock`], the costs of [`cost`] and the statistics of [`stats`]; [`gather`] says what
//! to doubt. A figure that is not obtained this way does not get into the results.
//!
//! [`figures`] then takes from the cells what the plan asked for, and says what was reached.
//!
//! [`compare`] sets saved runs beside one another, and says what is more than chance.
//!
//! [`soak`] carries mixed traffic for as long as one likes, verifies every byte and tells what deviates.
//!
//! [`tui`] shows a run or a soak while it goes on.
//!
//! What this crate does not do: but for [`tune`], and where a plan asks for it, it changes no setting of a
//! NIC or of the kernel, and what that changes it puts back; it generates no load
//! beyond the bounds of a plan or a soak, and its control connection ([`control`]) tells
//! nothing to who has not the key.

pub mod cli;
pub mod clock;
pub mod compare;
pub mod control;
pub mod cost;
pub mod door;
pub mod environment;
pub mod experiment;
pub mod figures;
pub mod files;
pub mod findings;
pub mod gather;
pub mod load;
pub mod nic;
pub mod plan;
pub mod plans;
pub mod probe;
pub mod programs;
pub mod report;
pub mod results;
pub mod run;
pub mod serve;
pub mod site;
pub mod soak;
pub mod stage;
pub mod stats;
pub mod terminal;
pub mod transport;
pub mod tui;
pub mod tune;

pub use control::ControlError;
