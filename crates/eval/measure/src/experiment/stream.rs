//! A stream: one end sends for a stated time, as fast as there is room; the other counts what
//! arrives. The goodput is the receiver's: bytes that arrived after the warm-up, over the time
//! until the last of them.

use super::Method;
use super::pace::Pace;
use super::tally::Tally;
use crate::channel::{Calls, Channel, ReceivedMessage, Slept, TransportError};
use crate::probe::{
    Answered, Asked, BATCH, GRACE, LOOKS, Loop, ProbeError, QUIET, charge, deadline, expired,
};
use gigae_eval_model::plan::Wait;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) const METHOD: Method = Method {
    figure: goodput,
    samples: |_, answered| (&answered.slices, &answered.warmup),
    lost: |asked, answered| asked.sent.saturating_sub(answered.messages),
};

/// A streaming program flushes when it would otherwise wait, and after this many bytes at the
/// latest: 32 full frames. In between, whatever sends by itself when a batch is full (the library,
/// the raw links, TCP) does so.
const FLUSH_AFTER: usize = 48 << 10;

pub(super) fn goodput(_: &Asked, answered: &Answered) -> f64 {
    if answered.measured_seconds > 0.0 {
        answered.measured_bytes as f64 / answered.measured_seconds / 1e6
    } else {
        0.0
    }
}

/// The client's loop.
pub fn ask<C: Channel>(channel: &mut C, run: &Loop<'_>) -> Result<Asked, ProbeError> {
    let (task, abort) = (run.task, run.signals.abort);
    let before = run.meter.read().map_err(ProbeError::Counters)?;
    let calls = channel.calls();
    let mut asked = Asked::default();
    let pace = Pace::new(task);
    let end = Instant::now() + Duration::from_secs_f64(task.warmup + task.measure);
    let mut unflushed = 0;
    while Instant::now() < end {
        if abort.load(Ordering::Relaxed) {
            return Err(ProbeError::Interrupted);
        }
        burst(channel, &mut asked.sent, task.size, &mut unflushed, &pace)?;
    }
    channel.flush()?;
    let deadline = end + GRACE;
    while !channel.settled()? {
        if abort.load(Ordering::Relaxed) {
            return Err(ProbeError::Interrupted);
        }
        if Instant::now() > deadline {
            return Err(ProbeError::Silent("the stream's end was never acknowledged"));
        }
    }
    let made = channel.calls();
    asked.cost = before.until(&run.meter.read().map_err(ProbeError::Counters)?);
    charge(&mut asked.cost, calls, made);
    asked.bytes = asked.sent * task.size as u64;
    asked.repeated = channel.repeated();
    asked.note = channel.note();
    Ok(asked)
}

/// What is sent between two readings of the clock.
fn burst<C: Channel>(
    channel: &mut C,
    sent: &mut u64,
    size: usize,
    unflushed: &mut usize,
    pace: &Pace,
) -> Result<(), TransportError> {
    let mut room = true;
    for _ in 0..BATCH {
        room = !pace.early(*sent) && channel.send(*sent as u32, size)?;
        if !room {
            break;
        }
        *sent += 1;
        *unflushed += size;
    }
    if !room || *unflushed >= FLUSH_AFTER {
        channel.flush()?;
        *unflushed = 0;
    }
    Ok(())
}

/// The clock is read when this many bytes have come, although they are fewer than [`BATCH`]
/// messages: 32 long ones take a third of a second at 100 Mbit/s, and the end of the warm-up and
/// the last arrival are known to within that. At 10 GB/s this is a reading every 6.5 us, which
/// takes less than a hundredth of that.
const TICK_AFTER: usize = 64 << 10;

/// Takes in a stream, and reads the clock now and then.
struct Intake {
    tally: Tally,
    /// Whether a receive may sleep.
    sleeps: bool,
    /// What came since the clock was read last.
    messages: u32,
    bytes: usize,
}

impl Intake {
    fn new(warmup: Duration, wait: Wait) -> Self {
        Self { tally: Tally::new(warmup), sleeps: wait != Wait::Spin, messages: 0, bytes: 0 }
    }

