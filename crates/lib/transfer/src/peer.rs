//! The operations with one peer, and the little that is kept while there are none.

use crate::atomic::Values;
use crate::memory::{RegionKey, RegionRef};
use crate::pool::{
    Allowance, FIRST_BYTES, FIRST_ENTRIES, LONGEST_UNASKED, MOST_ASKED, MOST_OFFERED, USUAL_BYTES,
};
use gigae_wire::Epoch;
use gigae_wire::op::{Op, Status};
use std::collections::VecDeque;

/// What an unexpected message takes of the allowance besides its bytes, so empty messages are
/// bounded too.
const OVERHEAD: u32 = 64;

/// Bytes of the allowance that a message takes.
pub(crate) fn cost(len: usize) -> u32 {
    OVERHEAD + len as u32
}

/// An answer to a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperationReply {
    Plain(Op),
    /// An atomic change of the peer is done; these are the former values.
    Fetched(u32, Values),
    /// The peer has taken a message, under its number and this end's. This end's operation is over
    /// with this answer.
    Confirmed {
        id: u32,
        send: u32,
    },
}

/// Bytes that a peer has asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingRead {
    /// The peer's number for the request.
    pub(crate) id: u32,
    pub(crate) source: ReadSource,
    pub(crate) len: u32,
    pub(crate) at: u32,
}

/// Where the bytes lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadSource {
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
    /// Its own memory, until a receive matches it.
    Own(Vec<u8>),
}

/// A part of a peer's write, or the next part that must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteProgress {
    /// The peer's number for the write.
    pub(crate) id: u32,
    pub(crate) key: RegionKey,
    pub(crate) offset: u64,
    pub(crate) total: u32,
    pub(crate) notice: Option<u64>,
    /// Bytes that have arrived.
    pub(crate) at: u32,
}

/// The part of its granted bytes after which a frame that goes to a peer anyway carries a Limit.
/// Half of them makes a separate frame.
const CARRIED: u32 = 8;

/// Up to this many entries, the memory of a peer's lists is kept for another peer.
const FEW: usize = 64;

/// What is kept of a peer without operations.
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

/// A peer's entry in the table.
#[derive(Debug)]
pub(crate) enum PeerEntry {
    /// There was no operation from it or to it in this session.
    Unknown,
    Idle(IdlePeer),
    Busy(Box<ActivePeer>),
}

/// The operations with one peer.
#[derive(Debug)]
pub(crate) struct ActivePeer {
    /// The session that they belong to, as far as it is known.
    pub(crate) epoch: Option<Epoch>,
    /// In the list of those with something to send.
    pub(crate) ready: bool,
    /// Operations started here, in order.
    pub(crate) starting: VecDeque<u32>,
    /// What this end must answer.
    pub(crate) answers: VecDeque<OperationReply>,
    pub(crate) serving: VecDeque<PendingRead>,
    /// Receives whose messages this end reads in the peer's memory, in order.
    pub(crate) fetching: VecDeque<u32>,
    /// Whether the peer reads long messages in this process's memory.
    pub(crate) lends: bool,
    /// Whether answers have the next turn.
    pub(crate) serve: bool,
    /// Frames filled and acknowledged, and the operations that end with them. Some messages are no
    /// operations.
    pub(crate) filled: u64,
    pub(crate) acknowledged: u64,
    pub(crate) going: VecDeque<(u64, Option<u32>)>,
    /// Bytes sent unasked, and up to where the peer allows it.
    pub(crate) sent: u32,
    pub(crate) until: u32,
    /// Bytes that came unasked, those of them that receives took, and the peer's limit.
    pub(crate) came: u32,
    pub(crate) taken: u32,
    pub(crate) allowed: u32,
    /// Messages offered and not pulled; operations that wait for their answer; and how many of each
    /// the peer allows.
    pub(crate) offered: u16,
    pub(crate) asked: u16,
    pub(crate) entries: u16,
    /// What the peer was granted, and whether a Limit must be sent.
    pub(crate) granted: Allowance,
    pub(crate) limit_due: bool,
    /// Operations of this endpoint that name the peer, including receives matched with its
    /// messages.
    pub(crate) engaged: u32,
    /// Offers of the peer that were not pulled, and its operations that were not answered.
    pub(crate) offers: u16,
    pub(crate) owed: u16,
    pub(crate) arriving: Option<Reassembly>,
    /// The peer's write in progress: its next part, and its memory or why it is refused. If one
    /// part is refused, all later ones are.
    pub(crate) writing: Option<(WriteProgress, Result<RegionRef, Status>)>,
}

