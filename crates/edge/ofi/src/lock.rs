//! The lock of what a program's calls change: an endpoint, a list of endpoints, a queue's entries.
//! What it costs depends on what the program promised when it asked for its threading model.
//!
//! | the program asks for | a call | a call for the whole domain |
//! |---|---|---|
//! | `FI_THREAD_SAFE` and others | mutex | mutex |
//! | `FI_THREAD_COMPLETION` | two stores, two loads | mutex, and membarrier(2) |
//! | `FI_THREAD_DOMAIN` | two stores, two loads | the same |
//!
//! With `FI_THREAD_COMPLETION`, one thread at a time uses an endpoint and its queues and counters.
//! But another thread may register memory with the domain meanwhile, which concerns all endpoints.
//! Such a call is a *visit*. A call writes `inside` and then reads `visited`; a visit writes
//! `visited` and then reads `inside`. Each must see the other's write or make its own visible. The
//! visit's membarrier is the fence of both sides, so a call needs no atomic instruction.

use crate::object::lock;
use crate::sys;
use rustix::thread::{MembarrierCommand, membarrier};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// How often a visit yields its processor to a call that is inside, before it sleeps. A call whose
/// thread has a lower priority gets no processor from a thread that only yields.
const YIELDS: u32 = 100;

/// Length of such a sleep.
const NAP: Duration = Duration::from_micros(50);

/// Which calls a program makes at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Threads {
    /// Any thread calls anything.
    #[default]
    Any,
    /// One thread at a time uses an endpoint and all that is bound to it.
    Completion,
    /// One thread at a time uses anything of the domain.
    Domain,
}

impl Threads {
    /// What a program promises that asks for this threading model and these capabilities.
    ///
    /// A counter of what peers write to a memory belongs to all endpoints of the domain. Where a
    /// program may have such a counter (`FI_RMA_EVENT`), a thread that reads it makes progress at
    /// endpoints of other threads.
    pub(crate) fn promised(threading: sys::fi_threading, caps: u64) -> Self {
        match threading {
            sys::FI_THREAD_DOMAIN => Self::Domain,
            sys::FI_THREAD_COMPLETION if caps & sys::FI_RMA_EVENT == 0 && can_visit() => {
                Self::Completion
            }
            _ => Self::Any,
        }
    }
}

/// Registers this process for membarrier(2). False if the kernel does not offer it. In a process
/// with several threads this takes up to some 30 ms.
fn can_visit() -> bool {
    membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
}

/// See the module's description.
pub(crate) struct Lock<T> {
    threads: Threads,
    /// A call is inside without the mutex.
    inside: AtomicBool,
    /// A visit is inside or about to be. Calls take the mutex.
    visited: AtomicBool,
    mutex: Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: one guard at a time reaches the value, as the guard's making says; so the value is only
// ever moved between threads.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// # Safety
    /// The program keeps the promise for the calls that use the value, as it keeps that its
    /// pointers are valid.
    pub(crate) unsafe fn new(threads: Threads, value: T) -> Self {
        let (inside, visited) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { threads, inside, visited, mutex: Mutex::new(()), value: UnsafeCell::new(value) }
    }

    /// For a call that uses the object itself.
    ///
    /// # Panics
    /// If another call is inside although the program promised that there is none. This is seen
    /// if the other thread's write is.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        if self.threads == Threads::Any {
            return self.lock_by_mutex();
        }
        if self.inside.load(Ordering::Relaxed) {
            promise_broken();
        }
        self.inside.store(true, Ordering::Relaxed);
        // Only the compiler must not reorder: a visit's membarrier does the rest.
        compiler_fence(Ordering::SeqCst);
        // Acquire: sees what the visit before did.
        if self.visited.load(Ordering::Acquire) {
            return self.lock_beside_visits();
        }
        Guard { lock: self, mutex: None, visits: false, value: PhantomData }
    }

    #[cold]
    #[inline(never)]
    fn lock_beside_visits(&self) -> Guard<'_, T> {
        self.inside.store(false, Ordering::Release);
        self.lock_by_mutex()
    }

    #[inline(never)]
    fn lock_by_mutex(&self) -> Guard<'_, T> {
        Guard { lock: self, mutex: Some(lock(&self.mutex)), visits: false, value: PhantomData }
    }

    /// For a call that concerns all endpoints of a domain.
    ///
    /// # Panics
    /// If the kernel refuses membarrier(2), which it granted before.
    pub(crate) fn visit(&self) -> Guard<'_, T> {
        match self.threads {
            Threads::Any | Threads::Domain => self.lock(),
            Threads::Completion => {
                let mutex = lock(&self.mutex);
                self.visited.store(true, Ordering::SeqCst);
                let mutex = Some(mutex);
                let guard = Guard { lock: self, mutex, visits: true, value: PhantomData };
                let passed = membarrier(MembarrierCommand::PrivateExpedited);
                passed.expect("the process is registered for membarrier(2)");
                // Acquire: sees what the call did that was inside.
                let mut yields = 0;
                while self.inside.load(Ordering::Acquire) {
                    yields += 1;
                    if yields > YIELDS {
                        std::thread::sleep(NAP);
                    } else {
                        std::thread::yield_now();
                    }
                }
                guard
            }
        }
    }
}

