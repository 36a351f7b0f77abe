//! Long frames put together from their datagrams.
//!
//! Each buffer of the kernel's is received into one piece of memory, the same for all, and its parts
//! are copied from there, out of a cache, to their places in a slot. That is faster than to have the
//! kernel scatter 44 headers and 44 parts. Most frames come whole in one buffer. What comes otherwise
//! (alone, out of order, of several frames) waits in its slot for the rest.

use crate::receive::{HEADROOM, headers};
use crate::socket::{Received, UdpSocket};
use gigae_link::{Arena, Filter, RxFrame, TxFrame};
use gigae_wire::{BULK_HEADER_LEN, BulkHeader, MOST_DATAGRAMS, MOST_PARTS, MacAddr, Route};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
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

/// Where the data of the next frame are expected to belong: in other memory than a slot.
#[derive(Debug)]
pub struct Placement<'a> {
    /// Bytes of the frame, without outer headers, that come in front of the data.
    pub head: usize,
    /// Where the data belong. What comes behind as many bytes stays in the slot.
    pub data: &'a mut [u8],
}

impl Placement<'_> {
    /// The bytes of a frame of this length that belong there.
    fn of(&self, length: usize) -> Range<usize> {
        self.head.min(length)..(self.head + self.data.len()).min(length)
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
    /// Takes a buffer.
    buffer: Box<[u8]>,
    /// Bytes of the last frame that were placed elsewhere.
    pub(super) placed: usize,
    /// The outer headers of the last sender's frames.
    headers: Option<(SocketAddr, IpAddr, Route)>,
    /// System calls so far.
    pub(super) calls: u64,
    /// Datagrams that have come by the socket.
    pub(super) datagrams: u64,
    /// Datagrams that no sender sends, those of frames that never became whole, and those for which
    /// there was no room.
    pub(super) dropped: u64,
}

impl Assembler {
    /// For so many slots of so many bytes at the start of the arena.
    pub(super) fn new(arena: Arc<Arena>, (slots, slot): (usize, usize), filter: Filter) -> Self {
        Self {
            arena,
            slot,
            filter,
            free: (0..slots as u32).rev().collect(),
            ready: VecDeque::with_capacity(DATAGRAMS),
            incomplete: VecDeque::with_capacity(INCOMPLETE),
            parted: VecDeque::new(),
            buffer: vec![0; LONGEST].into_boxed_slice(),
            placed: 0,
            headers: None,
            calls: 0,
            datagrams: 0,
            dropped: 0,
        }
    }

