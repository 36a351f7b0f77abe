//! The GigaE side of a soak: plain messages, tagged messages and remote memory with all peers of
//! one endpoint, in one thread.

use super::check::{check_message, counters};
use super::round_state::RoundState;
use ::gigae::{
    Completion, Endpoint, LinkError, Memory, Notice, OpId, Peer, RecvError, RegionKey, Rights,
    SendError, TrySendError, Wanted,
};
use gigae_body::Id;
use gigae_eval_model::soak::DeviationKind;
use gigae_eval_model::traffic::{Budget, EndNumbers, Pacer, REGION, Stream, Traffic};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest sleep: how late a stop is noticed.
const NAP: Duration = Duration::from_millis(20);

/// Messages sent to or received from all without a look at anything else.
const IN_A_ROW: usize = 64;

/// Tagged messages under way to a peer, and receives posted ahead.
const AHEAD: usize = 2;

/// How often the endpoint's counters are published.
const PUBLISH: Duration = Duration::from_millis(500);

/// A counter of eight bytes behind the memory that is written to.
const COUNTER: u64 = REGION as u64;

/// Registers the memory that a peer may write to and count in.
pub fn register(endpoint: &Endpoint) -> Result<RegionKey, String> {
    endpoint.register(vec![0; REGION + 8], Rights::ALL).map_err(|error| error.to_string())
}

/// A peer, as [`Worker::new`] wants it.
pub struct SoakPeer {
    /// Its number.
    pub number: u8,
    /// At the endpoint.
    pub peer: Peer,
    /// The memory registered for it here.
    pub own: RegionKey,
    /// The memory that it registered for us.
    pub its: RegionKey,
    /// What may be sent to it.
    pub budget: Arc<Budget>,
}

/// How far the write to a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteState {
    Idle,
    Writing,
    Reading,
    /// Until the peer has counted it.
    Counted,
}

/// A peer and what is under way with it.
struct PeerState {
    other: SoakPeer,
    pacers: [Pacer; 3],
    /// Numbers of the next to be sent, by stream.
    next: [u32; 3],
    /// The next message and the next notice that must come.
    expected: u32,
    noticed: u32,
    /// The next tagged message for which a receive is posted.
    post: u32,
    posted: usize,
    going: usize,
    step: WriteState,
}

/// What an operation was started for.
#[derive(Clone, Copy, Debug)]
enum OperationPurpose {
    Send,
    Receive(u32),
    Write,
    Read,
    Count(u32),
}

/// All GigaE traffic of one end.
pub struct Worker<'a> {
    endpoint: &'a Endpoint,
    traffic: Traffic,
    here: u8,
    begin: Instant,
    round_state: &'a RoundState,
    peers: Vec<PeerState>,
    places: HashMap<Peer, usize>,
    started: HashMap<OpId, (usize, OperationPurpose)>,
    /// Memories that no operation has.
    free: Vec<Vec<u8>>,
    scratch: Vec<u8>,
    /// Whether the link is down, which is reported once.
    down: bool,
}

impl<'a> Worker<'a> {
    /// For an endpoint whose number is `here`. The places of `others` are those of the round's
    /// state.
    pub fn new(
        endpoint: &'a Endpoint,
        here: u8,
        others: Vec<SoakPeer>,
        traffic: &Traffic,
        begin: Instant,
        round_state: &'a RoundState,
    ) -> Self {
        let places = others.iter().enumerate().map(|(place, other)| (other.peer, place)).collect();
        let state = |other: SoakPeer| {
            let ends = EndNumbers { from: here, to: other.number };
            let pacer = |stream| Pacer::new(traffic, stream, ends, &other.budget);
            PeerState {
                pacers: [Stream::Message, Stream::Tagged, Stream::Memory].map(pacer),
                other,
                next: [0; 3],
                expected: 0,
                noticed: 0,
                post: 0,
                posted: 0,
                going: 0,
                step: WriteState::Idle,
            }
        };
        Self {
            endpoint,
            traffic: traffic.clone(),
            here,
            begin,
            round_state,
            peers: others.into_iter().map(state).collect(),
            places,
            started: HashMap::new(),
            free: Vec::new(),
            scratch: Vec::new(),
            down: false,
        }
    }

