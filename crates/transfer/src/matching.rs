//! Which message goes to which receive (`PROTOCOL.md` 9.2): the first posted receive that wants it, and
//! of several messages that a receive wants, the one that came first.

use gigae_proto::PeerId;
use gigae_wire::Epoch;
use gigae_wire::op::Label;
use std::collections::VecDeque;

/// Which messages a receive wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// From whom; `None`: from anybody.
    pub source: Option<PeerId>,
    /// The tag.
    pub tag: u64,
    /// Bits of the tag that do not matter.
    pub ignore: u64,
    /// Untagged messages instead of tagged ones.
    pub untagged: bool,
}

impl Selector {
    /// Whether a message is wanted.
    #[inline]
    pub fn wants(&self, from: PeerId, label: Label) -> bool {
        (label.tag ^ self.tag) & !self.ignore == 0
            && label.untagged == self.untagged
            && self.source.is_none_or(|source| source == from)
    }
}

/// A message that nobody has waited for.
#[derive(Debug)]
pub(crate) struct Unexpected {
    pub(crate) peer: PeerId,
    /// The session that it came in: only there was it allowed.
    pub(crate) epoch: Option<Epoch>,
    pub(crate) label: Label,
    pub(crate) total: u32,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    Whole(Vec<u8>),
    /// It is arriving in parts, which the sender's state collects.
    Arriving,
    /// It waits at its sender under this number.
    Offered(u32),
}

/// Receives without message and messages without receive; never both for the same.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    posted: VecDeque<(u32, Selector)>,
    unexpected: VecDeque<Unexpected>,
}

impl Matching {
    pub(crate) fn post(&mut self, id: u32, selector: Selector) {
        self.posted.push_back((id, selector));
    }

    pub(crate) fn keep(&mut self, message: Unexpected) {
        self.unexpected.push_back(message);
    }

    /// Takes out the first receive that wants a message.
    pub(crate) fn receive_for(&mut self, from: PeerId, label: Label) -> Option<u32> {
        let at = self.posted.iter().position(|(_, selector)| selector.wants(from, label))?;
        self.posted.remove(at).map(|(id, _)| id)
    }

    /// Takes out the first message that a receive wants.
    pub(crate) fn message_for(&mut self, selector: &Selector) -> Option<Unexpected> {
        let at = self.unexpected.iter().position(|m| selector.wants(m.peer, m.label))?;
        self.unexpected.remove(at)
    }

    /// The first message that a receive would get: its sender, what it bears, and its bytes.
    pub(crate) fn peek(&self, selector: &Selector) -> Option<(PeerId, Label, usize)> {
        let found = self.unexpected.iter().find(|m| selector.wants(m.peer, m.label))?;
        Some((found.peer, found.label, found.total as usize))
    }

    /// Withdraws a receive.
    pub(crate) fn withdraw(&mut self, id: u32) {
        self.posted.retain(|(posted, _)| *posted != id);
    }

    /// The message that is arriving from a peer is complete.
    pub(crate) fn arrived(&mut self, peer: PeerId, bytes: Vec<u8>) {
        let arriving = |m: &&mut Unexpected| m.peer == peer && matches!(m.body, Body::Arriving);
        if let Some(message) = self.unexpected.iter_mut().rev().find(arriving) {
            message.body = Body::Whole(bytes);
        }
    }

    /// A peer is gone: only what has arrived whole can still be received.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.unexpected.retain(|m| m.peer != peer || matches!(m.body, Body::Whole(_)));
    }

    /// Offers of a peer that wait for a receive.
    pub(crate) fn unexpected(&self) -> usize {
        self.unexpected.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_on_both_sides_and_wildcards_take_what_comes_first() {
        let mut matching = Matching::default();
        let (any, from_2) = (
            Selector { tag: 0x10, ignore: 0xf, ..Selector::default() },
            Selector { source: Some(PeerId(2)), tag: 7, ..Selector::default() },
        );
        matching.post(1, any);
        matching.post(2, from_2);
        matching.post(3, any);
        assert_eq!(matching.receive_for(PeerId(1), 7.into()), None, "another sender");
        assert_eq!(matching.receive_for(PeerId(2), 7.into()), Some(2));
        assert_eq!(matching.receive_for(PeerId(9), 0x1f.into()), Some(1));
        assert_eq!(matching.receive_for(PeerId(9), 0x20.into()), None, "a bit that matters");
        for tag in [0x11, 0x12] {
            let label = tag.into();
            let body = Body::Offered(0);
            matching.keep(Unexpected { peer: PeerId(1), epoch: None, label, total: 0, body });
        }
        assert_eq!(matching.peek(&any), Some((PeerId(1), 0x11.into(), 0)));
        assert_eq!(matching.message_for(&any).unwrap().label.tag, 0x11);
        matching.withdraw(3);
        assert_eq!(matching.receive_for(PeerId(9), 0x1f.into()), None);
    }
}
