//! The state machine of one endpoint: all its peers, and what goes in and comes out.

mod handshake;
mod incoming;
mod outgoing;
mod state;
mod table;

use crate::secret::Secret;
use crate::send::Spare;
use crate::session::{Session, State};
use crate::timers::Timers;
use crate::{
    Config, Counters, Delivery, Ended, Failure, Instant, PathCounters, PathTo, PeerId, PeerKey,
    Reason, SendError,
};
use gigae_wire::{AckReport, Epoch, Flags, Kind, NodeAddr, Paths};
use std::collections::{HashMap, VecDeque};

/// Replies waiting to be sent, for each link: as many as the frames that an endpoint takes in from it at once. More are
/// dropped, and what they answer is repeated.
const MAX_REPLIES: usize = 64;

/// Peers that are remembered as silent: the others are silent again soon.
const MOST_SILENT: usize = 16;

/// Windows that keep the memory they have grown to, on either side, while nothing is in them: peers that are
/// spoken to again and again. A window beyond gives its own up when it is empty, so that a peer costs
/// less than a kilobyte while nothing is going on.
const KEPT_WINDOWS: usize = 16;

/// Frames of credit that a peer may have which sends while most others are silent, however many there are:
/// enough for a Gigabit Ethernet's bandwidth-delay product (some 10 frames), and a quarter of what every session
/// begins with.
const LEAST_SHARE: u32 = 16;

/// What is sent to somebody of whom nothing is kept for that.
#[derive(Clone, Copy, Debug, Hash)]
struct Reply {
    to: PeerKey,
    path: usize,
    src_epoch: Epoch,
    dst_epoch: Epoch,
    say: Say,
}

#[derive(Clone, Copy, Debug, Hash)]
enum Say {
    /// These epochs belong to no session here.
    Reset(Flags),
    /// A session is offered with these epochs: this end's token, and the proposer's.
    HelloAck { token: u64, echo: u64 },
}

/// See the crate's description. `T` is a transmit buffer, `R` a received one.
#[derive(Clone, Debug)]
pub struct Protocol<T, R> {
    config: Config,
    sessions: Vec<Session<T, R>>,
    by_key: HashMap<PeerKey, PeerId>,
    /// Whose further addresses these are, by this end's epoch of the session or proposal that named them: what one
    /// peer claims takes nothing from another.
    by_path: HashMap<(PeerKey, Epoch), PeerId>,
    /// Entries by node.
    nodes: HashMap<NodeAddr, table::Entries>,
    /// Sessions that are being proposed, by node.
    proposing: HashMap<NodeAddr, table::Proposals>,
    /// Entries of peers that the program has not named, and those of them in the order of their coming that may make
    /// room for others. Entries that have.
    strangers: usize,
    visitors: VecDeque<(PeerId, Instant)>,
    replaced: Vec<(PeerId, PeerKey)>,
    /// The peer of the last frame: most frames come from the same one as the last.
    last: PeerId,
    secret: Secret,
    /// Questions that have an epoch of their own.
    questions: u32,
    /// Sessions that are up, and how many of them are with peers that the program has named.
    established: u32,
    established_named: u32,
    /// The largest credit window that the receive frames allow each session that is up.
    share: u32,
    /// That is less than [`LEAST_SHARE`], or strangers are among them and it is less than the receive window: those that send
    /// share the frames.
    crowded: bool,
    /// A round is as many frames as can be received: its number, what is left of it, how many peers
    /// sent some of its frames, and of those of the former one.
    round: u32,
    round_left: u32,
    active: u32,
    active_before: u32,
    /// Credit windows of all sessions together.
    credit: u32,
    /// This endpoint is closing: no session comes up any more.
    closed: bool,
    /// The clock's last reading.
    now: Instant,
    transmit: VecDeque<PeerId>,
    /// Sessions in which something began after that.
    undated: Vec<PeerId>,
    /// Sessions with something that is due by itself.
    timers: Timers,
    /// Sessions with an acknowledgement that waited for company when the clock was read.
    owing: Vec<PeerId>,
    replies: VecDeque<Reply>,
    /// Paths that sessions have since they came up.
    routes: VecDeque<PathTo>,
    /// The addresses of this end's links, if it has several.
    links: Paths,
    deliveries: VecDeque<Delivery<R>>,
    operations: VecDeque<Delivery<R>>,
    ended: VecDeque<Ended>,
    acknowledged: VecDeque<T>,
    failures: VecDeque<Failure<T>>,
    discarded: Vec<R>,
    spent: Vec<T>,
    /// Frames kept out of order, over all sessions, and sessions with memory for that.
    kept: u32,
    tables: usize,
    /// Frames in all send windows, windows with memory, and memory that none has.
    unacknowledged: usize,
    windows: usize,
    spare: Spare<T>,
    /// Sessions whose farewell was not answered.
    closing: usize,
    /// Peers that did not answer in time, until somebody asks.
    silent: Vec<PeerId>,
    report: [u8; 4 + AckReport::MAX_BITMAP],
    counters: Counters,
}

