//! Where the protocol's time comes from.

use gigae_proto::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that never goes back.
#[derive(Debug)]
pub(crate) enum Clock {
    /// `CLOCK_MONOTONIC`, read without a system call through the vDSO (vdso(7)).
    Monotonic,
    /// The virtual time of a simulated network.
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::Monotonic => {
                let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
                Instant(now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned())
            }
            Self::Virtual(clock) => Instant(clock.load(Ordering::Relaxed)),
        }
    }

    /// Whether it moves only while an endpoint sleeps.
    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }
}
