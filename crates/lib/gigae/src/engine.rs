//! Between the link and the protocol: frames in, frames out, now and then a look at the clock.
//!
//! This is where a message's bytes meet its header. It waits for nothing and decides nothing about
//! the protocol; blocking is the endpoint's business.

mod discovery;
mod incoming;
mod loopback;
mod observed;
mod operations;
mod unattended;

use crate::clock::Clock;
use crate::inbox::{Copied, Done, Inbound, Inbox, Received};
use crate::links::Links;
use crate::operations::Memory;
use crate::outbound::{Behind, Outbound, PAYLOAD, post_control};
use crate::sources::{Sources, Way};
use crate::{Options, RecvError, SendError};
use gigae_link::{Arena, ChannelSet, Link, LinkError, RxFrame, RxPart, TxFrame};
use gigae_proto::{
    Body, DataFrame, Destination, Instant, PeerId, PeerKey, Protocol, Reason, Transmit,
};
use gigae_transfer::Transfer;
use gigae_wire::{Kind, NodeAddr, Route};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use discovery::Discovery;
pub use discovery::Neighbour;

/// Frames taken from the link at a time: enough to amortise what is done per batch, few enough to
/// stay in the cache.
const BATCH: usize = 64;

/// Frames and vain polls after which the clock is read. A vain poll costs some 10 ns and a frame a
/// microsecond, so timers are late by some tens of microseconds at most while the endpoint is used.
const CLOCK_EVERY: usize = 64;

/// Frames queued without a doorbell after which it is rung all the same: a system call is shared by
/// enough then, and the frames are still in the cache when the kernel copies them.
const DOORBELL_EVERY: usize = 32;

/// Acknowledged messages whose frames wait to be freed; usually that is done while nothing arrives.
const REAP_AT: usize = 64;

/// Frames kept ready for what comes without credit: acknowledgements, proposals.
const READY_BESIDES: usize = 64;

/// Longest sleep while the NIC has not taken everything that was posted: the time in which a Gigabit
/// Ethernet sends some ten full frames.
const BACKLOG_NAP: Duration = Duration::from_micros(100);

/// Peers with which operations are going on are asked whether they are there so many times per peer
/// timeout: seldom enough to cost nothing.
const ASK_PARTS: u32 = 4;

/// Transmit frames that messages cannot have: they carry acknowledgements, without which the
/// frames held by the window would never come back.
const CONTROL_FRAMES: usize = 64;

/// Why a message was not queued now.
pub(crate) enum NotQueued {
    /// All transmit frames are in use.
    NoFrame,
    /// The window towards the peer is full.
    WindowFull,
    Refused(SendError),
}

/// See the module's description.
pub(crate) struct Engine {
    pub(crate) links: Links,
    pub(crate) proto: Protocol<Outbound, Inbound>,
    pub(crate) transfer: Transfer<Memory>,
    pub(crate) inbox: Inbox,
    pub(crate) sources: Sources,
    clock: Clock,
    /// How often the clock was read.
    pub(crate) clock_reads: u64,
    pub(crate) frames_received: u64,
    channels: ChannelSet,
    arena: Arc<Arena>,
    /// Outer headers by peer.
    routes: Vec<Option<Route>>,
    batch: Vec<RxFrame>,
    now: Instant,
    /// Frames and vain polls since the clock was read, and how many of them may pass.
    events: usize,
    clock_every: usize,
    /// Nothing waits to be handed out, freed or sent, as far as is known: only a frame or the time
    /// can change that.
    quiet: bool,
    /// Frames queued since the last doorbell.
    unposted: usize,
    /// The doorbell must be rung, also if the protocol has nothing to send: the NIC did not take
    /// everything the last time or there was no NIC to take it, or a question or answer was posted.
    backlog: bool,
    /// The link did not work when the doorbell rang for messages that had been accepted: it is asked again
    /// before the next one is.
    broken: bool,
    /// Frames that the links were asked to have ready, and segments of the longest.
    ready: usize,
    segments: usize,
    /// Transmit frames in messages' hands: the application's or the window's.
    lent_tx: usize,
    /// Empty lists of segments, for frames that need one.
    spare: Vec<Behind>,
    most_tx: usize,
    aggregate: bool,
    /// When the peers with which operations are going on are asked whether they are still there.
    ask_at: Instant,
    /// The messages of a failed frame that were not taken yet.
    failed: VecDeque<(Box<[u8]>, PeerId, Reason)>,
    discovery: Discovery,
    /// What observers see of it, if they may.
    watched: Option<Box<observed::Watched>>,
    loopback: loopback::Loopback,
    unattended: unattended::Unattended,
}

