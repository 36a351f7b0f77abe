//! How sessions come up (`PROTOCOL.md` §4): Hello, HelloAck, Confirm.
//!
//! The responder keeps nothing. Its offer is a keyed hash of the proposal. A Confirm repeats the
//! offer, and the responder computes the hash again to check it. Only then is there a session, and
//! a former one with the same peer ends.

use super::{Protocol, ReplyKind, StatelessReply};
use crate::log;
use crate::receive::initial_credit;
use crate::secret::OfferContents;
use crate::session::{Repeated, SessionParameters, SessionState};
use crate::time::nanos;
use crate::{Arrival, PathTo, PeerId, PeerKey, Reason};
use gigae_wire::{
    Discard, Epoch, Flags, Handshake, Header, MacAddr, NodeAddr, PathAddr, PathId, Paths,
};

/// Fewest bytes that a peer must be able to receive in an Op frame.
const LEAST_OPERATIONS: u16 = 128;

impl<T, R> Protocol<T, R> {
    /// Rule 4.2: a proposal gets an answer and changes nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn on_hello(&mut self, arrival: Arrival<'_>) -> Result<(), Discard> {
        let Arrival { path, header, payload, .. } = arrival;
        let (handshake, key) = read(arrival)?;
        let remote = header.src_epoch;
        // The answer must not be longer than the question.
        if remote == Epoch::UNKNOWN || payload.len() < Handshake::LONGEST {
            return Err(Discard::Malformed);
        }
        if self.closed {
            return Err(Discard::Port);
        }
        let known = self.table.by_key.get(&key).copied();
        if known.is_none() && !self.has_room_for_unnamed(&key.node) {
            log::no_room(&key);
            return Err(Discard::Sessions);
        }
        let local = self.epoch_for(&key, known, remote);
        let offered = OfferContents { remote, token: handshake.token, local };
        let token = self.secret.answer(&key, offered, self.period());
        // A node that gets the answer can speak for the peer. So a further address counts only once
        // a session has named it.
        let has_link =
            |peer: PeerId| self.session(peer).links.get(path) == handshake.links.get(path);
        let counts = path.is_first() || known.is_some_and(has_link);
        let (to, path) = if counts { (arrival.key(), path) } else { (key, PathId::FIRST) };
        let what = ReplyKind::HelloAck { token, echo: handshake.token };
        self.reply(StatelessReply { to, path, src_epoch: local, dst_epoch: remote, what });
        Ok(())
    }

    /// Rule 4.3: the answer to this end's proposal. It does not show yet whether the peer knows the
    /// session.
    #[cold]
    #[inline(never)]
    pub(super) fn on_hello_ack(&mut self, arrival: Arrival<'_>) -> Result<(), Discard> {
        let Arrival { path, header, .. } = arrival;
        let (handshake, key) = read(arrival)?;
        let peer = self.find(&key).ok_or(Discard::Epoch)?;
        let session = self.session(peer);
        let (local, remote) = (header.dst_epoch, header.src_epoch);
        if session.is_up() && (local, remote) == (session.local, session.remote) {
            return Err(Discard::Duplicate);
        }
        let ours = local == session.local && remote != Epoch::UNKNOWN;
        let proposing = matches!(session.state, SessionState::Proposing(_));
        let token = self.secret.proposal(&key, local, session.begun_again);
        // An offer that lay here while this process was stopped may be too old to be confirmed.
        let over = session.is_overdue(self.now, &self.config);
        if !proposing || !ours || handshake.echo != token || over {
            return Err(Discard::Epoch);
        }
        let state = SessionState::Confirming(Repeated::begin(self.now), handshake.token);
        self.shares_credit(header);
        self.establish(peer, parameters(&handshake, header), state, path);
        Ok(())
    }

    /// Rule 4.4: a peer that repeats the offer has received it. Rule 4.5 applies to all others.
    #[cold]
    #[inline(never)]
    pub(super) fn on_confirm(&mut self, arrival: Arrival<'_>) -> Result<(), Discard> {
        let Arrival { path, header, .. } = arrival;
        let (handshake, key) = read(arrival)?;
        let (local, remote) = (header.dst_epoch, header.src_epoch);
        let known = self.table.by_key.get(&key).copied();
        if let Some(peer) = known {
            let session = self.session(peer);
            if session.is_up() && (local, remote) == (session.local, session.remote) {
                if !path.is_first() && !session.is_at(path, arrival.from) {
                    return Err(Discard::Epoch);
                }
                self.answer_confirm(peer, arrival);
                return Ok(());
            }
            if session.close.is_some() {
                self.repeat_close(peer);
                return Err(Discard::Epoch);
            }
        }
        if !self.has_offered(
            &key,
            known,
            OfferContents { remote, token: handshake.token, local },
            handshake.echo,
        ) {
            self.refuse(arrival);
            return Err(Discard::Epoch);
        }
        let peer = match known {
            Some(peer) => peer,
            None => self.enter_unnamed(key).ok_or(Discard::Sessions)?,
        };
        if self.session(peer).is_up() {
            self.fail(peer, Reason::Reset);
        }
        self.establish(peer, parameters(&handshake, header), SessionState::Established, path);
        if !self.session(peer).is_up() {
            // It has already ended: a queued message is longer than the peer receives.
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
        session.received_on = path;
        session.received(false);
        session.marked(header.flags.with(Flags::ASK), path, &self.config);
        self.touch(peer);
        self.enqueue(peer);
        if self.shares_credit(header) {
            self.demanded(peer, header, None);
        }
        // The peer may have given no credit for what waits.
        self.after_frame(peer);
    }

    /// This end's epoch of the session that a peer proposes with its epoch `remote`. That of the
    /// present session if the peer means it, else that of the next one.
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

    /// Whether this end made that offer in this period or the one before, so that it is still
    /// valid.
    fn has_offered(
        &self,
        key: &PeerKey,
        known: Option<PeerId>,
        offered: OfferContents,
        echo: u64,
    ) -> bool {
        let now = self.period();
        let made = |period| echo == self.secret.answer(key, offered, period);
        let OfferContents { remote, local, .. } = offered;
        !self.closed
            && remote != Epoch::UNKNOWN
            && local == self.epoch_for(key, known, remote)
            && (made(now) || now > 0 && made(now - 1))
    }

    /// The number of the present period. An offer is valid for one to two periods; a period is the
    /// peer timeout.
    fn period(&self) -> u64 {
        self.now.0 / nanos(self.config.peer_timeout).max(1)
    }

    /// Answers a Confirm of a session that is unknown here and never will be known.
    fn refuse(&mut self, arrival: Arrival<'_>) {
        let Arrival { path, header, .. } = arrival;
        let (to, src_epoch, dst_epoch) = (arrival.key(), header.dst_epoch, header.src_epoch);
        let what = ReplyKind::Reset(Flags::ANSWER);
        self.reply(StatelessReply { to, path, src_epoch, dst_epoch, what });
    }

    #[cold]
    fn establish(
        &mut self,
        peer: PeerId,
        with: SessionParameters,
        state: SessionState,
        by: PathId,
    ) {
        self.forget_proposal(peer);
        self.forget_paths(peer);
        let mut credit = initial_credit(&self.config);
        if self.config.shared_credit {
            credit = credit.min(self.budget.open(self.session(peer).key, self.now));
        }
        self.sessions[peer.0 as usize].establish(with, state, by, credit, &self.config);
        self.learn(peer, with.local, &with.links);
        self.lead(peer, &with.links);
        let session = self.session(peer);
        log::up(&session.key, peer, &session.state, session.peer.max_payload);
        let (window, named) = (session.receive.as_ref().map_or(0, |r| r.window()), session.named);
        self.shares.join(window, named, &self.config);
        if self.shares.is_shared {
            self.session_mut(peer).share_queues();
        }
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
        if matches!(session.state, SessionState::Confirming(..)) {
            session.state = SessionState::Established;
            log::confirmed(&session.key);
        }
    }

    /// The paths to a peer's further addresses, and the peer's keys there.
    fn further(
        &self,
        peer: PeerId,
        links: &Paths,
    ) -> impl Iterator<Item = (PathTo, PeerKey)> + use<T, R> {
        let (key, links) = (self.session(peer).key, *links);
        PathId::further(self.links.common(&links)).filter_map(move |path| {
            let addr = links.get(path)?;
            let node = match addr {
                PathAddr::Link(mac) => mac.into(),
                PathAddr::Socket(socket) => {
                    NodeAddr::Ip { ip: socket.ip(), next_hop: MacAddr::default() }
                }
            };
            Some((PathTo { peer, path, addr, uncoalesced: false }, PeerKey { node, ..key }))
        })
    }

    /// Frames of the session with this epoch also come from these addresses (rule 11.2).
    fn learn(&mut self, peer: PeerId, epoch: Epoch, links: &Paths) {
        for (_, key) in self.further(peer, links) {
            // If another peer's session has the same epoch, by chance, it keeps its path.
            self.table.by_path.entry((key, epoch)).or_insert(peer);
        }
    }

    /// Forgets a peer's further addresses: its session is over for good, because a new one is
    /// proposed or comes up. The session has kept the addresses until now.
    pub(super) fn forget_paths(&mut self, peer: PeerId) {
        let (links, epoch) = (self.session(peer).links, self.session(peer).local);
        for (_, key) in self.further(peer, &links) {
            if self.table.by_path.get(&(key, epoch)) == Some(&peer) {
                self.table.by_path.remove(&(key, epoch));
            }
        }
    }

    /// Queues the addresses of the paths to a peer for `poll_path`.
    fn lead(&mut self, peer: PeerId, links: &Paths) {
        let paths = self.further(peer, links).map(|(path, _)| path);
        self.routes.extend(paths);
        self.session_mut(peer).forget_coalescing();
    }
}

