//! Frames that arrived: which session they belong to and what they do to it
//! (`PROTOCOL.md` §4 to §6).

use super::{KEPT_WINDOWS, MAX_RESETS, Protocol, ResetTo};
use crate::receive::Sort;
use crate::session::{Pending, State};
use crate::size::Echo;
use crate::{Delivery, PathTo, PeerId, PeerKey, Reason};
use gigae_wire::{AckReport, Discard, Epoch, Flags, Header, Hello, Kind, NodeAddr, Paths};

/// Fewest bytes that a peer must be able to receive in an Op frame.
const LEAST_OPERATIONS: u16 = 128;

impl<T, R> Protocol<T, R> {
    /// Takes in a received frame: the path it came by (the number of the link, 0 unless there are
    /// several) and who sent it, its parsed header and payload, and the buffer in
    /// which it lies. The buffer is taken out if it is kept; it comes out by
    /// [`poll_delivery`](Self::poll_delivery) or [`poll_discarded`](Self::poll_discarded). A frame that is
    /// not accepted is counted.
    #[inline]
    pub fn handle(
        &mut self,
        from: (usize, &NodeAddr),
        (header, payload): (&Header, &[u8]),
        buffer: &mut Option<R>,
    ) -> Result<(), Discard> {
        let result = self.accept(from, header, payload, buffer);
        if let Err(why) = result {
            self.counters.discard(why);
        }
        result
    }

    #[inline]
    fn accept(
        &mut self,
        (path, node): (usize, &NodeAddr),
        header: &Header,
        payload: &[u8],
        buffer: &mut Option<R>,
    ) -> Result<(), Discard> {
        if header.dst_port != self.config.port {
            return Err(Discard::Port);
        }
        if header.kind.is_of_session() {
            let peer = self.confirm(path, node, header)?;
            return self.on_established((peer, path), header, payload, buffer);
        }
        let key = PeerKey { node: *node, port: header.src_port, channel: header.channel };
        match header.kind {
            Kind::Hello => self.on_hello((path, key), header, payload),
            Kind::HelloAck => self.on_hello_ack((path, key), header, payload),
            Kind::Reset => self.on_reset((path, key), header),
            // Questions and answers of §10 belong to no session.
            _ => Err(Discard::Malformed),
        }
    }

    /// Rule 4.2: a proposal is answered and otherwise changes nothing until the proposer uses it.
    fn on_hello(
        &mut self,
        (path, key): (usize, PeerKey),
        header: &Header,
        payload: &[u8],
    ) -> Result<(), Discard> {
        let hello = usable(payload)?;
        let (key, links) = named_by_first(path, key, payload)?;
        if self.closed {
            return Err(Discard::Port);
        }
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
        let session = self.session(peer);
        let up = session.state == State::Established;
        // Nobody has proved yet that he is there: where a session that is up sends its frames stays as it is.
        let back =
            if up && path > 0 && session.links.get(path) != links.get(path) { 0 } else { path };
        if !up || session.remote != remote {
            let pending = Pending { local, remote, hello, links, credit: header.credit };
            if let Some(former) = self.session_mut(peer).pending.replace(pending) {
                self.forget(peer, former.local, &former.links);
            }
            self.learn(peer, local, &links);
        }
        if !up {
            self.lead(peer, &links);
        }
        self.session_mut(peer).answer = Some((local, remote, back as u8));
        self.enqueue(peer);
        Ok(())
    }

    /// A peer's further addresses that this end has paths to, and the numbers of these.
    fn further(
        &self,
        peer: PeerId,
        links: &Paths,
    ) -> impl Iterator<Item = (usize, PeerKey)> + use<T, R> {
        let (key, links) = (self.session(peer).key, *links);
        (1..links.len().min(self.config.own_paths())).filter_map(move |path| {
            let node = NodeAddr::from(links.get(path)?);
            Some((path, PeerKey { node, ..key }))
        })
    }

    /// Frames of the session with this epoch come from these addresses, too (rule 11.2).
    fn learn(&mut self, peer: PeerId, epoch: Epoch, links: &Paths) {
        for (_, key) in self.further(peer, links) {
            self.by_path.insert((key, epoch), peer);
        }
    }

