//! Between the link and the protocol: frames in, frames out, one clock read per batch.
//!
//! This is where a message's bytes meet its header. It waits for nothing and decides nothing about
//! the protocol; blocking is the endpoint's business.

use crate::clock::Clock;
use gigae_link::{Arena, ChannelSet, Link, LinkError, Posted, RxFrame, TxFrame};
use gigae_proto::{Body, Destination, Handled, Instant, PeerId, PeerKey, Protocol};
use gigae_wire::{
    AckReport, Discard, Envelope, HEADER_LEN, Header, Kind, MAX_ENVELOPE, NodeAddr, Route,
};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Where payloads begin in a transmit frame: room for the longest headers, and a cache line's
/// boundary, so that a message written in place is aligned.
pub(crate) const PAYLOAD: usize = 128;
const _: () = assert!(PAYLOAD >= MAX_ENVELOPE + HEADER_LEN);

/// Frames taken from the link at a time: enough to amortise the clock and the acknowledgements,
/// few enough to stay in the cache.
const BATCH: usize = 64;

/// Vain polls after which the clock is read all the same, for timers: a poll costs some 10 ns, so
/// they are at most a microsecond late.
const CLOCK_EVERY: u32 = 32;

/// Longest sleep while the NIC has not taken everything that was posted: the time in which a Gigabit
/// Ethernet sends some ten full frames.
const BACKLOG_NAP: Duration = Duration::from_micros(100);

/// Transmit frames that messages cannot have: they carry acknowledgements, without which the
/// frames held by the window would never come back.
const CONTROL_FRAMES: usize = 64;

/// Shortest Ethernet frame without FCS (IEEE Std 802.3, clause 3.2.8).
const SHORTEST_FRAME: usize = 60;

/// Longest payload of a control frame in bytes.
const LONGEST_CONTROL: usize = 4 + AckReport::MAX_BITMAP;

/// A message's transmit frame in the protocol's window.
#[derive(Debug)]
pub(crate) struct Outbound {
    held: Option<Held>,
    pub(crate) len: u16,
}

#[derive(Debug)]
enum Held {
    Taken(TxFrame),
    Posted(Posted),
}

impl Outbound {
    pub(crate) fn new(frame: TxFrame, len: u16) -> Self {
        Self { held: Some(Held::Taken(frame)), len }
    }

    /// The message's bytes.
    pub(crate) fn bytes<'a>(&'a mut self, arena: &'a Arena) -> &'a [u8] {
        let bytes = match self.held.as_mut().expect("a message keeps its frame") {
            Held::Taken(frame) => &*arena.bytes_mut(frame),
            Held::Posted(frame) => arena.posted_bytes(frame),
        };
        &bytes[PAYLOAD..PAYLOAD + usize::from(self.len)]
    }

    /// The frame of a message that was never posted, given back with a refusal.
    pub(crate) fn into_taken(self) -> TxFrame {
        match self.held {
            Some(Held::Taken(frame)) => frame,
            _ => unreachable!("only a message that was not admitted is taken apart"),
        }
    }
}

/// A received message in its frame.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) frame: RxFrame,
    start: u16,
    len: u16,
}

impl Inbound {
    pub(crate) fn bytes<'a>(&'a self, arena: &'a Arena) -> &'a [u8] {
        &arena.bytes(&self.frame)[usize::from(self.start)..][..usize::from(self.len)]
    }
}

/// This node's own addresses towards the nodes that it was told of or heard from.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) envelope: Envelope,
    pub(crate) mac: gigae_wire::MacAddr,
    /// Source address for each IP node, found when the peer was named.
    pub(crate) ip: HashMap<IpAddr, IpAddr>,
}

impl Sources {
    fn route(&self, to: NodeAddr) -> Option<Route> {
        let from = match to {
            NodeAddr::Ethernet(_) => NodeAddr::Ethernet(self.mac),
            NodeAddr::Ip { ip, .. } => NodeAddr::Ip { ip: *self.ip.get(&ip)?, next_hop: self.mac },
        };
        Route::new(self.envelope, from, to)
    }
}

