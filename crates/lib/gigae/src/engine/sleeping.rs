//! The engine's sleep, and what goes before it.

use super::{BACKLOG_NAP, Engine};
use gigae_link::LinkError;
use gigae_proto::Instant;
use std::time::Duration;

impl Engine {
    /// Sends all acknowledgements that wait for company: the caller is about to sleep. Returns
    /// whether it may: not if a session has ended, which the next call has to report, nor while
    /// there is something to read in the memory of another process.
    pub(crate) fn acknowledge(&mut self) -> Result<bool, LinkError> {
        self.update_clock();
        self.proto.acknowledge_all();
        loop {
            self.transmit()?;
            // What has just been sent is waited for from now on, and what is overdue goes at once.
            self.update_clock();
            if !self.proto.wants_transmit() {
                break;
            }
        }
        let Self { proto, transfer, .. } = self;
        Ok(!proto.has_operations()
            && !transfer.fetching().any(|it| proto.established(it).is_some()))
    }

    /// Sleeps for this time, or until something is due, whether or not something arrives.
    pub(crate) fn nap(&mut self, nap: Duration) -> Result<(), LinkError> {
        if !self.acknowledge()? {
            return Ok(());
        }
        let nap = self.time_left().map_or(nap, |left| left.min(nap));
        if self.clock.is_virtual() {
            self.wait(Some(nap))?;
        } else {
            std::thread::sleep(nap);
        }
        self.clock.expire();
        Ok(())
    }

    /// Sleeps until a frame comes or something is due, at most for `limit`.
    pub(crate) fn sleep(&mut self, limit: Option<Duration>) -> Result<(), LinkError> {
        if !self.acknowledge()? {
            return Ok(());
        }
        let timeout = [self.time_left(), limit].into_iter().flatten().min();
        let timeout = self.leave_figures(timeout);
        self.wait(timeout)?;
        // Time has passed.
        self.clock.expire();
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), LinkError> {
        let Self { links, proto, .. } = self;
        links.wait(timeout, |path| proto.link_down(path))
    }

    /// Time until something is due by itself; `None` if nothing is. Frames that the link did not
    /// take are due soon.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let retry = (self.doorbell.backlog || self.doorbell.full).then_some(BACKLOG_NAP);
        let due = match self.proto.next_deadline().min(self.ask_at).min(self.discovery.due) {
            Instant::NEVER => None,
            at => Some(at.since(self.clock.now())),
        };
        [retry, due].into_iter().flatten().min()
    }

    /// Ends all sessions and sends that to the peers.
    pub(crate) fn close(&mut self) -> Result<(), LinkError> {
        self.proto.close();
        self.transmit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use gigae_sim::{Faults, Network};

    /// Else a program that sleeps outside would send them when something else wakes it.
    #[test]
    fn frames_that_the_link_did_not_take_are_due_soon() {
        let net = Network::new(1, Faults::default());
        let end = Options::new("sim").open_simulated(&net, 1).unwrap();
        let mut engine = end.engine();
        assert_eq!(engine.time_left(), None);
        engine.doorbell.backlog = true;
        assert_eq!(engine.time_left(), Some(BACKLOG_NAP));
    }
}
