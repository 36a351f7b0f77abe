//! A stream: one end sends for a stated time, as fast as there is room; the other counts what arrives.
//! The goodput is the receiver's: bytes that arrived after the warm-up, over the time until the last
//! of them.

use super::Method;
use super::pace::Pace;
use super::tally::Tally;
use crate::channel::{Arrival, Calls, Channel, TransportError};
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

/// A streaming program flushes when it would otherwise wait, and after so many bytes at the latest:
/// 32 full frames. In between, whatever sends by itself when a batch is full (the library, the raw
/// links, TCP) does so.
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
        burst(channel, &mut asked.sent, task.size, (&mut unflushed, &pace))?;
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
    (unflushed, pace): (&mut usize, &Pace),
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

/// The server's loop.
pub fn answer<C: Channel>(channel: &mut C, run: &Loop<'_>) -> Result<Answered, ProbeError> {
    let (task, signals) = (run.task, run.signals);
    let before = run.meter.read().map_err(ProbeError::Counters)?;
    let calls = channel.calls();
    let (start, pace) = (Instant::now(), Pace::new(task));
    let deadline = deadline(task);
    // A sleeping end makes a system call per message anyway, so its clock may be read as often.
    let batch = if task.wait == Wait::Spin { BATCH } else { 1 };
    let mut tally = Tally::new(Duration::from_secs_f64(task.warmup));
    let (mut unseen, mut idle) = (0, 0);
    loop {
        match channel.receive()? {
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
            if all || now > tally.last().unwrap_or(start) + QUIET && !run.reliable {
                break;
            }
        }
    }
    let made = channel.calls();
    let mut answered = tally.answer();
    answered.cost = before.until(&run.meter.read().map_err(ProbeError::Counters)?);
    charge(&mut answered.cost, calls, made);
    let busy = tally.last().map_or(answered.cost.seconds, |last| (last - start).as_secs_f64());
    answered.cost.seconds = answered.cost.seconds.min(busy.max(f64::MIN_POSITIVE));
    answered.note = channel.note();
    Ok(answered)
}

/// What this loop costs per message, in nanoseconds, at the end where it costs more: over a channel
/// that takes everything and gives as much, so many messages.
pub fn overhead(messages: u32) -> f64 {
    let per_message = |begin: Instant| begin.elapsed().as_nanos() as f64 / f64::from(messages);
    let mut void = Void;
    let (mut sent, mut unflushed, pace) = (0, 0, Pace::free());
    let begin = Instant::now();
    while sent < u64::from(messages) {
        std::hint::black_box(Instant::now());
        // It cannot fail: there is always room.
        let _ = burst(&mut void, &mut sent, 8, (&mut unflushed, &pace));
    }
    let sending = per_message(begin);
    let mut tally = Tally::new(Duration::ZERO);
    let begin = Instant::now();
    for number in 1..=messages {
        if let Ok(Some(arrival)) = void.receive() {
            tally.add(arrival.bytes);
        }
        if number.is_multiple_of(BATCH) {
            tally.tick(Instant::now());
        }
    }
    std::hint::black_box(tally.answer());
    sending.max(per_message(begin))
}

/// A channel that takes everything and always has something.
struct Void;

impl Channel for Void {
    #[inline]
    fn send(&mut self, number: u32, _size: usize) -> Result<bool, TransportError> {
        std::hint::black_box(number);
        Ok(true)
    }

    #[inline]
    fn receive(&mut self) -> Result<Option<Arrival>, TransportError> {
        Ok(Some(std::hint::black_box(Arrival { number: 0, bytes: 8 })))
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
}