    /// Works until the round is over, or the link is gone.
    pub fn work(&mut self) -> Result<(), String> {
        let mut published = Duration::ZERO;
        while !self.round_state.is_over() {
            let now = self.begin.elapsed();
            self.round_state.at(now);
            if now >= published + PUBLISH {
                published = now;
                self.round_state.set_gigae(counters(&self.endpoint.counters()));
            }
            match self.turn(now) {
                Ok(()) => self.down = false,
                Err(LinkError::Down(name)) => {
                    // It may come back; whatever waits is repeated then.
                    if !std::mem::replace(&mut self.down, true) {
                        self.round_state
                            .found(DeviationKind::Link, format!("interface {name} is down"));
                    }
                    std::thread::sleep(NAP);
                }
                Err(error) => return Err(format!("gigae: {error}")),
            }
        }
        self.round_state.set_gigae(counters(&self.endpoint.counters()));
        Ok(())
    }

    fn turn(&mut self, now: Duration) -> Result<(), LinkError> {
        let mut busy = self.receive()?;
        busy |= self.completions()?;
        self.failures();
        let mut sleep = NAP;
        for place in 0..self.peers.len() {
            self.post(place);
            if self.peers[place].step == WriteState::Counted {
                self.counted(place);
            }
            if !self.round_state.is_quiet() {
                sleep = sleep.min(self.send(place, now)?);
            }
        }
        match self.endpoint.flush() {
            Err(SendError::Link(error)) => return Err(error),
            Err(_) => self.failures(),
            Ok(()) => {}
        }
        if busy { Ok(()) } else { self.sleep(sleep) }
    }

