//! How a caller waits for frames: the choice between time and CPU.

use std::time::Duration;

/// How blocking calls wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Polls without end: the shortest round trip, one CPU fully used.
    Spin,
    /// Sleeps in the kernel at once: no CPU while idle, a wake-up (tens of microseconds) per wait.
    Sleep,
    /// Polls for as long as polling has lately paid, at most about the cost of a wake-up, then
    /// sleeps. An endpoint that only receives, many times in a row, counts as the receiver of a
    /// stream. It naps up to 100 us while frames gather, like a NIC that coalesces its interrupts.
    /// An endpoint that waits for room to send naps, too.
    #[default]
    Adaptive,
}

/// Longest spin: about what a wake-up on another CPU costs (60 us and more where it was measured),
/// so that waiting never costs more than twice the better of spinning and sleeping.
const LONGEST_SPIN: Duration = Duration::from_micros(100);

/// Shortest spin: a few round trips on a fast link.
const SHORTEST_SPIN: Duration = Duration::from_micros(6);

/// Longest nap: the time of eight full frames on Gigabit Ethernet, which are half of the frames
/// that are acknowledged at once. It is shorter than the least retransmission timeout.
const LONGEST_NAP: Duration = Duration::from_micros(100);

/// Frames that may gather during a nap: a quarter of the window, so that the sender does not run
/// out of it.
const MOST_GATHERED: u64 = 64;

/// Waits in a row between which nothing was sent, after which an endpoint is the end of a stream.
/// More than a program waits for when it has asked a few others something.
const STREAM: u32 = 32;

/// What to do after an empty poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    Spin,
    /// Sleep for this time, whether or not something arrives.
    Nap(Duration),
    /// Sleep until something arrives.
    Sleep,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// A message or an acknowledgement that the caller wants now.
    #[default]
    Arrival,
    /// Room in a window that is full: there is no hurry.
    Room,
    /// The rest of a frame of which a part has come.
    Rest,
}

/// How a wait ended, and what the endpoint has counted by then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitResult {
    pub(crate) slept: bool,
    pub(crate) napped: bool,
    /// Messages and operations that the program has sent.
    pub(crate) sent: u64,
    pub(crate) frames_received: u64,
}

/// Decides between spinning, napping and sleeping during one endpoint's life.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) style: Wait,
    spin: Duration,
    nap: Duration,
    /// Waits in a row between which nothing was sent.
    one_way: u32,
    /// Counts at the end of the last wait.
    sent: u64,
    received: u64,
}

impl Waiter {
    pub(crate) fn new(style: Wait) -> Self {
        let (spin, nap) = (LONGEST_SPIN, LONGEST_NAP);
        Self { style, spin, nap, one_way: 0, sent: 0, received: 0 }
    }

    /// What to do after waiting for this time, perhaps with a nap, while nothing has arrived.
    #[inline]
    pub(crate) fn idle(&self, waited: Duration, wanted: WaitFor, napped: bool) -> Idle {
        match self.style {
            Wait::Spin => Idle::Spin,
            Wait::Sleep => Idle::Sleep,
            Wait::Adaptive if napped => Idle::Sleep,
            Wait::Adaptive if wanted == WaitFor::Room && waited >= SHORTEST_SPIN => {
                Idle::Nap(self.nap)
            }
            Wait::Adaptive if self.one_way >= STREAM => Idle::Nap(self.nap),
            Wait::Adaptive if wanted == WaitFor::Rest && waited < LONGEST_SPIN => Idle::Spin,
            Wait::Adaptive if waited < self.spin => Idle::Spin,
            Wait::Adaptive => Idle::Sleep,
        }
    }

