//! What the link has let through of late, from all senders or from one.

use super::RATE_FRAMES;
use crate::time::Instant;

/// The rate is forgotten in so many nanoseconds.
const REMEMBERED: u64 = 60_000_000_000;

/// Nanoseconds over which it is measured at least.
const LINK_TIME: u64 = 2_000_000;

/// Bytes of a frame on the wire beside its payload.
pub(super) const ON_WIRE: u64 = 70;

/// The highest rate of late in bytes per second: that of two measurements in a row, because a
/// receiver that slept takes what has come meanwhile much faster.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct LinkRate {
    pub(super) rate: u64,
    last: u64,
    /// The frames and their bytes since then, which are being counted.
    frames: u64,
    bytes: u64,
    since: Instant,
}

impl LinkRate {
    /// A data frame has come.
    #[inline]
    pub(super) fn note_frame(&mut self, bytes: u64, now: Instant) {
        (self.frames, self.bytes) = (self.frames + 1, self.bytes + bytes);
        if self.frames < RATE_FRAMES {
            return;
        }
        let time = now.nanos_since(self.since);
        if time < LINK_TIME {
            return;
        }
        let forgotten = u128::from(self.rate) * u128::from(time.min(REMEMBERED));
        let rate = self.bytes.saturating_mul(1_000_000_000) / time;
        let before = std::mem::replace(&mut self.last, rate);
        self.rate -= (forgotten / u128::from(REMEMBERED)) as u64;
        self.rate = self.rate.max(rate.min(before));
        (self.frames, self.bytes, self.since) = (0, 0, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_once_carried_is_forgotten() {
        let (mut link, mut now) = (LinkRate::default(), Instant(1));
        let mut frames = |time: u64| {
            now = now.after(time);
            (0..RATE_FRAMES).for_each(|_| link.note_frame(100, now));
            link.rate
        };
        frames(LINK_TIME);
        frames(LINK_TIME);
        let fast = frames(LINK_TIME);
        assert_eq!(fast, 100 * RATE_FRAMES * 1_000_000_000 / LINK_TIME);
        assert!((fast / 3..fast * 2 / 3).contains(&frames(REMEMBERED / 2)));
        assert!(frames(REMEMBERED) < 1_000);
    }

    #[test]
    fn what_a_receiver_that_slept_takes_at_once_is_not_the_rate_of_the_link() {
        let (mut link, mut now) = (LinkRate::default(), Instant(1));
        for _ in 0..5 {
            now = now.after(5 * LINK_TIME);
            (0..RATE_FRAMES).for_each(|_| link.note_frame(100, now));
            now = now.after(LINK_TIME);
            (0..10 * RATE_FRAMES).for_each(|_| link.note_frame(100, now));
        }
        assert!(link.rate <= 100 * RATE_FRAMES * 1_000_000_000 / LINK_TIME, "{}", link.rate);
    }
}
