//! What a session waits for, and its deadlines (`PROTOCOL.md` §8).

use super::state::LONGEST_INTERVAL;
use super::{Session, SessionState};
use crate::time::{Instant, Since, nanos};
use crate::{ProtocolConfig, ProtocolCounters, log};

/// Unanswered Hellos, over 127 to 187 ms in all, after which another version that the node seems to
/// speak counts.
const HELLOS: u8 = 7;

/// How long a sender that was told to wait does so before it asks for the first time, in
/// nanoseconds. 1,000 such questions in that time take a fiftieth of 10 Gbit/s, and the time
/// doubles. A GO that was lost costs as much.
const PATIENCE: u64 = 4_000_000;

/// A deadline noticed this much later, in nanoseconds: perhaps the endpoint did not look at its
/// links in the meantime.
const LATE: u64 = 100_000_000;

impl<T, R> Session<T, R> {
    /// Whether the peer owes an answer.
    #[inline]
    fn awaits_answer(&self) -> bool {
        self.send.as_ref().is_some_and(|s| s.awaits_answer()) || self.sizing && self.wants_size()
    }

    /// After a transmission: the peer owes an answer from now on.
    #[inline]
    pub(crate) fn transmitted(&mut self) {
        if self.awaits_answer() {
            self.waiting.start();
        }
    }

    /// A valid frame of this session came: the peer is there. `progress` says whether it
    /// acknowledged something.
    #[inline]
    pub(crate) fn received(&mut self, progress: bool) {
        if !self.awaits_answer() {
            self.waiting = Since::Never;
            self.spared = false;
        } else if progress {
            self.waiting = Since::Next;
            self.spared = false;
        }
    }

    /// Takes a reading of the clock. Everything since the last reading gets this time.
    pub(crate) fn stamp(&mut self, now: Instant) {
        self.waiting.stamp(now);
        if let Some(close) = &mut self.close {
            close.since.stamp(now);
        }
        if let Some((since, _)) = &mut self.probe {
            since.stamp(now);
        }
        if let Some(sizes) = &mut self.sizes {
            sizes.stamp(now);
        }
        if let Some(send) = &mut self.send {
            send.stamp(now);
        }
        if let Some(receive) = &mut self.receive {
            receive.stamp(now);
        }
    }

    /// Whether the peer's credit has just stopped us. If so, schedules the first probe in case the
    /// GO is lost.
    #[inline(always)]
    pub(crate) fn has_stopped(&mut self) -> bool {
        let stopped = matches!(self.state, SessionState::Established)
            && self.send.as_ref().is_some_and(|s| s.is_stopped());
        match (stopped, self.probe) {
            (true, None) => {
                let timeout = self.send.as_ref().map_or(0, |send| send.timeout());
                let patience = if self.budget.is_patient { PATIENCE } else { 0 };
                let wait = timeout.max(patience);
                self.probe = Some((Since::Next, wait));
                true
            }
            (false, Some(_)) => {
                self.probe = None;
                self.probes.credit = false;
                false
            }
            _ => false,
        }
    }

    /// The peer says whether it knows what this end wants to send. While it does, a question is
    /// only needed if its answer was lost.
    pub(crate) fn set_told_to_wait(&mut self, told: bool) {
        let patience = if told { PATIENCE } else { 0 };
        if self.budget.is_patient != told
            && let (Some((since, wait)), Some(send)) = (&mut self.probe, &self.send)
        {
            (*since, *wait) = (Since::Next, send.timeout().max(patience));
        }
        self.budget.is_patient = told;
    }

    /// Probes the peer until it answers, unless another frame is repeated until then anyway.
    /// Returns whether that begins now.
    pub(crate) fn ask(&mut self) -> bool {
        let Some(send) = &self.send else { return false };
        let silent = matches!(self.state, SessionState::Established)
            && self.probe.is_none()
            && !send.awaits_answer();
        if silent {
            self.probe = Some((Since::Next, send.timeout()));
        }
        silent
    }

    /// When the peer has owed an answer for too long.
    fn lost_at(&self, config: &ProtocolConfig) -> Instant {
        self.waiting.after(nanos(config.peer_timeout))
    }

