//! The state of one endpoint's operations, and the program's side of it.

use crate::guesses::Guesses;
use crate::kept::Taken;
use crate::matching::{Body, Matching, Selector};
use crate::memory::{Accesses, Memory, RegionKey, Regions, Rights};
use crate::notices::Notices;
use crate::operation::{
    Completion, Matched, Notice, OpError, OpId, Operation, Part, Place, Receive, Send, Sending,
    Several, Taking,
};
use crate::peer::{Answer, Entry, Into, Peer, cost};
use crate::pool::{MOST_BYTES, Pool};
use crate::table::Table;
use gigae_proto::{Instant, PeerId, Reason};
use gigae_wire::op::{Change, Label, Op};
use gigae_wire::{Epoch, Pieces};
use std::collections::VecDeque;
use std::fmt;

/// Longest message or remote access in bytes.
pub(crate) const LONGEST: usize = 1 << 30;

/// Completions that wait for the program, after which receives of several messages take no more: empty
/// messages would fill the list without filling the memory.
const MOST_COMPLETIONS: usize = 16_384;

/// Peers that keep their state while nothing is going on with them: a program that asks and answers a few neither
/// allocates nor moves anything.
const MOST_KEPT: usize = 16;

/// States of others that are kept for the next ones.
const MOST_SPARE: usize = 16;

/// Parameters.
#[derive(Clone, Debug)]
pub struct Config {
    /// Messages longer than this are offered and pulled instead of sent unasked. At most, and by
    /// default, 32,768 bytes: half of what a sender is allowed.
    pub offer_above: usize,
    /// Notices that may wait to be taken, writes in progress that bear one included; further writes that
    /// bear one are refused. Each peer may have 1/256 of it beyond that. Default 4,096.
    pub most_notices: usize,
    /// Bytes that peers together may be granted beyond what each may make this endpoint keep from the
    /// beginning of a session on. Default 64 MiB.
    pub most_granted: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { offer_above: MOST_BYTES as usize / 2, most_notices: 4096, most_granted: 64 << 20 }
    }
}

/// Counts since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages sent unasked.
    pub unasked: u64,
    /// Messages offered.
    pub offered: u64,
    /// Messages that arrived before a receive wanted them.
    pub unexpected: u64,
    /// Of these, those of former sessions that were dropped because no receive took them and there was no
    /// room for more.
    pub dropped: u64,
    /// Reads, writes and atomic changes of others that were refused.
    pub refused: u64,
    /// Of these, those whose key fitted no memory.
    pub wrong_keys: u64,
    /// Operations of others that no sender of this protocol starts. Always zero unless there is a
    /// bug or an enemy.
    pub invalid: u64,
}

/// The memory is too long for one operation, or too many operations or regions are there; the memory
/// comes back.
#[derive(Debug)]
pub struct TooLong<M>(pub M);

impl<M> fmt::Display for TooLong<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "one operation takes at most 1 GiB, and an endpoint 1,048,576 operations at a time; \
             divide it, or wait for others to complete",
        )
    }
}

/// What an operation that names a peer begins with.
pub type Start<M> = Result<OpId, TooLong<M>>;

/// See the crate's description.
#[derive(Debug)]
pub struct Transfer<M> {
    pub(crate) config: Config,
    pub(crate) peers: Vec<Entry>,
    /// How many of them are busy, and memory for more.
    busy: usize,
    #[expect(clippy::vec_box, reason = "the boxes move between here and the peers")]
    spare: Vec<Box<Peer>>,
    pub(crate) ready: VecDeque<PeerId>,
    pub(crate) operations: Table<Operation<M>>,
    pub(crate) matching: Matching,
    pub(crate) regions: Regions<M>,
    pub(crate) guesses: Guesses,
    pub(crate) now: Instant,
    pub(crate) completions: VecDeque<Completion<M>>,
    /// Receives of several messages that wait for room.
    pub(crate) stalled: Vec<u32>,
    /// Messages of receives of several that were not told of, in the order in which they were matched.
    parts: VecDeque<Part<M>>,
    pub(crate) notices: Notices,
    pub(crate) pool: Pool,
    pub(crate) counters: Counters,
}

