//! `gigae cp`.

use crate::files::exchange::{Event, Exchange};
use crate::files::location::{Location, name, path};
use crate::files::node::{NodeArgs, Site};
use crate::outcome::{CommandError, EXIT_CODES, finish, say};
use crate::terminal::FileBar;
use clap::Args;
use gigae::Peer;
use gigae_eval_session::remark::remark;
use gigae_share::{
    Fault, Fetcher, MAX_REQUEST, MOST_SOURCES, Options, Progress, Pusher, Want, Wanted, duplicate,
    printable,
};
use gigae_tree::{Destination, Pick, Picks, Place};
use indicatif::DecimalBytes;
use serde_json::json;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most problems that standard error lists. It has the number of the others.
const TOLD: usize = 10;

/// How long a server is waited for that is to stop.
const STOP_WITHIN: Duration = Duration::from_secs(1);

/// Copy files from or to a node that shares them.
///
/// Directories are copied with everything in them; symlinks stay symlinks. Permissions, times and
/// holes are kept, owners are not. Every part of a file is compared by a hash at both ends, which
/// finds accidents and is no protection against an attacker. A copy that was interrupted goes on
/// where it stopped if the same command is run again. Files that are there with the same size and
/// time are left as they are.
///
/// NODE is a name in the cluster file, a MAC address, or an IP address with --udp. PATH is relative
/// to the directory that 'gigae share' shares there; empty means all of it.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct CpArgs {
    /// NODE:PATH, or files of this host; then the destination: a directory or a new name, of this
    /// host or as NODE:PATH
    #[arg(required = true, num_args = 2.., value_name = "SRC... DEST")]
    files: Vec<OsString>,
    /// Also copy files that are there with the same size and time
    #[arg(long)]
    ignore_times: bool,
    /// Give up a node that does not answer for so many seconds
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    patience: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArgs,
}

/// Runs `gigae cp`. `interrupted` is set by the caller's signal handler.
pub fn cp(args: &CpArgs, interrupted: &AtomicBool) -> ExitCode {
    finish(copy(args, interrupted))
}

fn copy(args: &CpArgs, interrupted: &AtomicBool) -> Result<(), CommandError> {
    let locations: Vec<_> = args.files.iter().map(|text| Location::parse(text)).collect();
    let Some((to, from)) = locations.split_last() else { return Err(error("name two files")) };
    let options =
        Options { ignore_times: args.ignore_times, patience: Duration::from_secs(args.patience) };
    let site = args.node.site().map_err(error)?;
    let result = match to {
        Location::Here(to) => fetch(&site, from, to, options, interrupted)?,
        Location::There(node, to) => push(&site, from, (node, to), options, interrupted)?,
    };
    report(args, &result)
}

fn error(text: impl Into<String>) -> CommandError {
    CommandError::Error(text.into())
}

/// How it went.
struct Outcome {
    progress: Progress,
    fatal: Option<Fault>,
    interrupted: bool,
    seconds: f64,
    node: String,
    /// Temporary files that the next try uses.
    left: Vec<PathBuf>,
}

fn fetch(
    site: &Site,
    from: &[Location],
    to: &Path,
    options: Options,
    interrupted: &AtomicBool,
) -> Result<Outcome, CommandError> {
    let mut node = None;
    let mut paths = Vec::new();
    for location in from {
        match location {
            Location::There(of, path) if node.is_none_or(|node| node == of) => {
                node = Some(of);
                paths.push(path.clone());
            }
            Location::There(..) => {
                return Err(error("the files are on several nodes; copy from one node at a time"));
            }
            Location::Here(path) => {
                return Err(error(format!(
                    "'{}' and the destination are both on this host; write one as NODE:PATH, or \
                     use 'cp'",
                    path.display()
                )));
            }
        }
    }
    let Some(node) = node else { return Err(error("name a file as NODE:PATH")) };
    let Place { destination, name } =
        Place::open(to).map_err(|fault| error(format!("'{}': {fault}", to.display())))?;
    let shown = if name.is_some() { to.parent().map(Path::to_owned) } else { Some(to.to_owned()) };
    let wanted = wanted(paths, name).ok_or_else(|| {
        error(format!("'{}' is not a directory; several files need one", to.display()))
    })?;
    no_name_twice(wanted.iter().map(|wanted| &wanted.to[..]))?;
    let (exchange, peer) = connect(site, node, false)?;
    let mut fetch =
        Fetching { fetcher: Fetcher::new(wanted, options, exchange.now()), destination };
    let outcome = run(exchange, peer, node, &mut fetch, interrupted)?;
    let left = fetch.destination.left().iter();
    let beneath = shown.unwrap_or_default();
    Ok(Outcome { left: left.map(|left| beneath.join(path(left))).collect(), ..outcome })
}

