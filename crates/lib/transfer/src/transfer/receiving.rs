//! Receives: how they are matched, and the bytes that arrive for them.

use super::{LONGEST, MOST_COMPLETIONS, OWN_PARTS, Stalled, Start, TooLong, Transfer};
use crate::matching::{PostedReceive, Selector, UnexpectedBody};
use crate::memory::Bytes;
use crate::operation::{
    DataSource, Matched, MultiReceive, MultiReceiveState, Offer, OpId, Operation, Receive,
    ReceiveTarget,
};
use crate::peer::{OperationReply, ReassemblyBuffer, cost};
use crate::unexpected_queue::Taken;
use gigae_proto::PeerId;
use gigae_wire::Pieces;
use gigae_wire::op::{Label, Op};

/// # Receiving messages
impl<M: Bytes> Transfer<M> {
    /// Receives the first matching message. A message longer than the memory is
    /// [truncated](crate::OpError::Truncated).
    pub fn receive(&mut self, selector: Selector, memory: M) -> Start<M> {
        if memory.len() > LONGEST || self.operations.len() == crate::slot_table::MOST {
            return Err(TooLong(memory));
        }
        let message = self.matching.unexpected.take(&selector);
        let matched = message.as_ref().map(|taken| taken.message.matched());
        let room = memory.len() as u32;
        let receive = Receive { target: ReceiveTarget::Own(memory), room, matched };
        let Ok(id) = self.operations.insert(Operation::Receive(receive)) else {
            unreachable!("there is room")
        };
        match message {
            Some(message) => {
                let peer = message.message.peer;
                *self.engaged_with(peer) += 1;
                self.give(id, message);
                self.settle(peer);
            }
            None => self.matching.post(id, selector),
        }
        Ok(OpId(id))
    }

    /// Receives the matching messages one behind the other, until less than `least` bytes are left.
    /// Each has a completion, and the last one returns the memory. The receive keeps its position
    /// among the posted ones.
    pub fn receive_several(&mut self, selector: Selector, memory: M, least: usize) -> Start<M> {
        if memory.len() > LONGEST || self.operations.len() == crate::slot_table::MOST {
            return Err(TooLong(memory));
        }
        // An empty rest would take empty messages without end.
        let least = least.clamp(1, LONGEST + 1) as u32;
        let state = if memory.len() < least as usize {
            MultiReceiveState::Full
        } else {
            MultiReceiveState::Open
        };
        let several = MultiReceive { memory, least, used: 0, arriving: 0, state };
        let Ok(id) = self.operations.insert(Operation::MultiReceive(several)) else {
            unreachable!("there is room")
        };
        if state == MultiReceiveState::Full {
            self.complete(id, Ok(()));
            return Ok(OpId(id));
        }
        self.matching.post_several(id, selector);
        self.take_unexpected(id);
        Ok(OpId(id))
    }

    /// Gives kept messages to a posted receive of several, as long as it takes any.
    fn take_unexpected(&mut self, id: u32) {
        let Some(selector) = self.matching.selector(id) else { return };
        let mut next = self.matching.unexpected.next(&selector, None);
        while let Some(slot) = next {
            let Some(Operation::MultiReceive(MultiReceive { state, .. })) = self.operations.get(id)
            else {
                return;
            };
            let Some(message) = self.matching.unexpected.message(slot) else { return };
            if *state != MultiReceiveState::Open {
                return;
            }
            let (peer, matched) = (message.peer, message.matched());
            let key = Stalled { peer, untagged: selector.untagged };
            if self.is_stalled(key) || !self.has_room_for(peer, self.most_now()) {
                self.stall(key);
                self.matching.unexpected.set_waiting(slot);
                next = self.matching.unexpected.next(&selector, Some(slot));
                continue;
            }
            next = self.matching.unexpected.next(&selector, Some(slot));
            let taken = self.matching.unexpected.remove(slot);
            let part = self.part(id, matched);
            self.give(part, taken);
            self.settle(peer);
        }
    }

    /// Whether messages wait until receives of several take more: later ones wait behind them.
    #[inline]
    pub(crate) fn is_stalled(&self, key: Stalled) -> bool {
        !self.stalled.is_empty() && self.stalled.contains_key(&key)
    }

    pub(crate) fn stall(&mut self, key: Stalled) {
        if self.stalled.insert(key, true) != Some(true) {
            self.turns.push_back(key);
        }
    }

    /// Whether receives of several take another message of a peer now, if they take up to `most`
    /// messages of all peers. Otherwise it is kept like an unexpected one.
    fn has_room_for(&self, peer: PeerId, most: usize) -> bool {
        let completions = self.completions.len();
        let is_shared = completions + self.parts.len() < most;
        !self.held
            && self.operations.len() < crate::slot_table::MOST
            && completions < most
            && (is_shared || self.parts.of(peer) < OWN_PARTS)
    }

    /// How many messages receives of several may take now. Those that wait for their turn come
    /// first when half of the room is free.
    #[inline]
    fn most_now(&self) -> usize {
        if self.turns.is_empty() { MOST_COMPLETIONS } else { MOST_COMPLETIONS / 2 }
    }

