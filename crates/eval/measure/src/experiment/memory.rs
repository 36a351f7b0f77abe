//! What it costs a program to get at a received message: in place, copied, mapped (003, table 1).
//!
//! No network is involved. Messages lie in a ring of frames as large as that of an AF_XDP link, one
//! after the other; the program looks at the first word of every cache line of each. The methods:
//!
//! - `borrow`: it looks at the message where it lies.
//! - `copy`: the message is copied into a buffer of the program's, and looked at there.
//! - `copy-warm`: the same, with one and the same message each time, so that both sides of the copy
//!   are in the cache.
//! - `map`: the pages in which the message lies are mapped at the program's place (mmap(2) with
//!   `MAP_FIXED`), and looked at there.
//!
//! All four include the looking, so that differences are the price of the method. The memory is a
//! memfd in all of them. Caches hold as much of the ring as they are large; nothing is flushed.

use super::Method;
use crate::channel::Channel;
use crate::probe::{Answered, Asked, Loop, ProbeError};
use gigae_eval_model::experiment::AccessMethod;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) const METHOD: Method =
    Method { figure: super::median, samples: super::asked, lost: super::missed };

/// Frames of the ring: the default of an AF_XDP link's receive frames.
const FRAMES: usize = 4096;

/// Bytes of a frame: one page, as there.
const FRAME: usize = 4096;

/// Bytes of the ring.
const RING: usize = FRAMES * FRAME;

/// Distance of the words that are looked at.
const CACHE_LINE: usize = 64;

/// Messages between two readings of the clock, which costs about as much as looking at one message.
const BATCH: usize = 256;

const NO_LINK: ProbeError = ProbeError::Silent("this experiment uses no link");

/// It has no two ends.
pub fn ask<C: Channel>(_: &mut C, _: &Loop<'_>) -> Result<Asked, ProbeError> {
    Err(NO_LINK)
}

/// It has no two ends.
pub fn answer<C: Channel>(_: &mut C, _: &Loop<'_>) -> Result<Answered, ProbeError> {
    Err(NO_LINK)
}

/// Measures one method with messages of `size` bytes (at most the ring) for a while. Samples are
/// picoseconds per message, each the mean of a batch. `None` when interrupted.
pub fn measure(
    method: AccessMethod,
    size: usize,
    warmup: Duration,
    time: Duration,
    interrupted: &AtomicBool,
) -> io::Result<Option<Asked>> {
    let mut bench = Bench::new(size)?;
    let mut asked = Asked::default();
    let warm = Instant::now() + warmup;
    while Instant::now() < warm {
        asked.warmup.push(bench.batch(method)?);
        asked.sent += BATCH as u64;
    }
    let end = Instant::now() + time;
    loop {
        asked.samples.push(bench.batch(method)?);
        asked.sent += BATCH as u64;
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if Instant::now() >= end {
            break;
        }
    }
    asked.bytes = asked.sent * size as u64;
    Ok(Some(asked))
}

/// A ring of messages and a place to look at them.
struct Bench {
    memory: OwnedFd,
    ring: Mapping,
    place: Mapping,
    own: Vec<u8>,
    size: usize,
    /// Bytes from one message to the next: whole frames.
    stride: usize,
    next: usize,
}

