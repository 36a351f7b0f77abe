//! The results of a run: plain data, written as `results.json` and read back by the reports.
//!
//! The form is fixed by `schema/gigae.eval.2.json`. Files of version 1 are read as well: what they
//! do not have is as it was then. Whatever a report shows comes from here.

use crate::access::AccessFigure;
use crate::cost::Cost;
use crate::demand::Demand;
use crate::doubt::{Code, Doubt};
use crate::environment::Environment;
use crate::experiment::Experiment;
use crate::experiment::Kind;
use crate::file_figure::FileFigure;
use crate::metadata::MetadataFigure;
use crate::mount_figure::{GuestShare, MountFigure};
use crate::note::Note;
use crate::plan::{Condition, Plan, Value};
use crate::program_figure::ProgramFigure;
use crate::shares::SharesFigure;
use crate::trials::Tuning;
use crate::wait::Wait;
use serde::{Deserialize, Serialize};

/// Name and version of the form.
pub const SCHEMA: &str = "gigae.eval/2";

/// Older forms that [`Results::parse`] reads; all that was added since may be absent.
const OLDER: [&str; 1] = ["gigae.eval/1"];

/// All of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The conditions.
    pub environment: Environment,
    /// The plan that was carried out.
    pub plan: Plan,
    /// The runs of which `figures` are the medians; all else is of the last one.
    #[serde(default)]
    pub runs: Vec<Run>,
    /// One entry per point of a curve.
    pub series: Vec<Series>,
    /// What the plan wanted to know, in its order.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Other programs' figures beside ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramFigure>,
    /// What file services gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileFigure>,
    /// What file servers gave to reads and writes within a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<AccessFigure>,
    /// What file servers gave to operations on names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<MetadataFigure>,
    /// What flows of several nodes got of one port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<SharesFigure>,
    /// What programs gave on mounted file systems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountFigure>,
    /// What the guests are that mounted them, and what they cost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<GuestShare>,
    /// The settings that were tried, and what was measured with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tuning: Vec<Tuning>,
    /// What was planned and could not be measured.
    pub skipped: Vec<Skipped>,
    /// Doubts about the run as a whole.
    pub doubts: Vec<Doubt>,
}

/// When a run was made and how much of its time it did not get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// When it began, in UTC (RFC 3339).
    pub date: String,
    /// How long it took, in seconds.
    pub duration: f64,
    /// Share of the measuring CPUs' time that a hypervisor withheld.
    pub steal: f64,
}

/// A figure that the plan asked for, over one or more runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// As in the plan.
    pub name: String,
    /// Unit; empty for a ratio.
    pub unit: String,
    /// The bound, if the plan has one.
    pub asked: Option<Bound>,
    /// Its cells, size by size.
    pub points: Vec<Point>,
    /// The value of each run: that of the worst point; absent where a cell is missing.
    pub runs: Vec<Option<f64>>,
    /// Median over the runs; absent if any run lacks it.
    pub measured: Option<f64>,
    /// Whether the median keeps within the bound.
    pub verdict: Verdict,
    /// Why it could not be measured.
    pub missing: Option<String>,
    /// Codes of the doubts about its cells, in any run.
    pub doubts: Vec<Code>,
}

/// What is asked of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Not more.
    AtMost(f64),
    /// Not less.
    AtLeast(f64),
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within its bound.
    Reached,
    /// Measured, and not within its bound.
    Missed,
    /// Measured; nothing was asked.
    Information,
    /// A cell is missing: neither reached nor missed.
    NotMeasured,
}

/// The cells of a figure at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Payload in bytes of the upper cell.
    pub size: usize,
    /// The value of the cell, or of the upper one of a ratio, for each run.
    pub of: Vec<Option<f64>>,
    /// The value of the lower one, for each run; empty if it is not a ratio.
    pub over: Vec<Option<f64>>,
    /// Unit of both.
    pub unit: String,
}

