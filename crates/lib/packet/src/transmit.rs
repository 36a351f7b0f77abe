//! Posted frames that were not passed to the kernel yet, in order.

use crate::socket::PacketSocket;
use gigae_link::Arena;
use rustix::io::Errno;

/// The position of a posted frame's bytes in the arena.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueuedFrame {
    pub(crate) frame: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

/// A queue with room for every transmit frame of the link.
#[derive(Debug)]
pub(crate) struct TransmitQueue {
    entries: Box<[QueuedFrame]>,
    head: usize,
    count: usize,
}

/// Messages per system call. The kernel's limit is 1,024; from 64 on the call itself is below a
/// hundredth of the cost, and their descriptions still fit a stack page or two.
pub(crate) const BATCH: usize = 64;

impl TransmitQueue {
    pub(crate) fn new(frames: usize) -> Self {
        Self { entries: vec![QueuedFrame::default(); frames].into_boxed_slice(), head: 0, count: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// # Panics
    /// If the queue is full, which takes more frames than the link has.
    #[inline]
    pub(crate) fn push(&mut self, entry: QueuedFrame) {
        assert!(self.count < self.entries.len(), "more frames than the link has");
        let at = (self.head + self.count) % self.entries.len();
        self.entries[at] = entry;
        self.count += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<QueuedFrame> {
        if self.count == 0 {
            return None;
        }
        let entry = self.entries[self.head];
        self.head = (self.head + 1) % self.entries.len();
        self.count -= 1;
        Some(entry)
    }

    /// Passes the first (at most [`BATCH`]) frames to the kernel. Returns how many it took.
    pub(crate) fn send(&self, arena: &Arena, socket: &PacketSocket) -> Result<usize, Errno> {
        let entry = |i: usize| self.entries[(self.head + i) % self.entries.len()];
        // SAFETY: the offset was taken from a token of this arena.
        let start = |entry: QueuedFrame| unsafe { arena.base().add(entry.offset as usize) };
        if self.count == 1 {
            // Most often it is one. The descriptions of a batch are 5 KiB, which zeroing fills.
            let (start, length) = (start(entry(0)), entry(0).length as usize);
            // SAFETY: the bytes of a posted frame, which nothing writes before the kernel has them.
            return socket.send_one(unsafe { std::slice::from_raw_parts(start.as_ptr(), length) });
        }
        const NO_PIECE: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut pieces = [NO_PIECE; BATCH];
        // SAFETY: the structure is plain integers and pointers, for which zeros are valid.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let count = self.count.min(BATCH);
        for i in 0..count {
            pieces[i].iov_base = start(entry(i)).as_ptr().cast();
            pieces[i].iov_len = entry(i).length as usize;
            messages[i].msg_hdr.msg_iov = &raw mut pieces[i];
            messages[i].msg_hdr.msg_iovlen = 1;
        }
        socket.send(&mut messages[..count])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_leave_in_order_across_the_end_of_the_queue() {
        let mut queue = TransmitQueue::new(3);
        let mut expected = 0;
        for frame in 0..10 {
            queue.push(QueuedFrame { frame, offset: 0, length: 0 });
            if frame >= 2 {
                assert_eq!(queue.pop().unwrap().frame, expected);
                expected += 1;
            }
        }
        assert_eq!((queue.pop().unwrap().frame, queue.pop().unwrap().frame), (8, 9));
        assert!(queue.pop().is_none() && queue.is_empty());
    }
}
