//! Frames that arrived: which session they belong to and what they do to it
//! (`PROTOCOL.md` §4 to §6).

use super::memory::KEPT_WINDOWS;
use super::outputs::Outputs;
use super::{Protocol, Reply, Say};
use crate::receive::Sort;
use crate::session::State;
use crate::size::Echo;
use crate::{Arrival, Delivery, PeerId, PeerKey, Reason};
use gigae_wire::{AckReport, Discard, Epoch, Flags, Header, Kind, NodeAddr};

/// What a frame says.
struct Contents<'a> {
    header: &'a Header,
    payload: &'a [u8],
}

/// Where a frame came from.
struct Origin<'a> {
    path: usize,
    node: &'a NodeAddr,
}

impl<T, R> Protocol<T, R> {
    /// Takes in a received frame, and the buffer in which it lies. The buffer is taken out if it is
    /// kept; it comes out by [`poll_delivery`](Self::poll_delivery) or
    /// [`poll_discarded`](Self::poll_discarded). A frame that is not accepted is counted.
    #[inline(always)]
    pub fn handle(&mut self, arrival: Arrival<'_>, buffer: &mut Option<R>) -> Result<(), Discard> {
        // In two parts: the first goes in registers, and the second through memory. Neither all in
        // registers nor all through memory takes as few instructions.
        let Arrival { path, from: node, header, payload } = arrival;
        self.accept(Origin { path, node }, Contents { header, payload }, buffer)
    }

    #[inline(never)]
    fn accept(
        &mut self,
        Origin { path, node }: Origin<'_>,
        Contents { header, payload }: Contents<'_>,
        buffer: &mut Option<R>,
    ) -> Result<(), Discard> {
        let result = self.take_in(Arrival { path, from: node, header, payload }, buffer);
        if let Err(why) = result {
            self.counters.discard(why);
        }
        result
    }

    #[inline(always)]
    fn take_in(&mut self, arrival: Arrival<'_>, buffer: &mut Option<R>) -> Result<(), Discard> {
        let header = arrival.header;
        if header.dst_port != self.config.port {
            return Err(Discard::Port);
        }
        if !header.kind.is_of_session() {
            return self.take_in_besides(Arrival { ..arrival });
        }
        let peer = self.session_of(arrival)?;
        self.on_established(peer, arrival, buffer)
    }

    /// What belongs to no session that is up.
    fn take_in_besides(&mut self, arrival: Arrival<'_>) -> Result<(), Discard> {
        match arrival.header.kind {
            Kind::Hello => self.on_hello(arrival),
            Kind::HelloAck => self.on_hello_ack(arrival),
            Kind::Confirm => self.on_confirm(arrival),
            Kind::Reset => self.on_reset(arrival),
            // Questions and answers of §10 belong to no session.
            _ => Err(Discard::Malformed),
        }
    }

    /// The peer that a frame for the session with this epoch is from, by any of its addresses.
    fn find_by(&mut self, path: usize, key: &PeerKey, epoch: Epoch) -> Option<PeerId> {
        if path == 0 { self.find(key) } else { self.table.by_path.get(&(*key, epoch)).copied() }
    }

    /// The session that a frame belongs to by its epochs. Anything else is answered with a reset
    /// (rule 4.5).
    #[inline]
    fn session_of(&mut self, arrival: Arrival<'_>) -> Result<PeerId, Discard> {
        let Arrival { path, from: node, header, .. } = arrival;
        let last = self.table.last;
        if let Some(s) = self.sessions.get(last.0 as usize)
            && matches!(s.state, State::Established)
            && (header.dst_epoch, header.src_epoch) == (s.local, s.remote)
            && (header.src_port, header.channel) == (s.key.port, s.key.channel)
            && if path == 0 { *node == s.key.node } else { s.is_at(path, node) }
        {
            return Ok(last);
        }
        self.session_of_other(path, &arrival.key(), header)
    }

    /// Not of the session of the last frame, or the first of its session.
    #[inline(never)]
    fn session_of_other(
        &mut self,
        path: usize,
        key: &PeerKey,
        header: &Header,
    ) -> Result<PeerId, Discard> {
        if let Some(peer) = self.find_by(path, key, header.dst_epoch) {
            let s = self.session(peer);
            if s.is_up() && (header.dst_epoch, header.src_epoch) == (s.local, s.remote) {
                // A path leads from a link to the one of the same number.
                if path > 0 && !s.is_at(path, &key.node) {
                    return Err(Discard::Epoch);
                }
                self.settle(peer);
                return Ok(peer);
            }
            if s.farewell.is_some() {
                self.say_farewell_again(peer);
                return Err(Discard::Epoch);
            }
        }
        if header.dst_epoch != Epoch::UNKNOWN {
            let (src_epoch, dst_epoch) = (header.dst_epoch, header.src_epoch);
            let say = Say::Reset(Flags::NONE);
            self.reply(Reply { to: *key, path, src_epoch, dst_epoch, say });
        }
        Err(Discard::Epoch)
    }

    /// It has not heard the farewell, and a reset of another kind would deny what arrived.
    #[cold]
    pub(super) fn say_farewell_again(&mut self, peer: PeerId) {
        if let Some(farewell) = &mut self.session_mut(peer).farewell {
            farewell.due = true;
            self.enqueue(peer);
        }
    }

