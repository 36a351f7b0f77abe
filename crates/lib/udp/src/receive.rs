//! Receiving: buffers of several datagrams, each datagram into a slot of its own.

use crate::socket::{Received, UdpSocket};
use gigae_link::{Arena, Filter, RxFrame, TxFrame};
use gigae_wire::{Envelope, MAX_ENVELOPE, MacAddr, NodeAddr, Route};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// Where in a slot a datagram lies: behind room for the longest headers.
pub(crate) const HEADROOM: usize = 64;

const _: () = assert!(MAX_ENVELOPE <= HEADROOM);

/// Most datagrams that the kernel joins.
const DATAGRAMS: usize = 64;

/// More than any buffer has.
const LONGEST: usize = 64 * 1024;

/// The slots of received frames, and what the next buffer will look like.
#[derive(Debug)]
pub(crate) struct Receiver {
    arena: Arc<Arena>,
    slot: usize,
    /// Longest datagram that is taken.
    longest: usize,
    free: Vec<u32>,
    ready: VecDeque<RxFrame>,
    /// The datagrams of the next buffer are taken to be so long, and so many.
    length: usize,
    count: usize,
    alone: bool,
    /// Takes what is longer than expected.
    spill: Box<[u8]>,
    /// Takes all of a buffer that is not as expected.
    whole: Vec<u8>,
    /// The outer headers of the last sender's frames.
    headers: Option<(IpAddr, IpAddr, Route)>,
    /// Datagrams that no slot could take.
    pub(crate) dropped: u64,
    /// Buffers that were not as expected, so their datagrams were copied once more.
    pub(crate) mispredicted: u64,
}

impl Receiver {
    /// For `slots` slots of this size at the start of the arena.
    pub(crate) fn new(arena: Arc<Arena>, slots: usize, slot: usize, longest: usize) -> Self {
        Self {
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
            headers: None,
            dropped: 0,
            mispredicted: 0,
        }
    }

    /// Whether a frame is there without a system call.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
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

    /// Receives one buffer, if there is one and a slot for it. Whether to look for frames, and then
    /// for more.
    pub(crate) fn receive(&mut self, socket: &UdpSocket, filter: &Filter) -> Result<bool, Errno> {
        if self.free.is_empty() {
            return Ok(false);
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
        let received = match socket.receive(&mut pieces[..=slots]) {
            Ok(Some(received)) => received,
            Ok(None) => {
                self.dropped += 1;
                return Ok(true);
            }
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            // A former datagram met nobody (ICMP): peers answer for themselves.
            Err(Errno::CONNREFUSED) => return Ok(true),
            Err(errno) => return Err(errno),
        };
        if received.length > 0 {
            self.sort(&received, slots, filter);
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
    fn sort(&mut self, received: &Received, slots: usize, filter: &Filter) {
        let length = received.length;
        let segment = received.segment.unwrap_or(length).min(length);
        let count = length.div_ceil(segment);
        if segment > self.longest {
            self.dropped += count as u64;
            return;
        }
        let in_place = count <= slots && (segment == self.length || count == 1);
        let in_place = in_place && segment <= self.length;
        if in_place {
            let begin = self.free.len() - count;
            let taken: [u32; DATAGRAMS] =
                std::array::from_fn(|i| if i < count { self.expected(i) } else { 0 });
            self.free.truncate(begin);
            for (i, &slot) in taken[..count].iter().enumerate() {
                let bytes = segment.min(length - i * segment);
                self.finish(slot, bytes, received, filter);
            }
        } else {
            self.mispredicted += 1;
            self.gather(length, slots);
            let whole = std::mem::take(&mut self.whole);
            for datagram in whole.chunks(segment) {
                let Some(slot) = self.free.pop() else {
                    self.dropped += 1;
                    continue;
                };
                let start = self.payload(slot);
                // SAFETY: the slot is free, so nobody has a token for its bytes.
                let mut room =
                    unsafe { TxFrame::new(&self.arena, start..start + datagram.len(), slot) };
                self.arena.bytes_mut(&mut room).copy_from_slice(datagram);
                self.finish(slot, datagram.len(), received, filter);
            }
            self.whole = whole;
        }
        self.alone = count == 1;
        self.length = if self.alone { self.longest } else { segment };
        self.count = count.max(self.count / 2).min(DATAGRAMS);
    }

    /// Copies a buffer together again.
    fn gather(&mut self, length: usize, slots: usize) {
        self.whole.clear();
        for i in 0..slots {
            let (slot, bytes) = (self.expected(i), self.length.min(length - self.whole.len()));
            let start = self.payload(slot);
            // SAFETY: the slot is free, so nobody writes its bytes; the kernel has, before it
            // returned.
            let frame = unsafe { TxFrame::new(&self.arena, start..start + bytes.max(1), slot) };
            self.whole.extend_from_slice(&self.arena.unsent_bytes(&frame)[..bytes]);
        }
        let rest = length - self.whole.len();
        self.whole.extend_from_slice(&self.spill[..rest]);
    }

    /// Writes the outer headers in front of a datagram. It is ready then, if the filter takes it.
    fn finish(&mut self, slot: u32, bytes: usize, received: &Received, filter: &Filter) {
        let Received { from, to, .. } = *received;
        let known = self.headers.as_ref().is_some_and(|(f, t, _)| (*f, *t) == (from, to));
        if !known {
            self.headers = headers(filter.envelope, from, to).map(|route| (from, to, route));
        }
        let Some((_, _, route)) = &self.headers else {
            self.free.push(slot);
            return;
        };
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
fn headers(envelope: Envelope, from: IpAddr, to: IpAddr) -> Option<Route> {
    let [from, to] = [from, to].map(|ip| NodeAddr::Ip { ip, next_hop: MacAddr::default() });
    Route::new(envelope, from, to)
}
