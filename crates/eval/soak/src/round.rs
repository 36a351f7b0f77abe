//! A round at the end that leads: opens everything, watches, and in the end compares what was sent
//! with what was verified.

use super::answer::open;
use super::environment::{Client, SoakEnvironment};
use super::gigae::{SoakPeer, Worker, register};
use super::round_state::RoundState;
use super::rules::missing;
use super::sample::Sampler;
use super::tcp::{self, CONNECTIONS, Connection};
use super::watch::Watcher;
use gigae::{Endpoint, MacAddr, RegionKey};
use gigae_eval_measure::site::Site;
use gigae_eval_model::soak::Sample;
use gigae_eval_model::soak::{DeviationKind, FoundDeviation};
use gigae_eval_model::traffic::{Budget, EndNumbers, Traffic};
use gigae_eval_session::control::{Reply, Request, Soak};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for an answer over the control connection. The other ends wait during that time, so it is
/// shorter than elsewhere: an end that waits gives up after `AFTERWARDS` and `SILENCE` of
/// `answer.rs`.
const ANSWER: Duration = Duration::from_secs(10);
/// Time for a TCP connection to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// Time for what is under way at the end of a round to arrive: twice that after which a peer is
/// lost.
const ARRIVE: Duration = Duration::from_secs(20);
/// How often an interruption is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Name of the end that leads.
pub const HERE: &str = "server";

/// Why a round could not go on: at which end, and one sentence.
struct Broken(String, String);

impl Broken {
    fn here(why: impl std::fmt::Display) -> Self {
        Self(HERE.into(), why.to_string())
    }
}

/// How a round ended.
#[derive(Debug, PartialEq, Eq)]
pub enum RoundResult {
    /// Everything was compared.
    Complete,
    /// It could not go on; the reason is among the deviations, if it was not refused from the
    /// start.
    Broken(String),
}

/// A round of at most `length`; `interrupted` ends it in an orderly way.
pub fn round(
    environment: &mut SoakEnvironment,
    watcher: &mut Watcher<'_>,
    length: Duration,
    interrupted: &AtomicBool,
) -> RoundResult {
    let settings = &watcher.state.settings;
    let mut traffic = Traffic {
        seed: settings.seed,
        round: watcher.state.rounds as u16,
        rate: settings.rate / f64::from(settings.clients),
        message: 0,
    };
    watcher.begin_round();
    let outcome = open(&environment.site).map_err(Broken::here).and_then(|endpoint| {
        traffic.message = endpoint.max_message();
        watcher.state.conditions.link =
            format!("{}: {}", endpoint.link().mode, endpoint.link().reason);
        watched(environment, watcher, endpoint, &traffic, length, interrupted)
    });
    match outcome {
        Ok(()) => RoundResult::Complete,
        Err(Broken(end, why)) => {
            let why = environment.last_words().unwrap_or(why);
            watcher.deviate(
                &end,
                FoundDeviation::new(DeviationKind::Failed, format!("round ended: {why}")),
            );
            RoundResult::Broken(why)
        }
    }
}

fn watched(
    environment: &mut SoakEnvironment,
    watcher: &mut Watcher<'_>,
    endpoint: Endpoint,
    traffic: &Traffic,
    length: Duration,
    interrupted: &AtomicBool,
) -> Result<(), Broken> {
    let (mut others, mut connections) = (Vec::new(), Vec::new());
    for (place, client) in environment.clients.iter_mut().enumerate() {
        let begun = begin(client, &endpoint, &environment.site, place, traffic, length)?;
        others.push(begun.0);
        connections.extend(begun.1);
    }
    let (round_state, start) = (RoundState::new(others.len()), Instant::now());
    let mut sampler = Sampler::new(&environment.site, true);
    std::thread::scope(|scope| {
        let round_state = &round_state;
        scope.spawn(move || {
            let work = Worker::new(&endpoint, 0, others, traffic, start, round_state).work();
            work.unwrap_or_else(|why| round_state.end(&why));
        });
        scope.spawn(move || {
            let work = tcp::work(&mut connections, start, round_state);
            work.unwrap_or_else(|why| round_state.end(&why));
        });
        let mut round =
            RunningRound { environment, watcher, round_state, sampler: &mut sampler, interrupted };
        let outcome = round.watch(start + length);
        round_state.finish.store(true, Ordering::Relaxed);
        outcome
    })
}

