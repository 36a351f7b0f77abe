//! Many senders and one receiver: each sends a stream for the same time, as fast as there is room, and the
//! receiver counts what arrives of each. The loops are those of a [`stream`]; the figure is the goodput of all
//! together, and beside it stand how evenly they share it, what is lost or repeated, and how long an
//! ICMP ECHO takes on the same way meanwhile.

pub use super::stream::{answer, ask};

use super::{Method, stream};
use crate::probe::{Answered, Asked, Crowd};
use gigae_eval_model::results::Shares;
use gigae_eval_model::stats::Distribution;

pub(super) const METHOD: Method = Method {
    figure: stream::goodput,
    samples: |_, answered| (&answered.slices, &answered.warmup),
    lost: |asked, answered| asked.sent.saturating_sub(answered.messages),
};

/// Of all repetitions.
#[derive(Debug, Default)]
pub struct Crowds {
    fairness: Vec<f64>,
    last: Vec<f64>,
    repeated: u64,
    trips: Distribution,
}

impl Crowds {
    /// Adds a repetition's.
    pub fn add(&mut self, asked: &Asked) {
        self.fairness.extend(jain(&asked.crowd.rates));
        self.last.clone_from(&asked.crowd.rates);
        self.repeated += asked.repeated;
        asked.crowd.trips.iter().for_each(|&trip| self.trips.record(trip.into()));
    }

    /// What is told of them; `None` if there were not many.
    pub fn shares(&self) -> Option<Shares> {
        let trips = self.trips.summary(gigae_eval_model::experiment::SCALE);
        Some(Shares {
            fairness: gigae_eval_model::stats::median(&self.fairness)?,
            last: self.last.clone(),
            repeated: self.repeated,
            trip_p50: trips.map(|trips| trips.p50),
            trip_p99: trips.map(|trips| trips.p99),
        })
    }
}

/// Jain's index of fairness (Jain, Chiu, Hawe, DEC-TR-301, 1984): the square of the sum over the sum of the
/// squares, by their number. `None` where nothing arrived.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let sum: f64 = rates.iter().sum();
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// What many ends counted, put together. Receivers are as many as senders, or one for all: then the senders'
/// own counts tell how they share, for everything they sent has arrived.
pub fn together(asked: Vec<Asked>, answered: Vec<Answered>) -> (Asked, Answered) {
    let sent = |one: &Asked| one.bytes as f64 / one.cost.seconds.max(f64::MIN_POSITIVE) / 1e6;
    let seconds = common(&answered);
    let rates = match answered.len() == asked.len() {
        true => {
            let rate = |one: &Answered| one.measured_bytes as f64 / seconds / 1e6;
            answered.iter().map(rate).collect()
        }
        false => asked.iter().map(sent).collect(),
    };
    let mut all = Asked { crowd: Crowd { rates, trips: Vec::new() }, ..Asked::default() };
    for one in asked {
        all.sent += one.sent;
        all.bytes += one.bytes;
        all.repeated += one.repeated;
        parallel(&mut all.cost, &one.cost);
        all.note = one.note.or(all.note);
    }
    let mut received = Answered { measured_seconds: seconds, ..Answered::default() };
    for one in answered {
        received.messages += one.messages;
        received.bytes += one.bytes;
        received.measured_bytes += one.measured_bytes;
        added(&mut received.slices, &one.slices);
        added(&mut received.warmup, &one.warmup);
        parallel(&mut received.cost, &one.cost);
        received.note = one.note.or(received.note);
    }
    (all, received)
}

/// Seconds from the first end's warm-up to the last one's last byte. Ends that did not count at the same time
/// have not shared the link, and get no credit for it.
fn common(answered: &[Answered]) -> f64 {
    let counted = || answered.iter().filter(|one| one.measured_seconds > 0.0);
    let from = counted().map(|one| one.measured_from).reduce(f64::min);
    let to = counted().map(|one| one.measured_from + one.measured_seconds).reduce(f64::max);
    from.zip(to).map_or(f64::MIN_POSITIVE, |(from, to)| to - from)
}

/// Adds costs of threads that ran at the same time.
fn parallel(sum: &mut gigae_eval_model::cost::Cost, one: &gigae_eval_model::cost::Cost) {
    let seconds = sum.seconds.max(one.seconds);
    sum.add(one);
    sum.seconds = seconds;
}

/// Adds rates of the same moments.
fn added(sum: &mut Vec<u32>, one: &[u32]) {
    sum.resize(sum.len().max(one.len()), 0);
    sum.iter_mut().zip(one).for_each(|(sum, one)| *sum = sum.saturating_add(*one));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_of_equals_and_a_share_of_one_that_has_all() {
        assert_eq!(jain(&[5.0, 5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[20.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert!((jain(&[3.0, 1.0]).unwrap() - 0.8).abs() < 1e-12);
        assert_eq!((jain(&[]), jain(&[0.0])), (None, None));
    }

    #[test]
    fn goodputs_add_up_and_times_do_not() {
        let asked = |bytes| Asked {
            sent: 10,
            bytes,
            cost: gigae_eval_model::cost::Cost {
                seconds: 1.0,
                cpu_thread: 0.25,
                ..Default::default()
            },
            ..Asked::default()
        };
        let answered = |bytes, from, seconds| Answered {
            messages: 9,
            measured_from: from,
            measured_bytes: bytes,
            measured_seconds: seconds,
            slices: vec![4, 4],
            ..Answered::default()
        };
        let senders = || vec![asked(1_000_000), asked(3_000_000)];
        let each = vec![answered(1_000_000, 70.0, 1.0), answered(2_000_000, 70.25, 0.5)];
        let (all, received) = together(senders(), each);
        assert_eq!((METHOD.figure)(&all, &received), 3.0);
        assert_eq!(((METHOD.lost)(&all, &received), received.slices), (2, vec![8, 8]));
        assert_eq!((all.cost.seconds, all.cost.cpu_thread), (1.0, 0.5));
        assert_eq!(all.crowd.rates, [1.0, 2.0]);
        // One after the other: no more than the link carries.
        let each = vec![answered(1_000_000, 70.0, 1.0), answered(1_000_000, 71.0, 1.0)];
        let (all, received) = together(senders(), each);
        assert_eq!((METHOD.figure)(&all, &received), 1.0);
        let (all, _) = together(senders(), vec![answered(4_000_000, 0.0, 1.0)]);
        assert_eq!(all.crowd.rates, [1.0, 3.0], "one receiver for all: as the senders say");
    }
}