    /// Rules 4.5 and 8.4: the peer does not know the session, or it is over; a farewell says what
    /// had arrived until then.
    #[cold]
    #[inline(never)]
    fn on_reset(&mut self, arrival: Arrival<'_>) -> Result<(), Discard> {
        let (Arrival { path, header, .. }, key) = (arrival, arrival.key());
        let is_farewell = header.flags.has(Flags::ASK);
        if is_farewell {
            let (src_epoch, dst_epoch) = (header.dst_epoch, header.src_epoch);
            let say = Say::Reset(Flags::NONE);
            self.reply(Reply { to: key, path, src_epoch, dst_epoch, say });
        }
        let peer = self.find_by(path, &key, header.dst_epoch).ok_or(Discard::Epoch)?;
        let session = &mut self.sessions[peer.0 as usize];
        let of = |local, remote| header.dst_epoch == local && header.src_epoch == remote;
        if session.is_up() && of(session.local, session.remote) {
            if is_farewell {
                if let Some(send) = &mut session.send {
                    let done =
                        send.acknowledge(self.now, header.ack, &mut self.outputs.acknowledged)?;
                    self.memory.unacknowledged -= done as usize;
                }
                self.fail(peer, Reason::Reset);
            } else if header.flags.has(Flags::ANSWER) {
                self.fail(peer, Reason::Reset);
            } else {
                session.doubt(self.now);
                self.touch(peer);
                self.enqueue(peer);
            }
            return Ok(());
        }
        if session.farewell.as_ref().is_some_and(|f| of(session.local, f.remote)) {
            session.take_leave(None);
            self.closing -= 1;
            return Ok(());
        }
        Err(Discard::Epoch)
    }

    /// A frame of a session that is up: what it acknowledges, and what it carries.
    #[inline]
    fn on_established(
        &mut self,
        peer: PeerId,
        arrival: Arrival<'_>,
        buffer: &mut Option<R>,
    ) -> Result<(), Discard> {
        let header = arrival.header;
        self.on_acknowledgement(peer, arrival)?;
        let handled =
            if header.kind.is_data() { self.on_data(peer, header, buffer) } else { Ok(()) };
        self.watch_credit(peer);
        let session = &mut self.sessions[peer.0 as usize];
        if !session.undated {
            session.undated = true;
            self.schedule.undated.push(peer);
        }
        if !session.queued && session.plan().is_some() {
            session.queued = true;
            self.schedule.transmit.push_back(peer);
        }
        handled
    }

    #[inline]
    fn on_acknowledgement(&mut self, peer: PeerId, arrival: Arrival<'_>) -> Result<(), Discard> {
        let Arrival { path, header, payload, .. } = arrival;
        let session = &mut self.sessions[peer.0 as usize];
        session.heard_on = path as u8;
        let send = session.send.as_mut().expect("established");
        let done = send.acknowledge(self.now, header.ack, &mut self.outputs.acknowledged)?;
        self.memory.unacknowledged -= done as usize;
        send.credit(header.ack, header.credit);
        if header.kind == Kind::Ack
            && let Some(report) = AckReport::parse(payload)?
        {
            let keeps = session.peer.reorder_window > 0;
            send.report(self.now, header.ack, &report, keeps);
        }
        session.heard(done > 0);
        if matches!(header.kind, Kind::Probe | Kind::Echo) {
            return self.on_size(peer, path, header.kind, payload);
        }
        if header.flags.has(Flags::ASK) || header.flags.has(Flags::ANSWER) {
            session.marked(header.flags, path, &self.config);
        }
        if self.memory.windows > KEPT_WINDOWS && done > 0 {
            self.shrink(peer);
        }
        Ok(())
    }

    /// Rules 12.2 and 12.3: the peer asks whether a frame arrives, or says that one did.
    #[cold]
    fn on_size(
        &mut self,
        peer: PeerId,
        path: usize,
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
        let Self { outputs: Outputs { deliveries, operations, .. }, counters, .. } = self;
        // Half of the link's frames always remain for what is in order, however many peers there
        // are: kept frames could otherwise occupy all and lock out those that would release them.
        let crowded = self.memory.kept >= self.config.receive_frames / 2;
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
        self.memory.kept = self.memory.kept + receive.kept() - kept_before;
        self.memory.tables += usize::from(receive.has_new_table());
        if self.memory.tables > KEPT_WINDOWS {
            self.memory.tables -= usize::from(receive.shrink());
        }
    }

    /// A frame of another protocol version came from a node: a session being proposed to it fails
    /// if its repeated Hello stays unanswered. The node gets a Reset of our version, unless the
    /// frame was itself such an answer. `kind` is the low half of header byte 4, whose value 5
    /// means Reset in every version.
    #[cold]
    pub fn handle_foreign_version(
        &mut self,
        (path, node): (usize, NodeAddr),
        channel: u8,
        version: u8,
        kind: u8,
    ) {
        self.counters.version += 1;
        self.note_version(&node, version);
        if kind != Kind::Reset as u8 {
            let to = PeerKey { node, port: 0, channel };
            let (src_epoch, dst_epoch) = (Epoch::UNKNOWN, Epoch::UNKNOWN);
            let say = Say::Reset(Flags::NONE);
            self.reply(Reply { to, path, src_epoch, dst_epoch, say });
        }
    }
}
