//! `[source]`, `[[paper]]`, `[[said]]` and `[[nic]]`: what papers printed, to stand beside the new
//! figures.
//!
//! A plan that repeats an experiment carries the figures that were printed of it, and where. A
//! `[[paper]]` has figures by message size, and names the curve that they compare with; a
//! `[[said]]` has a sentence, and names the finding that it compares with.

use super::figure::{CellSelector, Value};
use crate::experiment::Experiment;
use serde::{Deserialize, Serialize};

/// Figures that a paper printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperPlan {
    /// Which `[source]`.
    pub source: String,
    /// The table, figure or section.
    pub at: String,
    /// What was measured there.
    pub what: String,
    /// The experiment here that it compares with.
    pub kind: Experiment,
    /// What of a cell compares.
    #[serde(default)]
    pub value: Value,
    /// The curve here that it compares with: transport and variant, style of waiting; absent link:
    /// the first on which it was measured.
    pub of: CellSelector,
    /// Message sizes in bytes, and the value of each in the unit of `value`.
    #[serde(default)]
    pub points: Vec<(usize, f64)>,
    /// The best value over all sizes, where no size was printed.
    pub best: Option<f64>,
}

/// A NIC that a paper measured, as far as the paper describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicPlan {
    /// Which `[source]`.
    pub source: String,
    /// The table, figure or section.
    pub at: String,
    /// The NIC.
    pub name: String,
    /// The bus by which it is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// How many processors of its own it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// The memory on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Its driver, or the systems that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
}

impl NicPlan {
    /// What is known of it, each with its name.
    pub fn facts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("bus", &self.bus),
            ("processors", &self.processor),
            ("memory", &self.memory),
            ("driver", &self.driver),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}

/// A sentence that a paper printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotePlan {
    /// Which `[source]`.
    pub source: String,
    /// The table, figure or section.
    pub at: String,
    /// The rule whose finding it is shown beside (`gigae_eval_report::findings`).
    pub finding: String,
    /// What was found there, in our words.
    pub says: String,
}
