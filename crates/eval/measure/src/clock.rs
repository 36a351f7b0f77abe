//! The one clock of all measurements and what reading it costs.
//!
//! `CLOCK_MONOTONIC` through [`Instant`] (vDSO, no system call where the clock source allows; see
//! clock_gettime(2)). The cost is measured and shown beside the figures, never subtracted.

use crate::experiment::{rtt, stream};
use gigae_eval_model::environment::{Overhead, TimerCost};
use gigae_eval_model::stats;
use std::time::Instant;

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
    let median_ns = stats::median(&costs).unwrap_or(0.0);
    TimerCost { median_ns, p99_ns: costs[BATCHES * 99 / 100] }
}

/// Rounds of each; the median counts, so that an interrupt does not.
const ROUNDS: usize = 31;

/// Measures it: some milliseconds of spinning.
pub fn overhead() -> Overhead {
    let median = |measure: fn(u32) -> f64| {
        let costs: Vec<f64> = (0..ROUNDS).map(|_| measure(BATCH)).collect();
        stats::median(&costs).unwrap_or(0.0)
    };
    Overhead { round_trip_ns: median(rtt::overhead), message_ns: median(stream::overhead) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_the_clock_costs_something_and_the_median_is_below_the_tail() {
        let cost = timer_cost();
        assert!(cost.median_ns > 0.0 && cost.median_ns <= cost.p99_ns, "{cost:?}");
    }

    #[test]
    fn the_loops_cost_something() {
        let cost = overhead();
        assert!(cost.message_ns > 0.0 && cost.round_trip_ns > 0.0, "{cost:?}");
    }
}
