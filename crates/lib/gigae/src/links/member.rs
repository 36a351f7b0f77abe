//! One link of an endpoint: where frames go by it, and whether it works.

use super::routes::Routes;
use crate::link::AnyLink;
use crate::outbound::{Outbound, Padded, post_copy};
use crate::simulated;
use gigae_link::{Arena, Link, LinkError, Mode};
use gigae_proto::PeerId;
use gigae_shm::ShmLink;
use gigae_transfer::InPlaceBytes;
use gigae_wire::{
    Envelope, Flags, Header, Kind, MacAddr, NodeAddr, PART_HEADER_LEN, PartHeader, PathAddr,
    Pieces, Route,
};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

/// See the module's description.
pub(crate) struct Member {
    pub(crate) link: AnyLink,
    arena: Arc<Arena>,
    /// The envelope of its frames, and this node's own address in it. The first link's own address
    /// in the UDP envelope depends on the peer, so it is not here.
    pub(crate) envelope: Envelope,
    own: NodeAddr,
    /// Outer headers by peer.
    pub(crate) routes: Routes,
    /// Peers to whose socket datagrams come one by one.
    uncoalesced: HashSet<PeerId>,
    /// The priority in switches of frames that go first.
    priority: Option<u8>,
    /// Something was posted since the last doorbell, or the NIC did not take everything then.
    due: bool,
    /// The link does not work, as far as is known. Never set for the only one.
    down: bool,
}

/// Where a control frame goes.
pub(crate) enum To {
    Peer(PeerId),
    Unknown(Route),
}

impl Member {
    pub(super) fn new(link: AnyLink, envelope: Envelope) -> Self {
        let own = NodeAddr::Ethernet(link.info().mac);
        Self::at(link, envelope, own)
    }

    /// A socket for bulk data with this address.
    pub(super) fn of_socket(link: AnyLink, socket: SocketAddr) -> Self {
        let next_hop = link.info().mac;
        let own = NodeAddr::Ip { ip: socket.ip(), next_hop };
        Self::at(link, Envelope::Udp { port: socket.port() }, own)
    }

    fn at(link: AnyLink, envelope: Envelope, own: NodeAddr) -> Self {
        let arena = Arc::clone(link.memory().arena);
        let (routes, uncoalesced) = (Routes::default(), HashSet::new());
        let (priority, due, down) = (None, false, false);
        Self { link, arena, envelope, own, routes, uncoalesced, priority, due, down }
    }

    /// The outer headers towards a node with an Ethernet address.
    pub(crate) fn route(&self, to: NodeAddr) -> Option<Route> {
        Route::new(self.envelope, self.own, to)
    }

    /// The outer headers towards another end's link or socket.
    pub(super) fn route_to(&self, to: PathAddr) -> Option<Route> {
        let socket = match to {
            PathAddr::Link(mac) => return self.route(mac.into()),
            PathAddr::Socket(socket) => socket,
        };
        let next_hop = match self.link.plain() {
            AnyLink::Simulated(_) => simulated::next_hop(socket.ip()).ok()?,
            // The kernel knows.
            _ => MacAddr::default(),
        };
        let node = NodeAddr::Ip { ip: socket.ip(), next_hop };
        Route::to_port(self.envelope, self.own, node, socket.port())
    }

    /// Frames that go first have this priority from now on, if frames of this link can have one.
    pub(super) fn set_priority(&mut self, priority: u8) -> bool {
        let may = self.link.info().mode != Mode::Udp;
        self.priority = may.then_some(priority);
        may
    }

    /// Whether datagrams come to a peer's socket one by one.
    pub(super) fn is_uncoalesced(&self, peer: PeerId) -> bool {
        self.uncoalesced.contains(&peer)
    }

    /// Remembers whether datagrams come to a peer's socket one by one.
    pub(super) fn set_uncoalesced(&mut self, peer: PeerId, uncoalesced: bool) {
        match uncoalesced {
            true => self.uncoalesced.insert(peer),
            false => self.uncoalesced.remove(&peer),
        };
    }

