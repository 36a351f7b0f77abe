//! The frame memory of a link and the tokens that stand for pieces of it.
//!
//! All `unsafe` access to frame bytes is here. It is sound because a backend creates at most one
//! live token per piece of memory (its obligation, stated at the `unsafe` constructors), because
//! tokens are neither `Clone` nor `Copy`, and because every access checks that the token belongs
//! to this arena, whose memory lives as long as the arena does.
//!
//! Tokens move with every message, so they are small: two registers hold one, or none.

use crate::mapping::Mapping;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that holds all frames of one link. Mapped once, never moved, unmapped on drop.
#[derive(Debug)]
pub struct Arena {
    mapping: Mapping,
    /// Tells arenas apart: no two of a process ever have the same, also when one is gone. In the
    /// upper half; the lower is for a slot's number.
    id: NonZeroU64,
}

/// A new arena's own number.
fn fresh_id() -> NonZeroU64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let next = |last: u64| last.checked_add(1 << 32);
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    last.ok().and_then(next).and_then(NonZeroU64::new).expect("fewer than 4 billion arenas")
}

// SAFETY: the arena is a plain mapping that any thread may access; exclusive access to a piece of
// it is governed by the tokens, which are Send but cannot be duplicated.
unsafe impl Send for Arena {}
// SAFETY: as above; `&Arena` alone gives access to no byte.
unsafe impl Sync for Arena {}

impl Arena {
    fn new(mapping: Mapping) -> Self {
        Self { mapping, id: fresh_id() }
    }

