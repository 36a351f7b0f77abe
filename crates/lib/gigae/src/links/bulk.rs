//! The socket for bulk data beside an endpoint's link: when it is looked at.
//!
//! Looking at a socket is a system call, which a program that waits for short messages must not make
//! in each round. So the socket is polled in each round for a while after something came by it or
//! was asked for, and otherwise now and then. Who sleeps is woken by it.

use gigae_proto::{BulkConfig, Instant};
use std::time::Duration;

/// So long each round polls the socket after something came by it.
const PATIENCE: Duration = Duration::from_micros(50);

/// Time between two polls otherwise. A system call takes some 200 ns, so this costs a spinning
/// program one part in a hundred.
const SELDOM: Duration = Duration::from_micros(20);

/// See the module's description.
pub(super) struct BulkSocket {
    pub(super) config: BulkConfig,
    /// Whether the next round polls the socket.
    due: bool,
    /// Until then each round polls it.
    until: Instant,
    /// When it is due again.
    next: Instant,
}

impl BulkSocket {
    pub(super) fn new(config: BulkConfig) -> Self {
        Self { config, due: false, until: Instant(0), next: Instant(0) }
    }

    /// Whether to poll the socket in this round.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Takes the time.
    pub(super) fn advance(&mut self, now: Instant) {
        self.due |= now >= self.next;
    }

    /// It was polled, and so many frames came.
    pub(super) fn polled(&mut self, frames: usize, now: Instant) {
        if frames > 0 {
            self.until = now + PATIENCE;
        }
        self.due = now < self.until;
        self.next = now + SELDOM;
    }

    /// A peer was asked for bulk data.
    pub(super) fn asked(&mut self, now: Instant) {
        self.until = now + PATIENCE;
        self.due = true;
    }

    /// The next round polls it: something may have come while nobody looked.
    pub(super) fn expect(&mut self) {
        self.due = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
