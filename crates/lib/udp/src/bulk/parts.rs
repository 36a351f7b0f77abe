//! Bulk frames put together from parts that came by the link.

use super::slots::FrameSlots;
use crate::socket::DatagramEnds;
use gigae_link::RxFrame;
use gigae_wire::{MOST_PARTS, PartHeader};
use std::collections::VecDeque;

const _: () = assert!(MOST_PARTS as u32 <= u64::BITS);

/// Frames of which parts are missing that are kept at a time, of all peers and of each. The oldest
/// makes room for a new one.
pub(super) const PARTED: usize = 64;
const PARTED_OF_PEER: usize = 2;

/// A frame of which parts are missing.
#[derive(Debug)]
struct PartialFrame {
    /// Whose it is: the caller's number of the peer. The socket that a peer names may be another's.
    peer: u32,
    header: PartHeader,
    /// The parts that are there, a bit each.
    got: u64,
    /// Bytes in the last one, if it is there.
    last: usize,
    slot: u32,
}

impl PartialFrame {
    fn is_of(&self, peer: u32, header: PartHeader) -> bool {
        self.peer == peer && PartHeader { index: 0, ..header } == self.header
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
pub(super) struct PartAssembler {
    frames: VecDeque<PartialFrame>,
    /// Parts for which there was no room, and those of frames that never became whole.
    pub(super) dropped: u64,
}

impl PartAssembler {
    /// Takes in a part from a peer with this socket, for this address. Returns the frame when it is
    /// whole. One copy.
    pub(super) fn take(
        &mut self,
        peer: u32,
        ends: DatagramEnds,
        header: PartHeader,
        part: &[u8],
        slots: &mut FrameSlots,
    ) -> Option<RxFrame> {
        let fits = usize::from(header.unit) * usize::from(header.count) <= slots.room();
        let found = self.frames.iter().position(|frame| frame.is_of(peer, header));
        let at = match found {
            Some(at) => at,
            None if fits => self.begin(peer, header, slots)?,
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
    fn begin(&mut self, peer: u32, header: PartHeader, slots: &mut FrameSlots) -> Option<usize> {
        let of_peer = self.frames.iter().filter(|frame| frame.peer == peer).count();
        if of_peer >= PARTED_OF_PEER || self.frames.len() >= PARTED {
            let oldest = self.frames.iter().position(|frame| frame.peer == peer).unwrap_or(0);
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
        self.frames.push_back(PartialFrame { peer, header, got: 0, last: 0, slot });
        Some(self.frames.len() - 1)
    }
}
