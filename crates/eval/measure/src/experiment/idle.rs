//! An idle end: it waits for a message that never comes, and what counts is its share of a CPU. The
//! answering end would answer, too, if anything came.

pub use super::rtt::answer;

use super::Method;
use crate::channel::Channel;
use crate::cost::thread_seconds;
use crate::probe::{Asked, Loop, ProbeError, Signals, charge};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) const METHOD: Method =
    Method { figure: super::median, samples: super::asked, lost: super::missed };

/// A share of a CPU is recorded in thousandths of a percent.
const PERCENT: f64 = 100.0 * 1e3;

/// The client's loop.
pub fn ask<C: Channel>(channel: &mut C, run: &Loop<'_>) -> Result<Asked, ProbeError> {
    let mut asked = Asked::default();
    wait_without_message(channel, run.task.warmup, run.signals)?;
    let before = run.meter.read().map_err(ProbeError::Counters)?;
    let calls = channel.calls();
    // The thread's own time only: interrupts of its CPU are counted in ticks and mostly not ours.
    let (begin, spent) = (Instant::now(), thread_seconds());
    wait_without_message(channel, run.task.measure, run.signals)?;
    let share = (thread_seconds() - spent) / begin.elapsed().as_secs_f64();
    asked.samples.push((share.clamp(0.0, 1.0) * PERCENT) as u32);
    let made = channel.calls();
    asked.cost = before.until(&run.meter.read().map_err(ProbeError::Counters)?);
    charge(&mut asked.cost, calls, made);
    asked.note = channel.note();
    Ok(asked)
}

/// Receives for a while. Nothing is sent during that time; a message that comes anyway is ignored.
fn wait_without_message<C: Channel>(
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
