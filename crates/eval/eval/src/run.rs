//! A run: all cells of a plan, in random order, on every link of it.
//!
//! The order is that of a randomised block design: in each round every cell has one repetition, in
//! an order drawn anew from the plan's seed, so that whatever changes over time (temperature,
//! neighbours) hits all cells alike. After the planned repetitions, only cells whose interval is
//! still too wide go on. Nothing is written here; the caller has the results or one error.
//!
//! Settings that a plan tries are blocks of that design (`run/tuned.rs`).

mod incast;
mod programs;
mod progress;
mod tuned;

pub use progress::{Made, Place, Progress, Took};
use progress::{about, title, titles};

use crate::clock;
use crate::control::{ANSWER, Key, Reply, Request, Waiting};
use crate::cost::{self, Baseline, Meter};
use crate::environment::{self, EndEnvironment, Environment, LinkEnvironment};
use crate::experiment::memory;
use crate::figures::Measured;
use crate::gather::{self, Gathered};
use crate::load::Load;
use crate::plan::{Cell, Cpus, Experiment, LinkPlan, Plan, Wait};
use crate::probe::{Answered, Asked, GRACE, Loop, ProbeError, Signals};
use crate::programs::{self as others, Beside, Program, Trouble};
use crate::results::{Results, SCHEMA, Series, Skipped};
use crate::site::{Address, Site};
use crate::soak::duration;
use crate::stage::{Stage, StageError};
use crate::transport::{self, JOIN_TIMEOUT, Side, Task, TransportError};
use crate::tune::{TuneError, Tuning};
use crate::{ControlError, figures};
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A cell whose repetitions fail this often is given up: once may be an accident.
const MOST_FAILURES: u32 = 2;

/// Why there is no figure although nothing failed.
const EMPTY: &str = "no repetition brought a sample; stop other work or plan longer repetitions";

/// How long the idle machine is watched on each link.
const BASELINE: Duration = Duration::from_millis(300);

/// The name under which cells of this machine's memory stand, for want of a link.
const MEMORY: &str = "memory";

/// The name of the link between two machines.
pub(crate) const NETWORK: &str = "network";

/// What to run and where.
pub struct Config {
    /// What to measure.
    pub plan: Plan,
    /// The other machine; `None` lays virtual networks.
    pub peer: Option<Peer>,
    /// Command line of the serving end on a virtual network.
    pub serve: Vec<OsString>,
    /// Other programs to run beside.
    pub with: With,
    /// Command line of this run, for the record.
    pub command: String,
}

/// Other programs to run beside, and how often.
#[derive(Clone, Debug, Default)]
pub struct With {
    /// Their names, [`crate::programs::ALL`] among them for all that are installed; none if empty.
    pub names: Vec<String>,
    /// Pairs for each comparison.
    pub pairs: u32,
}

/// Another machine.
pub struct Peer {
    /// Host or address of its control connection.
    pub host: String,
    /// This end's interface towards it, or several with commas between them.
    pub nic: String,
    /// The shared key.
    pub key: Key,
}

/// A run ended without results. The text is one line and says what to do.
#[derive(Debug)]
pub enum RunError {
    /// No place to measure.
    Stage(StageError),
    /// The control connection failed.
    Control(ControlError),
    /// The serving end answered something unexpected.
    Refused(String),
    /// The counters of the kernel could not be read.
    Counters(std::io::Error),
    /// Another program cannot be run beside.
    Program(Trouble),
    /// Settings cannot be changed safely here.
    Tuning(TuneError),
    /// The plan holds nothing that can be measured here.
    Nothing(String),
    /// The user interrupted it.
    Interrupted,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stage(error) => error.fmt(f),
            Self::Control(error) => error.fmt(f),
            Self::Refused(reason) => write!(f, "the answering end refused: {reason}"),
            Self::Counters(error) => {
                write!(f, "cannot read the counters below /proc: {error}; mount /proc")
            }
            Self::Program(trouble) => trouble.fmt(f),
            Self::Tuning(error) => error.fmt(f),
            Self::Nothing(reason) => write!(f, "nothing was measured: {reason}"),
            Self::Interrupted => {
                f.write_str("interrupted; nothing was written and nothing is left behind")
            }
        }
    }
}

impl std::error::Error for RunError {}

impl From<StageError> for RunError {
    fn from(error: StageError) -> Self {
        Self::Stage(error)
    }
}

