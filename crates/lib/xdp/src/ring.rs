//! One side of a ring that is shared with the kernel (Linux's `networking/af_xdp.rst`, "Rings").
//!
//! Each ring has one producer and one consumer. Their positions are 32-bit counters that only grow,
//! and wrap. A position masked by the ring's size is the index of an entry. A side writes its own
//! counter with *release* after it has written or read entries. It reads the other's with *acquire*
//! before it reads or overwrites them. Each side keeps a copy of both counters, so the shared cache
//! lines are touched once per batch and not once per entry.
//!
//! The kernel's values are not trusted, in release builds too: positions are masked, and distances
//! are cut to the ring's size.
//!
//! The rings know nothing of sockets. Their memory is a kernel mapping or, in tests, plain memory.

use std::any::Any;
use std::ptr::NonNull;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

/// The kernel asks to be woken (linux/if_xdp.h, `XDP_RING_NEED_WAKEUP`).
const NEED_WAKEUP: u32 = 1;

/// Offsets of the parts of a ring in its memory, in bytes (`XDP_MMAP_OFFSETS`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offsets {
    pub(crate) producer: usize,
    pub(crate) consumer: usize,
    /// Missing on kernels before 5.4.
    pub(crate) flags: Option<usize>,
    pub(crate) entries: usize,
}

/// Both counters, the flags and the entries.
struct RingMemory<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: Option<NonNull<AtomicU32>>,
    entries: NonNull<T>,
    size: u32,
    /// Keeps the memory alive.
    _memory: Box<dyn Any + Send>,
}

// SAFETY: the pointers lead into `_memory`, which is Send itself and moves with them; the counters
// are atomics, and entries are touched by the one owner of this side of the ring only.
unsafe impl<T: Send> Send for RingMemory<T> {}

impl<T: Copy> RingMemory<T> {
    /// # Safety
    /// `base` must stay valid, readable and writable for as long as `memory` lives and hold a ring
    /// of `size` entries (a power of two) at the given offsets, all suitably aligned.
    unsafe fn new(
        base: NonNull<u8>,
        offsets: &Offsets,
        size: u32,
        memory: Box<dyn Any + Send>,
    ) -> Self {
        assert!(size.is_power_of_two(), "a ring of {size} entries");
        // SAFETY: the caller vouches for the offsets.
        unsafe {
            Self {
                producer: base.add(offsets.producer).cast(),
                consumer: base.add(offsets.consumer).cast(),
                flags: offsets.flags.map(|at| base.add(at).cast()),
                entries: base.add(offsets.entries).cast(),
                size,
                _memory: memory,
            }
        }
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: valid and aligned by the contract of `new`.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: valid and aligned by the contract of `new`.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn entry(&self, position: u32) -> NonNull<T> {
        // SAFETY: a masked position is below `size`, so the entry lies in the ring.
        unsafe { self.entries.add((position & (self.size - 1)) as usize) }
    }

    #[inline]
    fn needs_wakeup(&self) -> bool {
        // SAFETY: valid and aligned by the contract of `new`.
        self.flags.is_none_or(|f| unsafe { f.as_ref() }.load(Ordering::Relaxed) & NEED_WAKEUP != 0)
    }
}

/// The producing side: the transmit and fill rings.
pub(crate) struct Producer<T> {
    shared: RingMemory<T>,
    /// Position of the next entry to write.
    head: u32,
    /// The consumer's position as last read.
    tail: u32,
}

impl<T: Copy> Producer<T> {
    /// # Safety
    /// As for [`RingMemory::new`], and this must be the only producer.
    pub(crate) unsafe fn new(
        base: NonNull<u8>,
        offsets: &Offsets,
        size: u32,
        memory: Box<dyn Any + Send>,
    ) -> Self {
        // SAFETY: passed on to the caller.
        let shared = unsafe { RingMemory::new(base, offsets, size, memory) };
        let head = shared.producer().load(Ordering::Relaxed);
        let tail = shared.consumer().load(Ordering::Acquire);
        Self { shared, head, tail }
    }

