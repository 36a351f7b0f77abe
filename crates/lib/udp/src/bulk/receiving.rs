//! Receiving long frames.
//!
//! Most frames come whole: the kernel has joined all datagrams of one, and one call receives them to a
//! slot, or their data to where the program wants them. What comes otherwise is received to one piece of
//! memory, and each datagram is copied from there: frames that come in several buffers, and buffers with
//! datagrams of several frames. Only the first datagram of a frame has a header. So the others must come
//! behind it, in order, before the sender's next frame. The frame's checksum shows whether they did.

use super::parts::Parts;
use super::slots::{LONGEST, Slots};
use crate::socket::{Received, UdpSocket};
use gigae_link::{Arena, Filter, RxFrame};
use gigae_wire::{BULK_HEADER_LEN, BulkHeader, MOST_DATAGRAMS, PartHeader};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Most datagrams of a buffer.
const DATAGRAMS: usize = MOST_DATAGRAMS as usize;

/// Frames of which datagrams are missing that are kept at a time: one for each of so many senders. The
/// oldest makes room for a new one.
const SPLIT: usize = 64;

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
    header: BulkHeader,
    /// Bytes that are there, the bulk header included.
    got: usize,
    slot: u32,
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
                let frame =
                    slot.and_then(|slot| self.slots.finish(slot, header.length.into(), ends));
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
        let begins = |datagram: &[u8]| {
            datagram.first_chunk().and_then(|bytes| BulkHeader::parse(*bytes, datagram.len()))
        };
        let mut some = false;
        self.incomplete = false;
        for datagram in buffer.chunks(segment) {
            let is_taken = match begins(datagram) {
                Some(header) => self.begin(received, header, datagram),
                None => self.go_on(received, datagram),
            };
            some |= is_taken;
            self.dropped += u64::from(!is_taken);
        }
        let first = &buffer[..segment.min(buffer.len())];
        if begins(first).is_some_and(|header| header.whole() == buffer.len()) {
            self.distrust = self.distrust.saturating_sub(1);
        } else if some {
            self.distrust = WHOLE;
        }
    }

    /// The place of the frame that a sender began last, if it is not whole.
    fn split_of(&self, received: &Received) -> Option<usize> {
        let ends = (received.from, received.to);
        self.split.iter().position(|split| (split.from, split.to) == ends)
    }

    /// Takes in the first datagram of a frame. Whether there is room for it.
    fn begin(&mut self, received: &Received, header: BulkHeader, datagram: &[u8]) -> bool {
        let (from, to) = (received.from, received.to);
        // The rest of the sender's former frame does not come any more.
        self.give_up(self.split_of(received));
        if self.split.len() >= SPLIT {
            self.give_up(Some(0));
        }
        let Some(slot) = self.slots.take() else { return false };
        self.slots.write(slot, 0, &datagram[BULK_HEADER_LEN..]);
        self.split.push_back(Split { from, to, header, got: datagram.len(), slot });
        self.complete(self.split.len() - 1);
        true
    }

    /// Takes in the next datagram of a frame. Whether there is such a frame.
    fn go_on(&mut self, received: &Received, datagram: &[u8]) -> bool {
        let Some(at) = self.split_of(received) else { return false };
        let Split { header, got, slot, .. } = &mut self.split[at];
        if datagram.len() != (header.whole() - *got).min(header.unit.into()) {
            self.give_up(Some(at));
            self.incomplete = false;
            return false;
        }
        self.slots.write(*slot, *got - BULK_HEADER_LEN, datagram);
        *got += datagram.len();
        self.complete(at);
        true
    }

    /// Makes a frame of this place ready if nothing of it is missing.
    fn complete(&mut self, at: usize) {
        let Split { from, to, header, got, slot } = self.split[at];
        self.incomplete = got < header.whole();
        if !self.incomplete {
            self.split.remove(at);
            if header.whole() > header.unit.into() && !self.slots.is_sealed(slot, header.length) {
                // Datagrams have overtaken others.
                self.dropped += got.div_ceil(header.unit.into()) as u64;
                self.slots.give_back(slot);
                return;
            }
            self.ready.extend(self.slots.finish(slot, header.length.into(), (from, to)));
        }
    }

    /// Gives up a frame that is not whole.
    fn give_up(&mut self, at: Option<usize>) {
        if let Some(split) = at.and_then(|at| self.split.remove(at)) {
            self.dropped += split.got.div_ceil(split.header.unit.into()) as u64;
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
            buffers in vec((0_u8..3, 0_u8..20, 0_usize..9, 1_usize..9, 30_usize..1500), 1..80)
        ) {
            let mut receiver = receiver(4);
            let sized = |n: u8| frame(n.into(), 40 + 250 * usize::from(n));
            for (from, n, first, count, segment) in buffers {
                let all = sent(&sized(n), 500);
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
