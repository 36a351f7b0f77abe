//! One client's turn: its requests one after the other, one repetition at a time. Every load is
//! bounded in time, and in rate if the owner wants that, whatever the client asks for.

use super::gather::{Peers, gather};
use super::metrics::Counts;
use gigae_eval_measure::cost;
use gigae_eval_measure::cost::Meter;
use gigae_eval_measure::environment;
use gigae_eval_measure::load;
use gigae_eval_measure::load::Load;
use gigae_eval_measure::probe::{Answered, GRACE, Loop, ProbeError, Signals};
use gigae_eval_measure::site::{ChannelAddress, Site};
use gigae_eval_measure::transport::{JOIN_TIMEOUT, Opening, Side, Task, TransportError};
use gigae_eval_model::duration;
use gigae_eval_model::number::mbit;
use gigae_eval_model::plan::{LARGEST_MESSAGE, LONGEST_REPETITION};
use gigae_eval_model::transport::{self, TransportSpec};
use gigae_eval_services::answer::{self as files, FilesPolicy};
use gigae_eval_session::control::answering::{ENDED, failed, next};
use gigae_eval_session::control::{ControlError, FilesRequest, Limits, Reply, Request, Session};
use gigae_eval_session::programs::answer as program;
use gigae_eval_session::programs::answer::ProgramPolicy;
use gigae_eval_session::tune::Tuner;
use gigae_eval_soak::answer;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tracing::trace;

/// A client that asks for nothing this long is gone; between two repetitions a live one needs
/// milliseconds, while it lays out its plan at most seconds. But it also opens and closes links,
/// which waits for the kernel's lock of interfaces; others may hold that for more than a minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// Longest watch of the idle machine.
const LONGEST_BASELINE: u64 = 2000;

/// The refusal if the owner allows no tuning.
const NO_TUNING: &str = "its owner allows no change of settings; start it with --allow-tuning there, or write ends = \"measuring\" into the plan's [tune]";

/// What a client is served with.
#[derive(Clone, Copy)]
pub(super) struct ServeContext<'a> {
    pub(super) site: &'a Site,
    pub(super) limits: Limits,
    /// Whether clients may have other programs run.
    pub(super) programs: bool,
    /// Whether settings may be changed.
    pub(super) tuning: bool,
    /// Where clients may have files, if they may.
    pub(super) files: Option<&'a Path>,
    pub(super) counts: &'a Counts,
    pub(super) interrupted: &'a AtomicBool,
}

/// Serves a client from its welcome to its end.
pub(super) fn serve(session: &mut Session, context: &ServeContext<'_>) -> Result<(), ControlError> {
    let ServeContext { site, limits, counts, interrupted, .. } = *context;
    let policy = ProgramPolicy { allowed: context.programs, limited: limits.rate.is_some() };
    let begin = Instant::now();
    let files_policy = FilesPolicy {
        directory: context.files,
        until: limits.seconds.map(|most| begin + Duration::from_secs_f64(most)),
    };
    // All are the client's: what it changes of them, and its files, end with it.
    let (mut site, mut tuner, mut store) = (site.clone(), None, None);
    session.send(&Reply::Welcome(limits))?;
    loop {
        let request = match next(session, IDLE_TIMEOUT, interrupted) {
            Err(ControlError::Closed) => return Ok(()),
            other => other?,
        };
        let Some(request) = request else { return over(session, ENDED.into()) };
        if let Some(why) = beyond(&limits, &request, begin.elapsed()) {
            return over(session, why);
        }
        trace!(?request, "client asks");
        let reply = match request {
            Request::Describe => Some(Reply::Description(Box::new(environment::describe(&site)))),
            Request::Baseline(ms) => {
                Some(match cost::baseline(Duration::from_millis(ms.min(LONGEST_BASELINE))) {
                    Ok(baseline) => Reply::Baseline(baseline),
                    Err(error) => failed(&error.to_string()),
                })
            }
            Request::Knobs(_) | Request::Tune(_) if !context.tuning => Some(failed(NO_TUNING)),
            Request::Knobs(wanted) => {
                // The former one puts back what it changed before the next one looks.
                drop(tuner.take());
                site = context.site.clone();
                Some(match Tuner::new(&site, &wanted) {
                    Ok((new, states)) => {
                        tuner = Some(new);
                        Reply::Knobs(states)
                    }
                    Err(error) => failed(&format!("the interface cannot be tuned: {error}")),
                })
            }
            Request::Tune(sets) => Some(match &mut tuner {
                None => failed("no knobs were asked about"),
                Some(tuner) => {
                    let outcome = tuner.apply(&sets);
                    tuner.adapt(&mut site);
                    outcome.map_or_else(|error| failed(&error.to_string()), |()| Reply::Tuned)
                }
            }),
            Request::Run { task, address } => {
                let context = &ServeContext { site: &site, ..*context };
                let reply = repetition(session, context, &task, &address)?;
                if let Some(Reply::Done(answered)) = &reply {
                    counts.repetition(&task, answered);
                }
                reply
            }
            Request::Soak(soak) => answer::answer(session, &site, &soak, interrupted)?,
            Request::Gather { task, addresses, cpus } => {
                gather(session, context, &task, &Peers { addresses, cpus })?
            }
            Request::Programs => Some(program::list(&site, policy)),
            Request::Program(job) => program::answer(session, &site, policy, &job, interrupted)?,
            Request::Files(FilesRequest::Serve(job)) => {
                files::answer(session, &site, files_policy, &mut store, &job, interrupted)?
            }
            Request::Finish { .. }
            | Request::Files(_)
            | Request::Gathered { .. }
            | Request::Cancel
            | Request::Watch { .. } => Some(failed("nothing is running")),
        };
        match reply {
            Some(reply) => session.send(&reply)?,
            None => return over(session, ENDED.into()),
        }
    }
}

