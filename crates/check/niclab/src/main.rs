//! `gigae-niclab`: the lab's command; and, as the first process of a guest, what runs inside.

use clap::{Parser, Subcommand};
use gigae_cli::cp::CpArgs;
use gigae_cli::serve::ServeArgs;
use gigae_cli::share::ShareArgs;
use gigae_cli::tuning::TuningArgs;
use gigae_niclab::host::LabError;
use gigae_niclab::host::matrix::{self, RunArgs};
use gigae_niclab::host::record::LabRecord;
use gigae_niclab::{guest, model};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The library and the evaluator on the drivers of QEMU's network cards, in software emulation.
#[derive(Parser, Debug)]
#[command(name = "gigae-niclab", version, after_help = gigae_cli::outcome::EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run guests; exit code 1 if anything was not as it must be
    Run(RunArgs),
    /// List the cards
    Models,
    /// Write the reports of a niclab.json again
    Render {
        /// The file.
        file: PathBuf,
        /// Directory for the reports.
        #[arg(long, default_value = "results/niclab", value_name = "DIR")]
        out: PathBuf,
    },
    /// The answering end of a measurement, inside a guest
    #[command(hide = true)]
    Serve(ServeArgs),
    /// Puts settings back, inside a guest
    #[command(hide = true)]
    Tuning(TuningArgs),
    /// What the first process of a guest starts: it does the job
    #[command(hide = true)]
    Guest {
        /// The root directory, if it is another one.
        root: Option<PathBuf>,
    },
    /// A file server, inside a guest
    #[command(hide = true)]
    Share(ShareArgs),
    /// Its client, inside a guest
    #[command(hide = true)]
    Cp(CpArgs),
}

fn main() -> ExitCode {
    if std::process::id() == 1 && std::env::args().len() == 1 {
        guest::init::run();
    }
    let arguments = Arguments::parse();
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&interrupted)) {
            return complain(&error);
        }
    }
    match arguments.command {
        Command::Run(args) => match matrix::run(&args, &interrupted) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => complain(&error),
        },
        Command::Models => {
            for model in model::MODELS {
                let note = model.defect.map_or(String::new(), |why| format!("; {why}"));
                println!("{:18} {:12} {}{note}", model.name, model.modules.join(" "), model.about);
            }
            ExitCode::SUCCESS
        }
        Command::Render { file, out } => match render(&file, &out) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(&error),
        },
        Command::Serve(args) => gigae_cli::serve::serve(&args, &interrupted),
        Command::Tuning(args) => gigae_cli::tuning::tuning(&args),
        Command::Guest { root } => guest::run(root.as_deref()),
        Command::Share(args) => gigae_cli::share::share(&args, &interrupted),
        Command::Cp(args) => gigae_cli::cp::cp(&args, &interrupted),
    }
}

fn render(file: &std::path::Path, out: &std::path::Path) -> Result<(), LabError> {
    matrix::write(out, &LabRecord::read(file)?)
}

/// Says an error in one line; the exit code for it.
fn complain(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("gigae-niclab: {}", error.to_string().replace('\n', " "));
    ExitCode::FAILURE
}
