//! `gigae compare`: arguments and what is said to a person.

use crate::outcome::{CommandError, EXIT_CODES, finish, say};
use clap::Args;
use gigae_eval_page::files::{self, TextFile};
use gigae_eval_report::compare::{Comparison, Side, compare, text};
use gigae_eval_report::compared;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// A difference of less than this is of no interest to most, and on most machines another run's.
const LEAST: f64 = 5.0;

/// Compare saved runs: what differs, by how much, and what may be chance.
///
/// Takes results.json files of 'gigae eval', of any version, or their directories. The first is the
/// reference for the others. A directory of 'gigae eval --runs' counts with all its runs. So does a
/// directory that holds only directories of runs. With fewer than 4 runs on a side, the variation
/// between runs is unknown, and the verdicts hold only for these runs. docs/explanation/method.md
/// explains the verdicts.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct CompareArgs {
    /// A results.json or its directory
    #[arg(value_name = "RUN", required = true, num_args = 2..=8)]
    pub runs: Vec<PathBuf>,
    /// Smallest difference that counts, in percent
    #[arg(long, default_value_t = LEAST, value_name = "PERCENT", value_parser = least)]
    pub least: f64,
    /// Print the comparison as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Print a line for each figure and cost as comma-separated values instead of tables
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Write compare.html, with all runs' curves in one figure, compare.json and compare.csv to
    /// this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

fn least(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("a number of percent from 0 to 100".into()),
    }
}

/// Runs `gigae compare`.
pub fn run(args: &CompareArgs) -> ExitCode {
    finish(try_run(args))
}

fn try_run(args: &CompareArgs) -> Result<(), CommandError> {
    let sides = args.runs.iter().map(|path| Side::read(path)).collect::<Result<Vec<_>, _>>()?;
    let comparison = compare(&sides, args.least)?;
    let written = match &args.out {
        Some(directory) => {
            let (page, json) = (compared::page(&comparison, &sides), json(&comparison));
            let csv = compared::csv(&comparison);
            let files = [
                TextFile { name: "compare.html", text: &page },
                TextFile { name: "compare.json", text: &json },
                TextFile { name: "compare.csv", text: &csv },
            ];
            files::write_all(directory, &files)?;
            files.map(|file| directory.join(file.name)).to_vec()
        }
        None => Vec::new(),
    };
    if args.json {
        return say(&json(&comparison));
    }
    if args.csv {
        return say(&compared::csv(&comparison));
    }
    let mut text = text(&comparison, crate::terminal::emphasised());
    for file in written {
        let _ = writeln!(text, "{}", file.display());
    }
    say(&text)
}

fn json(comparison: &Comparison) -> String {
    let text = serde_json::to_string_pretty(comparison).expect("a comparison is plain data");
    text + "\n"
}
