//! The ring of captured frames: one writer, one reader, in memory that both can write.
//!
//! A record is three words and the frame's bytes in whole words. Head and tail count words and
//! never wrap (2^64). A position is a count modulo the length, which is a power of two. Both sides
//! compare the other's values with the length before they use them.

use crate::sync::{AtomicU64, Ordering};

/// Words in front of the bytes: lengths, time, direction and link with the count of dropped frames.
const HEAD: u64 = 3;

/// The direction of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// It was received.
    In,
    /// It was handed to the NIC.
    Out,
}

/// The description of a captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureRecord {
    /// When, in nanoseconds since 1970 (or of virtual time).
    pub at: u64,
    /// The direction.
    pub direction: Direction,
    /// The number of the endpoint's link.
    pub link: usize,
    /// Bytes in the whole frame; as many or fewer were captured.
    pub original_len: usize,
    /// Frames without room in the ring since the record before.
    pub dropped: u32,
}

/// See the module's description. Cheap to make: a view of the shared words.
#[derive(Clone, Copy)]
pub(crate) struct CaptureRing<'a> {
    pub(crate) words: &'a [AtomicU64],
    pub(crate) head: &'a AtomicU64,
    pub(crate) tail: &'a AtomicU64,
    pub(crate) dropped: &'a AtomicU64,
}

impl CaptureRing<'_> {
    fn len(&self) -> u64 {
        self.words.len() as u64
    }

    fn word(&self, place: u64) -> &AtomicU64 {
        &self.words[(place & (self.len() - 1)) as usize]
    }

    /// Writes a record with the first `snaplen` bytes of a frame, or counts it as dropped.
    pub(crate) fn push(
        &self,
        at: u64,
        direction: Direction,
        link: usize,
        frame: &[u8],
        snaplen: usize,
    ) {
        let bytes = &frame[..frame.len().min(snaplen)];
        let head = self.head.load(Ordering::Relaxed);
        // Acquire: sees that the reader has finished reading.
        let used = head.wrapping_sub(self.tail.load(Ordering::Acquire));
        let needed = HEAD + bytes.len().div_ceil(8) as u64;
        let dropped = self.dropped.load(Ordering::Relaxed);
        if self.len().checked_sub(used).is_none_or(|free| free < needed) {
            self.dropped.store(dropped.wrapping_add(1), Ordering::Relaxed);
            return;
        }
        let way = u64::from(direction == Direction::Out) | (link as u64 & 0xff) << 8;
        let put = |place: u64, word| {
            self.word(head.wrapping_add(place)).store(word, Ordering::Relaxed);
        };
        put(0, bytes.len() as u64 | (frame.len() as u64) << 32);
        put(1, at);
        put(2, way | dropped << 32);
        for (place, bytes) in (HEAD..).zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            put(place, u64::from_ne_bytes(word));
        }
        // Release: a reader that sees the head sees the record.
        self.head.store(head.wrapping_add(needed), Ordering::Release);
    }

    /// Where a new reader begins: behind everything that was written for others.
    pub(crate) fn skip(&self) -> u64 {
        let head = self.head.load(Ordering::Acquire);
        self.tail.store(head, Ordering::Release);
        head
    }

    /// Takes the record at `tail` and copies its bytes into `bytes`. `Err` if it is not a record;
    /// the reader then skips everything in the ring.
    pub(crate) fn pop(
        &self,
        tail: &mut u64,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<CaptureRecord>, UnknownRecord> {
        let head = self.head.load(Ordering::Acquire);
        let there = head.wrapping_sub(*tail);
        if there == 0 {
            return Ok(None);
        }
        let get = |place: u64| self.word(tail.wrapping_add(place)).load(Ordering::Relaxed);
        let [lengths, at, way] = [0, 1, 2].map(get);
        let (len, original_len) = (lengths & 0xffff_ffff, lengths >> 32);
        let needed = HEAD + len.div_ceil(8);
        if there > self.len() || needed > there || len > original_len {
            *tail = self.skip();
            return Err(UnknownRecord);
        }
        bytes.clear();
        for place in HEAD..needed {
            bytes.extend_from_slice(&get(place).to_ne_bytes());
        }
        bytes.truncate(len as usize);
        *tail = tail.wrapping_add(needed);
        // Release: everything was read before the writer may write there again.
        self.tail.store(*tail, Ordering::Release);
        Ok(Some(CaptureRecord {
            at,
            direction: if way & 1 == 1 { Direction::Out } else { Direction::In },
            link: (way >> 8 & 0xff) as usize,
            original_len: original_len as usize,
            dropped: (way >> 32) as u32,
        }))
    }
}

/// The contents of the ring are not from this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnknownRecord;

/// A ring in plain memory, for tests.
#[cfg(test)]
pub(crate) struct Plain {
    words: Vec<AtomicU64>,
    marks: [AtomicU64; 3],
}

#[cfg(test)]
impl Plain {
    fn new(len: usize) -> Self {
        let word = || AtomicU64::new(0);
        Self { words: (0..len).map(|_| word()).collect(), marks: [word(), word(), word()] }
    }

    fn ring(&self) -> CaptureRing<'_> {
        let [head, tail, dropped] = &self.marks;
        CaptureRing { words: &self.words, head, tail, dropped }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn frame(n: usize) -> Vec<u8> {
        (0..n % 97).map(|i| (i * 31 + n) as u8).collect()
    }

