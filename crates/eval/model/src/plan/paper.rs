//! `[source]`, `[[paper]]` and `[[said]]`: what papers printed, to stand beside the new figures.
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
