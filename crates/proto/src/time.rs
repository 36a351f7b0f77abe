//! Time as an argument.

use std::ops::Add;
use std::time::Duration;

/// Nanoseconds since some fixed moment of the caller's choice. Only differences mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

impl Instant {
    /// Later than all others: a deadline that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// Time since an earlier moment, zero if that is not earlier.
    #[inline]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    #[inline]
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}
