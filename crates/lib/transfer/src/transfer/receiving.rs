//! Receives: how they are matched, and the bytes that arrive for them.

use super::{LONGEST, MOST_COMPLETIONS, OWN_PARTS, Start, TooLong, Transfer};
use crate::matching::{Selector, UnexpectedBody};
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
            if self.stalled.contains(&peer) || !self.has_room_for(peer) {
                self.stalled.insert(peer);
                self.matching.unexpected.set_waits(slot, true);
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

    /// Matches the messages of a stalled peer, in their order, until receives of several take no
    /// more.
    fn match_again(&mut self, peer: PeerId) {
        if !self.stalled.remove(&peer) {
            return;
        }
        let mut next = self.matching.unexpected.next_waiting(peer, None);
        while let Some(slot) = next {
            let Some(message) = self.matching.unexpected.message(slot) else { return };
            let found = self.receive_for(message.matched());
            if self.stalled.contains(&peer) {
                return;
            }
            next = self.matching.unexpected.next_waiting(peer, Some(slot));
            match found {
                Some(id) => {
                    let taken = self.matching.unexpected.remove(slot);
                    self.give(id, taken);
                }
                None => self.matching.unexpected.set_waits(slot, false),
            }
        }
        self.settle(peer);
    }

    /// Whether receives of several take another message of a peer now. Otherwise it is kept like an
    /// unexpected one.
    pub(crate) fn has_room_for(&self, peer: PeerId) -> bool {
        let all = self.completions.len() + self.parts.len();
        let own = self.completions.len() < MOST_COMPLETIONS && self.parts.of(peer) < OWN_PARTS;
        !self.held
            && self.operations.len() < crate::slot_table::MOST
            && (all < MOST_COMPLETIONS || own)
    }

    /// Lets a stalled peer go on if there is room for a good many of its messages.
    pub(super) fn resume(&mut self, peer: PeerId) {
        let most = MOST_COMPLETIONS / 2;
        let all = self.completions.len() + self.parts.len();
        let own = self.completions.len() <= most && self.parts.of(peer) <= OWN_PARTS / 2;
        if !self.held && (all <= most || own) {
            self.match_again(peer);
        }
    }

    /// Lets all stalled peers go on that can.
    #[cold]
    pub(super) fn resume_all(&mut self) {
        self.resume_due = false;
        let all: Vec<_> = self.stalled.iter().copied().collect();
        for peer in all {
            self.resume(peer);
        }
    }

    /// Lets all stalled peers go on: there are no receives of several any more.
    pub(super) fn unstall(&mut self) {
        while let Some(&peer) = self.stalled.first() {
            self.match_again(peer);
        }
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
    /// makes the memory, given the message's bytes. `None` if there is none, and nothing is posted
    /// then.
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

    /// Bytes of a message arrive for a receive. Those beyond its memory are dropped.
    pub(crate) fn put(&mut self, id: u32, at: usize, mut data: Pieces) {
        let Some(Operation::Receive(receive)) = self.operations.get_mut(id) else { return };
        if let Some(matched) = &mut receive.matched {
            matched.got += data.len() as u32;
        }
        let room = (receive.room as usize).saturating_sub(at).min(data.len());
        let Some(fitting) = data.split(room).filter(|fitting| !fitting.is_empty()) else { return };
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
