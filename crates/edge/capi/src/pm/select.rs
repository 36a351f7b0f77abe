//! Sleeping in `select`: one descriptor that wakes for frames and for what is due.

use super::context::{Context, call, list};
use super::{Fault, Outcome, PmContext};
use crate::error::Error;
use gigae::Endpoint;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// The endpoint's descriptor and a timer for what is to be repeated or acknowledged, behind one
/// descriptor: `pmBeforeSelect` has no way of telling a program for how long it may sleep.
pub(super) struct Alarm {
    both: OwnedFd,
    timer: OwnedFd,
}

impl Alarm {
    fn new(endpoint: &Endpoint) -> Outcome<Self> {
        let none = || Fault::new(Errno::IO, "this link has no descriptor");
        let frames = endpoint.fd().ok_or_else(none)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&both, frames, epoll::EventData::new_u64(0), readable)?;
        epoll::add(&both, &timer, epoll::EventData::new_u64(1), readable)?;
        Ok(Self { both, timer })
    }

    /// Wakes after this time, or not by itself.
    fn set(&self, after: Option<Duration>) -> Outcome<()> {
        // Zero would mean never.
        let after = after.map_or(Duration::ZERO, |after| after.max(Duration::from_nanos(1)));
        let seconds = i64::try_from(after.as_secs()).unwrap_or(i64::MAX);
        let value = Timespec { tv_sec: seconds, tv_nsec: after.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

impl Context {
    /// Acknowledges what has arrived and sets the alarm for what is due next.
    pub(super) fn arm(&mut self) -> Outcome<()> {
        self.retry();
        // Ended transfers wait to be asked for and are no reason to wake.
        self.reap()?;
        let after = self.state.endpoint().prepare_to_wait().map_err(Error::from)?;
        match &self.alarm {
            Some(alarm) => alarm.set(after),
            None => Ok(()),
        }
    }
}

/// Descriptors for `select` and `poll`. See the header, as for all that follow.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmGetFd(pmc: *mut PmContext, fd: *mut c_int, nfdp: *mut c_int) -> c_int {
    call(pmc, |context| {
        let alarm = match context.alarm.take() {
            Some(alarm) => alarm,
            None => Alarm::new(context.state.endpoint())?,
        };
        let alarm = context.alarm.insert(alarm);
        // SAFETY: the caller's promise.
        unsafe { list(&[alarm.both.as_raw_fd()], fd, nfdp) }
    })
}

/// Before `select`.
#[unsafe(no_mangle)]
pub extern "C" fn pmBeforeSelect(pmc: *mut PmContext) -> c_int {
    call(pmc, |context| {
        context.selecting = true;
        context.arm()
    })
}

/// After `select`.
#[unsafe(no_mangle)]
pub extern "C" fn pmAfterSelect(pmc: *mut PmContext) -> c_int {
    call(pmc, |context| {
        context.selecting = false;
        if let Some(alarm) = &context.alarm {
            alarm.set(None)?;
        }
        context.progress()
    })
}
