//! `gigae soak`: arguments, exit codes, and what is said to a person.

use crate::outcome::{CommandError, INTERRUPTED, finish, say};
use crate::peer::{cluster, host_of, interface};
use crate::terminal::Bar;
use crate::tui;
use crate::tui::View;
use clap::Args;
use gigae_eval_measure::environment;
use gigae_eval_model::duration;
use gigae_eval_model::number::{bytes, megabytes};
use gigae_eval_model::service::{self, ServiceSpec};
use gigae_eval_model::traffic::{STREAMS, Traffic};
use gigae_eval_page::files;
use gigae_eval_run::RunProgress;
use gigae_eval_session::remark::remark;
use gigae_eval_soak::report::verified;
use gigae_eval_soak::rules::SETTLED;
use gigae_eval_soak::run;
use gigae_eval_soak::saved::SavedSoak;
use gigae_eval_soak::services;
use gigae_eval_soak::services::state::{ServiceSettings, ServiceSoak};
use gigae_eval_soak::state::{FILE, Settings, SoakState, SoakVerdict};
use gigae_eval_soak::watch::{ProgressSink, unix};
use gigae_nic as nic;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Rate of a network whose rate is unknown, in bytes per second: Gigabit Ethernet.
const GIGABIT: f64 = 125e6;

/// Without a terminal, a line says how far it is at most so often.
const SAY: Duration = Duration::from_secs(60);

/// Exit codes, for `--help`.
const EXIT_CODES: &str = "Exit codes: 0 passed; 1 deviated, or an error in one line on standard error; 2 wrong arguments; 130 interrupted.";

/// Send mixed traffic for a long time, verify every byte, report what deviates.
///
/// This end and each client exchange gigae messages of all kinds and TCP streams, with pauses and
/// bursts. Without --peer, this creates a virtual network and removes it at the end. With --peer,
/// the clients are machines on which `gigae serve` runs. State and report are written every minute.
/// --resume continues a soak that was interrupted or killed. With --services, real file servers run
/// in one node and clients in the others, and every copy is compared by a hash.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct SoakArgs {
    /// Clients on the virtual network
    #[arg(long, default_value_t = 7, value_name = "N", conflicts_with = "peer", value_parser = clap::value_parser!(u8).range(1..=15))]
    pub clients: u8,
    /// Soak file services in place of messages, on the virtual network, as root: a comma-separated
    /// list of ftp, smb, nfs, lftp, rsync, rsync-ssh, scp, gigae
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with_all = ["peer", "stall", "tui"])]
    pub services: Vec<String>,
    /// Duration: 90s, 10m, 12h, 30d
    #[arg(long, default_value = "10m", value_name = "TIME", value_parser = duration::parse)]
    pub duration: Duration,
    /// Rate of this end in each direction, for all clients and all kinds of traffic together, or of
    /// all file services together: a percentage of the link's rate, or a rate such as 200mbit
    #[arg(long, default_value = "10%", value_name = "PART|RATE")]
    pub rate: String,
    /// Seed for sizes, pauses and bursts
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// A stream that makes no progress for this time is a deviation
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration::parse)]
    pub stall: Duration,
    /// A machine on which 'gigae serve' runs: an address, a host name or, with a cluster file, the
    /// name of a node. Repeat the option for more machines
    #[arg(long, value_name = "HOST[:PORT]")]
    pub peer: Vec<String>,
    /// This machine's interface towards the clients, or a comma-separated list of interfaces that
    /// gigae uses as one [default: the cluster file's]
    #[arg(long, value_name = "IFACE[,IFACE...]", requires = "peer")]
    pub nic: Option<String>,
    /// Cluster file [default without --nic: $GIGAE_CLUSTER, else /etc/gigae/cluster.toml]
    #[arg(long, value_name = "FILE", requires = "peer")]
    pub cluster: Option<PathBuf>,
    /// File with the key that all machines share, from 'gigae key' [default: /etc/gigae/key]
    #[arg(long, value_name = "FILE", requires = "peer")]
    pub key: Option<PathBuf>,
    /// Directory for soak.json, report.html and report.md
    #[arg(long, default_value = "soak", value_name = "DIR")]
    pub out: PathBuf,
    /// Continue the soak of this directory, which was interrupted or killed, for the remaining time
    #[arg(long, value_name = "DIR", conflicts_with_all = ["clients", "duration", "rate", "seed", "stall", "peer", "nic", "cluster", "key", "out", "services"])]
    pub resume: Option<PathBuf>,
    /// Show a live view on standard error: rates, retransmissions, CPUs, what each end has
    /// verified. Key q stops, ? lists the keys
    #[arg(long)]
    pub tui: bool,
}

