//! `gigae eval` and `gigae serve`: arguments, exit codes, and what is said to a person.
//!
//! Exit codes: 0 done; 1 an error, said in one line on standard error; 2 wrong arguments; 130
//! interrupted (Ctrl-C), with nothing left behind.

use crate::control::{KEY_FILE, Key, Limits, PORT};
use crate::door::Door;
use crate::plan::{Only, Plan, SHIPPED, shell_word};
use crate::programs::pairs::PAIRS;
use crate::report::{csv, html, markdown};
use crate::results::Results;
use crate::run::{self, Config, Peer, RunError};
use crate::serve::{File, Network, Presence, Rules, Service, parse_rate};
use crate::site::{Site, allowed_cpus};
use crate::soak::duration;
use crate::terminal::{self, Bar};
use crate::tui::{self, View};
use crate::tune;
use crate::{environment, figures, files, programs, serve, transport};
use clap::Args;
use clap::builder::PossibleValuesParser;
use gigae::{Cluster, ClusterError};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
    /// Only a part of the plan: link, experiment, transport (as 'tcp' or 'tcp/nodelay'), wait, size, rate, senders, cpus,
    /// bulk, each as the plan says it, like 'link=cable,transport=tcp,transport=gigae'. Values of one key are
    /// alternatives, all keys must fit; said again, it narrows further. A part has none of the plan's bounds
    #[arg(long, value_name = "KEY=VALUE,...", conflicts_with_all = ["render", "list"])]
    pub only: Vec<Only>,
    /// List the shipped plans and the transports, and end
    #[arg(long)]
    pub list: bool,
    /// Measure the way to this machine, on which 'gigae serve' runs: an address, a host name, or
    /// with a cluster file the name of a node
    #[arg(long, value_name = "HOST[:PORT]")]
    pub peer: Option<String>,
    /// This machine's interface towards the peer, or several that GigaE uses as one, with commas
    /// between them [default: the cluster file's]
    #[arg(long, value_name = "IFACE[,IFACE...]", requires = "peer")]
    pub nic: Option<String>,
    /// Cluster file [default without --nic: $GIGAE_CLUSTER, else /etc/gigae/cluster.toml]
    #[arg(long, value_name = "FILE", requires = "peer")]
    pub cluster: Option<PathBuf>,
    /// File with the key that both machines share, from 'gigae key' [default: /etc/gigae/key]
    #[arg(long, value_name = "FILE", requires = "peer")]
    pub key: Option<PathBuf>,
    /// Carry the plan out so many times, and take the medians of its figures over all of them; each
    /// run's own results go to DIR/run-1 and so on
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_RUNS))]
    pub runs: u32,
    /// Do it again every so often, like 10m or 1d, until interrupted; each time's results go to a
    /// directory of its own in DIR, named by its time (UTC). A time that fails is said and passed over
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with_all = ["json", "csv", "render", "list"])]
    pub repeat: Option<Duration>,
    /// Run these other programs on the same link, in turns with ours, and set their figures beside ours:
    /// those that are installed at both ends, or with commas between them
    #[arg(long, value_name = "all|PROGRAM,...", value_delimiter = ',', value_parser = PossibleValuesParser::new(programs::names()), conflicts_with_all = ["render", "list"])]
    pub with: Vec<String>,
    /// With --with, so many pairs for each comparison
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
    /// Show a live view on the terminal meanwhile: rate, round trip, CPU, what is sent again, figures so far. Keys: q
    /// ends as Ctrl-C does, ? lists the others. It is on standard error, so --json and --csv may go to a file
    #[arg(long, conflicts_with_all = ["render", "list"])]
    pub tui: bool,
    /// Measure nothing: write the reports of this results.json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["peer", "list"])]
    pub render: Option<PathBuf>,
}

