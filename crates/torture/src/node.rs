//! The program at one node: it sends, receives and starts operations at random, and tells the
//! checkers.

use crate::body::{self, NAMED};
use crate::figures::Figures;
use crate::memory::{Access, Ending as AccessEnding, Regions, WORDS};
use crate::messages::Messages;
use crate::scenario::{Scenario, percent, pick, steep};
use crate::tagged::{self, Ending, Post, Tagged, Want};
use crate::trace::{Event, Trace};
use crate::violation::{Checked, Class, Violation};
use gigae::{
    Address, Completion, Endpoint, MacAddr, OpError, OpId, Peer, RecvError, RegionKey, SendError,
    Status, TrySendError,
};
use oorandom::Rand64;
use std::collections::{BTreeMap, HashMap};

/// Operations that a node has going on at once, receives aside.
const MOST_OPERATIONS: usize = 64;

/// Receives that a node keeps posted.
const MOST_POSTED: usize = 32;

/// Longest messages of the classes 0 and 1; the scenario says that of class 2.
const CLASSES: [usize; 2] = [1000, 32 << 10];

/// All that watches.
pub(crate) struct Checkers {
    pub(crate) messages: Messages,
    pub(crate) tagged: Tagged,
    pub(crate) regions: Regions,
    pub(crate) trace: Trace,
    pub(crate) figures: Figures,
}

/// What a node may know of another: where it is and its memory's key, of its present or a former life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Other {
    pub(crate) mac: MacAddr,
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
    Swap(Access, u16, u64, u64),
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
    /// The last notice of each writer.
    noticed: BTreeMap<u16, u64>,
    /// The next message to these must name itself: the checker has no other way to know it.
    unnamed: BTreeMap<u16, u32>,
    scratch: Vec<u8>,
}

/// Where and when something happens, and by which chance.
pub(crate) struct Context<'a> {
    pub(crate) now: u64,
    pub(crate) scenario: &'a Scenario,
    pub(crate) others: &'a [Other],
    pub(crate) random: &'a mut Rand64,
    pub(crate) checkers: &'a mut Checkers,
}

impl Context<'_> {
    fn note(&mut self, what: &'static str, pair: (u16, u16), number: u64, len: usize) {
        self.checkers.trace.note(Event { at: self.now, what, pair, number, len });
    }
}

