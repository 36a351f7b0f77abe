//! The answering end: one client at a time, one repetition at a time; the others wait for their
//! turn.
//!
//! Three kinds of threads. The *event loop*, in [`serve`], accepts connections, keeps the queue,
//! sends queue updates, and answers `gigae discover` while no client is served. Each *handshake*
//! has its own thread, of bounded number and time, so that a stranger delays no client. The *turn*
//! of the first client in the queue (`serve/client.rs`) measures; the event loop sleeps beside it
//! and wakes for what comes.
//!
//! A client that vanishes, lies or asks for too much ends its own session only.

mod admission;
mod client;
mod config;
mod gather;
mod metrics;
mod presence;
mod ready;
mod rights;

pub use config::{AddressRange, CONFIG, File, FileError, ServeConfig, parse_rate};
pub use presence::Presence;
pub use rights::confine;

use admission::{Admission, Refusals};
use client::ServeContext;
use gigae_eval_measure::site::Site;
use gigae_eval_session::control;
use gigae_eval_session::control::answering::{ENDED, LOOK};
use gigae_eval_session::control::{
    ControlError, Key, QUEUE_UPDATE_EVERY, Reply, Request, Session, Waiting,
};
use metrics::{ClientResult, Counts};
use ready::readable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// How often the event loop looks at questions of `gigae discover`, and for how long it receives
/// from a waiting client.
const ANSWER_EVERY: Duration = Duration::from_millis(20);

/// Handshakes that go on at once, in all and for one source; more are closed at once.
const MOST_HANDSHAKES: usize = 32;
const MOST_OF_ONE: usize = 8;

/// Clients that wait; more are sent away.
const MOST_WAITING: usize = 32;

/// What a server is made of.
pub struct Service<'a> {
    /// Where clients connect.
    pub listener: &'a TcpListener,
    /// What they must have.
    pub key: &'a Key,
    /// The measured interface.
    pub site: &'a Site,
    /// Whether it can be found.
    pub presence: Presence,
    /// What clients may do.
    pub config: ServeConfig,
    /// Where its figures can be read.
    pub metrics: Option<&'a TcpListener>,
}

/// Serves clients until `interrupted` is set, which ends it within a second or so. It calls `log`
/// with one line per event.
pub fn serve(
    service: Service<'_>,
    interrupted: &AtomicBool,
    log: &mut dyn FnMut(&str),
) -> io::Result<()> {
    let Service { listener, key, site, presence, config, metrics } = service;
    let counts = &Counts::default();
    listener.set_nonblocking(true)?;
    let (waker, wake) = UnixStream::pair()?;
    for end in [&waker, &wake] {
        end.set_nonblocking(true)?;
    }
    let (sender, events) = channel();
    let ServeConfig { limits, programs, tuning, ref files, .. } = config;
    let files = files.clone();
    let files = files.as_deref();
    let context = ServeContext { site, limits, programs, tuning, files, counts, interrupted };
    let event_sender = EventSender { sender, waker };
    std::thread::scope(|scope| {
        if let Some(metrics) = metrics {
            metrics.set_nonblocking(true)?;
            scope.spawn(|| metrics::answer(metrics, counts, interrupted));
        }
        let mut event_loop = EventLoop {
            key,
            config,
            context: &context,
            presence,
            event_sender,
            admission: Admission::new(Instant::now()),
            refusals: Refusals::default(),
            handshakes: Vec::new(),
            queue: VecDeque::new(),
            turn: None,
            log,
        };
        let mut outcome = Ok(());
        while !interrupted.load(Ordering::Relaxed) {
            outcome = event_loop.sleep(listener, &wake).and_then(|()| event_loop.accept(listener));
            if outcome.is_err() {
                // The other threads end, too.
                interrupted.store(true, Ordering::Relaxed);
                break;
            }
            event_loop.events(&events);
            event_loop.send_queue_updates();
            // A turn may have ended because the server does: then there is no next one.
            if !interrupted.load(Ordering::Relaxed) {
                event_loop.next(scope);
            }
        }
        for client in &mut event_loop.queue {
            // A client that does not get it sees the connection end.
            let _ = client.session.send(&Reply::Over { reason: ENDED.into() });
        }
        outcome
    })
}

/// What other threads report to the event loop.
enum Event {
    /// A handshake is over.
    Handshake(SocketAddr, Result<Session, ControlError>),
    /// A turn is over.
    Left(TurnEnd),
}

/// How a turn ended.
enum TurnEnd {
    /// The client was done.
    Done,
    /// The session ended with an error.
    Failed(ControlError),
    /// The thread of the turn panicked.
    Panicked,
}

/// Sends the event loop an event and wakes it.
struct EventSender {
    sender: Sender<Event>,
    waker: UnixStream,
}

