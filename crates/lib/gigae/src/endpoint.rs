//! The endpoint: what a program holds.

use crate::address::{Address, Host};
use crate::engine::{Engine, Neighbour, NotQueued};
use crate::inbox::Received;
use crate::links::Arenas;
use crate::message::{Failed, Kept, Message, SendBuffer};
use crate::options::{Options, Progress};
use crate::resolve::{Hop, Reservation};
use crate::sharing::Port;
use crate::simulated;
use crate::sources::Way;
use crate::wait::{Ended, For, Vain, Wait, Waiter};
use crate::{DiscoverError, DrainError, PeerError, RecvError, SendError, TrySendError};
use gigae_link::{ChannelSet, Info, Link, LinkError, OpenError};
use gigae_progress::{Attended, Guard, Owner};
use gigae_proto::{PeerId, PeerKey};
use gigae_wire::{Envelope, NodeAddr};
use rustix::event::epoll;
use std::cell::RefCell;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Another endpoint on one channel, as this endpoint knows it. Small and free to copy; it stays
/// valid, also when the peer restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub(crate) PeerId);

/// Counts since the endpoint was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages, retransmissions, STOPs, CRC errors and all else that the protocol counts.
    pub protocol: gigae_proto::Counters,
    /// Tagged messages by the way they went, and operations that were refused.
    pub operations: gigae_transfer::Counters,
    /// Frames, doorbell system calls, wake-ups and all else that the link counts.
    pub link: gigae_link::Counters,
    /// Received frames that had to be copied because too many were lent.
    pub copied: u64,
    /// How often the clock was read (some 25 ns each time).
    pub clock_reads: u64,
    /// How often the progress thread acted for this endpoint ([`Progress::Auto`]).
    pub progress_turns: u64,
    /// How often the process's progress thread has woken up, for all endpoints.
    pub progress_wakeups: u64,
}

/// A link of an endpoint, and what happened there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Path {
    /// What it is.
    pub info: Info,
    /// Frames, doorbells and all else that the link counts.
    pub link: gigae_link::Counters,
    /// Frames that were lost there, how often it was given up and how often it came back, over all
    /// peers. Of an endpoint's only link, only the lost frames are of interest.
    pub counters: gigae_proto::PathCounters,
}

/// Sends and receives messages over one interface, or several as one. See the crate's description.
///
/// It is used by one thread at a time (it is `Send` and not `Sync`); messages and buffers borrow
/// from it.
pub struct Endpoint {
    engine: Owner<Engine>,
    /// The process's thread acts for it while the program does not.
    attended: Option<Attended>,
    arenas: Arenas,
    info: Info,
    channels: ChannelSet,
    max_message: usize,
    waiter: RefCell<Waiter>,
    linger: Duration,
    /// The UDP port, kept from the kernel's stack, and the way to ask the kernel for routes.
    /// `None` in an Ethernet envelope, and where no kernel is asked.
    reservation: Option<Reservation>,
    /// The link's descriptor, a duplicate of its own, so that lending it borrows no engine.
    fd: Option<OwnedFd>,
}

impl Endpoint {
    /// Opens an endpoint on an interface with everything at its default: port id 0, channel 0, the
    /// best link that the interface and the kernel allow, adaptive waiting.
    ///
    /// Takes some milliseconds: programs are loaded, memory is mapped and locked.
    pub fn open(interface: &str) -> Result<Self, OpenError> {
        Options::new(interface).open()
    }

