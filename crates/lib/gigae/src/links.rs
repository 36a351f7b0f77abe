//! The links of an endpoint: one, or several as one (`PROTOCOL.md` §11).
//!
//! A link has the number of its path. Programs write their messages into frames of the first link.
//! A message that goes out by another link is copied into a frame of that link. Received frames are
//! read where they lie.
//!
//! The only link's errors are the program's. Where there are several, a link that does not work is
//! given up: the protocol uses the others in the meantime.
//!
//! The first link lies in the structure itself, so with a single link nothing here costs more than
//! a comparison with zero.

mod arenas;
mod bulk;
mod member;
mod near;
mod routes;

use crate::link::AnyLink;
use crate::outbound::Outbound;
use crate::sharing::ClaimedPort;
use arenas::frames;
use gigae_link::{Info, Link, LinkError, Mode, OpenError, RxFrame};
use gigae_observe::Tap;
use gigae_proto::{BulkConfig, Instant, PathTo, PeerId, Protocol};
use gigae_shm::ShmLink;
use gigae_wire::{Envelope, Header, MAX_PATHS, MacAddr, NodeAddr, PartHeader, PathId};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::net::SocketAddr;
use std::ops::{Index, IndexMut};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use arenas::Arenas;
use bulk::BulkSocket;
pub(crate) use member::{Member, To};

/// Longest sleep on several links: the kernel wakes no sleeper when an interface goes away.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);

/// See the module's description.
pub(crate) struct Links {
    first: Member,
    rest: Box<[Member]>,
    pub(crate) arenas: Arenas,
    /// Readable when something new has come by any of several links: a packet socket is readable
    /// while all receive frames are lent and more wait, and sleeping on that would not be sleeping.
    poller: Option<OwnedFd>,
    /// Links that `poller` has: none before the first sleep, since a watched link costs some 100 ns
    /// for each frame, and all after it.
    watched: usize,
    /// If the second link is a socket for bulk data.
    bulk: Option<BulkSocket>,
    /// The links' interfaces, in their order, where there is a kernel. After the links, for some go
    /// with them.
    pub(crate) ports: Vec<ClaimedPort>,
}

impl Links {
    pub(crate) fn new(
        envelope: Envelope,
        first: AnyLink,
        rest: Vec<AnyLink>,
    ) -> Result<Self, OpenError> {
        let member = |link| Member::new(link, envelope);
        Self::of(member(first), rest.into_iter().map(member).collect(), None)
    }

    /// One link, and a socket for bulk data.
    pub(crate) fn with_bulk(
        envelope: Envelope,
        link: AnyLink,
        socket: AnyLink,
        config: BulkConfig,
    ) -> Result<Self, OpenError> {
        let member = Member::of_socket(socket, config.at);
        Self::of(Member::new(link, envelope), [member].into(), Some(BulkSocket::new(config)))
    }

    fn of(first: Member, rest: Box<[Member]>, bulk: Option<BulkSocket>) -> Result<Self, OpenError> {
        let all = std::iter::once(&first).chain(&rest).map(|member| &member.link);
        let arenas = Arenas::new(&first.link, all);
        let mut links =
            Self { first, rest, arenas, poller: None, watched: 0, bulk, ports: Vec::new() };
        if links.several() && links.first.link.fd().is_some() {
            let fail =
                |e: Errno| OpenError::Io { what: "watching several links", source: e.into() };
            links.poller = Some(epoll::create(epoll::CreateFlags::CLOEXEC).map_err(fail)?);
        }
        Ok(links)
    }

