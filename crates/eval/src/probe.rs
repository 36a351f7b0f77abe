//! The measuring loops, written once for all transports.
//!
//! [`Probe`] is implemented for every [`Channel`], so each transport gets its own compiled copy of the
//! same loop and no call through a table stands between the clock and the message.
//!
//! - `ask` (round trip, client): clock, send, wait for the echo with the same number, clock.
//! - `echo` (round trip, server): returns a message of the same number and length.
//! - `pour` (stream, client): sends for a stated time, as fast as there is room.
//! - `drain` (stream, server): counts what arrives. The goodput is the receiver's: bytes that arrived
//!   after the warm-up, over the time until the last of them.
//! - `rest` (idle, client): waits for a message that never comes; the server's end is an `echo`.
//!
//! Every loop is bounded in time, whatever the peer does.

mod pace;
mod tally;

use self::pace::Pace;
use self::tally::Tally;
use crate::cost::{Cost, Meter, thread_seconds};
use crate::plan::Wait;
use crate::transport::{Arrival, Calls, Channel, Task, TransportError};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An echo that takes longer is counted as lost: far above any round trip of an idle network, far
/// below a repetition.
const LOST_AFTER: Duration = Duration::from_millis(100);

/// On a reliable transport the same wait ends the measurement with an error.
const SILENT_AFTER: Duration = Duration::from_secs(2);

/// After the sender is done, a receiver that hears nothing for this long is done as well.
const QUIET: Duration = Duration::from_millis(25);

/// How much longer than planned an end may take before it gives up.
pub const GRACE: Duration = Duration::from_secs(4);

/// Messages between two readings of the clock.
const BATCH: u32 = 32;

/// A streaming program flushes when it would otherwise wait, and after so many bytes at the latest:
/// 32 full frames. In between, whatever sends by itself when a batch is full (the library, the raw
/// links, TCP) does so.
const FLUSH_AFTER: usize = 48 << 10;

/// A share of a CPU is recorded in thousandths of a percent.
const PERCENT: f64 = 100.0 * 1e3;

/// Empty looks between two readings of the clock while spinning.
const LOOKS: u32 = 64;

/// Round trips kept per repetition, 4 bytes each; what is beyond is still counted in the costs.
const MOST_SAMPLES: usize = 1 << 22;

