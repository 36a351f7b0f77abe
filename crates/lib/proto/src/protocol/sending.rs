//! Admits messages and operations to the send windows.

use super::Protocol;
use super::memory::KEPT_WINDOWS;
use crate::config::LEAST_PART;
use crate::frame_kind::FrameKind;
use crate::log;
use crate::path_set::PathSet;
use crate::session::SessionState;
use crate::{PeerId, Unsent};
use gigae_wire::{Epoch, Kind, PathId};

/// # Sending
impl<T, R> Protocol<T, R> {
    /// Admits a message of `len` bytes for a peer. It goes out by
    /// [`poll_transmit`](Self::poll_transmit). Its buffer comes back by
    /// [`poll_acknowledged`](Self::poll_acknowledged) or [`poll_failure`](Self::poll_failure). The
    /// first message proposes a session.
    #[inline]
    pub fn send(&mut self, peer: PeerId, len: u16, buffer: T) -> Result<(), Unsent<T>> {
        self.admit(peer, FrameKind::short(Kind::Data), len, buffer)?;
        self.counters.messages_sent += 1;
        Ok(())
    }

    /// Admits a frame with operations, which is never combined with messages. Otherwise like
    /// [`send`](Self::send).
    pub fn send_operations(&mut self, peer: PeerId, len: u16, buffer: T) -> Result<(), Unsent<T>> {
        self.admit(peer, FrameKind::by_link(Kind::Op), len, buffer)
    }

    /// The same for operations of a short message: of at most [`SHORT`](crate::SHORT) frames.
    pub fn send_short_operations(
        &mut self,
        peer: PeerId,
        len: u16,
        buffer: T,
    ) -> Result<(), Unsent<T>> {
        self.admit(peer, FrameKind::short(Kind::Op), len, buffer)
    }

    /// The same for operations that only bring bytes of what the peer has asked for. Those of short
    /// messages may be carried out before them.
    pub fn send_loose_operations(
        &mut self,
        peer: PeerId,
        len: u16,
        short: bool,
        buffer: T,
    ) -> Result<(), Unsent<T>> {
        self.admit(peer, FrameKind::loose(short), len, buffer)
    }

    /// The same for a frame that goes by the socket for bulk data while that works. It is no longer
    /// than [`bulk`](Self::bulk) says.
    pub fn send_bulk(&mut self, peer: PeerId, len: u16, buffer: T) -> Result<(), Unsent<T>> {
        let Some(bulk) = self.config.bulk else { return self.send_operations(peer, len, buffer) };
        let session = &mut self.sessions[peer.0 as usize];
        session.until_asked = session.until_asked.saturating_sub(1);
        self.admit(peer, bulk.kind(len), len, buffer)
    }

    /// The longest payload in bytes of a frame of bulk data to a peer with which the session is up.
    /// `None` if both ends have no socket, or it is not known to work. Then the protocol asks, so
    /// that it may be known the next time.
    pub fn bulk(&mut self, peer: PeerId) -> Option<u16> {
        let own = self.config.bulk?;
        let session = &mut self.sessions[peer.0 as usize];
        // In parts it goes by the link.
        if session.peer.max_payload.min(self.config.max_payload) < LEAST_PART {
            return None;
        }
        let send = session.send.as_mut()?;
        let datagrams = send.bulk_datagrams();
        if matches!(session.state, SessionState::Established) {
            let probes = match datagrams {
                None => send.want_bulk(),
                Some(_) if own.most > 1 && session.asks_coalescing() => PathSet::of(PathId::SOCKET),
                Some(_) => PathSet::NONE,
            };
            if !probes.is_empty() {
                session.probes.paths = session.probes.paths.union(probes);
                self.touch(peer);
                self.enqueue(peer);
            }
        }
        datagrams.map(|datagrams| own.longest(datagrams))
    }

