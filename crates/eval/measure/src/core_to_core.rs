//! How far two CPUs of this machine are from each other: the round trip of a cache line.
//!
//! Two ends on one machine hand every byte from one CPU to the other. A hypervisor may move virtual
//! CPUs while a plan runs: from threads of one core to cores without a common cache. Long messages
//! then take several times as long, with every transport, and no counter says so: steal stays zero.

use gigae_eval_model::stats;
use gigae_host::affinity::{self, SavedAffinity};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Round trips per batch: enough that the clock does not matter.
const BATCH: u32 = 64;
/// Batches. The median counts, so that an interrupt does not.
const BATCHES: u32 = 9;
/// Round trips before, while the other CPU wakes up.
const WARMUP: u32 = 2 * BATCH;
/// When to give up: another thread has one of the CPUs.
const LONGEST: Duration = Duration::from_millis(50);
/// Looks between two readings of the clock.
const LOOKS: u32 = 1024;

/// On a pair of cache lines of its own: prefetchers fetch lines in pairs.
#[repr(align(128))]
struct Line(AtomicU32);

impl Line {
    /// Waits for a value; whether it came in time.
    fn becomes(&self, value: u32, deadline: Instant) -> bool {
        loop {
            if (0..LOOKS).any(|_| self.0.load(Ordering::Acquire) == value) {
                return true;
            }
            if Instant::now() > deadline {
                return false;
            }
        }
    }
}

/// Round trip of a cache line between two CPUs, in nanoseconds; `None` if they are one, if a thread
/// cannot be pinned to each, or if other threads keep them busy. Takes about 0.3 ms, and 50 ms at
/// most; starts a thread. The calling thread is where it was before afterwards.
pub fn core_to_core(here: usize, there: usize) -> Option<f64> {
    if here == there {
        return None;
    }
    let _saved = SavedAffinity::save().ok()?;
    affinity::pin(here).ok()?;
    let (line, deadline) = (&Line(AtomicU32::new(0)), Instant::now() + LONGEST);
    let trips = WARMUP + BATCH * BATCHES;
    thread::scope(|scope| {
        scope.spawn(move || {
            let pinned = affinity::pin(there).is_ok();
            for trip in 0..if pinned { trips } else { 0 } {
                if !line.becomes(2 * trip + 1, deadline) {
                    return;
                }
                line.0.store(2 * trip + 2, Ordering::Release);
            }
        });
        let batch = |first: u32, trips: u32| {
            let begin = Instant::now();
            for trip in first..first + trips {
                line.0.store(2 * trip + 1, Ordering::Release);
                if !line.becomes(2 * trip + 2, deadline) {
                    return None;
                }
            }
            Some(begin.elapsed().as_nanos() as f64 / f64::from(trips))
        };
        batch(0, WARMUP)?;
        let batches: Option<Vec<f64>> =
            (0..BATCHES).map(|number| batch(WARMUP + number * BATCH, BATCH)).collect();
        stats::median(&batches?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_line_goes_to_another_cpu_and_back() {
        let before = affinity::allowed();
        if let [here, there, ..] = before[..] {
            let took = core_to_core(here, there);
            assert!(took.is_none_or(|took| took > 1.0), "{took:?}");
        }
        assert_eq!(core_to_core(before[0], before[0]), None);
        assert_eq!(affinity::allowed(), before);
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_not_waited_for() {
        let (before, begin) = (affinity::allowed(), Instant::now());
        assert_eq!(core_to_core(before[0], 1023), None);
        assert_eq!(core_to_core(1023, before[0]), None);
        assert!(begin.elapsed() < Duration::from_secs(10));
        assert_eq!(affinity::allowed(), before);
    }
}
