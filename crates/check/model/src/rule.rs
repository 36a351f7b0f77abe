//! What must hold in every state.

use std::fmt;

/// A rule that a state can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A message is delivered once.
    Twice,
    /// Messages are delivered in the order in which they were sent.
    Order,
    /// None is left out but those that were reported as failed.
    Gap,
    /// No frame is accepted of a former life, of either end.
    OldFrame,
    /// A message is reported as done only when it was delivered.
    Undelivered,
    /// A message is reported once, as done or as failed.
    Reported,
    /// Nothing fails while no node restarts, closes or is silent for the peer timeout.
    Groundless,
    /// No frame on the wire acknowledges what was not delivered.
    Ahead,
    /// Neither acknowledgement nor credit goes back.
    Withdrawn,
    /// Once faults have ended, every message is delivered or reported as failed, another one can be
    /// sent, and then there is silence.
    Stuck,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Twice,
        Self::Order,
        Self::Gap,
        Self::OldFrame,
        Self::Undelivered,
        Self::Reported,
        Self::Groundless,
        Self::Ahead,
        Self::Withdrawn,
        Self::Stuck,
    ];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Twice => "each message is delivered once",
            Self::Order => "messages are delivered in order",
            Self::Gap => "no message is left out",
            Self::OldFrame => "no frame of a former life is accepted",
            Self::Undelivered => "what is reported as done was delivered",
            Self::Reported => "each message is reported once",
            Self::Groundless => "nothing fails without a reason",
            Self::Ahead => "nothing is acknowledged before it is delivered",
            Self::Withdrawn => "acknowledgement and credit never go back",
            Self::Stuck => "when faults have ended everything arrives or fails",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
