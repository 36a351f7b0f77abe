//! What `make mpi` does: a hello, a sweep of sizes, patterns of communication, two programs bound
//! by collectives, and HPC Challenge, each over TCP and over gigae by the same Open MPI.

use crate::hosts::Finished;
use crate::own::{self, GigaeResults};
use crate::vendor::{Job, Transport, Vendor};
use crate::{Error, Hosts};
use gigae_fabric::{FabricConfig, Rate};
use gigae_host::{path, proc};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Many times what each takes on a machine that does nothing else.
const LIMIT: Duration = Duration::from_secs(300);

/// Nodes of the shaped network, one rank on each.
const MANY: u16 = 4;

/// Keys and rounds of the sort: some 0.8 MB per rank and round go over the network.
const SORT: [&str; 2] = ["262144", "20"];
/// Unknowns per rank and steps of the solver: two dot products and two neighbours per step.
const SOLVE: [&str; 2] = ["500", "2000"];

/// HPC Challenge's input: 2 x 2 ranks, a matrix of 800, so that it takes seconds.
const HPCC: &str = include_str!("../programs/hpccinf.txt");

/// Both, in the order of the tables.
pub const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Gigae];

/// A pattern of two ranks, with messages of one size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankPattern {
    /// What it is called.
    pub name: String,
    /// Bytes of a message.
    pub bytes: u32,
}

/// Everything that was measured: values of one kind and transport, one per run.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// `MPI_Init` in milliseconds, of the slower rank.
    pub init: [Vec<f64>; 2],
    /// Half a round trip in microseconds, by bytes.
    pub latency: [BTreeMap<u32, Vec<f64>>; 2],
    /// One way in MB/s, by bytes.
    pub bandwidth: [BTreeMap<u32, Vec<f64>>; 2],
    /// Microseconds of a pattern of two ranks.
    pub patterns: [BTreeMap<RankPattern, Vec<f64>>; 2],
    /// Seconds of the sort (alltoall).
    pub sort: [Vec<f64>; 2],
    /// Seconds of the solver (allreduce).
    pub solve: [Vec<f64>; 2],
    /// The library's own round trip of 8 bytes, in microseconds.
    pub own: Vec<f64>,
    /// HPC Challenge's own figures, by name.
    pub hpcc: [BTreeMap<String, f64>; 2],
    /// Under which conditions, a line each.
    pub conditions: Vec<String>,
}

/// A run of the benchmark.
pub struct Benchmark<'a> {
    /// Runs of each measurement; the medians count.
    pub runs: u32,
    /// Set by Ctrl-C.
    pub interrupted: &'a AtomicBool,
    /// Called with each step's name.
    pub say: &'a dyn Fn(&str),
}

