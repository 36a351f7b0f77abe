//! `[[figure]]` and `[[row]]`: what a plan wants to know of its cells.
//!
//! A figure is a value of one cell, or the ratio of the values of two, and may have a bound; with
//! several sizes the worst one counts. A row sets one transport beside others, and beside the
//! paper. Both name cells that an experiment of the plan measures; anything else is refused by
//! name.

use super::label::label;
use crate::experiment::Experiment;
use crate::size::Size;
use crate::wait::Wait;
use serde::{Deserialize, Serialize};

/// A figure that a plan asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigurePlan {
    /// What it is called in tables.
    pub name: String,
    /// The experiment that its cells belong to.
    pub kind: Experiment,
    /// What of a cell counts.
    #[serde(default)]
    pub value: Value,
    /// The link, for cells that do not name one.
    pub link: Option<String>,
    /// Several links instead: the one that is best for a cell counts.
    #[serde(default)]
    pub links: Vec<String>,
    /// The style of waiting, for cells that do not name one.
    pub wait: Option<Wait>,
    /// The sizes, one after the other, for cells that do not name one.
    #[serde(default)]
    pub sizes: Vec<Size>,
    /// The cell, or the upper one of a ratio.
    pub of: CellSelector,
    /// The lower cell of a ratio.
    pub over: Option<CellSelector>,
    /// Reached if at most this.
    pub at_most: Option<f64>,
    /// Reached if at least this.
    pub at_least: Option<f64>,
}

/// What of a cell a figure takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// The median, in the experiment's unit.
    #[default]
    Median,
    /// 99th percentile of all round trips, in microseconds.
    P99,
    /// Messages per second of a stream.
    Messages,
    /// Goodput of a stream as a share of what the shaped link allows.
    Share,
    /// Goodput of a stream divided by the number of links that it used as one.
    #[serde(rename = "per-link")]
    PerLink,
    /// CPU seconds of both ends per GB (10^9 bytes) of a stream.
    Cpu,
    /// Sending system calls per frame that the measuring end's device sent.
    Calls,
}

/// A cell, as far as the figure does not say it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellSelector {
    /// The transport.
    pub transport: String,
    /// Its variant; absent: the one without a name.
    pub variant: Option<String>,
    /// The link.
    pub link: Option<String>,
    /// The style of waiting.
    pub wait: Option<Wait>,
    /// The size.
    pub size: Option<Size>,
}

/// A row of the table that sets variants beside one another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowPlan {
    /// What it is called.
    pub name: String,
    /// What it means, in a sentence.
    pub means: String,
    /// The link.
    pub link: String,
    /// The transport.
    pub transport: String,
    /// Its variant; absent: the one without a name.
    pub variant: Option<String>,
    /// The style of waiting.
    pub wait: Wait,
    /// The row of 003, table 4 that it corresponds to.
    pub paper: Option<PaperRow>,
}

/// The rows of 003, table 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PaperRow {
    /// The device driver itself.
    Driver,
    /// Interrupts avoided: the driver's handler is called when no message is there.
    InterruptsAvoided,
    /// All receiving by interrupt.
    Interrupts,
    /// Interrupts avoided, and the receive copy left out.
    NoCopy,
}

/// A cell that a figure or a row names, with nothing left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResolvedCell<'a> {
    /// The experiment.
    pub kind: Experiment,
    /// Name of the link.
    pub link: &'a str,
    /// Name of the transport.
    pub transport: &'a str,
    /// Name of the variant.
    pub variant: Option<&'a str>,
    /// Style of waiting.
    pub wait: Wait,
    /// Size, perhaps still "frame".
    pub size: Size,
}

impl ResolvedCell<'_> {
    /// The cell in words.
    pub fn say(&self) -> String {
        let size = match self.size {
            Size::Bytes(bytes) => format!("{bytes} B"),
            Size::Frame => "full frames".to_owned(),
        };
        format!(
            "{} {} {} {} {size}",
            self.link,
            self.kind.name(),
            label(self.transport, self.variant),
            self.wait.name()
        )
    }
}

/// Cells of which the best one counts: one, or one for each of several links.
pub type CellChoice<'a> = Vec<ResolvedCell<'a>>;

impl FigurePlan {
    /// Its cells, size by size: the upper one and, for a ratio, the lower one. The error names what
    /// is left out.
    pub fn targets(&self) -> Result<Vec<(CellChoice<'_>, Option<CellChoice<'_>>)>, String> {
        let whole: &[Option<Size>] = &[None];
        let sizes: Vec<Option<Size>> = self.sizes.iter().copied().map(Some).collect();
        let sizes = if sizes.is_empty() { whole } else { &sizes };
        let pair = |size: &Option<Size>| {
            let over = self.over.as_ref().map(|over| self.choice(over, *size)).transpose()?;
            Ok((self.choice(&self.of, *size)?, over))
        };
        sizes.iter().map(pair).collect()
    }

    /// Whether of two values of a cell the larger one is the better.
    pub fn larger_is_better(&self) -> bool {
        match self.value {
            Value::Median => self.kind == Experiment::Stream,
            Value::Messages | Value::Share | Value::PerLink => true,
            Value::P99 | Value::Cpu | Value::Calls => false,
        }
    }

    fn choice<'a>(
        &'a self,
        selector: &'a CellSelector,
        size: Option<Size>,
    ) -> Result<CellChoice<'a>, String> {
        match (selector.link.as_ref().or(self.link.as_ref()), &self.links[..]) {
            (None, []) => Err(format!("{} has no link", selector.transport)),
            (None, links) => links.iter().map(|link| self.target(selector, link, size)).collect(),
            (Some(link), _) => Ok(vec![self.target(selector, link, size)?]),
        }
    }

    fn target<'a>(
        &'a self,
        selector: &'a CellSelector,
        link: &'a str,
        size: Option<Size>,
    ) -> Result<ResolvedCell<'a>, String> {
        let lacks = |what: &str| format!("{} has no {what}", selector.transport);
        Ok(ResolvedCell {
            kind: self.kind,
            link,
            transport: &selector.transport,
            variant: selector.variant.as_deref(),
            wait: selector.wait.or(self.wait).ok_or_else(|| lacks("wait"))?,
            size: selector.size.or(size).ok_or_else(|| lacks("size"))?,
        })
    }
}

impl RowPlan {
    /// The cell of this row for an experiment and a size.
    pub fn target(&self, kind: Experiment, size: Size) -> ResolvedCell<'_> {
        ResolvedCell {
            kind,
            link: &self.link,
            transport: &self.transport,
            variant: self.variant.as_deref(),
            wait: self.wait,
            size,
        }
    }
}
