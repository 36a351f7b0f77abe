//! Sleeps until something happens: one descriptor for the links of all endpoints that report to a
//! queue, their next deadline, and events of other threads.

use crate::error::{Code, OfiResult};
use crate::sys;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A descriptor to sleep on.
pub(crate) struct WaitObject {
    all: OwnedFd,
    timer: OwnedFd,
    event: OwnedFd,
    /// A thread sleeps or is about to.
    armed: AtomicBool,
    interrupted: AtomicBool,
}

/// Longest sleep where a source has no descriptor, as on a simulated network.
const SLICE: Duration = Duration::from_millis(1);

impl WaitObject {
    pub(crate) fn new() -> OfiResult<Self> {
        let wait = Self {
            all: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            timer: timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
            )?,
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            armed: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
        };
        wait.watch(wait.timer.as_fd())?;
        wait.watch(wait.event.as_fd())?;
        Ok(wait)
    }

    /// Also wakes for this descriptor. One call is enough.
    pub(crate) fn watch(&self, fd: impl AsFd) -> OfiResult<()> {
        let data = epoll::EventData::new_u64(0);
        match epoll::add(&self.all, fd, data, epoll::EventFlags::IN) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn unwatch(&self, fd: impl AsFd) {
        // It may not have been watched.
        let _ = epoll::delete(&self.all, fd);
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.all.as_raw_fd()
    }

    /// Something has happened: wakes the sleeping threads. One atomic read if none sleeps.
    pub(crate) fn signal(&self) {
        if self.armed.load(Ordering::SeqCst) {
            // A full counter wakes as well.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Ends one wait before anything has happened.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Whether a wait should end. True once.
    pub(crate) fn was_signalled(&self) -> bool {
        self.interrupted.swap(false, Ordering::SeqCst)
    }

    /// Prepares for sleeping on the descriptor; an error if there is something to do first. `time`
    /// returns when progress must be made again, and `is_ready` after that whether there is
    /// something to read.
    pub(crate) fn prepare(
        &self,
        time: impl FnOnce() -> OfiResult<Option<Duration>>,
        is_ready: impl FnOnce() -> bool,
    ) -> OfiResult<()> {
        let mut count = [0; 8];
        self.armed.store(true, Ordering::SeqCst);
        // Usually already empty.
        let was_signalled = rustix::io::read(&self.event, &mut count).is_ok();
        let time = time();
        let time = if is_ready() { Err(Code::AGAIN) } else { time };
        if was_signalled && time.is_err() {
            // This thread does not sleep, and may leave something to one that does.
            self.signal();
        }
        let time = time?;
        let value = time.map_or(Duration::ZERO, |time| time.max(Duration::from_nanos(1)));
        let value = Timespec { tv_sec: value.as_secs() as _, tv_nsec: value.subsec_nanos() as _ };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// Sleeps until something happens, or until the given time; false then.
    pub(crate) fn sleep(&self, end: Option<Instant>, has_fd: bool) -> OfiResult<bool> {
        let left = match end {
            None => None,
            Some(end) => match end.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => Some(left),
                _ => return Ok(false),
            },
        };
        let left = if has_fd { left } else { Some(left.map_or(SLICE, |left| left.min(SLICE))) };
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs() as _,
            tv_nsec: left.subsec_nanos() as _,
        });
        let mut fds = [PollFd::new(&self.all, PollFlags::IN)];
        match poll(&mut fds, left.as_ref()) {
            Ok(_) => Ok(true),
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// The object to sleep on, if the program wants one.
pub(crate) fn wait_of(object: sys::fi_wait_obj) -> OfiResult<Option<WaitObject>> {
    match object {
        sys::FI_WAIT_NONE => Ok(None),
        sys::FI_WAIT_UNSPEC | sys::FI_WAIT_FD | sys::FI_WAIT_YIELD => Ok(Some(WaitObject::new()?)),
        _ => Err(Code::NO_SYS),
    }
}

/// Returns what to sleep on.
///
/// # Safety
/// `arg` is NULL or points to what the command expects.
pub(crate) unsafe fn wait_control(
    wait: Option<&WaitObject>,
    command: c_int,
    arg: *mut c_void,
) -> OfiResult<()> {
    if arg.is_null() {
        return Err(Code::INVALID);
    }
    // SAFETY: the caller's promise.
    unsafe {
        match u32::try_from(command) {
            Ok(sys::FI_GETWAIT) => {
                arg.cast::<c_int>().write(wait.ok_or(Code::NO_DATA)?.raw());
                Ok(())
            }
            Ok(sys::FI_GETWAITOBJ) => {
                let object = if wait.is_some() { sys::FI_WAIT_FD } else { sys::FI_WAIT_NONE };
                arg.cast::<sys::fi_wait_obj>().write(object);
                Ok(())
            }
            _ => Err(Code::NO_SYS),
        }
    }
}

/// When a wait of this many milliseconds ends; never for a negative number.
pub(crate) fn end_of(milliseconds: i32) -> Option<Instant> {
    let milliseconds = u64::try_from(milliseconds).ok()?;
    Some(Instant::now() + Duration::from_millis(milliseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_sleep_leaves_the_wake_up_to_those_that_do() {
        let wait = WaitObject::new().unwrap();
        let prepare = |time, is_ready| wait.prepare(|| time, || is_ready);
        let wakes = || {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(&wait.all, PollFlags::IN)], Some(&now)).unwrap() == 1
        };
        for interrupted in [false, true] {
            // A thread sleeps, and two entries come; or another thread wakes it.
            assert_eq!(prepare(Ok(None), false), Ok(()));
            assert!(!wakes());
            if interrupted {
                wait.interrupt();
            } else {
                wait.signal();
                wait.signal();
            }
            // Another thread finds an entry, or makes progress once more.
            for (time, is_ready) in [(Ok(None), true), (Err(Code::AGAIN), false)] {
                assert_eq!(prepare(time, is_ready), Err(Code::AGAIN));
                assert!(wakes(), "the sleeping thread has something to look at");
            }
        }
        assert!(wait.was_signalled());
        assert_eq!(prepare(Ok(None), false), Ok(()));
        assert!(!wakes());
        // Nothing to look at: no need for anybody to wake.
        assert_eq!(prepare(Err(Code::AGAIN), false), Err(Code::AGAIN));
        assert!(!wakes());
    }
}
