//! Virtual time and rates of links, as integers: the same run on every machine.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point in virtual time, or a span of it, in picoseconds.
///
/// A byte at 400 Gbit/s takes 20 ps, so every usual rate has a whole number of picoseconds a byte.
/// 64 bits hold 213 days.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The beginning of a run.
    pub const ZERO: Self = Self(0);
    /// Later than everything.
    pub const NEVER: Self = Self(u64::MAX);

    /// So many nanoseconds.
    pub const fn ns(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// So many microseconds.
    pub const fn us(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// So many milliseconds.
    pub const fn ms(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 * 1e-12
    }

    /// In microseconds.
    pub fn micros(self) -> f64 {
        self.0 as f64 * 1e-6
    }

    /// In whole nanoseconds, rounded down.
    pub fn nanos(self) -> u64 {
        self.0 / 1_000
    }

    /// The difference, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Time {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Time {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} us", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// The rate of a link, as the time that a byte takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate {
    picoseconds_per_byte: u64,
}

impl Rate {
    /// So many Gbit/s.
    ///
    /// # Panics
    /// As [`Rate::mbit`].
    pub const fn gbit(gbit: u64) -> Self {
        Self::mbit(gbit * 1_000)
    }

    /// So many Mbit/s.
    ///
    /// # Panics
    /// If a byte does not take a whole number of picoseconds at this rate: 3 Gbit/s, for example.
    pub const fn mbit(mbit: u64) -> Self {
        assert!(mbit > 0 && 8_000_000 % mbit == 0, "choose a rate that divides 8,000,000 Mbit/s");
        Self { picoseconds_per_byte: 8_000_000 / mbit }
    }

    /// The time that so many bytes take.
    pub const fn time(self, bytes: u32) -> Time {
        Time(self.picoseconds_per_byte * bytes as u64)
    }

    /// Bytes that pass in a time.
    pub const fn bytes(self, time: Time) -> u64 {
        time.0 / self.picoseconds_per_byte
    }

    /// In bit/s.
    pub fn bits_per_second(self) -> f64 {
        8e12 / self.picoseconds_per_byte as f64
    }
}
