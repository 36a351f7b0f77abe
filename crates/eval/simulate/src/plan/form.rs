//! The form of a plan: what its TOML file contains. `docs/reference/simulation-plans.md` explains
//! each key.

use serde::{Deserialize, Serialize};

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// What it is for, in a sentence.
    #[serde(default)]
    pub about: String,
    /// How long it takes, for people who choose a plan.
    #[serde(default)]
    pub takes: String,
    /// Runs of each cell, with a seed each, where something is random.
    #[serde(default = "one")]
    pub seeds: u64,
    /// The first seed.
    #[serde(default = "one")]
    pub seed: u64,
    /// A run ends after so many milliseconds of virtual time.
    #[serde(default = "ten_seconds")]
    pub limit_ms: u64,
    /// Hosts, switches and links.
    pub network: NetworkPlan,
    /// Messages at random times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub random: Vec<RandomPlan>,
    /// Many senders, one receiver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incast: Vec<IncastPlan>,
    /// Each host sends a message to each other one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all_to_all: Vec<PatternPlan>,
    /// A reduction over a ring of all hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ring: Vec<PatternPlan>,
    /// The library's own endpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gigae: Vec<GigaePlan>,
    /// The model of Homa without priorities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub homa: Vec<HomaPlan>,
    /// The model of DCTCP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dctcp: Vec<DctcpPlan>,
    /// The model of Swift.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swift: Vec<SwiftPlan>,
}

/// Hosts, switches and links: one switch, or leaves and spines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkPlan {
    /// Hosts on one switch. Absent for an incast: as many as it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// Leaves of two tiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaves: Option<u32>,
    /// Hosts on each leaf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts_per_leaf: Option<u32>,
    /// Spines: paths between two leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spines: Option<u32>,
    /// Rate of hosts' links in Mbit/s.
    pub rate_mbit: u64,
    /// Rate between leaves and spines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_rate_mbit: Option<u64>,
    /// Delay of each link in nanoseconds.
    #[serde(default)]
    pub delay_ns: u64,
    /// Chance that a link loses a frame.
    #[serde(default)]
    pub loss: f64,
    /// Latency of a switch in nanoseconds.
    #[serde(default)]
    pub switch_ns: u64,
    /// Whether switches forward a frame before they have all of it.
    #[serde(default)]
    pub cut_through: bool,
    /// Bytes of buffer for each port of a switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<u64>,
    /// Bytes of buffer that all ports of a switch share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_buffer: Option<u64>,
    /// A port gets at most this many times what is free in the shared buffer.
    #[serde(default = "alpha")]
    pub alpha: f64,
    /// ECN: mark frames if a port holds more bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark_above: Option<u64>,
    /// From the arrival of a frame at a host until its protocol handles it, in nanoseconds.
    #[serde(default)]
    pub turnaround_ns: u64,
}

/// Messages that begin at random times between random hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomPlan {
    /// The name of a distribution of lengths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lengths: Option<String>,
    /// Or the length of all messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    /// The load of the hosts' links, 0 to 1.
    pub load: f64,
    /// How many messages; of requests, without their responses.
    pub messages: u32,
    /// Whether each message is a request that gets a response of the same length.
    #[serde(default)]
    pub responses: bool,
    /// Messages below this many bytes are short: a column of the report has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short: Option<u32>,
    /// What others published about the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedPlan>,
}

/// Slowdowns that others published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedPlan {
    /// Of what, and by whom.
    pub source: String,
    /// At the 99th percentile: below 1.5 kB, to 10 kB, to 100 kB, above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<[f64; 4]>,
    /// At the 99th percentile of short messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_p99: Option<f64>,
}

/// Many senders, one receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IncastPlan {
    /// Numbers of senders; each is a workload of its own.
    pub senders: Vec<u32>,
    /// Bytes of each sender.
    pub bytes: u32,
    /// Senders begin at random within so many microseconds; 0: all at once.
    #[serde(default)]
    pub spread_us: u64,
}

/// A pattern in which all hosts take part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatternPlan {
    /// Bytes of each message of an all-to-all; bytes that each host of a ring has.
    pub bytes: u32,
}

/// The library's own endpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GigaePlan {
    /// Its name in reports.
    #[serde(default = "gigae")]
    pub name: String,
    /// Whether senders to one host share its credit (`Options::shared_credit`).
    #[serde(default = "yes")]
    pub shared_credit: bool,
    /// The priority in switches of short messages and acknowledgements, 1 to 7
    /// (`Options::priority`). Absent: all frames have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
}

/// Homa without priorities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HomaPlan {
    /// Its name in reports.
    #[serde(default = "homa")]
    pub name: String,
    /// Bytes that a sender sends without a grant.
    #[serde(default = "homa_bytes")]
    pub unscheduled: u32,
    /// Bytes that a receiver grants beyond what has arrived.
    #[serde(default = "homa_bytes")]
    pub ahead: u32,
    /// Messages that a receiver grants at once.
    #[serde(default = "homa_degree")]
    pub degree: u32,
    /// Microseconds without progress until an end asks again. Absent: 500 if frames can be lost,
    /// and never if not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_us: Option<u64>,
    /// Frames of messages below this many bytes, and frames without data, have priority 7 in
    /// switches. Absent: all have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_below: Option<u32>,
}

/// DCTCP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DctcpPlan {
    /// Its name in reports.
    #[serde(default = "dctcp")]
    pub name: String,
    /// Microseconds without progress until all missing bytes are sent again.
    #[serde(default = "five_milliseconds")]
    pub timeout_us: u64,
    /// As of Homa.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_below: Option<u32>,
}

/// Swift.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwiftPlan {
    /// Its name in reports.
    #[serde(default = "swift")]
    pub name: String,
    /// The target of the round trip in microseconds, for large windows.
    #[serde(default = "fifty")]
    pub base_us: u64,
    /// Microseconds that the target is longer for small windows.
    #[serde(default = "fifty")]
    pub range_us: u64,
    /// Frames of the first window.
    #[serde(default = "ten")]
    pub window: f64,
    /// Microseconds without progress until all missing bytes are sent again.
    #[serde(default = "five_milliseconds")]
    pub timeout_us: u64,
    /// As of Homa.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_below: Option<u32>,
}

fn one() -> u64 {
    1
}
fn ten_seconds() -> u64 {
    10_000
}
fn alpha() -> f64 {
    1.0
}
fn yes() -> bool {
    true
}
fn gigae() -> String {
    "gigae".into()
}
fn homa() -> String {
    "homa".into()
}
fn dctcp() -> String {
    "dctcp".into()
}
fn swift() -> String {
    "swift".into()
}
/// As published for 10 Gbit/s.
fn homa_bytes() -> u32 {
    9_700
}
fn homa_degree() -> u32 {
    7
}
fn five_milliseconds() -> u64 {
    5_000
}
fn fifty() -> u64 {
    50
}
fn ten() -> f64 {
    10.0
}
