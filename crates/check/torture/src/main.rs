//! `gigae-torture`: many seeds of the deterministic simulation, or one of them again.

use clap::Parser;
use gigae_torture::{Class, Figures, NodePair, RunReport, Scenario, Violation, Watch, run};
use std::cell::Cell;
use std::fs::File;
use std::io::IsTerminal;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Whole endpoints on a simulated network that does its worst, in virtual time; every message is
/// known. Ends with what was tried and what was lost; the exit code is 1 if anything was.
#[derive(Parser, Debug)]
#[command(name = "gigae-torture", version)]
struct Arguments {
    /// Seeds to run.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Stop after this many frames in all.
    #[arg(long)]
    frames: Option<u64>,
    /// Stop after this many hours.
    #[arg(long)]
    hours: Option<f64>,
    /// Runs at the same time [default: one per processor].
    #[arg(long)]
    jobs: Option<usize>,
    /// Run this seed alone.
    #[arg(long, conflicts_with_all = ["seeds", "from", "frames", "hours"])]
    seed: Option<u64>,
    /// With --seed: print every event.
    #[arg(short, long, requires = "seed")]
    verbose: bool,
    /// With --seed: write every frame to this pcapng file.
    #[arg(long, requires = "seed")]
    capture: Option<PathBuf>,
    /// Go on after a seed that failed.
    #[arg(long)]
    keep_going: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    mind_panics();
    let result = match arguments.seed {
        Some(seed) => one(seed, &arguments),
        None => Ok(many(&arguments)),
    };
    result.unwrap_or_else(|error| {
        eprintln!("gigae-torture: {error}");
        ExitCode::FAILURE
    })
}

thread_local! {
    /// The seed that this thread runs.
    static SEED: Cell<u64> = const { Cell::new(0) };
}

/// A panic names its seed at once, for a second one, while memory is freed, ends the process.
fn mind_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        println!("\nseed {} PANICS; again: gigae-torture --seed {0} -v", SEED.get());
        usual(panic);
    }));
}

/// A run whose panics are violations like others.
fn guarded(scenario: &Scenario, watch: Watch) -> std::io::Result<RunReport> {
    SEED.set(scenario.seed);
    catch_unwind(AssertUnwindSafe(|| run(scenario, watch))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        let violation =
            Violation::new(Class::Broken, NodePair::of_one(0), format!("panic: {text}"));
        let mut figures = Figures { seeds: 1, ..Figures::default() };
        figures.violations[Class::ALL.len() - 1] = 1;
        Ok(RunReport { figures, digest: 0, violation: Some(violation), events: Vec::new() })
    })
}

fn one(seed: u64, arguments: &Arguments) -> std::io::Result<ExitCode> {
    let scenario = Scenario::draw(seed);
    println!("{scenario:#?}");
    let capture = arguments.capture.as_ref().map(File::create).transpose()?;
    let outcome = guarded(&scenario, Watch { verbose: arguments.verbose, capture })?;
    println!("{}\ndigest: {:016x}", outcome.figures, outcome.digest);
    Ok(report(&scenario, &outcome))
}

/// Says what a failed run has broken, and how to see it again.
fn report(scenario: &Scenario, outcome: &RunReport) -> ExitCode {
    let Some(violation) = &outcome.violation else { return ExitCode::SUCCESS };
    println!("\nseed {} FAILED: {violation}", scenario.seed);
    println!("{scenario:?}");
    println!("the last of what concerns these two nodes:");
    outcome.events.iter().for_each(|event| println!("  {event}"));
    println!("again: gigae-torture --seed {} -v", scenario.seed);
    ExitCode::FAILURE
}

fn many(arguments: &Arguments) -> ExitCode {
    let jobs = arguments
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let begin = Instant::now();
    let end = arguments.hours.map(|hours| begin + Duration::from_secs_f64(hours * 3600.0));
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new(Figures::default());
    let work = || {
        loop {
            let enough = {
                let total = total.lock().expect("no panic while it is locked");
                arguments.frames.is_some_and(|most| total.frames >= most)
            };
            let stop = failed.load(Ordering::Relaxed) && !arguments.keep_going;
            let n = next.fetch_add(1, Ordering::Relaxed);
            if enough || stop || n >= arguments.seeds || end.is_some_and(|e| Instant::now() > e) {
                return;
            }
            let scenario = Scenario::draw(arguments.from + n);
            let outcome = guarded(&scenario, Watch::default()).expect("nothing is captured");
            let mut total = total.lock().expect("no panic while it is locked");
            *total += outcome.figures;
            progress(&total, arguments, begin);
            if outcome.violation.is_some() {
                failed.store(true, Ordering::Relaxed);
                report(&scenario, &outcome);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    let total = total.into_inner().expect("no panic while it was locked");
    let seconds = begin.elapsed().as_secs_f64();
    let rate = total.frames as f64 / seconds;
    println!("{total}\ntook: {seconds:.0} s with {jobs} jobs, {rate:.0} frames/s");
    if failed.into_inner() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// A line on a terminal; in a log, one every thousand seeds.
fn progress(total: &Figures, arguments: &Arguments, begin: Instant) {
    let Figures { seeds, frames, delivered, .. } = total;
    let line = format!(
        "{seeds} of {} seeds, {frames} frames, {delivered} messages, {:.0} s",
        arguments.seeds,
        begin.elapsed().as_secs_f64()
    );
    if std::io::stderr().is_terminal() {
        eprint!("\r{line} ");
        if *seeds == arguments.seeds {
            eprintln!();
        }
    } else if seeds.is_multiple_of(1000) {
        eprintln!("{line}");
    }
}
