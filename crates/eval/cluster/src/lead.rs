//! Rank 0's part of a run: it gathers the ranks, has them measure in rounds, and puts the results
//! together.

use crate::card::{Member, measuring};
use crate::coordinator::{Coordinator, Flow, Measured};
use crate::error::ClusterError;
use crate::gather::{Job, gather};
use crate::message::{Failure, printable};
use crate::results::{
    About, Bisection, ClusterResults, Host, Incast, MOST_HOSTS, PairFailure, SCHEMA, Sizes,
    Skipped, TransportResults, UnusedRank, rounded,
};
use crate::rounds;
use crate::run::Progress;
use crate::schedule::{self, INCAST_TIMES, Timing};
use gigae_eval_measure::environment;
use gigae_eval_measure::experiment::incast::{jain, together};
use gigae_eval_measure::experiment::method;
use gigae_eval_measure::probe::{Answered, Asked};
use gigae_eval_model::cost::Cost;
use gigae_eval_model::duration;
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::{stats, transport};
use gigae_eval_session::control::Key;
use std::net::TcpListener;
use std::time::Instant;

/// Bytes of a round trip and of a message of a stream.
const TRIP: usize = 8;
const STREAM: usize = 64 << 10;

/// Failures that results name. The others are counted.
const MOST_FAILURES: usize = 100;

/// A transport that fails for all pairs of so many rounds in turn is left out.
const HOPELESS: usize = 3;

/// Measures. All ranks know that it is over when this returns.
pub(crate) fn lead(
    job: &Job<'_>,
    listener: TcpListener,
    key: &Key,
    progress: &mut dyn Progress,
) -> Result<ClusterResults, ClusterError> {
    let (date, begin) = (environment::now(), Instant::now());
    let members = measuring(job.cards);
    let (mut coordinator, abouts) = gather(job, listener, key, &members)?;
    let outcome = measured(job, &mut coordinator, &members, abouts, progress);
    // The others end without a word: rank 0 says what went wrong.
    coordinator.over();
    let mut results = outcome?;
    (results.date, results.duration) = (date, rounded(begin.elapsed().as_secs_f64()));
    Ok(results)
}

/// A run that goes on.
struct Running<'a, 'c> {
    coordinator: &'a mut Coordinator<'c>,
    progress: &'a mut dyn Progress,
    timing: Timing,
    names: Vec<String>,
    transports: Vec<TransportResults>,
    /// Of each transport, rounds in turn without any figure.
    empty: Vec<usize>,
    skipped: Vec<Skipped>,
    failures: Vec<PairFailure>,
    failed: u64,
    done: usize,
    total: usize,
}

fn measured(
    job: &Job<'_>,
    coordinator: &mut Coordinator<'_>,
    members: &[Member],
    abouts: Vec<About>,
    progress: &mut dyn Progress,
) -> Result<ClusterResults, ClusterError> {
    let config = job.config;
    let hosts: Vec<Host> =
        members.iter().zip(abouts).map(|(one, about)| host(job, one, about)).collect();
    let ranks = job.cards.len() as u32;
    let unused: Vec<UnusedRank> = (0..ranks)
        .filter(|rank| !members.iter().any(|member| member.rank == *rank))
        .map(|rank| UnusedRank { rank, host: job.cards[rank as usize].host.clone() })
        .collect();
    match hosts.len() {
        0 | 1 => return Err(ClusterError::OneHost(ranks)),
        count if count > MOST_HOSTS => return Err(ClusterError::TooMany(count, MOST_HOSTS)),
        _ => {}
    }
    let mtu = hosts.iter().map(|host| host.mtu).min().unwrap_or_default();
    let payload = |name: &String| transport::by_name(name).map(|one| one.frame_payload(mtu));
    let incast = config.transports.iter().filter_map(payload).min().unwrap_or_default();
    let timing = Timing {
        seconds: config.seconds,
        wait: config.wait,
        sizes: Sizes { trip: TRIP, stream: STREAM, incast },
    };
    let count = hosts.len();
    let mut running = Running {
        coordinator,
        progress,
        timing,
        names: hosts.iter().map(|host| host.name.clone()).collect(),
        transports: config
            .transports
            .iter()
            .map(|name| TransportResults::new(name, count))
            .collect(),
        empty: vec![0; config.transports.len()],
        skipped: Vec::new(),
        failures: Vec::new(),
        failed: 0,
        done: 0,
        total: schedule::steps(count, config.transports.len()),
    };
    running.announce(job, &unused);
    running.pairs()?;
    running.halves()?;
    running.incasts()?;
    if running.transports.is_empty() {
        let reasons = running
            .skipped
            .iter()
            .map(|one| format!("{} on {}: {}", one.transport, one.host, one.reason));
        return Err(ClusterError::Nothing(reasons.collect::<Vec<_>>().join("; ")));
    }
    Ok(ClusterResults {
        schema: SCHEMA.into(),
        date: String::new(),
        duration: 0.0,
        command: config.command.clone(),
        gigae: environment::VERSION.into(),
        git: environment::GIT.into(),
        launcher: job.protocol.into(),
        ranks,
        // The first host of each.
        machines: members.iter().filter(|member| member.place == 0).count(),
        seconds: timing.seconds,
        warmup: timing.warmup(),
        sizes: timing.sizes,
        transports: running.transports,
        skipped: running.skipped,
        failures: running.failures,
        failed: running.failed,
        hosts,
        unused,
    })
}