    /// Has `poller` watch all links.
    fn watch(&mut self) -> Result<(), Errno> {
        for path in PathId::all(self.count()).skip(self.watched) {
            let (Some(poller), Some(link)) = (&self.poller, self[path].link.fd()) else { break };
            // A socket is readable only while something waits there.
            let edge = epoll::EventFlags::ET;
            let edge = if self.is_bulk(path) { epoll::EventFlags::empty() } else { edge };
            let data = epoll::EventData::new_u64(path.index() as u64);
            epoll::add(poller, link, data, epoll::EventFlags::IN | edge)?;
            self.watched = path.index() + 1;
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn several(&self) -> bool {
        !self.rest.is_empty()
    }

    /// The socket for bulk data, if there is one: its address, and the longest payload there.
    pub(crate) fn bulk(&self) -> Option<BulkConfig> {
        self.bulk.as_ref().map(|bulk| bulk.config)
    }

    /// Whether a link is a socket for bulk data.
    #[inline]
    pub(crate) fn is_bulk(&self, path: PathId) -> bool {
        !path.is_first() && self.bulk.is_some()
    }

    /// Datagrams that the socket for bulk data has received. A frame may take several.
    pub(crate) fn datagrams(&self) -> u64 {
        match self.all().nth(1) {
            Some(AnyLink::Bulk(link)) => link.datagrams_received(),
            _ => 0,
        }
    }

    /// Whether a bulk frame has come in parts and some are missing.
    pub(crate) fn is_incomplete(&self) -> bool {
        matches!(self.all().nth(1), Some(AnyLink::Bulk(link)) if link.is_incomplete())
    }

    /// The links that are not a socket for bulk data.
    pub(crate) fn without_bulk(&self) -> impl Iterator<Item = &AnyLink> {
        self.all().take(if self.bulk.is_some() { 1 } else { MAX_PATHS })
    }

    /// Whether to poll the links behind the first in this round.
    #[inline]
    pub(crate) fn are_others_due(&mut self) -> bool {
        self.several() && self.bulk.as_mut().is_none_or(BulkSocket::is_due)
    }

    /// This many frames came by the links behind the first.
    pub(crate) fn polled_others(&mut self, frames: usize, now: Instant) {
        if let Some(bulk) = &mut self.bulk {
            bulk.polled(frames, now);
        }
    }

    /// Whether the next round looks at all links before anything counts as late.
    #[inline]
    pub(crate) fn are_behind(&mut self, now: Instant) -> bool {
        self.bulk.as_mut().is_some_and(|bulk| bulk.is_behind(now))
    }

    /// Takes the time.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant) {
        if let Some(bulk) = &mut self.bulk {
            bulk.advance(now);
        }
    }

    /// A peer was asked for bulk data.
    pub(crate) fn asked_for_bulk(&mut self, now: Instant) {
        if let Some(bulk) = &mut self.bulk {
            bulk.asked(now);
        }
    }

    /// A frame of bulk data goes by the socket.
    pub(crate) fn sent_bulk(&mut self, now: Instant) {
        if let Some(bulk) = &mut self.bulk {
            bulk.sent(now);
        }
    }

    /// Frames that go first have this priority in switches from now on. False if those of a link
    /// cannot have one.
    pub(crate) fn set_priority(&mut self, priority: u8) -> bool {
        let rest = if self.bulk.is_some() { &mut [][..] } else { &mut self.rest[..] };
        rest.iter_mut().fold(self.first.set_priority(priority), |all, member| {
            member.set_priority(priority) && all
        })
    }

    /// Posts a frame by the link in parts: a bulk frame, since the socket does not work, or one of
    /// the link's, since the network carries such long ones no more. Whether all parts were posted.
    #[cold]
    #[inline(never)]
    pub(crate) fn post_parts(
        &mut self,
        to: PeerId,
        buffer: &mut Outbound,
        header: &Header,
        longest: usize,
    ) -> bool {
        let home = self.rest.first_mut().filter(|_| !buffer.path().is_first());
        self.first.post_parts(to, buffer, home, header, longest)
    }

    /// Whether frames of the link are faster to a peer than datagrams of the socket: if those come
    /// one by one, and the link is not a socket itself.
    #[inline]
    pub(crate) fn are_frames_faster(&self, peer: PeerId) -> bool {
        self[PathId::SOCKET].is_uncoalesced(peer) && self.info(PathId::FIRST).mode != Mode::Udp
    }

    /// Whether the datagrams of a frame that came by the socket, if several, came one by one.
    #[cold]
    pub(crate) fn arrived_uncoalesced(&mut self, frame: &RxFrame) -> Option<bool> {
        let [socket] = &mut *self.rest else { return None };
        if let AnyLink::Simulated(link) = socket.link.plain() {
            // In one datagram it would be about half as long as in two.
            let datagram = usize::from(self.bulk.as_ref()?.config.datagram);
            let several = self.arenas.bytes(frame).len() > datagram + datagram / 2;
            return several.then(|| link.is_uncoalesced());
        }
        socket.link.bulk()?.arrived_uncoalesced(frame)
    }

    /// Takes in a part of a frame of a peer that names this socket, which came by the link. Returns
    /// the frame when it is whole. What is wrong with it is its sender's loss.
    #[cold]
    pub(crate) fn take_part(
        &mut self,
        peer: PeerId,
        from: SocketAddr,
        payload: &[u8],
    ) -> Option<RxFrame> {
        let (header, part) = payload.split_first_chunk()?;
        let header = PartHeader::parse(*header, part.len())?;
        let [socket] = &mut *self.rest else { return None };
        socket.link.bulk()?.take_part(peer.0, from, header, part)
    }

    /// How many there are.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        1 + self.rest.len()
    }

