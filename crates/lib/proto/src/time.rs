//! Time as an argument.

use std::ops::Add;
use std::time::Duration;

/// Nanoseconds since a fixed moment of the caller's choice. Only differences have a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Instant(pub u64);

impl Instant {
    /// Later than all others: the deadline of what never happens.
    pub const NEVER: Self = Self(u64::MAX);

    /// Time since an earlier moment, zero if that is not earlier.
    #[inline]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// The same in nanoseconds, which costs no division.
    #[inline]
    pub(crate) fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `nanos` nanoseconds later.
    #[inline]
    pub(crate) fn after(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

/// When something began that has a time limit.
///
/// The clock is not read for every frame. So what begins between two readings gets the time of the
/// later one. A timer is therefore never early, and late by at most the time between two readings.
/// A program that computed for a second before it sent is not late already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Since {
    /// Nothing is going on.
    Never,
    /// From the next reading of the clock on.
    Next,
    /// From this moment on.
    At(Instant),
}

impl Since {
    /// Begins, unless it has begun.
    #[inline]
    pub(crate) fn start(&mut self) {
        if *self == Self::Never {
            *self = Self::Next;
        }
    }

    /// The clock was read.
    #[inline]
    pub(crate) fn stamp(&mut self, now: Instant) {
        if *self == Self::Next {
            *self = Self::At(now);
        }
    }

    /// `nanos` nanoseconds after the beginning; [`Instant::NEVER`] while that has no time yet.
    #[inline]
    pub(crate) fn after(self, nanos: u64) -> Instant {
        match self {
            Self::At(at) => at.after(nanos),
            Self::Never | Self::Next => Instant::NEVER,
        }
    }
}

/// A duration in nanoseconds. Saturates at 584 years.
#[inline]
pub(crate) fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into())
}

impl Add<Duration> for Instant {
    type Output = Self;
    #[inline]
    fn add(self, duration: Duration) -> Self {
        self.after(nanos(duration))
    }
}
