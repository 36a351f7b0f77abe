//! `gigae eval`: arguments, exit codes, and what is said to a person.
//!
//! Exit codes: 0 done; 1 an error, said in one line on standard error; 2 wrong arguments; 130
//! interrupted (Ctrl-C), with nothing left behind.

use crate::cluster::{self, ClusterWait};
use crate::outcome::{CommandError, EXIT_CODES, finish, say};
use crate::peer::{self, host_of, interface};
use crate::remember::{self, remember};
use crate::terminal::{Bar, emphasised};
use crate::tui::{self, View};
use crate::tuning;
use clap::Args;
use clap::builder::PossibleValuesParser;
use gigae_eval_cluster::ClusterResults;
use gigae_eval_measure::environment;
use gigae_eval_model::number::hundredths;
use gigae_eval_model::plan::{CellFilter, Plan, SHIPPED, shell_word};
use gigae_eval_model::results::Results;
use gigae_eval_model::{duration, figures, transport};
use gigae_eval_page::files::{self, TextFile};
use gigae_eval_report::{csv, findings, html, markdown, text as terminal};
use gigae_eval_run::{self as run, Config, RemoteEnd, RunError};
use gigae_eval_session::control::{KEY_FILE, Key};
use gigae_eval_session::programs::{self, PAIRS};
use gigae_eval_session::remark::remark;
use gigae_eval_session::tune;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// More would take days.
const MOST_RUNS: i64 = 100;

/// Measure a network.
///
/// Without --peer, this creates a virtual network of two nodes, measures it and removes it. This
/// needs no privileges, but without root everything that needs an XDP program is skipped. With
/// --peer, it measures the path to a machine on which `gigae serve` runs.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct EvalArgs {
    /// Name of a shipped plan, or a TOML file
    #[arg(long, default_value = "quick", value_name = "NAME|FILE")]
    pub plan: String,
    /// Measure only a part of the plan. Keys: link, experiment, transport ('tcp' or 'tcp/nodelay'),
    /// wait, size, rate, senders, cpus, bulk. Example: 'link=cable,transport=tcp,transport=gigae'.
    /// Values of one key are alternatives. All keys must match. Repeat the option to narrow
    /// further. Bounds of the plan are not checked
    #[arg(long, value_name = "KEY=VALUE,...", conflicts_with_all = ["render", "list"])]
    pub only: Vec<CellFilter>,
    /// List the shipped plans and the transports, then exit
    #[arg(long)]
    pub list: bool,
    /// Measure the path to this machine, on which 'gigae serve' runs. Give an address, a host name
    /// or, with a cluster file, the name of a node
    #[arg(long, value_name = "HOST[:PORT]", group = "others")]
    pub peer: Option<String>,
    /// Measure a whole cluster: every process of a job of 'mpirun', 'mpiexec' or 'srun', one on
    /// each host, has this option. The processes measure all pairs of hosts, both halves at once,
    /// and many to one, with gigae and with TCP. Without --nic and a cluster file, the only
    /// interface with an address is measured
    #[arg(long, group = "others", conflicts_with_all = ["plan", "only", "list", "runs", "repeat", "with", "tui", "remember", "render"])]
    pub cluster_run: bool,
    /// Seconds of each measurement of a cluster, after a warm-up of a quarter of that
    #[arg(long, value_name = "N", default_value_t = 0.2, value_parser = seconds, requires = "cluster_run")]
    pub seconds: f64,
    /// How the ends of a cluster's measurements wait
    #[arg(long, value_enum, value_name = "HOW", default_value_t = ClusterWait::Sleep, requires = "cluster_run")]
    pub wait: ClusterWait,
    /// This machine's interface towards the peer, or a comma-separated list of interfaces that
    /// gigae uses as one [default: the cluster file's]
    #[arg(long, value_name = "IFACE[,IFACE...]", requires = "others")]
    pub nic: Option<String>,
    /// Cluster file [default without --nic: $GIGAE_CLUSTER, else /etc/gigae/cluster.toml]
    #[arg(long, value_name = "FILE", requires = "others")]
    pub cluster: Option<PathBuf>,
    /// File with the key that both machines share, from 'gigae key' [default: /etc/gigae/key]
    #[arg(long, value_name = "FILE", requires = "peer")]
    pub key: Option<PathBuf>,
    /// Run the plan N times and report medians over all runs. Each run's results go to DIR/run-1,
    /// DIR/run-2, ...
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_RUNS))]
    pub runs: u32,
    /// Repeat at this interval (10m, 1d) until interrupted. Each repetition writes to its own
    /// directory in DIR, named by its UTC time. A failed repetition is reported, and the next one
    /// follows; if the first one fails, the command ends
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with_all = ["json", "csv", "render", "list"])]
    pub repeat: Option<Duration>,
    /// Also run these programs on the same link, alternating with ours. 'all': those that are
    /// installed at both ends. Otherwise a comma-separated list
    #[arg(long, value_name = "all|PROGRAM,...", value_delimiter = ',', value_parser = PossibleValuesParser::new(programs::names()), conflicts_with_all = ["render", "list"])]
    pub with: Vec<String>,
    /// Number of pairs for each comparison (with --with)
    #[arg(long, default_value_t = PAIRS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_RUNS), requires = "with")]
    pub pairs: u32,
    /// Directory for results.json, results.csv, report.html and report.md
    #[arg(long, default_value = "results", value_name = "DIR")]
    pub out: PathBuf,
    /// Print results.json on standard output instead of tables
    #[arg(long)]
    pub json: bool,
    /// Print results.csv on standard output instead of tables
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Show a live view on standard error: rate, round trip, CPU, retransmissions, figures so far.
    /// Key q stops, ? lists the keys
    #[arg(long, conflicts_with_all = ["render", "list"])]
    pub tui: bool,
    /// After a run of the plan 'backend', note which backend has the shorter round trip. This
    /// user's endpoints then take it where the driver has no XDP mode of its own: on interfaces
    /// with the same driver, MTU and kernel, for 30 days or until the machine restarts
    #[arg(long, conflicts_with_all = ["repeat", "render", "list"])]
    pub remember: bool,
    /// Measure nothing. Write the reports of this results.json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["peer", "list"])]
    pub render: Option<PathBuf>,
}