/// See the module's description.
pub(crate) struct Engine {
    pub(crate) link: Box<dyn Link>,
    pub(crate) proto: Protocol<Outbound, Inbound>,
    pub(crate) clock: Clock,
    pub(crate) sources: Sources,
    channels: ChannelSet,
    arena: Arc<Arena>,
    /// Outer headers by peer.
    routes: Vec<Option<Route>>,
    batch: Vec<RxFrame>,
    now: Instant,
    /// Polls in a row that found nothing, and how many of them may pass without the clock.
    vain: u32,
    clock_every: u32,
    /// The NIC did not take everything at the last doorbell: it must be rung again.
    backlog: bool,
    /// Transmit frames in messages' hands: the application's or the window's.
    lent_tx: usize,
    most_tx: usize,
}

impl Engine {
    pub(crate) fn new(
        link: Box<dyn Link>,
        proto: Protocol<Outbound, Inbound>,
        clock: Clock,
        sources: Sources,
        channels: ChannelSet,
    ) -> Self {
        // Virtual time costs nothing to read and moves only between polls.
        let clock_every = if matches!(clock, Clock::Virtual(_)) { 1 } else { CLOCK_EVERY };
        let most_tx = link.info().tx_frames.saturating_sub(CONTROL_FRAMES).max(1);
        Self {
            arena: Arc::clone(link.arena()),
            now: clock.now(),
            link,
            proto,
            clock,
            sources,
            channels,
            routes: Vec::new(),
            batch: Vec::with_capacity(BATCH),
            vain: 0,
            clock_every,
            backlog: false,
            lent_tx: 0,
            most_tx,
        }
    }