impl From<ControlError> for RunError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

/// Carries out a plan. Takes as long as the plan says; `interrupted` ends it within milliseconds.
pub fn run(
    config: &Config,
    interrupted: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<Results, RunError> {
    let (date, begin) = (environment::now(), Instant::now());
    let with = match &config.with.names[..] {
        [] => Vec::new(),
        names => others::chosen(names).map_err(RunError::Program)?,
    };
    let mut running = Running {
        with,
        with_any: config.with.names.iter().any(|name| name == others::ALL),
        pairs: config.with.pairs,
        programs: Vec::new(),
        plan: &config.plan,
        timer: clock::timer_cost(),
        overhead: clock::overhead(),
        random: oorandom::Rand32::new(config.plan.seed),
        interrupted,
        progress,
        done: 0,
        total: 0,
        limited: None,
        links: Vec::new(),
        series: Vec::new(),
        tuning: Vec::new(),
        skipped: Vec::new(),
    };
    let links = planned_links(config);
    let cells = |(name, link): &(Option<String>, LinkPlan)| {
        let cells = config.plan.most_measured(name.as_deref(), link.mtu as usize);
        cells.map(|(_, times)| u64::from(times)).sum::<u64>()
    };
    let cells = links.iter().map(cells).sum::<u64>() + config.plan.memory_cells().len() as u64;
    running.total = cells * u64::from(config.plan.repetitions);
    running.memory()?;
    for (name, link) in &links {
        let stage = match &config.peer {
            _ if link.loopback => Stage::loopback(&config.serve)?,
            None => Stage::fabric(link, config.plan.seed, &config.serve)?,
            Some(peer) => running.network(peer)?,
        };
        running.link(stage, name.as_deref())?;
    }
    if running.series.iter().all(|series| series.link == MEMORY) {
        let reason =
            running.skipped.first().map_or("the plan is empty here", |skipped| &skipped.reason);
        return Err(RunError::Nothing(reason.to_owned()));
    }
    Ok(running.results(config, date, begin.elapsed()))
}

/// The links that experiments name, the machine's own first; between machines the one there is instead
/// of virtual ones, whose MTU is yet unknown.
fn planned_links(config: &Config) -> Vec<(Option<String>, LinkPlan)> {
    let used = |name: &String| {
        config.plan.experiment.iter().any(|experiment| experiment.links.contains(name))
    };
    let links = config.plan.link.iter().filter(|(name, _)| used(name));
    let (own, others): (Vec<_>, Vec<_>) = links
        .map(|(name, link)| (Some(name.clone()), link.clone()))
        .partition(|(_, link)| link.loopback);
    let network = || vec![(None, LinkPlan::default())];
    let others = if config.peer.is_some() && !others.is_empty() { network() } else { others };
    own.into_iter().chain(others).collect()
}

struct Running<'a> {
    plan: &'a Plan,
    /// Programs beside, whether those that the answering end has not may be left out, and pairs of each.
    with: Vec<&'static dyn Program>,
    with_any: bool,
    pairs: u32,
    programs: Vec<Beside>,
    timer: clock::TimerCost,
    overhead: clock::Overhead,
    random: oorandom::Rand32,
    interrupted: &'a AtomicBool,
    progress: &'a mut dyn Progress,
    done: u64,
    total: u64,
    /// Bytes per second that the server's owner allows.
    limited: Option<f64>,
    links: Vec<LinkEnvironment>,
    series: Vec<Series>,
    tuning: Vec<Tuning>,
    skipped: Vec<Skipped>,
}

/// Carries out one repetition of a cell.
type Repetition<'a> = dyn FnMut(&Cell) -> Result<(Asked, Answered), Failure> + 'a;

/// Why a repetition gave nothing.
enum Failure {
    /// The whole run ends.
    Fatal(RunError),
    /// This transport does not work on this link at all.
    Unavailable(String),
    /// This repetition did not work.
    Repetition(String),
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        Self::Fatal(error.into())
    }
}

impl From<ProbeError> for Failure {
    fn from(error: ProbeError) -> Self {
        match error {
            ProbeError::Interrupted => Self::Fatal(RunError::Interrupted),
            ProbeError::Counters(error) => Self::Fatal(RunError::Counters(error)),
            ProbeError::Transport(error) => error.into(),
            ProbeError::Silent(_) => Self::Repetition(error.to_string()),
        }
    }
}

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Unavailable(reason) => Self::Unavailable(reason),
            other => Self::Repetition(other.to_string()),
        }
    }
}

