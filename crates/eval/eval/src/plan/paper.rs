//! `[source]`, `[[paper]]` and `[[said]]`: what papers printed, to stand beside the new figures.
//!
//! A plan that repeats an experiment carries the figures that were printed of it, and where. A
//! `[[paper]]` has figures by message size, and names the curve that they compare with; a `[[said]]` has a
//! sentence, and names the finding that it compares with.

use super::cell::is_variant;
use super::{Experiment, Plan, Spot, Value};
use crate::{findings, transport};
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
    /// The curve here that it compares with: transport and variant, style of waiting; absent link: the
    /// first on which it was measured.
    pub of: Spot,
    /// Message sizes in bytes, and the value of each in the unit of `value`.
    #[serde(default)]
    pub points: Vec<(usize, f64)>,
    /// The best value over all sizes, where no size was printed.
    pub best: Option<f64>,
}

/// A sentence that a paper printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaidPlan {
    /// Which `[source]`.
    pub source: String,
    /// The table, figure or section.
    pub at: String,
    /// The rule whose finding it stands beside ([`crate::findings`]).
    pub finding: String,
    /// What was found there, in our words.
    pub says: String,
}

/// Checks sources, figures and sentences; the error names the one that is wrong.
pub(super) fn check(plan: &Plan) -> Result<(), String> {
    let known = |source: &String| {
        if plan.source.contains_key(source) { Ok(()) } else { Err("unknown source".to_owned()) }
    };
    for paper in &plan.paper {
        let checked = known(&paper.source).and_then(|()| paper.check(plan));
        checked.map_err(|why| format!("paper '{} {}': {why}", paper.source, paper.at))?;
    }
    for said in &plan.said {
        known(&said.source).map_err(|why| format!("said '{}': {why}", said.source))?;
        if !findings::RULES.iter().any(|rule| rule.name == said.finding) {
            return Err(format!("said '{}': unknown finding '{}'", said.source, said.finding));
        }
    }
    Ok(())
}

impl PaperPlan {
    fn check(&self, plan: &Plan) -> Result<(), String> {
        let (transport, variant) = (&self.of.transport, self.of.variant.as_deref());
        if transport::by_name(transport).is_none() {
            return Err(format!("unknown transport '{transport}'"));
        }
        if let Some(name) = variant.filter(|name| !is_variant(plan, transport, name)) {
            return Err(format!("unknown {transport} setting '{name}'"));
        }
        if self.of.size.is_some() {
            return Err("its points have the sizes".into());
        }
        if self.points.is_empty() == self.best.is_none() {
            return Err("it needs either points or a best value".into());
        }
        Ok(())
    }
}