impl Benchmark<'_> {
    /// Measures everything. Needs Open MPI and HPC Challenge.
    pub fn run(&self) -> Result<Figures, Error> {
        let vendor = Vendor::open_mpi()?;
        let mut figures = Figures { conditions: conditions(), ..Figures::default() };
        self.two(&vendor, &mut figures)?;
        self.many(&vendor, &mut figures)?;
        Ok(figures)
    }

    /// Two hosts back to back: hello, and the sweep.
    fn two(&self, vendor: &Vendor, figures: &mut Figures) -> Result<(), Error> {
        let config = FabricConfig { prefix: prefix("2"), cable: true, ..FabricConfig::default() };
        let hosts = Hosts::up(config)?;
        note(figures, format!("TCP's congestion control: {}", hosts.tune_tcp()?));
        let hello = vendor.compile(&hosts, &["hello"])?;
        let sweep = vendor.compile(&hosts, &["sweep"])?;
        let patterns = vendor.compile(&hosts, &["patterns"])?;
        for transport in BOTH {
            let stdout = self.run_job(vendor, &hosts, &job(transport, 2, &hello, &[]))?.stdout;
            for line in stdout.lines() {
                match line.strip_prefix("library ") {
                    Some(library) => note(figures, format!("{library}, Debian's")),
                    None => (self.say)(&format!("{line}, over {}", name(transport))),
                }
            }
        }
        for run in 1..=self.runs {
            (self.say)(&format!("sweep and patterns, run {run} of {}", self.runs));
            for transport in BOTH {
                let stdout =
                    self.run_job(vendor, &hosts, &job(transport, 2, &sweep, &["--pin"]))?.stdout;
                let of = transport as usize;
                figures.init[of].push(value(&stdout, "init")?);
                collect(&stdout, "latency", &mut figures.latency[of])?;
                collect(&stdout, "bandwidth", &mut figures.bandwidth[of])?;
            }
            for transport in BOTH {
                let stdout =
                    self.run_job(vendor, &hosts, &job(transport, 2, &patterns, &["--pin"]))?.stdout;
                collect_patterns(&stdout, &mut figures.patterns[transport as usize])?;
            }
            let GigaeResults { round_trip, mode } = own::ping_pong(hosts.fabric())?;
            figures.own.push(round_trip);
            note(figures, format!("gigae's link: {mode}"));
        }
        Ok(())
    }

    /// Four hosts with 1 Gbit/s each: the programs.
    fn many(&self, vendor: &Vendor, figures: &mut Figures) -> Result<(), Error> {
        let config = FabricConfig {
            prefix: prefix("4"),
            nodes: MANY,
            rate: Some(Rate::GIGABIT),
            ..FabricConfig::default()
        };
        let hosts = Hosts::up(config)?;
        note(figures, format!("TCP's congestion control: {}", hosts.tune_tcp()?));
        let sort = vendor.compile(&hosts, &["sort"])?;
        let solve = vendor.compile(&hosts, &["solve"])?;
        for run in 1..=self.runs {
            (self.say)(&format!("sort and solver, run {run} of {}", self.runs));
            for transport in BOTH {
                let of = transport as usize;
                let stdout =
                    self.run_job(vendor, &hosts, &job(transport, MANY, &sort, &SORT))?.stdout;
                figures.sort[of].push(value(&stdout, "time")?);
                let stdout =
                    self.run_job(vendor, &hosts, &job(transport, MANY, &solve, &SOLVE))?.stdout;
                figures.solve[of].push(value(&stdout, "time")?);
            }
        }
        for transport in BOTH {
            (self.say)(&format!("HPC Challenge over {}", name(transport)));
            figures.hpcc[transport as usize] = self.hpcc(vendor, &hosts, transport)?;
        }
        Ok(())
    }

    fn hpcc(
        &self,
        vendor: &Vendor,
        hosts: &Hosts,
        transport: Transport,
    ) -> Result<BTreeMap<String, f64>, Error> {
        let file = |name| hosts.place().join(name);
        // It adds to what is there.
        let _ = fs::remove_file(file("hpccoutf.txt"));
        fs::write(file("hpccinf.txt"), HPCC).map_err(|error| format!("hpccinf.txt: {error}"))?;
        let hpcc =
            path::find("hpcc", &[]).ok_or("hpcc is not in PATH; run: apt-get install hpcc")?;
        let took = self.run_job(vendor, hosts, &job(transport, MANY, &hpcc, &[]))?.took;
        let text = fs::read_to_string(file("hpccoutf.txt"))
            .map_err(|error| format!("hpcc left no result: {error}"))?;
        let mut found = answers(&text)?;
        found.insert("seconds".into(), took.as_secs_f64());
        Ok(found)
    }

    pub(crate) fn run_job(
        &self,
        vendor: &Vendor,
        hosts: &Hosts,
        job: &Job<'_>,
    ) -> Result<Finished, Error> {
        let finished = vendor.run(hosts, job, self.interrupted)?;
        if finished.status.success() {
            return Ok(finished);
        }
        let what = job.program.file_name().unwrap_or_default().display();
        let (over, status) = (name(job.transport), finished.status);
        Err(format!("{what} over {over} failed ({status}): {}{}", finished.stdout, finished.stderr))
    }
}

/// A program with a rank on each of the first `hosts`.
pub(crate) fn job<'a>(
    transport: Transport,
    hosts: u16,
    program: &'a Path,
    arguments: &'a [&'a str],
) -> Job<'a> {
    Job { transport, hosts, places: 1, program, arguments, limit: LIMIT }
}

/// As people call it.
pub fn name(transport: Transport) -> &'static str {
    match transport {
        Transport::Gigae => "gigae",
        Transport::Tcp => "TCP",
    }
}

/// Of this process alone, so that several can run.
pub(crate) fn prefix(what: &str) -> String {
    format!("mpi{}-{what}", std::process::id())
}

fn note(figures: &mut Figures, line: String) {
    if !figures.conditions.contains(&line) {
        figures.conditions.push(line);
    }
}