impl Running<'_> {
    /// Measures what needs no link, pinned to the CPU to which the measuring end will be.
    fn memory(&mut self) -> Result<(), RunError> {
        let cells = self.plan.memory_cells();
        if cells.is_empty() {
            return Ok(());
        }
        let mut gathered: Vec<Gathered> =
            cells.into_iter().map(|cell| Gathered::new(cell, true, None)).collect();
        let (about, cells) = ("this machine's memory".to_owned(), titles(MEMORY, &gathered));
        self.progress.place(&Place { about, site: None, answering_cpu: None, cells });
        let before = allowed()?;
        pin_measuring();
        let interrupted = self.interrupted;
        let outcome = self.rounds(MEMORY, &mut gathered, &mut |cell| in_memory(cell, interrupted));
        unpin(&before);
        outcome?;
        self.keep(MEMORY, &gathered);
        Ok(())
    }

    /// Takes the figures of a link into the results, and says of which there are none.
    fn keep(&mut self, link: &str, gathered: &[Gathered]) {
        for gathered in gathered {
            match gathered.series(link, self.plan.precision, &self.overhead) {
                Some(series) => self.series.push(series),
                // That has been said.
                None if gathered.failures >= MOST_FAILURES => {}
                None => self.skipped.push(Skipped {
                    link: link.to_owned(),
                    transport: gathered.cell.label(),
                    what: Some(title(link, &gathered.cell)),
                    reason: EMPTY.to_owned(),
                }),
            }
        }
    }

    /// The way to another machine, when it is this run's turn there.
    fn network(&mut self, peer: &Peer) -> Result<Stage, RunError> {
        let (interrupted, progress) = (self.interrupted, &mut *self.progress);
        let mut turn = |waiting: &Waiting| {
            progress.wait(waiting);
            !interrupted.load(Ordering::Relaxed)
        };
        match Stage::network(&peer.host, &peer.nic, &peer.key, &mut turn) {
            Err(StageError::Control(ControlError::GivenUp)) => Err(RunError::Interrupted),
            stage => Ok(stage?),
        }
    }

    /// Measures everything on one link.
    fn link(&mut self, mut stage: Stage, planned: Option<&str>) -> Result<(), RunError> {
        let name = planned.unwrap_or(NETWORK);
        let before = allowed()?;
        let environment = self.describe(&mut stage, name)?;
        self.agree_on_programs(&mut stage)?;
        let (cells, tuned) = self.plan.split_cells(planned, stage.site.mtu);
        let mut gathered = gather(&stage, cells);
        self.progress.place(&Place {
            about: about(&environment),
            site: Some(&stage.site),
            answering_cpu: stage.answering_cpu,
            cells: titles(name, &gathered),
        });
        self.links.push(environment);
        let limits = stage.session.limits;
        self.limited = self.limited.or(limits.rate);
        let each = self.plan.most_measured(planned, stage.site.mtu);
        let each = each.map(|(cell, times)| (cell.warmup + cell.measure) * times);
        let least = each.sum::<Duration>().as_secs_f64() * f64::from(self.plan.repetitions)
            + self.programs_take(&stage, planned);
        if let Some(most) = limits.seconds.filter(|most| least > *most) {
            let (most, least) = (duration::say(most), duration::say(least));
            return Err(RunError::Refused(format!(
                "its owner allows {most} for each client (--max-duration), the plan takes {least} at least; take a shorter one or ask for more"
            )));
        }
        let interrupted = self.interrupted;
        let mut outcome = self
            .rounds(name, &mut gathered, &mut |cell| repetition(&mut stage, cell, interrupted))
            .and_then(|()| self.beside(&mut stage, name, planned));
        if let Some(tune) = self.plan.tune_on(planned).filter(|_| outcome.is_ok()) {
            outcome = self.tuned(name, &mut stage, tune, tuned);
        }
        unpin(&before);
        outcome.map_err(|error| match (error, stage.last_words()) {
            (RunError::Control(_), Some(words)) => RunError::Stage(StageError::Serve(words)),
            (error, _) => error,
        })?;
        self.keep(name, &gathered);
        Ok(())
    }

    fn describe(&mut self, stage: &mut Stage, name: &str) -> Result<LinkEnvironment, RunError> {
        let remote = match stage.session.ask(&Request::Describe, ANSWER)? {
            Reply::Description(remote) => *remote,
            other => return Err(unexpected(&other)),
        };
        stage.session.send(&Request::Baseline(u64::try_from(BASELINE.as_millis()).unwrap_or(0)))?;
        let idle_local = cost::baseline(BASELINE).map_err(RunError::Counters)?;
        let idle_remote: Baseline = match stage.session.receive(ANSWER)? {
            Reply::Baseline(baseline) => baseline,
            other => return Err(unexpected(&other)),
        };
        let local: EndEnvironment = environment::describe(&stage.site);
        let fabric = stage.fabric.as_ref();
        Ok(LinkEnvironment {
            name: name.to_owned(),
            kind: stage.kind().to_owned(),
            links: stage.site.interfaces().count(),
            loss: fabric.map_or(0.0, |fabric| fabric.config().loss),
            rate: fabric.and_then(|fabric| Some(fabric.rate()?.bits() as f64)),
            mtu: stage.site.mtu,
            switch_buffer: fabric.and_then(|fabric| fabric.rate().map(|_| fabric.config().buffer)),
            local,
            remote,
            idle_local,
            idle_remote,
        })
    }

    /// Round after round over all cells that still need repetitions.
    fn rounds(
        &mut self,
        link: &str,
        cells: &mut [Gathered],
        measure: &mut Repetition<'_>,
    ) -> Result<(), RunError> {
        for round in 0..self.plan.max_repetitions {
            let wanted = |cell: &Gathered| {
                cell.failures < MOST_FAILURES
                    && (round < self.plan.repetitions || !cell.precise(self.plan.precision))
            };
            let mut order: Vec<usize> =
                (0..cells.len()).filter(|&index| wanted(&cells[index])).collect();
            self.shuffle(&mut order);
            if round >= self.plan.repetitions {
                self.total += order.len() as u64;
            }
            for index in order {
                // A transport may have turned out to be unavailable in this very round.
                if cells[index].failures < MOST_FAILURES {
                    self.progress.step(self.done, self.total, &title(link, &cells[index].cell));
                    self.cell(link, cells, index, measure)?;
                }
                self.done += 1;
            }
        }
        Ok(())
    }

    /// Fisher and Yates.
    fn shuffle(&mut self, order: &mut [usize]) {
        for last in (1..order.len()).rev() {
            let end = u32::try_from(last + 1).expect("plans have few cells");
            order.swap(last, self.random.rand_range(0..end) as usize);
        }
    }

    /// One repetition of one cell, and what to make of its failure.
    fn cell(
        &mut self,
        link: &str,
        cells: &mut [Gathered],
        index: usize,
        measure: &mut Repetition<'_>,
    ) -> Result<(), RunError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let outcome = measure(&cells[index].cell);
        // Whatever failed may have failed because of the interruption.
        if outcome.is_err() && self.interrupted.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        // Another setting of the same transport may work all the same.
        let transport = cells[index].cell.label();
        let skip = |what: Option<String>, reason: String| Skipped {
            link: link.to_owned(),
            transport: transport.clone(),
            what,
            reason,
        };
        if let Ok((asked, answered)) = &outcome {
            cells[index].add(asked, answered);
        }
        self.tell(link, &cells[index], &outcome);
        match outcome {
            Ok(_) => {}
            Err(Failure::Fatal(error)) => return Err(error),
            Err(Failure::Unavailable(reason)) => {
                self.skipped.push(skip(None, reason));
                for cell in cells.iter_mut().filter(|cell| cell.cell.label() == transport) {
                    cell.failures = MOST_FAILURES;
                }
            }
            Err(Failure::Repetition(reason)) => {
                cells[index].failures += 1;
                if cells[index].failures == MOST_FAILURES {
                    let what = title(link, &cells[index].cell);
                    self.skipped.push(skip(Some(what), reason));
                }
            }
        }
        Ok(())
    }

    fn results(self, config: &Config, date: String, duration: Duration) -> Results {
        let took = self.progress.took();
        let first = &self.links[0].local;
        let widest = self.links.iter().rev().max_by_key(|link| link.links).expect("as above");
        let tcp = self.series.iter().find(|series| series.transport == "tcp");
        let congestion_control = tcp
            .and_then(|series| series.note.as_deref())
            .and_then(|note| note.split([' ', ',']).nth(2))
            .unwrap_or("unknown");
        let environment = Environment {
            date,
            duration: duration.as_secs_f64(),
            command: config.command.clone(),
            gigae: environment::VERSION.to_owned(),
            git: environment::GIT.to_owned(),
            kernel: first.kernel.clone(),
            cpu: first.cpu.clone(),
            nic: widest.local.interface.clone(),
            driver: first.driver.clone(),
            offloads: first.offloads.clone(),
            mtu: first.mtu,
            coalescing: first.coalescing.clone(),
            congestion_control: congestion_control.to_owned(),
            timer: self.timer,
            overhead: Some(self.overhead),
            live_view: took.map(|took| took.share),
            link: self.links.clone(),
        };
        let mut doubts = gather::run_doubts(&environment);
        doubts.extend(took.and_then(gather::view_doubt));
        doubts.extend(self.limited.map(|rate| {
            format!(
                "limited: the server's owner allows {:.1} Mbit/s (--max-rate), so streams show that and not the network; ask for more",
                rate * 8.0 / 1e6
            )
        }));
        let (series, skipped, programs) = (self.series, self.skipped, self.programs);
        let (plan, links) = (&config.plan, &environment.link);
        let found = Measured { plan, links, series: &series, skipped: &skipped };
        Results {
            schema: SCHEMA.to_owned(),
            figures: figures::of_run(found),
            runs: vec![figures::run_of(&environment.date, environment.duration, &series)],
            environment,
            plan: config.plan.clone(),
            series,
            programs,
            tuning: self.tuning,
            skipped,
            doubts,
        }
    }
}

