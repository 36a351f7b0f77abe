//! Operations that arrived, in order.

use crate::atomic::{Values, apply};
use crate::log;
use crate::matching::{PostedReceive, UnexpectedBody, UnexpectedMessage};
use crate::memory::{Bytes, RegionKey, RegionRef, Rights};
use crate::notices::UnansweredWrite;
use crate::operation::{
    DataSource, Matched, Offer, OpError, Operation, Receive, Send, SendState, TransferNotice,
};
use crate::peer::{
    OperationReply, PeerEntry, PendingRead, ReadSource, Reassembly, ReassemblyBuffer, WriteProgress,
};
use crate::pool::{LONGEST_UNASKED, MOST_BYTES, MOST_OFFERED};
use crate::transfer::{LONGEST, Stalled, Transfer};
use gigae_proto::{PeerId, Reason};
use gigae_wire::op::{Action, Change, Label, MOST_FETCHED, Op, Status};
use gigae_wire::{Epoch, Pieces};

/// No sender of this protocol sends it.
struct Invalid;

/// Where in a registered memory an operation of a peer begins.
#[derive(Clone, Copy)]
struct RegionPlace {
    key: RegionKey,
    offset: u64,
}

type OpResult = Result<(), Invalid>;

/// # Frames that arrived
impl<M: Bytes> Transfer<M> {
    /// Takes in the payload of an Op frame of a peer, in the order of the session with this epoch.
    /// Counts and drops what is invalid.
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

    fn take(&mut self, peer: PeerId, op: Op, data: Pieces) -> OpResult {
        match op {
            Op::Eager { label } => self.on_eager(peer, label, data),
            Op::First { label, total } => self.on_first(peer, label, total, data),
            Op::More => self.on_more(peer, data),
            Op::Offer { id, label, total } => {
                self.on_offer(peer, Offer { id, at: None }, label, total)
            }
            Op::OfferAt { id, label, total, at } => {
                let at = Some(at).filter(|_| self.config.fetches);
                self.on_offer(peer, Offer { id, at }, label, total)
            }
            Op::Taken { id, offer, len } => self.on_taken(peer, id, offer, len),
            Op::Pull { id, offer, len } => self.on_pull(peer, id, offer, len),
            Op::Read { id, key, offset, len } => {
                self.on_read(peer, id, RegionKey(key), offset, len)
            }
            Op::Reply { id, at } => self.on_reply(peer, id, at, data),
            Op::Write { .. } => self.on_write(peer, op, data),
            Op::Atomic { id, key, offset, change } => {
                let place = RegionPlace { key: RegionKey(key), offset };
                self.on_atomic(peer, id, place, change, data)
            }
            Op::Done { id, status } => self.on_done(peer, id, status, data),
            Op::Limit { until, entries } => {
                let state = self.peer(peer);
                let entries = entries.min(MOST_OFFERED.into()) as u16;
                state.entries = state.entries.max(entries);
                if until.wrapping_sub(state.until).cast_signed() > 0 {
                    state.until = until;
                }
                self.wake(peer);
                Ok(())
            }
        }
    }

    /// Keeps a message until a receive wants it.
    fn keep(&mut self, peer: PeerId, label: Label, total: u32, body: UnexpectedBody) {
        let waits = self.is_stalled(Stalled { peer, untagged: label.untagged });
        self.matching.unexpected.push(UnexpectedMessage { peer, label, total, body }, waits);
    }

    fn on_eager(&mut self, peer: PeerId, label: Label, data: Pieces) -> OpResult {
        let state = self.peer(peer);
        if !state.came(data.len()) {
            return Err(Invalid);
        }
        if state.wants_bytes() {
            self.grant_bytes(peer, false);
        }
        let total = data.len() as u32;
        let (posted, matched) = (self.posted_for(peer, label), Matched::new(peer, label, total));
        if let Some(PostedReceive::Single(id)) = posted {
            self.deliver_at_once(id, matched, data);
            return Ok(());
        }
        match self.match_posted(posted, matched) {
            Some(id) => {
                self.put(id, 0, data);
                self.took(peer, data.len());
                self.complete(id, Ok(()));
            }
            None => {
                let mut bytes = Vec::with_capacity(data.len());
                data.for_each(|piece| bytes.extend_from_slice(piece));
                self.keep(peer, label, total, UnexpectedBody::Whole(bytes));
            }
        }
        Ok(())
    }

