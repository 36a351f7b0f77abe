//! Which sessions need work: now, at the next reading of the clock, or at a deadline.

use super::Protocol;
use super::schedule::MOST_SILENT;
use crate::log;
use crate::session::SessionState;
use crate::{Instant, PeerId, Reason};

/// After this time, in nanoseconds, a session is looked at again for which something was due that
/// is not transmitted yet. Thousands may wait for the link at the same time. When it takes the
/// frame, the session gets its next deadline at once.
const DUE_AGAIN: u64 = 1_000_000;

/// # Time
impl<T, R> Protocol<T, R> {
    #[inline]
    pub(super) fn enqueue(&mut self, peer: PeerId) {
        let session = self.session_mut(peer);
        if !session.queued {
            session.queued = true;
            self.schedule.transmit.push_back(peer);
        }
    }

    /// Something began in a session. The next reading of the clock gives it its time.
    #[inline]
    pub(super) fn touch(&mut self, peer: PeerId) {
        let session = self.session_mut(peer);
        if !session.unstamped {
            session.unstamped = true;
            self.schedule.unstamped.push(peer);
        }
    }

    /// Notes a session's deadline.
    fn arm(&mut self, peer: PeerId, at: Instant) {
        // A later deadline is set when the earlier one has passed.
        if at < self.schedule.timers.of(peer) {
            self.schedule.timers.set(peer, at);
        }
    }

    /// Makes every delayed acknowledgement due at once: the caller is about to sleep and has just
    /// called [`advance`](Self::advance).
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

    /// The next peer that left something unanswered for a timeout. Its address may have changed. At
    /// most 16 such peers are noted, each at most as often as it was silent.
    #[inline]
    pub fn poll_silent(&mut self) -> Option<PeerId> {
        self.schedule.silent.pop()
    }

    /// Call [`advance`](Self::advance) again at this time at the latest. Events since its last call
    /// are not included.
    #[inline]
    pub fn next_deadline(&self) -> Instant {
        self.schedule.timers.first().min(self.budget.deadline())
    }

    /// Takes the time and does what is due. Events since the last call get this time, so timers are
    /// never early, and late by at most the time between two calls. Cheap when nothing is due.
    /// Reading a clock costs more than most of the work per frame. Once per some tens of frames or
    /// empty polls is enough, and before sleeping.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        self.now = now;
        while let Some(peer) = self.schedule.unstamped.pop() {
            let session = &mut self.sessions[peer.0 as usize];
            session.unstamped = false;
            session.stamp(now);
            let at = session.deadline(&self.config);
            if !session.owing && session.receive.as_ref().is_some_and(|r| r.waits()) {
                session.owing = true;
                self.schedule.owing.push(peer);
            }
            self.arm(peer, at);
            if self.shares.is_shared {
                self.resume(peer);
            }
        }
        if now >= self.schedule.timers.first() {
            self.expire(now);
        }
        if self.budget.is_rationed() {
            self.advance_budget();
        }
    }

    /// The reading of the clock has perhaps shown that there was no pause, so that more may be in
    /// flight.
    #[cold]
    fn resume(&mut self, peer: PeerId) {
        let session = &self.sessions[peer.0 as usize];
        if !session.queued && session.next_frame().is_some() {
            self.enqueue(peer);
        }
    }

    /// Takes the time for what the next frame is judged by, such as the age of an offer. What is
    /// due waits for [`advance`](Self::advance).
    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    #[cold]
    fn expire(&mut self, now: Instant) {
        while let Some(peer) = self.schedule.timers.due(now) {
            let session = &mut self.sessions[peer.0 as usize];
            let closing = session.state == SessionState::Closing;
            let lost = session.deadline(&self.config) <= now
                && session.expire(now, &self.config, &mut self.counters);
            if closing && session.state != SessionState::Closing {
                self.closing -= 1;
                log::closed(&session.key, false);
            }
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
            // What stays due until it is transmitted is checked again only after some time.
            let mut at = session.deadline(&self.config);
            if at <= now {
                at = now.after(DUE_AGAIN);
            }
            self.schedule.timers.set(peer, at);
            if self.session(peer).next_frame().is_some() {
                self.enqueue(peer);
            }
        }
    }
}
