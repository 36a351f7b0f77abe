//! Other programs that measure networks, beside our own figures: on the same link, in the same run,
//! with the same sockets' options, in turns.
//!
//! A [`Program`] is a file here: how it is started at either end, what its figure is and how it is
//! read. To add one: write its file and name it in [`all`]. [`process`] runs them, [`answer`] is
//! the answering end, a run makes the pairs, and
//! [`ProgramFigure`](gigae_eval_model::program_figure::ProgramFigure) is what comes of them.
//!
//! Nothing that a program says is trusted: what is not understood is an error that shows its last
//! line. Its time, its output and its life are bounded, and it ends with the run, however that
//! ends.

pub mod answer;
mod iperf3;
mod netperf;
mod netpipe;
pub mod pairs;
pub mod process;
mod program;
mod qperf;
mod sockperf;

pub use pairs::PAIRS;
pub use process::ProgramError;
pub use program::{Measure, OwnFigure, Program, ProgramForm};

use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::job::Job;
use gigae_eval_model::plan::{Cell, Condition, LARGEST_MESSAGE, Setting, TcpOptions, Wait};
use gigae_eval_model::transport;
use std::time::Duration;

/// The word for all that are installed.
pub const ALL: &str = "all";

/// How long a program measures, in seconds: the shortest that all of them know.
pub const SECONDS: u32 = 1;

/// Ours beside it discards this before.
const WARMUP: Duration = Duration::from_millis(100);

/// Writes of a stream beside a program are no longer; beyond that they say nothing new.
const LARGEST_WRITE: usize = 64 << 10;

/// A server runs a program for no longer, in seconds.
const LONGEST: u32 = 10;

/// All programs.
pub fn all() -> &'static [&'static dyn Program] {
    &[&iperf3::Iperf3, &sockperf::Sockperf, &netpipe::Netpipe, &qperf::Qperf, &netperf::Netperf]
}

/// Finds a program.
pub fn by_name(name: &str) -> Option<&'static dyn Program> {
    all().iter().copied().find(|program| program.name() == name)
}

/// What `--with` takes.
pub fn names() -> Vec<&'static str> {
    std::iter::once(ALL).chain(all().iter().map(|program| program.name())).collect()
}

/// The programs of that name, or all that are installed here; an error if there are none.
pub fn chosen(names: &[String]) -> Result<Vec<&'static dyn Program>, ProgramError> {
    let wanted = |program: &&dyn Program| names.iter().any(|name| name == program.name());
    if names.iter().any(|name| name == ALL) {
        let here: Vec<_> = all().iter().copied().filter(|one| is_installed(*one)).collect();
        return if here.is_empty() { Err(missing(all(), "here")) } else { Ok(here) };
    }
    let wanted: Vec<_> = all().iter().copied().filter(wanted).collect();
    let (here, not): (Vec<_>, Vec<_>) = wanted.iter().copied().partition(|one| is_installed(*one));
    if not.is_empty() { Ok(here) } else { Err(missing(&not, "here")) }
}

/// Says which packages to install.
pub fn missing(programs: &[&'static dyn Program], place: &'static str) -> ProgramError {
    let list = |of: fn(&dyn Program) -> &'static str, between: &str| {
        programs.iter().map(|one| of(*one)).collect::<Vec<_>>().join(between)
    };
    ProgramError::Missing {
        programs: list(|one| one.name(), ", "),
        packages: list(|one| one.form().package, " "),
        place,
    }
}

/// Whether a program's executables are here.
pub fn is_installed(program: &dyn Program) -> bool {
    program.form().files.iter().all(|file| process::find(file).is_some())
}

/// The program and what it is to measure; an error, in one line, if it cannot or may not do that.
pub fn check(job: &Job) -> Result<(&'static dyn Program, &'static Measure), String> {
    let program =
        by_name(&job.program).ok_or_else(|| format!("unknown program '{}'", job.program))?;
    let is = |one: &&Measure| {
        (one.experiment, one.transport) == (job.experiment, job.transport.as_str())
    };
    let measure = program.form().measures.iter().find(is);
    let measure = measure.ok_or_else(|| format!("{} does not measure that", program.name()))?;
    let [least, most] = measure.sizes;
    if !(least..=most.min(LARGEST_MESSAGE)).contains(&job.size) {
        return Err(format!("{} has messages of {least} to {most} bytes", program.name()));
    }
    if !(1..=LONGEST).contains(&job.seconds) {
        return Err(format!("a program runs for 1 to {LONGEST} seconds"));
    }
    Setting::Tcp(job.tcp).check()?;
    Ok((program, measure))
}

/// A program beside a cell of ours.
#[derive(Clone)]
pub struct Comparison {
    /// The program.
    pub program: &'static dyn Program,
    /// What it measures.
    pub measure: &'static Measure,
    /// Our cell, as it is repeated beside the program.
    pub cell: Cell,
    /// The program's run.
    pub job: Job,
}

/// The comparisons that a plan's cells lead to, on a link of this MTU: for each measure of each
/// program the cell whose options the program can set, among these the papers' (no delay, buffers
/// set); of round trips the shortest message, of streams the longest write of 64 KiB at most, of
/// datagrams within a frame.
pub fn comparisons(
    cells: &[Cell],
    programs: &[&'static dyn Program],
    mtu: usize,
) -> Vec<Comparison> {
    let mut found = Vec::new();
    for &program in programs {
        for measure in program.form().measures {
            let fits = |cell: &&Cell| fits(cell, measure, mtu);
            let best = cells.iter().filter(fits).min_by_key(|cell| {
                let wished = cell.setting.tcp();
                let size = match measure.experiment {
                    Experiment::Stream => usize::MAX - cell.size,
                    _ => cell.size,
                };
                let papers = wished.nodelay && wished.buffer.is_some();
                let best = TcpOptions { one_buffer: true, ..wished };
                (program.tcp(wished) != best, !papers, size)
            });
            found.extend(best.map(|cell| Comparison::new(program, measure, cell)));
        }
    }
    found
}

fn fits(cell: &Cell, measure: &Measure, mtu: usize) -> bool {
    let [least, most] = measure.sizes;
    let most = match transport::by_name(measure.transport) {
        Some(transport) if transport.boundaries => most.min(transport.frame_payload(mtu)),
        _ => most.min(LARGEST_WRITE),
    };
    (cell.experiment, cell.transport.as_str()) == (measure.experiment, measure.transport)
        && cell.condition == Condition::default()
        && TcpOptions { one_buffer: false, ..cell.setting.tcp() }.is_plain()
        && (least..=most).contains(&cell.size)
}

impl Comparison {
    fn new(program: &'static dyn Program, measure: &'static Measure, cell: &Cell) -> Self {
        let tcp = program.tcp(cell.setting.tcp());
        let setting = if measure.transport == "tcp" { Setting::Tcp(tcp) } else { cell.setting };
        let cell = Cell {
            setting,
            // All of them sleep in the kernel until something arrives.
            wait: Wait::Sleep,
            measure: Duration::from_secs(SECONDS.into()),
            warmup: WARMUP,
            ..cell.clone()
        };
        let job = Job {
            program: program.name().to_owned(),
            experiment: measure.experiment,
            transport: measure.transport.to_owned(),
            size: cell.size,
            seconds: SECONDS,
            tcp,
        };
        Self { program, measure, cell, job }
    }

    /// The program and what it measures, for people.
    pub fn label(&self) -> String {
        format!("{} {}", self.program.name(), self.measure.transport)
    }
}

#[cfg(test)]
mod tests;