    /// They do not any more.
    fn forget(&mut self, peer: PeerId, epoch: Epoch, links: &Paths) {
        for (_, key) in self.further(peer, links) {
            self.by_path.remove(&(key, epoch));
        }
    }

    /// The session that a peer had is over for good: a new one is proposed or comes up.
    pub(super) fn forget_paths(&mut self, peer: PeerId) {
        let session = self.session_mut(peer);
        let links = std::mem::take(&mut session.links);
        let epoch = session.local;
        self.forget(peer, epoch, &links);
    }

    /// Where the paths to a peer lead.
    fn lead(&mut self, peer: PeerId, links: &Paths) {
        for (path, PeerKey { node, .. }) in self.further(peer, links) {
            self.routes.push_back(PathTo { peer, path, node });
        }
    }

    /// The peer that a frame for the session with this epoch is from, by any of its addresses.
    fn find_by(&mut self, path: usize, key: &PeerKey, epoch: Epoch) -> Option<PeerId> {
        if path == 0 { self.find(key) } else { self.by_path.get(&(*key, epoch)).copied() }
    }

    /// Rule 4.3: the answer to our proposal establishes the session.
    fn on_hello_ack(
        &mut self,
        (path, key): (usize, PeerKey),
        header: &Header,
        payload: &[u8],
    ) -> Result<(), Discard> {
        let hello = usable(payload)?;
        let (key, links) = named_by_first(path, key, payload)?;
        let peer = self.find(&key).ok_or(Discard::Epoch)?;
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
        let with = Pending { local, remote, hello, links, credit: header.credit };
        self.establish(peer, with, path);
        self.enqueue(peer);
        Ok(())
    }

    fn establish(&mut self, peer: PeerId, with: Pending, by: usize) {
        if let Some(pending) = self.session(peer).pending {
            self.forget(peer, pending.local, &pending.links);
        }
        self.forget_paths(peer);
        self.sessions[peer.0 as usize].establish(with, by, &self.config);
        self.learn(peer, with.local, &with.links);
        self.lead(peer, &with.links);
        self.established += 1;
        self.divide_credit();
        self.credit += self.session(peer).receive.as_ref().map_or(0, |r| r.window());
        self.counters.sessions += 1;
        let longest = self.session(peer).send.as_ref().map_or(0, |s| s.longest());
        if longest > with.hello.max_payload {
            self.fail(peer, Reason::TooLong(with.hello.max_payload));
        }
    }

    /// The session that a frame belongs to by its epochs; a pending one is established by its
    /// first use. Anything else is answered with a reset (rule 4.5).
    #[inline]
    fn confirm(
        &mut self,
        path: usize,
        node: &NodeAddr,
        header: &Header,
    ) -> Result<PeerId, Discard> {
        let last = self.last;
        if let Some(s) = self.sessions.get(last.0 as usize)
            && s.state == State::Established
            && (header.dst_epoch, header.src_epoch) == (s.local, s.remote)
            && (header.src_port, header.channel) == (s.key.port, s.key.channel)
            && if path == 0 { *node == s.key.node } else { s.is_at(path, node) }
        {
            return Ok(last);
        }
        let key = PeerKey { node: *node, port: header.src_port, channel: header.channel };
        self.confirm_other((path, key), header)
    }

    /// Not of the session of the last frame.
    fn confirm_other(
        &mut self,
        (path, key): (usize, PeerKey),
        header: &Header,
    ) -> Result<PeerId, Discard> {
        if let Some(peer) = self.find_by(path, &key, header.dst_epoch) {
            let s = self.session(peer);
            let of = |local, remote| header.dst_epoch == local && header.src_epoch == remote;
            if s.state == State::Established && of(s.local, s.remote) {
                // A path leads from a link to the one of the same number.
                let here = if path == 0 { key == s.key } else { s.is_at(path, &key.node) };
                return if here { Ok(peer) } else { Err(Discard::Epoch) };
            }
            // What it was proposed with says by which ways it is used.
            let here =
                |p: &Pending| path == 0 || p.links.get(path).map(NodeAddr::from) == Some(key.node);
            if let Some(pending) = s.pending.filter(|p| of(p.local, p.remote) && here(p)) {
                self.switch(peer, pending, path);
                // It may have ended at once: what was queued is longer than the peer receives.
                if self.session(peer).state == State::Established {
                    return Ok(peer);
                }
            } else if let Some(farewell) = &mut self.session_mut(peer).farewell {
                // It has not heard the farewell, and a reset of another kind would deny what arrived.
                farewell.due = true;
                self.enqueue(peer);
                return Err(Discard::Epoch);
            }
        }
        if self.resets.len() < MAX_RESETS && header.dst_epoch != Epoch::UNKNOWN {
            let (src_epoch, dst_epoch) = (header.dst_epoch, header.src_epoch);
            self.resets.push_back(ResetTo { key, src_epoch, dst_epoch, path });
        }
        Err(Discard::Epoch)
    }

