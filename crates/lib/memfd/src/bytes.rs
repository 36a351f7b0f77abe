//! Bytes of shared words. Whole words are copied by one load or store each, and a part of a word is
//! changed by one compare-and-swap: others may change the word's other bytes at the same time.
//!
//! A reader that sees a number also sees, in its next read, what the writer had written before it.

use crate::SharedMemory;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bytes of a word.
const WORD: usize = size_of::<AtomicU64>();

impl SharedMemory {
    /// Copies bytes out, from this one on. An aligned number of up to 8 bytes is never torn by
    /// one call.
    ///
    /// # Panics
    /// If they are not all within the memory.
    pub fn read(&self, at: usize, out: &mut [u8]) {
        let (head, words) = self.split(at, out.len());
        let (first, out) = out.split_at_mut(head);
        if let ([word, ..], false) = (self.from(at), first.is_empty()) {
            let word = word.load(Ordering::Relaxed).to_ne_bytes();
            first.copy_from_slice(&word[at % WORD..][..first.len()]);
        }
        let (whole, rest) = out.as_chunks_mut::<WORD>();
        let (words, last) = words.split_at(whole.len());
        for (bytes, word) in whole.iter_mut().zip(words) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        if let Some(last) = last.first() {
            let last = last.load(Ordering::Relaxed).to_ne_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
        // Pairs with the fence in `write`.
        fence(Ordering::Acquire);
    }

    /// Copies bytes in, from this one on. An aligned number of up to 8 bytes is never torn by
    /// one call.
    ///
    /// # Panics
    /// If they do not all fit into the memory.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        // Pairs with the fence in `read`.
        fence(Ordering::Release);
        let (head, words) = self.split(at, bytes.len());
        let (first, bytes) = bytes.split_at(head);
        if let ([word, ..], false) = (self.from(at), first.is_empty()) {
            change(word, at % WORD, first);
        }
        let (whole, rest) = bytes.as_chunks::<WORD>();
        let (words, last) = words.split_at(whole.len());
        for (word, bytes) in words.iter().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if let ([last, ..], false) = (last, rest.is_empty()) {
            change(last, 0, rest);
        }
    }

    /// The word that has a byte, and those behind it.
    fn from(&self, at: usize) -> &[AtomicU64] {
        self.words().get(at / WORD..).unwrap_or_default()
    }

    /// How many bytes from `at` on lie in a word that begins before them, and the words that have
    /// the others.
    fn split(&self, at: usize, len: usize) -> (usize, &[AtomicU64]) {
        let end = at.checked_add(len).filter(|&end| end <= self.words().len() * WORD);
        let end = end.expect("bytes within the memory");
        let first = at.next_multiple_of(WORD).min(end);
        (first - at, &self.words()[first / WORD..end.div_ceil(WORD).max(first / WORD)])
    }
}

/// Changes some bytes of a word, and no others.
fn change(word: &AtomicU64, at: usize, bytes: &[u8]) {
    let change = |old: u64| {
        let mut new = old.to_ne_bytes();
        new[at..][..bytes.len()].copy_from_slice(bytes);
        Some(u64::from_ne_bytes(new))
    };
    // It always gives a value.
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_from_anywhere_are_those_of_a_vector() {
        const LEN: usize = 40;
        let (memory, _fd) = SharedMemory::create("gigae-test", LEN / WORD).unwrap();
        let mut expected = [0; LEN];
        for at in 0..=LEN {
            for len in 0..=LEN - at {
                let bytes: Vec<u8> = (0..len).map(|i| (at * 7 + len * 3 + i) as u8).collect();
                memory.write(at, &bytes);
                expected[at..at + len].copy_from_slice(&bytes);
                let (mut all, mut some) = ([0; LEN], vec![0; len]);
                memory.read(0, &mut all);
                memory.read(at, &mut some);
                assert_eq!((all, some), (expected, bytes), "{len} bytes from {at} on");
            }
        }
    }

    #[test]
    fn bytes_beyond_the_end_are_refused() {
        let refused = |at, len| {
            std::panic::catch_unwind(move || {
                let (memory, _fd) = SharedMemory::create("gigae-test", 4).unwrap();
                memory.read(at, &mut vec![0; len]);
            })
            .is_err()
        };
        assert!(!refused(32, 0) && !refused(0, 32) && !refused(31, 1));
        assert!(refused(33, 0) && refused(32, 1) && refused(1, 32) && refused(usize::MAX, 2));
    }

    /// Else one of two writers would undo what the other wrote into the same word.
    #[test]
    fn writers_of_other_bytes_of_a_word_do_not_disturb_each_other() {
        let (memory, _fd) = SharedMemory::create("gigae-test", 1).unwrap();
        std::thread::scope(|scope| {
            for at in 0..4 {
                let memory = &memory;
                scope.spawn(move || {
                    for n in 0..10_000u16 {
                        memory.write(2 * at, &n.to_ne_bytes());
                        let mut read = [0; 2];
                        memory.read(2 * at, &mut read);
                        assert_eq!(u16::from_ne_bytes(read), n);
                    }
                });
            }
        });
    }
}
