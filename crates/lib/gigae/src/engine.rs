//! Between the link and the protocol: frames in, frames out, now and then a look at the clock.
//!
//! This is where a message's bytes meet its header. It waits for nothing and decides nothing about
//! the protocol; blocking is the endpoint's business.
//!
//! Which method moves frames, and who calls it:
//!
//! | method | fills frames with operations | transmits | takes in | called by |
//! |---|---|---|---|---|
//! | [`progress`](Engine::progress) | yes | at the end, and before the bulk socket is polled | first | receiving, waiting, `progress` |
//! | [`send_and_progress`](Engine::send_and_progress) | yes | first | then, and frees | `flush`, each `send` but the first after one of these |
//! | [`send_at_once`](Engine::send_at_once) | no | its message, if nothing waits before it | no | `send`, `try_send` |
//! | [`send_frame_at_once`](Engine::send_frame_at_once) | no | the same | no | `SendBuffer::send` |
//! | [`send_waiting`](Engine::send_waiting) | yes | yes | only for operations that find a window full | `ring` |
//! | [`look`](Engine::look) | if the clock was not read for long | the same | the same | calls that only look |
//! | [`transmit`](Engine::transmit) | no | if there is something | no | all of the above, before a sleep |
//! | [`post_waiting`](Engine::post_waiting) | no | without a doorbell, but for data in place | no | `transmit` |
//!
//! Transmitting is two steps: every frame that should go now is posted on its link, then each link
//! with posted frames gets one doorbell. [`is_idle`](Engine::is_idle) says when a spinning caller
//! need not call anything.
//!
//! The files below it are of two kinds. Some hold a part of the engine's state and know nothing of
//! the engine: `cached_clock`, `deferral`, `discovery`, `doorbell`, `failures`, `figures`,
//! `loopback`, `observers`, `rx_frames`, `tx_frames`, `wakeup`. The others, whose names say what
//! the engine is doing, use these together.

mod accessing;
mod at_once;
mod cached_clock;
mod deferral;
mod delivering;
mod discovery;
mod doorbell;
mod failures;
mod figures;
mod incoming;
mod loopback;
mod observed;
mod observers;
mod operations;
mod placing;
mod questions;
mod routing;
mod rx_frames;
mod sending;
mod sleeping;
mod transmitting;
mod tx_frames;
mod unattended;
mod wakeup;

use crate::clock::Clock;
use crate::inbox::{Inbound, Inbox};
use crate::links::Links;
use crate::memory::Memory;
use crate::outbound::Outbound;
use crate::route_table::RouteTable;
use cached_clock::CachedClock;
use deferral::Deferral;
use doorbell::Doorbell;
use failures::Failures;
use gigae_link::{ChannelSet, Link, LinkError};
use gigae_proto::{Instant, Protocol};
use gigae_transfer::Transfer;
use gigae_wire::PathId;
use loopback::Loopback;
use observers::Observers;
use placing::Placing;
use rx_frames::{BATCH, RxFrames};
use std::time::Duration;
use tx_frames::TxFrames;
use wakeup::Wakeup;

pub(crate) use discovery::Discovery;
pub(crate) use failures::FailedMessage;
pub(crate) use sending::NotQueued;

/// Acknowledged messages whose frames wait to be freed; usually that is done while nothing arrives.
const REAP_AT: usize = 64;

/// Longest sleep while the NIC has not taken everything that was posted: the time in which a
/// Gigabit Ethernet sends some ten full frames.
const BACKLOG_NAP: Duration = Duration::from_micros(100);

/// While operations with a peer are going on, the endpoint asks this many times per peer timeout
/// whether the peer is there: seldom enough to cost nothing.
const ASK_PARTS: u32 = 4;

