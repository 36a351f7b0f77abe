//! The engine's time: a clock that is read now and then. What happens between two readings happens
//! at the first of them.

use crate::clock::Clock;
use gigae_proto::Instant;

/// Frames and empty polls after which the clock is read. An empty poll costs some 10 ns and a frame
/// a microsecond, so timers are late by some tens of microseconds at most while the endpoint is
/// used.
const CLOCK_EVERY: usize = 64;

/// See the module's description.
pub(crate) struct CachedClock {
    clock: Clock,
    now: Instant,
    /// How often the clock was read.
    reads: u64,
    /// Frames and empty polls since the clock was read, and how many of them may pass.
    events: usize,
    every: usize,
}

impl CachedClock {
    /// Reads the clock for the first time.
    pub(super) fn new(clock: Clock) -> Self {
        // Virtual time costs nothing to read and moves only between polls.
        let every = if clock.is_virtual() { 1 } else { CLOCK_EVERY };
        Self { now: clock.now(), clock, reads: 1, events: 0, every }
    }

    /// The last reading.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// How often the clock was read.
    pub(crate) fn reads(&self) -> u64 {
        self.reads
    }

    /// Counts frames and empty polls.
    #[inline]
    pub(super) fn count(&mut self, events: usize) {
        self.events += events;
    }

    /// Whether so little has happened since the last reading that the clock need not be read.
    #[inline]
    pub(super) fn is_fresh(&self) -> bool {
        self.events < self.every
    }

    /// Time has passed: the clock is to be read.
    pub(super) fn expire(&mut self) {
        self.events = self.every;
    }

    /// Reads the clock.
    #[inline]
    pub(super) fn read(&mut self) -> Instant {
        self.events = 0;
        self.reads += 1;
        self.now = self.clock.now();
        self.now
    }

    /// The time, and no reading: nothing that the engine does is dated by it, but for offers.
    pub(super) fn glance(&self) -> Instant {
        self.clock.now()
    }

    /// Whether the time moves only while an endpoint sleeps.
    pub(super) fn is_virtual(&self) -> bool {
        self.clock.is_virtual()
    }
}
