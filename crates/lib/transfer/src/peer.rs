//! What is going on with one peer, and the little that is left of it while nothing is.

use crate::atomic::Values;
use crate::memory::{RegionKey, RegionRef};
use crate::pool::{Allowance, FIRST_BYTES, FIRST_ENTRIES, MOST_ASKED, MOST_BYTES, MOST_OFFERED};
use gigae_wire::Epoch;
use gigae_wire::op::{Op, Status};
use std::collections::VecDeque;

/// What a message that nobody waits for takes of the allowance besides its bytes, so that empty ones
/// are bounded too.
const OVERHEAD: u32 = 64;

/// What a message takes of the allowance.
pub(crate) fn cost(len: usize) -> u32 {
    OVERHEAD + len as u32
}

/// What a peer is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Plain(Op),
    /// An atomic change of the peer's is done, and this was there before.
    Fetched(u32, Values),
}

/// Bytes that a peer has asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serving {
    /// The peer's number for it.
    pub(crate) id: u32,
    pub(crate) source: Source,
    pub(crate) len: u32,
    pub(crate) at: u32,
}

/// Where they lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// In the memory of an offered message.
    Send(u32),
    Region(RegionRef, u64),
}

/// A message that arrives in parts.
#[derive(Debug)]
pub(crate) struct Reassembly {
    pub(crate) total: u32,
    pub(crate) into: ReassemblyBuffer,
}

#[derive(Debug)]
pub(crate) enum ReassemblyBuffer {
    /// The memory of a receive.
    Receive(u32),
    /// A memory of its own, until a receive wants it.
    Own(Vec<u8>),
}

/// A part of a peer's write, or what the next part must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Writing {
    /// The peer's number for it.
    pub(crate) id: u32,
    pub(crate) key: RegionKey,
    pub(crate) offset: u64,
    pub(crate) total: u32,
    pub(crate) notice: Option<u64>,
    /// Bytes that have come.
    pub(crate) at: u32,
}

/// Entries up to which the memory of a peer's lists is worth keeping for another peer.
const FEW: usize = 64;

/// What is known of a peer with which nothing is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdlePeer {
    pub(crate) epoch: Option<Epoch>,
    sent: u32,
    until: u32,
    came: u32,
    taken: u32,
    allowed: u32,
    granted: Allowance,
    entries: u16,
    offers: u16,
    pub(crate) engaged: u32,
}

/// A peer's place in the table.
#[derive(Debug)]
pub(crate) enum PeerEntry {
    /// No operation came from it or went to it in this session.
    Unknown,
    Idle(IdlePeer),
    Busy(Box<ActivePeer>),
}

/// What is going on with one peer.
#[derive(Debug)]
pub(crate) struct ActivePeer {
    /// The session that all of this belongs to, as far as it is known.
    pub(crate) epoch: Option<Epoch>,
    /// In the list of those with something to send.
    pub(crate) ready: bool,
    /// Operations started here, in order.
    pub(crate) starting: VecDeque<u32>,
    /// What this end owes.
    pub(crate) answers: VecDeque<Answer>,
    pub(crate) serving: VecDeque<Serving>,
    /// Whether it is the turn of what this end owes.
    pub(crate) serve: bool,
    /// Frames filled and acknowledged, and the operations that end with them, or messages that are none.
    pub(crate) filled: u64,
    pub(crate) acknowledged: u64,
    pub(crate) going: VecDeque<(u64, Option<u32>)>,
    /// What was sent unasked, and up to where the peer allows it.
    pub(crate) sent: u32,
    pub(crate) until: u32,
    /// What came unasked, what of it was taken, and up to where the peer was allowed it.
    pub(crate) came: u32,
    pub(crate) taken: u32,
    pub(crate) allowed: u32,
    /// Messages offered and not pulled; operations whose answer is awaited; how many of either the peer
    /// allows.
    pub(crate) offered: u16,
    pub(crate) asked: u16,
    pub(crate) entries: u16,
    /// What the peer was granted, and whether it is to be told.
    pub(crate) granted: Allowance,
    pub(crate) tell: bool,
    /// Operations of this endpoint that name the peer, receives that one of its messages was matched with included.
    pub(crate) engaged: u32,
    /// Offers of the peer that were not pulled; its operations that were not answered.
    pub(crate) offers: u16,
    pub(crate) owed: u16,
    pub(crate) arriving: Option<Reassembly>,
    /// The peer's write that has begun and not ended: its next part, and its memory or why it is refused. One part
    /// refused, all that follow are.
    pub(crate) writing: Option<(Writing, Result<RegionRef, Status>)>,
}