    /// Takes the next message; `false` if no message is there now.
    #[inline]
    fn take<C: Channel>(
        &mut self,
        channel: &mut C,
        clock: impl Fn() -> Instant,
    ) -> Result<bool, TransportError> {
        let arrival = channel.receive()?;
        let slept = if self.sleeps { channel.slept() } else { Slept::No };
        if let Slept::From(begin) = slept {
            // All that is not accounted for had come by then.
            self.tick(|| begin);
        }
        let Some(ReceivedMessage { bytes, .. }) = arrival else {
            self.tick(clock);
            return Ok(false);
        };
        self.tally.add(bytes);
        self.messages += 1;
        self.bytes += bytes;
        // A channel that does not know when it sleeps may have slept before this message.
        if self.messages >= BATCH || self.bytes >= TICK_AFTER || slept == Slept::Unknown {
            self.tick(clock);
        }
        Ok(true)
    }

    /// Accounts for what came, if anything did.
    #[inline]
    fn tick(&mut self, time: impl FnOnce() -> Instant) {
        if self.messages > 0 {
            self.tally.tick(time());
            (self.messages, self.bytes) = (0, 0);
        }
    }
}

/// The server's loop.
pub fn answer<C: Channel>(channel: &mut C, run: &Loop<'_>) -> Result<Answered, ProbeError> {
    let (task, signals) = (run.task, run.signals);
    let before = run.meter.read().map_err(ProbeError::Counters)?;
    let calls = channel.calls();
    let (start, pace) = (Instant::now(), Pace::new(task));
    let deadline = deadline(task);
    let mut intake = Intake::new(Duration::from_secs_f64(task.warmup), task.wait);
    let mut idle = 0;
    loop {
        if intake.take(channel, Instant::now)? {
            if intake.messages == 0 {
                pace.check(intake.tally.bytes)?;
            }
            idle = 0;
            continue;
        }
        idle += 1;
        if task.wait == Wait::Spin && idle % LOOKS != 0 {
            std::hint::spin_loop();
            continue;
        }
        let now = expired(deadline, signals)?;
        if signals.finished.load(Ordering::Acquire) {
            let all = intake.tally.bytes >= signals.expected.load(Ordering::Acquire);
            if all || now > intake.tally.last().unwrap_or(start) + QUIET && !run.reliable {
                break;
            }
        }
    }
    let made = channel.calls();
    let Intake { tally, .. } = intake;
    let mut answered = tally.answer();
    answered.cost = before.until(&run.meter.read().map_err(ProbeError::Counters)?);
    charge(&mut answered.cost, calls, made);
    let busy = tally.last().map_or(answered.cost.seconds, |last| (last - start).as_secs_f64());
    answered.cost.seconds = answered.cost.seconds.min(busy.max(f64::MIN_POSITIVE));
    answered.note = channel.note();
    Ok(answered)
}

/// What this loop costs per message, in nanoseconds, at the end where it costs more: over a channel
/// that takes everything and gives as much, for `messages` messages.
pub fn overhead(messages: u32) -> f64 {
    let per_message = |begin: Instant| begin.elapsed().as_nanos() as f64 / f64::from(messages);
    let mut void = NullChannel;
    let (mut sent, mut unflushed, pace) = (0, 0, Pace::free());
    let begin = Instant::now();
    while sent < u64::from(messages) {
        std::hint::black_box(Instant::now());
        // It cannot fail: there is always room.
        let _ = burst(&mut void, &mut sent, 8, &mut unflushed, &pace);
    }
    let sending = per_message(begin);
    let mut intake = Intake::new(Duration::ZERO, Wait::Sleep);
    let begin = Instant::now();
    for _ in 0..messages {
        // Nor can this.
        let _ = intake.take(&mut void, Instant::now);
    }
    std::hint::black_box(intake.tally.answer());
    sending.max(per_message(begin))
}

/// A channel that takes everything and always has something.
struct NullChannel;

impl Channel for NullChannel {
    #[inline]
    fn send(&mut self, number: u32, _size: usize) -> Result<bool, TransportError> {
        std::hint::black_box(number);
        Ok(true)
    }

