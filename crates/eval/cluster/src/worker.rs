//! A rank that measures: it opens ends as rank 0 says, and runs their loops.

use crate::error::ClusterError;
use crate::message::{Command, End, Failure, Report, Sent, Trips};
use gigae_eval_measure::cost::Meter;
use gigae_eval_measure::probe::{Answered, Asked, Loop, ProbeError, Signals};
use gigae_eval_measure::site::{ChannelAddress, Site};
use gigae_eval_measure::transport::{Opening, Probe, Side, Task, TransportError, open};
use gigae_eval_model::experiment::SCALE;
use gigae_eval_model::stats::Distribution;
use gigae_eval_model::transport;
use gigae_eval_session::control::answering::LOOK;
use gigae_eval_session::control::{ANSWER, ControlError, Session};
use gigae_host::proc::net;
use gigae_host::{affinity, proc};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Rank 0 is silent for less than this: to ranks that have nothing to do it says so every
/// [`WAIT_EVERY`](crate::coordinator::WAIT_EVERY), between two measurements.
const SILENCE: Duration = ANSWER;

/// Time for the rest of a command whose beginning is there.
const REST: Duration = Duration::from_secs(4);

/// An end that is open, or why it is not.
type Opened = (End, Result<Box<dyn Opening>, Failure>);

/// Does what rank 0 says until it says that the run is over.
pub(crate) fn serve(
    session: &mut Session,
    site: &Site,
    coordinator: &str,
    interrupted: &AtomicBool,
) -> Result<(), ClusterError> {
    let gone = |error: ControlError| ClusterError::Rank {
        rank: 0,
        host: coordinator.to_owned(),
        what: format!("does not answer ({error})"),
    };
    let mut site = site.clone();
    let mut ends: Vec<Opened> = Vec::new();
    // What asked stays open until the other end is done with it.
    let mut asked: Vec<Box<dyn Probe>> = Vec::new();
    loop {
        match next(session, SILENCE, interrupted).map_err(gone)? {
            None => return Err(ClusterError::Interrupted),
            Some(Command::Over) => return Ok(()),
            Some(Command::Measure { place, of }) => site.cpu = own_cpu(place, of),
            Some(Command::Open(wanted)) => {
                // The former ones first: their ports and channels are wanted again.
                ends.clear();
                asked.clear();
                ends.extend(wanted.into_iter().map(|end| opened(&site, end)));
                let address = |(_, opening): &Opened| match opening {
                    Ok(opening) => Ok(opening.address()),
                    Err(failure) => Err(failure.clone()),
                };
                let addresses = ends.iter().map(address).collect();
                session.send(&Report::Opened(addresses)).map_err(gone)?;
            }
            Some(Command::Run(peers)) => {
                let ends = std::mem::take(&mut ends).into_iter().zip(peers).collect();
                match measure(session, &site, ends, interrupted).map_err(gone)? {
                    Some(probes) => asked = probes,
                    None => return Ok(()),
                }
            }
            Some(Command::Wait | Command::Finish(_)) => {}
        }
    }
}

/// The next command; `None` when this process is to end.
fn next(
    session: &mut Session,
    patience: Duration,
    interrupted: &AtomicBool,
) -> Result<Option<Command>, ControlError> {
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if session.readable(LOOK)? {
            return session.receive(REST).map(Some);
        }
    }
    Err(ControlError::Silent("say what to measure"))
}

/// A CPU for the loops: the last one, since the first one usually has the interrupts. Hosts of one
/// machine have each its own, as far as there are enough.
fn own_cpu(place: usize, of: usize) -> Option<usize> {
    let cpus = affinity::allowed();
    if of <= 1 { cpus.last().copied() } else { cpus.iter().cycle().nth(place).copied() }
}

fn opened(site: &Site, end: End) -> Opened {
    let side = if end.asks { Side::Client } else { Side::Server };
    let opening = open(site, &end.task, side).map_err(|error| failure(&error.into()));
    (end, opening)
}

fn failure(error: &ProbeError) -> Failure {
    let unavailable = matches!(error, ProbeError::Transport(TransportError::Unavailable(_)));
    Failure { reason: error.to_string().replace('\n', " "), unavailable }
}

