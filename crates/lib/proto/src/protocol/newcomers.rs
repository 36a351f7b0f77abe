//! First credit for peers whose sessions come up, one after the other (`PROTOCOL.md` 6.7).

use crate::PeerKey;
use crate::time::Instant;

/// Frames that a peer has credit for when it is the first one for a while to propose a session, and
/// by what power of two the next ones get less: 16, 4, 1, none. So a thousand peers that begin at
/// once send nothing before they get credit.
pub(super) const OFFER: u16 = 16;
const OFFER_SHIFT: u32 = 2;

/// How long an offer counts, in nanoseconds: the least retransmission timeout. By then its peer's
/// frames have come.
pub(super) const OFFER_TIME: u64 = 200_000;

/// Peers that are new.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) struct Newcomers {
    /// Those of the present time, and when it began.
    pub(super) count: u32,
    pub(super) since: Instant,
    /// The last one of them.
    last: Option<PeerKey>,
}

impl Newcomers {
    /// Credit for the next one. One that begins again counts once.
    pub(super) fn next(&mut self, key: PeerKey, now: Instant, is_rationed: bool) -> u16 {
        if self.is_over(now) {
            *self = Self { count: 0, since: now, last: None };
        }
        self.count += u32::from(self.last.replace(key) != Some(key));
        let shift = OFFER_SHIFT * (self.count - 1 + u32::from(is_rationed));
        OFFER.checked_shr(shift).unwrap_or(0)
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        now.nanos_since(self.since) >= OFFER_TIME
    }
}
