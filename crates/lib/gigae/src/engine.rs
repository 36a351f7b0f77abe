//! Between the link and the protocol: frames in, frames out, now and then a look at the clock.
//!
//! This is where a message's bytes meet its header. It waits for nothing and decides nothing about
//! the protocol; blocking is the endpoint's business.
//!
//! The files below it are of two kinds. Some hold a part of the engine's state and know nothing of
//! the engine: `cached_clock`, `discovery`, `doorbell`, `failures`, `figures`, `loopback`, `news`,
//! `observers`, `routes`, `rx_frames`, `tx_frames`. The others, whose names say what the engine is
//! doing, use these together.

mod cached_clock;
mod delivering;
mod discovery;
mod doorbell;
mod failures;
mod figures;
mod incoming;
mod loopback;
mod news;
mod observed;
mod observers;
mod operations;
mod questions;
mod routes;
mod routing;
mod rx_frames;
mod sending;
mod sleeping;
mod transmitting;
mod tx_frames;
mod unattended;

use crate::clock::Clock;
use crate::inbox::{Inbound, Inbox};
use crate::links::Links;
use crate::memory::Memory;
use crate::outbound::Outbound;
use crate::sources::Sources;
use cached_clock::CachedClock;
use doorbell::Doorbell;
use failures::Failures;
use gigae_link::{ChannelSet, Link, LinkError};
use gigae_proto::{Instant, Protocol};
use gigae_transfer::Transfer;
use loopback::Loopback;
use news::News;
use observers::Observers;
use routes::Routes;
use rx_frames::{BATCH, RxFrames};
use std::time::Duration;
use tx_frames::TxFrames;

pub(crate) use discovery::Discovery;
pub(crate) use failures::FailedMessage;
pub(crate) use sending::NotQueued;

/// Acknowledged messages whose frames wait to be freed; usually that is done while nothing arrives.
const REAP_AT: usize = 64;

/// Longest sleep while the NIC has not taken everything that was posted: the time in which a
/// Gigabit Ethernet sends some ten full frames.
const BACKLOG_NAP: Duration = Duration::from_micros(100);

/// Peers with which operations are going on are asked whether they are there so many times per peer
/// timeout: seldom enough to cost nothing.
const ASK_PARTS: u32 = 4;

/// What an engine is made of.
pub(crate) struct Parts {
    pub(crate) links: Links,
    /// Segments of the longest frame.
    pub(crate) segments: usize,
    pub(crate) proto: Protocol<Outbound, Inbound>,
    pub(crate) transfer: Transfer<Memory>,
    pub(crate) clock: Clock,
    pub(crate) sources: Sources,
    pub(crate) discovery: Discovery,
    pub(crate) channels: ChannelSet,
    /// Small messages share frames.
    pub(crate) aggregate: bool,
}

