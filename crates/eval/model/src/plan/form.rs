//! The form of a plan: what its TOML file contains.

use super::access::{AccessPaperPlan, AccessPlan};
use super::condition::Cpus;
use super::figure::{FigurePlan, RowPlan};
use super::files::{FilePaperPlan, FilesPlan};
use super::metadata::MetadataPlan;
use super::mount::{GuestsPlan, MountPaperPlan, MountPlan};
use super::paper::{NicPlan, PaperPlan, QuotePlan};
use super::settings::{GigaeOptions, TcpOptions, XdpOptions};
use super::shares::SharesPlan;
use super::tune::TunePlan;
use crate::experiment::Experiment;
use crate::size::Size;
use crate::wait::Wait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What to measure, on which links, how often.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Short name, for tables.
    pub name: String,
    /// One sentence on what the plan answers.
    pub about: String,
    /// How long it takes on the virtual network, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub takes: String,
    /// The tables and figures of papers that it repeats, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub repeats: String,
    /// Seed of the random order of the repetitions.
    #[serde(default = "one")]
    pub seed: u64,
    /// Repetitions of every cell, at least. Six are the fewest that can give a 95 % interval.
    pub repetitions: u32,
    /// Cells whose interval is still too wide are repeated up to this often.
    pub max_repetitions: u32,
    /// An interval is narrow enough when its half width is at most this share of the median.
    #[serde(default = "five_percent")]
    pub precision: f64,
    /// The virtual links to create, by name; unused between two machines.
    pub link: BTreeMap<String, LinkPlan>,
    /// TCP settings, by name; each is measured as a separate variant.
    #[serde(default)]
    pub tcp: BTreeMap<String, TcpOptions>,
    /// Settings of GigaE endpoints, by name.
    #[serde(default)]
    pub gigae: BTreeMap<String, GigaeOptions>,
    /// Settings of the raw AF_XDP link, by name.
    #[serde(default)]
    pub xdp: BTreeMap<String, XdpOptions>,
    /// Settings of the interfaces and the kernel to try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<TunePlan>,
    /// What to measure.
    pub experiment: Vec<ExperimentPlan>,
    /// Files that services transfer, on virtual links or between machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FilesPlan>,
    /// Reads and writes within a file of a server, on virtual links only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<AccessPlan>,
    /// Operations on the names of small files of a server, on virtual links only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<MetadataPlan>,
    /// Flows of several nodes through one port, on virtual links only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<SharesPlan>,
    /// What programs do on mounted file systems, on virtual links only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mount: Vec<MountPlan>,
    /// The machines that mount them.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub guests: GuestsPlan,
    /// What to say about it, and what is asked of it.
    #[serde(default)]
    pub figure: Vec<FigurePlan>,
    /// Variants to set beside one another, and beside the paper.
    #[serde(default)]
    pub row: Vec<RowPlan>,
    /// The papers whose figures it carries, by a short name: authors, title and year.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub source: BTreeMap<String, String>,
    /// Figures that papers printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paper: Vec<PaperPlan>,
    /// Figures that papers printed of file services.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_paper: Vec<FilePaperPlan>,
    /// Figures that papers printed of reads and writes within a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_paper: Vec<AccessPaperPlan>,
    /// Figures that papers printed of mounted file systems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mount_paper: Vec<MountPaperPlan>,
    /// Sentences that papers printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<QuotePlan>,
    /// NICs that papers measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nic: Vec<NicPlan>,
}

