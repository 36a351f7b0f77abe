//! Plans: which transports are measured how, as data (TOML).
//!
//! A plan is parsed strictly: an unknown key, an unknown transport or a figure out of range is an
//! error that names it. What a plan does not do: it holds no results and no addresses; the same
//! plan runs on a virtual network and between two machines.

mod access;
mod cell;
mod check;
mod condition;
mod error;
mod figure;
mod files;
mod flows;
mod form;
mod label;
mod metadata;
mod mount;
mod mounts;
mod only;
mod paper;
mod settings;
mod shares;
mod shipped;
mod tune;

pub use access::{AccessPaperPlan, AccessPlan, AccessSelector, DEPTH_OF_CONNECTION, connections};
pub use cell::Cell;
pub use check::LONGEST_REPETITION;
pub use condition::{Condition, Cpus, MOST_SENDERS, MOST_THREADS};
pub use error::PlanError;
pub use figure::{CellChoice, CellSelector, FigurePlan, PaperRow, ResolvedCell, RowPlan, Value};
pub use files::{FilePaperPlan, FileSelector, FilesPlan, check_size};
pub use flows::SharesJob;
pub use form::{ExperimentPlan, LinkPlan, Plan};
pub use label::{conditional, label};
pub use metadata::MetadataPlan;
pub use mount::{GuestsPlan, MountPaperPlan, MountPlan, MountSelector, PrintedUnit};
pub use only::{CellFilter, CellFilterPair, shell_word};
pub use paper::{NicPlan, PaperPlan, QuotePlan};
pub use settings::{
    Backend, BusyPoll, BusyPollOn, CongestionControl, DEFAULT, GigaeOptions, Recovery, Setting,
    TcpOptions, XdpMode, XdpOptions,
};
pub use shares::SharesPlan;
pub use shipped::SHIPPED;
pub use tune::{KnobValue, Sweep, TuneEnds, TunePlan};

pub use crate::experiment::Experiment;
pub use crate::size::Size;
pub use crate::transport::LARGEST_MESSAGE;
pub use crate::wait::Wait;

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
        let malformed = |reason: String| PlanError::Malformed { plan: name.to_owned(), reason };
        let plan: Self = toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map(|span| text[..span.start].matches('\n').count() + 1)
                .map_or(String::new(), |line| format!("line {line}: "));
            malformed(format!("{line}{}", error.message().replace('\n', " ")))
        })?;
        plan.check().map_err(malformed)?;
        Ok(plan)
    }
}
