//! The table of peers: who is in it, and who makes room for others (`PROTOCOL.md` 4.7 and 4.8).
//!
//! Peers that the program named stay. All others are strangers, and may hold most of the table but
//! not all. A stranger of which nothing was ever delivered is a *visitor*: the program cannot hold
//! its id, so its entry may be used for another peer once it is old enough.

use super::Protocol;
use crate::session::{Session, State};
use crate::time::nanos;
use crate::{Instant, PeerId, PeerKey, Reason};
use gigae_wire::{Header, NodeAddr};

/// The part of the table that strangers cannot take.
const RESERVED_PART: usize = 8;

/// Entries that strangers of one node may hold, whatever their ports and channels.
const MOST_OF_A_NODE: u32 = 256;

/// Peer timeouts after which a visitor's entry may be used for another. The former peer's epochs
/// begin anew when it comes back. Offers hold for two timeouts, so a Confirm of a session that this
/// entry had is no longer valid then.
const VISIT: u64 = 3;

impl<T, R> Protocol<T, R> {
    /// The peer of a key, entered in the table if it is new; `None` if the table is full. It stays
    /// there. Sends nothing.
    pub fn peer(&mut self, key: PeerKey) -> Option<PeerId> {
        let id = match self.table.by_key.get(&key) {
            Some(&id) => id,
            None if self.sessions.len() < self.config.max_peers => self.enter(key)?,
            None => self.replace_visitor(key)?,
        };
        let session = self.session_mut(id);
        if !session.named {
            session.named = true;
            let up = session.is_up();
            self.table.strangers -= 1;
            self.table.nodes.entry(key.node).or_default().strangers -= 1;
            if up {
                self.shares.name();
            }
        }
        Some(id)
    }

    /// The same for a peer that the program has not named.
    pub(super) fn enter_stranger(&mut self, key: PeerKey) -> Option<PeerId> {
        let id = if self.is_full_of(&key.node) {
            None
        } else if self.is_closed_to_strangers() {
            self.replace_visitor(key)
        } else {
            self.enter(key)
        };
        if let Some(id) = id {
            self.table.visitors.push_back((id, self.now));
        }
        id
    }

    fn enter(&mut self, key: PeerKey) -> Option<PeerId> {
        let id = PeerId(u32::try_from(self.sessions.len()).ok()?);
        if self.sessions.len() == self.sessions.capacity() {
            // An eighth more: twice as much would be half in vain on average.
            self.sessions.reserve_exact(self.sessions.len() / 8 + 8);
        }
        self.sessions.push(Session::new(key));
        self.table.by_key.insert(key, id);
        self.table.strangers += 1;
        self.count_entry(key.node);
        Some(id)
    }

    /// A stranger of this node has got an entry.
    fn count_entry(&mut self, node: NodeAddr) {
        let entries = self.table.nodes.entry(node).or_default();
        entries.all += 1;
        entries.strangers += 1;
    }

    pub(super) fn has_room_for_stranger(&mut self, node: &NodeAddr) -> bool {
        let room = !self.is_closed_to_strangers() || self.oldest_visitor().is_some();
        room && !self.is_full_of(node)
    }

    /// Whether the strangers of this node hold as many entries as they may.
    fn is_full_of(&self, node: &NodeAddr) -> bool {
        let most = MOST_OF_A_NODE;
        self.table.strangers >= most as usize
            && self.table.nodes.get(node).is_some_and(|entries| entries.strangers >= most)
    }

    fn is_closed_to_strangers(&self) -> bool {
        let most = self.config.max_peers;
        self.sessions.len() >= most || self.table.strangers >= most - most / RESERVED_PART
    }

    /// The visitor that has been there longest, if that is long enough. Looks at an entry once in
    /// its life, and at one more.
    fn oldest_visitor(&mut self) -> Option<PeerId> {
        let visit = nanos(self.config.peer_timeout).saturating_mul(VISIT);
        loop {
            let &(peer, since) = self.table.visitors.front()?;
            let session = self.session(peer);
            if !session.named && !session.known && !session.has_received() {
                return (self.now >= since.after(visit)).then_some(peer);
            }
            self.table.visitors.pop_front();
        }
    }

    /// Uses a visitor's entry for another peer. Its session ends without a word: neither end has
    /// sent anything.
    #[cold]
    fn replace_visitor(&mut self, key: PeerKey) -> Option<PeerId> {
        let peer = self.oldest_visitor()?;
        self.table.visitors.pop_front();
        self.fail(peer, Reason::Timeout);
        self.forget_paths(peer);
        self.schedule.timers.set(peer, Instant::NEVER);
        let session = &mut self.sessions[peer.0 as usize];
        let mut fresh = Session::new(key);
        // The lists that it is in still hold its id.
        (fresh.queued, fresh.owing, fresh.undated) =
            (session.queued, session.owing, session.undated);
        let former = std::mem::replace(session, fresh);
        self.table.by_key.remove(&former.key);
        if let Some(entries) = self.table.nodes.get_mut(&former.key.node) {
            entries.all -= 1;
            entries.strangers -= 1;
            if entries.all == 0 {
                self.table.nodes.remove(&former.key.node);
            }
        }
        self.table.by_key.insert(key, peer);
        self.count_entry(key.node);
        self.table.replaced.push((peer, former.key));
        Some(peer)
    }

    /// The next peer whose entry was another's, and who that was: what is kept about where it is no
    /// longer holds.
    pub fn poll_replaced(&mut self) -> Option<(PeerId, PeerKey)> {
        self.table.replaced.pop()
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

    /// A session is proposed to a node: it may say that it speaks another version.
    pub(super) fn note_proposal(&mut self, peer: PeerId) {
        let node = self.session(peer).key.node;
        self.table.proposing.entry(node).or_default().count += 1;
    }

    /// A frame of another version came from a node. Anybody can send one in its name, so proposals
    /// go on.
    pub(super) fn note_version(&mut self, node: &NodeAddr, version: u8) {
        if let Some(proposals) = self.table.proposing.get_mut(node) {
            proposals.version = Some(version);
        }
    }

    /// The other version that a node seems to speak to which this session is proposed.
    pub(super) fn noted_version(&self, peer: PeerId) -> Option<u8> {
        let session = self.session(peer);
        let proposing = matches!(session.state, State::Proposing(_));
        self.table.proposing.get(&session.key.node).filter(|_| proposing)?.version
    }

    /// It is not any more.
    pub(super) fn forget_proposal(&mut self, peer: PeerId) {
        let session = self.session(peer);
        if let State::Proposing(_) = session.state {
            let node = session.key.node;
            if let Some(proposals) = self.table.proposing.get_mut(&node) {
                proposals.count -= 1;
                if proposals.count == 0 {
                    self.table.proposing.remove(&node);
                }
            }
        }
    }
}
