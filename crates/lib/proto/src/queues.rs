//! What a path knows of the queues on its way (`PROTOCOL.md` §7.6 and §13.2).
//!
//! Queues make round trips long, and so do peers that sleep. So one long round trip is never a
//! reason to send less by a link. It ends the doubling of the flight, and lets a loss reduce it
//! further. What bulk data by a socket have in flight also falls without a loss.

use crate::flight::Flight;
use crate::time::Instant;

/// Longest time in nanoseconds that datagrams of bulk frames should wait in queues on their way:
/// what comes behind them waits as long, such as questions, and acknowledgements of what comes the
/// other way.
const LONGEST_QUEUE: u64 = 1_000_000;

/// If less time is spent there although the flight is full, it grows again as if no queue had been
/// long.
const SHORT_QUEUE: u64 = LONGEST_QUEUE / 4;

/// Longer queues never reduce the datagrams in flight below this. Perhaps others have made the
/// queue.
const LEAST_BY_QUEUE: u32 = 64;

/// Frames in flight that a sender begins with where credit is shared, and after a pause. It is the
/// bandwidth-delay product of 10 Gbit/s and 20 us, and a receiver's first credit. The frames of 20
/// senders that begin at once fit in the buffer of a usual switch port.
pub(crate) const FIRST_FLIGHT: u32 = 16;

/// Least frames in flight after a loss with a long round trip. With 4, the reports of later frames
/// still show a loss (7.3). 85 senders fill 512 KiB with them.
pub(crate) const LEAST_IN_QUEUE: u32 = 4;

/// A round trip may take this much longer, in nanoseconds, than the shortest one before it is long:
/// an acknowledgement may wait as long.
const USUAL_DELAY: u64 = 50_000;

/// Least pause in nanoseconds after which a path begins again. A program that computes for some
/// milliseconds between two exchanges is not held up, and a network has seldom changed by then.
const PAUSE: u64 = 10_000_000;

/// See the module's description.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Queues {
    /// By a socket for bulk data.
    Bulk(BulkQueues),
    /// By a link, where credit is shared.
    Shared(SharedQueues),
}

/// What is known of the queues on the way of bulk data.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct BulkQueues {
    /// Shortest round trip in nanoseconds.
    least: u64,
    /// As much was in flight as may be since the last round trip was timed.
    full: bool,
    /// The threshold before the flight was reduced because of queues.
    threshold: Option<u32>,
}

/// What is known of the queues on the way of frames to a peer with shared credit.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct SharedQueues {
    /// The last round trip was long.
    is_long: bool,
    /// The next round trip is the first one after a pause. Perhaps the peer slept.
    begins: bool,
    /// When frames were last in flight, as far as readings of the clock show it.
    last: Instant,
    /// Frames that could be in flight before the path fell silent, until it is used again and it is
    /// known how long it was silent.
    before: Option<u32>,
}

impl Queues {
    pub(crate) fn bulk() -> Self {
        Self::Bulk(BulkQueues { least: u64::MAX, full: false, threshold: None })
    }

    pub(crate) fn shared() -> Self {
        Self::Shared(SharedQueues { is_long: false, begins: false, last: Instant(0), before: None })
    }

    /// As much is in flight now as may be, or not.
    #[inline(always)]
    pub(crate) fn transmitted(&mut self, full: bool) {
        if let Self::Bulk(queues) = self {
            queues.full |= full;
        }
    }

    /// A round trip took so long, and the shortest of all so far `shortest`.
    pub(crate) fn timed(&mut self, nanos: u64, shortest: u64, flight: &mut Flight) {
        match self {
            Self::Bulk(queues) => queues.timed(nanos, flight),
            Self::Shared(queues) => {
                if std::mem::take(&mut queues.begins) {
                    return;
                }
                queues.is_long = nanos > shortest.saturating_add(shortest.max(USUAL_DELAY));
                if queues.is_long {
                    flight.threshold = flight.threshold.min(flight.most);
                }
            }
        }
    }

    /// The clock was read. `is_used` says whether frames are in flight now, or were until now.
    /// `timeout` is the path's first timeout in nanoseconds.
    pub(crate) fn stamp(&mut self, now: Instant, is_used: bool, timeout: u64, flight: &mut Flight) {
        let Self::Shared(queues) = self else { return };
        if is_used {
            if let Some(before) = queues.before.take() {
                // After a long pause, the flight doubles up to what it was.
                flight.threshold = flight.threshold.max(before);
                if now.nanos_since(queues.last) <= timeout.max(PAUSE) {
                    flight.most = flight.most.max(before);
                } else {
                    queues.begins = true;
                }
            }
            queues.last = now;
        } else if queues.before.is_none() {
            // The next frames may go before the next reading, which shows how long the pause was.
            queues.before = Some(flight.most);
            flight.most = flight.most.min(FIRST_FLIGHT);
        }
    }

    /// Whether the last round trip by a link was long.
    pub(crate) fn is_long(&self) -> bool {
        matches!(self, Self::Shared(queues) if queues.is_long)
    }

