//! The state machine of one endpoint: all its peers, and what goes in and comes out.

mod incoming;
mod outgoing;

use crate::session::{Session, State};
use crate::{Config, Counters, Delivery, Failure, Instant, PeerId, PeerKey, Reason, SendError};
use gigae_wire::{AckReport, Epoch};
use std::collections::{HashMap, VecDeque};

/// Resets waiting to be sent; more are dropped, since each is only a courtesy.
const MAX_RESETS: usize = 16;

/// See the crate's description. `T` is a transmit buffer, `R` a received one.
#[derive(Debug)]
pub struct Protocol<T, R> {
    config: Config,
    sessions: Vec<Session<T, R>>,
    by_key: HashMap<PeerKey, PeerId>,
    /// The peer of the last frame: most frames come from the same one as the last.
    last: PeerId,
    epochs: Epoch,
    established: u32,
    transmit: VecDeque<PeerId>,
    timed: Vec<PeerId>,
    next_deadline: Instant,
    resets: VecDeque<(PeerKey, Epoch, Epoch)>,
    deliveries: VecDeque<Delivery<R>>,
    acknowledged: VecDeque<T>,
    failures: VecDeque<Failure<T>>,
    discarded: Vec<R>,
    /// Frames kept out of order, over all sessions.
    kept: u32,
    report: [u8; 4 + AckReport::MAX_BITMAP],
    counters: Counters,
}

