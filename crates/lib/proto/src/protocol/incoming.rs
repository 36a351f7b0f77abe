//! Frames that arrived: which session they belong to and what they do to it
//! (`PROTOCOL.md` §4 to §6).

use super::memory::KEPT_WINDOWS;
use super::outputs::Outputs;
use super::{Protocol, ReplyKind, StatelessReply};
use crate::log;
use crate::receive::DataKind;
use crate::session::{Challenge, SessionState};
use crate::size::Echo;
use crate::{Arrival, Delivery, ForeignFrame, PathTo, PeerId, PeerKey, Reason};
use gigae_wire::{AckReport, Discard, Epoch, Flags, Header, Kind, NodeAddr, PathId, SeqNo};

/// Bulk frames after which an acknowledgement goes out at the latest: each may be 64 KiB.
const ACK_EVERY_BULK: u16 = 2;

/// Longest payload in bytes of an Ack with a report. Questions by a socket and their answers are
/// longer (rule 13.2).
const LONGEST_REPORT: usize = 4 + AckReport::MAX_BITMAP;

/// The contents of a frame.
struct Contents<'a> {
    header: &'a Header,
    payload: &'a [u8],
}

/// Where a frame came from.
struct Origin<'a> {
    path: PathId,
    node: &'a NodeAddr,
}

/// # Frames that arrived
impl<T, R> Protocol<T, R> {
    /// Takes in a received frame and the buffer that holds it. If the protocol keeps the buffer, it
    /// takes it out. The buffer comes back by [`poll_delivery`](Self::poll_delivery) or
    /// [`poll_discarded`](Self::poll_discarded). A frame that is not accepted is counted.
    #[inline(always)]
    pub fn handle(&mut self, arrival: Arrival<'_>, buffer: &mut Option<R>) -> Result<(), Discard> {
        // Two parts: the first passes its arguments in registers, the second in memory. This takes
        // fewer instructions than registers only or memory only.
        let Arrival { path, from: node, header, payload } = arrival;
        self.accept(Origin { path, node }, Contents { header, payload }, buffer)
    }

