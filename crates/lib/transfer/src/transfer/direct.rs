//! Reads and writes of a peer's memory that the caller carries out itself: where the memory is
//! mapped here, that takes one copy and no frame.

use super::{Start, Transfer};
use crate::memory::Bytes;
use crate::operation::{OpId, Operation};
use crate::peer::PeerEntry;
use crate::slot_table::MOST;
use gigae_proto::PeerId;

/// # Operations without frames
impl<M: Bytes> Transfer<M> {
    /// Whether everything is done that was started here for a peer, so that the next operation may
    /// be carried out without frames and still be in order. Also that there is room for one.
    #[inline]
    pub fn is_caught_up(&self, peer: PeerId) -> bool {
        let caught_up = match self.peers.get(peer.0 as usize) {
            Some(PeerEntry::Busy(state)) => {
                state.starting.is_empty() && state.asked == 0 && state.filled == state.acknowledged
            }
            _ => true,
        };
        caught_up && self.operations.len() < MOST
    }

    /// A [write](Self::write) or [read](Self::read) was carried out by the caller, with all of this
    /// memory. It ends at once.
    pub fn carried_out(&mut self, peer: PeerId, memory: M) -> Start<M> {
        let (key, offset, at, notice, begun) = (0, 0, 0, None, true);
        let done = Operation::Write { peer, memory, key, offset, at, notice, begun };
        let id = self.operations.insert(done).map_err(super::starting::handed_back)?;
        self.started += 1;
        self.counters.direct += 1;
        *self.engaged_with(peer) += 1;
        self.complete(id, Ok(()));
        Ok(OpId(id))
    }
}
