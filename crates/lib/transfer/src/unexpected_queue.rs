//! Messages that no receive has matched yet, in the order of arrival: over all peers, and for each
//! peer. So the cost of a receive from one peer, or of the end of a session, does not grow with
//! what other peers have sent.

use crate::matching::{Selector, UnexpectedBody, UnexpectedMessage};
use crate::peer::cost;
use crate::transfer::Stalled;
use gigae_proto::PeerId;
use gigae_wire::op::Label;
use std::collections::HashMap;

/// Slots that stay allocated when the last message is taken.
const MOST_SPARE: usize = 1024;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct NodeLinks {
    before: u32,
    after: u32,
}

/// The first and the last of a list.
#[derive(Clone, Copy, Debug)]
struct ListEnds {
    first: u32,
    last: u32,
}

impl ListEnds {
    const EMPTY: Self = Self { first: NONE, last: NONE };
}

/// The two lists that contain a message.
#[derive(Clone, Copy, Debug)]
enum List {
    All,
    OfPeer,
}

#[derive(Debug)]
struct QueueNode {
    message: UnexpectedMessage,
    /// The session of the message is over.
    former: bool,
    /// It waits until receives of several take more, or is behind such a message of its sender.
    waits: bool,
    links: [NodeLinks; 2],
}

/// The messages of one peer.
#[derive(Clone, Copy, Debug)]
struct PeerQueue {
    ends: ListEnds,
    /// Bytes of the peer's allowance that messages of former sessions take.
    former: u32,
    /// The first tagged and the first untagged message that waits. All later ones of its kind wait.
    waiting: [u32; 2],
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct UnexpectedQueue {
    nodes: Vec<Option<QueueNode>>,
    free: Vec<u32>,
    all: ListEnds,
    by_peer: HashMap<PeerId, PeerQueue>,
}

impl Default for UnexpectedQueue {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), all: ListEnds::EMPTY, by_peer: HashMap::new() }
    }
}

/// A message that was taken out.
pub(crate) struct Taken {
    pub(crate) message: UnexpectedMessage,
    /// The session of the message is over.
    pub(crate) former: bool,
}

impl UnexpectedQueue {
    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Bytes of a peer's allowance that messages of its former sessions take.
    pub(crate) fn former(&self, peer: PeerId) -> u32 {
        self.by_peer.get(&peer).map_or(0, |of| of.former)
    }

    /// Whether it `waits`, or is behind a message that does.
    pub(crate) fn push(&mut self, message: UnexpectedMessage, waits: bool) {
        let peer = message.peer;
        let kind = usize::from(message.label.untagged);
        let of = PeerQueue { ends: ListEnds::EMPTY, former: 0, waiting: [NONE; 2] };
        let of = self.by_peer.entry(peer).or_insert(of);
        let (all, own) = (self.all.last, of.ends.last);
        let links = [all, own].map(|before| NodeLinks { before, after: NONE });
        let node = Some(QueueNode { message, former: false, waits, links });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.nodes[slot as usize] = node;
                slot
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        of.ends.last = slot;
        if waits && of.waiting[kind] == NONE {
            of.waiting[kind] = slot;
        }
        if own == NONE {
            of.ends.first = slot;
        } else {
            self.node(own).links[List::OfPeer as usize].after = slot;
        }
        self.all.last = slot;
        if all == NONE {
            self.all.first = slot;
        } else {
            self.node(all).links[List::All as usize].after = slot;
        }
    }

    fn node(&mut self, slot: u32) -> &mut QueueNode {
        self.nodes[slot as usize].as_mut().expect("it is in a list")
    }

    /// The list of the messages that a selector may match, and its first slot.
    fn list_of(&self, selector: &Selector) -> (List, u32) {
        match selector.source {
            Some(peer) => (List::OfPeer, self.by_peer.get(&peer).map_or(NONE, |of| of.ends.first)),
            None => (List::All, self.all.first),
        }
    }

    fn find(&self, selector: &Selector) -> Option<u32> {
        let (list, slot) = self.list_of(selector);
        self.find_from(slot, list, selector)
    }

    /// The first matching message that does not wait, from this slot on.
    fn find_from(&self, mut slot: u32, list: List, selector: &Selector) -> Option<u32> {
        while let Some(node) = self.nodes.get(slot as usize)?.as_ref() {
            let QueueNode { message, waits, links, .. } = node;
            if !waits && selector.wants(message.peer, message.label) {
                return Some(slot);
            }
            slot = links[list as usize].after;
        }
        None
    }

