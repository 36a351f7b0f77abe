//! Long messages between processes of a node: the receiver reads them in the sender's memory, with
//! one copy (`PROTOCOL.md` 9.4).
//!
//! The sender may lose the peer and give the memory back to the program while it is read. So the
//! receive ends only when the sender has confirmed that the message was still its own.

use super::Transfer;
use crate::memory::Bytes;
use crate::operation::{DataSource, Matched, Offer, Operation, Receive};
use crate::peer::{OperationReply, PeerEntry};
use gigae_proto::PeerId;
use gigae_wire::op::Op;

/// # Messages in another process's memory
impl<M: Bytes> Transfer<M> {
    /// Whether a peer reads long messages in this process's memory, from now on.
    pub fn lend(&mut self, peer: PeerId, lends: bool) {
        if lends || matches!(self.peers.get(peer.0 as usize), Some(PeerEntry::Busy(_))) {
            self.peer(peer).lends = lends;
        }
    }

    /// Whether a peer has offered messages that can be [fetched](Self::fetch).
    pub fn has_fetches(&self, peer: PeerId) -> bool {
        match self.peers.get(peer.0 as usize) {
            Some(PeerEntry::Busy(state)) => !state.fetching.is_empty(),
            _ => false,
        }
    }

    /// Peers with messages that can be fetched and are not complete.
    pub fn fetching(&self) -> impl Iterator<Item = PeerId> {
        // They wait for their turn.
        self.ready.iter().copied().filter(|&peer| self.has_fetches(peer))
    }

    /// Copies offered messages out of the memory of the peer's process, into the memories of their
    /// receives. `read` fills bytes from an address there, and says whether it could. A message
    /// that cannot be read is asked for. Copies at most `left` bytes, which it counts down. False
    /// if there is more: [postpone](Self::postpone) the peer then. What the peer must know is in
    /// the next frame that is [filled](Self::fill) for it.
    pub fn fetch(
        &mut self,
        peer: PeerId,
        left: &mut usize,
        mut read: impl FnMut(u64, &mut [u8]) -> bool,
    ) -> bool {
        while let Some(&id) = self.peer(peer).fetching.front() {
            let Some((offer, got, len)) = self.lent(peer, id) else {
                // The receive is over.
                self.peer(peer).fetching.pop_front();
                continue;
            };
            let part = (len - got).min(*left);
            if part == 0 {
                return false;
            }
            *left -= part;
            let from = offer.at.unwrap_or_default().wrapping_add(got as u64);
            let done = self.place_of(id, got, part).is_some_and(|place| read(from, place));
            let got = if done { got + part } else { 0 };
            if done && got < len {
                self.set_fetched(id, got, DataSource::Lent(offer));
                continue;
            }
            let source = if done { DataSource::Taken } else { DataSource::Pulled };
            self.set_fetched(id, got, source);
            self.peer(peer).fetching.pop_front();
            let (offer, len) = (offer.id, len as u32);
            if done {
                self.counters.fetched += 1;
                let taken = Op::Taken { id, offer, len };
                self.peer(peer).answers.push_back(OperationReply::Plain(taken));
            } else {
                self.ask_for(peer, id, offer, len);
            }
        }
        true
    }

    /// A message that is read in its sender's memory: where it is, how many bytes have been read,
    /// and how many are wanted.
    fn lent(&self, peer: PeerId, id: u32) -> Option<(Offer, usize, usize)> {
        let Some(Operation::Receive(Receive { room, matched: Some(m), .. })) =
            self.operations.get(id)
        else {
            return None;
        };
        let &Matched { peer: from, total, got, source: DataSource::Lent(offer), .. } = m else {
            return None;
        };
        (from == peer).then_some((offer, got as usize, total.min(*room) as usize))
    }

    fn set_fetched(&mut self, id: u32, got: usize, source: DataSource) {
        if let Some(Operation::Receive(Receive { matched: Some(m), .. })) =
            self.operations.get_mut(id)
        {
            (m.got, m.source) = (got as u32, source);
        }
    }
}
