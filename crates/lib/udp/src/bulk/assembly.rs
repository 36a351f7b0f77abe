//! Long frames put together from their datagrams.
//!
//! Most frames come in one buffer of the kernel's, which is scattered: each datagram's header goes to
//! a list, and its part of the frame to its place in a slot. What comes otherwise (alone, out of
//! order, of several frames) is copied to its place.

use crate::receive::{HEADROOM, headers};
use crate::socket::{Received, UdpSocket};
use gigae_link::{Arena, Filter, RxFrame, TxFrame};
use gigae_wire::{BULK_HEADER_LEN, BulkHeader, MOST_DATAGRAMS, MOST_PARTS, MacAddr, Route};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Most datagrams of a buffer.
const DATAGRAMS: usize = MOST_DATAGRAMS as usize;
const _: () = assert!(MOST_PARTS as u32 <= u64::BITS);

/// Frames of which parts are missing that are kept at a time. The oldest makes room for a new one:
/// it has lost a datagram.
const INCOMPLETE: usize = 8;

/// The same of frames whose parts come by another link: of all peers, and of each.
const PARTED: usize = 64;
const PARTED_OF_PEER: usize = 2;

/// More than any buffer has.
const LONGEST: usize = 64 * 1024;

/// A frame of which datagrams are missing.
#[derive(Debug)]
struct Incomplete {
    from: SocketAddr,
    to: IpAddr,
    frame: u32,
    unit: u16,
    count: u8,
    /// The datagrams that are there, a bit each.
    got: u64,
    /// Bytes in the last one, if it is there.
    last: usize,
    slot: u32,
}

impl Incomplete {
    fn is_of(&self, received: &Received, header: BulkHeader) -> bool {
        self.frame == header.frame
            && (self.unit, self.count) == (header.unit, header.count)
            && (self.from, self.to) == (received.from, received.to)
    }

    fn add(&mut self, header: BulkHeader, len: usize) {
        self.got |= 1 << header.index;
        if header.is_last() {
            self.last = len;
        }
    }

    /// The frame's length, if nothing is missing.
    fn whole(&self) -> Option<usize> {
        let all = u64::MAX >> (u64::BITS - u32::from(self.count));
        let before = usize::from(self.count - 1) * usize::from(self.unit);
        (self.got == all).then_some(before + self.last)
    }
}

/// There is no slot for a part, or no sender sends it.
struct NoRoom;

/// Slots, and the frames that are put together in them.
#[derive(Debug)]
pub(super) struct Assembler {
    arena: Arc<Arena>,
    /// Bytes of a slot.
    slot: usize,
    filter: Filter,
    free: Vec<u32>,
    ready: VecDeque<RxFrame>,
    incomplete: VecDeque<Incomplete>,
    /// Those whose parts come by another link, in the names of peers.
    parted: VecDeque<Incomplete>,
    /// The parts of the next frame are taken to be so long.
    unit: usize,
    heads: Box<[[u8; BULK_HEADER_LEN]; DATAGRAMS]>,
    /// Takes what is longer than expected.
    spill: Box<[u8]>,
    /// Takes all of a buffer that is not as expected.
    whole: Vec<u8>,
    /// The outer headers of the last sender's frames.
    headers: Option<(SocketAddr, IpAddr, Route)>,
    /// System calls so far.
    pub(super) calls: u64,
    /// Datagrams that no sender sends, those of frames that never became whole, and those for which
    /// there was no room.
    pub(super) dropped: u64,
}

impl Assembler {
    /// For so many slots of so many bytes at the start of the arena.
    pub(super) fn new(
        arena: Arc<Arena>,
        (slots, slot): (usize, usize),
        filter: Filter,
        unit: usize,
    ) -> Self {
        Self {
            arena,
            slot,
            filter,
            free: (0..slots as u32).rev().collect(),
            ready: VecDeque::with_capacity(DATAGRAMS),
            incomplete: VecDeque::with_capacity(INCOMPLETE),
            parted: VecDeque::new(),
            unit,
            heads: Box::new([[0; BULK_HEADER_LEN]; DATAGRAMS]),
            spill: vec![0; LONGEST].into_boxed_slice(),
            whole: Vec::with_capacity(LONGEST),
            headers: None,
            calls: 0,
            dropped: 0,
        }
    }

