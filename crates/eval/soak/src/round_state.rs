//! What the workers of one end count and find in a round. They share it with the thread that
//! watches them.

use gigae_eval_model::soak::{Amount, Both, DeviationKind, FoundDeviation, GigaeCounters, Passed};
use gigae_eval_model::traffic::{STREAMS, Stream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Deviations that are kept until they are taken; more are counted only.
const MOST_KEPT: usize = 64;

#[derive(Default)]
struct Passing {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Passing {
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
struct RoundFindings {
    kept: Vec<FoundDeviation>,
    more: u64,
}

/// Shared by the workers of one end for one round.
pub struct RoundState {
    /// By peer, then by stream: sent, received.
    passed: Vec<[(Passing, Passing); STREAMS.len()]>,
    found: Mutex<RoundFindings>,
    gigae: Mutex<GigaeCounters>,
    ended: Mutex<Option<String>>,
    /// Begin nothing new.
    pub quiet: AtomicBool,
    /// Leave.
    pub finish: AtomicBool,
    /// When to begin nothing new, since the round began, whatever anybody says.
    until: Duration,
}

impl RoundState {
    /// For `peers` peers, without a time limit.
    pub fn new(peers: usize) -> Self {
        Self::until(peers, Duration::MAX)
    }

    /// For `peers` peers, and for this time.
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
    pub fn found(&self, kind: DeviationKind, what: impl Into<String>) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.kept.len() < MOST_KEPT {
            found.kept.push(FoundDeviation::new(kind, what));
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
        let both = |(sent, received): &(Passing, Passing)| Both {
            sent: sent.amount(),
            received: received.amount(),
        };
        self.passed.iter().map(|streams| std::array::from_fn(|s| both(&streams[s]))).collect()
    }

    /// Takes what was found, and how many more there were.
    pub fn take_found(&self) -> (Vec<FoundDeviation>, u64) {
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
