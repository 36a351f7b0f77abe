//! The memory that is registered with the kernel (UMEM), and who holds each chunk of it.
//!
//! ```text
//! arena   | transmit chunks 0..tx | receive chunks tx..tx+rx |
//! ```
//!
//! The halves never mix, so a flood of received frames cannot take the memory to send with, nor
//! the other way round. Addresses from the kernel are checked before a token is made of them.

use gigae_link::{Arena, RxFrame, TxBook, TxFrame};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Bytes in a chunk: one page. Chunks of 2,048 bytes hold a standard frame too, but with them
/// igb's zero-copy mode delivered garbage, and the kernel's 256 bytes of headroom would leave
/// 1,792.
pub(crate) const CHUNK: usize = 4096;

/// What the kernel keeps free in front of a received frame (linux/bpf.h, `XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;

/// Longest frame in bytes that fits one chunk when it is received.
pub(crate) const LONGEST: usize = CHUNK - HEADROOM;

/// Memory and bookkeeping of all frames of a link.
pub(crate) struct Umem {
    pub(crate) arena: Arc<Arena>,
    /// Holds on the transmit chunks.
    pub(crate) book: TxBook,
    tx_chunks: usize,
    /// Which receive chunks are lent out; the others are the kernel's.
    lent: Box<[bool]>,
}

impl Umem {
    /// Maps the memory: populated, and locked where the limits allow.
    pub(crate) fn new(tx_chunks: u32, rx_chunks: u32) -> io::Result<Self> {
        let (tx, rx) = (tx_chunks as usize, rx_chunks as usize);
        Ok(Self {
            arena: Arc::new(Arena::anonymous((tx + rx) * CHUNK)?),
            book: TxBook::new(tx_chunks),
            tx_chunks: tx,
            lent: vec![false; rx].into_boxed_slice(),
        })
    }

    /// Addresses of all receive chunks, for the fill ring.
    pub(crate) fn rx_addresses(&self) -> impl Iterator<Item = u64> + use<> {
        let (first, count) = (self.tx_chunks, self.lent.len());
        (first..first + count).map(|chunk| (chunk * CHUNK) as u64)
    }

    /// A free transmit frame.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<TxFrame> {
        let chunk = self.book.take()?;
        let start = chunk as usize * CHUNK;
        // SAFETY: the book hands a chunk out once until both its holds are clear again, so there is
        // no other token and the kernel does not read it; received frames lie elsewhere.
        Some(unsafe { TxFrame::new(&self.arena, start..start + CHUNK, chunk) })
    }

    /// A completion for this address came. False if the kernel did not have that frame.
    #[inline]
    pub(crate) fn complete(&mut self, address: u64) -> bool {
        let chunk = address / CHUNK as u64;
        u32::try_from(chunk).is_ok_and(|chunk| self.book.complete(chunk))
    }

    /// The frame that the kernel says it received; `None` if that cannot be.
    #[inline]
    pub(crate) fn lend(&mut self, address: u64, length: u32) -> Option<RxFrame> {
        let start = usize::try_from(address).ok()?;
        let chunk = start / CHUNK;
        let end = start.checked_add(length as usize)?;
        let lent = self.lent.get_mut(chunk.checked_sub(self.tx_chunks)?)?;
        if *lent || end > (chunk + 1) * CHUNK {
            return None;
        }
        *lent = true;
        // SAFETY: the chunk was the kernel's, which gave it up with this descriptor and may write
        // it again only after `recycle`; it was not lent, so there is no other token.
        Some(unsafe { RxFrame::new(&self.arena, start..end, chunk as u32) })
    }

    /// Takes a received frame back; its chunk's address goes to the fill ring.
    ///
    /// # Panics
    /// If the frame is another link's.
    #[inline]
    pub(crate) fn recycle(&mut self, frame: RxFrame) -> u64 {
        let _ = self.arena.bytes(&frame);
        let chunk = frame.slot() as usize;
        self.lent[chunk - self.tx_chunks] = false;
        (chunk * CHUNK) as u64
    }

    /// Checks the range that is to be sent; the frame must be this link's.
    #[inline]
    pub(crate) fn sendable(bytes: &Range<usize>, max_frame: usize) {
        const ETHERNET: usize = 14;
        let length = bytes.len();
        assert!(bytes.end <= CHUNK, "bytes outside the frame");
        assert!((ETHERNET..=max_frame).contains(&length), "{length} bytes to send");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_received_frame_is_lent_once_until_it_is_recycled() {
        let mut umem = Umem::new(2, 2).unwrap();
        let start = 2 * CHUNK as u64 + 256;
        let frame = umem.lend(start, 60).unwrap();
        assert_eq!((frame.offset() as u64, umem.arena.bytes(&frame).len()), (start, 60));
        assert!(umem.lend(start, 60).is_none());
        assert_eq!(umem.recycle(frame), 2 * CHUNK as u64);
        let again = umem.lend(start, 60).unwrap();
        umem.recycle(again);
    }

    #[test]
    fn descriptors_that_no_kernel_writes_make_no_frame() {
        let mut umem = Umem::new(2, 2).unwrap();
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
            assert!(umem.lend(address, length).is_none(), "{address} {length}");
        }
        assert!(umem.rx_addresses().eq([2 * chunk, 3 * chunk]));
    }

    #[test]
    fn only_frames_with_the_nic_complete() {
        let mut umem = Umem::new(1, 1).unwrap();
        assert!(!umem.complete(0) && !umem.complete(CHUNK as u64) && !umem.complete(u64::MAX));
        let frame = umem.take().unwrap();
        umem.book.post(frame.slot());
        assert!(umem.take().is_none());
        assert!(umem.complete(14), "the kernel gives back the address of the frame in its chunk");
        umem.book.release(frame.into_posted().slot());
        assert!(umem.take().is_some());
    }
}