    /// A transmit frame for a message.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<TxFrame> {
        if self.lent_tx >= self.most_tx {
            return None;
        }
        let frame = self.link.take()?;
        self.lent_tx += 1;
        Some(frame)
    }

    /// A message's frame that was never admitted.
    pub(crate) fn give_back(&mut self, frame: TxFrame) {
        self.lent_tx -= 1;
        self.link.give_back(frame);
    }

    /// A message's frame whose window hold has ended.
    #[inline]
    pub(crate) fn release(&mut self, message: Outbound) {
        self.lent_tx -= 1;
        match message.held.expect("a message keeps its frame") {
            Held::Taken(frame) => self.link.give_back(frame),
            Held::Posted(frame) => self.link.release(frame),
        }
    }

    /// Takes in what has arrived and sends what that calls for. Returns the number of frames.
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<usize, LinkError> {
        let count = self.link.poll(&mut self.batch, BATCH)?;
        // The time is at most `clock_every` vain polls old, also when frames end them.
        let due = self.vain.is_multiple_of(self.clock_every);
        if due {
            self.now = self.clock.now();
        }
        if count == 0 {
            self.vain = self.vain.wrapping_add(1);
            if !due && !self.proto.wants_transmit() && !self.backlog {
                return Ok(0);
            }
        } else {
            self.vain = 0;
            let mut batch = std::mem::take(&mut self.batch);
            for frame in batch.drain(..) {
                self.receive(frame);
            }
            self.batch = batch;
        }
        self.complete_routes();
        self.proto.handle_timeout(self.now);
        self.reap();
        self.transmit_pending()?;
        Ok(count)
    }

    #[inline]
    fn receive(&mut self, frame: RxFrame) {
        let parsed = match parse(self.sources.envelope, self.arena.bytes(&frame)) {
            Ok(parsed) => parsed,
            Err(why) => return self.discard(why, frame),
        };
        let Parsed { from, header, start, len } = parsed;
        if !self.channels.contains(header.channel) {
            return self.discard(Discard::Channel, frame);
        }
        // The protocol reads the payload of control frames only, and keeps none of those.
        let mut control = [0; LONGEST_CONTROL];
        let control = match header.kind {
            Kind::Data => &control[..0],
            _ => {
                let bytes = &self.arena.bytes(&frame)[start.into()..][..len.into()];
                let bytes = &bytes[..bytes.len().min(LONGEST_CONTROL)];
                control[..bytes.len()].copy_from_slice(bytes);
                &control[..bytes.len()]
            }
        };
        if header.kind == Kind::Hello {
            self.learn(from, &frame);
        }
        let inbound = Inbound { frame, start, len };
        match self.proto.handle(self.now, from, (&header, control), inbound) {
            Handled::Kept => {}
            Handled::Done(inbound) | Handled::Discarded(_, inbound) => {
                self.link.recycle(inbound.frame);
            }
        }
    }

    #[cold]
    fn discard(&mut self, why: Discard, frame: RxFrame) {
        if let Discard::Version(version) = why {
            let bytes = self.arena.bytes(&frame);
            if let Ok((from, &[_, _, _, _, kind, channel, ..])) = self.sources.envelope.open(bytes)
            {
                self.proto.handle_foreign_version(from, channel, version, kind & 0xf);
            }
        } else {
            self.proto.counters_mut().discard(why);
        }
        self.link.recycle(frame);
    }

    /// Frees what the protocol is done with.
    #[inline]
    fn reap(&mut self) {
        while let Some(message) = self.proto.poll_acknowledged() {
            self.release(message);
        }
        while let Some(inbound) = self.proto.poll_discarded() {
            self.link.recycle(inbound.frame);
        }
    }

    /// Reads the clock and puts on the wire whatever should go now: one doorbell for all.
    #[inline]
    pub(crate) fn transmit(&mut self) -> Result<(), LinkError> {
        self.now = self.clock.now();
        self.transmit_pending()
    }

    #[inline]
    fn transmit_pending(&mut self) -> Result<(), LinkError> {
        if self.post_pending() || self.backlog {
            self.backlog = !self.link.flush()?;
        }
        Ok(())
    }

    /// Posts all that should go now; whether there was anything.
    #[inline]
    fn post_pending(&mut self) -> bool {
        let mut posted = false;
        let Self { link, proto, sources, arena, routes, now, .. } = self;
        while let Some(transmit) = proto.poll_transmit(*now) {
            let stranger;
            let route = match transmit.to {
                Destination::Peer(peer) => routes.get(peer.0 as usize).and_then(Option::as_ref),
                Destination::Stranger(key) => {
                    stranger = sources.route(key.node);
                    stranger.as_ref()
                }
            };
            let Some(route) = route else {
                debug_assert!(false, "a session with a peer to which there is no route");
                continue;
            };
            let header = transmit.header;
            posted |= match transmit.body {
                Body::Message(message) => post_message(&mut **link, arena, route, &header, message),
                Body::Control(payload) => post_control(&mut **link, arena, route, &header, payload),
            };
        }
        posted
    }

    /// Admits a message; it goes out with the next [`transmit`](Self::transmit).
    #[inline]
    pub(crate) fn send(
        &mut self,
        peer: PeerId,
        message: Outbound,
    ) -> Result<(), gigae_proto::SendError<Outbound>> {
        self.proto.send(self.now, peer, message.len, message)
    }

    /// The peer of a key, with its outer headers built.
    pub(crate) fn peer(&mut self, key: PeerKey) -> Option<PeerId> {
        let peer = self.proto.peer(key)?;
        self.complete_routes();
        Some(peer)
    }

    /// A node that speaks first is answered from the address to which it spoke. Nodes are only
    /// learnt while there is room for their peers.
    #[cold]
    fn learn(&mut self, from: NodeAddr, frame: &RxFrame) {
        if let (NodeAddr::Ip { ip, .. }, Some(own)) =
            (from, self.sources.envelope.destination(self.arena.bytes(frame)))
            && self.sources.ip.len() < self.proto.config().max_peers
        {
            self.sources.ip.entry(ip).or_insert(own);
        }
    }

    /// Builds the outer headers of peers that the protocol has entered by itself.
    fn complete_routes(&mut self) {
        while self.routes.len() < self.proto.peers() {
            let peer = PeerId(u32::try_from(self.routes.len()).expect("bounded by max_peers"));
            self.routes.push(self.sources.route(self.proto.key(peer).node));
        }
    }

    /// Sends all acknowledgements that wait for company: the caller is about to sleep.
    pub(crate) fn acknowledge(&mut self) -> Result<(), LinkError> {
        self.proto.acknowledge_all();
        self.transmit()
    }

    /// Sleeps until a frame comes or something is due, at most for `limit`.
    pub(crate) fn sleep(&mut self, limit: Option<Duration>) -> Result<(), LinkError> {
        self.acknowledge()?;
        let retry = self.backlog.then_some(BACKLOG_NAP);
        let timeout = [self.time_left(), limit, retry].into_iter().flatten().min();
        self.link.wait(timeout)?;
        self.vain = 0;
        Ok(())
    }

    /// Time until something is due by itself; `None` if nothing is.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        match self.proto.next_deadline() {
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

