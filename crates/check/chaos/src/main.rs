//! `gigae-chaos`: seeds of every scenario on real links, or one of them again.

use clap::{Parser, Subcommand};
use gigae_chaos::worker::{WorkArgs, work};
use gigae_chaos::{ALL, Figures, Scenario};
use gigae_cli::{eval::EvalArgs, serve::ServeArgs};
use gigae_fabric::Fabric;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Faults of every kind on real interfaces in network namespaces, with an account of every message.
/// Ends at the first seed at which something does not hold, with exit code 1. Needs root.
#[derive(Parser, Debug)]
#[command(name = "gigae-chaos", version, args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Seeds of each scenario.
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Stop after this many minutes.
    #[arg(long)]
    minutes: Option<f64>,
    /// Only this scenario.
    #[arg(long, value_parser = scenario)]
    only: Option<String>,
    /// List the scenarios.
    #[arg(long)]
    list: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

/// What this program is to itself.
#[derive(Subcommand, Debug)]
enum Command {
    /// The workload.
    #[command(hide = true)]
    Work(WorkArgs),
    /// The evaluator, for what happens to it.
    #[command(hide = true)]
    Eval(EvalArgs),
    /// Its serving end.
    #[command(hide = true)]
    Serve(ServeArgs),
}

fn scenario(name: &str) -> Result<String, String> {
    let names: Vec<_> = ALL.iter().map(|scenario| scenario.name).collect();
    match names.contains(&name) {
        true => Ok(name.into()),
        false => Err(format!("choose one of: {}", names.join(", "))),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let interrupted = AtomicBool::new(false);
    match arguments.command {
        Some(Command::Work(args)) => {
            work(args);
            ExitCode::SUCCESS
        }
        Some(Command::Eval(args)) => gigae_cli::eval::eval(&args, &interrupted),
        Some(Command::Serve(args)) => gigae_cli::serve::serve(&args, &interrupted),
        None if arguments.list => {
            ALL.iter().for_each(|scenario| println!("{:8} {}", scenario.name, scenario.about));
            ExitCode::SUCCESS
        }
        None => many(&arguments).unwrap_or_else(|error| {
            eprintln!("gigae-chaos: {error}");
            ExitCode::FAILURE
        }),
    }
}

/// Seed after seed, each through all scenarios, so that a run that is cut short has tried all of
/// them.
fn many(arguments: &Arguments) -> Result<ExitCode, String> {
    let text = |error: gigae_fabric::FabricError| error.to_string();
    Fabric::preflight().map_err(text)?;
    Fabric::down_abandoned().map_err(text)?;
    // Also when the file was replaced in the meantime.
    let program = Path::new("/proc/self/exe").read_link().map_err(|error| error.to_string())?;
    let begin = Instant::now();
    let end = arguments.minutes.map(|minutes| begin + Duration::from_secs_f64(minutes * 60.0));
    let chosen: Vec<&Scenario> = ALL
        .iter()
        .filter(|scenario| arguments.only.as_deref().is_none_or(|only| only == scenario.name))
        .collect();
    let mut totals = vec![Figures::default(); chosen.len()];
    let mut failed = false;
    'seeds: for seed in arguments.from..arguments.from + arguments.seeds {
        for (scenario, total) in chosen.iter().zip(&mut totals) {
            if end.is_some_and(|end| Instant::now() > end) {
                break 'seeds;
            }
            match scenario.run(&program, seed) {
                Ok(figures) => *total += &figures,
                Err(what) => {
                    let name = scenario.name;
                    println!("{name}, seed {seed} FAILED: {what}");
                    println!("again: gigae-chaos --only {name} --from {seed} --seeds 1");
                    failed = true;
                    break 'seeds;
                }
            }
        }
    }
    for (scenario, total) in chosen.iter().zip(&totals) {
        println!("{:8} {total}", scenario.name);
    }
    println!("took: {:.0} s", begin.elapsed().as_secs_f64());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
