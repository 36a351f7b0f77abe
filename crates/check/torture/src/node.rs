//! The program at one node: it sends, receives and starts operations at random, and reports to the
//! checkers.

mod operate;

use crate::body::{self, NAMED};
use crate::figures::Figures;
use crate::memory::{Access, Regions, Swap};
use crate::messages::Messages;
use crate::notices::Notices;
use crate::pair::NodePair;
use crate::scenario::{Scenario, percent, steep};
use crate::tagged::{Post, TaggedMessages};
use crate::trace::{Event, Trace};
use crate::violation::{CheckResult, Class, Violation};
use gigae::{
    Address, Endpoint, OpId, OwnedMessage, Peer, RecvError, RegionKey, SendError, TrySendError,
};
use oorandom::Rand64;
use std::collections::{BTreeMap, HashMap, HashSet};

/// All that watches.
pub(crate) struct Checkers {
    pub(crate) messages: Messages,
    pub(crate) tagged: TaggedMessages,
    pub(crate) notices: Notices,
    pub(crate) regions: Regions,
    pub(crate) trace: Trace,
    pub(crate) figures: Figures,
}

/// What a node may know of another: where it is and its memory's key, of its present or a former
/// life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownPeer {
    pub(crate) address: Address,
    pub(crate) life: u16,
    pub(crate) key: RegionKey,
}

/// An operation that is going on.
#[derive(Clone, Copy, Debug)]
enum Pending {
    Send(body::Id),
    Receive(Post),
    Write(Access),
    Read(Access),
    Add(Access, u16, u64),
    Swap(Access, Swap),
}

/// A message that the program keeps, and what it said when it came.
struct KeptMessage {
    message: OwnedMessage,
    from: Peer,
    body: Box<[u8]>,
}

/// One life of a node.
pub(crate) struct Node {
    pub(crate) me: u16,
    pub(crate) endpoint: Endpoint,
    pub(crate) key: RegionKey,
    peers: BTreeMap<u16, [Peer; 2]>,
    names: HashMap<Peer, u16>,
    /// Memory keys as they were learnt, perhaps of a former life.
    keys: BTreeMap<u16, (u16, RegionKey)>,
    pending: HashMap<OpId, Pending>,
    posted: usize,
    posts: u32,
    /// What was last seen in the words that are swapped, by owner and word.
    seen: BTreeMap<(u16, u16), u64>,
    /// Sends and receives in the order in which they were started; many are over.
    recent: Vec<OpId>,
    /// Operations that were cancelled in time.
    cancelled: HashSet<OpId>,
    /// Receives are over.
    withdrawn: bool,
    /// Messages that the program has not given back yet.
    kept: Vec<KeptMessage>,
    /// The next message to these must name itself: the checker has no other way to know it.
    unnamed: BTreeMap<u16, u32>,
    scratch: Vec<u8>,
}

/// Where and when something happens, and by which chance.
pub(crate) struct Context<'a> {
    pub(crate) now: u64,
    pub(crate) scenario: &'a Scenario,
    pub(crate) others: &'a [KnownPeer],
    pub(crate) random: &'a mut Rand64,
    pub(crate) checkers: &'a mut Checkers,
    /// Whether programs still keep messages: not in the end.
    pub(crate) keeps: bool,
}

impl Context<'_> {
    fn note(&mut self, what: &'static str, pair: NodePair, number: u64, len: usize) {
        self.checkers.trace.note(Event { at: self.now, what, pair, number, len });
    }
}

fn broken(me: u16, what: impl std::fmt::Display) -> Violation {
    Violation::new(Class::Broken, NodePair::of_one(me), what.to_string())
}

impl Node {
    pub(crate) fn new(me: u16, endpoint: Endpoint, key: RegionKey) -> Self {
        Self {
            me,
            endpoint,
            key,
            peers: BTreeMap::new(),
            names: HashMap::new(),
            keys: BTreeMap::new(),
            pending: HashMap::new(),
            posted: 0,
            posts: 0,
            seen: BTreeMap::new(),
            recent: Vec::new(),
            cancelled: HashSet::new(),
            withdrawn: false,
            kept: Vec::new(),
            unnamed: BTreeMap::new(),
            scratch: Vec::new(),
        }
    }

    /// Another node, as this one's endpoint knows it: for messages, and for operations.
    fn peer(&mut self, to: u16, context: &Context<'_>) -> CheckResult<[Peer; 2]> {
        if let Some(&peers) = self.peers.get(&to) {
            return Ok(peers);
        }
        let peer = |channel| {
            let address = context.others[usize::from(to)].address.channel(channel);
            self.endpoint.peer(address).map_err(|e| broken(self.me, e))
        };
        let peers = [peer(0)?, peer(u8::from(context.scenario.own_channel))?];
        self.peers.insert(to, peers);
        self.names.extend(peers.map(|peer| (peer, to)));
        Ok(peers)
    }

