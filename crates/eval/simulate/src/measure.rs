//! Carries a run out and takes its figures.

use crate::job::{DraftFile, Job};
use crate::port::{PortName, Shape};
use crate::results::{Class, Frames, Run, Tier};
use crate::run::SimulateError;
use crate::workload::{Offered, Workload};
use gigae_network::workload::{
    self as traffic, Drive, Framing, Message, MessageHost, Record, SlowdownTable,
};
use gigae_network::{Host, Network, PortId, Time, Topology, Trace, wire_bytes};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Begins the capture file of a protocol.
pub(crate) type TraceFile<P> = fn(Box<dyn Write + Send>, &[PortId]) -> io::Result<Trace<P>>;

/// Between two looks at the network, for progress and Ctrl-C: some milliseconds of work.
const STEP: Time = Time::us(100);

/// Carries a run out. `None`: it was interrupted.
pub(crate) fn measure<H: MessageHost>(
    job: &Job<'_>,
    framing: Framing,
    hosts: Vec<H>,
    trace: TraceFile<H::Payload>,
) -> Result<Option<Run>, SimulateError> {
    let (topology, shape) = (job.topology(), job.shape());
    let Offered { mut traffic, total, span, expected } =
        job.workload.offered(&topology, framing, job.seed);
    let mut network = Network::new(topology.clone(), hosts, job.seed);
    let mut watch = Watch::new(job, framing, &topology, shape, span.clone());
    watch.begin(&mut network, trace)?;
    let mut drive = Drive::new(&mut traffic);
    let limit = Time::ms(job.plan.limit_ms);
    let mut now = Time::ZERO;
    loop {
        now = watch.next_stop(now).min(limit);
        let is_done = drive.advance(&mut network, now);
        watch.look(&mut network, now)?;
        if is_done || now == limit {
            break;
        }
        if job.is_interrupted() {
            return Ok(None);
        }
        let part = now.0.saturating_mul(1_000) / expected.0.max(1);
        job.done.store(part.min(999) as u32, Ordering::Relaxed);
    }
    let ended = network.now();
    let records = drive.into_records();
    let (frames, queues) = watch.end(&mut network)?;
    let figures = Figures { job, framing, topology: &topology, records: &records, total };
    Ok(Some(figures.run(ended, frames, queues, span)))
}

/// What is looked at while a run goes on.
struct Watch<'a> {
    job: &'a Job<'a>,
    shape: Shape,
    /// The end of the first round trip of a full frame on an idle network.
    first_trip: Time,
    dropped_in_first_trip: u64,
    /// Times at which something is looked at: the first round trip, and both ends of the span.
    stops: Vec<Time>,
    span: Option<Range<Time>>,
    /// How often queue lengths are looked at.
    every: Option<Time>,
    queues: Option<Vec<Tier>>,
    /// Frames that were marked before the counters began again.
    marked: u64,
    samples: Option<Samples<'a>>,
}

impl<'a> Watch<'a> {
    fn new(
        job: &'a Job<'a>,
        framing: Framing,
        topology: &Topology,
        shape: Shape,
        span: Option<Range<Time>>,
    ) -> Self {
        let path = topology.path(topology.hosts() - 1, 0, 0);
        let trip = topology.ideal(&path, 1, framing.length(framing.payload), 0);
        let first_trip = Time(2 * trip.0);
        let mut stops = vec![first_trip];
        stops.extend(span.iter().flat_map(|span| [span.start, span.end]));
        stops.sort_unstable();
        let every = job.files.as_ref().and_then(|files| Some(files.queues.as_ref()?.1));
        Self {
            job,
            shape,
            first_trip,
            dropped_in_first_trip: 0,
            stops,
            span,
            every,
            queues: None,
            marked: 0,
            samples: None,
        }
    }

    /// Begins the files and the histograms.
    fn begin<H: Host>(
        &mut self,
        network: &mut Network<H>,
        trace: TraceFile<H::Payload>,
    ) -> Result<(), SimulateError> {
        let topology = network.topology().clone();
        let numbered = |names: &[PortName]| -> Vec<(PortName, PortId)> {
            let number = |&name: &PortName| Some((name, self.shape.port(name, &topology)?));
            names.iter().filter_map(number).collect()
        };
        if let Some(files) = &self.job.files {
            if let Some((names, file)) = &files.trace {
                let ports: Vec<PortId> = numbered(names).iter().map(|(_, port)| *port).collect();
                let begun = file.create().and_then(|out| trace(Box::new(out), &ports));
                network.set_trace(begun.map_err(|source| SimulateError::write(file, source))?);
            }
            if let Some((names, every, file)) = &files.queues {
                let samples = Samples::begin(file, numbered(names), *every);
                self.samples = Some(samples.map_err(|source| SimulateError::write(file, source))?);
            }
        }
        for (_, names) in self.shape.tiers() {
            for (_, port) in numbered(&names) {
                network.keep_histogram(port);
            }
        }
        Ok(())
    }