/// Seconds of a measurement: as many as find something, and few enough for many pairs.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number from 0.01 to 60".into()),
    }
}

impl EvalArgs {
    /// Whether this measures on a virtual network.
    pub fn sets_up_fabric(&self) -> bool {
        self.peer.is_none() && !self.cluster_run && self.render.is_none() && !self.list
    }
}

/// Runs `gigae eval`. `interrupted` is set by the caller's signal handler.
pub fn eval(args: &EvalArgs, interrupted: &AtomicBool) -> ExitCode {
    // This very program answers on the virtual network, as `gigae serve`.
    finish(try_eval(args, &["/proc/self/exe".into(), "serve".into()], interrupted))
}

fn try_eval(
    args: &EvalArgs,
    serve: &[OsString],
    interrupted: &AtomicBool,
) -> Result<(), CommandError> {
    if args.list {
        return say(&list());
    }
    if args.cluster_run {
        return cluster::measure(args, interrupted);
    }
    if args.tui {
        tui::ready()?;
    }
    let bold = emphasised();
    let results = match &args.render {
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|error| {
                CommandError::Error(format!(
                    "cannot read '{}': {error}; name a results.json",
                    file.display()
                ))
            })?;
            if ClusterResults::is_one(&text) {
                let results = ClusterResults::parse(&text).map_err(|error| {
                    let file = file.display();
                    CommandError::Error(format!("'{file}' is no results of a cluster: {error}"))
                })?;
                return cluster::write(args, &results);
            }
            Results::parse(&text).map_err(|error| {
                CommandError::Error(format!("'{}' is not a results.json: {error}", file.display()))
            })?
        }
        None => match args.repeat {
            Some(every) => return repeat(args, serve, interrupted, every),
            None => measure(args, serve, interrupted, bold)?,
        },
    };
    let written = write(&args.out, &results)?;
    let remembered = if args.remember { remember(&results) } else { String::new() };
    if args.json || args.csv {
        remembered.lines().for_each(remark);
        return say(&if args.json { results.to_json() } else { csv::page(&results) });
    }
    let mut text = if results.runs.len() > 1 {
        terminal::figures(&results, bold) + &terminal::conditions(&results, bold)
    } else {
        terminal::summary(&results, bold)
    };
    for file in written {
        let _ = writeln!(text, "{}", file.display());
    }
    text.push_str(&remembered);
    say(&text)
}

