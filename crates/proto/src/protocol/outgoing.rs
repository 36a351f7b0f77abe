//! Frames to transmit: which session's turn it is, and their headers.

use super::Protocol;
use crate::session::Plan;
use crate::{Body, Destination, Instant, PeerId, Transmit};
use gigae_wire::{Flags, Header, Hello, Kind};

impl<T, R> Protocol<T, R> {
    /// Whether [`poll_transmit`](Self::poll_transmit) may have something.
    #[inline]
    pub fn wants_transmit(&self) -> bool {
        !self.transmit.is_empty() || !self.resets.is_empty()
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
}
