//! The work of the ends of all flows, and what they count together.

use crate::site::Site;
use crate::transport::TransportError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a question and of its answer.
pub(super) const TRIP: usize = 8;

/// Between two questions.
pub(super) const PAUSE: Duration = Duration::from_micros(200);

/// How long an end sleeps at most before it looks whether it is over.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// What has arrived of each flow, and what the threads are to do.
#[derive(Debug)]
pub struct Counters {
    received: Vec<AtomicU64>,
    stopped: AtomicBool,
    over: AtomicBool,
}

impl Counters {
    /// For so many flows.
    pub fn new(flows: usize) -> Self {
        Self {
            received: (0..flows).map(|_| AtomicU64::new(0)).collect(),
            stopped: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Bytes of each flow that have arrived so far.
    pub fn received(&self) -> Vec<u64> {
        self.received.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect()
    }

    /// Nothing new is sent or asked from now on. Receivers go on, since those who send may wait for
    /// room.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// All threads end.
    pub fn end(&self) {
        self.stop();
        self.over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, flow: usize, bytes: usize) {
        self.received[flow].fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// A round trip beside the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trip {
    /// When it was asked.
    pub began: Instant,
    /// How long it took.
    pub took: Duration,
}

/// What a thread is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It ends when the flows [stop](Counters::stop).
    Sends,
    /// It ends when all is [over](Counters::end).
    Receives,
}

/// The loop of a thread, which gives the round trips that it has made.
type Task = dyn FnOnce(&Counters) -> Result<Vec<Trip>, TransportError> + Send;

/// What a thread does.
pub struct Work {
    /// What it is for.
    pub role: Role,
    task: Box<Task>,
}

impl Work {
    pub(super) fn new(
        role: Role,
        task: impl FnOnce(&Counters) -> Result<Vec<Trip>, TransportError> + Send + 'static,
    ) -> Self {
        Self { role, task: Box::new(task) }
    }

    /// Does it until the counters say that it is over. What fails after the flows have stopped
    /// fails because another end has ended first.
    pub fn run(self, counters: &Counters) -> Result<Vec<Trip>, TransportError> {
        (self.task)(counters)
            .or_else(|error| if counters.is_stopped() { Ok(Vec::new()) } else { Err(error) })
    }
}

/// The hub's end of all flows of a transport.
pub trait Hub {
    /// Opens the flow of this number to or from the node of the calling thread.
    fn flow(&mut self, site: &Site, number: usize) -> Result<Vec<Work>, TransportError>;

    /// Opens what asks, in the node of the calling thread.
    fn asker(&mut self, site: &Site) -> Result<Vec<Work>, TransportError>;

    /// The work of the hub itself, if the flows' do not have it.
    fn work(self: Box<Self>) -> Vec<Work>;
}
