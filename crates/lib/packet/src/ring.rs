//! The receive ring that this process shares with the kernel (packet_mmap(7), `TPACKET_V2`), and
//! the layout of the arena in which it lies.
//!
//! The ring takes the start of the arena. Transmit frames come next, and then received frames that
//! were copied out of the ring, all in slots of one size. Only this module reads and writes the
//! status words, as atomics: acquire before a frame is read, release after it was copied.

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
    /// Of the kernel's ring; none without one.
    pub(crate) ring_slots: usize,
    /// For received frames that the caller holds.
    pub(crate) rx_slots: usize,
    pub(crate) tx_slots: usize,
}

impl Layout {
    /// Slots are powers of two, so they fill blocks completely. Receive frames are rounded up to
    /// whole blocks.
    pub(crate) fn new(mtu: usize, rx_frames: usize, tx_frames: usize, has_ring: bool) -> Self {
        let max_frame = (mtu + ETHERNET).min(LONGEST);
        let slot = (max_frame + OVERHEAD).next_power_of_two().max(2048);
        let rx_slots = rx_frames.max(1).next_multiple_of(BLOCK / slot);
        let ring_slots = if has_ring { rx_slots } else { 0 };
        Self { max_frame, slot, ring_slots, rx_slots, tx_slots: tx_frames.max(1) }
    }

    fn ring_bytes(&self) -> usize {
        self.ring_slots * self.slot
    }

    fn tx_bytes(&self) -> usize {
        (self.tx_slots * self.slot).next_multiple_of(BLOCK)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.copies() + self.rx_slots * self.slot
    }

    /// Where a transmit frame lies in the arena.
    pub(crate) fn tx_frame(&self, frame: u32) -> Range<usize> {
        let start = self.ring_bytes() + frame as usize * self.slot;
        start..start + self.slot
    }

    /// Where received frames begin that the caller holds.
    pub(crate) fn copies(&self) -> usize {
        self.ring_bytes() + self.tx_bytes()
    }
}

/// The receive ring.
#[derive(Debug)]
pub(crate) struct RxRing {
    arena: Arc<Arena>,
    longest: usize,
    slot: usize,
    slots: usize,
    /// Where the next frame will appear.
    next: usize,
    /// Where the slots for copies begin.
    copies: usize,
    /// Those that are free. The last one was used last, so it is in the cache.
    free: Vec<u32>,
}

impl RxRing {
    /// Makes the kernel's ring and maps it together with the memory for transmit frames.
    pub(crate) fn map(socket: &PacketSocket, layout: &Layout) -> Result<Self, OpenError> {
        socket.make_ring(&libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: (layout.ring_bytes() / BLOCK) as u32,
            tp_frame_size: layout.slot as u32,
            tp_frame_nr: layout.ring_slots as u32,
        })?;
        let arena = map(layout, Some(socket))?;
        Ok(Self::new(Arc::new(arena), layout))
    }

    fn new(arena: Arc<Arena>, layout: &Layout) -> Self {
        let &Layout { max_frame: longest, slot, ring_slots: slots, .. } = layout;
        let free = (0..slots as u32).rev().collect();
        Self { arena, longest, slot, slots, next: 0, copies: layout.copies(), free }
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Whether a frame has arrived, and there is room for a copy.
    #[inline]
    pub(crate) fn ready(&self) -> bool {
        self.has_arrived() && !self.free.is_empty()
    }

    /// Whether a frame has arrived that has no room for a copy.
    pub(crate) fn is_waiting(&self) -> bool {
        self.free.is_empty() && self.has_arrived()
    }

    #[inline]
    fn has_arrived(&self) -> bool {
        self.status(self.next).load(Ordering::Acquire) & USER != 0
    }

    /// A copy of the next frame, if one has arrived. Its slot is the kernel's again: the kernel
    /// fills them in their order, so one that stayed here would stop all that come after it.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<RxFrame> {
        while self.ready() {
            let slot = self.next;
            self.next = if slot + 1 == self.slots { 0 } else { slot + 1 };
            let start = slot * self.slot;
            // SAFETY: the slot lies in the mapping, begins with the kernel's header and is ours
            // (`ready`, with acquire), so the kernel does not write it.
            let header = unsafe {
                self.arena.base().add(start).cast::<libc::tpacket2_hdr>().as_ptr().read()
            };
            let (mac, length) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
            // One that is too long: the interface's MTU was raised after the link was opened.
            let whole = header.tp_snaplen == header.tp_len && length <= self.longest;
            let copy = if whole && mac + length <= self.slot { self.free.pop() } else { None };
            let frame = copy.map(|copy| {
                let place = self.copies + copy as usize * self.slot;
                // SAFETY: the frame lies in the slot, which is ours and to which no token exists.
                // The slot of the copy was free, so no token exists for that either.
                unsafe {
                    let frame = self.arena.base().add(start + mac).as_ptr();
                    let frame = std::slice::from_raw_parts(frame, length);
                    RxFrame::copied(&self.arena, place..place + self.slot, copy, frame)
                }
            });
            self.status(slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            if frame.is_some() {
                return frame;
            }
        }
        None
    }

    /// Takes back the slot of a copy.
    ///
    /// # Panics
    /// If the frame is another link's.
    #[inline]
    pub(crate) fn recycle(&mut self, frame: RxFrame) {
        let _ = self.arena.bytes(&frame);
        debug_assert!(self.free.len() < self.slots, "a frame that was recycled twice");
        self.free.push(frame.slot());
    }

    #[inline]
    fn status(&self, slot: usize) -> &AtomicU32 {
        assert!(slot < self.slots);
        // SAFETY: a slot below `slots` of the ring lies in the mapping and begins with its status
        // word, which is aligned (slots are powers of two) and accessed as an atomic only.
        unsafe { self.arena.base().add(slot * self.slot).cast::<AtomicU32>().as_ref() }
    }
}