#[cold]
#[inline(never)]
fn promise_broken() -> ! {
    panic!(
        "two threads are in calls at once, but the program asked for FI_THREAD_DOMAIN or \
         FI_THREAD_COMPLETION; ask for FI_THREAD_SAFE"
    );
}

/// The value, for one call.
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    mutex: Option<MutexGuard<'a, ()>>,
    visits: bool,
    /// Threads may share a guard only if they may share the value.
    value: PhantomData<&'a mut T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard alone reaches the value: it has the mutex, and no call is inside
        // without; or it is inside, no visit is, and the program promised that no other call is.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.mutex.is_none() {
            self.lock.inside.store(false, Ordering::Release);
        } else if self.visits {
            // The mutex comes free after this.
            self.lock.visited.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    fn new<T>(threads: Threads, value: T) -> Lock<T> {
        // SAFETY: the tests call as they promise, or leave the value alone.
        unsafe { Lock::new(threads, value) }
    }

    /// Rounds of each thread.
    const ROUNDS: u32 = 20_000;

    /// Adds to both numbers, which are alike whenever no guard is there.
    fn add(guard: &mut Guard<'_, (u32, u32)>) {
        assert_eq!(guard.0, guard.1);
        guard.0 += 1;
        std::hint::black_box(&mut **guard);
        guard.1 += 1;
    }

    #[test]
    fn any_threads_take_turns_where_the_program_promised_nothing() {
        let value = new(Threads::Any, (0, 0));
        std::thread::scope(|scope| {
            for visits in [false, true] {
                let value = &value;
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        add(&mut if visits { value.visit() } else { value.lock() });
                    }
                });
            }
        });
        assert_eq!(*value.lock(), (2 * ROUNDS, 2 * ROUNDS));
    }

    #[test]
    fn visits_take_turns_with_the_calls_of_one_thread() {
        assert!(can_visit());
        let value = new(Threads::Completion, (0, 0));
        let done = AtomicU32::new(0);
        let calls = std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS / 20 {
                        add(&mut value.visit());
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }
            let mut calls = 0;
            while done.load(Ordering::Relaxed) < 2 || calls < ROUNDS {
                add(&mut value.lock());
                calls += 1;
            }
            calls
        });
        assert_eq!(value.lock().0, 2 * (ROUNDS / 20) + calls);
    }

    #[test]
    #[should_panic = "ask for FI_THREAD_SAFE"]
    fn a_broken_promise_is_found_out() {
        let value = new(Threads::Domain, 0);
        let _inside = value.lock();
        value.lock();
    }

    #[test]
    fn a_call_that_panics_leaves() {
        for threads in [Threads::Any, Threads::Completion, Threads::Domain] {
            let value = new(threads, 0);
            let call = std::panic::AssertUnwindSafe(|| {
                let _inside = value.lock();
                panic!("on purpose");
            });
            assert!(std::panic::catch_unwind(call).is_err());
            *value.lock() += 1;
        }
    }

    #[test]
    fn what_is_promised_depends_on_threading_and_counters_of_memory() {
        let events = sys::FI_RMA | sys::FI_RMA_EVENT;
        for (threading, caps, promised) in [
            (0, sys::FI_MSG, Threads::Any),
            (sys::FI_THREAD_SAFE, sys::FI_MSG, Threads::Any),
            (sys::FI_THREAD_DOMAIN, events, Threads::Domain),
            (sys::FI_THREAD_COMPLETION, sys::FI_RMA, Threads::Completion),
            (sys::FI_THREAD_COMPLETION, events, Threads::Any),
        ] {
            assert_eq!(Threads::promised(threading, caps), promised, "{threading}, {caps:x}");
        }
    }
}
