//! Operations between the frames and `gigae_transfer`: those that arrived are carried out, those
//! that were started here fill frames.

use super::{ASK_PARTS, Engine};
use crate::inbox::Inbound;
use crate::memory::Memory;
use crate::outbound::{FrameSegment, Outbound, PAYLOAD};
use gigae_link::{Link, LinkError};
use gigae_proto::{Delivery, EndedSession, Instant, PeerId, SHORT};
use gigae_transfer::{Label, Transfer, TransferNotice};
use gigae_wire::{Epoch, PathId};

/// While this many bytes or more wait for a peer, operations go by the socket for bulk data.
const BULK_FROM: usize = 4 << 10;

/// The same if the datagrams of the socket come one by one: for a lone operation, and for others.
/// Each takes longer than a frame of the link, but less CPU (decision 75).
const LONE_FROM_APART: usize = 512 << 10;
const FROM_APART: usize = 8 << 10;

/// An operation is not alone while another one of this many bytes waits behind it or is on its way.
const QUEUED_FROM: usize = 1 << 10;

/// Bytes that are read in the memory of other processes before what has arrived and what is due has
/// a turn: some 0.5 ms.
const READ_AT_ONCE: usize = 4 << 20;

/// Frames in the NIC, beside the one that it sends, with which operations wait: the shortest goes
/// next.
const MOST_UNSENT: usize = 1;

/// Room in bytes that operations can always make use of. With less, some write nothing.
const LEAST_ROOM: usize = 128;

/// The length of frames that carry `left` bytes, each at most `longest`: all about alike. Both ends
/// work at the same time then, one on a frame and the other on the one before.
fn alike(left: usize, longest: usize) -> usize {
    let frames = left.div_ceil(longest);
    left.div_ceil(frames)
}

impl Engine {
    /// The program's operations, to start or cancel some: the next poll looks at them.
    #[inline]
    pub(crate) fn operations(&mut self) -> &mut Transfer<Memory> {
        self.quiet = false;
        &mut self.transfer
    }

    /// The next notice. The program takes it, so its write may be answered now.
    #[inline]
    pub(crate) fn take_notice(&mut self) -> Option<TransferNotice> {
        let notice = self.transfer.poll_notice();
        self.quiet &= notice.is_none();
        notice
    }

    /// Whether operations have ended or notices wait.
    pub(crate) fn has_completions(&self) -> bool {
        self.transfer.has_completions()
    }

    /// Whether anything that was sent or started is not acknowledged or answered.
    pub(crate) fn is_owed(&self) -> bool {
        self.proto.has_unacknowledged() || self.transfer.is_owed()
    }

    /// Peers that have acknowledged everything may be gone since, and never say that an operation
    /// is done (`PROTOCOL.md` 8.1).
    #[cold]
    pub(super) fn ask_engaged(&mut self) {
        for peer in self.transfer.engaged() {
            // It is there itself.
            if !self.loopback.is_own(peer) {
                self.proto.ask(peer);
            }
        }
        // What has just begun is due from now on.
        self.proto.advance(self.clock.now());
        self.ask_at = match self.transfer.outstanding() {
            0 => Instant::NEVER,
            _ => self.clock.now() + self.proto.config().peer_timeout / ASK_PARTS,
        };
    }

    /// Carries out the operations of a frame that was delivered as it came, before any other. One
    /// copy of their data; the frame goes back at once. It counts as credit again at the
    /// [end of the batch](Self::release_carried_out).
    #[inline]
    pub(super) fn carry_out(&mut self, delivery: Delivery<Inbound>) {
        let Self { transfer, inbox, links, rx, .. } = self;
        let Delivery { peer, epoch, buffer } = delivery;
        inbox.read(buffer, links, |payload| transfer.handle(peer, epoch, payload));
        rx.carried_out.push((peer, epoch));
    }

