//! What comes of a state once faults have ended: the part of the check that finds a deadlock.
//!
//! From every state frames can arrive and programs can take what they have, without a fault, until
//! nothing is left but time; the state reached then is one of those that are looked at, too. So it
//! is enough to heal these.

use crate::form::Form;
use crate::rule::Rule;
use crate::system::System;
use gigae_proto::Instant;

/// Timers that may fire until everything has arrived or failed, and until there is silence. The
/// slowest is a session that times out; a graceful close has seven repetitions.
const PATIENCE: usize = 100;

/// Messages that may fail before one arrives: a peer that has restarted ends the session with the
/// first.
const ATTEMPTS: usize = 3;

impl System {
    /// Ends all faults but a cut: what is late never comes, every frame arrives, programs take what
    /// they have, and time passes for all alike. Everything must arrive or fail, then one more
    /// message must arrive on every flow, and then nothing more must be said.
    pub(crate) fn heal(&self, form: &Form) -> Result<(), Rule> {
        let mut system = self.clone();
        system.network.late.clear();
        system.settle(form)?;
        for flow in 0..system.flows.len() {
            let done = (0..ATTEMPTS).any(|_| {
                system.flows[flow].left = 1;
                system.settle(form).is_ok() && system.flows[flow].last_is_done()
            });
            if !done {
                return Err(system.broken.unwrap_or(Rule::Stuck));
            }
        }
        for _ in 0..PATIENCE {
            // A path that is cut is asked for ever.
            if !system.wait(form)? || system.network.cut.is_some() {
                return Ok(());
            }
        }
        Err(Rule::Stuck)
    }

    /// Until everything was sent and reported.
    fn settle(&mut self, form: &Form) -> Result<(), Rule> {
        for _ in 0..PATIENCE {
            self.send_all(form);
            if !self.drain(form) {
                return Err(Rule::Stuck);
            }
            if let Some(rule) = self.broken {
                return Err(rule);
            }
            if self.flows.iter().all(|flow| flow.is_over()) {
                return Ok(());
            }
            if self.can_send() {
                continue;
            }
            if !self.wait(form)? {
                return Err(Rule::Stuck);
            }
        }
        Err(Rule::Stuck)
    }

    pub(crate) fn can_send(&self) -> bool {
        (0..self.flows.len()).any(|flow| self.is_ready(flow))
    }

    /// Programs open the endpoint again that they have closed, and send what they can.
    fn send_all(&mut self, form: &Form) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].closed && !self.nodes[node].proto.is_closing() {
                self.restart(form, node);
            }
        }
        for flow in 0..self.flows.len() {
            while self.is_ready(flow) {
                self.send(form, flow);
            }
        }
    }

    /// Time passes until something is due somewhere, and all that comes of it is done. False if
    /// nothing ever will be.
    fn wait(&mut self, form: &Form) -> Result<bool, Rule> {
        let until = |i: usize| {
            let node = &self.nodes[i];
            let at = node.proto.next_deadline();
            (at < Instant::NEVER).then(|| at.since(node.now))
        };
        let Some(time) = (0..self.nodes.len()).filter_map(until).min() else { return Ok(false) };
        for node in 0..self.nodes.len() {
            let now = self.nodes[node].now + time;
            self.pass_time(form, node, now);
        }
        if !self.drain(form) {
            return Err(Rule::Stuck);
        }
        self.broken.map_or(Ok(true), Err)
    }
}