    pub(crate) fn new(
        mut engine: Engine,
        options: &Options,
        reservation: Option<Reservation>,
    ) -> Result<Self, OpenError> {
        let info = engine.links.first.info().clone();
        let failed = |what| move |source| OpenError::Io { what, source };
        let link = engine.links.fd().map_err(failed("duplicating the link's descriptor"))?;
        let news = match (&link, options.progress) {
            (Some(_), Progress::Auto) => Some(engine.tell_news().map_err(failed(WATCHING))?),
            _ => None,
        };
        let arenas = engine.links.arenas.clone();
        let max_message = engine.proto.config().max_payload.into();
        let engine =
            Owner::new(engine, link.is_some()).map_err(failed("mapping the endpoint's lock"))?;
        let (mut attended, mut fd) = (None, None);
        if let Some(link) = link {
            fd = Some(match news {
                Some(news) => {
                    let thread = gigae_progress::attend(&engine, link.as_fd());
                    attended = Some(thread.map_err(failed("starting the progress thread"))?);
                    watch_both(&link, &news).map_err(|e| failed(WATCHING)(e.into()))?
                }
                None => link,
            });
        }
        Ok(Self {
            arenas,
            channels: options.channels,
            max_message,
            waiter: RefCell::new(waiter(options.wait, fd.is_none())),
            linger: options.linger,
            engine,
            attended,
            info,
            reservation,
            fd,
        })
    }

    /// Says why the link is not a better one.
    pub(crate) fn instead_of(mut self, refused: Option<OpenError>) -> Self {
        if let Some(refused) = refused {
            self.info.reason = format!("AF_XDP was refused: {refused}");
        }
        let shares = self.engine().links.ports.first().and_then(Port::reason);
        if let Some(shares) = shares {
            self.info.reason = format!("{}; {shares}", self.info.reason);
        }
        self
    }