impl ActivePeer {
    pub(crate) fn new() -> Self {
        Self {
            epoch: None,
            ready: false,
            starting: VecDeque::new(),
            answers: VecDeque::new(),
            serving: VecDeque::new(),
            fetching: VecDeque::new(),
            lends: false,
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
            limit_due: false,
            engaged: 0,
            offers: 0,
            owed: 0,
            arriving: None,
            writing: None,
        }
    }

    /// Whether there are no operations: only its [`rest`](Self::rest) must be kept.
    pub(crate) fn is_idle(&self) -> bool {
        let going_on = self.ready
            || self.is_owed()
            || self.owed > 0
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

    /// Continues with a peer of which this was kept, in spare memory.
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
        self.lends = false;
    }

    /// Whether its memory is small enough to keep for another peer.
    pub(crate) fn is_small(&self) -> bool {
        let Self { starting, answers, serving, fetching, going, .. } = self;
        let lists = [starting.capacity(), answers.capacity(), serving.capacity(), going.capacity()];
        fetching.capacity() <= FEW && lists.iter().all(|&capacity| capacity <= FEW)
    }

    /// Whether there is something to send, or something waits for the peer.
    pub(crate) fn is_owed(&self) -> bool {
        let nothing = self.starting.is_empty()
            && self.answers.is_empty()
            && self.serving.is_empty()
            && self.fetching.is_empty()
            && self.going.is_empty();
        !nothing || self.offered > 0 || self.asked > 0 || self.limit_due
    }

    /// The next operation that has ended because all of its frames are acknowledged.
    pub(crate) fn next_acknowledged(&mut self) -> Option<u32> {
        // A frame counts once it is filled, so what ends with the first frame has number zero.
        while let Some(&(frame, id)) = self.going.front()
            && frame < self.acknowledged
        {
            self.going.pop_front();
            if id.is_some() {
                return id;
            }
        }
        None
    }

    /// Whether a message may be sent unasked.
    pub(crate) fn allows(&self, len: usize) -> bool {
        let left = self.until.wrapping_sub(self.sent);
        left.cast_signed() > 0 && left >= cost(len)
    }

    /// A message came unasked. False if that was not allowed.
    pub(crate) fn came(&mut self, len: usize) -> bool {
        if len > LONGEST_UNASKED {
            return false;
        }
        let came = self.came.wrapping_add(cost(len));
        let within = self.allowed.wrapping_sub(came).cast_signed() >= 0;
        if within {
            self.came = came;
        }
        within
    }

    /// A receive took it: the sender may send as much again. Returns whether a Limit is due now.
    pub(crate) fn took(&mut self, len: usize) -> bool {
        self.taken = self.taken.wrapping_add(cost(len));
        let until = self.taken.wrapping_add(self.granted.bytes);
        let due = until.wrapping_sub(self.allowed) >= self.granted.bytes / 2;
        if due {
            self.allow_more();
        }
        due
    }

    /// Whether enough was taken that a frame which goes out anyway should say so.
    pub(crate) fn could_allow_more(&self) -> bool {
        let until = self.taken.wrapping_add(self.granted.bytes);
        until.wrapping_sub(self.allowed) >= self.granted.bytes / CARRIED
    }

    /// The peer may send as much again as was taken. A Limit is due.
    pub(crate) fn allow_more(&mut self) {
        self.allowed = self.taken.wrapping_add(self.granted.bytes);
        self.limit_due = true;
    }

    /// Whether the peer uses its first share of bytes and should get more.
    #[inline]
    pub(crate) fn wants_bytes(&self) -> bool {
        let left = self.allowed.wrapping_sub(self.came);
        self.granted.bytes < USUAL_BYTES && left <= self.granted.bytes - FIRST_BYTES / 4
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

    /// The limits for the peer from now on.
    pub(crate) fn limit(&self) -> Op {
        Op::Limit { until: self.allowed, entries: self.granted.entries.into() }
    }
}