/// Says why the session is at its end.
fn over(session: &mut Session, reason: String) -> Result<(), ControlError> {
    session.send(&Reply::Over { reason: reason.clone() })?;
    Err(ControlError::Over(reason))
}

/// Why the owner's limits forbid this, if they do. A load must fit into what is left of the
/// session.
fn beyond(limits: &Limits, request: &Request, elapsed: Duration) -> Option<String> {
    let (seconds, rate) = match request {
        Request::Run { task, .. } => (task.warmup + task.measure, task.rate),
        Request::Soak(soak) => (soak.seconds, Some(soak.traffic.rate)),
        Request::Gather { task, addresses, .. } => {
            let all = task.rate.map(|rate| rate * addresses.len() as f64);
            (task.warmup + task.measure, all)
        }
        // Whether they may run at all is another question.
        Request::Program(job) => (f64::from(job.seconds), limits.rate),
        _ => (0.0, limits.rate),
    };
    let longest = limits.seconds.filter(|most| elapsed.as_secs_f64() + seconds > *most);
    if let Some(most) = longest {
        let most = duration::say(most);
        return Some(format!(
            "its owner allows {most} for each client (--max-duration); take a shorter plan or ask for more"
        ));
    }
    let most = limits.rate.filter(|most| rate.is_none_or(|rate| rate > *most))?;
    Some(format!(
        "its owner allows {} in each direction (--max-rate); ask for less",
        mbit(most * 8.0)
    ))
}

/// One repetition. The reply is the one that ends it; `None` when the server is to end.
fn repetition(
    session: &mut Session,
    context: &ServeContext<'_>,
    task: &Task,
    peer: &ChannelAddress,
) -> Result<Option<Reply>, ControlError> {
    let ServeContext { site, interrupted, .. } = *context;
    if let Err(refused) = fits(task, context.limits, site.shared_port.is_some()) {
        return Ok(Some(refused));
    }
    let (transport, opening) = match open(site, task) {
        Ok(opened) => opened,
        Err(error) => return Ok(Some(refusal(&error))),
    };
    if let Some(shared_port) = &site.shared_port {
        shared_port.expect(&[SocketAddr::new(peer.ip, peer.port)]);
    }
    let mut address = opening.address();
    let load = match load_of(site, task, peer, &mut address) {
        Ok(load) => load,
        Err(error) => {
            return Ok(Some(refusal(&TransportError::io("taking in bulk streams")(error))));
        }
    };
    session.send(&Reply::Ready(address))?;
    let abort = AtomicBool::new(false);
    let signals = Signals::new(&abort);
    std::thread::scope(|scope| {
        let signals = &signals;
        let repetition = Repetition { transport, opening, site, task, peer, signals };
        let worker = scope.spawn(move || repetition.answer());
        let longest =
            Duration::from_secs_f64(task.warmup + task.measure) + JOIN_TIMEOUT + GRACE * 2;
        let request = next(session, longest, interrupted);
        let cancelled = match &request {
            Ok(Some(Request::Finish { bytes })) => {
                signals.expected.store(*bytes, Ordering::Release);
                signals.finished.store(true, Ordering::Release);
                false
            }
            _ => {
                abort.store(true, Ordering::Relaxed);
                true
            }
        };
        drop(load);
        // A panic is a bug of a transport; it ends the repetition, and the message is on standard
        // error.
        let Ok(answered) = worker.join() else {
            return request.map(|request| request.map(|_| failed("the measuring thread panicked")));
        };
        if request?.is_none() {
            return Ok(None);
        }
        Ok(Some(match answered {
            // The client gave up; if this end failed first, that is why.
            Ok(_) | Err(ProbeError::Interrupted) if cancelled => Reply::Cancelled,
            Ok(answered) => Reply::Done(Box::new(answered)),
            Err(ProbeError::Transport(error)) => refusal(&error),
            Err(error) => failed(&error.to_string()),
        }))
    })
}

/// Takes in the bulk streams that the task asks for, and writes their port into the address.
fn load_of(
    site: &Site,
    task: &Task,
    peer: &ChannelAddress,
    address: &mut ChannelAddress,
) -> io::Result<Option<Load>> {
    if task.condition.bulk == 0 {
        return Ok(None);
    }
    let (listener, port) = load::listen(site)?;
    address.bulk = port;
    Load::drain(site, listener, peer.ip, task.condition.bulk).map(Some)
}

