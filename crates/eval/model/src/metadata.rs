//! What a file server gave to operations on names: a cell of `[[metadata]]` and its figures.

use crate::doubt::Doubt;
use crate::service::Ground;
use serde::{Deserialize, Serialize};

/// What is done to the files of a directory, one file after the other, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// A new empty file is made and closed.
    Create,
    /// Size and times of a file are read.
    Stat,
    /// The names of the whole directory are read.
    List,
    /// A file gets another name in the directory.
    Rename,
    /// A file is removed.
    Delete,
}

impl Operation {
    /// All of them, in their order.
    pub const ALL: [Self; 5] = [Self::Create, Self::Stat, Self::List, Self::Rename, Self::Delete];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Stat => "stat",
            Self::List => "list",
            Self::Rename => "rename",
            Self::Delete => "delete",
        }
    }
}

/// So many empty files in one directory of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadataCell {
    /// The service.
    pub service: String,
    /// How many files.
    pub files: u32,
}

impl MetadataCell {
    /// All of it in a few words, for people: `nfs names of 256 files`.
    pub fn title(&self) -> String {
        format!("{} names of {} files", self.service, self.files)
    }
}

/// What one of the operations came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationRate {
    /// Which one.
    pub operation: Operation,
    /// The figure to quote: median over the repetitions of the operations per second.
    pub median: f64,
    /// Confidence interval of `median`, from order statistics.
    pub ci95: [f64; 2],
    /// What an interval of so many repetitions really covers.
    pub coverage: f64,
    /// The operations per second of each repetition, in the order in which they were made.
    pub repetitions: Vec<f64>,
    /// Operations of a repetition.
    pub samples: u64,
    /// Half of the operations took no longer, in microseconds: median over the repetitions.
    pub p50_us: f64,
    /// 99 % took no longer.
    pub p99_us: f64,
}

impl OperationRate {
    /// The time that 99 % of the operations do not exceed, if there were enough for that.
    pub fn p99(&self) -> Option<f64> {
        Some(self.p99_us).filter(|_| self.samples >= 100)
    }
}

/// The figures of such a cell on a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadataFigure {
    /// How the client reaches the files.
    pub ground: Ground,
    /// The link.
    pub link: String,
    /// What was done.
    pub cell: MetadataCell,
    /// Unit of the rates: `1/s`, operations per second.
    pub unit: String,
    /// What each operation came to.
    pub operations: Vec<OperationRate>,
    /// Names that a second client saw come, change and go, outside of the measured time.
    pub verified: u64,
    /// What the server's program says about its version.
    pub version: String,
    /// What may be wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
}

impl MetadataFigure {
    /// What an operation came to.
    pub fn of(&self, operation: Operation) -> Option<&OperationRate> {
        self.operations.iter().find(|one| one.operation == operation)
    }
}