impl Engine {
    pub(crate) fn new(
        (links, segments): (Links, usize),
        (proto, transfer): (Protocol<Outbound, Inbound>, Transfer<Memory>),
        clock: Clock,
        (sources, discovery): (Sources, Discovery),
        options: &Options,
    ) -> Self {
        // Virtual time costs nothing to read and moves only between polls.
        let clock_every = if matches!(clock, Clock::Virtual(_)) { 1 } else { CLOCK_EVERY };
        let most_tx = links.first.info().tx_frames.saturating_sub(CONTROL_FRAMES).max(1);
        let mut engine = Self {
            arena: Arc::clone(links.first.arena()),
            inbox: Inbox::new(&links),
            now: clock.now(),
            links,
            proto,
            transfer,
            clock,
            clock_reads: 1,
            frames_received: 0,
            sources,
            channels: options.channels,
            routes: Vec::new(),
            batch: Vec::with_capacity(BATCH),
            events: 0,
            clock_every,
            quiet: false,
            unposted: 0,
            backlog: false,
            broken: false,
            ready: 0,
            segments,
            lent_tx: 0,
            spare: Vec::new(),
            most_tx,
            aggregate: options.aggregate,
            ask_at: Instant::NEVER,
            failed: VecDeque::new(),
            discovery,
            watched: None,
            loopback: loopback::Loopback::default(),
            unattended: unattended::Unattended::default(),
        };
        engine.proto.advance(engine.now);
        engine.provide();
        engine
    }

