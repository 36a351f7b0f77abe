//! What the lock guards, and the program's handle of it.

use crate::gate::{Entered, Gate, barrier};
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// What the thread does for an endpoint.
pub trait Attend: Send {
    /// Does what is due, without waiting. Returns early once `wanted` is true: the program waits.
    /// `calls` is [`Owner::calls`] when the program left.
    fn attend(&mut self, calls: u32, wanted: &dyn Fn() -> bool) -> NextTurn;
}

/// When the thread is needed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextTurn {
    /// Time until the next deadline. `None` if only a frame can change anything.
    pub due: Option<Duration>,
    /// The program itself sleeps on the endpoint's descriptor, and the same frames wake it. The
    /// thread leaves the endpoint to it for a [tick](crate::TICK).
    pub program_watches: bool,
}

/// The words of a lock, in their own memory.
struct LockWords {
    gate: NonNull<Gate>,
    /// In a page that the kernel clears in a child (madvise(2)). Otherwise on the heap.
    guarded: bool,
}

impl LockWords {
    /// With a page, a fork(2) is detected.
    fn new(guarded: bool) -> std::io::Result<Self> {
        let gate = Gate::new(!barrier::is_there());
        let guarded = guarded && cfg!(not(any(loom, miri)));
        if !guarded {
            return Ok(Self { gate: NonNull::from(Box::leak(Box::new(gate))), guarded });
        }
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let (len, access) = (size_of::<Gate>(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a fresh anonymous mapping aliases nothing.
        let page = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, MapFlags::PRIVATE)? };
        // SAFETY: the mapping was just made, is long enough, and of a page's alignment; no other
        // code has it. Before Linux 4.14 the advice is unknown: a child is not noticed then.
        unsafe {
            let _ = madvise(page, len, Advice::LinuxWipeOnFork);
            page.cast::<Gate>().write(gate);
        }
        Ok(Self { gate: NonNull::new(page.cast()).expect("mmap returns no null"), guarded })
    }

    #[inline(always)]
    fn gate(&self) -> &Gate {
        // SAFETY: it is there until this is dropped. All fields are atomics, of which all bits are
        // numbers, so the kernel may clear them in a child.
        unsafe { self.gate.as_ref() }
    }
}

impl Drop for LockWords {
    fn drop(&mut self) {
        if self.guarded {
            // SAFETY: the mapping is this object's own, and nothing borrows from it any more.
            let _ = unsafe { rustix::mm::munmap(self.gate.as_ptr().cast(), size_of::<Gate>()) };
        } else {
            // SAFETY: it came from a box, and nothing borrows from it any more.
            drop(unsafe { Box::from_raw(self.gate.as_ptr()) });
        }
    }
}

// SAFETY: the words are atomics, in memory of the whole process.
unsafe impl Send for LockWords {}
// SAFETY: as above.
unsafe impl Sync for LockWords {}

/// State that the program and the thread share.
pub(crate) struct SharedState<T> {
    words: LockWords,
    value: UnsafeCell<T>,
}

// SAFETY: only a thread inside the gate reaches the value, and the gate lets one in at a time; so
// the value is only ever moved between threads.
unsafe impl<T: Send> Sync for SharedState<T> {}

impl<T> SharedState<T> {
    #[inline(always)]
    pub(crate) fn gate(&self) -> &Gate {
        self.words.gate()
    }
}

impl<T: Attend> SharedState<T> {
    /// The thread is inside; it attends and leaves.
    pub(crate) fn attend_inside(&self) -> NextTurn {
        /// A turn that panics also ends, or the program would wait for it without end.
        struct Turn<'a>(&'a Gate);
        impl Drop for Turn<'_> {
            fn drop(&mut self) {
                self.0.leave_idle();
            }
        }
        let turn = Turn(self.gate());
        // SAFETY: the thread has entered, so the program is outside until the turn is dropped.
        let value = unsafe { &mut *self.value.get() };
        value.attend(turn.0.calls(), &|| turn.0.is_wanted())
    }
}

/// The program's handle. One thread at a time uses it.
pub struct Owner<T> {
    shared: Arc<SharedState<T>>,
    /// Pointers to its two parts, so entering follows one pointer each.
    gate: NonNull<Gate>,
    value: NonNull<UnsafeCell<T>>,
    /// As with a `RefCell`, two threads must not enter at once.
    one_thread: PhantomData<Cell<()>>,
}

