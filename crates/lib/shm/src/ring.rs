//! The ring of frames: one writer, one reader, in memory that both can write.
//!
//! A record is a word with the frame's length and the frame's bytes in whole words, all in one piece. Where
//! the rest of a turn is too short for it, a word says so, and the record begins with the next turn. Head and
//! tail count words and never wrap (2^64); a place is a count from where the first word of the ring was used last,
//! modulo the length, which is a power of two. Neither side believes the other: what the other one claims is
//! compared with the length before it is used.
//!
//! A writer that finds all read begins with the first word again: what is little passes through the same few
//! pages, which stay in a cache, and the others take no memory. It says at which count; the reader, who has come
//! to the same count, looks there before it reads on. Nothing is passed over, so the whole ring has room then for
//! what comes, however long the reader is kept off its processor.
//!
//! # The doorbell
//!
//! A reader that is awake is told nothing. One that is about to sleep sets a flag and then looks at the head
//! again; the writer moves the head and then looks at the flag. Between the two steps is a fence at both ends, so
//! that at least one of them sees what the other did, and no frame waits for a sleeper.

use crate::sync::{AtomicU64, Ordering, fence};

/// Words in front of the records, in cache lines of whoever writes them: 128 bytes, since lines are
/// fetched in pairs.
pub(crate) const CONTROL: usize = 512;
const AT_HEAD: usize = 0;
/// The count at which the writer began with the first word again.
const AT_ORIGIN: usize = 1;
const AT_TAIL: usize = 16;
/// The reader's: whether it sleeps, and whether it reads at all.
const AT_SLEEPS: usize = 32;
const AT_WELCOME: usize = 33;

/// What the reader says of what is written; nothing at first.
const WELCOME: u64 = 1;
const REFUSED: u64 = 2;

/// In the place of a length: the next record begins with the next turn.
const NEXT_TURN: u64 = u64::MAX;

/// Words after which a writer that finds all read begins with the first again: four pages.
const EARLY: u64 = if cfg!(loom) { 2 } else { 2048 };

/// Longest frame in bytes that is believed: more than any interface carries.
pub(crate) const LONGEST: usize = 1 << 17;

/// What lies in the ring is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// Words of a record.
fn words_of(bytes: usize) -> u64 {
    1 + bytes.div_ceil(8) as u64
}

/// See the module's description. Cheap to make: a view of the shared words.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a> {
    control: &'a [AtomicU64],
    words: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    /// Of memory that holds the control words and records in a power of two of words.
    #[inline]
    pub(crate) fn new(memory: &'a [AtomicU64]) -> Self {
        let (control, words) = memory.split_at(CONTROL);
        assert!(words.len().is_power_of_two(), "a ring of {} words", words.len());
        Self { control, words }
    }

    #[inline]
    fn len(&self) -> u64 {
        self.words.len() as u64
    }

    /// Where a count is that was reached after the first word had been used at `origin`.
    #[inline]
    fn place(&self, count: u64, origin: u64) -> usize {
        (count.wrapping_sub(origin) & (self.len() - 1)) as usize
    }

    /// The words of a record at a place, behind its length. The record is in one piece.
    #[inline]
    fn body(&self, place: usize, bytes: usize) -> &'a [AtomicU64] {
        &self.words[place + 1..][..bytes.div_ceil(8)]
    }

    /// Whether the reader takes what is written: a load.
    #[inline]
    pub(crate) fn is_welcome(&self) -> bool {
        self.control[AT_WELCOME].load(Ordering::Relaxed) == WELCOME
    }

    /// Whether the reader does not want what is written.
    pub(crate) fn is_refused(&self) -> bool {
        self.control[AT_WELCOME].load(Ordering::Relaxed) == REFUSED
    }

    /// The reader takes what is written.
    pub(crate) fn welcome(&self) {
        self.control[AT_WELCOME].store(WELCOME, Ordering::Relaxed);
    }

    /// The reader never will.
    pub(crate) fn refuse(&self) {
        self.control[AT_WELCOME].store(REFUSED, Ordering::Relaxed);
    }

    /// The reader wants a doorbell from now on. It must look [whether there is something](Reader::has)
    /// once more before it sleeps.
    pub(crate) fn sleep(&self) {
        self.control[AT_SLEEPS].store(1, Ordering::Relaxed);
        // Against the fence in `Writer::publish`: see the module's description.
        fence(Ordering::SeqCst);
    }

    /// The reader looks by itself.
    pub(crate) fn wake(&self) {
        self.control[AT_SLEEPS].store(0, Ordering::Relaxed);
    }
}