    /// The frames whose operations were carried out as they came count as credit again. All of a
    /// batch together, because a window grows by what its sender uses of it at a time.
    #[inline]
    pub(super) fn release_carried_out(&mut self) {
        if self.rx.carried_out.is_empty() {
            return;
        }
        while let Some((peer, epoch)) = self.rx.carried_out.pop() {
            self.proto.release(peer, epoch);
        }
        self.provide_if_few();
    }

    /// Carries out the operations that have arrived. One copy of their data, unless the socket has
    /// placed them; the frames go back at once.
    #[inline(never)]
    pub(super) fn operate(&mut self) {
        // What was acknowledged may belong to those; else it can wait until these are carried out.
        if self.proto.has_ended() {
            self.reap();
        }
        let Self { proto, transfer, inbox, links, placing, .. } = self;
        while let Some(Delivery { peer, epoch, buffer }) = proto.poll_operations() {
            let placed = placing.take(&buffer);
            inbox.read(buffer, links, |payload| match placed {
                None => transfer.handle(peer, epoch, payload),
                Some(placed) => transfer.handle_placed(peer, epoch, placed.split(payload)),
            });
            proto.release(peer, epoch);
        }
        while let Some(EndedSession { peer, epoch, reason }) = proto.poll_ended() {
            transfer.ended(peer, epoch, reason);
        }
        self.provide_if_few();
    }

    /// Puts a short message into a frame, if nothing prevents that: into the last frame for the
    /// peer if that still waits and has room, else into a new one. One copy.
    #[inline]
    pub(crate) fn inject(&mut self, peer: PeerId, label: Label, message: &[u8]) -> bool {
        if self.loopback.is_own(peer) {
            return false;
        }
        let Some((epoch, longest)) = self.proto.established(peer) else { return false };
        let Self { proto, transfer, tx, .. } = self;
        let own = longest.min(proto.config().max_payload);
        let added = proto.append_operation(peer, |waiting, longest| {
            waiting.append_operation(&tx.arena, longest.min(own), |room| {
                transfer.inject_more(peer, epoch, label, message, room)
            })
        });
        if added {
            return true;
        }
        if self.proto.is_full(peer) || !self.may_queue(peer) {
            return false;
        }
        let Some(mut frame) = self.take() else { return false };
        let bytes = &mut self.tx.arena.bytes_mut(&mut frame)[PAYLOAD..];
        let room = bytes.len().min(self.room_of_short(longest).into());
        let Some(len) = self.transfer.inject(peer, epoch, label, message, &mut bytes[..room])
        else {
            self.give_back_unsent(frame);
            return false;
        };
        self.send_filled(
            peer,
            len,
            (true, false),
            Outbound::operations(frame, len as u16, None, peer),
        );
        if self.doorbell.queued() {
            self.send_accepted();
        }
        true
    }

    /// The payload of a frame of a short message, of at most `longest` bytes: it may go first.
    fn room_of_short(&self, longest: u16) -> u16 {
        self.proto.config().longest_first.map_or(longest, |first| first.min(longest))
    }

    /// A frame that was filled takes its place in the window.
    fn send_filled(
        &mut self,
        peer: PeerId,
        len: usize,
        (short, loose): (bool, bool),
        frame: Outbound,
    ) {
        let len = u16::try_from(len).expect("no longer than a frame");
        self.tx.queued(frame.frames());
        let sent = match (short, loose) {
            (_, true) => self.proto.send_loose_operations(peer, len, short, frame),
            (true, _) => self.proto.send_short_operations(peer, len, frame),
            _ => self.proto.send_operations(peer, len, frame),
        };
        if sent.is_err() {
            unreachable!("the session is up and its window has room");
        }
    }