impl<T, R> Protocol<T, R> {
    /// A protocol without peers. `seed` must differ from that of every former incarnation of this
    /// endpoint (a random number does): epochs are counted from it.
    ///
    /// # Panics
    /// If the configuration is outside its stated ranges.
    pub fn new(config: Config, seed: u32) -> Self {
        config.check();
        let receive_frames = config.receive_frames as usize;
        Self {
            sessions: Vec::new(),
            by_key: HashMap::new(),
            last: PeerId(0),
            epochs: Epoch(seed),
            established: 0,
            transmit: VecDeque::with_capacity(64),
            timed: Vec::with_capacity(64),
            next_deadline: Instant::NEVER,
            resets: VecDeque::with_capacity(MAX_RESETS),
            deliveries: VecDeque::with_capacity(receive_frames),
            acknowledged: VecDeque::with_capacity(config.send_window.into()),
            failures: VecDeque::new(),
            discarded: Vec::new(),
            kept: 0,
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

    /// The peer of a key, entered in the table if it is new; `None` if the table is full.
    /// Sends nothing.
    pub fn peer(&mut self, key: PeerKey) -> Option<PeerId> {
        if let Some(&id) = self.by_key.get(&key) {
            return Some(id);
        }
        if self.sessions.len() >= self.config.max_peers {
            return None;
        }
        let id = PeerId(u32::try_from(self.sessions.len()).ok()?);
        self.sessions.push(Session::new(key, &self.config));
        self.by_key.insert(key, id);
        Some(id)
    }

    /// How many peers are in the table: the ids run from zero to this.
    #[inline]
    pub fn peers(&self) -> usize {
        self.sessions.len()
    }

    /// The key of a peer.
    pub fn key(&self, peer: PeerId) -> PeerKey {
        self.session(peer).key
    }

    #[inline]
    fn session(&self, peer: PeerId) -> &Session<T, R> {
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

    fn fresh_epoch(&mut self) -> Epoch {
        self.epochs = self.epochs.next();
        self.epochs
    }

    /// Admits a message of `len` bytes for a peer; it goes out by [`poll_transmit`](Self::poll_transmit)
    /// and its buffer comes back by [`poll_acknowledged`](Self::poll_acknowledged) or
    /// [`poll_failure`](Self::poll_failure). The first message proposes a session by itself.
    #[inline]
    pub fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        len: u16,
        buffer: T,
    ) -> Result<(), SendError<T>> {
        let window = self.config.send_window;
        let session = &mut self.sessions[peer.0 as usize];
        if session.failures > 0 {
            return Err(SendError::Failed(buffer));
        }
        if len > session.peer.max_payload {
            return Err(SendError::TooLong(buffer, session.peer.max_payload));
        }
        if session.state == State::Idle {
            let epochs = &mut self.epochs;
            let fresh = || {
                *epochs = epochs.next();
                *epochs
            };
            session.propose(now, fresh, window);
            self.arm(peer, now);
        }
        let session = &mut self.sessions[peer.0 as usize];
        let send = session.send.as_mut().expect("proposing or established: the window is there");
        send.push(buffer, len).map_err(SendError::WouldBlock)?;
        self.counters.messages_sent += 1;
        self.watch_credit(now, peer);
        self.enqueue(peer);
        Ok(())
    }

    /// Notes a STOP when the credit is used up, and its end.
    #[inline]
    fn watch_credit(&mut self, now: Instant, peer: PeerId) {
        let session = &mut self.sessions[peer.0 as usize];
        if session.has_stopped(now) {
            self.counters.stops += 1;
            let at = session.deadline(&self.config);
            self.arm(peer, at);
        }
    }

    /// Whether [`send`](Self::send) would find the window towards this peer full.
    pub fn is_full(&self, peer: PeerId) -> bool {
        self.session(peer).send.as_ref().is_some_and(|s| s.is_full())
    }

    /// Whether any message is not acknowledged yet.
    pub fn has_unacknowledged(&self) -> bool {
        self.sessions.iter().any(|s| s.send.as_ref().is_some_and(|w| !w.is_empty()))
    }

    #[inline]
    fn enqueue(&mut self, peer: PeerId) {
        let session = self.session_mut(peer);
        if !session.queued {
            session.queued = true;
            self.transmit.push_back(peer);
        }
    }

    #[inline]
    fn arm(&mut self, peer: PeerId, at: Instant) {
        self.next_deadline = self.next_deadline.min(at);
        let session = self.session_mut(peer);
        if !session.timed {
            session.timed = true;
            self.timed.push(peer);
        }
    }

    /// Ends a peer's session; its unacknowledged messages fail, in order.
    fn fail(&mut self, peer: PeerId, reason: Reason) {
        let session = &mut self.sessions[peer.0 as usize];
        if session.state == State::Established {
            self.established -= 1;
        }
        let discarded = &mut self.discarded;
        let before = discarded.len();
        session.end(|kept| discarded.push(kept));
        self.kept -= u32::try_from(discarded.len() - before).expect("at most 1,024");
        let Some(send) = &mut session.send else { return };
        for buffer in send.drain() {
            session.failures += 1;
            self.counters.messages_failed += 1;
            self.failures.push_back(Failure { peer, reason, buffer });
        }
    }

    /// Ends all sessions and tells the peers, which need not wait for their timeout then.
    pub fn close(&mut self) {
        for i in 0..self.sessions.len() {
            let session = &self.sessions[i];
            if session.state == State::Established {
                self.resets.push_back((session.key, session.local, session.remote));
            }
            self.fail(PeerId(u32::try_from(i).expect("bounded by max_peers")), Reason::Closed);
        }
    }

    /// Whether [`poll_delivery`](Self::poll_delivery) would return something.
    #[inline]
    pub fn has_deliveries(&self) -> bool {
        !self.deliveries.is_empty()
    }

    /// The next message to deliver. When the application is done with it, [`release`](Self::release)
    /// must be called, or the peer will be stopped for good.
    #[inline]
    pub fn poll_delivery(&mut self) -> Option<Delivery<R>> {
        pop(&mut self.deliveries)
    }

    /// The application is done with a delivered message: its buffer counts as credit again.
    #[inline]
    pub fn release(&mut self, peer: PeerId, epoch: Epoch) {
        let share = self.config.receive_frames / self.established.max(1);
        let most = share.clamp(1, self.config.receive_window.into());
        let session = &mut self.sessions[peer.0 as usize];
        if session.local != epoch {
            return;
        }
        if let Some(receive) = &mut session.receive {
            receive.release(most);
            if receive.is_due(false) {
                self.enqueue(peer);
            }
        }
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

    /// Makes every acknowledgement that waits for company due at once: the caller is about to sleep.
    pub fn acknowledge_all(&mut self) {
        for i in 0..self.timed.len() {
            let peer = self.timed[i];
            let session = &mut self.sessions[peer.0 as usize];
            if let Some(receive) = session.receive.as_mut().filter(|r| r.is_due(true)) {
                receive.ask();
                self.enqueue(peer);
            }
        }
    }

    /// No later than this, [`handle_timeout`](Self::handle_timeout) should be called.
    #[inline]
    pub fn next_deadline(&self) -> Instant {
        self.next_deadline
    }

    /// Does what the passing of time calls for. Cheap when nothing is due.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        if now >= self.next_deadline {
            self.expire(now);
        }
    }

    #[cold]
    fn expire(&mut self, now: Instant) {
        self.next_deadline = Instant::NEVER;
        let mut i = 0;
        while i < self.timed.len() {
            let peer = self.timed[i];
            let session = &mut self.sessions[peer.0 as usize];
            if session.deadline(&self.config) <= now
                && session.expire(now, &self.config, &mut self.counters)
            {
                self.fail(peer, Reason::Timeout);
            }
            let session = &mut self.sessions[peer.0 as usize];
            let at = session.deadline(&self.config);
            if at == Instant::NEVER {
                session.timed = false;
                self.timed.swap_remove(i);
            } else {
                self.next_deadline = self.next_deadline.min(at);
                i += 1;
            }
            if self.session(peer).plan().is_some() {
                self.enqueue(peer);
            }
        }
    }
}

/// Takes the first entry of a queue. An emptied queue begins at its front again: a short one then
/// stays within a few cache lines instead of wandering through all of its memory.
#[inline]
fn pop<E>(queue: &mut VecDeque<E>) -> Option<E> {
    let entry = queue.pop_front()?;
    if queue.is_empty() {
        queue.clear();
    }
    Some(entry)
}