    fn on_first(&mut self, peer: PeerId, label: Label, total: u32, data: Pieces) -> OpResult {
        let state = self.peer(peer);
        let parts = data.len() < total as usize;
        if state.arriving.is_some() || !parts || !state.came(total as usize) {
            return Err(Invalid);
        }
        if state.wants_bytes() {
            self.grant_bytes(peer, false);
        }
        let into = match self.match_with(peer, label, total) {
            Some(id) => {
                self.put(id, 0, data);
                ReassemblyBuffer::Receive(id)
            }
            None => {
                self.keep(peer, label, total, UnexpectedBody::Arriving);
                let mut bytes = Vec::with_capacity(total as usize);
                data.for_each(|piece| bytes.extend_from_slice(piece));
                ReassemblyBuffer::Own(bytes)
            }
        };
        self.peer(peer).arriving = Some(Reassembly { total, into });
        Ok(())
    }

    fn on_more(&mut self, peer: PeerId, data: Pieces) -> OpResult {
        let mut arriving = self.peer(peer).arriving.take().ok_or(Invalid)?;
        let total = arriving.total as usize;
        let before = match &arriving.into {
            ReassemblyBuffer::Own(bytes) => bytes.len(),
            ReassemblyBuffer::Receive(id) => match self.operations.get(*id) {
                Some(Operation::Receive(Receive { matched: Some(m), .. })) => m.got as usize,
                _ => return Err(Invalid),
            },
        };
        if data.is_empty() || before + data.len() > total {
            self.peer(peer).arriving = Some(arriving);
            return Err(Invalid);
        }
        match &mut arriving.into {
            ReassemblyBuffer::Own(bytes) => data.for_each(|piece| bytes.extend_from_slice(piece)),
            ReassemblyBuffer::Receive(id) => self.put(*id, before, data),
        }
        if before + data.len() < total {
            self.peer(peer).arriving = Some(arriving);
            return Ok(());
        }
        match arriving.into {
            ReassemblyBuffer::Own(bytes) => self.matching.unexpected.arrived(peer, bytes),
            ReassemblyBuffer::Receive(id) => {
                self.took(peer, total);
                self.complete(id, Ok(()));
            }
        }
        Ok(())
    }

    fn on_offer(&mut self, peer: PeerId, offer: Offer, label: Label, total: u32) -> OpResult {
        let state = self.peer(peer);
        if state.offers >= state.granted.entries || total as usize > LONGEST {
            return Err(Invalid);
        }
        state.offers += 1;
        // The peer may have offered it because it had no bytes left.
        let wants_bytes = state.granted.bytes < MOST_BYTES && total as usize <= LONGEST_UNASKED;
        if state.wants_entries() {
            self.grant_entries(peer);
        }
        if wants_bytes {
            self.grant_bytes(peer, true);
        }
        match self.match_with(peer, label, total) {
            Some(id) => self.pull(id, offer),
            None => {
                self.keep(peer, label, total, UnexpectedBody::Offered(offer));
            }
        }
        Ok(())
    }

    /// The peer wants `len` bytes of an offered message, which is no longer offered then.
    fn claim_offer(&mut self, peer: PeerId, offer: u32, len: u32) -> OpResult {
        let Some(Operation::Send(send)) = self.operations.get_mut(offer) else {
            return Err(Invalid);
        };
        let Send { peer: to, memory, state, .. } = send;
        if *to != peer || *state != SendState::Offered || len as usize > memory.len() {
            return Err(Invalid);
        }
        *state = SendState::Going(len);
        self.peer(peer).offered -= 1;
        self.wake(peer);
        Ok(())
    }