    /// Which node a peer is.
    fn name(&mut self, peer: Peer, context: &Context<'_>) -> CheckResult<u16> {
        if let Some(&node) = self.names.get(&peer) {
            return Ok(node);
        }
        let address = self.endpoint.address(peer);
        let is = |other: &KnownPeer| {
            address == other.address.channel(0) || address == other.address.channel(1)
        };
        let found = context.others.iter().position(is);
        let node =
            found.ok_or_else(|| broken(self.me, format!("{address} is not a node's")))? as u16;
        self.names.insert(peer, node);
        Ok(node)
    }

    /// Takes in what has arrived; up to `most` messages are received. Returns whether there was
    /// anything.
    pub(crate) fn take_in(&mut self, most: usize, context: &mut Context<'_>) -> CheckResult<bool> {
        let mut any = false;
        self.endpoint.progress().map_err(|e| broken(self.me, e))?;
        let mut got = 0;
        while got < most {
            let from = match self.endpoint.try_recv() {
                Ok(Some(message)) => {
                    self.scratch.clear();
                    self.scratch.extend_from_slice(&message);
                    let from = message.from();
                    let Scenario { keep, keep_most, .. } = *context.scenario;
                    let may = context.keeps && self.kept.len() < keep_most;
                    if may && percent(context.random, keep) {
                        let body = self.scratch[..].into();
                        self.kept.push(KeptMessage { message: message.keep(), from, body });
                    }
                    Ok(from)
                }
                Ok(None) => break,
                Err(e) => Err(e),
            };
            match from {
                Ok(from) => self.received(from, context)?,
                Err(RecvError::Failed) => self.take_failures(context)?,
                Err(e) => return Err(broken(self.me, e)),
            }
            got += 1;
        }
        any |= got > 0;
        if most == 0 {
            self.take_failures(context)?;
        }
        loop {
            let completion = self.endpoint.try_completion().map_err(|e| broken(self.me, e))?;
            let Some(completion) = completion else { break };
            self.completed(completion, context)?;
            any = true;
        }
        Ok(any)
    }

    /// A message was received into `scratch`.
    fn received(&mut self, from: Peer, context: &mut Context<'_>) -> CheckResult {
        let (from, to) = (self.name(from, context)?, self.me);
        let body = &self.scratch;
        let number = body::name(body).map_or(u64::MAX, |id| id.number.into());
        context.note("received", NodePair { from, to }, number, body.len());
        context.checkers.figures.bytes += body.len() as u64;
        context.checkers.figures.delivered += 1;
        context.checkers.messages.received(from, to, body, context.now)
    }

    /// Gives some of the messages back that it keeps, in any order: each must be as it came.
    pub(crate) fn let_go(&mut self, most: usize, context: &mut Context<'_>) -> CheckResult {
        for _ in 0..most.min(self.kept.len()) {
            let which = context.random.rand_range(0..self.kept.len() as u64) as usize;
            let KeptMessage { message, from, body } = self.kept.swap_remove(which);
            let message = self.endpoint.kept(message);
            if message.from() != from || message[..] != body[..] {
                let what = format!("a message of {} bytes changed while it was kept", body.len());
                return Err(Violation::new(Class::Torn, NodePair::of_one(self.me), what));
            }
            context.checkers.figures.kept += 1;
        }
        Ok(())
    }

    fn take_failures(&mut self, context: &mut Context<'_>) -> CheckResult {
        let mut failed: BTreeMap<Peer, Vec<Vec<u8>>> = BTreeMap::new();
        while let Some(failure) = self.endpoint.take_failure() {
            failed.entry(failure.to()).or_default().push(failure.to_vec());
        }
        for (peer, bodies) in failed {
            let to = self.name(peer, context)?;
            context.note("failed", NodePair { from: self.me, to }, bodies.len() as u64, 0);
            context.checkers.figures.failed += bodies.len() as u64;
            context.checkers.messages.failed(self.me, to, &bodies)?;
            self.unnamed.remove(&to);
        }
        Ok(())
    }

    /// Starts something by itself, towards one of its partners.
    pub(crate) fn act(&mut self, context: &mut Context<'_>) -> CheckResult {
        if !self.kept.is_empty() && percent(context.random, 30) {
            let most = steep(context.random, 1, self.kept.len() as u64 + 1) as usize;
            self.let_go(most, context)?;
        }
        let nodes = context.others.len() as u64;
        let ahead = 1 + context.random.rand_range(0..context.scenario.partners.into());
        let to = ((u64::from(self.me) + ahead) % nodes) as u16;
        if percent(context.random, context.scenario.operations) {
            self.operate(to, context)
        } else {
            self.talk(to, context)
        }
    }