    /// Writes an entry that the consumer does not see yet. False if the ring is full.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> bool {
        if self.head.wrapping_sub(self.tail) >= self.shared.size {
            self.tail = self.shared.consumer().load(Ordering::Acquire);
            if self.head.wrapping_sub(self.tail) >= self.shared.size {
                return false;
            }
        }
        // SAFETY: the entry lies in the ring, and the consumer is not at it: fewer than `size`
        // entries lie between the two positions.
        unsafe { self.shared.entry(self.head).write(value) };
        self.head = self.head.wrapping_add(1);
        true
    }

    /// Makes all written entries visible to the consumer.
    #[inline]
    pub(crate) fn publish(&self) {
        self.shared.producer().store(self.head, Ordering::Release);
    }

    /// Entries written and not yet consumed; at most the ring's size.
    #[inline]
    pub(crate) fn pending(&mut self) -> u32 {
        if self.head == self.tail {
            return 0;
        }
        self.tail = self.shared.consumer().load(Ordering::Acquire);
        self.head.wrapping_sub(self.tail).min(self.shared.size)
    }

    /// Whether the consumer must be woken by a system call.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.shared.needs_wakeup()
    }
}

/// The consuming side: the receive and completion rings.
pub(crate) struct Consumer<T> {
    shared: RingMemory<T>,
    /// Position of the next entry to read.
    tail: u32,
    /// The producer's position as last read.
    head: u32,
}

impl<T: Copy> Consumer<T> {
    /// # Safety
    /// As for [`RingMemory::new`], and this must be the only consumer.
    pub(crate) unsafe fn new(
        base: NonNull<u8>,
        offsets: &Offsets,
        size: u32,
        memory: Box<dyn Any + Send>,
    ) -> Self {
        // SAFETY: passed on to the caller.
        let shared = unsafe { RingMemory::new(base, offsets, size, memory) };
        let tail = shared.consumer().load(Ordering::Relaxed);
        Self { shared, tail, head: tail }
    }

    /// Entries ready to be popped. Reads the producer's position.
    #[inline]
    pub(crate) fn available(&mut self) -> u32 {
        self.head = self.shared.producer().load(Ordering::Acquire);
        let ready = self.head.wrapping_sub(self.tail);
        if ready > self.shared.size {
            // No correct producer does this. Only what lies within the ring can be real.
            self.head = self.tail.wrapping_add(self.shared.size);
            return self.shared.size;
        }
        ready
    }

