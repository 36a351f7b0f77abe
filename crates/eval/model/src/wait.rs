//! How an end waits.

use serde::{Deserialize, Serialize};

/// How an end waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Looks again and again; never gives up the CPU.
    Spin,
    /// Sleeps in the kernel until something arrived.
    Sleep,
    /// Spins for a while, then sleeps.
    Adaptive,
}

impl Wait {
    /// The name in plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Sleep => "sleep",
            Self::Adaptive => "adaptive",
        }
    }
}
