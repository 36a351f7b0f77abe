//! Round trips, one at a time: clock, send, wait for the echo with the same number, clock. The
//! answering end returns a message of the same number and length.

use super::Method;
use super::pace::Pace;
use crate::channel::{Calls, Channel, ReceivedMessage, TransportError};
use crate::probe::{
    Answered, Asked, LOOKS, LOST_AFTER, Loop, Patience, ProbeError, SILENT_AFTER, Signals, charge,
    deadline, expired, expired_look, keep, reserved,
};
use gigae_eval_model::plan::Wait;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) const METHOD: Method =
    Method { figure: super::median, samples: super::asked, lost: super::missed };

/// The client's loop.
pub fn ask<C: Channel>(channel: &mut C, run: &Loop<'_>) -> Result<Asked, ProbeError> {
    let (task, reliable) = (run.task, run.reliable);
    let limit = if reliable { SILENT_AFTER } else { LOST_AFTER };
    let patience = Patience { limit, wait: task.wait };
    let mut asked = Asked { samples: reserved(task), ..Asked::default() };
    let (begin, pace) = (Instant::now(), Pace::new(task));
    let warm = begin + Duration::from_secs_f64(task.warmup);
    while Instant::now() < warm {
        pace.wait(asked.sent, run.signals)?;
        let time = round_trip(channel, asked.sent as u32, task.size, patience, run.signals)?;
        asked.sent += 1;
        keep(&mut asked.warmup, time);
        if time.is_none() && reliable {
            return Err(ProbeError::Silent("no echo came back"));
        }
    }
    let before = run.meter.read().map_err(ProbeError::Counters)?;
    let calls = channel.calls();
    let end = Instant::now() + Duration::from_secs_f64(task.measure);
    loop {
        pace.wait(asked.sent, run.signals)?;
        let time = round_trip(channel, asked.sent as u32, task.size, patience, run.signals)?;
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
    let made = channel.calls();
    asked.cost = before.until(&run.meter.read().map_err(ProbeError::Counters)?);
    charge(&mut asked.cost, calls, made);
    asked.bytes = asked.sent * task.size as u64;
    asked.repeated = channel.repeated();
    asked.note = channel.note();
    Ok(asked)
}

/// The server's loop.
pub fn answer<C: Channel>(channel: &mut C, run: &Loop<'_>) -> Result<Answered, ProbeError> {
    let task = run.task;
    let before = run.meter.read().map_err(ProbeError::Counters)?;
    let calls = channel.calls();
    let mut answered = Answered::default();
    let (start, pace) = (Instant::now(), Pace::new(task));
    let deadline = deadline(task);
    // The time of the last message is known to within a look at the clock; nothing more exact is
    // needed, for it is only the length of the time in which the costs were counted.
    let mut idle = 0;
    let mut last = start;
    loop {
        if let Some(arrival) = channel.receive()? {
            while !channel.send(arrival.number, arrival.bytes)? {
                expired(deadline, run.signals)?;
            }
            channel.flush()?;
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
        let now = expired(deadline, run.signals)?;
        // The first empty poll of a napping end comes right after its last message.
        if task.wait == Wait::Spin || idle == 1 {
            last = now;
        }
        if run.signals.finished.load(Ordering::Acquire) {
            break;
        }
    }
    let made = channel.calls();
    answered.cost = before.until(&run.meter.read().map_err(ProbeError::Counters)?);
    // Where the kernel answers (ICMP), no message ever comes here.
    if answered.messages > 0 {
        let busy = (last - start).as_secs_f64().max(f64::MIN_POSITIVE);
        answered.cost.seconds = answered.cost.seconds.min(busy);
    }
    charge(&mut answered.cost, calls, made);
    answered.note = channel.note();
    Ok(answered)
}

/// One message there and back; `None` if the echo did not come in time.
pub fn round_trip<C: Channel>(
    channel: &mut C,
    number: u32,
    size: usize,
    patience: Patience,
    signals: &Signals<'_>,
) -> Result<Option<u32>, ProbeError> {
    // Where answers are quick, there may be no empty poll, and so no other look at the signal.
    if signals.abort.load(Ordering::Relaxed) {
        return Err(ProbeError::Interrupted);
    }
    let start = Instant::now();
    let mut looks = 0u32;
    while !channel.send(number, size)? {
        if expired_look(&mut looks, start, patience, signals)? {
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
                if expired_look(&mut looks, start, patience, signals)? {
                    return Ok(None);
                }
            }
        }
    }
}

/// What this loop costs per round trip, in nanoseconds: over a channel that answers at once, so
/// often.
pub fn overhead(times: u32) -> f64 {
    let never = AtomicBool::new(false);
    let signals = Signals::new(&never);
    let patience = Patience { limit: LOST_AFTER, wait: Wait::Spin };
    let mut mirror = EchoChannel(None);
    let begin = Instant::now();
    for number in 0..times {
        // It cannot fail: the mirror always answers.
        let time = round_trip(&mut mirror, number, 8, patience, &signals);
        std::hint::black_box(time.ok());
    }
    begin.elapsed().as_nanos() as f64 / f64::from(times)
}

/// A channel that answers at once.
struct EchoChannel(Option<u32>);

impl Channel for EchoChannel {
    #[inline]
    fn send(&mut self, number: u32, _size: usize) -> Result<bool, TransportError> {
        self.0 = Some(number);
        Ok(true)
    }

    #[inline]
    fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
        Ok(self.0.take().map(|number| ReceivedMessage { number, bytes: 8 }))
    }

    fn calls(&self) -> Calls {
        Calls::default()
    }
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
        fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
            Ok(self.waiting.take().map(|number| ReceivedMessage { number, bytes: 4 }))
        }
        fn calls(&self) -> Calls {
            Calls { all: self.calls, send: self.calls, ..Calls::default() }
        }
    }

    #[test]
    fn a_lost_echo_is_given_up_and_the_next_one_is_measured() {
        let abort = AtomicBool::new(false);
        let signals = Signals::new(&abort);
        let mut wire = Lossy { waiting: None, calls: 0 };
        for wait in [Wait::Spin, Wait::Sleep] {
            let patience = Patience { limit: Duration::from_millis(1), wait };
            assert!(round_trip(&mut wire, 0, 4, patience, &signals).unwrap().is_none());
            assert!(round_trip(&mut wire, 1, 4, patience, &signals).unwrap().is_some());
        }
    }

    #[test]
    fn an_interrupted_wait_ends_at_once() {
        let abort = AtomicBool::new(true);
        let signals = Signals::new(&abort);
        let mut wire = Lossy { waiting: None, calls: 0 };
        let patience = Patience { limit: Duration::from_secs(60), wait: Wait::Sleep };
        let ended = round_trip(&mut wire, 0, 4, patience, &signals);
        assert!(matches!(ended, Err(ProbeError::Interrupted)));
    }
}
