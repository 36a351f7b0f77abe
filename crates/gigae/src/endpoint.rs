//! The endpoint: what a program holds.

use crate::address::{Address, Host};
use crate::engine::{Engine, Outbound};
use crate::message::{Failed, Message, SendBuffer};
use crate::options::Options;
use crate::resolve::Reservation;
use crate::wait::{Wait, Waiter};
use crate::{DrainError, PeerError, RecvError, SendError, TrySendError};
use gigae_link::{Arena, ChannelSet, Info, LinkError, OpenError, RxFrame};
use gigae_proto::{PeerId, PeerKey};
use gigae_wire::{Epoch, NodeAddr};
use std::cell::{Cell, RefCell, RefMut};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
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
    /// Frames, doorbell system calls, wake-ups and all else that the link counts.
    pub link: gigae_link::Counters,
    /// Received messages that had to be copied because too many frames were lent.
    pub copied: u64,
}

/// Sends and receives messages over one interface. See the crate's description.
///
/// It is used by one thread at a time (it is `Send` and not `Sync`); messages and buffers borrow
/// from it.
pub struct Endpoint {
    engine: RefCell<Engine>,
    arena: Arc<Arena>,
    info: Info,
    channels: ChannelSet,
    max_message: usize,
    waiter: RefCell<Waiter>,
    linger: Duration,
    /// Received frames in messages' hands.
    lent: Cell<usize>,
    most_lent: usize,
    copied: Cell<u64>,
    /// The UDP port, kept from the kernel's stack, and the way to ask the kernel for routes.
    /// `None` in an Ethernet envelope.
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
        engine: Engine,
        options: &Options,
        reservation: Option<Reservation>,
    ) -> Result<Self, OpenError> {
        let info = engine.link.info().clone();
        let fd =
            engine.link.fd().map(|fd| fd.try_clone_to_owned()).transpose().map_err(|source| {
                OpenError::Io { what: "duplicating the link's descriptor", source }
            })?;
        Ok(Self {
            arena: Arc::clone(engine.link.arena()),
            channels: options.channels,
            max_message: engine.proto.config().max_payload.into(),
            waiter: RefCell::new(Waiter::new(options.wait)),
            linger: options.linger,
            lent: Cell::new(0),
            most_lent: info.rx_frames / 2,
            copied: Cell::new(0),
            engine: RefCell::new(engine),
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
        self
    }

    pub(crate) fn engine(&self) -> RefMut<'_, Engine> {
        self.engine.borrow_mut()
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The link underneath: its mode, why that mode, its address.
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
            (Host::Mac(mac), None) if !mac.is_group() => mac.into(),
            (Host::Ip(ip), Some(reservation)) => {
                let hop =
                    reservation.next_hop(ip).map_err(|e| PeerError::Unreachable(e.to_string()))?;
                self.engine().sources.ip.insert(ip, hop.source);
                NodeAddr::Ip { ip, next_hop: hop.next_hop }
            }
            _ => return Err(PeerError::Family),
        };
        let mut engine = self.engine();
        let most = engine.proto.config().max_peers;
        engine.peer(PeerKey { node, port, channel }).map(Peer).ok_or(PeerError::TooMany(most))
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

    /// A transmit buffer to fill in place; waits while all are in use.
    pub fn buffer(&self) -> Result<SendBuffer<'_>, SendError> {
        if let Some(buffer) = self.try_buffer() {
            return Ok(buffer);
        }
        self.engine().transmit()?;
        let mut pause = Pause::default();
        loop {
            self.engine().poll()?;
            if let Some(buffer) = self.try_buffer() {
                pause.end(self);
                return Ok(buffer);
            }
            pause.pass(self, None)?;
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
    pub fn send(&self, to: Peer, message: &[u8]) -> Result<(), SendError> {
        self.queue(to, message)?;
        self.flush()
    }

    /// Like [`send`](Self::send) without the doorbell: the message goes with the next
    /// [`flush`](Self::flush), `send` or receive. For streams: one doorbell for many messages.
    pub fn queue(&self, to: Peer, message: &[u8]) -> Result<(), SendError> {
        self.check_len(message.len())?;
        let mut buffer = self.buffer()?;
        buffer[..message.len()].copy_from_slice(message);
        buffer.queue(to, message.len())
    }

    /// Like [`send`](Self::send), but never waits.
    pub fn try_send(&self, to: Peer, message: &[u8]) -> Result<(), TrySendError<()>> {
        self.check_len(message.len())?;
        let Some(mut buffer) = self.try_buffer() else {
            self.progress()?;
            return Err(TrySendError::WouldBlock(()));
        };
        buffer[..message.len()].copy_from_slice(message);
        match buffer.try_queue(to, message.len()) {
            Ok(()) => Ok(self.flush()?),
            Err(TrySendError::Refused(e)) => Err(TrySendError::Refused(e)),
            Err(TrySendError::WouldBlock(_)) => {
                self.progress()?;
                Err(TrySendError::WouldBlock(()))
            }
        }
    }

    /// Rings the doorbell for everything that was queued, and takes in what has arrived, so that
    /// acknowledgements free buffers while they are still in the cache. One system call, none if
    /// nothing was queued.
    #[inline]
    pub fn flush(&self) -> Result<(), SendError> {
        let mut engine = self.engine();
        engine.transmit()?;
        engine.poll()?;
        Ok(())
    }

    /// The next message, or `None` if there is none now. Takes frames in, sends acknowledgements
    /// and repeats what is due.
    #[inline]
    pub fn try_recv(&self) -> Result<Option<Message<'_>>, RecvError> {
        let mut engine = self.engine();
        let mut delivery = engine.proto.poll_delivery();
        if delivery.is_none() {
            engine.poll()?;
            delivery = engine.proto.poll_delivery();
        }
        let Some(delivery) = delivery else {
            return if engine.proto.has_failures() { Err(RecvError::Failed) } else { Ok(None) };
        };
        let (from, epoch) = (Peer(delivery.peer), delivery.epoch);
        if self.lent.get() < self.most_lent {
            self.lent.set(self.lent.get() + 1);
            return Ok(Some(Message::lent(self, delivery.buffer, from, epoch)));
        }
        let copy = delivery.buffer.bytes(&self.arena).into();
        engine.link.recycle(delivery.buffer.frame);
        self.copied.set(self.copied.get() + 1);
        Ok(Some(Message::copied(self, copy, from, epoch)))
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
        self.recv_until(Some(Instant::now() + timeout))
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

    /// Takes in frames, sends acknowledgements and repeats what is due, without waiting. For
    /// programs that are busy with other things for long, and for event loops.
    pub fn progress(&self) -> Result<(), SendError> {
        self.engine().poll()?;
        Ok(())
    }

    /// Waits until everything that was sent is acknowledged, at most for `timeout`. Messages that
    /// arrive meanwhile are kept for the next receive.
    pub fn drain(&self, timeout: Duration) -> Result<(), DrainError> {
        let end = Instant::now() + timeout;
        self.engine().acknowledge()?;
        let mut pause = Pause::default();
        loop {
            if self.engine().proto.has_failures() {
                return Err(DrainError::Failed);
            }
            if !self.engine().proto.has_unacknowledged() {
                pause.end(self);
                return Ok(());
            }
            if !pause.pass(self, Some(end))? {
                return Err(DrainError::Timeout(timeout));
            }
            self.engine().poll()?;
        }
    }

    /// The next message that was not acknowledged and will not be, with the reason. Until all of a
    /// peer's are taken, nothing more can be sent to it.
    pub fn take_failure(&self) -> Option<Failed<'_>> {
        let mut engine = self.engine();
        let mut failure = engine.proto.poll_failure()?;
        let copy = failure.buffer.bytes(&self.arena).into();
        engine.release(failure.buffer);
        Some(Failed::new(self, copy, Peer(failure.peer), failure.reason))
    }

    /// A descriptor that polls readable when a frame may have arrived, for epoll and the like;
    /// `None` on a simulated link. Before sleeping on it, call
    /// [`prepare_to_wait`](Self::prepare_to_wait); afterwards, receive until there is nothing more.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Sends the acknowledgements that wait for company, and says how long the program may sleep
    /// on the [descriptor](Self::fd) before it must call [`progress`](Self::progress): `None`, for
    /// as long as it likes; zero, messages are waiting already.
    pub fn prepare_to_wait(&self) -> Result<Option<Duration>, SendError> {
        let mut engine = self.engine();
        engine.poll()?;
        engine.acknowledge()?;
        Ok(if engine.proto.has_deliveries() || engine.proto.has_failures() {
            Some(Duration::ZERO)
        } else {
            engine.time_left()
        })
    }

    /// What was counted since the endpoint was opened. The kernel's own counts cost a system call.
    pub fn counters(&self) -> Counters {
        let engine = self.engine();
        Counters {
            protocol: *engine.proto.counters(),
            link: engine.link.counters(),
            copied: self.copied.get(),
        }
    }

    /// Changes how blocking calls wait.
    pub fn set_wait(&self, style: Wait) {
        *self.waiter.borrow_mut() = Waiter::new(style);
    }

    #[inline]
    pub(crate) fn check_len(&self, len: usize) -> Result<(), SendError> {
        let max = self.max_message;
        if len > max { Err(SendError::TooLong { len, max }) } else { Ok(()) }
    }

    /// Admits a message. If it is not, it comes back, with an error unless it need only wait.
    #[inline]
    pub(crate) fn admit(
        &self,
        to: Peer,
        message: Outbound,
    ) -> Result<(), (Outbound, Option<SendError>)> {
        use gigae_proto::SendError as Refused;
        let len = message.len.into();
        self.engine().send(to.0, message).map_err(|refused| match refused {
            Refused::WouldBlock(message) => (message, None),
            Refused::Failed(message) => (message, Some(SendError::Failed)),
            Refused::TooLong(message, max) => {
                (message, Some(SendError::TooLong { len, max: max.into() }))
            }
        })
    }

    /// Waits until the window towards a peer may have room.
    #[cold]
    pub(crate) fn wait_for_room(&self, to: Peer) -> Result<(), SendError> {
        self.engine().transmit()?;
        let mut pause = Pause::default();
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

    /// The application is done with a message; `frame` is `None` if it had been copied.
    #[inline]
    pub(crate) fn give_back(&self, frame: Option<RxFrame>, from: Peer, epoch: Epoch) {
        let mut engine = self.engine();
        if let Some(frame) = frame {
            self.lent.set(self.lent.get() - 1);
            engine.link.recycle(frame);
        }
        engine.proto.release(from.0, epoch);
    }

    /// Before closing: waits a while for the acknowledgement of what was sent.
    fn linger(&self) -> Result<(), LinkError> {
        match self.drain(self.linger) {
            Err(DrainError::Link(e)) => Err(e),
            Ok(()) | Err(DrainError::Failed | DrainError::Timeout(_)) => self.engine().close(),
        }
    }
}

impl Drop for Endpoint {
    /// Waits at most for [`Options::linger`] for the acknowledgement of what was sent, then tells
    /// all peers that this endpoint is gone.
    fn drop(&mut self) {
        // A link that stopped working has nobody left to tell.
        let _ = self.linger();
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("link", &self.info).finish_non_exhaustive()
    }
}

/// One wait: polls in vain, and what they cost.
#[derive(Default)]
struct Pause {
    since: Option<Instant>,
    polls: u32,
    slept: bool,
}

/// Vain polls between two looks at the clock.
const LOOK_EVERY: u32 = 32;

impl Pause {
    /// Passes the time until the next poll. False when the end has come.
    #[inline]
    fn pass(&mut self, endpoint: &Endpoint, end: Option<Instant>) -> Result<bool, LinkError> {
        self.polls += 1;
        let style = endpoint.waiter.borrow().style;
        if style != Wait::Sleep && !self.polls.is_multiple_of(LOOK_EVERY) {
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
        if endpoint.waiter.borrow().keeps_spinning(waited) {
            return Ok(true);
        }
        self.slept = true;
        endpoint.engine().sleep(end.map(|end| end - now))?;
        Ok(true)
    }

    /// The wait is over.
    #[inline]
    fn end(&self, endpoint: &Endpoint) {
        if self.since.is_some() {
            let mut waiter = endpoint.waiter.borrow_mut();
            if self.slept { waiter.slept() } else { waiter.spun() }
        }
    }
}
