//! The results of a plan: every figure of every run. They hold nothing of the machine that
//! simulated, so the same command gives the same bytes.

use crate::plan::Plan;
use gigae_eval_model::stats::median;
use serde::{Deserialize, Serialize};

/// The version of this form.
pub(crate) const FORMAT: u32 = 1;

/// All results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The version of this form.
    pub format: u32,
    /// The version of gigae.
    pub gigae: String,
    /// The command that gives the same results again.
    pub command: String,
    /// The plan, with everything that it leaves out.
    pub plan: Plan,
    /// The run was interrupted: runs are missing.
    pub interrupted: bool,
    /// A workload with a protocol each.
    pub cells: Vec<Cell>,
}

/// A workload with a protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The workload's name.
    pub workload: String,
    /// The protocol's name.
    pub protocol: String,
    /// Runs that the plan asks for: one, if nothing in them is random.
    pub wanted: u64,
    /// The runs that are finished, by seed.
    pub runs: Vec<Run>,
}

/// A run with one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// Virtual time at its end, in microseconds.
    pub ended_us: f64,
    /// Messages that began, responses included.
    pub messages: u64,
    /// Messages that had begun and not arrived at the end.
    pub unfinished: u64,
    /// Messages that had not begun at the end.
    pub not_begun: u64,
    /// Of a pattern: when its last message had arrived, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_us: Option<f64>,
    /// The least time of a pattern, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ideal_us: Option<f64>,
    /// Bytes of messages that arrived, over what the links carry at most. Absent: the run of
    /// random messages was cut at its limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput: Option<f64>,
    /// Of random messages: bytes that began, over the same. Absent: as of goodput.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered: Option<f64>,
    /// Of an incast: Jain's index of the senders' rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    /// Frames of the whole run.
    pub frames: Frames,
    /// Of random messages: slowdowns by length.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub slowdown: Vec<Class>,
    /// Slowdowns of short messages, if the plan says what is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short: Option<Class>,
    /// Queues of switches, by tier.
    pub queues: Vec<Tier>,
}

/// Frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frames {
    /// That hosts sent.
    pub sent: u64,
    /// That reached their hosts.
    pub delivered: u64,
    /// That found no room in a switch.
    pub dropped: u64,
    /// Of these, those after the first round trip of an idle network.
    pub dropped_later: u64,
    /// That links lost.
    pub lost: u64,
    /// That switches marked.
    pub marked: u64,
}

/// Slowdowns of messages of some lengths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// The shortest length in bytes.
    pub from: u32,
    /// The first length that is too long. Absent: none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// Messages.
    pub count: u64,
    /// The median. Absent without messages.
    pub p50: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
}

/// Bytes that ports of switches held. Time before the measured span does not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tier {
    /// Its name.
    pub tier: String,
    /// The mean over time and all ports.
    pub mean: f64,
    /// The port with the greatest mean.
    pub fullest: String,
    /// Its mean over time.
    pub fullest_mean: f64,
    /// What it held at most in 99 % of the time.
    pub fullest_p99: u64,
    /// What any port held at most.
    pub most: u64,
}

/// A figure over several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Results {
    /// As a JSON file.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("results are plain data");
        text + "\n"
    }

    /// Runs that are finished, and that the plan asks for.
    pub fn finished(&self) -> (u64, u64) {
        let done = self.cells.iter().map(|cell| cell.runs.len() as u64).sum();
        (done, self.cells.iter().map(|cell| cell.wanted).sum())
    }
}

impl Cell {
    /// A figure over the runs that have it.
    pub(crate) fn over(&self, figure: impl Fn(&Run) -> Option<f64>) -> Option<Spread> {
        let values: Vec<f64> = self.runs.iter().filter_map(figure).collect();
        let median = median(&values)?;
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Spread { median, low, high })
    }
}
