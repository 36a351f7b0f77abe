//! Other programs that measure networks, beside our own figures: on the same link, in the same run, with the
//! same sockets' options, in turns.
//!
//! A [`Program`] is a file here: how it is started at either end, what its figure is and how it is read.
//! To add one: write its file and name it in [`all`]. [`process`] runs them, [`answer`] is the answering end,
//! `run/programs.rs` makes the pairs, [`Beside`] is what comes of them.
//!
//! Nothing that a program says is trusted: what is not understood is an error that shows its last line. Its
//! time, its output and its life are bounded, and it ends with the run, however that ends.

pub mod answer;
mod iperf3;
mod netperf;
mod netpipe;
pub mod pairs;
pub mod process;
mod qperf;
mod sockperf;

pub use pairs::{Beside, Verdict};
pub use process::Trouble;

use crate::plan::{Cell, Condition, Experiment, LARGEST_MESSAGE, Setting, TcpOptions, Wait};
use crate::transport;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// What stands for all that are installed.
pub const ALL: &str = "all";

/// How long a program measures, in seconds: the shortest that all of them know.
pub const SECONDS: u32 = 1;

/// Ours beside it discards this before.
const WARMUP: Duration = Duration::from_millis(100);

/// A server runs a program for no longer, in seconds.
const LONGEST: u32 = 10;

/// Writes of a stream beside a program are no longer; beyond that they say nothing new.
const LARGEST_WRITE: usize = 64 << 10;

/// A program.
pub trait Program: Sync {
    /// Its name, for `--with` and in results.
    fn name(&self) -> &'static str;

    /// Debian's package.
    fn package(&self) -> &'static str;

    /// Its executable at the measuring and at the answering end.
    fn files(&self) -> [&'static str; 2];

    /// What it can measure.
    fn measures(&self) -> &'static [Measure];

    /// What it makes of TCP options that were wished for: what it cannot set is as it sets it.
    fn tcp(&self, wished: TcpOptions) -> TcpOptions {
        wished
    }

    /// Whether it speaks IPv6.
    fn ipv6(&self) -> bool {
        true
    }

    /// Whether its answering end waits at a UDP port for this.
    fn waits_at_udp(&self, _job: &Job) -> bool {
        false
    }

    /// Arguments of the answering end, which is to wait there.
    fn answering(&self, job: &Job, at: SocketAddr) -> Vec<String>;

    /// Arguments of the measuring end, whose peer waits there.
    fn measuring(&self, job: &Job, to: SocketAddr) -> Vec<String>;

    /// The figure in our unit, from its standard output; `None` if it is not there.
    fn read(&self, job: &Job, said: &str) -> Option<f64>;
}

/// Something that a program measures, and what of ours stands beside it.
#[derive(Debug)]
pub struct Measure {
    /// The experiment of ours.
    pub experiment: Experiment,
    /// The transport of ours.
    pub transport: &'static str,
    /// Smallest and largest message in bytes.
    pub sizes: [usize; 2],
    /// Which of our figures is of the same kind.
    pub ours: Ours,
    /// What its figure is and where it is counted, in words.
    pub counts: &'static str,
    /// What it does otherwise than we do, in words.
    pub otherwise: &'static str,
}

/// What is taken of our own repetition, so that like is compared with like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ours {
    /// Bytes that arrived over time.
    Goodput,
    /// The mean round trip.
    Mean,
    /// The median round trip.
    Median,
    /// The least of the means of the repetition's thirds.
    LeastMean,
}

/// One run of a program, as the answering end must know it, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The program.
    pub program: String,
    /// What it measures.
    pub experiment: Experiment,
    /// Over which transport.
    pub transport: String,
    /// Bytes of a message or write.
    pub size: usize,
    /// Seconds.
    pub seconds: u32,
    /// TCP's options.
    pub tcp: TcpOptions,
}