fn host(job: &Job<'_>, member: &Member, about: About) -> Host {
    let card = &job.cards[member.rank as usize];
    let bytes: Vec<String> = card.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    Host {
        name: card.host.clone(),
        rank: member.rank,
        interface: card.interface.clone(),
        mac: bytes.join(":"),
        ip: card.ip,
        mtu: card.mtu,
        about,
    }
}

impl Running<'_, '_> {
    fn hosts(&self) -> usize {
        self.names.len()
    }

    fn announce(&mut self, job: &Job<'_>, unused: &[UnusedRank]) {
        let (hosts, ranks) = (self.hosts(), job.cards.len());
        let seconds = schedule::estimate(hosts, self.transports.len(), &self.timing);
        self.progress.say(&format!(
            "{hosts} hosts ({} ranks by {}), {} pairs in {} rounds, {} measurements: about {}",
            ranks,
            job.protocol,
            hosts * (hosts - 1) / 2,
            rounds::pairs(hosts).len(),
            self.total,
            duration::say(seconds.ceil()),
        ));
        if let Some(first) = unused.first() {
            self.progress.say(&format!(
                "{} ranks do not measure, since an earlier rank is on the same host (the first: rank {} on {})",
                unused.len(), first.rank, first.host,
            ));
        }
    }

    /// All pairs in rounds: round trips, then a stream each way.
    fn pairs(&mut self) -> Result<(), ClusterError> {
        let all = rounds::pairs(self.hosts());
        for (number, pairs) in all.iter().enumerate() {
            let next = format!("round {} of {}", number + 1, all.len());
            let there = |&(a, b): &Flow| (a, b);
            let back = |&(a, b): &Flow| (b, a);
            for at in self.order(number) {
                self.step(&next);
                let trips = self.flows(at, Experiment::Rtt, By::Pair, pairs.iter().map(there))?;
                self.keep_trips(at, &trips);
                self.step(&next);
                let there = pairs.iter().map(there);
                let forth = self.flows(at, Experiment::Stream, By::Pair, there)?;
                self.keep_rates(at, &forth);
                self.step(&next);
                let back = pairs.iter().map(back);
                let back = self.flows(at, Experiment::Stream, By::Pair, back)?;
                self.keep_rates(at, &back);
                let any = [&trips, &forth, &back].iter().any(|one| !one.is_empty());
                self.empty[at] = if any { 0 } else { self.empty[at] + 1 };
            }
            self.leave_out();
        }
        Ok(())
    }

    /// All pairs across two halves at once.
    fn halves(&mut self) -> Result<(), ClusterError> {
        let shifts = rounds::shifts(self.hosts());
        for shift in 0..shifts {
            let pairs = rounds::bisection(self.hosts(), shift);
            for at in self.order(shift) {
                for back in [false, true] {
                    self.step("bisection");
                    let way = |&(a, b): &Flow| if back { (b, a) } else { (a, b) };
                    let ways = pairs.iter().map(way);
                    let got = self.flows(at, Experiment::Stream, By::All, ways)?;
                    let rates: Vec<f64> = got.iter().map(|(_, one)| stream(one)).collect();
                    if rates.len() < pairs.len() {
                        // Without a pair the others have more room. The report says it.
                        continue;
                    }
                    self.transports[at].bisection.push(Bisection {
                        shift,
                        back,
                        pairs: rates.len(),
                        sum: rounded(rates.iter().sum()),
                        least: rounded(rates.iter().copied().fold(f64::INFINITY, f64::min)),
                        most: rounded(rates.iter().copied().fold(0.0, f64::max)),
                    });
                }
            }
            self.leave_out();
        }
        Ok(())
    }

