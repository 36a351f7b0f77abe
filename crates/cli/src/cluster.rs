//! `gigae eval --cluster-run`: a whole cluster, from inside a job of a launcher. The work is done
//! by `gigae-eval-cluster`.

use crate::eval::EvalArgs;
use crate::outcome::{CommandError, say};
use crate::terminal::emphasised;
use gigae::Cluster;
use gigae_eval_cluster::{ClusterError, ClusterResults, Config, Outcome, Progress, report, run};
use gigae_eval_model::plan::{Wait, shell_word};
use gigae_eval_page::files::{self, TextFile};
use gigae_eval_session::remark::remark;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Lines about progress come at most so often.
const SAY: Duration = Duration::from_secs(2);

/// What is measured of pairs.
const TRANSPORTS: [&str; 2] = ["gigae", "tcp"];

/// How the ends of a cluster's measurements wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ClusterWait {
    /// They sleep until something comes.
    Sleep,
    /// They look without a pause. Takes a processor at each end.
    Spin,
}

/// Lines on standard error.
struct Lines {
    said: Option<Instant>,
}

impl Progress for Lines {
    fn say(&mut self, text: &str) {
        remark(text);
    }

    fn step(&mut self, done: usize, total: usize, next: &str) {
        if self.said.is_none_or(|said| said.elapsed() >= SAY) {
            self.said = Some(Instant::now());
            remark(&format!("{} % done, next: {next}", done * 100 / total.max(1)));
        }
    }
}

/// Takes part in a run. Rank 0 writes the results and says what was found.
pub(crate) fn measure(args: &EvalArgs, interrupted: &AtomicBool) -> Result<(), CommandError> {
    let config = Config {
        nic: interface(args)?,
        seconds: args.seconds,
        wait: match args.wait {
            ClusterWait::Sleep => Wait::Sleep,
            ClusterWait::Spin => Wait::Spin,
        },
        transports: TRANSPORTS.map(str::to_owned).into(),
        command: command(args),
        out: args.out.clone(),
    };
    match run(&config, interrupted, &mut Lines { said: None }) {
        Ok(Outcome::Done) => Ok(()),
        Ok(Outcome::Interrupted) => Err(CommandError::Interrupted(String::new())),
        Ok(Outcome::Results(results)) => write(args, &results),
        Err(error @ ClusterError::Interrupted) => Err(CommandError::Interrupted(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// The interfaces that were named, or the cluster file's, if there is one.
fn interface(args: &EvalArgs) -> Result<Option<String>, CommandError> {
    if let Some(nic) = &args.nic {
        return Ok(Some(nic.clone()));
    }
    let named = args.cluster.is_some() || std::env::var_os("GIGAE_CLUSTER").is_some();
    if !named && !Path::new("/etc/gigae/cluster.toml").exists() {
        return Ok(None);
    }
    let cluster = match &args.cluster {
        Some(file) => Cluster::read(file)?,
        None => Cluster::load()?,
    };
    Ok(Some(cluster.interfaces()?.join(",")))
}

/// Writes all files, and says what was found or what was asked for.
pub(crate) fn write(args: &EvalArgs, results: &ClusterResults) -> Result<(), CommandError> {
    let (json, table) = (results.to_json(), results.to_csv());
    let (page, text) = (report::html(results), report::markdown(results));
    let all = [
        TextFile { name: "results.json", text: &json },
        TextFile { name: "results.csv", text: &table },
        TextFile { name: "report.html", text: &page },
        TextFile { name: "report.md", text: &text },
    ];
    files::write_all(&args.out, &all)?;
    if args.json || args.csv {
        return say(if args.json { &json } else { &table });
    }
    let mut text = report::text(results, emphasised());
    for file in all {
        let _ = writeln!(text, "{}", args.out.join(file.name).display());
    }
    say(&text)
}

/// The command of each rank.
fn command(args: &EvalArgs) -> String {
    let mut text = format!("gigae eval --cluster-run --seconds {}", args.seconds);
    if args.wait == ClusterWait::Spin {
        text.push_str(" --wait spin");
    }
    let cluster = args.cluster.as_ref().map(|file| file.display().to_string());
    for (option, value) in [("nic", args.nic.clone()), ("cluster", cluster)] {
        if let Some(value) = value {
            let _ = write!(text, " --{option} {}", shell_word(&value));
        }
    }
    text
}
