//! The state of one endpoint's operations, and the program's side of it.

mod completing;
mod direct;
mod expecting;
mod fetching;
mod peers;
mod receiving;
mod starting;
mod written;

use crate::guesses::GuessLimiter;
use crate::matching::Matching;
use crate::memory::{Accesses, Bytes, RegionKey, Regions, Rights};
use crate::notices::Notices;
use crate::operation::{OpId, Operation, TransferCompletion};
use crate::parts::Parts;
use crate::peer::{ActivePeer, PeerEntry};
use crate::pool::{LONGEST_UNASKED, Pool};
use crate::slot_table::SlotTable;
use gigae_proto::{Instant, PeerId};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

pub use expecting::{Expected, PlacedPayload};
pub(crate) use written::Written;

/// Longest message or remote access in bytes.
pub(crate) const LONGEST: usize = 1 << 30;

/// Completions that wait, or these and the messages of receives of several behind an earlier one,
/// from which on such receives take no more. Empty messages would otherwise fill the lists without
/// filling the memory. While peers wait for their turn, it is half of that for all others.
const MOST_COMPLETIONS: usize = 16_384;

/// Messages behind an earlier one that each sender may have even if others use up the common room:
/// one that never sends the earlier one holds back only itself.
const OWN_PARTS: usize = 16;

/// Tagged or untagged messages of a peer, which wait until receives of several take more. No
/// receive takes both, so each kind goes on without the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stalled {
    pub(crate) peer: PeerId,
    pub(crate) untagged: bool,
}

/// Parameters.
#[derive(Clone, Debug)]
pub struct TransferConfig {
    /// Messages longer than this are offered and pulled instead of sent unasked. At most, and by
    /// default, 65,536 bytes.
    pub offer_above: usize,
    /// Most notices that wait for the program, including writes in progress that will bring one.
    /// Beyond a sixteenth of it, a write is answered when the program takes its notice, so writers
    /// wait. Beyond all of it, it is refused. Each peer may have 1/1,024 of it beyond that. Default
    /// 65,536.
    pub most_notices: usize,
    /// Bytes that all peers together may be granted beyond their first shares. Default 64 MiB.
    pub most_granted: usize,
    /// A frame has either bytes that the peer has asked for, or anything else. So the caller can
    /// let [others overtake the former](Transfer::is_loose). Default false.
    pub separates: bool,
    /// The caller [fetches](Transfer::fetch) messages that are offered with an address, before it
    /// [fills](Transfer::fill) a frame for their sender. Otherwise they are asked for. Default
    /// false.
    pub fetches: bool,
}

impl Default for TransferConfig {
    fn default() -> Self {
        let (most_notices, most_granted) = (65_536, 64 << 20);
        Self {
            offer_above: LONGEST_UNASKED,
            most_notices,
            most_granted,
            separates: false,
            fetches: false,
        }
    }
}

/// Counts since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferCounters {
    /// Messages sent unasked.
    pub unasked: u64,
    /// Messages offered.
    pub offered: u64,
    /// Messages that another process of this node has read in this one's memory.
    pub lent: u64,
    /// Messages that were read in the memory of another process of this node.
    pub fetched: u64,
    /// Reads and writes of other endpoints' memory that took one copy and no frame.
    pub direct: u64,
    /// Messages that arrived before a matching receive.
    pub unexpected: u64,
    /// Of these, messages of former sessions that were dropped because no receive took them and
    /// there was no room.
    pub dropped: u64,
    /// Reads, writes and atomic changes of other endpoints that were refused.
    pub refused: u64,
    /// Of these, those with a wrong key.
    pub wrong_keys: u64,
    /// Frames whose data were received where they belong.
    pub placed: u64,
    /// Frames whose data were placed where others were expected, and so copied twice.
    pub misplaced: u64,
    /// Operations of other endpoints that no sender of this protocol starts. Zero unless there is a
    /// bug or an attack.
    pub invalid: u64,
}

