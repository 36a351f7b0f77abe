//! The frame memory of a link and the tokens that stand for pieces of it.
//!
//! All `unsafe` access to frame bytes is here. It is sound because a backend creates at most one
//! live token per piece of memory (its obligation, stated at the `unsafe` constructors), because
//! tokens are neither `Clone` nor `Copy`, and because every access checks that the token belongs
//! to this arena, whose memory lives as long as the arena does.

use rustix::mm::{MapFlags, ProtFlags};
use std::ops::Range;
use std::ptr::NonNull;

/// Memory that holds all frames of one link. Mapped once, never moved, unmapped on drop.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the arena is a plain mapping that any thread may access; exclusive access to a piece of
// it is governed by the tokens, which are Send but cannot be duplicated.
unsafe impl Send for Arena {}
// SAFETY: as above; `&Arena` alone gives access to no byte.
unsafe impl Sync for Arena {}

/// Pages are populated and locked so that neither a page fault nor swapping falls into the fast
/// path (mmap(2) `MAP_POPULATE`, mlock(2)).
const POPULATED: MapFlags = MapFlags::PRIVATE.union(MapFlags::POPULATE);

/// Huge pages are a multiple or a divisor of this on the processors that this runs on.
const HUGE_PAGE: usize = 2 << 20;

impl Arena {
    /// Maps `len` bytes of zeroed, populated memory and locks it where the limits allow
    /// (`RLIMIT_MEMLOCK`, `CAP_IPC_LOCK`); memory that cannot be locked is used as it is.
    ///
    /// One `mmap` and one `mlock`. `len` must not be zero.
    pub fn anonymous(len: usize) -> std::io::Result<Self> {
        Self::map(len, POPULATED)
    }

    /// The same in huge pages of the system's default size, of which enough must be free
    /// (`/proc/sys/vm/nr_hugepages`); `len` is rounded up to them.
    pub fn huge(len: usize) -> std::io::Result<Self> {
        Self::map(len.next_multiple_of(HUGE_PAGE), POPULATED.union(MapFlags::HUGETLB))
    }