    /// Whether a frame is there without a system call.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
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
        let _ = self.arena.bytes(&frame);
        self.free.push(frame.slot());
    }

    /// Where in the arena the frame of a slot begins, without its outer headers.
    fn start(&self, slot: u32) -> usize {
        slot as usize * self.slot + HEADROOM
    }

    /// Longest frame that a slot has room for.
    fn room(&self) -> usize {
        self.slot - HEADROOM
    }

    /// Receives one buffer, if there is one and a slot for it. Whether to look for frames, and then
    /// for more.
    pub(super) fn receive(&mut self, socket: &UdpSocket) -> Result<bool, Errno> {
        let Some(&slot) = self.free.last() else { return Ok(false) };
        const NONE: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut pieces = [NONE; 2 * DATAGRAMS + 1];
        let expected = (self.room() / self.unit).min(DATAGRAMS);
        // SAFETY: the slot lies in the arena, with room for that many parts.
        let start = unsafe { self.arena.base().add(self.start(slot)) }.as_ptr();
        for (i, (pair, head)) in pieces.chunks_exact_mut(2).zip(&mut *self.heads).enumerate() {
            if i == expected {
                break;
            }
            pair[0] = libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: head.len() };
            // SAFETY: as above.
            let part = unsafe { start.add(i * self.unit) };
            pair[1] = libc::iovec { iov_base: part.cast(), iov_len: self.unit };
        }
        pieces[2 * expected] =
            libc::iovec { iov_base: self.spill.as_mut_ptr().cast(), iov_len: LONGEST };
        self.calls += 1;
        match socket.receive(&mut pieces[..=2 * expected]) {
            // To a group everybody belongs to, with any sender's address: no peer sends such.
            Ok(Some(received)) if !received.to.is_multicast() && !received.to_all => {
                self.sort(&received, slot, expected);
            }
            Ok(_) => self.dropped += 1,
            Err(Errno::AGAIN) => return Ok(false),
            // A former datagram met nobody (ICMP): peers answer for themselves.
            Err(Errno::INTR | Errno::CONNREFUSED) => {}
            Err(errno) => return Err(errno),
        }
        Ok(true)
    }

    /// Looks what came into the free slot, so many parts of which were expected.
    fn sort(&mut self, received: &Received, slot: u32, expected: usize) {
        let length = received.length;
        let segment = received.segment.unwrap_or(length).min(length);
        if segment <= BULK_HEADER_LEN {
            self.dropped += 1;
            return;
        }
        let (unit, count) = (segment - BULK_HEADER_LEN, length.div_ceil(segment));
        let as_expected =
            count <= expected && (unit == self.unit || count == 1 && unit < self.unit);
        if as_expected && let Some(frame) = self.whole_in_place(length, segment, count) {
            self.free.pop();
            let whole = self.finish(slot, frame, (received.from, received.to));
            self.ready.extend(whole);
        } else {
            self.gather(length, slot, expected);
            self.place_all(received, segment);
        }
        if count > 1 {
            self.unit = unit;
        }
    }

    /// The length of the frame that lies whole in the slot, if that is what came.
    fn whole_in_place(&self, length: usize, segment: usize, count: usize) -> Option<usize> {
        let of = |i: usize| {
            let len = segment.min(length - i * segment).checked_sub(BULK_HEADER_LEN)?;
            BulkHeader::parse(self.heads[i], len)
        };
        let first = of(0)?;
        let alike = |i: usize| of(i).is_some_and(|it| it == BulkHeader { index: i as u8, ..first });
        let whole = usize::from(first.count) == count && (0..count).all(alike);
        // The parts lie one behind the other only if they are as long as was expected.
        let dense = count == 1 || usize::from(first.unit) == self.unit;
        (whole && dense).then_some(length - count * BULK_HEADER_LEN)
    }

    /// Copies a buffer together that was scattered into a free slot, its headers and the spill.
    fn gather(&mut self, length: usize, slot: u32, expected: usize) {
        self.whole.clear();
        let start = self.start(slot);
        // SAFETY: the slot is free, so nobody writes its bytes; the kernel has, before it returned.
        let frame = unsafe { TxFrame::new(&self.arena, start..start + expected * self.unit, slot) };
        let parts = self.arena.unsent_bytes(&frame);
        for (head, part) in self.heads.iter().zip(parts.chunks_exact(self.unit)) {
            let left = length - self.whole.len();
            self.whole.extend_from_slice(&head[..left.min(head.len())]);
            let left = length - self.whole.len();
            self.whole.extend_from_slice(&part[..left.min(part.len())]);
        }
        let rest = length - self.whole.len();
        self.whole.extend_from_slice(&self.spill[..rest]);
    }

    /// Copies the datagrams of the buffer that was put together to their frames.
    fn place_all(&mut self, received: &Received, segment: usize) {
        let whole = std::mem::take(&mut self.whole);
        for datagram in whole.chunks(segment) {
            let parsed = datagram
                .split_first_chunk()
                .and_then(|(head, part)| Some((BulkHeader::parse(*head, part.len())?, part)));
            let mut frames = std::mem::take(&mut self.incomplete);
            let placed = match parsed {
                Some((header, part)) => {
                    let known = frames.iter().any(|frame| frame.is_of(received, header));
                    if !known && frames.len() >= INCOMPLETE {
                        self.make_room(&mut frames, received.from);
                    }
                    self.place(&mut frames, received, header, part)
                }
                None => Err(NoRoom),
            };
            self.incomplete = frames;
            if let Some((frame, length)) = self.count_lost(placed) {
                let whole = self.finish(frame.slot, length, (frame.from, frame.to));
                self.ready.extend(whole);
            }
        }
        self.whole = whole;
    }

    /// Gives up the oldest frame of a sender, or of all if it has none.
    fn make_room(&mut self, frames: &mut VecDeque<Incomplete>, from: SocketAddr) {
        let oldest = frames.iter().position(|frame| frame.from == from).unwrap_or(0);
        if let Some(frame) = frames.remove(oldest) {
            self.dropped += u64::from(frame.got.count_ones());
            self.free.push(frame.slot);
        }
    }

    /// Takes a part in that came by another link, from the peer with this socket.
    pub(super) fn take_part(
        &mut self,
        (from, to): (SocketAddr, IpAddr),
        header: BulkHeader,
        part: &[u8],
    ) -> Option<RxFrame> {
        let received = Received { length: part.len(), from, to, to_all: false, segment: None };
        let mut frames = std::mem::take(&mut self.parted);
        let of_peer = frames.iter().filter(|frame| frame.from == from).count();
        let known = frames.iter().any(|frame| frame.is_of(&received, header));
        if !known && (of_peer >= PARTED_OF_PEER || frames.len() >= PARTED) {
            self.make_room(&mut frames, from);
        }
        let placed = self.place(&mut frames, &received, header, part);
        self.parted = frames;
        let (frame, length) = self.count_lost(placed)?;
        self.finish(frame.slot, length, (from, to))
    }

    /// What has no room is dropped.
    fn count_lost(
        &mut self,
        placed: Result<Option<(Incomplete, usize)>, NoRoom>,
    ) -> Option<(Incomplete, usize)> {
        placed.unwrap_or_else(|NoRoom| {
            self.dropped += 1;
            None
        })
    }

    /// Copies a part to its frame among these. Returns that and its length if it is whole now.
    fn place(
        &mut self,
        frames: &mut VecDeque<Incomplete>,
        received: &Received,
        header: BulkHeader,
        part: &[u8],
    ) -> Result<Option<(Incomplete, usize)>, NoRoom> {
        if usize::from(header.unit) * usize::from(header.count) > self.room() {
            return Err(NoRoom);
        }
        let at = match frames.iter().position(|frame| frame.is_of(received, header)) {
            Some(at) => at,
            None => {
                let slot = self.free.pop().ok_or(NoRoom)?;
                let BulkHeader { frame, unit, count, .. } = header;
                let Received { from, to, .. } = *received;
                frames.push_back(Incomplete {
                    from,
                    to,
                    frame,
                    unit,
                    count,
                    got: 0,
                    last: 0,
                    slot,
                });
                frames.len() - 1
            }
        };
        let slot = frames[at].slot;
        let start = self.start(slot) + header.offset();
        // SAFETY: the slot is an incomplete frame's, so nobody has a token for its bytes.
        let mut room = unsafe { TxFrame::new(&self.arena, start..start + part.len(), slot) };
        self.arena.bytes_mut(&mut room).copy_from_slice(part);
        frames[at].add(header, part.len());
        let whole = frames[at].whole();
        Ok(whole.and_then(|length| Some((frames.remove(at)?, length))))
    }

    /// Writes the outer headers in front of a whole frame. `None` if the filter does not take it.
    fn finish(
        &mut self,
        slot: u32,
        bytes: usize,
        (from, to): (SocketAddr, IpAddr),
    ) -> Option<RxFrame> {
        let known = self.headers.as_ref().is_some_and(|(f, t, _)| (*f, *t) == (from, to));
        if !known {
            let route = headers(self.filter.envelope, from, to);
            self.headers = route.map(|route| (from, to, route));
        }
        let start = self.start(slot);
        let route = self.headers.as_ref().map(|(_, _, route)| route);
        if let Some(route) = route.filter(|route| route.len() + bytes <= LONGEST) {
            let frame = start - route.len()..start + bytes;
            // SAFETY: the slot is neither free nor an incomplete frame's, and was not handed out.
            let mut room = unsafe { TxFrame::new(&self.arena, frame.clone(), slot) };
            let written = self.arena.bytes_mut(&mut room);
            route.write(written);
            if self.filter.takes(MacAddr::default(), written) {
                // SAFETY: as above, and `room` is not used any more.
                return Some(unsafe { RxFrame::new(&self.arena, frame, slot) });
            }
        }
        self.free.push(slot);
        None
    }
}