/// What is kept for peers at the moment, for comparison with what the configuration allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferUsage {
    /// Bytes that peers are granted beyond their first shares.
    pub granted: usize,
    /// Messages and offers that no receive has matched.
    pub unexpected: usize,
    /// Completions that the program has not taken.
    pub completions: usize,
    /// Notices that the program has not taken.
    pub notices: usize,
    /// Peers with a debt for wrong keys.
    pub debtors: usize,
}

/// The memory is too long for one operation, or there are too many operations or regions. The
/// memory comes back.
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

/// The result of starting an operation.
pub type Start<M> = Result<OpId, TooLong<M>>;

/// All operations of one endpoint. The crate's description says what kinds there are.
///
/// The caller calls the methods in this order:
///
/// 1. [`new`](Transfer::new), once.
/// 2. [`advance`](Transfer::advance), whenever the protocol gets the time.
/// 3. What the program asks for: [`register`](Transfer::register) for a memory,
///    [`receive`](Transfer::receive) for a message, and [`send`](Transfer::send),
///    [`write`](Transfer::write), [`read`](Transfer::read) or [`atomic`](Transfer::atomic), which
///    start an operation.
/// 4. For each peer that [`poll_ready`](Transfer::poll_ready) returns:
///    [`fill`](Transfer::fill), once or several times for one frame, and then
///    [`framed`](Transfer::framed). If no frame can go to it now:
///    [`postpone`](Transfer::postpone).
/// 5. [`acknowledged`](Transfer::acknowledged) for each of these frames that the peer has
///    acknowledged, in their order.
/// 6. [`handle`](Transfer::handle) for each frame with operations that has arrived, in the order of
///    its session.
/// 7. [`ended`](Transfer::ended) for each session that has ended, after all that it acknowledged
///    and brought.
/// 8. [`poll_completion`](Transfer::poll_completion) and [`poll_notice`](Transfer::poll_notice),
///    each until it has nothing more.
///
/// Steps 2 to 8 come again and again.
#[derive(Debug)]
pub struct Transfer<M> {
    pub(crate) config: TransferConfig,
    pub(crate) peers: Vec<PeerEntry>,
    /// How many peers have operations, and spare memory for more.
    busy: usize,
    #[expect(clippy::vec_box, reason = "the boxes move between here and the peers")]
    spare: Vec<Box<ActivePeer>>,
    pub(crate) ready: VecDeque<PeerId>,
    /// See [`put_shortest_first`](Self::put_shortest_first).
    pub(crate) shortest_first: bool,
    /// Frames for which the shortest message was looked for.
    pub(crate) compared: u32,
    pub(crate) operations: SlotTable<Operation<M>>,
    pub(crate) matching: Matching,
    pub(crate) regions: Regions<M>,
    pub(crate) guesses: GuessLimiter,
    pub(crate) now: Instant,
    pub(crate) completions: VecDeque<TransferCompletion<M>>,
    /// Peers with messages that wait until receives of several take more, and whether they have a
    /// place among the `turns`.
    pub(crate) stalled: BTreeMap<Stalled, bool>,
    /// Those of them that go on when there is room, one after the other.
    turns: VecDeque<Stalled>,
    /// See [`hold_back`](Self::hold_back).
    pub(crate) held: bool,
    /// Messages of receives of several that were not reported yet.
    parts: Parts<M>,
    pub(crate) notices: Notices,
    pub(crate) pool: Pool,
    pub(crate) counters: TransferCounters,
    /// What was written since the last call of [`framed`](Self::framed), if anything.
    pub(crate) written: Option<Written>,
    /// See [`take_asked`](Self::take_asked).
    pub(crate) asked: usize,
    /// See [`started`](Self::started).
    pub(crate) started: u64,
    /// Operations whose data peers were asked for, in that order: receives that pull, and reads.
    /// Some may be [over](Self::expect_no_more).
    pub(crate) expecting: VecDeque<u32>,
    /// The one of them whose data came last, if it lacks some.
    pub(crate) coming: Option<u32>,
}

