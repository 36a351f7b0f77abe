//! What goes into the next frame for a peer.

use crate::frame_space::{FillResult, FrameSpace, InPlace, InPlaceBytes, LEAST_PART};
use crate::memory::{Bytes, Rights};
use crate::operation::{Operation, Send, SendState};
use crate::peer::{ActivePeer, OperationReply, PeerEntry, PendingRead, ReadSource, cost};
use crate::pool::{MOST_ASKED, MOST_OFFERED};
use crate::transfer::Transfer;
use gigae_proto::PeerId;
use gigae_wire::Epoch;
use gigae_wire::op::{Label, MAX_OP_HEADER, MOST_FETCHED, Op, Status};
use std::collections::VecDeque;

/// An Atomic fits at every place where another operation on remote memory may begin.
const _: () = assert!(2 * MOST_FETCHED <= LEAST_PART);

/// Bytes of a Limit.
const LIMIT_LEN: usize = Op::Limit { until: 0, entries: 0 }.header_len();

/// Longer messages are offered to a peer that reads them in this process's memory.
const LEND_ABOVE: usize = 12 << 10;

/// Messages, and peers, that are compared to find the shortest.
const MOST_COMPARED: usize = 64;

/// One frame in so many goes to the oldest, so that all go on.
const TURNS: u32 = 16;

/// The peer's request for a message with the fewest bytes left, and these, unless another request
/// is the oldest.
fn served_left(state: &ActivePeer) -> Option<(usize, usize)> {
    shortest(&state.serving)
}

fn shortest(serving: &VecDeque<PendingRead>) -> Option<(usize, usize)> {
    let left = |next: &PendingRead| (next.len - next.at) as usize;
    let is_message = |next: &PendingRead| matches!(next.source, ReadSource::Send(_));
    let oldest = serving.front()?;
    if !is_message(oldest) {
        return Some((0, left(oldest)));
    }
    let compared = serving.iter().take(MOST_COMPARED).enumerate();
    let messages = compared.take_while(|(_, next)| is_message(next));
    messages.map(|(place, next)| (place, left(next))).min_by_key(|&(_, left)| left)
}

/// # Frames to send
impl<M: Bytes> Transfer<M> {
    /// The next peer for which there may be something to send. It comes up again only after it was
    /// [filled](Self::fill) for or something new began. [`postpone`](Self::postpone) it if nothing
    /// can be sent to it now.
    pub fn poll_ready(&mut self) -> Option<PeerId> {
        let peer = self.ready.pop_front()?;
        self.peer(peer).ready = false;
        Some(peer)
    }

    /// The same, but the one with the fewest bytes [left](Self::left) of those next in turn.
    pub fn poll_ready_shortest(&mut self) -> Option<PeerId> {
        self.compared = self.compared.wrapping_add(1);
        if self.compared.is_multiple_of(TURNS) {
            return self.poll_ready();
        }
        let next = self.ready.iter().take(MOST_COMPARED).enumerate();
        let (place, _) = next.min_by_key(|&(_, &peer)| self.left(peer))?;
        let peer = self.ready.remove(place)?;
        self.peer(peer).ready = false;
        Some(peer)
    }

    /// About how many bytes are left of the message that goes to a peer next.
    /// `None`: nothing goes.
    pub fn left(&self, peer: PeerId) -> Option<usize> {
        let PeerEntry::Busy(state) = &self.peers[peer.0 as usize] else { return None };
        if !state.answers.is_empty() || state.limit_due {
            return Some(0);
        }
        let served = served_left(state).map_or(usize::MAX, |(_, left)| left);
        Some(self.started_left(state).min(served)).filter(|&left| left < usize::MAX)
    }

    /// Bytes that are left of the operation that was started here and goes next.
    fn started_left(&self, state: &ActivePeer) -> usize {
        match state.starting.front().map(|&id| self.operations.get(id)) {
            Some(Some(Operation::Send(Send { memory, state: SendState::Parts(at), .. }))) => {
                memory.len() - *at as usize
            }
            // A longer message goes out as an offer, which is short.
            Some(Some(Operation::Send(Send { memory, .. }))) => {
                if memory.len() <= self.config.offer_above { memory.len() } else { 0 }
            }
            Some(Some(Operation::Write { memory, at, .. })) => memory.len() - *at as usize,
            Some(_) => 0,
            None => usize::MAX,
        }
    }