    #[inline]
    fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
        Ok(Some(std::hint::black_box(ReceivedMessage { number: 0, bytes: 8 })))
    }

    fn slept(&self) -> Slept {
        Slept::No
    }

    fn calls(&self) -> Calls {
        Calls::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Task;
    use crate::cost::Meter;
    use crate::probe::Signals;
    use std::sync::atomic::AtomicBool;

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
        fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
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
                experiment: gigae_eval_model::experiment::Experiment::Stream,
                transport: "test".into(),
                setting: gigae_eval_model::plan::Setting::Default,
                condition: gigae_eval_model::plan::Condition::default(),
                wait: Wait::Spin,
                size,
                warmup: 0.0,
                measure: 0.02,
                rate: None,
            };
            let mut link = Batching::default();
            let meter = Meter::new(&crate::site::Site::find("lo").unwrap());
            let signals = Signals::new(&abort);
            let run = Loop { task: &task, meter: &meter, signals: &signals, reliable: true };
            let asked = ask(&mut link, &run).unwrap();
            let (_, whole) = link.flushed.split_last().unwrap();
            assert!(whole.iter().all(|&batch| batch == per_flush), "{size} B: {whole:?}");
            assert_eq!(link.flushed.iter().sum::<u64>(), asked.sent, "the last ones stay behind");
        }
    }

    /// Messages of a size that come one a microsecond; the receiver sleeps after every `burst`.
    struct SimulatedArrivals {
        size: usize,
        burst: u32,
        came: u32,
        zero: Instant,
        reports_sleep: bool,
    }

    impl SimulatedArrivals {
        fn new(size: usize, burst: u32, reports_sleep: bool) -> Self {
            Self { size, burst, came: 0, zero: Instant::now(), reports_sleep }
        }
    }

    impl Channel for SimulatedArrivals {
        fn send(&mut self, _number: u32, _size: usize) -> Result<bool, TransportError> {
            Ok(false)
        }
        fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
            self.came += 1;
            Ok(Some(ReceivedMessage { number: 0, bytes: self.size }))
        }
        fn slept(&self) -> Slept {
            if !self.reports_sleep {
                return Slept::Unknown;
            }
            let before = self.came - 1;
            match before > 0 && before.is_multiple_of(self.burst) {
                true => Slept::From(self.zero + Duration::from_micros(before.into())),
                false => Slept::No,
            }
        }
        fn calls(&self) -> Calls {
            Calls::default()
        }
    }

    /// Takes `messages` messages in, and gives how often the clock was read.
    fn taken(mut channel: SimulatedArrivals, wait: Wait, messages: u32) -> (Intake, u32) {
        let mut intake = Intake::new(Duration::ZERO, wait);
        let (reads, time) = (std::cell::Cell::new(0), channel.zero);
        for number in 0..messages {
            let clock = || {
                reads.set(reads.get() + 1);
                time + Duration::from_micros(number.into())
            };
            assert!(intake.take(&mut channel, clock).unwrap());
        }
        (intake, reads.get())
    }

    #[test]
    fn a_stream_without_a_pause_is_timed_once_a_batch_however_its_receiver_waits() {
        for wait in [Wait::Spin, Wait::Sleep, Wait::Adaptive] {
            for (size, reads) in [(8, 20), (4096, 40), (1 << 20, 640)] {
                assert_eq!(
                    taken(SimulatedArrivals::new(size, u32::MAX, true), wait, 640).1,
                    reads,
                    "{size} B, {wait:?}"
                );
            }
        }
        let unknown = taken(SimulatedArrivals::new(8, u32::MAX, false), Wait::Sleep, 640);
        assert_eq!(unknown.1, 640, "it may have slept each time");
    }

    #[test]
    fn what_came_before_a_sleep_came_before_it() {
        let coming = SimulatedArrivals::new(8, 5, true);
        let last = coming.zero + Duration::from_micros(5);
        let (intake, reads) = taken(coming, Wait::Sleep, 6);
        assert_eq!((intake.tally.last(), reads, intake.messages), (Some(last), 0, 1));
    }
}
