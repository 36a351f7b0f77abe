//! Receiving long frames.
//!
//! Most frames come whole: the kernel has joined all datagrams of one, and one call receives them
//! to a slot, or their data to where the program wants them. What comes otherwise is received to
//! one piece of memory, and each datagram is copied from there: frames that come in several
//! buffers, and buffers with datagrams of several frames. Either only the first datagram of a frame
//! has a header: then the others must come behind it, in order, before the sender's next frame, and
//! the frame's checksum shows whether they did. Or each datagram has a number, and they come in any
//! order.

use super::parts::{PARTED, PartAssembler};
use super::slots::{FrameSlots, LONGEST};
use crate::socket::{DatagramEnds, ReceivedBuffer, UdpSocket};
use gigae_link::{Arena, Filter, RxFrame};
use gigae_wire::{BULK_HEADER_LEN, BulkHeader, MOST_DATAGRAMS, NumberedHeader, PartHeader};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most datagrams of a buffer.
const DATAGRAMS: usize = MOST_DATAGRAMS as usize;

/// Frames of which datagrams are missing that are kept at a time. The oldest makes room for a new
/// one.
const SPLIT: usize = 64;

/// Most frames of which something is missing.
pub(super) const MOST_INCOMPLETE: usize = SPLIT + PARTED;

/// Most frames of one sender of which datagrams are missing, if those have numbers; otherwise one.
const NUMBERED: usize = 4;

/// Frames that may begin behind one whose datagrams have numbers before the rest of that has come.
const AHEAD: u8 = 16;

/// Buffers in a row that must each bring a whole frame, after one that did not, before the next is
/// received to where its data belong. Where the kernel seldom joins all datagrams of a frame, data
/// that were placed would be copied back.
const WHOLE: u8 = 16;

/// Where the data of the next frame are expected to belong: in other memory than a slot.
#[derive(Debug)]
pub struct Placement<'a> {
    /// Bytes of the frame, without outer headers, that come in front of the data.
    pub head: usize,
    /// Where the data belong. What comes behind as many bytes stays in the slot.
    pub data: &'a mut [u8],
}

/// A frame of which datagrams are missing.
#[derive(Debug)]
struct Split {
    ends: DatagramEnds,
    /// Bytes of the frame, and how many of them each of its datagrams but the last has. Without
    /// numbers, the first has 8 less.
    length: usize,
    unit: usize,
    /// The sender's number for the frame, if its datagrams have numbers.
    number: Option<u8>,
    /// Bytes of the frame that are there.
    got: usize,
    /// Datagrams that are there, a bit each.
    seen: u64,
    /// Buffers in which they came, and the last of these.
    buffers: u32,
    last: u64,
    slot: u32,
}

impl Split {
    fn is_from(&self, received: &ReceivedBuffer) -> bool {
        self.ends == received.ends
    }

    /// Takes in bytes of the frame, from the datagram with this number, that came in this buffer.
    fn take(&mut self, at: usize, bytes: &[u8], index: usize, buffer: u64, slots: &mut FrameSlots) {
        slots.write(self.slot, at, bytes);
        self.got += bytes.len();
        self.seen |= 1 << index;
        if self.last != buffer {
            (self.buffers, self.last) = (self.buffers + 1, buffer);
        }
    }

    /// Datagrams that are there.
    fn count(&self) -> u32 {
        self.seen.count_ones()
    }

