//! How sessions come up (`PROTOCOL.md` §4): Hello, HelloAck, Confirm.
//!
//! The end that answers keeps nothing. What it offers is a keyed hash of the question, which it
//! computes again when a Confirm repeats it. Only then is there a session, and a former one with
//! the same peer ends.

use super::{Protocol, Reply, Say};
use crate::secret::Offered;
use crate::session::{Repeated, State, Terms};
use crate::time::nanos;
use crate::{Arrival, PathTo, PeerId, PeerKey, Reason};
use gigae_wire::{Discard, Epoch, Flags, Handshake, Header, NodeAddr, Paths};

/// Fewest bytes that a peer must be able to receive in an Op frame.
const LEAST_OPERATIONS: u16 = 128;

impl<T, R> Protocol<T, R> {
    /// Rule 4.2: a proposal is answered and changes nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn on_hello(&mut self, arrival: Arrival<'_>) -> Result<(), Discard> {
        let Arrival { path, header, payload, .. } = arrival;
        let (said, key) = read(arrival)?;
        let remote = header.src_epoch;
        // The answer is not to be longer than the question.
        if remote == Epoch::UNKNOWN || payload.len() < Handshake::LONGEST {
            return Err(Discard::Malformed);
        }
        if self.closed {
            return Err(Discard::Port);
        }
        let known = self.table.by_key.get(&key).copied();
        if known.is_none() && !self.has_room_for_stranger(&key.node) {
            return Err(Discard::Sessions);
        }
        let local = self.epoch_for(&key, known, remote);
        let offered = Offered { remote, token: said.token, local };
        let token = self.secret.answer(&key, offered, self.period());
        // Who gets the answer can speak for the node: a further address counts once a session has
        // told of it.
        let told = |peer: PeerId| self.session(peer).links.get(path) == said.links.get(path);
        let (to, path) = match path {
            0 => (arrival.key(), 0),
            _ if known.is_some_and(told) => (arrival.key(), path),
            _ => (key, 0),
        };
        let say = Say::HelloAck { token, echo: said.token };
        self.reply(Reply { to, path, src_epoch: local, dst_epoch: remote, say });
        Ok(())
    }

    /// Rule 4.3: the answer to our proposal. Whether the peer knows the session is not known yet.
    #[cold]
    #[inline(never)]
    pub(super) fn on_hello_ack(&mut self, arrival: Arrival<'_>) -> Result<(), Discard> {
        let Arrival { path, header, .. } = arrival;
        let (said, key) = read(arrival)?;
        let peer = self.find(&key).ok_or(Discard::Epoch)?;
        let session = self.session(peer);
        let (local, remote) = (header.dst_epoch, header.src_epoch);
        if session.is_up() && (local, remote) == (session.local, session.remote) {
            return Err(Discard::Duplicate);
        }
        let ours = local == session.local && remote != Epoch::UNKNOWN;
        let proposing = matches!(session.state, State::Proposing(_));
        if !proposing || !ours || said.echo != self.secret.proposal(&key, local) {
            return Err(Discard::Epoch);
        }
        let state = State::Confirming(Repeated::begin(self.now), said.token);
        self.establish(peer, terms(&said, header), state, path);
        Ok(())
    }

    /// Rule 4.4: who repeats what was offered has received it. Rule 4.5 for all others.
    #[cold]
    #[inline(never)]
    pub(super) fn on_confirm(&mut self, arrival: Arrival<'_>) -> Result<(), Discard> {
        let Arrival { path, header, .. } = arrival;
        let (said, key) = read(arrival)?;
        let (local, remote) = (header.dst_epoch, header.src_epoch);
        let known = self.table.by_key.get(&key).copied();
        if let Some(peer) = known {
            let session = self.session(peer);
            if session.is_up() && (local, remote) == (session.local, session.remote) {
                if path > 0 && !session.is_at(path, arrival.from) {
                    return Err(Discard::Epoch);
                }
                self.answer_confirm(peer, arrival);
                return Ok(());
            }
            if session.farewell.is_some() {
                self.say_farewell_again(peer);
                return Err(Discard::Epoch);
            }
        }
        if !self.has_offered(&key, known, Offered { remote, token: said.token, local }, said.echo) {
            self.refuse(arrival);
            return Err(Discard::Epoch);
        }
        let peer = match known {
            Some(peer) => peer,
            None => self.enter_stranger(key).ok_or(Discard::Sessions)?,
        };
        if self.session(peer).is_up() {
            self.fail(peer, Reason::Reset);
        }
        self.establish(peer, terms(&said, header), State::Established, path);
        if !self.session(peer).is_up() {
            // It has ended at once: what was queued is longer than the peer receives.
            self.refuse(arrival);
            return Err(Discard::Epoch);
        }
        self.answer_confirm(peer, arrival);
        Ok(())
    }

    /// A Confirm of a session that is up: the peer knows it, and asks for an Ack.
    fn answer_confirm(&mut self, peer: PeerId, arrival: Arrival<'_>) {
        let Arrival { path, header, .. } = arrival;
        self.settle(peer);
        let session = &mut self.sessions[peer.0 as usize];
        session.heard_on = path as u8;
        session.heard(false);
        session.marked(header.flags.with(Flags::ASK), path, &self.config);
        self.touch(peer);
        self.enqueue(peer);
    }

    /// This end's epoch of the session that a peer proposes with this epoch of its own: that of the
    /// present one if that is meant, else of the next.
    fn epoch_for(&self, key: &PeerKey, known: Option<PeerId>, remote: Epoch) -> Epoch {
        let Some(session) = known.map(|peer| self.session(peer)) else {
            return self.secret.epoch(key, 0);
        };
        if session.is_up() && session.remote == remote {
            return session.local;
        }
        let next = session.number.wrapping_add(u32::from(session.is_up()));
        self.secret.epoch(key, next)
    }

    /// Whether this end has made that offer in this period or the one before, and it still holds.
    fn has_offered(
        &self,
        key: &PeerKey,
        known: Option<PeerId>,
        offered: Offered,
        echo: u64,
    ) -> bool {
        let now = self.period();
        let made = |period| echo == self.secret.answer(key, offered, period);
        let Offered { remote, local, .. } = offered;
        !self.closed
            && remote != Epoch::UNKNOWN
            && local == self.epoch_for(key, known, remote)
            && (made(now) || now > 0 && made(now - 1))
    }

    /// Offers hold for one to two of these, as long as this end waits for a peer.
    fn period(&self) -> u64 {
        self.now.0 / nanos(self.config.peer_timeout).max(1)
    }

    /// Says that a session that somebody wants confirmed is not known here and never will be.
    fn refuse(&mut self, arrival: Arrival<'_>) {
        let Arrival { path, header, .. } = arrival;
        let (to, src_epoch, dst_epoch) = (arrival.key(), header.dst_epoch, header.src_epoch);
        let say = Say::Reset(Flags::ANSWER);
        self.reply(Reply { to, path, src_epoch, dst_epoch, say });
    }

    #[cold]
    fn establish(&mut self, peer: PeerId, with: Terms, state: State, by: usize) {
        self.forget_proposal(peer);
        self.forget_paths(peer);
        self.sessions[peer.0 as usize].establish(with, state, by, &self.config);
        self.learn(peer, with.local, &with.links);
        self.lead(peer, &with.links);
        let session = self.session(peer);
        let (window, named) = (session.receive.as_ref().map_or(0, |r| r.window()), session.named);
        self.shares.join(window, named, &self.config);
        self.counters.sessions += 1;
        let longest = self.session(peer).send.as_ref().map_or(0, |s| s.longest());
        if longest > with.hello.max_payload {
            self.fail(peer, Reason::TooLong(with.hello.max_payload));
        }
        self.touch(peer);
        self.enqueue(peer);
    }

    /// The peer knows the session.
    #[cold]
    pub(super) fn settle(&mut self, peer: PeerId) {
        let session = self.session_mut(peer);
        if matches!(session.state, State::Confirming(..)) {
            session.state = State::Established;
        }
    }

    /// A peer's further addresses that this end has paths to, and the numbers of these.
    fn further(
        &self,
        peer: PeerId,
        links: &Paths,
    ) -> impl Iterator<Item = (usize, PeerKey)> + use<T, R> {
        let (key, links) = (self.session(peer).key, *links);
        (1..links.len().min(self.config.own_paths())).filter_map(move |path| {
            let node = NodeAddr::from(links.get(path)?);
            Some((path, PeerKey { node, ..key }))
        })
    }

    /// Frames of the session with this epoch come from these addresses, too (rule 11.2).
    fn learn(&mut self, peer: PeerId, epoch: Epoch, links: &Paths) {
        for (_, key) in self.further(peer, links) {
            self.table.by_path.insert((key, epoch), peer);
        }
    }

    /// The session that a peer had is over for good: a new one is proposed or comes up. By which
    /// addresses it could be reached is remembered.
    pub(super) fn forget_paths(&mut self, peer: PeerId) {
        let (links, epoch) = (self.session(peer).links, self.session(peer).local);
        for (_, key) in self.further(peer, &links) {
            self.table.by_path.remove(&(key, epoch));
        }
    }

    /// Where the paths to a peer lead.
    fn lead(&mut self, peer: PeerId, links: &Paths) {
        for (path, PeerKey { node, .. }) in self.further(peer, links) {
            self.routes.push_back(PathTo { peer, path, node });
        }
    }
}

fn terms(said: &Handshake, header: &Header) -> Terms {
    let Handshake { hello, links, .. } = *said;
    let (local, remote, credit) = (header.dst_epoch, header.src_epoch, header.credit);
    Terms { local, remote, hello, links, credit }
}

/// What a frame of the handshake says, and whom it is from. Operations need room for the longest
/// header of one and some data (§2): with less, what is owed to a peer could never be sent. The
/// first link names an endpoint with several, and what comes by a link comes from the one of the
/// same number (rule 11.2).
fn read(arrival: Arrival<'_>) -> Result<(Handshake, PeerKey), Discard> {
    let (Arrival { path, payload, .. }, from) = (arrival, arrival.key());
    let said = Handshake::parse(payload)?;
    let (first, here) = match said.links.get(0) {
        Some(first) => (first.into(), said.links.get(path).map(NodeAddr::from)),
        None => (from.node, (path == 0).then_some(from.node)),
    };
    if here != Some(from.node) || said.hello.max_operations < LEAST_OPERATIONS {
        return Err(Discard::Malformed);
    }
    Ok((said, PeerKey { node: first, ..from }))
}