    /// The first matching message.
    pub(crate) fn peek(&self, selector: &Selector) -> Option<&UnexpectedMessage> {
        let node = self.nodes[self.find(selector)? as usize].as_ref()?;
        Some(&node.message)
    }

    /// Takes out the first matching message.
    pub(crate) fn take(&mut self, selector: &Selector) -> Option<Taken> {
        let slot = self.find(selector)?;
        Some(self.remove(slot))
    }

    /// The slot of the first message that a selector matches, or of the next one after a slot.
    pub(crate) fn next(&self, selector: &Selector, after: Option<u32>) -> Option<u32> {
        let (list, first) = self.list_of(selector);
        let slot = match after {
            None => first,
            Some(slot) => self.nodes[slot as usize].as_ref()?.links[list as usize].after,
        };
        self.find_from(slot, list, selector)
    }

    /// The slot of the first message that waits of those that are stalled.
    pub(crate) fn waiting(&self, stalled: Stalled) -> Option<u32> {
        let slot = self.by_peer.get(&stalled.peer)?.waiting[usize::from(stalled.untagged)];
        (slot != NONE).then_some(slot)
    }

    /// A message waits from now on, and so do those of its peer and kind behind it.
    pub(crate) fn set_waiting(&mut self, slot: u32) {
        let UnexpectedMessage { peer, label: Label { untagged, .. }, .. } = self.node(slot).message;
        let mut next = slot;
        while let Some(Some(node)) = self.nodes.get_mut(next as usize) {
            if node.message.label.untagged == untagged {
                if node.waits {
                    break;
                }
                node.waits = true;
            }
            next = node.links[List::OfPeer as usize].after;
        }
        if let Some(of) = self.by_peer.get_mut(&peer) {
            of.waiting[usize::from(untagged)] = slot;
        }
    }

    /// The first message of those that wait does so no longer.
    pub(crate) fn wait_no_longer(&mut self, slot: u32) {
        self.pass(slot);
        self.node(slot).waits = false;
    }

    /// If a message is the first that waits, the next one of its peer and kind is.
    fn pass(&mut self, slot: u32) {
        let node = self.node(slot);
        let (waits, message) = (node.waits, &node.message);
        let &UnexpectedMessage { peer, label: Label { untagged, .. }, .. } = message;
        let mut next = node.links[List::OfPeer as usize].after;
        if !waits
            || self.by_peer.get(&peer).map(|of| of.waiting[usize::from(untagged)]) != Some(slot)
        {
            return;
        }
        while let Some(Some(node)) = self.nodes.get(next as usize) {
            if node.message.label.untagged == untagged {
                break;
            }
            next = node.links[List::OfPeer as usize].after;
        }
        if let Some(of) = self.by_peer.get_mut(&peer) {
            of.waiting[usize::from(untagged)] = next;
        }
    }

    /// The message in a slot.
    pub(crate) fn message(&self, slot: u32) -> Option<&UnexpectedMessage> {
        Some(&self.nodes[slot as usize].as_ref()?.message)
    }

    /// Takes out the message in a slot.
    pub(crate) fn remove(&mut self, slot: u32) -> Taken {
        self.pass(slot);
        let node = self.nodes[slot as usize].take().expect("it is in a list");
        let QueueNode { message, former, links: [all, own], .. } = node;
        self.free.push(slot);
        let peer = message.peer;
        if let Some(mut of) = self.by_peer.get(&peer).copied() {
            self.unlink(&mut of.ends, own, List::OfPeer);
            of.former -= if former { cost(message.total as usize) } else { 0 };
            if of.ends.first == NONE {
                self.by_peer.remove(&peer);
            } else {
                self.by_peer.insert(peer, of);
            }
        }
        let mut ends = self.all;
        self.unlink(&mut ends, all, List::All);
        self.all = ends;
        if self.len() == 0 && self.nodes.capacity() > MOST_SPARE {
            *self = Self::default();
        }
        Taken { message, former }
    }

    fn unlink(&mut self, ends: &mut ListEnds, NodeLinks { before, after }: NodeLinks, list: List) {
        match before {
            NONE => ends.first = after,
            before => self.node(before).links[list as usize].after = after,
        }
        match after {
            NONE => ends.last = before,
            after => self.node(after).links[list as usize].before = before,
        }
    }

