//! Receiving long frames.
//!
//! Most frames come whole: the kernel has joined all datagrams of one, and one call receives them to a
//! slot, or their data to where the program wants them. What comes otherwise is received to one piece of
//! memory, and each datagram is copied from there: frames that come in several buffers, and buffers with
//! datagrams of several frames. Either only the first datagram of a frame has a header: then the others
//! must come behind it, in order, before the sender's next frame, and the frame's checksum shows whether
//! they did. Or each datagram has a number, and they come in any order.

use super::parts::Parts;
use super::slots::{LONGEST, Slots};
use crate::socket::{Received, UdpSocket};
use gigae_link::{Arena, Filter, RxFrame};
use gigae_wire::{BULK_HEADER_LEN, BulkHeader, MOST_DATAGRAMS, NumberedHeader, PartHeader};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Most datagrams of a buffer.
const DATAGRAMS: usize = MOST_DATAGRAMS as usize;

/// Frames of which datagrams are missing that are kept at a time. The oldest makes room for a new one.
const SPLIT: usize = 64;

/// The same of one sender, if their datagrams have numbers; otherwise one.
const NUMBERED: usize = 4;

/// Frames that may begin behind one whose datagrams have numbers before the rest of that has come.
const AHEAD: u8 = 16;

/// Buffers in a row that must each bring a whole frame, after one that did not, before the next is received to
/// where its data belong. Where the kernel seldom joins all datagrams of a frame, data that were placed
/// would be copied back.
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
    from: SocketAddr,
    to: IpAddr,
    /// Bytes of the frame, and how many of them each of its datagrams but the last has. Without numbers,
    /// the first has 8 less.
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
    fn is_from(&self, received: &Received) -> bool {
        (self.from, self.to) == (received.from, received.to)
    }

    /// Takes in bytes of the frame, from the datagram with this number, that came in this buffer.
    fn take(&mut self, (at, bytes): (usize, &[u8]), index: usize, buffer: u64, slots: &mut Slots) {
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
    fn is_apart(&self) -> Option<bool> {
        (self.count() > 1).then(|| 2 * self.buffers > self.count())
    }
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Receiver {
    slots: Slots,
    ready: VecDeque<RxFrame>,
    split: VecDeque<Split>,
    parts: Parts,
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

impl Receiver {
    /// For so many slots of so many bytes at the start of the arena.
    pub(super) fn new(arena: Arc<Arena>, slots: (usize, usize), filter: Filter) -> Self {
        Self {
            slots: Slots::new(arena, slots, filter),
            ready: VecDeque::with_capacity(DATAGRAMS),
            split: VecDeque::with_capacity(SPLIT),
            parts: Parts::default(),
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

    /// Datagrams that no sender sends, those of frames that never became whole or had another order,
    /// and those for which there was no room.
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
    pub(super) fn came_apart(&self, frame: &RxFrame) -> Option<bool> {
        self.slots.came_apart(frame)
    }

    /// Takes in a part of a frame that came by the link.
    pub(super) fn take_part(
        &mut self,
        ends: (SocketAddr, IpAddr),
        part: (PartHeader, &[u8]),
    ) -> Option<RxFrame> {
        self.parts.take(ends, part, &mut self.slots)
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
            Ok((Some(received), is_whole)) if !received.to.is_multicast() && !received.to_all => {
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
            // A former datagram met nobody (ICMP): peers answer for themselves.
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
    ) -> Result<(Option<Received>, bool), Errno> {
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
            if !received.to.is_multicast() && !received.to_all {
                let slot = self.slots.take();
                let ends = (received.from, received.to);
                let frame = slot.and_then(|slot| {
                    let apart = (length > header.unit.into()).then_some(false);
                    self.slots.set_apart(slot, apart);
                    self.slots.finish(slot, header.length.into(), ends)
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
    fn sort(&mut self, received: &Received, buffer: &[u8]) {
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
                    if let Some(numbered) = NumberedHeader::parse(*head, datagram.len()) =>
                {
                    self.take_numbered(received, numbered, rest)
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
    fn split_of(&self, received: &Received) -> Option<usize> {
        let of = |split: &Split| split.number.is_none() && split.is_from(received);
        self.split.iter().position(of)
    }

    /// Takes in the first datagram of a frame, without its header. Whether there is room for it.
    fn begin(&mut self, received: &Received, header: BulkHeader, data: &[u8]) -> bool {
        // The rest of the sender's former frame does not come any more.
        self.give_up(self.split_of(received));
        let (length, unit) = (header.length.into(), header.unit.into());
        let Some(at) = self.make_room(received, (length, unit), None) else { return false };
        self.split[at].take((0, data), 0, self.buffers, &mut self.slots);
        self.complete(at);
        true
    }

    /// Takes in the next datagram of a frame. Whether there is such a frame.
    fn go_on(&mut self, received: &Received, datagram: &[u8]) -> bool {
        let Some(at) = self.split_of(received) else { return false };
        let split = &mut self.split[at];
        if datagram.len() != (split.length - split.got).min(split.unit) {
            self.give_up(Some(at));
            self.incomplete = false;
            return false;
        }
        let index = split.count() as usize;
        split.take((split.got, datagram), index, self.buffers, &mut self.slots);
        self.complete(at);
        true
    }

    /// Takes in a datagram with a number, without its header. Whether it was new and there is room.
    fn take_numbered(
        &mut self,
        received: &Received,
        (header, unit): (NumberedHeader, u16),
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
            at = self.make_room(received, (length, unit), Some(header.frame));
        }
        let Some(at) = at else { return false };
        let index = usize::from(header.index);
        if self.split[at].seen & 1 << index != 0 {
            return false;
        }
        self.split[at].take((index * unit, data), index, self.buffers, &mut self.slots);
        self.complete(at);
        true
    }

    /// Gives up frames of a sender's whose numbers are far from this one: they began long before, and their
    /// numbers come again. The sender counts the frames to all its peers.
    fn forget_former(&mut self, received: &Received, number: u8) {
        let is_former = |split: &Split| {
            let later = split.number.map_or(0, |former| number.wrapping_sub(former).cast_signed());
            later.unsigned_abs() > AHEAD && split.is_from(received)
        };
        while let Some(at) = self.split.iter().position(is_former) {
            self.give_up(Some(at));
        }
    }

    /// Makes room for a frame of which nothing is there. Returns its place, if there is a slot for it.
    fn make_room(
        &mut self,
        received: &Received,
        (length, unit): (usize, usize),
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
        let (from, to) = (received.from, received.to);
        let (got, seen, buffers, last) = (0, 0, 0, 0);
        self.split.push_back(Split {
            from,
            to,
            length,
            unit,
            number,
            got,
            seen,
            buffers,
            last,
            slot,
        });
        Some(self.split.len() - 1)
    }

    /// Makes the frame of this place ready if nothing of it is missing.
    fn complete(&mut self, at: usize) {
        let split = &self.split[at];
        self.incomplete = split.got < split.length;
        if self.incomplete {
            return;
        }
        let (slot, length, ends) = (split.slot, split.length, (split.from, split.to));
        let (several, in_order) = (split.count() > 1, split.number.is_none());
        self.slots.set_apart(slot, split.is_apart());
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
mod tests {
    use super::*;
    use gigae_wire::{Envelope, Epoch, Flags, HEADER_LEN, Header, Kind, SeqNo};
    use proptest::collection::vec;
    use proptest::prelude::*;

    const SLOT: usize = 68 << 10;

    fn receiver(slots: usize) -> Receiver {
        let arena = Arc::new(Arena::anonymous(slots * SLOT).unwrap());
        let filter =
            Filter { envelope: Envelope::Udp { port: 4791 }, channels: (0..=u8::MAX).collect() };
        Receiver { distrust: WHOLE, ..Receiver::new(arena, (slots, SLOT), filter) }
    }

    fn frame(n: u32, payload: usize) -> Vec<u8> {
        let header = Header {
            kind: Kind::Op,
            channel: 0,
            src_port: 0,
            dst_port: 0,
            src_epoch: Epoch(1),
            dst_epoch: Epoch(2),
            seq: SeqNo(n),
            ack: SeqNo(0),
            credit: 0,
            flags: Flags::NONE,
        };
        let mut bytes = vec![0; HEADER_LEN];
        bytes.extend((0..payload).map(|i| (i + n as usize) as u8));
        header.seal(&mut bytes);
        bytes
    }

    /// A frame behind its header, as its datagrams carry it.
    fn sent(frame: &[u8], unit: u16) -> Vec<u8> {
        let header = BulkHeader { length: frame.len() as u16, unit };
        [&header.to_bytes(), frame].concat()
    }

    /// Takes in a buffer from a sender. Returns the frames that are whole then.
    fn take(receiver: &mut Receiver, from: u8, buffer: &[u8], segment: usize) -> Vec<Vec<u8>> {
        let [from, to] = [from, 200].map(|n| IpAddr::from([198, 18, 0, n]));
        let segment = (segment < buffer.len()).then_some(segment);
        let from = (from, 1).into();
        let received = Received { length: buffer.len(), from, to, to_all: false, segment };
        receiver.sort(&received, buffer);
        let frames: Vec<_> = std::iter::from_fn(|| receiver.pop()).collect();
        let arena = Arc::clone(&receiver.slots.arena);
        let inner = |frame: RxFrame| {
            let bytes = arena.bytes(&frame)[14 + 20 + 8..].to_vec();
            receiver.recycle(frame);
            bytes
        };
        frames.into_iter().map(inner).collect()
    }

    #[test]
    fn frames_are_found_wherever_the_kernel_cuts_and_joins_their_datagrams() {
        // The second ends with a full datagram, so the kernel may join the third to it.
        let frames = [frame(1, 1000), frame(2, 7 * 500 - 8 - 32), frame(3, 1234)];
        let all: Vec<u8> = frames[1..].iter().flat_map(|frame| sent(frame, 500)).collect();
        let mut receiver = receiver(4);
        assert!(take(&mut receiver, 1, &sent(&frames[0], 500), 500) == frames[..1]);
        assert_eq!(receiver.distrust, WHOLE - 1);
        assert!(take(&mut receiver, 1, &all, 500) == frames[1..]);
        assert_eq!((receiver.distrust, receiver.dropped), (WHOLE, 0));
        // In two buffers, with a boundary anywhere.
        for cut in (500..all.len()).step_by(500) {
            let mut got = take(&mut receiver, 1, &all[..cut], 500);
            // What is missing of the second is waited for, and nothing else.
            assert_eq!(receiver.is_incomplete(), cut != 3500, "cut at {cut}");
            got.extend(take(&mut receiver, 1, &all[cut..], 500));
            assert!(got == frames[1..], "cut at {cut}: {} frames", got.len());
        }
        assert_eq!((receiver.dropped, receiver.split.len(), receiver.slots.free.len()), (0, 0, 4));
    }

    #[test]
    fn a_frame_whose_datagrams_come_one_by_one_is_known_by_that() {
        let mut receiver = receiver(4);
        let received = |length: usize, segment: usize| Received {
            length,
            from: ([198, 18, 0, 1], 1).into(),
            to: IpAddr::from([198, 18, 0, 200]),
            to_all: false,
            segment: (segment < length).then_some(segment),
        };
        // Datagrams of a frame, and how many of them come in a buffer.
        for (datagrams, joined, apart) in
            [(8, 1, 1), (8, 2, 0), (8, 8, 0), (3, 2, 1), (1, 1, 2), (44, 1, 1)]
        {
            let apart = [Some(false), Some(true), None][apart];
            let whole = frame(1, datagrams * 500 - BULK_HEADER_LEN - HEADER_LEN);
            for buffer in sent(&whole, 500).chunks(joined * 500) {
                receiver.sort(&received(buffer.len(), 500), buffer);
            }
            let whole = receiver.pop().unwrap();
            assert_eq!(receiver.came_apart(&whole), apart, "{datagrams} {joined}");
            receiver.recycle(whole);
        }
    }

    /// The numbered datagrams of a frame.
    fn numbered(frame: &[u8], number: u8, unit: usize) -> Vec<Vec<u8>> {
        let last = (frame.len().div_ceil(unit) - 1) as u8;
        let datagram = |(index, bytes): (usize, &[u8])| {
            let (length, index) = (frame.len() as u16, index as u8);
            let header = NumberedHeader { length, frame: number, index, last: index == last };
            [&header.to_bytes(), bytes].concat()
        };
        frame.chunks(unit).enumerate().map(datagram).collect()
    }

    #[test]
    fn datagrams_with_numbers_make_their_frames_in_any_order() {
        let frames = [frame(1, 2000), frame(2, 2468), frame(3, 100)];
        let mut receiver = receiver(8);
        let all: Vec<Vec<u8>> =
            (0..).zip(&frames).flat_map(|(n, frame)| numbered(frame, n, 492)).collect();
        let count = all.len();
        for step in [1, 5, 7, 11] {
            let arrive = |n: usize| take(&mut receiver, 1, &all[n * step % count], 500);
            let mut got: Vec<Vec<u8>> = (0..count).flat_map(arrive).collect();
            got.sort_by_key(|frame| frames.iter().position(|sent| sent == frame));
            assert!(got == frames, "step {step}: {} frames", got.len());
        }
        // Two senders with the same numbers, and two datagrams of a sender in a buffer.
        let [one, other] = [frame(4, 1000), frame(5, 1100)].map(|frame| numbered(&frame, 7, 492));
        assert!(take(&mut receiver, 1, &one[0], 500).is_empty());
        assert!(take(&mut receiver, 2, &other[..2].concat(), 500).is_empty());
        assert!(take(&mut receiver, 1, &one[1..].concat(), 500) == [frame(4, 1000)]);
        assert!(take(&mut receiver, 2, &other[2], 500) == [frame(5, 1100)]);
        assert_eq!((receiver.dropped, receiver.slots.free.len()), (0, 8));
    }

    #[test]
    fn datagrams_with_numbers_that_come_twice_or_never_cost_their_own_frame_only() {
        let mut receiver = receiver(8);
        let first = numbered(&frame(1, 2000), 0, 492);
        assert!(take(&mut receiver, 1, &first[0], 500).is_empty());
        assert!(take(&mut receiver, 1, &first[0], 500).is_empty());
        assert_eq!(receiver.dropped, 1, "twice");
        // Of four later frames one datagram is missing, and of one none.
        for number in 1..5 {
            let datagrams = numbered(&frame(number.into(), 2000), number, 492);
            for datagram in &datagrams[1..] {
                assert!(take(&mut receiver, 1, datagram, 500).is_empty());
            }
        }
        assert_eq!((receiver.split.len(), receiver.dropped), (4, 2), "the first is given up");
        for datagram in &first[1..] {
            assert!(take(&mut receiver, 1, datagram, 500).is_empty());
        }
        let whole = frame(9, 1500);
        let got: Vec<_> = numbered(&whole, 9, 492)
            .iter()
            .flat_map(|datagram| take(&mut receiver, 1, datagram, 500))
            .collect();
        assert!(got == [whole]);
        // Numbers come again: what is left of their former frames does not get into the new ones.
        for number in 10..=255 {
            let whole = frame(number.into(), 1000);
            let datagrams = numbered(&whole, number, 492).concat();
            assert!(take(&mut receiver, 1, &datagrams, 500) == [whole]);
        }
        assert!(receiver.split.is_empty());
        // A number that is used again, for a frame of another length.
        let again = frame(3, 1000);
        let got: Vec<_> = numbered(&again, 4, 492)
            .iter()
            .flat_map(|datagram| take(&mut receiver, 1, datagram, 500))
            .collect();
        assert!(got == [again]);
        assert_eq!(receiver.slots.free.len() + receiver.split.len(), 8);
    }

    #[test]
    fn a_lost_datagram_loses_its_own_frame_only() {
        // Of four full datagrams each, so that the kernel may join all of them.
        let frames = [1, 2, 3].map(|n| frame(n, 2000 - 8 - HEADER_LEN));
        let all: Vec<u8> = frames.iter().flat_map(|frame| sent(frame, 500)).collect();
        for missing in 0..12 {
            let mut receiver = receiver(4);
            let mut datagrams: Vec<_> = all.chunks(500).collect();
            datagrams.remove(missing);
            let got = take(&mut receiver, 1, &datagrams.concat(), 500);
            let mut expected = frames.to_vec();
            expected.remove(missing / 4);
            assert!(got == expected, "{} frames without datagram {missing}", got.len());
        }
    }

    #[test]
    fn only_the_next_datagram_of_the_same_sender_goes_on_with_a_frame() {
        let whole = frame(1, 2000);
        let all = sent(&whole, 500);
        let mut receiver = receiver(4);
        assert!(take(&mut receiver, 1, &all[..1000], 500).is_empty());
        assert!(take(&mut receiver, 2, &all[1000..], 500).is_empty(), "another sender");
        assert!(take(&mut receiver, 1, &all[1000..], 500) == [whole]);
        for wrong in [499, 501, 40, 41] {
            assert!(take(&mut receiver, 1, &all[..1000], 500).is_empty());
            assert!(take(&mut receiver, 1, &all[1000..][..wrong], wrong).is_empty());
            assert!(take(&mut receiver, 1, &all[1000..], 500).is_empty(), "given up: {wrong}");
        }
        // The last one is longer than what is missing.
        let longer = [&all[..], &[0]].concat();
        assert!(take(&mut receiver, 1, &longer, 500).is_empty());
        assert_eq!((receiver.split.len(), receiver.slots.free.len()), (0, 4));
    }

    #[test]
    fn datagrams_that_overtake_others_lose_their_frame_and_are_no_damage() {
        let all = sent(&frame(1, 2900), 500);
        let mut receiver = receiver(4);
        let mut datagrams: Vec<_> = all.chunks(500).collect();
        datagrams.swap(2, 3);
        assert!(take(&mut receiver, 1, &datagrams.concat(), 500).is_empty());
        assert_eq!((receiver.dropped, receiver.slots.free.len()), (6, 4));
        // Of one datagram there is nothing to put together: its damage shows above.
        let mut alone = sent(&frame(1, 100), 500);
        alone[100] ^= 1;
        assert_eq!(take(&mut receiver, 1, &alone, 500).len(), 1);
    }

    #[test]
    fn without_a_free_slot_frames_are_dropped_and_counted() {
        let mut receiver = receiver(1);
        let (one, other) = (frame(1, 2000), frame(2, 2000));
        let split = sent(&one, 500);
        assert!(take(&mut receiver, 1, &split[..1000], 500).is_empty());
        assert!(take(&mut receiver, 2, &sent(&other, 500), 500).is_empty());
        assert_eq!(receiver.dropped, 5);
        assert!(take(&mut receiver, 1, &split[1000..], 500) == [one]);
    }

    proptest! {
        /// Whatever comes, slots are neither lost nor used twice, and every frame is one that was sent.
        #[test]
        fn slots_are_kept_whatever_comes(
            buffers in vec(
                (0_u8..3, 0_u8..20, 0_usize..9, 1_usize..9, 30_usize..1500, any::<bool>()),
                1..80,
            )
        ) {
            let mut receiver = receiver(4);
            let sized = |n: u8| frame(n.into(), 40 + 250 * usize::from(n));
            for (from, n, first, count, segment, has_numbers) in buffers {
                let all = match has_numbers {
                    true => numbered(&sized(n), n, 492).concat(),
                    false => sent(&sized(n), 500),
                };
                let start = (first * 500).min(all.len());
                let end = (start + count * 500).min(all.len());
                // Mostly of the right length.
                let segment = if segment > 600 { 500 } else { segment };
                for whole in take(&mut receiver, from, &all[start..end], segment) {
                    prop_assert!((0..20).any(|n| whole == sized(n)), "{} bytes", whole.len());
                }
                let mut slots = receiver.slots.free.clone();
                slots.extend(receiver.split.iter().map(|split| split.slot));
                slots.sort_unstable();
                prop_assert_eq!(slots, [0, 1, 2, 3]);
            }
        }
    }
}
