//! The state machine of one endpoint: all its peers, and what goes in and comes out.

use crate::session::{Pending, Plan, Session, State};
use crate::{Config, Counters, Instant, Reason};
use gigae_wire::{AckReport, Discard, Epoch, Flags, Header, Hello, Kind, NodeAddr};
use std::collections::{HashMap, VecDeque};

/// Resets waiting to be sent; more are dropped, since each is only a courtesy.
const MAX_RESETS: usize = 16;

/// Who a peer is: an endpoint on a node, on one channel. Each has a session of its own, so that
/// channels do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerKey {
    /// The node.
    pub node: NodeAddr,
    /// Port id of the endpoint on that node.
    pub port: u16,
    /// The channel.
    pub channel: u8,
}

/// Names a peer of this endpoint in short; never reused for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To a peer in the table.
    Peer(PeerId),
    /// To somebody who is not in the table (only resets).
    Stranger(PeerKey),
}

/// A frame to put on the wire.
#[derive(Debug)]
pub struct Transmit<'a, T> {
    /// Where to.
    pub to: Destination,
    /// Its header, not yet sealed.
    pub header: Header,
    /// Its payload.
    pub body: Body<'a, T>,
}

/// The payload of a frame to transmit.
#[derive(Debug)]
pub enum Body<'a, T> {
    /// A message; the buffer stays in the window until it is acknowledged or failed.
    Message(&'a mut T),
    /// A control frame with these bytes.
    Control(&'a [u8]),
}

/// A message that arrived, in order.
#[derive(Debug)]
pub struct Delivery<R> {
    /// From whom.
    pub peer: PeerId,
    /// The session that it came in; say so when it is released.
    pub epoch: Epoch,
    /// The buffer given to [`Protocol::handle`].
    pub buffer: R,
}

/// A message that was not acknowledged and will not be.
#[derive(Debug)]
pub struct Failure<T> {
    /// To whom it was.
    pub peer: PeerId,
    /// Why.
    pub reason: Reason,
    /// Its buffer.
    pub buffer: T,
}

/// What became of a received frame's buffer.
#[derive(Debug)]
pub enum Handled<R> {
    /// It is kept and comes out by [`Protocol::poll_delivery`] or [`Protocol::poll_discarded`].
    Kept,
    /// A control frame was taken in; the buffer is free.
    Done(R),
    /// The frame was not accepted (and counted); the buffer is free.
    Discarded(Discard, R),
}

/// A message was not admitted; its buffer comes back.
#[derive(Debug)]
pub enum SendError<T> {
    /// The window towards this peer is full.
    WouldBlock(T),
    /// Longer than this peer can receive, which is so many bytes.
    TooLong(T, u16),
    /// Earlier messages to this peer have failed and were not taken by
    /// [`Protocol::poll_failure`] yet; so nothing is lost unnoticed.
    Failed(T),
}

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
        self.sessions.push(Session::new(key));
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
        if session.has_stopped(now, &self.config) {
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

    /// Takes in a received frame: who sent it, its parsed header and payload, and the buffer in
    /// which it lies. `now` may be read once for a whole batch.
    #[inline]
    pub fn handle(
        &mut self,
        now: Instant,
        from: NodeAddr,
        (header, payload): (&Header, &[u8]),
        buffer: R,
    ) -> Handled<R> {
        match self.accept(now, from, header, payload, buffer) {
            Ok(handled) => handled,
            Err((why, buffer)) => {
                self.counters.discard(why);
                Handled::Discarded(why, buffer)
            }
        }
    }

    #[inline]
    fn accept(
        &mut self,
        now: Instant,
        node: NodeAddr,
        header: &Header,
        payload: &[u8],
        buffer: R,
    ) -> Result<Handled<R>, (Discard, R)> {
        if header.dst_port != self.config.port {
            return Err((Discard::Port, buffer));
        }
        let key = PeerKey { node, port: header.src_port, channel: header.channel };
        let control = match header.kind {
            Kind::Hello => self.on_hello(key, header, payload),
            Kind::HelloAck => self.on_hello_ack(&key, header, payload),
            Kind::Reset => self.on_reset(&key, header),
            Kind::Data | Kind::Ack => {
                let peer = match self.confirm(&key, header) {
                    Ok(peer) => peer,
                    Err(why) => return Err((why, buffer)),
                };
                if let Err(why) = self.on_acknowledgement(now, peer, header, payload) {
                    return Err((why, buffer));
                }
                if header.kind == Kind::Data {
                    return self.on_data(now, peer, header, buffer);
                }
                Ok(())
            }
        };
        match control {
            Ok(()) => Ok(Handled::Done(buffer)),
            Err(why) => Err((why, buffer)),
        }
    }

    /// Rule 4.2: a proposal is answered and otherwise changes nothing until the proposer uses it.
    fn on_hello(&mut self, key: PeerKey, header: &Header, payload: &[u8]) -> Result<(), Discard> {
        let hello = Hello::parse(payload)?;
        if header.src_epoch == Epoch::UNKNOWN {
            return Err(Discard::Malformed);
        }
        let peer = self.peer(key).ok_or(Discard::Sessions)?;
        let session = self.session(peer);
        let remote = header.src_epoch;
        let local = match (session.state, session.pending) {
            (State::Established, _) if session.remote == remote => session.local,
            (_, Some(pending)) if pending.remote == remote => pending.local,
            (State::Proposing { .. }, _) => session.local,
            _ => self.fresh_epoch(),
        };
        let session = self.session_mut(peer);
        if session.state != State::Established || session.remote != remote {
            session.pending = Some(Pending { local, remote, hello, credit: header.credit });
        }
        session.answer = Some((local, remote));
        self.enqueue(peer);
        Ok(())
    }

    /// Rule 4.3: the answer to our proposal establishes the session.
    fn on_hello_ack(
        &mut self,
        key: &PeerKey,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), Discard> {
        let hello = Hello::parse(payload)?;
        let peer = self.find(key).ok_or(Discard::Epoch)?;
        let session = self.session(peer);
        let ours = header.dst_epoch == session.local && header.src_epoch != Epoch::UNKNOWN;
        match session.state {
            State::Proposing { .. } if ours => {}
            State::Established if ours && header.src_epoch == session.remote => {
                return Err(Discard::Duplicate);
            }
            _ => return Err(Discard::Epoch),
        }
        let (local, remote) = (header.dst_epoch, header.src_epoch);
        // The first message that goes out now confirms the session to the peer.
        self.establish(peer, Pending { local, remote, hello, credit: header.credit });
        self.enqueue(peer);
        Ok(())
    }

    fn establish(&mut self, peer: PeerId, with: Pending) {
        self.sessions[peer.0 as usize].establish(with, &self.config);
        self.established += 1;
        self.counters.sessions += 1;
        let longest = self.session(peer).send.as_ref().map_or(0, |s| s.longest());
        if longest > with.hello.max_payload {
            self.fail(peer, Reason::TooLong(with.hello.max_payload));
        }
    }

    /// The session that a frame belongs to by its epochs; a pending one is established by its
    /// first use. Anything else is answered with a reset (rule 4.5).
    #[inline]
    fn confirm(&mut self, key: &PeerKey, header: &Header) -> Result<PeerId, Discard> {
        if let Some(peer) = self.find(key) {
            let s = self.session(peer);
            let of = |local, remote| header.dst_epoch == local && header.src_epoch == remote;
            if s.state == State::Established && of(s.local, s.remote) {
                return Ok(peer);
            }
            if let Some(pending) = s.pending.filter(|p| of(p.local, p.remote)) {
                self.switch(peer, pending);
                return Ok(peer);
            }
        }
        if self.resets.len() < MAX_RESETS && header.dst_epoch != Epoch::UNKNOWN {
            self.resets.push_back((*key, header.dst_epoch, header.src_epoch));
        }
        Err(Discard::Epoch)
    }

    /// The peer uses the session that it proposed: whatever was before is over (rule 4.4).
    #[cold]
    fn switch(&mut self, peer: PeerId, pending: Pending) {
        if self.session(peer).state == State::Established {
            self.fail(peer, Reason::Reset);
        }
        self.establish(peer, pending);
    }

    fn on_reset(&mut self, key: &PeerKey, header: &Header) -> Result<(), Discard> {
        let peer = self.find(key).ok_or(Discard::Epoch)?;
        let s = self.session(peer);
        if s.state != State::Established
            || header.dst_epoch != s.local
            || header.src_epoch != s.remote
        {
            return Err(Discard::Epoch);
        }
        self.fail(peer, Reason::Reset);
        Ok(())
    }

    #[inline]
    fn on_acknowledgement(
        &mut self,
        now: Instant,
        peer: PeerId,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), Discard> {
        let report = match header.kind {
            Kind::Ack => AckReport::parse(payload)?,
            _ => None,
        };
        let session = &mut self.sessions[peer.0 as usize];
        let send = session.send.as_mut().expect("established");
        let progress =
            send.acknowledge(now, header.ack, &mut session.rtt, &mut self.acknowledged)? > 0;
        send.credit(header.ack, header.credit);
        if let Some(report) = report {
            let keeps = session.peer.reorder_window > 0;
            send.report(now, header.ack, &report, &session.rtt, keeps);
        }
        session.heard(now, progress);
        if header.flags.has(Flags::ASK) {
            session.receive.as_mut().expect("established").ask();
        }
        self.watch_credit(now, peer);
        if self.session(peer).plan().is_some() {
            self.enqueue(peer);
        }
        Ok(())
    }

    #[inline]
    fn on_data(
        &mut self,
        now: Instant,
        peer: PeerId,
        header: &Header,
        buffer: R,
    ) -> Result<Handled<R>, (Discard, R)> {
        let session = &mut self.sessions[peer.0 as usize];
        let epoch = session.local;
        let receive = session.receive.as_mut().expect("established");
        let (deliveries, counters) = (&mut self.deliveries, &mut self.counters);
        // Half of the link's frames always remain for what is in order, however many peers there
        // are: kept frames could otherwise occupy all and lock out those that would release them.
        let crowded = self.kept >= self.config.receive_frames / 2;
        let reorder_window = if crowded { 0 } else { self.config.reorder_window };
        let kept_before = receive.kept();
        let taken = receive.take(header.seq, buffer, reorder_window, |buffer| {
            counters.messages_received += 1;
            deliveries.push_back(Delivery { peer, epoch, buffer });
        });
        self.kept = self.kept + receive.kept() - kept_before;
        let by = now + self.config.ack_delay;
        receive.schedule(self.config.ack_every, by);
        if receive.is_due(false) {
            self.enqueue(peer);
        } else {
            self.arm(peer, by);
        }
        taken.map(|()| Handled::Kept)
    }

    /// A frame of another protocol version came from a node: sessions being proposed to it fail,
    /// and it is told our version, unless the frame was itself such an answer. `kind` is the low
    /// half of header byte 4, whose value 5 means Reset in every version.
    #[cold]
    pub fn handle_foreign_version(&mut self, node: NodeAddr, channel: u8, version: u8, kind: u8) {
        self.counters.version += 1;
        for i in 0..self.sessions.len() {
            let session = &self.sessions[i];
            if session.key.node == node && matches!(session.state, State::Proposing { .. }) {
                let peer = PeerId(u32::try_from(i).expect("bounded by max_peers"));
                self.fail(peer, Reason::Version(version));
            }
        }
        if kind != Kind::Reset as u8 && self.resets.len() < MAX_RESETS {
            let key = PeerKey { node, port: 0, channel };
            self.resets.push_back((key, Epoch::UNKNOWN, Epoch::UNKNOWN));
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

    /// Whether [`poll_transmit`](Self::poll_transmit) may have something.
    #[inline]
    pub fn wants_transmit(&self) -> bool {
        !self.transmit.is_empty() || !self.resets.is_empty()
    }

    /// Whether [`poll_delivery`](Self::poll_delivery) would return something.
    #[inline]
    pub fn has_deliveries(&self) -> bool {
        !self.deliveries.is_empty()
    }

    /// The next frame to transmit now, if any.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_, T>> {
        if !self.resets.is_empty() {
            return self.transmit_reset();
        }
        loop {
            let &peer = self.transmit.front()?;
            let session = self.session_mut(peer);
            if let Some(plan) = session.plan() {
                return Some(self.build(now, peer, plan));
            }
            session.queued = false;
            self.transmit.pop_front();
        }
    }

    #[cold]
    fn transmit_reset(&mut self) -> Option<Transmit<'_, T>> {
        let (key, src_epoch, dst_epoch) = self.resets.pop_front()?;
        self.counters.resets += 1;
        let header = Header {
            kind: Kind::Reset,
            channel: key.channel,
            src_port: self.config.port,
            dst_port: key.port,
            src_epoch,
            dst_epoch,
            seq: src_epoch.first_seq(),
            ack: dst_epoch.first_seq(),
            credit: 0,
            flags: Flags::NONE,
        };
        Some(Transmit { to: Destination::Stranger(key), header, body: Body::Control(&[]) })
    }

    #[inline]
    fn build(&mut self, now: Instant, peer: PeerId, plan: Plan) -> Transmit<'_, T> {
        let to = Destination::Peer(peer);
        match plan {
            Plan::Data => self.build_data(now, peer, to),
            Plan::Ack | Plan::Probe => self.build_ack(now, peer, plan, to),
            Plan::Hello | Plan::HelloAck => self.build_hello(now, peer, plan, to),
        }
    }

    #[inline]
    fn build_data(&mut self, now: Instant, peer: PeerId, to: Destination) -> Transmit<'_, T> {
        let session = &mut self.sessions[peer.0 as usize];
        let send = session.send.as_mut().expect("established");
        let sent = send.transmit(now);
        let header = session.header(Kind::Data, self.config.port, sent.seq);
        session.transmitted(now);
        self.counters.retransmissions += u64::from(sent.repeated);
        if sent.oldest {
            let at = session.deadline(&self.config);
            self.arm(peer, at);
        }
        let send = self.sessions[peer.0 as usize].send.as_mut().expect("established");
        Transmit { to, header, body: Body::Message(send.message(sent.seq)) }
    }

    fn build_ack(
        &mut self,
        now: Instant,
        peer: PeerId,
        plan: Plan,
        to: Destination,
    ) -> Transmit<'_, T> {
        let session = &mut self.sessions[peer.0 as usize];
        let next = session.send.as_ref().expect("established").sent();
        let len = session.write_report(&mut self.report);
        let mut header = session.header(Kind::Ack, self.config.port, next);
        self.counters.acks_sent += 1;
        if plan == Plan::Probe {
            header.flags = Flags::ASK;
            session.probe_due = false;
            self.counters.probes += 1;
        }
        session.transmitted(now);
        Transmit { to, header, body: Body::Control(&self.report[..len]) }
    }

    #[cold]
    fn build_hello(
        &mut self,
        now: Instant,
        peer: PeerId,
        plan: Plan,
        to: Destination,
    ) -> Transmit<'_, T> {
        let session = &mut self.sessions[peer.0 as usize];
        let header = session.hello(now, plan, &self.config);
        let at = session.deadline(&self.config);
        self.arm(peer, at);
        let hello = Hello {
            max_payload: self.config.max_payload,
            reorder_window: self.config.reorder_window,
        };
        self.report[..Hello::LEN].copy_from_slice(&hello.to_bytes());
        Transmit { to, header, body: Body::Control(&self.report[..Hello::LEN]) }
    }

    /// The next message to deliver. When the application is done with it, [`release`](Self::release)
    /// must be called, or the peer will be stopped for good.
    #[inline]
    pub fn poll_delivery(&mut self) -> Option<Delivery<R>> {
        self.deliveries.pop_front()
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
        self.acknowledged.pop_front()
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
