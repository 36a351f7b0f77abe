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
    /// Does what is due, without waiting. Returns early once `wanted` is true: the program waits. `calls` is
    /// [`Owner::calls`] as the program left it.
    fn attend(&mut self, calls: u32, wanted: &dyn Fn() -> bool) -> Outlook;
}

/// When the thread is needed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// When something is due by itself; `None`: only a frame can change that.
    pub due: Option<Duration>,
    /// The program sleeps on the endpoint's descriptor by itself and is woken by the same frames: the thread leaves
    /// it a [tick](crate::TICK).
    pub program_watches: bool,
}

/// The words of a lock, in memory of their own.
struct Words {
    gate: NonNull<Gate>,
    /// In a page that the kernel clears in a child (madvise(2)); else on the heap.
    guarded: bool,
}

impl Words {
    /// With a page, fork(2) is noticed.
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
        // SAFETY: the mapping was just made, is long enough, and of a page's alignment; nobody else has it.
        // Before Linux 4.14 the advice is unknown: a child is not noticed then.
        unsafe {
            let _ = madvise(page, len, Advice::LinuxWipeOnFork);
            page.cast::<Gate>().write(gate);
        }
        Ok(Self { gate: NonNull::new(page.cast()).expect("mmap returns no null"), guarded })
    }

    #[inline(always)]
    fn gate(&self) -> &Gate {
        // SAFETY: it is there until this is dropped. All fields are atomics, of which all bits are numbers, so the
        // kernel may clear them in a child.
        unsafe { self.gate.as_ref() }
    }
}

impl Drop for Words {
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
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

/// State that the program and the thread share.
pub(crate) struct Shared<T> {
    words: Words,
    value: UnsafeCell<T>,
}

// SAFETY: whoever reaches the value is inside the gate, which lets one in at a time; so it is only ever moved between
// threads.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    #[inline(always)]
    pub(crate) fn gate(&self) -> &Gate {
        self.words.gate()
    }
}

impl<T: Attend> Shared<T> {
    /// The thread, which is inside, attends and leaves.
    pub(crate) fn attend_inside(&self) -> Outlook {
        /// A turn that panics ends, too, or the program would wait for it without end.
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

/// The program's handle. One thread uses it at a time.
pub struct Owner<T> {
    shared: Arc<Shared<T>>,
    /// Where its two parts are, so that entering goes by one pointer each.
    gate: NonNull<Gate>,
    value: NonNull<UnsafeCell<T>>,
    /// As with a `RefCell`, two threads must not enter at once.
    one_thread: PhantomData<Cell<()>>,
}

// SAFETY: the pointers are to what `shared` keeps, which is `Send` and `Sync` for such a value. It is not `Sync`, for two
// threads must not enter at once.
unsafe impl<T: Send> Send for Owner<T> {}

impl<T> Owner<T> {
    /// `guarded`: a use after fork(2) is refused, at one mapping of a page; two system calls.
    pub fn new(value: T, guarded: bool) -> std::io::Result<Self> {
        let words = Words::new(guarded)?;
        let gate = words.gate;
        let shared = Arc::new(Shared { words, value: UnsafeCell::new(value) });
        let value = NonNull::from(&shared.value);
        Ok(Self { shared, gate, value, one_thread: PhantomData })
    }

    /// Enters. Two stores and two loads while the thread keeps out; else it waits for the thread's turn to end,
    /// some microseconds, and takes the endpoint back by one system call.
    ///
    /// # Panics
    /// If the caller is inside already, or if this process is a child of the one that opened the endpoint.
    #[inline(always)]
    pub fn enter(&self) -> Guard<'_, T> {
        // SAFETY: both are parts of what `shared` keeps, which neither moves nor goes while this object lives.
        let (gate, value) = unsafe { (self.gate.as_ref(), self.value.as_ref()) };
        if gate.enter() == Entered::TakenBack {
            taken_back();
        }
        Guard { gate, value, one_thread: PhantomData }
    }

    /// Enters for a call that may sleep until a frame comes. The thread does nothing meanwhile.
    pub fn sleep<R>(&self, call: impl FnOnce(&mut T) -> R) -> R {
        /// A call that panics is awake, too.
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

    /// How often the program has entered and left: another number after each. One load.
    pub fn calls(&self) -> u32 {
        self.shared.gate().calls()
    }

    /// Whether this process is a child of the one that opened the endpoint.
    pub fn is_forked(&self) -> bool {
        self.shared.gate().is_forked()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<T>> {
        &self.shared
    }
}

impl<T> Drop for Owner<T> {
    fn drop(&mut self) {
        if self.is_forked() {
            // What it guards is the parent's: kept as it is, for dropping it could end what the parent uses.
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

/// The program is inside.
pub struct Guard<'a, T> {
    gate: &'a Gate,
    value: &'a UnsafeCell<T>,
    /// It leaves on the thread that has entered.
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
