//! Figures that the five papers printed and that no plan carries: `papers.toml`.
//!
//! The plans have the others, which a report sets beside ours. So a figure has one home. What this
//! module does not do: it measures nothing, and judges nothing. The test `papers` of this crate
//! checks every entry, and renders `docs/reference/papers.md` from both.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static FILE: LazyLock<Papers> =
    LazyLock::new(|| toml::from_str(include_str!("../papers.toml")).expect("a sound file"));

/// What the file has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Papers {
    /// Short names of the papers, in their order on the page.
    pub papers: Vec<String>,
    /// Authors, title and year by short name, as the plans have them.
    pub source: BTreeMap<String, String>,
    /// Reasons why something is not measured here, by name.
    pub reasons: BTreeMap<String, String>,
    /// How many figures each part of a paper has, in the plans and in this file together.
    pub counts: BTreeMap<String, BTreeMap<String, usize>>,
    /// What is to be said beside figures, of the plans, too.
    pub remark: Vec<Remark>,
    /// The figures.
    pub printed: Vec<PrintedFigures>,
}

/// What is to be said beside the figures of a paper that fit. It has `conditions` or `note`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remark {
    /// Short name of the paper.
    pub source: String,
    /// The table, figure or section; absent: all.
    pub at: Option<String>,
    /// What the figure's text has in it; absent: anything.
    pub what: Option<String>,
    /// The figures' unit; absent: any.
    pub unit: Option<String>,
    /// What was other there, so that a plan measures something beside it but not the same.
    pub conditions: Option<String>,
    /// Any other note.
    pub note: Option<String>,
}

/// Figures of one part of a paper that have the same unit and are measured in the same way. Beside
/// `plan` is one of `only`, `files` and `finding`. Without `plan` there is one of `command`,
/// `planned` and `reason`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedFigures {
    /// Short name of the paper.
    pub source: String,
    /// The table, figure or section.
    pub at: String,
    /// The unit of all of them.
    pub unit: String,
    /// What was measured, and its value.
    pub figures: Vec<(String, f64)>,
    /// The plan that measures it.
    pub plan: Option<String>,
    /// Which cells of the plan, as for `gigae eval --only`.
    pub only: Option<String>,
    /// The link of the plan on which it has file services.
    pub files: Option<String>,
    /// The finding beside which the plan prints a sentence with the figures.
    pub finding: Option<String>,
    /// Another command that measures it.
    pub command: Option<String>,
    /// A plan that is not there yet.
    pub planned: Option<String>,
    /// Name of the reason why it is not measured here.
    pub reason: Option<String>,
}

/// The file.
pub fn papers() -> &'static Papers {
    &FILE
}

/// A figure of the file.
///
/// # Panics
///
/// If the file does not have it: callers name figures that are there.
pub fn value(source: &str, at: &str, what: &str, unit: &str) -> f64 {
    find(source, at, what, unit)
        .unwrap_or_else(|| panic!("papers.toml lacks {source}, {at}, {what}, {unit}"))
}

/// The same, if there is such a figure.
pub fn find(source: &str, at: &str, what: &str, unit: &str) -> Option<f64> {
    let here = |one: &&PrintedFigures| {
        (one.source.as_str(), one.at.as_str(), one.unit.as_str()) == (source, at, unit)
    };
    let figures = papers().printed.iter().filter(here).flat_map(|one| &one.figures);
    figures.into_iter().find(|(name, _)| name == what).map(|(_, value)| *value)
}
