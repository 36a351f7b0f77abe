//! A test binary that plays `gigae` for itself.

use clap::Parser;
use gigae_cli::{
    compare::CompareArgs, cp::CpArgs, eval::EvalArgs, mount::MountArgs, serve::ServeArgs,
    share::ShareArgs, soak::SoakArgs, tuning::TuningArgs,
};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[derive(Parser)]
#[command(name = "gigae", version)]
enum Program {
    Compare(CompareArgs),
    Cp(CpArgs),
    Eval(EvalArgs),
    Mount(MountArgs),
    Serve(ServeArgs),
    Share(ShareArgs),
    Soak(SoakArgs),
    Tuning(TuningArgs),
}

/// Carries out a command as the program does; `None` if the arguments begin with none.
pub(crate) fn play() -> Option<ExitCode> {
    gigae_fabric::become_forwarder();
    let word = std::env::args().nth(1)?;
    let words = ["compare", "cp", "eval", "mount", "serve", "share", "soak", "tuning", "--version"];
    if !words.contains(&word.as_str()) {
        return None;
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).unwrap();
    }
    Some(match Program::parse() {
        Program::Compare(args) => gigae_cli::compare::run(&args),
        Program::Cp(args) => gigae_cli::cp::cp(&args, &interrupted),
        Program::Eval(args) => gigae_cli::eval::eval(&args, &interrupted),
        Program::Mount(args) => gigae_cli::mount::mount(&args, &interrupted),
        Program::Serve(args) => gigae_cli::serve::serve(&args, &interrupted),
        Program::Share(args) => gigae_cli::share::share(&args, &interrupted),
        Program::Soak(args) => gigae_cli::soak::soak(&args, &interrupted),
        Program::Tuning(args) => gigae_cli::tuning::tuning(&args),
    })
}
