//! What must never happen.

use crate::pair::NodePair;
use std::fmt;

/// In which way a promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Acknowledged or completed, and never there; or not there although a later one was.
    Lost,
    /// Delivered, carried out or completed more than once.
    Doubled,
    /// Bytes that no node sent like this.
    Torn,
    /// After one that was sent later.
    Order,
    /// Something of a former life of either end.
    Epoch,
    /// Neither success nor a typed failure within the time that is stated for it.
    Hung,
    /// An error or a panic that no fault explains.
    Broken,
}

impl Class {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 7] =
        [Self::Lost, Self::Doubled, Self::Torn, Self::Order, Self::Epoch, Self::Hung, Self::Broken];

    /// One word for a line of figures.
    pub fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Torn => "torn",
            Self::Order => "out of order",
            Self::Epoch => "across an epoch",
            Self::Hung => "hung",
            Self::Broken => "broken",
        }
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// In which way.
    pub class: Class,
    /// The sender and the receiver of the message or operation.
    pub pair: NodePair,
    /// What was expected and what came.
    pub what: String,
}

impl Violation {
    /// A violation between two nodes.
    pub fn new(class: Class, pair: NodePair, what: impl Into<String>) -> Self {
        Self { class, pair, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, pair: NodePair { from, to }, what } = self;
        write!(f, "{}: from node {from} to node {to}: {what}", class.word())
    }
}

impl std::error::Error for Violation {}

/// What every check returns.
pub type CheckResult<T = ()> = Result<T, Violation>;
