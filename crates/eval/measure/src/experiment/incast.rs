//! Many senders and one receiver: each sends a stream for the same time, as fast as there is room,
//! and the receiver counts what arrives of each. The loops are those of a [`stream`]; the figure is
//! the goodput of all together, and beside it stand how evenly they share it, what is lost or
//! repeated, and how long an ICMP ECHO takes on the same way during that time.

pub use super::stream::{answer, ask};

use super::{Method, stream};
use crate::probe::{Answered, Asked, Crowd};
use gigae_eval_model::cost::Cost;
use gigae_eval_model::results::Shares;
use gigae_eval_model::stats::Distribution;

pub(super) const METHOD: Method = Method {
    figure: stream::goodput,
    samples: |_, answered| (&answered.slices, &answered.warmup),
    lost: |asked, answered| asked.sent.saturating_sub(answered.messages),
};

/// Of fewer values the 99th percentile is the largest one.
const FEWEST: u64 = 100;

/// Of all repetitions.
#[derive(Debug, Default)]
pub struct IncastTotals {
    fairness: Vec<f64>,
    last: Vec<f64>,
    repeated: u64,
    trips: Distribution,
    trips_lost: u64,
}

impl IncastTotals {
    /// Adds a repetition's.
    pub fn add(&mut self, asked: &Asked) {
        self.fairness.extend(jain(&asked.crowd.rates));
        self.last.clone_from(&asked.crowd.rates);
        self.repeated += asked.repeated;
        asked.crowd.trips.iter().for_each(|&trip| self.trips.record(trip.into()));
        self.trips_lost += asked.crowd.trips_lost;
    }

    /// What the results say of them; `None` if there were not many.
    pub fn shares(&self) -> Option<Shares> {
        let trips = self.trips.summary(gigae_eval_model::experiment::SCALE);
        let sent = trips.map_or(0, |trips| trips.n) + self.trips_lost;
        Some(Shares {
            fairness: gigae_eval_model::stats::median(&self.fairness)?,
            last: self.last.clone(),
            repeated: self.repeated,
            trip_p50: trips.map(|trips| trips.p50),
            trip_p99: trips.filter(|trips| trips.n >= FEWEST).map(|trips| trips.p99),
            trips_sent: (sent > 0).then_some(sent),
            trips_lost: (sent > 0).then_some(self.trips_lost),
        })
    }
}

/// Jain's index of fairness (Jain, Chiu, Hawe, DEC-TR-301, 1984): the square of the sum over the
/// sum of the squares, by their number. `None` where nothing arrived.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let sum: f64 = rates.iter().sum();
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// What many ends counted, put together. Receivers are as many as senders, or one for all: then the
/// senders' own counts show how they share, for everything they sent has arrived. The senders are
/// on `nodes` nodes in turn; the receivers are on one. Each end has `cpus` CPUs, which its threads
/// have in turn: several only where there is one sending node.
pub fn together(
    asked: Vec<Asked>,
    answered: Vec<Answered>,
    nodes: usize,
    cpus: usize,
) -> (Asked, Answered) {
    let sent = |one: &Asked| one.bytes as f64 / one.cost.seconds.max(f64::MIN_POSITIVE) / 1e6;
    let seconds = common(&answered);
    let rates = match answered.len() == asked.len() {
        true => {
            let rate = |one: &Answered| one.measured_bytes as f64 / seconds / 1e6;
            answered.iter().map(rate).collect()
        }
        false => asked.iter().map(sent).collect(),
    };
    let crowd = Crowd { rates, ..Crowd::default() };
    let costs: Vec<Cost> = asked.iter().map(|one| one.cost).collect();
    let mut all = Asked { crowd, cost: on_cpus(&costs, nodes, cpus), ..Asked::default() };
    for one in asked {
        all.sent += one.sent;
        all.bytes += one.bytes;
        all.repeated += one.repeated;
        all.note = one.note.or(all.note);
    }
    let costs: Vec<Cost> = answered.iter().map(|one| one.cost).collect();
    let cost = on_cpus(&costs, 1, cpus);
    let mut received = Answered { measured_seconds: seconds, cost, ..Answered::default() };
    for one in answered {
        received.messages += one.messages;
        received.bytes += one.bytes;
        received.measured_bytes += one.measured_bytes;
        added(&mut received.slices, &one.slices);
        added(&mut received.warmup, &one.warmup);
        received.note = one.note.or(received.note);
    }
    (all, received)
}