    /// A transmit frame for a message.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<TxFrame> {
        if self.lent_tx >= self.most_tx {
            self.reap();
            if self.lent_tx >= self.most_tx {
                return None;
            }
        }
        let frame = self.links.first.take()?;
        self.lent_tx += 1;
        Some(frame)
    }

    /// Why no transmit frame can come free, however long one waits: nothing is on its way to a peer, so that all
    /// are the program's or hold messages that failed.
    pub(crate) fn starved(&self) -> Option<SendError> {
        if self.lent_tx < self.most_tx || self.proto.has_unacknowledged() {
            return None;
        }
        Some(if self.has_failures() { SendError::Failed } else { SendError::BuffersHeld })
    }

    /// A message's frame that was never admitted.
    #[inline]
    pub(crate) fn give_back_unsent(&mut self, frame: TxFrame) {
        self.lent_tx -= 1;
        self.links.first.give_back(frame);
    }

    #[inline]
    fn release(&mut self, message: Outbound) {
        self.lent_tx -= message.frames();
        self.spare.extend(message.release(&mut self.links.first));
    }

    /// Queues a message, to go out with the next [`transmit`](Self::transmit): into the last frame
    /// for the peer if that still waits and has room, else into a frame of its own. One copy.
    #[inline]
    pub(crate) fn queue(&mut self, peer: PeerId, message: &[u8]) -> Result<(), NotQueued> {
        if self.aggregates() && append(&mut self.proto, &self.arena, peer, message) {
            return Ok(());
        }
        let mut frame = self.take().ok_or(NotQueued::NoFrame)?;
        self.arena.bytes_mut(&mut frame)[PAYLOAD..][..message.len()].copy_from_slice(message);
        match self.queue_alone(peer, frame, message.len()) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(frame)) => {
                self.give_back_unsent(frame);
                Err(NotQueued::WindowFull)
            }
            Err(error) => Err(NotQueued::Refused(error)),
        }
    }

    /// Queues a message that was written into a frame in place. The frame comes back if the window
    /// is full.
    #[inline]
    pub(crate) fn queue_frame(
        &mut self,
        peer: PeerId,
        frame: TxFrame,
        len: usize,
    ) -> Result<Result<(), TxFrame>, SendError> {
        let message = &self.arena.unsent_bytes(&frame)[PAYLOAD..][..len];
        if self.aggregates() && append(&mut self.proto, &self.arena, peer, message) {
            self.give_back_unsent(frame);
            return Ok(Ok(()));
        }
        self.queue_alone(peer, frame, len)
    }

    #[inline]
    fn aggregates(&self) -> bool {
        self.aggregate && self.failed.is_empty() && !self.broken
    }

    #[inline]
    fn queue_alone(
        &mut self,
        peer: PeerId,
        frame: TxFrame,
        len: usize,
    ) -> Result<Result<(), TxFrame>, SendError> {
        use gigae_proto::SendError as Refused;
        if self.failed.front().is_some_and(|failed| failed.1 == peer) {
            self.give_back_unsent(frame);
            return Err(SendError::Failed);
        }
        if self.broken
            && let Err(error) = self.exchange()
        {
            self.give_back_unsent(frame);
            return Err(error.into());
        }
        self.broken = false;
        self.quiet = false;
        let short = u16::try_from(len).expect("no longer than a frame");
        let (message, error) = match self.proto.send(peer, short, Outbound::new(frame, short)) {
            Ok(()) => {
                self.unposted += 1;
                if self.unposted >= DOORBELL_EVERY {
                    self.exchange_accepted();
                }
                return Ok(Ok(()));
            }
            Err(Refused::WouldBlock(message)) => return Ok(Err(message.into_taken())),
            Err(Refused::Failed(message)) => (message, SendError::Failed),
            Err(Refused::TooLong(message, max)) => {
                (message, SendError::TooLong { len, max: max.into() })
            }
        };
        self.give_back_unsent(message.into_taken());
        Err(error)
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

    /// Rings the doorbell for all that was queued or started, and takes nothing in unless something waits for that.
    #[inline]
    pub(crate) fn ring(&mut self) -> Result<(), LinkError> {
        if self.transfer.ready() > 0 {
            self.fill()?;
        }
        self.transmit()?;
        self.quiet &= !self.backlog;
        if self.transfer.ready() > 0 {
            self.poll()?;
        }
        Ok(())
    }

    /// Does what [`exchange`](Self::exchange) does for messages that were accepted: an error would say that one was not, and the program would
    /// send it again. It is the next one's.
    #[inline]
    pub(crate) fn exchange_accepted(&mut self) {
        self.broken = self.exchange().is_err();
    }

    /// Whether there is nothing to do: a vain look of a caller that spins, in some nanoseconds.
    #[inline]
    pub(crate) fn is_idle(&mut self) -> bool {
        self.events += 1;
        self.quiet
            && self.events < self.clock_every
            && !self.links.first.has_arrived()
            && !(self.links.several() && self.links.further_has_arrived())
    }

    /// Takes in what has arrived, and sends the acknowledgements and repetitions that are due.
    /// Returns the number of frames.
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<usize, LinkError> {
        self.mind_observers();
        let mut count = match self.links.first.poll(&mut self.batch, BATCH) {
            Ok(count) => count,
            Err(error) => self.tolerate(0, error)?,
        };
        if count > 1 {
            self.batch.reverse();
        }
        while let Some(frame) = self.batch.pop() {
            self.take_in(0, frame);
        }
        if self.links.several() {
            count += self.poll_further()?;
        }
        self.events += 1 + count;
        self.frames_received += count as u64;
        // A message that has just arrived is waited for: what it acknowledged is freed after it.
        let reap_at = if count == 0 { 1 } else { REAP_AT };
        if self.proto.acknowledged() >= reap_at {
            self.reap();
        }
        if self.events >= self.clock_every {
            self.tell_time();
        }
        if self.proto.has_operations() {
            self.operate();
        }
        if self.transfer.ready() > 0 {
            self.fill()?;
        }
        self.transmit()?;
        self.quiet = count == 0 && !self.backlog && !self.has_messages() && !self.has_failures();
        Ok(count)
    }

    /// The same for the links beyond the first: takes in what has arrived there.
    #[cold]
    #[inline(never)]
    fn poll_further(&mut self) -> Result<usize, LinkError> {
        let mut sum = 0;
        for path in 1..=self.links.further.len() {
            let count = match self.links.poll_further(path, &mut self.batch, BATCH) {
                Ok(count) => count,
                Err(error) => self.tolerate(path, error)?,
            };
            self.batch.reverse();
            while let Some(frame) = self.batch.pop() {
                self.take_in(path, frame);
            }
            sum += count;
        }
        Ok(sum)
    }

    /// A link does not work: an error if it is the only one, else its frames go by others. Nothing
    /// has arrived there.
    #[cold]
    fn tolerate(&mut self, path: usize, error: LinkError) -> Result<usize, LinkError> {
        self.links.tolerate(path, error)?;
        self.proto.link_down(path);
        Ok(0)
    }

    /// Reads the clock, and lets the protocol do what is due.
    pub(crate) fn tell_time(&mut self) {
        self.events = 0;
        self.quiet = false;
        self.clock_reads += 1;
        self.now = self.clock.now();
        self.proto.advance(self.now);
        self.transfer.advance(self.now);
        while let Some(peer) = self.proto.poll_silent() {
            self.ask_way(self.proto.key(peer).node, true);
        }
        if self.now >= self.ask_at {
            self.ask_engaged();
        } else if self.ask_at == Instant::NEVER && self.transfer.outstanding() > 0 {
            self.ask_at = self.now + self.proto.config().peer_timeout / ASK_PARTS;
        }
    }

    /// The next message that has arrived, if any and if it lies in its frame.
    #[inline]
    pub(crate) fn next_part(&mut self) -> Option<RxPart> {
        let Self { inbox, proto, links, .. } = self;
        let mut part = None;
        if !inbox.has_open() {
            part = inbox.open(proto.poll_delivery()?, links);
        }
        if part.is_none() {
            part = inbox.next(&links.arenas);
        }
        proto.counters_mut().messages_received += u64::from(part.is_some());
        part
    }

    /// The next message that has arrived, if any and if it had to be copied; or the news that some
    /// have failed.
    #[cold]
    pub(crate) fn next_copy(&mut self) -> Result<Option<Box<Copied>>, RecvError> {
        let copied = self.inbox.next_copy();
        if copied.is_none() && self.has_failures() {
            return Err(RecvError::Failed);
        }
        self.proto.counters_mut().messages_received += u64::from(copied.is_some());
        Ok(copied)
    }

    /// Whether there is a next message.
    pub(crate) fn has_messages(&self) -> bool {
        self.inbox.has_open() || self.proto.has_deliveries()
    }

    /// The program is done with a message.
    #[inline]
    pub(crate) fn give_back(&mut self, message: Received) {
        let done = match message {
            Received::Part(part) => self.inbox.give_back(part, &self.links.arenas),
            Received::Copy(copied) => self.inbox.give_back_copy(*copied),
        };
        if let Some(Done { frame, from, epoch }) = done {
            if let Some((path, frame)) = frame {
                self.links.recycle(path, frame);
            }
            self.proto.release(from, epoch);
            self.quiet = false;
            if self.proto.credit() as usize + READY_BESIDES > self.ready {
                self.provide();
            }
        }
    }

    /// Has as many frames ready for reception as the peers have credit for.
    #[cold]
    fn provide(&mut self) {
        // In steps, since credit grows frame by frame.
        self.ready = (self.proto.credit() as usize + READY_BESIDES).next_multiple_of(64);
        self.links.provide(self.ready * self.segments);
    }

    /// The next message that failed.
    pub(crate) fn take_failure(&mut self) -> Option<(Box<[u8]>, PeerId, Reason)> {
        if self.failed.is_empty() {
            let mut failure = self.proto.poll_failure()?;
            let (peer, reason) = (failure.peer, failure.reason);
            let messages = failure.buffer.messages(&self.arena);
            self.release(failure.buffer);
            self.failed.extend(messages.into_iter().map(|message| (message, peer, reason)));
        }
        self.failed.pop_front()
    }

    /// Whether [`take_failure`](Self::take_failure) would return one.
    #[inline]
    pub(crate) fn has_failures(&self) -> bool {
        !self.failed.is_empty() || self.proto.has_failures()
    }

    /// Frees what the protocol is done with.
    pub(crate) fn reap(&mut self) {
        while let Some(message) = self.proto.poll_acknowledged() {
            if let Some(peer) = message.carries_operations() {
                self.transfer.acknowledged(peer);
            }
            self.release(message);
        }
        while let Some(spent) = self.proto.poll_spent() {
            self.release(spent);
        }
        while let Some(inbound) = self.proto.poll_discarded() {
            self.inbox.leave(inbound, &mut self.links);
        }
    }

    /// Puts on the wire whatever should go now: one doorbell for all, none if there is nothing.
    #[inline]
    pub(crate) fn transmit(&mut self) -> Result<(), LinkError> {
        if self.proto.wants_transmit() || self.backlog { self.transmit_pending() } else { Ok(()) }
    }

    fn transmit_pending(&mut self) -> Result<(), LinkError> {
        self.unposted = 0;
        self.mind_observers();
        if self.links.several() {
            return self.transmit_by_all();
        }
        if self.post_pending() || self.backlog {
            // What was posted stays so while the link does not work, and nothing else would ring for it.
            self.backlog = true;
            self.backlog = !self.links.first.flush()?;
        }
        Ok(())
    }

    /// The same with several links: a doorbell for each that has something to send.
    #[cold]
    #[inline(never)]
    fn transmit_by_all(&mut self) -> Result<(), LinkError> {
        while let Some(path) = self.proto.poll_path() {
            self.links.lead(path, self.sources.envelope);
        }
        if !self.post_pending() && !self.backlog {
            return Ok(());
        }
        let Self { links, proto, .. } = self;
        let mut all = links.flush_further(|path| proto.link_down(path));
        if links.first_is_up() {
            match links.first.flush() {
                Ok(taken) => all &= taken,
                Err(error) => {
                    self.tolerate(0, error)?;
                }
            }
        }
        self.backlog = !all;
        Ok(())
    }

    /// Posts all that should go now; whether there was anything.
    #[inline]
    fn post_pending(&mut self) -> bool {
        let mut posted = 0;
        let Self { links, proto, sources, arena, routes, .. } = self;
        // While the way to a node is not known, nothing goes there: it is asked for until it is.
        let route_to = |peer: PeerId| routes.get(peer.0 as usize).and_then(Option::as_ref);
        loop {
            while let Some(DataFrame { to, path, header, buffer }) = proto.poll_data() {
                if path > 0 {
                    posted += usize::from(links.post_further(path, to, buffer, &header));
                    if links.is_near(proto.key(to).node) {
                        proto.keep_to_first(to);
                    }
                    continue;
                }
                let Some(route) = route_to(to).filter(|_| links.first_is_up()) else { continue };
                posted += usize::from(buffer.post(&mut links.first, arena, route, &header));
            }
            if !proto.wants_transmit() {
                break;
            }
            let Some(Transmit { to, path, header, body }) = proto.poll_transmit() else { break };
            let Body::Control(payload, pad) = body else {
                unreachable!("data frames were polled before")
            };
            if path > 0 {
                let to = match to {
                    Destination::Peer(peer) => Ok(peer),
                    Destination::Stranger(key) => {
                        let route = links.route_by(path, key.node, sources.envelope);
                        let Some(route) = route else { continue };
                        Err(route)
                    }
                };
                let payload = (payload, pad);
                posted += usize::from(links.post_control_further(path, to, &header, payload));
                continue;
            }
            let stranger;
            let route = match to {
                Destination::Peer(peer) => route_to(peer),
                Destination::Stranger(key) => {
                    stranger = match header.kind {
                        Kind::HelloAck => sources.route_of_answer(key.node),
                        _ => sources.route(key.node),
                    };
                    stranger.as_ref()
                }
            };
            let Some(route) = route.filter(|_| links.first_is_up()) else { continue };
            let link = &mut links.first;
            posted += usize::from(post_control(link, arena, route, &header, (payload, pad)));
        }
        self.events += posted;
        posted > 0
    }

    /// The peer of a key, with its outer headers built.
    pub(crate) fn peer(&mut self, key: PeerKey) -> Option<PeerId> {
        let peer = self.proto.peer(key)?;
        self.complete_routes();
        self.note_own(peer, &key);
        Some(peer)
    }

    /// Builds the outer headers of peers that the protocol has entered by itself.
    fn complete_routes(&mut self) {
        while let Some((peer, former)) = self.proto.poll_replaced() {
            let node = self.proto.key(peer).node;
            if let NodeAddr::Ip { ip, .. } = former.node
                && !self.proto.is_known_node(&former.node)
            {
                self.sources.forget(ip);
            }
            if let Some(route) = self.routes.get_mut(peer.0 as usize) {
                *route = self.sources.route(node);
            }
        }
        while self.routes.len() < self.proto.peers() {
            self.routes.reserve_exact(self.proto.peers_at_once() - self.routes.len());
            let peer = PeerId(u32::try_from(self.routes.len()).expect("bounded by max_peers"));
            self.routes.push(self.sources.route(self.proto.key(peer).node));
        }
    }

    /// Asks for the way to a node, and takes the answer. With `doubt` the one that is known may be wrong.
    #[cold]
    pub(crate) fn ask_way(&mut self, node: NodeAddr, doubt: bool) {
        let NodeAddr::Ip { ip, .. } = node else { return };
        if let Some(Way { source, next_hop }) = self.sources.ask(ip, doubt, self.now) {
            // Who spoke to another address of this node is answered from that.
            let source = self.sources.way(ip).map_or(source, |way| way.source);
            self.set_way(ip, Way { source, next_hop });
        }
    }

    /// The way to an IP node is this from now on.
    pub(crate) fn set_way(&mut self, to: IpAddr, way: Way) {
        if !self.sources.set(to, way, self.now) {
            return;
        }
        for (peer, route) in self.routes.iter_mut().enumerate() {
            let node = self.proto.key(PeerId(peer as u32)).node;
            if matches!(node, NodeAddr::Ip { ip, .. } if ip == to) {
                *route = self.sources.route(node);
            }
        }
    }

    /// Sends all acknowledgements that wait for company: the caller is about to sleep. Returns whether
    /// it may: not if a session has ended meanwhile, which the next poll has to tell.
    pub(crate) fn acknowledge(&mut self) -> Result<bool, LinkError> {
        self.tell_time();
        self.proto.acknowledge_all();
        loop {
            self.transmit()?;
            // What has just been sent is waited for from now on, and what is overdue goes at once.
            self.tell_time();
            if !self.proto.wants_transmit() {
                break;
            }
        }
        Ok(!self.proto.has_operations())
    }

    /// Sleeps for so long, or until something is due, whatever arrives.
    pub(crate) fn nap(&mut self, nap: Duration) -> Result<(), LinkError> {
        if !self.acknowledge()? {
            return Ok(());
        }
        let nap = self.time_left().map_or(nap, |left| left.min(nap));
        match self.clock {
            Clock::Monotonic => std::thread::sleep(nap),
            Clock::Virtual(_) => self.wait(Some(nap))?,
        }
        self.events = self.clock_every;
        Ok(())
    }

    /// Sleeps until a frame comes or something is due, at most for `limit`.
    pub(crate) fn sleep(&mut self, limit: Option<Duration>) -> Result<(), LinkError> {
        if !self.acknowledge()? {
            return Ok(());
        }
        let retry = self.backlog.then_some(BACKLOG_NAP);
        let timeout = [self.time_left(), limit, retry].into_iter().flatten().min();
        let timeout = self.leave_figures(timeout);
        self.wait(timeout)?;
        // Time has passed.
        self.events = self.clock_every;
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), LinkError> {
        let Self { links, proto, .. } = self;
        links.wait(timeout, |path| proto.link_down(path))
    }

    /// Time until something is due by itself; `None` if nothing is.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        match self.proto.next_deadline().min(self.ask_at) {
            Instant::NEVER => None,
            at => Some(at.since(self.now)),
        }
    }

    /// Ends all sessions and tells the peers.
    pub(crate) fn close(&mut self) -> Result<(), LinkError> {
        self.proto.close();
        self.transmit()
    }
}

/// Adds a message to the last frame for a peer, if that still waits and has room.
#[inline]
fn append(
    proto: &mut Protocol<Outbound, Inbound>,
    arena: &Arena,
    peer: PeerId,
    message: &[u8],
) -> bool {
    // The peer's frames may be longer than this end's.
    let own = proto.config().max_payload;
    proto.append(peer, |waiting, longest| waiting.append(arena, message, longest.min(own)))
}
