//! The table of peers: which peers are in it, and which make room for others (`PROTOCOL.md` 4.7 and
//! 4.8).
//!
//! Peers that the program named stay. All others are *unnamed* and may hold most of the table, but
//! not all. An unnamed peer that delivered nothing so far is *replaceable*. The program cannot hold
//! its id, so another peer may get its entry once it is old enough.

use super::Protocol;
use crate::log;
use crate::session::{Session, SessionState};
use crate::time::nanos;
use crate::{Arrival, Instant, PeerId, PeerKey, Reason};
use gigae_wire::{Epoch, Header, NodeAddr, Paths};
use std::net::SocketAddr;

/// The part of the table that unnamed peers cannot take: one in this many entries.
const RESERVED_PART: usize = 8;

/// Most entries that unnamed peers of one node may hold, whatever their ports and channels.
const MOST_OF_A_NODE: u32 = 256;

/// Peer timeouts after which another peer may get a replaceable peer's entry. The former peer's
/// epochs begin again when it comes back. Offers are valid for two timeouts, so a Confirm of a
/// session of the former peer is no longer valid then.
const REPLACEABLE_AFTER: u64 = 3;

/// # Peers
impl<T, R> Protocol<T, R> {
    /// The peer with this key, entered in the table if it is new. `None` if the table is full. The
    /// peer stays in the table. Sends nothing.
    pub fn peer(&mut self, key: PeerKey) -> Option<PeerId> {
        let id = match self.table.by_key.get(&key) {
            Some(&id) => id,
            None if self.sessions.len() < self.config.max_peers => self.enter(key)?,
            None => self.replace_oldest(key)?,
        };
        let session = self.session_mut(id);
        if !session.named {
            session.named = true;
            let up = session.is_up();
            self.table.unnamed -= 1;
            self.table.nodes.entry(key.node).or_default().unnamed -= 1;
            if up {
                self.shares.name();
            }
        }
        Some(id)
    }

    /// A peer's part of `frames` frames, at least one: that of an unnamed peer among all peers in
    /// the table, while a named one has all that it wants. If the frames are for `only_named`
    /// peers, that of a named peer among all of these, and another has none. All parts together are
    /// no more than the frames while the table does not grow and has no more peers than there are
    /// frames.
    pub(super) fn part(&self, named: bool, frames: usize, only_named: bool) -> usize {
        match (named, only_named) {
            (true, true) => (frames / (self.sessions.len() - self.table.unnamed).max(1)).max(1),
            (true, false) => usize::MAX,
            (false, true) => 0,
            (false, false) => (frames / self.sessions.len()).max(1),
        }
    }

    /// Enters a peer that the program has not named.
    pub(super) fn enter_unnamed(&mut self, key: PeerKey) -> Option<PeerId> {
        let id = if self.is_full_of(&key.node) {
            None
        } else if self.is_closed_to_unnamed() {
            self.replace_oldest(key)
        } else {
            self.enter(key)
        };
        if let Some(id) = id {
            self.table.replaceable.push_back((id, self.now));
        }
        id
    }

    fn enter(&mut self, key: PeerKey) -> Option<PeerId> {
        let id = PeerId(u32::try_from(self.sessions.len()).ok()?);
        if self.sessions.len() == self.sessions.capacity() {
            // Grows by an eighth: doubling would leave half of the growth unused on average.
            self.sessions.reserve_exact(self.sessions.len() / 8 + 8);
        }
        self.sessions.push(Session::new(key));
        self.table.by_key.insert(key, id);
        self.table.unnamed += 1;
        self.count_entry(key.node);
        Some(id)
    }

    /// An unnamed peer of this node has got an entry.
    fn count_entry(&mut self, node: NodeAddr) {
        let entries = self.table.nodes.entry(node).or_default();
        entries.all += 1;
        entries.unnamed += 1;
    }

    pub(super) fn has_room_for_unnamed(&mut self, node: &NodeAddr) -> bool {
        let room = !self.is_closed_to_unnamed() || self.oldest_replaceable().is_some();
        room && !self.is_full_of(node)
    }

    /// Whether the unnamed peers of this node hold as many entries as they may.
    fn is_full_of(&self, node: &NodeAddr) -> bool {
        let most = MOST_OF_A_NODE;
        self.table.unnamed >= most as usize
            && self.table.nodes.get(node).is_some_and(|entries| entries.unnamed >= most)
    }

    fn is_closed_to_unnamed(&self) -> bool {
        let most = self.config.max_peers;
        self.sessions.len() >= most || self.table.unnamed >= most - most / RESERVED_PART
    }