    /// Many to one, for each host.
    fn incasts(&mut self) -> Result<(), ClusterError> {
        let hosts = self.hosts();
        let mut all: Vec<Vec<Vec<Incast>>> =
            self.transports.iter().map(|_| vec![Vec::new(); hosts]).collect();
        for time in 0..INCAST_TIMES {
            for turn in 0..hosts {
                // The second time the other way round: what drifts does not look like a host.
                let to = if time % 2 == 0 { turn } else { hosts - 1 - turn };
                let next =
                    format!("incast {} of {}", time * hosts + turn + 1, INCAST_TIMES * hosts);
                for at in self.order(turn) {
                    self.step(&next);
                    let senders = rounds::senders(hosts, to);
                    let flows = senders.iter().map(|&from| (from, to));
                    let got = self.flows(at, Experiment::Incast, By::All, flows)?;
                    all[at][to].extend(many_to_one(&got, senders.len(), &self.transports[at].name));
                }
            }
        }
        for (one, all) in self.transports.iter_mut().zip(all) {
            one.incast = all.iter().map(|times| incast_of(times)).collect();
        }
        Ok(())
    }

    /// The transports, in another order each time.
    fn order(&self, number: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.transports.len()).collect();
        if number % 2 == 1 {
            order.reverse();
        }
        order
    }

    fn step(&mut self, next: &str) {
        self.progress.step(self.done, self.total, next);
        self.done += 1;
    }

    /// Measures flows at once, and what failed once more: that may have been an accident. Flows
    /// that failed again are noted, and left out of what is returned.
    fn flows(
        &mut self,
        at: usize,
        experiment: Experiment,
        by: By,
        flows: impl Iterator<Item = Flow>,
    ) -> Result<Vec<(Flow, Measured)>, ClusterError> {
        let name = self.transports[at].name.clone();
        // A transport that cannot be used here is left out at the end of the round.
        if self.skipped.iter().any(|one| one.transport == name) {
            return Ok(Vec::new());
        }
        let task = self.timing.task(experiment, &name);
        let measure = |flows: &[Flow]| self.coordinator.measure(&task, flows);
        let (kept, failed) = twice(experiment, by, flows.collect(), measure)?;
        for (flow, host, failure) in failed {
            self.note(experiment, &name, flow, host, &failure);
        }
        Ok(kept)
    }

    /// Notes a failure at a host. One that concerns all hosts leaves the transport out.
    fn note(
        &mut self,
        experiment: Experiment,
        name: &str,
        (from, to): Flow,
        host: usize,
        failure: &Failure,
    ) {
        let [from, to, host] = [from, to, host].map(|host| self.names[host].clone());
        let reason = printable(&failure.reason);
        let transport = name.to_owned();
        if failure.unavailable && !self.skipped.iter().any(|one| one.transport == name) {
            self.progress.say(&format!("{name} is left out: on {host}, {reason}"));
            let (transport, reason) = (transport.clone(), reason.clone());
            self.skipped.push(Skipped { transport, host, reason });
        }
        self.failed += 1;
        if self.failures.len() < MOST_FAILURES {
            let what = experiment.name().to_owned();
            self.failures.push(PairFailure { what, transport, from, to, reason });
        }
    }

    /// Leaves transports out that cannot be used, or fail all the time.
    fn leave_out(&mut self) {
        for at in (0..self.transports.len()).rev() {
            let name = &self.transports[at].name;
            let unavailable = self.skipped.iter().any(|one| one.transport == *name);
            if !unavailable && self.empty[at] < HOPELESS {
                continue;
            }
            if !unavailable {
                let last = self.failures.iter().rev().find(|one| one.transport == *name);
                let reason = last.map_or_else(String::new, |one| one.reason.clone());
                self.skipped.push(Skipped {
                    transport: name.clone(),
                    host: "all hosts".into(),
                    reason: format!("no measurement of {HOPELESS} rounds worked: {reason}"),
                });
            }
            self.transports.remove(at);
            self.empty.remove(at);
        }
    }

    fn keep_trips(&mut self, at: usize, measured: &[(Flow, Measured)]) {
        let hosts = self.hosts();
        let one = &mut self.transports[at];
        for ((from, to), measured) in measured {
            let Ok(sent) = &measured.sent else { continue };
            let pair = rounds::index(hosts, *from, *to);
            one.trip_p50[pair] = sent.trips.map(|trips| rounded(trips.p50));
            one.trip_p99[pair] = sent.trips.map(|trips| rounded(trips.p99));
            one.note = one.note.take().or_else(|| sent.note.as_deref().map(printable));
        }
    }

    fn keep_rates(&mut self, at: usize, measured: &[(Flow, Measured)]) {
        let hosts = self.hosts();
        let one = &mut self.transports[at];
        for (flow, measured) in measured {
            let pair = rounds::index(hosts, flow.0, flow.1);
            let list = if flow.0 < flow.1 { &mut one.forward } else { &mut one.backward };
            list[pair] = Some(rounded(stream(measured)));
        }
    }
}

/// What is repeated if a flow fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// This flow. The others have their figures.
    Pair,
    /// All flows: together they are one measurement.
    All,
}

/// A flow that was measured.
type Kept = (Flow, Measured);

/// A flow that failed, at which host, and why.
type Failed = (Flow, usize, Failure);

