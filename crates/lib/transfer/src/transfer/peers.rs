//! Peers: memory for those with operations, and the end of a session.

use super::Transfer;
use crate::memory::Bytes;
use crate::operation::{OpError, TransferCompletion};
use crate::peer::{ActivePeer, PeerEntry};
use crate::pool::MOST_BYTES;
use gigae_proto::{PeerId, Reason};
use gigae_wire::Epoch;

/// Peers that keep their state without operations. A program that exchanges requests and answers
/// with a few peers then neither allocates nor moves anything.
const MOST_KEPT: usize = 16;

/// Spare states for other peers.
const MOST_SPARE: usize = 16;

/// # Peers
impl<M: Bytes> Transfer<M> {
    /// The peers with operations, matched receives included. Looks at all operations.
    pub fn engaged(&self) -> Vec<PeerId> {
        let mut peers: Vec<_> = self.operations.iter().filter_map(|(_, o)| o.peer()).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }

    #[inline]
    pub(crate) fn peer(&mut self, peer: PeerId) -> &mut ActivePeer {
        let at = peer.0 as usize;
        if !matches!(self.peers.get(at), Some(PeerEntry::Busy(_))) {
            self.take_up(at);
        }
        let PeerEntry::Busy(peer) = &mut self.peers[at] else {
            unreachable!("it has just become so")
        };
        peer
    }

    /// How many operations name a peer.
    #[inline]
    pub(crate) fn engaged_with(&mut self, peer: PeerId) -> &mut u32 {
        let at = peer.0 as usize;
        if matches!(self.peers.get(at), None | Some(PeerEntry::Unknown)) {
            self.take_up(at);
        }
        match &mut self.peers[at] {
            PeerEntry::Busy(peer) => &mut peer.engaged,
            PeerEntry::Idle(rest) => &mut rest.engaged,
            PeerEntry::Unknown => unreachable!("it has just been taken up"),
        }
    }

    /// The first operation with a peer begins.
    #[cold]
    #[inline(never)]
    fn take_up(&mut self, at: usize) {
        if self.peers.len() <= at {
            if self.peers.capacity() <= at {
                // Grows by an eighth: doubling would leave half of the growth unused on average.
                self.peers.reserve_exact(at + at / 8 + 8 - self.peers.len());
            }
            self.peers.resize_with(at + 1, || PeerEntry::Unknown);
            self.pool.peers = self.peers.len();
        }
        let rest = match &self.peers[at] {
            PeerEntry::Idle(rest) => *rest,
            _ => ActivePeer::new().rest(),
        };
        self.busy += 1;
        let mut peer = self.spare.pop().unwrap_or_else(|| Box::new(ActivePeer::new()));
        peer.resume(rest);
        self.peers[at] = PeerEntry::Busy(peer);
    }

    /// If a peer has no operations any more, keeps only what must be known of it, unless few peers
    /// have a state.
    #[inline]
    pub(crate) fn settle(&mut self, peer: PeerId) {
        if self.busy > MOST_KEPT {
            self.put_away(peer);
        }
    }

    fn put_away(&mut self, peer: PeerId) {
        let Some(entry) = self.peers.get_mut(peer.0 as usize) else { return };
        let PeerEntry::Busy(state) = entry else { return };
        if !state.is_idle() {
            return;
        }
        let rest = state.rest();
        let unknown = rest == ActivePeer::new().rest();
        let left = if unknown { PeerEntry::Unknown } else { PeerEntry::Idle(rest) };
        let PeerEntry::Busy(state) = std::mem::replace(entry, left) else { return };
        self.busy -= 1;
        if state.is_small() && self.spare.len() < MOST_SPARE {
            self.spare.push(state);
        }
    }

    /// There may be something to send to a peer.
    pub(crate) fn wake(&mut self, peer: PeerId) {
        let state = self.peer(peer);
        if !state.ready {
            state.ready = true;
            self.ready.push_back(peer);
        }
    }

    /// A session has ended. All operations with the peer fail. Messages that have arrived whole can
    /// still be received, and unmatched receives stay.
    pub fn ended(&mut self, peer: PeerId, epoch: Epoch, reason: Reason) {
        let current = match self.peers.get(peer.0 as usize) {
            None | Some(PeerEntry::Unknown) => return,
            Some(PeerEntry::Idle(rest)) => rest.epoch,
            Some(PeerEntry::Busy(state)) => state.epoch,
        };
        if current.is_none_or(|e| e == epoch) {
            self.lose(peer, reason);
            self.settle(peer);
        }
    }

    /// All operations with a peer fail.
    pub(crate) fn lose(&mut self, peer: PeerId, reason: Reason) {
        let state = self.peer(peer);
        let injected = state.going.iter().filter(|(_, id)| id.is_none()).count();
        let promised = state.writing.is_some_and(|(w, found)| w.notice.is_some() && found.is_ok());
        let engaged = state.engaged;
        let granted = std::mem::replace(state, ActivePeer { engaged, ..ActivePeer::new() }).granted;
        granted.end(&mut self.pool);
        if promised {
            self.notices.release(peer);
        }
        // Nothing is left to send. Otherwise this end would propose sessions to it without end.
        self.ready.retain(|&ready| ready != peer);
        self.keep_former(peer, granted.bytes_beyond_first());
        if engaged > 0 || cfg!(debug_assertions) {
            self.lose_operations(peer, engaged, reason);
        }
        self.completions.extend((0..injected).map(|_| TransferCompletion::injected(peer, reason)));
    }

    /// Completes the operations with a peer. Looks at all operations, and is called only where the
    /// peer has some: a peer that begins and ends sessions again and again must not cause this
    /// work.
    #[cold]
    fn lose_operations(&mut self, peer: PeerId, engaged: u32, reason: Reason) {
        let of_peer = self.operations.iter().filter(|(_, o)| o.peer() == Some(peer));
        let mut lost: Vec<u32> = of_peer.map(|(id, _)| id).collect();
        debug_assert_eq!(lost.len(), engaged as usize, "operations with a peer are counted");
        lost.sort_unstable();
        for id in lost {
            self.complete(id, Err(OpError::Lost(reason)));
        }
    }

    /// A session with a peer, which had `freed` bytes of the pool, is over. Messages that arrived
    /// whole wait for a receive, as far as there is room for those of former sessions.
    fn keep_former(&mut self, peer: PeerId, freed: usize) {
        let before = self.matching.unexpected.former(peer);
        self.matching.unexpected.end_session(peer);
        loop {
            let former = self.matching.unexpected.former(peer);
            if former <= MOST_BYTES && self.pool.set_former(before, former, freed) {
                break;
            }
            self.matching.unexpected.drop_oldest(peer);
            self.counters.dropped += 1;
        }
    }
}
