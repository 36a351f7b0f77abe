//! What is going on with one peer, and the little that is left of it while nothing is.

use crate::memory::RegionKey;
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
    Region(RegionKey, u64),
}

/// A message that arrives in parts.
#[derive(Debug)]
pub(crate) struct Arriving {
    pub(crate) total: u32,
    pub(crate) into: Into,
}

#[derive(Debug)]
pub(crate) enum Into {
    /// The memory of a receive.
    Receive(u32),
    /// A memory of its own, until a receive wants it.
    Own(Vec<u8>),
}

/// Entries up to which the memory of a peer's lists is worth keeping for another peer.
const FEW: usize = 64;

/// What is known of a peer with which nothing is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) epoch: Option<Epoch>,
    sent: u32,
    until: u32,
    came: u32,
    taken: u32,
    allowed: u32,
    offers: u32,
}

/// A peer's place in the table.
#[derive(Debug)]
pub(crate) enum Entry {
    /// No operation came from it or went to it in this session.
    Unknown,
    Idle(Rest),
    Busy(Box<Peer>),
}

/// What is going on with one peer.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The session that all of this belongs to, as far as it is known.
    pub(crate) epoch: Option<Epoch>,
    /// In the list of those with something to send.
    pub(crate) ready: bool,
    /// Operations started here, in order.
    pub(crate) starting: VecDeque<u32>,
    /// What this end owes.
    pub(crate) answers: VecDeque<Op>,
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
    /// Messages offered and not pulled; operations whose answer is awaited.
    pub(crate) offered: u32,
    pub(crate) asked: u32,
    /// Offers of the peer that were not pulled.
    pub(crate) offers: u32,
    pub(crate) arriving: Option<Arriving>,
    /// The peer's write that is being refused, part by part.
    pub(crate) refusing: Option<(u32, Status)>,
}

impl Peer {
    pub(crate) fn new(allowance: u32) -> Self {
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
            until: allowance,
            came: 0,
            taken: 0,
            allowed: allowance,
            offered: 0,
            asked: 0,
            offers: 0,
            arriving: None,
            refusing: None,
        }
    }

    /// Whether nothing is going on: what is left is its [`rest`](Self::rest).
    pub(crate) fn is_idle(&self) -> bool {
        let going_on = self.ready
            || self.is_owed()
            || self.filled > self.acknowledged
            || self.arriving.is_some()
            || self.refusing.is_some();
        !going_on
    }

    pub(crate) fn rest(&self) -> Rest {
        let &Self { epoch, sent, until, came, taken, allowed, offers, .. } = self;
        Rest { epoch, sent, until, came, taken, allowed, offers }
    }

    /// Goes on with a peer of which this is known, in the memory of one with which nothing is going on.
    pub(crate) fn resume(&mut self, rest: Rest) {
        debug_assert!(self.is_idle(), "something is going on with another");
        let Rest { epoch, sent, until, came, taken, allowed, offers } = rest;
        (self.epoch, self.sent, self.until) = (epoch, sent, until);
        (self.came, self.taken, self.allowed, self.offers) = (came, taken, allowed, offers);
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
        !nothing || self.offered > 0 || self.asked > 0
    }

    /// Whether a message may be sent unasked.
    pub(crate) fn allows(&self, len: usize) -> bool {
        let left = self.until.wrapping_sub(self.sent);
        left.cast_signed() > 0 && left >= cost(len)
    }

    /// A message came unasked; false if that was not allowed.
    pub(crate) fn came(&mut self, len: usize, allowance: u32) -> bool {
        if len > allowance as usize {
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
    pub(crate) fn took(&mut self, len: usize, allowance: u32) -> bool {
        self.taken = self.taken.wrapping_add(cost(len));
        let until = self.taken.wrapping_add(allowance);
        let told = until.wrapping_sub(self.allowed) >= allowance / 2;
        if told {
            self.allowed = until;
            self.answers.push_back(Op::Limit { until });
        }
        told
    }
}
