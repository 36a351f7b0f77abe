//! The thread: which endpoints it attends, and when.

use crate::gate::{CallState, Gate, barrier};
use crate::owner::{Attend, NextTurn, Owner, SharedState};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks at an endpoint that a program uses. A program that made no call between
/// two looks is away. So the thread attends its endpoint within two ticks of its last call. A look
/// costs a wake-up of the thread, some microseconds: less than a hundredth of a CPU.
pub const TICK: Duration = Duration::from_micros(500);

/// The event data of the thread's own descriptors; endpoints have other numbers.
const WAKE: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// Events taken at a time.
const EVENTS: usize = 16;

/// How an endpoint is used, as far as the thread knows.
#[derive(Clone, Copy, Debug)]
enum UseState {
    /// A program uses it, and looked like this at the last look. The next look is at `at`.
    InUse { seen: CallState, at: Instant },
    /// A program sleeps inside a call and notifies the thread when it wakes.
    AsleepInside,
    /// No program uses it: frames and deadlines wake the thread.
    Unattended { due: Option<Instant>, program_watches: bool },
}

/// An endpoint of any type.
trait AnyEndpoint: Send + Sync {
    fn gate(&self) -> &Gate;
    fn attend_inside(&self) -> NextTurn;
}

impl<T: Attend> AnyEndpoint for SharedState<T> {
    fn gate(&self) -> &Gate {
        SharedState::gate(self)
    }

    fn attend_inside(&self) -> NextTurn {
        SharedState::attend_inside(self)
    }
}

struct AttendedEndpoint {
    number: u64,
    endpoint: Arc<dyn AnyEndpoint>,
    /// Readable when a frame may have come.
    fds: Arc<[OwnedFd]>,
    /// Its descriptors wake the thread.
    watched: bool,
    state: UseState,
}

impl AttendedEndpoint {
    /// Looks at the endpoint, and attends it if it is the thread's now. `came`: a frame may have
    /// come.
    fn look(&mut self, process: &ProgressThread, now: Instant, came: bool) {
        let gate = self.endpoint.gate();
        match self.state {
            UseState::Unattended { .. } if !gate.is_idle() => {
                process.unwatch(&self.fds);
                self.watched = false;
                self.state = UseState::InUse { seen: gate.look(), at: now + TICK };
            }
            UseState::Unattended { due, program_watches: true } if came => {
                // The same frame wakes the program, which comes first.
                let at = now + TICK;
                let due = Some(due.map_or(at, |due| due.min(at)));
                self.state = UseState::Unattended { due, program_watches: false };
            }
            UseState::Unattended { due, .. } if came || due.is_some_and(|due| due <= now) => {
                if gate.enter_idle() {
                    self.attend();
                }
            }
            UseState::Unattended { .. } => {}
            UseState::AsleepInside if gate.will_notify() => {}
            UseState::AsleepInside => {
                self.state = UseState::InUse { seen: gate.look(), at: now + TICK };
            }
            UseState::InUse { at, .. } if at > now => {}
            UseState::InUse { seen, .. } => {
                let new = gate.look();
                self.state = UseState::InUse { seen: new, at: now + TICK };
                match new {
                    _ if new != seen => {}
                    CallState::Outside(calls) => {
                        if gate.enter_unattended(calls) {
                            // Before the turn: a frame from now on is seen in the turn or wakes the
                            // thread.
                            self.watched = process.watch(&self.fds, self.number);
                            self.attend();
                        } else {
                            // A whole tick from here, which the gate relies on.
                            self.state = UseState::InUse { seen: new, at: Instant::now() + TICK };
                        }
                    }
                    CallState::Inside(_) if gate.will_notify() => {
                        self.state = UseState::AsleepInside;
                    }
                    CallState::Inside(_) => {}
                }
            }
        }
    }

    fn attend(&mut self) {
        let NextTurn { mut due, program_watches } = self.endpoint.attend_inside();
        if !self.watched {
            // The kernel had no memory for that, or the user watches too much already (epoll(7)).
            due = Some(due.map_or(TICK, |due| due.min(TICK)));
        }
        let due = due.and_then(|due| Instant::now().checked_add(due));
        self.state = UseState::Unattended { due, program_watches };
    }

    /// When the thread must look again without an event.
    fn next(&self) -> Option<Instant> {
        match self.state {
            UseState::InUse { at, .. } => Some(at),
            UseState::AsleepInside => None,
            UseState::Unattended { due, .. } => due,
        }
    }
}