/// The writing end.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// Written, and visible to the reader.
    head: u64,
    published: u64,
    /// The reader's as it was last seen.
    tail: u64,
    /// Where the first word was used last.
    origin: u64,
}

impl Writer {
    /// Writes a frame, not yet visible to the reader. False if there is no room: for a frame of up to half the ring
    /// there is once all was read, and for as many as fit it without the longest of them. One copy.
    #[inline]
    pub(crate) fn push(&mut self, ring: &Ring, frame: &[u8]) -> bool {
        let needed = words_of(frame.len());
        let mut place = ring.place(self.head, self.origin);
        if place as u64 >= EARLY && self.head == self.published && self.is_read(ring) {
            self.origin = self.head;
            ring.control[AT_ORIGIN].store(self.origin, Ordering::Relaxed);
            place = 0;
        }
        let rest = ring.len() - place as u64;
        let skipped = if needed > rest { rest } else { 0 };
        if !self.has_room(ring, skipped + needed) {
            // Acquire: what the reader has read, it has read.
            self.tail = ring.control[AT_TAIL].load(Ordering::Acquire);
            if !self.has_room(ring, skipped + needed) {
                return false;
            }
        }
        if skipped > 0 {
            ring.words[place].store(NEXT_TURN, Ordering::Relaxed);
            self.head = self.head.wrapping_add(skipped);
            place = 0;
        }
        ring.words[place].store(frame.len() as u64, Ordering::Relaxed);
        write(ring.body(place, frame.len()), frame);
        self.head = self.head.wrapping_add(needed);
        true
    }

    /// Whether the reader has read all that was written.
    #[inline]
    fn is_read(&mut self, ring: &Ring) -> bool {
        // Acquire: likewise.
        self.tail = ring.control[AT_TAIL].load(Ordering::Acquire);
        self.tail == self.head
    }

    /// Up to where frames were written.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Whether what was written up to here has not all been read.
    pub(crate) fn is_unread(&self, ring: &Ring, head: u64) -> bool {
        let left = head.wrapping_sub(ring.control[AT_TAIL].load(Ordering::Relaxed));
        (1..=ring.len()).contains(&left)
    }

    /// Whether a frame can be written with no more than so many words unread.
    pub(crate) fn has_room_within(&self, ring: &Ring, bytes: usize, words: u64) -> bool {
        let unread = self.head.wrapping_sub(ring.control[AT_TAIL].load(Ordering::Relaxed));
        unread.checked_add(words_of(bytes)).is_some_and(|all| all <= words)
    }

    #[inline]
    fn has_room(&self, ring: &Ring, needed: u64) -> bool {
        let used = self.head.wrapping_sub(self.tail);
        ring.len().checked_sub(used).is_some_and(|free| free >= needed)
    }

    /// Makes all that was written visible. Whether the reader sleeps and must be told.
    #[inline]
    pub(crate) fn publish(&mut self, ring: &Ring) -> bool {
        if self.published == self.head {
            return false;
        }
        self.published = self.head;
        // Release: whoever sees the head sees the records.
        ring.control[AT_HEAD].store(self.head, Ordering::Release);
        // Against the fence in `Ring::sleep`: see the module's description.
        fence(Ordering::SeqCst);
        let sleeps = &ring.control[AT_SLEEPS];
        sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
    }
}

/// A frame that lies in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    place: usize,
    /// Its length in bytes.
    pub(crate) len: usize,
}

/// The reading end.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    tail: u64,
    released: u64,
    /// The writer's as it was last seen.
    head: u64,
    /// Where the first word was used last.
    origin: u64,
}

impl Reader {
    /// Whether there is something to read: a load.
    #[inline]
    pub(crate) fn has(&self, ring: &Ring) -> bool {
        self.head != self.tail || ring.control[AT_HEAD].load(Ordering::Relaxed) != self.tail
    }

