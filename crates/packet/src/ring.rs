//! The receive ring that this process shares with the kernel (packet_mmap(7), `TPACKET_V2`), and
//! the layout of the arena in which it lies.
//!
//! The ring takes the start of the arena, transmit frames the rest, in slots of one size. The
//! status words are read and written here only, as atomics: acquire before a frame is read,
//! release after it was given back.

use crate::socket::PacketSocket;
use gigae_link::{Arena, OpenError, RxFrame};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that the kernel puts in front of a frame: its header (32), an address (20) and alignment
/// come to 66 with an Ethernet header; the rest is reserve for other kernels.
const OVERHEAD: usize = 96;

/// Longest frame in bytes. Slots of 16 KiB hold the jumbo frames of all hardware; the MTU of the
/// loopback (65,536) would need 128 KiB for every slot.
const LONGEST: usize = 16 * 1024 - OVERHEAD;

/// Ethernet header.
const ETHERNET: usize = 14;

/// Bytes that the kernel allocates in one piece. 64 KiB hold several slots of any size and are
/// found even when memory is fragmented.
const BLOCK: usize = 64 * 1024;

/// How the arena is divided. All sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) max_frame: usize,
    pub(crate) slot: usize,
    pub(crate) rx_slots: usize,
    pub(crate) tx_slots: usize,
}

impl Layout {
    /// Slots are powers of two, so that they fill blocks without a rest; received frames are
    /// rounded up to whole blocks.
    pub(crate) fn new(mtu: usize, rx_frames: usize, tx_frames: usize) -> Self {
        let max_frame = (mtu + ETHERNET).min(LONGEST);
        let slot = (max_frame + OVERHEAD).next_power_of_two().max(2048);
        let rx_slots = rx_frames.max(1).next_multiple_of(BLOCK / slot);
        Self { max_frame, slot, rx_slots, tx_slots: tx_frames.max(1) }
    }

    fn rx_bytes(&self) -> usize {
        self.rx_slots * self.slot
    }

    fn bytes(&self) -> usize {
        self.rx_bytes() + (self.tx_slots * self.slot).next_multiple_of(BLOCK)
    }

    /// Where a transmit frame lies in the arena.
    pub(crate) fn tx_frame(&self, frame: u32) -> Range<usize> {
        let start = self.rx_bytes() + frame as usize * self.slot;
        start..start + self.slot
    }
}

/// The receive ring.
#[derive(Debug)]
pub(crate) struct RxRing {
    arena: Arc<Arena>,
    slot: usize,
    /// Slots handed out and not yet recycled.
    lent: Box<[bool]>,
    /// Where the next frame will appear.
    next: usize,
}

impl RxRing {
    /// Makes the kernel's ring and maps it together with the memory for transmit frames.
    pub(crate) fn map(socket: &PacketSocket, layout: &Layout) -> Result<Self, OpenError> {
        socket.make_ring(&libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: (layout.rx_bytes() / BLOCK) as u32,
            tp_frame_size: layout.slot as u32,
            tp_frame_nr: layout.rx_slots as u32,
        })?;
        let arena = map(socket, layout)
            .map_err(|e| OpenError::Io { what: "mapping the packet ring", source: e.into() })?;
        Ok(Self {
            arena: Arc::new(arena),
            slot: layout.slot,
            lent: vec![false; layout.rx_slots].into_boxed_slice(),
            next: 0,
        })
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Whether a frame has arrived that was not handed out yet.
    #[inline]
    pub(crate) fn ready(&self) -> bool {
        // A slot that is lent still says "user": the frame in it is not a new one.
        !self.lent[self.next] && self.status(self.next).load(Ordering::Acquire) & USER != 0
    }

