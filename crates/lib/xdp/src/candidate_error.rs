//! Why a mode was not taken.

use gigae_link::OpenError;
use std::fmt::Display;

/// Why a candidate was not taken.
pub(crate) enum CandidateError {
    /// The kernel does not offer this mode here. Try the next one. Says why on one line.
    Mode(String),
    /// It failed this time, and may work another time. Try the next one. Says why on one line.
    Transient(String),
    /// No other mode would work either.
    Final(OpenError),
}

impl From<OpenError> for CandidateError {
    fn from(error: OpenError) -> Self {
        Self::Final(error)
    }
}

pub(crate) fn refused(what: &str, why: impl Display) -> CandidateError {
    CandidateError::Mode(format!("{what}: {why}"))
}

pub(crate) fn failed(what: &str, why: impl Display) -> CandidateError {
    CandidateError::Transient(format!("{what}: {why}"))
}