/// The cells of a link, of which nothing is known yet.
fn gather(stage: &Stage, cells: Vec<Cell>) -> Vec<Gathered> {
    let gathered = |cell: Cell| {
        let transport = transport::by_name(&cell.transport).expect("the plan was checked");
        let limit = limit(stage, transport, &cell);
        Gathered::new(cell, transport.reliable(), limit)
    };
    cells.into_iter().map(gathered).collect()
}

/// Goodput that a shaped link allows, or several that the transport uses as one: for messages of one
/// frame with their headers, for longer ones and for a byte stream with full frames.
fn limit(stage: &Stage, transport: &dyn transport::Transport, cell: &Cell) -> Option<f64> {
    let fabric = stage.fabric.as_ref()?;
    let mtu = stage.site.mtu;
    let whole = transport.boundaries() && cell.size <= transport.frame_payload(mtu);
    let (payload, header) = if whole {
        (cell.size, mtu + ETHERNET_HEADER - transport.frame_payload(mtu))
    } else {
        let part = transport.part_payload(mtu);
        (part, mtu + ETHERNET_HEADER - part)
    };
    let limit = fabric.payload_limit(u32::try_from(payload).ok()?, u32::try_from(header).ok()?)?;
    let links = if transport.uses_all_links() { stage.site.interfaces().count() } else { 1 };
    cell.experiment.is_goodput().then_some(limit * links as f64 / 1e6)
}

