//! `gigae-mpi`: Open MPI over TCP and over gigae, side by side.

use clap::Parser;
use gigae_fabric::Fabric;
use gigae_mpi::bench::Benchmark;
use gigae_mpi::{report, speedup};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Measure Open MPI over TCP and over gigae between virtual hosts, side by side, answers checked.
///
/// Lays virtual networks, and removes them on every way out. Needs Open MPI (Debian: openmpi-bin,
/// libopenmpi-dev), hpcc and a C compiler; as root, 'make mpi' installs them. Exit codes: 0
/// measured, whatever came out; 1 an error; 130 interrupted.
#[derive(Parser, Debug)]
#[command(name = "gigae-mpi", version)]
struct Arguments {
    /// Runs of each measurement; the report shows medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,

    /// Also write what is asked, with the value of each run, to this file
    #[arg(long, value_name = "FILE", conflicts_with = "speed_up")]
    json: Option<std::path::PathBuf>,

    /// Measure the sort and the solver on 1, 2, 4 and 8 hosts instead, the same work on each
    #[arg(long)]
    speed_up: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // While this process has one thread.
    if let Err(error) = gigae_fabric::gain_privileges() {
        eprintln!("gigae-mpi: {error}");
        return ExitCode::FAILURE;
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&interrupted)) {
            eprintln!("gigae-mpi: signals cannot be handled: {error}");
            return ExitCode::FAILURE;
        }
    }
    let possible = Fabric::preflight().and_then(|()| Fabric::down_abandoned());
    let say = |line: &str| eprintln!("{line}");
    let bench = Benchmark { runs: arguments.runs, interrupted: &interrupted, say: &say };
    let possible = possible.map_err(|error| error.to_string());
    if arguments.speed_up {
        let measured = possible.and_then(|_| bench.speed_up());
        return ended(measured.map(|found| print!("{}", speedup::text(&found))), &interrupted);
    }
    let measured = possible.and_then(|_| bench.run()).and_then(|figures| {
        print!("{}", report::text(&figures));
        let Some(file) = arguments.json else { return Ok(()) };
        std::fs::write(&file, report::json(&figures))
            .map_err(|error| format!("{}: {error}", file.display()))
    });
    ended(measured, &interrupted)
}

fn ended(outcome: Result<(), gigae_mpi::Error>, interrupted: &AtomicBool) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if interrupted.load(Ordering::Relaxed) => {
            eprintln!("gigae-mpi: interrupted; nothing is left behind");
            ExitCode::from(130)
        }
        Err(what) => {
            eprintln!("gigae-mpi: {what}");
            ExitCode::FAILURE
        }
    }
}
