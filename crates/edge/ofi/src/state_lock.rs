//! State that one thread uses at a time: behind a lock, or because the program promised it.
//!
//! A program that opens a domain with `FI_THREAD_DOMAIN` serializes its calls to all objects of the
//! domain itself, as Open MPI does for a job without threads. A lock then protects nothing, and
//! costs two atomic instructions each time. So it is left out, and only a flag remains, which finds
//! two calls at once in most cases.

use crate::object::lock;
use crate::sys;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Which threads of the program call at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Threads {
    /// Any.
    #[default]
    Several,
    /// No two within a domain.
    Serialized,
}

impl Threads {
    /// What a program asked for. All levels but `FI_THREAD_DOMAIN` let two threads use objects that
    /// share state: memory is registered with all endpoints of a domain.
    pub(crate) fn asked(threading: sys::fi_threading) -> Self {
        if threading == sys::FI_THREAD_DOMAIN { Self::Serialized } else { Self::Several }
    }
}

/// What keeps two threads apart.
enum Guard {
    Lock(Mutex<()>),
    /// The program. Set while the state is used.
    Program(AtomicBool),
}

/// See the module's description.
pub(crate) struct StateLock<T> {
    guard: Guard,
    state: UnsafeCell<T>,
}

// SAFETY: the state is used by one thread at a time: a lock sees to it, or the program promised it.
unsafe impl<T: Send> Sync for StateLock<T> {}

impl<T> StateLock<T> {
    pub(crate) fn new(state: T, threads: Threads) -> Self {
        let guard = match threads {
            Threads::Several => Guard::Lock(Mutex::new(())),
            Threads::Serialized => Guard::Program(AtomicBool::new(false)),
        };
        Self { guard, state: UnsafeCell::new(state) }
    }

    /// # Panics
    /// If the program breaks its promise, and that is noticed. Entries of C then return
    /// `FI_EOTHER`.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_, T> {
        let held = match &self.guard {
            Guard::Lock(mutex) => Held::Lock { _guard: lock(mutex) },
            Guard::Program(used) => {
                assert!(
                    !used.load(Ordering::Relaxed),
                    "two calls at a time in a domain that was opened with FI_THREAD_DOMAIN"
                );
                used.store(true, Ordering::Relaxed);
                Held::Program(used)
            }
        };
        Locked { state: &self.state, _held: held }
    }
}

/// Ends the use of the state when it is dropped.
enum Held<'a> {
    Lock { _guard: MutexGuard<'a, ()> },
    Program(&'a AtomicBool),
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Self::Program(used) = self {
            used.store(false, Ordering::Relaxed);
        }
    }
}

/// The state, for one thread.
pub(crate) struct Locked<'a, T> {
    state: &'a UnsafeCell<T>,
    _held: Held<'a>,
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: nobody else has it until this is dropped.
        unsafe { &*self.state.get() }
    }
}

impl<T> DerefMut for Locked<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: likewise.
        unsafe { &mut *self.state.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn several_threads_take_turns() {
        let state = StateLock::new(0, Threads::Several);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| *state.lock() += 1));
            }
        });
        assert_eq!(*state.lock(), 4_000);
    }

    #[test]
    fn a_second_use_at_a_time_is_refused_where_the_program_promised_that_there_is_none() {
        let state = StateLock::new(0, Threads::Serialized);
        let first = state.lock();
        assert!(catch_unwind(AssertUnwindSafe(|| *state.lock() += 1)).is_err());
        drop(first);
        *state.lock() += 1;
        // The use that was refused has not ended the first one.
        assert_eq!(*state.lock(), 1);
    }

    #[test]
    fn only_a_whole_domain_does_without_locks() {
        let levels = 0..6;
        let without = levels.filter(|&level| Threads::asked(level) == Threads::Serialized);
        assert!(without.eq([sys::FI_THREAD_DOMAIN]));
    }
}
