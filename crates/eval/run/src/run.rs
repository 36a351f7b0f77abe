//! A run from its beginning to its results: link after link.

use crate::config::{Config, RemoteEnd};
use crate::error::{RepetitionError, RunError, unexpected};
use crate::gather::{CellRepetitions, delay_doubt};
use crate::progress::{MeasuredLink, RunProgress, about, titles};
use crate::repetition::{gather, in_memory, repetition};
use crate::rounds::Running;
use crate::threads::Processors;
use gigae_eval_measure::{cost, environment};
use gigae_eval_model::cost::Baseline;
use gigae_eval_model::duration;
use gigae_eval_model::environment::{EndEnvironment, LinkEnvironment, MEMORY, NETWORK};
use gigae_eval_model::plan::{Cell, LinkPlan};
use gigae_eval_model::results::{Results, Skipped};
use gigae_eval_session::control::{ANSWER, ControlError, Reply, Request, Waiting};
use gigae_eval_session::programs as others;
use gigae_eval_session::stage::{Stage, StageError, measuring_cpus, run_cpus};
use gigae_fabric::{Fabric, FabricError};
use gigae_host::affinity::{self, SavedAffinity};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the idle machine is watched on each link.
const BASELINE: Duration = Duration::from_millis(300);

/// Carries out a plan. Takes as long as the plan says; `interrupted` ends it within milliseconds.
pub fn run(
    config: &Config,
    interrupted: &AtomicBool,
    progress: &mut dyn RunProgress,
) -> Result<Results, RunError> {
    let (date, begin) = (environment::now(), Instant::now());
    let with = match &config.with.names[..] {
        [] => Vec::new(),
        names => others::chosen(names).map_err(RunError::Program)?,
    };
    let mut running = Running::new(&config.plan, interrupted, progress);
    running.with = with;
    running.with_any = config.with.names.iter().any(|name| name == others::ALL);
    running.pairs = config.with.pairs;
    running.lab = config.lab.as_ref();
    running.begin_files(config.peer.is_some())?;
    if config.peer.is_none() {
        running.begin_mounts()?;
    }
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
            None => match Stage::fabric(link, config.plan.seed, &config.serve) {
                Err(StageError::Fabric(error @ FabricError::NeedsRoot { .. })) => {
                    running.leave_out(name.as_deref(), link, &error);
                    continue;
                }
                stage => stage?,
            },
            Some(peer) => running.network(peer)?,
        };
        running.link(stage, name.as_deref())?;
    }
    let of_memory = running.series.iter().all(|series| series.link == MEMORY);
    if of_memory && running.files.is_empty() {
        let reason =
            running.skipped.first().map_or("the plan is empty here", |skipped| &skipped.reason);
        return Err(RunError::Nothing(reason.to_owned()));
    }
    Ok(running.results(config, date, begin.elapsed()))
}

/// The links that experiments and file services name, the machine's own first; between machines the
/// one there is instead of virtual ones, whose MTU is yet unknown.
fn planned_links(config: &Config) -> Vec<(Option<String>, LinkPlan)> {
    let used = |name: &String| {
        config.plan.experiment.iter().any(|experiment| experiment.links.contains(name))
            || config.plan.files.iter().any(|files| files.links.contains(name))
            || config.plan.access.iter().any(|access| access.links.contains(name))
            || config.plan.metadata.iter().any(|metadata| metadata.links.contains(name))
            || config.plan.shares.iter().any(|shares| shares.links.contains(name))
            || config.plan.mount.iter().any(|mount| mount.links.contains(name))
    };
    let links = config.plan.link.iter().filter(|(name, _)| used(name));
    let (own, others): (Vec<_>, Vec<_>) = links
        .map(|(name, link)| (Some(name.clone()), link.clone()))
        .partition(|(_, link)| link.loopback);
    let network = || vec![(None, LinkPlan::default())];
    let others = if config.peer.is_some() && !others.is_empty() { network() } else { others };
    own.into_iter().chain(others).collect()
}