    /// A wait that was not quite short is over.
    #[inline]
    pub(crate) fn ended(&mut self, how: WaitResult) {
        let gathered = how.frames_received - self.received;
        self.received = how.frames_received;
        if how.sent == self.sent {
            self.one_way = self.one_way.saturating_add(1);
        } else {
            self.one_way = 0;
            self.sent = how.sent;
        }
        if how.slept {
            // It spun before, and nothing came: next time it spins half as long.
            self.spin = (self.spin / 2).max(SHORTEST_SPIN);
        } else if how.napped {
            self.nap = match gathered > MOST_GATHERED {
                true => self.nap / 2,
                false => (self.nap * 2).clamp(Duration::from_micros(1), LONGEST_NAP),
            };
        } else {
            self.spin = LONGEST_SPIN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(slept: bool, napped: bool) -> WaitResult {
        WaitResult { slept, napped, sent: 0, frames_received: 0 }
    }

    #[test]
    fn an_idle_adaptive_waiter_soon_hardly_spins_and_one_quick_answer_restores_it() {
        let mut waiter = Waiter::new(Wait::Adaptive);
        let idle = |w: &Waiter, waited| w.idle(waited, WaitFor::Arrival, false);
        assert_eq!(idle(&waiter, LONGEST_SPIN / 2), Idle::Spin);
        (0..10).for_each(|_| waiter.ended(ended(true, false)));
        assert_eq!(idle(&waiter, SHORTEST_SPIN), Idle::Sleep);
        assert_eq!(idle(&waiter, SHORTEST_SPIN / 2), Idle::Spin, "or it would never find out");
        waiter.ended(ended(false, false));
        assert_eq!(idle(&waiter, LONGEST_SPIN / 2), Idle::Spin);
    }

    #[test]
    fn an_endpoint_that_only_receives_naps_until_it_sends() {
        let mut waiter = Waiter::new(Wait::Adaptive);
        (0..STREAM).for_each(|_| waiter.ended(ended(false, false)));
        let idle = |w: &Waiter, napped| w.idle(Duration::ZERO, WaitFor::Arrival, napped);
        assert_eq!(idle(&waiter, false), Idle::Nap(LONGEST_NAP));
        assert_eq!(idle(&waiter, true), Idle::Sleep, "the stream has stopped");
        waiter.ended(WaitResult { sent: 1, ..ended(false, false) });
        assert_eq!(idle(&waiter, false), Idle::Spin);
    }

    #[test]
    fn naps_become_short_when_much_gathers_and_long_again() {
        let mut waiter = Waiter::new(Wait::Adaptive);
        let room = |w: &Waiter| w.idle(SHORTEST_SPIN, WaitFor::Room, false);
        assert_eq!(waiter.idle(Duration::ZERO, WaitFor::Room, false), Idle::Spin);
        for round in 1..30 {
            waiter.ended(WaitResult { frames_received: round * 100, ..ended(false, true) });
        }
        assert_eq!(room(&waiter), Idle::Nap(Duration::ZERO));
        for _ in 0..10 {
            waiter.ended(WaitResult { frames_received: 2900, ..ended(false, true) });
        }
        assert_eq!(room(&waiter), Idle::Nap(LONGEST_NAP));
    }

    #[test]
    fn the_rest_of_a_frame_is_waited_for_longer_and_after_each_part_of_a_stream_the_endpoint_naps()
    {
        let mut waiter = Waiter::new(Wait::Adaptive);
        (0..10).for_each(|_| waiter.ended(ended(true, false)));
        assert_eq!(waiter.idle(LONGEST_SPIN / 2, WaitFor::Rest, false), Idle::Spin);
        assert_eq!(waiter.idle(LONGEST_SPIN, WaitFor::Rest, false), Idle::Sleep, "it is lost");
        (0..STREAM).for_each(|_| waiter.ended(ended(true, true)));
        assert_eq!(waiter.idle(Duration::ZERO, WaitFor::Rest, false), Idle::Nap(LONGEST_NAP));
    }

    #[test]
    fn the_other_styles_do_only_one_thing() {
        for wanted in [WaitFor::Arrival, WaitFor::Room] {
            let hour = Duration::from_secs(3600);
            assert_eq!(Waiter::new(Wait::Spin).idle(hour, wanted, false), Idle::Spin);
            assert_eq!(Waiter::new(Wait::Sleep).idle(Duration::ZERO, wanted, false), Idle::Sleep);
        }
    }
}