fn broken(me: u16, what: impl std::fmt::Display) -> Violation {
    Violation::new(Class::Broken, (me, me), what.to_string())
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
            noticed: BTreeMap::new(),
            unnamed: BTreeMap::new(),
            scratch: Vec::new(),
        }
    }

    /// Another node, as this one's endpoint knows it: for messages, and for operations.
    fn peer(&mut self, to: u16, context: &Context<'_>) -> Checked<[Peer; 2]> {
        if let Some(&peers) = self.peers.get(&to) {
            return Ok(peers);
        }
        let peer = |channel| {
            let address = Address::from(context.others[usize::from(to)].mac).channel(channel);
            self.endpoint.peer(address).map_err(|e| broken(self.me, e))
        };
        let peers = [peer(0)?, peer(u8::from(context.scenario.own_channel))?];
        self.peers.insert(to, peers);
        self.names.extend(peers.map(|peer| (peer, to)));
        Ok(peers)
    }

    /// Which node a peer is.
    fn name(&mut self, peer: Peer, context: &Context<'_>) -> Checked<u16> {
        if let Some(&node) = self.names.get(&peer) {
            return Ok(node);
        }
        let address = self.endpoint.address(peer);
        let is = |other: &Other| {
            let base = Address::from(other.mac);
            address == base.channel(0) || address == base.channel(1)
        };
        let found = context.others.iter().position(is);
        let node = found.ok_or_else(|| broken(self.me, format!("{address} is nobody")))? as u16;
        self.names.insert(peer, node);
        Ok(node)
    }

    /// Takes in what has arrived; up to so many messages are received. Whether there was anything.
    pub(crate) fn take_in(&mut self, most: usize, context: &mut Context<'_>) -> Checked<bool> {
        let mut any = false;
        self.endpoint.progress().map_err(|e| broken(self.me, e))?;
        let mut got = 0;
        while got < most {
            let from = match self.endpoint.try_recv() {
                Ok(Some(message)) => {
                    self.scratch.clear();
                    self.scratch.extend_from_slice(&message);
                    Ok(message.from())
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
    fn received(&mut self, from: Peer, context: &mut Context<'_>) -> Checked {
        let (from, to) = (self.name(from, context)?, self.me);
        let body = &self.scratch;
        let number = body::name(body).map_or(u64::MAX, |id| id.number.into());
        context.note("received", (from, to), number, body.len());
        context.checkers.figures.bytes += body.len() as u64;
        context.checkers.figures.delivered += 1;
        context.checkers.messages.received(from, to, body, context.now)
    }

    fn take_failures(&mut self, context: &mut Context<'_>) -> Checked {
        let mut failed: BTreeMap<Peer, Vec<Vec<u8>>> = BTreeMap::new();
        while let Some(failure) = self.endpoint.take_failure() {
            failed.entry(failure.to()).or_default().push(failure.to_vec());
        }
        for (peer, bodies) in failed {
            let to = self.name(peer, context)?;
            context.note("failed", (self.me, to), bodies.len() as u64, 0);
            context.checkers.figures.failed += bodies.len() as u64;
            context.checkers.messages.failed(self.me, to, &bodies)?;
            self.unnamed.remove(&to);
        }
        Ok(())
    }

    fn completed(&mut self, completion: Completion, context: &mut Context<'_>) -> Checked {
        let Completion { id, peer, tag, len, total, value, memory, result, .. } = completion;
        let Some(pending) = self.pending.remove(&id) else {
            let what = format!("{id:?} was completed twice or never started");
            return Err(Violation::new(Class::Doubled, (self.me, self.me), what));
        };
        let me = self.me;
        let peer = peer.map(|peer| self.name(peer, context)).transpose()?;
        let from = peer.unwrap_or(me);
        context.note("completed", (me, from), u64::from(result.is_ok()), len);
        let memory = memory.and_then(gigae::Memory::into_vec).unwrap_or_default();
        let figures = &mut context.checkers.figures;
        figures.lost_operations += u64::from(matches!(result, Err(OpError::Lost(_))));
        let refused = matches!(result, Err(OpError::Refused(Status::Key)));
        figures.refused += u64::from(refused);
        figures.bytes += len as u64 * u64::from(!matches!(pending, Pending::Send(_)));
        let ending = match result {
            Ok(()) => AccessEnding::Done,
            Err(OpError::Lost(_)) => AccessEnding::Lost,
            Err(OpError::Refused(Status::Key)) => AccessEnding::NoKey,
            Err(OpError::Refused(Status::Busy)) => AccessEnding::Busy,
            Err(OpError::Truncated) if matches!(pending, Pending::Receive(_)) => AccessEnding::Done,
            Err(e) => return Err(broken(me, format!("{pending:?} ended: {e}"))),
        };
        let done = ending == AccessEnding::Done;
        let Checkers { tagged, regions, figures, .. } = &mut *context.checkers;
        match pending {
            Pending::Send(id) => return tagged.ended(id, done),
            Pending::Receive(post) => {
                self.posted -= 1;
                figures.received += u64::from(done);
                let ending = match result {
                    Ok(()) => Ending::Whole,
                    Err(OpError::Truncated) => Ending::Truncated,
                    Err(_) => Ending::Lost,
                };
                return tagged.received((from, me), post, tag, (len, total), (&memory, ending));
            }
            Pending::Write(access) => regions.written(access, ending)?,
            Pending::Read(access) => regions.was_read(access, &memory, ending)?,
            Pending::Add(access, word, operand) => {
                regions.added(access, (word, operand), value, ending)?;
            }
            Pending::Swap(access, word, expected, token) => {
                let now = if value == expected { token } else { value };
                if done {
                    self.seen.insert((from, word), now);
                }
                regions.swapped(access, (word, expected, token), value, ending)?;
            }
        }
        figures.remote += u64::from(done);
        if refused {
            // It has a new one.
            self.keys.remove(&from);
            self.seen.retain(|&(owner, _), _| owner != from);
        }
        Ok(())
    }

    /// Does something of its own accord, towards one of its partners.
    pub(crate) fn act(&mut self, context: &mut Context<'_>) -> Checked {
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
    fn talk(&mut self, to: u16, context: &mut Context<'_>) -> Checked {
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
                    context.note("sent", (self.me, to), id.number.into(), len);
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

    /// Starts an operation, or posts receives.
    fn operate(&mut self, to: u16, context: &mut Context<'_>) -> Checked {
        if self.posted < MOST_POSTED {
            self.post(context)?;
        }
        if self.pending.len() - self.posted >= MOST_OPERATIONS {
            return Ok(());
        }
        let [_, peer] = self.peer(to, context)?;
        let other = context.others[usize::from(to)];
        let (life, key) = *self.keys.entry(to).or_insert((other.life, other.key));
        let (pair, now, r) = ((self.me, to), context.now, &mut *context.random);
        let area = context.scenario.area as u64;
        let (id, pending) = match r.rand_range(0..10) {
            0..=3 => return self.send_tagged(to, peer, context),
            4..=5 => {
                let len = steep(r, 1, area) as usize;
                let offset = r.rand_range(0..area - len as u64 + 1) as usize;
                let mut bytes = vec![0; len];
                body::stream(r.rand_u64(), &mut bytes);
                let regions = &mut context.checkers.regions;
                let access = regions.write(pair, life, (offset, &bytes), now);
                let place = (regions.start(self.me) + offset) as u64;
                let notice = access.number.is_multiple_of(7).then_some(access.number.into());
                let id = self.endpoint.start_write(peer, key, place, bytes, notice);
                (id, Pending::Write(access))
            }
            6..=7 => {
                let len = steep(r, 1, area) as usize;
                let offset = r.rand_range(0..area - len as u64 + 1) as usize;
                let regions = &mut context.checkers.regions;
                let access = regions.read(pair, life, (offset, len), now);
                let place = (regions.start(self.me) + offset) as u64;
                let id = self.endpoint.start_read(peer, key, place, vec![0; len]);
                (id, Pending::Read(access))
            }
            8 => {
                let (word, operand) = (r.rand_range(0..WORDS.into()) as u16, r.rand_range(1..1000));
                let access = context.checkers.regions.add(pair, life, now);
                let id = self.endpoint.start_fetch_add(peer, key, u64::from(word) * 8, operand);
                (id, Pending::Add(access, word, operand))
            }
            _ => {
                let word = r.rand_range(0..WORDS.into()) as u16;
                let expected = *self.seen.entry((to, word)).or_insert(0);
                let (access, token) = context.checkers.regions.swap(pair, life, word, now);
                let place = u64::from(WORDS + word) * 8;
                let id = self.endpoint.start_compare_swap(peer, key, place, expected, token);
                (id, Pending::Swap(access, word, expected, token))
            }
        };
        context.note("starts an operation", pair, 0, 0);
        self.pending.insert(id.map_err(|e| broken(self.me, e))?, pending);
        Ok(())
    }

    fn send_tagged(&mut self, to: u16, peer: Peer, context: &mut Context<'_>) -> Checked {
        let class = pick(context.random, &[0, 0, 0, 1, 1, 2]);
        let longest = CLASSES.get(usize::from(class)).map_or(context.scenario.longest, |&l| l);
        let len = context.random.rand_range(0..longest as u64 + 1) as usize;
        let id = context.checkers.tagged.next(self.me, to);
        context.note("sends tagged", (self.me, to), id.number.into(), len);
        let body = tagged::body(id, len);
        let started = self.endpoint.start_send(peer, tagged::tag(class, id), body);
        context.checkers.tagged.started(id, class, len, context.now);
        context.checkers.figures.tagged += 1;
        self.pending.insert(started.map_err(|e| broken(self.me, e))?, Pending::Send(id));
        Ok(())
    }

    fn post(&mut self, context: &mut Context<'_>) -> Checked {
        let r = &mut *context.random;
        let class = pick(r, &[None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(2)]);
        let most = class.map_or(CLASSES[1], |class| {
            CLASSES.get(usize::from(class)).map_or(context.scenario.longest, |&l| l)
        });
        let room = if percent(r, 80) { most } else { r.rand_range(0..most as u64 + 1) as usize };
        let ahead = 1 + r.rand_range(0..context.scenario.partners.into());
        let nodes = context.others.len() as u64;
        let from = ((u64::from(self.me) + nodes - ahead) % nodes) as u16;
        // One that names a sender which then vanishes stays posted; others must remain.
        let named = self.posted < MOST_POSTED / 2 && percent(r, 40);
        let want = Want { class, from: named.then_some(from) };
        self.post_one(want, room, context)
    }

    fn post_one(&mut self, want: Want, room: usize, context: &mut Context<'_>) -> Checked {
        let mut wanted = want.wanted();
        if let Some(from) = want.from {
            let [_, peer] = self.peer(from, context)?;
            wanted = wanted.from(peer);
        }
        let post = Post { index: self.posts, want, room };
        let id = self.endpoint.start_recv(wanted, vec![0; room]);
        self.posts += 1;
        self.posted += 1;
        self.pending.insert(id.map_err(|e| broken(self.me, e))?, Pending::Receive(post));
        Ok(())
    }

    /// Receives what is there and wanted by nobody. In the end only.
    pub(crate) fn receive_the_rest(&mut self, context: &mut Context<'_>) -> Checked {
        while self.endpoint.peek(gigae::Wanted::ANY).is_some() {
            let any = Want { class: None, from: None };
            self.post_one(any, context.scenario.longest.max(CLASSES[1]), context)?;
        }
        Ok(())
    }

    /// Takes the notices of writes: each once and in the order in which its writer started them.
    pub(crate) fn take_notices(&mut self, context: &mut Context<'_>) -> Checked {
        while let Some(notice) = self.endpoint.try_notice().map_err(|e| broken(self.me, e))? {
            let from = self.name(notice.peer, context)?;
            context.note("notice", (from, self.me), notice.value, notice.len as usize);
            let last = self.noticed.entry(from).or_default();
            if notice.value <= *last || notice.key != self.key {
                let class = if notice.value == *last { Class::Doubled } else { Class::Order };
                let what = format!("{notice:?} after the notice {last}");
                return Err(Violation::new(class, (from, self.me), what));
            }
            *last = notice.value;
        }
        Ok(())
    }

    /// Sends what was queued.
    pub(crate) fn flush(&self) -> Checked {
        self.endpoint.flush().map_err(|e| broken(self.me, e))
    }

    /// Whether nothing that was sent or started is unacknowledged or unanswered.
    pub(crate) fn is_drained(&self) -> bool {
        self.endpoint.drain(std::time::Duration::ZERO).is_ok()
    }

    /// What it waits for, in words.
    pub(crate) fn waits_for(&self) -> String {
        let waiting = self.pending.values().filter(|p| !matches!(p, Pending::Receive(_)));
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

    /// Whether every operation but receives was completed.
    pub(crate) fn is_done(&self) -> bool {
        self.pending.len() == self.posted
    }

    /// Whether a message waits that no receive has wanted.
    pub(crate) fn has_unwanted(&self) -> bool {
        self.endpoint.peek(gigae::Wanted::ANY).is_some()
    }

    /// Its life ends; the checkers are told of what nobody will know.
    pub(crate) fn end(self, checkers: &mut Checkers, now: u64) {
        for pending in self.pending.values() {
            match *pending {
                Pending::Add(access, word, operand) => {
                    checkers.regions.forgotten(access, word, operand);
                }
                Pending::Swap(access, word, ..) => checkers.regions.forgotten(access, word, 0),
                _ => {}
            }
        }
        checkers.regions.abandoned(self.me);
        checkers.figures.repeated += self.endpoint.counters().protocol.retransmissions;
        drop(self.endpoint);
        checkers.messages.gone(self.me, now);
        checkers.tagged.gone(self.me, now);
        checkers.regions.gone(self.me, now);
    }
}