fn parameters(handshake: &Handshake, header: &Header) -> SessionParameters {
    let Handshake { hello, links, .. } = *handshake;
    let (local, remote, credit) = (header.dst_epoch, header.src_epoch, header.credit);
    SessionParameters { local, remote, hello, links, credit }
}

/// The contents of a frame of the handshake, and its sender. Operations need room for their longest
/// header and some data (§2): with less, this end could never send what it owes the peer. An
/// endpoint with several links is named by its first one. A frame that comes by a link comes from
/// the peer's link of the same number (rule 11.2).
fn read(arrival: Arrival<'_>) -> Result<(Handshake, PeerKey), Discard> {
    let (Arrival { path, payload, .. }, from) = (arrival, arrival.key());
    let handshake = Handshake::parse(payload)?;
    let (first, here) = match (handshake.links.first(), handshake.links.get(path)) {
        (Some(first), Some(PathAddr::Link(here))) => (first.into(), Some(here.into())),
        (Some(_), _) => return Err(Discard::Malformed),
        // A session comes up by links alone.
        (None, _) => (from.node, path.is_first().then_some(from.node)),
    };
    if here != Some(from.node) || handshake.hello.max_operations < LEAST_OPERATIONS {
        return Err(Discard::Malformed);
    }
    Ok((handshake, PeerKey { node: first, ..from }))
}
