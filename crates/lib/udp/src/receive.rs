//! Receiving: buffers of several datagrams, each datagram into its own slot.

use crate::socket::{DatagramEnds, ReceivedBuffer, UdpSocket};
use gigae_link::{Arena, Filter, RxFrame, TxFrame};
use gigae_wire::{Envelope, MAX_ENVELOPE, MacAddr, NodeAddr, Route};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::Arc;

/// Where in a slot a datagram lies: behind room for the longest headers.
pub(crate) const HEADROOM: usize = 64;

const _: () = assert!(MAX_ENVELOPE <= HEADROOM);

/// Shortest outer headers: Ethernet, IPv4, UDP.
const SHORTEST_ENVELOPE: usize = 14 + 20 + 8;

/// Most datagrams that the kernel joins.
const DATAGRAMS: usize = 64;

/// More than any buffer has.
const LONGEST: usize = 64 * 1024;

/// A buffer of which some datagrams have no slot yet.
#[derive(Debug)]
struct UnsortedBuffer {
    received: ReceivedBuffer,
    segment: usize,
    /// Where in the buffer they begin.
    at: usize,
}

/// The slots of received frames, and what the next buffer will look like.
#[derive(Debug)]
pub(crate) struct DatagramReceiver {
    arena: Arc<Arena>,
    slot: usize,
    /// Longest datagram that is taken, and longest frame.
    longest: usize,
    max_frame: usize,
    free: Vec<u32>,
    ready: VecDeque<RxFrame>,
    /// The datagrams of the next buffer are taken to be `length` bytes long, and `count`.
    length: usize,
    count: usize,
    alone: bool,
    /// Takes what is longer than expected.
    spill: Box<[u8]>,
    /// Takes all of a buffer that is not as expected.
    whole: Vec<u8>,
    rest: Option<UnsortedBuffer>,
    /// The outer headers of the last sender's frames.
    headers: Option<(DatagramEnds, Route)>,
    /// System calls so far.
    pub(crate) calls: u64,
    /// Datagrams that no slot could take.
    pub(crate) dropped: u64,
}

impl DatagramReceiver {
    /// For `slots` slots of this size at the start of the arena.
    pub(crate) fn new(arena: Arc<Arena>, slots: usize, slot: usize, max_frame: usize) -> Self {
        let longest = max_frame - SHORTEST_ENVELOPE;
        Self {
            max_frame,
            arena,
            slot,
            longest,
            free: (0..slots as u32).rev().collect(),
            ready: VecDeque::with_capacity(DATAGRAMS),
            length: longest,
            count: 1,
            alone: true,
            spill: vec![0; LONGEST].into_boxed_slice(),
            whole: Vec::with_capacity(LONGEST),
            rest: None,
            headers: None,
            calls: 0,
            dropped: 0,
        }
    }