impl<T, R> Protocol<T, R> {
    /// A protocol without peers. `secret` must be random and known to nobody else: whoever knows it can speak for
    /// any peer. It must differ from that of every former incarnation of this endpoint.
    ///
    /// # Panics
    /// If the configuration is outside its stated ranges.
    pub fn new(config: Config, secret: u128) -> Self {
        config.check();
        let receive_frames = config.receive_frames as usize;
        Self {
            sessions: Vec::new(),
            by_key: HashMap::new(),
            by_path: HashMap::new(),
            nodes: HashMap::new(),
            proposing: HashMap::new(),
            strangers: 0,
            visitors: VecDeque::new(),
            replaced: Vec::new(),
            last: PeerId(0),
            secret: Secret::new(secret),
            questions: 0,
            established: 0,
            established_named: 0,
            share: 0,
            crowded: false,
            round: 0,
            round_left: 0,
            active: 0,
            active_before: 0,
            credit: 0,
            closed: false,
            now: Instant(0),
            transmit: VecDeque::with_capacity(64),
            undated: Vec::with_capacity(64),
            timers: Timers::new(),
            owing: Vec::with_capacity(64),
            replies: VecDeque::with_capacity(MAX_REPLIES),
            routes: VecDeque::new(),
            links: Paths::new(&config.links),
            deliveries: VecDeque::with_capacity(receive_frames),
            operations: VecDeque::new(),
            ended: VecDeque::new(),
            acknowledged: VecDeque::with_capacity(config.send_window.into()),
            failures: VecDeque::new(),
            discarded: Vec::new(),
            spent: Vec::new(),
            kept: 0,
            tables: 0,
            unacknowledged: 0,
            windows: 0,
            spare: Vec::new(),
            closing: 0,
            silent: Vec::with_capacity(MOST_SILENT),
            report: [0; 4 + AckReport::MAX_BITMAP],
            counters: Counters::default(),
            config,
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// For counting discards that happen before a frame reaches the protocol.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// The parameters given to [`new`](Self::new).
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How many peers are in the table: the ids run from zero to this.
    #[inline]
    pub fn peers(&self) -> usize {
        self.sessions.len()
    }

    /// Addresses by which peers are known: one for each, and those of further links.
    pub fn addresses(&self) -> usize {
        self.by_key.len() + self.by_path.len()
    }

    /// For how many peers there is room before the table must grow: for tables beside it.
    pub fn peers_at_once(&self) -> usize {
        self.sessions.capacity()
    }

    /// The key of a peer.
    pub fn key(&self, peer: PeerId) -> PeerKey {
        self.session(peer).key
    }

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
        if self.sessions.get(self.last.0 as usize).is_some_and(|s| s.key == *key) {
            return Some(self.last);
        }
        let id = *self.by_key.get(key)?;
        self.last = id;
        Some(id)
    }

    /// An epoch for a question that belongs to no session. Nobody can guess it.
    pub fn fresh_epoch(&mut self) -> Epoch {
        self.questions = self.questions.wrapping_add(1);
        self.secret.question(self.questions)
    }

    fn reply(&mut self, reply: Reply) {
        if self.replies.len() < MAX_REPLIES * self.config.own_paths() {
            self.replies.push_back(reply);
        }
    }

    /// Admits a message of `len` bytes for a peer; it goes out by [`poll_transmit`](Self::poll_transmit)
    /// and its buffer comes back by [`poll_acknowledged`](Self::poll_acknowledged) or
    /// [`poll_failure`](Self::poll_failure). The first message proposes a session by itself.
    #[inline]
    pub fn send(&mut self, peer: PeerId, len: u16, buffer: T) -> Result<(), SendError<T>> {
        self.admit(peer, Kind::Data, len, buffer)?;
        self.counters.messages_sent += 1;
        Ok(())
    }

    /// Admits a frame with operations, which is never put together with messages. Otherwise as
    /// [`send`](Self::send).
    pub fn send_operations(
        &mut self,
        peer: PeerId,
        len: u16,
        buffer: T,
    ) -> Result<(), SendError<T>> {
        self.admit(peer, Kind::Op, len, buffer)
    }

    #[inline]
    fn admit(&mut self, peer: PeerId, kind: Kind, len: u16, buffer: T) -> Result<(), SendError<T>> {
        let session = &mut self.sessions[peer.0 as usize];
        if session.failures > 0 {
            return Err(SendError::Failed(buffer));
        }
        let longest = match kind {
            Kind::Op => session.peer.max_operations,
            _ => session.peer.max_payload,
        };
        if len > longest {
            return Err(SendError::TooLong(buffer, longest));
        }
        if session.state == State::Idle {
            self.propose(peer);
        }
        let session = &mut self.sessions[peer.0 as usize];
        let send = session.send.as_mut().expect("proposing or established: the window is there");
        if let Err(buffer) = send.push(buffer, kind, len) {
            self.admit_by_growing(peer, kind, len, buffer)?;
        }
        self.unacknowledged += 1;
        let session = &mut self.sessions[peer.0 as usize];
        if !session.queued {
            session.queued = true;
            self.transmit.push_back(peer);
        }
        self.watch_credit(peer);
        Ok(())
    }

    /// The same into a window that has no slot free.
    #[cold]
    #[inline(never)]
    fn admit_by_growing(
        &mut self,
        peer: PeerId,
        kind: Kind,
        len: u16,
        buffer: T,
    ) -> Result<(), SendError<T>> {
        let send = self.sessions[peer.0 as usize].send.as_mut().expect("just asked");
        let had = send.has_slots();
        if !send.grow(&mut self.spare) {
            return Err(SendError::WouldBlock(buffer));
        }
        self.windows += usize::from(!had);
        send.push(buffer, kind, len).map_err(SendError::WouldBlock)
    }

    /// A send window is empty: it gives its memory up, unless few others have any.
    #[cold]
    #[inline(never)]
    fn shrink(&mut self, peer: PeerId) {
        if self.windows > KEPT_WINDOWS
            && let Some(send) = &mut self.sessions[peer.0 as usize].send
        {
            self.windows -= usize::from(send.shrink(&mut self.spare));
        }
    }

    /// Proposes a session to a peer with which there is none, before there is anything to send: what
    /// can be sent depends on what the peer can receive, and the network carry.
    pub fn propose(&mut self, peer: PeerId) {
        let session = &mut self.sessions[peer.0 as usize];
        if let Some(sizes) = session.sizes.as_mut().filter(|sizes| !sizes.wanted) {
            sizes.wanted = true;
            self.touch(peer);
            return;
        }
        if session.state != State::Idle {
            return;
        }
        self.forget_paths(peer);
        let session = &mut self.sessions[peer.0 as usize];
        let local = self.secret.epoch(&session.key, session.number);
        session.propose(self.now, local, &self.config);
        self.note_proposal(peer);
        self.touch(peer);
        self.enqueue(peer);
    }

    /// The session with a peer, if it is up and known how long frames may be: its epoch, and the
    /// longest payload in bytes of a frame with operations.
    #[inline]
    pub fn established(&self, peer: PeerId) -> Option<(Epoch, u16)> {
        let session = self.session(peer);
        let up = session.is_up() && session.failures == 0 && !session.sizing;
        let longest = session.peer.max_operations.min(self.config.max_operations);
        up.then_some((session.local, longest))
    }

    /// Adds a message to the last frame for a peer, if that still waits to be transmitted: neither
    /// a frame nor a place in the window is needed then. `extend` is given its buffer and the
    /// longest payload in bytes that the peer can receive; it returns the new length of the payload
    /// as a Batch, or `None` if the message does not fit. Returns whether the message was added.
    #[inline]
    pub fn append(
        &mut self,
        peer: PeerId,
        extend: impl FnOnce(&mut T, u16) -> Option<u16>,
    ) -> bool {
        let session = &mut self.sessions[peer.0 as usize];
        // Only once the session is up is it known what the peer can receive.
        if !matches!(session.state, State::Established) || session.failures > 0 || session.sizing {
            return false;
        }
        let longest = session.peer.max_payload;
        let Some(send) = &mut session.send else { return false };
        let added = send.append(|buffer| extend(buffer, longest));
        self.counters.messages_sent += u64::from(added);
        added
    }

    /// Notes a STOP when the credit is used up, and its end.
    #[inline]
    fn watch_credit(&mut self, peer: PeerId) {
        if self.sessions[peer.0 as usize].has_stopped() {
            self.counters.stops += 1;
            self.touch(peer);
        }
    }

    /// The next path that a session has which came up: where its frames go. To be asked for before
    /// anything is transmitted.
    pub fn poll_path(&mut self) -> Option<PathTo> {
        self.routes.pop_front()
    }

    /// A link of this end, the number of a path, is known not to work: what flew there goes again
    /// elsewhere, and it is probed until it works again. Without effect where it is the last one.
    pub fn link_down(&mut self, path: usize) {
        for i in 0..self.sessions.len() {
            let peer = PeerId(u32::try_from(i).expect("bounded by max_peers"));
            self.session_mut(peer).give_up(path);
            self.touch(peer);
            self.enqueue(peer);
        }
    }

    /// What goes to a peer goes by the first link for as long as the session lasts and that link works: it leads
    /// there by a shorter way than any other.
    pub fn keep_to_first(&mut self, peer: PeerId) {
        if let Some(send) = &mut self.sessions[peer.0 as usize].send {
            send.keep_to_first();
        }
    }

    /// What happened on the paths, by number of the link, over all sessions. Looks at every session.
    pub fn paths(&self) -> Vec<PathCounters> {
        let mut sums = vec![PathCounters::default(); self.config.own_paths()];
        for send in self.sessions.iter().filter_map(|session| session.send.as_ref()) {
            sums.iter_mut().zip(send.path_counters()).for_each(|(sum, path)| sum.add(path));
        }
        sums
    }

    /// Asks a peer for a sign of life, if nothing else does: somebody waits for what only it can send.
    /// Silence for the peer timeout, or the answer that it knows no such session, ends the session
    /// (rule 8.1).
    pub fn ask(&mut self, peer: PeerId) {
        if self.sessions[peer.0 as usize].ask() {
            self.touch(peer);
        }
    }

    /// Whether [`send`](Self::send) would find the window towards this peer full.
    pub fn is_full(&self, peer: PeerId) -> bool {
        self.session(peer).send.as_ref().is_some_and(|s| s.is_full())
    }

    /// Whether any message is not acknowledged yet.
    pub fn has_unacknowledged(&self) -> bool {
        self.unacknowledged > 0
    }

    #[inline]
    fn enqueue(&mut self, peer: PeerId) {
        let session = self.session_mut(peer);
        if !session.queued {
            session.queued = true;
            self.transmit.push_back(peer);
        }
    }

    /// Something began in a session that the next reading of the clock has to date.
    #[inline]
    fn touch(&mut self, peer: PeerId) {
        let session = self.session_mut(peer);
        if !session.undated {
            session.undated = true;
            self.undated.push(peer);
        }
    }

    /// A session has a deadline.
    fn arm(&mut self, peer: PeerId, at: Instant) {
        // A later one waits until the earlier has come.
        if at < self.timers.of(peer) {
            self.timers.set(peer, at);
        }
    }

    /// A session came or went: the largest window of each is its part of the receive frames.
    fn divide_credit(&mut self) {
        let share = self.config.receive_frames / self.established.max(1);
        let most = self.config.receive_window.into();
        self.share = share.clamp(1, most);
        let strangers = self.established > self.established_named;
        self.crowded = self.share < if strangers { most } else { LEAST_SHARE.min(most) };
    }

    /// The largest window of a peer whose frame was released, while there are many sessions: up to
    /// [`LEAST_SHARE`], its part among those that have sent something lately. So one of thousands is not slowed
    /// down by those that are silent, and if all send, each gets little. A peer that the program has named shares
    /// the frames with the others that it has named, and with strangers only while they send.
    fn share_of(&mut self, peer: PeerId) -> u32 {
        if self.round_left == 0 {
            self.round = self.round.wrapping_add(1);
            self.round_left = self.config.receive_frames;
            self.active_before = std::mem::take(&mut self.active);
        }
        self.round_left -= 1;
        let session = &mut self.sessions[peer.0 as usize];
        if session.round != self.round {
            session.round = self.round;
            self.active += 1;
        }
        let others = self.active.max(self.active_before).max(1);
        let part = |of: u32| self.config.receive_frames / of;
        let named = if session.named { part(others.max(self.established_named)) } else { 0 };
        let most = part(others).min(LEAST_SHARE).max(named);
        most.min(self.config.receive_window.into()).max(self.share)
    }

    /// Ends a peer's session; its unacknowledged messages fail, in order.
    fn fail(&mut self, peer: PeerId, reason: Reason) {
        if self.session(peer).state != State::Idle {
            let epoch = self.session(peer).local;
            self.ended.push_back(Ended { peer, epoch, reason });
        }
        if self.session(peer).is_up() {
            self.credit -= self.session(peer).receive.as_ref().map_or(0, |r| r.window());
            self.established -= 1;
            self.established_named -= u32::from(self.session(peer).named);
            self.divide_credit();
        }
        self.forget_proposal(peer);
        let session = &mut self.sessions[peer.0 as usize];
        session.number = session.number.wrapping_add(u32::from(session.state != State::Idle));
        session.known |= session.has_received();
        self.closing -= usize::from(session.state == State::Closing);
        let discarded = &mut self.discarded;
        let before = discarded.len();
        self.tables -= usize::from(session.receive.as_ref().is_some_and(|r| r.has_table()));
        session.end(|kept| discarded.push(kept));
        self.kept -= u32::try_from(discarded.len() - before).expect("at most 1,024");
        let Some(send) = &mut session.send else { return };
        self.unacknowledged -= send.len() as usize;
        for (kind, buffer) in send.drain() {
            if kind == Kind::Op {
                self.spent.push(buffer);
                continue;
            }
            session.failures += 1;
            self.counters.messages_failed += 1;
            self.failures.push_back(Failure { peer, reason, buffer });
        }
        self.shrink(peer);
    }

    /// Ends all sessions and tells the peers, which learn so what has arrived here and need not wait
    /// for their timeout. Nothing is sent or received afterwards; [`is_closing`](Self::is_closing)
    /// says when all peers have answered.
    pub fn close(&mut self) {
        self.closed = true;
        for i in 0..self.sessions.len() {
            let peer = PeerId(u32::try_from(i).expect("bounded by max_peers"));
            let farewell = self.session(peer).farewell();
            self.fail(peer, Reason::Closed);
            if farewell.is_some() {
                self.session_mut(peer).take_leave(farewell);
                self.closing += 1;
                self.enqueue(peer);
            }
        }
    }

    /// Whether a peer has yet to answer that it knows of the end; it is asked for 127 ms at most.
    pub fn is_closing(&self) -> bool {
        self.closing > 0
    }

    /// Whether [`poll_delivery`](Self::poll_delivery) would return something.
    #[inline]
    pub fn has_deliveries(&self) -> bool {
        !self.deliveries.is_empty()
    }

    /// The next message to deliver. When the application is done with it, [`release`](Self::release)
    /// must be called, or the peer will be stopped for good.
    #[inline(always)]
    pub fn poll_delivery(&mut self) -> Option<Delivery<R>> {
        pop(&mut self.deliveries)
    }

    /// The next frame with operations, in the order of its session; [`release`](Self::release) it as
    /// a message.
    #[inline]
    pub fn poll_operations(&mut self) -> Option<Delivery<R>> {
        pop(&mut self.operations)
    }

    /// The next session that has ended, or that did not come up. What it delivered is told before,
    /// what its successor delivers may be too.
    pub fn poll_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// Whether [`poll_ended`](Self::poll_ended) would return something.
    #[inline]
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Whether [`poll_operations`](Self::poll_operations) or [`poll_ended`](Self::poll_ended) would
    /// return something.
    #[inline]
    pub fn has_operations(&self) -> bool {
        !self.operations.is_empty() || !self.ended.is_empty()
    }

    /// The application is done with a delivered message: its buffer counts as credit again.
    #[inline]
    pub fn release(&mut self, peer: PeerId, epoch: Epoch) {
        if self.crowded {
            self.release_in_crowd(peer, epoch);
        } else {
            self.release_up_to(self.share, peer, epoch);
        }
    }

    #[cold]
    #[inline(never)]
    fn release_in_crowd(&mut self, peer: PeerId, epoch: Epoch) {
        let most = self.share_of(peer);
        self.release_up_to(most, peer, epoch);
    }

    #[inline(always)]
    fn release_up_to(&mut self, most: u32, peer: PeerId, epoch: Epoch) {
        let session = &mut self.sessions[peer.0 as usize];
        if session.local != epoch {
            return;
        }
        if let Some(receive) = &mut session.receive {
            self.credit = self.credit.wrapping_add_signed(receive.release(most));
            if receive.is_due(false) {
                self.enqueue(peer);
            }
        }
    }

    /// Frames for which the peers hold or may be given credit: so many may arrive at once, and
    /// control frames besides.
    #[inline]
    pub fn credit(&self) -> u32 {
        self.credit
    }

    /// Transmit buffers that [`poll_acknowledged`](Self::poll_acknowledged) would return.
    #[inline]
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// The next transmit buffer that is free because its message was acknowledged.
    #[inline]
    pub fn poll_acknowledged(&mut self) -> Option<T> {
        pop(&mut self.acknowledged)
    }

    /// The next message that failed. Until all of a peer's are taken, nothing more is admitted
    /// for it.
    pub fn poll_failure(&mut self) -> Option<Failure<T>> {
        let failure = self.failures.pop_front()?;
        self.session_mut(failure.peer).failures -= 1;
        Some(failure)
    }

    /// Whether [`poll_failure`](Self::poll_failure) would return something.
    #[inline]
    pub fn has_failures(&self) -> bool {
        !self.failures.is_empty()
    }

    /// The next receive buffer that is free because its session ended before it was in order.
    #[inline]
    pub fn poll_discarded(&mut self) -> Option<R> {
        self.discarded.pop()
    }

    /// The next transmit buffer that is free because its session ended: one with operations, whose
    /// failure [`poll_ended`](Self::poll_ended) tells.
    #[inline]
    pub fn poll_spent(&mut self) -> Option<T> {
        self.spent.pop()
    }

    /// Makes every acknowledgement that waits for company due at once: the caller is about to sleep
    /// and has just [told the time](Self::advance).
    pub fn acknowledge_all(&mut self) {
        while let Some(peer) = self.owing.pop() {
            let session = &mut self.sessions[peer.0 as usize];
            session.owing = false;
            if let Some(receive) = session.receive.as_mut().filter(|r| r.is_due(true)) {
                receive.ask();
                self.enqueue(peer);
            }
        }
    }

    /// The next peer that has left something unanswered for a timeout, if not too many have: what it is
    /// reached by may have changed. No peer is kept twice as often as it was silent.
    #[inline]
    pub fn poll_silent(&mut self) -> Option<PeerId> {
        self.silent.pop()
    }

    /// No later than this, [`advance`](Self::advance) should be called again; what began after its
    /// last call is not in this.
    #[inline]
    pub fn next_deadline(&self) -> Instant {
        self.timers.first()
    }

    /// Tells the time and does what its passing calls for. Whatever began since the last call
    /// began now, so timers are never early, and late by at most the time between two calls.
    /// Cheap when nothing is due. Reading a clock costs more than most of what is done per frame: once
    /// per some tens of frames or vain polls is enough, and before sleeping.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        self.now = now;
        while let Some(peer) = self.undated.pop() {
            let session = &mut self.sessions[peer.0 as usize];
            session.undated = false;
            session.date(now);
            let at = session.deadline(&self.config);
            if !session.owing && session.receive.as_ref().is_some_and(|r| r.waits()) {
                session.owing = true;
                self.owing.push(peer);
            }
            self.arm(peer, at);
        }
        if now >= self.timers.first() {
            self.expire(now);
        }
    }