// SAFETY: the pointers are to what `shared` keeps, which is `Send` and `Sync` for such a value. It
// is not `Sync`, for two threads must not enter at once.
unsafe impl<T: Send> Send for Owner<T> {}

impl<T> Owner<T> {
    /// `guarded`: a use after fork(2) is refused. This costs one mapping of a page and two system
    /// calls.
    pub fn new(value: T, guarded: bool) -> std::io::Result<Self> {
        let words = LockWords::new(guarded)?;
        let gate = words.gate;
        let shared = Arc::new(SharedState { words, value: UnsafeCell::new(value) });
        let value = NonNull::from(&shared.value);
        Ok(Self { shared, gate, value, one_thread: PhantomData })
    }

    /// Enters. Two stores and two loads if the thread is not inside. Otherwise it waits some
    /// microseconds until the thread's turn ends, and takes the endpoint back with one system call.
    ///
    /// # Panics
    /// If the caller is inside already, or if this process is a child of the one that opened the
    /// endpoint.
    #[inline(always)]
    pub fn enter(&self) -> Guard<'_, T> {
        // SAFETY: both are parts of what `shared` keeps, which neither moves nor goes while this
        // object lives.
        let (gate, value) = unsafe { (self.gate.as_ref(), self.value.as_ref()) };
        match gate.enter() {
            Entered::Freely => {}
            Entered::TakenBack => taken_back(),
            Entered::Forked => forked(),
        }
        Guard { gate, value, one_thread: PhantomData }
    }

    /// Like [`enter`](Self::enter), but `None` in a child of the process that opened the endpoint,
    /// where what the program holds of it may still be dropped.
    ///
    /// # Panics
    /// If the caller is inside already.
    #[inline(always)]
    pub fn enter_to_drop(&self) -> Option<Guard<'_, T>> {
        // SAFETY: as in `enter`.
        let (gate, value) = unsafe { (self.gate.as_ref(), self.value.as_ref()) };
        match gate.enter() {
            Entered::Freely => {}
            Entered::TakenBack => taken_back(),
            Entered::Forked => return None,
        }
        Some(Guard { gate, value, one_thread: PhantomData })
    }

    /// Enters for a call that may sleep until a frame comes. The thread leaves the endpoint alone
    /// then.
    pub fn sleep<R>(&self, call: impl FnOnce(&mut T) -> R) -> R {
        /// A call that panics also counts as awake.
        struct Asleep<'a>(&'a Gate);
        impl Drop for Asleep<'_> {
            fn drop(&mut self) {
                if self.0.wake_up() {
                    taken_back();
                }
            }
        }
        let mut guard = self.enter();
        guard.gate.fall_asleep();
        let _asleep = Asleep(guard.gate);
        call(&mut guard)
    }

    /// How often the program has entered and left; every entry and exit changes it. One load.
    pub fn calls(&self) -> u32 {
        self.shared.gate().calls()
    }

    /// Whether this process is a child of the one that opened the endpoint.
    pub fn is_forked(&self) -> bool {
        self.shared.gate().is_forked()
    }

    pub(crate) fn shared(&self) -> &Arc<SharedState<T>> {
        &self.shared
    }
}

impl<T> Drop for Owner<T> {
    fn drop(&mut self) {
        if self.is_forked() {
            // The state belongs to the parent. Dropping it could end what the parent uses, so it is
            // leaked.
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}

impl<T> fmt::Debug for Owner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("gate", self.shared.gate()).finish_non_exhaustive()
    }
}

#[cold]
#[inline(never)]
fn taken_back() {
    #[cfg(not(loom))]
    crate::thread::wake();
}

#[cold]
#[inline(never)]
fn forked() -> ! {
    panic!("the endpoint was opened before fork(2): open one in this process");
}

/// The program is inside.
pub struct Guard<'a, T> {
    gate: &'a Gate,
    value: &'a UnsafeCell<T>,
    /// The thread that entered must leave.
    one_thread: PhantomData<*const ()>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the program is inside, by this guard alone, and the thread is not.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.gate.leave();
    }
}

impl<T> fmt::Debug for Guard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}
