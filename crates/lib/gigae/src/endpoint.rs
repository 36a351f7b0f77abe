//! The endpoint: what a program holds.

mod closing;
mod counters;
mod discovery;
mod messages;
mod operations;
mod waiting;

use crate::address::{Address, Host};
use crate::engine::Engine;
use crate::error::{PeerError, SendError};
use crate::links::Arenas;
use crate::peer::Peer;
use crate::resolve::{Hop, Reservation};
use crate::sharing::Port;
use crate::simulated;
use crate::sources::Way;
use crate::wait::{Wait, Waiter};
use gigae_link::{ChannelSet, Info, OpenError};
use gigae_progress::{Attended, Guard, Owner};
use gigae_proto::PeerKey;
use gigae_wire::{Envelope, NodeAddr};
use rustix::event::epoll;
use std::cell::RefCell;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

pub use counters::{Counters, Path};

/// What an endpoint is told when it is made, besides its engine.
pub(crate) struct Settings {
    pub(crate) channels: ChannelSet,
    pub(crate) wait: Wait,
    pub(crate) linger: Duration,
    /// The process's thread acts for the endpoint, unless the network is simulated.
    pub(crate) attended: bool,
    pub(crate) reservation: Option<Reservation>,
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
    pub(crate) fn new(mut engine: Engine, settings: Settings) -> Result<Self, OpenError> {
        let info = engine.links.info(0).clone();
        let failed = |what| move |source| OpenError::Io { what, source };
        let link = engine.links.fd().map_err(failed("duplicating the link's descriptor"))?;
        let news = match &link {
            Some(_) if settings.attended => {
                Some(engine.news_descriptor().map_err(failed(WATCHING))?)
            }
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
            channels: settings.channels,
            max_message,
            waiter: RefCell::new(waiter(settings.wait, fd.is_none())),
            linger: settings.linger,
            engine,
            attended,
            info,
            reservation: settings.reservation,
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

    /// The link underneath: its mode, why that mode, its address. Of several, the first: its
    /// address names the endpoint.
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

    /// A descriptor that polls readable when a frame may have arrived, for epoll and the like;
    /// `None` on a simulated link. Before sleeping on it, call
    /// [`prepare_to_wait`](Self::prepare_to_wait); afterwards, receive until there is nothing more.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
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
