//! The lock between a program and the background thread: cheap for the program, expensive for the
//! thread.
//!
//! The program writes `calls` (odd while it is inside) and then reads `whose`. The thread writes
//! `whose` and then reads `calls`. Each must see the other's write or make its own visible. That
//! needs a fence between write and read on both sides. The thread's membarrier(2) serves as both.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};

/// The memory was cleared by fork(2): this process did not open the endpoint.
const FORKED: u32 = 0;
/// The program may enter.
const PROGRAM: u32 = 1;
/// The program may enter, and executes a fence itself.
const FENCED: u32 = 2;
/// Neither side is inside. A side that wants to enter swaps this for its own state.
const IDLE: u32 = 3;
/// The thread is inside.
const THREAD: u32 = 4;
/// The thread is inside, and the program sleeps until it has left.
const WAITED: u32 = 5;

/// The program does not sleep inside; it does; it does and must notify the thread when it wakes.
const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const NOTIFY: u32 = 2;

/// How often a program that waits for the thread looks before it sleeps. A turn of the thread takes
/// microseconds.
const SPINS: u32 = 200;

/// What a program must do after entering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    /// Nothing.
    Freely,
    /// Wake the thread, which had taken over the endpoint.
    TakenBack,
    /// Stay outside: this is a child of the process that opened the endpoint.
    Forked,
}

/// Whether a program is inside, and how many calls it has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallState {
    /// Outside, after this many calls.
    Outside(u32),
    /// Inside a call.
    Inside(u32),
}

/// See the module's description.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Gate {
    /// Entries and exits of the program: odd while it is inside.
    calls: AtomicU32,
    whose: AtomicU32,
    asleep: AtomicU32,
    /// The value of `whose` when the endpoint is the program's.
    rest: AtomicU32,
}

impl Gate {
    /// The endpoint is the program's. `fenced`: the kernel does not offer the thread's barrier.
    pub(crate) fn new(fenced: bool) -> Self {
        let rest = if fenced { FENCED } else { PROGRAM };
        let (calls, whose, asleep) =
            (AtomicU32::new(0), AtomicU32::new(rest), AtomicU32::new(AWAKE));
        Self { calls, whose, asleep, rest: AtomicU32::new(rest) }
    }