    /// Whether they, if several, came one by one, or hardly better.
    fn is_uncoalesced(&self) -> Option<bool> {
        (self.count() > 1).then(|| 2 * self.buffers > self.count())
    }
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct BulkReceiver {
    slots: FrameSlots,
    ready: VecDeque<RxFrame>,
    split: VecDeque<Split>,
    parts: PartAssembler,
    /// Buffers that must bring a whole frame before the next is received to its place.
    distrust: u8,
    /// Takes a buffer that may not be a whole frame.
    buffer: Box<[u8]>,
    /// A frame that the last buffer began or went on with is not whole yet.
    incomplete: bool,
    /// Bytes of the last frame that were placed elsewhere.
    pub(super) placed: usize,
    /// System calls so far.
    pub(super) calls: u64,
    /// Datagrams that have come by the socket.
    pub(super) datagrams: u64,
    /// Buffers that were not a whole frame.
    buffers: u64,
    dropped: u64,
}

impl BulkReceiver {
    /// For `count` slots of `size` bytes at the start of the arena.
    pub(super) fn new(arena: Arc<Arena>, count: usize, size: usize, filter: Filter) -> Self {
        Self {
            slots: FrameSlots::new(arena, count, size, filter),
            ready: VecDeque::with_capacity(DATAGRAMS),
            split: VecDeque::with_capacity(SPLIT),
            parts: PartAssembler::default(),
            distrust: 0,
            buffer: vec![0; LONGEST].into(),
            incomplete: false,
            placed: 0,
            calls: 0,
            datagrams: 0,
            buffers: 0,
            dropped: 0,
        }
    }

    /// Whether a frame is there without a system call.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether a frame has come in part, and its rest should come next.
    pub(super) fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// Datagrams that no sender sends, those of frames that never became whole or had another
    /// order, and those for which there was no room.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped + self.parts.dropped
    }

    /// The next whole frame.
    pub(super) fn pop(&mut self) -> Option<RxFrame> {
        self.ready.pop_front()
    }

    /// Takes a slot back.
    ///
    /// # Panics
    /// If the frame is another link's.
    pub(super) fn recycle(&mut self, frame: RxFrame) {
        self.slots.recycle(frame);
    }

    /// Makes an ordinary frame of one whose data were placed elsewhere. One copy.
    pub(super) fn fetch_placed(&mut self, frame: RxFrame, head: usize, data: &[u8]) -> RxFrame {
        self.slots.rewrite(frame, head, data)
    }

    /// Whether the datagrams of a frame that was handed out, if several, came one by one.
    pub(super) fn arrived_uncoalesced(&self, frame: &RxFrame) -> Option<bool> {
        self.slots.arrived_uncoalesced(frame)
    }

    /// Takes in a part of a frame that came by the link.
    pub(super) fn take_part(
        &mut self,
        peer: u32,
        ends: DatagramEnds,
        header: PartHeader,
        part: &[u8],
    ) -> Option<RxFrame> {
        self.parts.take(peer, ends, header, part, &mut self.slots)
    }

    /// Receives one buffer, if there is one and a slot for it. Whether to look for frames, and then
    /// for more. The data of a frame that comes whole are received to where they are expected to
    /// belong; how many of them lie there then is in `placed`.
    pub(super) fn receive(
        &mut self,
        socket: &UdpSocket,
        placement: Option<Placement>,
    ) -> Result<bool, Errno> {
        self.placed = 0;
        let Some(slot) = self.slots.next() else { return Ok(false) };
        self.calls += 1;
        let received = if self.distrust > 0 {
            socket.receive(&mut [piece(&mut self.buffer)]).map(|received| (received, false))
        } else {
            self.receive_whole(socket, slot, placement)
        };
        match received {
            // To a group everybody belongs to, with any sender's address: no peer sends such.
            Ok((Some(received), is_whole))
                if !received.ends.to.is_multicast() && !received.to_all =>
            {
                let segment = received.segment.unwrap_or(received.length);
                self.datagrams += received.length.div_ceil(segment.max(1)) as u64;
                if is_whole {
                    self.incomplete = false;
                    if !self.split.is_empty() {
                        self.give_up(self.split_of(&received));
                    }
                } else {
                    let buffer = std::mem::take(&mut self.buffer);
                    self.sort(&received, &buffer[..received.length.min(LONGEST)]);
                    self.buffer = buffer;
                }
            }
            Ok(_) => self.dropped += 1,
            Err(Errno::AGAIN) => return Ok(false),
            // No process had the port of a former datagram (ICMP): peers answer for themselves.
            Err(Errno::INTR | Errno::CONNREFUSED) => {}
            Err(errno) => return Err(errno),
        }
        Ok(true)
    }

