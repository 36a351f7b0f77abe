//! Carries a plan out: all its runs, on all cores.

use crate::job::{DraftFile, Job, JobFiles};
use crate::plan::Plan;
use crate::port::{PortName, PortNameError, Shape};
use crate::protocol::Protocol;
use crate::results::{Cell, FORMAT, Results, Run};
use crate::slug::slug;
use crate::workload::Workload;
use gigae_network::Time;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use std::{io, thread};

/// How often progress is shown.
const LOOK: Duration = Duration::from_millis(100);

/// What to do.
#[derive(Clone, Debug)]
pub struct Config {
    /// The plan.
    pub plan: Plan,
    /// The command that gives the same results again.
    pub command: String,
    /// Runs at once.
    pub threads: usize,
    /// Files of the first run of each cell.
    pub recording: Option<Recording>,
}

/// Files of the first run of each cell.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The directory of the files.
    pub directory: PathBuf,
    /// Ports whose frames are written, as pcapng.
    pub trace: Vec<PortName>,
    /// Ports whose queue lengths are written, as CSV.
    pub queues: Vec<PortName>,
    /// How often queue lengths are looked at.
    pub every: Time,
}

/// A plan could not be carried out. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// An endpoint of the library could not be made.
    #[error("cannot make the simulated endpoints: {0}; use fewer hosts or more memory")]
    Endpoint(#[from] gigae::OpenError),
    /// No such port.
    #[error("{0}")]
    Port(#[from] PortNameError),
    /// A file could not be written.
    #[error("cannot write '{}': {source}; choose a writable directory with --out", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl SimulateError {
    pub(crate) fn write(file: &DraftFile, source: io::Error) -> Self {
        Self::Write { path: file.place().to_owned(), source }
    }
}

/// What a plan's runs gave.
#[derive(Debug)]
pub struct Finished {
    /// The figures.
    pub results: Results,
    /// The files of first runs that were written.
    pub files: Vec<PathBuf>,
    /// Why one of these files is missing. The figures are there all the same.
    pub missing: Option<SimulateError>,
}

/// A cell, and the files of its first run.
struct Work {
    workload: Workload,
    protocol: Protocol,
    wanted: u64,
    trace: Option<DraftFile>,
    queues: Option<DraftFile>,
}

/// Carries a plan out. `progress` gets what is done, of how much, and what comes next. If
/// `interrupted` becomes true, the results have the runs that were finished, and no file is kept.
pub fn run(
    config: &Config,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64, &str),
) -> Result<Finished, SimulateError> {
    check_ports(config)?;
    let works = works(config);
    let mut tasks: Vec<(usize, u64)> = Vec::new();
    for (number, work) in works.iter().enumerate() {
        tasks.extend((0..work.wanted).map(|seed| (number, config.plan.seed + seed)));
    }
    let done: Vec<AtomicU32> = tasks.iter().map(|_| AtomicU32::new(0)).collect();
    let runs = carry_out(config, &works, &tasks, &done, interrupted, progress)?;
    let mut cells: Vec<Cell> = works
        .iter()
        .map(|work| Cell {
            workload: work.workload.label(),
            protocol: work.protocol.name().to_owned(),
            wanted: work.wanted,
            runs: Vec::new(),
        })
        .collect();
    for (task, run) in runs {
        cells[tasks[task].0].runs.push(run);
    }
    let plan = config.plan.clone();
    let mut results = Results {
        format: FORMAT,
        gigae: env!("CARGO_PKG_VERSION").into(),
        command: config.command.clone(),
        plan,
        interrupted: false,
        cells,
    };
    let (ran, wanted) = results.finished();
    results.interrupted = ran < wanted;
    let mut finished = Finished { results, files: Vec::new(), missing: None };
    if !finished.results.interrupted {
        for file in works.into_iter().flat_map(|work| [work.trace, work.queues]).flatten() {
            let path = file.place().to_owned();
            match file.keep() {
                Ok(kept) => finished.files.push(kept),
                Err(source) => finished.missing = Some(SimulateError::Write { path, source }),
            }
        }
    }
    Ok(finished)
}