    /// The next of the entries that [`available`](Self::available) counted.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.tail == self.head {
            return None;
        }
        // SAFETY: the entry lies in the ring and was published (acquire in `available`).
        let value = unsafe { self.shared.entry(self.tail).read() };
        self.tail = self.tail.wrapping_add(1);
        Some(value)
    }

    /// Gives the popped entries back to the producer.
    #[inline]
    pub(crate) fn release(&self) {
        self.shared.consumer().store(self.tail, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    const SIZE: u32 = 4;
    const OFFSETS: Offsets = Offsets { producer: 0, consumer: 64, flags: Some(128), entries: 192 };

    /// Entries that two threads pass. Miri takes a thousand times as long.
    const MANY: u64 = if cfg!(miri) { 100 } else { 100_000 };

    /// Both ends of a ring in plain memory, which exists as long as one of them. The counters begin
    /// at `start`.
    fn ring(start: u32) -> (Producer<u64>, Consumer<u64>, NonNull<u8>) {
        let words: Arc<Vec<AtomicU64>> = Arc::new((0..64).map(|_| AtomicU64::new(0)).collect());
        let base = NonNull::new(words.as_ptr().cast_mut().cast::<u8>()).unwrap();
        word(base, OFFSETS.producer).store(start, Ordering::Relaxed);
        word(base, OFFSETS.consumer).store(start, Ordering::Relaxed);
        // SAFETY: both keep the memory, which is aligned to 8, may be written through a shared
        // pointer and holds 192 + 4 * 8 bytes; one producer and one consumer are made.
        unsafe {
            let producer = Producer::new(base, &OFFSETS, SIZE, Box::new(Arc::clone(&words)));
            (producer, Consumer::new(base, &OFFSETS, SIZE, Box::new(words)), base)
        }
    }

    fn word(base: NonNull<u8>, offset: usize) -> &'static AtomicU32 {
        // SAFETY: the offsets above lie in memory that the ends of the ring keep, as every test
        // does with them.
        unsafe { base.add(offset).cast::<AtomicU32>().as_ref() }
    }

    #[test]
    fn entries_arrive_in_order_across_the_wrap_of_the_counters() {
        let (mut producer, mut consumer, _) = ring(u32::MAX - 5);
        for value in 0..20 {
            assert!(producer.push(value));
            producer.publish();
            assert_eq!(consumer.available(), 1);
            assert_eq!(consumer.pop(), Some(value));
            consumer.release();
        }
    }

    #[test]
    fn nothing_is_seen_before_it_is_published() {
        let (mut producer, mut consumer, _) = ring(0);
        assert!(producer.push(7));
        assert_eq!((consumer.available(), consumer.pop()), (0, None));
        producer.publish();
        assert_eq!((consumer.available(), consumer.pop()), (1, Some(7)));
    }

    #[test]
    fn a_full_ring_takes_no_more_until_entries_are_released() {
        let (mut producer, mut consumer, _) = ring(u32::MAX - 1);
        for value in 0..u64::from(SIZE) {
            assert!(producer.push(value));
        }
        producer.publish();
        assert!(!producer.push(9));
        assert_eq!(producer.pending(), SIZE);
        assert_eq!(consumer.available(), SIZE);
        assert_eq!(consumer.pop(), Some(0));
        assert!(!producer.push(9), "popped, but not released");
        consumer.release();
        assert!(producer.push(9));
    }

    #[test]
    fn a_position_that_no_kernel_writes_stays_within_the_ring() {
        let (mut producer, mut consumer, base) = ring(10);
        word(base, OFFSETS.producer).store(3_000_000_000, Ordering::Relaxed);
        assert_eq!(consumer.available(), SIZE);
        assert_eq!((0..100).map_while(|_| consumer.pop()).count() as u32, SIZE);
        assert!(producer.push(1));
        word(base, OFFSETS.consumer).store(3_000_000_000, Ordering::Relaxed);
        assert!(producer.pending() <= SIZE);
    }

    #[test]
    fn whatever_a_kernel_writes_into_its_counter_no_entry_outside_the_ring_is_touched() {
        let odd = [0, 1, 3, 4, 5, 1 << 31, u32::MAX - 1, u32::MAX];
        for start in odd {
            for wrong in odd {
                let (mut producer, mut consumer, base) = ring(start);
                word(base, OFFSETS.producer).store(wrong, Ordering::Relaxed);
                let ready = consumer.available();
                assert!(ready <= SIZE && ready == wrong.wrapping_sub(start).min(SIZE));
                assert_eq!(std::iter::from_fn(|| consumer.pop()).count() as u32, ready);
                consumer.release();
                word(base, OFFSETS.consumer).store(wrong, Ordering::Relaxed);
                let pushed = (0..100).take_while(|&value| producer.push(value)).count() as u32;
                assert!(pushed <= 2 * SIZE, "{pushed} entries with {start} and {wrong}");
                assert!(producer.pending() <= SIZE);
                producer.publish();
            }
        }
    }

    #[test]
    fn the_wakeup_flag_is_the_kernels() {
        let (producer, _, base) = ring(0);
        assert!(!producer.needs_wakeup());
        word(base, OFFSETS.flags.unwrap()).store(NEED_WAKEUP, Ordering::Relaxed);
        assert!(producer.needs_wakeup());
    }

    #[test]
    fn two_threads_pass_every_entry_once() {
        let (mut producer, mut consumer, _) = ring(u32::MAX - 1000);
        let sender = std::thread::spawn(move || {
            for value in 0..MANY {
                while !producer.push(value) {
                    std::thread::yield_now();
                }
                producer.publish();
            }
        });
        let mut expected = 0;
        while expected < MANY {
            if consumer.available() == 0 {
                std::thread::yield_now();
            }
            while let Some(value) = consumer.pop() {
                assert_eq!(value, expected);
                expected += 1;
            }
            consumer.release();
        }
        sender.join().unwrap();
    }
}
