//! Why a plan cannot be used, and in which line that is.

use super::shipped;
use std::fmt;
use toml::de::{DeTable, DeValue};

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
    #[error("plan '{plan}': {reason}; 'gigae simulate incast --print' shows the form")]
    Malformed {
        /// The plan or file.
        plan: String,
        /// Where and why, in one line.
        reason: String,
    },
    /// It has no such protocol.
    #[error("plan '{plan}' has no protocol '{unknown}'; choose from {own}")]
    NoProtocol {
        /// The plan.
        plan: String,
        /// What was asked for.
        unknown: String,
        /// What it has.
        own: String,
    },
}

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    /// The table, and its number if there are several.
    pub(super) table: &'static str,
    pub(super) number: usize,
    /// The key in it; empty: the table itself.
    pub(super) key: &'static str,
    /// What to do.
    pub(super) advice: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.table, self.key) {
            ("", key) => write!(f, "'{key}': {}", self.advice),
            (table, "") => write!(f, "[{table}]: {}", self.advice),
            (table, key) => write!(f, "'{key}' of [{table}]: {}", self.advice),
        }
    }
}

/// The line of a mistake: that of the key, or that of its table if the key is absent.
pub(super) fn line_of(text: &str, mistake: &Mistake) -> Option<usize> {
    let whole = DeTable::parse(text).ok()?;
    let value = |table: &DeTable<'_>, key: &str| {
        let found = table.iter().find(|(name, _)| name.get_ref() == key);
        found.map(|(name, _)| name.span().start)
    };
    let mut at = value(whole.get_ref(), mistake.key);
    if !mistake.table.is_empty() {
        let (_, found) =
            whole.get_ref().iter().find(|(name, _)| name.get_ref() == mistake.table)?;
        let (table, begin) = match found.get_ref() {
            DeValue::Table(table) => (table, found.span().start),
            DeValue::Array(tables) => {
                let one = tables.get(mistake.number)?;
                let DeValue::Table(table) = one.get_ref() else { return None };
                (table, one.span().start)
            }
            _ => return None,
        };
        at = Some(value(table, mistake.key).unwrap_or(begin));
    }
    at.map(|at| text[..at].matches('\n').count() + 1)
}