/// Measures flows, and what failed once more. What was measured, and what failed again.
fn twice(
    experiment: Experiment,
    by: By,
    flows: Vec<Flow>,
    mut measure: impl FnMut(&[Flow]) -> Result<Vec<Measured>, ClusterError>,
) -> Result<(Vec<Kept>, Vec<Failed>), ClusterError> {
    let (mut kept, mut failed) = (Vec::new(), Vec::new());
    let mut left = flows;
    for is_last in [false, true] {
        let measured = measure(&left)?;
        let mut again = Vec::new();
        for (flow, one) in left.into_iter().zip(measured) {
            match one.failure(experiment, flow) {
                None => kept.push((flow, one)),
                Some((host, failure)) if is_last || failure.unavailable => {
                    failed.push((flow, host, failure));
                }
                Some(_) => again.push(flow),
            }
        }
        if again.is_empty() {
            break;
        }
        if by == By::All {
            again.extend(kept.drain(..).map(|(flow, _)| flow));
        }
        left = again;
    }
    Ok((kept, failed))
}

/// Goodput of a flow, in 10^6 bytes per second.
fn stream(measured: &Measured) -> f64 {
    let answered = measured.answered.as_ref().ok();
    answered
        .map_or(0.0, |answered| (method(Experiment::Stream).figure)(&Asked::default(), answered))
}

/// What one time of many to one gave. All senders count, or none.
fn many_to_one(got: &[(Flow, Measured)], senders: usize, name: &str) -> Option<Incast> {
    if got.len() != senders || got.is_empty() {
        return None;
    }
    let asked: Vec<Asked> = got
        .iter()
        .filter_map(|(_, one)| one.sent.as_ref().ok())
        .map(|sent| Asked {
            bytes: sent.bytes,
            repeated: sent.repeated,
            cost: Cost { seconds: sent.seconds, ..Cost::default() },
            ..Asked::default()
        })
        .collect();
    let mut answered: Vec<Answered> =
        got.iter().filter_map(|(_, one)| one.answered.as_ref().ok()).cloned().collect();
    if transport::by_name(name).is_some_and(|one| one.receives_from_all) {
        answered.truncate(1);
    }
    let (asked, answered) = together(asked, answered, senders, 1);
    Some(Incast {
        senders,
        goodput: rounded((method(Experiment::Incast).figure)(&asked, &answered)),
        fairness: rounded(jain(&asked.crowd.rates)?),
        repeated: asked.repeated,
        times: 1,
    })
}

/// The figure of several times.
fn incast_of(times: &[Incast]) -> Option<Incast> {
    let rates: Vec<f64> = times.iter().map(|one| one.goodput).collect();
    Some(Incast {
        goodput: rounded(stats::median(&rates)?),
        repeated: times.iter().map(|one| one.repeated).sum(),
        times: times.len(),
        ..*times.last()?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Sent;

    fn measured(works: bool) -> Measured {
        let failure = || Failure { reason: "lost".into(), unavailable: false };
        let sent = if works { Ok(Sent::default()) } else { Err(failure()) };
        let answered = Answered { measured_seconds: 1.0, ..Answered::default() };
        Measured { unopened: None, sent, answered: Ok(answered) }
    }

    /// Two of three flows work; the third one works the second time, or not.
    fn with_an_accident(by: By, is_lasting: bool) -> (Vec<Vec<Flow>>, usize, Vec<Failed>) {
        let flows = vec![(0, 3), (1, 4), (2, 5)];
        let mut asked: Vec<Vec<Flow>> = Vec::new();
        let (kept, failed) = twice(Experiment::Stream, by, flows, |flows| {
            let works = |flow: &Flow| *flow != (1, 4) || (!asked.is_empty() && !is_lasting);
            let outcome = flows.iter().map(|flow| measured(works(flow))).collect();
            asked.push(flows.to_vec());
            Ok(outcome)
        })
        .unwrap();
        (asked, kept.len(), failed)
    }

    #[test]
    fn what_is_one_measurement_is_repeated_as_a_whole() {
        let (asked, kept, failed) = with_an_accident(By::All, false);
        let mut second = asked[1].clone();
        second.sort_unstable();
        assert_eq!((asked.len(), second), (2, vec![(0, 3), (1, 4), (2, 5)]));
        assert_eq!((kept, failed.len()), (3, 0));
        let (_, kept, failed) = with_an_accident(By::All, true);
        assert_eq!((kept, failed.len()), (2, 1));
        let (flow, host, failure) = &failed[0];
        assert_eq!((*flow, *host, failure.reason.as_str()), ((1, 4), 1, "lost"));
    }

    #[test]
    fn a_pair_that_failed_is_repeated_alone() {
        let (asked, kept, failed) = with_an_accident(By::Pair, false);
        assert_eq!((asked[1].clone(), kept, failed.len()), (vec![(1, 4)], 3, 0));
    }
}
