//! The one clock of all measurements and what reading it costs.
//!
//! `CLOCK_MONOTONIC` through [`Instant`] (vDSO, no system call where the clock source allows; see
//! clock_gettime(2)). The cost is measured and shown beside the figures, never subtracted.

use serde::{Deserialize, Serialize};
use std::time::Instant;

/// What one reading of the clock costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimerCost {
    /// Median time of one reading, in nanoseconds.
    pub median_ns: f64,
    /// 99th percentile of the same.
    pub p99_ns: f64,
}

/// Readings per batch: enough that the clock's own resolution does not matter.
const BATCH: u32 = 64;
/// Batches: enough for a 99th percentile, and below a millisecond in all.
const BATCHES: usize = 400;

/// Measures what a reading of the clock costs: about a millisecond of spinning.
pub fn timer_cost() -> TimerCost {
    let mut costs: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            let mut last = start;
            for _ in 0..BATCH {
                last = std::hint::black_box(Instant::now());
            }
            (last - start).as_nanos() as f64 / f64::from(BATCH)
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    TimerCost { median_ns: costs[BATCHES / 2], p99_ns: costs[BATCHES * 99 / 100] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_the_clock_costs_something_and_the_median_is_below_the_tail() {
        let cost = timer_cost();
        assert!(cost.median_ns > 0.0 && cost.median_ns <= cost.p99_ns, "{cost:?}");
    }
}