impl Bench {
    fn new(size: usize) -> io::Result<Self> {
        // SAFETY: the name is a C string; the result is a descriptor or -1.
        let descriptor = unsafe { libc::memfd_create(c"frames".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and not shared.
        let memory = unsafe { OwnedFd::from_raw_fd(descriptor) };
        rustix::fs::ftruncate(&memory, RING as u64)?;
        let stride = size.clamp(1, RING).next_multiple_of(FRAME);
        let mut ring = Mapping::new(&memory, RING)?;
        ring.bytes_mut().fill(1);
        let place = Mapping::new(&memory, stride)?;
        Ok(Self { memory, ring, place, own: vec![1; size], size, stride, next: 0 })
    }

    /// Looks at a batch of messages; gives picoseconds per message.
    fn batch(&mut self, method: AccessMethod) -> io::Result<u32> {
        let begin = Instant::now();
        for _ in 0..BATCH {
            let offset = if method == AccessMethod::CopyWarm { 0 } else { self.advance() };
            let message = &self.ring.bytes()[offset..offset + self.size];
            match method {
                AccessMethod::Borrow => look(message),
                AccessMethod::Copy | AccessMethod::CopyWarm => {
                    self.own.copy_from_slice(message);
                    look(&self.own);
                }
                AccessMethod::Map => {
                    self.place.show(&self.memory, offset)?;
                    look(&self.place.bytes()[..self.size]);
                }
            }
        }
        let picoseconds = begin.elapsed().as_nanos() * 1000 / BATCH as u128;
        Ok(u32::try_from(picoseconds).unwrap_or(u32::MAX))
    }

    /// Where the next message lies.
    fn advance(&mut self) -> usize {
        let offset = self.next;
        self.next += self.stride;
        if self.next + self.stride > RING {
            self.next = 0;
        }
        offset
    }
}

/// Looks at the first word of every cache line.
fn look(message: &[u8]) {
    let sum = message.iter().step_by(CACHE_LINE).fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    std::hint::black_box(sum);
}

/// Shared pages of a memfd, unmapped when dropped. No other process has the memfd, and the ring is
/// written only before the first message is looked at, so plain references to its bytes are sound.
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    fn new(memory: &OwnedFd, length: usize) -> io::Result<Self> {
        let anywhere = std::ptr::null_mut();
        // SAFETY: a new mapping at a place that the kernel chooses disturbs nothing.
        let start = unsafe { map(anywhere, length, memory, 0, libc::MAP_SHARED)? };
        Ok(Self { start, length })
    }

    /// Shows other pages of the memfd at the same place: their contents from `offset` on. The page
    /// tables are filled at once, as 003's `remap_page_range` did, not page by page at the first
    /// look.
    fn show(&mut self, memory: &OwnedFd, offset: usize) -> io::Result<()> {
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE;
        // SAFETY: replaces exactly this mapping, to which no reference is left (`&mut self`).
        self.start = unsafe { map(self.start.as_ptr(), self.length, memory, offset, flags)? };
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `length` readable bytes are mapped here, and nothing writes them while the slice
        // lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, writable, and the only mapping as long as the bench is being made.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and no reference to it outlives this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// mmap(2) for reading and writing.
///
/// # Safety
/// With `MAP_FIXED`, `place` must be `length` bytes of a mapping of the caller's that nothing uses.
unsafe fn map(
    place: *mut u8,
    length: usize,
    memory: &OwnedFd,
    offset: usize,
    flags: libc::c_int,
) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
    // SAFETY: see above; the kernel checks everything else.
    let start =
        unsafe { libc::mmap(place.cast(), length, access, flags, memory.as_raw_fd(), offset) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at zero"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::experiment::ACCESS_METHODS;

    #[test]
    fn a_mapped_message_is_the_one_that_lies_at_its_offset() {
        let mut bench = Bench::new(5000).unwrap();
        assert_eq!(bench.stride, 2 * FRAME, "messages begin at frames");
        bench.ring.bytes_mut()[2 * FRAME] = 77;
        bench.ring.bytes_mut()[3 * FRAME] = 88;
        bench.place.show(&bench.memory, 2 * FRAME).unwrap();
        assert_eq!((bench.place.bytes()[0], bench.place.bytes()[FRAME]), (77, 88));
        bench.place.show(&bench.memory, 0).unwrap();
        assert_eq!(bench.place.bytes()[0], 1);
    }

    #[test]
    fn the_ring_is_walked_to_its_end_and_begun_again() {
        let mut bench = Bench::new(65_536).unwrap();
        let offsets: Vec<usize> = (0..=RING / 65_536).map(|_| bench.advance()).collect();
        assert_eq!((offsets[0], offsets[1]), (0, 65_536));
        assert_eq!(offsets[RING / 65_536 - 1], RING - 65_536, "its last frames are left out");
        assert_eq!(offsets[RING / 65_536], 0);
    }

    #[test]
    fn every_way_gives_a_sample_and_an_interruption_ends_it() {
        for method in ACCESS_METHODS {
            let go = AtomicBool::new(false);
            let time = Duration::from_millis(2);
            let asked = measure(method, 8, time, time, &go).unwrap().unwrap();
            assert!(!asked.samples.is_empty() && !asked.warmup.is_empty(), "{method:?}");
            assert_eq!(asked.bytes, asked.sent * 8);
            let stop = AtomicBool::new(true);
            assert!(measure(method, 8, time, Duration::from_secs(60), &stop).unwrap().is_none());
        }
    }
}