/// Refuses conditions that the owner's limits leave no room for, while the rest of the plan goes
/// on: bulk streams know no rate and have a port of their own, and a schedule that is faster than
/// the rate would time the waiting for it. What keeps the rate is the smaller message or the slower
/// schedule, so that only this one is refused.
pub(super) fn fits(task: &Task, limits: Limits, one_port: bool) -> Result<(), Reply> {
    let bulk = task.condition.bulk > 0;
    let unavailable = |why: &str| refusal(&TransportError::Unavailable(why.to_owned()));
    if bulk && limits.rate.is_some() {
        return Err(unavailable(
            "bulk streams keep to no rate, and the server's owner allows only one (--max-rate)",
        ));
    }
    if bulk && one_port {
        return Err(unavailable(
            "bulk streams need a port of their own, and the server has one for all (--one-port)",
        ));
    }
    let schedule = task.condition.rate.map(|rate| rate * task.size as f64);
    match (schedule, limits.rate) {
        (Some(schedule), Some(most)) if schedule > most => Err(failed(&format!(
            "its schedule is {}, and the server's owner allows {} (--max-rate)",
            mbit(schedule * 8.0),
            mbit(most * 8.0)
        ))),
        _ => Ok(()),
    }
}

/// Checks a task before anything is done for it.
pub(super) fn open(
    site: &Site,
    task: &Task,
) -> Result<(&'static TransportSpec, Box<dyn Opening>), TransportError> {
    let refused = |why: &str| TransportError::Unavailable(why.to_owned());
    let transport =
        transport::by_name(&task.transport).ok_or_else(|| refused("unknown transport"))?;
    let times = 0.0..=LONGEST_REPETITION;
    if !times.contains(&task.warmup) || !times.contains(&task.measure) {
        return Err(refused("a repetition may not take so long"));
    }
    task.setting.check().map_err(|why| refused(&why))?;
    task.condition.check(task.experiment).map_err(|why| refused(&why))?;
    if !(4..=LARGEST_MESSAGE.min(transport.largest(site.mtu))).contains(&task.size) {
        return Err(refused(
            "the server's interface cannot carry messages of this size; set the same MTU on both ends",
        ));
    }
    if !transport.offers(task.experiment) || !transport.waits.contains(&task.wait) {
        return Err(refused("this transport cannot do that"));
    }
    Ok((transport, gigae_eval_measure::transport::open(site, task, Side::Server)?))
}

/// What the measuring thread needs for one repetition.
pub(super) struct Repetition<'a> {
    pub(super) transport: &'a TransportSpec,
    pub(super) opening: Box<dyn Opening>,
    pub(super) site: &'a Site,
    pub(super) task: &'a Task,
    pub(super) peer: &'a ChannelAddress,
    pub(super) signals: &'a Signals<'a>,
}

impl Repetition<'_> {
    /// Answers in the calling thread until the repetition is over.
    pub(super) fn answer(self) -> Result<Answered, ProbeError> {
        let Self { transport, opening, site, task, peer, signals } = self;
        site.pin().map_err(TransportError::io("pinning the measuring thread"))?;
        let mut probe = opening.join(peer)?;
        let meter = Meter::new(site);
        probe.answer(&Loop { task, meter: &meter, signals, reliable: transport.reliable })
    }
}

pub(super) fn refusal(error: &TransportError) -> Reply {
    let unavailable = matches!(error, TransportError::Unavailable(_));
    Reply::Failed { reason: error.to_string(), unavailable }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::experiment::Experiment;
    use gigae_eval_model::plan::{Condition, Setting, Wait};

    #[test]
    fn loads_fit_into_the_session_and_keep_the_rate() {
        let task = |measure, rate| Request::Run {
            task: Task {
                experiment: Experiment::Rtt,
                transport: "udp".into(),
                setting: Setting::Default,
                condition: Condition::default(),
                wait: Wait::Sleep,
                size: 8,
                warmup: 1.0,
                measure,
                rate,
            },
            address: ChannelAddress { ip: [127, 0, 0, 1].into(), port: 1, bulk: 0, mac: [0; 6] },
        };
        let limits = Limits { seconds: Some(10.0), rate: Some(1e6) };
        let at = Duration::from_secs;
        assert_eq!(beyond(&limits, &task(2.0, Some(1e6)), at(7)), None);
        assert_eq!(beyond(&limits, &Request::Describe, at(9)), None);
        let long = beyond(&limits, &task(2.5, Some(1e6)), at(7)).unwrap();
        assert!(long.contains("10s") && long.contains("--max-duration"), "{long}");
        assert!(beyond(&limits, &Request::Describe, at(11)).is_some());
        for rate in [None, Some(2e6)] {
            let fast = beyond(&limits, &task(1.0, rate), at(1)).unwrap();
            assert!(fast.contains("8 Mbit/s") && fast.contains("--max-rate"), "{fast}");
        }
        assert_eq!(beyond(&Limits::default(), &task(1e9, None), at(1 << 20)), None);
    }
}
