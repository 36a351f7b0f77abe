//! Round-trip time and the retransmission timeout (RFC 6298). All times are nanoseconds.

use crate::time::nanos;
use crate::{ProtocolConfig, scatter};

/// Timeouts in a row from which on the waits of sessions differ: before, each session has sent one
/// frame at a time.
const SCATTERED_FROM: u32 = 3;

/// Smoothed round-trip time of one peer.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Rtt {
    /// Zero until the first sample.
    smoothed: u64,
    variation: u64,
    /// The shortest sample, and whether the last one is less than twice as long.
    shortest: u64,
    short: bool,
    /// Bounds of the timeout.
    least: u64,
    most: u64,
    /// Timeouts in a row; each doubles the next (RFC 6298 §5.5), and by what they multiply it.
    backoff: u32,
    factor: u32,
}

impl Rtt {
    pub(crate) fn new(config: &ProtocolConfig) -> Self {
        let (least, most) = (nanos(config.min_rto), nanos(config.max_rto));
        let (smoothed, variation, shortest, short) = (0, 0, 0, false);
        Self { smoothed, variation, shortest, short, least, most, backoff: 0, factor: 1 }
    }

    /// The timeout is no shorter than `nanos` nanoseconds.
    pub(crate) fn raise_least(&mut self, nanos: u64) {
        self.least = self.least.max(nanos).min(self.most);
    }

    /// Takes a sample from a frame that was sent once (Karn's rule).
    #[inline]
    pub(crate) fn sample(&mut self, sample: u64) {
        let sample = sample.clamp(1, u64::MAX / 8);
        self.short = sample / 2 < self.shortest;
        self.shortest = if self.smoothed == 0 { sample } else { self.shortest.min(sample) };
        if self.smoothed == 0 {
            self.smoothed = sample;
            self.variation = sample / 2;
        } else {
            self.variation = (3 * self.variation + self.smoothed.abs_diff(sample)) / 4;
            self.smoothed = (7 * self.smoothed + sample) / 8;
        }
    }

    /// A round trip that is not over has taken so long. That counts if it is longer than usual, and
    /// if any is known.
    pub(crate) fn at_least(&mut self, nanos: u64) {
        if self.smoothed > 0 && nanos > self.smoothed {
            self.sample(nanos);
        }
    }

    /// The shortest round trip in nanoseconds.
    pub(crate) fn shortest(&self) -> u64 {
        self.shortest
    }

    /// Something was acknowledged: the backoff ends.
    #[inline]
    pub(crate) fn progress(&mut self) {
        (self.backoff, self.factor) = (0, 1);
    }

    /// A timeout fired. From the third one in a row on, the next wait is shorter by up to half of
    /// itself, by a part that follows from the session's `seed`.
    pub(crate) fn back_off(&mut self, seed: u32) {
        self.backoff = (self.backoff + 1).min(20);
        let full = 1 << self.backoff;
        if self.backoff < SCATTERED_FROM {
            self.factor = full;
            return;
        }
        let first = self.first_timeout();
        let wait = first.saturating_mul(full.into()).min(self.most);
        let wait = wait - scatter::up_to(wait / 2, seed, self.backoff);
        self.factor = u32::try_from(wait / first).unwrap_or(full).max(1);
    }

    /// Timeouts in a row.
    pub(crate) fn timeouts(&self) -> u32 {
        self.backoff
    }

    /// Current timeout.
    #[inline]
    pub(crate) fn timeout(&self) -> u64 {
        self.backed_off(self.first_timeout())
    }

    /// The timeout without backoff. Before the first sample it is eight times the least.
    #[inline]
    pub(crate) fn first_timeout(&self) -> u64 {
        match self.smoothed {
            0 => self.least * 8,
            smoothed => (smoothed + 4 * self.variation).max(self.least),
        }
    }

    /// A first timeout after the present number of timeouts in a row.
    #[inline]
    pub(crate) fn backed_off(&self, first: u64) -> u64 {
        first.saturating_mul(self.factor.into()).min(self.most)
    }

    /// Smoothed round-trip time; zero before the first sample.
    pub(crate) fn smoothed(&self) -> u64 {
        self.smoothed
    }

    /// Whether frames hardly wait on their way: the last round trip took less than twice as long as
    /// the shortest one. False before the second sample.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.short
    }

    /// Half of the smoothed round-trip time. An answer that comes sooner cannot answer a frame that
    /// was just sent.
    #[inline]
    pub(crate) fn half(&self) -> u64 {
        self.smoothed / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: u64 = 200_000;
    const MOST: u64 = 200_000_000;

    #[test]
    fn a_steady_round_trip_settles_at_the_lower_bound() {
        let mut rtt = Rtt::new(&ProtocolConfig::default());
        assert_eq!(rtt.timeout(), LEAST * 8);
        for _ in 0..100 {
            rtt.sample(20_000);
        }
        assert_eq!(rtt.timeout(), LEAST);
    }

    #[test]
    fn a_round_trip_is_short_that_takes_less_than_twice_the_shortest() {
        let mut rtt = Rtt::new(&ProtocolConfig::default());
        assert!(!rtt.is_short());
        for (sample, short) in [(20, false), (39, true), (40, false), (10, true), (20, false)] {
            rtt.sample(1000 * sample);
            assert_eq!(rtt.is_short(), short, "{sample}");
        }
    }

    #[test]
    fn timeouts_in_a_row_double_up_to_the_upper_bound_and_progress_ends_that() {
        let mut rtt = Rtt::new(&ProtocolConfig::default());
        rtt.sample(400_000);
        let first = rtt.timeout();
        for factor in [2, 4] {
            rtt.back_off(1);
            assert_eq!(rtt.timeout(), first * factor);
        }
        for factor in [8, 16, 32, 64] {
            rtt.back_off(1);
            assert!((first * factor / 2..=first * factor).contains(&rtt.timeout()));
        }
        (0..50).for_each(|_| rtt.back_off(1));
        assert!((MOST / 2 - first..=MOST).contains(&rtt.timeout()));
        rtt.progress();
        assert_eq!(rtt.timeout(), first);
    }

    #[test]
    fn long_timeouts_of_sessions_are_spread_over_half_of_their_length() {
        let timeout = |seed| {
            let mut rtt = Rtt::new(&ProtocolConfig::default());
            rtt.sample(400_000);
            (0..12).for_each(|_| rtt.back_off(seed));
            rtt.timeout()
        };
        let mut tenths = [0; 10];
        for seed in 0..1_000 {
            tenths[((timeout(seed) - 1).saturating_sub(MOST / 2) * 20 / MOST) as usize] += 1;
        }
        assert!(tenths.iter().all(|count| (50..150).contains(count)), "{tenths:?}");
    }
}
