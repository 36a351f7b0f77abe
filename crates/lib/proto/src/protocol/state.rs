//! A hash of everything that a protocol's further behaviour depends on. A model checker needs it to
//! recognize states (`crates/check/model`).

use super::Protocol;
use std::hash::{Hash, Hasher};

/// Two protocols with the same configuration and the same hash behave alike from then on, as far as
/// a hash can show. The hash leaves out the counters, the bytes of the last control frame, and what
/// the parts of the state leave out: no behaviour depends on them.
impl<T: Hash, R: Hash> Hash for Protocol<T, R> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let Self {
            config: _,
            report: _,
            counters: _,
            sessions,
            table,
            secret,
            questions,
            shares,
            budget,
            closed,
            closing,
            now,
            schedule,
            replies,
            routes,
            links,
            outputs,
            memory,
        } = self;
        (sessions, table, secret, questions, shares, closed, closing, now).hash(to);
        (budget, schedule, replies, routes, links, outputs, memory).hash(to);
    }
}