    /// The next time at which to look.
    fn next_stop(&self, now: Time) -> Time {
        // Always at multiples, so that samples are evenly spaced.
        let multiple = |step: Time| Time((now.0 / step.0 + 1) * step.0);
        let stop = self.stops.iter().find(|stop| **stop > now).copied();
        let others = stop.into_iter().chain(self.every.map(multiple));
        others.fold(multiple(STEP), Time::min)
    }

    fn look<H: Host>(&mut self, network: &mut Network<H>, now: Time) -> Result<(), SimulateError> {
        if now <= self.first_trip {
            self.dropped_in_first_trip = network.totals().dropped;
        }
        if let Some(samples) = &mut self.samples {
            samples.look(network).map_err(|source| SimulateError::write(samples.file, source))?;
        }
        if self.span.as_ref().is_some_and(|span| span.start == now) {
            self.marked += marked(network, self.shape);
            network.restart_counters();
        }
        if self.span.as_ref().is_some_and(|span| span.end == now) {
            self.queues = Some(tiers(network, self.shape));
        }
        Ok(())
    }

    /// Ends the files.
    fn end<H: Host>(
        mut self,
        network: &mut Network<H>,
    ) -> Result<(Frames, Vec<Tier>), SimulateError> {
        let files = self.job.files.as_ref();
        if let Some(trace) = network.take_trace()
            && let Some((_, file)) = files.and_then(|files| files.trace)
        {
            trace.finish().map_err(|source| SimulateError::write(file, source))?;
        }
        if let Some(mut samples) = self.samples.take() {
            let flushed = samples.out.flush();
            flushed.map_err(|source| SimulateError::write(samples.file, source))?;
        }
        let totals = network.totals();
        let frames = Frames {
            sent: totals.sent,
            delivered: totals.delivered,
            dropped: totals.dropped,
            dropped_later: totals.dropped - self.dropped_in_first_trip,
            lost: totals.lost,
            marked: self.marked + marked(network, self.shape),
        };
        let queues = self.queues.take().unwrap_or_else(|| tiers(network, self.shape));
        Ok((frames, queues))
    }
}

/// Queue lengths of some ports as a CSV file: a row when a length has changed.
struct Samples<'a> {
    file: &'a DraftFile,
    out: BufWriter<File>,
    every: Time,
    /// Ports, and the lengths that were written last.
    ports: Vec<(PortName, PortId, Option<u64>)>,
}

impl<'a> Samples<'a> {
    fn begin(file: &'a DraftFile, ports: Vec<(PortName, PortId)>, every: Time) -> io::Result<Self> {
        let mut out = file.create()?;
        writeln!(out, "time_us,port,bytes")?;
        let ports = ports.into_iter().map(|(name, port)| (name, port, None)).collect();
        Ok(Self { file, out, every, ports })
    }

    fn look<H: Host>(&mut self, network: &mut Network<H>) -> io::Result<()> {
        if !network.now().0.is_multiple_of(self.every.0) {
            // Something else is looked at.
            return Ok(());
        }
        for (name, port, last) in &mut self.ports {
            let now = network.queue_length(*port).now();
            if *last != Some(now) {
                *last = Some(now);
                writeln!(self.out, "{},{name},{now}", micros(network.now()))?;
            }
        }
        Ok(())
    }
}

/// The ports of switches.
fn ports(topology: &Topology, shape: Shape) -> impl Iterator<Item = PortId> {
    (0..shape.leaves + shape.spines).flat_map(|switch| topology.ports_of(switch))
}

/// Frames that switches have marked.
fn marked<H: Host>(network: &Network<H>, shape: Shape) -> u64 {
    ports(network.topology(), shape).map(|port| network.counters(port).marked).sum()
}

/// The queues of all tiers until now.
fn tiers<H: Host>(network: &mut Network<H>, shape: Shape) -> Vec<Tier> {
    let topology = network.topology().clone();
    let mut tier = |(tier, names): (&str, Vec<PortName>)| {
        let (mut sum, mut most, count) = (0.0, 0, names.len());
        let mut fullest: Option<(f64, PortName, PortId)> = None;
        for name in names {
            let Some(port) = shape.port(name, &topology) else { continue };
            let length = network.queue_length(port);
            let mean = length.mean();
            sum += mean;
            most = most.max(length.most());
            if fullest.is_none_or(|(greatest, ..)| mean > greatest) {
                fullest = Some((mean, name, port));
            }
        }
        let (fullest_mean, fullest, port) = fullest?;
        let fullest_p99 = network.queue_length(port).quantile(0.99).unwrap_or(0);
        let (tier, fullest) = (tier.to_owned(), fullest.to_string());
        Some(Tier { tier, mean: sum / count as f64, fullest, fullest_mean, fullest_p99, most })
    };
    shape.tiers().into_iter().filter_map(&mut tier).collect()
}