    /// Sleeps until a frame arrives, something is due here or at the endpoint.
    fn sleep(&self, longest: Duration) -> Result<(), LinkError> {
        let left = match self.endpoint.prepare_to_wait() {
            Ok(left) => left.map_or(longest, |left| left.min(longest)),
            Err(SendError::Link(error)) => return Err(error),
            Err(_) => Duration::ZERO,
        };
        let Some(fd) = self.endpoint.fd().filter(|_| !left.is_zero()) else { return Ok(()) };
        let timeout = Timespec::try_from(left).ok();
        // An interrupted sleep is a short one.
        let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], timeout.as_ref());
        Ok(())
    }

    /// Takes messages and notices; whether there were any.
    fn receive(&mut self) -> Result<bool, LinkError> {
        let mut busy = false;
        for _ in 0..IN_A_ROW {
            match self.endpoint.try_recv() {
                Ok(Some(message)) => {
                    busy = true;
                    if let Some(&place) = self.places.get(&message.from()) {
                        self.verify_message(place, &message);
                    }
                }
                Ok(None) => break,
                Err(RecvError::Link(error)) => return Err(error),
                Err(_) => self.failures(),
            }
        }
        loop {
            match self.endpoint.try_notice() {
                Ok(Some(notice)) => {
                    busy = true;
                    self.verify_notice(&notice);
                }
                Ok(None) => return Ok(busy),
                Err(RecvError::Link(error)) => return Err(error),
                Err(_) => self.failures(),
            }
        }
    }

    fn id(&self, stream: Stream, place: usize, number: u32) -> Id {
        self.traffic.id(stream, self.peers[place].other.number, self.here, number)
    }

    fn verify_message(&mut self, place: usize, message: &[u8]) {
        let id = self.id(Stream::Message, place, self.peers[place].expected);
        let size = self.traffic.size(Stream::Message, id);
        match check_message(id, size, message, &mut self.scratch) {
            Ok(()) => {
                self.peers[place].expected += 1;
                self.round_state.received(place, Stream::Message, size);
            }
            Err((kind, next, what)) => {
                let from = self.peers[place].other.number;
                self.round_state.found(kind, format!("messages from end {from}: {what}"));
                self.peers[place].expected = next;
            }
        }
    }

    /// Judges a write of a peer, and counts it there.
    fn verify_notice(&mut self, notice: &Notice) {
        let Some(&place) = self.places.get(&notice.peer) else { return };
        let (number, state) = (self.peers[place].noticed, &self.peers[place]);
        let id = self.id(Stream::Memory, place, number);
        let size = self.traffic.size(Stream::Memory, id);
        let offset = self.traffic.offset(id, size);
        let notified = (notice.value, notice.offset, notice.len as usize);
        let scratch = &mut self.scratch;
        let written = self.endpoint.with_region(state.other.own, |bytes| {
            gigae_body::is(id, &bytes[offset..offset + size], scratch)
        });
        let from = state.other.number;
        if notified != (u64::from(number), offset as u64, size) {
            self.round_state.found(
                DeviationKind::Order,
                format!("notice of write {number} from end {from} says {notified:?}"),
            );
        } else if written != Some(true) {
            self.round_state.found(
                DeviationKind::Torn,
                format!("write {number} from end {from}: other bytes than were written"),
            );
        } else {
            self.round_state.received(place, Stream::Memory, size);
        }
        self.peers[place].noticed = number + 1;
        // The peer reads it back.
        self.peers[place].other.budget.spend(size);
        let (peer, its) = (self.peers[place].other.peer, self.peers[place].other.its);
        match self.endpoint.start_fetch_add(peer, its, COUNTER, 1) {
            Ok(op) => drop(self.started.insert(op, (place, OperationPurpose::Count(number)))),
            Err(error) => {
                self.round_state.found(DeviationKind::Failed, format!("counting a write: {error}"))
            }
        }
    }

    /// Whether the peer has counted our last write.
    fn counted(&mut self, place: usize) {
        let state = &mut self.peers[place];
        let mut word = [0; 8];
        if !self.endpoint.read_region(state.other.own, REGION, &mut word) {
            return self
                .round_state
                .found(DeviationKind::Failed, "a registered memory cannot be read");
        }
        let number = &mut state.next[Stream::Memory as usize];
        if u64::from_le_bytes(word) > u64::from(*number) {
            *number += 1;
            state.step = WriteState::Idle;
        }
    }

    /// Keeps receives for tagged messages posted.
    fn post(&mut self, place: usize) {
        while self.peers[place].posted < AHEAD {
            let number = self.peers[place].post;
            let size = self.traffic.size(Stream::Tagged, self.id(Stream::Tagged, place, number));
            let mut memory = self.free.pop().unwrap_or_default();
            memory.clear();
            memory.resize(size, 0);
            let state = &mut self.peers[place];
            let wanted = Wanted::tag(number.into()).from(state.other.peer);
            match self.endpoint.start_recv(wanted, memory) {
                Ok(op) => drop(self.started.insert(op, (place, OperationPurpose::Receive(number)))),
                Err(error) => {
                    return self
                        .round_state
                        .found(DeviationKind::Failed, format!("posting a receive: {error}"));
                }
            }
            (state.post, state.posted) = (number + 1, state.posted + 1);
        }
    }

    /// Takes what has ended; whether anything had.
    fn completions(&mut self) -> Result<bool, LinkError> {
        let mut busy = false;
        loop {
            match self.endpoint.try_completion() {
                Ok(Some(completion)) => {
                    busy = true;
                    self.complete(completion);
                }
                Ok(None) => return Ok(busy),
                Err(RecvError::Link(error)) => return Err(error),
                Err(_) => self.failures(),
            }
        }
    }

    fn complete(&mut self, completion: Completion) {
        let Some((place, what)) = self.started.remove(&completion.id) else { return };
        let Completion { result, memory, value, len, total, .. } = completion;
        let memory = memory.and_then(Memory::into_vec).unwrap_or_default();
        let result = result.map_err(|error| error.to_string());
        let from = self.peers[place].other.number;
        let trouble = match (what, result) {
            // It waits for what never comes: the other end has left.
            (OperationPurpose::Receive(_), Err(_)) if self.round_state.is_quiet() => None,
            (_, Err(error)) => Some((
                DeviationKind::Failed,
                format!("an operation with end {from}, {what:?}: {error}"),
            )),
            (OperationPurpose::Receive(number), Ok(())) => {
                self.peers[place].posted -= 1;
                self.verify_tagged(place, number, &memory, len, total)
            }
            (OperationPurpose::Send, Ok(())) => None,
            (OperationPurpose::Write, Ok(())) => {
                self.read_back(place, memory);
                return;
            }
            (OperationPurpose::Read, Ok(())) => self.verify_read(place, &memory),
            (OperationPurpose::Count(number), Ok(())) => (value != u64::from(number)).then(|| {
                let what = format!("the counter of end {from} was {value} before write {number}");
                (DeviationKind::Order, what)
            }),
        };
        if matches!(what, OperationPurpose::Send) {
            self.peers[place].going -= 1;
        }
        if let Some((kind, what)) = trouble {
            self.round_state.found(kind, what);
        }
        if memory.capacity() > 0 {
            self.free.push(memory);
        }
    }

    fn verify_tagged(
        &mut self,
        place: usize,
        number: u32,
        memory: &[u8],
        len: usize,
        total: usize,
    ) -> Option<(DeviationKind, String)> {
        let id = self.id(Stream::Tagged, place, number);
        if len == memory.len() && total == len && gigae_body::is(id, memory, &mut self.scratch) {
            self.round_state.received(place, Stream::Tagged, len);
            return None;
        }
        let from = self.peers[place].other.number;
        let what = format!(
            "tagged message {number} from end {from} has {total} bytes of {}, or others than were sent",
            memory.len()
        );
        Some((DeviationKind::Torn, what))
    }

    fn read_back(&mut self, place: usize, mut memory: Vec<u8>) {
        let state = &mut self.peers[place];
        let number = state.next[Stream::Memory as usize];
        let id = self.traffic.id(Stream::Memory, self.here, state.other.number, number);
        let offset = self.traffic.offset(id, memory.len());
        memory.fill(0);
        match self.endpoint.start_read(state.other.peer, state.other.its, offset as u64, memory) {
            Ok(op) => {
                state.step = WriteState::Reading;
                self.started.insert(op, (place, OperationPurpose::Read));
            }
            Err(error) => {
                self.round_state.found(DeviationKind::Failed, format!("reading back: {error}"))
            }
        }
    }

    fn verify_read(&mut self, place: usize, memory: &[u8]) -> Option<(DeviationKind, String)> {
        let state = &mut self.peers[place];
        let (there, number) = (state.other.number, state.next[Stream::Memory as usize]);
        state.step = WriteState::Counted;
        let id = self.traffic.id(Stream::Memory, self.here, there, number);
        let good = gigae_body::is(id, memory, &mut self.scratch);
        let what = || format!("write {number} read back from end {there}: other bytes");
        (!good).then(|| (DeviationKind::Torn, what()))
    }

    /// Takes messages that were not acknowledged.
    fn failures(&self) {
        while let Some(failed) = self.endpoint.take_failure() {
            self.round_state.found(DeviationKind::Failed, failed.to_string());
        }
    }

    /// Sends what is due to a peer; the time until something more is.
    fn send(&mut self, place: usize, now: Duration) -> Result<Duration, LinkError> {
        let mut wait = self.send_messages(place, now)?;
        let state = &self.peers[place];
        for (stream, free) in [
            (Stream::Tagged, state.going < AHEAD),
            (Stream::Memory, state.step == WriteState::Idle),
        ] {
            if free && self.peers[place].pacers[stream as usize].due(now) {
                self.start(place, stream);
                wait = Duration::ZERO;
            } else if free {
                wait = wait.min(self.peers[place].pacers[stream as usize].wait(now));
            }
        }
        Ok(wait)
    }

    fn send_messages(&mut self, place: usize, now: Duration) -> Result<Duration, LinkError> {
        let state = &mut self.peers[place];
        let (pacer, number) = (&mut state.pacers[0], &mut state.next[0]);
        for _ in 0..IN_A_ROW {
            if !pacer.due(now) {
                return Ok(pacer.wait(now));
            }
            let id = self.traffic.id(Stream::Message, self.here, state.other.number, *number);
            let size = self.traffic.size(Stream::Message, id);
            // A full window or no buffer: later, and before that what has arrived.
            let Some(mut buffer) = self.endpoint.try_buffer() else { return Ok(NAP) };
            gigae_body::write(id, &mut buffer[..size]);
            match buffer.try_queue(state.other.peer, size) {
                Ok(()) => {}
                Err(TrySendError::WouldBlock(_)) => return Ok(NAP),
                Err(TrySendError::Refused(SendError::Link(error))) => return Err(error),
                Err(TrySendError::Refused(error)) => {
                    self.round_state.found(DeviationKind::Failed, error.to_string());
                    self.failures();
                    return Ok(NAP);
                }
            }
            self.round_state.sent(place, Stream::Message, size);
            pacer.sent(size);
            *number += 1;
        }
        Ok(Duration::ZERO)
    }

    /// Starts a tagged message or a write.
    fn start(&mut self, place: usize, stream: Stream) {
        let (state, index) = (&mut self.peers[place], stream as usize);
        let (number, peer) = (state.next[index], state.other.peer);
        let id = self.traffic.id(stream, self.here, state.other.number, number);
        let mut memory = self.free.pop().unwrap_or_default();
        memory.resize(self.traffic.size(stream, id), 0);
        gigae_body::write(id, &mut memory);
        let size = memory.len();
        let (op, what) = if stream == Stream::Tagged {
            state.next[index] += 1;
            state.going += 1;
            (self.endpoint.start_send(peer, u64::from(number), memory), OperationPurpose::Send)
        } else {
            state.step = WriteState::Writing;
            let offset = self.traffic.offset(id, size) as u64;
            let (key, notice) = (state.other.its, Some(number.into()));
            (self.endpoint.start_write(peer, key, offset, memory, notice), OperationPurpose::Write)
        };
        match op {
            Ok(op) => {
                self.started.insert(op, (place, what));
                self.round_state.sent(place, stream, size);
                state.pacers[index].sent(size);
            }
            Err(error) => {
                self.round_state.found(DeviationKind::Failed, format!("starting {what:?}: {error}"))
            }
        }
    }
}
