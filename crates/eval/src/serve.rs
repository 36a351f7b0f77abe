//! The answering end: one authenticated client at a time, one repetition at a time.
//!
//! A client that vanishes, lies or asks for too much ends its own session only; the server then
//! listens again. Every load is bounded in time here as well, whatever the client asks for.

use crate::control::{self, ControlError, Key, Reply, Request, Session};
use crate::cost::{self, Meter};
use crate::environment;
use crate::plan::{Experiment, LARGEST_MESSAGE, LONGEST_REPETITION};
use crate::probe::{Answered, GRACE, ProbeError, Signals};
use crate::site::{Address, Site};
use crate::transport::{self, JOIN_TIMEOUT, Opening, Side, Task, Transport, TransportError};
use gigae::{Backend, Endpoint, Options, Wait};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A client that asks for nothing this long is gone; between two repetitions a live one needs
/// milliseconds, while it lays out its plan at most seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a waiting server looks at its flag. Seldom enough to disturb nothing.
const LOOK: Duration = Duration::from_millis(200);

/// Longest watch of the idle machine.
const LONGEST_BASELINE: u64 = 2000;

/// Answers `gigae discover` while no client is there; during a measurement, its frames would cost the
/// measured ones a filter each, so it is closed then.
pub struct Presence {
    options: Option<Options>,
    endpoint: Option<Endpoint>,
    /// Whether to try to open it: once between two clients, since what refuses it, the lack of a
    /// permission or of the interface, hardly ever passes by itself.
    due: bool,
}

/// The channel of an endpoint that only answers: programs take theirs from zero on.
const PRESENCE_CHANNEL: u8 = 254;

impl Presence {
    /// Answers for the interface and the name in the options, where that is permitted (CAP_NET_RAW), from now on:
    /// what is said to serve can be found.
    pub fn new(options: Options) -> Self {
        let options =
            options.channels([PRESENCE_CHANNEL]).backend(Backend::Packet).wait(Wait::Sleep);
        let mut presence = Self { options: Some(options), endpoint: None, due: true };
        presence.progress();
        presence
    }

    /// Answers nobody.
    pub fn none() -> Self {
        Self { options: None, endpoint: None, due: false }
    }

    /// Takes in questions and answers them.
    fn progress(&mut self) {
        if std::mem::take(&mut self.due) {
            self.endpoint = self.options.clone().and_then(|options| options.open().ok());
        }
        if self.endpoint.as_ref().is_some_and(|endpoint| endpoint.progress().is_err()) {
            self.endpoint = None;
        }
    }

    /// A client is there.
    fn close(&mut self) {
        (self.endpoint, self.due) = (None, true);
    }
}

