//! A round at the end that leads: opens everything, watches, and in the end compares what was sent with
//! what was verified.

use super::answer::{hello, open};
use super::gigae::{Other, Worker, register};
use super::ground::{Client, Ground};
use super::rules::missing;
use super::sample::{Sample, Sampler};
use super::tally::{Finding, Kind, Tally};
use super::tcp::{self, CONNECTIONS, Connection};
use super::traffic::Traffic;
use super::watch::Watcher;
use crate::control::{Reply, Request, Soak};
use crate::site::Site;
use gigae::{Endpoint, MacAddr, RegionKey};
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for short answers over the control connection.
const ANSWER: Duration = Duration::from_secs(10);
/// Time for all to connect by TCP.
const CONNECT: Duration = Duration::from_secs(20);
/// Time for what is under way at the end of a round to arrive: twice that after which a peer is lost.
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
pub enum Outcome {
    /// Everything was compared.
    Complete,
    /// It could not go on; the reason is among the deviations, if it was not refused from the start.
    Broken(String),
}

/// A round of at most `length`; `interrupted` ends it in an orderly way.
pub fn round(
    ground: &mut Ground,
    watcher: &mut Watcher<'_>,
    length: Duration,
    interrupted: &AtomicBool,
) -> Outcome {
    let settings = &watcher.state.settings;
    let mut traffic = Traffic {
        seed: settings.seed,
        round: watcher.state.rounds as u16,
        rate: settings.rate / f64::from(settings.clients),
        message: 0,
    };
    watcher.begin_round();
    let outcome = open(&ground.site).map_err(Broken::here).and_then(|endpoint| {
        traffic.message = endpoint.max_message();
        watcher.state.conditions.link =
            format!("{}: {}", endpoint.link().mode, endpoint.link().reason);
        watched(ground, watcher, (endpoint, &traffic), length, interrupted)
    });
    match outcome {
        Ok(()) => Outcome::Complete,
        Err(Broken(end, why)) => {
            let why = ground.last_words().unwrap_or(why);
            watcher.deviate(&end, Finding::new(Kind::Failed, format!("round ended: {why}")));
            Outcome::Broken(why)
        }
    }
}

fn watched(
    ground: &mut Ground,
    watcher: &mut Watcher<'_>,
    (endpoint, traffic): (Endpoint, &Traffic),
    length: Duration,
    interrupted: &AtomicBool,
) -> Result<(), Broken> {
    let listener = TcpListener::bind((ground.site.ip, 0)).map_err(Broken::here)?;
    let token = token().map_err(Broken::here)?;
    let mut others = Vec::new();
    for client in &mut ground.clients {
        others.push(begin(client, (&endpoint, &ground.site), (&listener, token), traffic, length)?);
    }
    let (tally, start) = (Tally::new(others.len()), Instant::now());
    let mut sampler = Sampler::new(&ground.site, true);
    std::thread::scope(|scope| {
        let tally = &tally;
        scope.spawn(move || {
            let work = Worker::new(&endpoint, 0, others, traffic, (start, tally)).work();
            work.unwrap_or_else(|why| tally.end(&why));
        });
        let outcome = accept(&listener, token, ground.clients.len(), traffic)
            .map_err(Broken::here)
            .and_then(|mut connections| {
                scope.spawn(move || {
                    let work = tcp::work(&mut connections, start, tally);
                    work.unwrap_or_else(|why| tally.end(&why));
                });
                let mut course =
                    Course { ground, watcher, tally, sampler: &mut sampler, interrupted };
                course.watch(start + length)
            });
        tally.finish.store(true, Ordering::Relaxed);
        outcome
    })
}

/// Tells another end to open, and names it at the endpoint.
fn begin(
    client: &mut Client,
    (endpoint, site): (&Endpoint, &Site),
    (listener, token): (&TcpListener, u64),
    traffic: &Traffic,
    length: Duration,
) -> Result<Other, Broken> {
    let broken = |why: String| Broken(client.name.clone(), why);
    let port = listener.local_addr().map_err(Broken::here)?.port();
    let own = register(endpoint).map_err(Broken::here)?;
    let soak = Soak {
        traffic: traffic.clone(),
        number: client.number,
        address: site.address(port),
        token,
        key: own.0,
        seconds: length.as_secs_f64(),
    };
    let reply = client.session.ask(&Request::Soak(Box::new(soak)), ANSWER);
    match reply.map_err(|error| broken(error.to_string()))? {
        Reply::Soaking { address, key } => {
            let peer = endpoint.peer(gigae::Address::from(MacAddr(address.mac)));
            let peer = peer.map_err(|error| broken(error.to_string()))?;
            Ok(Other { number: client.number, peer, own, its: RegionKey(key) })
        }
        Reply::Failed { reason, .. } => Err(broken(reason)),
        _ => Err(broken("it gave an answer to another question".into())),
    }
}