    /// The next frame, if one has arrived.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<RxFrame> {
        while self.ready() {
            let slot = self.next;
            self.next = if slot + 1 == self.lent.len() { 0 } else { slot + 1 };
            let start = slot * self.slot;
            // SAFETY: the slot lies in the mapping, begins with the kernel's header and is ours
            // (`ready`, with acquire), so the kernel does not write it.
            let header = unsafe {
                self.arena.base().add(start).cast::<libc::tpacket2_hdr>().as_ptr().read()
            };
            let (mac, length) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
            let whole = header.tp_snaplen == header.tp_len && mac + length <= self.slot;
            if !whole {
                // Longer than a slot: the interface's MTU was raised after the link was opened.
                self.free(slot);
                continue;
            }
            self.lent[slot] = true;
            let bytes = start + mac..start + mac + length;
            // SAFETY: the slot was not lent, so no token for it exists, and the kernel does not
            // write it before its status says so, which `recycle` does.
            return Some(unsafe { RxFrame::new(&self.arena, bytes, slot as u32) });
        }
        None
    }

    /// Gives a slot back to the kernel.
    ///
    /// # Panics
    /// If the frame is another link's.
    #[inline]
    pub(crate) fn recycle(&mut self, frame: RxFrame) {
        let _ = self.arena.bytes(&frame);
        let slot = frame.slot() as usize;
        self.lent[slot] = false;
        self.free(slot);
    }

    #[inline]
    fn free(&self, slot: usize) {
        self.status(slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    #[inline]
    fn status(&self, slot: usize) -> &AtomicU32 {
        assert!(slot < self.lent.len());
        // SAFETY: a slot below `lent.len()` lies in the mapping and begins with its status word,
        // which is aligned (slots are powers of two) and accessed as an atomic only.
        unsafe { self.arena.base().add(slot * self.slot).cast::<AtomicU32>().as_ref() }
    }
}

/// A frame is in the slot.
const USER: u32 = libc::TP_STATUS_USER;

/// Reserves one range of addresses and puts the kernel's ring and ordinary memory into it.
fn map(socket: &PacketSocket, layout: &Layout) -> Result<Arena, Errno> {
    let (ring, total) = (layout.rx_bytes(), layout.bytes());
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing.
    let base = unsafe {
        rustix::mm::mmap_anonymous(std::ptr::null_mut(), total, access, MapFlags::PRIVATE)?
    };
    let start = NonNull::new(base.cast::<u8>()).ok_or(Errno::NOMEM)?;
    // SAFETY: the range was mapped just above and is used by nothing else; the two mappings below
    // replace pieces of it and keep it readable and writable.
    let arena = unsafe { Arena::from_mapping(start, total) };
    // SAFETY: replaces the first `ring` bytes of our own range, into which nothing points yet.
    unsafe {
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
        rustix::mm::mmap(base, ring, access, flags, socket.as_fd(), 0)?;
    }
    // SAFETY: replaces the rest of our own range, into which nothing points yet.
    unsafe {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::POPULATE;
        let rest = start.as_ptr().add(ring);
        rustix::mm::mmap_anonymous(rest.cast(), total - ring, access, flags)?;
        // Failure only means that pages may be swapped.
        let _ = rustix::mm::mlock(rest.cast(), total - ring);
    }
    Ok(arena)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_hold_the_longest_frame_and_fill_whole_blocks() {
        for mtu in [68, 1500, 1938, 1939, 9000, 65_536] {
            let layout = Layout::new(mtu, 100, 3);
            assert!(layout.max_frame + OVERHEAD <= layout.slot, "MTU {mtu}");
            assert!(layout.max_frame == mtu + 14 || mtu == 65_536);
            assert_eq!(layout.rx_bytes() % BLOCK, 0, "MTU {mtu}");
            assert!(layout.rx_slots >= 100);
            assert!(layout.tx_frame(2).end <= layout.bytes());
            assert_eq!(layout.tx_frame(0).start, layout.rx_bytes());
        }
        assert_eq!(Layout::new(1500, 1024, 1).slot, 2048);
    }
}
