//! Flows of several nodes through one port, on the link that is being measured: the second node has
//! one end of each. Cells come in rounds, each round in a new random order.

use crate::error::{RepetitionError, RunError};
use crate::gather::few_repetitions;
use crate::repetition::port_limit;
use crate::rounds::{MOST_FAILURES, Running};
use crate::services::FABRIC_ONLY;
use gigae_eval_measure::experiment::incast::jain;
use gigae_eval_measure::shares::{Counters, Hub, Role, Trip, Work, hub};
use gigae_eval_measure::site::Site;
use gigae_eval_measure::transport::TransportError;
use gigae_eval_model::plan::SharesJob;
use gigae_eval_model::results::Skipped;
use gigae_eval_model::shares::{FlowGroup, FlowShare, SharesFigure, TripsBeside, Way};
use gigae_eval_model::{stats, transport};
use gigae_eval_session::stage::Stage;
use gigae_fabric::{Fabric, Node, PortCounters};
use gigae_host::affinity::{self, SavedAffinity};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// The node that has one end of each flow: the one whose rate a plan can set.
const HUB: u16 = 2;

/// Of fewer round trips the 99th percentile is the largest one.
const FEWEST: usize = 100;

/// Between two looks whether the run is interrupted.
const LOOK: Duration = Duration::from_millis(20);

/// What a repetition brought.
#[derive(Clone, Debug, Default)]
struct Measured {
    /// Goodput of each flow in 10^6 bytes per second.
    goodputs: Vec<f64>,
    /// Round trips in microseconds.
    trips: Vec<f64>,
    /// Of the flows' ports.
    frames: u64,
    dropped: u64,
}

/// A cell and what it has brought so far.
struct Gathered {
    job: SharesJob,
    brought: Vec<Measured>,
    failures: u32,
}

/// The nodes other than the hub's, in the order in which flows get them.
fn others(fabric: &Fabric) -> impl Iterator<Item = u16> {
    (1..=fabric.config().nodes).filter(|&number| number != HUB)
}