impl EventSender {
    fn send(&self, event: Event) {
        // An event loop that is gone wants to know nothing, and a full socket wakes it as well.
        let _ = self.sender.send(event);
        let _ = (&self.waker).write(&[0]);
    }

    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { sender: self.sender.clone(), waker: self.waker.try_clone()? })
    }
}

/// A client that waits for its turn.
struct WaitingClient {
    from: SocketAddr,
    session: Session,
    /// The last queue update that it got: the number of clients before it, and when.
    last_update: Option<(usize, Instant)>,
}

struct EventLoop<'a, 'context> {
    key: &'a Key,
    config: ServeConfig,
    context: &'context ServeContext<'context>,
    presence: Presence,
    event_sender: EventSender,
    admission: Admission,
    refusals: Refusals,
    /// Sources of the connections that are in their handshake.
    handshakes: Vec<IpAddr>,
    queue: VecDeque<WaitingClient>,
    /// Who is served, since when.
    turn: Option<(SocketAddr, Instant)>,
    log: &'a mut dyn FnMut(&str),
}

impl<'context> EventLoop<'_, 'context> {
    /// Until something comes, or it is time to look around.
    fn sleep(&mut self, listener: &TcpListener, wake: &UnixStream) -> io::Result<()> {
        let often = self.turn.is_none() && self.presence.is_open();
        let mut timeout = if often { ANSWER_EVERY } else { LOOK };
        let mut wanted = vec![PollFd::new(wake, PollFlags::IN)];
        if self.admission.is_open(Instant::now()) {
            wanted.push(PollFd::new(listener, PollFlags::IN));
        } else {
            timeout = timeout.min(self.admission.wait());
        }
        wanted.extend(self.queue.iter().map(|client| PollFd::new(&client.session, PollFlags::IN)));
        match poll(&mut wanted, Timespec::try_from(timeout).ok().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Whatever rang is looked at now.
        while matches!((&*wake).read(&mut [0; 64]), Ok(1..)) {}
        Ok(())
    }

    /// Accepts the connections that have come, as far as the token bucket allows.
    fn accept(&mut self, listener: &TcpListener) -> io::Result<()> {
        let due = self.refusals.due(Instant::now());
        due.into_iter().for_each(|line| (self.log)(&line));
        while self.admission.is_open(Instant::now()) {
            match listener.accept() {
                Ok((stream, from)) => {
                    self.admission.pass();
                    let stream = match &self.context.site.shared_port {
                        Some(shared_port) => shared_port.take(from, stream),
                        None => Some(stream),
                    };
                    let arrived = stream.map_or(Ok(()), |stream| self.arrive(stream, from));
                    if let Err(error) = arrived {
                        self.refuse(ClientResult::Failed, from, &format!("no handshake: {error}"));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                // All descriptors are in use: some will be free again.
                Err(error)
                    if [Some(libc::EMFILE), Some(libc::ENFILE)].contains(&error.raw_os_error()) =>
                {
                    std::thread::sleep(LOOK);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A stranger is sent away. Strangers decide how often, so the log has sums only.
    fn refuse(&mut self, result: ClientResult, from: SocketAddr, why: &str) {
        self.context.counts.count(result);
        debug!(%from, ?result, why, "client refused");
        let line = self.refusals.add(Instant::now(), format!("client {from}: {why}"));
        line.into_iter().for_each(|line| (self.log)(&line));
    }

    /// A connection: a handshake, if it may have one.
    fn arrive(&mut self, stream: TcpStream, from: SocketAddr) -> io::Result<()> {
        if !self.config.admit(from.ip()) {
            self.refuse(ClientResult::Address, from, "not among the addresses that may come");
            return Ok(());
        }
        let source = source(from.ip());
        let of_one = self.handshakes.iter().filter(|other| **other == source).count();
        if self.handshakes.len() >= MOST_HANDSHAKES || of_one >= MOST_OF_ONE {
            self.refuse(ClientResult::Unproved, from, "too many handshakes at once");
            return Ok(());
        }
        debug!(%from, "client connected");
        stream.set_nonblocking(false)?;
        let (key, event_sender) = (self.key.clone(), self.event_sender.try_clone()?);
        let gone_after = self.config.gone_after;
        let handshake = move || {
            let session = control::accept(stream, &key)
                .and_then(|session| session.gone_after(gone_after).map(|()| session));
            event_sender.send(Event::Handshake(from, session));
        };
        // The server does not wait for it at its own end: the handshake is bounded in time.
        std::thread::Builder::new().name("handshake".into()).spawn(handshake)?;
        self.handshakes.push(source);
        Ok(())
    }

    fn events(&mut self, events: &Receiver<Event>) {
        while let Ok(event) = events.try_recv() {
            match event {
                Event::Handshake(from, session) => {
                    let source = source(from.ip());
                    if let Some(place) = self.handshakes.iter().position(|one| *one == source) {
                        self.handshakes.swap_remove(place);
                    }
                    match session {
                        Ok(session) => self.join(from, session),
                        Err(error) => self.refuse(ClientResult::Unproved, from, &error.to_string()),
                    }
                }
                Event::Left(outcome) => {
                    let Some((from, _)) = self.turn.take() else { continue };
                    match outcome {
                        TurnEnd::Done => self.leave(from, ClientResult::Done, "done"),
                        TurnEnd::Failed(error @ ControlError::Over(_)) => {
                            self.leave(from, ClientResult::Limited, &error.to_string());
                        }
                        TurnEnd::Failed(error) => {
                            self.leave(from, ClientResult::Failed, &error.to_string());
                        }
                        TurnEnd::Panicked => {
                            self.leave(from, ClientResult::Failed, "its thread panicked");
                        }
                    }
                }
            }
        }
    }

    fn leave(&mut self, from: SocketAddr, result: ClientResult, text: &str) {
        self.context.counts.count(result);
        info!(%from, ?result, text, "client left");
        (self.log)(&format!("client {from}: {text}"));
    }

    /// A client with the key.
    fn join(&mut self, from: SocketAddr, mut session: Session) {
        info!(%from, before = self.queue.len(), "client has the key");
        if self.queue.len() < MOST_WAITING {
            return self.queue.push_back(WaitingClient { from, session, last_update: None });
        }
        let reason = format!("{MOST_WAITING} clients wait already; come again later");
        let _ = session.send(&Reply::Over { reason: reason.clone() });
        self.leave(from, ClientResult::Limited, &reason);
    }

    /// Sends each waiting client its place when that changes, and every [`QUEUE_UPDATE_EVERY`].
    /// Removes clients that are gone.
    fn send_queue_updates(&mut self) {
        let mut place = 0;
        while place < self.queue.len() {
            let before = place + usize::from(self.turn.is_some());
            let waiting = self.waiting(before);
            match self.queue[place].attend(before, &waiting) {
                Ok(()) => place += 1,
                Err(error) => {
                    let from = self.queue.remove(place).map(|client| client.from);
                    let text = format!("gone before its turn: {error}");
                    from.into_iter().for_each(|from| self.leave(from, ClientResult::Failed, &text));
                }
            }
        }
        self.context.counts.queue(self.turn.is_some(), self.queue.len());
    }

    fn waiting(&self, before: usize) -> Waiting {
        let served = self.turn.map_or(0.0, |(_, since)| since.elapsed().as_secs_f64());
        let most = self.config.limits.seconds;
        Waiting {
            before: u32::try_from(before).unwrap_or(u32::MAX),
            served,
            at_most: most.map(|most| (most * before as f64 - served).max(0.0)),
        }
    }

    /// Serves the first of the queue if no client is served, in a separate thread.
    fn next<'scope>(&mut self, scope: &'scope Scope<'scope, '_>)
    where
        'context: 'scope,
    {
        if self.turn.is_some() {
            return;
        }
        if self.queue.is_empty() {
            return self.presence.progress();
        }
        // Without a descriptor for it, it is tried again.
        let event_sender = self.event_sender.try_clone().ok();
        let client = event_sender.and_then(|sender| Some((sender, self.queue.pop_front()?)));
        let Some((event_sender, mut client)) = client else { return };
        self.presence.close();
        info!(from = %client.from, "client is served");
        self.turn = Some((client.from, Instant::now()));
        let context = self.context;
        scope.spawn(move || {
            let turn = || client::serve(&mut client.session, context);
            let outcome = catch_unwind(AssertUnwindSafe(turn));
            event_sender.send(Event::Left(match outcome {
                Ok(Ok(())) => TurnEnd::Done,
                Ok(Err(error)) => TurnEnd::Failed(error),
                Err(_) => TurnEnd::Panicked,
            }));
        });
    }
}

impl WaitingClient {
    /// Sees whether the client is there, and sends it a queue update if one is due. The client
    /// sends nothing before its turn.
    fn attend(&mut self, before: usize, waiting: &Waiting) -> Result<(), ControlError> {
        if pending(&self.session) {
            return match self.session.receive::<Request>(ANSWER_EVERY) {
                Ok(_) => Err(ControlError::Garbled("something before its turn")),
                Err(error) => Err(error),
            };
        }
        let is_old =
            |(sent, at): (usize, Instant)| sent != before || at.elapsed() >= QUEUE_UPDATE_EVERY;
        let due = self.last_update.is_none_or(is_old);
        if before > 0 && due {
            self.session.send(&Reply::Waiting(*waiting))?;
            self.last_update = Some((before, Instant::now()));
        }
        Ok(())
    }
}

/// The source that connections from this address count for: the address itself or, of IPv6, its /64
/// network. Who has one address of such a network has all of them.
fn source(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// Whether there is something to read, or an end, now.
fn pending(session: &Session) -> bool {
    readable(session, Duration::ZERO)
}