    /// Bytes of that message in all.
    pub fn whole(&self, peer: PeerId) -> usize {
        let PeerEntry::Busy(state) = &self.peers[peer.0 as usize] else { return 0 };
        let served = served_left(state);
        if served.map_or(usize::MAX, |(_, left)| left) < self.started_left(state) {
            return served.map_or(0, |(place, _)| state.serving[place].len as usize);
        }
        match state.starting.front().and_then(|&id| self.operations.get(id)) {
            Some(Operation::Send(Send { memory, .. }))
                if memory.len() <= self.config.offer_above =>
            {
                memory.len()
            }
            Some(Operation::Write { memory, .. }) => memory.len(),
            _ => 0,
        }
    }

    /// From now on, shorter messages go before longer ones, as far as the order of messages allows,
    /// and those with more than so many bytes are offered.
    #[inline]
    pub fn put_shortest_first(&mut self, longest_unasked: usize) {
        self.shortest_first = true;
        self.config.offer_above = self.config.offer_above.min(longest_unasked);
    }

    /// For how many peers there may be something to send.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Nothing can be sent to the peer now: `poll_ready` returns it again later.
    pub fn postpone(&mut self, peer: PeerId) {
        self.wake(peer);
    }

    /// About how many bytes wait to be sent to a peer: the whole of the operations whose parts come
    /// next, an answer to a request of its and an operation that was started here, and as much for
    /// each behind them.
    #[inline]
    pub fn waiting(&self, peer: PeerId) -> usize {
        let PeerEntry::Busy(state) = &self.peers[peer.0 as usize] else { return 0 };
        let answer = state.serving.front().map_or(0, |serving| serving.len as usize);
        let answers = answer.saturating_mul(state.serving.len());
        let started = match state.starting.front().and_then(|&id| self.operations.get(id)) {
            // A longer message goes out as an offer, which is short.
            Some(Operation::Send(Send { memory, .. }))
                if memory.len() <= self.config.offer_above =>
            {
                memory.len()
            }
            Some(Operation::Write { memory, .. }) => memory.len(),
            _ => 0,
        };
        answers.max(started.saturating_mul(state.starting.len()))
    }

    /// Whether a message or write of `bytes` bytes and more, started here, waits for a peer behind
    /// the one that comes next, or a message of that length went before it and is not acknowledged.
    /// Looks at the nearest four on each side: between long messages, others may go short ones.
    pub fn is_queued(&self, peer: PeerId, bytes: usize) -> bool {
        let Some(PeerEntry::Busy(state)) = self.peers.get(peer.0 as usize) else { return false };
        const NEAREST: usize = 4;
        let next = usize::from(state.serving.is_empty());
        let mut behind = state.starting.iter().skip(next).take(NEAREST);
        let mut before = state.going.iter().rev().take(NEAREST).filter_map(|(_, id)| id.as_ref());
        let is_long = |id: &u32| match self.operations.get(*id) {
            Some(Operation::Send(Send { memory, .. }) | Operation::Write { memory, .. }) => {
                memory.len() >= bytes
            }
            _ => false,
        };
        // What peers pull of several messages. Of one they may pull several parts.
        let pulled = |serving: &PendingRead| match serving.source {
            ReadSource::Send(send) => Some(send),
            ReadSource::Region(..) => None,
        };
        let first = state.serving.front().and_then(pulled);
        let several = state.serving.iter().any(|next| pulled(next) != first);
        several || behind.any(is_long) || before.any(is_long)
    }

    /// How many bytes of data the only operation has left that waits to be sent to a peer. `None`
    /// if others wait, too, or answers.
    pub fn left_alone(&self, peer: PeerId) -> Option<usize> {
        let PeerEntry::Busy(state) = &self.peers[peer.0 as usize] else { return None };
        if !state.answers.is_empty() {
            return None;
        }
        if let (Some(&PendingRead { len, at, .. }), 1, true) =
            (state.serving.front(), state.serving.len(), state.starting.is_empty())
        {
            return Some((len - at) as usize);
        }
        if state.starting.len() != 1 || !state.serving.is_empty() {
            return None;
        }
        match self.operations.get(*state.starting.front()?)? {
            Operation::Send(Send { memory, state: SendState::Parts(at), .. }) => {
                Some(memory.len() - *at as usize)
            }
            Operation::Send(Send { memory, .. }) => Some(memory.len()),
            Operation::Write { memory, at, .. } => Some(memory.len() - *at as usize),
            _ => None,
        }
    }

