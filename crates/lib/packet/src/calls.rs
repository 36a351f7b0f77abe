//! Reception by recvmmsg(2), without a ring.
//!
//! The kernel copies each frame into a slot of the link's own memory. A poll is a system call,
//! where a look at the ring is none. But a ring costs the kernel two more grace periods, one to
//! make it and one to remove it.

use crate::ring::Layout;
use crate::socket::PacketSocket;
use gigae_link::{Arena, RxFrame};
use std::collections::VecDeque;
use std::sync::Arc;

/// Frames of a system call at most. What describes them takes 1.3 KiB of the stack.
const BATCH: usize = 16;

/// A frame that was received and not yet handed out.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    slot: u32,
    length: usize,
}

/// Receive slots, free and filled.
#[derive(Debug)]
pub(crate) struct RxCalls {
    arena: Arc<Arena>,
    layout: Layout,
    /// The last one was used last, so it is in the cache.
    free: Vec<u32>,
    arrived: VecDeque<Arrived>,
}

impl RxCalls {
    pub(crate) fn new(arena: Arc<Arena>, layout: &Layout) -> Self {
        let free = (0..layout.rx_slots as u32).rev().collect();
        Self { arena, layout: *layout, free, arrived: VecDeque::with_capacity(BATCH) }
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Whether a frame has arrived, and there is room for it. Receives if none is there.
    pub(crate) fn ready(&mut self, socket: &PacketSocket) -> bool {
        if self.arrived.is_empty() {
            self.receive(socket);
        }
        !self.arrived.is_empty()
    }

    /// Whether there is no room for a frame.
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.arrived.is_empty()
    }

    /// The next frame, if one has arrived.
    pub(crate) fn pop(&mut self, socket: &PacketSocket) -> Option<RxFrame> {
        if !self.ready(socket) {
            return None;
        }
        let Arrived { slot, length } = self.arrived.pop_front()?;
        let start = self.layout.copies() + slot as usize * self.layout.slot;
        // SAFETY: the slot is not free and was not handed out, so no token exists for it, and the
        // kernel has ended to write it.
        Some(unsafe { RxFrame::new(&self.arena, start..start + length, slot) })
    }

    /// Takes back the slot of a frame.
    ///
    /// # Panics
    /// If the frame is another link's.
    pub(crate) fn recycle(&mut self, frame: RxFrame) {
        let _ = self.arena.bytes(&frame);
        debug_assert!(self.free.len() < self.layout.rx_slots, "a frame that was recycled twice");
        self.free.push(frame.slot());
    }

    /// Receives what waits in the socket: one system call.
    fn receive(&mut self, socket: &PacketSocket) {
        if self.free.is_empty() {
            return;
        }
        const NO_PIECE: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut pieces = [NO_PIECE; BATCH];
        // SAFETY: the structure is plain integers and pointers, for which zeros are valid.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let count = self.free.len().min(BATCH);
        for (i, &slot) in self.free.iter().rev().take(count).enumerate() {
            let start = self.layout.copies() + slot as usize * self.layout.slot;
            // SAFETY: the slot lies in the arena.
            pieces[i].iov_base = unsafe { self.arena.base().add(start) }.as_ptr().cast();
            pieces[i].iov_len = self.layout.slot;
            messages[i].msg_hdr.msg_iov = &raw mut pieces[i];
            messages[i].msg_hdr.msg_iovlen = 1;
        }
        // After an error there is no frame. The link's check of the interface reports an outage.
        let received = socket.receive(&mut messages[..count]).unwrap_or(0);
        for message in &messages[..received] {
            if let Some(slot) = self.free.pop() {
                self.arrived.push_back(Arrived { slot, length: message.msg_len as usize });
            }
        }
        // One that is too long: the interface's MTU was raised after the link was opened.
        let (longest, free) = (self.layout.max_frame, &mut self.free);
        self.arrived.retain(|frame| {
            let fits = frame.length <= longest;
            if !fits {
                free.push(frame.slot);
            }
            fits
        });
    }
}