    fn on_pull(&mut self, peer: PeerId, id: u32, offer: u32, len: u32) -> OpResult {
        self.claim_offer(peer, offer, len)?;
        let serving = PendingRead { id, source: ReadSource::Send(offer), len, at: 0 };
        self.peer(peer).serving.push_back(serving);
        Ok(())
    }

    /// The peer has read an offered message in this process's memory.
    fn on_taken(&mut self, peer: PeerId, id: u32, offer: u32, len: u32) -> OpResult {
        self.claim_offer(peer, offer, len)?;
        self.counters.lent += 1;
        self.peer(peer).answers.push_back(OperationReply::Confirmed { id, send: offer });
        Ok(())
    }

    fn on_read(
        &mut self,
        peer: PeerId,
        id: u32,
        key: RegionKey,
        offset: u64,
        len: u32,
    ) -> OpResult {
        if !self.peer(peer).may_ask() {
            return Err(Invalid);
        }
        let found = self.find(peer, key).and_then(|found| {
            self.regions.check(found, offset, len.into(), Rights::READ)?;
            Ok(found)
        });
        let found = match found {
            Ok(found) => found,
            Err(status) => return self.answer(peer, id, Err(status)),
        };
        let state = self.peer(peer);
        let source = ReadSource::Region(found, offset);
        state.serving.push_back(PendingRead { id, source, len, at: 0 });
        self.owes(peer);
        Ok(())
    }

    fn on_reply(&mut self, peer: PeerId, id: u32, at: u32, data: Pieces) -> OpResult {
        let expected = match self.operations.get_mut(id) {
            Some(Operation::Receive(Receive { room, matched: Some(m), .. }))
                if m.peer == peer && m.is_pulled() && m.got == at =>
            {
                m.total.min(*room)
            }
            Some(Operation::Read { peer: from, len, got, begun: true, .. })
                if *from == peer && *got == at =>
            {
                *len
            }
            // An answer to something that was lost with a former session or was not sent, or an
            // invalid one.
            _ => return Err(Invalid),
        };
        let end = at.checked_add(data.len() as u32).filter(|&end| end <= expected);
        let end = end.ok_or(Invalid)?;
        // It brings nothing, so it could come again without end.
        if data.is_empty() && expected > 0 {
            return Err(Invalid);
        }
        match self.operations.get_mut(id) {
            Some(Operation::Read { memory, .. }) => {
                if let Some(memory) = memory {
                    memory.write_pieces(at as usize, data);
                }
            }
            _ => self.put(id, at as usize, data),
        }
        self.came(peer, id, end as usize);
        Ok(())
    }

    /// The data of an operation that asked for them have come up to `end`.
    pub(crate) fn came(&mut self, peer: PeerId, id: u32, end: usize) {
        let (got, expected, is_read) = match self.operations.get_mut(id) {
            Some(Operation::Read { got, len, .. }) => (got, *len, true),
            Some(Operation::Receive(Receive { room, matched: Some(m), .. })) => {
                (&mut m.got, m.total.min(*room), false)
            }
            _ => return,
        };
        *got = end as u32;
        if *got < expected {
            self.coming = Some(id);
            return;
        }
        if is_read {
            self.answered(peer);
        }
        self.complete(id, Ok(()));
    }

    fn on_write(&mut self, peer: PeerId, op: Op, data: Pieces) -> OpResult {
        let Op::Write { id, key, offset, total, at, notice } = op else { return Err(Invalid) };
        let part = WriteProgress { id, key: RegionKey(key), offset, total, notice, at };
        self.check_part(peer, part, data.len())?;
        let mut found = self.memory_of(peer, part);
        let len = data.len() as u32;
        let place = (offset as usize).wrapping_add(at as usize);
        if let Ok(memory) = found {
            match self.regions.check(memory, offset, total.into(), Rights::WRITE) {
                Ok(memory) => memory.write_pieces(place, data),
                Err(status) => {
                    if notice.is_some() {
                        self.notices.release(peer);
                    }
                    found = Err(status);
                }
            }
        }
        if at + len < total {
            self.peer(peer).writing = Some((WriteProgress { at: at + len, ..part }, found));
            return Ok(());
        }
        if let Ok(memory) = found {
            self.regions.count_write(memory);
            if let Some(value) = notice {
                let notice = TransferNotice { peer, key: memory.key, offset, len: total, value };
                return self.notify(notice, id);
            }
        }
        self.answer(peer, id, found.map(drop))
    }