/// One point: an experiment with one transport, one style of waiting and one size on one link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// What was measured.
    pub experiment: Experiment,
    /// The transport.
    pub transport: String,
    /// Which setting of it, where it has several.
    pub variant: Option<String>,
    /// What else was unusual; ordinary in older files.
    #[serde(default)]
    pub condition: Condition,
    /// Name of the link; `memory` without a link.
    pub link: String,
    /// How both ends waited; of a schedule, the answering one.
    pub wait: Wait,
    /// Payload in bytes.
    pub size: usize,
    /// Unit of all figures: `us` (round trips, paced or not), `MB/s` (streams, 10^6 bytes per
    /// second), `%` of one CPU (idle) or `ns` (memory).
    pub unit: String,
    /// The figure to quote: median over the repetitions (of a repetition's median round trip, or of
    /// its goodput).
    pub median: f64,
    /// Confidence interval of `median`, from order statistics: lower and upper end.
    pub ci95: [f64; 2],
    /// What `ci95` really covers; less than 0.95 for fewer than six repetitions.
    pub coverage: f64,
    /// The figure of each repetition, in the order in which they were made.
    pub repetitions: Vec<f64>,
    /// Median of all samples: round trips, or rates of a stream's 10 ms slices.
    pub p50: f64,
    /// 90th percentile of all samples.
    pub p90: f64,
    /// 99th percentile of all samples.
    pub p99: f64,
    /// 99.9th percentile of all samples.
    pub p999: f64,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// Mean of all samples.
    pub mean: f64,
    /// Number of samples.
    pub n: u64,
    /// The discarded warm-up.
    pub warmup: Warmup,
    /// CPU seconds per second of the measuring (sending) end.
    pub cpu_local: f64,
    /// CPU seconds per second of the answering (receiving) end.
    pub cpu_remote: f64,
    /// Frames that the measuring end's device sent.
    pub frames: u64,
    /// System calls that the measuring end made.
    pub syscalls: u64,
    /// Interrupts of the measuring end's device (see the environment for what is counted).
    pub interrupts: u64,
    /// Messages that the measuring end sent in all, warm-up included.
    pub sent: u64,
    /// Of them, those that were lost (unreliable transports).
    pub lost: u64,
    /// Goodput that the shaped link allows for this payload and its headers, in `unit`.
    pub limit: Option<f64>,
    /// All costs of the measuring end, added up over the repetitions.
    pub local: Cost,
    /// All costs of the answering end.
    pub remote: Cost,
    /// How many senders share the goodput; absent but for experiments of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// Microseconds of CPU per KB (1,024 bytes) of a stream, at both ends together; absent in older
    /// files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_per_kb: Option<Estimate>,
    /// Round trip of a cache line between the CPUs of both ends, in nanoseconds: the shortest and
    /// the longest before any repetition. Absent where the ends do not have two CPUs of one
    /// machine, and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_to_core: Option<[f64; 2]>,
    /// What the transport says about itself: congestion control, socket buffers, XDP mode.
    pub note: Option<Note>,
    /// Doubts about this figure.
    pub doubts: Vec<Doubt>,
}

/// What is known of many senders besides their goodput.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    /// Jain's index of the senders' goodputs, the median over the repetitions: 1 if all are the
    /// same, one over their number if one has all.
    pub fairness: f64,
    /// The goodputs of the last repetition, in 10^6 bytes per second.
    pub last: Vec<f64>,
    /// Segments or frames that senders repeated, over all repetitions.
    pub repeated: u64,
    /// Median of ICMP ECHO round trips on the same way during the measurement, in microseconds;
    /// absent where there were none.
    pub trip_p50: Option<f64>,
    /// Their 99th percentile; absent where fewer than 100 were answered.
    pub trip_p99: Option<f64>,
    /// How many ECHOs were sent; absent where there were none, and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trips_sent: Option<u64>,
    /// Of them, those that were not answered within 100 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trips_lost: Option<u64>,
}

impl Shares {
    /// ECHOs that were not answered, and all; `None` where that is not known.
    pub fn lost_trips(&self) -> Option<(u64, u64)> {
        Some((self.trips_lost?, self.trips_sent.filter(|sent| *sent > 0)?))
    }
}

/// A median over the repetitions with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Lower and upper end of its interval, as of [`Series::ci95`].
    pub ci95: [f64; 2],
}

/// What was discarded before the measured part of the repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warmup {
    /// Samples.
    pub n: u64,
    /// Their median, in the figure's unit; absent without samples.
    pub p50: Option<f64>,
    /// By how much the last quarter of the measured part differs from the first (median over the
    /// repetitions).
    pub drift: Option<f64>,
}