/// Serves clients until `interrupted` is set; `tell` is called with one line per event.
pub fn serve(
    listener: &TcpListener,
    key: &Key,
    (site, mut presence): (&Site, Presence),
    interrupted: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    while !interrupted.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, from)) => {
                presence.close();
                stream.set_nonblocking(false)?;
                let outcome = one_client(stream, key, site, interrupted);
                let text = outcome.map_or_else(|error| error.to_string(), |()| "done".into());
                tell(&format!("client {from}: {text}"));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                presence.progress();
                std::thread::sleep(Duration::from_millis(20))
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn one_client(
    stream: TcpStream,
    key: &Key,
    site: &Site,
    interrupted: &AtomicBool,
) -> Result<(), ControlError> {
    let mut session = control::accept(stream, key)?;
    loop {
        let request = match next(&mut session, IDLE_TIMEOUT, interrupted) {
            Err(ControlError::Closed) => return Ok(()),
            other => other?,
        };
        let Some(request) = request else { return Ok(()) };
        let reply = match request {
            Request::Describe => Reply::Description(Box::new(environment::describe(site))),
            Request::Baseline(ms) => {
                match cost::baseline(Duration::from_millis(ms.min(LONGEST_BASELINE))) {
                    Ok(baseline) => Reply::Baseline(baseline),
                    Err(error) => failed(&error.to_string()),
                }
            }
            Request::Run { task, address } => {
                let Some(reply) = repetition(&mut session, site, &task, &address, interrupted)?
                else {
                    return Ok(());
                };
                reply
            }
            Request::Soak(soak) => {
                match crate::soak::answer::answer(&mut session, site, &soak, interrupted)? {
                    Some(reply) => reply,
                    None => return Ok(()),
                }
            }
            Request::Finish { .. } | Request::Cancel | Request::Watch { .. } => {
                failed("nothing is running")
            }
        };
        session.send(&reply)?;
    }
}

/// The next request; `None` when the server is to end.
pub(crate) fn next(
    session: &mut Session,
    timeout: Duration,
    interrupted: &AtomicBool,
) -> Result<Option<Request>, ControlError> {
    let deadline = Instant::now() + timeout;
    while Instant::now() < deadline {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if session.readable(LOOK).map_err(ControlError::Io)? {
            return session.receive(GRACE).map(Some);
        }
    }
    Err(ControlError::Silent("ask for anything"))
}

/// One repetition. The reply is the one that ends it; `None` when the server is to end.
fn repetition(
    session: &mut Session,
    site: &Site,
    task: &Task,
    peer: &Address,
    interrupted: &AtomicBool,
) -> Result<Option<Reply>, ControlError> {
    let (transport, opening) = match open(site, task) {
        Ok(opened) => opened,
        Err(error) => return Ok(Some(refusal(&error))),
    };
    session.send(&Reply::Ready(opening.address()))?;
    let abort = AtomicBool::new(false);
    let signals = Signals::new(&abort);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| answer(transport, opening, site, task, peer, &signals));
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
        // A panic is a bug of a transport; it ends the repetition, and the message is on standard error.
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

/// Checks a task before anything is done for it.
fn open(
    site: &Site,
    task: &Task,
) -> Result<(&'static dyn Transport, Box<dyn Opening>), TransportError> {
    let refused = |why: &str| TransportError::Unavailable(why.to_owned());
    let transport =
        transport::by_name(&task.transport).ok_or_else(|| refused("unknown transport"))?;
    let times = 0.0..=LONGEST_REPETITION;
    if !times.contains(&task.warmup) || !times.contains(&task.measure) {
        return Err(refused("a repetition may not take so long"));
    }
    task.setting.check().map_err(|why| refused(&why))?;
    if !(4..=LARGEST_MESSAGE.min(transport.largest(site.mtu))).contains(&task.size) {
        return Err(refused(
            "the server's interface cannot carry messages of this size; set the same MTU on both ends",
        ));
    }
    if !transport.experiments().contains(&task.experiment)
        || !transport.waits().contains(&task.wait)
    {
        return Err(refused("this transport cannot do that"));
    }
    Ok((transport, transport.open(site, task, Side::Server)?))
}

/// The measuring thread.
fn answer(
    transport: &dyn Transport,
    opening: Box<dyn Opening>,
    site: &Site,
    task: &Task,
    peer: &Address,
    signals: &Signals<'_>,
) -> Result<Answered, ProbeError> {
    site.pin().map_err(TransportError::io("pinning the measuring thread"))?;
    let mut probe = opening.join(peer)?;
    let meter = Meter::new(site);
    match task.experiment {
        Experiment::Stream => probe.drain(task, &meter, signals, transport.reliable()),
        // An idle end would answer, too, if anything came.
        _ => probe.echo(task, &meter, signals),
    }
}

fn refusal(error: &TransportError) -> Reply {
    let unavailable = matches!(error, TransportError::Unavailable(_));
    Reply::Failed { reason: error.to_string(), unavailable }
}

pub(crate) fn failed(reason: &str) -> Reply {
    Reply::Failed { reason: reason.to_owned(), unavailable: false }
}
