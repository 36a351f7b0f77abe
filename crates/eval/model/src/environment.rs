//! The conditions of a run, recorded beside its figures: what each end is, and the links between.
//!
//! Nothing here identifies a machine: no host names, no serial numbers.

use crate::cost::Baseline;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The kind and the name of the link between two machines.
pub const NETWORK: &str = "network";

/// The kind of a machine's own loopback interface.
pub const LOOPBACK_KIND: &str = "loopback";

/// The link of cells that measure this machine's memory and so have none.
pub const MEMORY: &str = "memory";

/// What one end is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndEnvironment {
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// CPUs that the program may use.
    pub cpus: usize,
    /// The machine's memory in bytes; absent in older files, or where /proc says nothing.
    #[serde(default)]
    pub memory: Option<u64>,
    /// The CPU to which the measuring thread is pinned.
    pub pinned_to: Option<usize>,
    /// Frequency governor, or `none` where the kernel does not scale the frequency.
    pub governor: String,
    /// The measured interface, or several as one with commas between them.
    pub interface: String,
    /// Its driver.
    pub driver: String,
    /// Its MTU in bytes.
    pub mtu: usize,
    /// Its offloads, by name.
    pub offloads: Value,
    /// Its interrupt coalescing.
    pub coalescing: Value,
    /// All of the inventory: driver, firmware, bus, queues, rings; of several, the first's, as are
    /// driver, offloads and coalescing above.
    pub nic: Value,
    /// The same of the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_nics: Vec<Value>,
    /// What the figure `interrupts` counts on this end.
    pub interrupts_counted: String,
    /// TCP congestion controls that the kernel offers.
    pub congestion_controls: String,
    /// The kernel's default sizes of TCP's receive buffer: least, default, most.
    pub tcp_rmem: String,
    /// The same of its send buffer.
    pub tcp_wmem: String,
    /// Version of this program on that end.
    pub gigae: String,
    /// Its git version.
    pub git: String,
}

/// A link on which figures were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkEnvironment {
    /// Name, as in the series.
    pub name: String,
    /// `fabric` for a virtual one, `network` between two machines, `loopback` for a machine's own.
    pub kind: String,
    /// How many cables or switches join the ends, each with its own interface at both.
    #[serde(default = "one")]
    pub links: usize,
    /// Rate in bits per second to which each is shaped or that the interface reports; absent: not
    /// shaped, unknown.
    pub rate: Option<f64>,
    /// Probability that the virtual switch loses a frame, either way; 0 on real networks.
    #[serde(default)]
    pub loss: f64,
    /// Microseconds that a frame takes longer from end to end by the virtual switch; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_us: Option<u64>,
    /// Milliseconds that it was down in the middle of each copy; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_ms: Option<u64>,
    /// MTU in bytes.
    pub mtu: usize,
    /// Bytes that a port of the virtual switch holds; absent on real networks and unshaped links.
    pub switch_buffer: Option<u32>,
    /// Measuring end.
    pub local: EndEnvironment,
    /// Answering end.
    pub remote: EndEnvironment,
    /// The measuring end while nothing was measured.
    pub idle_local: Baseline,
    /// The answering end while nothing was measured.
    pub idle_remote: Baseline,
}

fn one() -> usize {
    1
}

/// The conditions of a whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// When the run began, in UTC (RFC 3339).
    pub date: String,
    /// How long it took, in seconds.
    pub duration: f64,
    /// Command line that repeats it.
    pub command: String,
    /// Version of this program.
    pub gigae: String,
    /// Its git version.
    pub git: String,
    /// Kernel of the measuring end.
    pub kernel: String,
    /// CPU of the measuring end.
    pub cpu: String,
    /// Interface of the measuring end.
    pub nic: String,
    /// Its driver.
    pub driver: String,
    /// Its offloads.
    pub offloads: Value,
    /// Its MTU in bytes.
    pub mtu: usize,
    /// Its interrupt coalescing.
    pub coalescing: Value,
    /// Congestion control that TCP was measured with.
    pub congestion_control: String,
    /// Reading the clock.
    pub timer: TimerCost,
    /// What the evaluator's own loops cost; absent in older files.
    #[serde(default)]
    pub overhead: Option<Overhead>,
    /// CPU seconds per second that a live view took; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_view: Option<f64>,
    /// All links.
    pub link: Vec<LinkEnvironment>,
}

/// What one reading of the clock costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimerCost {
    /// Median time of one reading, in nanoseconds.
    pub median_ns: f64,
    /// 99th percentile of the same.
    pub p99_ns: f64,
}

/// What measuring costs beside what is measured: the loops and the clock, without any transport.
/// Part of every figure, and never subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overhead {
    /// Of a round trip, in nanoseconds: the loop over a channel that answers at once.
    pub round_trip_ns: f64,
    /// Of a message of a stream at the end where it costs more, in nanoseconds.
    pub message_ns: f64,
}
