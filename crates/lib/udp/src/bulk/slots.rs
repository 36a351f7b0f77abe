//! Memory for received frames, in slots.

use crate::receive::{HEADROOM, headers};
use crate::socket::DatagramEnds;
use gigae_link::{Arena, Filter, RxFrame, TxFrame};
use gigae_wire::{BULK_HEADER_LEN, HEADER_LEN, Header, MacAddr, Route};
use std::ops::Range;
use std::sync::Arc;

/// More than any buffer of the kernel's has.
pub(super) const LONGEST: usize = 64 * 1024;

const _: () = assert!(BULK_HEADER_LEN <= HEADROOM);

/// See the module's description.
#[derive(Debug)]
pub(super) struct FrameSlots {
    pub(super) arena: Arc<Arena>,
    /// Bytes of a slot.
    size: usize,
    filter: Filter,
    pub(super) free: Vec<u32>,
    /// Whether the datagrams of the frame in a slot, if several, came one by one.
    uncoalesced: Box<[Option<bool>]>,
    /// The outer headers of the last sender's frames.
    headers: Option<(DatagramEnds, Route)>,
}

impl FrameSlots {
    /// `count` slots of `size` bytes at the start of the arena.
    pub(super) fn new(arena: Arc<Arena>, count: usize, size: usize, filter: Filter) -> Self {
        let free = (0..count as u32).rev().collect();
        let uncoalesced = vec![None; count].into();
        Self { arena, size, filter, free, uncoalesced, headers: None }
    }

    /// The slot that [`take`](Self::take) takes next.
    pub(super) fn next(&self) -> Option<u32> {
        self.free.last().copied()
    }

    pub(super) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    pub(super) fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Takes the slot of a frame back.
    ///
    /// # Panics
    /// If the frame is another link's.
    pub(super) fn recycle(&mut self, frame: RxFrame) {
        let _ = self.arena.bytes(&frame);
        self.free.push(frame.slot());
    }

    /// Notes whether the datagrams of the frame in a slot, if several, came one by one.
    pub(super) fn set_uncoalesced(&mut self, slot: u32, uncoalesced: Option<bool>) {
        self.uncoalesced[slot as usize] = uncoalesced;
    }

    /// The same of a frame that was handed out.
    pub(super) fn arrived_uncoalesced(&self, frame: &RxFrame) -> Option<bool> {
        self.uncoalesced[frame.slot() as usize]
    }

    /// Where in the arena the frame of a slot begins, without its outer headers.
    fn start(&self, slot: u32) -> usize {
        slot as usize * self.size + HEADROOM
    }

    /// Longest frame that a slot has room for.
    pub(super) fn room(&self) -> usize {
        self.size - HEADROOM
    }

    /// The memory of a slot that no one has a token for: a bulk header's, and that of the frame.
    pub(super) fn bytes_mut(&mut self, slot: u32) -> &mut [u8] {
        let start = self.start(slot);
        let all = start - BULK_HEADER_LEN..start + self.room();
        // SAFETY: the bytes are within the slot. No token for them exists, and the borrow of all
        // slots keeps others from being made.
        unsafe {
            let base = self.arena.base().add(all.start);
            std::slice::from_raw_parts_mut(base.as_ptr(), all.len())
        }
    }

    /// Copies bytes into a frame, in a slot that no one has a token for.
    pub(super) fn write(&mut self, slot: u32, at: usize, bytes: &[u8]) {
        self.bytes_mut(slot)[BULK_HEADER_LEN + at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Whether a frame of `length` bytes, in a slot that no one has a token for, has the length and
    /// the checksum that its header says. Reads it once.
    pub(super) fn is_sealed(&mut self, slot: u32, length: usize) -> bool {
        let frame = &self.bytes_mut(slot)[BULK_HEADER_LEN..][..length];
        Header::parse(frame).is_ok_and(|(_, payload)| HEADER_LEN + payload.len() == frame.len())
    }

    /// Copies bytes into a frame that was handed out. One copy.
    ///
    /// # Panics
    /// If they are not all within the frame.
    pub(super) fn rewrite(&mut self, frame: RxFrame, at: usize, bytes: &[u8]) -> RxFrame {
        let end = frame.offset() + self.arena.bytes(&frame).len();
        assert!(self.start(frame.slot()) + at + bytes.len() <= end, "bytes outside the frame");
        // The token is here, so no other code uses the slot.
        self.write(frame.slot(), at, bytes);
        frame
    }

    /// Writes the outer headers in front of a whole frame. `None` if the filter does not take it:
    /// then the slot is free again.
    pub(super) fn finish(
        &mut self,
        slot: u32,
        bytes: usize,
        ends: DatagramEnds,
    ) -> Option<RxFrame> {
        let known = self.headers.as_ref().is_some_and(|(known, _)| *known == ends);
        if !known {
            let route = headers(self.filter.envelope, ends);
            self.headers = route.map(|route| (ends, route));
        }
        let start = self.start(slot);
        let route = self.headers.as_ref().map(|(_, route)| route);
        if let Some(route) = route.filter(|route| route.len() + bytes <= LONGEST) {
            let frame: Range<usize> = start - route.len()..start + bytes;
            // SAFETY: the slot is not free, and was not handed out.
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
