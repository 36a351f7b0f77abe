//! How long a queue was, over time.

use crate::Time;

/// Steps of the histogram in each doubling of the length: figures are at most 1/16 too high.
const STEPS: u64 = 16;

/// Bytes that a switch held for a port, weighted by how long it held them.
#[derive(Clone, Debug, Default)]
pub struct QueueLength {
    from: Time,
    changed: Time,
    now: u64,
    most: u64,
    /// Bytes times picoseconds.
    area: u128,
    /// Picoseconds at each length; empty unless asked for.
    histogram: Vec<u64>,
}

/// The step of a length: itself below `STEPS`, then `STEPS` for each doubling.
fn step(length: u64) -> usize {
    if length < STEPS {
        return length as usize;
    }
    let doublings = length.ilog2() - STEPS.ilog2();
    (u64::from(doublings) * STEPS + (length >> doublings)) as usize
}

/// The greatest length of a step.
fn greatest(step: usize) -> u64 {
    let step = step as u64;
    if step < STEPS {
        return step;
    }
    let doublings = step / STEPS - 1;
    ((step - doublings * STEPS + 1) << doublings) - 1
}

impl QueueLength {
    /// Begins to keep a histogram, for percentiles, at the time of the last change.
    pub(crate) fn keep_histogram(&mut self) {
        self.histogram = vec![0; step(u64::from(u32::MAX)) + 1];
    }

    /// Forgets everything before `now`.
    pub(crate) fn restart(&mut self, now: Time) {
        (self.from, self.changed, self.most, self.area) = (now, now, self.now, 0);
        self.histogram.fill(0);
    }

    /// The length is another one from `at` on.
    #[inline]
    pub(crate) fn change(&mut self, at: Time, length: u64) {
        let time = at.since(self.changed).0;
        self.area += u128::from(self.now) * u128::from(time);
        if !self.histogram.is_empty() {
            let last = self.histogram.len() - 1;
            self.histogram[step(self.now).min(last)] += time;
        }
        self.changed = at;
        self.now = length;
        self.most = self.most.max(length);
    }

    /// The length in bytes since the last change.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The greatest length in bytes.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The mean over time in bytes, until the last change.
    pub fn mean(&self) -> f64 {
        match self.changed.since(self.from).0 {
            0 => self.now as f64,
            time => self.area as f64 / time as f64,
        }
    }

    /// The length in bytes that the queue did not exceed in this part of the time (0 to 1), at most
    /// 1/16 too high. `None` without a histogram.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let total: u64 = self.histogram.iter().sum();
        let wanted = (total as f64 * part).ceil() as u64;
        let mut sum = 0;
        let found = self.histogram.iter().position(|&time| {
            sum += time;
            sum >= wanted && sum > 0
        });
        found.map(|step| greatest(step).min(self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_hold_their_lengths_and_nothing_else() {
        for length in (0..5_000).chain([65_535, 65_536, 1 << 20, (1 << 31) + 12_345]) {
            let end = greatest(step(length));
            assert!(end >= length && end <= length + length / STEPS, "{length}: {end}");
            assert_eq!(step(end), step(length));
            assert_eq!(step(end + 1), step(length) + 1);
        }
    }

    #[test]
    fn figures_of_a_queue_by_hand() {
        let mut queue = QueueLength::default();
        queue.keep_histogram();
        queue.change(Time(10), 1_000);
        queue.change(Time(40), 3_000);
        queue.change(Time(50), 0);
        queue.change(Time(100), 0);
        assert_eq!((queue.now(), queue.most()), (0, 3_000));
        assert!((queue.mean() - 600.0).abs() < 1e-9, "(30 * 1000 + 10 * 3000) / 100");
        assert_eq!(queue.quantile(0.5), Some(0));
        assert_eq!(queue.quantile(0.9), Some(greatest(step(1_000))));
        assert_eq!(queue.quantile(1.0), Some(3_000));
        queue.restart(Time(100));
        assert_eq!((queue.most(), queue.quantile(0.5)), (0, None));
    }
}