    /// Fills frames with operations, as many as windows and frames allow, the peers taking turns.
    /// Returns 1 if it must be called again soon, even if nothing arrives: there is more to read in
    /// the memory of other processes.
    #[inline(never)]
    pub(super) fn fill(&mut self) -> Result<usize, LinkError> {
        let (mut waiting, mut left) = (0, READ_AT_ONCE);
        let shared = self.proto.is_shared();
        if shared {
            let longest = SHORT as usize * usize::from(self.proto.config().max_payload);
            self.transfer.put_shortest_first(longest);
        }
        self.doorbell.full = false;
        while waiting < self.transfer.ready() {
            if shared && self.is_nic_full()? {
                break;
            }
            let next = match shared && waiting == 0 {
                true => self.transfer.poll_ready_shortest(),
                false => self.transfer.poll_ready(),
            };
            let Some(peer) = next else { break };
            match self.fill_frame(peer, &mut left) {
                Some(0) => {}
                Some(datagrams) => {
                    waiting = 0;
                    if self.doorbell.queued_bulk(datagrams) {
                        self.transmit()?;
                    }
                }
                None => {
                    self.transfer.postpone(peer);
                    waiting += 1;
                }
            }
        }
        if self.transfer.take_asked() >= BULK_FROM {
            self.links.asked_for_bulk(self.clock.now());
        }
        Ok(usize::from(left == 0))
    }

    /// Whether so many frames wait in the NIC that others should wait here, so that the shortest
    /// goes next. They are asked for again soon. Not if the link does not know.
    fn is_nic_full(&mut self) -> Result<bool, LinkError> {
        let link = &self.links[PathId::FIRST].link;
        let Some(unsent) = link.unsent() else { return Ok(false) };
        if unsent + self.doorbell.unposted() >= MOST_UNSENT {
            self.transmit()?;
            let unsent = self.links[PathId::FIRST].link.unsent();
            self.doorbell.full = unsent.is_some_and(|unsent| unsent >= MOST_UNSENT);
        }
        Ok(self.doorbell.full)
    }

    /// Fills one frame with operations for a peer. Returns how many full frames of the link it is
    /// as long as: zero if there are no operations; `None` if it has to wait. Reads at most `left`
    /// bytes in the memory of the peer's process, and counts them down.
    fn fill_frame(&mut self, peer: PeerId, left: &mut usize) -> Option<usize> {
        if self.loopback.is_own(peer) {
            self.loopback.carry_out(&mut self.transfer, peer);
            return Some(0);
        }
        let Some((epoch, longest)) = self.proto.established(peer) else {
            self.proto.propose(peer);
            return None;
        };
        if self.links[PathId::FIRST].link.is_local() && !self.lend_and_fetch(peer, left) {
            return None;
        }
        if self.proto.is_full(peer) {
            return None;
        }
        let shared = self.proto.is_shared() && !self.links[PathId::FIRST].link.is_local();
        let frames = |bytes: usize| bytes.div_ceil(longest.max(1).into()) as u32;
        let goes_first = self.proto.config().longest_first.is_some();
        let whole = match shared || goes_first {
            true => frames(self.transfer.whole(peer)),
            false => 0,
        };
        let answers = || self.transfer.left(peer) == Some(0);
        let short = goes_first && (whole <= SHORT || answers());
        if shared {
            let left = self.transfer.left(peer).map_or(0, |left| frames(left).max(1));
            if !self.proto.may_fill(peer, left, whole) {
                return None;
            }
        }
        if let Some(longest) = self.bulk_for(peer) {
            return self.fill_bulk_frame(peer, epoch, longest);
        }
        if !self.may_queue(peer) {
            return None;
        }
        let mut frame = self.take()?;
        let longest = if short { self.room_of_short(longest) } else { longest };
        let longest = usize::from(longest);
        let size = self.links.info(PathId::FIRST).frame_size;
        let bytes = &mut self.tx.arena.bytes_mut(&mut frame)[PAYLOAD..];
        let room = longest.min(bytes.len());
        let len = self.transfer.fill(peer, epoch, &mut bytes[..room]);
        if len == 0 {
            self.give_back_unsent(frame);
            if shared {
                self.proto.set_above(peer, 0);
            }
            return Some(0);
        }
        let (mut sum, mut behind) = (len, None);
        let mut full = len + LEAST_ROOM > room;
        while full && sum + LEAST_ROOM <= longest {
            let Some(mut frame) = self.take() else { break };
            let room = (longest - sum).min(size);
            let bytes = &mut self.tx.arena.bytes_mut(&mut frame)[..room];
            let len = self.transfer.fill(peer, epoch, bytes);
            if len == 0 {
                self.give_back_unsent(frame);
                break;
            }
            full = len + LEAST_ROOM > room;
            sum += len;
            self.tx.add_behind(&mut behind, FrameSegment::new(frame, len as u16));
        }
        let loose = goes_first && self.transfer.is_loose();
        self.transfer.framed(peer);
        if shared {
            let left = self.transfer.left(peer).map_or(0, |left| frames(left).max(1));
            self.proto.set_above(peer, left);
        }
        let frame = Outbound::operations(frame, len as u16, behind, peer);
        self.send_filled(peer, sum, (short, loose), frame);
        Some(1)
    }

