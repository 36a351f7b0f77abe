//! Messages of receives of several that are arriving or wait to be reported.
//!
//! A message that has ended waits here until the earlier ones of its sender have ended. Its
//! operation is over by then, so the number of the operation may come again. Messages are therefore
//! numbered here, per sender. Each step costs the same, however many wait.

use crate::operation::TransferCompletion;
use gigae_proto::PeerId;
use std::collections::{BTreeMap, VecDeque};

/// Senders that keep their memory without messages, so an exchange with a few allocates nothing.
const MOST_KEPT: usize = 16;

/// Messages for which such a sender keeps memory.
const MOST_SPARE: usize = 64;

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Parts<M> {
    by_peer: BTreeMap<PeerId, PeerParts<M>>,
    len: usize,
}

#[derive(Debug)]
struct PeerParts<M> {
    /// Number of the first message in the list.
    first: u32,
    /// In the order in which they were matched; none for a message that is arriving.
    list: VecDeque<Option<TransferCompletion<M>>>,
}

impl<M> Default for Parts<M> {
    fn default() -> Self {
        Self { by_peer: BTreeMap::new(), len: 0 }
    }
}

impl<M> Parts<M> {
    /// Messages of all senders.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Messages of one sender.
    pub(crate) fn of(&self, peer: PeerId) -> usize {
        self.by_peer.get(&peer).map_or(0, |of| of.list.len())
    }

    /// A message of a peer begins. Returns its number.
    pub(crate) fn begin(&mut self, peer: PeerId) -> u32 {
        let of = self.by_peer.entry(peer).or_insert(PeerParts { first: 0, list: VecDeque::new() });
        of.list.push_back(None);
        self.len += 1;
        of.first.wrapping_add(of.list.len() as u32 - 1)
    }

    /// The message with this number has ended.
    pub(crate) fn end(&mut self, peer: PeerId, number: u32, completion: TransferCompletion<M>) {
        let Some(of) = self.by_peer.get_mut(&peer) else { return };
        if let Some(ended) = of.list.get_mut(number.wrapping_sub(of.first) as usize) {
            *ended = Some(completion);
        }
    }

    /// The next message of a peer to report.
    pub(crate) fn take(&mut self, peer: PeerId) -> Option<TransferCompletion<M>> {
        let kept = self.by_peer.len() <= MOST_KEPT;
        let of = self.by_peer.get_mut(&peer)?;
        let Some(Some(_)) = of.list.front() else { return None };
        let taken = of.list.pop_front().flatten();
        of.first = of.first.wrapping_add(1);
        self.len -= 1;
        if of.list.is_empty() && !kept {
            self.by_peer.remove(&peer);
        } else if of.list.capacity() > MOST_SPARE && of.list.len() < of.list.capacity() / 4 {
            of.list.shrink_to(2 * of.list.len());
        }
        taken
    }

    /// Takes all that have ended, and forgets the others.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = TransferCompletion<M>> + use<M> {
        let all = std::mem::take(self).by_peer;
        all.into_values().flat_map(|of| of.list).flatten()
    }
}