impl ActivePeer {
    pub(crate) fn new() -> Self {
        Self {
            epoch: None,
            ready: false,
            starting: VecDeque::new(),
            answers: VecDeque::new(),
            serving: VecDeque::new(),
            serve: false,
            filled: 0,
            acknowledged: 0,
            going: VecDeque::new(),
            sent: 0,
            until: FIRST_BYTES,
            came: 0,
            taken: 0,
            allowed: FIRST_BYTES,
            offered: 0,
            asked: 0,
            entries: FIRST_ENTRIES,
            granted: Allowance::FIRST,
            tell: false,
            engaged: 0,
            offers: 0,
            owed: 0,
            arriving: None,
            writing: None,
        }
    }

    /// Whether nothing is going on: what is left is its [`rest`](Self::rest).
    pub(crate) fn is_idle(&self) -> bool {
        let going_on = self.ready
            || self.is_owed()
            || self.filled > self.acknowledged
            || self.arriving.is_some()
            || self.writing.is_some();
        !going_on
    }

    pub(crate) fn rest(&self) -> IdlePeer {
        let &Self {
            epoch,
            sent,
            until,
            came,
            taken,
            allowed,
            granted,
            entries,
            offers,
            engaged,
            ..
        } = self;
        IdlePeer { epoch, sent, until, came, taken, allowed, granted, entries, offers, engaged }
    }

    /// Goes on with a peer of which this is known, in the memory of one with which nothing is going on.
    pub(crate) fn resume(&mut self, rest: IdlePeer) {
        debug_assert!(self.is_idle(), "something is going on with another");
        let IdlePeer {
            epoch,
            sent,
            until,
            came,
            taken,
            allowed,
            granted,
            entries,
            offers,
            engaged,
        } = rest;
        (self.epoch, self.sent, self.until) = (epoch, sent, until);
        (self.came, self.taken, self.allowed) = (came, taken, allowed);
        (self.granted, self.entries) = (granted, entries);
        (self.offers, self.engaged) = (offers, engaged);
    }

    /// Whether its memory is worth keeping for another peer.
    pub(crate) fn is_small(&self) -> bool {
        let Self { starting, answers, serving, going, .. } = self;
        let lists = [starting.capacity(), answers.capacity(), serving.capacity(), going.capacity()];
        lists.iter().all(|&capacity| capacity <= FEW)
    }

    /// Whether there is something to send or something waits for the peer.
    pub(crate) fn is_owed(&self) -> bool {
        let nothing = self.starting.is_empty()
            && self.answers.is_empty()
            && self.serving.is_empty()
            && self.going.is_empty();
        !nothing || self.offered > 0 || self.asked > 0 || self.tell
    }

    /// Whether a message may be sent unasked.
    pub(crate) fn allows(&self, len: usize) -> bool {
        let left = self.until.wrapping_sub(self.sent);
        left.cast_signed() > 0 && left >= cost(len)
    }

    /// A message came unasked; false if that was not allowed.
    pub(crate) fn came(&mut self, len: usize) -> bool {
        if len > MOST_BYTES as usize {
            return false;
        }
        let came = self.came.wrapping_add(cost(len));
        let within = self.allowed.wrapping_sub(came).cast_signed() >= 0;
        if within {
            self.came = came;
        }
        within
    }

    /// It was taken by a receive: the sender is allowed as much again, and told so now and then. Whether it is now.
    pub(crate) fn took(&mut self, len: usize) -> bool {
        let granted = self.granted.bytes;
        self.taken = self.taken.wrapping_add(cost(len));
        let until = self.taken.wrapping_add(granted);
        let tell = until.wrapping_sub(self.allowed) >= granted / 2;
        if tell {
            self.allowed = until;
            self.tell = true;
        }
        tell
    }

    /// Whether the peer uses its first share of bytes: it should be granted more.
    #[inline]
    pub(crate) fn wants_bytes(&self) -> bool {
        let left = self.allowed.wrapping_sub(self.came);
        self.granted.bytes < MOST_BYTES && left <= self.granted.bytes - FIRST_BYTES / 4
    }

    /// Whether the peer uses half of its entries.
    #[inline]
    pub(crate) fn wants_entries(&self) -> bool {
        let Self { offers, owed, granted: Allowance { entries, .. }, .. } = *self;
        let most = if offers < owed { MOST_ASKED } else { MOST_OFFERED };
        offers.max(owed) > entries / 2 && entries < most
    }

    /// Whether another operation of the peer may wait for its answer.
    pub(crate) fn may_ask(&self) -> bool {
        self.owed < self.granted.entries.min(MOST_ASKED)
    }

    /// What the peer may send from now on.
    pub(crate) fn limit(&self) -> Op {
        Op::Limit { until: self.allowed, entries: self.granted.entries.into() }
    }
}
