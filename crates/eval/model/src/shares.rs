//! How flows of several nodes share one port: a cell of `[[shares]]` and its figures.

use crate::doubt::Doubt;
use crate::plan::label;
use serde::{Deserialize, Serialize};

/// Which way the flows go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Each from a node of its own to the second node: they share the switch's port to it.
    #[default]
    In,
    /// Each from the second node to a node of its own: they share what the second node's interface
    /// sends.
    Out,
}

impl Way {
    /// For tables: `4 to 1`.
    pub fn words(self, flows: u32) -> String {
        match self {
            Self::In => format!("{flows} to 1"),
            Self::Out => format!("1 to {flows}"),
        }
    }
}

/// Flows of one transport with one setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowGroup {
    /// `gigae` or `tcp`.
    pub transport: String,
    /// Name of its setting in the plan; absent: the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// How many.
    pub count: u32,
}

impl FlowGroup {
    /// The transport with its setting.
    pub fn label(&self) -> String {
        label(&self.transport, self.variant.as_deref())
    }
}

/// These flows at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharesCell {
    /// Which way they go.
    pub way: Way,
    /// The flows.
    pub flows: Vec<FlowGroup>,
    /// Bytes of a message.
    pub size: usize,
}

impl SharesCell {
    /// How many flows.
    pub fn count(&self) -> u32 {
        self.flows.iter().map(|group| group.count).sum()
    }

    /// The flows: `2 gigae credit + 2 tcp`.
    pub fn mix(&self) -> String {
        let of = |group: &FlowGroup| format!("{} {}", group.count, group.label());
        self.flows.iter().map(of).collect::<Vec<_>>().join(" + ")
    }

    /// All of it in a few words, for people.
    pub fn title(&self) -> String {
        format!("{}, {}, {} B", self.mix(), self.way.words(self.count()), self.size)
    }
}

/// What one of the flows got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowShare {
    /// Its transport.
    pub transport: String,
    /// Name of its setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The number of its node.
    pub node: u16,
    /// Goodput in 10^6 bytes per second: median over the repetitions.
    pub goodput: f64,
    /// Of what the link allows this transport; absent where the link has no rate.
    pub share: Option<f64>,
}

/// Round trips of 8 bytes between one more node and the second one meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TripsBeside {
    /// By which transport: that of the first flows.
    pub transport: String,
    /// Name of its setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// How many, in all repetitions.
    pub n: u64,
    /// Median in microseconds.
    pub p50_us: f64,
    /// The 99th percentile; absent of fewer than 100.
    pub p99_us: Option<f64>,
}

/// The figures of such a cell on a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharesFigure {
    /// The link.
    pub link: String,
    /// What was measured.
    pub cell: SharesCell,
    /// Unit of the goodputs: `MB/s`, 10^6 bytes per second.
    pub unit: String,
    /// The figure to quote: goodput of all together, the median over the repetitions.
    pub median: f64,
    /// Confidence interval of `median`, from order statistics.
    pub ci95: [f64; 2],
    /// What an interval of so many repetitions really covers.
    pub coverage: f64,
    /// The goodput of each repetition, in the order in which they were made.
    pub repetitions: Vec<f64>,
    /// The sum of the flows' shares; absent where the link has no rate.
    pub share: Option<f64>,
    /// Jain's index of the flows' goodputs: median over the repetitions.
    pub fairness: f64,
    /// What each flow got.
    pub flows: Vec<FlowShare>,
    /// Frames that the flows' ports of the switch sent in all repetitions, warm-ups included.
    pub switch_frames: u64,
    /// Frames that these ports dropped because their buffers were full.
    pub switch_dropped: u64,
    /// Round trips meanwhile; absent where none was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trips: Option<TripsBeside>,
    /// What may be wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
}

impl SharesFigure {
    /// The share of its frames that the switch dropped.
    pub fn loss(&self) -> f64 {
        let all = self.switch_frames + self.switch_dropped;
        if all == 0 { 0.0 } else { self.switch_dropped as f64 / all as f64 }
    }

    /// The shares of the flows of one transport and setting together; `None` without any, or where
    /// the link has no rate.
    pub fn share_of(&self, transport: &str, variant: Option<&str>) -> Option<f64> {
        let of =
            |one: &&FlowShare| (&one.transport[..], one.variant.as_deref()) == (transport, variant);
        self.flows.iter().filter(of).map(|one| one.share).reduce(|a, b| Some(a? + b?))?
    }
}