    /// Posts a data frame whose message lies in this link's memory. It may go `first`.
    #[inline]
    pub(crate) fn post(
        &mut self,
        to: PeerId,
        buffer: &mut Outbound,
        header: &Header,
        first: bool,
    ) -> bool {
        if first && self.priority.is_some() {
            return self.post_first(to, buffer, header);
        }
        let up = self.is_up();
        let Some(route) = self.routes.to(to).filter(|_| up) else { return false };
        let posted = match &mut self.link {
            AnyLink::Local(local) => {
                let header = header_to(local, route, header);
                buffer.post(&mut **local, &self.arena, route, &header)
            }
            link @ (AnyLink::Tapped(_) | AnyLink::Bulk(_)) => {
                let mut header = *header;
                if let Some(bulk) = link.bulk() {
                    bulk.set_numbered(self.uncoalesced.contains(&to));
                } else if let Some(local) = link.local() {
                    header = header_to(local, route, &header);
                }
                buffer.post(link, &self.arena, route, &header)
            }
            link => buffer.post(link, &self.arena, route, header),
        };
        self.due |= posted;
        posted
    }

    /// The same for a frame with a tag that gives it priority, unless it goes through memory.
    #[cold]
    #[inline(never)]
    fn post_first(&mut self, to: PeerId, buffer: &mut Outbound, header: &Header) -> bool {
        let up = self.is_up();
        let Some(route) = self.routes.to(to).filter(|_| up) else { return false };
        let Some(tagged) = tagged(&mut self.link, self.priority, route, header) else {
            return self.post(to, buffer, header, false);
        };
        let posted = buffer.post(&mut self.link, &self.arena, &tagged, header);
        self.due |= posted;
        posted
    }

    /// Posts a bulk frame whose last bytes are `data`, in the program's memory.
    pub(crate) fn post_in_place(
        &mut self,
        to: PeerId,
        buffer: &mut Outbound,
        data: InPlaceBytes<'_>,
        header: &Header,
    ) -> bool {
        let AnyLink::Bulk(link) = &mut self.link else {
            // A simulated socket, or one whose frames are captured.
            return self.bring_in(buffer, Some(data.bytes)) && self.post(to, buffer, header, false);
        };
        link.set_numbered(self.uncoalesced.contains(&to));
        let Some(route) = self.routes.to(to).filter(|_| !self.down) else { return false };
        let posted = buffer.post_in_place(link, &self.arena, data, route, header);
        self.due |= posted;
        posted
    }

    /// Copies into a frame what stayed in the program's memory, or zeros if it is not there any
    /// more. False if the NIC still holds the frame.
    pub(crate) fn bring_in(&mut self, buffer: &mut Outbound, data: Option<&[u8]>) -> bool {
        buffer.bring_in(&mut self.link, &self.arena, data)
    }

    /// Posts a copy of a data frame whose message lies in another link's memory.
    #[cold]
    #[inline(never)]
    pub(crate) fn post_copy(
        &mut self,
        to: PeerId,
        buffer: &Outbound,
        from: &Arena,
        header: &Header,
        first: bool,
    ) -> bool {
        let up = self.is_up();
        let Some(route) = self.routes.to(to).filter(|_| up) else { return false };
        let priority = self.priority.filter(|_| first);
        let tagged = tagged(&mut self.link, priority, route, header);
        let route = tagged.as_ref().unwrap_or(route);
        set_alone(&mut self.link, true);
        let posted = buffer.post_copy(from, &mut self.link, route, header);
        set_alone(&mut self.link, false);
        self.due |= posted;
        posted
    }

    /// Posts a data frame in parts of at most `longest` bytes. It lies in the memory of `home`, or
    /// in this link's.
    pub(super) fn post_parts(
        &mut self,
        to: PeerId,
        buffer: &mut Outbound,
        home: Option<&mut Self>,
        header: &Header,
        longest: usize,
    ) -> bool {
        if matches!(self.link.plain(), AnyLink::Simulated(_)) {
            // A simulated socket puts no parts together, and its frames fit the link.
            return match home {
                Some(home) => self.post_copy(to, buffer, &home.arena, header, false),
                None => self.post(to, buffer, header, false),
            };
        }
        let up = self.is_up();
        let Some(route) = self.routes.to(to).filter(|_| up) else { return false };
        let sealed = match home {
            Some(home) => buffer.seal(&mut home.link, &home.arena, header),
            None => buffer.seal(&mut self.link, &self.arena, header),
        };
        let Some(frame) = sealed else { return false };
        let unit = longest - PART_HEADER_LEN;
        let count = frame.len().div_ceil(unit);
        let mut posted = 0;
        set_alone(&mut self.link, true);
        for (index, part) in (0..).zip(frame.chunks(unit)) {
            let (unit, count) = (unit as u16, count as u8);
            let of = PartHeader { frame: header.seq.0, unit, index, count }.to_bytes();
            let header = Header { kind: Kind::Part, flags: Flags::NONE, ..*header };
            let pieces = [part];
            let payload = Padded::whole(Pieces::new(&of, &pieces));
            let done = post_copy(&mut self.link, &self.arena, route, &header, payload);
            posted += usize::from(done);
        }
        set_alone(&mut self.link, false);
        self.due |= posted > 0;
        posted == count
    }

