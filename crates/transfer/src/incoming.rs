//! Operations that arrived, in order.

use crate::matching::{Body, Unexpected};
use crate::memory::{Memory, RegionKey, Rights};
use crate::operation::{Matched, Notice, OpError, Operation, Receive, Send, Sending};
use crate::outgoing::{MOST_ASKED, MOST_OFFERED};
use crate::peer::{Arriving, Into, Serving, Source};
use crate::transfer::{ALLOWANCE, Transfer};
use gigae_proto::{PeerId, Reason};
use gigae_wire::op::{Change, Label, Op, Status};
use gigae_wire::{Epoch, Pieces};

/// Answers to a peer that may wait to be sent: all that an honest one can be owed, with room for
/// limits.
const MOST_ANSWERS: usize = (MOST_ASKED + MOST_OFFERED) as usize + 64;

/// No sender of this protocol would have sent it.
struct Invalid;

type Taken = Result<(), Invalid>;

impl<M: Memory> Transfer<M> {
    /// Takes in the payload of an Op frame of a peer, in the order of the session with this epoch.
    /// What makes no sense is counted and dropped.
    pub fn handle(&mut self, peer: PeerId, epoch: Epoch, mut payload: Pieces) {
        match self.peer(peer).epoch {
            None => self.peer(peer).epoch = Some(epoch),
            Some(known) if known != epoch => {
                self.lose(peer, Reason::Reset);
                self.peer(peer).epoch = Some(epoch);
            }
            Some(_) => {}
        }
        while let Ok(Some((op, data))) = Op::take(&mut payload) {
            if self.take(peer, op, data).is_err() {
                self.counters.invalid += 1;
            }
        }
        self.settle(peer);
    }

    fn take(&mut self, peer: PeerId, op: Op, data: Pieces) -> Taken {
        match op {
            Op::Eager { label } => self.on_eager(peer, label, data),
            Op::First { label, total } => self.on_first(peer, label, total, data),
            Op::More => self.on_more(peer, data),
            Op::Offer { id, label, total } => self.on_offer(peer, id, label, total),
            Op::Pull { id, offer, len } => self.on_pull(peer, id, offer, len),
            Op::Read { id, key, offset, len } => {
                self.on_read(peer, id, RegionKey(key), offset, len)
            }
            Op::Reply { id, at } => self.on_reply(peer, id, at, data),
            Op::Write { .. } => self.on_write(peer, op, data),
            Op::Atomic { id, key, offset, change } => {
                let key = RegionKey(key);
                let result = self.change(key, offset, change);
                if result.is_ok() {
                    self.regions.count_write(key);
                }
                self.answer(peer, id, result)
            }
            Op::Done { id, status, value } => self.on_done(peer, id, status, value),
            Op::Limit { until } => {
                let state = self.peer(peer);
                if until.wrapping_sub(state.until).cast_signed() > 0 {
                    state.until = until;
                }
                self.wake(peer);
                Ok(())
            }
        }
    }

    /// Matches a message that begins to arrive with a receive.
    fn match_with(&mut self, peer: PeerId, label: Label, total: u32) -> Option<u32> {
        let Some(id) = self.matching.receive_for(peer, label) else {
            self.counters.unexpected += 1;
            return None;
        };
        if let Some(Operation::Receive(receive)) = self.operations.get_mut(id) {
            receive.matched = Some(Matched { peer, label, total, got: 0, pulled: false });
        }
        Some(id)
    }

    /// Keeps a message until a receive wants it.
    fn keep(&mut self, peer: PeerId, label: Label, total: u32, body: Body) {
        let epoch = self.peer(peer).epoch;
        self.matching.keep(Unexpected { peer, epoch, label, total, body });
    }

    fn on_eager(&mut self, peer: PeerId, label: Label, data: Pieces) -> Taken {
        if !self.peer(peer).came(data.len(), ALLOWANCE) {
            return Err(Invalid);
        }
        let total = data.len() as u32;
        match self.match_with(peer, label, total) {
            Some(id) => {
                self.put(id, 0, data);
                self.took(peer, data.len());
                self.complete(id, Ok(()));
            }
            None => {
                let mut bytes = Vec::with_capacity(data.len());
                data.for_each(|piece| bytes.extend_from_slice(piece));
                self.keep(peer, label, total, Body::Whole(bytes));
            }
        }
        Ok(())
    }