    #[test]
    fn what_is_captured_comes_out_in_order_over_many_turns_of_the_ring() {
        let plain = Plain::new(64);
        let (ring, mut tail, mut bytes) = (plain.ring(), 0, Vec::new());
        let direction = |n| if n % 2 == 0 { Direction::In } else { Direction::Out };
        for n in 0..500 {
            ring.push(n as u64, direction(n), n % 8, &frame(n), 60);
            let record = ring.pop(&mut tail, &mut bytes).unwrap().unwrap();
            let expected = CaptureRecord {
                at: n as u64,
                direction: direction(n),
                link: n % 8,
                original_len: frame(n).len(),
                dropped: 0,
            };
            assert_eq!(record, expected);
            assert_eq!(bytes, frame(n)[..frame(n).len().min(60)]);
        }
        assert_eq!(ring.pop(&mut tail, &mut bytes), Ok(None));
    }

    #[test]
    fn a_full_ring_drops_what_comes_and_says_how_much() {
        let plain = Plain::new(16);
        let ring = plain.ring();
        for n in 0..10 {
            ring.push(n, Direction::In, 0, &[n as u8; 16], 100);
        }
        let (mut tail, mut bytes) = (0, Vec::new());
        for n in 0..3 {
            assert_eq!(ring.pop(&mut tail, &mut bytes).unwrap().unwrap().dropped, 0);
            assert_eq!(bytes, [n; 16]);
        }
        assert_eq!(ring.pop(&mut tail, &mut bytes), Ok(None));
        ring.push(10, Direction::In, 0, &[10; 16], 100);
        assert_eq!(ring.pop(&mut tail, &mut bytes).unwrap().unwrap().dropped, 7);
    }

    #[test]
    fn a_reader_that_begins_late_is_spared_what_was_for_others() {
        let plain = Plain::new(64);
        let ring = plain.ring();
        ring.push(1, Direction::In, 0, &[1; 8], 100);
        let (mut tail, mut bytes) = (ring.skip(), Vec::new());
        assert_eq!(ring.pop(&mut tail, &mut bytes), Ok(None));
        ring.push(2, Direction::In, 0, &[2; 8], 100);
        assert_eq!(ring.pop(&mut tail, &mut bytes).unwrap().unwrap().at, 2);
    }

    #[test]
    fn whatever_lies_in_the_ring_is_refused_or_read_and_never_past_it() {
        const SEEDS: u64 = if cfg!(miri) { 50 } else { 2_000 };
        for seed in 0..SEEDS {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut random = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state
            };
            let plain = Plain::new(16);
            for word in &plain.words {
                // Small numbers are the ones that may be lengths.
                let small = random() % 3 == 0;
                let word_is =
                    if small { (random() % 64) | ((random() % 64) << 32) } else { random() };
                word.store(word_is, Ordering::Relaxed);
            }
            let ring = plain.ring();
            ring.head
                .store(if seed % 2 == 0 { random() } else { random() % 32 }, Ordering::Relaxed);
            let (mut tail, mut bytes) = (random() % 16, Vec::new());
            for _ in 0..20 {
                match ring.pop(&mut tail, &mut bytes) {
                    Ok(Some(record)) => {
                        assert!(bytes.len() <= record.original_len && bytes.len() <= 128)
                    }
                    Ok(None) | Err(UnknownRecord) => break,
                }
            }
            // The writer accepts whatever the reader claims.
            ring.tail.store(random(), Ordering::Relaxed);
            (0..20).for_each(|n| ring.push(n, Direction::Out, 0, &[7; 40], 100));
        }
    }

    #[test]
    fn a_reader_beside_the_writer_sees_whole_records_only() {
        const FRAMES: usize = if cfg!(miri) { 200 } else { 100_000 };
        let plain = Plain::new(256);
        std::thread::scope(|scope| {
            let ring = plain.ring();
            scope.spawn(move || {
                (0..FRAMES).for_each(|n| ring.push(n as u64, Direction::Out, 1, &frame(n), 1000));
                ring.push(u64::MAX, Direction::Out, 1, &[], 0);
                while ring.head.load(Ordering::Relaxed) != ring.tail.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                ring.push(u64::MAX, Direction::Out, 1, &[], 0);
            });
            let (mut tail, mut bytes, mut got) = (0, Vec::new(), 0);
            loop {
                match ring.pop(&mut tail, &mut bytes) {
                    Ok(Some(record)) if record.at == u64::MAX => break,
                    Ok(Some(record)) => {
                        assert_eq!(bytes, frame(record.at as usize));
                        got += 1;
                    }
                    Ok(None) => std::thread::yield_now(),
                    Err(UnknownRecord) => panic!("the writer is this version's"),
                }
            }
            let dropped = plain.marks[2].load(Ordering::Relaxed);
            assert!(
                got + dropped <= FRAMES as u64 + 1 && got > 0,
                "{got} frames, {dropped} dropped"
            );
        });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn in_every_order_records_are_whole_and_in_order_and_the_ring_is_used_again() {
        loom::model(|| {
            // Room for two records of four words.
            let plain = Arc::new(Plain::new(8));
            let writing = Arc::clone(&plain);
            let writer = loom::thread::spawn(move || {
                for n in 1..=3 {
                    writing.ring().push(n, Direction::In, 0, &[n as u8; 8], 8);
                }
            });
            let (mut tail, mut bytes, mut last) = (0, Vec::new(), 0);
            let mut look = || {
                while let Some(record) = plain.ring().pop(&mut tail, &mut bytes).unwrap() {
                    assert_eq!(bytes, [record.at as u8; 8]);
                    assert!(record.at > last);
                    last = record.at;
                }
            };
            look();
            writer.join().unwrap();
            look();
            let dropped = plain.ring().dropped.load(Ordering::Relaxed);
            assert!(last + dropped == 3, "{last} was the last, {dropped} dropped");
        });
    }
}
