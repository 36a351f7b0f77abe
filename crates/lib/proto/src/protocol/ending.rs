//! How sessions end (`PROTOCOL.md` §8).

use super::Protocol;
use crate::log;
use crate::session::{Session, SessionState};
use crate::{EndedSession, FailedSend, PeerId, Reason};
use gigae_wire::Kind;

/// # Closing
impl<T, R> Protocol<T, R> {
    /// Ends a peer's session. Its unacknowledged messages fail, in order.
    pub(super) fn fail(&mut self, peer: PeerId, reason: Reason) {
        let Session { key, state, .. } = self.session(peer);
        log::ended(key, state, reason);
        if self.session(peer).state != SessionState::Idle {
            let epoch = self.session(peer).local;
            self.outputs.ended.push_back(EndedSession { peer, epoch, reason });
        }
        if self.session(peer).is_up() {
            let session = self.session(peer);
            let (window, named) =
                (session.receive.as_ref().map_or(0, |r| r.window()), session.named);
            self.shares.leave(window, named, &self.config);
            self.leave_budget(peer);
        }
        self.forget_proposal(peer);
        let session = &mut self.sessions[peer.0 as usize];
        session.number =
            session.number.wrapping_add(u32::from(session.state != SessionState::Idle));
        session.known |= session.has_received();
        self.closing -= usize::from(session.state == SessionState::Closing);
        let discarded = &mut self.outputs.discarded;
        self.memory.tables -= usize::from(session.receive.as_ref().is_some_and(|r| r.has_table()));
        if let Some(receive) = &session.receive {
            self.memory.kept -= receive.kept();
            self.memory.kept_bulk -= receive.kept_bulk();
        }
        session.end(|kept| discarded.push(kept));
        let Some(send) = &mut session.send else { return };
        self.memory.unacknowledged -= send.len() as usize;
        for (kind, buffer) in send.drain() {
            if kind == Kind::Op {
                self.outputs.spent.push(buffer);
                continue;
            }
            session.failures += 1;
            self.counters.messages_failed += 1;
            self.outputs.failures.push_back(FailedSend { peer, reason, buffer });
        }
        self.shrink(peer);
    }

    /// Ends all sessions and reports that to the peers. Each learns what has arrived here and need
    /// not wait for its timeout. Nothing else is sent or received afterwards.
    /// [`is_closing`](Self::is_closing) says when all peers have answered.
    pub fn close(&mut self) {
        self.closed = true;
        for i in 0..self.sessions.len() {
            let peer = PeerId(u32::try_from(i).expect("bounded by max_peers"));
            let close = self.session(peer).graceful_close();
            self.fail(peer, Reason::Closed);
            if close.is_some() {
                self.session_mut(peer).set_close(close);
                self.closing += 1;
                self.enqueue(peer);
            }
        }
    }

    /// Whether a peer has not confirmed the end yet. This end asks it for 127 ms at most.
    pub fn is_closing(&self) -> bool {
        self.closing > 0
    }
}
