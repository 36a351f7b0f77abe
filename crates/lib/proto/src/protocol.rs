//! The state machine of one endpoint: all its peers, and what goes in and comes out.
//!
//! The files `budget`, `memory`, `outputs`, `peer_table`, `schedule` and `shares` each hold a part
//! of the state and know nothing of the rest. The other files hold the code that works on it.

mod budget;
mod ending;
mod handshake;
mod incoming;
mod memory;
mod newcomers;
mod next;
mod outgoing;
mod outputs;
mod peer_table;
mod peers;
mod polling;
mod rationing;
mod schedule;
mod sending;
mod shares;
mod state;
mod timing;

use crate::secret::Secret;
use crate::session::Session;
use crate::{Instant, PathCounters, PathTo, PeerId, PeerKey, ProtocolConfig, ProtocolCounters};
use budget::Budget;
use gigae_wire::{AckReport, Epoch, Flags, PathId, Paths};
use memory::MemoryUse;
use outputs::Outputs;
use peer_table::PeerTable;
use schedule::Schedule;
use shares::Shares;
use std::collections::VecDeque;

pub(crate) use budget::SessionBudget;
pub use memory::MOST_KEPT_BULK;
pub use peer_table::TableUsage;

/// Replies that wait to be sent, for each link: as many as the frames that an endpoint receives
/// from it at once. Further replies are dropped; the peer repeats what they answer.
const MAX_REPLIES: usize = 64;

/// A reply to a sender for which this end keeps no state.
#[derive(Clone, Copy, Debug, Hash)]
struct StatelessReply {
    to: PeerKey,
    path: PathId,
    src_epoch: Epoch,
    dst_epoch: Epoch,
    what: ReplyKind,
}

#[derive(Clone, Copy, Debug, Hash)]
enum ReplyKind {
    /// These epochs belong to no session here.
    Reset(Flags),
    /// Offers a session with these epochs. `token` is this end's, `echo` the proposer's.
    HelloAck { token: u64, echo: u64 },
}

/// The state machine of one endpoint. `T` is a transmit buffer, `R` a received one. The crate's
/// description says what goes in and what comes out.
///
/// The caller calls the methods in this order:
///
/// 1. [`new`](Protocol::new), and [`advance`](Protocol::advance) with the present time.
/// 2. [`peer`](Protocol::peer) for each peer that the program knows, before the first message to
///    it.
/// 3. Again and again, until the endpoint closes:
///    1. [`handle`](Protocol::handle) for each frame that has arrived, or for data first
///       [`handle_next`](Protocol::handle_next), which takes usual frames in fewer steps. The
///       operations that it returns are carried out before the next frame is taken in. Then
///       [`poll_replaced`](Protocol::poll_replaced): the sender may have got another peer's entry.
///    2. [`advance`](Protocol::advance): once per some tens of frames, before a sleep and after it.
///       A sleep ends at [`next_deadline`](Protocol::next_deadline) at the latest.
///    3. [`poll_acknowledged`](Protocol::poll_acknowledged),
///       [`poll_failure`](Protocol::poll_failure), [`poll_spent`](Protocol::poll_spent) and
///       [`poll_discarded`](Protocol::poll_discarded), which return buffers.
///    4. [`poll_delivery`](Protocol::poll_delivery) and
///       [`poll_operations`](Protocol::poll_operations), and only then
///       [`poll_ended`](Protocol::poll_ended). [`release`](Protocol::release) comes after each
///       delivery, once the program is done with it.
///    5. [`send`](Protocol::send), or one of the methods like it, for each message. Or
///       [`send_at_once`](Protocol::send_at_once), if all else was transmitted and
///       [`may_send_at_once`](Protocol::may_send_at_once); the caller posts its frame at once.
///    6. [`poll_path`](Protocol::poll_path) if there are several links, and then
///       [`poll_transmit`](Protocol::poll_transmit), each until it has nothing more.
/// 4. [`close`](Protocol::close). Then [`handle`](Protocol::handle),
///    [`advance`](Protocol::advance) and [`poll_transmit`](Protocol::poll_transmit) while
///    [`is_closing`](Protocol::is_closing).
#[derive(Clone, Debug)]
pub struct Protocol<T, R> {
    config: ProtocolConfig,
    sessions: Vec<Session<T, R>>,
    table: PeerTable,
    secret: Secret,
    /// Questions so far that have an epoch of their own.
    questions: u32,
    shares: Shares,
    /// Where credit is shared.
    budget: Budget,
    /// This endpoint is closing: no further session comes up.
    closed: bool,
    /// Sessions whose graceful close is not answered yet.
    closing: usize,
    /// The clock's last reading.
    now: Instant,
    schedule: Schedule,
    replies: VecDeque<StatelessReply>,
    /// Paths of sessions that came up, for `poll_path`.
    routes: VecDeque<PathTo>,
    /// What this end has beside its first link.
    links: Paths,
    outputs: Outputs<T, R>,
    memory: MemoryUse<T>,
    report: [u8; 4 + AckReport::MAX_BITMAP],
    counters: ProtocolCounters,
}