    /// Long messages between processes of this node are read in the sender's memory, where the
    /// kernel allows that. False if there is more to read.
    #[inline(never)]
    fn lend_and_fetch(&mut self, peer: PeerId, left: &mut usize) -> bool {
        let Self { links, transfer, proto, .. } = self;
        transfer.lend(peer, links.lends_to(proto, peer));
        !transfer.has_fetches(peer)
            || transfer.fetch(peer, left, |at, into| links.read_from(proto, peer, at, into))
    }

    /// The longest payload of a frame by the socket, if what comes next for a peer is bulk data and
    /// goes there.
    #[inline]
    fn bulk_for(&mut self, peer: PeerId) -> Option<u16> {
        self.bulk_tx.as_ref()?;
        let waiting = self.transfer.waiting(peer);
        if waiting < BULK_FROM || self.links.is_near(&self.proto, peer) {
            return None;
        }
        if waiting < LONE_FROM_APART
            && self.links.are_frames_faster(peer)
            && (waiting < FROM_APART || !self.transfer.is_queued(peer, QUEUED_FROM))
        {
            return None;
        }
        self.proto.bulk(peer)
    }

    /// Fills one frame of the socket's with operations for a peer.
    fn fill_bulk_frame(&mut self, peer: PeerId, epoch: Epoch, longest: u16) -> Option<usize> {
        if !self.may_queue_bulk(peer) {
            return None;
        }
        let (tx, link) = (self.bulk_tx.as_mut()?, &mut self.links[PathId::SOCKET].link);
        if tx.is_exhausted() {
            return None;
        }
        let mut frame = tx.take(link)?;
        let bytes = &mut tx.arena.bytes_mut(&mut frame)[PAYLOAD..];
        let mut room = bytes.len().min(longest.into());
        if let Some(left) = self.transfer.left_alone(peer) {
            // Headers take less.
            room = alike(left + LEAST_ROOM, room);
        }
        let (len, in_place) = self.transfer.fill_in_place(peer, epoch, &mut bytes[..room]);
        if self.proto.is_shared() {
            let left = self.transfer.left(peer).filter(|_| len > 0);
            self.proto.set_above(peer, left.map_or(0, |left| left.div_ceil(longest.into()) as u32));
        }
        if len == 0 {
            tx.give_back(link, frame);
            return Some(0);
        }
        self.transfer.framed(peer);
        tx.queued(1);
        let frame = Outbound::bulk(frame, len as u16, in_place, peer);
        if self.proto.send_bulk(peer, len as u16, frame).is_err() {
            unreachable!("the session is up and its window has room");
        }
        self.links.sent_bulk(self.clock.glance());
        Some(len.div_ceil(self.links.info(PathId::FIRST).max_frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_an_operation_are_about_alike() {
        for (left, frames) in [(1, 1), (64_000, 1), (64_001, 2), (65_600, 2), (300_000, 5)] {
            let (mut rest, mut lengths) = (left, Vec::new());
            while rest > 0 {
                let length = alike(rest, 64_000).min(rest);
                lengths.push(length);
                rest -= length;
            }
            assert_eq!(lengths.len(), frames, "{left} bytes");
            assert!(lengths[0] - lengths[frames - 1] < frames, "{lengths:?}");
        }
    }
}
