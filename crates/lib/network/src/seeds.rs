//! The same run with many seeds, on all cores.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

/// Calls `run` with each seed, on as many threads as there are cores. Returns the results in the
/// order of the seeds: a run shares nothing with another, so threads change no result.
pub fn for_each_seed<R: Send>(seeds: Range<u64>, run: impl Fn(u64) -> R + Sync) -> Vec<R> {
    let next = AtomicU64::new(seeds.start);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next, run, end) = (sender.clone(), &next, &run, seeds.end);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || sender.send((seed, run(seed))).is_err() {
                        break;
                    }
                }
            });
        }
    });
    drop(sender);
    let mut results: Vec<(u64, R)> = results.into_iter().collect();
    results.sort_unstable_by_key(|&(seed, _)| seed);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_has_its_result_in_order() {
        let results = for_each_seed(5..60, |seed| seed * seed);
        assert_eq!(results, (5..60).map(|seed| seed * seed).collect::<Vec<_>>());
        assert!(for_each_seed(3..3, |seed| seed).is_empty());
    }
}