    /// Whether a frame is there without a system call. The socket does not tell of these.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty() || (self.rest.is_some() && self.has_room())
    }

    /// Whether the last buffer was a single datagram.
    #[inline]
    pub(crate) fn came_alone(&self) -> bool {
        self.alone
    }

    /// The next frame that was received.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<RxFrame> {
        self.ready.pop_front()
    }

    /// Takes a slot back.
    ///
    /// # Panics
    /// If the frame is another link's.
    #[inline]
    pub(crate) fn recycle(&mut self, frame: RxFrame) {
        let _ = self.arena.bytes(&frame);
        self.free.push(frame.slot());
    }

    /// Whether a slot is free.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Receives one buffer, if there is one and a slot for it, or goes on with the last. Whether to
    /// look for frames, and then for more.
    pub(crate) fn receive(&mut self, socket: &UdpSocket, filter: &Filter) -> Result<bool, Errno> {
        if self.free.is_empty() {
            return Ok(false);
        }
        if let Some(rest) = self.rest.take() {
            self.copy_out(rest, filter);
            return Ok(true);
        }
        const NONE: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut pieces = [NONE; DATAGRAMS + 1];
        let slots = self.count.min(self.free.len());
        for (i, piece) in pieces[..slots].iter_mut().enumerate() {
            // SAFETY: the slot lies in the arena, with room for the longest datagram.
            let start = unsafe { self.arena.base().add(self.payload(self.expected(i))) };
            *piece = libc::iovec { iov_base: start.as_ptr().cast(), iov_len: self.length };
        }
        pieces[slots] = libc::iovec { iov_base: self.spill.as_mut_ptr().cast(), iov_len: LONGEST };
        self.calls += 1;
        match socket.receive(&mut pieces[..=slots]) {
            // To a group everybody belongs to, with any sender's address: no peer sends such.
            Ok(Some(received)) if received.length > 0 && !received.ends.to.is_multicast() => {
                self.sort(received, slots, filter);
            }
            Ok(Some(_)) => {}
            Ok(None) => self.dropped += 1,
            Err(Errno::AGAIN) => return Ok(false),
            // No process had the port of a former datagram (ICMP): peers answer for themselves.
            Err(Errno::INTR | Errno::CONNREFUSED) => {}
            Err(errno) => return Err(errno),
        }
        Ok(true)
    }

    /// The slot for datagram `i` of the next buffer.
    fn expected(&self, i: usize) -> u32 {
        self.free[self.free.len() - 1 - i]
    }

    /// Where in the arena the datagram of a slot begins.
    fn payload(&self, slot: u32) -> usize {
        slot as usize * self.slot + HEADROOM
    }

    /// Makes frames of a buffer that came into `slots` slots and the spill.
    fn sort(&mut self, received: ReceivedBuffer, slots: usize, filter: &Filter) {
        let length = received.length;
        let segment = received.segment.unwrap_or(length).min(length);
        let count = length.div_ceil(segment);
        if segment > self.longest {
            self.dropped += count as u64;
            return;
        }
        let as_expected = segment == self.length || (count == 1 && segment < self.length);
        if as_expected && count <= slots {
            let taken: [u32; DATAGRAMS] =
                std::array::from_fn(|i| if i < count { self.expected(i) } else { 0 });
            self.free.truncate(self.free.len() - count);
            for (i, &slot) in taken[..count].iter().enumerate() {
                let bytes = segment.min(length - i * segment);
                self.finish(slot, bytes, &received, filter);
            }
        } else {
            self.gather(length, slots);
            self.copy_out(UnsortedBuffer { received, segment, at: 0 }, filter);
        }
        self.alone = count == 1;
        if count > 1 {
            self.length = segment;
        } else if segment > self.length {
            self.length = self.longest;
        }
        self.count = count.max(self.count / 2).min(DATAGRAMS);
    }

    /// Copies datagrams of the buffer that was put together into free slots; the rest waits for
    /// more.
    fn copy_out(&mut self, mut rest: UnsortedBuffer, filter: &Filter) {
        let whole = std::mem::take(&mut self.whole);
        while rest.at < whole.len() {
            let Some(slot) = self.free.pop() else { break };
            let end = whole.len().min(rest.at + rest.segment);
            let datagram = &whole[rest.at..end];
            let start = self.payload(slot);
            // SAFETY: the slot is free, so no one has a token for its bytes.
            let mut room =
                unsafe { TxFrame::new(&self.arena, start..start + datagram.len(), slot) };
            self.arena.bytes_mut(&mut room).copy_from_slice(datagram);
            self.finish(slot, datagram.len(), &rest.received, filter);
            rest.at = end;
        }
        self.rest = (rest.at < whole.len()).then_some(rest);
        self.whole = whole;
    }

    /// Copies a buffer together again.
    fn gather(&mut self, length: usize, slots: usize) {
        self.whole.clear();
        for i in 0..slots {
            let (slot, bytes) = (self.expected(i), self.length.min(length - self.whole.len()));
            let start = self.payload(slot);
            // SAFETY: the slot is free, so no one writes its bytes; the kernel has, before it
            // returned.
            let frame = unsafe { TxFrame::new(&self.arena, start..start + bytes.max(1), slot) };
            self.whole.extend_from_slice(&self.arena.unsent_bytes(&frame)[..bytes]);
        }
        let rest = length - self.whole.len();
        self.whole.extend_from_slice(&self.spill[..rest]);
    }

    /// Writes the outer headers in front of a datagram. It is ready then, if the filter takes it.
    fn finish(&mut self, slot: u32, bytes: usize, received: &ReceivedBuffer, filter: &Filter) {
        let ends = received.ends;
        let known = self.headers.as_ref().is_some_and(|(known, _)| *known == ends);
        if !known {
            self.headers = headers(filter.envelope, ends).map(|route| (ends, route));
        }
        let Some((_, route)) = &self.headers else {
            self.free.push(slot);
            return;
        };
        if route.len() + bytes > self.max_frame {
            self.dropped += 1;
            self.free.push(slot);
            return;
        }
        let start = self.payload(slot);
        let frame = start - route.len()..start + bytes;
        // SAFETY: the slot is not in the list of free ones any more, and was not handed out.
        let mut room = unsafe { TxFrame::new(&self.arena, frame.clone(), slot) };
        let written = self.arena.bytes_mut(&mut room);
        route.write(written);
        let none = MacAddr::default();
        if received.to_all {
            written[..6].copy_from_slice(&MacAddr::BROADCAST.0);
        }
        if !filter.takes(none, written) {
            self.free.push(slot);
            return;
        }
        // SAFETY: as above, and `room` is not used any more.
        self.ready.push_back(unsafe { RxFrame::new(&self.arena, frame, slot) });
    }
}

/// The outer headers of a datagram: `None` for addresses of two families.
pub(crate) fn headers(envelope: Envelope, ends: DatagramEnds) -> Option<Route> {
    let DatagramEnds { from, to } = ends;
    let Envelope::Udp { port: own } = envelope else { return None };
    let [source, to] = [from.ip(), to].map(|ip| NodeAddr::Ip { ip, next_hop: MacAddr::default() });
    Route::to_port(Envelope::Udp { port: from.port() }, source, to, own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    /// The socket may be empty, so who sleeps on it would sleep on.
    #[test]
    fn what_is_left_of_a_buffer_is_ready_as_soon_as_a_slot_is_free() {
        let arena = Arc::new(Arena::anonymous(2 * 2048).unwrap());
        let mut receiver = DatagramReceiver::new(arena, 2, 2048, 1514);
        let channels = (0..=u8::MAX).collect();
        let filter = Filter { envelope: Envelope::Udp { port: 4791 }, channels };
        let [from, to] = [1, 2].map(|n| IpAddr::from([198, 18, 0, n]));
        let ends = DatagramEnds { from: (from, 4791).into(), to };
        let received = ReceivedBuffer { length: 300, ends, to_all: false, segment: Some(100) };
        receiver.whole = (0..300).map(|i| (i / 100) as u8).collect();
        receiver.copy_out(UnsortedBuffer { received, segment: 100, at: 0 }, &filter);
        let first = receiver.pop().unwrap();
        let second = receiver.pop().unwrap();
        assert!(!receiver.is_ready(), "both slots are lent");
        receiver.recycle(first);
        assert!(receiver.is_ready());
        let rest = receiver.rest.take().unwrap();
        receiver.copy_out(rest, &filter);
        let third = receiver.pop().unwrap();
        assert_eq!(receiver.arena.bytes(&third)[42..], [2; 100]);
        receiver.recycle(second);
        assert!(!receiver.is_ready(), "nothing is left");
    }
}