impl Running<'_> {
    /// Measures all flows of a link.
    pub(super) fn shares(
        &mut self,
        stage: &Stage,
        link: &str,
        planned: Option<&str>,
    ) -> Result<(), RunError> {
        let jobs = self.plan.shares_jobs(planned);
        let Some(fabric) = &stage.fabric else {
            let skip = |job: SharesJob| skipped(link, &job, FABRIC_ONLY);
            self.skipped.extend(jobs.into_iter().map(skip));
            return Ok(());
        };
        let times = |job: &SharesJob| u64::from(job.repetitions);
        self.total += jobs.iter().map(times).sum::<u64>();
        let new = |job| Gathered { job, brought: Vec::new(), failures: 0 };
        let mut group: Vec<Gathered> = jobs.into_iter().map(new).collect();
        // The threads inherit it: they are more than there are processors.
        let saved = SavedAffinity::save().map_err(RunError::Counters)?;
        let _ = affinity::keep_to(&stage.cpus);
        let outcome = self.shares_rounds(fabric, link, &mut group);
        drop(saved);
        outcome?;
        self.shares.extend(group.iter().filter_map(|one| one.figure(stage, link)));
        Ok(())
    }

    fn shares_rounds(
        &mut self,
        fabric: &Fabric,
        link: &str,
        group: &mut [Gathered],
    ) -> Result<(), RunError> {
        for round in 0.. {
            let wanted =
                |one: &Gathered| round < one.job.repetitions && one.failures < MOST_FAILURES;
            let mut order: Vec<usize> =
                (0..group.len()).filter(|&index| wanted(&group[index])).collect();
            if order.is_empty() {
                break;
            }
            self.shuffle(&mut order);
            for index in order {
                let one = &mut group[index];
                let title = format!("{link} {}", one.job.cell.title());
                self.progress.step(self.done, self.total, &title);
                self.done += 1;
                match repetition(fabric, &one.job, self.interrupted) {
                    Ok(measured) => one.brought.push(measured),
                    Err(_) if self.interrupted.load(Ordering::Relaxed) => {
                        return Err(RunError::Interrupted);
                    }
                    Err(RepetitionError::Fatal(error)) => return Err(error),
                    Err(RepetitionError::Unavailable(reason)) => {
                        one.failures = MOST_FAILURES;
                        self.skipped.push(skipped(link, &one.job, &reason));
                    }
                    Err(RepetitionError::Repetition(reason)) => {
                        one.failures += 1;
                        if one.failures == MOST_FAILURES.min(one.job.repetitions) {
                            self.skipped.push(skipped(link, &one.job, &reason));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn skipped(link: &str, job: &SharesJob, reason: &str) -> Skipped {
    Skipped {
        link: link.to_owned(),
        transport: job.cell.mix(),
        what: Some(format!("shares, {}", job.cell.way.words(job.cell.count()))),
        reason: reason.to_owned(),
    }
}

fn failed<E: std::fmt::Display>(error: E) -> RepetitionError {
    RepetitionError::Repetition(error.to_string())
}

/// A node and its end of the link.
fn inside<T>(
    node: &Node,
    work: impl FnOnce(&Site) -> Result<T, TransportError>,
) -> Result<T, RepetitionError> {
    let _inside = node.enter().map_err(failed)?;
    let site = Site::find(node.interface).map_err(failed)?;
    Ok(work(&site)?)
}

/// One repetition.
fn repetition(
    fabric: &Fabric,
    job: &SharesJob,
    interrupted: &AtomicBool,
) -> Result<Measured, RepetitionError> {
    let work = open(fabric, job)?;
    let before = ports(fabric, job)?;
    let counters = Counters::new(job.cell.count() as usize);
    let mut measured = std::thread::scope(|scope| {
        let threads: Vec<(Role, Thread<'_>)> =
            work.into_iter().map(|work| (work.role, scope.spawn(|| work.run(&counters)))).collect();
        let span = measure(job, &counters, interrupted);
        finish(threads, &counters, span)
    })?;
    let after = ports(fabric, job)?;
    measured.frames = after.frames - before.frames;
    measured.dropped = after.dropped - before.dropped;
    Ok(measured)
}

/// A thread of an end.
type Thread<'a> = ScopedJoinHandle<'a, Result<Vec<Trip>, TransportError>>;

/// Opens all ends, each in its node.
fn open(fabric: &Fabric, job: &SharesJob) -> Result<Vec<Work>, RepetitionError> {
    let (mut nodes, mut number, mut work) = (others(fabric), 0, Vec::new());
    let mut next = || nodes.next().map(|number| fabric.node(number)).ok_or("too few nodes");
    let mut hubs: Vec<Box<dyn Hub>> = Vec::new();
    for (group, setting) in job.cell.flows.iter().zip(&job.settings) {
        let shape = (job.cell.way, job.cell.size);
        let mut hub =
            inside(&fabric.node(HUB), |site| hub(&group.transport, site, setting, shape))?;
        for _ in 0..group.count {
            let node = next().map_err(failed)?;
            work.extend(inside(&node, |site| hub.flow(site, number))?);
            number += 1;
        }
        hubs.push(hub);
    }
    let asker = next().map_err(failed)?;
    if let Some(first) = hubs.first_mut() {
        work.extend(inside(&asker, |site| first.asker(site))?);
    }
    work.extend(hubs.into_iter().flat_map(Hub::work));
    Ok(work)
}

/// What the ports sent and dropped through which the flows go.
fn ports(fabric: &Fabric, job: &SharesJob) -> Result<PortCounters, RepetitionError> {
    let all = fabric.port_counters().map_err(failed)?;
    let flows = job.cell.count() as usize;
    let numbers: Vec<u16> = match job.cell.way {
        Way::In => vec![HUB],
        Way::Out => others(fabric).take(flows).collect(),
    };
    let of = |number: &u16| all.get(usize::from(*number) - 1);
    let mut sum = PortCounters::default();
    for port in numbers.iter().filter_map(of) {
        sum.frames += port.frames;
        sum.dropped += port.dropped;
    }
    Ok(sum)
}

/// What was counted between two moments.
struct Span {
    begin: Instant,
    end: Instant,
    bytes: Vec<u64>,
}

/// Waits until the measured time is over. `None`: the run is interrupted.
fn measure(job: &SharesJob, counters: &Counters, interrupted: &AtomicBool) -> Option<Span> {
    let wait = |time: Duration| {
        let end = Instant::now() + time;
        while Instant::now() < end && !interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        }
    };
    wait(job.warmup);
    // A thread that is interrupted between the two looks makes the time longer, never shorter.
    let (begin, before) = (Instant::now(), counters.received());
    wait(job.measure);
    let (after, end) = (counters.received(), Instant::now());
    let bytes = after.iter().zip(before).map(|(after, before)| after - before).collect();
    (!interrupted.load(Ordering::Relaxed)).then_some(Span { begin, end, bytes })
}

/// Ends all threads: first those that send.
fn finish(
    threads: Vec<(Role, Thread<'_>)>,
    counters: &Counters,
    span: Option<Span>,
) -> Result<Measured, RepetitionError> {
    counters.stop();
    let (senders, receivers): (Vec<_>, Vec<_>) =
        threads.into_iter().partition(|(role, _)| *role == Role::Sends);
    let join = |(_, thread): (Role, Thread<'_>)| {
        thread.join().map_err(|_| failed("a measuring thread panicked"))
    };
    let ended: Vec<_> = senders.into_iter().map(join).collect();
    counters.end();
    let ended: Vec<_> = ended.into_iter().chain(receivers.into_iter().map(join)).collect();
    let span = span.ok_or(RepetitionError::Fatal(RunError::Interrupted))?;
    let mut trips = Vec::new();
    for end in ended {
        let counted = |trip: &Trip| (span.begin..span.end).contains(&trip.began);
        trips.extend(end??.into_iter().filter(counted));
    }
    let seconds = (span.end - span.begin).as_secs_f64();
    Ok(Measured {
        goodputs: span.bytes.iter().map(|&bytes| bytes as f64 / seconds / 1e6).collect(),
        trips: trips.iter().map(|trip| trip.took.as_secs_f64() * 1e6).collect(),
        ..Measured::default()
    })
}

impl Gathered {
    /// `None` if no repetition brought anything.
    fn figure(&self, stage: &Stage, link: &str) -> Option<SharesFigure> {
        let limits: Vec<Option<f64>> =
            self.job.cell.flows.iter().map(|group| self.limit(stage, group)).collect();
        let nodes: Vec<u16> = stage.fabric.iter().flat_map(others).collect();
        figure(&self.job, &self.brought, (&limits, &nodes), link)
    }

    /// What the link allows a flow alone.
    fn limit(&self, stage: &Stage, group: &FlowGroup) -> Option<f64> {
        let spec = transport::by_name(&group.transport)?;
        let way = match self.job.cell.way {
            Way::In => [1, HUB],
            Way::Out => [HUB, 1],
        };
        port_limit(stage, spec, self.job.cell.size, way)
    }
}

/// The figures of all repetitions: `limits` are those of the groups of flows, `nodes` those in the
/// order of the flows.
fn figure(
    job: &SharesJob,
    brought: &[Measured],
    (limits, nodes): (&[Option<f64>], &[u16]),
    link: &str,
) -> Option<SharesFigure> {
    let repetitions: Vec<f64> = brought.iter().map(|one| one.goodputs.iter().sum()).collect();
    let interval = stats::median_interval(&repetitions)?;
    let indices: Vec<f64> = brought.iter().filter_map(|one| jain(&one.goodputs)).collect();
    let flows = flows(job, brought, limits, nodes)?;
    let coverage = interval.coverage;
    Some(SharesFigure {
        link: link.to_owned(),
        cell: job.cell.clone(),
        unit: "MB/s".to_owned(),
        median: stats::median(&repetitions)?,
        ci95: [interval.low, interval.high],
        coverage,
        share: flows.iter().map(|one| one.share).sum(),
        fairness: stats::median(&indices)?,
        flows,
        switch_frames: brought.iter().map(|one| one.frames).sum(),
        switch_dropped: brought.iter().map(|one| one.dropped).sum(),
        trips: trips(job.cell.flows.first()?, brought),
        doubts: (coverage < stats::CONFIDENCE)
            .then(|| few_repetitions(coverage))
            .into_iter()
            .collect(),
        repetitions,
    })
}

/// What each flow got.
fn flows(
    job: &SharesJob,
    brought: &[Measured],
    limits: &[Option<f64>],
    nodes: &[u16],
) -> Option<Vec<FlowShare>> {
    let groups = job.cell.flows.iter().zip(limits);
    let each = groups.flat_map(|one| std::iter::repeat_n(one, one.0.count as usize));
    let of = |(number, ((group, limit), node)): (usize, ((&FlowGroup, &Option<f64>), &u16))| {
        let all: Vec<f64> =
            brought.iter().filter_map(|one| one.goodputs.get(number).copied()).collect();
        let goodput = stats::median(&all)?;
        Some(FlowShare {
            transport: group.transport.clone(),
            variant: group.variant.clone(),
            node: *node,
            goodput,
            share: limit.map(|limit| goodput / limit),
        })
    };
    each.zip(nodes).enumerate().map(of).collect()
}

fn trips(group: &FlowGroup, brought: &[Measured]) -> Option<TripsBeside> {
    let mut all: Vec<f64> = brought.iter().flat_map(|one| one.trips.iter().copied()).collect();
    all.sort_by(f64::total_cmp);
    let at = |part: f64| all.get((all.len() as f64 * part) as usize).copied();
    Some(TripsBeside {
        transport: group.transport.clone(),
        variant: group.variant.clone(),
        n: all.len() as u64,
        p50_us: at(0.50)?,
        p99_us: at(0.99).filter(|_| all.len() >= FEWEST),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::plan::Setting;
    use gigae_eval_model::shares::SharesCell;

    fn job() -> SharesJob {
        let group = |transport: &str, variant: Option<&str>| FlowGroup {
            transport: transport.into(),
            variant: variant.map(str::to_owned),
            count: 2,
        };
        let flows = vec![group("gigae", Some("credit")), group("tcp", None)];
        SharesJob {
            cell: SharesCell { way: Way::In, flows, size: 1400 },
            settings: vec![Setting::Default; 2],
            measure: Duration::from_secs(1),
            warmup: Duration::ZERO,
            repetitions: 3,
        }
    }

    fn of(brought: &[Measured], limits: &[Option<f64>]) -> Option<SharesFigure> {
        figure(&job(), brought, (limits, &[1, 3, 4, 5, 6]), "gigabit")
    }

    #[test]
    fn a_figure_has_the_medians_of_each_flow_and_the_shares_of_all() {
        let measured = |goodputs: [f64; 4]| Measured {
            goodputs: goodputs.into(),
            trips: vec![300.0; 40],
            frames: 95,
            dropped: 5,
        };
        let brought = [[20.0, 30.0, 10.0, 40.0], [25.0; 4], [30.0, 20.0, 10.0, 40.0]].map(measured);
        let found = of(&brought, &[Some(100.0), Some(50.0)]).unwrap();
        let each: Vec<_> =
            found.flows.iter().map(|one| (one.node, one.goodput, one.share.unwrap())).collect();
        assert_eq!(each, [(1, 25.0, 0.25), (3, 25.0, 0.25), (4, 10.0, 0.2), (5, 40.0, 0.8)]);
        assert_eq!((found.median, found.share, found.repetitions.len()), (100.0, Some(1.5), 3));
        assert!((found.fairness - 1e4 / (4.0 * 3000.0)).abs() < 1e-9, "{found:?}");
        assert_eq!((found.switch_frames, found.switch_dropped, found.loss()), (285, 15, 0.05));
        let trips = found.trips.clone().unwrap();
        assert_eq!((trips.n, trips.p50_us, trips.p99_us), (120, 300.0, Some(300.0)));
        assert_eq!(trips.variant.as_deref(), Some("credit"));
        assert_eq!(found.share_of("gigae", Some("credit")), Some(0.5));
        assert_eq!(found.share_of("gigae", None), None);
        assert_eq!(found.doubts.len(), 1, "three repetitions have no interval of 95 %");
    }

    #[test]
    fn without_a_rate_there_are_no_shares_and_without_repetitions_no_figure() {
        assert_eq!(of(&[], &[Some(1.0); 2]), None);
        let measured = Measured { goodputs: vec![1.0; 4], ..Measured::default() };
        let found = of(&[measured], &[None; 2]).unwrap();
        assert_eq!((found.share, found.flows[0].share, found.trips), (None, None, None));
    }
}