    /// The peer uses the session that it proposed: whatever was before is over (rule 4.4).
    #[cold]
    fn switch(&mut self, peer: PeerId, pending: Pending, by: usize) {
        if self.session(peer).state == State::Established {
            self.fail(peer, Reason::Reset);
        }
        self.establish(peer, pending, by);
    }

    /// Rules 4.5 and 8.4: the session is over; a farewell says what had arrived until then.
    fn on_reset(&mut self, (path, key): (usize, PeerKey), header: &Header) -> Result<(), Discard> {
        let is_farewell = header.flags.has(Flags::ASK);
        if is_farewell && self.resets.len() < MAX_RESETS {
            let (src_epoch, dst_epoch) = (header.dst_epoch, header.src_epoch);
            self.resets.push_back(ResetTo { key, src_epoch, dst_epoch, path });
        }
        let peer = self.find_by(path, &key, header.dst_epoch).ok_or(Discard::Epoch)?;
        let session = &mut self.sessions[peer.0 as usize];
        let of = |local, remote| header.dst_epoch == local && header.src_epoch == remote;
        match session.state {
            State::Established if of(session.local, session.remote) => {
                if is_farewell && let Some(send) = &mut session.send {
                    let done = send.acknowledge(self.now, header.ack, &mut self.acknowledged)?;
                    self.unacknowledged -= done as usize;
                }
                self.fail(peer, Reason::Reset);
                Ok(())
            }
            State::Closing
                if session.farewell.as_ref().is_some_and(|f| of(session.local, f.remote)) =>
            {
                session.take_leave(None);
                self.closing -= 1;
                Ok(())
            }
            _ => Err(Discard::Epoch),
        }
    }

    /// A frame of a session that is up: what it acknowledges, and what it carries.
    #[inline]
    fn on_established(
        &mut self,
        (peer, path): (PeerId, usize),
        header: &Header,
        payload: &[u8],
        buffer: &mut Option<R>,
    ) -> Result<(), Discard> {
        self.on_acknowledgement((peer, path), header, payload)?;
        let handled =
            if header.kind.is_data() { self.on_data(peer, header, buffer) } else { Ok(()) };
        self.watch_credit(peer);
        let session = &mut self.sessions[peer.0 as usize];
        if !session.undated {
            session.undated = true;
            self.undated.push(peer);
        }
        if !session.queued && session.plan().is_some() {
            session.queued = true;
            self.transmit.push_back(peer);
        }
        handled
    }

    #[inline]
    fn on_acknowledgement(
        &mut self,
        (peer, path): (PeerId, usize),
        header: &Header,
        payload: &[u8],
    ) -> Result<(), Discard> {
        let session = &mut self.sessions[peer.0 as usize];
        session.heard_on = path as u8;
        let send = session.send.as_mut().expect("established");
        let done = send.acknowledge(self.now, header.ack, &mut self.acknowledged)?;
        self.unacknowledged -= done as usize;
        send.credit(header.ack, header.credit);
        if header.kind == Kind::Ack
            && let Some(report) = AckReport::parse(payload)?
        {
            let keeps = session.peer.reorder_window > 0;
            send.report(self.now, header.ack, &report, keeps);
        }
        session.heard(done > 0);
        if matches!(header.kind, Kind::Probe | Kind::Echo) {
            return self.on_size((peer, path), header.kind, payload);
        }
        if header.flags.has(Flags::ASK) || header.flags.has(Flags::ANSWER) {
            session.marked(header.flags, path, &self.config);
        }
        if self.windows > KEPT_WINDOWS && done > 0 {
            self.shrink(peer);
        }
        Ok(())
    }