/// Seconds from the first end's warm-up to the last one's last byte. Ends that did not count at the
/// same time have not shared the link, and get no credit for it.
fn common(answered: &[Answered]) -> f64 {
    let counted = || answered.iter().filter(|one| one.measured_seconds > 0.0);
    let from = counted().map(|one| one.measured_from).reduce(f64::min);
    let to = counted().map(|one| one.measured_from + one.measured_seconds).reduce(f64::max);
    from.zip(to).map_or(f64::MIN_POSITIVE, |(from, to)| to - from)
}

/// The costs of threads that ran at the same time on these CPUs in turn: the CPUs' add up. Time is
/// common to all, and so is the device.
fn on_cpus(threads: &[Cost], nodes: usize, cpus: usize) -> Cost {
    if cpus == 1 {
        return parallel(threads, nodes);
    }
    let each: Vec<Cost> = (0..cpus.min(threads.len()))
        .map(|cpu| {
            let of_cpu: Vec<Cost> = threads.iter().skip(cpu).step_by(cpus).copied().collect();
            parallel(&of_cpu, 1)
        })
        .collect();
    let mut all = Cost::default();
    each.iter().for_each(|one| all.add(one));
    let most = |of: fn(&Cost) -> u64| each.iter().map(of).max().unwrap_or(0);
    Cost {
        seconds: each.iter().map(|one| one.seconds).fold(0.0, f64::max),
        tx_frames: most(|one| one.tx_frames),
        rx_frames: most(|one| one.rx_frames),
        tx_bytes: most(|one| one.tx_bytes),
        rx_bytes: most(|one| one.rx_bytes),
        interrupts: most(|one| one.interrupts),
        ..all
    }
}