    /// All links, in their order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &AnyLink> {
        std::iter::once(&self.first).chain(&self.rest).map(|member| &member.link)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut AnyLink> {
        std::iter::once(&mut self.first).chain(&mut self.rest).map(|member| &mut member.link)
    }

    /// Frames of all links.
    pub(crate) fn frames(&self) -> usize {
        self.all().map(frames).sum()
    }

    /// The program is about to sleep by itself. Whether there is something to poll already.
    pub(crate) fn prepare_to_wait(&mut self) -> bool {
        if let Some(bulk) = &mut self.bulk {
            bulk.expect();
        }
        self.all_mut().any(Link::prepare_to_wait)
    }

    /// Captures the frames of all links from now on, or no longer.
    pub(crate) fn tap(&mut self, tap: Option<&Tap>) {
        for (path, link) in PathId::all(self.count()).zip(self.all_mut()) {
            match tap {
                Some(tap) => link.tap(tap.clone(), path),
                None => link.untap(),
            }
        }
    }

    /// What a link is.
    pub(crate) fn info(&self, path: PathId) -> &Info {
        self[path].link.info()
    }

    /// What people see a link's interface as.
    pub(crate) fn shown(&self, path: PathId) -> String {
        let port = self.ports.get(path.index());
        port.map_or_else(|| self.info(path).interface.clone(), ClaimedPort::shown)
    }

    /// Descriptors that poll readable when a frame may have arrived, one for each link: duplicates.
    /// None if a link has none.
    pub(crate) fn fds(&self) -> std::io::Result<Option<Arc<[OwnedFd]>>> {
        self.all().map(|link| link.fd().map(|fd| fd.try_clone_to_owned()).transpose()).collect()
    }

    #[inline]
    pub(crate) fn recycle(&mut self, path: PathId, frame: RxFrame) {
        self[path].link.recycle(frame);
    }

    /// Has this many frames ready for reception on every link, since all of them may come by one.
    pub(crate) fn provide(&mut self, frames: usize) {
        self.all_mut().for_each(|link| link.provide(frames));
    }

    /// Whether a frame may have arrived.
    #[inline]
    pub(crate) fn has_arrived(&mut self) -> bool {
        self.first.link.has_arrived() || (self.several() && self.has_arrived_by_others())
    }

    #[inline(never)]
    fn has_arrived_by_others(&mut self) -> bool {
        if let Some(bulk) = &mut self.bulk {
            return bulk.is_due();
        }
        self.rest.iter_mut().any(|member| member.link.has_arrived())
    }

    /// Where frames to a peer go by a path from now on.
    pub(crate) fn set_route(&mut self, to: PathTo) {
        let PathTo { peer, path, addr, uncoalesced } = to;
        if path.index() < self.count() {
            self[path].set_uncoalesced(peer, uncoalesced);
            let route = self[path].route_to(addr);
            self[path].routes.set(peer, route);
        }
    }

    /// Whether what goes to a peer by the first link goes through memory, so that no other link is
    /// needed. Two look-ups at most.
    #[inline]
    pub(crate) fn is_near<T, R>(&mut self, proto: &Protocol<T, R>, peer: PeerId) -> bool {
        let near = self.neighbour(proto, peer);
        near.is_some_and(|(local, name)| local.is_near(name))
    }

