//! The receive ring that this process shares with the kernel (packet_mmap(7), `TPACKET_V2`), and
//! the layout of the arena in which it lies.
//!
//! The ring takes the start of the arena, transmit frames the rest, in slots of one size. Only this
//! module reads and writes the status words, as atomics: acquire before a frame is read, release
//! after it is given back.

use crate::socket::PacketSocket;
use gigae_link::{Arena, OpenError, RxFrame};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that the kernel puts in front of a frame. Its header (32), an address (20) and alignment
/// take 66 with an Ethernet header; the rest is reserve for other kernels.
const OVERHEAD: usize = 96;

/// Longest frame in bytes. Slots of 16 KiB hold the jumbo frames of all hardware; the MTU of the
/// loopback (65,536) would need 128 KiB for every slot.
const LONGEST: usize = 16 * 1024 - OVERHEAD;

/// Ethernet header.
const ETHERNET: usize = 14;

/// Bytes that the kernel allocates in one piece. 64 KiB hold several slots of any size and are
/// available even when memory is fragmented.
const BLOCK: usize = 64 * 1024;

/// The layout of the arena. All sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) max_frame: usize,
    pub(crate) slot: usize,
    pub(crate) rx_slots: usize,
    pub(crate) tx_slots: usize,
}

impl Layout {
    /// Slots are powers of two, so they fill blocks completely. Receive frames are rounded up to
    /// whole blocks.
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
    borrowed: Box<[bool]>,
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
            borrowed: vec![false; layout.rx_slots].into_boxed_slice(),
            next: 0,
        })
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Whether a frame has arrived that was not handed out yet.
    #[inline]
    pub(crate) fn ready(&self) -> bool {
        // A borrowed slot still says "user", but its frame is not a new one.
        !self.borrowed[self.next] && self.status(self.next).load(Ordering::Acquire) & USER != 0
    }

    /// The next frame, if one has arrived.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<RxFrame> {
        while self.ready() {
            let slot = self.next;
            self.next = if slot + 1 == self.borrowed.len() { 0 } else { slot + 1 };
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
            self.borrowed[slot] = true;
            let bytes = start + mac..start + mac + length;
            // SAFETY: the slot was not borrowed, so no token for it exists, and the kernel does not
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
        self.borrowed[slot] = false;
        self.free(slot);
    }

    #[inline]
    fn free(&self, slot: usize) {
        self.status(slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    #[inline]
    fn status(&self, slot: usize) -> &AtomicU32 {
        assert!(slot < self.borrowed.len());
        // SAFETY: a slot below `borrowed.len()` lies in the mapping and begins with its status
        // word, which is aligned (slots are powers of two) and accessed as an atomic only.
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

    const SLOT: usize = 2048;
    const SLOTS: usize = 4;

    /// A ring in plain memory; the tests are its kernel.
    fn ring() -> RxRing {
        let arena = Arc::new(Arena::anonymous(SLOTS * SLOT).unwrap());
        RxRing { arena, slot: SLOT, borrowed: vec![false; SLOTS].into_boxed_slice(), next: 0 }
    }

    /// Puts a frame of this byte into a slot, with a header that says these places and lengths.
    fn arrive(ring: &RxRing, slot: usize, byte: u8, (mac, snaplen, len): (u16, u32, u32)) {
        let base = ring.arena.base();
        // SAFETY: the slot is the kernel's, which this is; header and bytes lie in it.
        unsafe {
            let header = base.add(slot * SLOT).cast::<libc::tpacket2_hdr>().as_ptr();
            (&raw mut (*header).tp_mac).write(mac);
            (&raw mut (*header).tp_snaplen).write(snaplen);
            (&raw mut (*header).tp_len).write(len);
            base.add(slot * SLOT + OVERHEAD).write_bytes(byte, 100);
        }
        ring.status(slot).store(USER, Ordering::Release);
    }

    const USUAL: (u16, u32, u32) = (OVERHEAD as u16, 60, 60);

    #[test]
    fn frames_come_in_the_order_of_the_slots_and_go_round() {
        let mut ring = ring();
        assert!(ring.pop().is_none());
        for n in 0..3 * SLOTS {
            arrive(&ring, n % SLOTS, n as u8, USUAL);
            let frame = ring.pop().expect("it has arrived");
            assert_eq!(ring.arena.bytes(&frame), [n as u8; 60]);
            assert!(ring.pop().is_none());
            ring.recycle(frame);
        }
    }

    #[test]
    fn a_frame_that_is_borrowed_is_not_handed_out_again_and_stays_what_it_is() {
        let mut ring = ring();
        (0..SLOTS).for_each(|slot| arrive(&ring, slot, slot as u8, USUAL));
        let borrowed: Vec<RxFrame> = std::iter::from_fn(|| ring.pop()).collect();
        assert_eq!(borrowed.len(), SLOTS);
        assert!(!ring.ready(), "all are borrowed, and still say that they are ours");
        for (slot, frame) in borrowed.into_iter().enumerate() {
            assert_eq!(ring.arena.bytes(&frame), [slot as u8; 60]);
            ring.recycle(frame);
        }
        assert!(ring.pop().is_none());
    }

    #[test]
    fn a_header_that_no_kernel_writes_loses_its_frame_and_nothing_else() {
        let odd = [
            (u16::MAX, 60, 60),
            (OVERHEAD as u16, u32::MAX, u32::MAX),
            (OVERHEAD as u16, 60, 61),
            (SLOT as u16, 1, 1),
            (0, SLOT as u32 + 1, SLOT as u32 + 1),
        ];
        for header in odd {
            let mut ring = ring();
            arrive(&ring, 0, 1, header);
            arrive(&ring, 1, 2, USUAL);
            let frame = ring.pop().expect("the other one");
            assert_eq!(ring.arena.bytes(&frame), [2; 60]);
            assert_eq!(ring.status(0).load(Ordering::Acquire), libc::TP_STATUS_KERNEL);
            ring.recycle(frame);
        }
    }
}