/// An end, and where its other end is; none, if that could not be opened.
type Joining = (Opened, Option<ChannelAddress>);

/// Runs all ends at once, each in a thread, and reports what they measured. The ends that asked are
/// still open then. `None`: rank 0 says that the run is over, because another rank has failed.
fn measure(
    session: &mut Session,
    site: &Site,
    ends: Vec<Joining>,
    interrupted: &AtomicBool,
) -> Result<Option<Vec<Box<dyn Probe>>>, ControlError> {
    let abort = AtomicBool::new(false);
    let (asking, answering): (Vec<Joining>, Vec<Joining>) =
        ends.into_iter().partition(|((end, _), _)| end.asks);
    let signals: Vec<Signals<'_>> = answering.iter().map(|_| Signals::new(&abort)).collect();
    std::thread::scope(|scope| {
        let (done, results) = mpsc::channel();
        let count = asking.len();
        for (number, joining) in asking.into_iter().enumerate() {
            let (done, abort) = (done.clone(), &abort);
            scope.spawn(move || {
                let signals = Signals::new(abort);
                let outcome = run(site, joining, &signals, ask);
                let _ = done.send((number, outcome));
            });
        }
        let answering = answering.into_iter().zip(&signals);
        let servers: Vec<_> = answering
            .map(|(joining, signals)| {
                scope.spawn(move || run(site, joining, signals, |probe, run| probe.answer(run)))
            })
            .collect();
        drop(done);
        let outcome = (|| {
            let Some(all) = collect(session, &results, count, interrupted, &abort)? else {
                return Ok(None);
            };
            let mut probes = Vec::new();
            let reports = all.into_iter().map(|outcome| {
                let (task, asked, probe) = outcome?;
                probes.push(probe);
                Ok(sent(&task, &asked))
            });
            session.send(&Report::Asked(reports.collect()))?;
            if !servers.is_empty() {
                match next(session, SILENCE, interrupted)? {
                    Some(Command::Finish(bytes)) if bytes.len() == signals.len() => {
                        for (signals, bytes) in signals.iter().zip(bytes) {
                            signals.expected.store(bytes, Ordering::Release);
                            signals.finished.store(true, Ordering::Release);
                        }
                    }
                    Some(Command::Over) => return Ok(None),
                    None => abort.store(true, Ordering::Relaxed),
                    Some(_) => return Err(ControlError::Garbled("no end of a measurement")),
                }
            }
            Ok(Some(probes))
        })();
        if !matches!(outcome, Ok(Some(_))) {
            abort.store(true, Ordering::Relaxed);
        }
        let panicked =
            || Failure { reason: "a measuring thread panicked".into(), unavailable: false };
        let answers: Vec<Result<Answered, Failure>> = servers
            .into_iter()
            .map(|server| {
                let (_, answered, _) = server.join().unwrap_or_else(|_| Err(panicked()))?;
                // Rates of slices are for curves, which a cluster's results do not have.
                Ok(Answered { slices: Vec::new(), warmup: Vec::new(), ..answered })
            })
            .collect();
        let Some(probes) = outcome? else { return Ok(None) };
        if !answers.is_empty() {
            session.send(&Report::Answered(answers))?;
        }
        Ok(Some(probes))
    })
}

/// What the loop of an end gave, and the end, which is still open.
type Outcome<T> = Result<(Task, T, Box<dyn Probe>), Failure>;