    /// Whether a frame is there without a system call.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether a frame has come in parts and some are missing.
    pub(super) fn is_incomplete(&self) -> bool {
        !self.incomplete.is_empty()
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
    /// for more. The data of a frame that comes whole are copied to where they are expected to
    /// belong; how many of them lie there then is in `placed`.
    pub(super) fn receive(
        &mut self,
        socket: &UdpSocket,
        placement: Option<Placement>,
    ) -> Result<bool, Errno> {
        self.placed = 0;
        if self.free.is_empty() {
            return Ok(false);
        }
        self.calls += 1;
        let (iov_base, iov_len) = (self.buffer.as_mut_ptr().cast(), self.buffer.len());
        match socket.receive(&mut [libc::iovec { iov_base, iov_len }]) {
            // To a group everybody belongs to, with any sender's address: no peer sends such.
            Ok(Some(received)) if !received.to.is_multicast() && !received.to_all => {
                let buffer = std::mem::take(&mut self.buffer);
                self.sort(&received, &buffer, placement);
                self.buffer = buffer;
            }
            Ok(_) => self.dropped += 1,
            Err(Errno::AGAIN) => return Ok(false),
            // A former datagram met nobody (ICMP): peers answer for themselves.
            Err(Errno::INTR | Errno::CONNREFUSED) => {}
            Err(errno) => return Err(errno),
        }
        Ok(true)
    }

    /// Looks what came in a buffer.
    fn sort(&mut self, received: &Received, buffer: &[u8], placement: Option<Placement>) {
        let buffer = &buffer[..received.length.min(buffer.len())];
        let segment = received.segment.unwrap_or(buffer.len()).min(buffer.len());
        if segment <= BULK_HEADER_LEN {
            self.dropped += 1;
            return;
        }
        self.datagrams += buffer.len().div_ceil(segment) as u64;
        match whole_frame(buffer, segment).filter(|&length| length <= self.room()) {
            Some(length) => {
                let whole = self.take_whole(received, buffer.chunks(segment), (length, placement));
                self.ready.extend(whole);
            }
            None => self.place_all(received, buffer.chunks(segment)),
        }
    }

    /// Copies a frame that came whole to a slot, and its data to where they are expected to belong.
    fn take_whole<'a>(
        &mut self,
        received: &Received,
        datagrams: impl Iterator<Item = &'a [u8]>,
        (length, mut placement): (usize, Option<Placement>),
    ) -> Option<RxFrame> {
        let slot = self.free.pop()?;
        let start = self.start(slot);
        // SAFETY: the slot was free, so nobody has a token for its bytes.
        let mut room = unsafe { TxFrame::new(&self.arena, start..start + length, slot) };
        let room = self.arena.bytes_mut(&mut room);
        let away = placement.as_ref().map_or(0..0, |placement| placement.of(length));
        let mut at = 0;
        for datagram in datagrams {
            let part = &datagram[BULK_HEADER_LEN..];
            let cut = |place: usize| place.clamp(at, at + part.len()) - at;
            let (from, to) = (cut(away.start), cut(away.end));
            room[at..at + from].copy_from_slice(&part[..from]);
            if let Some(placement) = placement.as_mut().filter(|_| to > from) {
                let begin = at + from - away.start;
                placement.data[begin..begin + to - from].copy_from_slice(&part[from..to]);
            }
            room[at + to..at + part.len()].copy_from_slice(&part[to..]);
            at += part.len();
        }
        self.placed = away.len();
        self.finish(slot, length, (received.from, received.to))
    }

    /// Copies data to where they are in an ordinary frame, in a slot that nobody has a token for.
    fn fetch(&mut self, slot: u32, at: usize, data: &[u8]) {
        let start = self.start(slot) + at;
        // SAFETY: the slot is free, or its token is with the caller, who does not use it meanwhile.
        let mut room = unsafe { TxFrame::new(&self.arena, start..start + data.len(), slot) };
        self.arena.bytes_mut(&mut room).copy_from_slice(data);
    }

    /// Makes an ordinary frame of one whose data were placed elsewhere. One copy.
    pub(super) fn fetch_placed(&mut self, frame: RxFrame, head: usize, data: &[u8]) -> RxFrame {
        // The token is this link's.
        let end = frame.offset() + self.arena.bytes(&frame).len();
        let at = self.start(frame.slot()) + head;
        assert!(at + data.len() <= end, "placed bytes outside the frame");
        self.fetch(frame.slot(), head, data);
        frame
    }

    /// Copies the datagrams of a buffer to their frames.
    fn place_all<'a>(&mut self, received: &Received, datagrams: impl Iterator<Item = &'a [u8]>) {
        for datagram in datagrams {
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

/// The length of the frame that is whole in a buffer, if that is what came.
fn whole_frame(buffer: &[u8], segment: usize) -> Option<usize> {
    let of = |datagram: &[u8]| {
        let (head, part) = datagram.split_first_chunk()?;
        BulkHeader::parse(*head, part.len())
    };
    let first = of(buffer.get(..segment)?)?;
    let count = buffer.len().div_ceil(segment);
    let alike = |(index, datagram)| of(datagram) == Some(BulkHeader { index, ..first });
    // Each part but the last is as long as the unit, since the last one of a frame alone may differ.
    let whole = usize::from(first.count) == count && (0..).zip(buffer.chunks(segment)).all(alike);
    whole.then_some(buffer.len() - count * BULK_HEADER_LEN)
}
