//! Tuning: settings of an interface and of the kernel, swept, measured, and put back.
//!
//! A [`Knob`] is something that can be read and set; those that there are stand in [`KNOBS`]. A [`Tuner`]
//! turns those of one end. What they were before is written down first, in a journal, and put back on
//! every way out:
//!
//! | what ends the run | who puts back |
//! |---|---|
//! | its end, an error, Ctrl-C, a panic | the run itself, when its [`Tuner`] is dropped |
//! | SIGKILL | its guardian, a process that holds the other end of a pipe |
//! | SIGKILL of both | the next `gigae eval` or `gigae serve`, or `gigae tuning restore`, by the journal |
//! | the machine's end | nobody: the settings go with it, as the journal does |
//!
//! A value that somebody else changed meanwhile is left as it is, and said.
//!
//! [`sweep`] says which settings are tried, [`choice`] which of them are better. What this module does not
//! do: it touches no interface that its caller did not name, and on a virtual network nothing that is the
//! whole machine's.

pub mod choice;
pub mod cli;
mod congestion;
mod ethtool;
mod files;
mod frequency;
mod guardian;
mod journal;
mod place;
mod quota;
mod restore;
mod steering;
pub mod sweep;
mod tuner;

pub use choice::{Change, Judgement, Objectives};
pub use place::Place;
pub use restore::abandoned;
pub use sweep::{Trial, Tuning};
pub use tuner::{TuneError, Tuner};

use serde::{Deserialize, Serialize};
use std::io;

/// All knobs, in the order in which they are listed.
pub const KNOBS: &[&dyn Knob] = &[
    &ethtool::RX_USECS,
    &ethtool::RX_FRAMES,
    &ethtool::TX_USECS,
    &ethtool::TX_FRAMES,
    &ethtool::ADAPTIVE_RX,
    &ethtool::RX_RING,
    &ethtool::TX_RING,
    &ethtool::TSO,
    &ethtool::GSO,
    &ethtool::GRO,
    &ethtool::LRO,
    &ethtool::RX_CHECKSUM,
    &ethtool::TX_CHECKSUM,
    &ethtool::MTU,
    &files::NAPI_DEFER,
    &files::GRO_FLUSH,
    &files::BUSY_POLL,
    &files::BUSY_READ,
    &congestion::CONGESTION_CONTROL,
    &steering::RPS,
    &steering::IRQ,
    &quota::CPU_QUOTA,
    &frequency::CPU_FREQUENCY,
];

/// Something that can be read and set.
///
/// Values are texts. An *exact* one is as [`Knob::read`] gives it and can be compared and put back; a plan may
/// also use words whose exact value depends on the end, like `all` CPUs.
pub trait Knob: Sync {
    /// Its name in plans and results.
    fn name(&self) -> &'static str;

    /// What it does, in a few words.
    fn about(&self) -> &'static str;

    /// Whose setting it is.
    fn belongs(&self) -> Belongs;

    /// The values that make sense, in words.
    fn values(&self) -> &'static str;

    /// Whether a plan may ask for this value.
    fn accepts(&self, value: &str) -> bool;

    /// The exact value, or why there is none here.
    fn read(&self, place: &Place) -> Result<String, Absent>;

    /// A plan's value as [`Knob::read`] would give it here.
    fn exact(&self, place: &Place, value: &str) -> Result<String, Absent>;

    /// Sets an exact value.
    fn write(&self, place: &mut Place, exact: &str) -> io::Result<()>;

    /// An exact value for people.
    fn say(&self, exact: &str) -> String {
        exact.to_owned()
    }

    /// The command lines that set an exact value by hand.
    fn commands(&self, place: &Place, exact: &str) -> Vec<String>;

    /// What else to know about it here.
    fn note(&self, place: &Place) -> Option<String> {
        let _ = place;
        None
    }
}

/// Whose setting a knob is, and so how far it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Belongs {
    /// The driver of the interface.
    Driver,
    /// The kernel, for this interface.
    Kernel,
    /// The whole machine; not changed for a virtual network.
    Machine,
    /// The measuring program's own; nothing that matters outlives it.
    Program,
}

impl Belongs {
    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Kernel => "kernel",
            Self::Machine => "machine",
            Self::Program => "program",
        }
    }
}

/// Why a knob, or a value of it, is not to be had here, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent(pub String);

impl Absent {
    fn new(why: &str) -> Self {
        Self(why.to_owned())
    }

    /// What a driver or the kernel answered.
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => Self::new("the driver does not have it"),
            _ => Self(format!("the kernel does not tell it: {error}")),
        }
    }
}

/// The knob of this name.
pub fn by_name(name: &str) -> Option<&'static dyn Knob> {
    KNOBS.iter().copied().find(|knob| knob.name() == name)
}

/// All names, for errors.
pub fn names() -> String {
    KNOBS.iter().map(|knob| knob.name()).collect::<Vec<_>>().join(", ")
}

/// A value of a knob that a trial asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// Name of the knob.
    pub knob: String,
    /// The value, in the plan's words.
    pub value: String,
}

/// What one end says of a knob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnobState {
    /// Its name.
    pub knob: String,
    /// Whose setting it is.
    pub belongs: Belongs,
    /// Its value before anything is changed, for people; of several interfaces the first one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<String>,
    /// Why this end does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// What else to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The values that the plan asks for, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<ValueState>,
}

/// What one end says of a value of a knob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueState {
    /// In the plan's words.
    pub value: String,
    /// Whether it is the present one.
    pub same: bool,
    /// Why it cannot be set here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// The command lines that set it by hand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

impl KnobState {
    /// Whether this value changes something at this end.
    pub fn changes(&self, value: &str) -> bool {
        self.absent.is_none()
            && self.values.iter().any(|one| one.value == value && !one.same && one.absent.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_have_different_names_and_say_what_they_accept() {
        let names: std::collections::BTreeSet<_> = KNOBS.iter().map(|knob| knob.name()).collect();
        assert_eq!(names.len(), KNOBS.len());
        for knob in KNOBS {
            assert!(!knob.accepts("") && !knob.accepts("$(reboot)"), "{}", knob.name());
            assert!(!knob.values().is_empty() && !knob.about().is_empty(), "{}", knob.name());
        }
    }
}