/// What an engine is made of.
pub(crate) struct EngineParts {
    pub(crate) links: Links,
    /// Segments of the longest frame.
    pub(crate) segments: usize,
    pub(crate) proto: Protocol<Outbound, Inbound>,
    pub(crate) transfer: Transfer<Memory>,
    pub(crate) clock: Clock,
    pub(crate) route_table: RouteTable,
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
    pub(crate) route_table: RouteTable,
    pub(crate) clock: CachedClock,
    channels: ChannelSet,
    rx: RxFrames,
    tx: TxFrames,
    /// The same of the socket for bulk data, if there is one.
    bulk_tx: Option<TxFrames>,
    placing: Placing,
    doorbell: Doorbell,
    deferral: Deferral,
    aggregate: bool,
    /// Nothing waits to be handed out, freed or sent, as far as is known: only a frame or the time
    /// can change that.
    quiet: bool,
    /// What has arrived was looked at since the last message was sent.
    looked: bool,
    /// When the peers with which operations are going on are asked whether they are still there.
    ask_at: Instant,
    failed: Failures,
    discovery: Discovery,
    /// What observers see of it, if they may.
    observers: Option<Box<Observers>>,
    loopback: Loopback,
    wakeup: Wakeup,
}

impl Engine {
    pub(crate) fn new(parts: EngineParts) -> Self {
        let EngineParts { links, segments, proto, transfer, clock, route_table, discovery, .. } =
            parts;
        let longest = usize::from(proto.config().max_operations);
        let tx_segments = longest.div_ceil(links.info(PathId::FIRST).frame_size);
        let mut engine = Self {
            inbox: Inbox::new(&links),
            tx: TxFrames::new(&links[PathId::FIRST].link, tx_segments),
            bulk_tx: links.bulk().map(|_| TxFrames::new(&links[PathId::SOCKET].link, 1)),
            rx: RxFrames::new(segments),
            links,
            proto,
            transfer,
            route_table,
            clock: CachedClock::new(clock),
            channels: parts.channels,
            placing: Placing::default(),
            doorbell: Doorbell::default(),
            deferral: Deferral::default(),
            aggregate: parts.aggregate,
            quiet: false,
            looked: false,
            ask_at: Instant::NEVER,
            failed: Failures::default(),
            discovery,
            observers: None,
            loopback: Loopback::default(),
            wakeup: Wakeup::default(),
        };
        engine.proto.advance(engine.clock.now());
        engine.provide();
        engine
    }

    /// Operations whose completion the program has not taken.
    pub(crate) fn outstanding(&self) -> usize {
        self.transfer.outstanding() + self.transfer.completions()
    }

    /// Frames received since the endpoint was opened.
    pub(crate) fn frames_received(&self) -> u64 {
        self.rx.received
    }

    /// Transmits all that was queued, takes in what has arrived and frees what it acknowledged,
    /// while that is in the cache.
    #[inline]
    pub(crate) fn send_and_progress(&mut self) -> Result<(), LinkError> {
        if self.transfer.ready() > 0 {
            self.fill()?;
        }
        self.transmit()?;
        self.progress()?;
        self.reap();
        Ok(())
    }

    /// Transmits all that was queued or started. Takes nothing in, unless operations wait for a
    /// window that is full.
    #[inline]
    pub(crate) fn send_waiting(&mut self) -> Result<(), LinkError> {
        if self.transfer.ready() > 0 {
            self.fill()?;
        }
        self.transmit()?;
        self.quiet &= !self.doorbell.backlog;
        if self.transfer.ready() > 0 {
            self.progress()?;
        }
        Ok(())
    }

    /// Transmits messages that were accepted. Takes in what has arrived only if no other call has
    /// done so since the last message: a program that receives between two messages does that
    /// already. Returns no error, for the program would send such a message again. The next message
    /// gets the error.
    #[inline]
    pub(crate) fn send_accepted(&mut self) {
        let sent = if self.looked { self.send_waiting() } else { self.send_and_progress() };
        self.looked = false;
        self.reap();
        self.doorbell.broken = sent.is_err();
    }

    /// Whether there is nothing to do: the empty poll of a caller that spins, in some nanoseconds.
    #[inline]
    pub(crate) fn is_idle(&mut self) -> bool {
        self.clock.count(1);
        self.quiet && self.clock.is_fresh() && !self.links.has_arrived()
    }