/// # Making one, and what is going on
impl<M: Bytes> Transfer<M> {
    /// An endpoint without operations. `keys` gives the key of each memory that is registered. Some
    /// of its numbers must not reveal the others, as with the random numbers of the operating
    /// system.
    pub fn new(
        config: TransferConfig,
        keys: impl FnMut() -> u64 + std::marker::Send + 'static,
    ) -> Self {
        Self {
            notices: Notices::new(config.most_notices),
            pool: Pool::new(config.most_granted),
            config,
            peers: Vec::new(),
            busy: 0,
            spare: Vec::new(),
            ready: VecDeque::new(),
            shortest_first: false,
            compared: 0,
            operations: SlotTable::default(),
            matching: Matching::default(),
            regions: Regions::new(keys),
            guesses: GuessLimiter::default(),
            now: Instant(0),
            completions: VecDeque::new(),
            stalled: BTreeMap::new(),
            turns: VecDeque::new(),
            held: false,
            parts: Parts::default(),
            counters: TransferCounters::default(),
            written: None,
            asked: 0,
            started: 0,
            expecting: VecDeque::new(),
            coming: None,
        }
    }

    /// Takes the time. It matters only to peers that have named wrong keys.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        self.now = now;
    }

    /// The counters.
    pub fn counters(&self) -> &TransferCounters {
        &self.counters
    }

    /// What is kept for peers.
    pub fn usage(&self) -> TransferUsage {
        TransferUsage {
            granted: self.pool.granted(),
            unexpected: self.matching.unexpected.len(),
            completions: self.completions.len() + self.parts.len(),
            notices: self.notices.len(),
            debtors: self.guesses.len(),
        }
    }

    /// Operations that the program has started so far, other than receives.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Operations that are not completed.
    pub fn outstanding(&self) -> usize {
        self.operations.len()
    }

    /// Bytes that peers were asked for since the last call: reads, and messages that they offered.
    #[inline]
    pub fn take_asked(&mut self) -> usize {
        std::mem::take(&mut self.asked)
    }

    /// Whether either side still has something to send or to answer. Receives, and messages that no
    /// receive took, do not count.
    pub fn is_owed(&self) -> bool {
        let is_owed = |entry: &PeerEntry| matches!(entry, PeerEntry::Busy(peer) if peer.is_owed());
        self.busy > 0 && self.peers.iter().any(is_owed)
    }

    /// Messages that arrived or were offered before a matching receive.
    pub fn unexpected(&self) -> usize {
        self.matching.unexpected.len()
    }
}

/// # Registered memory
impl<M: Bytes> Transfer<M> {
    /// Lets other endpoints use a memory. Hands it back if there are too many.
    pub fn register(&mut self, memory: M, rights: Rights) -> Result<RegionKey, TooLong<M>> {
        self.regions.register(memory, rights).map_err(TooLong)
    }

    /// The same under a key of the program's choice, which any peer may guess. Also hands the
    /// memory back if the key is in use.
    pub fn register_as(
        &mut self,
        key: RegionKey,
        memory: M,
        rights: Rights,
    ) -> Result<(), TooLong<M>> {
        self.regions.register_as(key, memory, rights).map_err(TooLong)
    }

    /// Takes a memory back at once. Later operations of other endpoints on it are refused, and
    /// those in progress stop. `None` if it is not registered.
    pub fn deregister(&mut self, key: RegionKey) -> Option<M> {
        self.regions.deregister(key)
    }

    /// A registered memory.
    pub fn region(&self, key: RegionKey) -> Option<&M> {
        self.regions.memory(key)
    }

    /// A registered memory, mutable.
    pub fn region_mut(&mut self, key: RegionKey) -> Option<&mut M> {
        self.regions.memory_mut(key)
    }

    /// Completed writes of other endpoints into a registered memory.
    pub fn writes(&self, key: RegionKey) -> Option<u64> {
        self.regions.writes(key)
    }

    /// How often other endpoints have used registered memories since the beginning.
    pub fn accesses(&self) -> Accesses {
        self.regions.accesses
    }
}