    /// Sends some messages, as long as there is room.
    fn talk(&mut self, to: u16, context: &mut Context<'_>) -> CheckResult {
        let [peer, _] = self.peer(to, context)?;
        let count = steep(context.random, 1, u64::from(context.scenario.burst) + 1);
        let longest = self.endpoint.max_message() as u64;
        let (small, at_once) = (percent(context.random, 50), percent(context.random, 50));
        for _ in 0..count {
            let unnamed = self.unnamed.entry(to).or_insert(u32::MAX);
            let mut len = match context.random.rand_range(0..10) {
                _ if small => context.random.rand_range(0..48),
                0 => longest,
                1..=4 => context.random.rand_range(0..300.min(longest)),
                _ => context.random.rand_range(0..longest + 1),
            } as usize;
            if *unnamed > 8 {
                len = len.max(NAMED);
            }
            *unnamed = if len < NAMED { *unnamed + 1 } else { 0 };
            let id = context.checkers.messages.next(self.me, to);
            let sent = if at_once {
                self.scratch.resize(len, 0);
                body::write(id, &mut self.scratch);
                self.endpoint.try_send(peer, &self.scratch).map_err(|e| match e {
                    TrySendError::Refused(e) => Some(e),
                    TrySendError::WouldBlock(()) => None,
                })
            } else {
                let Some(mut buffer) = self.endpoint.try_buffer() else {
                    self.unnamed.insert(to, u32::MAX);
                    return Ok(());
                };
                body::write(id, &mut buffer[..len]);
                buffer.try_queue(peer, len).map_err(|e| match e {
                    TrySendError::Refused(e) => Some(e),
                    TrySendError::WouldBlock(_) => None,
                })
            };
            match sent {
                Ok(()) => {
                    context.checkers.figures.sent += 1;
                    context.note("sent", NodePair::of(id), id.number.into(), len);
                    context.checkers.messages.sent(id, len, context.now);
                }
                refused => {
                    // The next one is another message in this place.
                    self.unnamed.insert(to, u32::MAX);
                    match refused {
                        Err(Some(SendError::Failed)) => return self.take_failures(context),
                        // The peer's frames are shorter.
                        Err(Some(SendError::TooLong { .. })) => continue,
                        Err(Some(e)) => return Err(broken(self.me, e)),
                        _ => return Ok(()),
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends what was queued.
    pub(crate) fn flush(&self) -> CheckResult {
        self.endpoint.flush().map_err(|e| broken(self.me, e))
    }

    /// Whether nothing that was sent or started is unacknowledged or unanswered.
    pub(crate) fn is_drained(&self) -> bool {
        self.endpoint.drain(std::time::Duration::ZERO).is_ok()
    }

    /// What it waits for, in words.
    pub(crate) fn waits_for(&self) -> String {
        let waits = |p: &&Pending| self.withdrawn || !matches!(p, Pending::Receive(_));
        let waiting = self.pending.values().filter(waits);
        let mut words: Vec<_> = waiting.map(|pending| format!("{pending:?}")).collect();
        words.sort_unstable();
        words.truncate(4);
        let counters = self.endpoint.counters().protocol;
        format!(
            "drained {}, unwanted {}, {words:?}, {counters:?}",
            self.is_drained(),
            self.has_unwanted()
        )
    }

    /// Whether every operation was completed, receives aside as long as they are not withdrawn.
    pub(crate) fn is_done(&self) -> bool {
        let waiting = if self.withdrawn { 0 } else { self.posted };
        self.pending.len() == waiting && self.kept.is_empty()
    }

    /// Whether a message waits that no receive has wanted.
    pub(crate) fn has_unwanted(&self) -> bool {
        self.endpoint.peek(gigae::Wanted::ANY).is_some()
    }

    /// Its life ends; the checkers learn which ends stay unknown.
    pub(crate) fn end(mut self, checkers: &mut Checkers, now: u64) {
        for KeptMessage { message, .. } in self.kept.drain(..) {
            drop(self.endpoint.kept(message));
        }
        for pending in self.pending.values() {
            match *pending {
                Pending::Add(access, word, operand) => {
                    checkers.regions.forgotten(access, word, operand);
                }
                Pending::Swap(access, swap) => checkers.regions.forgotten(access, swap.word, 0),
                _ => {}
            }
        }
        checkers.regions.abandoned(self.me);
        let counters = self.endpoint.counters();
        checkers.figures.repeated += counters.protocol.retransmissions;
        checkers.figures.copied += counters.copied;
        for path in self.endpoint.paths() {
            checkers.figures.deaths += path.counters.deaths;
            checkers.figures.returns += path.counters.returns;
        }
        drop(self.endpoint);
        checkers.messages.gone(self.me, now);
        checkers.tagged.gone(self.me, now);
        checkers.notices.gone(self.me, now);
        checkers.regions.gone(self.me, now);
    }
}
