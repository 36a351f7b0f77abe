//! Which message goes to which receive (`PROTOCOL.md` 9.2): a message to the first posted receive
//! that matches it, and a receive to the first message that it matches.

use crate::operation::{Matched, Offer};
use crate::unexpected_queue::UnexpectedQueue;
use gigae_proto::PeerId;
use gigae_wire::op::Label;
use std::collections::VecDeque;

/// Which messages a receive matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// The sender; `None` for any.
    pub source: Option<PeerId>,
    /// The tag.
    pub tag: u64,
    /// Bits of the tag to ignore.
    pub ignore: u64,
    /// Untagged messages instead of tagged ones.
    pub untagged: bool,
}

impl Selector {
    /// Whether a message matches.
    #[inline]
    pub fn wants(&self, from: PeerId, label: Label) -> bool {
        (label.tag ^ self.tag) & !self.ignore == 0
            && label.untagged == self.untagged
            && self.source.is_none_or(|source| source == from)
    }
}

/// A message that arrived before a matching receive.
#[derive(Debug)]
pub(crate) struct UnexpectedMessage {
    pub(crate) peer: PeerId,
    pub(crate) label: Label,
    pub(crate) total: u32,
    pub(crate) body: UnexpectedBody,
}

impl UnexpectedMessage {
    /// The part of it that a receive needs.
    pub(crate) fn matched(&self) -> Matched {
        let Self { peer, label, total, .. } = *self;
        Matched::new(peer, label, total)
    }
}

#[derive(Debug)]
pub(crate) enum UnexpectedBody {
    Whole(Vec<u8>),
    /// It is arriving in parts, which the sender's state collects.
    Arriving,
    /// It waits at its sender.
    Offered(Offer),
}

/// A receive that waits for its message.
#[derive(Debug)]
struct Posted {
    id: u32,
    selector: Selector,
    /// It takes further messages and keeps its position until it is withdrawn.
    several: bool,
}

/// A posted receive that matches a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostedReceive {
    /// It was of this message only, and is not posted any more.
    Single(u32),
    Several(u32),
}

/// Receives without a message and messages without a receive. Never both for the same.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    posted: VecDeque<Posted>,
    pub(crate) unexpected: UnexpectedQueue,
}

impl Matching {
    pub(crate) fn post(&mut self, id: u32, selector: Selector) {
        self.posted.push_back(Posted { id, selector, several: false });
    }

    /// The same for a receive of several messages.
    pub(crate) fn post_several(&mut self, id: u32, selector: Selector) {
        self.posted.push_back(Posted { id, selector, several: true });
    }

    /// The first receive that matches a message. It is taken out, unless it is one of several
    /// messages.
    #[inline(always)]
    pub(crate) fn receive_for(&mut self, from: PeerId, label: Label) -> Option<PostedReceive> {
        let at = self.posted.iter().position(|posted| posted.selector.wants(from, label))?;
        let &Posted { id, several, .. } = self.posted.get(at)?;
        if several {
            return Some(PostedReceive::Several(id));
        }
        // Mostly it is the first.
        let _ = if at == 0 { self.posted.pop_front() } else { self.posted.remove(at) };
        Some(PostedReceive::Single(id))
    }

    /// What a posted receive matches.
    pub(crate) fn selector(&self, id: u32) -> Option<Selector> {
        self.posted.iter().find(|posted| posted.id == id).map(|posted| posted.selector)
    }

    /// Withdraws a receive.
    pub(crate) fn withdraw(&mut self, id: u32) {
        self.posted.retain(|posted| posted.id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::PostedReceive::{Several, Single};
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
        assert_eq!(matching.receive_for(PeerId(2), 7.into()), Some(Single(2)));
        assert_eq!(matching.receive_for(PeerId(9), 0x1f.into()), Some(Single(1)));
        assert_eq!(matching.receive_for(PeerId(9), 0x20.into()), None, "a bit that matters");
        for tag in [0x11, 0x12] {
            let label = tag.into();
            let body = UnexpectedBody::Offered(Offer { id: 0, at: None });
            matching
                .unexpected
                .push(UnexpectedMessage { peer: PeerId(1), label, total: 0, body }, false);
        }
        assert_eq!(matching.unexpected.peek(&any).unwrap().label.tag, 0x11);
        assert_eq!(matching.unexpected.take(&any).unwrap().message.label.tag, 0x11);
        matching.withdraw(3);
        matching.post_several(4, any);
        matching.post(5, any);
        for _ in 0..3 {
            assert_eq!(
                matching.receive_for(PeerId(1), 0x1f.into()),
                Some(Several(4)),
                "it stays first"
            );
        }
        matching.withdraw(4);
        assert_eq!(matching.receive_for(PeerId(1), 0x1f.into()), Some(Single(5)));
        assert_eq!(matching.receive_for(PeerId(9), 0x1f.into()), None);
    }
}
