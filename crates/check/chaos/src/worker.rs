//! The workload: a process that sends and receives numbered messages until it gets the command to
//! end, through every fault of its link, and reports each on standard output.
//!
//! It does what a careful program would: what was accepted is not sent again, failures are taken,
//! an interface that is down is waited for, and an endpoint that will not work any more is opened
//! again. Commands come on standard input, one a line; when that ends, so does the process.

mod remote;

use crate::event::{Event, EventKind, Named, Operation, TaggedReceive, now};
use crate::replay::ROOM;
use clap::Args;
use gigae::{
    Address, Backend, Completion, DrainError, Endpoint, Envelope, LinkError, Memory, Message, Mode,
    OpError, OpId, Options, Peer, RecvError, SendError, Started, TrySendError, Wait, Wanted,
};
use gigae_torture::body::{self, Id, NAMED, mix};
use gigae_torture::{tag, tagged_body};
use remote::RemoteWorker;
use std::collections::HashMap;
use std::fmt::Debug;
use std::io::{BufRead, BufWriter, Stdout, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

/// Its UDP port, where that is the envelope.
pub const PORT: u16 = 4791;

/// Pause before a call that failed is made again.
const AGAIN: Duration = Duration::from_millis(5);

/// Tagged messages that are on their way at once, and receives that wait for some.
const MOST_STARTED: usize = 3;
const MOST_POSTED: usize = 4;

/// Most messages that are held at once.
const MOST_HELD: usize = 4096;

/// How a workload speaks.
#[derive(Args, Clone, Debug)]
pub struct WorkArgs {
    /// Number of this node, 0 or 1.
    #[arg(long)]
    pub me: u16,
    /// How often it was opened before.
    #[arg(long)]
    pub life: u16,
    /// The other's address.
    #[arg(long)]
    pub peer: Address,
    /// `generic`, `native`, `packet` or `udp`.
    #[arg(long)]
    pub backend: String,
    /// In the UDP envelope.
    #[arg(long)]
    pub udp: bool,
    /// Interfaces that it uses as one: `eth0` and so on.
    #[arg(long, default_value_t = 1)]
    pub links: u16,
    /// `sleep` or `adaptive`.
    #[arg(long)]
    pub wait: String,
    /// Peer timeout in milliseconds.
    #[arg(long)]
    pub timeout: u64,
    /// What sizes follow from.
    #[arg(long)]
    pub seed: u64,
}

impl WorkArgs {
    fn options(&self) -> Options {
        let backend = match &self.backend[..] {
            "generic" => Backend::XdpMode(Mode::XdpGeneric),
            "native" => Backend::XdpMode(Mode::XdpNative),
            "udp" => Backend::Udp,
            _ => Backend::Packet,
        };
        let envelope = if self.udp { Envelope::Udp { port: PORT } } else { Envelope::DEFAULT };
        let wait = if self.wait == "sleep" { Wait::Sleep } else { Wait::Adaptive };
        let timeout = Duration::from_millis(self.timeout);
        let trunk = Options::trunk((0..self.links).map(|link| format!("eth{link}")));
        trunk.backend(backend).envelope(envelope).wait(wait).peer_timeout(timeout)
    }
}

/// A command from outside.
enum WorkerCommand {
    /// Send no more; say when all is acknowledged.
    Stop,
    /// Send again.
    Go,
    /// For this many milliseconds, keep every message that arrives.
    Hold(u64),
    /// For this many milliseconds, make no call.
    Freeze(u64),
    /// Say how often links were given up and came back.
    Paths,
    /// Read what is there and end.
    Quit,
}

fn commands() -> Receiver<WorkerCommand> {
    let (send, commands) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let (word, number) = line.split_once(' ').unwrap_or((&line, ""));
            let number = number.parse().unwrap_or(0);
            let command = match word {
                "stop" => WorkerCommand::Stop,
                "go" => WorkerCommand::Go,
                "hold" => WorkerCommand::Hold(number),
                "freeze" => WorkerCommand::Freeze(number),
                "paths" => WorkerCommand::Paths,
                _ => WorkerCommand::Quit,
            };
            if send.send(command).is_err() {
                return;
            }
        }
        // The parent process is gone.
        std::process::exit(1);
    });
    commands
}

/// Why a life ended.
enum ExitReason {
    Quit,
    Broken,
}

struct Worker {
    args: WorkArgs,
    commands: Receiver<WorkerCommand>,
    out: BufWriter<Stdout>,
    life: u16,
    /// Number of the next message of this life.
    next: u32,
    sending: bool,
    drained: bool,
    quit: bool,
    /// The last call failed for the link's sake: how.
    failing: Option<&'static str>,
    scratch: Vec<u8>,
    /// Operations that are going on, and their numbers.
    pending: HashMap<OpId, Pending>,
    /// Number of the next tagged message, and of the next receive.
    next_tagged: u32,
    next_post: u32,
    remote: RemoteWorker,
    walltime: SystemTime,
    jumps: u64,
}