    /// The message that arrives from a peer in parts is complete: the last one, apart from offers.
    pub(crate) fn arrived(&mut self, peer: PeerId, bytes: Vec<u8>) {
        let mut slot = self.by_peer.get(&peer).map_or(NONE, |of| of.ends.last);
        while slot != NONE {
            let node = self.node(slot);
            if matches!(node.message.body, UnexpectedBody::Arriving) {
                node.message.body = UnexpectedBody::Whole(bytes);
                return;
            }
            slot = node.links[List::OfPeer as usize].before;
        }
    }

    /// A session with a peer is over. Drops what has not arrived whole.
    pub(crate) fn end_session(&mut self, peer: PeerId) {
        let mut slot = self.by_peer.get(&peer).map_or(NONE, |of| of.ends.last);
        // Those of former sessions are in front, and were already checked.
        while slot != NONE {
            let node = self.node(slot);
            let before = node.links[List::OfPeer as usize].before;
            if node.former {
                return;
            }
            if matches!(node.message.body, UnexpectedBody::Whole(_)) {
                node.former = true;
                let cost = cost(node.message.total as usize);
                self.by_peer.get_mut(&peer).expect("it has messages").former += cost;
            } else {
                self.remove(slot);
            }
            slot = before;
        }
    }

    /// Drops the oldest message of a peer, which is of a former session. Returns its part of the
    /// allowance.
    pub(crate) fn drop_oldest(&mut self, peer: PeerId) {
        if let Some(of) = self.by_peer.get(&peer) {
            self.remove(of.ends.first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Offer;
    use gigae_wire::op::Label;

    fn message(peer: u32, tag: u64, body: UnexpectedBody) -> UnexpectedMessage {
        let label = Label::from(tag);
        UnexpectedMessage { peer: PeerId(peer), label, total: 10, body }
    }

    fn of(peer: Option<u32>, tag: u64) -> Selector {
        Selector { source: peer.map(PeerId), tag, ..Selector::default() }
    }

    fn whole() -> UnexpectedBody {
        UnexpectedBody::Whole(vec![0; 10])
    }

    #[test]
    fn any_order_of_taking_keeps_both_orders() {
        let mut random = oorandom::Rand32::new(7);
        let mut queue = UnexpectedQueue::default();
        let mut expected: Vec<(u32, u64, u64)> = Vec::new();
        for n in 0..5000 {
            let (peer, tag) = (random.rand_range(0..3), u64::from(random.rand_range(0..4)));
            if random.rand_range(0..2) == 0 {
                let label = Label::from(tag).with_data(n);
                queue.push(UnexpectedMessage { label, ..message(peer, tag, whole()) }, false);
                expected.push((peer, tag, n));
            } else {
                let source = (random.rand_range(0..2) == 0).then_some(peer);
                let first = expected
                    .iter()
                    .position(|&(p, t, _)| t == tag && source.is_none_or(|source| source == p));
                let taken = queue.take(&of(source, tag));
                let first = first.map(|at| expected.remove(at).2);
                assert_eq!(taken.and_then(|taken| taken.message.label.data), first);
            }
            assert_eq!(queue.len(), expected.len());
        }
    }

    #[test]
    fn only_what_is_whole_outlasts_its_session_and_the_oldest_goes_first() {
        let mut queue = UnexpectedQueue::default();
        for tag in 0..3 {
            queue.push(message(1, tag, whole()), false);
        }
        queue.push(message(2, 9, UnexpectedBody::Offered(Offer { id: 1, at: None })), false);
        queue.push(message(1, 3, UnexpectedBody::Offered(Offer { id: 1, at: None })), false);
        queue.push(message(1, 4, UnexpectedBody::Arriving), false);
        queue.end_session(PeerId(1));
        assert_eq!((queue.len(), queue.former(PeerId(1))), (4, 3 * cost(10)));
        queue.push(message(1, 5, whole()), false);
        queue.drop_oldest(PeerId(1));
        assert_eq!(queue.former(PeerId(1)), 2 * cost(10));
        assert!(queue.take(&of(Some(1), 0)).is_none());
        let taken = |queue: &mut UnexpectedQueue, tag| {
            queue.take(&of(Some(1), tag)).map(|taken| taken.former)
        };
        assert_eq!(
            [2, 5, 1].map(|tag| taken(&mut queue, tag)),
            [Some(true), Some(false), Some(true)]
        );
        assert_eq!((queue.former(PeerId(1)), queue.len()), (0, 1));
    }
}
