//! `gigae`: the command. It parses arguments, minds Ctrl-C and leaves the work to the crates.

mod broker;
mod capture;
mod discover;
mod doctor;
mod endpoints;
mod fabric;
mod generate;
mod nic;
mod stat;

use clap::{Parser, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Messages on plain Ethernet, and the truth about what a network gives.
#[derive(Parser, Debug)]
#[command(name = "gigae", version, after_help = gigae_eval::cli::EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Eval(gigae_eval::cli::EvalArgs),
    Plans(gigae_eval::plans::PlansArgs),
    Compare(gigae_eval::compare::cli::CompareArgs),
    Serve(gigae_eval::cli::ServeArgs),
    Key(gigae_eval::cli::KeyArgs),
    Tuning(gigae_eval::tune::cli::TuningArgs),
    Soak(gigae_eval::soak::cli::SoakArgs),
    #[command(subcommand)]
    Fabric(fabric::Fabric),
    Nic(nic::NicArgs),
    Discover(discover::DiscoverArgs),
    Doctor(doctor::DoctorArgs),
    Stat(stat::StatArgs),
    Capture(capture::CaptureArgs),
    Broker(broker::BrokerArgs),
    Completions(generate::CompletionsArgs),
    Man(generate::ManArgs),
}

impl Command {
    /// Whether it takes the terminal for a live view.
    fn has_view(&self) -> bool {
        match self {
            Self::Eval(args) => args.tui,
            Self::Soak(args) => args.tui,
            _ => false,
        }
    }
}

/// What asks for an end.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let interrupted = Arc::new(AtomicBool::new(false));
    let minded = if arguments.command.has_view() {
        mind_signals_beside_view(&interrupted)
    } else {
        mind_signals(&interrupted)
    };
    if let Err(error) = minded {
        eprintln!("gigae: signals cannot be handled: {error}");
        return ExitCode::FAILURE;
    }
    match arguments.command {
        Command::Eval(args) => gigae_eval::cli::eval(&args, &interrupted),
        Command::Plans(args) => gigae_eval::plans::plans(&args),
        Command::Compare(args) => gigae_eval::compare::cli::run(&args),
        Command::Serve(args) => gigae_eval::cli::serve(&args, &interrupted),
        Command::Key(args) => gigae_eval::cli::key(&args),
        Command::Tuning(args) => gigae_eval::tune::cli::tuning(&args),
        Command::Soak(args) => gigae_eval::soak::cli::soak(&args, &interrupted),
        Command::Fabric(command) => fabric::run(command),
        Command::Nic(args) => nic::run(&args),
        Command::Discover(args) => discover::run(&args, &interrupted),
        Command::Doctor(args) => doctor::run(&args),
        Command::Stat(args) => stat::run(&args, &interrupted),
        Command::Capture(args) => capture::run(&args, &interrupted),
        Command::Broker(args) => broker::run(&args, &interrupted),
        Command::Completions(args) => generate::completions(&args),
        Command::Man(args) => generate::man(&args),
    }
}

/// Ctrl-C, a closed terminal and `kill` all ask for an orderly end; the second time they end the
/// process at once.
fn mind_signals(interrupted: &Arc<AtomicBool>) -> std::io::Result<()> {
    for signal in SIGNALS {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            gigae_eval::cli::INTERRUPTED.into(),
            Arc::clone(interrupted),
        )?;
        signal_hook::flag::register(signal, Arc::clone(interrupted))?;
    }
    debug_assert!(!interrupted.load(Ordering::Relaxed));
    Ok(())
}

/// The same where a live view has the terminal. That is put back before anything ends at once, which is more than a
/// signal handler may do.
fn mind_signals_beside_view(interrupted: &Arc<AtomicBool>) -> std::io::Result<()> {
    let mut signals = Signals::new(SIGNALS)?;
    let interrupted = Arc::clone(interrupted);
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            if interrupted.swap(true, Ordering::Relaxed) {
                gigae_eval::tui::restore();
                signal_hook::low_level::exit(gigae_eval::cli::INTERRUPTED.into());
            }
        }
    })?;
    Ok(())
}

/// Says an error in one line; the exit code for it.
fn complain(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("gigae: {}", error.to_string().replace('\n', " "));
    ExitCode::FAILURE
}
