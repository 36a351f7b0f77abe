//! What the library alone can do, without a kernel: streams of messages between threads of this
//! process, by a [link in memory](crate::in_memory).
//!
//! Each stream has two threads, each with an endpoint and a CPU of its own. The loops are those of
//! a [`stream`](super::stream), over the same channel as between two nodes, so that the figures
//! compare.

use super::{Method, incast};
use crate::channel::{Channel, Task, TransportError};
use crate::cost::Meter;
use crate::probe::{Answered, Asked, Loop, ProbeError, Signals};
use crate::site::Site;
use crate::transport;
use gigae_eval_model::experiment::Experiment;
use std::panic::resume_unwind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const METHOD: Method = incast::METHOD;

const NO_LINK: ProbeError = ProbeError::Silent("this experiment uses no link");

/// Its two ends are threads of one process.
pub fn ask<C: Channel>(_: &mut C, _: &Loop<'_>) -> Result<Asked, ProbeError> {
    Err(NO_LINK)
}

/// Its two ends are threads of one process.
pub fn answer<C: Channel>(_: &mut C, _: &Loop<'_>) -> Result<Answered, ProbeError> {
    Err(NO_LINK)
}

/// Measures as many streams as the task has threads at each end, the sender of the first one on the
/// first of these CPUs, its receiver on the second, and so on.
pub fn measure(
    task: &Task,
    cpus: &[usize],
    interrupted: &AtomicBool,
) -> Result<(Asked, Answered), ProbeError> {
    let task = Task { experiment: Experiment::Stream, ..task.clone() };
    // Its counters of the interface stay as they are.
    let site = Site::find("lo").map_err(|error| TransportError::Unavailable(error.to_string()))?;
    let all: Vec<_> = (0..task.condition.threads as usize)
        .map(|number| transport::gigae_in_memory(number as u8, &task))
        .collect::<Result<_, _>>()?;
    let on = |number: usize| Site { cpu: Some(cpus[number % cpus.len()]), ..site.clone() };
    let begin = Barrier::new(2 * all.len());
    let signals: Vec<Signals<'_>> = all.iter().map(|_| Signals::new(interrupted)).collect();
    let (asked, answered): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
        let threads: Vec<_> = all
            .into_iter()
            .zip(&signals)
            .enumerate()
            .map(|(number, ([mut from, mut to], signals))| {
                let (from_site, to_site) = (on(2 * number), on(2 * number + 1));
                let (task, begin) = (&task, &begin);
                let receiver = scope.spawn(move || {
                    let meter = start(&to_site, begin);
                    let run = Loop { task, meter: &meter, signals, reliable: true };
                    (to.answer(&run), to)
                });
                let sender = scope.spawn(move || {
                    let meter = start(&from_site, begin);
                    let run = Loop { task, meter: &meter, signals, reliable: true };
                    let asked = from.ask(&run);
                    let bytes = asked.as_ref().map_or(0, |asked| asked.bytes);
                    signals.expected.store(bytes, Ordering::Release);
                    signals.finished.store(true, Ordering::Release);
                    (asked, from)
                });
                (sender, receiver)
            })
            .collect();
        threads
            .into_iter()
            .map(|(sender, receiver)| {
                let (asked, _open) = sender.join().unwrap_or_else(|panic| resume_unwind(panic));
                let (answered, _open) =
                    receiver.join().unwrap_or_else(|panic| resume_unwind(panic));
                (asked, answered)
            })
            .unzip()
    });
    let asked = asked.into_iter().collect::<Result<_, _>>()?;
    let answered = answered.into_iter().collect::<Result<_, _>>()?;
    Ok(incast::together(asked, answered, 1, signals.len()))
}

/// Begins a thread of the measurement: on its CPU, and when all others are on theirs.
fn start(site: &Site, begin: &Barrier) -> Meter {
    // If this fails the thread merely stays where it is.
    let _ = site.pin();
    begin.wait();
    Meter::new(site)
}