    fn map(len: usize, flags: MapFlags) -> std::io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh anonymous mapping aliases nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, access, flags)? };
        // SAFETY: the range was mapped just above. Failure only means that pages may be swapped.
        let _ = unsafe { rustix::mm::mlock(base, len) };
        Ok(Self { base: NonNull::new(base.cast()).expect("mmap returns no null"), len })
    }

    /// Takes over a mapping that a backend made itself (kernel rings beside anonymous memory).
    ///
    /// # Safety
    /// `base..base + len` must be one readable and writable mapping that nothing else unmaps and
    /// that no Rust reference points into, for as long as the arena lives.
    pub unsafe fn from_mapping(base: NonNull<u8>, len: usize) -> Self {
        Self { base, len }
    }

    /// First byte of the mapping, for registering it with the kernel.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes in the mapping.
    #[expect(clippy::len_without_is_empty, reason = "an arena is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bytes of a received frame, from its Ethernet header on.
    ///
    /// # Panics
    /// If the frame belongs to another arena.
    #[inline]
    pub fn bytes<'a>(&'a self, frame: &'a RxFrame) -> &'a [u8] {
        let piece = frame.piece.within(self);
        // SAFETY: `within` checked the bounds at creation and the arena now; the token is the only
        // one for this piece, and the kernel does not write it until the token is recycled.
        unsafe { std::slice::from_raw_parts(piece.as_ptr(), frame.piece.len as usize) }
    }

    /// The bytes of a part of a received frame.
    ///
    /// # Panics
    /// If the part belongs to another arena.
    #[inline]
    pub fn part<'a>(&'a self, part: &'a RxPart) -> &'a [u8] {
        let piece = part.piece.within(self);
        // SAFETY: `RxFrame::part` checked the bounds; a `SharedFrame` gives its frame back, so that
        // the kernel may write it, only when it has got all parts back.
        unsafe { std::slice::from_raw_parts(piece.as_ptr(), part.piece.len as usize) }
    }

    /// All bytes of a transmit frame, writable. What of them is sent is said to [`crate::Link::post`].
    ///
    /// # Panics
    /// If the frame belongs to another arena.
    #[inline]
    pub fn bytes_mut<'a>(&'a self, frame: &'a mut TxFrame) -> &'a mut [u8] {
        let piece = frame.piece.within(self);
        // SAFETY: as in `bytes`; exclusive because the token is borrowed exclusively, it is the only
        // one for this piece, and a frame with the NIC has no `TxFrame`.
        unsafe { std::slice::from_raw_parts_mut(piece.as_ptr(), frame.piece.len as usize) }
    }

    /// All bytes of a transmit frame, for reading.
    ///
    /// # Panics
    /// If the frame belongs to another arena.
    #[inline]
    pub fn unsent_bytes<'a>(&'a self, frame: &'a TxFrame) -> &'a [u8] {
        let piece = frame.piece.within(self);
        // SAFETY: as in `bytes`; writing needs the token exclusively.
        unsafe { std::slice::from_raw_parts(piece.as_ptr(), frame.piece.len as usize) }
    }

    /// The bytes of a posted frame: readable, for the NIC only reads them too.
    ///
    /// # Panics
    /// If the frame belongs to another arena.
    #[inline]
    pub fn posted_bytes<'a>(&'a self, frame: &'a Posted) -> &'a [u8] {
        let piece = frame.piece.within(self);
        // SAFETY: as in `bytes`; nobody writes a posted frame.
        unsafe { std::slice::from_raw_parts(piece.as_ptr(), frame.piece.len as usize) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours (constructors) and no borrow of it outlives the arena.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Where a token's bytes lie.
#[derive(Debug)]
struct Piece {
    /// Base address of the arena: tells arenas apart, never dereferenced.
    arena: usize,
    offset: u32,
    len: u32,
    /// The backend's own number for the frame or ring slot.
    slot: u32,
}

impl Piece {
    fn new(arena: &Arena, bytes: Range<usize>, slot: u32) -> Self {
        assert!(bytes.start <= bytes.end && bytes.end <= arena.len, "a frame outside its arena");
        Self {
            arena: arena.base.as_ptr() as usize,
            offset: u32::try_from(bytes.start).expect("arenas are below 4 GiB"),
            len: u32::try_from(bytes.end - bytes.start).expect("arenas are below 4 GiB"),
            slot,
        }
    }

    #[inline]
    fn within(&self, arena: &Arena) -> NonNull<u8> {
        assert!(self.arena == arena.base.as_ptr() as usize, "a frame of another arena");
        // SAFETY: `new` checked offset + len against the length of this very arena.
        unsafe { arena.base.add(self.offset as usize) }
    }
}

macro_rules! token {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[must_use = "a frame that is dropped instead of handed back is lost to its link"]
        pub struct $name {
            piece: Piece,
        }

        impl $name {
            /// The backend's own number for this frame.
            #[inline]
            pub fn slot(&self) -> u32 {
                self.piece.slot
            }

            /// Offset of the first byte in the arena.
            #[inline]
            pub fn offset(&self) -> usize {
                self.piece.offset as usize
            }
        }
    };
}

token! {
    /// A transmit frame in the caller's hands.
    TxFrame
}
token! {
    /// A transmit frame that was handed to the NIC and is kept for a possible retransmission.
    Posted
}
token! {
    /// A received frame, borrowed from the link until it is recycled.
    RxFrame
}
token! {
    /// Some bytes of a received frame, lent by [`SharedFrame`](crate::SharedFrame), which keeps the frame
    /// meanwhile.
    RxPart
}

impl TxFrame {
    /// Makes the token for the `bytes` of an arena. For backends.
    ///
    /// # Safety
    /// No other token for any of these bytes may exist, and neither the kernel nor anybody else
    /// may write them while this one does.
    #[inline]
    pub unsafe fn new(arena: &Arena, bytes: Range<usize>, slot: u32) -> Self {
        Self { piece: Piece::new(arena, bytes, slot) }
    }

    /// The frame is the NIC's now. For backends, in [`crate::Link::post`].
    #[inline]
    pub fn into_posted(self) -> Posted {
        Posted { piece: self.piece }
    }
}

impl Posted {
    /// The frame is the caller's again. For backends, in [`crate::Link::reclaim`].
    ///
    /// # Safety
    /// The NIC must be done with the frame.
    #[inline]
    pub unsafe fn into_frame(self) -> TxFrame {
        TxFrame { piece: self.piece }
    }
}

impl RxFrame {
    /// Makes the token for the `bytes` of an arena. For backends.
    ///
    /// # Safety
    /// No other token for any of these bytes may exist, and neither the kernel nor anybody else
    /// may write them until this one is recycled.
    #[inline]
    pub unsafe fn new(arena: &Arena, bytes: Range<usize>, slot: u32) -> Self {
        Self { piece: Piece::new(arena, bytes, slot) }
    }
}

impl RxFrame {
    /// Some bytes of the frame. The caller, [`SharedFrame`](crate::SharedFrame), keeps the frame until it has the part
    /// back.
    #[inline]
    pub(crate) fn part(&self, bytes: Range<usize>) -> RxPart {
        let piece = &self.piece;
        assert!(
            bytes.start <= bytes.end && bytes.end <= piece.len as usize,
            "a part outside its frame"
        );
        // Within a frame, whose own offset and length fit 32 bits.
        let (start, len) = (bytes.start as u32, (bytes.end - bytes.start) as u32);
        RxPart {
            piece: Piece {
                arena: piece.arena,
                offset: piece.offset + start,
                len,
                slot: piece.slot,
            },
        }
    }
}

impl RxPart {
    /// Whether the part is of this frame: no other token of the same slot is in use then.
    #[inline]
    pub(crate) fn is_of(&self, frame: &RxFrame) -> bool {
        self.piece.arena == frame.piece.arena && self.piece.slot == frame.piece.slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_through_a_transmit_token_is_read_through_its_posted_one() {
        let arena = Arena::anonymous(8192).unwrap();
        // SAFETY: the only token of this arena.
        let mut frame = unsafe { TxFrame::new(&arena, 4096..8192, 1) };
        arena.bytes_mut(&mut frame)[..5].copy_from_slice(b"gigae");
        let posted = frame.into_posted();
        assert_eq!(&arena.posted_bytes(&posted)[..5], b"gigae");
        assert_eq!((posted.slot(), posted.offset()), (1, 4096));
    }

    #[test]
    #[should_panic(expected = "a frame of another arena")]
    fn a_token_of_another_arena_is_refused() {
        let (a, b) = (Arena::anonymous(4096).unwrap(), Arena::anonymous(4096).unwrap());
        // SAFETY: the only token of this arena.
        let frame = unsafe { RxFrame::new(&a, 0..64, 0) };
        b.bytes(&frame);
    }

    #[test]
    #[should_panic(expected = "a frame outside its arena")]
    fn a_token_past_the_end_cannot_be_made() {
        let arena = Arena::anonymous(4096).unwrap();
        // SAFETY: panics before a token exists.
        let _ = unsafe { RxFrame::new(&arena, 4000..4097, 0) };
    }
}