/// The costs of threads that ran at the same time on one CPU, on `nodes` nodes in turn. What a
/// thread counts of itself is added up. What it counts of the CPU all the others have counted, too,
/// and what it counts of its node's device those of the same node.
fn parallel(threads: &[Cost], nodes: usize) -> Cost {
    let most = |of: fn(&Cost) -> f64| threads.iter().map(of).fold(0.0, f64::max);
    let devices = |of: fn(&Cost) -> u64| {
        let most = |node| threads.iter().skip(node).step_by(nodes).map(of).max();
        (0..nodes).filter_map(most).sum()
    };
    let mut all = Cost::default();
    threads.iter().for_each(|one| all.add(one));
    Cost {
        seconds: most(|one| one.seconds),
        cpu_interrupts: most(|one| one.cpu_interrupts),
        cpu_others: most(|one| one.cpu_thread + one.cpu_others) - all.cpu_thread,
        steal: most(|one| one.steal),
        tx_frames: devices(|one| one.tx_frames),
        rx_frames: devices(|one| one.rx_frames),
        tx_bytes: devices(|one| one.tx_bytes),
        rx_bytes: devices(|one| one.rx_bytes),
        // Several nodes are virtual, and their soft interrupts are the CPU's.
        interrupts: threads.iter().map(|one| one.interrupts).max().unwrap_or(0),
        ..all
    }
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
            cost: Cost { seconds: 1.0, cpu_thread: 0.25, ..Default::default() },
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
        let (all, received) = together(senders(), each, 1, 1);
        assert_eq!((METHOD.figure)(&all, &received), 3.0);
        assert_eq!(((METHOD.lost)(&all, &received), received.slices), (2, vec![8, 8]));
        assert_eq!((all.cost.seconds, all.cost.cpu_thread), (1.0, 0.5));
        assert_eq!(all.crowd.rates, [1.0, 2.0]);
        // One after the other: no more than the link carries.
        let each = vec![answered(1_000_000, 70.0, 1.0), answered(1_000_000, 71.0, 1.0)];
        let (all, received) = together(senders(), each, 1, 1);
        assert_eq!((METHOD.figure)(&all, &received), 1.0);
        let (all, _) = together(senders(), vec![answered(4_000_000, 0.0, 1.0)], 1, 1);
        assert_eq!(all.crowd.rates, [1.0, 3.0], "one receiver for all: as the senders say");
    }

    /// What a thread that has 40 % of a CPU counts of itself and of the CPU and the device that it
    /// shares with another one.
    fn sharing() -> Cost {
        Cost {
            seconds: 1.0,
            cpu_thread: 0.4,
            cpu_others: 0.4,
            cpu_interrupts: 0.1,
            steal: 0.002,
            tx_frames: 100,
            interrupts: 50,
            syscalls: 10,
            sleeps: 3,
            ..Cost::default()
        }
    }

    #[test]
    fn what_ends_share_counts_once() {
        let ends = || (0..2).map(|_| Asked { cost: sharing(), ..Asked::default() }).collect();
        let all = || (0..2).map(|_| Answered { cost: sharing(), ..Answered::default() }).collect();
        let (asked, answered) = together(ends(), all(), 1, 1);
        for cost in [asked.cost, answered.cost] {
            assert!(cost.cpu_others.abs() < 1e-9, "{cost:?}");
            let shared = (cost.cpu_interrupts, cost.steal, cost.tx_frames, cost.interrupts);
            assert_eq!(shared, (0.1, 0.002, 100, 50));
            assert_eq!((cost.cpu_thread, cost.syscalls, cost.sleeps), (0.8, 20, 6));
        }
        let (asked, answered) = together(ends(), all(), 2, 1);
        assert_eq!((asked.cost.tx_frames, asked.cost.interrupts), (200, 50), "a device each");
        assert_eq!(answered.cost.tx_frames, 100);
    }

    #[test]
    fn cpus_of_their_own_add_up_and_the_device_does_not() {
        // Of three threads, two share a CPU.
        let ends = || (0..3).map(|_| Asked { cost: sharing(), ..Asked::default() }).collect();
        let all = || (0..3).map(|_| Answered { cost: sharing(), ..Answered::default() }).collect();
        let (asked, answered) = together(ends(), all(), 1, 2);
        for cost in [asked.cost, answered.cost] {
            assert_eq!((cost.seconds, cost.tx_frames, cost.syscalls), (1.0, 100, 30));
            let sums = [cost.cpu_thread - 1.2, cost.cpu_interrupts - 0.2, cost.cpu_others - 0.4];
            assert!(sums.iter().all(|sum| sum.abs() < 1e-9), "{cost:?}");
        }
    }

    #[test]
    fn lost_echoes_are_counted_and_a_few_have_no_percentile() {
        let of = |answered: u32, trips_lost| {
            let crowd = Crowd { rates: vec![1.0], trips: (1..=answered).collect(), trips_lost };
            let mut crowds = IncastTotals::default();
            crowds.add(&Asked { crowd, ..Asked::default() });
            crowds.shares().unwrap()
        };
        let few = of(2, 20);
        assert_eq!((few.trips_sent, few.trips_lost), (Some(22), Some(20)));
        assert!(few.trip_p50.is_some() && few.trip_p99.is_none(), "{few:?}");
        assert!(of(100, 0).trip_p99.is_some());
        assert_eq!(of(0, 7).trips_lost, Some(7));
        assert_eq!(of(0, 0).trips_sent, None, "no ECHO could be made");
    }
}