    /// A write is in place whose notice the program gets. It is answered now, or when the program
    /// takes the notice: so a peer writes no faster than the program takes notices.
    fn notify(&mut self, notice: TransferNotice, id: u32) -> OpResult {
        let peer = notice.peer;
        let epoch = self.peer(peer).epoch.filter(|_| self.notices.are_many());
        self.notices.push(notice, epoch.map(|epoch| (epoch, id)));
        match epoch {
            None => return self.answer(peer, id, Ok(())),
            Some(_) => self.peer(peer).owed += 1,
        }
        Ok(())
    }

    /// The program has taken a notice whose write waits for its answer.
    #[cold]
    pub(crate) fn answer_late(&mut self, peer: PeerId, (epoch, id): UnansweredWrite) {
        if let Some(PeerEntry::Busy(state)) = self.peers.get_mut(peer.0 as usize)
            && state.epoch == Some(epoch)
        {
            state.answers.push_back(OperationReply::Plain(Op::Done { id, status: Status::Ok }));
            self.wake(peer);
        }
    }

    /// A part of `len` bytes continues the peer's write, or begins one.
    fn check_part(&mut self, peer: PeerId, part: WriteProgress, len: usize) -> OpResult {
        let left = part.total.checked_sub(part.at).ok_or(Invalid)?;
        if len > left as usize || len == 0 && part.total > 0 {
            return Err(Invalid);
        }
        let state = self.peer(peer);
        match state.writing {
            Some((next, _)) if next == part => Ok(()),
            None if part.at == 0 && state.may_ask() => Ok(()),
            _ => Err(Invalid),
        }
    }

    /// The memory of the write that this part continues or begins, or why the write is refused.
    fn memory_of(&mut self, peer: PeerId, part: WriteProgress) -> Result<RegionRef, Status> {
        if let Some((_, found)) = self.peer(peer).writing.take() {
            return found;
        }
        let found = self.find(peer, part.key)?;
        match part.notice.is_none() || self.notices.reserve(peer) {
            true => Ok(found),
            false => Err(Status::Busy),
        }
    }

    /// The memory of a key that a peer has named. A peer that has named many wrong keys does not
    /// learn whether this one is right.
    fn find(&mut self, peer: PeerId, key: RegionKey) -> Result<RegionRef, Status> {
        if !self.guesses.may_ask(peer, self.now) {
            return Err(Status::Busy);
        }
        self.regions.find(key).ok_or_else(|| {
            self.counters.wrong_keys += 1;
            self.guesses.wrong(peer, self.now);
            Status::Key
        })
    }

