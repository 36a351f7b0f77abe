//! The memory that is registered with the kernel (UMEM), and which side has each chunk of it.
//!
//! ```text
//! arena   | transmit chunks 0..tx | receive chunks tx..tx+rx |
//! ```
//!
//! The two parts never mix, so a flood of received frames cannot take the memory for sending, nor
//! the other way round. Addresses from the kernel are checked before they become tokens.
//!
//! The kernel has only as many receive chunks as asked for. The others are on a stack, so the chunk
//! used last, which a cache may still hold, is used next.

use gigae_link::{Arena, RxFrame, TxFrame, TxHolds};
use std::sync::Arc;

/// Bytes in a chunk: one page. Chunks of 2,048 bytes also hold a standard frame, but igb's
/// zero-copy mode delivered garbage with them, and the kernel's 256 bytes of headroom would leave
/// 1,792.
pub(crate) const CHUNK: usize = 4096;

/// What the kernel keeps free in front of a received frame (linux/bpf.h, `XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;

/// Longest received frame in bytes that fits into one chunk, and longest segment of a longer frame.
pub(crate) const SEGMENT: usize = CHUNK - HEADROOM;

/// Longest frame in bytes that is carried in several buffers: longer than the jumbo frames of
/// hardware (mostly 9,216). The MTU of a virtual interface may be 65,535, which would take a whole
/// ring.
pub(crate) const LONGEST: usize = 4 * SEGMENT;

/// Most frames of a kind: both kinds together take 512 MiB.
pub(crate) const MAX_FRAMES: usize = 1 << 16;

/// Which side has a receive chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChunkOwner {
    /// No one: it is spare.
    Spare,
    Kernel,
    /// The caller that has its token.
    Caller,
}

/// Memory and bookkeeping of all frames of a link.
pub(crate) struct Umem {
    pub(crate) arena: Arc<Arena>,
    /// Holds on the transmit chunks.
    pub(crate) holds: TxHolds,
    tx_chunks: usize,
    /// The holder of each receive chunk.
    holders: Box<[ChunkOwner]>,
    /// Addresses of the spare receive chunks.
    spare: Vec<u64>,
    /// How many chunks the kernel has, and should have.
    ready: usize,
    wanted: usize,
}

impl Umem {
    /// Frames of a kind, for a frame of any MTU.
    pub(crate) fn clamp(frames: u32) -> u32 {
        frames.clamp(LONGEST.div_ceil(SEGMENT) as u32, MAX_FRAMES as u32)
    }

    /// Bytes of memory that this many chunks take.
    pub(crate) fn bytes(tx_chunks: u32, rx_chunks: u32) -> usize {
        (tx_chunks as usize + rx_chunks as usize) * CHUNK
    }

    /// The bookkeeping of an arena of at least that many bytes. The kernel has none of it yet.
    pub(crate) fn new(arena: Arena, tx_chunks: u32, rx_chunks: u32) -> Self {
        let (tx, rx) = (tx_chunks as usize, rx_chunks as usize);
        assert!(arena.len() >= (tx + rx) * CHUNK, "an arena for all chunks");
        Self {
            arena: Arc::new(arena),
            holds: TxHolds::new(tx_chunks),
            tx_chunks: tx,
            holders: vec![ChunkOwner::Spare; rx].into_boxed_slice(),
            spare: (tx..tx + rx).rev().map(|chunk| (chunk * CHUNK) as u64).collect(),
            ready: 0,
            wanted: 0,
        }
    }

    /// From now on the kernel should have `frames` receive chunks, or all if there are fewer.
    pub(crate) fn provide(&mut self, frames: usize) {
        self.wanted = frames.clamp(1, self.holders.len());
    }