/// A virtual link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkPlan {
    /// Both nodes back to back, without a switch, as in 003; cannot be shaped.
    #[serde(default)]
    pub cable: bool,
    /// This machine's own loopback interface: no network at all, and the same between two machines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
    /// This many cables, or switches of this rate, side by side, 1 to 8: those transports that can
    /// use them all as one, the others the first.
    #[serde(default = "one_link")]
    pub links: u16,
    /// Nodes of the network, 2 to 17: the receiver and those on which senders of an incast
    /// experiment are, in turn. `[[shares]]` need one for each flow, and two more.
    #[serde(default = "two_nodes", skip_serializing_if = "are_two")]
    pub nodes: u16,
    /// Queues of the nodes' interfaces, 1 to 16: threads with AF_XDP have one each.
    #[serde(default = "one_queue", skip_serializing_if = "is_one")]
    pub queues: u16,
    /// Rate in Mbit/s that the switch's ports are shaped to; absent: as fast as the machine can.
    pub rate_mbit: Option<u64>,
    /// Rate in Mbit/s of the port of the second node, which answers and has the servers; absent:
    /// that of all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_rate_mbit: Option<u64>,
    /// MTU in bytes.
    #[serde(default = "ethernet_mtu")]
    pub mtu: u32,
    /// Switch buffer per port in bytes; absent: the fabric's default.
    pub buffer: Option<u32>,
    /// Probability that the switch loses a frame, either way, drawn from the plan's seed.
    #[serde(default)]
    pub loss: f64,
    /// Microseconds that a frame takes longer from a node to another one, by our own switch;
    /// absent: none, by the kernel's switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_us: Option<u64>,
    /// Milliseconds that the port of the first node is down, once in the middle of each copy;
    /// absent: never. Only `[[files]]` use such a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_ms: Option<u64>,
}

impl Default for LinkPlan {
    fn default() -> Self {
        Self {
            cable: false,
            loopback: false,
            links: one_link(),
            nodes: two_nodes(),
            queues: one_queue(),
            rate_mbit: None,
            server_rate_mbit: None,
            mtu: ethernet_mtu(),
            buffer: None,
            loss: 0.0,
            delay_us: None,
            down_ms: None,
        }
    }
}

/// One experiment of a plan: the product of its lists.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentPlan {
    /// What to measure.
    pub kind: Experiment,
    /// Names of links of this plan. Between two machines every experiment runs once on the link
    /// there is.
    #[serde(default)]
    pub links: Vec<String>,
    /// Names of transports.
    #[serde(default)]
    pub transports: Vec<String>,
    /// Names of TCP settings that this experiment uses, [`DEFAULT`](super::DEFAULT) among them for
    /// none; absent: all that the plan has.
    pub tcp: Option<Vec<String>>,
    /// The same of GigaE endpoints.
    pub gigae: Option<Vec<String>>,
    /// The same of the raw AF_XDP link.
    pub xdp: Option<Vec<String>>,
    /// Message sizes; those that a transport cannot carry are left out for it.
    pub sizes: Vec<Size>,
    /// Styles of waiting; those that a transport does not have are left out for it.
    #[serde(default)]
    pub waits: Vec<Wait>,
    /// Messages per second of a paced experiment; each is a separate cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<f64>,
    /// How many CPUs both ends have between them; absent: two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<Cpus>,
    /// TCP streams beside what is measured; absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bulk: Vec<u32>,
    /// How many send to one, of an incast experiment; each is a separate cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub senders: Vec<u32>,
    /// Threads at each end, of a cores or ceiling experiment; each is a separate cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<u32>,
    /// Whether it is measured under every setting of `[tune]`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tune: bool,
    /// Seconds measured per repetition.
    pub seconds: f64,
    /// Seconds before that, discarded.
    pub warmup: f64,
}

fn one() -> u64 {
    1
}
pub(super) fn one_link() -> u16 {
    1
}
pub(super) fn two_nodes() -> u16 {
    2
}
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn are_two(nodes: &u16) -> bool {
    *nodes == 2
}
pub(super) fn one_queue() -> u16 {
    1
}
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_one(queues: &u16) -> bool {
    *queues == 1
}
fn is_usual(guests: &GuestsPlan) -> bool {
    *guests == GuestsPlan::default()
}
fn five_percent() -> f64 {
    0.05
}
pub(super) fn ethernet_mtu() -> u32 {
    1500
}