    /// Posts a control frame. It may go `first`.
    #[inline]
    pub(crate) fn post_control(
        &mut self,
        to: &To,
        header: &Header,
        payload: Padded<'_>,
        first: bool,
    ) -> bool {
        let up = self.is_up();
        let route = match to {
            To::Peer(peer) => self.routes.to(*peer),
            To::Unknown(route) => Some(route),
        };
        if let Some(link) = self.link.bulk() {
            // A question arrives whole in any order of its datagrams.
            link.set_numbered(true);
        }
        let Some(route) = route.filter(|_| up) else { return false };
        let priority = self.priority.filter(|_| first);
        let tagged = tagged(&mut self.link, priority, route, header);
        let route = tagged.as_ref().unwrap_or(route);
        let posted = post_copy(&mut self.link, &self.arena, route, header, payload);
        self.due |= posted;
        posted
    }

    /// Rings the doorbell if something waits for it. Whether the NIC took everything.
    #[inline]
    pub(crate) fn flush(&mut self) -> Result<bool, LinkError> {
        if self.due {
            // What was posted stays so while the link does not work.
            self.due = !self.link.flush()?;
        }
        Ok(!self.due)
    }

    /// Whether frames may be posted. A link that is down would keep them: while it is, a frame only
    /// probes whether the doorbell works again.
    #[inline]
    fn is_up(&mut self) -> bool {
        if self.down {
            self.down = self.link.flush().is_err();
        }
        !self.down
    }

    /// Whether the link may work.
    pub(super) fn seems_up(&self) -> bool {
        !self.down
    }

    /// The link does not work; others do. Whether it seemed to work until now.
    pub(super) fn give_up(&mut self) -> bool {
        self.due = false;
        !std::mem::replace(&mut self.down, true)
    }
}

/// Outer headers that give a frame this priority. `None` if it has none, or goes through memory.
fn tagged(
    link: &mut AnyLink,
    priority: Option<u8>,
    route: &Route,
    header: &Header,
) -> Option<Route> {
    let priority = priority?;
    let near = link.local().is_some_and(|local| {
        name_within_node(local, route, header).is_some_and(|name| local.is_near(name))
    });
    (!near).then(|| route.tagged(priority))
}

/// Whether what is posted next goes alone, by a link that puts several frames into one buffer. A
/// peer may get no such buffer, and each repetition of a copy would be one again.
fn set_alone(link: &mut AnyLink, alone: bool) {
    if let Some(link) = link.udp() {
        link.set_alone(alone);
    }
}

/// The header of a data frame by a link that has memory for endpoints of this node. A frame that
/// goes only through memory has no checksum of its payload: no wire can change it.
#[inline]
fn header_to(local: &mut ShmLink<AnyLink>, route: &Route, header: &Header) -> Header {
    let near = name_within_node(local, route, header).is_some_and(|name| local.is_near(name));
    let also = if near { Flags::HEADER_ONLY } else { Flags::NONE };
    Header { flags: header.flags.with(also), ..*header }
}

/// The name of the endpoint that frames with this header reach by a route, if it may be on this
/// node.
#[inline]
fn name_within_node(local: &ShmLink<AnyLink>, route: &Route, header: &Header) -> Option<MacAddr> {
    route.destination().or_else(|| {
        let port = route.port_within_node(header.src_port, header.dst_port)?;
        Some(local.name_at(port))
    })
}