/// The second one would take the place of the first one.
fn no_name_twice<'a>(names: impl Iterator<Item = &'a [u8]>) -> Result<(), CommandError> {
    match duplicate(names) {
        Some(name) => Err(error(format!(
            "two files would have the name '{}'; copy one at a time, to another name",
            printable(name)
        ))),
        None => Ok(()),
    }
}

/// What is to be fetched, and under which names.
fn wanted(paths: Vec<Vec<u8>>, to: Option<Vec<u8>>) -> Option<Vec<Wanted>> {
    if to.is_some() && paths.len() > 1 {
        return None;
    }
    let into = |from: Vec<u8>| {
        // Of the whole share, the entries go into the directory.
        let to = to.clone().or_else(|| name(&from)).unwrap_or_default();
        Wanted { from, to }
    };
    Some(paths.into_iter().map(into).collect())
}

fn push(
    site: &Site,
    from: &[Location],
    (node, to): (&str, &[u8]),
    options: Options,
    interrupted: &AtomicBool,
) -> Result<Outcome, CommandError> {
    if from.len() > MOST_SOURCES {
        return Err(too_many(from));
    }
    let (mut picks, mut sources) = (Vec::new(), Vec::new());
    for location in from {
        let Location::Here(path) = location else {
            return Err(error("both are on other nodes; copy to this host first"));
        };
        let pick = Pick::open(path).map_err(|cause| {
            error(format!("cannot read '{}': {cause}; check the path", path.display()))
        })?;
        let named = pick.name.clone().or_else(|| {
            // `.` or `..`: the directory's own name.
            let whole = path.canonicalize().ok()?;
            whole.file_name().map(|name| name.as_bytes().to_vec())
        });
        let Some(name) = named else {
            return Err(error(format!("'{}' has no name; name its files", path.display())));
        };
        sources.push((Picks::path(sources.len()), name));
        picks.push(pick);
    }
    no_name_twice(sources.iter().map(|(_, name)| &name[..]))?;
    let bytes: usize = sources.iter().map(|(path, name)| path.len() + name.len() + 4).sum();
    if 64 + to.len() + bytes > MAX_REQUEST {
        return Err(too_many(from));
    }
    let (exchange, peer) = connect(site, node, true)?;
    let id = RandomState::new().build_hasher().finish();
    let pusher = Pusher::new(id, sources, to.to_vec(), options, exchange.now());
    let named = from.iter().filter_map(Location::here).map(Path::to_owned).collect();
    let mut push = Pushing { pusher, picks: Picks::new(picks), named };
    let outcome = run(exchange, peer, node, &mut push, interrupted)?;
    let left = push.pusher.status().left.iter();
    let left = left.map(|left| path(&[node.as_bytes(), b":", left].concat()));
    Ok(Outcome { left: left.collect(), ..outcome })
}

fn too_many(from: &[Location]) -> CommandError {
    error(format!("{} names are too long for one command; name their directory", from.len()))
}

pub(crate) fn connect(
    site: &Site,
    node: &str,
    answers: bool,
) -> Result<(Exchange, Peer), CommandError> {
    let address = site.address(node).map_err(error)?;
    let endpoint = site.client(address).map_err(error)?;
    let peer = endpoint.peer(address).map_err(|cause| error(format!("'{node}': {cause}")))?;
    let longest = answers.then_some(MAX_REQUEST);
    Ok((Exchange::new(endpoint, longest).map_err(error)?, peer))
}

