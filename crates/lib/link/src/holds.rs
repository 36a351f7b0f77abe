//! The holds on transmit frames, for backends: who has which frame.
//!
//! A frame has two holds, *with the NIC* and *held by a token*, and is free when both are clear.
//! This file knows nothing of memory or of the kernel; it never allocates after it was made.

/// The NIC may still read the frame.
const WITH_NIC: u8 = 1;
/// A token for the frame exists.
const HELD: u8 = 2;

/// The holds on every transmit frame of a link, and the list of free ones.
#[derive(Debug)]
pub struct TxHolds {
    holds: Box<[u8]>,
    /// Last in, first out: the frame used last is the one most likely still in a cache.
    free: Vec<u32>,
}

impl TxHolds {
    /// For `frames` frames, all free.
    pub fn new(frames: u32) -> Self {
        Self {
            holds: vec![0; frames as usize].into_boxed_slice(),
            free: (0..frames).rev().collect(),
        }
    }

    /// A free frame, now held.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        let frame = self.free.pop()?;
        self.holds[frame as usize] = HELD;
        Some(frame)
    }

    /// The NIC has the frame, and a token stays.
    #[inline]
    pub fn post(&mut self, frame: u32) {
        self.holds[frame as usize] = HELD | WITH_NIC;
    }

    /// The NIC is done with the frame. False, and nothing changes, if the NIC did not have it:
    /// what a kernel reports is checked.
    #[inline]
    pub fn complete(&mut self, frame: u32) -> bool {
        match self.holds.get_mut(frame as usize) {
            Some(holds) if *holds & WITH_NIC != 0 => {
                *holds &= !WITH_NIC;
                if *holds == 0 {
                    self.free.push(frame);
                }
                true
            }
            _ => false,
        }
    }

    /// The token is gone.
    #[inline]
    pub fn release(&mut self, frame: u32) {
        let holds = &mut self.holds[frame as usize];
        *holds &= !HELD;
        if *holds == 0 {
            self.free.push(frame);
        }
    }

    /// Whether the NIC may still read the frame.
    #[inline]
    pub fn with_nic(&self, frame: u32) -> bool {
        self.holds[frame as usize] & WITH_NIC != 0
    }

    /// How many frames are free.
    #[inline]
    pub fn free(&self) -> usize {
        self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_free_when_both_holds_are_clear_in_either_order() {
        let mut holds = TxHolds::new(1);
        for nic_first in [true, false] {
            let frame = holds.take().unwrap();
            holds.post(frame);
            assert!(holds.with_nic(frame) && holds.take().is_none());
            if nic_first {
                assert!(holds.complete(frame));
                assert_eq!(holds.free(), 0);
                holds.release(frame);
            } else {
                holds.release(frame);
                assert_eq!(holds.free(), 0);
                assert!(holds.complete(frame));
            }
            assert_eq!(holds.free(), 1);
        }
    }

    #[test]
    fn a_completion_of_a_frame_that_the_nic_does_not_have_changes_nothing() {
        let mut holds = TxHolds::new(2);
        let frame = holds.take().unwrap();
        assert!(!holds.complete(frame) && !holds.complete(1 - frame) && !holds.complete(7));
        assert_eq!(holds.free(), 1);
    }
}