/// An operation that is going on.
#[derive(Clone, Copy)]
enum Pending {
    Send(u32),
    Receive(u32),
    /// The own key is on its way; the other's is awaited.
    SendKey,
    ReceiveKey,
    /// On the memory of that life of the other.
    Remote(u32, u16, Operation),
}

/// Runs the workload until it gets the command to end.
pub fn work(args: WorkArgs) {
    gigae::log_to_stderr();
    let mut worker = Worker {
        life: args.life,
        args,
        commands: commands(),
        out: BufWriter::with_capacity(1 << 16, std::io::stdout()),
        next: 0,
        sending: true,
        drained: false,
        quit: false,
        failing: None,
        scratch: Vec::new(),
        pending: HashMap::new(),
        next_tagged: 0,
        next_post: 0,
        remote: RemoteWorker::default(),
        walltime: SystemTime::now(),
        jumps: 0,
    };
    while let Some(endpoint) = worker.open() {
        let end = worker.live(&endpoint);
        let counters = endpoint.counters();
        let (link, repeated) = (counters.link, counters.protocol.retransmissions);
        worker.say_memory(&endpoint);
        worker.say_paths(&endpoint);
        drop(endpoint);
        worker.say(EventKind::Counted(link.tx_frames, link.rx_frames, repeated, link.rx_dropped));
        worker.say(EventKind::Gone);
        worker.flush();
        worker.life += 1;
        if let ExitReason::Quit = end {
            break;
        }
    }
}

fn kind(error: &LinkError) -> &'static str {
    match error {
        LinkError::Down(_) => "down",
        LinkError::Gone(_) => "gone",
        LinkError::Detached(_) => "detached",
        _ => "other",
    }
}

impl Worker {
    fn say(&mut self, what: EventKind) {
        let at = now();
        if serde_json::to_writer(&mut self.out, &Event { at, what }).is_err()
            || self.out.write_all(b"\n").is_err()
        {
            std::process::exit(1);
        }
    }

    fn flush(&mut self) {
        if self.out.flush().is_err() {
            std::process::exit(1);
        }
    }