    /// Writes the next data for a peer into a frame, or into one of its segments, in the session of
    /// this epoch. Returns the number of bytes; zero if there is nothing now. Copies the data once.
    /// The caller must send the frame, and call [`framed`](Self::framed) before it fills the next
    /// one.
    ///
    /// `out` is as long as the peer can receive, at least 128 bytes.
    #[inline]
    pub fn fill(&mut self, peer: PeerId, epoch: Epoch, out: &mut [u8]) -> usize {
        self.fill_up(peer, epoch, out, false).0
    }

    /// The same, but long data stay in the memory of their operation: the frame's bytes for them
    /// are not written. [`data`](Self::data) finds them each time that the frame is sent.
    pub fn fill_in_place(
        &mut self,
        peer: PeerId,
        epoch: Epoch,
        out: &mut [u8],
    ) -> (usize, Option<InPlace>) {
        self.fill_up(peer, epoch, out, true)
    }

    /// The data of a frame for a peer that stay in place. `None` if their operation is over: then
    /// the peer has acknowledged it without having the data.
    #[inline]
    pub fn data(&self, peer: PeerId, in_place: InPlace) -> Option<InPlaceBytes<'_>> {
        let InPlace { operation, from, .. } = in_place;
        let (to, memory) = match self.operations.get(operation)? {
            Operation::Send(Send { peer, memory, .. }) | Operation::Write { peer, memory, .. } => {
                (*peer, memory)
            }
            _ => return None,
        };
        if to != peer {
            return None;
        }
        let bytes = memory.slice(from as usize, in_place.len())?;
        Some(InPlaceBytes { bytes, lendable: memory.is_lendable() })
    }

    fn fill_up(
        &mut self,
        peer: PeerId,
        epoch: Epoch,
        out: &mut [u8],
        in_place: bool,
    ) -> (usize, Option<InPlace>) {
        self.peer(peer).epoch = Some(epoch);
        let (mut at, mut left) = (0, None);
        loop {
            let room = FrameSpace { bytes: &mut out[at..], before: at, in_place, last: false };
            if at == 0 && self.carries_limit(peer, room.len()) {
                self.peer(peer).allow_more();
            }
            let step = match self.config.separates {
                false => match self.fill_answer(peer, room.bytes) {
                    FillResult::Nothing => self.fill_turn(peer, room),
                    step => step,
                },
                true => self.fill_separately(peer, room),
            };
            match step {
                FillResult::Wrote(len) => at += len,
                FillResult::Left(header, data) => {
                    at += header + data.len();
                    left = Some(data);
                    // There may be more for the next frame.
                    self.wake(peer);
                    break;
                }
                FillResult::Full => {
                    self.wake(peer);
                    break;
                }
                FillResult::Nothing => break,
            }
        }
        if at == 0 {
            self.settle(peer);
        }
        (at, left)
    }

    /// Writes a short message into its own frame. `None`, with no effect, if earlier messages wait
    /// or the peer does not allow it. The message has no completion, unless it is
    /// [lost](crate::OpId::INJECTED). Returns the number of bytes. Copies once. The caller must
    /// send the frame in a session of this epoch.
    pub fn inject(
        &mut self,
        peer: PeerId,
        epoch: Epoch,
        label: Label,
        message: &[u8],
        out: &mut [u8],
    ) -> Option<usize> {
        let len = self.inject_behind(peer, epoch, label, message, out)?;
        self.framed(peer);
        Some(len)
    }

    /// The same into the last frame that was filled for the peer, behind what that has: `out` is
    /// the rest of it.
    pub fn inject_more(
        &mut self,
        peer: PeerId,
        epoch: Epoch,
        label: Label,
        message: &[u8],
        out: &mut [u8],
    ) -> Option<usize> {
        let state = self.peer(peer);
        state.filled -= 1;
        let len = self.inject_behind(peer, epoch, label, message, out);
        self.framed(peer);
        len
    }

    fn inject_behind(
        &mut self,
        peer: PeerId,
        epoch: Epoch,
        label: Label,
        message: &[u8],
        out: &mut [u8],
    ) -> Option<usize> {
        let longest = self.config.offer_above;
        let state = self.peer(peer);
        let op = Op::Eager { label };
        let header = op.header_len();
        let body = out.get_mut(header..header + message.len())?;
        let waits = !state.starting.is_empty();
        if waits || message.len() > longest || !state.allows(message.len()) {
            return None;
        }
        body.copy_from_slice(message);
        op.write(message.len() as u16, out);
        state.epoch = Some(epoch);
        state.sent = state.sent.wrapping_add(cost(message.len()));
        state.going.push_back((state.filled, None));
        self.counters.unasked += 1;
        self.started += 1;
        Some(header + message.len())
    }

    /// Everything that was filled for a peer since the last call goes in one frame.
    pub fn framed(&mut self, peer: PeerId) {
        self.peer(peer).filled += 1;
        self.written = None;
    }

    /// A frame for a peer was acknowledged. Frames are acknowledged in the order in which they were
    /// filled.
    pub fn acknowledged(&mut self, peer: PeerId) {
        self.peer(peer).acknowledged += 1;
        while let Some(id) = self.peer(peer).next_acknowledged() {
            self.complete(id, Ok(()));
        }
        self.settle(peer);
    }

    /// Whether an empty frame for a peer can carry a Limit in front of what comes next, a message
    /// that begins in the frame and does not need all of it. Otherwise the Limit would need a
    /// separate frame later.
    fn carries_limit(&self, peer: PeerId, room: usize) -> bool {
        let PeerEntry::Busy(state) = &self.peers[peer.0 as usize] else { return false };
        if !state.could_allow_more() || !state.serving.is_empty() {
            return false;
        }
        let next = state.starting.front().and_then(|&id| self.operations.get(id));
        let Some(Operation::Send(Send { memory, label, state: SendState::Queued, .. })) = next
        else {
            return false;
        };
        let len = memory.len();
        let whole = Op::Eager { label: *label }.header_len() + len;
        // In a separate frame it would leave no room for the Limit.
        let fits_without = whole <= room && LIMIT_LEN + whole > room;
        len <= self.config.offer_above && state.allows(len) && !fits_without
    }

    #[inline(always)]
    pub(crate) fn fill_answer(&mut self, peer: PeerId, room: &mut [u8]) -> FillResult {
        let state = self.peer(peer);
        let limit = state.limit_due.then(|| OperationReply::Plain(state.limit()));
        let Some(answer) = limit.as_ref().or(state.answers.front()) else {
            return FillResult::Nothing;
        };
        let (op, data) = match answer {
            OperationReply::Plain(op) => (*op, &[][..]),
            OperationReply::Fetched(id, values) => {
                (Op::Done { id: *id, status: Status::Ok }, values.bytes())
            }
            OperationReply::Confirmed { id, .. } => {
                (Op::Done { id: *id, status: Status::Ok }, &[][..])
            }
        };
        let len = op.header_len() + data.len();
        if len > room.len() {
            return FillResult::Full;
        }
        let header = op.write(data.len() as u16, room);
        room[header..len].copy_from_slice(data);
        if limit.is_some() {
            state.limit_due = false;
        } else if let Some(OperationReply::Confirmed { send, .. }) = state.answers.pop_front() {
            // The frame is with the receiver before the program learns this: it goes through
            // memory.
            self.complete(send, Ok(()));
        } else {
            state.owed -= u16::from(matches!(op, Op::Done { .. }));
        }
        FillResult::Wrote(len)
    }

    /// Answers and operations started here take turns, part by part.
    fn fill_turn(&mut self, peer: PeerId, mut room: FrameSpace) -> FillResult {
        let room = &mut room;
        let serve = self.serves_next(peer, room);
        let first = if serve { self.serve(peer, room) } else { self.start(peer, room) };
        match first {
            FillResult::Nothing if serve => self.start(peer, room),
            FillResult::Nothing => self.serve(peer, room),
            step => step,
        }
    }

    /// Whether an answer comes next, if there is one.
    #[inline(always)]
    pub(crate) fn serves_next(&mut self, peer: PeerId, room: &mut FrameSpace) -> bool {
        let shortest_first = self.shortest_first;
        let state = self.peer(peer);
        room.last = state.serving.len() + state.starting.len() <= 1;
        state.serve = !state.serve;
        let mut serve = state.serve;
        if shortest_first
            && !state.filled.is_multiple_of(TURNS.into())
            && let PeerEntry::Busy(state) = &self.peers[peer.0 as usize]
        {
            let served = served_left(state).map_or(usize::MAX, |(_, left)| left);
            serve = served < self.started_left(state);
        }
        serve
    }

    /// The next part of the peer's oldest request.
    pub(crate) fn serve(&mut self, peer: PeerId, room: &mut FrameSpace) -> FillResult {
        let shortest_first = self.shortest_first;
        let state = self.peer(peer);
        let shortest_first = shortest_first && !state.filled.is_multiple_of(TURNS.into());
        let serving = &mut state.serving;
        if shortest_first && let Some((place, _)) = shortest(serving) {
            serving.swap(0, place);
        }
        let Some(&PendingRead { id, source, len, at }) = serving.front() else {
            return FillResult::Nothing;
        };
        let reply = Op::Reply { id, at };
        let header = reply.header_len();
        let left = (len - at) as usize;
        if room.len() < header + left.min(LEAST_PART) {
            return FillResult::Full;
        }
        let part = left.min(room.len() - header).min(u16::MAX.into());
        let step = match source {
            ReadSource::Send(send) => match self.operations.get(send) {
                Some(Operation::Send(Send { memory, .. })) => {
                    Some(room.take(header, send, memory, at as usize, part))
                }
                _ => None,
            },
            // The program may have deregistered it since, or may do so before the frame is sent.
            ReadSource::Region(found, offset) => {
                let found = self.regions.check(found, offset, len.into(), Rights::READ);
                found.ok().map(|memory| {
                    let body = &mut room.bytes[header..header + part];
                    memory.read(offset as usize + at as usize, body);
                    FillResult::Wrote(header + part)
                })
            }
        };
        let state = self.peer(peer);
        let Some(step) = step else {
            state.serving.pop_front();
            state.owed += u16::from(matches!(source, ReadSource::Send(_)));
            let done = Op::Done { id, status: Status::Key };
            state.answers.push_back(OperationReply::Plain(done));
            return FillResult::Wrote(0);
        };
        reply.write(part as u16, room.bytes);
        let serving = state.serving.front_mut().expect("seen above");
        serving.at += part as u32;
        if serving.at == len {
            state.serving.pop_front();
            match source {
                ReadSource::Send(send) => state.going.push_back((state.filled, Some(send))),
                ReadSource::Region(..) => {
                    state.owed -= 1;
                    self.regions.accesses.reads += 1;
                }
            }
        }
        step
    }

    /// The next part of the oldest operation that was started here and not sent completely.
    pub(crate) fn start(&mut self, peer: PeerId, room: &mut FrameSpace) -> FillResult {
        let Some(&id) = self.peer(peer).starting.front() else { return FillResult::Nothing };
        let operation = self.operations.get(id).filter(|found| found.peer() == Some(peer));
        match operation {
            Some(Operation::Send(_)) => self.start_send(peer, id, room),
            Some(Operation::Write { .. } | Operation::Read { .. } | Operation::Atomic { .. }) => {
                self.start_remote(peer, id, room)
            }
            // It is over, and its number may be another's by now.
            Some(Operation::Receive(_) | Operation::MultiReceive(_)) | None => {
                self.peer(peer).starting.pop_front();
                FillResult::Wrote(0)
            }
        }
    }

    fn start_send(&mut self, peer: PeerId, id: u32, room: &mut FrameSpace) -> FillResult {
        let offer_above = self.config.offer_above;
        let PeerEntry::Busy(state) = &mut self.peers[peer.0 as usize] else {
            unreachable!("it has something to start")
        };
        let Some(Operation::Send(send)) = self.operations.get_mut(id) else {
            return FillResult::Nothing;
        };
        let total = send.memory.len();
        let lends = state.lends && total > LEND_ABOVE;
        let lent = if lends { send.memory.slice(0, total) } else { None };
        let lent = lent.map(|bytes| bytes.as_ptr().expose_provenance() as u64);
        let (op, from) = match send.state {
            SendState::Queued if lent.is_none() && total <= offer_above && state.allows(total) => {
                (Op::Eager { label: send.label }, 0)
            }
            SendState::Queued => {
                let (label, total) = (send.label, total as u32);
                let offer = match lent {
                    Some(at) => Op::OfferAt { id, label, total, at },
                    None => Op::Offer { id, label, total },
                };
                if state.offered >= state.entries.min(MOST_OFFERED) {
                    return FillResult::Nothing;
                }
                if room.len() < offer.header_len() {
                    return FillResult::Full;
                }
                send.state = SendState::Offered;
                state.offered += 1;
                state.starting.pop_front();
                self.counters.offered += 1;
                return FillResult::Wrote(offer.write(0, room.bytes));
            }
            SendState::Parts(at) => (Op::More, at as usize),
            // The number was another's when it was queued.
            SendState::Offered | SendState::Going(_) => {
                state.starting.pop_front();
                return FillResult::Wrote(0);
            }
        };
        let left = total - from;
        let whole = op.header_len() + left;
        let fits = whole <= room.len();
        // It begins at the start of a frame, or behind a Limit if no frame has room for all of it.
        let behind = if whole > room.before + room.len() { LIMIT_LEN } else { 0 };
        let must_wait = from == 0 && room.before > behind;
        let op = match op {
            Op::Eager { label } if !fits => Op::First { label, total: total as u32 },
            op => op,
        };
        if !fits && (must_wait || room.len() < op.header_len() + LEAST_PART) {
            return FillResult::Full;
        }
        let header = op.header_len();
        let part = left.min(room.len() - header);
        op.write(part as u16, room.bytes);
        let step = room.take(header, id, &send.memory, from, part);
        if from == 0 {
            state.sent = state.sent.wrapping_add(cost(total));
            self.counters.unasked += 1;
        }
        let end = from + part;
        if end == total {
            send.state = SendState::Going(total as u32);
            state.starting.pop_front();
            state.going.push_back((state.filled, Some(id)));
        } else {
            send.state = SendState::Parts(end as u32);
        }
        step
    }

    fn start_remote(&mut self, peer: PeerId, id: u32, room: &mut FrameSpace) -> FillResult {
        let PeerEntry::Busy(state) = &mut self.peers[peer.0 as usize] else {
            unreachable!("it has something to start")
        };
        if room.len() < MAX_OP_HEADER + LEAST_PART {
            return FillResult::Full;
        }
        let Some(operation) = self.operations.get_mut(id) else { return FillResult::Nothing };
        if let Operation::Atomic { memory: None, .. } = operation {
            // All operands have been sent.
            state.starting.pop_front();
            state.engaged -= 1;
            self.operations.remove(id);
            return FillResult::Wrote(0);
        }
        let goes_on = matches!(operation, Operation::Write { begun: true, .. });
        if !goes_on {
            if state.asked >= state.entries.min(MOST_ASKED) {
                return FillResult::Nothing;
            }
            state.asked += 1;
        }
        let (step, ends) = match operation {
            Operation::Write { memory, key, offset, at, notice, begun, .. } => {
                *begun = true;
                let total = memory.len();
                let from = *at as usize;
                let op = Op::Write {
                    id,
                    key: *key,
                    offset: *offset,
                    total: total as u32,
                    at: *at,
                    notice: *notice,
                };
                let header = op.header_len();
                let part = (total - from).min(room.len() - header).min(u16::MAX.into());
                op.write(part as u16, room.bytes);
                *at += part as u32;
                let ends = from + part == total;
                (room.take(header, id, &*memory, from, part), ends)
            }
            Operation::Read { len, key, offset, begun, .. } => {
                *begun = true;
                self.asked += *len as usize;
                self.expecting.push_back(id);
                let read = Op::Read { id, key: *key, offset: *offset, len: *len };
                (FillResult::Wrote(read.write(0, room.bytes)), true)
            }
            Operation::Atomic { memory, key, offset, change, begun, .. } => {
                *begun = true;
                let op = Op::Atomic { id, key: *key, offset: *offset, change: *change };
                let (header, len) = (op.header_len(), change.operands_len());
                op.write(len as u16, room.bytes);
                if let Some(memory) = memory {
                    memory.read(0, &mut room.bytes[header..header + len]);
                }
                (FillResult::Wrote(header + len), true)
            }
            Operation::Send(_) | Operation::Receive(_) | Operation::MultiReceive(_) => {
                unreachable!("not remote memory")
            }
        };
        if ends {
            state.starting.pop_front();
        }
        step
    }
}
