//! `gigae tuning`: which knobs there are, and putting back what a killed run left.

use crate::outcome::{CommandError, EXIT_CODES, finish, say};
use clap::{Args, Subcommand};
use gigae_eval_session::remark::remark;
use gigae_eval_session::tune::{KNOBS, TunedInterface, abandoned, guard};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// List the settings that a plan can vary, and restore what a killed run has left changed.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct TuningArgs {
    #[command(subcommand)]
    command: TuningCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum TuningCommand {
    /// List the knobs that [tune] of a plan can name, with an interface's current values
    Knobs {
        /// Show the values of this interface
        #[arg(long, value_name = "IFACE")]
        nic: Option<String>,
    },
    /// Restore the settings that a killed run has left changed
    ///
    /// 'gigae eval' and 'gigae serve' do this when they start. If another program has changed a
    /// value since, that value is kept and reported.
    Restore {
        /// Wait until standard input closes, then put back what this journal says
        #[arg(long, hide = true, value_name = "JOURNAL")]
        when_closed: Option<PathBuf>,
    },
}

/// Runs `gigae tuning`.
pub fn tuning(args: &TuningArgs) -> ExitCode {
    finish(match &args.command {
        TuningCommand::Knobs { nic } => knobs(nic.as_deref()).and_then(|text| say(&text)),
        TuningCommand::Restore { when_closed: None } => match abandoned() {
            Ok(said) if said.is_empty() => say("nothing was left changed\n"),
            Ok(said) => say(&(said.join("\n") + "\n")),
            Err(error) => Err(CommandError::Error(not_put_back(&error))),
        },
        TuningCommand::Restore { when_closed: Some(journal) } => {
            guard(journal).map_err(CommandError::from).map(|said| {
                said.iter().for_each(|line| remark(line));
            })
        }
    })
}

/// Puts back what killed runs left, and says so. Without the permission it says that in a line and
/// goes on.
pub fn restore() {
    match abandoned() {
        Ok(said) => said.iter().for_each(|line| remark(line)),
        Err(error) => remark(&not_put_back(&error)),
    }
}

fn not_put_back(error: &std::io::Error) -> String {
    format!(
        "cannot put back the settings that a killed run changed: {error}; run 'gigae tuning restore' as root"
    )
}

fn knobs(nic: Option<&str>) -> Result<String, CommandError> {
    let place = nic.map(TunedInterface::new).transpose().map_err(|error| {
        let nic = nic.unwrap_or_default();
        CommandError::Error(format!(
            "cannot look at interface '{nic}': {error}; 'gigae nic' lists them"
        ))
    })?;
    let mut text = String::new();
    for knob in KNOBS {
        let _ = writeln!(
            text,
            "{:21} {} ({})",
            knob.name(),
            knob.form().about,
            knob.form().belongs.name()
        );
        let _ = writeln!(text, "{:21} values: {}", "", knob.form().values);
        if let Some(place) = &place {
            let now = match knob.read(place) {
                Ok(exact) => format!("now: {}", knob.say(&exact)),
                Err(why) => format!("not here: {}", why.0),
            };
            let _ = writeln!(text, "{:21} {now}", "");
        }
    }
    Ok(text)
}