    /// Opens the endpoint, as often as it takes; `None` after the command to end.
    fn open(&mut self) -> Option<Endpoint> {
        let mut said = String::new();
        loop {
            match self.args.options().open() {
                Ok(endpoint) => {
                    self.say(EventKind::Opened(endpoint.link().mode.to_string()));
                    (self.next, self.failing, self.drained) = (0, None, false);
                    (self.next_tagged, self.next_post) = (0, 0);
                    self.pending.clear();
                    self.remote = RemoteWorker::new(&endpoint);
                    return Some(endpoint);
                }
                Err(error) if said != error.to_string() => {
                    said = error.to_string();
                    self.say(EventKind::Error("open".into(), said.clone()));
                }
                Err(_) => {}
            }
            self.flush();
            while let Some(command) = self.command() {
                self.obey_without_endpoint(command);
            }
            if self.quit {
                return None;
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn command(&mut self) -> Option<WorkerCommand> {
        self.commands.try_recv().ok()
    }

    fn obey_without_endpoint(&mut self, command: WorkerCommand) {
        match command {
            WorkerCommand::Stop => self.sending = false,
            WorkerCommand::Go => (self.sending, self.drained) = (true, false),
            WorkerCommand::Quit => self.quit = true,
            WorkerCommand::Hold(_) | WorkerCommand::Freeze(_) | WorkerCommand::Paths => {}
        }
    }

    fn live(&mut self, endpoint: &Endpoint) -> ExitReason {
        let mut peer = None;
        loop {
            self.mind_the_clock();
            while let Some(command) = self.command() {
                match command {
                    WorkerCommand::Hold(time) => self.hold(endpoint, Duration::from_millis(time)),
                    WorkerCommand::Freeze(time) => std::thread::sleep(Duration::from_millis(time)),
                    WorkerCommand::Paths => self.say_paths(endpoint),
                    other => self.obey_without_endpoint(other),
                }
            }
            let step = match (peer, self.sending) {
                (None, _) => match endpoint.peer(self.args.peer) {
                    Ok(found) => {
                        peer = Some(found);
                        Ok(())
                    }
                    Err(_) => self.receive(endpoint, AGAIN),
                },
                (Some(peer), true) => {
                    self.start_tagged(endpoint, peer);
                    self.introduce(endpoint, peer);
                    self.operate(endpoint, peer);
                    self.send(endpoint, peer)
                }
                (Some(_), false) => self.drain(endpoint),
            };
            let pause = if self.sending { 2 } else { 100 };
            let step = step.and_then(|()| self.receive(endpoint, Duration::from_millis(pause)));
            let step = step.and_then(|()| self.complete(endpoint));
            self.flush();
            match step {
                Ok(()) if self.quit => return ExitReason::Quit,
                Ok(()) if self.failing.is_some() => {
                    self.failing = None;
                    self.say(EventKind::Recovered);
                }
                Ok(()) => {}
                Err(error) => {
                    if self.failing != Some(kind(&error)) {
                        self.say(EventKind::Error(kind(&error).into(), error.to_string()));
                        self.flush();
                    }
                    self.failing = Some(kind(&error));
                    if self.quit || !matches!(error, LinkError::Down(_)) {
                        return if self.quit { ExitReason::Quit } else { ExitReason::Broken };
                    }
                    std::thread::sleep(AGAIN);
                }
            }
        }
    }

    /// Sends some messages, as far as there is room.
    fn send(&mut self, endpoint: &Endpoint, peer: Peer) -> Result<(), LinkError> {
        let (from, to) = (self.args.me, 1 - self.args.me);
        let draw = mix(self.args.seed ^ u64::from(self.next) << 8 ^ u64::from(self.life));
        let count = 1 + draw % 12;
        let lens: Vec<u16> = (0..count)
            .map(|n| {
                let (most, draw) = (endpoint.max_message() as u64, mix(draw + n));
                let most = if draw.is_multiple_of(3) { 128 } else { most };
                (NAMED as u64 + (draw >> 8) % (most - NAMED as u64 + 1)) as u16
            })
            .collect();
        self.say(EventKind::Intent(self.next, lens.clone()));
        self.flush();
        let mut outcome = Ok(());
        for len in lens {
            let id = Id { from, life: self.life, to, number: self.next };
            let mut bytes = vec![0; len.into()];
            body::write(id, &mut bytes);
            match endpoint.try_send(peer, &bytes) {
                Ok(()) => self.next += 1,
                Err(TrySendError::WouldBlock(())) => break,
                Err(TrySendError::Refused(SendError::Failed)) => {
                    self.say(EventKind::Accepted(self.next));
                    self.take_failures(endpoint);
                    return Ok(());
                }
                Err(TrySendError::Refused(SendError::Link(error))) => {
                    outcome = Err(error);
                    break;
                }
                Err(TrySendError::Refused(other)) => {
                    self.say(EventKind::Error("refused".into(), other.to_string()));
                    break;
                }
            }
        }
        self.say(EventKind::Accepted(self.next));
        outcome
    }

    /// Notes an operation that was started, if it was.
    fn enter(&mut self, started: Started, pending: Pending) -> bool {
        match started {
            Ok(op) => drop(self.pending.insert(op, pending)),
            Err(error) => {
                self.say(EventKind::Error("refused".into(), error.to_string()));
                return false;
            }
        }
        true
    }

    fn count(&self, which: fn(&Pending) -> bool) -> usize {
        self.pending.values().filter(|pending| which(pending)).count()
    }

    /// Starts a tagged message now and then: some go unasked, longer ones are offered, and some are
    /// longer than the receive has room for.
    fn start_tagged(&mut self, endpoint: &Endpoint, peer: Peer) {
        let draw = mix(self.args.seed ^ u64::from(self.next));
        if !draw.is_multiple_of(4)
            || self.count(|pending| matches!(pending, Pending::Send(_))) >= MOST_STARTED
        {
            return;
        }
        let len = (draw >> 8) as usize % [100, 30_000, ROOM + 2_000][(draw >> 40) as usize % 3];
        let (from, to, number) = (self.args.me, 1 - self.args.me, self.next_tagged);
        let id = Id { from, life: self.life, to, number };
        self.next_tagged += 1;
        self.say(EventKind::Started(number, len));
        self.flush();
        let started = endpoint.start_send(peer, tag(0, id), tagged_body(id, len));
        self.enter(started, Pending::Send(number));
    }

    /// Takes what was completed, and keeps some receives posted.
    fn complete(&mut self, endpoint: &Endpoint) -> Result<(), LinkError> {
        loop {
            while self.count(|pending| matches!(pending, Pending::Receive(_))) < MOST_POSTED {
                let index = self.next_post;
                self.next_post += 1;
                let started = endpoint.start_recv(Wanted::ANY, vec![0; ROOM]);
                self.enter(started, Pending::Receive(index));
            }
            self.take_notices(endpoint);
            match endpoint.try_completion() {
                Ok(Some(completion)) => self.completed(completion),
                Ok(None) | Err(RecvError::Failed) => return Ok(()),
                Err(RecvError::Link(error)) => return Err(error),
                Err(other) => self.say(EventKind::Error("refused".into(), other.to_string())),
            }
        }
    }

    fn completed(&mut self, completion: Completion) {
        let pending = self.pending.remove(&completion.id);
        if let Some(Pending::Remote(number, of, operation)) = pending {
            return self.done(number, of, operation, completion);
        }
        let Completion { tag, len, total, memory, result, .. } = completion;
        match pending {
            Some(Pending::SendKey) => self.key_sent(result),
            Some(Pending::ReceiveKey) => {
                let memory = memory.and_then(Memory::into_vec).unwrap_or_default();
                self.key_received(&memory, result);
            }
            Some(Pending::Send(number)) => self.say(EventKind::Ended(number, result.is_ok())),
            Some(Pending::Receive(index)) => {
                let lost = !matches!(result, Ok(()) | Err(OpError::Truncated));
                let (life, number) = ((tag >> 48) as u16, tag as u32);
                let id = Id { from: 1 - self.args.me, life, to: self.args.me, number };
                let memory = memory.and_then(Memory::into_vec).unwrap_or_default();
                let right = lost || memory.get(..len) == tagged_body(id, total).get(..len);
                self.say(match right {
                    true => EventKind::Tagged(TaggedReceive { index, tag, len, total, lost }),
                    false => EventKind::Torn(total),
                });
            }
            Some(Pending::Remote(..)) | None => self.say(EventKind::Torn(total)),
        }
    }

    /// Takes what arrives for so long.
    fn receive(&mut self, endpoint: &Endpoint, time: Duration) -> Result<(), LinkError> {
        let end = Instant::now() + time;
        loop {
            match endpoint.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Some(message)) => self.note(&message),
                Ok(None) => return Ok(()),
                Err(RecvError::Failed) => self.take_failures(endpoint),
                Err(RecvError::Link(error)) => return Err(error),
                Err(other) => self.say(EventKind::Error("refused".into(), other.to_string())),
            }
        }
    }

    fn note(&mut self, message: &Message<'_>) {
        let what = match body::name(message) {
            Some(id) if body::is(id, message, &mut self.scratch) => {
                EventKind::Received(Named(id, message.len() as u16))
            }
            _ => EventKind::Torn(message.len()),
        };
        self.say(what);
    }

    /// Takes all messages that failed.
    fn take_failures(&mut self, endpoint: &Endpoint) {
        let (mut messages, mut reason) = (Vec::new(), String::new());
        while let Some(failed) = endpoint.take_failure() {
            reason = word(&failed.reason());
            match body::name(&failed) {
                Some(id) if body::is(id, &failed, &mut self.scratch) => {
                    messages.push(Named(id, failed.len() as u16));
                }
                _ => self.say(EventKind::Torn(failed.len())),
            }
        }
        if !messages.is_empty() {
            self.say(EventKind::Failed(reason, messages));
        }
    }

    /// Waits until all is acknowledged or failed, and says so once.
    fn drain(&mut self, endpoint: &Endpoint) -> Result<(), LinkError> {
        if self.drained {
            return Ok(());
        }
        match endpoint.drain(Duration::from_millis(20)) {
            Ok(()) => {
                self.drained = true;
                self.say(EventKind::Drained);
                Ok(())
            }
            Err(DrainError::Failed) => {
                self.take_failures(endpoint);
                Ok(())
            }
            Err(DrainError::Link(error)) => Err(error),
            Err(_) => Ok(()),
        }
    }

    /// Keeps all messages that arrive, for so long.
    fn hold(&mut self, endpoint: &Endpoint, time: Duration) {
        let end = Instant::now() + time;
        let mut held = Vec::new();
        while Instant::now() < end {
            match endpoint.try_recv() {
                Ok(Some(message)) if held.len() < MOST_HELD => {
                    self.note(&message);
                    held.push(message);
                }
                Ok(Some(message)) => self.note(&message),
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn say_paths(&mut self, endpoint: &Endpoint) {
        let paths = endpoint.paths();
        let sum = |of: fn(&gigae::PathStatistics) -> u64| paths.iter().map(of).sum();
        self.say(EventKind::Paths(
            sum(|path| path.counters.deaths),
            sum(|path| path.counters.returns),
        ));
    }

    fn mind_the_clock(&mut self) {
        let now = SystemTime::now();
        let forward = now.duration_since(self.walltime).unwrap_or_default();
        let back = self.walltime.duration_since(now).unwrap_or_default();
        self.walltime = now;
        if forward.max(back) > Duration::from_secs(600) {
            self.jumps += 1;
            self.say(EventKind::Jumped(self.jumps));
        }
    }
}

/// The first word of what `Debug` writes.
fn word(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}