/// Answer the measurements of other machines, one after the other.
///
/// Listens for 'gigae eval --peer' and 'gigae soak --peer' and answers on the given interface. Both
/// machines need the same key, from 'gigae key'. Every option but --config can be said in a file as well
/// (docs/serve.md); what is said here comes first.
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
    /// File with the key that both machines share, from 'gigae key' [default: /etc/gigae/key]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Address and port for the control connection [default: the interface's address, port 49988]
    #[arg(long, value_name = "ADDR[:PORT]")]
    pub listen: Option<String>,
    /// Have measured UDP and TCP come by the port of the control connection, too, for a firewall with
    /// one open port
    #[arg(long)]
    pub one_port: bool,
    /// Serve only clients from this network, like 192.0.2.0/24; may be repeated
    #[arg(long, value_name = "NETWORK")]
    pub allow: Vec<Network>,
    /// Let clients have this machine's iperf3, sockperf, NetPIPE, qperf and netperf run ('gigae eval --with'),
    /// whose traffic anybody can join while they wait
    #[arg(long)]
    pub allow_programs: bool,
    /// Let clients change settings of the interface and the kernel while they are served, and put them back
    /// when they leave: coalescing, rings, offloads, MTU and more ('gigae tuning knobs'). Needs root
    #[arg(long)]
    pub allow_tuning: bool,
    /// Longest time of a client: 90s, 10m, 12h, 30d
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub max_duration: Option<Duration>,
    /// Highest rate of a client in each direction, like 100mbit
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub max_rate: Option<f64>,
    /// Tell figures in Prometheus' format at http://ADDR:PORT/metrics, to whoever asks
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<String>,
    /// File that says the same [default: /etc/gigae/serve.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Started by 'gigae eval' on its own virtual network: the key comes on standard input
    #[arg(long, hide = true, conflicts_with_all = ["key", "config"])]
    pub fabric_child: bool,
    /// CPU for the measuring thread [default: the last one]
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
}

/// Make a key for 'gigae serve' and its clients.
///
/// Writes a new random key into a file that only its owner can read. Copy it to the other machines, for
/// example with scp, and keep it secret: who has it may load the network and read the machines'
/// inventories.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct KeyArgs {
    /// Where to; a file that exists is left as it is
    #[arg(value_name = "FILE", default_value = KEY_FILE)]
    pub file: PathBuf,
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

