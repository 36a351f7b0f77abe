//! Round-trip time and the retransmission timeout (RFC 6298). All times are nanoseconds.

use crate::ProtocolConfig;
use crate::time::nanos;

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
    /// Timeouts in a row; each doubles the next (RFC 6298 §5.5).
    backoff: u32,
}

impl Rtt {
    pub(crate) fn new(config: &ProtocolConfig) -> Self {
        let (least, most) = (nanos(config.min_rto), nanos(config.max_rto));
        Self { smoothed: 0, variation: 0, shortest: 0, short: false, least, most, backoff: 0 }
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

    /// Something was acknowledged: the backoff ends.
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
        first.saturating_mul(1 << self.backoff).min(self.most)
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
        rtt.back_off();
        assert_eq!(rtt.timeout(), first * 2);
        (0..50).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout(), MOST);
        rtt.progress();
        assert_eq!(rtt.timeout(), first);
    }
}