    /// The oldest replaceable peer, if it is old enough. Looks at each entry once, and at one more.
    fn oldest_replaceable(&mut self) -> Option<PeerId> {
        let age = nanos(self.config.peer_timeout).saturating_mul(REPLACEABLE_AFTER);
        loop {
            let &(peer, since) = self.table.replaceable.front()?;
            let session = self.session(peer);
            if !session.named && !session.known && !session.has_received() {
                return (self.now >= since.after(age)).then_some(peer);
            }
            self.table.replaceable.pop_front();
        }
    }

    /// Gives the oldest replaceable peer's entry to another peer. Its session ends without a frame:
    /// neither end has sent data.
    #[cold]
    fn replace_oldest(&mut self, key: PeerKey) -> Option<PeerId> {
        let peer = self.oldest_replaceable()?;
        self.table.replaceable.pop_front();
        self.fail(peer, Reason::Timeout);
        self.forget_paths(peer);
        self.schedule.timers.set(peer, Instant::NEVER);
        let session = &mut self.sessions[peer.0 as usize];
        let mut fresh = Session::new(key);
        // The lists still hold the id.
        (fresh.queued, fresh.owing, fresh.unstamped) =
            (session.queued, session.owing, session.unstamped);
        fresh.budget = session.budget;
        let former = std::mem::replace(session, fresh);
        log::replaced(&former.key, &key);
        self.table.by_key.remove(&former.key);
        if let Some(entries) = self.table.nodes.get_mut(&former.key.node) {
            entries.all -= 1;
            entries.unnamed -= 1;
            if entries.all == 0 {
                self.table.nodes.remove(&former.key.node);
            }
        }
        self.table.by_key.insert(key, peer);
        self.count_entry(key.node);
        self.table.replaced.push((peer, former.key));
        Some(peer)
    }

    /// The next peer that got the entry of another, and the key of that other. The caller must drop
    /// what it knows of the other's address.
    pub fn poll_replaced(&mut self) -> Option<(PeerId, PeerKey)> {
        self.table.replaced.pop()
    }

    /// The peer that sent a frame and the socket that its session names, if it names one.
    pub fn socket_of(&mut self, from: &NodeAddr, header: &Header) -> Option<(PeerId, SocketAddr)> {
        let Header { src_port: port, channel, .. } = *header;
        let peer = self.find(&PeerKey { node: *from, port, channel })?;
        match self.session(peer).links {
            Paths::Bulk(socket) => Some((peer, socket)),
            _ => None,
        }
    }

    /// Says whether the datagrams of a question by the socket, several, which was taken in just
    /// now, came one by one. Its answer says so.
    pub fn arrived_uncoalesced(&mut self, arrival: &Arrival<'_>, uncoalesced: bool) {
        let Arrival { path, header, .. } = arrival;
        if let Some(peer) = self.find_by(*path, &arrival.key(), header.dst_epoch) {
            self.session_mut(peer).challenge.uncoalesced = Some(uncoalesced);
        }
    }

    /// Whether the sender of a frame is in the table.
    pub fn is_known(&self, from: &NodeAddr, header: &Header) -> bool {
        let key = PeerKey { node: *from, port: header.src_port, channel: header.channel };
        self.table.by_key.contains_key(&key)
    }

    /// Whether any peer in the table is of this node.
    pub fn is_known_node(&self, node: &NodeAddr) -> bool {
        self.table.nodes.contains_key(node)
    }

    /// Notes that a session is proposed to a node. The node may answer with another version.
    pub(super) fn note_proposal(&mut self, peer: PeerId) {
        let session = self.session(peer);
        self.table.proposing.insert((session.key.node, session.local), None);
    }

    /// A Reset of another version came from a node, for the proposal with this epoch of ours. The
    /// proposal goes on: the node may speak this version, too.
    pub(super) fn note_version(&mut self, node: NodeAddr, epoch: Epoch, version: u8) {
        if let Some(noted) = self.table.proposing.get_mut(&(node, epoch)) {
            *noted = Some(version);
            log::foreign_version(&node, version);
        }
    }

    /// The other version that the node of a proposed session seems to speak.
    pub(super) fn noted_version(&self, peer: PeerId) -> Option<u8> {
        let session = self.session(peer);
        let proposing = matches!(session.state, SessionState::Proposing(_));
        *self.table.proposing.get(&(session.key.node, session.local)).filter(|_| proposing)?
    }

    /// The session is no longer proposed.
    pub(super) fn forget_proposal(&mut self, peer: PeerId) {
        let session = self.session(peer);
        if let SessionState::Proposing(_) = session.state {
            let proposal = (session.key.node, session.local);
            self.table.proposing.remove(&proposal);
        }
    }
}
