//! What the ends of a soak say of themselves, as plain data.

use crate::traffic::STREAMS;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An end at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// The process.
    pub pid: u32,
    /// Its resident memory in bytes.
    pub rss: u64,
    /// Its open descriptors.
    pub descriptors: u64,
    /// The interfaces that are soaked.
    pub interfaces: Vec<Interface>,
    /// TCP.
    pub tcp: TcpCounters,
    /// The endpoint.
    pub gigae: GigaeCounters,
    /// What passed, by peer.
    pub passed: Vec<Passed>,
    /// What was found since the last sample.
    pub found: Vec<FoundDeviation>,
    /// How many more.
    pub more: u64,
    /// Kernel messages since the last sample, on its device or grave.
    pub kernel: Vec<KernelMessage>,
    /// Other kernel messages of warning level or above.
    pub kernel_others: u64,
    /// Why kernel messages cannot be read.
    pub kernel_unreadable: Option<String>,
    /// Why a worker has ended.
    pub ended: Option<String>,
}

/// An interface at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Whether its link carries frames; `None` if the kernel does not say.
    pub up: Option<bool>,
    /// How often that changed.
    pub changes: u64,
    /// Counters of errors and drops, the kernel's and the driver's own.
    pub counters: BTreeMap<String, u64>,
}

/// TCP counters of the network namespace (proc_pid_net(5), snmp).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpCounters {
    /// Segments sent again.
    pub retransmissions: u64,
    /// Segments received with errors.
    pub errors: u64,
}

/// Counters of an endpoint since it was opened: what the rules look at and the report shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GigaeCounters {
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Frames sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// STOPs obeyed.
    pub stops: u64,
    /// Messages that failed.
    pub failed: u64,
    /// Sessions in which long frames vanish.
    pub black_holes: u64,
    /// Frames that were damaged: too short, of another version, malformed, with a wrong checksum.
    pub damaged: u64,
    /// Frames discarded for any other reason.
    pub discarded: u64,
    /// Frames for which the kernel had no room.
    pub dropped: u64,
    /// Descriptors that the kernel refused.
    pub invalid: u64,
}

/// A record of the kernel's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelMessage {
    /// 0 emergency to 7 debug (syslog(2)).
    pub level: u8,
    /// Whether it names a soaked device.
    pub ours: bool,
    /// Its text.
    pub text: String,
}

/// One stream, both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Both {
    /// Sent from here.
    pub sent: Amount,
    /// Received here, every byte as it should be.
    pub received: Amount,
}

/// What passed between this end and one peer since the round began, by stream.
pub type Passed = [Both; STREAMS.len()];

/// Operations and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// Messages, writes, pieces, requests.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl std::ops::AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.bytes += other.bytes;
    }
}

/// What kind of deviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviationKind {
    /// Something that was sent did not arrive.
    Lost,
    /// Something arrived with other bytes or another length.
    Torn,
    /// Something arrived twice or in another order.
    Order,
    /// An operation, a message or a connection failed.
    Failed,
    /// A link went down or up.
    Link,
    /// A counter of errors rose.
    Errors,
    /// The kernel complained.
    Kernel,
    /// A process grew beyond its bound.
    Memory,
    /// Nothing arrived for too long.
    Stall,
}

impl DeviationKind {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Torn => "torn",
            Self::Order => "order",
            Self::Failed => "failed",
            Self::Link => "link",
            Self::Errors => "errors",
            Self::Kernel => "kernel",
            Self::Memory => "memory",
            Self::Stall => "stall",
        }
    }
}

/// A deviation as it was found, without where and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundDeviation {
    /// Its kind.
    pub kind: DeviationKind,
    /// One sentence.
    pub what: String,
}

impl FoundDeviation {
    /// One of this kind.
    pub fn new(kind: DeviationKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}
