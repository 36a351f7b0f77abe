//! What the workers of one end count and find, shared with whoever watches them.

use super::sample::GigaeCounters;
use super::traffic::{STREAMS, Stream};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Found and not yet told; more are counted only.
const MOST_KEPT: usize = 64;

/// What kind of deviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
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

impl Kind {
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

/// What was found, without where and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// One sentence.
    pub what: String,
}

impl Finding {
    /// A finding.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}

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

#[derive(Default)]
struct Cell {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Cell {
    fn add(&self, bytes: usize) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn amount(&self) -> Amount {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Amount { count: load(&self.count), bytes: load(&self.bytes) }
    }
}

#[derive(Default)]
struct Found {
    kept: Vec<Finding>,
    more: u64,
}

/// Shared by the workers of one end for one round.
pub struct Tally {
    /// By peer, then by stream: sent, received.
    passed: Vec<[(Cell, Cell); STREAMS.len()]>,
    found: Mutex<Found>,
    gigae: Mutex<GigaeCounters>,
    ended: Mutex<Option<String>>,
    /// Begin nothing new.
    pub quiet: AtomicBool,
    /// Leave.
    pub finish: AtomicBool,
    /// When to begin nothing new, since the round began, whatever anybody says.
    until: Duration,
}

impl Tally {
    /// For so many peers, and until somebody ends it.
    pub fn new(peers: usize) -> Self {
        Self::until(peers, Duration::MAX)
    }

    /// For so many peers, and this time.
    pub fn until(peers: usize, until: Duration) -> Self {
        Self {
            passed: (0..peers).map(|_| Default::default()).collect(),
            found: Mutex::default(),
            gigae: Mutex::default(),
            ended: Mutex::default(),
            quiet: AtomicBool::new(false),
            finish: AtomicBool::new(false),
            until,
        }
    }

    /// Something was sent to a peer.
    pub fn sent(&self, peer: usize, stream: Stream, bytes: usize) {
        self.passed[peer][stream as usize].0.add(bytes);
    }

    /// Something was received from a peer and verified.
    pub fn received(&self, peer: usize, stream: Stream, bytes: usize) {
        self.passed[peer][stream as usize].1.add(bytes);
    }

    /// Something is not as it should be.
    pub fn found(&self, kind: Kind, what: impl Into<String>) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.kept.len() < MOST_KEPT {
            found.kept.push(Finding::new(kind, what));
        } else {
            found.more += 1;
        }
    }

    /// A worker cannot go on, and so the round ends.
    pub fn end(&self, why: &str) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.get_or_insert_with(|| why.to_owned());
    }

    /// Why a worker has ended, if one has.
    pub fn ended(&self) -> Option<String> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the endpoint counts now.
    pub fn set_gigae(&self, counters: GigaeCounters) {
        *self.gigae.lock().unwrap_or_else(PoisonError::into_inner) = counters;
    }

    /// What the endpoint counted last.
    pub fn gigae(&self) -> GigaeCounters {
        self.gigae.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What passed, by peer.
    pub fn passed(&self) -> Vec<Passed> {
        let both = |(sent, received): &(Cell, Cell)| Both {
            sent: sent.amount(),
            received: received.amount(),
        };
        self.passed.iter().map(|streams| std::array::from_fn(|s| both(&streams[s]))).collect()
    }

    /// Takes what was found, and how many more there were.
    pub fn take_found(&self) -> (Vec<Finding>, u64) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut found.kept), std::mem::take(&mut found.more))
    }

    /// A worker says what time it is since the round began.
    pub fn at(&self, now: Duration) {
        if now >= self.until {
            self.quiet.store(true, Ordering::Relaxed);
        }
    }

    /// Whether to begin nothing new.
    pub fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    /// Whether to leave.
    pub fn is_over(&self) -> bool {
        self.finish.load(Ordering::Relaxed)
    }
}
