//! Numbers that wrap: sequence numbers and session epochs.

use core::fmt;
use core::ops::{Add, AddAssign};

/// A frame's position in its session, modulo 2^32. Compared by serial-number arithmetic (RFC 1982):
/// two numbers are comparable while they are less than 2^31 apart, which is far beyond any window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SeqNo(pub u32);

impl SeqNo {
    /// How far `self` is ahead of `base`; negative when it is behind.
    #[inline]
    pub const fn ahead_of(self, base: Self) -> i32 {
        self.0.wrapping_sub(base.0).cast_signed()
    }

    /// Whether `self` comes before `other`.
    #[inline]
    pub const fn is_before(self, other: Self) -> bool {
        self.ahead_of(other) < 0
    }
}

impl Add<u32> for SeqNo {
    type Output = Self;
    #[inline]
    fn add(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }
}

impl AddAssign<u32> for SeqNo {
    #[inline]
    fn add_assign(&mut self, n: u32) {
        *self = *self + n;
    }
}

/// One incarnation of one direction of a session. It distinguishes a restarted peer from its
/// predecessor. Zero means "not known yet" and is never an epoch.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

impl Epoch {
    /// No epoch.
    pub const UNKNOWN: Self = Self(0);

    /// Sequence number of the first frame of this epoch. It is derived from the epoch, so no field
    /// carries it, and every session begins at another number, the wrap included.
    #[inline]
    pub const fn first_seq(self) -> SeqNo {
        SeqNo(self.0)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_holds_across_the_wrap() {
        let last = SeqNo(u32::MAX);
        let first = last + 1;
        assert_eq!(first, SeqNo(0));
        assert!(last.is_before(first) && !first.is_before(last) && !last.is_before(last));
        assert_eq!((first + 4).ahead_of(last), 5);
        assert_eq!(last.ahead_of(first + 4), -5);
    }
}