impl Running<'_> {
    /// Measures what needs no link, pinned to the CPU to which the measuring end will be.
    fn memory(&mut self) -> Result<(), RunError> {
        let (mut cells, cpus) = (self.plan.memory_cells(), run_cpus());
        self.limit_threads(MEMORY, &mut cells, Processors { here: cpus.len(), both_ends: true });
        if cells.is_empty() {
            return Ok(());
        }
        let mut gathered: Vec<CellRepetitions> =
            cells.into_iter().map(|cell| CellRepetitions::new(cell, true, None)).collect();
        let (about, cells) = ("this machine's memory".to_owned(), titles(MEMORY, &gathered));
        self.progress.link(&MeasuredLink { about, site: None, answering_cpu: None, cells });
        let saved = SavedAffinity::save().map_err(RunError::Counters)?;
        // If this fails the thread merely stays where it is.
        let _ = affinity::pin(measuring_cpus().0);
        let interrupted = self.interrupted;
        let outcome =
            self.rounds(MEMORY, &mut gathered, &mut |cell| in_memory(cell, &cpus, interrupted));
        drop(saved);
        outcome?;
        self.keep(MEMORY, &gathered);
        Ok(())
    }

    /// Leaves out the cells for whose threads there are too few processors.
    fn limit_threads(&mut self, link: &str, cells: &mut Vec<Cell>, processors: Processors) {
        let planned = cells.len();
        self.skipped.extend(processors.limit(link, cells));
        self.done += (planned - cells.len()) as u64 * u64::from(self.plan.repetitions);
    }

    /// Says of everything on a link that cannot be created here why it was not measured.
    fn leave_out(&mut self, planned: Option<&str>, link: &LinkPlan, error: &FabricError) {
        let cells = self.plan.cells(planned, link.mtu as usize);
        let mut transports: Vec<String> = cells.iter().map(Cell::label).collect();
        transports.sort();
        transports.dedup();
        self.skipped.extend(transports.into_iter().map(|transport| Skipped {
            link: planned.unwrap_or(NETWORK).to_owned(),
            transport,
            what: None,
            reason: error.to_string(),
        }));
        let measured = self.plan.most_measured(planned, link.mtu as usize);
        let cells = measured.map(|(_, times)| u64::from(times)).sum::<u64>();
        self.done += cells * u64::from(self.plan.repetitions);
    }

    /// The way to another machine, when it is this run's turn there.
    fn network(&mut self, peer: &RemoteEnd) -> Result<Stage, RunError> {
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
        let saved = SavedAffinity::save().map_err(RunError::Counters)?;
        let environment = self.describe(&mut stage, name)?;
        self.agree_on_programs(&mut stage)?;
        let (mut cells, tuned) = self.plan.split_cells(planned, stage.site.mtu);
        let (here, both_ends) = (stage.cpus.len(), stage.answering_cpu.is_some());
        self.limit_threads(name, &mut cells, Processors { here, both_ends });
        let mut gathered = gather(&stage, cells);
        self.progress.link(&MeasuredLink {
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
            .rounds(name, &mut gathered, &mut |cell| {
                stage.check_forwarder().map_err(|error| RepetitionError::Fatal(error.into()))?;
                repetition(&mut stage, cell, interrupted)
            })
            .and_then(|()| self.beside(&mut stage, name, planned))
            .and_then(|()| self.files(&mut stage, name, planned))
            .and_then(|()| self.access(&stage, name, planned))
            .and_then(|()| self.metadata(&stage, name, planned))
            .and_then(|()| self.shares(&stage, name, planned))
            .and_then(|()| self.mounts(&stage, name, planned));
        if let Some(tune) = self.plan.tune_on(planned).filter(|_| outcome.is_ok() && !self.lost) {
            outcome = self.tuned(name, &mut stage, tune, tuned);
        }
        drop(saved);
        // It explains all other errors.
        if !self.interrupted.load(Ordering::Relaxed) {
            stage.check_forwarder()?;
        }
        outcome.map_err(|error| match (error, stage.last_words()) {
            (RunError::Control(_), Some(words)) => RunError::Stage(StageError::Serve(words)),
            (error, _) => error,
        })?;
        self.keep(name, &gathered);
        let delay = stage.fabric.as_ref().and_then(|fabric| fabric.config().delay);
        let counters = stage.fabric.as_ref().and_then(Fabric::delay_counters);
        if let Some((delay, counters)) = delay.zip(counters) {
            self.doubts.extend(delay_doubt(name, delay.micros(), &counters));
        }
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
            delay_us: fabric.and_then(|fabric| Some(fabric.config().delay?.micros())),
            down_ms: fabric.and(self.plan.link.get(name)).and_then(|link| link.down_ms),
            rate: fabric.and_then(|fabric| Some(fabric.rate()?.bits() as f64)),
            mtu: stage.site.mtu,
            switch_buffer: fabric.and_then(|fabric| fabric.rate().map(|_| fabric.config().buffer)),
            local,
            remote,
            idle_local,
            idle_remote,
        })
    }
}
