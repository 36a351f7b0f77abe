//! What the loops of all experiments share: what they are given ([`Loop`]), what they give
//! ([`Asked`], [`Answered`]), and their bounds. Every loop is bounded in time, whatever the peer
//! does.

use crate::channel::{Calls, Task, TransportError};
use crate::cost::Meter;
use gigae_eval_model::cost::Cost;
use gigae_eval_model::note::Note;
use gigae_eval_model::wait::Wait;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An echo that takes longer is counted as lost: far above any round trip of an idle network, far
/// below a repetition.
pub const LOST_AFTER: Duration = Duration::from_millis(100);

/// On a reliable transport the same wait ends the measurement with an error.
pub const SILENT_AFTER: Duration = Duration::from_secs(2);

/// After the sender is done, a receiver that gets nothing for this long is done as well.
pub const QUIET: Duration = Duration::from_millis(25);

/// How much longer than planned an end may take before it gives up.
pub const GRACE: Duration = Duration::from_secs(4);

/// Messages between two readings of the clock.
pub const BATCH: u32 = 32;

/// Empty looks between two readings of the clock while spinning.
pub const LOOKS: u32 = 64;

/// Round trips kept per repetition, 4 bytes each; what is beyond is still counted in the costs.
pub const MOST_SAMPLES: usize = 1 << 22;

/// Signals between a measuring loop and the thread that controls it.
#[derive(Debug)]
pub struct Signals<'a> {
    /// The peer is done.
    pub finished: AtomicBool,
    /// Bytes that the peer sent, valid once it is done.
    pub expected: AtomicU64,
    /// Stop at once: the run is interrupted or the control connection is gone.
    pub abort: &'a AtomicBool,
}

impl<'a> Signals<'a> {
    /// Nothing has happened yet, except that `abort` may be set.
    pub fn new(abort: &'a AtomicBool) -> Self {
        Self { finished: AtomicBool::new(false), expected: AtomicU64::new(0), abort }
    }
}

/// Why a loop ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The transport failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A reliable transport delivered nothing, or not all.
    #[error("{0}; check that the peer still runs")]
    Silent(&'static str),
    /// The counters of the kernel could not be read.
    #[error("cannot read the counters below /proc: {0}; mount /proc")]
    Counters(io::Error),
    /// The run was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// What the client measured.
#[derive(Debug, Default)]
pub struct Asked {
    /// Samples in thousandths of the figure's unit: round trips in nanoseconds, the CPU share of an
    /// idle end; empty for a stream.
    pub samples: Vec<u32>,
    /// Those of the warm-up.
    pub warmup: Vec<u32>,
    /// Messages sent in all, warm-up included.
    pub sent: u64,
    /// Bytes sent in all.
    pub bytes: u64,
    /// Echoes that never came.
    pub lost: u64,
    /// Segments or frames that the transport has sent again, where that is known.
    pub repeated: u64,
    /// What is known of many senders.
    pub crowd: Crowd,
    /// Round trip of a cache line between the CPUs of both ends just before, in nanoseconds, where
    /// both are of this machine.
    pub core_to_core: Option<f64>,
    /// Costs of the measured part (round trips) or of all (stream).
    pub cost: Cost,
    /// What the channel says about itself.
    pub note: Option<Note>,
}

/// What the server measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// Messages that arrived; chunks on a byte stream.
    pub messages: u64,
    /// Bytes that arrived in all.
    pub bytes: u64,
    /// Bytes that arrived after the warm-up.
    pub measured_bytes: u64,
    /// Time from the end of the warm-up to the last of them, in seconds.
    pub measured_seconds: f64,
    /// The end of the warm-up by this end's clock (clock_gettime(2) `CLOCK_MONOTONIC`), in seconds,
    /// so that ends which count at the same time can be put together; zero if nothing was measured.
    pub measured_from: f64,
    /// Rates of the slices after the warm-up, in bytes per millisecond.
    pub slices: Vec<u32>,
    /// The same of the warm-up.
    pub warmup: Vec<u32>,
    /// Costs from being ready to the last message.
    pub cost: Cost,
    /// What the channel says about itself.
    pub note: Option<Note>,
}

/// What a loop is given.
#[derive(Clone, Copy, Debug)]
pub struct Loop<'a> {
    /// What to do.
    pub task: &'a Task,
    /// Reads this end's counters.
    pub meter: &'a Meter,
    /// Ends it from outside.
    pub signals: &'a Signals<'a>,
    /// Whether every message arrives.
    pub reliable: bool,
}

/// How long an answer is waited for, and how.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For how long.
    pub limit: Duration,
    /// How it waits.
    pub wait: Wait,
}

/// Counts an empty look; every so often, says whether the limit has passed.
pub fn expired_look(
    looks: &mut u32,
    start: Instant,
    patience: Patience,
    signals: &Signals<'_>,
) -> Result<bool, ProbeError> {
    *looks = looks.wrapping_add(1);
    // A napping receive takes milliseconds, a spinning one a fraction of a microsecond.
    if patience.wait == Wait::Spin && !looks.is_multiple_of(LOOKS) {
        std::hint::spin_loop();
        return Ok(false);
    }
    if signals.abort.load(Ordering::Relaxed) {
        return Err(ProbeError::Interrupted);
    }
    Ok(start.elapsed() >= patience.limit)
}

/// When a loop gives up whatever its peer does.
pub fn deadline(task: &Task) -> Instant {
    Instant::now() + Duration::from_secs_f64(task.warmup + task.measure) + GRACE * 2
}

/// The time, unless that is past the deadline or the run is over.
pub fn expired(deadline: Instant, signals: &Signals<'_>) -> Result<Instant, ProbeError> {
    if signals.abort.load(Ordering::Relaxed) {
        return Err(ProbeError::Interrupted);
    }
    let now = Instant::now();
    if now > deadline {
        return Err(ProbeError::Silent(
            "the peer did not finish in time, or not all of its messages arrived",
        ));
    }
    Ok(now)
}

/// Memory for the samples of a task.
pub fn reserved(task: &Task) -> Vec<u32> {
    // One sample per microsecond is more than any round trip through a kernel gives.
    Vec::with_capacity(((task.measure * 1e6) as usize).min(MOST_SAMPLES))
}

/// Keeps a sample while there is room.
pub fn keep(samples: &mut Vec<u32>, time: Option<u32>) {
    if let Some(time) = time
        && samples.len() < MOST_SAMPLES
    {
        samples.push(time);
    }
}

/// Counts the system calls between two readings.
pub fn charge(cost: &mut Cost, before: Calls, after: Calls) {
    cost.syscalls = after.all - before.all;
    cost.send_calls = after.send - before.send;
    cost.datagrams_sent = after.sent - before.sent;
    cost.receive_calls = after.receive - before.receive;
    cost.datagrams_received = after.received - before.received;
}

/// What is known of many senders in one repetition.
#[derive(Clone, Debug, Default)]
pub struct Crowd {
    /// Goodput of each sender, in 10^6 bytes per second.
    pub rates: Vec<f64>,
    /// Round trips beside, in nanoseconds.
    pub trips: Vec<u32>,
    /// ECHOs beside that were not answered.
    pub trips_lost: u64,
}