/// Two addresses and an EtherType, which the MTU does not count.
const ETHERNET_HEADER: usize = 14;

/// One repetition, both ends.
fn repetition(
    stage: &mut Stage,
    cell: &Cell,
    interrupted: &AtomicBool,
) -> Result<(Asked, Answered), Failure> {
    let task = Task {
        experiment: cell.experiment,
        transport: cell.transport.clone(),
        setting: cell.setting,
        condition: cell.condition,
        wait: cell.wait,
        size: cell.size,
        warmup: cell.warmup.as_secs_f64(),
        measure: cell.measure.as_secs_f64(),
        rate: stage.session.limits.rate,
    };
    if cell.experiment == Experiment::Incast {
        return incast::repetition(stage, task, interrupted);
    }
    let site = place(stage, cell)?;
    let transport = transport::by_name(&task.transport).expect("the plan was checked");
    site.pin().map_err(|error| Failure::Repetition(format!("pinning to a CPU failed: {error}")))?;
    // Whoever keeps to a schedule must not sleep.
    let wait = if cell.experiment == Experiment::Paced { Wait::Spin } else { cell.wait };
    let own = Task { wait, ..task.clone() };
    let opening = transport.open(&site, &own, Side::Client)?;
    let run = Request::Run { task, address: opening.address() };
    let peer = match stage.session.ask(&run, ANSWER)? {
        Reply::Ready(address) => address,
        other => return Err(reply_failure(&other)),
    };
    let measured = measure(&site, &own, &peer, || opening.join(&peer), interrupted);
    let (asked, _open) = match measured {
        Ok(measured) => measured,
        Err(failure) => {
            let reply = stage.session.ask(&Request::Cancel, JOIN_TIMEOUT + GRACE)?;
            return Err(match (failure, reply) {
                (Failure::Repetition(here), Reply::Failed { reason, .. }) => {
                    Failure::Repetition(format!("{here}; at the answering end: {reason}"))
                }
                (failure, _) => failure,
            });
        }
    };
    match stage.session.ask(&Request::Finish { bytes: asked.bytes }, ANSWER + GRACE * 2)? {
        Reply::Done(answered) => Ok((asked, *answered)),
        other => Err(reply_failure(&other)),
    }
}

