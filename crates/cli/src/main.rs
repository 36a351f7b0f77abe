//! `gigae`: the command. It parses arguments, minds Ctrl-C and leaves the work to the crates.

use clap::{CommandFactory, Parser, Subcommand};
use gigae_cli::{
    broker, capture, compare, cp, discover, doctor, eval, fabric, generate, key, mount, nic,
    outcome::complain, plans, serve, share, simulate, soak, stat, tuning,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Send messages over plain Ethernet, and measure what a network gives.
#[derive(Parser, Debug)]
#[command(name = "gigae", version, after_help = gigae_cli::outcome::EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Eval(eval::EvalArgs),
    Plans(plans::PlansArgs),
    Compare(compare::CompareArgs),
    Simulate(simulate::SimulateArgs),
    Serve(serve::ServeArgs),
    Key(key::KeyArgs),
    Tuning(tuning::TuningArgs),
    Soak(soak::SoakArgs),
    Share(share::ShareArgs),
    Cp(cp::CpArgs),
    Mount(mount::MountArgs),
    #[command(subcommand)]
    Fabric(fabric::FabricCommand),
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

    /// Whether it creates a virtual network.
    fn sets_up_fabric(&self) -> bool {
        match self {
            Self::Eval(args) => args.sets_up_fabric(),
            Self::Soak(args) => args.sets_up_fabric(),
            Self::Fabric(command) => command.sets_up_fabric(),
            _ => false,
        }
    }
}

/// What asks for an end.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

fn main() -> ExitCode {
    gigae_fabric::become_forwarder();
    let arguments = Arguments::parse();
    gigae::log_to_stderr();
    // While this process has one thread.
    if arguments.command.sets_up_fabric()
        && let Err(error) = gigae_fabric::gain_privileges()
    {
        return complain(&error);
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    let handled = match &arguments.command {
        // It passes them on.
        Command::Fabric(fabric::FabricCommand::Run(_)) => Ok(()),
        command if command.has_view() => handle_signals_with_view(&interrupted),
        _ => handle_signals(&interrupted),
    };
    if let Err(error) = handled {
        eprintln!("gigae: signals cannot be handled: {error}");
        return ExitCode::FAILURE;
    }
    match arguments.command {
        Command::Eval(args) => eval::eval(&args, &interrupted),
        Command::Plans(args) => plans::plans(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Simulate(args) => simulate::simulate(&args, &interrupted),
        Command::Serve(args) => serve::serve(&args, &interrupted),
        Command::Key(args) => key::key(&args),
        Command::Tuning(args) => tuning::tuning(&args),
        Command::Soak(args) => soak::soak(&args, &interrupted),
        Command::Share(args) => share::share(&args, &interrupted),
        Command::Cp(args) => cp::cp(&args, &interrupted),
        Command::Mount(args) => mount::mount(&args, &interrupted),
        Command::Fabric(command) => fabric::run(command),
        Command::Nic(args) => nic::run(&args),
        Command::Discover(args) => discover::run(&args, &interrupted),
        Command::Doctor(args) => doctor::run(&args),
        Command::Stat(args) => stat::run(&args, &interrupted),
        Command::Capture(args) => capture::run(&args, &interrupted),
        Command::Broker(args) => broker::run(&args, &interrupted),
        Command::Completions(args) => generate::completions(Arguments::command(), &args),
        Command::Man(args) => generate::man(Arguments::command(), &args),
    }
}

/// Ctrl-C, a closed terminal and `kill` all ask for an orderly end; the second time they end the
/// process at once.
fn handle_signals(interrupted: &Arc<AtomicBool>) -> std::io::Result<()> {
    for signal in SIGNALS {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            gigae_cli::outcome::INTERRUPTED.into(),
            Arc::clone(interrupted),
        )?;
        signal_hook::flag::register(signal, Arc::clone(interrupted))?;
    }
    debug_assert!(!interrupted.load(Ordering::Relaxed));
    Ok(())
}

/// The same where a live view has the terminal. That is put back before anything ends at once,
/// which is more than a signal handler may do.
fn handle_signals_with_view(interrupted: &Arc<AtomicBool>) -> std::io::Result<()> {
    let mut signals = Signals::new(SIGNALS)?;
    let interrupted = Arc::clone(interrupted);
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            if interrupted.swap(true, Ordering::Relaxed) {
                gigae_cli::tui::restore();
                signal_hook::low_level::exit(gigae_cli::outcome::INTERRUPTED.into());
            }
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_papers_page_parses() {
        let page = include_str!("../../../docs/reference/papers.md");
        let commands: Vec<&str> =
            page.split('`').filter(|part| part.starts_with("gigae ")).collect();
        assert!(commands.len() > 10);
        for command in commands {
            let parsed = Arguments::try_parse_from(command.split(' '));
            parsed.unwrap_or_else(|error| panic!("{command}: {error}"));
        }
    }
}
