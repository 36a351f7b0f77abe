//! Plans: a network, traffic and protocols, as data (TOML).
//!
//! A plan is parsed strictly: an unknown key, or a value out of range, is an error that names its
//! line and says what to do.

mod check;
mod error;
mod form;
mod shipped;

pub use error::PlanError;
pub use form::{
    DctcpPlan, GigaePlan, HomaPlan, IncastPlan, NetworkPlan, PatternPlan, Plan, PublishedPlan,
    RandomPlan, SwiftPlan,
};
pub use shipped::SHIPPED;

use error::line_of;
use std::path::Path;

/// The text of a plan: of a shipped one by its name, or of a file by its path.
pub fn text(name: &str) -> Result<String, PlanError> {
    if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return Ok((*text).to_owned());
    }
    if !Path::new(name).exists() {
        return Err(PlanError::Unknown(name.to_owned()));
    }
    std::fs::read_to_string(name)
        .map_err(|source| PlanError::Unreadable { file: name.to_owned(), source })
}

impl Plan {
    /// Finds a plan by the name of a shipped one or the path of a file, and checks it.
    pub fn load(name: &str) -> Result<Self, PlanError> {
        Self::parse(name, &text(name)?)
    }

    /// Parses and checks the text of a plan; `name` is for errors.
    pub fn parse(name: &str, text: &str) -> Result<Self, PlanError> {
        let malformed = |line: Option<usize>, reason: &str| {
            let line = line.map_or(String::new(), |line| format!("line {line}: "));
            let reason = format!("{line}{}", reason.replace('\n', " "));
            PlanError::Malformed { plan: name.to_owned(), reason }
        };
        let plan: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
            malformed(line, error.message())
        })?;
        plan.check().map_err(|mistake| malformed(line_of(text, &mistake), &mistake.to_string()))?;
        Ok(plan)
    }
}
