//! How much peers can make an endpoint keep (`PROTOCOL.md` 9.3 to 9.5, 9.7): bytes of unexpected
//! messages, offers, and unanswered operations.
//!
//! Each peer has a first share, which needs no grant. Everything beyond it comes from one pool for
//! all peers. When the pool is empty, a peer keeps its later messages and operations until receives
//! take earlier ones. So nothing that was granted is refused, and no peer can use up another's
//! grant.

use crate::log;

/// Bytes of messages that a peer may send unasked from the beginning of a session. Both ends count
/// from it, so it is part of the protocol.
pub(crate) const FIRST_BYTES: u32 = 8 << 10;

/// What a peer gets that uses these: some of the longest messages that are sent unasked.
pub(crate) const USUAL_BYTES: u32 = 4 * LONGEST_UNASKED as u32;

/// The largest such allowance, for a peer that sends faster than receives are posted. It is as much
/// as its windows hold, so that it waits for those, and not for an answer to each message.
pub(crate) const MOST_BYTES: u32 = 512 << 10;

/// Longest message in bytes that is sent unasked. Pulling a longer one takes little of its time.
pub(crate) const LONGEST_UNASKED: usize = 64 << 10;

/// Offers and unanswered operations that a peer may have here from the beginning of a session. Part
/// of the protocol, too.
pub(crate) const FIRST_ENTRIES: u16 = 64;

/// Factor by which they grow at a time.
const GROWTH: u16 = 4;

/// Most messages offered to a peer and not pulled. Later messages wait at their sender.
pub(crate) const MOST_OFFERED: u16 = 16_384;

/// Most unanswered reads, writes and atomic changes at a peer.
pub(crate) const MOST_ASKED: u16 = 1024;

/// Bytes that one entry may take: an offer, or the answer to an operation.
const ENTRY: usize = 128;

/// Bytes granted to all peers beyond their first shares.
#[derive(Debug)]
pub(crate) struct Pool {
    most: usize,
    granted: usize,
    /// Peers that there are.
    pub(crate) peers: usize,
}

impl Pool {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, granted: 0, peers: 0 }
    }

    /// Bytes that peers have at the moment.
    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    /// Takes up to `bytes` bytes, in units of `unit`, for a peer that `has` some; returns how many.
    /// Of the last quarter a peer gets no more than what it lacks of its part of it.
    fn take_some(&mut self, bytes: usize, unit: usize, has: usize) -> usize {
        let last = self.most / 4;
        let part = (last / self.peers.max(1)).saturating_sub(has);
        let left = (self.most - last).saturating_sub(self.granted).max(part);
        let left = left.min(self.most - self.granted);
        let taken = if bytes <= left { bytes } else { left / unit * unit };
        if taken < bytes {
            log::used_up(bytes, self.granted, self.most);
        }
        self.granted += taken;
        taken
    }

    /// Takes bytes only if half of the pool is left for peers that have nothing yet.
    fn take_spare(&mut self, bytes: usize) -> bool {
        let fits = self.granted + bytes <= self.most / 2;
        self.granted += if fits { bytes } else { 0 };
        fits
    }

    fn give_back(&mut self, bytes: usize) {
        self.granted -= bytes;
    }

    /// Updates what messages of a peer's former sessions take of an allowance, when a session has
    /// ended that had `freed` bytes. False if it has grown and there is no room.
    pub(crate) fn set_former(&mut self, before: u32, after: u32, freed: usize) -> bool {
        if beyond(after) > beyond(before) {
            let more = beyond(after) - beyond(before);
            if more <= freed {
                self.granted += more;
                return true;
            }
            return self.take_some(more, more, beyond(before)) == more;
        }
        self.give_back(beyond(before) - beyond(after));
        true
    }
}

/// Bytes of the pool that messages of former sessions take.
fn beyond(former: u32) -> usize {
    former.saturating_sub(FIRST_BYTES) as usize
}

/// What a peer was granted in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) bytes: u32,
    pub(crate) entries: u16,
}

impl Allowance {
    pub(crate) const FIRST: Self = Self { bytes: FIRST_BYTES, entries: FIRST_ENTRIES };

    /// Grants the usual bytes, or to a peer that has these more, if it is `ahead` of the receives,
    /// as far as the pool and the messages of former sessions allow. Returns how many.
    pub(crate) fn grow_bytes(&mut self, former: u32, pool: &mut Pool, ahead: bool) -> u32 {
        let usual = USUAL_BYTES.saturating_sub(former);
        let more = if self.bytes < usual {
            let (wanted, has) =
                ((usual - self.bytes) as usize, self.beyond_first() + beyond(former));
            pool.take_some(wanted, FIRST_BYTES as usize, has) as u32
        } else {
            let more = MOST_BYTES.saturating_sub(former).saturating_sub(self.bytes);
            if ahead && pool.take_spare(more as usize) { more } else { 0 }
        };
        self.bytes += more;
        more
    }

    /// Grants more entries; false if there are none left.
    pub(crate) fn grow_entries(&mut self, former: u32, pool: &mut Pool) -> bool {
        let entries = self.entries.saturating_mul(GROWTH).min(MOST_OFFERED);
        let wanted = usize::from(entries - self.entries) * ENTRY;
        let has = self.beyond_first() + beyond(former);
        let taken = pool.take_some(wanted, FIRST_ENTRIES as usize * ENTRY, has);
        self.entries += (taken / ENTRY) as u16;
        taken > 0
    }

    /// Bytes of the pool.
    fn beyond_first(self) -> usize {
        let entries = usize::from(self.entries - FIRST_ENTRIES) * ENTRY;
        self.bytes_beyond_first() + entries
    }

    /// Bytes for messages beyond the first share.
    pub(crate) fn bytes_beyond_first(self) -> usize {
        (self.bytes - FIRST_BYTES) as usize
    }

    /// The session is over.
    pub(crate) fn end(self, pool: &mut Pool) {
        pool.give_back(self.beyond_first());
    }
}