    fn on_atomic(
        &mut self,
        peer: PeerId,
        id: u32,
        place: RegionPlace,
        change: Change,
        data: Pieces,
    ) -> OpResult {
        let mut operands = [0; 2 * MOST_FETCHED];
        let operands = operands.get_mut(..data.len()).ok_or(Invalid)?;
        if operands.len() != change.operands_len() || !self.peer(peer).may_ask() {
            return Err(Invalid);
        }
        let mut at = 0;
        for piece in data {
            operands[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        match self.change(peer, place, change, operands) {
            Ok(before) if change.fetches() => self.owe(peer, OperationReply::Fetched(id, before)),
            result => self.answer(peer, id, result.map(drop)),
        }
    }

    /// Changes a memory; returns the former values.
    fn change(
        &mut self,
        peer: PeerId,
        RegionPlace { key, offset }: RegionPlace,
        change: Change,
        operands: &[u8],
    ) -> Result<Values, Status> {
        let found = self.find(peer, key)?;
        let memory = self.regions.check(found, offset, change.len() as u64, Rights::ATOMIC)?;
        let mut before = Values::of(&change);
        memory.read(offset as usize, before.bytes_mut());
        if change.action() == Action::Read {
            self.regions.accesses.reads += 1;
        } else {
            memory.write(offset as usize, apply(&change, &before, operands).bytes());
            self.regions.count_write(found);
        }
        Ok(before)
    }

    fn answer(&mut self, peer: PeerId, id: u32, result: Result<(), Status>) -> OpResult {
        let status = match result {
            Ok(()) => Status::Ok,
            Err(status) => {
                self.counters.refused += 1;
                log::refused(peer, status);
                status
            }
        };
        self.owe(peer, OperationReply::Plain(Op::Done { id, status }))
    }

    fn owe(&mut self, peer: PeerId, answer: OperationReply) -> OpResult {
        let state = self.peer(peer);
        state.answers.push_back(answer);
        self.owes(peer);
        Ok(())
    }

    /// An operation of a peer now waits for its answer.
    fn owes(&mut self, peer: PeerId) {
        let state = self.peer(peer);
        state.owed += 1;
        if state.wants_entries() {
            self.grant_entries(peer);
        }
        self.wake(peer);
    }

    /// A peer gets close to the limit of what it may send unasked.
    #[cold]
    fn grant_bytes(&mut self, peer: PeerId, ahead: bool) {
        let former = self.matching.unexpected.former(peer);
        let mut granted = self.peer(peer).granted;
        let more = granted.grow_bytes(former, &mut self.pool, ahead);
        let state = self.peer(peer);
        state.granted = granted;
        if more > 0 {
            state.allowed = state.allowed.wrapping_add(more);
            state.limit_due = true;
            self.wake(peer);
        }
    }

    /// A peer gets close to the limit of its offers and operations.
    #[cold]
    fn grant_entries(&mut self, peer: PeerId) {
        let former = self.matching.unexpected.former(peer);
        let mut granted = self.peer(peer).granted;
        if granted.grow_entries(former, &mut self.pool) {
            let state = self.peer(peer);
            state.granted = granted;
            state.limit_due = true;
            self.wake(peer);
        }
    }

    fn on_done(&mut self, peer: PeerId, id: u32, status: Status, data: Pieces) -> OpResult {
        let result = match status {
            Status::Ok => Ok(()),
            refused => Err(OpError::Refused(refused)),
        };
        let expected = match self.operations.get_mut(id) {
            Some(Operation::Write { peer: to, memory, at, begun: true, .. })
                if *to == peer && *at as usize == memory.len() =>
            {
                0
            }
            Some(Operation::Read { peer: to, begun: true, .. })
                if *to == peer && result.is_err() =>
            {
                0
            }
            Some(Operation::Receive(Receive { matched: Some(m), .. }))
                if m.peer == peer
                    && m.source == DataSource::Taken
                    && result.is_ok()
                    && data.is_empty() =>
            {
                // It is not an operation that the peer limits.
                self.complete(id, Ok(()));
                return Ok(());
            }
            Some(Operation::Atomic { peer: to, change, begun: true, .. }) if *to == peer => {
                if result.is_ok() && change.fetches() {
                    change.len()
                } else {
                    0
                }
            }
            _ => return Err(Invalid),
        };
        if data.len() != expected {
            return Err(Invalid);
        }
        if let Some(Operation::Atomic { memory: Some(memory), .. }) = self.operations.get_mut(id) {
            memory.write_pieces(0, data);
        }
        self.answered(peer);
        self.complete(id, result);
        Ok(())
    }

    /// One operation was answered, so another may start.
    fn answered(&mut self, peer: PeerId) {
        let state = self.peer(peer);
        state.asked = state.asked.saturating_sub(1);
        self.wake(peer);
    }
}