    pub(crate) fn is_overdue(&self, now: Instant, config: &ProtocolConfig) -> bool {
        now >= self.lost_at(config)
    }

    /// The next deadline.
    pub(crate) fn deadline(&self, config: &ProtocolConfig) -> Instant {
        let lost = self.lost_at(config);
        let own = match self.state {
            SessionState::Idle => return Instant::NEVER,
            SessionState::Proposing(repeated) => repeated.next_at,
            SessionState::Closing => {
                self.close.as_ref().map_or(Instant::NEVER, |f| f.since.after(f.wait))
            }
            SessionState::Established | SessionState::Confirming(..) => {
                let resend = self.send.as_ref().map_or(Instant::NEVER, |s| s.deadline());
                let ack = self
                    .receive
                    .as_ref()
                    .map_or(Instant::NEVER, |r| r.acknowledge_by(nanos(config.ack_delay)));
                let probe = self.probe.map_or(Instant::NEVER, |(since, wait)| since.after(wait));
                let size = match &self.sizes {
                    Some(sizes) if self.wants_size() => sizes.deadline(),
                    _ => Instant::NEVER,
                };
                let confirm = match self.state {
                    SessionState::Confirming(repeated, _) => repeated.next_at,
                    _ => Instant::NEVER,
                };
                resend.min(ack).min(probe).min(size).min(confirm)
            }
        };
        own.min(lost)
    }

    /// Does what is due at `now`. Returns true if the peer must be given up.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        config: &ProtocolConfig,
        counters: &mut ProtocolCounters,
    ) -> bool {
        if self.is_overdue(now, config) {
            // The process was stopped, or its program did not call. The answer may be there.
            let late = now >= self.deadline(config).after(LATE);
            if self.spared || !late {
                return true;
            }
            self.spared = true;
            self.begun_again |= matches!(self.state, SessionState::Proposing(_));
            self.waiting = Since::At(now);
        }
        match &mut self.state {
            SessionState::Proposing(repeated) => {
                repeated.expire(now);
                return false;
            }
            SessionState::Confirming(repeated, _) => repeated.expire(now),
            _ => {}
        }
        if let Some(close) = &mut self.close {
            if now < close.since.after(close.wait) {
                return false;
            }
            if close.left == 0 {
                self.set_close(None);
                return false;
            }
            close.left -= 1;
            close.wait *= 2;
            close.since = Since::Never;
            close.due = true;
            return false;
        }
        let delay = nanos(config.ack_delay);
        if let Some(receive) = self.receive.as_mut().filter(|r| now >= r.acknowledge_by(delay)) {
            receive.ask();
        }
        if let Some((since, wait)) = self.probe.as_mut().filter(|p| now >= p.0.after(p.1)) {
            *wait = (*wait * 2).min(LONGEST_INTERVAL);
            *since = Since::At(now);
            self.probes.credit = true;
            if self.waiting == Since::Never {
                self.waiting = Since::At(now);
            }
        }
        if self.wants_size()
            && let Some(sizes) = &mut self.sizes
        {
            sizes.expire(now, if config.bulk.is_some() { 1 } else { self.paths });
            self.probes.size |= sizes.is_due();
        }
        if let Some(send) = &mut self.send {
            let before = counters.timeouts;
            let expired = send.expire(now, counters);
            self.probes.paths = self.probes.paths.union(expired.to_probe);
            if counters.timeouts != before {
                log::timed_out(&self.key, send.lost());
                log::paths_down(&self.key, expired.given_up);
            }
            if expired.is_bulk_silent {
                log::no_bulk_answer(&self.key);
            }
            if expired.is_link_silent {
                self.doubt_size(config);
            }
        }
        false
    }

    /// Whether the peer has been silent for longer than usual.
    pub(crate) fn is_silent(&self) -> bool {
        let unacknowledged = self.send.as_ref().is_some_and(|send| send.is_silent());
        unacknowledged
            || self.probe.is_some()
            || matches!(self.state, SessionState::Proposing(_) | SessionState::Confirming(..))
    }

    /// Whether enough Hellos went out that any node that answers would have answered.
    pub(crate) fn hello_stays_unanswered(&self) -> bool {
        matches!(self.state, SessionState::Proposing(repeated) if repeated.due && repeated.tries >= HELLOS)
    }
}
