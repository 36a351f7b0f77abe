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

    /// Entries that pass: the counters wrap, and each place of the ring is used again.
    const ENTRIES: u32 = 3;

    /// The counters begin before their wrap.
    const START: u32 = u32::MAX - 1;

    #[repr(C)]
    struct Words {
        producer: AtomicU32,
        consumer: AtomicU32,
        flags: AtomicU32,
        entries: std::cell::UnsafeCell<[u32; SIZE as usize]>,
    }

    /// A ring, and the frames that its entries name. Loom checks that only that end touches a frame
    /// which has it according to the ring.
    struct Shared {
        words: Words,
        frames: [UnsafeCell<u32>; SIZE as usize],
    }

    // SAFETY: the ends of the ring touch the entries as their counters say; loom's cells check
    // themselves.
    unsafe impl Sync for Shared {}
    // SAFETY: as above.
    unsafe impl Send for Shared {}

    fn ring() -> (Producer<u32>, Consumer<u32>, Arc<Shared>) {
        let shared = Arc::new(Shared {
            words: Words {
                producer: AtomicU32::new(START),
                consumer: AtomicU32::new(START),
                flags: AtomicU32::new(0),
                entries: [0; SIZE as usize].into(),
            },
            frames: [UnsafeCell::new(0), UnsafeCell::new(0)],
        });
        let offsets = Offsets {
            producer: offset_of!(Words, producer),
            consumer: offset_of!(Words, consumer),
            flags: Some(offset_of!(Words, flags)),
            entries: offset_of!(Words, entries),
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

    struct Place {
        word: Word,
        object: UnsafeCell<u32>,
    }

    // SAFETY: the object is touched by who has entered; loom's cells check that.
    unsafe impl Sync for Place {}
    // SAFETY: as above.
    unsafe impl Send for Place {}

    impl Place {
        fn used_once() -> Arc<Self> {
            let place = Self { word: Word::new(), object: UnsafeCell::new(0) };
            assert_eq!(place.word.occupy(MASK), Some(1));
            place.word.leave(1, Phase::Idle);
            Arc::new(place)
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
            let place = Place::used_once();
            let other = Arc::clone(&place);
            let call = |place: &Place| match place.word.enter(1, Phase::Idle) {
                Ok(()) => {
                    let count = place.count();
                    place.word.leave(1, Phase::Idle);
                    count
                }
                Err(seen) => {
                    assert!(matches!(seen, Some(Phase::Busy)), "{seen:?}");
                    0
                }
            };
            let second = thread::spawn(move || call(&other));
            let (one, two) = (call(&place), second.join().unwrap());
            assert!(matches!((one, two), (1, 0) | (0, 1) | (1, 2) | (2, 1)), "{one} and {two}");
        });
    }

    #[test]
    fn a_handle_that_is_closed_while_another_thread_calls_is_refused_and_its_place_used_again() {
        loom::model(|| {
            let place = Place::used_once();
            let other = Arc::clone(&place);
            let caller = thread::spawn(move || {
                if other.word.enter(1, Phase::Idle).is_ok() {
                    other.count();
                    other.word.leave(1, Phase::Idle);
                }
            });
            if place.word.enter(1, Phase::Idle).is_ok() {
                // Taken out, and another put in by a second use of the place.
                // SAFETY: entered.
                place.object.with_mut(|object| unsafe { *object = 0 });
                place.word.leave(1, Phase::Free);
                assert_eq!(place.word.occupy(MASK), Some(2));
                // SAFETY: occupied.
                place.object.with_mut(|object| unsafe { *object = 100 });
                place.word.leave(2, Phase::Idle);
                assert_eq!(place.word.enter(1, Phase::Idle), Err(None));
                caller.join().unwrap();
                assert_eq!(place.word.enter(2, Phase::Idle), Ok(()));
                assert_eq!(place.count(), 101, "the former handle did nothing to it");
            } else {
                caller.join().unwrap();
            }
        });
    }

    #[test]
    fn a_free_place_is_given_to_one_of_two() {
        loom::model(|| {
            let place = Place { word: Word::new(), object: UnsafeCell::new(0) };
            let place = Arc::new(place);
            let other = Arc::clone(&place);
            let take = |place: &Place| {
                place.word.occupy(MASK).map(|uses| {
                    place.count();
                    uses
                })
            };
            let second = thread::spawn(move || take(&other));
            let (one, two) = (take(&place), second.join().unwrap());
            assert!(matches!((one, two), (Some(1), None) | (None, Some(1))), "{one:?} and {two:?}");
        });
    }
}