    /// Whether peers wait for their turn, and there is room for a good many of their messages.
    #[inline]
    pub(super) fn may_take_turns(&self) -> bool {
        !self.turns.is_empty()
            && !self.held
            && self.operations.len() < crate::slot_table::MOST
            && self.completions.len() <= MOST_COMPLETIONS / 2
    }

    /// Gives each peer that waits for its turn the same part of the room.
    #[cold]
    pub(super) fn take_turns(&mut self) {
        let (count, most) = (self.turns.len(), MOST_COMPLETIONS / 2);
        for _ in 0..count {
            let Some(key) = self.turns.pop_front() else { return };
            let all = self.completions.len() + self.parts.len();
            if all <= most || self.parts.of(key.peer) <= OWN_PARTS / 2 {
                self.match_again(key, (most / count).max(1));
            } else {
                // It goes on when its own messages have ended.
                self.stalled.insert(key, false);
            }
        }
    }

    /// Messages of a peer have been reported that were behind an earlier one. If it waits for that,
    /// it gets a turn.
    pub(super) fn parts_ended(&mut self, peer: PeerId) {
        if self.parts.of(peer) > OWN_PARTS / 2 {
            return;
        }
        for untagged in [false, true] {
            let key = Stalled { peer, untagged };
            if self.is_stalled(key) {
                self.stall(key);
            }
        }
    }

    /// Matches up to `most` messages of a stalled peer, in their order.
    fn match_again(&mut self, key: Stalled, most: usize) {
        self.stalled.remove(&key);
        let mut given = 0;
        while let Some(slot) = self.matching.unexpected.waiting(key) {
            let Some(message) = self.matching.unexpected.message(slot) else { break };
            if given == most {
                self.stall(key);
                break;
            }
            match self.receive_for(message.matched(), MOST_COMPLETIONS) {
                Some(id) => {
                    let taken = self.matching.unexpected.remove(slot);
                    self.give(id, taken);
                    given += 1;
                }
                None if self.is_stalled(key) => break,
                None => self.matching.unexpected.wait_no_longer(slot),
            }
        }
        self.settle(key.peer);
    }

    /// Lets all stalled peers go on: there are no receives of several any more.
    pub(super) fn end_stalls(&mut self) {
        while let Some((&key, _)) = self.stalled.first_key_value() {
            self.match_again(key, usize::MAX);
        }
        self.turns.clear();
    }

    /// The receive of one message within a receive of several.
    pub(crate) fn part(&mut self, of: u32, matched: Matched) -> u32 {
        let Some(Operation::MultiReceive(several)) = self.operations.get_mut(of) else {
            unreachable!("it is open")
        };
        let (at, left) = (several.used, several.memory.len() as u32 - several.used);
        let room = left.min(matched.total);
        several.used += room;
        several.arriving += 1;
        if left - room < several.least {
            several.state = MultiReceiveState::Full;
            self.matching.withdraw(of);
        }
        let number = self.parts.begin(matched.peer);
        let target = ReceiveTarget::Part { of, at, number };
        let receive = Receive { target, room, matched: Some(matched) };
        let id = self.operations.insert(Operation::Receive(receive)).ok().expect("there is room");
        *self.engaged_with(matched.peer) += 1;
        id
    }

    /// Gives a kept message to its matching receive.
    fn give(&mut self, id: u32, Taken { message, former }: Taken) {
        let peer = message.peer;
        match message.body {
            UnexpectedBody::Whole(bytes) => {
                self.put(id, 0, bytes[..].into());
                if former {
                    let left = self.matching.unexpected.former(peer);
                    self.pool.set_former(left + cost(bytes.len()), left, 0);
                } else {
                    self.took(peer, bytes.len());
                }
                self.complete(id, Ok(()));
            }
            UnexpectedBody::Arriving => {
                let arriving = self.peer(peer).arriving.as_mut().expect("it is arriving");
                let ReassemblyBuffer::Own(bytes) =
                    std::mem::replace(&mut arriving.into, ReassemblyBuffer::Receive(id))
                else {
                    unreachable!("no receive has matched it until now")
                };
                self.put(id, 0, bytes[..].into());
            }
            UnexpectedBody::Offered(offer) => self.pull(id, offer),
        }
    }

    /// The first message that a receive would get at once: its sender, its label, and its bytes.
    pub fn peek(&self, selector: &Selector) -> Option<(PeerId, Label, usize)> {
        let found = self.matching.unexpected.peek(selector)?;
        Some((found.peer, found.label, found.total as usize))
    }

    /// Receives the message that [`peek`](Self::peek) finds, and returns what that does. `memory`
    /// makes the memory, given the message's bytes. `None` without such a message, and nothing is
    /// posted then.
    #[expect(clippy::type_complexity, reason = "what peek returns, and an operation")]
    pub fn receive_found(
        &mut self,
        selector: Selector,
        memory: impl FnOnce(usize) -> M,
    ) -> Result<Option<(OpId, PeerId, Label, usize)>, TooLong<M>> {
        let Some((peer, label, len)) = self.peek(&selector) else { return Ok(None) };
        let id = self.receive(selector, memory(len))?;
        Ok(Some((id, peer, label, len)))
    }

