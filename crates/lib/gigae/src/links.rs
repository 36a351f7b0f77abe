//! The links of an endpoint: one, or several as one (`PROTOCOL.md` §11).
//!
//! The first is the one whose frames programs write their messages into; what goes out by a further
//! one is copied into a frame of that. Received frames are read where they lie. A link that does not
//! work is none of the program's business while there are others: the protocol is told, and goes by
//! those. With one link nothing here costs more than a comparison with "none".

use crate::link::AnyLink;
use crate::outbound::Outbound;
use crate::sharing::Port;
use gigae_link::{Arena, Info, Link, LinkError, OpenError, RxFrame, RxPart};
use gigae_observe::Tap;
use gigae_proto::{PathTo, PeerId};
use gigae_wire::{Envelope, Header, MacAddr, NodeAddr, Route};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Longest sleep on several links: the kernel wakes no sleeper when an interface goes away.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);

/// The frame memories of an endpoint's links, by number.
#[derive(Clone)]
pub(crate) struct Arenas {
    pub(crate) first: Arc<Arena>,
    /// With the number that a link's first frame has among those of all links. Behind them what the first
    /// link has [beside](Link::beside) its own, whose frames have their numbers already.
    further: Box<[(Arc<Arena>, u32)]>,
    /// Whether it has.
    beside: bool,
}

impl Arenas {
    /// The bytes of a part of a received frame.
    #[inline]
    pub(crate) fn part<'a>(&'a self, part: &'a RxPart) -> &'a [u8] {
        if self.further.is_empty() || self.first.holds(part) {
            return self.first.part(part);
        }
        self.holder(part).0.part(part)
    }

    /// The number of a part's frame among those of all links.
    #[inline]
    pub(crate) fn number(&self, part: &RxPart) -> u32 {
        if self.further.is_empty() || self.first.holds(part) {
            return part.slot();
        }
        self.holder(part).1 + part.slot()
    }

    fn holder(&self, part: &RxPart) -> &(Arc<Arena>, u32) {
        self.further.iter().find(|(arena, _)| arena.holds(part)).expect("a frame of these links")
    }

    /// The number of a link's frame among those of all links.
    #[inline]
    pub(crate) fn number_of(&self, path: usize, frame: &RxFrame) -> u32 {
        match path {
            0 => frame.slot(),
            _ => self.further[path - 1].1 + frame.slot(),
        }
    }

    /// The bytes of a received frame of a link.
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, path: usize, frame: &'a RxFrame) -> &'a [u8] {
        match path {
            0 if self.beside && !self.first.has(frame) => {
                self.further[self.further.len() - 1].0.bytes(frame)
            }
            0 => self.first.bytes(frame),
            _ => self.further[path - 1].0.bytes(frame),
        }
    }
}

/// A link beyond the first.
pub(crate) struct Further {
    link: AnyLink,
    mac: MacAddr,
    /// Outer headers by peer.
    routes: Vec<Option<Route>>,
    /// Something was posted since the last doorbell, or the NIC did not take everything then.
    due: bool,
    down: bool,
}

/// Descriptors of several links, as one.
struct Watch {
    /// Readable as long as any of them is: for programs.
    all: OwnedFd,
    /// The same when something new has come: a packet socket is readable for as long as its newest
    /// frame is lent, and sleeping on that would not be sleeping.
    news: OwnedFd,
}

/// See the module's description.
pub(crate) struct Links {
    pub(crate) first: AnyLink,
    pub(crate) arenas: Arenas,
    pub(crate) further: Vec<Further>,
    /// The first link does not work, as far as is known. Never said of the only one.
    down: bool,
    watch: Option<Watch>,
    /// The links' interfaces, in their order, where there is a kernel. After the links, for some go with them.
    pub(crate) ports: Vec<Port>,
}

impl Links {
    pub(crate) fn new(first: AnyLink, further: Vec<AnyLink>) -> Result<Self, OpenError> {
        let number = |frames| u32::try_from(frames).expect("fewer than 2^32 frames");
        let mut numbers = frames(&first);
        let mut arenas = Vec::new();
        for link in &further {
            arenas.push((Arc::clone(link.arena()), number(numbers)));
            numbers += frames(link);
        }
        arenas.extend(first.beside().map(|beside| (Arc::clone(beside), 0)));
        let beside = first.beside().is_some();
        let arenas = Arenas { first: Arc::clone(first.arena()), further: arenas.into(), beside };
        let further = further
            .into_iter()
            .map(|link| {
                let mac = link.info().mac;
                Further { link, mac, routes: Vec::new(), due: false, down: false }
            })
            .collect();
        let mut links =
            Self { first, arenas, further, down: false, watch: None, ports: Vec::new() };
        if links.several() && links.first.fd().is_some() {
            let watch = links.watch_all();
            links.watch =
                Some(watch.map_err(|e| OpenError::Io {
                    what: "watching several links",
                    source: e.into(),
                })?);
        }
        Ok(links)
    }

