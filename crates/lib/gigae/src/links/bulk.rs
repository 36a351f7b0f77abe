//! The socket for bulk data beside an endpoint's link: when it is looked at.
//!
//! Looking at a socket is a system call, which a program that waits for short messages must not make
//! in each round. So the socket is polled in each round for a while after something came by it, and
//! otherwise seldom. Who sleeps is woken by it.

use gigae_proto::BulkConfig;

/// Empty polls in a row after which the socket is polled seldom: some 50 us.
const PATIENCE: u32 = 256;

/// Rounds between two polls then: some microseconds of a spinning program.
const SELDOM: u32 = 512;

/// See the module's description.
pub(super) struct BulkSocket {
    pub(super) config: BulkConfig,
    /// Empty polls that are left of the patience.
    patience: u32,
    /// Rounds since the last poll.
    rounds: u32,
}

impl BulkSocket {
    pub(super) fn new(config: BulkConfig) -> Self {
        Self { config, patience: 0, rounds: 0 }
    }

    /// Another round: whether to poll the socket in it.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        self.rounds += 1;
        self.patience > 0 || self.rounds >= SELDOM
    }

    /// It was polled, and so many frames came.
    pub(super) fn polled(&mut self, frames: usize) {
        self.rounds = 0;
        self.patience = if frames > 0 { PATIENCE } else { self.patience.saturating_sub(1) };
    }

    /// The next round polls it: something may have come while nobody looked.
    pub(super) fn expect(&mut self) {
        self.rounds = SELDOM;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_polled_often_only_while_something_comes() {
        let at = "198.18.0.1:1".parse().unwrap();
        let mut bulk = BulkSocket::new(BulkConfig { at, datagram: 1464, most: 44 });
        let rounds_until_due =
            |bulk: &mut BulkSocket| 1 + (0..).take_while(|_| !bulk.is_due()).count();
        assert_eq!(rounds_until_due(&mut bulk), SELDOM as usize);
        bulk.polled(44);
        for _ in 0..PATIENCE {
            assert_eq!(rounds_until_due(&mut bulk), 1);
            bulk.polled(0);
        }
        assert_eq!(rounds_until_due(&mut bulk), SELDOM as usize);
        bulk.polled(0);
        bulk.expect();
        assert_eq!(rounds_until_due(&mut bulk), 1);
    }
}