/// Runs `gigae soak`. `interrupted` is set by the caller's signal handler.
pub fn soak(args: &SoakArgs, interrupted: &AtomicBool) -> ExitCode {
    match try_soak(args, interrupted) {
        Ok(SoakVerdict::Passed) => ExitCode::SUCCESS,
        Ok(SoakVerdict::Interrupted) => ExitCode::from(INTERRUPTED),
        Ok(_) => ExitCode::FAILURE,
        Err(trouble) => finish(Err(trouble)),
    }
}

impl SoakArgs {
    /// Whether the clients are on a virtual network.
    pub fn sets_up_fabric(&self) -> bool {
        match &self.resume {
            Some(place) => SavedSoak::read(place).is_ok_and(|saved| saved.is_on_fabric()),
            None => self.peer.is_empty(),
        }
    }
}

fn try_soak(args: &SoakArgs, interrupted: &AtomicBool) -> Result<SoakVerdict, CommandError> {
    let (saved, out) = match &args.resume {
        Some(place) => (resumed(place)?, place),
        None => (begun(args)?, &args.out),
    };
    match saved {
        SavedSoak::Messages(state) => soak_messages(*state, out, args.tui, interrupted),
        SavedSoak::Services(_) if args.tui => Err(CommandError::Error(
            "a soak of file services has no live view; go on without --tui".into(),
        )),
        SavedSoak::Services(state) => soak_services(*state, out, interrupted),
    }
}

fn soak_messages(
    state: SoakState,
    out: &Path,
    with_view: bool,
    interrupted: &AtomicBool,
) -> Result<SoakVerdict, CommandError> {
    if with_view {
        tui::ready()?;
    }
    files::prepare(out)?;
    if state.settings.peers.is_empty() {
        clean()?;
    }
    let serve = ["/proc/self/exe".into(), "serve".into()];
    let outcome = if with_view {
        let mut view = View::of_soak(&state.command)?;
        run::run(state, &serve, out, interrupted, &mut view)
    } else {
        let mut terminal = Terminal::new();
        let outcome = run::run(state, &serve, out, interrupted, &mut terminal);
        terminal.bar.clear();
        outcome
    };
    let state = outcome?;
    say(&summary(&state, out))?;
    Ok(state.verdict)
}

/// Removes what killed runs have left of virtual networks.
fn clean() -> Result<(), CommandError> {
    gigae_fabric::Fabric::preflight()?;
    gigae_fabric::Fabric::down_abandoned()?;
    Ok(())
}

/// An error if a soak is there that can go on.
fn is_free(out: &Path) -> Result<(), CommandError> {
    if SavedSoak::read(&out.join(FILE)).is_ok_and(|saved| saved.can_go_on()) {
        return Err(CommandError::Error(format!(
            "'{}' has a soak that is not over; go on with --resume or choose another --out",
            out.display()
        )));
    }
    Ok(())
}

fn soak_services(
    state: ServiceSoak,
    out: &Path,
    interrupted: &AtomicBool,
) -> Result<SoakVerdict, CommandError> {
    files::prepare(out)?;
    clean()?;
    let mut terminal = Terminal::new();
    let outcome = services::run(state, out, interrupted, &mut |state| {
        let all = state.settings.duration;
        terminal.show((state.elapsed, all), &services::report::say(state));
    });
    terminal.bar.clear();
    let state = outcome?;
    let mut text = services::report::say(&state) + "\n";
    for deviation in state.deviations.iter().take(5) {
        let _ = writeln!(text, "  {} {}: {}", deviation.utc, deviation.end, deviation.what);
    }
    say(&(text + &named(out)))?;
    Ok(state.verdict)
}

/// The files that were written.
fn named(out: &Path) -> String {
    [FILE, "report.html", "report.md"]
        .map(|name| format!("{}\n", out.join(name).display()))
        .concat()
}

fn resumed(place: &Path) -> Result<SavedSoak, CommandError> {
    let mut saved = SavedSoak::read(place).map_err(CommandError::Error)?;
    let (now, now_unix) = (environment::now(), unix() as u64);
    match &mut saved {
        SavedSoak::Messages(state) => state.resume(&now, now_unix),
        SavedSoak::Services(state) => state.resume(&now, now_unix),
    }
    .map_err(CommandError::Error)?;
    Ok(saved)
}

