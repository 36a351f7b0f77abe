//! What a protocol's further behaviour depends on, as one number: for a model checker, which must
//! know a state again (`crates/check/model`).

use super::Protocol;
use std::hash::{Hash, Hasher};

/// Two protocols with the same configuration and the same hash behave alike from then on, as far as a
/// hash can tell. Left out is what nothing depends on: the counters, who was silent, the bytes of the last control
/// frame, and the tables by node or key, which follow from the sessions. (Versions of other nodes do not, and no checked
/// model has any.)
impl<T: Hash, R: Hash> Hash for Protocol<T, R> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let Self {
            config: _,
            by_key: _,
            by_path: _,
            nodes: _,
            proposing: _,
            report: _,
            counters: _,
            silent: _,
            sessions,
            last,
            strangers,
            visitors,
            replaced,
            secret,
            questions,
            established,
            established_named,
            share,
            crowded,
            round,
            round_left,
            active,
            active_before,
            credit,
            closed,
            now,
            transmit,
            undated,
            timers,
            owing,
            replies,
            routes,
            links,
            deliveries,
            operations,
            ended,
            acknowledged,
            failures,
            discarded,
            spent,
            kept,
            tables,
            unacknowledged,
            windows,
            spare,
            closing,
        } = self;
        (sessions, last, strangers, visitors, replaced, secret, questions).hash(to);
        (established, established_named, share, crowded).hash(to);
        (round, round_left, active, active_before, credit, closed, now).hash(to);
        (transmit, undated, timers, owing, replies, routes, links).hash(to);
        (deliveries, operations, ended, acknowledged, failures, discarded, spent).hash(to);
        (kept, tables, unacknowledged, windows, spare, closing).hash(to);
    }
}