#[derive(Default)]
struct AttendedEndpoints {
    all: Vec<AttendedEndpoint>,
    last_number: u64,
    thread: Option<JoinHandle<()>>,
    /// The thread is to end, and has not yet.
    is_ending: bool,
}

/// The process's thread and the endpoints that it attends. Never freed: a child of fork(2) leaves
/// its copy untouched, because it may be locked.
struct ProgressThread {
    pid: u32,
    entries: Mutex<AttendedEndpoints>,
    /// The thread has ended. Only then the next one starts: each event wakes one of those that wait
    /// for it.
    ended: Condvar,
    epoll: OwnedFd,
    wake: OwnedFd,
    /// Fires at the next deadline: epoll_wait(2) counts in milliseconds.
    timer: OwnedFd,
    wakeups: AtomicU64,
}

static PROCESS: AtomicPtr<ProgressThread> = AtomicPtr::new(std::ptr::null_mut());

impl ProgressThread {
    fn new(pid: u32) -> io::Result<Self> {
        let process = Self {
            pid,
            entries: Mutex::default(),
            ended: Condvar::new(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            timer: timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
            )?,
            wakeups: AtomicU64::new(0),
        };
        for (fd, data) in [(&process.wake, WAKE), (&process.timer, TIMER)] {
            // Each expiry wakes once; the value read from it does not matter.
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&process.epoll, fd, epoll::EventData::new_u64(data), flags)?;
        }
        Ok(process)
    }

    /// This process's, if it has had an endpoint.
    fn existing() -> Option<&'static Self> {
        // SAFETY: null, or made by `Box::leak` below and never freed.
        unsafe { PROCESS.load(Ordering::Acquire).as_ref() }
    }

    fn current() -> io::Result<&'static Self> {
        let pid = std::process::id();
        let known = PROCESS.load(Ordering::Acquire);
        if let Some(process) = Self::existing().filter(|process| process.pid == pid) {
            return Ok(process);
        }
        // If two threads open endpoints at once, both use the first result.
        let made = Box::into_raw(Box::new(Self::new(pid)?));
        let (ok, failed) = (Ordering::AcqRel, Ordering::Acquire);
        let process = match PROCESS.compare_exchange(known, made, ok, failed) {
            Ok(_) => made,
            Err(first) => {
                // SAFETY: it came from the box above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(made) });
                first
            }
        };
        // SAFETY: made by this function in this process, and never freed.
        Ok(unsafe { &*process })
    }

    fn entries(&self) -> MutexGuard<'_, AttendedEndpoints> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // A full counter has already woken it.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Edge-triggered: a packet socket is readable while all receive frames are lent and more wait.
    fn watch(&self, fds: &[OwnedFd], number: u64) -> bool {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(number);
        fds.iter().all(|fd| epoll::add(&self.epoll, fd, data, flags).is_ok())
    }

    fn unwatch(&self, fds: &[OwnedFd]) {
        for fd in fds {
            // It may not be watched.
            let _ = epoll::delete(&self.epoll, fd);
        }
    }

    fn run(&self) {
        let (flags, data) = (epoll::EventFlags::empty(), epoll::EventData::new_u64(0));
        let mut events = [epoll::Event { flags, data }; EVENTS];
        let mut count = 0;
        loop {
            let mut entries = self.entries();
            if entries.is_ending {
                return;
            }
            let came = |number| events[..count].iter().any(|event| event.data.u64() == number);
            if came(WAKE) {
                let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            }
            let now = Instant::now();
            entries.all.retain_mut(|entry| {
                let came = came(entry.number);
                // If a program's memory panics when it is used, the thread stops attending that
                // endpoint only.
                let looked = catch_unwind(AssertUnwindSafe(|| entry.look(self, now, came)));
                looked.is_ok()
            });
            let next = entries.all.iter().filter_map(AttendedEndpoint::next).min();
            drop(entries);
            self.ring_at(next);
            count = match epoll::wait(&self.epoll, &mut events[..], None) {
                Ok(count) => count,
                Err(Errno::INTR) => 0,
                Err(error) => unreachable!("epoll_wait of an epoll descriptor: {error}"),
            };
            self.wakeups.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sets the timer, or stops it.
    fn ring_at(&self, next: Option<Instant>) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = next.map_or(zero, |next| {
            // Zero would stop it.
            let left = next.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
            let seconds = left.as_secs().try_into().unwrap_or(i64::MAX);
            Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() }
        });
        let once = Itimerspec { it_interval: zero, it_value };
        // It fails for no time that is valid (timerfd_create(2)).
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
    }

    fn start(&'static self) -> io::Result<JoinHandle<()>> {
        // Without other threads this takes no time. The thread would wait for a grace period, and
        // a program that ends soon would wait for the thread.
        if gigae_host::proc::process::is_single_threaded() {
            barrier::register();
        }
        gigae_host::signals::blocked(|| {
            let thread = std::thread::Builder::new().name("gigae-progress".into());
            thread.spawn(move || {
                ask_for_short_slices();
                barrier::register();
                self.run();
            })
        })
    }
}