    /// Receives a buffer that should be a whole frame, and says whether it is. If not, it lies in
    /// `buffer` then.
    fn receive_whole(
        &mut self,
        socket: &UdpSocket,
        slot: u32,
        mut placement: Option<Placement>,
    ) -> Result<(Option<ReceivedBuffer>, bool), Errno> {
        let room = self.slots.bytes_mut(slot);
        let (head, data) = match &mut placement {
            Some(Placement { head, data }) => (BULK_HEADER_LEN + *head, &mut **data),
            None => (room.len(), &mut [][..]),
        };
        let (first, behind) = room.split_at_mut(head);
        // Behind the data a frame goes on where it would without them.
        let at = data.len().min(behind.len());
        let rest = &mut behind[at..];
        let pieces = &mut [piece(first), piece(data), piece(rest)];
        let Some(received) = socket.receive(pieces)? else { return Ok((None, false)) };
        let length = received.length;
        let (placed, segment) = (data.len().min(length.saturating_sub(head)), received.segment);
        let header = first
            .first_chunk()
            .and_then(|bytes| BulkHeader::parse(*bytes, segment.unwrap_or(length).min(length)));
        if let Some(header) = header.filter(|header| header.whole() == length) {
            if !received.ends.to.is_multicast() && !received.to_all {
                let slot = self.slots.take();
                let frame = slot.and_then(|slot| {
                    let uncoalesced = (length > header.unit.into()).then_some(false);
                    self.slots.set_uncoalesced(slot, uncoalesced);
                    self.slots.finish(slot, header.length.into(), received.ends)
                });
                self.placed = if frame.is_some() { placed } else { 0 };
                self.ready.extend(frame);
            }
            return Ok((Some(received), true));
        }
        let first = &first[..head.min(length)];
        let rest = &rest[..length - first.len() - placed];
        let (mut at, pieces) = (0, [first, &data[..placed], rest]);
        for piece in pieces {
            self.buffer[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        Ok((Some(received), false))
    }

    /// Copies the datagrams of a buffer to their frames.
    fn sort(&mut self, received: &ReceivedBuffer, buffer: &[u8]) {
        let segment = received.segment.unwrap_or(buffer.len()).max(1);
        let mut some = false;
        self.incomplete = false;
        self.buffers += 1;
        for datagram in buffer.chunks(segment) {
            let is_taken = match datagram.split_first_chunk() {
                Some((head, rest))
                    if let Some(header) = BulkHeader::parse(*head, datagram.len()) =>
                {
                    self.begin(received, header, rest)
                }
                Some((head, rest))
                    if let Some((header, unit)) = NumberedHeader::parse(*head, datagram.len()) =>
                {
                    self.take_numbered(received, header, unit, rest)
                }
                _ => self.go_on(received, datagram),
            };
            some |= is_taken;
            self.dropped += u64::from(!is_taken);
        }
        let first = buffer.first_chunk().and_then(|head| BulkHeader::parse(*head, segment));
        if first.is_some_and(|header| header.whole() == buffer.len()) {
            self.distrust = self.distrust.saturating_sub(1);
        } else if some {
            self.distrust = WHOLE;
        }
    }

    /// The place of the frame without numbers that a sender began last, if it is not whole.
    fn split_of(&self, received: &ReceivedBuffer) -> Option<usize> {
        let of = |split: &Split| split.number.is_none() && split.is_from(received);
        self.split.iter().position(of)
    }

    /// Takes in the first datagram of a frame, without its header. Whether there is room for it.
    fn begin(&mut self, received: &ReceivedBuffer, header: BulkHeader, data: &[u8]) -> bool {
        // The rest of the sender's former frame does not come any more.
        self.give_up(self.split_of(received));
        let (length, unit) = (header.length.into(), header.unit.into());
        let Some(at) = self.make_room(received, length, unit, None) else { return false };
        self.split[at].take(0, data, 0, self.buffers, &mut self.slots);
        self.complete(at);
        true
    }

    /// Takes in the next datagram of a frame. Whether there is such a frame.
    fn go_on(&mut self, received: &ReceivedBuffer, datagram: &[u8]) -> bool {
        let Some(at) = self.split_of(received) else { return false };
        let split = &mut self.split[at];
        if datagram.len() != (split.length - split.got).min(split.unit) {
            self.give_up(Some(at));
            self.incomplete = false;
            return false;
        }
        let index = split.count() as usize;
        split.take(split.got, datagram, index, self.buffers, &mut self.slots);
        self.complete(at);
        true
    }

    /// Takes in a datagram with a number, without its header. Whether it was new and there is room.
    fn take_numbered(
        &mut self,
        received: &ReceivedBuffer,
        header: NumberedHeader,
        unit: u16,
        data: &[u8],
    ) -> bool {
        let (length, unit) = (usize::from(header.length), usize::from(unit));
        let of = |split: &Split| split.number == Some(header.frame) && split.is_from(received);
        let mut at = self.split.iter().position(of);
        // The sender's number for a former frame, of which something was lost.
        let is_other =
            |at: &usize| (self.split[*at].length, self.split[*at].unit) != (length, unit);
        if let Some(other) = at.take_if(|at| is_other(at)) {
            self.give_up(Some(other));
        }
        if at.is_none() {
            self.forget_former(received, header.frame);
            at = self.make_room(received, length, unit, Some(header.frame));
        }
        let Some(at) = at else { return false };
        let index = usize::from(header.index);
        if self.split[at].seen & 1 << index != 0 {
            return false;
        }
        self.split[at].take(index * unit, data, index, self.buffers, &mut self.slots);
        self.complete(at);
        true
    }

    /// Gives up frames of a sender's whose numbers are far from this one: they began long before,
    /// and their numbers come again. The sender counts the frames to all its peers.
    fn forget_former(&mut self, received: &ReceivedBuffer, number: u8) {
        let is_former = |split: &Split| {
            let later = split.number.map_or(0, |former| number.wrapping_sub(former).cast_signed());
            later.unsigned_abs() > AHEAD && split.is_from(received)
        };
        while let Some(at) = self.split.iter().position(is_former) {
            self.give_up(Some(at));
        }
    }

    /// Makes room for a frame of which nothing is there. Returns its place, if there is a slot for
    /// it.
    fn make_room(
        &mut self,
        received: &ReceivedBuffer,
        length: usize,
        unit: usize,
        number: Option<u8>,
    ) -> Option<usize> {
        let of = |split: &Split| split.number.is_some() && split.is_from(received);
        let own = self.split.iter().filter(|split| of(split)).count();
        if number.is_some() && own >= NUMBERED {
            self.give_up(self.split.iter().position(of));
        } else if self.split.len() >= SPLIT {
            self.give_up(Some(0));
        }
        let slot = self.slots.take()?;
        let ends = received.ends;
        let (got, seen, buffers, last) = (0, 0, 0, 0);
        self.split.push_back(Split { ends, length, unit, number, got, seen, buffers, last, slot });
        Some(self.split.len() - 1)
    }

    /// Makes the frame of this place ready if nothing of it is missing.
    fn complete(&mut self, at: usize) {
        let split = &self.split[at];
        self.incomplete = split.got < split.length;
        if self.incomplete {
            return;
        }
        let (slot, length, ends) = (split.slot, split.length, split.ends);
        let (several, in_order) = (split.count() > 1, split.number.is_none());
        self.slots.set_uncoalesced(slot, split.is_uncoalesced());
        if several && in_order && !self.slots.is_sealed(slot, length) {
            // Datagrams have overtaken others.
            self.give_up(Some(at));
            return;
        }
        self.split.remove(at);
        self.ready.extend(self.slots.finish(slot, length, ends));
    }

    /// Gives up a frame that is not whole.
    fn give_up(&mut self, at: Option<usize>) {
        if let Some(split) = at.and_then(|at| self.split.remove(at)) {
            self.dropped += u64::from(split.count());
            self.slots.give_back(split.slot);
        }
    }
}

/// Memory that the kernel writes.
fn piece(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

#[cfg(test)]
mod tests;
