//! The endpoint's side.

use crate::layout::*;
use crate::memory::EndpointMemory;
use crate::ring::CaptureRing;
use crate::{Direction, EndpointDescription, StatisticsWriter};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl EndpointMemory {
    pub(crate) fn ring(&self) -> CaptureRing<'_> {
        let words = self.words();
        CaptureRing {
            words: &words[AT_RING..AT_RING + RING_WORDS],
            head: &words[AT_HEAD],
            tail: &words[AT_TAIL],
            dropped: &words[AT_DROPPED],
        }
    }
}

/// What an endpoint shows to observers. Dropping it marks the endpoint as closed.
#[derive(Debug)]
pub struct Publisher {
    memory: Arc<EndpointMemory>,
}

/// Records an endpoint's frames for an observer.
#[derive(Clone, Debug)]
pub struct Tap {
    memory: Arc<EndpointMemory>,
}

impl Publisher {
    /// Makes the shared memory: 8.1 MiB of addresses, of which only some pages are used until an
    /// observer captures frames. One descriptor, some system calls.
    pub fn new(about: &EndpointDescription) -> io::Result<Self> {
        let memory = EndpointMemory::create()?;
        about.write(memory.words());
        Ok(Self { memory: Arc::new(memory) })
    }

    /// Until when an observer looks, in nanoseconds of the monotonic clock. One load.
    #[inline]
    pub fn until(&self) -> u64 {
        self.memory.words()[AT_UNTIL].load(Ordering::Relaxed)
    }

    /// Until when an observer captures frames.
    pub fn capture_until(&self) -> u64 {
        self.memory.words()[AT_CAPTURE_UNTIL].load(Ordering::Acquire)
    }

    /// Writes the statistics of a moment, of an endpoint that knows `known` peers.
    pub fn publish(&self, at: u64, known: u64, write: impl FnOnce(&mut StatisticsWriter)) {
        let mut sheet =
            StatisticsWriter::begin(&self.memory.words()[AT_STATISTICS..][..STATISTICS_WORDS], at);
        write(&mut sheet);
        sheet.end(known);
    }

    /// Says whether the endpoint sleeps until a frame comes.
    pub fn set_asleep(&self, asleep: bool) {
        self.memory.words()[AT_STATE].store(if asleep { ASLEEP } else { 0 }, Ordering::Relaxed);
    }

    /// For recording frames. One thread at a time uses all taps of an endpoint, as it does the
    /// endpoint.
    pub fn tap(&self) -> Tap {
        Tap { memory: Arc::clone(&self.memory) }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.memory.words()[AT_STATE].store(CLOSED, Ordering::Relaxed);
    }
}

impl Tap {
    /// Records a frame, up to the wanted length, or counts it as dropped. One copy, one clock read.
    pub fn frame(&self, direction: Direction, link: usize, frame: &[u8]) {
        let snaplen = self.memory.words()[AT_SNAPLEN].load(Ordering::Relaxed);
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let at = now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned();
        let snaplen = usize::try_from(snaplen).unwrap_or(usize::MAX);
        self.memory.ring().push(at, direction, link, frame, snaplen);
    }
}