fn token() -> Result<u64, String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Accepts all connections of all clients, and nobody else's.
fn accept(
    listener: &TcpListener,
    token: u64,
    clients: usize,
    traffic: &Traffic,
) -> Result<Vec<Connection>, String> {
    let failed = |error: io::Error| format!("accepting TCP connections: {error}");
    listener.set_nonblocking(true).map_err(failed)?;
    let deadline = Instant::now() + CONNECT;
    let mut all: Vec<Option<Connection>> = Vec::new();
    all.resize_with(clients * CONNECTIONS.len(), || None);
    while all.iter().any(Option::is_none) {
        if Instant::now() > deadline {
            let missing = all.iter().filter(|one| one.is_none()).count();
            return Err(format!("{missing} TCP connections of clients did not come in time"));
        }
        match listener.accept() {
            Ok((socket, _)) => {
                let Ok((end, number)) = name(&socket, token) else { continue };
                let place = usize::from(end.wrapping_sub(1));
                let role = CONNECTIONS.get(usize::from(number));
                let (Some(role), true) = (role, place < clients) else { continue };
                let open = Connection::new(socket, *role, place, (0, end), traffic);
                all[place * CONNECTIONS.len() + usize::from(number)] = Some(open.map_err(failed)?);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(all.into_iter().flatten().collect())
}

/// Whose connection, and which of its.
fn name(mut socket: &TcpStream, token: u64) -> io::Result<(u8, u8)> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut said = [0; 10];
    socket.read_exact(&mut said)?;
    let (end, number) = (said[8], said[9]);
    if said == hello(token, end, number) {
        Ok((end, number))
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// What a round is made of while it runs.
struct Course<'a, 'b> {
    ground: &'a mut Ground,
    watcher: &'a mut Watcher<'b>,
    tally: &'a Tally,
    sampler: &'a mut Sampler,
    interrupted: &'a AtomicBool,
}

impl Course<'_, '_> {
    /// Watches until the end, then lets everything arrive and compares.
    fn watch(&mut self, end: Instant) -> Result<(), Broken> {
        self.sample(false)?;
        let mut next = Instant::now() + self.watcher.interval();
        while Instant::now() < end && !self.interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
            if Instant::now() >= next || self.tally.ended().is_some() {
                next = Instant::now() + self.watcher.interval();
                self.sample(false)?;
                self.watcher.save_when_due();
            }
        }
        self.compare()
    }

    /// Looks at all ends; their samples, this one's first. A worker that has ended ends the round.
    fn sample(&mut self, quiet: bool) -> Result<Vec<Sample>, Broken> {
        let mut samples = vec![self.sampler.take(self.tally)];
        let mut trouble = None;
        for client in &mut self.ground.clients {
            match client.session.ask(&Request::Watch { quiet }, ANSWER) {
                Ok(Reply::Sample(sample)) => samples.push(*sample),
                Ok(_) => trouble = Some(Broken(client.name.clone(), "it gave no sample".into())),
                Err(error) => trouble = Some(Broken(client.name.clone(), error.to_string())),
            }
            if trouble.is_some() {
                break;
            }
        }
        let drops = self.ground.switch_drops();
        self.watcher.observe(samples.iter().cloned().enumerate().collect(), drops);
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
        self.tally.quiet.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + ARRIVE;
        loop {
            let samples = self.sample(true)?;
            // The workers see the flag within their nap.
            std::thread::sleep(LOOK);
            let lost = lost(&samples);
            if !lost.is_empty() && Instant::now() < deadline {
                continue;
            }
            for (place, finding) in lost {
                let name = self.watcher.state.ends[place].name.clone();
                self.watcher.deviate(&name, finding);
            }
            break;
        }
        // The others leave first, this end's workers go on: nobody misses an answer.
        let mut last = Vec::new();
        for (place, client) in (1..).zip(&mut self.ground.clients) {
            match client.session.ask(&Request::Finish { bytes: 0 }, ANSWER) {
                Ok(Reply::Sample(sample)) => last.push((place, *sample)),
                Ok(_) => return Err(Broken(client.name.clone(), "it did not finish".into())),
                Err(error) => return Err(Broken(client.name.clone(), error.to_string())),
            }
        }
        last.insert(0, (0, self.sampler.take(self.tally)));
        self.watcher.observe(last, None);
        Ok(())
    }
}

/// What was sent and is not verified, by the place of the end that lacks it.
fn lost(samples: &[Sample]) -> Vec<(usize, Finding)> {
    let mut all = Vec::new();
    for (place, sample) in samples.iter().enumerate().skip(1) {
        let (here, there) = (&samples[0].passed[place - 1], &sample.passed[0]);
        all.extend(missing(here, there).into_iter().map(|finding| (place, finding)));
        all.extend(missing(there, here).into_iter().map(|finding| (0, finding)));
    }
    all
}