    #[inline(always)]
    pub(crate) fn engine(&self) -> Guard<'_, Engine> {
        self.engine.enter()
    }

    pub(crate) fn arenas(&self) -> &Arenas {
        &self.arenas
    }

    /// The link underneath: its mode, why that mode, its address. Of several, the first: its address
    /// names the endpoint.
    pub fn link(&self) -> &Info {
        &self.info
    }

    /// Longest message in bytes: what one frame holds.
    #[inline]
    pub fn max_message(&self) -> usize {
        self.max_message
    }

    /// Names another endpoint. Nothing is sent to it; for an IP address, the kernel is asked how to
    /// reach it, which may look for the neighbour on the wire and take up to a second then.
    pub fn peer(&self, address: impl Into<Address>) -> Result<Peer, PeerError> {
        let Address { host, port, channel } = address.into();
        if !self.channels.contains(channel) {
            return Err(PeerError::Channel(channel));
        }
        let node = match (host, &self.reservation) {
            (Host::Mac(mac), None) if !mac.is_group() && !self.is_in_ip() => mac.into(),
            (Host::Ip(ip), None) if self.is_in_ip() => {
                let source = simulated::ip(self.info.mac, ip.is_ipv6());
                self.by_way(ip, Way { source, next_hop: simulated::next_hop(ip)? })
            }
            (Host::Ip(ip), Some(_)) if self.is_own(ip, port) => {
                self.by_way(ip, Way { source: ip, next_hop: self.info.mac })
            }
            (Host::Ip(ip), Some(reservation)) => {
                let Hop { source, next_hop } =
                    reservation.next_hop(ip).map_err(|e| PeerError::Unreachable(e.to_string()))?;
                self.by_way(ip, Way { source, next_hop })
            }
            _ => return Err(PeerError::Family),
        };
        let mut engine = self.engine();
        let most = engine.proto.config().max_peers;
        engine.peer(PeerKey { node, port, channel }).map(Peer).ok_or(PeerError::TooMany(most))
    }

    /// A node that is reached by this way from now on.
    fn by_way(&self, ip: IpAddr, way: Way) -> NodeAddr {
        self.engine().set_way(ip, way);
        NodeAddr::Ip { ip, next_hop: way.next_hop }
    }

    /// Whether this is the address of this very endpoint, to which operations need no way.
    fn is_own(&self, ip: IpAddr, port: u16) -> bool {
        let engine = self.engine();
        let own = engine.sources.own.as_ref().is_some_and(|own| own.contains(&ip));
        own && port == engine.proto.config().port
    }

    fn is_in_ip(&self) -> bool {
        matches!(self.engine().sources.envelope, Envelope::Udp { .. })
    }

    /// The address of a peer.
    pub fn address(&self, peer: Peer) -> Address {
        let PeerKey { node, port, channel } = self.engine().proto.key(peer.0);
        let host = match node {
            NodeAddr::Ethernet(mac) => Host::Mac(mac),
            NodeAddr::Ip { ip, .. } => Host::Ip(ip),
        };
        Address { host, port, channel }
    }

    /// A transmit buffer to fill in place; waits while all are in use. Fails where none can come free: the
    /// program holds all of them, or messages that failed do.
    pub fn buffer(&self) -> Result<SendBuffer<'_>, SendError> {
        loop {
            if let Some(buffer) = self.try_buffer() {
                return Ok(buffer);
            }
            self.wait_for_buffer()?;
        }
    }

    /// A transmit buffer to fill in place, or `None` while all are in use: receive or make progress.
    #[inline]
    pub fn try_buffer(&self) -> Option<SendBuffer<'_>> {
        let frame = self.engine().take()?;
        Some(SendBuffer::new(self, frame))
    }

    /// Sends a message: one copy, one doorbell. Waits while the window towards the peer is full,
    /// which a peer that is there and does not receive may prolong without limit (STOP); one that
    /// is not there is reported within the peer timeout.
    ///
    /// Accepted is not delivered: a message that is not acknowledged comes back by
    /// [`take_failure`](Self::take_failure). [`drain`](Self::drain) waits for all.
    #[inline]
    pub fn send(&self, to: Peer, message: &[u8]) -> Result<(), SendError> {
        self.accept::<true>(to, message)
    }

    /// Like [`send`](Self::send) without the doorbell: the message goes with the next
    /// [`flush`](Self::flush), `send` or receive, or when 32 frames wait. For streams: one doorbell
    /// for many messages, and one frame for as many small ones as fit.
    #[inline]
    pub fn queue(&self, to: Peer, message: &[u8]) -> Result<(), SendError> {
        self.accept::<false>(to, message)
    }

    /// Queues a message, and rings the doorbell if that is wanted.
    #[inline]
    fn accept<const RING: bool>(&self, to: Peer, message: &[u8]) -> Result<(), SendError> {
        self.check_len(message.len())?;
        loop {
            let queued = {
                let mut engine = self.engine();
                let queued = engine.queue(to.0, message);
                if RING && queued.is_ok() {
                    engine.exchange_accepted();
                }
                queued
            };
            match queued {
                Ok(()) => return Ok(()),
                Err(NotQueued::NoFrame) => self.wait_for_buffer()?,
                Err(NotQueued::WindowFull) => self.wait_for_room(to)?,
                Err(NotQueued::Refused(e)) => return Err(e),
            }
        }
    }

    /// Like [`send`](Self::send), but never waits.
    pub fn try_send(&self, to: Peer, message: &[u8]) -> Result<(), TrySendError<()>> {
        self.check_len(message.len())?;
        let mut engine = self.engine();
        match engine.queue(to.0, message) {
            Ok(()) => {
                engine.exchange_accepted();
                Ok(())
            }
            Err(NotQueued::Refused(e)) => Err(TrySendError::Refused(e)),
            Err(NotQueued::NoFrame | NotQueued::WindowFull) => {
                engine.exchange()?;
                Err(TrySendError::WouldBlock(()))
            }
        }
    }

    /// Rings the doorbell for everything that was queued, and takes in what has arrived, so that
    /// acknowledgements free buffers while they are still in the cache. One system call, none if
    /// nothing was queued.
    #[inline]
    pub fn flush(&self) -> Result<(), SendError> {
        Ok(self.engine().exchange()?)
    }

    /// Rings the doorbell for everything that was queued or started, and takes nothing in, unless operations wait
    /// for a window that is full: for a program that looks at once for what has arrived, which
    /// [`flush`](Self::flush) would only do before it. One system call, none if there is nothing.
    #[inline]
    pub fn ring(&self) -> Result<(), SendError> {
        Ok(self.engine().ring()?)
    }

    /// The next message, or `None` if there is none now. Takes frames in, sends acknowledgements
    /// and repeats what is due.
    #[inline(always)]
    pub fn try_recv(&self) -> Result<Option<Message<'_>>, RecvError> {
        let mut engine = self.engine();
        if engine.is_idle() {
            return Ok(None);
        }
        let mut part = engine.next_part();
        if part.is_none() && engine.poll()? > 0 {
            part = engine.next_part();
        }
        match part {
            Some(part) => Ok(Some(Message::new(self, Received::Part(part)))),
            None => {
                let copied = engine.next_copy()?;
                Ok(copied.map(|copied| Message::new(self, Received::Copy(copied))))
            }
        }
    }

    /// The next message; waits for it as the endpoint's waiting style says.
    #[inline]
    pub fn recv(&self) -> Result<Message<'_>, RecvError> {
        match self.recv_until(None)? {
            Some(message) => Ok(message),
            None => unreachable!("there is no end to wait for"),
        }
    }

    /// The next message, or `None` after `timeout`.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Message<'_>>, RecvError> {
        // The clock is read only if there is something to wait for.
        match self.try_recv()? {
            Some(message) => Ok(Some(message)),
            None => self.recv_until(Some(Instant::now() + timeout)),
        }
    }

    #[inline]
    fn recv_until(&self, end: Option<Instant>) -> Result<Option<Message<'_>>, RecvError> {
        let mut pause = Pause::default();
        loop {
            if let Some(message) = self.try_recv()? {
                pause.end(self);
                return Ok(Some(message));
            }
            if !pause.pass(self, end)? {
                return Ok(None);
            }
        }
    }

    /// Takes in frames, sends acknowledgements and repeats what is due, without waiting. For event loops, and
    /// with [`Progress::Manual`] for programs that are busy with other things for long.
    pub fn progress(&self) -> Result<(), SendError> {
        self.engine().poll()?;
        Ok(())
    }

    /// Waits until everything that was sent is acknowledged, and every operation but receives
    /// completed, at most for `timeout`. Messages that
    /// arrive meanwhile are kept for the next receive. What is acknowledged lies with the peer's
    /// endpoint; that its program has read it, only an answer of the program says.
    pub fn drain(&self, timeout: Duration) -> Result<(), DrainError> {
        let end = Instant::now() + timeout;
        self.engine().acknowledge()?;
        let mut pause = Pause::default();
        loop {
            if self.engine().has_failures() {
                return Err(DrainError::Failed);
            }
            if !self.engine().is_owed() {
                pause.end(self);
                return Ok(());
            }
            if !pause.pass(self, Some(end))? {
                return Err(DrainError::Timeout(timeout));
            }
            self.engine().poll()?;
        }
    }

    /// Asks all endpoints on the wire who they are; what they answer shows in
    /// [`neighbours`](Self::neighbours) as it is received. Question and answer may be lost, so ask
    /// more than once. Endpoints answer by themselves while they make progress; those on this very
    /// interface do not hear it, and of several on one other interface only one may. In the UDP
    /// envelope the interface's IPv4 subnet is asked. 1 system call.
    pub fn ask(&self) -> Result<(), DiscoverError> {
        self.engine().ask()
    }

    /// The endpoints that have answered since this one was opened, by name. Allocates.
    pub fn neighbours(&self) -> Vec<Neighbour> {
        let mut all = self.engine().neighbours().to_vec();
        all.sort_by(|a, b| (&a.name, a.mac, a.port).cmp(&(&b.name, b.mac, b.port)));
        all
    }

    /// What this endpoint answers when others ask who it is.
    pub fn identity(&self) -> Neighbour {
        self.engine().identity()
    }

    /// [Asks](Self::ask) every 100 ms for so long, and returns who has answered.
    pub fn discover(&self, time: Duration) -> Result<Vec<Neighbour>, DiscoverError> {
        const ASK_EVERY: Duration = Duration::from_millis(100);
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.ask()?;
            let next = end.min(Instant::now() + ASK_EVERY);
            let mut pause = Pause::default();
            while pause.pass(self, Some(next))? {
                self.engine().poll()?;
            }
        }
        Ok(self.neighbours())
    }

    /// The next message that was not acknowledged and will not be, with the reason. Until all of a
    /// peer's are taken, nothing more can be sent to it.
    pub fn take_failure(&self) -> Option<Failed<'_>> {
        let (message, to, reason) = self.engine().take_failure()?;
        Some(Failed::new(self, message, Peer(to), reason))
    }

    /// A descriptor that polls readable when a frame may have arrived, for epoll and the like;
    /// `None` on a simulated link. Before sleeping on it, call
    /// [`prepare_to_wait`](Self::prepare_to_wait); afterwards, receive until there is nothing more.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Sends the acknowledgements that wait for company, and says how long the program may sleep
    /// on the [descriptor](Self::fd) before it must call [`progress`](Self::progress): `None`, for
    /// as long as it likes, as always with [`Progress::Auto`]; zero, something waits for the next call already.
    ///
    /// With [`Progress::Auto`] the descriptor is readable, too, when the thread has taken something in that the
    /// program may want. One system call more then.
    pub fn prepare_to_wait(&self) -> Result<Option<Duration>, SendError> {
        let mut engine = self.engine();
        engine.poll()?;
        let may_sleep = engine.acknowledge()?;
        engine.watch_from_outside(self.engine.calls().wrapping_add(1));
        let waiting = engine.has_news() || engine.links.prepare_to_wait();
        engine.leave_figures_soon();
        let left = if self.attended.is_some() { None } else { engine.time_left() };
        Ok(if waiting || !may_sleep { Some(Duration::ZERO) } else { left })
    }

    /// Tells all peers that this endpoint is gone, as dropping it does, without waiting: what is not
    /// acknowledged fails. Once. For simulations: dropping waits in real time.
    #[doc(hidden)]
    pub fn farewell(&self) -> Result<(), LinkError> {
        self.engine().close()
    }

    /// A message of this endpoint that was [kept](Message::keep); of another endpoint's frames, its bytes
    /// are refused by a panic. For simulations.
    #[doc(hidden)]
    pub fn kept(&self, message: Kept) -> Message<'_> {
        message.into_message(self)
    }

    /// Whether some peers have neither answered the [farewell](Self::farewell) nor been given up.
    #[doc(hidden)]
    pub fn is_leaving(&self) -> bool {
        self.engine().proto.is_closing()
    }

    /// What was counted since the endpoint was opened. The kernel's own counts cost a system call.
    pub fn counters(&self) -> Counters {
        let engine = self.engine();
        Counters {
            protocol: *engine.proto.counters(),
            operations: *engine.transfer.counters(),
            link: engine.links.all().map(Link::counters).fold(Default::default(), sum),
            copied: engine.inbox.copied(),
            clock_reads: engine.clock_reads,
            progress_turns: engine.progress_turns(),
            progress_wakeups: gigae_progress::wakeups(),
        }
    }

    /// Its links, each with what happened there since the endpoint was opened: one, or several as one
    /// ([`Options::trunk`]). The kernel's own counts cost a system call for each link.
    pub fn paths(&self) -> Vec<Path> {
        let engine = self.engine();
        let paths = engine.proto.paths().into_iter();
        let path = |(link, counters): (&crate::link::AnyLink, _)| Path {
            info: link.info().clone(),
            link: link.counters(),
            counters,
        };
        engine.links.all().zip(paths).map(path).collect()
    }

    /// Changes how blocking calls wait.
    pub fn set_wait(&self, style: Wait) {
        *self.waiter.borrow_mut() = waiter(style, self.fd.is_none());
    }

    #[inline]
    pub(crate) fn check_len(&self, len: usize) -> Result<(), SendError> {
        let max = self.max_message;
        if len > max { Err(SendError::TooLong { len, max }) } else { Ok(()) }
    }

    /// Waits until there may be a transmit frame.
    #[cold]
    fn wait_for_buffer(&self) -> Result<(), SendError> {
        self.engine().transmit()?;
        let mut pause = Pause::for_room();
        loop {
            // At once, or the thread may take in meanwhile what would free a frame.
            let mut engine = self.engine();
            engine.poll()?;
            if let Some(frame) = engine.take() {
                engine.give_back_unsent(frame);
                drop(engine);
                pause.end(self);
                return Ok(());
            }
            if let Some(error) = engine.starved() {
                return Err(error);
            }
            drop(engine);
            pause.pass(self, None)?;
        }
    }

    /// Waits until the window towards a peer may have room.
    #[cold]
    pub(crate) fn wait_for_room(&self, to: Peer) -> Result<(), SendError> {
        self.engine().transmit()?;
        let mut pause = Pause::for_room();
        loop {
            self.engine().poll()?;
            // What was just taken in may be all that there was to wait for.
            if !self.engine().proto.is_full(to.0) {
                break;
            }
            pause.pass(self, None)?;
        }
        pause.end(self);
        Ok(())
    }

    /// Waits a while for the acknowledgement of what was sent, then ends all sessions and waits
    /// until the peers know; all that within [`Options::linger`].
    fn close(&self) -> Result<(), LinkError> {
        let end = Instant::now() + self.linger;
        match self.drain(self.linger) {
            Err(DrainError::Link(e)) => return Err(e),
            Ok(()) | Err(DrainError::Failed | DrainError::Timeout(_)) => self.engine().close()?,
        }
        let mut pause = Pause::default();
        while self.engine().proto.is_closing() && pause.pass(self, Some(end))? {
            self.engine().poll()?;
        }
        Ok(())
    }
}

