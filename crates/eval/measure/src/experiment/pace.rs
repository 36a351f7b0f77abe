//! Keeping to the rate that the owner of a server allows, at the end that sends; and seeing at the
//! other whether it was kept.

use crate::channel::{NAP, Task, TransportError};
use crate::probe::{ProbeError, Signals};
use gigae_eval_model::plan::Wait;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How much faster than allowed what arrives may seem, and how many bytes may have gathered on the
/// way.
const TOLERANCE: f64 = 1.25;
const GATHERED: f64 = (1 << 20) as f64;

/// A rate, from a beginning; without one nothing is ever early or too much, and no clock is read.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes per second.
    rate: Option<f64>,
    size: f64,
    spin: bool,
    begin: Instant,
}

impl Pace {
    pub(super) fn new(task: &Task) -> Self {
        let (size, spin) = (task.size as f64, task.wait == Wait::Spin);
        Self { rate: task.rate, size, spin, begin: Instant::now() }
    }

    /// No rate.
    pub(super) fn free() -> Self {
        Self { rate: None, size: 0.0, spin: true, begin: Instant::now() }
    }

    /// How long to wait after `sent` messages before the next.
    fn left(&self, sent: u64, elapsed: Duration) -> Duration {
        let due = self.rate.map_or(0.0, |rate| sent as f64 * self.size / rate);
        Duration::try_from_secs_f64(due).unwrap_or(Duration::MAX).saturating_sub(elapsed)
    }

    /// Whether the next message must wait; a napping end has waited a little then.
    pub(super) fn early(&self, sent: u64) -> bool {
        if self.rate.is_none() {
            return false;
        }
        let left = self.left(sent, self.begin.elapsed());
        if !self.spin && !left.is_zero() {
            std::thread::sleep(left.min(NAP));
        }
        !left.is_zero()
    }

    /// Waits until the next message may go.
    pub(super) fn wait(&self, sent: u64, signals: &Signals<'_>) -> Result<(), ProbeError> {
        while self.early(sent) {
            if signals.abort.load(Ordering::Relaxed) {
                return Err(ProbeError::Interrupted);
            }
        }
        Ok(())
    }

    fn exceeded(&self, bytes: u64, elapsed: Duration) -> bool {
        self.rate.is_some_and(|rate| {
            bytes as f64 > rate * TOLERANCE * elapsed.as_secs_f64() + self.size + GATHERED
        })
    }

    /// Refuses to go on where more bytes have arrived than the rate allows.
    pub(super) fn check(&self, bytes: u64) -> Result<(), ProbeError> {
        if self.rate.is_some() && self.exceeded(bytes, self.begin.elapsed()) {
            let why = "the client sends faster than the server's owner allows";
            return Err(TransportError::Unavailable(why.into()).into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wait_until_the_rate_has_room_for_them() {
        let pace = Pace { rate: Some(1e6), size: 1000.0, spin: true, begin: Instant::now() };
        let ms = Duration::from_millis;
        assert_eq!(pace.left(0, ms(0)), ms(0));
        assert_eq!(pace.left(5, ms(2)), ms(3));
        assert_eq!(pace.left(5, ms(6)), ms(0));
        let free = Pace { rate: None, ..pace };
        assert_eq!(free.left(u64::MAX, ms(0)), ms(0));
    }

    #[test]
    fn a_sender_that_keeps_the_rate_is_never_too_fast_and_another_soon_is() {
        let pace = Pace { rate: Some(1e6), size: 1000.0, spin: true, begin: Instant::now() };
        for seconds in 0..100 {
            assert!(!pace.exceeded(seconds * 1_000_000 + 1000, Duration::from_secs(seconds)));
        }
        assert!(pace.exceeded(20_000_000, Duration::from_secs(10)));
        let free = Pace { rate: None, ..pace };
        assert!(!free.exceeded(u64::MAX, Duration::ZERO));
    }
}