/// An end's thread.
fn run<T>(
    site: &Site,
    ((end, opening), peer): Joining,
    signals: &Signals<'_>,
    act: impl FnOnce(&mut Box<dyn Probe>, &Loop<'_>) -> Result<T, ProbeError>,
) -> Outcome<T> {
    let opening = opening?;
    let Some(peer) = peer else {
        let reason = "the other end could not be opened".into();
        return Err(Failure { reason, unavailable: false });
    };
    let task = end.task;
    let measured = || {
        site.pin().map_err(TransportError::io("pinning to a CPU"))?;
        let mut probe = opening.join(&peer)?;
        let meter = Meter::new(site);
        let reliable = transport::by_name(&task.transport).is_some_and(|one| one.reliable);
        let done = act(&mut probe, &Loop { task: &task, meter: &meter, signals, reliable })?;
        Ok((done, probe))
    };
    let (done, probe) = measured().map_err(|error| failure(&error))?;
    Ok((task, done, probe))
}

/// Asks, and counts what TCP repeats meanwhile: that is known of the whole host only.
fn ask(probe: &mut Box<dyn Probe>, run: &Loop<'_>) -> Result<Asked, ProbeError> {
    let repeated = || net::tcp_counter(&proc::read(net::SNMP), net::TCP_REPEATED).unwrap_or(0);
    let before = repeated();
    let mut asked = probe.ask(run)?;
    if run.task.transport == "tcp" {
        asked.repeated = repeated().saturating_sub(before);
    }
    Ok(asked)
}

/// What all asking ends gave, in their order. Meanwhile, an interruption ends them, and so does
/// rank 0 when the run is over, which is `None`.
fn collect(
    session: &mut Session,
    results: &Receiver<(usize, Outcome<Asked>)>,
    count: usize,
    interrupted: &AtomicBool,
    abort: &AtomicBool,
) -> Result<Option<Vec<Outcome<Asked>>>, ControlError> {
    let mut all: Vec<Option<Outcome<Asked>>> = (0..count).map(|_| None).collect();
    loop {
        match results.recv_timeout(LOOK) {
            Ok((number, outcome)) => all[number] = Some(outcome),
            Err(RecvTimeoutError::Timeout) => {
                if interrupted.load(Ordering::Relaxed) {
                    abort.store(true, Ordering::Relaxed);
                }
                if session.readable(Duration::ZERO)? {
                    // Nothing else is said before all have reported.
                    return match session.receive(REST)? {
                        Command::Over => Ok(None),
                        _ => Err(ControlError::Garbled("a command within a measurement")),
                    };
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let missing = || Failure { reason: "a measuring thread panicked".into(), unavailable: false };
    Ok(Some(all.into_iter().map(|one| one.unwrap_or_else(|| Err(missing()))).collect()))
}

fn sent(task: &Task, asked: &Asked) -> Sent {
    let mut trips = Distribution::default();
    if task.experiment.is_trip() {
        asked.samples.iter().for_each(|&sample| trips.record(sample.into()));
    }
    Sent {
        bytes: asked.bytes,
        seconds: asked.cost.seconds,
        repeated: asked.repeated,
        trips: trips.summary(SCALE).map(|all| Trips { p50: all.p50, p99: all.p99, n: all.n }),
        note: asked.note.as_ref().map(ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_session::control::{self, Key, Limits, Reply};
    use std::net::TcpListener;

    /// Rank 0's end of a connection, and another rank's.
    fn sessions() -> (Session, Session) {
        let (listener, key) = (TcpListener::bind("127.0.0.1:0").unwrap(), Key::random().unwrap());
        let at = listener.local_addr().unwrap().to_string();
        std::thread::scope(|scope| {
            let accepted = scope.spawn(|| {
                let mut session = control::accept(listener.accept().unwrap().0, &key).unwrap();
                session.send(&Reply::Welcome(Limits::default())).unwrap();
                session
            });
            let connected = control::connect(&at, &key, &mut |_| true).unwrap();
            (accepted.join().unwrap(), connected)
        })
    }

    /// What `collect` says while an end goes on measuring.
    fn while_measuring(session: &mut Session) -> Result<Option<usize>, ControlError> {
        let (_asks, results) = mpsc::channel();
        let [interrupted, abort] = [false, false].map(AtomicBool::new);
        let all = collect(session, &results, 1, &interrupted, &abort)?;
        Ok(all.map(|all| all.len()))
    }

    #[test]
    fn a_rank_ends_within_a_measurement_when_the_run_is_over() {
        let (mut first, mut other) = sessions();
        first.send(&Command::Over).unwrap();
        assert_eq!(while_measuring(&mut other).unwrap(), None);

        let (first, mut other) = sessions();
        drop(first);
        assert!(matches!(while_measuring(&mut other), Err(ControlError::Closed)));

        let (mut first, mut other) = sessions();
        first.send(&Command::Wait).unwrap();
        assert!(matches!(while_measuring(&mut other), Err(ControlError::Garbled(_))));
    }
}
