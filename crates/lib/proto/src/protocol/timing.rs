//! Which sessions have something to do: now, when the clock was read, or by themselves later.

use super::Protocol;
use super::schedule::MOST_SILENT;
use crate::session::State;
use crate::{Instant, PeerId, Reason};

impl<T, R> Protocol<T, R> {
    #[inline]
    pub(super) fn enqueue(&mut self, peer: PeerId) {
        let session = self.session_mut(peer);
        if !session.queued {
            session.queued = true;
            self.schedule.transmit.push_back(peer);
        }
    }

    /// Something began in a session that the next reading of the clock has to date.
    #[inline]
    pub(super) fn touch(&mut self, peer: PeerId) {
        let session = self.session_mut(peer);
        if !session.undated {
            session.undated = true;
            self.schedule.undated.push(peer);
        }
    }

    /// A session has a deadline.
    fn arm(&mut self, peer: PeerId, at: Instant) {
        // A later one waits until the earlier has come.
        if at < self.schedule.timers.of(peer) {
            self.schedule.timers.set(peer, at);
        }
    }

    /// Makes every acknowledgement that waits for company due at once: the caller is about to sleep
    /// and has just [told the time](Self::advance).
    pub fn acknowledge_all(&mut self) {
        while let Some(peer) = self.schedule.owing.pop() {
            let session = &mut self.sessions[peer.0 as usize];
            session.owing = false;
            if let Some(receive) = session.receive.as_mut().filter(|r| r.is_due(true)) {
                receive.ask();
                self.enqueue(peer);
            }
        }
    }

    /// The next peer that has left something unanswered for a timeout, if not too many have: what
    /// it is reached by may have changed. No peer is kept twice as often as it was silent.
    #[inline]
    pub fn poll_silent(&mut self) -> Option<PeerId> {
        self.schedule.silent.pop()
    }

    /// No later than this, [`advance`](Self::advance) should be called again; what began after its
    /// last call is not in this.
    #[inline]
    pub fn next_deadline(&self) -> Instant {
        self.schedule.timers.first()
    }

    /// Tells the time and does what its passing calls for. Whatever began since the last call began
    /// now, so timers are never early, and late by at most the time between two calls. Cheap when
    /// nothing is due. Reading a clock costs more than most of what is done per frame: once per
    /// some tens of frames or vain polls is enough, and before sleeping.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        self.now = now;
        while let Some(peer) = self.schedule.undated.pop() {
            let session = &mut self.sessions[peer.0 as usize];
            session.undated = false;
            session.date(now);
            let at = session.deadline(&self.config);
            if !session.owing && session.receive.as_ref().is_some_and(|r| r.waits()) {
                session.owing = true;
                self.schedule.owing.push(peer);
            }
            self.arm(peer, at);
        }
        if now >= self.schedule.timers.first() {
            self.expire(now);
        }
    }

    #[cold]
    fn expire(&mut self, now: Instant) {
        while let Some(peer) = self.schedule.timers.due(now) {
            let session = &mut self.sessions[peer.0 as usize];
            let closing = session.state == State::Closing;
            let lost = session.deadline(&self.config) <= now
                && session.expire(now, &self.config, &mut self.counters);
            self.closing -= usize::from(closing && session.state != State::Closing);
            if session.is_silent() && self.schedule.silent.len() < MOST_SILENT {
                self.schedule.silent.push(peer);
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
            self.schedule.timers.set(peer, at);
            if self.session(peer).plan().is_some() {
                self.enqueue(peer);
            }
        }
    }
}