impl Drop for Endpoint {
    /// Waits at most for [`Options::linger`] for the acknowledgement of what was sent, then tells
    /// all peers that this endpoint is gone and what has arrived here. A peer that is there answers
    /// at once; others are waited for 127 ms at most, within the same linger.
    ///
    /// In a child of fork(2) nothing happens: the links are the parent's.
    fn drop(&mut self) {
        if self.engine.is_forked() {
            return;
        }
        // A link that stopped working has nobody left to tell.
        let _ = self.close();
        self.attended = None;
    }
}

/// Who spins on a simulated link waits for ever: its time moves only while somebody sleeps.
fn waiter(style: Wait, simulated: bool) -> Waiter {
    Waiter::new(if simulated && style == Wait::Spin { Wait::Sleep } else { style })
}

const WATCHING: &str = "watching the links and the progress thread";

/// One descriptor that is readable while one of two is.
fn watch_both(a: &OwnedFd, b: &OwnedFd) -> Result<OwnedFd, rustix::io::Errno> {
    let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for fd in [a, b] {
        epoll::add(&both, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    }
    Ok(both)
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("link", &self.info).finish_non_exhaustive()
    }
}

/// What two links have counted together.
fn sum(a: gigae_link::Counters, b: gigae_link::Counters) -> gigae_link::Counters {
    gigae_link::Counters {
        tx_frames: a.tx_frames + b.tx_frames,
        rx_frames: a.rx_frames + b.rx_frames,
        doorbells: a.doorbells + b.doorbells,
        drives: a.drives + b.drives,
        waits: a.waits + b.waits,
        wakeups: a.wakeups + b.wakeups,
        rx_dropped: a.rx_dropped + b.rx_dropped,
        tx_invalid: a.tx_invalid + b.tx_invalid,
        memory_tx_frames: a.memory_tx_frames + b.memory_tx_frames,
        memory_rx_frames: a.memory_rx_frames + b.memory_rx_frames,
        memory_full: a.memory_full + b.memory_full,
    }
}