    #[cold]
    fn expire(&mut self, now: Instant) {
        while let Some(peer) = self.timers.due(now) {
            let session = &mut self.sessions[peer.0 as usize];
            let closing = session.state == State::Closing;
            let lost = session.deadline(&self.config) <= now
                && session.expire(now, &self.config, &mut self.counters);
            self.closing -= usize::from(closing && session.state != State::Closing);
            if session.is_silent() && self.silent.len() < MOST_SILENT {
                self.silent.push(peer);
            }
            if lost || self.session(peer).hello_stays_unanswered() {
                match self.noted_version(peer) {
                    Some(version) => self.fail(peer, Reason::Version(version)),
                    None if lost => self.fail(peer, Reason::Timeout),
                    None => {}
                }
            }
            let session = &mut self.sessions[peer.0 as usize];
            // What is due until it is transmitted is not looked at again before time has passed.
            let at = session.deadline(&self.config).max(now.after(1));
            self.timers.set(peer, at);
            if self.session(peer).plan().is_some() {
                self.enqueue(peer);
            }
        }
    }
}

/// Takes the first entry of a queue. An emptied queue begins at its front again: a short one then
/// stays within a few cache lines instead of wandering through all of its memory.
#[inline(always)]
fn pop<E>(queue: &mut VecDeque<E>) -> Option<E> {
    let entry = queue.pop_front()?;
    if queue.is_empty() {
        queue.clear();
    }
    Some(entry)
}