    /// The next frame, which stays until it was [passed](Self::pass).
    #[inline]
    pub(crate) fn next(&mut self, ring: &Ring) -> Result<Option<Record>, Damaged> {
        if self.head == self.tail {
            // Acquire: the records are seen with the head, and where they begin.
            self.head = ring.control[AT_HEAD].load(Ordering::Acquire);
            if ring.control[AT_ORIGIN].load(Ordering::Relaxed) == self.tail {
                self.origin = self.tail;
            }
        }
        // At most once: a turn begins with a record.
        for _ in 0..2 {
            let there = self.head.wrapping_sub(self.tail);
            if there == 0 {
                return Ok(None);
            }
            if there > ring.len() {
                return Err(Damaged);
            }
            let place = ring.place(self.tail, self.origin);
            let rest = ring.len() - place as u64;
            let len = ring.words[place].load(Ordering::Relaxed);
            if len == NEXT_TURN {
                self.tail = self.tail.wrapping_add(rest);
                continue;
            }
            let len = usize::try_from(len).ok().filter(|&len| len <= LONGEST).ok_or(Damaged)?;
            if words_of(len) > there.min(rest) {
                return Err(Damaged);
            }
            return Ok(Some(Record { place, len }));
        }
        Err(Damaged)
    }

    /// Copies bytes of a frame from a place on that is a multiple of 8.
    #[inline]
    pub(crate) fn copy(&self, ring: &Ring, record: Record, from: usize, to: &mut [u8]) {
        debug_assert!(from.is_multiple_of(8));
        let words = &ring.body(record.place, record.len)[from / 8..];
        let (whole, rest) = to.as_chunks_mut::<8>();
        let (words, last) = words.split_at(whole.len());
        for (bytes, word) in whole.iter_mut().zip(words) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        if let Some(last) = last.first() {
            let last = last.load(Ordering::Relaxed).to_ne_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }

    /// Is done with the [next](Self::next) frame.
    #[inline]
    pub(crate) fn pass(&mut self, record: Record) {
        self.tail = self.tail.wrapping_add(words_of(record.len));
    }

    /// Gives the room of what was passed back to the writer.
    #[inline]
    pub(crate) fn release(&mut self, ring: &Ring) {
        if self.released != self.tail {
            self.released = self.tail;
            // Release: all was read before the writer may write there again.
            ring.control[AT_TAIL].store(self.tail, Ordering::Release);
        }
    }
}

#[inline]
fn write(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<8>();
    for (word, bytes) in words.iter().zip(whole) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        words[whole.len()].store(u64::from_ne_bytes(last), Ordering::Relaxed);
    }
}

/// Memory for a ring in one process, for tests.
#[cfg(test)]
fn plain(words: usize) -> Vec<AtomicU64> {
    (0..CONTROL + words).map(|_| AtomicU64::new(0)).collect()
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Notify};

    fn read(reader: &mut Reader, ring: &Ring, expected: &mut u8) {
        while let Some(record) = reader.next(ring).unwrap() {
            let mut bytes = [0; 8];
            reader.copy(ring, record, 0, &mut bytes);
            *expected += 1;
            assert_eq!((record.len, bytes), (8, [*expected; 8]));
            reader.pass(record);
        }
        reader.release(ring);
    }

    #[test]
    fn in_every_order_frames_are_whole_and_in_order_and_the_ring_is_used_again() {
        loom::model(|| {
            // Room for two records of two words.
            let memory = Arc::new(plain(4));
            let writing = Arc::clone(&memory);
            let sender = loom::thread::spawn(move || {
                let (ring, mut writer) = (Ring::new(&writing), Writer::default());
                for n in 1..=3 {
                    while !writer.push(&ring, &[n; 8]) {
                        loom::thread::yield_now();
                    }
                    writer.publish(&ring);
                }
            });
            let (ring, mut reader, mut got) = (Ring::new(&memory), Reader::default(), 0);
            while got < 3 {
                read(&mut reader, &ring, &mut got);
                loom::thread::yield_now();
            }
            sender.join().unwrap();
        });
    }

    /// A doorbell that does not ring leaves the reader asleep, which loom reports.
    #[test]
    fn in_every_order_a_sleeper_is_told_of_the_frame_that_it_did_not_see() {
        loom::model(|| {
            let memory = Arc::new(plain(8));
            let bell = Arc::new(Notify::new());
            let (writing, ringing) = (Arc::clone(&memory), Arc::clone(&bell));
            let sender = loom::thread::spawn(move || {
                let (ring, mut writer) = (Ring::new(&writing), Writer::default());
                for n in 1..=2 {
                    assert!(writer.push(&ring, &[n; 8]));
                    if writer.publish(&ring) {
                        ringing.notify();
                    }
                }
            });
            let (ring, mut reader, mut got) = (Ring::new(&memory), Reader::default(), 0);
            while got < 2 {
                ring.sleep();
                if !reader.has(&ring) {
                    bell.wait();
                }
                ring.wake();
                read(&mut reader, &ring, &mut got);
            }
            sender.join().unwrap();
        });
    }
}