    /// Whether this is for a link.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Something was lost. The threshold is that of a loss from now on.
    pub(crate) fn lost(&mut self) {
        match self {
            Self::Bulk(queues) => queues.threshold = None,
            Self::Shared(queues) => queues.before = None,
        }
    }
}

impl BulkQueues {
    /// A round trip took so long. If much of it was spent in queues, which this path has filled,
    /// less may be in flight. Or the peer only computed: then the next ones soon bring the flight
    /// back.
    fn timed(&mut self, nanos: u64, flight: &mut Flight) {
        if !std::mem::take(&mut self.full) {
            // Another way may be longer. It is known after some thousand round trips.
            let aged = self.least.saturating_add(self.least / 4096 + 1);
            self.least = aged.min(nanos);
            return;
        }
        self.least = self.least.min(nanos);
        let most = self.least + LONGEST_QUEUE;
        if nanos > most && flight.most > LEAST_BY_QUEUE {
            self.threshold.get_or_insert(flight.threshold);
            let fewer = u64::from(flight.most) * most / nanos;
            flight.most = (fewer as u32).max(LEAST_BY_QUEUE);
            flight.threshold = flight.most;
        } else if nanos < self.least + SHORT_QUEUE
            && let Some(threshold) = self.threshold.take()
        {
            flight.threshold = threshold;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: u64 = 200_000;

    /// A path with 100 frames that may be in flight, which was last used at 1 s.
    fn used() -> (Queues, Flight) {
        let (mut queues, mut flight) = (Queues::shared(), Flight { most: 100, threshold: 80 });
        queues.stamp(Instant(1_000_000_000), true, TIMEOUT, &mut flight);
        (queues, flight)
    }

    /// All frames arrive, and the next one goes so much later.
    fn after(pause: u64, timeout: u64) -> (u32, u32) {
        let (mut queues, mut flight) = used();
        queues.stamp(Instant(1_000_000_000), false, TIMEOUT, &mut flight);
        assert_eq!(flight.most, FIRST_FLIGHT, "the pause may be long");
        queues.stamp(Instant(1_000_000_000 + pause / 2), false, TIMEOUT, &mut flight);
        queues.stamp(Instant(1_000_000_000 + pause), true, timeout, &mut flight);
        (flight.most, flight.threshold)
    }

    #[test]
    fn after_a_short_pause_as_much_may_be_in_flight_as_before() {
        assert_eq!(after(PAUSE, TIMEOUT), (100, 100));
        assert_eq!(after(49_000_000, 50_000_000), (100, 100), "its timeout is longer");
    }

    #[test]
    fn after_a_long_pause_the_flight_doubles_again_up_to_what_it_was() {
        assert_eq!(after(PAUSE + 1, TIMEOUT), (FIRST_FLIGHT, 100));
    }

    #[test]
    fn the_first_round_trip_after_a_pause_may_be_that_of_a_peer_that_slept() {
        let (mut queues, mut flight) = used();
        queues.stamp(Instant(1_000_000_000), false, TIMEOUT, &mut flight);
        queues.stamp(Instant(2_000_000_000), true, TIMEOUT, &mut flight);
        queues.timed(500_000, 10_000, &mut flight);
        assert_eq!((queues.is_long(), flight.threshold), (false, 100));
        queues.timed(500_000, 10_000, &mut flight);
        assert_eq!((queues.is_long(), flight.threshold), (true, FIRST_FLIGHT));
    }

    #[test]
    fn frames_in_flight_are_no_pause() {
        let (mut queues, mut flight) = used();
        queues.stamp(Instant(2_000_000_000), true, TIMEOUT, &mut flight);
        assert_eq!((flight.most, flight.threshold), (100, 80));
    }

    #[test]
    fn a_small_flight_stays_what_it_is_after_a_pause() {
        let (mut queues, mut flight) = (used().0, Flight { most: 5, threshold: 5 });
        queues.stamp(Instant(1_000_000_000), false, TIMEOUT, &mut flight);
        queues.stamp(Instant(2_000_000_000), true, TIMEOUT, &mut flight);
        assert_eq!(flight.most, 5);
    }

    #[test]
    fn a_long_round_trip_ends_the_doubling_and_reduces_nothing() {
        let (mut queues, mut flight) = (Queues::shared(), Flight { most: 40, threshold: 256 });
        queues.timed(10_000 + USUAL_DELAY, 10_000, &mut flight);
        assert!(!queues.is_long(), "the acknowledgement may have waited");
        queues.timed(1_900_000, 1_000_000, &mut flight);
        assert_eq!((queues.is_long(), flight.threshold), (false, 256));
        queues.timed(11_000 + USUAL_DELAY, 10_000, &mut flight);
        assert_eq!((queues.is_long(), flight.most, flight.threshold), (true, 40, 40));
        queues.timed(10_000, 10_000, &mut flight);
        assert!(!queues.is_long());
    }
}