    /// Matches a message that begins to arrive with a receive.
    pub(crate) fn match_with(&mut self, peer: PeerId, label: Label, total: u32) -> Option<u32> {
        let posted = self.posted_for(peer, label);
        self.match_posted(posted, Matched::new(peer, label, total))
    }

    /// The posted receive that a message matches, unless it waits behind others that do.
    #[inline(always)]
    pub(crate) fn posted_for(&mut self, peer: PeerId, label: Label) -> Option<PostedReceive> {
        let waits = self.is_stalled(Stalled { peer, untagged: label.untagged });
        if waits { None } else { self.matching.receive_for(peer, label) }
    }

    /// Matches a message with the posted receive that was found for it.
    pub(crate) fn match_posted(
        &mut self,
        posted: Option<PostedReceive>,
        matched: Matched,
    ) -> Option<u32> {
        let found = posted.and_then(|posted| self.take_posted(posted, matched, self.most_now()));
        if found.is_none() {
            self.counters.unexpected += 1;
        }
        found
    }

    /// The receive that takes a message now; `None` if the message is to be kept. If it is to wait
    /// for a receive of several, the peer is stalled from then on. `most`: see
    /// [`has_room_for`](Self::has_room_for).
    fn receive_for(&mut self, matched: Matched, most: usize) -> Option<u32> {
        let posted = self.matching.receive_for(matched.peer, matched.label)?;
        self.take_posted(posted, matched, most)
    }

    /// The same once the posted receive was found.
    fn take_posted(&mut self, posted: PostedReceive, matched: Matched, most: usize) -> Option<u32> {
        let Matched { peer, label, .. } = matched;
        match posted {
            PostedReceive::Single(id) => {
                if let Some(Operation::Receive(receive)) = self.operations.get_mut(id) {
                    receive.matched = Some(matched);
                }
                *self.engaged_with(peer) += 1;
                Some(id)
            }
            PostedReceive::Several(id) if self.has_room_for(peer, most) => {
                Some(self.part(id, matched))
            }
            PostedReceive::Several(_) => {
                self.stall(Stalled { peer, untagged: label.untagged });
                None
            }
        }
    }

    /// Copies a whole message into the memory of the receive that was posted for it, and completes
    /// that.
    #[inline]
    pub(crate) fn deliver_at_once(&mut self, id: u32, matched: Matched, data: Pieces) {
        let Some(Operation::Receive(mut receive)) = self.operations.remove(id) else {
            unreachable!("a posted receive is among the operations")
        };
        receive.matched = Some(matched);
        if let Some(fitting) = receive.fitting(0, data)
            && let ReceiveTarget::Own(memory) = &mut receive.target
        {
            memory.write_pieces(0, fitting);
        }
        self.took(matched.peer, data.len());
        if let Some(completion) = receive.complete(id, Ok(())) {
            self.completions.push_back(completion);
        }
    }

    /// Bytes of a message arrive for a receive. Those beyond its memory are dropped.
    pub(crate) fn put(&mut self, id: u32, at: usize, data: Pieces) {
        let Some(Operation::Receive(receive)) = self.operations.get_mut(id) else { return };
        let Some(fitting) = receive.fitting(at, data) else { return };
        match &mut receive.target {
            ReceiveTarget::Own(memory) => memory.write_pieces(at, fitting),
            &mut ReceiveTarget::Part { of, at: first, .. } => {
                if let Some(Operation::MultiReceive(several)) = self.operations.get_mut(of) {
                    several.memory.write_pieces(first as usize + at, fitting);
                }
            }
            ReceiveTarget::Dropped => {}
        }
    }

    /// A receive took an unasked message.
    pub(crate) fn took(&mut self, peer: PeerId, len: usize) {
        if self.peer(peer).took(len) {
            self.wake(peer);
        }
    }

    /// Gets an offered message for its matching receive: asks for its bytes, or lets the caller
    /// [`fetch`](Self::fetch) them.
    pub(crate) fn pull(&mut self, id: u32, offer: Offer) {
        let Some(Operation::Receive(Receive { room, matched: Some(m), .. })) =
            self.operations.get_mut(id)
        else {
            return;
        };
        let (peer, len) = (m.peer, m.total.min(*room));
        if offer.at.is_some() && len > 0 {
            m.source = DataSource::Lent(offer);
            let state = self.peer(peer);
            state.offers -= 1;
            state.fetching.push_back(id);
            return self.wake(peer);
        }
        m.source = DataSource::Pulled;
        self.peer(peer).offers -= 1;
        self.ask_for(peer, id, offer.id, len);
    }

    /// Asks for the first bytes of an offered message.
    pub(crate) fn ask_for(&mut self, peer: PeerId, id: u32, offer: u32, len: u32) {
        let state = self.peer(peer);
        state.answers.push_back(OperationReply::Plain(Op::Pull { id, offer, len }));
        self.asked += len as usize;
        self.expecting.push_back(id);
        self.wake(peer);
    }
}