/// Lines `KIND BYTES VALUE`, of which there must be some.
fn collect(stdout: &str, kind: &str, into: &mut BTreeMap<u32, Vec<f64>>) -> Result<(), Error> {
    let mut found = false;
    for line in stdout.lines() {
        if let [word, bytes, value] = line.split_whitespace().collect::<Vec<_>>()[..]
            && word == kind
            && let (Ok(bytes), Ok(value)) = (bytes.parse(), value.parse())
        {
            into.entry(bytes).or_default().push(value);
            found = true;
        }
    }
    if found { Ok(()) } else { Err(format!("the sweep printed no {kind}: {stdout}")) }
}

/// Lines `pattern NAME BYTES VALUE`, of which there must be some.
fn collect_patterns(stdout: &str, into: &mut BTreeMap<RankPattern, Vec<f64>>) -> Result<(), Error> {
    let before = into.values().map(Vec::len).sum::<usize>();
    for line in stdout.lines() {
        if let ["pattern", name, bytes, value] = line.split_whitespace().collect::<Vec<_>>()[..]
            && let (Ok(bytes), Ok(value)) = (bytes.parse(), value.parse())
        {
            into.entry(RankPattern { name: name.to_owned(), bytes }).or_default().push(value);
        }
    }
    match into.values().map(Vec::len).sum::<usize>() > before {
        true => Ok(()),
        false => Err(format!("the patterns printed nothing: {stdout}")),
    }
}

/// The line `KIND VALUE`, which there must be.
pub(crate) fn value(stdout: &str, kind: &str) -> Result<f64, Error> {
    let number = |line: &str| line.strip_prefix(kind)?.strip_prefix(' ')?.parse().ok();
    stdout.lines().find_map(number).ok_or_else(|| format!("a program printed no {kind}: {stdout}"))
}

/// The figures of HPC Challenge's summary, if all its own checks were passed: the linear system's
/// and the transposition's residuals, the updates of random places, the transform's error.
pub fn answers(text: &str) -> Result<BTreeMap<String, f64>, Error> {
    let summary: BTreeMap<String, f64> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter_map(|(name, value)| Some((name.trim().to_owned(), value.trim().parse().ok()?)))
        .collect();
    let value = |name: &str| {
        summary.get(name).copied().ok_or_else(|| format!("hpcc's result has no {name}"))
    };
    let residuals = text.lines().filter(|line| line.contains("and failed residual checks"));
    let failed = residuals.clone().any(|line| !line.trim_start().starts_with("0 tests"));
    // One table for the linear system and one for the transposition.
    if value("Success")? != 1.0 || failed || residuals.count() < 2 {
        return Err("hpcc: a residual is too large".into());
    }
    // A share of 1 % may be lost by its rules, where updates are not atomic.
    for name in ["MPIRandomAccess_ErrorsFraction", "MPIRandomAccess_LCG_ErrorsFraction"] {
        if value(name)? > 0.01 {
            return Err(format!("hpcc: {name} is {}", value(name)?));
        }
    }
    // Of numbers around 1 in double precision.
    if value("MPIFFT_maxErr")? > 1e-12 {
        return Err(format!("hpcc: MPIFFT_maxErr is {}", value("MPIFFT_maxErr")?));
    }
    Ok(summary)
}

/// What the figures depend on and the programs do not print.
fn conditions() -> Vec<String> {
    let model = proc::cpu_model(&proc::read("/proc/cpuinfo"));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let load = proc::read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    let libfabric = Command::new("fi_info").arg("--version").output().ok();
    let libfabric = libfabric.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let libfabric = libfabric.as_deref().unwrap_or_default().lines();
    let libfabric = libfabric.filter_map(|line| line.strip_prefix("libfabric: ")).next();
    vec![
        format!("Linux {}", proc::kernel_release()),
        format!("{processors} processors, {model}"),
        format!("load average at the beginning {load} (0 is a quiet machine)"),
        "two nodes joined by a cable, unshaped, a rank on a processor of its own; four nodes on a switch, 1 Gbit/s each; \
         MTU 1500; TCP: ob1, offloads of the virtual link as found on the cable"
            .to_owned(),
        format!("libfabric {}", libfabric.unwrap_or("?")),
        format!("gigae {}", env!("CARGO_PKG_VERSION")),
    ]
}
