//! Why a plan cannot be used.

use super::shipped;

/// A plan could not be used. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Neither a shipped plan nor a file.
    #[error("no plan or file '{0}'; choose one of {names} or name a TOML file", names = shipped::names())]
    Unknown(String),
    /// The file could not be read.
    #[error("cannot read plan '{file}': {source}; name a readable TOML file")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// Not a plan.
    #[error("plan '{plan}': {reason}; see the shipped plans for the form")]
    Malformed {
        /// The plan or file.
        plan: String,
        /// Where and why, in one line.
        reason: String,
    },
    /// It has not what `--only` names.
    #[error("--only: plan '{plan}' {reason}")]
    NoPart {
        /// The plan.
        plan: String,
        /// What it lacks, and what it has.
        reason: String,
    },
}