impl Job {
    /// The program and what it is to measure; an error, in one line, if it cannot or may not do that.
    pub fn check(&self) -> Result<(&'static dyn Program, &'static Measure), String> {
        let program =
            by_name(&self.program).ok_or_else(|| format!("unknown program '{}'", self.program))?;
        let is = |one: &&Measure| {
            (one.experiment, one.transport) == (self.experiment, self.transport.as_str())
        };
        let measure = program.measures().iter().find(is);
        let measure = measure.ok_or_else(|| format!("{} does not measure that", program.name()))?;
        let [least, most] = measure.sizes;
        if !(least..=most.min(LARGEST_MESSAGE)).contains(&self.size) {
            return Err(format!("{} has messages of {least} to {most} bytes", program.name()));
        }
        if !(1..=LONGEST).contains(&self.seconds) {
            return Err(format!("a program runs for 1 to {LONGEST} seconds"));
        }
        Setting::Tcp(self.tcp).check()?;
        Ok((program, measure))
    }

    /// Socket buffers in bytes that both ends are to ask for; `None` leaves them to the kernel.
    fn buffer(&self) -> Option<usize> {
        match self.transport.as_str() {
            "tcp" => self.tcp.buffer.map(|bytes| bytes as usize),
            _ => Some(transport::SOCKET_BUFFER),
        }
    }

    fn is_tcp(&self) -> bool {
        self.transport == "tcp"
    }

    /// Its sockets' options, for people.
    pub fn options(&self) -> String {
        let buffer = match self.buffer() {
            Some(bytes) => format!("buffers {bytes}"),
            None => "the kernel's buffers".to_owned(),
        };
        if self.is_tcp() && self.tcp.nodelay { format!("nodelay, {buffer}") } else { buffer }
    }
}

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
pub fn chosen(names: &[String]) -> Result<Vec<&'static dyn Program>, Trouble> {
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
pub fn missing(programs: &[&'static dyn Program], place: &'static str) -> Trouble {
    let list = |of: fn(&dyn Program) -> &'static str, between: &str| {
        programs.iter().map(|one| of(*one)).collect::<Vec<_>>().join(between)
    };
    Trouble::Missing {
        programs: list(|one| one.name(), ", "),
        packages: list(|one| one.package(), " "),
        place,
    }
}

/// Whether a program's executables are here.
pub fn is_installed(program: &dyn Program) -> bool {
    program.files().iter().all(|file| process::find(file).is_some())
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

/// The comparisons that a plan's cells lead to, on a link of this MTU: for each measure of each program the
/// cell whose options the program can set, among these the papers' (no delay, buffers set); of round
/// trips the shortest message, of streams the longest write of 64 KiB at most, of datagrams within a frame.
pub fn comparisons(
    cells: &[Cell],
    programs: &[&'static dyn Program],
    mtu: usize,
) -> Vec<Comparison> {
    let mut found = Vec::new();
    for &program in programs {
        for measure in program.measures() {
            let fits = |cell: &&Cell| fits(cell, measure, mtu);
            let best = cells.iter().filter(fits).min_by_key(|cell| {
                let wished = cell.setting.tcp();
                let size = match measure.experiment {
                    Experiment::Stream => usize::MAX - cell.size,
                    _ => cell.size,
                };
                let papers = wished.nodelay && wished.buffer.is_some();
                (program.tcp(wished) != wished, !papers, size)
            });
            found.extend(best.map(|cell| Comparison::new(program, measure, cell)));
        }
    }
    found
}

fn fits(cell: &Cell, measure: &Measure, mtu: usize) -> bool {
    let [least, most] = measure.sizes;
    let most = match transport::by_name(measure.transport) {
        Some(transport) if transport.boundaries() => most.min(transport.frame_payload(mtu)),
        _ => most.min(LARGEST_WRITE),
    };
    (cell.experiment, cell.transport.as_str()) == (measure.experiment, measure.transport)
        && cell.condition == Condition::default()
        && cell.setting.tcp().beside.is_none()
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

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests;
