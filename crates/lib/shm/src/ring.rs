//! The ring of frames: one writer, one reader, in memory that both can write.
//!
//! A record is a word with the frame's length, and the frame's bytes in whole words, all in one
//! piece. If the rest of a turn is too short for a record, a word says so, and the record begins
//! with the next turn. Head and tail count words and never wrap (2^64). The position of a count is
//! its distance from the last use of the ring's first word, modulo the length, which is a power of
//! two. Neither side trusts the other: it compares each claimed value with the length before it
//! uses it.
//!
//! A writer that finds everything read begins with the first word again. So a little traffic uses
//! the same few pages, which stay in a cache, and the other pages take no memory. The writer
//! publishes the count at which it did so. The reader, which has reached the same count, looks
//! there before it reads on. No record is skipped, so the whole ring has room again, however long
//! the reader is kept off its processor.
//!
//! # The doorbell
//!
//! A reader that is awake gets no doorbell. A reader that is about to sleep sets a flag and then
//! looks at the head again. The writer moves the head and then looks at the flag. Both have a fence
//! between the two steps, so at least one of them sees what the other did. So no frame waits for a
//! sleeping reader.

use crate::sync::{AtomicU64, Ordering, fence};

/// Words in front of the records. Each side's words have their own 128 bytes, since cache lines are
/// fetched in pairs.
pub(crate) const CONTROL: usize = 512;
const AT_HEAD: usize = 0;
/// The count at which the writer began with the first word again.
const AT_ORIGIN: usize = 1;
const AT_TAIL: usize = 16;
/// The reader's: whether it sleeps, and whether it reads.
const AT_SLEEPS: usize = 32;
const AT_WELCOME: usize = 33;
/// A number by which the reader recognises this word in the writer's address space.
const AT_PROBE: usize = 34;

/// The reader's answer to the writer; at first the word has no answer.
const WELCOME: u64 = 1;
const REFUSED: u64 = 2;
/// Welcome, and the reader reads the writer's memory, too.
const WELCOME_AND_READS: u64 = 3;

/// In place of a length: the next record begins with the next turn.
const NEXT_TURN: u64 = u64::MAX;

/// Words after which a writer that finds everything read begins with the first again: four pages.
const EARLY: u64 = if cfg!(loom) { 2 } else { 2048 };

/// Longest frame in bytes that a reader accepts: more than any interface carries.
pub(crate) const LONGEST: usize = 1 << 17;

/// The ring contains no valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CorruptRing;

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
    /// A ring in memory with the control words and a power of two of words for records.
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

    /// The position of a count that was reached after the first word had been used at `origin`.
    #[inline]
    fn place(&self, count: u64, origin: u64) -> usize {
        (count.wrapping_sub(origin) & (self.len() - 1)) as usize
    }

    /// The words of a record at a position, behind its length. The record is in one piece.
    #[inline]
    fn body(&self, place: usize, bytes: usize) -> &'a [AtomicU64] {
        &self.words[place + 1..][..bytes.div_ceil(8)]
    }

    /// Whether the reader reads the ring. One load.
    #[inline]
    pub(crate) fn is_welcome(&self) -> bool {
        self.control[AT_WELCOME].load(Ordering::Relaxed) & WELCOME == WELCOME
    }

    /// Whether the reader reads the memory of the writer's process, too.
    pub(crate) fn is_lender(&self) -> bool {
        self.control[AT_WELCOME].load(Ordering::Relaxed) == WELCOME_AND_READS
    }

    /// Whether the reader refuses the ring.
    pub(crate) fn is_refused(&self) -> bool {
        self.control[AT_WELCOME].load(Ordering::Relaxed) == REFUSED
    }

    /// The reader reads the ring, and perhaps the memory of the writer's process.
    pub(crate) fn welcome(&self, reads: bool) {
        let word = if reads { WELCOME_AND_READS } else { WELCOME };
        self.control[AT_WELCOME].store(word, Ordering::Relaxed);
    }

    /// Puts a number into a separate word, and returns the word's place in bytes.
    pub(crate) fn set_probe(&self, number: u64) -> u64 {
        self.control[AT_PROBE].store(number, Ordering::Relaxed);
        8 * AT_PROBE as u64
    }

    /// The reader will never read the ring.
    pub(crate) fn refuse(&self) {
        self.control[AT_WELCOME].store(REFUSED, Ordering::Relaxed);
    }

    /// The reader wants a doorbell from now on. It must look [whether there is
    /// something](Reader::has) once more before it sleeps.
    pub(crate) fn sleep(&self) {
        self.control[AT_SLEEPS].store(1, Ordering::Relaxed);
        // Pairs with the fence in `Writer::publish`: see the module's description.
        fence(Ordering::SeqCst);
    }

    /// The reader needs no doorbell.
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
    /// The reader's tail, as last seen.
    tail: u64,
    /// The count at which the first word was used last.
    origin: u64,
}