/// Asks another end to open, names it at the endpoint, and connects to it by TCP.
fn begin(
    client: &mut Client,
    endpoint: &Endpoint,
    site: &Site,
    place: usize,
    traffic: &Traffic,
    length: Duration,
) -> Result<(SoakPeer, Vec<Connection>), Broken> {
    let number = client.number;
    let broken = |why: String| Broken(client.name.clone(), why);
    let sockets: io::Result<Vec<_>> = CONNECTIONS.iter().map(|_| bound(site.ip)).collect();
    let (sockets, ports): (Vec<_>, Vec<_>) = sockets.map_err(Broken::here)?.into_iter().unzip();
    let (own, budget) = (register(endpoint).map_err(Broken::here)?, Budget::new(traffic));
    let soak = Soak {
        traffic: traffic.clone(),
        number,
        address: site.address(0),
        ports,
        key: own.0,
        seconds: length.as_secs_f64(),
    };
    let reply = client.session.ask(&Request::Soak(Box::new(soak)), ANSWER);
    let (address, its) = match reply.map_err(|error| broken(error.to_string()))? {
        Reply::Soaking { address, key } => (address, RegionKey(key)),
        Reply::Failed { reason, .. } => return Err(broken(reason)),
        _ => return Err(broken("it gave an answer to another question".into())),
    };
    let peer = endpoint.peer(gigae::Address::from(MacAddr(address.mac)));
    let peer = peer.map_err(|error| broken(error.to_string()))?;
    let to = SocketAddr::new(address.ip, address.port);
    let connect = |(socket, role): (Socket, &tcp::Role)| {
        socket.connect_timeout(&to.into(), CONNECT)?;
        let ends = EndNumbers { from: 0, to: number };
        Connection::new(socket.into(), *role, place, ends, traffic, &budget)
    };
    let made: io::Result<_> = sockets.into_iter().zip(&CONNECTIONS).map(connect).collect();
    let connections =
        made.map_err(|error| broken(format!("connecting by TCP to {to}: {error}")))?;
    Ok((SoakPeer { number, peer, own, its, budget }, connections))
}

/// A socket for a TCP connection, and the port from which it will come.
fn bound(ip: IpAddr) -> io::Result<(Socket, u16)> {
    let local = SocketAddr::new(ip, 0);
    let socket = Socket::new(Domain::for_address(local), Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&local.into())?;
    let port = socket.local_addr()?.as_socket().map_or(0, |local| local.port());
    Ok((socket, port))
}

/// What a round is made of while it runs.
struct RunningRound<'a, 'b> {
    environment: &'a mut SoakEnvironment,
    watcher: &'a mut Watcher<'b>,
    round_state: &'a RoundState,
    sampler: &'a mut Sampler,
    interrupted: &'a AtomicBool,
}

impl RunningRound<'_, '_> {
    /// Watches until the end, then lets everything arrive and compares.
    fn watch(&mut self, end: Instant) -> Result<(), Broken> {
        self.sample(false)?;
        let mut next = Instant::now() + self.watcher.interval();
        while Instant::now() < end && !self.interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
            if Instant::now() >= next || self.round_state.ended().is_some() {
                next = Instant::now() + self.watcher.interval();
                self.sample(false)?;
                self.watcher.save_when_due();
            }
        }
        self.compare()
    }

    /// Looks at all ends; their samples, this one's first. A worker that has ended ends the round.
    fn sample(&mut self, quiet: bool) -> Result<Vec<Sample>, Broken> {
        let mut samples = vec![self.sampler.take(self.round_state)];
        let mut trouble = None;
        for client in &mut self.environment.clients {
            match client.session.ask(&Request::Watch { quiet }, ANSWER) {
                Ok(Reply::Sample(sample)) => samples.push(*sample),
                Ok(_) => trouble = Some(Broken(client.name.clone(), "it gave no sample".into())),
                Err(error) => trouble = Some(Broken(client.name.clone(), error.to_string())),
            }
            if trouble.is_some() {
                break;
            }
        }
        let drops = self.environment.switch_drops();
        self.watcher.observe(samples.clone(), drops);
        let ended = samples.iter().position(|sample| sample.ended.is_some());
        match (trouble, ended) {
            (Some(broken), _) => Err(broken),
            (None, Some(place)) => {
                let name = self.watcher.state.ends[place].name.clone();
                Err(Broken(name, samples[place].ended.clone().unwrap_or_default()))
            }
            (None, None) => Ok(samples),
        }
    }

    /// Nothing new begins; what was sent must have been verified within a time.
    fn compare(&mut self) -> Result<(), Broken> {
        self.round_state.quiet.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + ARRIVE;
        loop {
            let samples = self.sample(true)?;
            // The workers see the flag within their nap.
            std::thread::sleep(LOOK);
            let lost = lost(&samples);
            if !lost.is_empty() && Instant::now() < deadline {
                continue;
            }
            for (place, found) in lost {
                let name = self.watcher.state.ends[place].name.clone();
                self.watcher.deviate(&name, found);
            }
            break;
        }
        // The others leave first, this end's workers go on: no end misses an answer.
        let mut last = Vec::new();
        for client in &mut self.environment.clients {
            match client.session.ask(&Request::Finish { bytes: 0 }, ANSWER) {
                Ok(Reply::Sample(sample)) => last.push(*sample),
                Ok(_) => return Err(Broken(client.name.clone(), "it did not finish".into())),
                Err(error) => return Err(Broken(client.name.clone(), error.to_string())),
            }
        }
        last.insert(0, self.sampler.take(self.round_state));
        self.watcher.observe(last, None);
        Ok(())
    }
}

/// What was sent and is not verified, by the place of the end that lacks it.
fn lost(samples: &[Sample]) -> Vec<(usize, FoundDeviation)> {
    let mut all = Vec::new();
    for (place, sample) in samples.iter().enumerate().skip(1) {
        let (here, there) = (&samples[0].passed[place - 1], &sample.passed[0]);
        all.extend(missing(here, there).into_iter().map(|found| (place, found)));
        all.extend(missing(there, here).into_iter().map(|found| (0, found)));
    }
    all
}