/// Signals between a measuring loop and whoever controls it.
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
#[derive(Debug)]
pub enum ProbeError {
    /// The transport failed.
    Transport(TransportError),
    /// A reliable transport delivered nothing, or not all.
    Silent(&'static str),
    /// The counters of the kernel could not be read.
    Counters(io::Error),
    /// The run was interrupted.
    Interrupted,
}

impl std::fmt::Display for ProbeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Transport(error) => error.fmt(f),
            Self::Silent(what) => write!(f, "{what}; check that the peer still runs"),
            Self::Counters(error) => {
                write!(f, "cannot read the counters below /proc: {error}; mount /proc")
            }
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for ProbeError {}

impl From<TransportError> for ProbeError {
    fn from(error: TransportError) -> Self {
        Self::Transport(error)
    }
}

/// What the client measured.
#[derive(Debug, Default)]
pub struct Asked {
    /// Samples in thousandths of the figure's unit: round trips in nanoseconds, the CPU share of an idle
    /// end; empty for a stream.
    pub samples: Vec<u32>,
    /// Those of the warm-up.
    pub warmup: Vec<u32>,
    /// Messages sent in all, warm-up included.
    pub sent: u64,
    /// Bytes sent in all.
    pub bytes: u64,
    /// Echoes that never came.
    pub lost: u64,
    /// Costs of the measured part (round trips) or of all (stream).
    pub cost: Cost,
    /// What the channel says about itself.
    pub note: Option<String>,
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
    /// Rates of the slices after the warm-up, in bytes per millisecond.
    pub slices: Vec<u32>,
    /// The same of the warm-up.
    pub warmup: Vec<u32>,
    /// Costs from being ready to the last message.
    pub cost: Cost,
    /// What the channel says about itself.
    pub note: Option<String>,
}

/// A loop over a channel.
pub trait Probe: Send {
    /// The client's loop of the task's experiment.
    fn ask(
        &mut self,
        task: &Task,
        meter: &Meter,
        signals: &Signals<'_>,
        reliable: bool,
    ) -> Result<Asked, ProbeError>;
    /// The client's loop of a stream.
    fn pour(
        &mut self,
        task: &Task,
        meter: &Meter,
        signals: &Signals<'_>,
    ) -> Result<Asked, ProbeError>;
    /// The client's loop of an idle end.
    fn rest(
        &mut self,
        task: &Task,
        meter: &Meter,
        signals: &Signals<'_>,
    ) -> Result<Asked, ProbeError>;
    /// The server's loop of a round trip, and of an idle end.
    fn echo(
        &mut self,
        task: &Task,
        meter: &Meter,
        signals: &Signals<'_>,
    ) -> Result<Answered, ProbeError>;
    /// The server's loop of a stream.
    fn drain(
        &mut self,
        task: &Task,
        meter: &Meter,
        signals: &Signals<'_>,
        reliable: bool,
    ) -> Result<Answered, ProbeError>;
}

impl<C: Channel> Probe for C {
    fn ask(
        &mut self,
        task: &Task,
        meter: &Meter,
        signals: &Signals<'_>,
        reliable: bool,
    ) -> Result<Asked, ProbeError> {
        let limit = if reliable { SILENT_AFTER } else { LOST_AFTER };
        let mut asked = Asked { samples: reserved(task), ..Asked::default() };
        let (begin, pace) = (Instant::now(), Pace::new(task));
        let warm = begin + Duration::from_secs_f64(task.warmup);
        while Instant::now() < warm {
            pace.wait(asked.sent, signals)?;
            let time = round_trip(self, asked.sent as u32, task.size, limit, signals)?;
            asked.sent += 1;
            keep(&mut asked.warmup, time);
            if time.is_none() && reliable {
                return Err(ProbeError::Silent("no echo came back"));
            }
        }
        let before = meter.read().map_err(ProbeError::Counters)?;
        let calls = self.calls();
        let end = Instant::now() + Duration::from_secs_f64(task.measure);
        loop {
            pace.wait(asked.sent, signals)?;
            let time = round_trip(self, asked.sent as u32, task.size, limit, signals)?;
            asked.sent += 1;
            match time {
                Some(_) => keep(&mut asked.samples, time),
                None if reliable => return Err(ProbeError::Silent("no echo came back")),
                None => asked.lost += 1,
            }
            if Instant::now() >= end {
                break;
            }
        }
        let made = self.calls();
        asked.cost = before.until(&meter.read().map_err(ProbeError::Counters)?);
        charge(&mut asked.cost, calls, made);
        asked.bytes = asked.sent * task.size as u64;
        asked.note = self.note();
        Ok(asked)
    }

