//! One descriptor that wakes for frames and for deadlines.

use super::{Fault, PmResult};
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

/// The endpoint's descriptor and a timer for repetitions and acknowledgements, combined in one
/// descriptor: `pmBeforeSelect` cannot tell a program how long it may sleep.
pub(super) struct Alarm {
    both: OwnedFd,
    timer: OwnedFd,
}

impl Alarm {
    pub(super) fn new(endpoint: &Endpoint) -> PmResult<Self> {
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
    pub(super) fn set(&self, after: Option<Duration>) -> PmResult<()> {
        // Zero would mean never.
        let after = after.map_or(Duration::ZERO, |after| after.max(Duration::from_nanos(1)));
        let seconds = i64::try_from(after.as_secs()).unwrap_or(i64::MAX);
        let value = Timespec { tv_sec: seconds, tv_nsec: after.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// What to sleep on.
    pub(super) fn fd(&self) -> c_int {
        self.both.as_raw_fd()
    }
}