    fn watch_all(&self) -> Result<Watch, Errno> {
        let watch = |flags| {
            let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            for (i, link) in self.all().enumerate() {
                let data = epoll::EventData::new_u64(i as u64);
                link.fd().map_or(Ok(()), |fd| epoll::add(&all, fd, data, flags))?;
            }
            Ok(all)
        };
        let (all, news) = (epoll::EventFlags::IN, epoll::EventFlags::IN | epoll::EventFlags::ET);
        Ok(Watch { all: watch(all)?, news: watch(news)? })
    }

    #[inline]
    pub(crate) fn several(&self) -> bool {
        !self.further.is_empty()
    }

    /// All links, the first one first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &AnyLink> {
        std::iter::once(&self.first).chain(self.further.iter().map(|further| &further.link))
    }

    /// Frames of all links.
    pub(crate) fn frames(&self) -> usize {
        self.all().map(frames).sum()
    }

    /// The program is about to sleep by itself. Whether there is something to poll already.
    pub(crate) fn prepare_to_wait(&mut self) -> bool {
        let further = self.further.iter_mut().map(|further| &mut further.link);
        std::iter::once(&mut self.first).chain(further).any(Link::prepare_to_wait)
    }

    /// Takes down what passes on all links from now on, or nothing any more.
    pub(crate) fn tap(&mut self, tap: Option<&Tap>) {
        let further = self.further.iter_mut().map(|further| &mut further.link);
        for (number, link) in std::iter::once(&mut self.first).chain(further).enumerate() {
            match tap {
                Some(tap) => link.tap(tap.clone(), number),
                None => link.untap(),
            }
        }
    }

    /// What a link is.
    pub(crate) fn info(&self, path: usize) -> &Info {
        match path {
            0 => self.first.info(),
            _ => self.further[path - 1].link.info(),
        }
    }

    /// What people see a link's interface as.
    pub(crate) fn shown(&self, path: usize) -> String {
        self.ports.get(path).map_or_else(|| self.info(path).interface.clone(), Port::shown)
    }

    /// A descriptor that polls readable when a frame may have arrived on any link: a duplicate.
    pub(crate) fn fd(&self) -> std::io::Result<Option<OwnedFd>> {
        match &self.watch {
            Some(watch) => watch.all.try_clone().map(Some),
            None => self.first.fd().map(|fd| fd.try_clone_to_owned()).transpose(),
        }
    }

    #[inline]
    pub(crate) fn recycle(&mut self, path: usize, frame: RxFrame) {
        match path {
            0 => self.first.recycle(frame),
            _ => self.further[path - 1].link.recycle(frame),
        }
    }

    /// Has so many frames ready for reception on every link: all of them may come by one.
    pub(crate) fn provide(&mut self, frames: usize) {
        self.first.provide(frames);
        self.further.iter_mut().for_each(|further| further.link.provide(frames));
    }

    /// Whether a frame may have arrived on a link beyond the first.
    #[cold]
    pub(crate) fn further_has_arrived(&mut self) -> bool {
        self.further.iter_mut().any(|further| further.link.has_arrived())
    }

    /// Takes up to `max` frames from a link beyond the first. One that does not work has none, and
    /// the error is for the protocol.
    pub(crate) fn poll_further(
        &mut self,
        path: usize,
        batch: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<usize, LinkError> {
        self.further[path - 1].link.poll(batch, max)
    }

    /// Where a path leads from now on.
    pub(crate) fn lead(&mut self, to: PathTo, envelope: Envelope) {
        let PathTo { peer: PeerId(peer), path, node } = to;
        let Some(further) = self.further.get_mut(path - 1) else { return };
        let peer = peer as usize;
        if further.routes.len() <= peer {
            further.routes.resize_with(peer + 1, || None);
        }
        further.routes[peer] = Route::new(envelope, further.mac.into(), node);
    }

    /// The outer headers towards a stranger by a link beyond the first.
    pub(crate) fn route_by(&self, path: usize, to: NodeAddr, envelope: Envelope) -> Option<Route> {
        Route::new(envelope, self.further[path - 1].mac.into(), to)
    }

    /// Whether the first link may be posted to. One that is down would keep the frames: while it is,
    /// nothing goes there but now and then a probe, if the doorbell says that it is back.
    #[inline]
    pub(crate) fn first_is_up(&mut self) -> bool {
        if self.down {
            self.down = self.first.flush().is_err();
        }
        !self.down
    }

    /// Whether what goes to a node by the first link goes through memory: then nothing else has to. A look-up at most.
    #[inline]
    pub(crate) fn is_near(&mut self, node: NodeAddr) -> bool {
        match node {
            NodeAddr::Ethernet(mac) => !self.down && self.first.is_near(mac),
            NodeAddr::Ip { .. } => false,
        }
    }

    /// Posts a data frame on a link beyond the first. One copy.
    #[cold]
    #[inline(never)]
    pub(crate) fn post_further(
        &mut self,
        path: usize,
        peer: PeerId,
        buffer: &Outbound,
        header: &Header,
    ) -> bool {
        let further = &mut self.further[path - 1];
        if !further.is_up() {
            return false;
        }
        let Some(Some(route)) = further.routes.get(peer.0 as usize) else { return false };
        let from = &self.arenas.first;
        let posted = buffer.post_copy(from, &mut further.link, route, header);
        further.due |= posted;
        posted
    }

    /// Posts a control frame on a link beyond the first, to a peer or by a route of its own.
    #[cold]
    pub(crate) fn post_control_further(
        &mut self,
        path: usize,
        to: Result<PeerId, Route>,
        header: &Header,
        payload: (&[u8], u16),
    ) -> bool {
        let further = &mut self.further[path - 1];
        if !further.is_up() {
            return false;
        }
        let route = match &to {
            Ok(peer) => further.routes.get(peer.0 as usize).and_then(Option::as_ref),
            Err(route) => Some(route),
        };
        let Some(route) = route else { return false };
        let arena = Arc::clone(further.link.arena());
        let posted =
            crate::outbound::post_control(&mut further.link, &arena, route, header, payload);
        further.due |= posted;
        posted
    }

    /// Rings the doorbells of the links beyond the first that have something to send. `failed` is
    /// told which do not work. Whether all NICs took everything.
    pub(crate) fn flush_further(&mut self, mut failed: impl FnMut(usize)) -> bool {
        let mut all = true;
        for (i, further) in self.further.iter_mut().enumerate() {
            if !further.due {
                continue;
            }
            match further.link.flush() {
                Ok(taken) => {
                    further.due = !taken;
                    all &= taken;
                }
                Err(_) => {
                    further.due = false;
                    further.down = true;
                    failed(i + 1);
                }
            }
        }
        all
    }

    /// Notes that a link does not work, unless it is the only one: then the error is the program's.
    pub(crate) fn tolerate(&mut self, path: usize, error: LinkError) -> Result<(), LinkError> {
        match path {
            _ if !self.several() => return Err(error),
            0 => self.down = true,
            _ => self.further[path - 1].down = true,
        }
        Ok(())
    }

    /// Sleeps until a frame may have arrived on any link, or `timeout` has passed, or something else
    /// happened. `failed` is told which links do not work. Several links cost three system calls
    /// each more than one.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        mut failed: impl FnMut(usize),
    ) -> Result<(), LinkError> {
        if !self.several() {
            return self.first.wait(timeout).map(drop);
        }
        if let AnyLink::Simulated(first) = self.first.plain() {
            let network = first.network().clone();
            let port = |link: &AnyLink| match link.plain() {
                AnyLink::Simulated(link) => Some(link.port()),
                _ => None,
            };
            let ports: Vec<_> = self.all().filter_map(port).collect();
            network.wait(&ports, timeout.map(|timeout| timeout.as_nanos() as u64));
            return Ok(());
        }
        // Each one's own way to look, which also gives the kernel what it needs to wake us.
        for path in 0..=self.further.len() {
            let link = match path {
                0 => &mut self.first,
                _ => &mut self.further[path - 1].link,
            };
            match link.wait(Some(Duration::ZERO)) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    self.tolerate(path, error)?;
                    failed(path);
                }
            }
        }
        // What links asked for in order to wake us they have taken back with that look.
        if self.prepare_to_wait() {
            return Ok(());
        }
        let Some(watch) = &self.watch else { return Ok(()) };
        let slice = timeout.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
        let time = Timespec { tv_sec: 0, tv_nsec: slice.subsec_nanos().into() };
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; gigae_wire::MAX_PATHS];
        match epoll::wait(&watch.news, &mut events[..], Some(&time)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(LinkError::Io { what: "waiting for several links", source: e.into() }),
        }
    }
}

impl Further {
    fn is_up(&mut self) -> bool {
        if self.down {
            self.down = self.link.flush().is_err();
        }
        !self.down
    }
}

/// Frames of a link, numbered from zero.
fn frames(link: &AnyLink) -> usize {
    let info = link.info();
    let beside = if link.beside().is_some() { info.rx_frames } else { 0 };
    info.tx_frames + info.rx_frames + beside
}
