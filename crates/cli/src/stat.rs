//! `gigae stat`: what endpoints count, and the state of their peers.

mod show;

use crate::capture::seconds;
use crate::endpoints::EndpointSelector;
use crate::outcome::end;
use clap::Args;
use gigae_eval_model::duration::tenths;
use gigae_observe::{Activity, ObservedEndpoint, PeerStatistics, Statistics, now};
use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it says to the endpoints that it looks, and checks for Ctrl-C.
const SLICE: Duration = Duration::from_millis(50);

/// Before the first look: in this time an endpoint that is used has written its figures.
const FIRST: Duration = Duration::from_millis(300);

/// An endpoint that has written none for so long is not used by its program.
const STALLED: Duration = Duration::from_millis(250);

/// Show the counters and peers of the endpoints on this machine, live.
///
/// Shows each endpoint of yours (root: all): its link, whether its program uses it, its non-zero
/// counters with rates, and its peers. A peer's row has frames sent, received, lost and in flight,
/// its credit, round trip and timeout. A sleeping endpoint shows the figures from before it slept.
/// Ends with Ctrl-C, or when no endpoint is left.
#[derive(Args, Debug)]
pub struct StatArgs {
    #[command(flatten)]
    which: EndpointSelector,
    /// Interval between updates, in seconds
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    interval: Duration,
    /// Stop after this many updates [default: with Ctrl-C]
    #[arg(long, value_name = "UPDATES")]
    count: Option<u64>,
    /// Show one update (same as --count 1)
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Print each update as one line with a JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `gigae stat`.
pub fn run(args: &StatArgs, interrupted: &AtomicBool) -> ExitCode {
    end(stat(args, interrupted))
}

/// What is kept of an endpoint between two looks.
struct WatchedEndpoint {
    /// Since when it has been looked at, by the monotonic clock.
    since: u64,
    figures: Option<Statistics>,
}

/// An endpoint at a look.
struct EndpointSample<'a> {
    endpoint: &'a ObservedEndpoint,
    state: Activity,
    /// Nanoseconds for which it was not used, at least; none if it is.
    unused: Option<u64>,
    figures: Option<Statistics>,
    former: Option<Statistics>,
}

fn stat(args: &StatArgs, interrupted: &AtomicBool) -> Result<(), String> {
    let looks = if args.once { Some(1) } else { args.count };
    let live = io::stdout().is_terminal() && !args.json && looks != Some(1);
    let mut endpoints = args.which.some()?;
    let mut watched: HashMap<u64, WatchedEndpoint> = HashMap::new();
    let mut look = 0;
    while looks.is_none_or(|looks| look < looks) {
        let wait = if look == 0 { FIRST } else { args.interval };
        if !keep_looking(&endpoints, &mut watched, wait, interrupted) {
            break;
        }
        let seen: Vec<_> = endpoints.iter().map(|endpoint| see(endpoint, &mut watched)).collect();
        let text = if args.json { show::json(&seen) } else { show::text(&seen, live) };
        match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(|error| format!("writing: {error}"))?,
        }
        if endpoints.is_empty() {
            break;
        }
        endpoints = args.which.now().map_err(|error| format!("looking through /proc: {error}"))?;
        look += 1;
    }
    Ok(())
}

/// Waits for `time`, and tells the endpoints that an observer looks. False after Ctrl-C.
fn keep_looking(
    endpoints: &[ObservedEndpoint],
    watched: &mut HashMap<u64, WatchedEndpoint>,
    time: Duration,
    interrupted: &AtomicBool,
) -> bool {
    let end = Instant::now() + time;
    for endpoint in endpoints {
        watched
            .entry(endpoint.key)
            .or_insert_with(|| WatchedEndpoint { since: now(), figures: None });
    }
    while !interrupted.load(Ordering::Relaxed) {
        endpoints.iter().for_each(ObservedEndpoint::look);
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(SLICE));
    }
    false
}

fn see<'a>(
    endpoint: &'a ObservedEndpoint,
    watched: &mut HashMap<u64, WatchedEndpoint>,
) -> EndpointSample<'a> {
    let now = now();
    let watched = watched
        .entry(endpoint.key)
        .or_insert_with(|| WatchedEndpoint { since: now, figures: None });
    let figures = endpoint.statistics();
    let state = endpoint.activity();
    let last = figures.as_ref().map_or(0, |figures| figures.at).max(watched.since);
    let unused = now.saturating_sub(last);
    let stalled = state == Activity::Used && unused > STALLED.as_nanos() as u64;
    EndpointSample {
        endpoint,
        state,
        unused: stalled.then_some(unused),
        former: std::mem::replace(&mut watched.figures, figures.clone()),
        figures,
    }
}

impl EndpointSample<'_> {
    fn state(&self) -> String {
        match (self.state, self.unused) {
            (_, Some(time)) => format!("not polled for {}", tenths(time as f64 / 1e9)),
            (Activity::Used, None) => "in use".into(),
            (Activity::Asleep, None) => "asleep".into(),
            (Activity::Closed, None) => "closed".into(),
        }
    }

    /// Events per second since the former look, if there was one.
    fn rate(&self, of: impl Fn(&Statistics) -> Option<u64>) -> Option<f64> {
        let (figures, former) = (self.figures.as_ref()?, self.former.as_ref()?);
        let time = figures.at.saturating_sub(former.at);
        if time == 0 {
            // Nothing was written since: it slept, or was not used.
            return Some(0.0);
        }
        Some(of(figures)?.wrapping_sub(of(former)?) as f64 * 1e9 / time as f64)
    }

    /// The same of a peer; none where its session, and so its counts, began again in between.
    fn peer_rate(&self, peer: &PeerStatistics, column: usize) -> Option<f64> {
        let same = |other: &&PeerStatistics| {
            (other.address, other.port, other.channel) == (peer.address, peer.port, peer.channel)
        };
        let of = |figures: &Statistics| {
            let peer = figures.peers.iter().find(same)?;
            peer.values.get(column).copied()
        };
        let (new, old) = (of(self.figures.as_ref()?)?, of(self.former.as_ref()?)?);
        if new < old { None } else { self.rate(of) }
    }

    /// Names, counts, and how many there are of them per second.
    fn rows<'s>(
        &'s self,
        names: &'s [String],
        of: impl Fn(&Statistics) -> Option<&Vec<u64>>,
    ) -> Vec<Count<'s>> {
        let values = self.figures.iter().filter_map(&of).flatten();
        let rate = |i: usize| self.rate(|figures| of(figures)?.get(i).copied());
        let row = |(i, (name, &value)): (usize, (&'s String, &u64))| (&name[..], value, rate(i));
        names.iter().zip(values).enumerate().map(row).collect()
    }

    fn counts(&self) -> Vec<Count<'_>> {
        self.rows(&self.endpoint.about.names[0], |figures| Some(&figures.counts))
    }

    fn link_counts(&self, link: usize) -> Vec<Count<'_>> {
        self.rows(&self.endpoint.about.names[1], |figures| figures.links.get(link))
    }

    fn peers(&self) -> &[PeerStatistics] {
        self.figures.as_ref().map_or(&[], |figures| &figures.peers)
    }
}

/// A name, a count, and how many there are of it per second, if that is known.
type Count<'a> = (&'a str, u64, Option<f64>);
