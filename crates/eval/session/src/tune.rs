//! Tuning: settings of an interface and of the kernel, swept, measured, and put back.
//!
//! A [`Knob`] is something that can be read and set; those that there are stand in [`KNOBS`]. A
//! [`Tuner`] turns those of one end. What they were before is written down first, in a journal, and
//! put back on every way out:
//!
//! | what ends the run | who puts back |
//! |---|---|
//! | its end, an error, Ctrl-C, a panic | the run itself, when its [`Tuner`] is dropped |
//! | SIGKILL | its guardian, a process that holds the other end of a pipe |
//! | SIGKILL of both | the next `gigae eval` or `gigae serve`, or `gigae tuning restore`, by the journal |
//! | the machine's end | no one: the settings go with it, as the journal does |
//!
//! A value that another program has changed since stays as it is, and is reported.
//!
//! `gigae_eval_model::trials` says which settings are tried, `gigae_eval_model::choice` which of
//! them are better. What this module does not do: it touches no interface that its caller did not
//! name, and on a virtual network nothing that is the whole machine's.

mod congestion;
mod ethtool;
mod files;
mod frequency;
mod guardian;
mod interface;
mod journal;
mod knob;
mod list;
mod quota;
mod restore;
mod steering;
mod tuner;

pub use guardian::guard;
pub use interface::TunedInterface;
pub use knob::{Absent, Knob, KnobForm};
pub use list::{KNOBS, by_name, check, names};
pub use restore::abandoned;
pub use tuner::{TuneError, Tuner};