    /// The same for a bulk frame that came by the link in parts, and lies in the memory of those
    /// that come by the socket.
    #[cold]
    pub fn handle_reassembled(
        &mut self,
        arrival: Arrival<'_>,
        buffer: &mut Option<R>,
    ) -> Result<(), Discard> {
        self.memory.reassembled = true;
        let taken = self.handle(arrival, buffer);
        self.memory.reassembled = false;
        taken
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
            // Rule 13.2: sessions neither come up nor end by a socket.
            if !arrival.path.is_first() && self.config.bulk.is_some() {
                return Err(Discard::Malformed);
            }
            return self.take_in_besides(Arrival { ..arrival });
        }
        // Nothing but the checksum shows whether such a frame was put together right (rule 13.3).
        let by_socket = !arrival.path.is_first() && self.config.bulk.is_some();
        if by_socket && header.flags.has(Flags::HEADER_ONLY) {
            return Err(Discard::Malformed);
        }
        let peer = self.session_of(arrival)?;
        self.on_established(peer, arrival, buffer)
    }

    /// Handles a frame that belongs to no session that is up.
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

    /// The peer that sent a frame for the session with this epoch, by any of its addresses.
    pub(super) fn find_by(&mut self, path: PathId, key: &PeerKey, epoch: Epoch) -> Option<PeerId> {
        if path.is_first() {
            return self.find(key);
        }
        self.table.by_path.get(&(*key, epoch)).copied()
    }

    /// The session that a frame belongs to, by its epochs. Anything else gets a Reset (rule 4.5).
    #[inline]
    fn session_of(&mut self, arrival: Arrival<'_>) -> Result<PeerId, Discard> {
        let last = self.table.last;
        if self.is_of(last, &arrival) {
            return Ok(last);
        }
        self.session_of_other(arrival.path, &arrival.key(), arrival.header)
    }

    /// Whether a frame belongs to the session with a peer, which is up.
    #[inline(always)]
    pub(super) fn is_of(&self, peer: PeerId, arrival: &Arrival<'_>) -> bool {
        let &Arrival { path, from: node, header, .. } = arrival;
        let Some(s) = self.sessions.get(peer.0 as usize) else { return false };
        matches!(s.state, SessionState::Established)
            && (header.dst_epoch, header.src_epoch) == (s.local, s.remote)
            && (header.src_port, header.channel) == (s.key.port, s.key.channel)
            && if path.is_first() { *node == s.key.node } else { s.is_at(path, node) }
    }

    /// Whether a data frame is the next in order from a peer, so that [`handle`](Self::handle)
    /// would deliver it at once.
    pub fn is_next(&self, peer: PeerId, arrival: &Arrival<'_>) -> bool {
        let header = arrival.header;
        header.dst_port == self.config.port
            && self.is_of(peer, arrival)
            && self.session(peer).receive.as_ref().is_some_and(|r| r.is_next(header.seq))
    }

    /// For a frame of another session than the last frame's, or the first frame of its session.
    #[inline(never)]
    fn session_of_other(
        &mut self,
        path: PathId,
        key: &PeerKey,
        header: &Header,
    ) -> Result<PeerId, Discard> {
        if let Some(peer) = self.find_by(path, key, header.dst_epoch) {
            let s = self.session(peer);
            if s.is_up() && (header.dst_epoch, header.src_epoch) == (s.local, s.remote) {
                // A path leads from a link to the one of the same number.
                if !path.is_first() && !s.is_at(path, &key.node) {
                    return Err(Discard::Epoch);
                }
                self.settle(peer);
                return Ok(peer);
            }
            if s.close.is_some() {
                self.repeat_close(peer);
                return Err(Discard::Epoch);
            }
        }
        if header.dst_epoch != Epoch::UNKNOWN {
            let (src_epoch, dst_epoch) = (header.dst_epoch, header.src_epoch);
            let what = ReplyKind::Reset(Flags::NONE);
            self.reply(StatelessReply { to: *key, path, src_epoch, dst_epoch, what });
        }
        Err(Discard::Epoch)
    }

    /// The peer has not received the close yet. A Reset of another kind would deny what arrived.
    #[cold]
    pub(super) fn repeat_close(&mut self, peer: PeerId) {
        if let Some(close) = &mut self.session_mut(peer).close {
            close.due = true;
            self.enqueue(peer);
        }
    }

    /// Rules 4.5 and 8.4: the peer does not know the session, or it has closed. A graceful close
    /// says what had arrived by then.
    #[cold]
    #[inline(never)]
    fn on_reset(&mut self, arrival: Arrival<'_>) -> Result<(), Discard> {
        let (Arrival { path, header, .. }, key) = (arrival, arrival.key());
        let is_close = header.flags.has(Flags::ASK);
        if is_close {
            let (src_epoch, dst_epoch) = (header.dst_epoch, header.src_epoch);
            let what = ReplyKind::Reset(Flags::NONE);
            self.reply(StatelessReply { to: key, path, src_epoch, dst_epoch, what });
        }
        let peer = self.find_by(path, &key, header.dst_epoch).ok_or(Discard::Epoch)?;
        let session = &mut self.sessions[peer.0 as usize];
        let of = |local, remote| header.dst_epoch == local && header.src_epoch == remote;
        if session.is_up() && of(session.local, session.remote) {
            if is_close {
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
        if session.close.as_ref().is_some_and(|f| of(session.local, f.remote)) {
            session.set_close(None);
            self.closing -= 1;
            log::closed(&session.key, true);
            return Ok(());
        }
        Err(Discard::Epoch)
    }

    /// Handles a frame of a session that is up: what it acknowledges, and what it carries.
    #[inline]
    fn on_established(
        &mut self,
        peer: PeerId,
        arrival: Arrival<'_>,
        buffer: &mut Option<R>,
    ) -> Result<(), Discard> {
        let (header, length) = (arrival.header, arrival.payload.len());
        self.on_acknowledgement(peer, arrival)?;
        let handled =
            if header.kind.is_data() { self.on_data(peer, header, buffer) } else { Ok(()) };
        if self.shares_credit(header) {
            let is_data = header.kind.is_data() && handled.is_ok();
            self.demanded(peer, header, is_data.then_some(length));
        }
        self.after_frame(peer);
        handled
    }

    /// A frame has changed what a session may send, or must.
    #[inline(always)]
    pub(super) fn after_frame(&mut self, peer: PeerId) {
        self.watch_credit(peer);
        let session = &mut self.sessions[peer.0 as usize];
        if !session.unstamped {
            session.unstamped = true;
            self.schedule.unstamped.push(peer);
        }
        if !session.queued && session.next_frame().is_some() {
            session.queued = true;
            self.schedule.transmit.push_back(peer);
        }
    }

    /// A frame acknowledges others, and gives credit. Returns how many it acknowledges; nothing has
    /// changed if it must be refused.
    #[inline(always)]
    pub(super) fn acknowledge(&mut self, peer: PeerId, header: &Header) -> Result<u32, Discard> {
        let send = self.sessions[peer.0 as usize].send.as_mut().expect("established");
        let done = send.acknowledge(self.now, header.ack, &mut self.outputs.acknowledged)?;
        self.memory.unacknowledged -= done as usize;
        send.credit(header.ack, header.credit);
        Ok(done)
    }

    #[inline]
    fn on_acknowledgement(&mut self, peer: PeerId, arrival: Arrival<'_>) -> Result<(), Discard> {
        let Arrival { path, header, payload, .. } = arrival;
        self.session_mut(peer).received_on = path;
        let done = self.acknowledge(peer, header)?;
        let session = &mut self.sessions[peer.0 as usize];
        if header.kind == Kind::Ack
            && let Some(report) = AckReport::parse(payload)?
            && let Some(send) = &mut session.send
        {
            let keeps = session.peer.reorder_window > 0;
            let lost = send.report(self.now, header.ack, &report, keeps);
            if lost > 0 {
                log::lost(&session.key, lost);
            }
        }
        session.received(done > 0);
        if matches!(header.kind, Kind::Probe | Kind::Echo) {
            return self.on_size(peer, path, header.kind, payload);
        }
        if header.flags.has(Flags::ASK) || header.flags.has(Flags::ANSWER) {
            let (mut flags, mut uncoalesced) = (header.flags, None);
            if let Some(send) = &mut session.send {
                send.asked();
            }
            if !path.is_first() && self.config.bulk.is_some() {
                let challenge = Challenge::read(payload);
                // Only who received the question at the named address can repeat its token. No
                // answer is longer than its question.
                if flags.has(Flags::ASK) && payload.len() <= LONGEST_REPORT {
                    flags = Flags::NONE;
                } else if flags.has(Flags::ASK) {
                    session.challenge = Challenge { uncoalesced: None, ..challenge };
                    flags = Flags::ASK;
                } else if challenge.token != self.secret.socket(&session.key, session.local) {
                    flags = Flags::NONE;
                } else {
                    uncoalesced = challenge.uncoalesced;
                }
            }
            let known = session.uncoalesced;
            // If the path comes up by this, nothing is known any more.
            session.marked(flags, path, &self.config);
            session.uncoalesced = uncoalesced.or(session.uncoalesced);
            let is = |uncoalesced: Option<bool>| uncoalesced.unwrap_or(false);
            if is(known) != is(session.uncoalesced)
                && let Some(addr) = session.links.get(path)
            {
                let uncoalesced = is(session.uncoalesced);
                log::uncoalesced(&session.key, uncoalesced);
                self.routes.push_back(PathTo { peer, path, addr, uncoalesced });
            }
        }
        self.shrink_if_many(peer, done);
        Ok(())
    }

    /// Rules 12.2 and 12.3: the peer asks whether a frame arrives, or answers that one did.
    #[cold]
    fn on_size(
        &mut self,
        peer: PeerId,
        path: PathId,
        kind: Kind,
        payload: &[u8],
    ) -> Result<(), Discard> {
        let echo = Echo::parse(payload).ok_or(Discard::Malformed)?;
        let session = &mut self.sessions[peer.0 as usize];
        if kind == Kind::Probe {
            session.on_probe(echo, path);
            return Ok(());
        }
        let vanish = session.on_echo(echo, &self.config);
        let (max, longest) = (session.peer.max_payload, session.peer.max_operations);
        if vanish {
            self.counters.black_holes += 1;
            log::long_frames_vanish(&session.key, longest);
        }
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
        let mut reorder_window = self.config.reorder_window;
        let undelivered = self.outputs.deliveries.len();
        if self.memory.kept > 0 || undelivered >= self.config.receive_frames as usize {
            reorder_window = self.reorder_window_of_few(peer, header)?;
        }
        let session = &mut self.sessions[peer.0 as usize];
        let epoch = session.local;
        let receive = session.receive.as_mut().expect("established");
        let mut ack_every = self.config.ack_every;
        receive.is_bulk = self.memory.reassembled;
        if !session.received_on.is_first() && self.config.bulk.is_some() {
            receive.is_bulk = true;
            receive.expect_disorder(true);
            ack_every = ACK_EVERY_BULK;
        }
        let Self { outputs: Outputs { deliveries, operations, .. }, counters, .. } = self;
        let kept_before = receive.kept();
        let kind = if header.kind == Kind::Op { DataKind::Operations } else { DataKind::Messages };
        let overtakes = kind == DataKind::Operations && header.flags.has(Flags::EARLY);
        receive.overtakes = overtakes.then_some(header.flags.back());
        let taken = receive.take(header.seq, buffer, kind, reorder_window, |buffer, kind| {
            counters.frames_delivered += 1;
            let queue = match kind {
                DataKind::Messages => &mut *deliveries,
                DataKind::Operations => &mut *operations,
            };
            queue.push_back(Delivery { peer, epoch, buffer });
        });
        receive.schedule(ack_every);
        if header.flags.has(Flags::STOPPED) {
            receive.stopped_sender();
        }
        if taken.is_err() || receive.kept() != kept_before {
            self.not_next(peer, taken, kept_before);
        }
        taken
    }

    /// Where frames are kept out of order or the program leaves as many messages as there is credit
    /// for: whether this frame is refused, and the reorder window for it.
    ///
    /// Beyond that there are a sixth as many frames for named peers. So what ended sessions have
    /// left, and more sessions than the first credits are planned for, lock out no acknowledgement
    /// and no named peer.
    #[cold]
    #[inline(never)]
    fn reorder_window_of_few(&mut self, peer: PeerId, header: &Header) -> Result<u16, Discard> {
        let frames = self.config.receive_frames as usize;
        let kept = (self.memory.kept - self.memory.kept_bulk) as usize;
        let used = self.outputs.deliveries.len() + kept;
        let session = self.session(peer);
        let are_left = used < if session.named { frames + frames / 6 } else { frames };
        let by_socket = !session.received_on.is_first() && self.config.bulk.is_some();
        let is_bulk = by_socket || self.memory.reassembled;
        if header.kind != Kind::Op && used >= frames {
            self.keep_message_of_named(peer, header.seq, are_left)?;
        }
        let may_keep = if is_bulk || used < frames {
            self.may_keep(peer, is_bulk)
        } else {
            are_left && self.has_part_of_named(peer)
        };
        Ok(if may_keep { self.config.reorder_window } else { 0 })
    }

    /// Whether a peer is named, and has and keeps fewer frames than its part of those of named
    /// peers.
    fn has_part_of_named(&self, peer: PeerId) -> bool {
        let part = self.part(true, self.config.receive_frames as usize / 6, true);
        let session = self.session(peer);
        let receive = session.receive.as_ref().expect("established");
        session.named && ((receive.held() + receive.kept() - receive.kept_bulk()) as usize) < part
    }

    /// Refuses a message for which there is no frame left, unless its sender is a named peer and
    /// has fewer than its part of the frames of these.
    fn keep_message_of_named(
        &mut self,
        peer: PeerId,
        seq: SeqNo,
        are_left: bool,
    ) -> Result<(), Discard> {
        let part = self.part(true, self.config.receive_frames as usize / 6, true);
        let session = &mut self.sessions[peer.0 as usize];
        let receive = session.receive.as_mut().expect("established");
        let is_duplicate = seq.is_before(receive.next());
        // Frames kept out of order do not count, since this one may be what they wait for.
        if is_duplicate || are_left && session.named && (receive.held() as usize) < part {
            return Ok(());
        }
        // The sender learns that this end is there.
        receive.ask();
        Err(Discard::Window)
    }

    /// Whether another frame of a peer may be kept out of order. Half of the frames for which there
    /// is credit always remain for those in order, which release them. From half of what may be
    /// kept on, an unnamed peer keeps only its part of a quarter of it, and the last quarter is for
    /// named peers, in parts. So gaps that no sender fills leave room for others.
    fn may_keep(&self, peer: PeerId, is_bulk: bool) -> bool {
        let session = self.session(peer);
        let Some(receive) = &session.receive else { return false };
        let counts = self.memory.kept_of(is_bulk, receive);
        let [most, all, own] = counts.map(|count| count as usize);
        let is_last_quarter = all >= most - most / 4;
        all < most && (all < most / 2 || own < self.part(session.named, most / 4, is_last_quarter))
    }

    /// Handles a frame that was not the next, or that released frames kept out of order.
    #[cold]
    #[inline(never)]
    fn not_next(&mut self, peer: PeerId, taken: Result<(), Discard>, kept_before: u32) {
        let session = &mut self.sessions[peer.0 as usize];
        if taken == Err(Discard::Duplicate) {
            session.on_duplicate();
        }
        let epoch = session.local;
        let Some(receive) = &mut session.receive else { return };
        if receive.kept() > kept_before
            && taken.is_ok()
            && let Some(buffer) = receive.take_early()
        {
            self.counters.frames_delivered += 1;
            self.outputs.operations.push_back(Delivery { peer, epoch, buffer });
        }
        self.memory.kept = self.memory.kept + receive.kept() - kept_before;
        let change = receive.bulk_change();
        self.memory.kept_bulk = self.memory.kept_bulk.wrapping_add_signed(change);
        self.memory.tables += usize::from(receive.has_new_table());
        if self.memory.tables > KEPT_WINDOWS {
            self.memory.tables -= usize::from(receive.shrink());
        }
    }

    /// A frame of another protocol version came from a node. If it is a Reset that answers the
    /// Hello of a session being proposed to that node, that session fails if its repeated Hello
    /// stays unanswered. Any other frame gets a Reset of our version. `frame` is `None` if it is
    /// too short.
    #[cold]
    pub fn handle_foreign_version(
        &mut self,
        path: PathId,
        node: NodeAddr,
        frame: Option<ForeignFrame>,
    ) {
        self.counters.version += 1;
        let Some(frame) = frame else { return };
        if frame.kind == Kind::Reset as u8 {
            self.note_version(node, frame.dst_epoch, frame.version);
        } else {
            let to = PeerKey { node, port: 0, channel: frame.channel };
            let (src_epoch, dst_epoch) = (Epoch::UNKNOWN, frame.src_epoch);
            let what = ReplyKind::Reset(Flags::NONE);
            self.reply(StatelessReply { to, path, src_epoch, dst_epoch, what });
        }
    }
}
