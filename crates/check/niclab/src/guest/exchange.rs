//! Messages both ways between the two cards, every byte looked at.
//!
//! Each end sends a number of messages, whose lengths and bytes follow from sender, life and
//! number, and takes the other's in. A *life* is what an end sends without a message coming back as
//! failed: when one does, or the endpoint is at its end, the next life begins with number zero. An
//! end is done when one of its own lives was acknowledged whole and one of the other's has arrived
//! whole.

use super::modes::options;
use super::testbed::Testbed;
use crate::job::Exchange;
use gigae::{Backend, Endpoint, LinkError, Peer, RecvError, SendError, TrySendError};
use gigae_body::{Id, NAMED, is, mix, name, write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

/// Virtual time in which an exchange must be done, and each of its messages; a stuck one shows
/// after this. Beside TCP a message takes up to two milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
const FOR_EACH: Duration = Duration::from_millis(5);

/// Longest wait for a message before one looks around.
const LOOK: Duration = Duration::from_millis(20);

/// Pause of an end whose interface is away.
const AWAY: Duration = Duration::from_millis(5);

/// Most messages between two looks at what arrived.
const BURST: u32 = 32;

/// An exchange while it goes on, for both ends and the watcher.
pub(super) struct ExchangeProgress {
    /// Messages that each end has received, in all its lives.
    pub(super) received: [AtomicU32; 2],
    /// Both ends are done, or one has failed.
    pub(super) over: AtomicBool,
    /// Ends that are done with everything but staying for the other.
    done: AtomicU32,
    link_errors: AtomicU64,
    returned: AtomicU64,
}

impl ExchangeProgress {
    fn new() -> Self {
        Self {
            received: [const { AtomicU32::new(0) }; 2],
            over: AtomicBool::new(false),
            done: AtomicU32::new(0),
            link_errors: AtomicU64::new(0),
            returned: AtomicU64::new(0),
        }
    }

    /// Waits until both ends have received `count` messages, or the exchange is over.
    pub(super) fn await_received(&self, count: u32) {
        let few = |received: &AtomicU32| received.load(Ordering::Relaxed) < count;
        while self.received.iter().any(few) && !self.over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

/// How to exchange.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) backend: Backend,
    /// Messages of each end.
    pub(super) messages: u32,
    /// After this long without an answer a peer is lost.
    pub(super) peer_timeout: Duration,
    /// Whether messages may come back.
    pub(super) may_fail: bool,
}

/// What one end counted.
#[derive(Default)]
struct Counted {
    mode: String,
    messages: u64,
    bytes: u64,
    frames: u64,
    repeated: u64,
    duplicates: u64,
    dropped: u64,
    corrupt: u64,
}

/// Exchanges, calling `meanwhile` in a separate thread once both ends are open. What it returns is
/// bytes of TCP, or why it failed.
pub(super) fn exchange(
    testbed: &Testbed,
    wanted: Wanted,
    meanwhile: impl FnOnce(&ExchangeProgress) -> Result<u64, String> + Send,
) -> Exchange {
    let (progress, begin) = (ExchangeProgress::new(), Instant::now());
    let before = device(testbed);
    let (start, first) = (Barrier::new(3), Mutex::new(None::<String>));
    let mut result = Exchange::default();
    std::thread::scope(|scope| {
        let (progress, start, first) = (&progress, &start, &first);
        let ends = [0, 1].map(|i| {
            scope.spawn(move || {
                let mut counted = Counted::default();
                let outcome = ExchangeEnd::run(testbed, i, wanted, progress, start, &mut counted);
                if let Err(why) = outcome {
                    progress.over.store(true, Ordering::Relaxed);
                    let mut first = first.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    first.get_or_insert(format!("end {}: {why}", i + 1));
                }
                counted
            })
        });
        let beside = scope.spawn(move || {
            start.wait();
            meanwhile(progress)
        });
        for end in ends {
            let counted = end.join().unwrap_or_default();
            result.mode = counted.mode;
            result.messages += counted.messages;
            result.bytes += counted.bytes;
            result.frames += counted.frames;
            result.repeated += counted.repeated;
            result.duplicates += counted.duplicates;
            result.dropped += counted.dropped;
            result.corrupt += counted.corrupt;
        }
        progress.over.store(true, Ordering::Relaxed);
        match beside.join().unwrap_or_else(|_| Err("what happened meanwhile panicked".into())) {
            Ok(bytes) => result.tcp = bytes,
            Err(why) => result.failure = Some(why),
        }
    });
    let after = device(testbed);
    result.device = [0, 1].map(|i| after[i].saturating_sub(before[i]));
    result.link_errors = progress.link_errors.load(Ordering::Relaxed);
    result.returned = progress.returned.load(Ordering::Relaxed);
    result.seconds = begin.elapsed().as_secs_f64();
    let first = first.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    result.failure = first.or(result.failure);
    result
}

/// Frames sent and received by both cards.
fn device(testbed: &Testbed) -> [u64; 2] {
    let mut sum = [0; 2];
    for end in &testbed.ends {
        let frames = end.frames().unwrap_or_default();
        (0..2).for_each(|i| sum[i] += frames[i]);
    }
    sum
}

/// Length of a message: most are short, as programs' are, some fill a frame.
fn length(id: Id, longest: usize) -> usize {
    let draw = mix(u64::from(id.number) << 16 | u64::from(id.from)) as usize;
    let within = |most: usize| NAMED + (draw >> 8) % (most - NAMED + 1);
    match draw % 8 {
        0..=3 => within(64.min(longest)),
        4 | 5 => within(512.min(longest)),
        6 => within(longest),
        _ => longest - (draw >> 8) % 4,
    }
}

/// One end.
struct ExchangeEnd<'a> {
    testbed: &'a Testbed,
    i: usize,
    wanted: Wanted,
    progress: &'a ExchangeProgress,
    counted: &'a mut Counted,
    scratch: Vec<u8>,
    /// Its own life, and what it sends next.
    life: u16,
    next: u32,
    /// What of the other's it expects.
    other: (u16, u32),
    /// What the endpoint that is gone had acknowledged and not handed over is lost: the next
    /// message may be any later one.
    reopened: bool,
    /// Nothing is waited for but the other end.
    done: bool,
}

/// Why an endpoint is left.
enum Leave {
    Done,
    /// It is at its end; another one may go on.
    Gone,
}

impl<'a> ExchangeEnd<'a> {
    fn run(
        testbed: &'a Testbed,
        i: usize,
        wanted: Wanted,
        progress: &'a ExchangeProgress,
        start: &Barrier,
        counted: &'a mut Counted,
    ) -> Result<(), String> {
        let mut end = Self {
            testbed,
            i,
            wanted,
            progress,
            counted,
            scratch: Vec::new(),
            life: 0,
            next: 0,
            other: (0, 0),
            reopened: false,
            done: false,
        };
        let inside = testbed.ends[i].enter();
        let mut endpoint = match &inside {
            Ok(_) => end.open_whole(),
            Err(error) => Err(error.to_string()),
        };
        // Not before this may an end fail, or the others would wait for it.
        start.wait();
        let deadline = Instant::now() + PATIENCE + FOR_EACH * wanted.messages;
        loop {
            let left = end.converse(&endpoint?, deadline)?;
            match left {
                Leave::Done => return Ok(()),
                Leave::Gone => endpoint = end.reopen(deadline),
            }
            (end.life, end.next, end.reopened) = (end.life + 1, 0, true);
        }
    }

    fn open(&self) -> Result<Endpoint, String> {
        options(&self.testbed.ends[self.i].interface, self.wanted.backend)
            .peer_timeout(self.wanted.peer_timeout)
            .open()
            .map_err(|error| error.to_string())
    }

    /// Waits for the card, too: a program resets it, and frames without a carrier would count as
    /// lost.
    fn open_whole(&self) -> Result<Endpoint, String> {
        let endpoint = self.open()?;
        let carrier = self.testbed.ends[self.i].await_carrier();
        carrier.map(|()| endpoint).map_err(|error| error.to_string())
    }

    /// As soon as the interface is there again.
    fn reopen(&self, deadline: Instant) -> Result<Endpoint, String> {
        loop {
            match self.open() {
                Err(_) if Instant::now() < deadline && !self.is_over() => std::thread::sleep(AWAY),
                opened => return opened,
            }
        }
    }

    fn is_over(&self) -> bool {
        self.progress.over.load(Ordering::Relaxed)
    }

    /// Sends and receives until all is done or the endpoint is at its end.
    fn converse(&mut self, endpoint: &Endpoint, deadline: Instant) -> Result<Leave, String> {
        self.counted.mode = endpoint.link().mode.to_string();
        let outcome = self.talk(endpoint, deadline);
        let counters = endpoint.counters();
        self.counted.frames += counters.link.tx_frames;
        self.counted.repeated += counters.protocol.retransmissions;
        self.counted.duplicates += counters.protocol.duplicates;
        self.counted.dropped += counters.link.rx_dropped;
        self.counted.corrupt += counters.protocol.checksum;
        outcome
    }

    fn talk(&mut self, endpoint: &Endpoint, deadline: Instant) -> Result<Leave, String> {
        let mac = self.testbed.ends[1 - self.i].mac;
        let peer = endpoint.peer(gigae::Address::from(mac)).map_err(|error| error.to_string())?;
        while !self.is_over() {
            if Instant::now() >= deadline {
                let (life, next) = self.other;
                return Err(format!(
                    "stuck: sent {} of life {}, received {next} of life {life}",
                    self.next, self.life
                ));
            }
            let step = self.send(endpoint, peer).and_then(|()| self.receive(endpoint));
            match step {
                Ok(()) => {}
                Err(ExchangeError::Wrong(why)) => return Err(why),
                Err(ExchangeError::Failed) => self.take_failures(endpoint)?,
                Err(ExchangeError::Link(LinkError::Down(_))) => self.away(),
                Err(ExchangeError::Link(LinkError::Gone(_) | LinkError::Detached(_)))
                    if self.wanted.may_fail =>
                {
                    self.away();
                    return Ok(Leave::Gone);
                }
                Err(ExchangeError::Link(error)) => return Err(error.to_string()),
            }
            self.look_whether_done(endpoint);
        }
        // What was repeated without need may still be on the way. It must be counted, or it counts
        // as lost.
        let _ = endpoint.recv_timeout(LOOK);
        Ok(Leave::Done)
    }

    fn away(&self) {
        self.progress.link_errors.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(AWAY);
    }

    /// A burst of messages, as far as there is room.
    fn send(&mut self, endpoint: &Endpoint, peer: Peer) -> Result<(), ExchangeError> {
        for _ in 0..BURST {
            if self.next == self.wanted.messages {
                break;
            }
            let Some(mut buffer) = endpoint.try_buffer() else { break };
            let ends = [self.i as u16, 1 - self.i as u16];
            let id = Id { from: ends[0], life: self.life, to: ends[1], number: self.next };
            let length = length(id, endpoint.max_message());
            write(id, &mut buffer[..length]);
            match buffer.try_queue(peer, length) {
                Ok(()) => self.next += 1,
                Err(TrySendError::WouldBlock(_)) => break,
                Err(TrySendError::Refused(error)) => return Err(error.into()),
            }
        }
        Ok(endpoint.flush()?)
    }

    /// What has arrived; waits for it if there is nothing to send.
    fn receive(&mut self, endpoint: &Endpoint) -> Result<(), ExchangeError> {
        let mut wait = if self.next == self.wanted.messages { LOOK } else { Duration::ZERO };
        while let Some(message) = endpoint.recv_timeout(wait)? {
            wait = Duration::ZERO;
            self.check(&message).map_err(ExchangeError::Wrong)?;
            self.counted.messages += 1;
            self.counted.bytes += message.len() as u64;
            self.progress.received[self.i].fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The next message of the other's life, or the first of its next.
    fn check(&mut self, body: &[u8]) -> Result<(), String> {
        let Some(id) = name(body) else {
            return Err(format!("a message of {} bytes that no end sent", body.len()));
        };
        let (life, next) = self.other;
        let begins = self.wanted.may_fail && id.life > life && id.number == 0;
        let begins = begins || self.reopened && (id.life, id.number) >= (life, next);
        if id.from != 1 - self.i as u16 || !(begins || (id.life, id.number) == (life, next)) {
            return Err(format!("message {id:?} where number {next} of life {life} was due"));
        }
        if !is(id, body, &mut self.scratch) {
            return Err(format!("message {id:?} arrived with other bytes"));
        }
        (self.other, self.reopened) = ((id.life, id.number + 1), false);
        Ok(())
    }

    /// What came back goes again, in the next life.
    fn take_failures(&mut self, endpoint: &Endpoint) -> Result<(), String> {
        while let Some(failed) = endpoint.take_failure() {
            if !self.wanted.may_fail {
                return Err(format!("a message came back: {:?}", failed.reason()));
            }
            self.progress.returned.fetch_add(1, Ordering::Relaxed);
        }
        (self.life, self.next) = (self.life + 1, 0);
        Ok(())
    }

    /// Stays until the other end is done as well: it may need an acknowledgement.
    fn look_whether_done(&mut self, endpoint: &Endpoint) {
        let all = self.wanted.messages;
        let whole = self.next == all && self.other.1 == all;
        if whole && !self.done && endpoint.drain(LOOK).is_ok() {
            self.done = true;
            self.progress.done.fetch_add(1, Ordering::Relaxed);
        }
        if self.progress.done.load(Ordering::Relaxed) == 2 {
            self.progress.over.store(true, Ordering::Relaxed);
        }
    }
}

/// Why a step was not done.
enum ExchangeError {
    Link(LinkError),
    /// Messages came back.
    Failed,
    Wrong(String),
}

impl From<SendError> for ExchangeError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Failed => Self::Failed,
            SendError::Link(error) => Self::Link(error),
            other => Self::Wrong(other.to_string()),
        }
    }
}

impl From<RecvError> for ExchangeError {
    fn from(error: RecvError) -> Self {
        match error {
            RecvError::Failed => Self::Failed,
            RecvError::Link(error) => Self::Link(error),
            other => Self::Wrong(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_go_from_a_name_to_a_full_frame() {
        let id = |number| Id { from: 0, life: 0, to: 1, number };
        let lengths: Vec<usize> = (0..2000).map(|number| length(id(number), 1468)).collect();
        assert_eq!(lengths.iter().min(), Some(&NAMED));
        assert_eq!(lengths.iter().max(), Some(&1468));
        assert!(lengths.iter().filter(|&&length| length <= 64).count() > 800);
    }
}
