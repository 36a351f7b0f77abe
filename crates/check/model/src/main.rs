//! `gigae-model`: the long form of the exhaustive check, and a table of what was looked at.

use clap::Parser;
use gigae_model::{CheckReport, check, forms};
use std::num::NonZero;
use std::process::ExitCode;

/// Every order of a few messages, faults, timers and restarts between nodes with tiny windows. Ends
/// with what was looked at and what does not hold; the exit code is 1 if anything does not, or if
/// states were left out.
#[derive(Parser, Debug)]
#[command(name = "gigae-model", version)]
struct Arguments {
    /// Only the forms that every test run checks.
    #[arg(long)]
    bounded: bool,
    /// Only forms whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Most states of a form, repeated ones included: each costs some 20 bytes.
    #[arg(long, default_value_t = 100_000_000)]
    most: usize,
    /// Threads [default: one per processor].
    #[arg(long)]
    jobs: Option<usize>,
}

fn main() -> ExitCode {
    let Arguments { bounded, only, most, jobs } = Arguments::parse();
    let jobs = jobs.or_else(|| std::thread::available_parallelism().ok().map(NonZero::get));
    let mut forms = if bounded { forms::bounded() } else { forms::long() };
    forms.retain(|form| form.name.contains(&only));
    println!("{}", CheckReport::HEAD);
    let (mut unique, mut sound) = (0, 0);
    for form in &forms {
        let outcome = check(form, most, jobs.unwrap_or(1));
        println!("{outcome}");
        unique += outcome.unique;
        sound += usize::from(outcome.is_sound());
    }
    println!("\n{} forms, {unique} different states; {sound} forms hold", forms.len());
    if sound == forms.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
