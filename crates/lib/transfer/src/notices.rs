//! Notices that wait for the program, and the bound on them (`PROTOCOL.md` 9.5).

use crate::operation::TransferNotice;
use gigae_proto::PeerId;
use gigae_wire::Epoch;
use std::collections::{HashMap, VecDeque};

/// Each peer always has this part of the bound for itself, so no peer takes all of it.
const RESERVED_PART: usize = 1024;

/// From this part of the bound on, writes are answered when the program takes their notices. The
/// rest is for what is under way then: each peer has at most 1,024 operations without answer.
const ANSWERED_PART: usize = 16;

/// The write of a notice waits for its answer: its session and its number.
pub(crate) type UnansweredWrite = (Epoch, u32);

/// See the module's description. A write reserves its entry before its first byte is written, and
/// keeps it until the program takes the notice.
#[derive(Debug)]
pub(crate) struct Notices {
    most: usize,
    reserved: u32,
    waiting: VecDeque<(TransferNotice, Option<UnansweredWrite>)>,
    /// Entries in use: notices, and writes in progress that will end with one.
    places: usize,
    by_peer: HashMap<PeerId, u32>,
}

impl Notices {
    /// Notices that wait for the program.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// At most `most` entries, and beyond them 1/1,024 of that for each peer.
    pub(crate) fn new(most: usize) -> Self {
        let reserved = (most / RESERVED_PART) as u32;
        Self { most, reserved, waiting: VecDeque::new(), places: 0, by_peer: HashMap::new() }
    }

    /// Reserves an entry for a write of a peer; false if no entry is left.
    pub(crate) fn reserve(&mut self, peer: PeerId) -> bool {
        let own = self.by_peer.get(&peer).copied().unwrap_or(0);
        if self.places >= self.most && own >= self.reserved {
            return false;
        }
        self.places += 1;
        self.by_peer.insert(peer, own + 1);
        true
    }

    /// Frees the entry of a write that brings no notice.
    pub(crate) fn release(&mut self, peer: PeerId) {
        self.places -= 1;
        if let Some(own) = self.by_peer.get_mut(&peer) {
            *own -= 1;
            if *own == 0 {
                self.by_peer.remove(&peer);
            }
        }
    }

    /// Whether many notices wait, so that a write is answered only when the program takes its
    /// notice.
    pub(crate) fn are_many(&self) -> bool {
        self.waiting.len() >= self.most / ANSWERED_PART
    }

    /// The write is done: its notice uses its entry.
    pub(crate) fn push(&mut self, notice: TransferNotice, unanswered: Option<UnansweredWrite>) {
        self.waiting.push_back((notice, unanswered));
    }

    pub(crate) fn pop(&mut self) -> Option<(TransferNotice, Option<UnansweredWrite>)> {
        let next = self.waiting.pop_front()?;
        self.release(next.0.peer);
        Some(next)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