    /// Rules 12.2 and 12.3: the peer asks whether a frame arrives, or says that one did.
    #[cold]
    fn on_size(
        &mut self,
        (peer, path): (PeerId, usize),
        kind: Kind,
        payload: &[u8],
    ) -> Result<(), Discard> {
        let echo = Echo::parse(payload).ok_or(Discard::Malformed)?;
        let session = &mut self.sessions[peer.0 as usize];
        if kind == Kind::Probe {
            session.on_probe(echo, path);
            return Ok(());
        }
        self.counters.black_holes += u64::from(session.on_echo(echo, &self.config));
        let max = session.peer.max_payload;
        if !session.sizing && session.send.as_ref().is_some_and(|send| send.longest() > max) {
            self.fail(peer, Reason::TooLong(max));
        }
        Ok(())
    }

    #[inline]
    fn on_data(
        &mut self,
        peer: PeerId,
        header: &Header,
        buffer: &mut Option<R>,
    ) -> Result<(), Discard> {
        let session = &mut self.sessions[peer.0 as usize];
        let epoch = session.local;
        let receive = session.receive.as_mut().expect("established");
        let Self { deliveries, operations, counters, .. } = self;
        // Half of the link's frames always remain for what is in order, however many peers there
        // are: kept frames could otherwise occupy all and lock out those that would release them.
        let crowded = self.kept >= self.config.receive_frames / 2;
        let reorder_window = if crowded { 0 } else { self.config.reorder_window };
        let kept_before = receive.kept();
        let sort = if header.kind == Kind::Op { Sort::Operations } else { Sort::Messages };
        let taken = receive.take(header.seq, (buffer, sort), reorder_window, |buffer, sort| {
            counters.frames_delivered += 1;
            let queue = match sort {
                Sort::Messages => &mut *deliveries,
                Sort::Operations => &mut *operations,
            };
            queue.push_back(Delivery { peer, epoch, buffer });
        });
        receive.schedule(self.config.ack_every);
        if taken.is_err() || receive.kept() != kept_before {
            self.not_next(peer, taken, kept_before);
        }
        taken
    }

    /// A frame was not the next, or it was and more that were kept are in order with it.
    #[cold]
    #[inline(never)]
    fn not_next(&mut self, peer: PeerId, taken: Result<(), Discard>, kept_before: u32) {
        let session = &mut self.sessions[peer.0 as usize];
        if taken == Err(Discard::Duplicate) {
            session.heard_again();
        }
        let Some(receive) = &mut session.receive else { return };
        self.kept = self.kept + receive.kept() - kept_before;
        self.tables += usize::from(receive.has_new_table());
        if self.tables > KEPT_WINDOWS {
            self.tables -= usize::from(receive.shrink());
        }
    }

    /// A frame of another protocol version came from a node: sessions being proposed to it fail,
    /// and it is told our version, unless the frame was itself such an answer. `kind` is the low
    /// half of header byte 4, whose value 5 means Reset in every version.
    #[cold]
    pub fn handle_foreign_version(
        &mut self,
        (path, node): (usize, NodeAddr),
        channel: u8,
        version: u8,
        kind: u8,
    ) {
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
            let (src_epoch, dst_epoch) = (Epoch::UNKNOWN, Epoch::UNKNOWN);
            self.resets.push_back(ResetTo { key, src_epoch, dst_epoch, path });
        }
    }
}

/// What a peer can receive. Operations need room for the longest header of one and some data (§2): with less, what
/// is owed to it could never be sent.
fn usable(payload: &[u8]) -> Result<Hello, Discard> {
    let hello = Hello::parse(payload)?;
    if hello.max_operations < LEAST_OPERATIONS { Err(Discard::Malformed) } else { Ok(hello) }
}

/// Whom a proposal or its answer is from, and by which links it can be reached: the first names an
/// endpoint with several, and what comes by a link comes from the one of the same number (rule
/// 11.2).
fn named_by_first(path: usize, key: PeerKey, payload: &[u8]) -> Result<(PeerKey, Paths), Discard> {
    let links = Paths::parse(payload)?;
    let (first, here) = match links.get(0) {
        Some(first) => (first.into(), links.get(path).map(NodeAddr::from)),
        None => (key.node, (path == 0).then_some(key.node)),
    };
    if here != Some(key.node) {
        return Err(Discard::Malformed);
    }
    Ok((PeerKey { node: first, ..key }, links))
}