    /// Maps `len` bytes of zeroed, populated memory and locks it where the limits allow
    /// (`RLIMIT_MEMLOCK`, `CAP_IPC_LOCK`); memory that cannot be locked is used as it is.
    ///
    /// One `mmap` and one `mlock`. `len` must not be zero.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        Ok(Self::new(Mapping::anonymous(len)?))
    }

    /// The same without any page to begin with: they come when they are touched first, and may be
    /// swapped.
    #[cfg(not(miri))]
    pub fn sparse(len: usize) -> io::Result<Self> {
        Ok(Self::new(Mapping::sparse(len)?))
    }

    /// The same in a separate file (memfd), so that a fork has the same pages. No page is there
    /// yet: the caller registers the memory with the kernel, which makes all of them then, once,
    /// and each is locked as it comes. With `huge` it lies in huge pages of the system's default
    /// size, of which enough must be free (`/proc/sys/vm/nr_hugepages`), and `len` is rounded up to
    /// them.
    ///
    /// Four system calls more.
    pub fn shared(len: usize, huge: bool) -> io::Result<Self> {
        Ok(Self::new(Mapping::shared(len, huge)?))
    }

    /// Maps memory that another process made ([`LentMemory`](crate::LentMemory)): all of it,
    /// populated and locked as by [`anonymous`](Self::anonymous). Refused unless it has at least
    /// `least` bytes and will keep them. From then on no process can map it for writing again, or
    /// take a page out of it.
    ///
    /// # Safety
    /// Nothing else may write to the memory while this arena lives, except the kernel as the tokens
    /// allow.
    pub unsafe fn of(memory: &OwnedFd, least: usize) -> io::Result<Self> {
        // SAFETY: passed on to the caller.
        Ok(Self::new(unsafe { Mapping::of(memory, least)? }))
    }

    /// Maps memory without adding a page: another process makes them.
    ///
    /// # Safety
    /// Nothing may be read from this arena: the other process may write to it at any time.
    pub(crate) unsafe fn untouched(memory: &OwnedFd, len: usize) -> io::Result<Self> {
        // SAFETY: passed on to the caller.
        Ok(Self::new(unsafe { Mapping::untouched(memory, len)? }))
    }

    /// Takes over a mapping that a backend made itself (kernel rings beside anonymous memory).
    ///
    /// # Safety
    /// `base..base + len` must be one readable and writable mapping that nothing else unmaps and
    /// that no Rust reference points into, for as long as the arena lives.
    pub unsafe fn from_mapping(base: NonNull<u8>, len: usize) -> Self {
        // SAFETY: passed on to the caller.
        Self::new(unsafe { Mapping::from_raw(base, len) })
    }

    /// First byte of the mapping, for registering it with the kernel.
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    /// Bytes in the mapping.
    #[expect(clippy::len_without_is_empty, reason = "an arena is never empty")]
    pub fn len(&self) -> usize {
        self.mapping.len()
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
        unsafe { std::slice::from_raw_parts(piece.as_ptr(), frame.piece.len()) }
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
        unsafe { std::slice::from_raw_parts(piece.as_ptr(), part.piece.len()) }
    }

    /// Whether a part is of one of this arena's frames.
    #[inline]
    pub fn holds(&self, part: &RxPart) -> bool {
        part.piece.whose.get() >> 32 == self.id.get() >> 32
    }

    /// Whether a received frame lies in this arena.
    #[inline]
    pub fn has(&self, frame: &RxFrame) -> bool {
        frame.piece.whose.get() >> 32 == self.id.get() >> 32
    }

    /// All bytes of a transmit frame, writable. What of them is sent is said to
    /// [`crate::Link::post`].
    ///
    /// # Panics
    /// If the frame belongs to another arena.
    #[inline]
    pub fn bytes_mut<'a>(&'a self, frame: &'a mut TxFrame) -> &'a mut [u8] {
        let piece = frame.piece.within(self);
        // SAFETY: as in `bytes`; exclusive because the token is borrowed exclusively, it is the
        // only one for this piece, and a frame with the NIC has no `TxFrame`.
        unsafe { std::slice::from_raw_parts_mut(piece.as_ptr(), frame.piece.len()) }
    }

    /// All bytes of a transmit frame, for reading.
    ///
    /// # Panics
    /// If the frame belongs to another arena.
    #[inline]
    pub fn unsent_bytes<'a>(&'a self, frame: &'a TxFrame) -> &'a [u8] {
        let piece = frame.piece.within(self);
        // SAFETY: as in `bytes`; writing needs the token exclusively.
        unsafe { std::slice::from_raw_parts(piece.as_ptr(), frame.piece.len()) }
    }

    /// The bytes of a posted frame: readable, for the NIC only reads them too.
    ///
    /// # Panics
    /// If the frame belongs to another arena.
    #[inline]
    pub fn posted_bytes<'a>(&'a self, frame: &'a Posted) -> &'a [u8] {
        let piece = frame.piece.within(self);
        // SAFETY: as in `bytes`; nothing here writes a posted frame.
        unsafe { std::slice::from_raw_parts(piece.as_ptr(), frame.piece.len()) }
    }

    /// The slot of a frame that the caller gives up. For backends, in [`crate::Link::release`].
    ///
    /// # Panics
    /// If the frame belongs to another arena.
    #[inline]
    pub fn slot_of(&self, frame: &Held) -> u32 {
        frame.piece.within(self);
        frame.piece.slot()
    }
}

/// Where a token's bytes lie. Two words and not four halves, for so it is in two registers when it
/// moves: what is put together in memory and read again at once makes the processor wait.
#[derive(Debug)]
struct Piece {
    /// The arena, and the backend's own number for the frame or ring slot with [`CONTINUES`].
    whose: NonZeroU64,
    /// Offset in the arena, and length.
    place: u64,
}

/// Beside a slot: the frame goes on in the next token. No backend has this many slots.
const CONTINUES: u64 = 1 << 31;

impl Piece {
    #[inline]
    fn new(arena: &Arena, bytes: Range<usize>, slot: u32) -> Self {
        assert!(
            bytes.start <= bytes.end && bytes.end <= arena.mapping.len(),
            "a frame outside its arena"
        );
        assert!(u64::from(slot) < CONTINUES, "a slot beyond 2^31");
        let short = |n: usize| u32::try_from(n).expect("arenas are below 4 GiB");
        Self {
            whose: arena.id | u64::from(slot),
            place: both(short(bytes.start), short(bytes.end - bytes.start)),
        }
    }

