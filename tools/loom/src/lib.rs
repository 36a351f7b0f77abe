//! What threads share, in every order that the memory model allows: the counters of the rings
//! between process and kernel, and the state of a C handle. These are the files of the library
//! themselves, with loom's words in place of the processor's (`make loom`). Without loom's words,
//! the files' own tests run, by themselves or under Miri (`make miri`).

#![allow(dead_code, unreachable_pub, reason = "the files are used by parts")]

#[path = "../../../crates/lib/xdp/src/ring.rs"]
mod ring;
#[path = "../../../crates/edge/capi/src/handle/word.rs"]
mod word;

#[cfg(all(test, loom))]
mod rings {
    use crate::ring::{Consumer, Offsets, Producer};
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;
    use std::mem::offset_of;
    use std::ptr::NonNull;

    const SIZE: u32 = 2;

    /// Entries that pass: the counters wrap, and each entry of the ring is used again.
    const ENTRIES: u32 = 3;

    /// The counters begin before their wrap.
    const START: u32 = u32::MAX - 1;

    #[repr(C)]
    struct RingWords {
        producer: AtomicU32,
        consumer: AtomicU32,
        flags: AtomicU32,
        entries: std::cell::UnsafeCell<[u32; SIZE as usize]>,
    }

    /// A ring, and the frames that its entries name. Loom checks that only that end touches a frame
    /// which has it according to the ring.
    struct SharedRing {
        words: RingWords,
        frames: [UnsafeCell<u32>; SIZE as usize],
    }

    // SAFETY: the ends of the ring touch the entries as their counters say; loom's cells check
    // themselves.
    unsafe impl Sync for SharedRing {}
    // SAFETY: as above.
    unsafe impl Send for SharedRing {}

    fn ring() -> (Producer<u32>, Consumer<u32>, Arc<SharedRing>) {
        let shared = Arc::new(SharedRing {
            words: RingWords {
                producer: AtomicU32::new(START),
                consumer: AtomicU32::new(START),
                flags: AtomicU32::new(0),
                entries: [0; SIZE as usize].into(),
            },
            frames: [UnsafeCell::new(0), UnsafeCell::new(0)],
        });
        let offsets = Offsets {
            producer: offset_of!(RingWords, producer),
            consumer: offset_of!(RingWords, consumer),
            flags: Some(offset_of!(RingWords, flags)),
            entries: offset_of!(RingWords, entries),
        };
        let base = NonNull::from(&shared.words).cast();
        // SAFETY: both ends keep the memory; its parts lie at these offsets; there is one producer
        // and one consumer.
        unsafe {
            let producer = Producer::new(base, &offsets, SIZE, Box::new(Arc::clone(&shared)));
            (producer, Consumer::new(base, &offsets, SIZE, Box::new(Arc::clone(&shared))), shared)
        }
    }

    #[test]
    fn every_entry_passes_once_with_its_frame_and_the_frame_comes_back() {
        loom::model(|| {
            let (mut producer, mut consumer, shared) = ring();
            let frames = Arc::clone(&shared);
            let sender = thread::spawn(move || {
                for value in 0..ENTRIES {
                    while !producer.push(value) {
                        thread::yield_now();
                    }
                    // SAFETY: the ring had room, so the consumer has given this frame back.
                    frames.frames[(value % SIZE) as usize]
                        .with_mut(|frame| unsafe { *frame = value });
                    producer.publish();
                }
                assert!(producer.pending() <= SIZE);
            });
            let mut expected = 0;
            while expected < ENTRIES {
                if consumer.available() == 0 {
                    thread::yield_now();
                }
                while let Some(value) = consumer.pop() {
                    assert_eq!(value, expected);
                    let frame = &shared.frames[(value % SIZE) as usize];
                    // SAFETY: the entry was published, so the producer has left this frame alone.
                    assert_eq!(frame.with(|frame| unsafe { *frame }), value);
                    expected += 1;
                }
                consumer.release();
            }
            sender.join().unwrap();
        });
    }
}

#[cfg(all(test, loom))]
mod handles {
    use crate::word::{Phase, Word};
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    const MASK: usize = usize::MAX >> 13;

    struct HandleSlot {
        word: Word,
        object: UnsafeCell<u32>,
    }

    // SAFETY: the object is touched by who has entered; loom's cells check that.
    unsafe impl Sync for HandleSlot {}
    // SAFETY: as above.
    unsafe impl Send for HandleSlot {}

    impl HandleSlot {
        fn used_once() -> Arc<Self> {
            let slot = Self { word: Word::new(), object: UnsafeCell::new(0) };
            assert_eq!(slot.word.occupy(MASK), Some(1));
            slot.word.leave(1, Phase::Idle);
            Arc::new(slot)
        }

        /// A call that was let in.
        fn count(&self) -> u32 {
            // SAFETY: entered.
            self.object.with_mut(|object| unsafe {
                *object += 1;
                *object
            })
        }
    }

    #[test]
    fn one_of_two_calls_at_once_is_refused_or_comes_after_the_other() {
        loom::model(|| {
            let slot = HandleSlot::used_once();
            let other = Arc::clone(&slot);
            let call = |slot: &HandleSlot| match slot.word.enter(1, Phase::Idle) {
                Ok(()) => {
                    let count = slot.count();
                    slot.word.leave(1, Phase::Idle);
                    count
                }
                Err(seen) => {
                    assert!(matches!(seen, Some(Phase::Busy)), "{seen:?}");
                    0
                }
            };
            let second = thread::spawn(move || call(&other));
            let (one, two) = (call(&slot), second.join().unwrap());
            assert!(matches!((one, two), (1, 0) | (0, 1) | (1, 2) | (2, 1)), "{one} and {two}");
        });
    }

    #[test]
    fn a_handle_that_is_closed_while_another_thread_calls_is_refused_and_its_slot_used_again() {
        loom::model(|| {
            let slot = HandleSlot::used_once();
            let other = Arc::clone(&slot);
            let caller = thread::spawn(move || {
                if other.word.enter(1, Phase::Idle).is_ok() {
                    other.count();
                    other.word.leave(1, Phase::Idle);
                }
            });
            if slot.word.enter(1, Phase::Idle).is_ok() {
                // Taken out, and another put in by a second use of the slot.
                // SAFETY: entered.
                slot.object.with_mut(|object| unsafe { *object = 0 });
                slot.word.leave(1, Phase::Free);
                assert_eq!(slot.word.occupy(MASK), Some(2));
                // SAFETY: occupied.
                slot.object.with_mut(|object| unsafe { *object = 100 });
                slot.word.leave(2, Phase::Idle);
                assert_eq!(slot.word.enter(1, Phase::Idle), Err(None));
                caller.join().unwrap();
                assert_eq!(slot.word.enter(2, Phase::Idle), Ok(()));
                assert_eq!(slot.count(), 101, "the former handle did nothing to it");
            } else {
                caller.join().unwrap();
            }
        });
    }

    #[test]
    fn a_free_place_is_given_to_one_of_two() {
        loom::model(|| {
            let slot = HandleSlot { word: Word::new(), object: UnsafeCell::new(0) };
            let slot = Arc::new(slot);
            let other = Arc::clone(&slot);
            let take = |slot: &HandleSlot| {
                slot.word.occupy(MASK).map(|uses| {
                    slot.count();
                    uses
                })
            };
            let second = thread::spawn(move || take(&other));
            let (one, two) = (take(&slot), second.join().unwrap());
            assert!(matches!((one, two), (Some(1), None) | (None, Some(1))), "{one:?} and {two:?}");
        });
    }
}