fn begun(args: &SoakArgs) -> Result<SavedSoak, CommandError> {
    if args.services.is_empty() {
        return of_messages(args).map(Box::new).map(SavedSoak::Messages);
    }
    of_services(args).map(Box::new).map(SavedSoak::Services)
}

fn of_services(args: &SoakArgs) -> Result<ServiceSoak, CommandError> {
    let mut chosen: Vec<&ServiceSpec> = Vec::new();
    for name in &args.services {
        let Some(spec) = service::by_name(name) else {
            let known = service::names();
            return Err(CommandError::Error(format!(
                "there is no file service '{name}'; choose some of {known}"
            )));
        };
        // They would use the same port.
        let server = |spec: &ServiceSpec| spec.programs.first().map(|(program, _)| *program);
        if let Some(other) = chosen.iter().find(|other| server(other) == server(spec)) {
            let other = other.name;
            return Err(CommandError::Error(format!(
                "'{other}' and '{name}' have the same server; choose one of them"
            )));
        }
        chosen.push(spec);
    }
    is_free(&args.out)?;
    let settings = ServiceSettings {
        services: args.services.clone(),
        clients: args.clients,
        duration: args.duration.as_secs_f64(),
        rate: rate(&args.rate, GIGABIT).map_err(CommandError::Error)?,
        seed: args.seed,
    };
    Ok(ServiceSoak::new(settings, command(args), &environment::now()))
}

fn of_messages(args: &SoakArgs) -> Result<SoakState, CommandError> {
    is_free(&args.out)?;
    let (mut peers, mut nic) = (Vec::new(), String::new());
    if !args.peer.is_empty() {
        let cluster = cluster(args.cluster.as_deref(), args.nic.as_deref())?;
        for peer in &args.peer {
            peers.push(match &cluster {
                Some(cluster) => host_of(peer, cluster)?,
                None => peer.clone(),
            });
        }
        nic = interface(args.nic.as_deref(), cluster)?;
    }
    let clients = match peers.len() {
        0 => args.clients,
        peers => u8::try_from(peers).unwrap_or(u8::MAX),
    };
    let settings = Settings {
        clients,
        rate: rate(&args.rate, link_rate(&nic)).map_err(CommandError::Error)?,
        peers,
        nic,
        // It may go on from another directory.
        key: args.key.as_ref().map(|key| key.canonicalize().unwrap_or_else(|_| key.clone())),
        duration: args.duration.as_secs_f64(),
        seed: args.seed,
        stall: args.stall.as_secs_f64(),
    };
    let (seed, rate) = (settings.seed, settings.rate / f64::from(clients));
    Traffic { seed, round: 0, rate, message: 1 }.check().map_err(CommandError::Error)?;
    Ok(SoakState::new(settings, command(args), &environment::now()))
}

/// Bytes per second of the interface, of several the first's; the virtual network is a Gigabit one.
fn link_rate(interfaces: &str) -> f64 {
    let first = interfaces.split(',').next().filter(|name| !name.is_empty());
    let nic = first.and_then(|name| nic::inventory(Some(name)).ok()?.pop());
    let mbit = nic.and_then(|nic| nic.speed_mbit);
    mbit.map_or(GIGABIT, |mbit| f64::from(mbit) * 1e6 / 8.0)
}

/// `10%` of a link's rate, or a rate like `200mbit`; in bytes per second.
fn rate(text: &str, link: f64) -> Result<f64, String> {
    let refuse = || format!("'{text}' is not a rate; write for example 10% or 200mbit");
    match text.strip_suffix('%') {
        Some(part) => {
            let part: f64 = part.trim().parse().map_err(|_| refuse())?;
            if part > 0.0 && part <= 100.0 { Ok(link * part / 100.0) } else { Err(refuse()) }
        }
        None => text.parse().map(gigae_fabric::Rate::bytes).map_err(|_| refuse()),
    }
}