/// One wait: polls in vain, and what they cost.
#[derive(Default)]
pub(crate) struct Pause {
    wanted: For,
    since: Option<Instant>,
    polls: u32,
    slept: bool,
    napped: bool,
    /// Turns of the thread when this wait last meant to sleep.
    turns: Option<u64>,
}

/// Vain polls between two looks at the clock.
const LOOK_EVERY: u32 = 32;

impl Pause {
    /// A wait for room to send.
    fn for_room() -> Self {
        Self { wanted: For::Room, ..Self::default() }
    }

    /// Passes the time until the next poll. False when the end has come.
    #[inline]
    pub(crate) fn pass(
        &mut self,
        endpoint: &Endpoint,
        end: Option<Instant>,
    ) -> Result<bool, LinkError> {
        self.polls = self.polls.wrapping_add(1);
        let style = endpoint.waiter.borrow().style;
        let timeless = style == Wait::Spin && end.is_none();
        if timeless || (style != Wait::Sleep && !self.polls.is_multiple_of(LOOK_EVERY)) {
            std::hint::spin_loop();
            return Ok(true);
        }
        self.look(endpoint, end)
    }

    fn look(&mut self, endpoint: &Endpoint, end: Option<Instant>) -> Result<bool, LinkError> {
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            return Ok(false);
        }
        let waited = now - *self.since.get_or_insert(now);
        let left = end.map(|end| end - now);
        let vain = endpoint.waiter.borrow().vain(waited, self.wanted, self.napped);
        match vain {
            Vain::Spin => {}
            Vain::Nap(nap) => {
                self.napped = true;
                endpoint.engine().nap(left.map_or(nap, |left| left.min(nap)))?;
            }
            Vain::Sleep => {
                self.slept = true;
                endpoint.engine.sleep(|engine| {
                    // A turn of the thread between the caller's look and now may have taken in what the
                    // caller waits for, and nothing else would come: the caller looks again.
                    let turns = Some(engine.progress_turns());
                    if std::mem::replace(&mut self.turns, turns) == turns {
                        engine.sleep(left)
                    } else {
                        Ok(())
                    }
                })?;
            }
        }
        Ok(true)
    }

    /// The wait is over.
    #[inline]
    pub(crate) fn end(&self, endpoint: &Endpoint) {
        if self.since.is_some() {
            let ended = {
                let engine = endpoint.engine();
                let counters = engine.proto.counters();
                Ended {
                    slept: self.slept,
                    napped: self.napped,
                    messages_sent: counters.messages_sent,
                    frames_received: engine.frames_received,
                }
            };
            endpoint.waiter.borrow_mut().ended(ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use gigae_progress::Attend;
    use gigae_sim::{Faults, Network};

    #[test]
    fn who_waits_looks_again_after_a_turn_of_the_thread_instead_of_sleeping() {
        let net = Network::new(1, Faults::default());
        let endpoint = Options::new("sim").wait(Wait::Sleep).open_simulated(&net, 1).unwrap();
        let mut pause = Pause::default();
        let mut slept = || {
            let before = endpoint.counters().link.waits;
            let end = Instant::now() + Duration::from_secs(60);
            assert!(pause.pass(&endpoint, Some(end)).unwrap());
            endpoint.counters().link.waits > before
        };
        // Nobody knows what happened before the first look.
        assert_eq!([slept(), slept(), slept()], [false, true, true]);
        endpoint.engine().attend(0, &|| false);
        assert_eq!([slept(), slept()], [false, true]);
    }
}