/// A frame is in the slot.
const USER: u32 = libc::TP_STATUS_USER;

/// Reserves one range of addresses and puts the kernel's ring, if there is one, and ordinary memory
/// into it.
pub(crate) fn map(layout: &Layout, socket: Option<&PacketSocket>) -> Result<Arena, OpenError> {
    try_map(layout, socket).map_err(|e| OpenError::Io { what: "mapping frames", source: e.into() })
}

fn try_map(layout: &Layout, socket: Option<&PacketSocket>) -> Result<Arena, Errno> {
    let (ring, copies, total) = (layout.ring_bytes(), layout.copies(), layout.bytes());
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing.
    let base = unsafe {
        rustix::mm::mmap_anonymous(std::ptr::null_mut(), total, access, MapFlags::PRIVATE)?
    };
    let start = NonNull::new(base.cast::<u8>()).ok_or(Errno::NOMEM)?;
    // SAFETY: the range was mapped just above and is used by nothing else; the two mappings below
    // replace pieces of it and keep it readable and writable.
    let arena = unsafe { Arena::from_mapping(start, total) };
    if let Some(socket) = socket {
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
        // SAFETY: replaces the first `ring` bytes of our own range, into which nothing points yet.
        unsafe { rustix::mm::mmap(base, ring, access, flags, socket.as_fd(), 0)? };
    }
    // SAFETY: replaces a piece of our own range, into which nothing points yet.
    unsafe {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::POPULATE;
        let transmit = start.as_ptr().add(ring);
        rustix::mm::mmap_anonymous(transmit.cast(), copies - ring, access, flags)?;
        // Failure only means that pages may be swapped.
        let _ = rustix::mm::mlock(transmit.cast(), copies - ring);
    }
    // What is behind them is used from the start on, as far as the caller keeps frames: pages come
    // then.
    Ok(arena)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_hold_the_longest_frame_and_fill_whole_blocks() {
        for mtu in [68, 1500, 1938, 1939, 9000, 65_536] {
            let layout = Layout::new(mtu, 100, 3, true);
            assert!(layout.max_frame + OVERHEAD <= layout.slot, "MTU {mtu}");
            assert!(layout.max_frame == mtu + 14 || mtu == 65_536);
            assert_eq!(layout.ring_bytes() % BLOCK, 0, "MTU {mtu}");
            assert!(layout.rx_slots >= 100);
            assert!(layout.tx_frame(2).end <= layout.copies());
            assert_eq!(layout.tx_frame(0).start, layout.ring_bytes());
            let without = Layout::new(mtu, 100, 3, false);
            assert_eq!(without.bytes() + layout.ring_bytes(), layout.bytes());
        }
        assert_eq!(Layout::new(1500, 1024, 1, true).slot, 2048);
    }

    const SLOT: usize = 2048;
    const SLOTS: usize = 4;

    /// A ring in plain memory; the tests are its kernel.
    fn ring() -> RxRing {
        let layout =
            Layout { max_frame: 1514, slot: SLOT, ring_slots: SLOTS, rx_slots: SLOTS, tx_slots: 1 };
        RxRing::new(Arc::new(Arena::anonymous(layout.bytes()).unwrap()), &layout)
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
    fn a_frame_that_is_kept_stays_what_it_is_while_its_slot_is_filled_anew() {
        let mut ring = ring();
        let arrive_all = |ring: &mut RxRing, byte: u8| {
            (0..SLOTS).for_each(|slot| arrive(ring, slot, byte + slot as u8, USUAL));
        };
        arrive_all(&mut ring, 0);
        let mut kept: Vec<RxFrame> = std::iter::from_fn(|| ring.pop()).collect();
        assert_eq!(kept.len(), SLOTS);
        assert!((0..SLOTS).all(|slot| ring.status(slot).load(Ordering::Relaxed) & USER == 0));
        arrive_all(&mut ring, 10);
        assert!(!ring.ready() && ring.is_waiting(), "there is no room for more");
        for (slot, frame) in kept.drain(..).enumerate() {
            assert_eq!(ring.arena.bytes(&frame), [slot as u8; 60]);
            ring.recycle(frame);
        }
        for slot in 0..SLOTS as u8 {
            let frame = ring.pop().expect("it has waited");
            assert_eq!(ring.arena.bytes(&frame), [10 + slot; 60]);
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
            (OVERHEAD as u16, 1515, 1515),
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
