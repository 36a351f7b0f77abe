//! The socket for bulk data beside an endpoint's link: when it is looked at.
//!
//! Looking at a socket is a system call, which a program that waits for short messages must not
//! make in each round. So each round polls the socket for a while after something came by it, was
//! asked for, or went by it and may be answered, unless the program goes on sending. Otherwise a
//! round polls it now and then. The socket wakes an endpoint that sleeps.

use gigae_proto::{BulkConfig, Instant};
use std::time::Duration;

/// For this time each round polls the socket after something came by it.
const PATIENCE: Duration = Duration::from_micros(50);

/// The same after something went by it: 64 KiB there and back take some 70 us over a cable.
const ANSWER: Duration = Duration::from_micros(250);

/// Rounds after a frame has gone by it, that of the send included, until an answer is waited for. A
/// program that sends one message after the other makes one or two between them.
const ROUNDS: u8 = 3;

/// Time between two polls otherwise. A system call takes some 200 ns, so this costs a spinning
/// program one part in a hundred.
const SELDOM: Duration = Duration::from_micros(20);

/// A socket that was not polled for so long may hold what says that a path works. The process had
/// no processor meanwhile, or the program did not call.
const LATE: Duration = Duration::from_millis(1);

/// See the module's description.
pub(super) struct BulkSocket {
    pub(super) config: BulkConfig,
    /// Whether the next round polls the socket.
    due: bool,
    /// The next round polls it even if something is sent before: something may have come.
    expected: bool,
    /// Until then each round polls it.
    until: Instant,
    /// The last poll brought something.
    brings: bool,
    /// Rounds until an answer is waited for; zero if none is.
    rounds: u8,
    /// When it is due again.
    next: Instant,
    /// It was polled since the time was taken.
    looked: bool,
}

impl BulkSocket {
    pub(super) fn new(config: BulkConfig) -> Self {
        let (until, next) = (Instant(0), Instant(0));
        Self {
            config,
            due: false,
            expected: false,
            until,
            brings: false,
            rounds: 0,
            next,
            looked: false,
        }
    }

    /// Whether to poll the socket in this round, which it counts.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        if self.rounds > 0 {
            self.rounds -= 1;
            self.due |= self.rounds == 0;
        }
        self.due | self.expected
    }

    /// Takes the time.
    pub(super) fn advance(&mut self, now: Instant) {
        self.looked = false;
        self.due |= now >= self.next;
    }

    /// Whether the next round polls it before anything counts as late.
    pub(super) fn is_behind(&mut self, now: Instant) -> bool {
        let behind = !self.looked && now > self.next + LATE;
        self.expected |= behind;
        behind
    }

    /// It was polled, and this many frames came.
    pub(super) fn polled(&mut self, frames: usize, now: Instant) {
        self.brings = frames > 0;
        if self.brings {
            self.until = self.until.max(now + PATIENCE);
        }
        (self.due, self.expected, self.rounds) = (now < self.until, false, 0);
        self.next = now + SELDOM;
        self.looked = true;
    }

    /// A peer was asked for bulk data.
    pub(super) fn asked(&mut self, now: Instant) {
        self.until = self.until.max(now + PATIENCE);
        self.expected = true;
    }

    /// A frame goes by it. While the next rounds send more, nothing is expected there, unless
    /// something came with the last poll.
    pub(super) fn sent(&mut self, now: Instant) {
        self.until = self.until.max(now + ANSWER);
        self.due = self.brings || now >= self.next;
        self.rounds = ROUNDS;
    }

    /// The next round polls it: something may have come since the last poll.
    pub(super) fn expect(&mut self) {
        self.expected = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_counts_as_late_before_a_socket_was_polled() {
        let at = "198.18.0.1:1".parse().unwrap();
        let mut bulk = BulkSocket::new(BulkConfig { at, datagram: 1464, most: 44 });
        let [begin, soon, late] = [1_000_000, 1_500_000, 21_000_000].map(Instant);
        bulk.polled(0, begin);
        bulk.advance(begin);
        assert!(!bulk.is_behind(soon));
        assert!(bulk.is_behind(late) && bulk.is_due(), "the process had no processor");
        // The round that polls it may know the time of the last one only.
        bulk.polled(1, begin);
        assert!(!bulk.is_behind(late));
        bulk.advance(late);
        bulk.polled(0, late);
        assert!(!bulk.is_behind(late));
    }

    #[test]
    fn a_socket_is_polled_often_only_while_something_comes() {
        let at = "198.18.0.1:1".parse().unwrap();
        let mut bulk = BulkSocket::new(BulkConfig { at, datagram: 1464, most: 44 });
        let mut now = Instant(1_000_000);
        // Polls in a tenth of a millisecond, with a round in each microsecond.
        let mut polls = |bulk: &mut BulkSocket| {
            let mut polls = 0;
            for _ in 0..100 {
                now = now + Duration::from_micros(1);
                bulk.advance(now);
                if bulk.is_due() {
                    bulk.polled(0, now);
                    polls += 1;
                }
            }
            polls
        };
        assert_eq!(polls(&mut bulk), 5);
        bulk.polled(44, Instant(1_100_000));
        assert_eq!(polls(&mut bulk), 50 + 2);
        bulk.asked(Instant(1_200_000));
        assert_eq!(polls(&mut bulk), 50 + 2);
        assert_eq!(polls(&mut bulk), 5);
        bulk.expect();
        assert!(bulk.is_due());
        bulk.polled(0, Instant(1_400_000));
        assert!(!bulk.is_due());
        bulk.expect();
        bulk.sent(Instant(1_400_000));
        assert!(bulk.is_due(), "something may have come before");
        bulk.polled(0, Instant(1_400_000));
        // An answer is waited for.
        bulk.sent(Instant(1_400_000));
        assert_eq!(polls(&mut bulk), 98, "after some rounds without a further frame");
        assert_eq!(polls(&mut bulk), 100);
        // A sender that goes on looks now and then, unless something comes.
        for (brings, looks) in [(0, 4), (1, 100)] {
            bulk.polled(brings, Instant(1_600_000));
            let mut count = 0;
            for n in 0..100 {
                let now = Instant(1_600_000 + n * 1_000);
                // The time that rounds see may be old.
                bulk.sent(now);
                if bulk.is_due() {
                    bulk.polled(brings, now);
                    count += 1;
                }
            }
            assert_eq!(count, looks, "{brings}");
        }
    }
}
