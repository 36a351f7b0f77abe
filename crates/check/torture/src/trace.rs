//! The last events of a run, to find the cause of a violation.

use crate::pair::NodePair;
use std::collections::VecDeque;
use std::fmt;

/// Events kept of a run.
const KEPT: usize = 1 << 16;

/// Something that happened at one virtual nanosecond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at: u64,
    pub(crate) what: &'static str,
    /// The two nodes that it concerns; the same twice if it is one node only.
    pub(crate) pair: NodePair,
    pub(crate) number: u64,
    pub(crate) len: usize,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, what, pair: NodePair { from, to }, number, len } = self;
        let at = *at as f64 / 1000.0;
        match from == to {
            true => write!(f, "{at:14.3} us  node {from} {what}"),
            false => write!(f, "{at:14.3} us  {from} -> {to} {what} {number}, {len} bytes"),
        }
    }
}

/// The last events of a run, and a number that all of them lead to.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    events: VecDeque<Event>,
    pub(crate) digest: u64,
    verbose: bool,
}

impl Trace {
    /// Prints every event, if it is `verbose`.
    pub(crate) fn new(verbose: bool) -> Self {
        Self { verbose, ..Self::default() }
    }

    pub(crate) fn note(&mut self, event: Event) {
        let Event { at, pair: NodePair { from, to }, number, len, what } = event;
        let place = u64::from(from) << 48 | u64::from(to) << 32 | what.len() as u64;
        for word in [at, place, number, len as u64] {
            self.digest = crate::body::mix(self.digest ^ word);
        }
        if self.verbose {
            println!("{event}");
        }
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// The last events that concern a pair, in their order.
    pub(crate) fn of(&self, pair: NodePair, most: usize) -> Vec<String> {
        let back = NodePair { from: pair.to, to: pair.from };
        let concerns = |of: NodePair| match of.from == of.to {
            true => of.from == pair.from || of.from == pair.to,
            false => of == pair || of == back,
        };
        let events = self.events.iter().rev().filter(|e| concerns(e.pair)).take(most);
        let mut lines: Vec<_> = events.map(Event::to_string).collect();
        lines.reverse();
        lines
    }
}