    fn pour(
        &mut self,
        task: &Task,
        meter: &Meter,
        signals: &Signals<'_>,
    ) -> Result<Asked, ProbeError> {
        let before = meter.read().map_err(ProbeError::Counters)?;
        let calls = self.calls();
        let mut asked = Asked::default();
        let pace = Pace::new(task);
        let end = Instant::now() + Duration::from_secs_f64(task.warmup + task.measure);
        let mut unflushed = 0;
        while Instant::now() < end {
            if signals.abort.load(Ordering::Relaxed) {
                return Err(ProbeError::Interrupted);
            }
            let mut room = true;
            for _ in 0..BATCH {
                room = !pace.early(asked.sent) && self.send(asked.sent as u32, task.size)?;
                if !room {
                    break;
                }
                asked.sent += 1;
                unflushed += task.size;
            }
            if !room || unflushed >= FLUSH_AFTER {
                self.flush()?;
                unflushed = 0;
            }
        }
        self.flush()?;
        let deadline = end + GRACE;
        while !self.settled()? {
            if signals.abort.load(Ordering::Relaxed) {
                return Err(ProbeError::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(ProbeError::Silent("the stream's end was never acknowledged"));
            }
        }
        let made = self.calls();
        asked.cost = before.until(&meter.read().map_err(ProbeError::Counters)?);
        charge(&mut asked.cost, calls, made);
        asked.bytes = asked.sent * task.size as u64;
        asked.note = self.note();
        Ok(asked)
    }

    fn rest(
        &mut self,
        task: &Task,
        meter: &Meter,
        signals: &Signals<'_>,
    ) -> Result<Asked, ProbeError> {
        let mut asked = Asked::default();
        wait_in_vain(self, task.warmup, signals)?;
        let before = meter.read().map_err(ProbeError::Counters)?;
        let calls = self.calls();
        // The thread's own time only: interrupts of its CPU are counted in ticks and mostly not ours.
        let (begin, spent) = (Instant::now(), thread_seconds());
        wait_in_vain(self, task.measure, signals)?;
        let share = (thread_seconds() - spent) / begin.elapsed().as_secs_f64();
        asked.samples.push((share.clamp(0.0, 1.0) * PERCENT) as u32);
        let made = self.calls();
        asked.cost = before.until(&meter.read().map_err(ProbeError::Counters)?);
        charge(&mut asked.cost, calls, made);
        asked.note = self.note();
        Ok(asked)
    }

    fn echo(
        &mut self,
        task: &Task,
        meter: &Meter,
        signals: &Signals<'_>,
    ) -> Result<Answered, ProbeError> {
        let before = meter.read().map_err(ProbeError::Counters)?;
        let calls = self.calls();
        let mut answered = Answered::default();
        let (start, pace) = (Instant::now(), Pace::new(task));
        let deadline = deadline(task);
        // The time of the last message is known to within a look at the clock; nothing more exact is
        // needed, for it only tells how long the costs were counted.
        let mut idle = 0;
        let mut last = start;
        loop {
            if let Some(arrival) = self.receive()? {
                while !self.send(arrival.number, arrival.bytes)? {
                    expired(deadline, signals)?;
                }
                self.flush()?;
                answered.messages += 1;
                answered.bytes += arrival.bytes as u64;
                pace.check(answered.bytes)?;
                idle = 0;
                continue;
            }
            idle += 1;
            if task.wait == Wait::Spin && idle % LOOKS != 0 {
                std::hint::spin_loop();
                continue;
            }
            let now = expired(deadline, signals)?;
            // A napping end looks in vain for the first time right after its last message.
            if task.wait == Wait::Spin || idle == 1 {
                last = now;
            }
            if signals.finished.load(Ordering::Acquire) {
                break;
            }
        }
        let made = self.calls();
        answered.cost = before.until(&meter.read().map_err(ProbeError::Counters)?);
        // Where the kernel answers (ICMP), no message ever comes here.
        if answered.messages > 0 {
            let busy = (last - start).as_secs_f64().max(f64::MIN_POSITIVE);
            answered.cost.seconds = answered.cost.seconds.min(busy);
        }
        charge(&mut answered.cost, calls, made);
        answered.note = self.note();
        Ok(answered)
    }

    fn drain(
        &mut self,
        task: &Task,
        meter: &Meter,
        signals: &Signals<'_>,
        reliable: bool,
    ) -> Result<Answered, ProbeError> {
        let before = meter.read().map_err(ProbeError::Counters)?;
        let calls = self.calls();
        let (start, pace) = (Instant::now(), Pace::new(task));
        let deadline = deadline(task);
        // A sleeping end makes a system call per message anyway, so its clock may be read as often.
        let batch = if task.wait == Wait::Spin { BATCH } else { 1 };
        let mut tally = Tally::new(Duration::from_secs_f64(task.warmup));
        let (mut unseen, mut idle) = (0, 0);
        loop {
            match self.receive()? {
                Some(Arrival { bytes, .. }) => {
                    tally.add(bytes);
                    unseen += 1;
                    if unseen >= batch {
                        tally.tick(Instant::now());
                        pace.check(tally.bytes)?;
                        unseen = 0;
                    }
                    idle = 0;
                    continue;
                }
                None if unseen > 0 => {
                    tally.tick(Instant::now());
                    unseen = 0;
                }
                None => {}
            }
            idle += 1;
            if task.wait == Wait::Spin && idle % LOOKS != 0 {
                std::hint::spin_loop();
                continue;
            }
            let now = expired(deadline, signals)?;
            if signals.finished.load(Ordering::Acquire) {
                let all = tally.bytes >= signals.expected.load(Ordering::Acquire);
                if all || now > tally.last.unwrap_or(start) + QUIET && !reliable {
                    break;
                }
            }
        }
        let made = self.calls();
        let mut answered = tally.answer();
        answered.cost = before.until(&meter.read().map_err(ProbeError::Counters)?);
        charge(&mut answered.cost, calls, made);
        let busy = tally.last.map_or(answered.cost.seconds, |last| (last - start).as_secs_f64());
        answered.cost.seconds = answered.cost.seconds.min(busy.max(f64::MIN_POSITIVE));
        answered.note = self.note();
        Ok(answered)
    }
}

/// One message there and back; `None` if the echo did not come within `limit`.
fn round_trip<C: Channel>(
    channel: &mut C,
    number: u32,
    size: usize,
    limit: Duration,
    signals: &Signals<'_>,
) -> Result<Option<u32>, ProbeError> {
    // Where answers are quick, there may never be a vain look.
    if signals.abort.load(Ordering::Relaxed) {
        return Err(ProbeError::Interrupted);
    }
    let start = Instant::now();
    let mut looks = 0u32;
    while !channel.send(number, size)? {
        if expired_look(&mut looks, start, limit, signals)? {
            return Ok(None);
        }
    }
    channel.flush()?;
    loop {
        match channel.receive()? {
            Some(arrival) if arrival.number == number => {
                let elapsed = start.elapsed().as_nanos();
                return Ok(Some(u32::try_from(elapsed).unwrap_or(u32::MAX)));
            }
            // A late echo of a message that was given up.
            Some(_) => {}
            None => {
                if expired_look(&mut looks, start, limit, signals)? {
                    return Ok(None);
                }
            }
        }
    }
}

/// Receives, where nothing is sent, for a while; what comes all the same is not looked at.
fn wait_in_vain<C: Channel>(
    channel: &mut C,
    seconds: f64,
    signals: &Signals<'_>,
) -> Result<(), ProbeError> {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        if signals.abort.load(Ordering::Relaxed) {
            return Err(ProbeError::Interrupted);
        }
        channel.receive()?;
    }
    Ok(())
}

/// Counts an empty look; every so often, says whether the limit has passed.
fn expired_look(
    looks: &mut u32,
    start: Instant,
    limit: Duration,
    signals: &Signals<'_>,
) -> Result<bool, ProbeError> {
    *looks = looks.wrapping_add(1);
    // A napping receive takes milliseconds, a spinning one a fraction of a microsecond; the first few
    // looks are checked at once so that naps stay within the limit as well.
    if *looks > 20 && !looks.is_multiple_of(LOOKS) {
        std::hint::spin_loop();
        return Ok(false);
    }
    if signals.abort.load(Ordering::Relaxed) {
        return Err(ProbeError::Interrupted);
    }
    Ok(start.elapsed() >= limit)
}

fn deadline(task: &Task) -> Instant {
    Instant::now() + Duration::from_secs_f64(task.warmup + task.measure) + GRACE * 2
}

/// The time, unless that is past the deadline or the run is over.
fn expired(deadline: Instant, signals: &Signals<'_>) -> Result<Instant, ProbeError> {
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

fn reserved(task: &Task) -> Vec<u32> {
    // One sample per microsecond is more than any round trip through a kernel gives.
    Vec::with_capacity(((task.measure * 1e6) as usize).min(MOST_SAMPLES))
}

fn keep(samples: &mut Vec<u32>, time: Option<u32>) {
    if let Some(time) = time
        && samples.len() < MOST_SAMPLES
    {
        samples.push(time);
    }
}

fn charge(cost: &mut Cost, before: Calls, after: Calls) {
    cost.syscalls = after.all - before.all;
    cost.send_calls = after.send - before.send;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wire that loses every third message and answers the others.
    struct Lossy {
        waiting: Option<u32>,
        calls: u64,
    }

    impl Channel for Lossy {
        fn send(&mut self, number: u32, _size: usize) -> Result<bool, TransportError> {
            self.calls += 1;
            self.waiting = (!number.is_multiple_of(3)).then_some(number);
            Ok(true)
        }
        fn receive(&mut self) -> Result<Option<Arrival>, TransportError> {
            Ok(self.waiting.take().map(|number| Arrival { number, bytes: 4 }))
        }
        fn calls(&self) -> Calls {
            Calls { all: self.calls, send: self.calls }
        }
    }

    #[test]
    fn a_lost_echo_is_given_up_and_the_next_one_is_measured() {
        let abort = AtomicBool::new(false);
        let signals = Signals::new(&abort);
        let mut wire = Lossy { waiting: None, calls: 0 };
        let limit = Duration::from_millis(1);
        assert!(round_trip(&mut wire, 0, 4, limit, &signals).unwrap().is_none());
        assert!(round_trip(&mut wire, 1, 4, limit, &signals).unwrap().is_some());
    }

    #[test]
    fn an_interrupted_wait_ends_at_once() {
        let abort = AtomicBool::new(true);
        let signals = Signals::new(&abort);
        let mut wire = Lossy { waiting: None, calls: 0 };
        let ended = round_trip(&mut wire, 0, 4, Duration::from_secs(60), &signals);
        assert!(matches!(ended, Err(ProbeError::Interrupted)));
    }

    /// A link with room for everything that counts its flushes and how many messages each one met.
    #[derive(Default)]
    struct Batching {
        kept: u64,
        flushed: Vec<u64>,
    }

    impl Channel for Batching {
        fn send(&mut self, _number: u32, _size: usize) -> Result<bool, TransportError> {
            self.kept += 1;
            Ok(true)
        }
        fn flush(&mut self) -> Result<(), TransportError> {
            self.flushed.push(std::mem::take(&mut self.kept));
            Ok(())
        }
        fn receive(&mut self) -> Result<Option<Arrival>, TransportError> {
            Ok(None)
        }
        fn calls(&self) -> Calls {
            Calls::default()
        }
    }

    #[test]
    fn a_stream_is_flushed_by_bytes_whatever_its_messages_are() {
        for (size, per_flush) in [(8, 6144), (1468, 64), (65_536, 32)] {
            let abort = AtomicBool::new(false);
            let task = Task {
                experiment: crate::plan::Experiment::Stream,
                transport: "test".into(),
                setting: crate::plan::Setting::Default,
                wait: Wait::Spin,
                size,
                warmup: 0.0,
                measure: 0.02,
                rate: None,
            };
            let mut link = Batching::default();
            let meter = Meter::new(&crate::site::Site::find("lo").unwrap());
            let asked = link.pour(&task, &meter, &Signals::new(&abort)).unwrap();
            let (_, whole) = link.flushed.split_last().unwrap();
            assert!(whole.iter().all(|&batch| batch == per_flush), "{size} B: {whole:?}");
            assert_eq!(link.flushed.iter().sum::<u64>(), asked.sent, "the last ones stay behind");
        }
    }
}