/// A copy in one of the two directions.
trait Copying {
    fn next(&mut self, now: Duration) -> Want;
    fn handle(&mut self, exchange: &mut Exchange, peer: Peer, event: Event) -> Result<(), String>;
    fn progress(&self) -> Progress;
    fn fatal(&self) -> Option<Fault>;
    fn is_silent(&self, now: Duration) -> bool;
    /// Ends it here, after Ctrl-C.
    fn stop(&mut self, exchange: &mut Exchange, peer: Peer) -> Result<(), String>;
}

struct Fetching {
    fetcher: Fetcher,
    destination: Destination,
}

impl Copying for Fetching {
    fn next(&mut self, now: Duration) -> Want {
        self.fetcher.next(now, &mut self.destination)
    }

    fn handle(&mut self, exchange: &mut Exchange, peer: Peer, event: Event) -> Result<(), String> {
        let now = exchange.now();
        match event {
            Event::Reply(_, number, memory, len) => {
                self.fetcher.reply(now, number, &memory[..len], &mut self.destination);
                exchange.recycle(memory);
            }
            Event::Unanswered(_, number) => self.fetcher.unanswered(number),
            Event::Lost(lost) if lost == peer => self.fetcher.lost(now),
            Event::Lost(_) | Event::Request(..) => {}
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        self.fetcher.progress().clone()
    }

    fn fatal(&self) -> Option<Fault> {
        self.fetcher.fatal()
    }

    fn is_silent(&self, now: Duration) -> bool {
        self.fetcher.is_silent(now)
    }

    fn stop(&mut self, _: &mut Exchange, _: Peer) -> Result<(), String> {
        self.fetcher.stop(&mut self.destination);
        Ok(())
    }
}

struct Pushing {
    pusher: Pusher,
    picks: Picks,
    /// The sources as they were named.
    named: Vec<PathBuf>,
}

impl Pushing {
    /// The user's path of what the server asks for: there it begins with the source's number.
    fn of_user(&self, path: &[u8]) -> Vec<u8> {
        let (number, rest) = match path.iter().position(|&byte| byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash..]),
            None => (path, &[][..]),
        };
        let number = str::from_utf8(number).ok().and_then(|text| text.parse::<usize>().ok());
        match number.and_then(|number| self.named.get(number)) {
            Some(named) => [named.as_os_str().as_bytes(), rest].concat(),
            None => path.to_vec(),
        }
    }
}

impl Copying for Pushing {
    fn next(&mut self, now: Duration) -> Want {
        self.pusher.next(now)
    }

    fn handle(&mut self, exchange: &mut Exchange, peer: Peer, event: Event) -> Result<(), String> {
        let now = exchange.now();
        match event {
            Event::Reply(_, number, memory, len) => {
                self.pusher.reply(now, number, &memory[..len]);
                exchange.recycle(memory);
            }
            Event::Unanswered(_, number) => self.pusher.unanswered(now, number),
            Event::Request(from, memory, len) => {
                // Nobody else reads these files.
                if from == peer {
                    exchange.answer(peer, &memory[..len], &mut self.picks)?;
                }
                exchange.served(memory)?;
            }
            Event::Lost(_) => {}
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        let status = self.pusher.status();
        let problem = |(path, fault): &(Vec<u8>, Fault)| gigae_share::Problem {
            path: self.of_user(path),
            fault: *fault,
        };
        Progress {
            files: status.files,
            skipped: status.skipped,
            bytes: status.bytes,
            resumed: status.resumed,
            total: status.total,
            problems: status.problems.iter().map(problem).collect(),
            failed: status.failed,
        }
    }

    fn fatal(&self) -> Option<Fault> {
        self.pusher.fatal()
    }

    fn is_silent(&self, now: Duration) -> bool {
        self.pusher.is_silent(now)
    }

    fn stop(&mut self, exchange: &mut Exchange, peer: Peer) -> Result<(), String> {
        let until = exchange.elapsed() + STOP_WITHIN;
        let cancel = self.pusher.cancel(exchange.now());
        exchange.ask(peer, cancel)?;
        while self.pusher.is_asking() && exchange.elapsed() < until {
            let next = exchange.now() + STOP_WITHIN;
            if let Some(event) = exchange.wait(next)? {
                self.handle(exchange, peer, event)?;
            }
        }
        Ok(())
    }
}

/// Copies until it is over or interrupted.
fn run(
    mut exchange: Exchange,
    peer: Peer,
    node: &str,
    copying: &mut impl Copying,
    interrupted: &AtomicBool,
) -> Result<Outcome, CommandError> {
    let mut bar = FileBar::new();
    let mut is_interrupted = false;
    'copy: loop {
        let until = loop {
            match copying.next(exchange.now()) {
                Want::Send(request) => exchange.ask(peer, request).map_err(error)?,
                Want::Forget(before) => exchange.forget(peer, before),
                Want::Wait(until) => break until,
                Want::Nothing => break 'copy,
            }
        };
        if interrupted.load(Ordering::Relaxed) {
            copying.stop(&mut exchange, peer).map_err(error)?;
            is_interrupted = true;
            break;
        }
        if let Some(event) = exchange.wait(until).map_err(error)? {
            copying.handle(&mut exchange, peer, event).map_err(error)?;
        }
        let now = exchange.now();
        bar.show(exchange.elapsed(), || (copying.progress(), copying.is_silent(now)));
    }
    bar.clear();
    Ok(Outcome {
        progress: copying.progress(),
        fatal: copying.fatal(),
        interrupted: is_interrupted,
        seconds: exchange.elapsed().as_secs_f64(),
        node: node.to_owned(),
        left: Vec::new(),
    })
}