/// Runs `gigae key`.
pub fn key(args: &KeyArgs) -> ExitCode {
    finish(Key::create(&args.file).map_err(Trouble::from).and_then(|()| {
        let file = args.file.display();
        say(&format!(
            "a new key is in {file}; copy it to the other machines: scp -p {file} HOST:{KEY_FILE}\n"
        ))
    }))
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
    let line = format!("gigae: {text}");
    // A live view says it when it is gone.
    if !tui::keep(&line) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

fn try_eval(args: &EvalArgs, serve: &[OsString], interrupted: &AtomicBool) -> Result<(), Trouble> {
    if args.list {
        return say(&list());
    }
    if args.tui {
        tui::ready()?;
    }
    let bold = terminal::emphasised();
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
        None => match args.repeat {
            Some(every) => return repeat(args, serve, interrupted, every),
            None => measure(args, serve, interrupted, bold)?,
        },
    };
    let written = write(&args.out, &results)?;
    if args.json {
        return say(&results.to_json());
    }
    if args.csv {
        return say(&csv::page(&results));
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

/// Carries the plan out at the beginning of each period, until it is interrupted.
fn repeat(
    args: &EvalArgs,
    serve: &[OsString],
    interrupted: &AtomicBool,
    every: Duration,
) -> Result<(), Trouble> {
    let (mut done, mut next) = (0, Instant::now());
    let ended = |done: u32| {
        Trouble::Interrupted(format!(
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
            Err(Trouble::Error(text)) if done > 0 => remark(&text.replace('\n', " ")),
            Err(Trouble::Interrupted(_)) if done > 0 => return Err(ended(done)),
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
fn write(directory: &Path, results: &Results) -> Result<Vec<PathBuf>, Trouble> {
    let (json, page) = (results.to_json(), html::page(results));
    let (table, text) = (csv::page(results), markdown::page(results));
    let files = [
        ("results.json", &json[..]),
        ("results.csv", &table),
        ("report.html", &page),
        ("report.md", &text),
    ];
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
    let whole = Plan::load(&args.plan)?;
    let plan = args.only.iter().try_fold(whole, |plan, only| plan.only(only))?;
    let peer = match &args.peer {
        Some(host) => {
            let key = Key::read(args.key.as_deref().unwrap_or(KEY_FILE.as_ref()))?;
            let cluster = cluster(args.cluster.as_deref(), args.nic.as_deref())?;
            let host = match &cluster {
                Some(cluster) => host_of(host, cluster)?,
                None => host.clone(),
            };
            Some(Peer { host, nic: interface(args.nic.as_deref(), cluster)?, key })
        }
        None => None,
    };
    files::prepare(&args.out)?;
    tune::cli::restore();
    if peer.is_none() {
        // Whatever a killed run left behind.
        gigae_fabric::Fabric::preflight()?;
        gigae_fabric::Fabric::down_abandoned()?;
    }
    let (serve, with) = (serve.to_vec(), run::With { names: args.with.clone(), pairs: args.pairs });
    let mut config = Config { plan, peer, serve, with, command: command(args) };
    let mut runs = Vec::new();
    for number in 1..=args.runs {
        let results = once(&config, interrupted, args.tui)?;
        if args.runs > 1 && !args.json && !args.csv {
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

fn once(config: &Config, interrupted: &AtomicBool, view: bool) -> Result<Results, Trouble> {
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
        RunError::Interrupted => Trouble::Interrupted(error.to_string()),
        error => Trouble::Error(error.to_string()),
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
    let file = match args.fabric_child {
        true => File::default(),
        false => File::read(args.config.as_deref()).map_err(|error| text(&error))?,
    };
    let key = match args.fabric_child {
        true => key_of_parent()?,
        false => {
            let named = args.key.as_deref().or(file.key.as_deref());
            Key::read(named.unwrap_or(KEY_FILE.as_ref())).map_err(|error| text(&error))?
        }
    };
    if !args.fabric_child {
        tune::cli::restore();
    }
    let nic = args.nic.as_deref().or(file.nic.as_deref());
    let cluster = cluster(args.cluster.as_deref(), nic).map_err(|error| text(&error))?;
    let options = cluster.as_ref().and_then(|cluster| cluster.options().ok());
    let nic = interface(nic, cluster).map_err(|error| text(&error))?;
    let mut site = Site::find(&nic).map_err(|error| text(&error))?;
    site.cpu = args.cpu.or(file.cpu).or_else(|| allowed_cpus().last().copied());
    site.virtual_link = args.fabric_child;
    let listen = listen_address(args.listen.as_deref().or(file.listen.as_deref()), &site);
    let listener = TcpListener::bind(&listen).map_err(|error| {
        format!("cannot listen on {listen}: {error}; choose another address with --listen")
    })?;
    let local = listener.local_addr().map_err(|error| text(&error))?;
    if args.one_port || file.one_port {
        if !local.ip().is_unspecified() && local.ip() != site.ip {
            return Err(format!(
                "with --one-port, measured traffic for {} must reach {local}; leave out --listen, or listen on that address or on all",
                site.ip
            ));
        }
        site.door = Some(Arc::new(Door::new(local.port())));
    }
    let metrics = args.metrics.as_deref().or(file.metrics.as_deref());
    let metrics = metrics.map(TcpListener::bind).transpose().map_err(|error| {
        format!("cannot listen for --metrics: {error}; name an address and a free port, like 127.0.0.1:9488")
    })?;
    let rules = rules(args, &file);
    // After the last thing that takes more rights, and before the first endpoint, which has a thread.
    let presence = if args.fabric_child {
        writeln!(std::io::stdout(), "{}", local.port())
            .map_err(|error| format!("nobody waits for the port: {error}"))?;
        Presence::none()
    } else {
        let confined = serve::confine(&rules, site.door.is_some())
            .map_err(|error| format!("cannot give up rights: {error}"))?;
        // What is said to serve can be found.
        let options = options.unwrap_or_else(|| gigae::Options::trunk(site.interfaces()));
        let presence = Presence::new(options);
        remark(&format!("serving on {local}, measuring on {}; end with Ctrl-C", site.names()));
        remark(&format!("confined to {confined}"));
        presence
    };
    let quiet = args.fabric_child;
    let mut tell = |event: &str| {
        if !quiet {
            remark(event);
        }
    };
    let metrics = metrics.as_ref();
    let (listener, key, site) = (&listener, &key, &site);
    serve::serve(Service { listener, key, site, presence, rules, metrics }, interrupted, &mut tell)
        .map_err(|error| format!("cannot accept connections: {error}; start again"))
}

/// What the options say of clients, and what they do not say, the file.
fn rules(args: &ServeArgs, file: &File) -> Rules {
    let seconds = args.max_duration.or(file.max_duration).map(|time| time.as_secs_f64());
    let limits = Limits { seconds, rate: args.max_rate.or(file.max_rate) };
    let allow = if args.allow.is_empty() { &file.allow } else { &args.allow };
    // A virtual network is the caller's own.
    let programs = args.fabric_child || args.allow_programs || file.allow_programs;
    let tuning = args.fabric_child || args.allow_tuning || file.allow_tuning;
    Rules { limits, allow: allow.clone(), programs, tuning, ..Rules::default() }
}

/// The key, from standard input.
fn key_of_parent() -> Result<Key, String> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| format!("cannot read the key: {error}"))?;
    Key::from_hex(line.trim()).map_err(|error| error.to_string())
}

/// An address with or without a port; without any, the interface's own.
fn listen_address(listen: Option<&str>, site: &Site) -> String {
    let host = |ip: IpAddr| SocketAddr::new(ip, PORT).to_string();
    let bare = |text: &str| text.trim_start_matches('[').trim_end_matches(']').parse();
    match listen {
        None => host(site.ip),
        Some(text) => bare(text).map_or_else(|_| text.to_owned(), host),
    }
}
