//! `gigae eval` and `gigae serve`: arguments, exit codes, and what is said to a person.
//!
//! Exit codes: 0 done; 1 an error, said in one line on standard error; 2 wrong arguments; 130
//! interrupted (Ctrl-C), with nothing left behind.

use crate::control::{Key, PORT};
use crate::plan::{Plan, SHIPPED};
use crate::report::{html, markdown};
use crate::results::Results;
use crate::run::{self, Config, Peer, RunError};
use crate::serve::Presence;
use crate::site::{Site, allowed_cpus};
use crate::terminal::{self, Bar};
use crate::{figures, files, serve, transport};
use clap::Args;
use gigae::{Cluster, ClusterError};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Interrupted by SIGINT, as shells say it.
pub const INTERRUPTED: u8 = 130;

/// More would take days.
const MOST_RUNS: i64 = 100;

/// What the exit codes are, for `--help`.
pub const EXIT_CODES: &str = "Exit codes: 0 done; 1 error, in one line on standard error; 2 wrong arguments; 130 interrupted.";

/// Measure what a network really gives.
///
/// Without --peer this lays a virtual network of two nodes, measures on it and removes it again;
/// that needs root. With --peer it measures the way to a machine on which `gigae serve` runs.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct EvalArgs {
    /// Name of a shipped plan, or a TOML file
    #[arg(long, default_value = "quick", value_name = "NAME|FILE")]
    pub plan: String,
    /// List the shipped plans and the transports, and end
    #[arg(long)]
    pub list: bool,
    /// Measure the way to this machine, on which 'gigae serve' runs: an address, a host name, or
    /// with a cluster file the name of a node
    #[arg(long, value_name = "HOST[:PORT]", requires = "key")]
    pub peer: Option<String>,
    /// This machine's interface towards the peer, or several that GigaE uses as one, with commas
    /// between them [default: the cluster file's]
    #[arg(long, value_name = "IFACE[,IFACE...]", requires = "peer")]
    pub nic: Option<String>,
    /// Cluster file [default without --nic: $GIGAE_CLUSTER, else /etc/gigae/cluster.toml]
    #[arg(long, value_name = "FILE", requires = "peer")]
    pub cluster: Option<PathBuf>,
    /// File with the key that both machines share
    #[arg(long, value_name = "FILE", requires = "peer")]
    pub key: Option<PathBuf>,
    /// Carry the plan out so many times, and take the medians of its figures over all of them; each
    /// run's own results go to DIR/run-1 and so on
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_RUNS))]
    pub runs: u32,
    /// Directory for results.json, report.html and report.md
    #[arg(long, default_value = "results", value_name = "DIR")]
    pub out: PathBuf,
    /// Print results.json on standard output instead of tables
    #[arg(long)]
    pub json: bool,
    /// Measure nothing: write the reports of this results.json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["peer", "list"])]
    pub render: Option<PathBuf>,
}

/// Answer the measurements of another machine.
///
/// Listens for 'gigae eval --peer' and answers on the given interface. Needs a key file that both
/// machines share, for example from: head -c 32 /dev/urandom | base64
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct ServeArgs {
    /// The interface that carries the measured traffic, or several that GigaE uses as one, with commas
    /// between them [default: the cluster file's]
    #[arg(long, value_name = "IFACE[,IFACE...]")]
    pub nic: Option<String>,
    /// Cluster file [default without --nic: $GIGAE_CLUSTER, else /etc/gigae/cluster.toml]
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// File with the key that both machines share
    #[arg(long, value_name = "FILE", required_unless_present = "fabric_child")]
    pub key: Option<PathBuf>,
    /// Address and port for the control connection [default: the interface's address, port 49988]
    #[arg(long, value_name = "ADDR[:PORT]")]
    pub listen: Option<String>,
    /// Started by 'gigae eval' on its own virtual network: the key comes on standard input
    #[arg(long, hide = true, conflicts_with = "key")]
    pub fabric_child: bool,
    /// CPU for the measuring thread [default: the last one]
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
}

/// Runs `gigae eval`. `interrupted` is set by the caller's signal handler.
pub fn eval(args: &EvalArgs, interrupted: &AtomicBool) -> ExitCode {
    // This very program answers on the virtual network, as `gigae serve`.
    finish(try_eval(args, &["/proc/self/exe".into(), "serve".into()], interrupted))
}

/// Runs `gigae serve`. `interrupted` is set by the caller's signal handler.
pub fn serve(args: &ServeArgs, interrupted: &AtomicBool) -> ExitCode {
    finish(try_serve(args, interrupted).map_err(Trouble::Error))
}

