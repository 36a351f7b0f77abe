//! Frames that arrived: which session they belong to and what they do to it
//! (`PROTOCOL.md` §4 to §6).

use super::{MAX_RESETS, Protocol};
use crate::session::{Pending, State};
use crate::{Delivery, Handled, Instant, PeerId, PeerKey, Reason};
use gigae_wire::{AckReport, Discard, Epoch, Flags, Header, Hello, Kind, NodeAddr};

impl<T, R> Protocol<T, R> {
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
}