    #[inline]
    fn admit(
        &mut self,
        peer: PeerId,
        kind: FrameKind,
        len: u16,
        buffer: T,
    ) -> Result<(), Unsent<T>> {
        let session = &mut self.sessions[peer.0 as usize];
        // Operations that fail have a completion, so nothing must be taken before others go on.
        if session.failures > 0 && kind.kind != Kind::Op {
            return Err(Unsent::Failed(buffer));
        }
        let longest = match kind.kind {
            Kind::Op if kind.bulk > 0 => u16::MAX,
            Kind::Op => session.peer.max_operations,
            _ => session.peer.max_payload,
        };
        if len > longest {
            return Err(Unsent::TooLong(buffer, longest));
        }
        if session.state == SessionState::Idle {
            self.propose(peer);
        }
        let session = &mut self.sessions[peer.0 as usize];
        let send = session.send.as_mut().expect("proposing or established: the window is there");
        if let Err(buffer) = send.push(buffer, kind, len) {
            self.admit_by_growing(peer, kind, len, buffer)?;
        }
        self.admitted(peer);
        let session = &mut self.sessions[peer.0 as usize];
        if !session.queued {
            session.queued = true;
            self.schedule.transmit.push_back(peer);
        }
        Ok(())
    }

    /// A frame was admitted to a window.
    #[inline(always)]
    pub(super) fn admitted(&mut self, peer: PeerId) {
        self.memory.unacknowledged += 1;
        self.watch_credit(peer);
    }

    /// The same for a window without a free slot.
    #[cold]
    #[inline(never)]
    fn admit_by_growing(
        &mut self,
        peer: PeerId,
        kind: FrameKind,
        len: u16,
        buffer: T,
    ) -> Result<(), Unsent<T>> {
        let send = self.sessions[peer.0 as usize].send.as_mut().expect("just asked");
        let had = send.has_slots();
        if !send.grow(&mut self.memory.spare) {
            return Err(Unsent::WouldBlock(buffer));
        }
        self.memory.windows += usize::from(!had);
        send.push(buffer, kind, len).map_err(Unsent::WouldBlock)
    }

    /// So many frames of a send window were acknowledged. It may be empty now.
    #[inline(always)]
    pub(super) fn shrink_if_many(&mut self, peer: PeerId, acknowledged: u32) {
        if acknowledged > 0 && self.memory.windows > KEPT_WINDOWS {
            self.shrink(peer);
        }
    }

    /// A send window is empty. It gives its memory up, unless few others have any.
    #[cold]
    #[inline(never)]
    pub(super) fn shrink(&mut self, peer: PeerId) {
        if self.memory.windows > KEPT_WINDOWS
            && let Some(send) = &mut self.sessions[peer.0 as usize].send
        {
            self.memory.windows -= usize::from(send.shrink(&mut self.memory.spare));
        }
    }

    /// Proposes a session to a peer before there is anything to send. What this end can send
    /// depends on what the peer can receive and the network can carry.
    pub fn propose(&mut self, peer: PeerId) {
        let session = &mut self.sessions[peer.0 as usize];
        if let Some(sizes) = session.sizes.as_mut().filter(|sizes| !sizes.wanted) {
            sizes.wanted = true;
            self.touch(peer);
            return;
        }
        if session.state != SessionState::Idle {
            return;
        }
        self.forget_paths(peer);
        let session = &mut self.sessions[peer.0 as usize];
        let local = self.secret.epoch(&session.key, session.number);
        session.propose(self.now, local, &self.config);
        log::proposed(&session.key);
        self.note_proposal(peer);
        self.touch(peer);
        self.enqueue(peer);
    }

    /// The epoch of the session with a peer, and the longest payload in bytes of a frame with
    /// operations. `None` unless the session is up and the length is known.
    #[inline]
    pub fn established(&self, peer: PeerId) -> Option<(Epoch, u16)> {
        let session = self.session(peer);
        let up = session.is_up() && !session.sizing;
        let longest = session.peer.max_operations.min(self.config.max_operations);
        up.then_some((session.local, longest))
    }