pub(crate) enum Trouble {
    Interrupted(String),
    Error(String),
}

impl<E: std::error::Error> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Error(error.to_string())
    }
}

pub(crate) fn finish(outcome: Result<(), Trouble>) -> ExitCode {
    let (text, code) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Trouble::Interrupted(text)) => (text, ExitCode::from(INTERRUPTED)),
        Err(Trouble::Error(text)) => (text, ExitCode::FAILURE),
    };
    // One line, whatever a cause may have said.
    remark(&text.replace('\n', " "));
    code
}

/// Writes a line to standard error. Unlike `eprintln`, it does not panic when nobody reads it: a
/// server must not end because its terminal did.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(std::io::stderr(), "gigae: {text}");
}

fn try_eval(args: &EvalArgs, serve: &[OsString], interrupted: &AtomicBool) -> Result<(), Trouble> {
    if args.list {
        return say(&list());
    }
    let bold = std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let results = match &args.render {
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|error| {
                Trouble::Error(format!(
                    "cannot read '{}': {error}; name a results.json",
                    file.display()
                ))
            })?;
            Results::parse(&text).map_err(|error| {
                Trouble::Error(format!("'{}' is no results.json: {error}", file.display()))
            })?
        }
        None => measure(args, serve, interrupted, bold)?,
    };
    let written = write(&args.out, &results)?;
    if args.json {
        return say(&results.to_json());
    }
    let mut text = if results.runs.len() > 1 {
        terminal::figures(&results, bold) + &terminal::conditions(&results, bold)
    } else {
        terminal::summary(&results, bold)
    };
    for file in written {
        let _ = writeln!(text, "{}", file.display());
    }
    say(&text)
}

/// Writes results and reports; gives the files' names.
fn write(directory: &Path, results: &Results) -> Result<Vec<PathBuf>, Trouble> {
    let (json, page) = (results.to_json(), html::page(results));
    let text = markdown::page(results);
    let files = [("results.json", &json[..]), ("report.html", &page), ("report.md", &text)];
    files::write_all(directory, &files)?;
    Ok(files.iter().map(|(name, _)| directory.join(name)).collect())
}