    /// Receive chunks that the kernel has.
    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// Addresses of the receive chunks that the kernel has.
    pub(crate) fn with_kernel(&self) -> impl Iterator<Item = u64> + '_ {
        let its = |&(_, holder): &(usize, &ChunkOwner)| *holder == ChunkOwner::Kernel;
        let address = |(i, _)| ((self.tx_chunks + i) * CHUNK) as u64;
        self.holders.iter().enumerate().filter(its).map(address)
    }

    /// Whether the kernel has the first receive chunks, as after the first refill.
    pub(crate) fn kernel_has_the_first(&self) -> bool {
        self.holders[..self.ready].iter().all(|&holder| holder == ChunkOwner::Kernel)
    }

    /// Receive chunks that the kernel should have and lacks.
    #[inline]
    pub(crate) fn lacking(&self) -> usize {
        self.wanted.saturating_sub(self.ready)
    }

    /// Takes a receive chunk for the kernel. The caller must put its address into the fill ring.
    #[inline]
    pub(crate) fn missing(&mut self) -> Option<u64> {
        if self.ready >= self.wanted {
            return None;
        }
        let address = self.spare.pop()?;
        self.holders[address as usize / CHUNK - self.tx_chunks] = ChunkOwner::Kernel;
        self.ready += 1;
        Some(address)
    }

    /// A free transmit frame.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<TxFrame> {
        let chunk = self.holds.take()?;
        let start = chunk as usize * CHUNK;
        // SAFETY: a chunk is handed out once until both its holds are clear again, so there is
        // no other token and the kernel does not read it; received frames lie elsewhere.
        Some(unsafe { TxFrame::new(&self.arena, start..start + CHUNK, chunk) })
    }

    /// A completion for this address came. False if the kernel did not have that frame.
    #[inline]
    pub(crate) fn complete(&mut self, address: u64) -> bool {
        let chunk = address / CHUNK as u64;
        u32::try_from(chunk).is_ok_and(|chunk| self.holds.complete(chunk))
    }

    /// The frame that the kernel reports as received; `None` if that is impossible.
    #[inline]
    pub(crate) fn hand_out(&mut self, address: u64, length: u32) -> Option<RxFrame> {
        let start = usize::try_from(address).ok()?;
        let chunk = start / CHUNK;
        let end = start.checked_add(length as usize)?;
        let holder = self.holders.get_mut(chunk.checked_sub(self.tx_chunks)?)?;
        if *holder != ChunkOwner::Kernel || end > (chunk + 1) * CHUNK {
            return None;
        }
        *holder = ChunkOwner::Caller;
        self.ready -= 1;
        // SAFETY: the chunk was the kernel's, which gave it up with this descriptor and may write
        // it again only after `recycle`; the caller did not have it, so there is no other token.
        Some(unsafe { RxFrame::new(&self.arena, start..end, chunk as u32) })
    }

    /// Takes a received frame back.
    ///
    /// # Panics
    /// If the frame is another link's.
    #[inline]
    pub(crate) fn recycle(&mut self, frame: RxFrame) {
        let _ = self.arena.bytes(&frame);
        let chunk = frame.slot() as usize;
        self.holders[chunk - self.tx_chunks] = ChunkOwner::Spare;
        self.spare.push((chunk * CHUNK) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn umem(tx: u32, rx: u32) -> Umem {
        Umem::new(Arena::anonymous(Umem::bytes(tx, rx)).unwrap(), tx, rx)
    }

    #[test]
    fn a_received_frame_is_handed_out_once_until_the_kernel_has_it_again() {
        let mut umem = umem(2, 2);
        umem.provide(1);
        assert_eq!((umem.missing(), umem.missing()), (Some(2 * CHUNK as u64), None));
        let start = 2 * CHUNK as u64 + 256;
        let frame = umem.hand_out(start, 60).unwrap();
        assert_eq!((frame.offset() as u64, umem.arena.bytes(&frame).len()), (start, 60));
        assert!(umem.hand_out(start, 60).is_none());
        umem.recycle(frame);
        assert!(umem.hand_out(start, 60).is_none(), "the kernel does not have it yet");
        assert_eq!(umem.missing(), Some(2 * CHUNK as u64), "the one used last");
        let again = umem.hand_out(start, 60).unwrap();
        umem.recycle(again);
    }

    #[test]
    fn the_kernel_never_has_more_chunks_than_there_are() {
        let mut umem = umem(1, 3);
        umem.provide(10);
        let all: Vec<_> = std::iter::from_fn(|| umem.missing()).collect();
        assert_eq!(all, [1, 2, 3].map(|chunk| chunk * CHUNK as u64));
    }

    #[test]
    fn descriptors_that_no_kernel_writes_make_no_frame() {
        let mut umem = umem(2, 2);
        umem.provide(2);
        while umem.missing().is_some() {}
        let chunk = CHUNK as u64;
        for (address, length) in [
            (0, 60),
            (chunk, 60),
            (4 * chunk, 60),
            (3 * chunk, CHUNK as u32 + 1),
            (4 * chunk - 10, 11),
            (u64::MAX, 1),
            (3 * chunk, u32::MAX),
        ] {
            assert!(umem.hand_out(address, length).is_none(), "{address} {length}");
        }
    }

    #[test]
    fn only_frames_with_the_nic_complete() {
        let mut umem = umem(1, 1);
        assert!(!umem.complete(0) && !umem.complete(CHUNK as u64) && !umem.complete(u64::MAX));
        let frame = umem.take().unwrap();
        umem.holds.post(frame.slot());
        assert!(umem.take().is_none());
        assert!(umem.complete(14), "the kernel gives back the address of the frame in its chunk");
        umem.holds.release(frame.into_posted().slot());
        assert!(umem.take().is_some());
    }
}