/// What the figures of a run follow from.
struct Figures<'a> {
    job: &'a Job<'a>,
    framing: Framing,
    topology: &'a Topology,
    records: &'a [Record],
    /// Messages, if all begin.
    total: u64,
}

impl Figures<'_> {
    fn run(
        &self,
        ended: Time,
        frames: Frames,
        queues: Vec<Tier>,
        span: Option<Range<Time>>,
    ) -> Run {
        let unfinished = self.arrived().filter(|at| *at == Time::NEVER).count() as u64;
        let not_begun = self.total - self.records.len() as u64;
        let completion = match (unfinished + not_begun, &span) {
            (0, None) => self.arrived().max(),
            _ => None,
        };
        // Shares of a span that has not ended would be wrong.
        let share = |span: &Range<Time>, time: fn(&Record) -> Time| {
            (ended >= span.end).then(|| self.share(span, time))
        };
        let (mut slowdown, mut short, mut offered) = (Vec::new(), None, None);
        if let (Some(span), Workload::Random(plan)) = (&span, self.job.workload) {
            let table = match plan.responses {
                true => SlowdownTable::of_echoes,
                false => SlowdownTable::new,
            };
            let table = table(self.records, self.topology, self.framing, span.clone());
            slowdown = table.classes.iter().map(class).collect();
            short = plan.short.map(|bytes| class(&table.below(bytes)));
            offered = share(span, |record| record.message.at);
        }
        let goodput = match &span {
            Some(span) => share(span, |record| record.completed),
            None => {
                let links = self.job.workload.links(self.topology.hosts());
                let until = completion.unwrap_or(ended);
                let arrived = |record: &&Record| record.completed != Time::NEVER;
                let bytes = self.records.iter().filter(arrived).map(bytes).sum::<u64>();
                Some(self.of_limit(bytes, until, links))
            }
        };
        Run {
            seed: self.job.seed,
            ended_us: micros(ended),
            messages: self.records.len() as u64,
            unfinished,
            not_begun,
            completion_us: completion.map(micros),
            ideal_us: self.job.workload.ideal(self.topology, self.framing).map(micros),
            goodput,
            offered,
            fairness: self.fairness(),
            frames,
            slowdown,
            short,
            queues,
        }
    }

    fn arrived(&self) -> impl Iterator<Item = Time> {
        self.records.iter().map(|record| record.completed)
    }

    /// Bytes of messages with a time within a span, over what all hosts' links carry.
    fn share(&self, span: &Range<Time>, time: impl Fn(&Record) -> Time) -> f64 {
        let within = self.records.iter().filter(|record| span.contains(&time(record)));
        let bytes = within.map(bytes).sum();
        self.of_limit(bytes, span.end.since(span.start), self.topology.hosts())
    }

    /// Bytes of messages, over what so many links of hosts carry of them in full frames.
    fn of_limit(&self, bytes: u64, time: Time, links: u32) -> f64 {
        let full = f64::from(wire_bytes(self.framing.length(self.framing.payload)));
        let rate = self.topology.host_rate().bits_per_second() / 8.0;
        let limit = rate * f64::from(self.framing.payload) / full * f64::from(links);
        bytes as f64 / limit / time.seconds().max(f64::MIN_POSITIVE)
    }

    /// Jain's index of the rates of an incast's senders: bytes over the time of each.
    fn fairness(&self) -> Option<f64> {
        let Workload::Incast { .. } = self.job.workload else { return None };
        let rate = |record: &Record| match record.completed {
            Time::NEVER => 0.0,
            at => bytes(record) as f64 / at.since(record.message.at).seconds(),
        };
        let rates = self.records.iter().map(rate);
        let (sum, squares) =
            rates.fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
        (squares > 0.0).then(|| sum * sum / (self.records.len() as f64 * squares))
    }
}

/// In microseconds, rounded once.
fn micros(time: Time) -> f64 {
    time.0 as f64 / 1e6
}

fn bytes(record: &Record) -> u64 {
    let Message { length, .. } = record.message;
    u64::from(length)
}

fn class(class: &traffic::Class) -> Class {
    let quantile = |part| Some(class.quantile(part)).filter(|value| value.is_finite());
    let to = (class.to != u32::MAX).then_some(class.to);
    let (from, count) = (class.from, class.count() as u64);
    Class { from, to, count, p50: quantile(0.5), p99: quantile(0.99) }
}