    fn on_first(&mut self, peer: PeerId, label: Label, total: u32, data: Pieces) -> Taken {
        let state = self.peer(peer);
        let parts = data.len() < total as usize;
        if state.arriving.is_some() || !parts || !state.came(total as usize, ALLOWANCE) {
            return Err(Invalid);
        }
        let into = match self.match_with(peer, label, total) {
            Some(id) => {
                self.put(id, 0, data);
                Into::Receive(id)
            }
            None => {
                self.keep(peer, label, total, Body::Arriving);
                let mut bytes = Vec::with_capacity(total as usize);
                data.for_each(|piece| bytes.extend_from_slice(piece));
                Into::Own(bytes)
            }
        };
        self.peer(peer).arriving = Some(Arriving { total, into });
        Ok(())
    }

    fn on_more(&mut self, peer: PeerId, data: Pieces) -> Taken {
        let mut arriving = self.peer(peer).arriving.take().ok_or(Invalid)?;
        let total = arriving.total as usize;
        let before = match &arriving.into {
            Into::Own(bytes) => bytes.len(),
            Into::Receive(id) => match self.operations.get(*id) {
                Some(Operation::Receive(Receive { matched: Some(m), .. })) => m.got as usize,
                _ => return Err(Invalid),
            },
        };
        if data.is_empty() || before + data.len() > total {
            self.peer(peer).arriving = Some(arriving);
            return Err(Invalid);
        }
        match &mut arriving.into {
            Into::Own(bytes) => data.for_each(|piece| bytes.extend_from_slice(piece)),
            Into::Receive(id) => self.put(*id, before, data),
        }
        if before + data.len() < total {
            self.peer(peer).arriving = Some(arriving);
            return Ok(());
        }
        match arriving.into {
            Into::Own(bytes) => self.matching.arrived(peer, bytes),
            Into::Receive(id) => {
                self.took(peer, total);
                self.complete(id, Ok(()));
            }
        }
        Ok(())
    }

    fn on_offer(&mut self, peer: PeerId, offer: u32, label: Label, total: u32) -> Taken {
        let state = self.peer(peer);
        if state.offers >= MOST_OFFERED {
            return Err(Invalid);
        }
        state.offers += 1;
        match self.match_with(peer, label, total) {
            Some(id) => self.pull(id, offer),
            None => {
                self.keep(peer, label, total, Body::Offered(offer));
            }
        }
        Ok(())
    }

    fn on_pull(&mut self, peer: PeerId, id: u32, offer: u32, len: u32) -> Taken {
        let Some(Operation::Send(send)) = self.operations.get_mut(offer) else {
            return Err(Invalid);
        };
        let Send { peer: to, memory, state, .. } = send;
        if *to != peer || *state != Sending::Offered || len as usize > memory.len() {
            return Err(Invalid);
        }
        *state = Sending::Going(len);
        let state = self.peer(peer);
        state.offered -= 1;
        state.serving.push_back(Serving { id, source: Source::Send(offer), len, at: 0 });
        self.wake(peer);
        Ok(())
    }

    fn on_read(&mut self, peer: PeerId, id: u32, key: RegionKey, offset: u64, len: u32) -> Taken {
        if let Err(status) = self.may_read(key, offset, len) {
            return self.answer(peer, id, Err(status));
        }
        let state = self.peer(peer);
        if state.serving.len() >= (MOST_ASKED + MOST_OFFERED) as usize {
            return Err(Invalid);
        }
        let source = Source::Region(key, offset);
        state.serving.push_back(Serving { id, source, len, at: 0 });
        self.wake(peer);
        Ok(())
    }