/// Makes the thread run soon after it wakes when programs compute on all processors. From Linux
/// 6.12 on, a thread that asks for shorter time slices runs before others of its control group, and
/// its share of time stays the same (the kernel's scheduler/sched-eevdf, "latency"). On older
/// kernels it changes nothing. It needs no privilege.
fn ask_for_short_slices() {
    const SLICE: Duration = Duration::from_micros(100);
    // SAFETY: all of it is numbers; both calls are given its size and fill or read no more than
    // that.
    unsafe {
        let mut how: libc::sched_attr = std::mem::zeroed();
        let size = size_of_val(&how) as u32;
        let known = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut how, size, 0);
        if known == 0 && how.sched_policy == libc::SCHED_OTHER.cast_unsigned() {
            how.sched_runtime = SLICE.as_nanos() as u64;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const how, 0);
        }
    }
}

/// Wakes the thread: the program has taken an endpoint back, or woken inside a call.
pub(crate) fn wake() {
    if let Some(process) = ProgressThread::existing() {
        process.wake();
    }
}

/// How often this process's thread has woken up since the process's first endpoint. One load.
pub fn wakeups() -> u64 {
    ProgressThread::existing().map_or(0, |process| process.wakeups.load(Ordering::Relaxed))
}

/// While this exists, the thread attends an endpoint. Drop it before the endpoint.
#[derive(Debug)]
pub struct Attended {
    number: u64,
    process: &'static ProgressThread,
}

impl std::fmt::Debug for ProgressThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgressThread").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// Makes the thread attend an endpoint. It watches these descriptors for frames, but only while the
/// program makes no calls: a watched descriptor costs some 100 ns for each frame. Starts the thread
/// if it does not run. Some ten system calls the first time, two later.
pub fn attend<T: Attend + 'static>(owner: &Owner<T>, fds: Arc<[OwnedFd]>) -> io::Result<Attended> {
    let endpoint: Arc<dyn AnyEndpoint> = owner.shared().clone();
    let process = ProgressThread::current()?;
    let mut entries = process.entries();
    while entries.is_ending {
        entries = process.ended.wait(entries).unwrap_or_else(PoisonError::into_inner);
    }
    if entries.thread.is_none() {
        entries.thread = Some(process.start()?);
    }
    entries.last_number += 1;
    let number = entries.last_number;
    let state = UseState::InUse { seen: endpoint.gate().look(), at: Instant::now() + TICK };
    entries.all.push(AttendedEndpoint { number, endpoint, fds, watched: false, state });
    drop(entries);
    process.wake();
    Ok(Attended { number, process })
}

impl Drop for Attended {
    /// Waits for the thread's turn, if it has one; for the thread's end, if this was the last
    /// endpoint.
    fn drop(&mut self) {
        if self.process.pid != std::process::id() {
            // A child's copy: the thread belongs to its parent.
            return;
        }
        let mut entries = self.process.entries();
        if let Some(at) = entries.all.iter().position(|entry| entry.number == self.number) {
            let entry = entries.all.swap_remove(at);
            self.process.unwatch(&entry.fds);
            entry.endpoint.gate().retire();
        }
        if !entries.all.is_empty() {
            return;
        }
        let Some(thread) = entries.thread.take() else { return };
        entries.is_ending = true;
        // Before others can wait for its end.
        self.process.wake();
        drop(entries);
        // However it has ended.
        let _ = thread.join();
        self.process.entries().is_ending = false;
        self.process.ended.notify_all();
    }
}