/// # Making one, and what it has counted
impl<T, R> Protocol<T, R> {
    /// A protocol without peers. `secret` must be random, and no other process may know it: a
    /// process that knows it can pretend to be any peer. It must differ from the secret of every
    /// former incarnation of this endpoint.
    ///
    /// # Panics
    /// If the configuration is outside its stated ranges.
    pub fn new(config: ProtocolConfig, secret: u128) -> Self {
        config.check();
        Self {
            sessions: Vec::new(),
            table: PeerTable::new(),
            secret: Secret::new(secret),
            questions: 0,
            shares: Shares::default(),
            budget: Budget::new(),
            closed: false,
            closing: 0,
            now: Instant(0),
            schedule: Schedule::new(),
            replies: VecDeque::with_capacity(MAX_REPLIES),
            routes: VecDeque::new(),
            links: config.paths(),
            outputs: Outputs::new(&config),
            memory: MemoryUse::new(config.receive_frames / 2),
            report: [0; 4 + AckReport::MAX_BITMAP],
            counters: ProtocolCounters::default(),
            config,
        }
    }

    /// The counters.
    pub fn counters(&self) -> &ProtocolCounters {
        &self.counters
    }

    /// For counting frames that are discarded before they reach the protocol.
    pub fn counters_mut(&mut self) -> &mut ProtocolCounters {
        &mut self.counters
    }

    /// The parameters given to [`new`](Self::new).
    pub fn config(&self) -> &ProtocolConfig {
        &self.config
    }
}

/// # The table of peers
impl<T, R> Protocol<T, R> {
    /// How many peers are in the table. Their ids run from zero.
    #[inline]
    pub fn peers(&self) -> usize {
        self.sessions.len()
    }

    /// How many entries the tables of peers have.
    pub fn usage(&self) -> TableUsage {
        self.table.usage()
    }

    /// For how many peers there is room before the table must grow. For tables that grow with it.
    pub fn peers_at_once(&self) -> usize {
        self.sessions.capacity()
    }

    /// The key of a peer.
    pub fn key(&self, peer: PeerId) -> PeerKey {
        self.session(peer).key
    }
}

impl<T, R> Protocol<T, R> {
    #[inline]
    pub(crate) fn session(&self, peer: PeerId) -> &Session<T, R> {
        &self.sessions[peer.0 as usize]
    }

    #[inline]
    fn session_mut(&mut self, peer: PeerId) -> &mut Session<T, R> {
        &mut self.sessions[peer.0 as usize]
    }

    #[inline]
    fn find(&mut self, key: &PeerKey) -> Option<PeerId> {
        if self.sessions.get(self.table.last.0 as usize).is_some_and(|s| s.key == *key) {
            return Some(self.table.last);
        }
        let id = *self.table.by_key.get(key)?;
        self.table.last = id;
        Some(id)
    }
}

/// # Questions outside of a session
impl<T, R> Protocol<T, R> {
    /// An epoch for a question that belongs to no session. No other node can guess it.
    pub fn fresh_epoch(&mut self) -> Epoch {
        self.questions = self.questions.wrapping_add(1);
        self.secret.question(self.questions)
    }

    fn reply(&mut self, reply: StatelessReply) {
        // Rule 13.2: what comes by a socket and is of no session gets no answer.
        if !reply.path.is_first() && self.config.bulk.is_some() {
            return;
        }
        if self.replies.len() < MAX_REPLIES * self.config.own_paths() {
            self.replies.push_back(reply);
        }
    }
}

/// # Links and paths
impl<T, R> Protocol<T, R> {
    /// The next path of a session that came up, and its address. Call this before transmitting
    /// anything.
    pub fn poll_path(&mut self) -> Option<PathTo> {
        self.routes.pop_front()
    }

    /// A link of this end does not work; `path` is its number. Everything in flight there is sent
    /// again by other paths. The path is probed until it works again. No effect on the last path
    /// that is left.
    pub fn link_down(&mut self, path: PathId) {
        for i in 0..self.sessions.len() {
            let peer = PeerId(u32::try_from(i).expect("bounded by max_peers"));
            self.session_mut(peer).give_up(path);
            self.touch(peer);
            self.enqueue(peer);
        }
    }

    /// Sends everything for a peer by the first link, while the session lasts and that link works.
    /// That link is the shortest way there.
    pub fn keep_to_first(&mut self, peer: PeerId) {
        if let Some(send) = &mut self.sessions[peer.0 as usize].send {
            send.keep_to_first();
        }
    }

    /// The counters of the paths, by number of the link, over all sessions. Looks at every session.
    pub fn paths(&self) -> Vec<PathCounters> {
        let mut sums = vec![PathCounters::default(); self.config.own_paths()];
        for send in self.sessions.iter().filter_map(|session| session.send.as_ref()) {
            sums.iter_mut().zip(send.path_counters()).for_each(|(sum, path)| sum.add(path));
        }
        sums
    }
}
