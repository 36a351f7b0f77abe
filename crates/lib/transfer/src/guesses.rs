//! How often a peer may name a key that belongs to no memory (`PROTOCOL.md` 9.5).
//!
//! Each wrong key costs the peer 10 ms of a debt, which time pays off. While a peer owes 10.24 s,
//! every access is refused without a look at its key. So right and wrong keys get the same answer.
//! The debt outlasts sessions. Other peers are not affected.

use crate::pool::MOST_ASKED;
use gigae_proto::{Instant, PeerId};
use std::collections::HashMap;
use std::time::Duration;

/// What a wrong key costs.
const COST: Duration = Duration::from_millis(10);

/// Wrong keys that a peer may name at once: as many as it may have operations in progress. All of
/// these may name one memory that was just deregistered.
const MOST_AT_ONCE: u32 = MOST_ASKED as u32;

/// See the module's description. Peers without debt have no entry.
#[derive(Debug, Default)]
pub(crate) struct GuessLimiter {
    /// When the debt of a peer is paid off.
    paid: HashMap<PeerId, Instant>,
}

impl GuessLimiter {
    /// Peers that have been in debt, and did not ask since they paid it off.
    pub(crate) fn len(&self) -> usize {
        self.paid.len()
    }

    /// Whether this peer's keys are looked up now.
    #[inline]
    pub(crate) fn may_ask(&mut self, peer: PeerId, now: Instant) -> bool {
        self.paid.is_empty() || self.owes_little(peer, now)
    }

    #[cold]
    fn owes_little(&mut self, peer: PeerId, now: Instant) -> bool {
        let Some(paid) = self.paid.get(&peer) else { return true };
        if *paid <= now {
            self.paid.remove(&peer);
            return true;
        }
        paid.since(now) <= COST * (MOST_AT_ONCE - 1)
    }

    /// A peer has named a wrong key.
    #[cold]
    pub(crate) fn wrong(&mut self, peer: PeerId, now: Instant) {
        let paid = self.paid.entry(peer).or_insert(now);
        *paid = (*paid).max(now) + COST;
    }
}
