//! Bulk frames put together from parts that came by the link.

use super::slots::Slots;
use crate::socket::Ends;
use gigae_link::RxFrame;
use gigae_wire::{MOST_PARTS, PartHeader};
use std::collections::VecDeque;
use std::net::SocketAddr;

const _: () = assert!(MOST_PARTS as u32 <= u64::BITS);

/// Frames of which parts are missing that are kept at a time, of all peers and of each. The oldest
/// makes room for a new one.
const PARTED: usize = 64;
const PARTED_OF_PEER: usize = 2;

/// A frame of which parts are missing.
#[derive(Debug)]
struct Parted {
    from: SocketAddr,
    header: PartHeader,
    /// The parts that are there, a bit each.
    got: u64,
    /// Bytes in the last one, if it is there.
    last: usize,
    slot: u32,
}

impl Parted {
    fn is_of(&self, from: SocketAddr, header: PartHeader) -> bool {
        self.from == from && PartHeader { index: 0, ..header } == self.header
    }

    /// The frame's length, if nothing is missing.
    fn whole(&self) -> Option<usize> {
        let all = u64::MAX >> (u64::BITS - u32::from(self.header.count));
        let before = usize::from(self.header.count - 1) * usize::from(self.header.unit);
        (self.got == all).then_some(before + self.last)
    }
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Parts {
    frames: VecDeque<Parted>,
    /// Parts for which there was no room, and those of frames that never became whole.
    pub(super) dropped: u64,
}

impl Parts {
    /// Takes in a part from the peer with this socket, for this address. Returns the frame when it
    /// is whole. One copy.
    pub(super) fn take(
        &mut self,
        ends: Ends,
        header: PartHeader,
        part: &[u8],
        slots: &mut Slots,
    ) -> Option<RxFrame> {
        let fits = usize::from(header.unit) * usize::from(header.count) <= slots.room();
        let found = self.frames.iter().position(|frame| frame.is_of(ends.from, header));
        let at = match found {
            Some(at) => at,
            None if fits => self.begin(ends.from, header, slots)?,
            None => {
                self.dropped += 1;
                return None;
            }
        };
        let frame = &mut self.frames[at];
        slots.write(frame.slot, header.offset(), part);
        frame.got |= 1 << header.index;
        if header.is_last() {
            frame.last = part.len();
        }
        let (length, slot) = (frame.whole()?, frame.slot);
        self.frames.remove(at);
        slots.finish(slot, length, ends)
    }

    /// Begins a frame. Returns its place, if there is a slot for it.
    fn begin(&mut self, from: SocketAddr, header: PartHeader, slots: &mut Slots) -> Option<usize> {
        let of_peer = self.frames.iter().filter(|frame| frame.from == from).count();
        if of_peer >= PARTED_OF_PEER || self.frames.len() >= PARTED {
            let oldest = self.frames.iter().position(|frame| frame.from == from).unwrap_or(0);
            if let Some(frame) = self.frames.remove(oldest) {
                self.dropped += u64::from(frame.got.count_ones());
                slots.give_back(frame.slot);
            }
        }
        let Some(slot) = slots.take() else {
            self.dropped += 1;
            return None;
        };
        let header = PartHeader { index: 0, ..header };
        self.frames.push_back(Parted { from, header, got: 0, last: 0, slot });
        Some(self.frames.len() - 1)
    }
}
