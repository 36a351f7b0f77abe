//! Memory that an input costs: a counting allocator, and the bound that a target asserts.

#![allow(unsafe_code, reason = "a global allocator is unsafe to implement")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated and not freed, and the most that was since the last
    /// question.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
    /// Bytes that this thread has ever allocated; of what grows in place, by how much it grew.
    static ALL: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counted per thread. To be declared as the global one in every program
/// that runs targets, else they refuse to run:
///
/// ```
/// #[global_allocator]
/// static METER: gigae_hostile::Meter = gigae_hostile::Meter;
/// gigae_hostile::wire(b"any bytes");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Meter;

fn count(bytes: isize) {
    // A thread that is ending has none any more.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        MOST.with(|most| most.set(most.get().max(held.get())));
        ALL.with(|all| all.set(all.get() + bytes.max(0).cast_unsigned() as u64));
    });
}

// SAFETY: every call goes to the system's allocator as it came; counting neither allocates nor
// unwinds.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: passed on to the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: passed on to the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: passed on to the caller.
        unsafe { System.realloc(place, layout, size) }
    }
}

/// Bytes that this thread has allocated so far, freed ones included; of what grew, by how much.
pub(crate) fn allocated() -> u64 {
    ALL.get()
}

/// Runs something that may hold no more than `bytes` bytes beyond what was held before, at any
/// moment.
///
/// # Panics
/// If it does, or if [`Meter`] is not the global allocator.
pub(crate) fn within<R>(bytes: usize, run: impl FnOnce() -> R) -> R {
    let before = HELD.get();
    let probe = std::hint::black_box(Box::new(0_u64));
    assert!(HELD.get() > before, "declare gigae_hostile::Meter as the global allocator");
    drop(probe);
    MOST.set(before);
    let result = run();
    let most = MOST.get() - before;
    assert!(most <= bytes.cast_signed(), "{most} bytes were held at once, {bytes} are allowed");
    result
}