    /// The program enters. Two stores and two loads if the thread is not inside.
    ///
    /// # Panics
    /// If the program is inside already.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Entered {
        let calls = self.calls.load(Ordering::Relaxed);
        if !calls.is_multiple_of(2) {
            in_use();
        }
        self.calls.store(calls + 1, Ordering::Relaxed);
        self.thread_fences();
        // Acquire: sees what the thread did before it gave the endpoint back.
        if self.whose.load(Ordering::Acquire) == PROGRAM {
            return Entered::Freely;
        }
        self.enter_slowly(calls)
    }

    /// The program's half of the fence. Only the compiler must not reorder; the thread's barrier
    /// does the rest.
    #[inline(always)]
    fn thread_fences(&self) {
        #[cfg(not(loom))]
        compiler_fence(Ordering::SeqCst);
        #[cfg(loom)]
        fence(Ordering::SeqCst);
    }

    #[cold]
    #[inline(never)]
    fn enter_slowly(&self, calls: u32) -> Entered {
        let mut entered = Entered::Freely;
        loop {
            match self.whose.load(Ordering::Acquire) {
                PROGRAM => {}
                FENCED => {
                    self.calls.store(calls.wrapping_add(1), Ordering::Relaxed);
                    fence(Ordering::SeqCst);
                    if self.whose.load(Ordering::Acquire) == FENCED {
                        return entered;
                    }
                }
                FORKED => {
                    self.calls.store(calls, Ordering::Release);
                    return Entered::Forked;
                }
                IDLE => {
                    // With `calls` odd, so the thread does not take it again.
                    let (ok, failed) = (Ordering::AcqRel, Ordering::Relaxed);
                    if self.whose.compare_exchange(IDLE, self.rest(), ok, failed).is_ok() {
                        self.calls.store(calls.wrapping_add(1), Ordering::Relaxed);
                        entered = Entered::TakenBack;
                    }
                }
                _ => {
                    self.calls.store(calls, Ordering::Release);
                    self.wait_for_thread();
                    self.calls.store(calls.wrapping_add(1), Ordering::Relaxed);
                }
            }
            fence(Ordering::SeqCst);
            if self.whose.load(Ordering::Acquire) == PROGRAM {
                return entered;
            }
        }
    }

    /// The program leaves.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        let calls = self.calls.load(Ordering::Relaxed);
        self.calls.store(calls.wrapping_add(1), Ordering::Release);
    }

    /// Entries and exits so far.
    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Whether the thread is inside and the program sleeps until it has left.
    pub(crate) fn is_wanted(&self) -> bool {
        self.whose.load(Ordering::Relaxed) == WAITED
    }

    /// Whether this process is a child of the one that opened the endpoint.
    pub(crate) fn is_forked(&self) -> bool {
        self.whose.load(Ordering::Relaxed) == FORKED
    }

    /// What the thread sees of the program without entering.
    pub(crate) fn look(&self) -> CallState {
        match self.calls.load(Ordering::Relaxed) {
            calls if calls.is_multiple_of(2) => CallState::Outside(calls),
            calls => CallState::Inside(calls),
        }
    }

    /// Whether neither side is inside, and the program has not taken the endpoint back.
    pub(crate) fn is_idle(&self) -> bool {
        self.whose.load(Ordering::Relaxed) == IDLE
    }

    /// The thread enters, if the program was not inside since the thread left the endpoint
    /// [idle](Self::is_idle).
    pub(crate) fn enter_idle(&self) -> bool {
        let (ok, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        self.whose.compare_exchange(IDLE, THREAD, ok, failed).is_ok()
    }

    /// The thread enters if the program is outside after `calls` calls. One membarrier(2). If the
    /// kernel refuses that, the program executes the fence from its next call on.
    pub(crate) fn enter_unattended(&self, calls: u32) -> bool {
        self.enter_past(barrier::pass, calls)
    }

    fn enter_past(&self, barrier: impl FnOnce() -> bool, calls: u32) -> bool {
        let rest = self.rest();
        let (ok, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        if self.whose.compare_exchange(rest, THREAD, ok, failed).is_err() {
            return false;
        }
        fence(Ordering::SeqCst);
        let passed = rest == FENCED || barrier();
        // Acquire: sees what the program did inside.
        if passed && self.calls.load(Ordering::Acquire) == calls {
            return true;
        }
        if !passed {
            // The thread tries again a tick later. By then no CPU holds back a store of a call that
            // found the gate as it was.
            self.rest.store(FENCED, Ordering::Relaxed);
        }
        self.hand_over(self.rest());
        false
    }

    fn rest(&self) -> u32 {
        self.rest.load(Ordering::Relaxed)
    }

    /// The thread leaves; the endpoint is idle.
    pub(crate) fn leave_idle(&self) {
        self.hand_over(IDLE);
    }

    /// The endpoint is the program's again, and the thread does not attend it any more.
    pub(crate) fn retire(&self) {
        let (ok, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        // Not idle: it is already the program's.
        let _ = self.whose.compare_exchange(IDLE, self.rest(), ok, failed);
    }

    fn hand_over(&self, to: u32) {
        if self.whose.swap(to, Ordering::AcqRel) == WAITED {
            self.wake_program();
        }
    }

    /// The program is inside and about to sleep until a frame comes.
    pub(crate) fn fall_asleep(&self) {
        self.asleep.store(ASLEEP, Ordering::Release);
    }

    /// The program is awake. Returns whether it must notify the thread.
    pub(crate) fn wake_up(&self) -> bool {
        self.asleep.swap(AWAKE, Ordering::AcqRel) == NOTIFY
    }

    /// Whether the program sleeps inside and will notify the thread when it wakes.
    pub(crate) fn will_notify(&self) -> bool {
        let (ok, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        let asked = self.asleep.compare_exchange(ASLEEP, NOTIFY, ok, failed);
        matches!(asked, Ok(_) | Err(NOTIFY))
    }

    #[cfg(not(loom))]
    fn wait_for_thread(&self) {
        use rustix::thread::futex;
        for _ in 0..SPINS {
            if !matches!(self.whose.load(Ordering::Acquire), THREAD | WAITED) {
                return;
            }
            std::hint::spin_loop();
        }
        let (ok, failed) = (Ordering::AcqRel, Ordering::Acquire);
        match self.whose.compare_exchange(THREAD, WAITED, ok, failed) {
            // An error is a wake-up like any other: the caller looks again.
            Ok(_) | Err(WAITED) => {
                let _ = futex::wait(&self.whose, futex::Flags::PRIVATE, WAITED, None);
            }
            Err(_) => {}
        }
    }

    #[cfg(not(loom))]
    fn wake_program(&self) {
        let _ = rustix::thread::futex::wake(&self.whose, rustix::thread::futex::Flags::PRIVATE, 1);
    }

    #[cfg(loom)]
    fn wait_for_thread(&self) {
        loom::thread::yield_now();
    }

    #[cfg(loom)]
    fn wake_program(&self) {}
}

#[cold]
#[inline(never)]
fn in_use() -> ! {
    panic!("the endpoint is in use: a call was made from within another one");
}

/// The fence for both sides.
pub(crate) mod barrier {
    #[cfg(not(any(loom, miri)))]
    mod kernel {
        use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};
        use std::sync::LazyLock;

        static OFFERED: LazyLock<bool> = LazyLock::new(|| {
            membarrier_query().contains_command(MembarrierCommand::PrivateExpedited)
        });

        /// Whether the kernel offers it. Asked once.
        pub(crate) fn is_there() -> bool {
            *OFFERED
        }

        /// Before [`pass`]. In a process with several threads the kernel waits for a grace period
        /// of RCU the first time, up to some 30 ms, so the program must not call this there. Later
        /// calls do nothing.
        pub(crate) fn register() {
            if is_there() {
                // If that fails, so does `pass`.
                let _ = membarrier(MembarrierCommand::RegisterPrivateExpedited);
            }
        }

        /// When this returns, every running thread of this process has passed a fence, unless the
        /// kernel refused it: then it returns false.
        pub(crate) fn pass() -> bool {
            membarrier(MembarrierCommand::PrivateExpedited).is_ok()
        }
    }
    #[cfg(any(loom, miri))]
    mod kernel {
        pub(crate) fn is_there() -> bool {
            // Loom has a fence instead of the barrier's other half; Miri executes the program's
            // own.
            cfg!(loom)
        }

        #[cfg(not(loom))]
        pub(crate) fn register() {}

        /// The caller's fence does.
        pub(crate) fn pass() -> bool {
            true
        }
    }
    #[cfg(not(loom))]
    pub(crate) use kernel::register;
    pub(crate) use kernel::{is_there, pass};
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_thread_enters_only_where_the_program_has_not_been() {
        barrier::register();
        let gate = Gate::new(!barrier::is_there());
        assert_eq!(gate.enter(), Entered::Freely);
        let CallState::Inside(_) = gate.look() else { panic!("inside") };
        gate.leave();
        let CallState::Outside(calls) = gate.look() else { panic!("outside") };
        // A call in between is seen.
        gate.enter();
        assert!(!gate.enter_unattended(calls));
        gate.leave();
        assert!(!gate.enter_unattended(calls));
        assert!(gate.enter_unattended(calls + 2));
        gate.leave_idle();
        assert!(gate.is_idle());
        // It comes back without a barrier, until the program does.
        assert!(gate.enter_idle());
        gate.leave_idle();
        assert_eq!(gate.enter(), Entered::TakenBack);
        assert!(!gate.is_idle() && !gate.enter_idle());
        gate.leave();
        assert_eq!(gate.enter(), Entered::Freely);
    }

    #[test]
    fn a_fence_of_the_programs_own_does_where_there_is_no_barrier() {
        let gate = Gate::new(true);
        for _ in 0..3 {
            assert_eq!(gate.enter(), Entered::Freely);
            gate.leave();
        }
    }

    #[test]
    fn the_program_fences_itself_once_the_kernel_has_refused_the_barrier() {
        let gate = Gate::new(false);
        assert_eq!(gate.enter(), Entered::Freely);
        gate.leave();
        assert!(!gate.enter_past(|| false, gate.calls()), "refused");
        assert_eq!(gate.whose.load(Ordering::Relaxed), FENCED);
        assert_eq!(gate.enter(), Entered::Freely);
        gate.leave();
        // The thread has its turns, and does not ask again.
        assert!(gate.enter_past(|| unreachable!("refused before"), gate.calls()));
        gate.leave_idle();
        assert_eq!(gate.enter(), Entered::TakenBack);
        gate.leave();
        assert_eq!(gate.whose.load(Ordering::Relaxed), FENCED);
    }

    #[test]
    #[should_panic = "in use"]
    fn entering_twice_is_refused() {
        let gate = Gate::new(true);
        gate.enter();
        gate.enter();
    }

    #[test]
    fn a_gate_that_the_kernel_has_cleared_lets_nobody_in() {
        let (calls, whose, asleep) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let gate = Gate { calls, whose, asleep, rest: AtomicU32::new(0) };
        assert!(gate.is_forked());
        assert_eq!(gate.enter(), Entered::Forked);
        assert_eq!(gate.enter(), Entered::Forked, "no thread is inside");
    }

    #[test]
    fn a_program_that_sleeps_inside_tells_only_if_the_thread_wants_it() {
        let gate = Gate::new(true);
        assert!(!gate.will_notify());
        gate.fall_asleep();
        assert!(!gate.wake_up());
        gate.fall_asleep();
        assert!(gate.will_notify() && gate.will_notify());
        assert!(gate.wake_up());
        assert!(!gate.will_notify());
    }
}

/// In every order of the two sides, only one is inside at a time, and it sees what the other did
/// (`make loom`). Loom has no barrier that one thread executes for both, so each side executes its
/// half here.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    struct Guarded {
        gate: Gate,
        value: UnsafeCell<u32>,
    }

    impl Guarded {
        fn new(fenced: bool) -> Arc<Self> {
            Arc::new(Self { gate: Gate::new(fenced), value: UnsafeCell::new(0) })
        }

        fn add(&self) {
            // Loom reports an access that another one is not ordered with.
            self.value.with_mut(|value| {
                // SAFETY: the caller is inside.
                unsafe { *value += 1 }
            });
        }
    }

    #[test]
    fn program_and_thread_are_never_inside_at_once() {
        never_inside_at_once(false);
    }

    #[test]
    fn nor_with_a_fence_of_the_programs_own() {
        never_inside_at_once(true);
    }

    fn never_inside_at_once(fenced: bool) {
        loom::model(move || {
            let shared = Guarded::new(fenced);
            let thread = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || {
                    let mut turns = 0;
                    if let CallState::Outside(calls) = shared.gate.look()
                        && shared.gate.enter_unattended(calls)
                    {
                        shared.add();
                        turns += 1;
                        shared.gate.leave_idle();
                        if shared.gate.enter_idle() {
                            shared.add();
                            turns += 1;
                            shared.gate.leave_idle();
                        }
                    }
                    turns
                })
            };
            for _ in 0..2 {
                shared.gate.enter();
                shared.add();
                shared.gate.leave();
            }
            let turns = thread.join().unwrap();
            shared.gate.enter();
            shared.value.with(|value| {
                // SAFETY: inside.
                assert_eq!(unsafe { *value }, 2 + turns);
            });
        });
    }

    #[test]
    fn a_sleeper_that_must_notify_does() {
        loom::model(|| {
            let shared = Guarded::new(false);
            shared.gate.fall_asleep();
            let thread = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || shared.gate.will_notify())
            };
            let notified = shared.gate.wake_up();
            // The thread sleeps without a timer only if the program will notify it.
            assert_eq!(thread.join().unwrap(), notified);
        });
    }
}
