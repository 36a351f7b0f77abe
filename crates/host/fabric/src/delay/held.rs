//! The frames that wait for their time: one queue in the order of arrival, in a ring of bytes.

use std::collections::VecDeque;
use std::time::Instant;

/// The longest frame: 64 KB of data in one piece with its headers, and the virtio header.
pub(super) const LONGEST: usize = (64 << 10) + 512;

/// What a frame counts beside its bytes, so that many short frames do not take more memory than is
/// allowed.
const OVERHEAD: usize = 64;

/// A frame in the ring.
struct Held {
    due: Instant,
    port: usize,
    at: usize,
    length: usize,
}

/// The queue.
pub(super) struct HeldFrames {
    bytes: Vec<u8>,
    frames: VecDeque<Held>,
    /// Where the next frame begins.
    write: usize,
    /// What the frames count together, and what they may and did count at most.
    held: usize,
    limit: usize,
    peak: usize,
}

impl HeldFrames {
    /// Room for `limit` bytes. The kernel gives the memory when it is first used.
    pub(super) fn new(limit: usize) -> Self {
        // The next frame always finds `LONGEST` bytes in one piece: at the end less than that can
        // be left over, and less than that between the last frame and the first one.
        let bytes = vec![0; limit + 3 * LONGEST];
        Self { bytes, frames: VecDeque::new(), write: 0, held: 0, limit, peak: 0 }
    }

    /// Where the next frame goes: [`LONGEST`] bytes.
    pub(super) fn room(&mut self) -> &mut [u8] {
        match self.frames.front().map(|first| first.at) {
            None => self.write = 0,
            Some(first) if self.write >= first && self.bytes.len() - self.write < LONGEST => {
                self.write = 0;
            }
            Some(_) => {}
        }
        &mut self.bytes[self.write..][..LONGEST]
    }

    /// Keeps the first `length` bytes of [`room`](Self::room) as a frame that came from a port.
    /// False if there is no room for it.
    pub(super) fn push(&mut self, length: usize, port: usize, due: Instant) -> bool {
        let held = self.held + length + OVERHEAD;
        if held > self.limit {
            return false;
        }
        self.frames.push_back(Held { due, port, at: self.write, length });
        self.write += length;
        self.held = held;
        self.peak = self.peak.max(held);
        true
    }

    /// When the first frame is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.frames.front().map(|first| first.due)
    }

    /// The first frame and the port that it came from.
    pub(super) fn first(&self) -> Option<(usize, &[u8])> {
        let first = self.frames.front()?;
        Some((first.port, &self.bytes[first.at..][..first.length]))
    }

    /// Removes the first frame.
    pub(super) fn pop(&mut self) {
        if let Some(first) = self.frames.pop_front() {
            self.held -= first.length + OVERHEAD;
        }
    }

    /// The most bytes that were held at once, what each frame counts beside them included.
    pub(super) fn peak(&self) -> usize {
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(queue: &mut HeldFrames, number: u8, length: usize, due: Instant) -> bool {
        let room = queue.room();
        assert_eq!(room.len(), LONGEST);
        room[..length].fill(number);
        queue.push(length, usize::from(number), due)
    }

    #[test]
    fn frames_come_out_in_their_order_and_whole_at_any_length() {
        let (limit, now) = (200_000, Instant::now());
        let mut queue = HeldFrames::new(limit);
        let (mut next, mut oldest, mut refused) = (0_u8, 0_u8, 0);
        let lengths = [60, 65_000, 1514, 40_000, 14, LONGEST];
        for step in 0..20_000_usize {
            let length = lengths[step * 7 % lengths.len()];
            if put(&mut queue, next, length, now) {
                next = next.wrapping_add(1);
            } else {
                refused += 1;
            }
            // Sometimes faster than they come, sometimes slower.
            for _ in 0..(step / 100) % 3 {
                let Some((port, bytes)) = queue.first() else { break };
                assert_eq!(port, usize::from(oldest));
                assert!(bytes.iter().all(|&byte| byte == oldest));
                oldest = oldest.wrapping_add(1);
                queue.pop();
            }
        }
        assert!(refused > 0 && queue.peak() <= limit, "{refused} {}", queue.peak());
    }

    #[test]
    fn no_more_is_held_than_allowed_and_short_frames_count_too() {
        let now = Instant::now();
        let mut queue = HeldFrames::new(1000);
        let kept = (0..100).filter(|&number| put(&mut queue, number, 14, now)).count();
        assert_eq!(kept, 1000 / (14 + OVERHEAD));
        assert_eq!((queue.due(), queue.peak()), (Some(now), kept * (14 + OVERHEAD)));
        queue.pop();
        assert!(put(&mut queue, 1, 14, now) && !put(&mut queue, 2, 14, now));
        while queue.first().is_some() {
            queue.pop();
        }
        assert_eq!((queue.due(), queue.held), (None, 0));
    }
}