/// Says how it went.
fn report(args: &CpArgs, outcome: &Outcome) -> Result<(), CommandError> {
    let Outcome { progress, fatal, interrupted, seconds, node, left } = outcome;
    let copied = progress.bytes.saturating_sub(progress.resumed);
    if args.json {
        let problem = |problem: &gigae_share::Problem| {
            let (path, reason) = (printable(&problem.path), problem.fault.to_string());
            json!({ "path": path, "reason": reason })
        };
        let problems: Vec<_> = progress.problems.iter().map(problem).collect();
        let partial: Vec<_> =
            left.iter().map(|left| printable(left.as_os_str().as_bytes())).collect();
        let text = json!({
            "node": node,
            "files": progress.files,
            "skipped": progress.skipped,
            "bytes": progress.bytes,
            "resumed_bytes": progress.resumed,
            "seconds": seconds,
            "complete": fatal.is_none() && progress.failed == 0 && !interrupted,
            "failed": progress.failed,
            "problems": problems,
            "error": fatal.map(|fault| fault.to_string()),
            "partial": partial,
        });
        say(&format!("{text:#}\n"))?;
    }
    let shown = |path: &[u8]| match path {
        [] => node.clone(),
        path => printable(path),
    };
    // What has ended everything is said last.
    let apart = progress.problems.iter().filter(|problem| fatal.is_none_or(|f| f != problem.fault));
    let single = progress.failed == 1 && fatal.is_none() && !interrupted;
    if !single {
        for problem in apart.take(TOLD) {
            remark(&format!("'{}': {}", shown(&problem.path), problem.fault));
        }
    }
    let rest = match &left[..] {
        [] => String::new(),
        left => {
            let names = left.iter().map(|left| printable(left.as_os_str().as_bytes()));
            let names = names.collect::<Vec<_>>().join("', '");
            format!("; '{names}' holds what is there")
        }
    };
    if *interrupted {
        let text = format!("interrupted{rest}; run the same command again to go on");
        return Err(CommandError::Interrupted(text));
    }
    if let Some(fault) = fatal {
        let at = progress.problems.iter().find(|problem| problem.fault == *fault);
        let at = at.map_or_else(|| node.clone(), |problem| shown(&problem.path));
        return Err(error(format!("'{at}': {fault}{rest}")));
    }
    match (&progress.problems[..], progress.failed) {
        ([problem], 1) => Err(error(format!("'{}': {}", shown(&problem.path), problem.fault))),
        (_, failed) if failed > 0 => Err(error(format!(
            "{failed} files were not copied; what was said of each says what to do"
        ))),
        _ if args.json => Ok(()),
        _ => say(&format!(
            "{} files, {} in {seconds:.1} s ({}/s){}\n",
            progress.files,
            DecimalBytes(copied),
            DecimalBytes((copied as f64 / seconds.max(1e-9)) as u64),
            match progress.skipped {
                0 => String::new(),
                skipped => format!("; {skipped} were there before"),
            }
        )),
    }
}