/// What a received frame says, without its bytes.
struct Parsed {
    from: NodeAddr,
    header: Header,
    start: u16,
    len: u16,
}

#[inline]
fn parse(envelope: Envelope, frame: &[u8]) -> Result<Parsed, Discard> {
    let (from, inner) = envelope.open(frame)?;
    let (header, payload) = Header::parse(inner)?;
    // IPv6 and the like may be followed by padding, so the start is counted from the front.
    let start = inner.as_ptr().addr() - frame.as_ptr().addr() + HEADER_LEN;
    let place = |n: usize| u16::try_from(n).map_err(|_| Discard::Malformed);
    Ok(Parsed { from, header, start: place(start)?, len: place(payload.len())? })
}

/// Writes the header in front of a message and posts it; false if the NIC still holds the frame
/// from its last sending, which then need not be repeated.
#[inline]
fn post_message(
    link: &mut dyn Link,
    arena: &Arena,
    route: &Route,
    header: &Header,
    message: &mut Outbound,
) -> bool {
    let mut frame = match message.held.take().expect("a message keeps its frame") {
        Held::Taken(frame) => frame,
        Held::Posted(posted) => match link.reclaim(posted) {
            Ok(frame) => frame,
            Err(posted) => {
                message.held = Some(Held::Posted(posted));
                return false;
            }
        },
    };
    let end = PAYLOAD + usize::from(message.len);
    let range = seal(arena.bytes_mut(&mut frame), end, route, header);
    message.held = Some(Held::Posted(link.post(frame, range)));
    true
}

/// Posts a control frame, whose loss the protocol copes with: also when there is no frame for it.
fn post_control(
    link: &mut dyn Link,
    arena: &Arena,
    route: &Route,
    header: &Header,
    payload: &[u8],
) -> bool {
    let Some(mut frame) = link.take() else { return false };
    let bytes = arena.bytes_mut(&mut frame);
    let end = PAYLOAD + payload.len();
    bytes[PAYLOAD..end].copy_from_slice(payload);
    let range = seal(bytes, end, route, header);
    let posted = link.post(frame, range);
    link.release(posted);
    true
}

/// Writes all headers in front of the payload that ends at `end`, pads to the shortest frame, and
/// returns where the frame lies.
#[inline]
fn seal(bytes: &mut [u8], end: usize, route: &Route, header: &Header) -> std::ops::Range<usize> {
    let start = PAYLOAD - HEADER_LEN - route.len();
    header.seal(&mut bytes[PAYLOAD - HEADER_LEN..end]);
    route.write(&mut bytes[start..end]);
    let padded = end.max(start + SHORTEST_FRAME);
    bytes[end..padded].fill(0);
    start..padded
}