    /// A piece of this piece.
    #[inline]
    fn part(&self, bytes: Range<usize>) -> Self {
        let within = bytes.start <= bytes.end && bytes.end <= self.len();
        assert!(within, "a part outside its frame");
        // No longer than a frame, whose own offset and length fit 32 bits.
        let (start, len) = (bytes.start as u32, (bytes.end - bytes.start) as u32);
        Self { whose: self.whose, place: both(self.offset() + start, len) }
    }

    #[inline]
    fn within(&self, arena: &Arena) -> NonNull<u8> {
        assert!(self.whose.get() >> 32 == arena.id.get() >> 32, "a frame of another arena");
        // SAFETY: `new` checked offset + len against the length of this very arena.
        unsafe { arena.mapping.base().add(self.offset() as usize) }
    }

    #[inline]
    fn slot(&self) -> u32 {
        (self.whose.get() & (CONTINUES - 1)) as u32
    }

    #[inline]
    fn offset(&self) -> u32 {
        (self.place >> 32) as u32
    }

    #[inline]
    fn len(&self) -> usize {
        self.place as u32 as usize
    }
}

#[inline]
fn both(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
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
                self.piece.slot()
            }

            /// Offset of the first byte in the arena.
            #[inline]
            pub fn offset(&self) -> usize {
                self.piece.offset() as usize
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
    /// A transmit frame that its holder gives up: taken or posted, which only the link knows.
    Held
}
token! {
    /// A received frame, borrowed from the link until it is recycled.
    RxFrame
}
token! {
    /// Some bytes of a received frame, lent by [`SharedFrame`](crate::SharedFrame), which keeps the
    /// frame as long as it exists.
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

impl Held {
    /// The frame is free, and may be taken again. For backends, in [`crate::Link::release`].
    ///
    /// # Safety
    /// The NIC must be done with the frame.
    #[inline]
    pub unsafe fn into_frame(self) -> TxFrame {
        TxFrame { piece: self.piece }
    }
}

impl From<TxFrame> for Held {
    #[inline]
    fn from(frame: TxFrame) -> Self {
        Self { piece: frame.piece }
    }
}

impl From<Posted> for Held {
    #[inline]
    fn from(frame: Posted) -> Self {
        Self { piece: frame.piece }
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

    /// Copies `bytes` to the start of a slot's `room` in an arena, and makes the token for them.
    /// For backends that copy what they receive.
    ///
    /// # Safety
    /// As for [`new`](Self::new), for all of the room.
    ///
    /// # Panics
    /// If `bytes` do not fit the room. Drop frames longer than
    /// [`Info::max_frame`](crate::Info::max_frame) before.
    #[inline]
    pub unsafe fn copied(arena: &Arena, room: Range<usize>, slot: u32, bytes: &[u8]) -> Self {
        assert!(bytes.len() <= room.len(), "{} bytes for {}", bytes.len(), room.len());
        let place = room.start..room.start + bytes.len();
        // SAFETY: the caller says that there is no other token for these bytes.
        let mut room = unsafe { TxFrame::new(arena, place.clone(), slot) };
        arena.bytes_mut(&mut room).copy_from_slice(bytes);
        // SAFETY: as above, and `room` is not used any more.
        unsafe { Self::new(arena, place, slot) }
    }

    /// Says that the frame goes on in the next token. For backends.
    #[inline]
    pub fn continued(mut self) -> Self {
        self.piece.whose |= CONTINUES;
        self
    }

    /// Whether the frame goes on in the next token: it is longer than a segment
    /// ([`Info::segment_size`](crate::Info::segment_size)), and this is not its last one.
    #[inline]
    pub fn continues(&self) -> bool {
        self.piece.whose.get() & CONTINUES != 0
    }
}

impl RxFrame {
    /// Some bytes of the frame. The caller, [`SharedFrame`](crate::SharedFrame), keeps the frame
    /// until it has the part back.
    #[inline]
    pub(crate) fn part(&self, bytes: Range<usize>) -> RxPart {
        RxPart { piece: self.piece.part(bytes) }
    }
}

impl RxPart {
    /// Whether the part is of this frame: no other token of the same slot is in use then.
    #[inline]
    pub(crate) fn is_of(&self, frame: &RxFrame) -> bool {
        self.piece.whose == frame.piece.whose
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::MemfdFlags;

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
    fn a_token_says_whether_its_frame_goes_on_and_keeps_its_slot() {
        let arena = Arena::anonymous(4096).unwrap();
        // SAFETY: the only token of this arena.
        let frame = unsafe { RxFrame::new(&arena, 0..64, 7) };
        assert!(!frame.continues());
        let frame = frame.continued();
        assert_eq!((frame.continues(), frame.slot()), (true, 7));
        let part = frame.part(0..10);
        assert_eq!((part.slot(), part.is_of(&frame)), (7, true));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd")]
    fn memory_that_is_taken_over_is_the_same_and_keeps_its_length() {
        let memory = crate::mapping::reserve(8192).unwrap();
        // SAFETY: it is refused.
        assert!(unsafe { Arena::of(&memory, 8193) }.is_err());
        // SAFETY: written to by tokens of the other mapping only, while none of this one exists.
        let second = unsafe { Arena::untouched(&memory, 8192).unwrap() };
        // SAFETY: as above.
        let first = unsafe { Arena::of(&memory, 8192).unwrap() };
        // SAFETY: the only token of this arena.
        let mut frame = unsafe { TxFrame::new(&first, 0..4096, 0) };
        first.bytes_mut(&mut frame)[..5].copy_from_slice(b"gigae");
        drop(first);
        // SAFETY: the only token of this arena.
        let frame = unsafe { TxFrame::new(&second, 0..4096, 0) };
        assert_eq!(&second.unsent_bytes(&frame)[..5], b"gigae");
        assert!(rustix::fs::ftruncate(&memory, 4096).is_err());
        let open = rustix::fs::memfd_create("open", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&open, 8192).unwrap();
        // SAFETY: it is refused.
        let refused = unsafe { Arena::of(&open, 8192) }.unwrap_err().to_string();
        assert!(refused.contains("shorter"), "{refused}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd")]
    fn shared_memory_has_no_page_to_begin_with() {
        const LEN: usize = 3 << 20;
        let arena = Arena::shared(LEN, false).unwrap();
        let mut there = [0u8; LEN / 4096];
        let base = arena.base().as_ptr();
        // SAFETY: a byte for each page of the mapping.
        assert_eq!(unsafe { libc::mincore(base.cast(), LEN, there.as_mut_ptr()) }, 0);
        assert!(there.iter().all(|page| page & 1 == 0), "pages before anybody wanted them");
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
    fn tokens_side_by_side_are_read_and_written_without_touching_each_other() {
        let arena = Arena::anonymous(8192).unwrap();
        // SAFETY: no two of these have a byte in common, and each is made once.
        let (mut one, mut two, three) = unsafe {
            let one = TxFrame::new(&arena, 0..100, 0);
            (one, TxFrame::new(&arena, 100..200, 1), RxFrame::new(&arena, 200..300, 2))
        };
        let (first, second, third) =
            (arena.bytes_mut(&mut one), arena.bytes_mut(&mut two), arena.bytes(&three));
        first.fill(1);
        second.fill(2);
        first[99] = 3;
        assert_eq!((first[0], first[99], second[0], third[0]), (1, 3, 2, 0));
        let parts = [three.part(0..50), three.part(50..100)];
        assert!(parts.iter().all(|part| arena.part(part).iter().all(|&byte| byte == 0)));
        // SAFETY: nothing was sent.
        let mut again = unsafe { one.into_posted().into_frame() };
        arena.bytes_mut(&mut again)[0] = 4;
        assert_eq!(arena.unsent_bytes(&again)[..2], [4, 1]);
    }

    #[test]
    #[should_panic(expected = "a frame outside its arena")]
    fn a_token_past_the_end_cannot_be_made() {
        let arena = Arena::anonymous(4096).unwrap();
        // SAFETY: panics before a token exists.
        let _ = unsafe { RxFrame::new(&arena, 4000..4097, 0) };
    }
}