/// Where this end measures: on its own CPU, or on that of the answering end, if both are to share one.
fn place(stage: &Stage, cell: &Cell) -> Result<Site, Failure> {
    match (cell.condition.cpus, stage.answering_cpu) {
        (Cpus::Two, _) => Ok(stage.site.clone()),
        (Cpus::One, Some(cpu)) => Ok(Site { cpu: Some(cpu), ..stage.site.clone() }),
        (Cpus::One, None) => Err(Failure::Unavailable(
            "two machines do not share a CPU; leave --peer out for what one CPU gives".into(),
        )),
    }
}

type Probe = Box<dyn crate::probe::Probe>;

/// The measuring end's part. The probe stays open until the serving end is done with it.
fn measure(
    site: &Site,
    task: &Task,
    peer: &Address,
    join: impl FnOnce() -> Result<Probe, TransportError>,
    interrupted: &AtomicBool,
) -> Result<(Asked, Probe), Failure> {
    let mut probe = join()?;
    let load = match task.condition.bulk {
        0 => None,
        streams => {
            let poured = Load::pour(site, SocketAddr::new(peer.ip, peer.bulk), streams);
            Some(poured.map_err(TransportError::io("connecting bulk streams"))?)
        }
    };
    let meter = Meter::new(site);
    let signals = Signals::new(interrupted);
    let reliable = transport::by_name(&task.transport).is_some_and(transport::Transport::reliable);
    let asked = probe.ask(&Loop { task, meter: &meter, signals: &signals, reliable })?;
    drop(load);
    Ok((asked, probe))
}

fn reply_failure(reply: &Reply) -> Failure {
    match reply {
        Reply::Failed { reason, unavailable: true } => {
            Failure::Unavailable(format!("at the answering end: {reason}"))
        }
        Reply::Failed { reason, .. } => {
            Failure::Repetition(format!("at the answering end: {reason}"))
        }
        other => Failure::Fatal(unexpected(other)),
    }
}

fn unexpected(reply: &Reply) -> RunError {
    match reply {
        Reply::Failed { reason, .. } | Reply::Over { reason } => RunError::Refused(reason.clone()),
        _ => RunError::Control(ControlError::Garbled("an answer to another question")),
    }
}

/// One repetition in memory.
fn in_memory(cell: &Cell, interrupted: &AtomicBool) -> Result<(Asked, Answered), Failure> {
    let way = memory::Way::by_name(&cell.transport)
        .ok_or_else(|| Failure::Unavailable("unknown way".into()))?;
    match memory::measure(way, cell.size, cell.warmup, cell.measure, interrupted) {
        Ok(Some(asked)) => Ok((asked, Answered::default())),
        Ok(None) => Err(Failure::Fatal(RunError::Interrupted)),
        Err(error) => Err(Failure::Unavailable(format!("memory could not be mapped: {error}"))),
    }
}

/// The calling thread's CPUs before it is pinned.
fn allowed() -> Result<rustix::thread::CpuSet, RunError> {
    rustix::thread::sched_getaffinity(None).map_err(|error| RunError::Counters(error.into()))
}

/// Pins the calling thread as the measuring end of a virtual network is.
fn pin_measuring() {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(crate::stage::measuring_cpus().0);
    unpin(&cpus);
}

fn unpin(cpus: &rustix::thread::CpuSet) {
    // If this fails the thread merely stays on its CPU.
    let _ = rustix::thread::sched_setaffinity(None, cpus);
}