    fn on_reply(&mut self, peer: PeerId, id: u32, at: u32, data: Pieces) -> Taken {
        let expected = match self.operations.get_mut(id) {
            Some(Operation::Receive(Receive { memory, matched: Some(m), .. }))
                if m.peer == peer && m.pulled && m.got == at =>
            {
                m.total.min(memory.len() as u32)
            }
            Some(Operation::Read { peer: from, memory, got, .. })
                if *from == peer && *got == at =>
            {
                memory.len() as u32
            }
            // The peer's answer to what was lost with a former session, or nonsense.
            _ => return Err(Invalid),
        };
        let end = at.checked_add(data.len() as u32).filter(|&end| end <= expected);
        let end = end.ok_or(Invalid)?;
        let is_read = match self.operations.get_mut(id) {
            Some(Operation::Read { memory, got, .. }) => {
                memory.write_pieces(at as usize, data);
                *got = end;
                true
            }
            _ => {
                self.put(id, at as usize, data);
                false
            }
        };
        if end == expected {
            if is_read {
                self.answered(peer);
            }
            self.complete(id, Ok(()));
        }
        Ok(())
    }

    fn on_write(&mut self, peer: PeerId, op: Op, data: Pieces) -> Taken {
        let Op::Write { id, key, offset, total, at, notice } = op else { return Err(Invalid) };
        let key = RegionKey(key);
        let end = at.checked_add(data.len() as u32).filter(|&end| end <= total);
        let end = end.ok_or(Invalid)?;
        let crowded = notice.is_some() && self.notices.len() >= self.config.most_notices;
        let refused = self.peer(peer).refusing.filter(|&(refused, _)| refused == id && at > 0);
        let result = match (refused, self.regions.check(key, offset, total.into(), Rights::WRITE)) {
            (Some((_, status)), _) | (None, Err(status)) => Err(status),
            (None, Ok(_)) if crowded && at == 0 => Err(Status::Busy),
            (None, Ok(memory)) => {
                memory.write_pieces(offset as usize + at as usize, data);
                Ok(0)
            }
        };
        // One part refused, all that follow are.
        self.peer(peer).refusing = result.err().map(|status| (id, status));
        if end < total {
            return Ok(());
        }
        if result.is_ok() {
            self.regions.count_write(key);
            if let Some(value) = notice {
                self.notices.push_back(Notice { peer, key, offset, len: total, value });
            }
        }
        self.answer(peer, id, result)
    }

    fn change(&mut self, key: RegionKey, offset: u64, change: Change) -> Result<u64, Status> {
        let memory = self.regions.check(key, offset, 8, Rights::ATOMIC)?;
        if !offset.is_multiple_of(8) {
            return Err(Status::Bounds);
        }
        let mut bytes = [0; 8];
        memory.read(offset as usize, &mut bytes);
        let before = u64::from_le_bytes(bytes);
        let after = match change {
            Change::Add(operand) => before.wrapping_add(operand),
            Change::Swap { expected, new } if before == expected => new,
            Change::Swap { .. } => before,
        };
        memory.write(offset as usize, &after.to_le_bytes());
        Ok(before)
    }

    fn answer(&mut self, peer: PeerId, id: u32, result: Result<u64, Status>) -> Taken {
        self.counters.refused += u64::from(result.is_err());
        let state = self.peer(peer);
        if state.answers.len() >= MOST_ANSWERS {
            return Err(Invalid);
        }
        let (status, value) = match result {
            Ok(value) => (Status::Ok, value),
            Err(status) => (status, 0),
        };
        state.answers.push_back(Op::Done { id, status, value });
        self.wake(peer);
        Ok(())
    }

    fn on_done(&mut self, peer: PeerId, id: u32, status: Status, value: u64) -> Taken {
        let result = match status {
            Status::Ok => Ok(()),
            refused => Err(OpError::Refused(refused)),
        };
        match self.operations.get(id) {
            Some(Operation::Write { peer: to, memory, at, .. })
                if *to == peer && *at as usize == memory.len() => {}
            Some(Operation::Read { peer: to, .. }) if *to == peer && result.is_err() => {}
            Some(Operation::Atomic { peer: to, .. }) if *to == peer => {}
            _ => return Err(Invalid),
        }
        self.answered(peer);
        let operation = self.operations.remove(id).ok_or(Invalid)?;
        let mut completion = operation.complete(id, result);
        completion.value = value;
        self.completions.push_back(completion);
        Ok(())
    }

    /// One answer less is awaited: another operation may start.
    fn answered(&mut self, peer: PeerId) {
        let state = self.peer(peer);
        state.asked = state.asked.saturating_sub(1);
        self.wake(peer);
    }
}
