//! `[[shares]]`: flows of several nodes that share one port.

use crate::shares::{FlowGroup, Way};
use serde::{Deserialize, Serialize};

/// Bytes of the longest message.
pub(super) const LONGEST: usize = 1 << 20;

/// Bytes of a message if the plan does not say them: nearly a frame.
const USUAL: usize = 1400;

/// Flows at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharesPlan {
    /// Names of links of this plan.
    pub links: Vec<String>,
    /// Which ways the flows go; each is a separate cell.
    #[serde(default = "one_way")]
    pub ways: Vec<Way>,
    /// The flows.
    pub flows: Vec<FlowGroup>,
    /// Bytes of a message.
    #[serde(default = "nearly_a_frame")]
    pub size: usize,
    /// Seconds measured per repetition.
    pub seconds: f64,
    /// Seconds before that, discarded.
    pub warmup: f64,
    /// Repetitions of each cell; absent: the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u32>,
}

fn one_way() -> Vec<Way> {
    vec![Way::In]
}

fn nearly_a_frame() -> usize {
    USUAL
}