impl Writer {
    /// Writes a frame that the reader does not see yet. False if there is no room. Once everything
    /// was read, there is room for a frame of up to half the ring, or for as many frames as fit
    /// into the ring less the longest of them. One copy.
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
            // Acquire: sees that the reader has finished reading.
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
        // Acquire: as in `push`.
        self.tail = ring.control[AT_TAIL].load(Ordering::Acquire);
        self.tail == self.head
    }

    /// The count up to which frames were written.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Whether the reader has not read everything up to here.
    pub(crate) fn is_unread(&self, ring: &Ring, head: u64) -> bool {
        let left = head.wrapping_sub(ring.control[AT_TAIL].load(Ordering::Relaxed));
        (1..=ring.len()).contains(&left)
    }

    /// Whether a frame can be written so that no more than `words` words are unread.
    pub(crate) fn has_room_within(&self, ring: &Ring, bytes: usize, words: u64) -> bool {
        let unread = self.head.wrapping_sub(ring.control[AT_TAIL].load(Ordering::Relaxed));
        unread.checked_add(words_of(bytes)).is_some_and(|all| all <= words)
    }

    #[inline]
    fn has_room(&self, ring: &Ring, needed: u64) -> bool {
        let used = self.head.wrapping_sub(self.tail);
        ring.len().checked_sub(used).is_some_and(|free| free >= needed)
    }

    /// Makes everything that was written visible. Returns whether the reader sleeps and needs a
    /// doorbell.
    #[inline]
    pub(crate) fn publish(&mut self, ring: &Ring) -> bool {
        if self.published == self.head {
            return false;
        }
        self.published = self.head;
        // Release: a reader that sees the head sees the records.
        ring.control[AT_HEAD].store(self.head, Ordering::Release);
        // Pairs with the fence in `Ring::sleep`: see the module's description.
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
    /// The writer's head, as last seen.
    head: u64,
    /// The count at which the first word was used last.
    origin: u64,
}

impl Reader {
    /// Whether there is something to read. One load.
    #[inline]
    pub(crate) fn has(&self, ring: &Ring) -> bool {
        self.head != self.tail || ring.control[AT_HEAD].load(Ordering::Relaxed) != self.tail
    }

    /// The next frame. It stays until it is [passed](Self::pass).
    #[inline]
    pub(crate) fn next(&mut self, ring: &Ring) -> Result<Option<Record>, CorruptRing> {
        if self.head == self.tail {
            // Acquire: sees the records with the head, and where they begin.
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
                return Err(CorruptRing);
            }
            let place = ring.place(self.tail, self.origin);
            let rest = ring.len() - place as u64;
            let len = ring.words[place].load(Ordering::Relaxed);
            if len == NEXT_TURN {
                self.tail = self.tail.wrapping_add(rest);
                continue;
            }
            let len = usize::try_from(len).ok().filter(|&len| len <= LONGEST).ok_or(CorruptRing)?;
            if words_of(len) > there.min(rest) {
                return Err(CorruptRing);
            }
            return Ok(Some(Record { place, len }));
        }
        Err(CorruptRing)
    }

    /// Copies bytes of a frame from an offset that is a multiple of 8.
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

    /// Finishes the [next](Self::next) frame.
    #[inline]
    pub(crate) fn pass(&mut self, record: Record) {
        self.tail = self.tail.wrapping_add(words_of(record.len));
    }

    /// Gives the room of the passed frames back to the writer.
    #[inline]
    pub(crate) fn release(&mut self, ring: &Ring) {
        if self.released != self.tail {
            self.released = self.tail;
            // Release: everything was read before the writer may write there again.
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

    /// A doorbell that does not ring leaves the reader sleeping, which loom reports.
    #[test]
    fn in_every_order_a_sleeper_is_woken_for_the_frame_that_it_did_not_see() {
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