/// Something that was planned and not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skipped {
    /// The link.
    pub link: String,
    /// The transport.
    pub transport: String,
    /// Which of its cells; all if absent.
    pub what: Option<String>,
    /// Why.
    pub reason: String,
}

impl Results {
    /// Reads `results.json` of this version or an older one, and gives it as this one; the error is
    /// one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut results: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if results.schema != SCHEMA && !OLDER.contains(&results.schema.as_str()) {
            return Err(format!("schema '{}' is not '{SCHEMA}'", results.schema));
        }
        results.schema = SCHEMA.to_owned();
        Ok(results)
    }

    /// The text of `results.json`.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("results are plain data");
        text.push('\n');
        text
    }

    /// Names of the links, in the order measured.
    pub fn links(&self) -> Vec<&str> {
        self.environment.link.iter().map(|link| link.name.as_str()).collect()
    }

    /// The series of one figure.
    pub fn of<'a>(
        &'a self,
        experiment: Experiment,
        link: &'a str,
        wait: Wait,
    ) -> impl Iterator<Item = &'a Series> + 'a {
        self.series.iter().filter(move |series| {
            series.experiment == experiment && series.link == link && series.wait == wait
        })
    }
}

impl Series {
    /// The transport with its variant and what else was unusual.
    pub fn label(&self) -> String {
        crate::plan::conditional(&self.transport, self.variant.as_deref(), &self.condition)
    }

    /// What of it a figure takes; `None` where it has no such value.
    pub fn value(&self, value: Value) -> Option<f64> {
        match value {
            Value::Median => Some(self.median),
            Value::P99 => Some(self.p99),
            Value::Messages => self.messages_per_second(),
            Value::Share => self.limit.map(|limit| self.median / limit),
            // How many links it used is known to the run alone (`figures.rs`).
            Value::PerLink => None,
            Value::Cpu => self.cpu_per_gigabyte(),
            Value::Calls => self.calls_per_frame(),
        }
    }

    /// Sending system calls per frame that the device sent (003, table 3, the other way round);
    /// `None` without frames.
    pub fn calls_per_frame(&self) -> Option<f64> {
        (self.local.tx_frames > 0)
            .then(|| self.local.send_calls as f64 / self.local.tx_frames as f64)
    }

    /// Codes of its doubts, but for the one that all fast figures share: what measuring itself
    /// costs. A doubt without a code, in a file of another program, has none to give.
    pub fn doubt_codes(&self) -> impl Iterator<Item = &Code> {
        let codes = self.doubts.iter().filter_map(|doubt| doubt.code.as_ref());
        codes.filter(|code| !matches!(code, Code::Timer | Code::Overhead))
    }

    /// What one message costs of so much; `None` where costs are not counted per message.
    pub fn per_message(&self, count: f64) -> Option<f64> {
        let messages = match self.experiment.form().kind {
            Kind::Trip => self.n,
            Kind::Goodput => self.sent,
            Kind::Other => 0,
        };
        (messages > 0).then(|| count / messages as f64)
    }

    /// Messages per second that arrived; `None` but for streams. On a byte stream, the bytes per
    /// second divided by the size of a message.
    pub fn messages_per_second(&self) -> Option<f64> {
        (self.experiment == Experiment::Stream && self.size > 0)
            .then(|| self.median * 1e6 / self.size as f64)
    }

    /// The CPU of both ends by the bytes of a stream that arrived, warm-up included. `None` but for
    /// streams, and if nothing arrived.
    pub fn demand(&self) -> Option<Demand> {
        let bytes = self.sent.saturating_sub(self.lost) as f64 * self.size as f64;
        let ends = [&self.local, &self.remote];
        (self.experiment == Experiment::Stream)
            .then(|| Demand::of(self.condition.cpus, ends, bytes))
            .flatten()
    }

    /// The same in seconds per GB (10^9 bytes).
    pub fn cpu_per_gigabyte(&self) -> Option<f64> {
        self.demand().map(|demand| demand.seconds_per_gigabyte())
    }

    /// How the measuring end waited; `wait` is how the answering one did.
    pub fn measuring_wait(&self) -> Wait {
        self.experiment.measuring_wait(self.wait)
    }

    /// Share of the sent messages that were lost.
    pub fn loss(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost as f64 / self.sent as f64 }
    }
}
