//! The state of one endpoint's operations, and the program's side of it.

use crate::matching::{Body, Matching, Selector};
use crate::memory::{Accesses, Memory, RegionKey, Regions, Rights};
use crate::operation::{
    Completion, Matched, Notice, OpError, OpId, Operation, Receive, Send, Sending,
};
use crate::peer::{Entry, Into, Peer};
use crate::table::Table;
use gigae_proto::{PeerId, Reason};
use gigae_wire::op::{Change, Label, Op};
use gigae_wire::{Epoch, Pieces};
use std::collections::VecDeque;
use std::fmt;

/// Longest message or remote access in bytes.
const LONGEST: usize = 1 << 30;

/// What may be sent unasked to an endpoint by one that knows nothing of it yet, in bytes
/// (`PROTOCOL.md` 9.3). Both ends count from it, so it is part of the protocol.
pub(crate) const ALLOWANCE: u32 = 64 << 10;

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
    /// Notices that may wait to be taken; further writes that bear one are refused. Default 4,096.
    pub most_notices: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { offer_above: ALLOWANCE as usize / 2, most_notices: 4096 }
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
    /// Reads, writes and atomic changes of others that were refused.
    pub refused: u64,
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
    pub(crate) completions: VecDeque<Completion<M>>,
    pub(crate) notices: VecDeque<Notice>,
    pub(crate) counters: Counters,
}

impl<M: Memory> Transfer<M> {
    /// No operation is going on. `seed` should be random: the keys of registered memories come
    /// from it.
    pub fn new(config: Config, seed: u64) -> Self {
        Self {
            config,
            peers: Vec::new(),
            busy: 0,
            spare: Vec::new(),
            ready: VecDeque::new(),
            operations: Table::new(),
            matching: Matching::default(),
            regions: Regions::new(seed),
            completions: VecDeque::new(),
            notices: VecDeque::new(),
            counters: Counters::default(),
        }
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
        self.matching.unexpected()
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
            _ => Peer::new(ALLOWANCE).rest(),
        };
        self.busy += 1;
        let mut peer = self.spare.pop().unwrap_or_else(|| Box::new(Peer::new(ALLOWANCE)));
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
        let unknown = rest == Peer::new(ALLOWANCE).rest();
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
        self.peer(peer).starting.push_back(id);
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
        let Some(message) = self.matching.message_for(&selector) else {
            let receive = Receive { memory, matched: None };
            let Ok(id) = self.operations.insert(Operation::Receive(receive)) else {
                unreachable!("there is room")
            };
            self.matching.post(id, selector);
            return Ok(OpId(id));
        };
        let (peer, total) = (message.peer, message.total);
        let matched = Matched { peer, label: message.label, total, got: 0, pulled: false };
        let receive = Receive { memory, matched: Some(matched) };
        let Ok(id) = self.operations.insert(Operation::Receive(receive)) else {
            unreachable!("there is room")
        };
        match message.body {
            Body::Whole(bytes) => {
                self.put(id, 0, bytes[..].into());
                if self.peer(peer).epoch == message.epoch {
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
        Ok(OpId(id))
    }

    /// The first message that a receive would get at once: its sender, what it bears, and its
    /// bytes.
    pub fn peek(&self, selector: &Selector) -> Option<(PeerId, Label, usize)> {
        self.matching.peek(selector)
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
        let read = Operation::Read { peer, memory, key: key.0, offset, got: 0 };
        self.begin(peer, read).map_err(handed_back)
    }

    /// Changes eight aligned bytes, a little-endian number, of a memory that the peer has registered; nothing
    /// comes between reading and writing them. `None` if too many operations are going on.
    pub fn atomic(
        &mut self,
        peer: PeerId,
        key: RegionKey,
        offset: u64,
        change: Change,
    ) -> Option<OpId> {
        self.begin(peer, Operation::Atomic { peer, key: key.0, offset, change }).ok()
    }

    /// Cancels a receive that no message was matched with, or a message of which nothing was sent.
    /// False if it is too late; either way the operation's completion comes.
    pub fn cancel(&mut self, OpId(id): OpId) -> bool {
        match self.operations.get(id) {
            Some(Operation::Receive(Receive { matched: None, .. })) => self.matching.withdraw(id),
            Some(&Operation::Send(Send { peer, state: Sending::Queued, .. })) => {
                self.peer(peer).starting.retain(|&queued| queued != id);
            }
            _ => return false,
        }
        self.complete(id, Err(OpError::Cancelled));
        true
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
        self.completions.pop_front()
    }

    /// Whether [`poll_completion`](Self::poll_completion) or [`poll_notice`](Self::poll_notice) would
    /// return one.
    pub fn has_completions(&self) -> bool {
        !self.completions.is_empty() || !self.notices.is_empty()
    }

    /// The next notice of a write.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
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
        *state = Peer::new(ALLOWANCE);
        // Nothing is left to be sent to it: it would be proposed sessions for ever.
        self.ready.retain(|&ready| ready != peer);
        self.matching.forget(peer);
        let mut lost: Vec<u32> = self
            .operations
            .iter()
            .filter(|(_, operation)| operation.peer() == Some(peer))
            .map(|(id, _)| id)
            .collect();
        lost.sort_unstable();
        for id in lost {
            self.complete(id, Err(OpError::Lost(reason)));
        }
        self.completions.extend((0..injected).map(|_| Completion::injected(peer, reason)));
    }

    /// An operation is over.
    pub(crate) fn complete(&mut self, id: u32, result: Result<(), OpError>) {
        if let Some(operation) = self.operations.remove(id) {
            self.completions.push_back(operation.complete(id, result));
        }
    }

    /// Bytes of a message arrive for a receive; what does not fit is dropped.
    pub(crate) fn put(&mut self, id: u32, at: usize, mut data: Pieces) {
        let Some(Operation::Receive(receive)) = self.operations.get_mut(id) else { return };
        if let Some(matched) = &mut receive.matched {
            matched.got += data.len() as u32;
        }
        let room = receive.memory.len().saturating_sub(at).min(data.len());
        if let Some(fitting) = data.split(room).filter(|fitting| !fitting.is_empty()) {
            receive.memory.write_pieces(at, fitting);
        }
    }

    /// An unasked message was taken by a receive.
    pub(crate) fn took(&mut self, peer: PeerId, len: usize) {
        if self.peer(peer).took(len, ALLOWANCE) {
            self.wake(peer);
        }
    }

    /// Asks for an offered message that was matched with a receive.
    pub(crate) fn pull(&mut self, id: u32, offer: u32) {
        let Some(Operation::Receive(Receive { memory, matched: Some(m), .. })) =
            self.operations.get_mut(id)
        else {
            return;
        };
        m.pulled = true;
        let (peer, len) = (m.peer, m.total.min(memory.len() as u32));
        let state = self.peer(peer);
        state.offers -= 1;
        state.answers.push_back(Op::Pull { id, offer, len });
        self.wake(peer);
    }
}

fn handed_back<M>(operation: Operation<M>) -> TooLong<M> {
    match operation {
        Operation::Write { memory, .. } | Operation::Read { memory, .. } => TooLong(memory),
        _ => unreachable!("handed back as it was given"),
    }
}