/// The cells of a plan.
fn works(config: &Config) -> Vec<Work> {
    let plan = &config.plan;
    let mut works = Vec::new();
    for workload in plan.workloads() {
        for protocol in plan.protocols() {
            let is_random = workload.is_random() || protocol.is_random() || plan.network.loss > 0.0;
            let wanted = if is_random { plan.seeds } else { 1 };
            let file = |ports: fn(&Recording) -> &Vec<PortName>, kind: &str| {
                let recording = config.recording.as_ref()?;
                let name = format!("{} {}", workload.label(), protocol.name());
                let name = format!("{}{kind}", slug(&name));
                (!ports(recording).is_empty()).then(|| DraftFile::new(&recording.directory, &name))
            };
            let trace = file(|recording| &recording.trace, ".pcapng");
            let queues = file(|recording| &recording.queues, "-queues.csv");
            works.push(Work { workload: workload.clone(), protocol, wanted, trace, queues });
        }
    }
    works
}

/// Whether every network has the ports that are asked for.
fn check_ports(config: &Config) -> Result<(), SimulateError> {
    let Some(recording) = &config.recording else { return Ok(()) };
    let network = &config.plan.network;
    for workload in config.plan.workloads() {
        let hosts = workload.hosts(network.fixed_hosts());
        let (shape, topology) = (Shape::new(network, hosts), crate::job::topology(network, hosts));
        for port in recording.trace.iter().chain(&recording.queues) {
            if shape.port(*port, &topology).is_none() {
                let (workload, has) = (workload.label(), shape.ports());
                return Err(PortNameError::Absent { port: *port, workload, has }.into());
            }
        }
    }
    Ok(())
}

/// Carries the tasks out. Returns the finished runs, in the order of the tasks.
fn carry_out(
    config: &Config,
    works: &[Work],
    tasks: &[(usize, u64)],
    done: &[AtomicU32],
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64, &str),
) -> Result<Vec<(usize, Run)>, SimulateError> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, outcomes) = mpsc::channel();
    let one = |task: usize| {
        let (number, seed) = tasks[task];
        let work = &works[number];
        let files = config.recording.as_ref().filter(|_| seed == config.plan.seed);
        let files = files.map(|recording| JobFiles {
            trace: work.trace.as_ref().map(|file| (&recording.trace[..], file)),
            queues: work.queues.as_ref().map(|file| (&recording.queues[..], recording.every, file)),
        });
        let (plan, workload, done) = (&config.plan, &work.workload, &done[task]);
        let job = Job { plan, workload, seed, files, interrupted: &stop, done };
        let outcome = work.protocol.run(&job);
        done.store(1_000, Ordering::Relaxed);
        outcome
    };
    let mut runs = Vec::new();
    thread::scope(|scope| {
        for _ in 0..config.threads.clamp(1, tasks.len()) {
            let (sender, one, next, stop) = (sender.clone(), &one, &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let task = next.fetch_add(1, Ordering::Relaxed);
                    if task >= tasks.len() || sender.send((task, one(task))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut result = Ok(());
        loop {
            match outcomes.recv_timeout(LOOK) {
                Ok((task, Ok(Some(run)))) => runs.push((task, run)),
                Ok((_, Ok(None))) => {}
                Ok((_, Err(error))) => {
                    stop.store(true, Ordering::Relaxed);
                    result = Err(error);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            if interrupted.load(Ordering::Relaxed) {
                stop.store(true, Ordering::Relaxed);
            }
            let sum = done.iter().map(|part| u64::from(part.load(Ordering::Relaxed))).sum();
            let latest = next.load(Ordering::Relaxed).clamp(1, tasks.len()) - 1;
            let work = &works[tasks[latest].0];
            let text = format!("{}, {}", work.workload.label(), work.protocol.name());
            progress(sum, tasks.len() as u64 * 1_000, &text);
        }
        result
    })?;
    runs.sort_unstable_by_key(|(task, _)| *task);
    Ok(runs)
}
