//! Numbers that only this endpoint can compute (`PROTOCOL.md` §4): epochs and tokens. Each is a
//! keyed hash of what it represents (SipHash-2-4, Aumasson and Bernstein 2012). So the responder of
//! a handshake has to keep nothing.

use crate::PeerKey;
use gigae_wire::Epoch;
use siphasher::sip::SipHasher24;
use std::hash::{Hash, Hasher};

/// 128 random bits of this endpoint. They never leave it.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Secret(u128);

/// What a number represents. Numbers of different purposes are unrelated.
#[derive(Hash)]
enum Purpose {
    Epoch,
    Proposal,
    Answer,
    Question,
    Socket,
}

/// The contents of an offer to a proposer.
#[derive(Clone, Copy, Hash)]
pub(crate) struct OfferContents {
    /// The proposer's epoch and token.
    pub(crate) remote: Epoch,
    pub(crate) token: u64,
    /// The epoch that this end offers.
    pub(crate) local: Epoch,
}

impl Secret {
    pub(crate) fn new(secret: u128) -> Self {
        Self(secret)
    }

    /// This end's epoch of session `number` with a peer.
    pub(crate) fn epoch(&self, key: &PeerKey, number: u32) -> Epoch {
        self.epoch_of((Purpose::Epoch, key, number))
    }

    /// An epoch for a question that belongs to no session.
    pub(crate) fn question(&self, number: u32) -> Epoch {
        self.epoch_of((Purpose::Question, number))
    }

    /// The token that the answer to a proposal must repeat. An answer to the first Hellos does not
    /// count after the proposal has begun `again`.
    pub(crate) fn proposal(&self, key: &PeerKey, local: Epoch, again: bool) -> u64 {
        self.hash((Purpose::Proposal, key, local, again))
    }

    /// The token that the confirmation of an offer must repeat, if it was made in this period.
    pub(crate) fn answer(&self, key: &PeerKey, offered: OfferContents, period: u64) -> u64 {
        self.hash((Purpose::Answer, key, offered, period))
    }

    /// The token that the answer to a question by a socket must repeat, in the session with this
    /// epoch.
    pub(crate) fn socket(&self, key: &PeerKey, local: Epoch) -> u64 {
        self.hash((Purpose::Socket, key, local))
    }

    fn epoch_of(&self, what: impl Hash) -> Epoch {
        // Zero is not an epoch.
        match self.hash(what) as u32 {
            0 => Epoch(u32::MAX),
            n => Epoch(n),
        }
    }

    fn hash(&self, what: impl Hash) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.0 as u64, (self.0 >> 64) as u64);
        what.hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_wire::MacAddr;
    use std::collections::HashSet;

    fn key(n: u8) -> PeerKey {
        PeerKey { node: MacAddr([2, 0, 0, 0, 0, n]).into(), port: 0, channel: 0 }
    }

    #[test]
    fn every_number_depends_on_all_that_it_stands_for() {
        let mut all = HashSet::new();
        for secret in [0, 1, 1 << 64].map(Secret::new) {
            for n in 0..3 {
                all.insert(u64::from(secret.question(n).0));
                for peer in 0..3 {
                    let key = key(peer);
                    all.insert(secret.epoch(&key, n).0.into());
                    all.extend([false, true].map(|again| secret.proposal(&key, Epoch(n), again)));
                    all.insert(secret.socket(&key, Epoch(n)));
                    for (remote, token, local, period) in
                        [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]
                    {
                        let (remote, local) = (Epoch(remote + 2 * n), Epoch(local));
                        let offered = OfferContents { remote, token, local };
                        all.insert(secret.answer(&key, offered, period));
                    }
                }
            }
        }
        assert_eq!(all.len(), 3 * 3 * (1 + 3 * (4 + 4)));
    }
}