    /// Whether the process of a peer's endpoint reads this one's memory.
    pub(crate) fn lends_to<T, R>(&mut self, proto: &Protocol<T, R>, peer: PeerId) -> bool {
        let near = self.neighbour(proto, peer);
        near.is_some_and(|(local, name)| local.lends_to(name))
    }

    /// Copies bytes from an address of the process of a peer's endpoint. False if that is not
    /// possible.
    pub(crate) fn read_from<T, R>(
        &mut self,
        proto: &Protocol<T, R>,
        peer: PeerId,
        at: u64,
        into: &mut [u8],
    ) -> bool {
        let near = self.neighbour(proto, peer);
        near.is_some_and(|(local, name)| local.read_from(name, at, into))
    }

    /// The first link, if it works and has memory for endpoints of this node, and the name of a
    /// peer there; `None` for a peer that cannot be on this node.
    #[inline]
    fn neighbour<T, R>(
        &mut self,
        proto: &Protocol<T, R>,
        peer: PeerId,
    ) -> Option<(&mut ShmLink<AnyLink>, MacAddr)> {
        if !self.first.seems_up() {
            return None;
        }
        let local = self.first.link.local()?;
        let key = proto.key(peer);
        let name = match key.node {
            NodeAddr::Ethernet(mac) => mac,
            NodeAddr::Ip { .. } => {
                let route = self.first.routes.to(peer)?;
                local.name_at(route.port_within_node(proto.config().port, key.port)?)
            }
        };
        Some((local, name))
    }

    /// Gives up a link that does not work, unless it is the only one: then the error is the
    /// program's. A socket for bulk data does not count.
    pub(crate) fn give_up(&mut self, path: PathId, error: LinkError) -> Result<(), LinkError> {
        if !self.several() || path.is_first() && self.bulk.is_some() {
            return Err(error);
        }
        if self[path].give_up() {
            let interface = self.shown(path);
            tracing::info!(%interface, %error, "link does not work: frames go by others");
        }
        Ok(())
    }

    /// Sleeps until a frame may have arrived on any link, or `timeout` has passed, or something
    /// else happened. Calls `failed` for each link that does not work. Several links cost three
    /// system calls each more than one.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        mut failed: impl FnMut(PathId),
    ) -> Result<(), LinkError> {
        if !self.several() {
            return self.first.link.wait(timeout).map(drop);
        }
        if let AnyLink::Simulated(first) = self.first.link.plain() {
            let network = first.network().clone();
            let port = |link: &AnyLink| match link.plain() {
                AnyLink::Simulated(link) => Some(link.port()),
                _ => None,
            };
            let ports: Vec<_> = self.all().filter_map(port).collect();
            network.wait(&ports, timeout.map(|timeout| timeout.as_nanos() as u64));
            return Ok(());
        }
        // A wait of no time also gives the kernel what it needs to wake us.
        let asked = if self.bulk.is_some() { 1 } else { self.count() };
        for path in PathId::all(asked) {
            match self[path].link.wait(Some(Duration::ZERO)) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    self.give_up(path, error)?;
                    failed(path);
                }
            }
        }
        // The wait ends with no link asked to wake us.
        if self.prepare_to_wait() {
            return Ok(());
        }
        let broken =
            |e: Errno| LinkError::Io { what: "waiting for several links", source: e.into() };
        self.watch().map_err(broken)?;
        let Some(poller) = &self.poller else { return Ok(()) };
        let slice = timeout.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
        let time = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; gigae_wire::MAX_PATHS];
        // Not by epoll, whose timeout is rounded to milliseconds before Linux 5.11.
        gigae_link::sleep_on(Some(poller.as_fd()), Some(slice))?;
        match epoll::wait(poller, &mut events[..], Some(&time)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(broken(e)),
        }
    }
}

/// By path.
impl Index<PathId> for Links {
    type Output = Member;

    #[inline]
    fn index(&self, path: PathId) -> &Member {
        if path.is_first() { &self.first } else { &self.rest[path.index() - 1] }
    }
}

impl IndexMut<PathId> for Links {
    #[inline]
    fn index_mut(&mut self, path: PathId) -> &mut Member {
        if path.is_first() { &mut self.first } else { &mut self.rest[path.index() - 1] }
    }
}
