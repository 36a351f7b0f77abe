//! Why a plan cannot be used.

use super::shipped::SHIPPED;
use std::fmt;

/// A plan could not be used. The text is one line and says what to do.
#[derive(Debug)]
pub enum PlanError {
    /// Neither a shipped plan nor a file.
    Unknown(String),
    /// The file could not be read.
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// Not a plan.
    Malformed {
        /// The plan or file.
        plan: String,
        /// Where and why, in one line.
        reason: String,
    },
    /// It has not what `--only` names.
    NoPart {
        /// The plan.
        plan: String,
        /// What it lacks, and what it has.
        reason: String,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                let names: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
                write!(
                    f,
                    "no plan or file '{name}'; choose one of {} or name a TOML file",
                    names.join(", ")
                )
            }
            Self::Unreadable { file, source } => {
                write!(f, "cannot read plan '{file}': {source}; name a readable TOML file")
            }
            Self::Malformed { plan, reason } => {
                write!(f, "plan '{plan}': {reason}; see the shipped plans for the form")
            }
            Self::NoPart { plan, reason } => write!(f, "--only: plan '{plan}' {reason}"),
        }
    }
}

impl std::error::Error for PlanError {}