    /// Adds a message to the last frame for a peer, if that frame was not transmitted yet. That
    /// needs neither a frame nor a slot in the window. `extend` gets the frame's buffer and the
    /// longest payload in bytes that the peer can receive. It returns the new length of the payload
    /// as a Batch, or `None` if the message does not fit. Returns whether the message was added.
    #[inline]
    pub fn append(
        &mut self,
        peer: PeerId,
        extend: impl FnOnce(&mut T, u16) -> Option<u16>,
    ) -> bool {
        let added = self.append_kind(peer, Kind::Batch, extend);
        self.counters.messages_sent += u64::from(added);
        added
    }

    /// The same for an operation and a frame of operations.
    #[inline]
    pub fn append_operation(
        &mut self,
        peer: PeerId,
        extend: impl FnOnce(&mut T, u16) -> Option<u16>,
    ) -> bool {
        self.append_kind(peer, Kind::Op, extend)
    }

    #[inline]
    fn append_kind(
        &mut self,
        peer: PeerId,
        kind: Kind,
        extend: impl FnOnce(&mut T, u16) -> Option<u16>,
    ) -> bool {
        let session = &mut self.sessions[peer.0 as usize];
        // What the peer can receive is known only once the session is up.
        if !matches!(session.state, SessionState::Established)
            || (session.failures > 0 && kind != Kind::Op)
            || session.sizing
        {
            return false;
        }
        let longest = session.peer.max_payload;
        let Some(send) = &mut session.send else { return false };
        send.append(kind, |buffer| extend(buffer, longest))
    }

    /// Counts a STOP when the credit is used up, and notes its end.
    #[inline(always)]
    pub(super) fn watch_credit(&mut self, peer: PeerId) {
        if self.sessions[peer.0 as usize].has_stopped() {
            self.counters.stops += 1;
            if self.shares.is_shared {
                self.say_demand(peer);
            }
            self.touch(peer);
        }
    }

    /// Probes a peer if no other frame does so: the program waits for something that only this peer
    /// can send. The session ends if the peer stays silent for the peer timeout, or answers that it
    /// does not know the session (rule 8.1).
    pub fn ask(&mut self, peer: PeerId) {
        if self.sessions[peer.0 as usize].ask() {
            self.touch(peer);
        }
    }

    /// Whether fewer frames towards a peer are unacknowledged than its part of `frames` frames. Of
    /// those for `only_named` peers only these have a part, and of others an unnamed peer, while a
    /// named one has all that it wants.
    pub fn is_within_part(&self, peer: PeerId, frames: usize, only_named: bool) -> bool {
        let session = self.session(peer);
        let held = session.send.as_ref().map_or(0, |send| send.len() as usize);
        held < self.part(session.named, frames, only_named)
    }

    /// Whether [`send`](Self::send) would refuse any message to this peer, because others failed.
    pub fn has_failed(&self, peer: PeerId) -> bool {
        self.session(peer).failures > 0
    }

    /// Whether [`send`](Self::send) would find the window towards this peer full.
    pub fn is_full(&self, peer: PeerId) -> bool {
        self.session(peer).send.as_ref().is_some_and(|s| s.is_full())
    }

    /// About so many frames are left above the window of a peer now.
    pub fn set_above(&mut self, peer: PeerId, left: u32) {
        if let Some(send) = &mut self.sessions[peer.0 as usize].send {
            send.set_above(left);
        }
    }

    /// About so many frames are left above the window of the message that goes next to a peer, and
    /// `whole` has it in all. Returns whether the next one can be sent now.
    pub fn may_fill(&mut self, peer: PeerId, left: u32, whole: u32) -> bool {
        let session = &mut self.sessions[peer.0 as usize];
        let Some(send) = &mut session.send else { return false };
        send.set_above(left);
        let may = send.may_fill(whole);
        if !may && send.demand() > 0 && session.budget.told == 0 {
            self.say_demand(peer);
            self.watch_credit(peer);
        }
        may
    }

    /// Whether everything that was sent to a peer is acknowledged.
    #[inline]
    pub fn is_acknowledged(&self, peer: PeerId) -> bool {
        self.session(peer).send.as_ref().is_none_or(|send| send.is_empty())
    }

    /// Whether any message is not acknowledged yet.
    pub fn has_unacknowledged(&self) -> bool {
        self.memory.unacknowledged > 0
    }
}