/// Carries the plan out at the beginning of each period, until it is interrupted.
fn repeat(
    args: &EvalArgs,
    serve: &[OsString],
    interrupted: &AtomicBool,
    every: Duration,
) -> Result<(), CommandError> {
    let (mut done, mut next) = (0, Instant::now());
    let ended = |done: u32| {
        CommandError::Interrupted(format!(
            "ended after {done} times; their results are in '{}'",
            args.out.display()
        ))
    };
    loop {
        // RFC 3339 with nothing that a file system or a shell takes amiss.
        let out = args.out.join(environment::now().replace(':', "-"));
        let one = EvalArgs { runs: args.runs, out: out.clone(), json: true, ..args.clone() };
        match measure(&one, serve, interrupted, false).and_then(|results| write(&out, &results)) {
            Ok(_) => {
                done += 1;
                say(&format!("{}\n", out.display()))?;
            }
            Err(CommandError::Error(text)) if done > 0 => remark(&text.replace('\n', " ")),
            Err(CommandError::Interrupted(_)) if done > 0 => return Err(ended(done)),
            // What cannot be done the first time is a mistake in what was asked for.
            Err(trouble) => return Err(trouble),
        }
        // A period that took too long costs those that it covers.
        while next <= Instant::now() {
            next += every;
        }
        while Instant::now() < next {
            if interrupted.load(Ordering::Relaxed) {
                return Err(ended(done));
            }
            let left = next.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}

/// Writes results and reports; gives the files' names.
fn write(directory: &Path, results: &Results) -> Result<Vec<PathBuf>, CommandError> {
    let (json, page) = (results.to_json(), html::page(results));
    let (table, text) = (csv::page(results), markdown::page(results));
    let files = [
        TextFile { name: "results.json", text: &json },
        TextFile { name: "results.csv", text: &table },
        TextFile { name: "report.html", text: &page },
        TextFile { name: "report.md", text: &text },
    ];
    files::write_all(directory, &files)?;
    Ok(files.iter().map(|file| directory.join(file.name)).collect())
}

/// Carries the plan out as often as asked, and puts the runs together. Nothing is written before
/// the last one is done.
fn measure(
    args: &EvalArgs,
    serve: &[OsString],
    interrupted: &AtomicBool,
    bold: bool,
) -> Result<Results, CommandError> {
    let whole = Plan::load(&args.plan)?;
    tune::check(&whole, &args.plan)?;
    findings::check(&whole, &args.plan)?;
    let plan = args.only.iter().try_fold(whole, |plan, only| plan.only(only))?;
    if args.remember {
        remember::check(&plan, args.runs)?;
    }
    let peer = match &args.peer {
        Some(host) => {
            let key = Key::read(args.key.as_deref().unwrap_or(KEY_FILE.as_ref()))?;
            let cluster = peer::cluster(args.cluster.as_deref(), args.nic.as_deref())?;
            let host = match &cluster {
                Some(cluster) => host_of(host, cluster)?,
                None => host.clone(),
            };
            Some(RemoteEnd { host, nic: interface(args.nic.as_deref(), cluster)?, key })
        }
        None => None,
    };
    files::prepare(&args.out)?;
    tuning::restore();
    if peer.is_none() {
        // Whatever a killed run left behind.
        gigae_fabric::Fabric::preflight()?;
        gigae_fabric::Fabric::down_abandoned()?;
    }
    let (serve, with) =
        (serve.to_vec(), run::ProgramRuns { names: args.with.clone(), pairs: args.pairs });
    let mut config = Config { plan, peer, lab: None, serve, with, command: command(args) };
    let mut runs = Vec::new();
    for number in 1..=args.runs {
        let results = once(&config, interrupted, args.tui)?;
        if args.runs > 1 && !args.json && !args.csv {
            let steal = hundredths(results.runs.iter().map(|run| run.steal).sum());
            let head = format!("Run {number} of {}, steal {steal}", args.runs);
            say(&format!("{head}\n{}", terminal::figures(&results, bold)))?;
        }
        runs.push(results);
        // Another order, and on lossy links other losses.
        config.plan.seed = config.plan.seed.wrapping_add(1);
    }
    if args.runs > 1 {
        for (number, results) in (1..).zip(&runs) {
            write(&args.out.join(format!("run-{number}")), results)?;
        }
    }
    figures::over_runs(runs).ok_or_else(|| CommandError::Error("no run was asked for".into()))
}

fn once(config: &Config, interrupted: &AtomicBool, view: bool) -> Result<Results, CommandError> {
    let outcome = if view {
        let mut view = View::of_run(&config.command)?;
        run::run(config, interrupted, &mut view)
    } else {
        let mut bar = Bar::new();
        let outcome = run::run(config, interrupted, &mut bar);
        bar.clear();
        outcome
    };
    outcome.map_err(|error| match error {
        RunError::Interrupted => CommandError::Interrupted(error.to_string()),
        error => CommandError::Error(error.to_string()),
    })
}

/// The command line that repeats this run.
fn command(args: &EvalArgs) -> String {
    let mut text = format!("gigae eval --plan {}", shell_word(&args.plan));
    for only in &args.only {
        let _ = write!(text, " --only {}", shell_word(&only.to_string()));
    }
    if args.runs > 1 {
        let _ = write!(text, " --runs {}", args.runs);
    }
    if !args.with.is_empty() {
        let _ = write!(text, " --with {}", args.with.join(","));
        if args.pairs != PAIRS {
            let _ = write!(text, " --pairs {}", args.pairs);
        }
    }
    if let Some(peer) = &args.peer {
        let _ = write!(text, " --peer {peer}");
        if args.key.is_some() {
            text.push_str(" --key FILE");
        }
        for (option, value) in [
            ("nic", args.nic.clone()),
            ("cluster", args.cluster.as_ref().map(|file| file.display().to_string())),
        ] {
            if let Some(value) = value {
                let _ = write!(text, " --{option} {value}");
            }
        }
    }
    text
}

fn list() -> String {
    let mut text = String::from("plans ('gigae plans' says more)\n");
    for (name, _) in SHIPPED {
        if let Ok(plan) = Plan::load(name) {
            let _ = writeln!(text, "  {name:11}  {}", plan.about);
        }
    }
    text.push_str("transports\n");
    for transport in transport::TRANSPORTS {
        let _ = writeln!(text, "  {:11}  {}", transport.name, transport.about);
    }
    text
}