impl<M: Memory> Transfer<M> {
    /// No operation is going on. `keys` is asked for the key of each memory that is registered: who
    /// knows some of its numbers must not be able to tell the others, as with the numbers of the
    /// operating system's generator.
    pub fn new(config: Config, keys: impl FnMut() -> u64 + std::marker::Send + 'static) -> Self {
        Self {
            notices: Notices::new(config.most_notices),
            pool: Pool::new(config.most_granted),
            config,
            peers: Vec::new(),
            busy: 0,
            spare: Vec::new(),
            ready: VecDeque::new(),
            operations: Table::new(),
            matching: Matching::default(),
            regions: Regions::new(keys),
            guesses: Guesses::default(),
            now: Instant(0),
            completions: VecDeque::new(),
            stalled: Vec::new(),
            parts: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Tells the time. It only matters to peers that have named wrong keys.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        self.now = now;
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Operations that are not completed.
    pub fn outstanding(&self) -> usize {
        self.operations.len()
    }

    /// Whether anything is owed on either side: something is to be sent or waits for an answer. Receives
    /// are not, nor what nobody has received.
    pub fn is_owed(&self) -> bool {
        let is_owed = |entry: &Entry| matches!(entry, Entry::Busy(peer) if peer.is_owed());
        self.busy > 0 && self.peers.iter().any(is_owed)
    }

    /// The peers with which operations are going on, receives that were matched included. Looks at all
    /// operations.
    pub fn engaged(&self) -> Vec<PeerId> {
        let mut peers: Vec<_> = self.operations.iter().filter_map(|(_, o)| o.peer()).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }

    /// Messages that arrived or were offered and that no receive has wanted yet.
    pub fn unexpected(&self) -> usize {
        self.matching.kept.len()
    }

    #[inline]
    pub(crate) fn peer(&mut self, peer: PeerId) -> &mut Peer {
        let at = peer.0 as usize;
        if !matches!(self.peers.get(at), Some(Entry::Busy(_))) {
            self.take_up(at);
        }
        let Entry::Busy(peer) = &mut self.peers[at] else { unreachable!("it has just become so") };
        peer
    }

    /// How many operations name a peer.
    #[inline]
    pub(crate) fn engaged_with(&mut self, peer: PeerId) -> &mut u32 {
        let at = peer.0 as usize;
        if matches!(self.peers.get(at), None | Some(Entry::Unknown)) {
            self.take_up(at);
        }
        match &mut self.peers[at] {
            Entry::Busy(peer) => &mut peer.engaged,
            Entry::Idle(rest) => &mut rest.engaged,
            Entry::Unknown => unreachable!("it has just been taken up"),
        }
    }

    /// Something begins with a peer with which nothing was going on.
    #[cold]
    #[inline(never)]
    fn take_up(&mut self, at: usize) {
        if self.peers.len() <= at {
            if self.peers.capacity() <= at {
                // An eighth more: twice as much would be half in vain on average.
                self.peers.reserve_exact(at + at / 8 + 8 - self.peers.len());
            }
            self.peers.resize_with(at + 1, || Entry::Unknown);
        }
        let rest = match &self.peers[at] {
            Entry::Idle(rest) => *rest,
            _ => Peer::new().rest(),
        };
        self.busy += 1;
        let mut peer = self.spare.pop().unwrap_or_else(|| Box::new(Peer::new()));
        peer.resume(rest);
        self.peers[at] = Entry::Busy(peer);
    }

    /// If nothing is going on with a peer any more, keeps the little of it that must be known, unless there are few.
    #[inline]
    pub(crate) fn settle(&mut self, peer: PeerId) {
        if self.busy > MOST_KEPT {
            self.put_away(peer);
        }
    }

    fn put_away(&mut self, peer: PeerId) {
        let Some(entry) = self.peers.get_mut(peer.0 as usize) else { return };
        let Entry::Busy(state) = entry else { return };
        if !state.is_idle() {
            return;
        }
        let rest = state.rest();
        let unknown = rest == Peer::new().rest();
        let left = if unknown { Entry::Unknown } else { Entry::Idle(rest) };
        let Entry::Busy(state) = std::mem::replace(entry, left) else { return };
        self.busy -= 1;
        if state.is_small() && self.spare.len() < MOST_SPARE {
            self.spare.push(state);
        }
    }

    /// There may be something to send to a peer.
    pub(crate) fn wake(&mut self, peer: PeerId) {
        let state = self.peer(peer);
        if !state.ready {
            state.ready = true;
            self.ready.push_back(peer);
        }
    }

    fn begin(&mut self, peer: PeerId, operation: Operation<M>) -> Result<OpId, Operation<M>> {
        let id = self.operations.insert(operation)?;
        let state = self.peer(peer);
        state.starting.push_back(id);
        state.engaged += 1;
        self.wake(peer);
        Ok(OpId(id))
    }

    /// Sends a message. Completed once all of it has arrived at the peer's endpoint; one that
    /// is offered, once a receive has pulled what it wants of it.
    pub fn send(
        &mut self,
        peer: PeerId,
        label: impl std::convert::Into<Label>,
        memory: M,
    ) -> Start<M> {
        let label = label.into();
        if memory.len() > LONGEST {
            return Err(TooLong(memory));
        }
        let send = Send { peer, label, memory, state: Sending::Queued };
        self.begin(peer, Operation::Send(send)).map_err(|operation| match operation {
            Operation::Send(send) => TooLong(send.memory),
            _ => unreachable!("handed back as it was given"),
        })
    }

    /// Receives the first message that is wanted. One that is longer than the memory is
    /// [truncated](OpError::Truncated).
    pub fn receive(&mut self, selector: Selector, memory: M) -> Start<M> {
        if memory.len() > LONGEST || self.operations.len() == crate::table::MOST {
            return Err(TooLong(memory));
        }
        let message = self.matching.kept.take(&selector);
        let matched = message.as_ref().map(|taken| taken.message.matched());
        let room = memory.len() as u32;
        let receive = Receive { place: Place::Own(memory), room, matched };
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

    /// Receives the messages that are wanted one behind the other, until less than `least` bytes are left. Each
    /// has a completion, and the last of them brings the memory back. Meanwhile the receive keeps its place
    /// among those that are posted.
    pub fn receive_several(&mut self, selector: Selector, memory: M, least: usize) -> Start<M> {
        if memory.len() > LONGEST || self.operations.len() == crate::table::MOST {
            return Err(TooLong(memory));
        }
        // An empty rest would take empty messages for ever.
        let least = least.clamp(1, LONGEST + 1) as u32;
        let state = if memory.len() < least as usize { Taking::Full } else { Taking::Open };
        let several = Several { memory, least, used: 0, arriving: 0, state };
        let Ok(id) = self.operations.insert(Operation::Several(several)) else {
            unreachable!("there is room")
        };
        if state == Taking::Full {
            self.complete(id, Ok(()));
            return Ok(OpId(id));
        }
        self.matching.post_several(id, selector);
        self.take_kept(id);
        Ok(OpId(id))
    }

    /// Hands messages that were kept to a posted receive of several, as long as it takes any.
    fn take_kept(&mut self, id: u32) {
        let Some(selector) = self.matching.selector(id) else { return };
        while self.is_open(id) {
            let Some(taken) = self.matching.kept.take(&selector) else { return };
            let peer = taken.message.peer;
            let part = self.part(id, taken.message.matched());
            self.give(part, taken);
            self.settle(peer);
        }
        if self.matching.selector(id).is_some() {
            self.stalled.push(id);
        }
    }

    /// Whether a receive of several messages takes another now, and there is room for an operation and for
    /// its completion. The others are kept like those that no receive wants.
    pub(crate) fn is_open(&self, id: u32) -> bool {
        let Some(Operation::Several(several)) = self.operations.get(id) else { return false };
        several.state == Taking::Open
            && self.operations.len() < crate::table::MOST
            && self.completions.len() + self.parts.len() < MOST_COMPLETIONS
    }

    /// The receive of one message by an open receive of several.
    pub(crate) fn part(&mut self, of: u32, matched: Matched) -> u32 {
        let Some(Operation::Several(several)) = self.operations.get_mut(of) else {
            unreachable!("it is open")
        };
        let (at, left) = (several.used, several.memory.len() as u32 - several.used);
        let room = left.min(matched.total);
        several.used += room;
        several.arriving += 1;
        if left - room < several.least {
            several.state = Taking::Full;
            self.matching.withdraw(of);
        }
        let receive = Receive { place: Place::Part { of, at }, room, matched: Some(matched) };
        let id = self.operations.insert(Operation::Receive(receive)).ok().expect("there is room");
        *self.engaged_with(matched.peer) += 1;
        self.parts.push_back(Part { id, peer: matched.peer, ended: None });
        id
    }

    /// Hands a message that was kept to the receive that it was matched with.
    fn give(&mut self, id: u32, Taken { message, former }: Taken) {
        let peer = message.peer;
        match message.body {
            Body::Whole(bytes) => {
                self.put(id, 0, bytes[..].into());
                if former {
                    let left = self.matching.kept.former(peer);
                    self.pool.set_former(left + cost(bytes.len()), left);
                } else {
                    self.took(peer, bytes.len());
                }
                self.complete(id, Ok(()));
            }
            Body::Arriving => {
                let arriving = self.peer(peer).arriving.as_mut().expect("it is arriving");
                let Into::Own(bytes) = std::mem::replace(&mut arriving.into, Into::Receive(id))
                else {
                    unreachable!("nobody has wanted it until now")
                };
                self.put(id, 0, bytes[..].into());
            }
            Body::Offered(offer) => self.pull(id, offer),
        }
    }

    /// The first message that a receive would get at once: its sender, what it bears, and its
    /// bytes.
    pub fn peek(&self, selector: &Selector) -> Option<(PeerId, Label, usize)> {
        let found = self.matching.kept.peek(selector)?;
        Some((found.peer, found.label, found.total as usize))
    }

    /// Writes the memory into one that the peer has registered, beginning at `offset`. Completed once
    /// the bytes are there; then, if `notice` is given, the peer gets a [`Notice`] with it.
    pub fn write(
        &mut self,
        peer: PeerId,
        key: RegionKey,
        offset: u64,
        memory: M,
        notice: Option<u64>,
    ) -> Start<M> {
        if memory.len() > LONGEST {
            return Err(TooLong(memory));
        }
        let write = Operation::Write { peer, memory, key: key.0, offset, at: 0, notice };
        self.begin(peer, write).map_err(handed_back)
    }

    /// Fills the memory from one that the peer has registered, beginning at `offset` there.
    pub fn read(&mut self, peer: PeerId, key: RegionKey, offset: u64, memory: M) -> Start<M> {
        if memory.len() > LONGEST {
            return Err(TooLong(memory));
        }
        let (len, memory) = (memory.len() as u32, Some(memory));
        let read = Operation::Read { peer, memory, len, key: key.0, offset, got: 0 };
        self.begin(peer, read).map_err(handed_back)
    }

    /// Changes numbers in a memory that the peer has registered, from `offset` on; nothing comes between reading and
    /// writing each. The memory has the operands, all first ones before all second ones, and in the end, if the
    /// change fetches, at its beginning what was there before.
    ///
    /// # Panics
    /// If the memory is not as long as the operands are, or as what a change without operands concerns.
    pub fn atomic(
        &mut self,
        peer: PeerId,
        key: RegionKey,
        offset: u64,
        change: Change,
        memory: M,
    ) -> Start<M> {
        assert_eq!(memory.len(), change.operands_len().max(change.len()), "as the change says");
        let memory = Some(memory);
        let atomic = Operation::Atomic { peer, memory, key: key.0, offset, change };
        self.begin(peer, atomic).map_err(handed_back)
    }

    /// Cancels a receive that no message was matched with, or a message of which nothing was sent; a receive of
    /// several messages takes no further ones. False if it is too late; either way the operation's completion
    /// comes.
    pub fn cancel(&mut self, OpId(id): OpId) -> bool {
        match self.operations.get_mut(id) {
            Some(Operation::Receive(Receive { matched: None, .. })) => self.matching.withdraw(id),
            Some(Operation::Several(several)) if several.state == Taking::Open => {
                several.state = Taking::Cancelled;
                let arriving = several.arriving;
                self.matching.withdraw(id);
                if arriving > 0 {
                    return true;
                }
            }
            Some(&mut Operation::Send(Send { peer, state: Sending::Queued, .. })) => {
                self.peer(peer).starting.retain(|&queued| queued != id);
            }
            _ => return false,
        }
        self.complete(id, Err(OpError::Cancelled));
        true
    }

    /// Cancels all operations that write to memory of the program, however far they are: receives, reads and
    /// atomic changes. Nothing is written there any more; what still comes for them is dropped.
    pub fn cancel_incoming(&mut self) {
        for part in std::mem::take(&mut self.parts) {
            if let Some(ended) = part.ended {
                self.complete_part(ended);
            }
        }
        let mut all: Vec<u32> = self.operations.iter().map(|(id, _)| id).collect();
        all.sort_unstable();
        for id in all {
            let given_up = match self.operations.get_mut(id) {
                Some(Operation::Receive(Receive { place, matched: Some(_), .. })) => {
                    match std::mem::replace(place, Place::Dropped) {
                        Place::Own(memory) => memory,
                        // What it is a part of is told of.
                        Place::Part { .. } | Place::Dropped => continue,
                    }
                }
                Some(Operation::Read { memory, .. }) => match memory.take() {
                    Some(memory) => memory,
                    None => continue,
                },
                Some(Operation::Atomic { memory, change, .. }) if change.fetches() => {
                    match memory.take() {
                        Some(memory) => memory,
                        None => continue,
                    }
                }
                Some(Operation::Receive(_) | Operation::Several(_)) => {
                    self.matching.withdraw(id);
                    self.complete(id, Err(OpError::Cancelled));
                    continue;
                }
                _ => continue,
            };
            let ended = Completion::of(OpId(id), None, Err(OpError::Cancelled));
            self.completions.push_back(Completion { memory: Some(given_up), ..ended });
        }
    }

    /// Lets others use a memory. Hands it back if there are too many.
    pub fn register(&mut self, memory: M, rights: Rights) -> Result<RegionKey, TooLong<M>> {
        self.regions.register(memory, rights).map_err(TooLong)
    }

    /// The same under a key of the program's choice, which any peer may guess. Hands the memory back,
    /// too, if the key is that of another.
    pub fn register_as(
        &mut self,
        key: RegionKey,
        memory: M,
        rights: Rights,
    ) -> Result<(), TooLong<M>> {
        self.regions.register_as(key, memory, rights).map_err(TooLong)
    }

    /// Takes a memory back, at once: what others do with it from now on is refused, and what is
    /// going on stops. `None` if it is not registered.
    pub fn deregister(&mut self, key: RegionKey) -> Option<M> {
        self.regions.deregister(key)
    }

    /// A registered memory.
    pub fn region(&self, key: RegionKey) -> Option<&M> {
        self.regions.memory(key)
    }

    /// A registered memory, to be changed.
    pub fn region_mut(&mut self, key: RegionKey) -> Option<&mut M> {
        self.regions.memory_mut(key)
    }

    /// How many writes of others into a registered memory were completed.
    pub fn writes(&self, key: RegionKey) -> Option<u64> {
        self.regions.writes(key)
    }

    /// How often others have used registered memories since the beginning.
    pub fn accesses(&self) -> Accesses {
        self.regions.accesses
    }

    /// The next operation that has ended.
    pub fn poll_completion(&mut self) -> Option<Completion<M>> {
        let completion = self.completions.pop_front();
        if !self.stalled.is_empty() && self.completions.len() <= MOST_COMPLETIONS / 2 {
            for id in std::mem::take(&mut self.stalled) {
                self.take_kept(id);
            }
        }
        completion
    }

    /// Whether [`poll_completion`](Self::poll_completion) or [`poll_notice`](Self::poll_notice) would
    /// return one.
    pub fn has_completions(&self) -> bool {
        !self.completions.is_empty() || !self.notices.is_empty()
    }

    /// The next notice of a write.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop()
    }

    /// A session has ended: whatever was going on with the peer fails, except that messages which
    /// have arrived whole can still be received. Receives that were not matched stay.
    pub fn ended(&mut self, peer: PeerId, epoch: Epoch, reason: Reason) {
        let current = match self.peers.get(peer.0 as usize) {
            None | Some(Entry::Unknown) => return,
            Some(Entry::Idle(rest)) => rest.epoch,
            Some(Entry::Busy(state)) => state.epoch,
        };
        if current.is_none_or(|e| e == epoch) {
            self.lose(peer, reason);
            self.settle(peer);
        }
    }

    /// Everything with a peer fails.
    pub(crate) fn lose(&mut self, peer: PeerId, reason: Reason) {
        let state = self.peer(peer);
        let injected = state.going.iter().filter(|(_, id)| id.is_none()).count();
        let promised = state.writing.is_some_and(|(w, found)| w.notice.is_some() && found.is_ok());
        let engaged = state.engaged;
        let granted = std::mem::replace(state, Peer { engaged, ..Peer::new() }).granted;
        granted.end(&mut self.pool);
        if promised {
            self.notices.release(peer);
        }
        // Nothing is left to be sent to it: it would be proposed sessions for ever.
        self.ready.retain(|&ready| ready != peer);
        self.keep_former(peer);
        if engaged > 0 || cfg!(debug_assertions) {
            self.lose_operations(peer, engaged, reason);
        }
        self.completions.extend((0..injected).map(|_| Completion::injected(peer, reason)));
    }

    /// Completes the operations with a peer. Looks at all: who begins and ends sessions without an end must not cause
    /// that, so it is called only where there are some.
    #[cold]
    fn lose_operations(&mut self, peer: PeerId, engaged: u32, reason: Reason) {
        let of_peer = self.operations.iter().filter(|(_, o)| o.peer() == Some(peer));
        let mut lost: Vec<u32> = of_peer.map(|(id, _)| id).collect();
        debug_assert_eq!(lost.len(), engaged as usize, "operations with a peer are counted");
        lost.sort_unstable();
        for id in lost {
            self.complete(id, Err(OpError::Lost(reason)));
        }
    }

    /// A session with a peer is over. What arrived whole waits for a receive, as far as there is room
    /// for what former sessions have left.
    fn keep_former(&mut self, peer: PeerId) {
        let before = self.matching.kept.former(peer);
        self.matching.kept.end_session(peer);
        loop {
            let former = self.matching.kept.former(peer);
            if former <= MOST_BYTES && self.pool.set_former(before, former) {
                break;
            }
            self.matching.kept.drop_oldest(peer);
            self.counters.dropped += 1;
        }
    }

    /// An operation is over.
    pub(crate) fn complete(&mut self, id: u32, result: Result<(), OpError>) {
        let Some(over) = self.operations.remove(id) else { return };
        if let Some(peer) = over.peer() {
            *self.engaged_with(peer) -= 1;
        }
        let Some(completion) = over.complete(id, result) else { return };
        if completion.id == OpId(id) {
            return self.completions.push_back(completion);
        }
        // A message of a receive of several: those that its sender sent before are told of before.
        let peer = completion.peer;
        if let Some(part) = self.parts.iter_mut().find(|part| part.id == id) {
            part.ended = Some(completion);
        }
        while let Some(at) = self.parts.iter().position(|part| Some(part.peer) == peer) {
            if self.parts[at].ended.is_none() {
                return;
            }
            if let Some(ended) = self.parts.remove(at).and_then(|part| part.ended) {
                self.complete_part(ended);
            }
        }
    }

    /// A message of a receive of several is there. With the last one, the receive is over.
    fn complete_part(&mut self, mut completion: Completion<M>) {
        let OpId(of) = completion.id;
        let Some(Operation::Several(several)) = self.operations.get_mut(of) else { return };
        several.arriving -= 1;
        let is_last = several.arriving == 0;
        match several.state {
            Taking::Full if is_last => {
                if let Some(Operation::Several(several)) = self.operations.remove(of) {
                    completion.memory = Some(several.memory);
                }
                self.completions.push_back(completion);
            }
            Taking::Cancelled if is_last => {
                self.completions.push_back(completion);
                self.complete(of, Err(OpError::Cancelled));
            }
            _ => self.completions.push_back(completion),
        }
    }

    /// Bytes of a message arrive for a receive; what does not fit is dropped.
    pub(crate) fn put(&mut self, id: u32, at: usize, mut data: Pieces) {
        let Some(Operation::Receive(receive)) = self.operations.get_mut(id) else { return };
        if let Some(matched) = &mut receive.matched {
            matched.got += data.len() as u32;
        }
        let room = (receive.room as usize).saturating_sub(at).min(data.len());
        let Some(fitting) = data.split(room).filter(|fitting| !fitting.is_empty()) else { return };
        match &mut receive.place {
            Place::Own(memory) => memory.write_pieces(at, fitting),
            &mut Place::Part { of, at: first } => {
                if let Some(Operation::Several(several)) = self.operations.get_mut(of) {
                    several.memory.write_pieces(first as usize + at, fitting);
                }
            }
            Place::Dropped => {}
        }
    }

    /// An unasked message was taken by a receive.
    pub(crate) fn took(&mut self, peer: PeerId, len: usize) {
        if self.peer(peer).took(len) {
            self.wake(peer);
        }
    }

    /// Asks for an offered message that was matched with a receive.
    pub(crate) fn pull(&mut self, id: u32, offer: u32) {
        let Some(Operation::Receive(Receive { room, matched: Some(m), .. })) =
            self.operations.get_mut(id)
        else {
            return;
        };
        m.pulled = true;
        let (peer, len) = (m.peer, m.total.min(*room));
        let state = self.peer(peer);
        state.offers -= 1;
        state.answers.push_back(Answer::Plain(Op::Pull { id, offer, len }));
        self.wake(peer);
    }
}

fn handed_back<M>(operation: Operation<M>) -> TooLong<M> {
    match operation {
        Operation::Write { memory, .. }
        | Operation::Read { memory: Some(memory), .. }
        | Operation::Atomic { memory: Some(memory), .. } => TooLong(memory),
        _ => unreachable!("handed back as it was given"),
    }
}