    /// The program only looks at something. It may make no other call for a long time, and the
    /// process's thread leaves an endpoint alone whose program calls. So a look takes in what has
    /// arrived if the clock was not read for long. It counts for `polls` empty polls. An error
    /// shows in the next call that can return it.
    #[inline]
    pub(crate) fn look(&mut self, polls: usize) {
        self.clock.count(polls);
        if !self.clock.is_fresh() && !self.clock.is_virtual() {
            let _ = self.send_and_progress();
        }
    }

    /// Takes in what has arrived, and sends the acknowledgements and repetitions that are due.
    /// Returns the number of frames.
    #[inline]
    pub(crate) fn progress(&mut self) -> Result<usize, LinkError> {
        self.serve_observers();
        self.looked = true;
        let (mut count, mut sent, mut again) = (self.take_in_batch(PathId::FIRST)?, Ok(()), 0);
        if self.links.are_others_due() {
            let others = if self.links.is_bulk(PathId::SOCKET) {
                // To look there is a system call. What the program has queued need not wait for it,
                // unless the session that it belongs to has just ended.
                if self.transfer.ready() > 0 && !self.proto.has_operations() {
                    sent = self.fill().map(|more| again = more).and_then(|()| self.transmit());
                }
                let bulk = self.take_in_bulk()?;
                self.deferral.came(bulk);
                bulk
            } else {
                self.sum_over_others(Self::take_in_batch)?
            };
            self.links.polled_others(others, self.clock.now());
            count += others;
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
        if self.transfer.ready() > 0 && again == 0 {
            again = self.fill()?;
        }
        count += again;
        sent?;
        self.transmit()?;
        self.quiet = count == 0
            && !self.doorbell.backlog
            && !self.doorbell.full
            && !self.has_messages()
            && !self.has_failures();
        Ok(count)
    }

    /// Takes in what has arrived by a link. Returns the number of frames.
    #[inline(always)]
    fn take_in_batch(&mut self, path: PathId) -> Result<usize, LinkError> {
        let count = match self.links[path].link.poll(&mut self.rx.batch, BATCH) {
            Ok(count) => count,
            Err(error) => {
                self.give_up_link(path, error)?;
                0
            }
        };
        self.take_in_polled(path);
        Ok(count)
    }

    /// Takes in the batch that a link has returned.
    #[inline(always)]
    fn take_in_polled(&mut self, path: PathId) {
        if self.rx.batch.len() > 1 {
            self.rx.batch.reverse();
        }
        while let Some(frame) = self.rx.batch.pop() {
            self.take_in(path, frame);
        }
        self.release_carried_out();
    }

    /// Does something with every link but the first, and adds up what that returns. For the first
    /// the caller does it, inlined, since most endpoints have one link.
    #[inline(never)]
    fn sum_over_others(
        &mut self,
        of: fn(&mut Self, PathId) -> Result<usize, LinkError>,
    ) -> Result<usize, LinkError> {
        PathId::further(self.links.count()).try_fold(0, |sum, path| Ok(sum + of(self, path)?))
    }

    /// A link does not work: an error if it is the only one, else its frames go by others.
    #[cold]
    fn give_up_link(&mut self, path: PathId, error: LinkError) -> Result<(), LinkError> {
        self.links.give_up(path, error)?;
        self.proto.link_down(path);
        Ok(())
    }

    /// Reads the clock, and lets the protocol do what is due. After a long time away, that waits
    /// for a look at all links.
    pub(crate) fn update_clock(&mut self) {
        self.quiet = false;
        let now = self.clock.read();
        if self.links.are_behind(now) {
            self.clock.expire();
            return;
        }
        self.proto.advance(now);
        self.transfer.advance(now);
        self.links.advance(now);
        while let Some(peer) = self.proto.poll_silent() {
            self.ask_route(self.proto.key(peer).node, true);
        }
        if now >= self.discovery.due {
            self.give_answers();
        }
        if now >= self.ask_at {
            self.ask_engaged();
        } else if self.ask_at == Instant::NEVER && self.transfer.outstanding() > 0 {
            self.ask_at = now + self.proto.config().peer_timeout / ASK_PARTS;
        }
    }
}