/// Carries the plan out as often as asked, and puts the runs together. Nothing is written before
/// the last one is done.
fn measure(
    args: &EvalArgs,
    serve: &[OsString],
    interrupted: &AtomicBool,
    bold: bool,
) -> Result<Results, Trouble> {
    let plan = Plan::load(&args.plan)?;
    let peer = match (&args.peer, &args.key) {
        (Some(host), Some(key)) => {
            let cluster = cluster(args.cluster.as_deref(), args.nic.as_deref())?;
            let host = match &cluster {
                Some(cluster) => host_of(host, cluster)?,
                None => host.clone(),
            };
            Some(Peer { host, nic: interface(args.nic.as_deref(), cluster)?, key: Key::read(key)? })
        }
        _ => None,
    };
    files::prepare(&args.out)?;
    if peer.is_none() {
        // Whatever a killed run left behind.
        gigae_fabric::Fabric::preflight()?;
        gigae_fabric::Fabric::down_abandoned()?;
    }
    let mut config = Config { plan, peer, serve: serve.to_vec(), command: command(args) };
    let mut runs = Vec::new();
    for number in 1..=args.runs {
        let results = once(&config, interrupted)?;
        if args.runs > 1 && !args.json {
            let head = format!("Run {number} of {}, steal {:.2} %", args.runs, steal(&results));
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
    figures::over_runs(runs).ok_or_else(|| Trouble::Error("no run was asked for".into()))
}

/// The cluster file, where one is named or needed for the interface.
pub(crate) fn cluster(
    file: Option<&Path>,
    nic: Option<&str>,
) -> Result<Option<Cluster>, ClusterError> {
    match (file, nic) {
        (Some(file), _) => Cluster::read(file).map(Some),
        (None, None) => Cluster::load().map(Some),
        (None, Some(_)) => Ok(None),
    }
}

/// The interfaces that were named, else the cluster file's, which is there then.
pub(crate) fn interface(
    nic: Option<&str>,
    cluster: Option<Cluster>,
) -> Result<String, ClusterError> {
    match (nic, cluster) {
        (None, Some(cluster)) => Ok(cluster.interfaces()?.join(",")),
        (nic, _) => Ok(nic.unwrap_or_default().to_owned()),
    }
}

/// An address stays as it is; anything else is a node's name, with a port behind it or not.
pub(crate) fn host_of(peer: &str, cluster: &Cluster) -> Result<String, ClusterError> {
    if peer.parse::<IpAddr>().is_ok() || peer.parse::<SocketAddr>().is_ok() {
        return Ok(peer.to_owned());
    }
    let (name, port) = match peer.rsplit_once(':').map(|(name, port)| (name, port.parse())) {
        Some((name, Ok(port))) => (name, Some(port)),
        _ => (peer, None),
    };
    let ip = cluster.ip(name)?;
    Ok(port.map_or_else(|| ip.to_string(), |port| SocketAddr::new(ip, port).to_string()))
}

/// Percent.
fn steal(results: &Results) -> f64 {
    results.runs.iter().map(|run| run.steal * 100.0).sum()
}

fn once(config: &Config, interrupted: &AtomicBool) -> Result<Results, Trouble> {
    let mut bar = Bar::new();
    let outcome = run::run(config, interrupted, &mut bar);
    bar.clear();
    outcome.map_err(|error| match error {
        RunError::Interrupted => Trouble::Interrupted(error.to_string()),
        error => Trouble::Error(error.to_string()),
    })
}

/// The command line that repeats this run.
fn command(args: &EvalArgs) -> String {
    let mut text = format!("gigae eval --plan {}", args.plan);
    if args.runs > 1 {
        let _ = write!(text, " --runs {}", args.runs);
    }
    if let Some(peer) = &args.peer {
        let _ = write!(text, " --peer {peer} --key FILE");
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
    let mut text = String::from("plans\n");
    for (name, _) in SHIPPED {
        if let Ok(plan) = Plan::load(name) {
            let _ = writeln!(text, "  {name:10}  {}", plan.about);
        }
    }
    text.push_str("transports\n");
    for transport in transport::all() {
        let _ = writeln!(text, "  {:10}  {}", transport.name(), transport.about());
    }
    text
}

/// Writes to standard output; a reader that went away early is no error.
pub(crate) fn say(text: &str) -> Result<(), Trouble> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Trouble::Error(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

fn try_serve(args: &ServeArgs, interrupted: &AtomicBool) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let key = match &args.key {
        Some(file) => Key::read(file).map_err(|error| text(&error))?,
        None => {
            let mut line = String::new();
            std::io::stdin()
                .lock()
                .read_line(&mut line)
                .map_err(|error| format!("cannot read the key: {error}"))?;
            Key::from_hex(line.trim()).map_err(|error| text(&error))?
        }
    };
    let cluster = cluster(args.cluster.as_deref(), args.nic.as_deref());
    let cluster = cluster.map_err(|error| text(&error))?;
    let options = cluster.as_ref().and_then(|cluster| cluster.options().ok());
    let nic = interface(args.nic.as_deref(), cluster).map_err(|error| text(&error))?;
    let mut site = Site::find(&nic).map_err(|error| text(&error))?;
    let presence = match args.fabric_child {
        true => Presence::none(),
        false => Presence::new(options.unwrap_or_else(|| gigae::Options::trunk(site.interfaces()))),
    };
    site.cpu = args.cpu.or_else(|| allowed_cpus().last().copied());
    site.virtual_link = args.fabric_child;
    let listen = listen_address(args.listen.as_deref(), &site);
    let listener = TcpListener::bind(&listen).map_err(|error| {
        format!("cannot listen on {listen}: {error}; choose another address with --listen")
    })?;
    let local = listener.local_addr().map_err(|error| text(&error))?;
    if args.fabric_child {
        writeln!(std::io::stdout(), "{}", local.port())
            .map_err(|error| format!("nobody waits for the port: {error}"))?;
    } else {
        remark(&format!("serving on {local}, measuring on {}; end with Ctrl-C", site.names()));
    }
    let quiet = args.fabric_child;
    let mut tell = |event: &str| {
        if !quiet {
            remark(event);
        }
    };
    serve::serve(&listener, &key, (&site, presence), interrupted, &mut tell)
        .map_err(|error| format!("cannot accept connections: {error}; start again"))
}

/// An address with or without a port; without any, the interface's own.
fn listen_address(listen: Option<&str>, site: &Site) -> String {
    let host = |ip: std::net::IpAddr| std::net::SocketAddr::new(ip, PORT).to_string();
    match listen {
        None => host(site.ip),
        Some(text) => text.parse().map_or_else(|_| text.to_owned(), host),
    }
}
