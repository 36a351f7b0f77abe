//! What can be measured. Each experiment is a line of the list below, which gives its name, its
//! unit, what a transport must do for it and how tables show it. Its loops are a file in the crate
//! `gigae-eval-measure`.

use crate::wait::Wait;
use serde::{Deserialize, Serialize};

macro_rules! experiments {
    ($($(#[$what:meta])* $name:ident: $form:expr,)*) => {
        /// What is measured.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Experiment {
            $($(#[$what])* $name,)*
        }

        impl Experiment {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// What it is.
            pub fn form(self) -> &'static Form {
                match self {
                    $(Self::$name => {
                        static FORM: Form = $form;
                        &FORM
                    })*
                }
            }
        }
    };
}

experiments! {
    /// A message goes out, one of the same length comes back: microseconds.
    Rtt: Form::new("rtt", "us", Kind::Trip, Pattern::Echo, Some(RTT)),
    /// Messages go one way as fast as they can: 10^6 bytes per second at the receiver.
    Stream: Form::new("stream", "MB/s", Kind::Goodput, Pattern::OneWay, Some(STREAM)),
    /// Both ends wait for a message of this size and none comes: share of one CPU at the measuring
    /// end.
    Idle: Form::new("idle", "%", Kind::Other, Pattern::Silence, None),
    /// No network: what a received message costs its reader in place, copied and mapped, in
    /// nanoseconds.
    Memory: Form::new("memory", "ns", Kind::Other, Pattern::NoNetwork, None),
    /// Messages go out by a schedule and come back: microseconds from the intended time.
    Paced: Form::new("paced", "us", Kind::Trip, Pattern::Echo, None),
    /// Many send to one as fast as they can: 10^6 bytes per second of all at the receiver.
    Incast: Form::new("incast", "MB/s", Kind::Goodput, Pattern::ManyToOne, None),
    /// Several threads at either end, each with a stream of its own: 10^6 bytes per second of all.
    Cores: Form::new("cores", "MB/s", Kind::Goodput, Pattern::Parallel, None),
    /// The same by memory of one process, without a kernel: what the library alone can do.
    Ceiling: Form::new("ceiling", "MB/s", Kind::Goodput, Pattern::NoNetwork, None),
}

/// Titles of tables of message sizes, with the unit in words.
const RTT: SizesTitle = SizesTitle { what: "Round trip", unit: "microseconds" };
const STREAM: SizesTitle =
    SizesTitle { what: "Stream, goodput at the receiver", unit: "MB/s (10^6 bytes)" };

/// What kind of figure an experiment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Times of round trips; costs are those of the measured part, as the samples are.
    Trip,
    /// Bytes that arrived over time, the more the better; costs are those of everything sent.
    Goodput,
    /// Neither: less is better, and costs are not counted per message.
    Other,
}

/// What the messages of an experiment do. A transport says which of these it can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// A message goes out and an answer comes back.
    Echo,
    /// Messages go one way.
    OneWay,
    /// Both ends wait, and nothing comes.
    Silence,
    /// Many send to one.
    ManyToOne,
    /// Messages go one way between several pairs of threads.
    Parallel,
    /// No network.
    NoNetwork,
}

/// How the program gets at a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMethod {
    /// In place.
    Borrow,
    /// Copied.
    Copy,
    /// Copied, both sides in the cache.
    CopyWarm,
    /// Mapped.
    Map,
}

/// All methods.
pub const ACCESS_METHODS: [AccessMethod; 4] =
    [AccessMethod::Borrow, AccessMethod::Copy, AccessMethod::CopyWarm, AccessMethod::Map];

impl AccessMethod {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Borrow => "borrow",
            Self::Copy => "copy",
            Self::CopyWarm => "copy-warm",
            Self::Map => "map",
        }
    }

    /// Finds a method.
    pub fn by_name(name: &str) -> Option<Self> {
        ACCESS_METHODS.into_iter().find(|method| method.name() == name)
    }
}

/// The title of a table or a figure of message sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizesTitle {
    /// What the experiment is called there.
    pub what: &'static str,
    /// The unit in words.
    pub unit: &'static str,
}

/// What an experiment is for plans, tables and figures.
pub struct Form {
    /// Its name in plans and results.
    pub name: &'static str,
    /// The unit of its figures.
    pub unit: &'static str,
    /// What kind they are.
    pub kind: Kind,
    /// What its messages do.
    pub pattern: Pattern,
    /// The title of its tables and figures of message sizes; `None` if it has its own table.
    pub sizes: Option<SizesTitle>,
}

impl Form {
    const fn new(
        name: &'static str,
        unit: &'static str,
        kind: Kind,
        pattern: Pattern,
        sizes: Option<SizesTitle>,
    ) -> Self {
        Self { name, unit, kind, pattern, sizes }
    }
}

/// Samples are thousandths of a figure's unit: nanoseconds of microseconds, bytes per millisecond
/// of 10^6 bytes per second, picoseconds of nanoseconds.
pub const SCALE: f64 = 1e-3;

impl Experiment {
    /// The unit of its figures.
    pub fn unit(self) -> &'static str {
        self.form().unit
    }

    /// The name in plans and results.
    pub fn name(self) -> &'static str {
        self.form().name
    }

    /// Whether its samples are times of round trips, in nanoseconds.
    pub fn is_trip(self) -> bool {
        self.form().kind == Kind::Trip
    }

    /// How the measuring end waits, if the answering one waits like this. An end that sleeps cannot
    /// keep a schedule.
    pub fn measuring_wait(self, wait: Wait) -> Wait {
        if self == Self::Paced { Wait::Spin } else { wait }
    }

    /// Whether it is measured without a link: in memory, or between threads of one process.
    pub fn needs_no_link(self) -> bool {
        self.form().pattern == Pattern::NoNetwork
    }

    /// Whether it is measured by a number of threads at each end.
    pub fn has_threads(self) -> bool {
        matches!(self, Self::Cores | Self::Ceiling)
    }

    /// Whether its figures are bytes over time.
    pub fn is_goodput(self) -> bool {
        self.form().kind == Kind::Goodput
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_has_the_same_name_in_plans_results_and_tables() {
        for &experiment in Experiment::ALL {
            let said = serde_json::to_value(experiment).unwrap();
            assert_eq!(said, experiment.name());
            assert_eq!(serde_json::from_value::<Experiment>(said).unwrap(), experiment);
        }
    }
}
