//! Frames to transmit: which session's turn it is, and their headers.

use super::{Protocol, ReplyKind, StatelessReply};
use crate::receive::initial_credit;
use crate::send::Class;
use crate::session::{Challenge, NextFrame};
use crate::{Body, DataFrame, Destination, PeerId, Transmit};
use gigae_wire::{AckReport, Flags, Handshake, Header, Hello, Kind, PathId};

/// Bytes of an Ack's payload that is not a report.
const NO_REPORT: u16 = 4 + AckReport::MAX_BITMAP as u16 + 1;

/// # Frames to transmit
impl<T, R> Protocol<T, R> {
    /// Whether [`poll_transmit`](Self::poll_transmit) may have something.
    #[inline]
    pub fn wants_transmit(&self) -> bool {
        !self.schedule.transmit.is_empty() || !self.replies.is_empty()
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) would return nothing but acknowledgements
    /// that another frame can carry.
    pub fn owes_acknowledgements_only(&self) -> bool {
        self.replies.is_empty()
            && self.schedule.transmit.iter().all(|&peer| self.session(peer).can_acknowledge_later())
    }

    /// The next frame to transmit now, if any.
    pub fn poll_transmit(&mut self) -> Option<Transmit<'_, T>> {
        if !self.replies.is_empty() {
            return self.transmit_reply();
        }
        let (peer, frame) = self.next_peer_frame()?;
        Some(self.build(peer, frame))
    }

    /// The next frame, if the session whose turn it is has a data frame to send now. `None` if
    /// there is nothing, or a frame of another kind. Data frames are frequent, so they have this
    /// path of their own: where all kinds meet, a header passes through memory several times.
    #[inline(always)]
    pub fn poll_data(&mut self) -> Option<DataFrame<'_, T>> {
        match self.next_peer_frame()? {
            (peer, NextFrame::Data) => Some(self.build_data(peer)),
            _ => None,
        }
    }

    /// The session whose turn it is, and what it should transmit.
    #[inline(always)]
    fn next_peer_frame(&mut self) -> Option<(PeerId, NextFrame)> {
        loop {
            let &peer = self.schedule.transmit.front()?;
            let session = self.session_mut(peer);
            if let Some(frame) = session.next_frame() {
                return Some((peer, frame));
            }
            session.queued = false;
            let sizing = session.sizing;
            self.schedule.transmit.pop_front();
            if sizing {
                // The admitted messages wait for an answer that nothing may have waited for so far.
                // From now on the question is repeated.
                self.touch(peer);
            }
        }
    }

    #[cold]
    fn transmit_reply(&mut self) -> Option<Transmit<'_, T>> {
        let StatelessReply { to, path, src_epoch, dst_epoch, what } = self.replies.pop_front()?;
        let (kind, credit, flags) = match what {
            ReplyKind::Reset(flags) => (Kind::Reset, 0, flags),
            ReplyKind::HelloAck { .. } => {
                let mut credit = initial_credit(&self.config);
                if self.config.shared_credit {
                    credit = credit.min(self.budget.offer(to, self.now));
                    if self.budget.offers_to_several() {
                        self.shares.share_credit(&self.config);
                    }
                }
                let flags = if self.shares.is_shared { Flags::ROOM } else { Flags::NONE };
                (Kind::HelloAck, credit, flags)
            }
        };
        let header = Header {
            kind,
            channel: to.channel,
            src_port: self.config.port,
            dst_port: to.port,
            src_epoch,
            dst_epoch,
            seq: src_epoch.first_seq(),
            ack: dst_epoch.first_seq(),
            credit,
            flags,
        };
        let len = match what {
            ReplyKind::Reset(_) => 0,
            ReplyKind::HelloAck { token, echo } => self.write_handshake(token, echo),
        };
        self.counters.resets += u64::from(len == 0);
        let (to, body) = (Destination::Unknown(to), Body::Control(&self.report[..len], 0));
        Some(Transmit { to, path, first: false, header, body })
    }

    /// Writes the payload of a handshake frame into `report`; returns its length.
    fn write_handshake(&mut self, token: u64, echo: u64) -> usize {
        let hello = Hello {
            max_payload: self.config.max_payload,
            reorder_window: self.config.reorder_window,
            max_operations: self.config.max_operations,
        };
        let handshake = Handshake { hello, token, echo, links: self.links };
        handshake.write(self.report.first_chunk_mut().expect("as long as the longest"))
    }

    fn build(&mut self, peer: PeerId, frame: NextFrame) -> Transmit<'_, T> {
        let to = Destination::Peer(peer);
        match frame {
            NextFrame::Data => {
                let DataFrame { path, first, header, buffer, .. } = self.build_data(peer);
                Transmit { to, path, first, header, body: Body::Message(buffer) }
            }
            NextFrame::Probe if self.session(peer).probes.size => self.build_size(peer, to),
            NextFrame::Ack | NextFrame::Probe => self.build_ack(peer, frame, to),
            NextFrame::Hello => self.build_hello(peer, to),
            NextFrame::Confirm => {
                let (path, _) = self.session_mut(peer).path_for(frame);
                self.build_confirm(peer, frame, path)
            }
            NextFrame::Close => self.build_close(peer, to),
        }
    }

    #[inline(always)]
    pub(super) fn build_data(&mut self, peer: PeerId) -> DataFrame<'_, T> {
        let session = &mut self.sessions[peer.0 as usize];
        if !session.unstamped {
            session.unstamped = true;
            self.schedule.unstamped.push(peer);
        }
        let send = session.send.as_mut().expect("established");
        let sent = send.transmit(self.now);
        // What goes by a socket may wait behind other frames there, each of 64 KiB. Then an
        // acknowledgement also goes by itself.
        let by_socket = !sent.path.is_first() && self.config.bulk.is_some();
        let waits = by_socket && send.is_behind_others(&sent);
        let owed = session.receive.as_ref().filter(|_| waits).map(|receive| receive.owed());
        let mut header = session.header(sent.kind, self.config.port, sent.seq);
        if let (Some(receive), Some(owed)) = (&mut session.receive, owed) {
            receive.owe(owed);
        }
        // A frame by a socket is put together from datagrams, which mostly have no numbers (rule
        // 13.3). One in parts is put together, too.
        if !self.config.payload_checksum && !by_socket && !sent.in_parts {
            header.flags = Flags::HEADER_ONLY;
        }
        if self.shares.is_shared {
            header.flags = header.flags.with(session.credit_flags(self.budget.is_rationed()));
            if self.budget.sends_to(peer) {
                header.flags = header.flags.with(Flags::DIVIDED);
            }
        }
        if sent.stopped {
            header.flags = header.flags.with(Flags::STOPPED);
        }
        if sent.class != Class::Only {
            session.say(sent.class, &mut header);
        }
        session.transmitted();
        self.counters.retransmissions += u64::from(sent.repeated);
        let send = session.send.as_mut().expect("established");
        let (path, in_parts, buffer) = (sent.path, sent.in_parts, send.message(sent.seq));
        let first = matches!(sent.class, Class::First | Class::Early(_));
        DataFrame { to: peer, path, in_parts, first, header, buffer }
    }

    fn build_ack(&mut self, peer: PeerId, frame: NextFrame, to: Destination) -> Transmit<'_, T> {
        let session = &mut self.sessions[peer.0 as usize];
        let (path, flags) = session.path_for(frame);
        let probe = flags.has(Flags::ASK);
        let by_socket = !path.is_first() && self.config.bulk.is_some();
        // A session does not come up by a socket (rule 13.2).
        if probe && session.is_confirming() && !by_socket {
            return self.build_confirm(peer, frame, path);
        }
        let next = session.send.as_ref().expect("established").sent();
        let mut len = session.write_report(&mut self.report);
        let mut pad = if probe { session.pad(path, &self.config) } else { 0 };
        let is_alone = !self.shares.is_shared && session.has_received();
        if let Some(receive) = session.receive.as_mut().filter(|_| is_alone) {
            receive.open();
        }
        let mut header = session.header(Kind::Ack, self.config.port, next);
        header.flags = flags;
        if self.shares.is_shared {
            header.flags = flags.with(session.credit_flags(self.budget.is_rationed()));
        }
        self.counters.acks_sent += 1;
        self.counters.probes += u64::from(probe);
        session.transmitted();
        self.touch(peer);
        len = if pad > 0 { 0 } else { len };
        if by_socket && flags != Flags::NONE {
            let session = &self.sessions[peer.0 as usize];
            let own = || self.secret.socket(&session.key, session.local);
            let own = || Challenge { token: own(), uncoalesced: None };
            let bytes = if probe { own() } else { session.challenge }.to_bytes();
            self.report[..bytes.len()].copy_from_slice(&bytes);
            (len, pad) = (bytes.len(), pad.max(NO_REPORT));
        }
        let session = &mut self.sessions[peer.0 as usize];
        let first = self.config.longest_first.is_some()
            && flags == Flags::NONE
            && pad == 0
            && session.acknowledges_first(header.flags);
        let report = &self.report[..len];
        Transmit { to, path, first, header, body: Body::Control(report, pad) }
    }

    /// Builds a Probe padded to the length in question, or the Echo for the peer's Probe.
    #[cold]
    fn build_size(&mut self, peer: PeerId, to: Destination) -> Transmit<'_, T> {
        let session = &mut self.sessions[peer.0 as usize];
        let (kind, echo, pad, path) = session.next_size().expect("one is due");
        let next = session.send.as_ref().expect("established").sent();
        let mut header = session.header(kind, self.config.port, next);
        if self.shares.is_shared {
            header.flags = session.credit_flags(self.budget.is_rationed());
        }
        session.transmitted();
        let bytes = echo.to_bytes();
        self.report[..bytes.len()].copy_from_slice(&bytes);
        self.touch(peer);
        Transmit {
            to,
            path,
            first: false,
            header,
            body: Body::Control(&self.report[..bytes.len()], pad),
        }
    }

    /// Builds a Hello, padded so that no answer is longer.
    #[cold]
    fn build_hello(&mut self, peer: PeerId, to: Destination) -> Transmit<'_, T> {
        let session = &mut self.sessions[peer.0 as usize];
        let (path, _) = session.path_for(NextFrame::Hello);
        let header = session.hello(self.now, &self.config);
        let token = self.own_token(peer);
        let len = self.write_handshake(token, 0);
        self.touch(peer);
        let body = Body::Control(&self.report[..len], Handshake::LONGEST as u16);
        Transmit { to, path, first: false, header, body }
    }

    /// Builds a Confirm. It also serves as a probe of a path until the peer is known to have
    /// received one.
    #[cold]
    fn build_confirm(&mut self, peer: PeerId, frame: NextFrame, path: PathId) -> Transmit<'_, T> {
        let to = Destination::Peer(peer);
        let session = &mut self.sessions[peer.0 as usize];
        let pad = if frame == NextFrame::Probe { session.pad(path, &self.config) } else { 0 };
        let (mut header, echo) = session.confirm(frame, self.now, &self.config);
        if self.shares.is_shared {
            header.flags = header.flags.with(session.credit_flags(self.budget.is_rationed()));
        }
        let token = self.own_token(peer);
        let len = self.write_handshake(token, echo);
        self.touch(peer);
        Transmit { to, path, first: false, header, body: Body::Control(&self.report[..len], pad) }
    }

    /// The token of the session that this end proposed.
    fn own_token(&self, peer: PeerId) -> u64 {
        let session = self.session(peer);
        self.secret.proposal(&session.key, session.local, session.begun_again)
    }

    #[cold]
    fn build_close(&mut self, peer: PeerId, to: Destination) -> Transmit<'_, T> {
        self.counters.resets += 1;
        let session = &mut self.sessions[peer.0 as usize];
        let (path, _) = session.path_for(NextFrame::Close);
        let header = session.reset(&self.config);
        self.touch(peer);
        Transmit { to, path, first: false, header, body: Body::Control(&[], 0) }
    }
}