/// See the module's description.
pub(crate) struct Engine {
    pub(crate) links: Links,
    pub(crate) proto: Protocol<Outbound, Inbound>,
    pub(crate) transfer: Transfer<Memory>,
    pub(crate) inbox: Inbox,
    pub(crate) sources: Sources,
    pub(crate) clock: CachedClock,
    channels: ChannelSet,
    routes: Routes,
    rx: RxFrames,
    tx: TxFrames,
    doorbell: Doorbell,
    aggregate: bool,
    /// Nothing waits to be handed out, freed or sent, as far as is known: only a frame or the time
    /// can change that.
    quiet: bool,
    /// When the peers with which operations are going on are asked whether they are still there.
    ask_at: Instant,
    failed: Failures,
    discovery: Discovery,
    /// What observers see of it, if they may.
    observers: Option<Box<Observers>>,
    loopback: Loopback,
    news: News,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { links, segments, proto, transfer, clock, sources, discovery, .. } = parts;
        let mut engine = Self {
            inbox: Inbox::new(&links),
            tx: TxFrames::new(&links.first),
            rx: RxFrames::new(segments),
            links,
            proto,
            transfer,
            sources,
            clock: CachedClock::new(clock),
            channels: parts.channels,
            routes: Routes::default(),
            doorbell: Doorbell::default(),
            aggregate: parts.aggregate,
            quiet: false,
            ask_at: Instant::NEVER,
            failed: Failures::default(),
            discovery,
            observers: None,
            loopback: Loopback::default(),
            news: News::default(),
        };
        engine.proto.advance(engine.clock.now());
        engine.provide();
        engine
    }

    /// Frames received since the endpoint was opened.
    pub(crate) fn frames_received(&self) -> u64 {
        self.rx.received
    }

    /// Rings the doorbell for all that was queued, takes in what has arrived and frees what it
    /// acknowledged, while that is in the cache.
    #[inline]
    pub(crate) fn exchange(&mut self) -> Result<(), LinkError> {
        if self.transfer.ready() > 0 {
            self.fill()?;
        }
        self.transmit()?;
        self.poll()?;
        self.reap();
        Ok(())
    }

    /// Rings the doorbell for all that was queued or started, and takes nothing in unless something
    /// waits for that.
    #[inline]
    pub(crate) fn ring(&mut self) -> Result<(), LinkError> {
        if self.transfer.ready() > 0 {
            self.fill()?;
        }
        self.transmit()?;
        self.quiet &= !self.doorbell.backlog;
        if self.transfer.ready() > 0 {
            self.poll()?;
        }
        Ok(())
    }

    /// Does what [`exchange`](Self::exchange) does for messages that were accepted: an error would
    /// say that one was not, and the program would send it again. It is the next one's.
    #[inline]
    pub(crate) fn exchange_accepted(&mut self) {
        self.doorbell.broken = self.exchange().is_err();
    }

    /// Whether there is nothing to do: a vain look of a caller that spins, in some nanoseconds.
    #[inline]
    pub(crate) fn is_idle(&mut self) -> bool {
        self.clock.count(1);
        self.quiet
            && self.clock.is_fresh()
            && !self.links.first.has_arrived()
            && !(self.links.several() && self.links.further_has_arrived())
    }

    /// Takes in what has arrived, and sends the acknowledgements and repetitions that are due.
    /// Returns the number of frames.
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<usize, LinkError> {
        self.mind_observers();
        let mut count = match self.links.first.poll(&mut self.rx.batch, BATCH) {
            Ok(count) => count,
            Err(error) => self.tolerate(0, error)?,
        };
        if count > 1 {
            self.rx.batch.reverse();
        }
        while let Some(frame) = self.rx.batch.pop() {
            self.take_in(0, frame);
        }
        if self.links.several() {
            count += self.poll_further()?;
        }
        self.clock.count(1 + count);
        self.rx.received += count as u64;
        // A message that has just arrived is waited for: what it acknowledged is freed after it.
        let reap_at = if count == 0 { 1 } else { REAP_AT };
        if self.proto.acknowledged() >= reap_at {
            self.reap();
        }
        if !self.clock.is_fresh() {
            self.update_clock();
        }
        if self.proto.has_operations() {
            self.operate();
        }
        if self.transfer.ready() > 0 {
            self.fill()?;
        }
        self.transmit()?;
        self.quiet =
            count == 0 && !self.doorbell.backlog && !self.has_messages() && !self.has_failures();
        Ok(count)
    }

    /// The same for the links beyond the first: takes in what has arrived there.
    #[cold]
    #[inline(never)]
    fn poll_further(&mut self) -> Result<usize, LinkError> {
        let mut sum = 0;
        for path in 1..=self.links.further.len() {
            let count = match self.links.poll_further(path, &mut self.rx.batch, BATCH) {
                Ok(count) => count,
                Err(error) => self.tolerate(path, error)?,
            };
            self.rx.batch.reverse();
            while let Some(frame) = self.rx.batch.pop() {
                self.take_in(path, frame);
            }
            sum += count;
        }
        Ok(sum)
    }

    /// A link does not work: an error if it is the only one, else its frames go by others. Nothing
    /// has arrived there.
    #[cold]
    pub(super) fn tolerate(&mut self, path: usize, error: LinkError) -> Result<usize, LinkError> {
        tracing::debug!(interface = %self.links.shown(path), %error, "link does not work");
        self.links.tolerate(path, error)?;
        self.proto.link_down(path);
        Ok(0)
    }

    /// Reads the clock, and lets the protocol do what is due.
    pub(crate) fn update_clock(&mut self) {
        self.quiet = false;
        let now = self.clock.read();
        self.proto.advance(now);
        self.transfer.advance(now);
        while let Some(peer) = self.proto.poll_silent() {
            self.ask_way(self.proto.key(peer).node, true);
        }
        if now >= self.ask_at {
            self.ask_engaged();
        } else if self.ask_at == Instant::NEVER && self.transfer.outstanding() > 0 {
            self.ask_at = now + self.proto.config().peer_timeout / ASK_PARTS;
        }
    }
}