/// The command line that repeats this soak.
fn command(args: &SoakArgs) -> String {
    let mut text = String::from("gigae soak");
    if !args.services.is_empty() {
        let _ = write!(text, " --services {}", args.services.join(","));
    }
    if args.peer.is_empty() {
        let _ = write!(text, " --clients {}", args.clients);
    }
    for peer in &args.peer {
        let _ = write!(text, " --peer {peer}");
    }
    if !args.peer.is_empty() {
        if args.key.is_some() {
            text.push_str(" --key FILE");
        }
        args.nic.iter().for_each(|nic| text += &format!(" --nic {nic}"));
        args.cluster.iter().for_each(|file| text += &format!(" --cluster {}", file.display()));
    }
    let seconds = args.duration.as_secs_f64();
    let _ = write!(text, " --duration {}", duration::say(seconds).replace(' ', ""));
    if duration::parse(&duration::say(seconds)).ok() != Some(args.duration) {
        text.truncate(text.rfind(' ').unwrap_or(0));
        let _ = write!(text, " {}s", args.duration.as_secs());
    }
    let _ = write!(text, " --rate {} --seed {}", args.rate, args.seed);
    text
}

/// What a person sees while it runs.
struct Terminal {
    bar: Bar,
    is_terminal: bool,
    said: Option<Instant>,
}

impl Terminal {
    fn new() -> Self {
        Self { bar: Bar::new(), is_terminal: std::io::stderr().is_terminal(), said: None }
    }

    /// Shows how far it is, in seconds.
    fn show(&mut self, (done, total): (f64, f64), text: &str) {
        if self.is_terminal {
            return self.bar.step(done.min(total) as u64, total as u64, text);
        }
        if self.said.is_none_or(|said| said.elapsed() >= SAY) {
            self.said = Some(Instant::now());
            let left = duration::say((total - done).max(0.0));
            remark(&format!("{left} left, {text}"));
        }
    }
}

impl ProgressSink for Terminal {
    fn line(&mut self, text: &str) {
        self.bar.above(|| remark(text));
    }

    fn progress(&mut self, state: &SoakState) {
        self.show((state.elapsed, state.settings.duration), &now(state));
    }
}

/// How it is now, in a line.
fn now(state: &SoakState) -> String {
    let last = state.points.last().copied().unwrap_or_default();
    let per_second = |bytes: u64| megabytes(bytes as f64 / last.seconds.max(f64::MIN_POSITIVE));
    let deviations = match state.deviated() {
        0 => "no deviation".into(),
        more => format!("{more} deviations"),
    };
    format!(
        "gigae {} MB/s, TCP {} MB/s, {deviations}",
        per_second(last.gigae_bytes),
        per_second(last.tcp_bytes)
    )
}

fn summary(state: &SoakState, out: &Path) -> String {
    let mut text = state.say() + "\n";
    for stream in STREAMS {
        let all = verified(state, stream);
        let (name, count, bytes) = (stream.name(), all.count, bytes(all.bytes));
        let _ = writeln!(text, "  {name:16} {count:>12} verified, {bytes:>13}");
    }
    for deviation in state.deviations.iter().take(5) {
        let _ = writeln!(
            text,
            "  {} {}: {}: {}",
            deviation.utc,
            deviation.end,
            deviation.kind.name(),
            deviation.what
        );
    }
    if state.elapsed < 2.0 * SETTLED.as_secs_f64() {
        let _ = writeln!(text, "  too short to judge whether memory grows");
    }
    text + &named(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct SoakLine {
        #[command(flatten)]
        soak: SoakArgs,
    }

    #[test]
    fn rates_are_parts_of_the_link_or_absolute() {
        assert_eq!(rate("10%", GIGABIT), Ok(12.5e6));
        assert_eq!(rate("200mbit", GIGABIT), Ok(25e6));
        for wrong in ["0%", "101%", "fast", "-1%", ""] {
            assert!(rate(wrong, GIGABIT).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_repeats_the_soak() {
        for line in [
            "gigae soak --clients 7 --duration 10m --rate 10% --seed 1",
            "gigae soak --services ftp,nfs --clients 7 --duration 3h --rate 10% --seed 1",
            "gigae soak --clients 2 --duration 30d --rate 50mbit --seed 3",
            "gigae soak --clients 2 --duration 90061s --rate 50mbit --seed 3",
        ] {
            let words = line.split(' ').skip(1);
            assert_eq!(command(&SoakLine::parse_from(words).soak), line);
        }
    }

    #[test]
    fn a_rate_too_low_for_its_clients_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let out = place.path().join("new");
        let words = ["soak", "--rate", "1mbit", "--out", out.to_str().unwrap()];
        let Err(CommandError::Error(why)) = begun(&SoakLine::parse_from(words).soak) else {
            panic!()
        };
        assert!(why.contains("--rate"), "{why}");
    }
}
