//! Round-trip time and the retransmission timeout (RFC 6298, in nanoseconds).

use std::time::Duration;

/// Smoothed round-trip time of one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    /// Nanoseconds; zero until the first sample.
    smoothed: u64,
    variation: u64,
    /// Timeouts in a row; each doubles the next (RFC 6298 §5.5).
    backoff: u32,
}

impl Rtt {
    /// Takes a sample from a frame that was sent once (Karn's rule).
    #[inline]
    pub(crate) fn sample(&mut self, sample: Duration) {
        let sample = u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX / 8).max(1);
        if self.smoothed == 0 {
            self.smoothed = sample;
            self.variation = sample / 2;
        } else {
            self.variation = (3 * self.variation + self.smoothed.abs_diff(sample)) / 4;
            self.smoothed = (7 * self.smoothed + sample) / 8;
        }
    }

    /// Something was acknowledged: the path works.
    #[inline]
    pub(crate) fn progress(&mut self) {
        self.backoff = 0;
    }

    /// A timeout fired.
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(20);
    }

    /// Timeouts in a row.
    pub(crate) fn timeouts(&self) -> u32 {
        self.backoff
    }

    /// Current timeout. Before the first sample it starts at eight times `min`.
    #[inline]
    pub(crate) fn timeout(&self, min: Duration, max: Duration) -> Duration {
        let base = match self.smoothed {
            0 => min * 8,
            s => Duration::from_nanos(s + 4 * self.variation).max(min),
        };
        base.saturating_mul(1 << self.backoff).min(max)
    }

    /// Half of the smoothed round-trip time: an answer that comes sooner cannot be to a frame sent
    /// just now.
    #[inline]
    pub(crate) fn half(&self) -> Duration {
        Duration::from_nanos(self.smoothed / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_micros(200);
    const MAX: Duration = Duration::from_millis(200);

    #[test]
    fn a_steady_round_trip_settles_at_the_lower_bound() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout(MIN, MAX), MIN * 8);
        for _ in 0..100 {
            rtt.sample(Duration::from_micros(20));
        }
        assert_eq!(rtt.timeout(MIN, MAX), MIN);
    }

    #[test]
    fn timeouts_in_a_row_double_up_to_the_upper_bound_and_progress_ends_that() {
        let mut rtt = Rtt::default();
        rtt.sample(Duration::from_micros(400));
        let first = rtt.timeout(MIN, MAX);
        rtt.back_off();
        assert_eq!(rtt.timeout(MIN, MAX), first * 2);
        (0..50).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout(MIN, MAX), MAX);
        rtt.progress();
        assert_eq!(rtt.timeout(MIN, MAX), first);
    }
}
